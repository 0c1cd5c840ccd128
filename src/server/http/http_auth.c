/* For proxies that ask whether a request may pass: Caddy, Traefik, nginx's auth_request.
 *
 *     /v1/auth/LIMIT[?key=...][&cost=...][&wait=...][&deny=403]      by any method
 *
 * 204 lets the request pass, 429 does not, nor does 503 (the store is away). nginx understands only 2xx, 401 and 403: deny=403 says
 * that instead. (Not 401: that would have to say how to log in, and to log in does not help.) Who
 * is asked about:
 *
 *   1. ?key=           what the proxy's own configuration makes of the request
 *   2. X-Weir-Key      the same, as a field
 *   3. X-Forwarded-For the last address of the last field, which is the one that the proxy before
 *                      us has seen itself; those before it are what its client claims
 *   4. X-Real-IP
 *   5. the address that the connection comes from
 *
 * Of 3 to 5 an IPv6 address is cut to its network (http_address.c); what is no address is taken as it is.
 *
 * Proxies pass on fields that their clients sent: one that does not set X-Weir-Key must clear it,
 * and one that sets X-Real-IP and not X-Forwarded-For must clear that.
 *
 * A proxy acts on the answer at once, so an answer whose turn comes later (a pacer's, or with
 * `wait`) is held back until it has come. Where that cannot be, the question is one like all
 * others, and is decided together with them.
 */
#include "server/http/http_front.h"

#include <string.h>

#include "algo/algo.h"

static struct weir__slice last_of(struct weir__slice list)
{
    const char *comma = list.len > 0 ? memrchr(list.at, ',', list.len) : NULL;

    if (comma)
        list = (struct weir__slice){comma + 1, list.len - (size_t)(comma + 1 - list.at)};
    return weir__slice_trim(list);
}

/* The address as a key, which lasts until the question is settled. */
static struct weir__slice client_of(const struct http_call *call, struct weir__slice address)
{
    static _Thread_local char keys[BATCH_MAX][HTTP_ADDRESS_MOST];
    static _Thread_local unsigned turn;
    const int prefix = server_options(conn_server(call->conn))->ipv6_prefix;
    char *key = keys[turn++ % BATCH_MAX];
    const size_t len = http_address_key(address, prefix, key);

    return len > 0 ? (struct weir__slice){key, len} : address;
}

static struct weir__slice http_auth_key(const struct http_call *call)
{
    struct weir__slice key = http_field_of(call->rq, "x-weir-key");

    if (key.at)
        return key;
    key = last_of(http_last_field_of(call->rq, "x-forwarded-for"));
    if (key.len == 0)
        key = http_last_field_of(call->rq, "x-real-ip");
    if (key.len == 0)
        key = weir__slice_of(conn_peer(call->conn));
    return client_of(call, key);
}

static void http_reply_auth(struct conn *c, const struct limit_op *q, int error,
                            const struct weir_verdict *v)
{
    if (error)
        http_fail_error(c, q->shape, error);
    else if (v->allowed)
        http_reply_verdict(c, q->shape, 204, q->limit, v);
    else
        http_reply_verdict(c, q->shape, q->shape & HTTP_DENY_403 ? 403 : http_denied(v), q->limit,
                           v);
}

/* Whether those who ask without a word of patience may be told to wait. */
static bool makes_wait(const struct weir_limit *l)
{
    for (int i = 0; i < l->n; i++)
        if (weir__term_patience(&l->term[i]) > 0)
            return true;
    return false;
}

static bool http_auth_read_op(const struct http_call *call, struct limit_op *q,
                              struct http_why *why)
{
    struct http_params ask = {.may =
                                  HTTP_MAY(KEY) | HTTP_MAY(COST) | HTTP_MAY(WAIT) | HTTP_MAY(DENY),
                              .use = LIMIT_BY_NAME,
                              .limit = call->rest};

    if (!http_params_query(&ask, call->rq->query, why))
        return false;
    if (!http_decode(&ask.limit, false))
        return http_because_of(why, 400, "", call->rest, " is not percent-encoded properly");
    if (!(ask.given & HTTP_MAY(KEY)))
        ask.key = http_auth_key(call);
    ask.given |= HTTP_MAY(LIMIT) | HTTP_MAY(KEY);
    if (!http_params_op(call->conn, &ask, q, why))
        return false;
    q->delayed = q->delayed || makes_wait(q->limit->parsed);
    q->reply = http_reply_auth;
    q->shape = call->shape;
    if (ask.given & HTTP_MAY(DENY) && ask.deny == 403)
        q->shape |= HTTP_DENY_403;
    return true;
}

void http_auth(const struct http_call *call)
{
    struct http_why why;
    struct limit_op q;

    if (http_auth_read_op(call, &q, &why))
        batch_add(call->conn, &q);
    else
        http_fail(call, &why);
}
