/* The header fields that describe limits to clients.
 *
 *     RateLimit-Policy: "api.1";q=10;w=1,"api.2";q=1000;w=86400
 *     RateLimit: "api.1";r=9;t=1,"api.2";r=0;t=3600;weir-refused
 *     X-RateLimit-Limit: 1000
 *     X-RateLimit-Remaining: 0
 *     X-RateLimit-Reset: 3600
 *     Retry-After: 3600                   (if refused, and waiting helps)
 *
 * The first two are those of draft-ietf-httpapi-ratelimit-headers-11. How its words map to ours:
 *
 *   q, w    COUNT and PERIOD of the limit, as its author wrote it. If more than COUNT may come at
 *           once (a burst), that much, and the time in which it accrues: so r never passes q. A
 *           window is whole seconds, rounded up: a client that keeps to q in w keeps to the limit.
 *           One of less than a second becomes a second with as much more in it, if that is a whole
 *           number; else w is left out.
 *   r       what is left of that term.
 *   t       the time in which the client may use no more than r: until r grows. (Not until all is
 *           restored: a client that obeys would wait for minutes where seconds do.) Left out if r
 *           does not grow: nothing was used, or the limit grants nothing. It never ends after
 *           Retry-After, as the draft wants.
 *   names   a limit of several terms is several policies, "api.1", "api.2". The one that refused
 *           has the parameter weir-refused, which the draft allows as a comment.
 *
 * A shadow refuses nothing, and neither does `unlimited`, so no client should keep to them: they
 * are in no field. A key on a list of the limit, which decides without its terms, has none.
 *
 * The other fields have one number for each, so they are about one term: the one that refused,
 * otherwise the one that lets the least through. Which fields are sent is for the operator to say
 * (--headers). Times are seconds, rounded up.
 *
 * What each term has left is asked of the engine, unless the verdict says it (term_views.c). A
 * limit of several terms in a Redis would have to be asked again, so there RateLimit has one item:
 * that of the term that X-RateLimit is about. The same holds for several limits that the rules
 * apply to one request; all of their policies are listed.
 */
#include "server/http/http_front.h"

#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "base/num.h"

#define FIELDS_ROOM 768 /* for all fields except the policies */
#define POLICY_ROOM 192 /* for a policy without its names, in all fields */

size_t http_fields_room(const struct http_terms *terms)
{
    size_t room = FIELDS_ROOM;

    for (int i = 0; i < terms->n; i++)
        room += POLICY_ROOM + 2 * strlen(terms->of[i].limit->name);
    return room;
}

/* ---- Which terms ----------------------------------------------------------------------------- */

/* Adds those of one limit; the verdict is NULL if it is about others too. */
static void terms_add(struct conn *c, struct http_terms *terms, const struct limit_op *op,
                      const struct weir_verdict *v)
{
    struct weir__term_view view[WEIR_TERMS_MAX];
    const int n = op->limit->parsed->n;

    /* Another process that shares the file may have changed a limit since. */
    if (terms->n + n > WEIR_TERMS_MAX) {
        terms->known = false;
        return;
    }
    terms->guarded = terms->guarded || limit_has_guard(op->limit->parsed);
    terms->known = terms->known && !terms->guarded && limit_views(c, op, v, view);
    for (int i = 0; i < n; i++) {
        struct http_term *t = &terms->of[terms->n++];

        *t = (struct http_term){
            .limit = op->limit, .numbers = op->numbers, .index = i, .cost = op->cost};
        if (terms->known)
            t->view = view[i];
    }
}

void http_terms_of(struct conn *c, const struct limit_op *op, const struct weir_verdict *v,
                   struct http_terms *terms)
{
    const bool refused = !v->allowed && v->which >= 0;
    const struct op_all *all = op->all;

    terms->n = 0;
    terms->refuser = refused && !all ? v->term : -1;
    terms->known = true;
    terms->guarded = false;
    if (v->reason == WEIR_LISTED) /* no term was asked */
        return;
    if (!all && op->limit)
        terms_add(c, terms, op, v);
    for (size_t i = 0; all && i < all->n; i++) {
        const struct weir_request *rq = &all->rq[i];
        const struct limit_op one = {
            .limit = all->limit[i], .key = {rq->key, rq->key_len}, .cost = rq->cost};

        if (refused && (size_t)v->which == i)
            terms->refuser = terms->n + v->term;
        terms_add(c, terms, &one, NULL);
    }
}

/* ---- Policies -------------------------------------------------------------------------------- */

/* Programs that share a file may have set names of any bytes there. */
char *http_put_policy_name(char *at, const struct http_term *t)
{
    *at++ = '"';
    for (const char *c = t->limit->name; *c; c++)
        *at++ = (char)(*c < ' ' || *c > '~' || *c == '"' || *c == '\\' ? '_' : *c);
    if (t->limit->parsed->n > 1) {
        *at++ = '.';
        at = http_put_int(at, t->index + 1);
    }
    *at++ = '"';
    return at;
}

