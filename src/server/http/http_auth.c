/* /v1/auth: for proxies that ask whether a request may pass (Caddy, Traefik, nginx's auth_request).
 *
 *     /v1/auth/LIMIT[?key=...][&cost=...][&wait=...][&deny=403]      by any method
 *
 * 204 lets the request pass; 429 does not, nor does 503 (the store is down). nginx understands only
 * 2xx, 401 and 403: with deny=403 a refusal is 403. (Not 401: that would have to say how to log in,
 * and logging in does not help.) The key is ?key=, which the proxy's own configuration makes of the
 * request, or the client that its header fields name (http_client.c).
 *
 *     /v1/ext-authz/LIMIT/...                                        by any method
 *
 * is for Envoy's ext_authz filter, which puts the path and the query of its client behind a prefix
 * and lets pass what is answered with 200. Everything behind LIMIT is the client's: it is ignored,
 * so that no client can add parameters.
 *
 * A proxy acts on the reply at once, so a reply whose turn comes later (a pacer's, or with `wait`)
 * is delayed until then. A limit that never makes its callers wait is decided in the batch,
 * together with all others.
 */
#include "server/http/http_front.h"

#include "engine/embed.h"

static void http_reply_auth(struct conn *c, const struct limit_op *op, int error,
                            const struct weir_verdict *v)
{
    if (error)
        http_fail_error(c, op->shape, error);
    else if (v->allowed)
        http_reply_verdict(c, op, op->shape & HTTP_ALLOW_200 ? 200 : 204, v);
    else
        http_reply_verdict(c, op, op->shape & HTTP_DENY_403 ? 403 : http_denied(v), v);
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
    struct http_params params = {.may = HTTP_MAY(COST) | HTTP_MAY(WAIT) | HTTP_MAY(DENY),
                                 .use = LIMIT_BY_NAME,
                                 .limit = call->rest};

    /* With --client-header nothing else names a client: some proxies pass a client's query on. */
    if (!server_options(conn_server(call->conn))->client_header[0])
        params.may |= HTTP_MAY(KEY);
    if (call->shape & HTTP_ALLOW_200)
        params.limit = weir__slice_cut(&params.limit, '/');
    else if (!http_params_query(&params, call->rq->query, why))
        return false;
    if (!http_decode(&params.limit, false))
        return http_because_of(why, 400, "invalid percent-encoding in ", call->rest, "");
    if (!(params.given & HTTP_MAY(KEY)))
        params.key = http_client_key(call);
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

void http_ext_authz(const struct http_call *call)
{
    struct http_call envoys = *call;

    envoys.shape |= HTTP_ALLOW_200;
    http_auth(&envoys);
}
