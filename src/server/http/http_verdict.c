/* Replies with a verdict, and the header fields that describe limits to clients.
 *
 *     RateLimit-Policy: "api";q=10;w=1
 *     RateLimit: "api";r=9;t=1
 *     X-RateLimit-Limit: 10
 *     X-RateLimit-Remaining: 9
 *     X-RateLimit-Reset: 1
 *     Retry-After: 1                      (if denied)
 *
 * The first two are those of draft-ietf-httpapi-ratelimit-headers-11. How its words map to ours:
 *
 *   q, w    COUNT and PERIOD of the limit, as its author wrote it. If more than COUNT may come at
 *           once (a burst), that much, and the time in which it accrues: so r never passes q. Whole
 *           seconds, rounded up: a client that keeps to q in w keeps to the limit.
 *   r       what is left, as in the verdict.
 *   t       the time in which the client may use no more than r. If denied, the time of
 *           Retry-After: the draft does not want a client to come back before t has passed, and
 *           there is no reason to come back later. If allowed, the time until all is restored: a
 *           bucket restores some of it earlier, but a client that spreads r over t is never
 *           refused.
 *   names   a limit of several terms is several policies, "api.1", "api.2". The verdict is one:
 *           that of the term that refused, otherwise of the term that lets the least through. Names
 *           of limits are letters, digits and _ . : -, so that no byte of a string needs to be
 *           escaped.
 *
 * X-RateLimit-* are what most clients know. There, too, times are seconds from now and rounded up.
 *
 * This path has to be fast: a reply is a series of small copies into the output.
 */
#include "server/http/http_front.h"

#include <string.h>

#include "base/num.h"

#define FIELDS_ROOM 384 /* for all fields except the policies */
#define POLICY_ROOM 64  /* for a policy without its name */

size_t http_verdict_room(const struct limit *l)
{
    return HTTP_HEAD_ROOM + FIELDS_ROOM + HTTP_VERDICT_JSON +
           ((size_t)l->parsed->n + 1) * (POLICY_ROOM + strlen(l->name));
}

/* ---- Policies -------------------------------------------------------------------------------- */

/* The name of a term's policy, as a string of structured fields. */
static char *put_name(char *at, const struct limit *l, size_t len, int term)
{
    *at++ = '"';
    at = http_put(at, l->name, len);
    if (l->parsed->n > 1) {
        *at++ = '.';
        at = http_put_int(at, term + 1);
    }
    *at++ = '"';
    return at;
}

/* The seconds in which `most` events accrue, rounded up. Fits: no limit takes longer than 2^62 ns
 * to refill. */
static int64_t window_s(const struct weir_term *t, int64_t most)
{
    int64_t product;

    if (most <= t->count)
        return wire_s(t->period_ns);
    if (!__builtin_mul_overflow(most, t->period_ns, &product))
        return wire_s(product / t->count + (product % t->count != 0));
    return wire_s(
        (int64_t)((weir__wide(most) * weir__wide(t->period_ns) + weir__wide(t->count) - 1) /
                  weir__wide(t->count)));
}

/* How many events of a term may come at once: for a single term the verdict says it, whatever the
 * algorithm. */
static int64_t at_once(const struct limit *l, const struct weir_term *t,
                       const struct weir_verdict *v)
{
    return l->parsed->n == 1 ? v->limit : t->burst;
}

static char *http_put_policies(char *at, const struct limit *l, size_t len,
                               const struct weir_verdict *v)
{
    at = http_put_text(at, "RateLimit-Policy: ");
    for (int i = 0; i < l->parsed->n; i++) {
        const struct weir_term *t = &l->parsed->term[i];
        const int64_t most = at_once(l, t, v);

        if (i > 0)
            *at++ = ',';
        at = put_name(at, l, len, i);
        at = http_put_text(at, ";q=");
        at = http_put_int(at, most > t->count ? most : t->count);
        at = http_put_text(at, ";w=");
        at = http_put_int(at, window_s(t, most));
    }
    return http_put_text(at, "\r\n");
}

/* Which of several terms the verdict is about. */
static int verdict_term(const struct limit *l, const struct weir_verdict *v)
{
    if (v->which >= 0 && v->which < l->parsed->n)
        return v->which;
    for (int i = 0; i < l->parsed->n; i++) {
        const struct weir_term *t = &l->parsed->term[i];

        if ((t->burst > 0 ? t->burst : t->count) == v->limit)
            return i;
    }
    return 0;
}