struct policy {
    int64_t quota, window_s; /* window_s 0: it has none that can be said */
};

/* The time in which `most` events accrue. Fits: no limit takes longer than 2^62 ns to refill. */
static int64_t window_ns(const struct weir_term *t, int64_t most)
{
    if (most <= t->count)
        return t->period_ns;
    return (int64_t)((weir__wide(most) * weir__wide(t->period_ns) + weir__wide(t->count) - 1) /
                     weir__wide(t->count));
}

static struct policy policy_of(const struct weir_term *t, int64_t most)
{
    const int64_t quota = weir__max(most, t->count);
    int64_t ns, in_second;

    if (t->count <= 0 || t->period_ns <= 0)
        return (struct policy){weir__max(quota, 0), 0};
    ns = window_ns(t, most);
    if (ns >= WEIR__NS_PER_S)
        return (struct policy){quota, wire_s(ns)};
    if (__builtin_mul_overflow(t->count, WEIR__NS_PER_S, &in_second) ||
        in_second % t->period_ns != 0)
        return (struct policy){quota, 0};
    return (struct policy){in_second / t->period_ns, 1};
}

/* A term that refuses nothing. */
static bool is_untold(const struct http_term *t)
{
    return http_term_parsed(t)->shadow || http_term_parsed(t)->algorithm == WEIR_UNLIMITED;
}

/* By how many events of the term may come at once. */
static struct policy policy_of_term(const struct http_terms *terms, int i)
{
    const struct weir_term *t = http_term_parsed(&terms->of[i]);

    return policy_of(t, terms->known ? terms->of[i].view.limit : t->burst);
}

static char *put_policies(char *at, const struct http_terms *terms)
{
    const char *before = "RateLimit-Policy: ";

    for (int i = 0; i < terms->n; i++) {
        const struct policy p = policy_of_term(terms, i);

        if (is_untold(&terms->of[i]))
            continue;
        at = http_put(at, before, strlen(before));
        at = http_put_policy_name(at, &terms->of[i]);
        at = http_put_text(at, ";q=");
        at = http_put_int(at, p.quota);
        if (p.window_s > 0) {
            at = http_put_text(at, ";w=");
            at = http_put_int(at, p.window_s);
        }
        before = ",";
    }
    return http_put_text(at, "\r\n");
}

/* ---- What is left ---------------------------------------------------------------------------- */

/* The term that fields with one number are about; -1: there is none. */
static int strictest(const struct http_terms *terms, const struct weir_verdict *v)
{
    int found = -1;

    for (int i = 0; i < terms->n; i++) {
        const struct http_term *t = &terms->of[i];
        const struct weir_term *p = http_term_parsed(t);

        if (is_untold(t))
            continue;
        if (i == terms->refuser)
            return i;
        if (found < 0 || (terms->known ? t->view.remaining < terms->of[found].view.remaining
                                       : (p->burst > 0 ? p->burst : p->count) == v->limit))
            found = i;
    }
    return found;
}

/* What a verdict of several terms, that were not asked, says of one of them. It knows when all of
 * them have fully recovered; each has after its own window at the latest. */
static struct weir__term_view view_of_verdict(const struct weir_term *t,
                                              const struct weir_verdict *v)
{
    struct weir__term_view view = {v->limit, v->remaining, -1, v->reset_after_ns};

    if (t->count > 0)
        view.reset_after_ns = weir__min(view.reset_after_ns, window_ns(t, t->burst));
    if (!v->allowed)
        view.more_after_ns = v->retry_after_ns;
    else if (v->remaining < v->limit)
        view.more_after_ns = view.reset_after_ns;
    return view;
}

static char *put_service_item(char *at, const struct http_terms *terms, int i,
                              const struct weir__term_view *view)
{
    at = http_put_policy_name(at, &terms->of[i]);
    at = http_put_text(at, ";r=");
    at = http_put_int(at, view->remaining);
    if (view->more_after_ns >= 0) {
        at = http_put_text(at, ";t=");
        at = http_put_int(at, wire_s(view->more_after_ns));
    }
    return i == terms->refuser ? http_put_text(at, ";weir-refused") : at;
}

static char *put_service(char *at, const struct http_terms *terms, int one,
                         const struct weir__term_view *about)
{
    const char *before = "RateLimit: ";

    if (!terms->known) {
        at = http_put_text(at, "RateLimit: ");
        return http_put_text(put_service_item(at, terms, one, about), "\r\n");
    }
    for (int i = 0; i < terms->n; i++) {
        if (is_untold(&terms->of[i]))
            continue;
        at = http_put(at, before, strlen(before));
        at = put_service_item(at, terms, i, &terms->of[i].view);
        before = ",";
    }
    return http_put_text(at, "\r\n");
}

