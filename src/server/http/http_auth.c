/* /v1/auth: for proxies that ask whether a request may pass (Caddy, Traefik, nginx's auth_request).
 *
 *     /v1/auth/LIMIT[?key=...][&cost=...][&wait=...][&deny=403]      by any method
 *
 * 204 lets the request pass; 429 does not, nor does 503 (the store is down). nginx understands only
 * 2xx, 401 and 403: with deny=403 a refusal is 403. (Not 401: that would have to say how to log in,
 * and logging in does not help.) The key is the first of these:
 *
 *   1. ?key=           what the proxy's own configuration makes of the request
 *   2. X-Weir-Key      the same, as a header field
 *   3. X-Forwarded-For the last address of the last field, which the proxy before us has seen
 *                      itself; those before it are what its client claims
 *   4. X-Real-IP
 *   5. the address that the connection comes from
 *
 * In 3 to 5 an IPv6 address is cut to its network (http_address.c); text that is not an address is
 * taken as it is.
 *
 * Proxies pass on the fields that their clients sent: a proxy that does not set X-Weir-Key must
 * clear it, and one that sets X-Real-IP but not X-Forwarded-For must clear the latter.
 *
 * A proxy acts on the reply at once, so a reply whose turn comes later (a pacer's, or with `wait`)
 * is delayed until then. A limit that never makes its callers wait is decided in the batch,
 * together with all others.
 */
#include "server/http/http_front.h"

#include <string.h>

#include "engine/embed.h"

static struct weir__slice last_of(struct weir__slice list)
{
    const char *comma = list.len > 0 ? memrchr(list.at, ',', list.len) : NULL;

    if (comma)
        list = (struct weir__slice){comma + 1, list.len - (size_t)(comma + 1 - list.at)};
    return weir__slice_trim(list);
}

/* The address as a key, which lasts until the batch is flushed. */
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

static void http_reply_auth(struct conn *c, const struct limit_op *op, int error,
                            const struct weir_verdict *v)
{
    if (error)
        http_fail_error(c, op->shape, error);
    else if (v->allowed)
        http_reply_verdict(c, op->shape, 204, op->limit, v);
    else
        http_reply_verdict(c, op->shape, op->shape & HTTP_DENY_403 ? 403 : http_denied(v),
                           op->limit, v);
}

/* True if the limit may make callers wait that name no patience. */
static bool makes_wait(const struct weir_limit *l)
{
    for (int i = 0; i < l->n; i++)
        if (weir__engine_term_patience(&l->term[i]) > 0)
            return true;
    return false;
}

static bool http_auth_read_op(const struct http_call *call, struct limit_op *op,
                              struct http_why *why)
{
    struct http_params params = {.may = HTTP_MAY(KEY) | HTTP_MAY(COST) | HTTP_MAY(WAIT) |
                                        HTTP_MAY(DENY),
                                 .use = LIMIT_BY_NAME,
                                 .limit = call->rest};

    if (!http_params_query(&params, call->rq->query, why))
        return false;
    if (!http_decode(&params.limit, false))
        return http_because_of(why, 400, "invalid percent-encoding in ", call->rest, "");
    if (!(params.given & HTTP_MAY(KEY)))
        params.key = http_auth_key(call);
    params.given |= HTTP_MAY(LIMIT) | HTTP_MAY(KEY);
    if (!http_params_op(call->conn, &params, op, why))
        return false;
    op->delayed = op->delayed || makes_wait(op->limit->parsed);
    op->reply = http_reply_auth;
    op->shape = call->shape;
    if (params.given & HTTP_MAY(DENY) && params.deny == 403)
        op->shape |= HTTP_DENY_403;
    return true;
}

void http_auth(const struct http_call *call)
{
    struct http_why why;
    struct limit_op op;

    if (http_auth_read_op(call, &op, &why))
        batch_add(call->conn, &op);
    else
        http_fail(call, &why);
}