/* The time of t. A verdict of several terms knows when all of them have fully recovered; the term
 * it is about has recovered after its own window at the latest. */
static int64_t effective_s(const struct limit *l, int term, const struct weir_verdict *v)
{
    const struct weir_term *t = &l->parsed->term[term];

    if (!v->allowed && v->retry_after_ns >= 0)
        return wire_s(v->retry_after_ns);
    if (l->parsed->n == 1)
        return wire_s(v->reset_after_ns);
    return weir__min(wire_s(v->reset_after_ns), window_s(t, t->burst));
}

static char *put_service(char *at, const struct limit *l, size_t len, const struct weir_verdict *v)
{
    const int term = l->parsed->n > 1 ? verdict_term(l, v) : 0;

    at = http_put_text(at, "RateLimit: ");
    at = put_name(at, l, len, term);
    at = http_put_text(at, ";r=");
    at = http_put_int(at, v->remaining);
    at = http_put_text(at, ";t=");
    at = http_put_int(at, effective_s(l, term, v));
    return http_put_text(at, "\r\n");
}

char *http_put_limit_fields(char *at, const struct limit *l, const struct weir_verdict *v)
{
    const size_t len = strlen(l->name);

    at = http_put_policies(at, l, len, v);
    at = put_service(at, l, len, v);
    at = http_put_text(at, "X-RateLimit-Limit: ");
    at = http_put_int(at, v->limit);
    at = http_put_text(at, "\r\nX-RateLimit-Remaining: ");
    at = http_put_int(at, v->remaining);
    at = http_put_text(at, "\r\nX-RateLimit-Reset: ");
    at = http_put_int(at, wire_s(v->reset_after_ns));
    at = http_put_text(at, "\r\n");
    /* A cost that can never fit has no time to come back at. */
    if (!v->allowed && v->retry_after_ns >= 0) {
        at = http_put_text(at, "Retry-After: ");
        at = http_put_int(at, weir__max(1, wire_s(v->retry_after_ns)));
        at = http_put_text(at, "\r\n");
    }
    return at;
}

/* ---- The verdict ----------------------------------------------------------------------------- */

char *http_put_verdict(char *at, const struct weir_verdict *v)
{
    if (v->allowed && v->reason == WEIR_OK) {
        at = http_put_text(at, "{\"allowed\":true,\"reason\":\"OK\",\"limit\":");
    } else {
        const char *reason = weir_reason_name(v->reason);

        at = http_put_text(at, v->allowed ? "{\"allowed\":true,\"reason\":\""
                                          : "{\"allowed\":false,\"reason\":\"");
        at = http_put(at, reason, strlen(reason));
        at = http_put_text(at, "\",\"limit\":");
    }
    at = http_put_int(at, v->limit);
    at = http_put_text(at, ",\"remaining\":");
    at = http_put_int(at, v->remaining);
    at = http_put_text(at, ",\"retry_after_ms\":");
    at = http_put_int(at, wire_ms(v->retry_after_ns));
    at = http_put_text(at, ",\"reset_after_ms\":");
    at = http_put_int(at, wire_ms(v->reset_after_ns));
    at = http_put_text(at, ",\"wait_ms\":");
    at = http_put_int(at, wire_ms(v->wait_ns));
    if (v->overflow)
        at = http_put_text(at, ",\"overflow\":true");
    *at++ = '}';
    return at;
}

void http_reply_verdict(struct conn *c, uint32_t shape, int status, const struct limit *l,
                        const struct weir_verdict *v)
{
    char body[HTTP_VERDICT_JSON], *end = http_put_verdict(body, v);
    char *at = out_room(c, http_verdict_room(l));

    *end++ = '\n';
    at = http_put_head(at, shape, status);
    at = http_put_limit_fields(at, l, v);
    if (status != 204) {
        at = http_put_text(at, "Content-Type: application/json\r\nContent-Length: ");
        at = http_put_int(at, end - body);
        at = http_put_text(at, "\r\n");
    }
    at = http_put_text(at, "\r\n");
    if (status != 204 && !(shape & HTTP_NO_BODY))
        at = http_put(at, body, (size_t)(end - body));
    out_done(c, at);
}