/* ---- Older flavours -------------------------------------------------------------------------- */

/* The time of day at which that much time has passed: by the wall clock, as clients compare it with
 * their own; under a manual clock, by that. */
static int64_t epoch_s(struct conn *c, int64_t after_ns)
{
    struct timespec now;

    if (server_options(conn_server(c))->manual_clock)
        return wire_s(weir__add_sat(server_now(conn_server(c)), after_ns));
    (void)clock_gettime(CLOCK_REALTIME, &now);
    return wire_s(weir__add_sat(now.tv_sec * WEIR__NS_PER_S + now.tv_nsec, after_ns));
}

static char *put_three(char *at, const char *prefix, const struct weir__term_view *view,
                       int64_t reset_s)
{
    const size_t len = strlen(prefix);

    at = http_put_text(http_put(at, prefix, len), "Limit: ");
    at = http_put_text(http_put_int(at, view->limit), "\r\n");
    at = http_put_text(http_put(at, prefix, len), "Remaining: ");
    at = http_put_text(http_put_int(at, view->remaining), "\r\n");
    at = http_put_text(http_put(at, prefix, len), "Reset: ");
    return http_put_text(http_put_int(at, reset_s), "\r\n");
}

/* "RateLimit-Policy: 10;w=1,1000;w=86400", as of drafts 3 to 6. */
static char *put_old_policies(char *at, const struct http_terms *terms)
{
    const char *before = "RateLimit-Policy: ";

    for (int i = 0; i < terms->n; i++) {
        const struct policy p = policy_of_term(terms, i);

        if (is_untold(&terms->of[i]))
            continue;
        at = http_put(at, before, strlen(before));
        at = http_put_int(at, p.quota);
        if (p.window_s > 0)
            at = http_put_int(http_put_text(at, ";w="), p.window_s);
        before = ",";
    }
    return http_put_text(at, "\r\n");
}

/* ---- Retry-After ----------------------------------------------------------------------------- */

/* Evenly from 0 to `most`; not secret. */
static int64_t up_to(int64_t most)
{
    static _Thread_local uint64_t state;

    while (state == 0)
        if (getrandom(&state, sizeof state, GRND_NONBLOCK) != sizeof state)
            state = (uint64_t)clock() | 1;
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (int64_t)(state % ((uint64_t)most + 1));
}

/* Never 0, never too early. The jitter is whole seconds too: it spreads clients that would all
 * come back in the same second. */
static char *put_retry(char *at, const struct serve_options *o, int64_t retry_ns)
{
    const int64_t exact_s = weir__max(1, wire_s(retry_ns));
    const int64_t spread_s = (int64_t)(weir__wide(exact_s) * weir__wide(o->retry_jitter) / 100);

    at = http_put_text(at, "Retry-After: ");
    at = http_put_int(at, spread_s > 0 ? exact_s + up_to(spread_s) : exact_s);
    return http_put_text(at, "\r\n");
}

/* ---- All of them ----------------------------------------------------------------------------- */

/* The fields that have one number for each. */
static char *put_numbers(char *at, struct conn *c, unsigned send,
                         const struct weir__term_view *about)
{
    const int64_t reset_s = wire_s(about->reset_after_ns);
    const int64_t x_reset = send & HEADERS_EPOCH && send & (HEADERS_X | HEADERS_X_RATE)
                                ? epoch_s(c, about->reset_after_ns)
                                : reset_s;

    if (send & HEADERS_DRAFT_6)
        at = put_three(at, "RateLimit-", about, reset_s);
    if (send & HEADERS_X)
        at = put_three(at, "X-RateLimit-", about, x_reset);
    if (send & HEADERS_X_RATE)
        at = put_three(at, "X-Rate-Limit-", about, x_reset);
    return at;
}

char *http_put_fields(char *at, struct conn *c, const struct weir_verdict *v,
                      const struct http_terms *terms)
{
    const struct serve_options *o = server_options(conn_server(c));
    const unsigned send = o->headers & HEADERS_FLAVOURS ? o->headers : o->headers | HEADERS_USUAL;
    const int one = terms->guarded ? -1 : strictest(terms, v);
    const int64_t least_ns = terms->guarded ? 1 : 0;

    if (one >= 0) {
        const struct http_term *t = &terms->of[one];
        const struct weir__term_view about =
            terms->known ? t->view : view_of_verdict(http_term_parsed(t), v);

        if (send & HEADERS_DRAFT)
            at = put_policies(at, terms);
        else if (send & HEADERS_DRAFT_6)
            at = put_old_policies(at, terms);
        if (send & HEADERS_DRAFT)
            at = put_service(at, terms, one, &about);
        at = put_numbers(at, c, send, &about);
    }
    /* A cost that can never fit has no time to come back at, and a guard may not know it. */
    return !v->allowed && v->retry_after_ns >= least_ns ? put_retry(at, o, v->retry_after_ns) : at;
}
