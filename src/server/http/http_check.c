/* Requests that the rules decide.
 *
 *     POST /v1/check   {"path": "/x", "method": "GET", "ip": "192.0.2.7", "header.x-api-key": "k",
 *                       "tenant": "acme", "cost": 2}, or the same as a form
 *     /v1/auth[?cost=...][&deny=403]      by any method, for proxies
 *
 * A proxy says in header fields what its client asks for. They count only from whom the operator
 * trusts (http_client.c):
 *
 *   method   X-Forwarded-Method, X-Original-Method
 *   path     X-Forwarded-Uri, X-Original-URI, X-Original-URL
 *   host     X-Forwarded-Host, or that of a whole URL in one of the above
 *   ip       the client, as for /v1/auth/LIMIT
 *   header.* the fields of the request: proxies pass on those of their clients
 *
 * A proxy sets one of these fields and passes on what its client has sent in the others. So fields
 * for the same thing must agree; if they do not, one of them is a client's claim, and the request
 * is refused. A request whose path is not known is refused too: no rule about a path would match
 * it, and a mistake in a proxy's configuration would open every door.
 */
#include <assert.h>
#include <jansson.h>
#include <string.h>

#include "server/check.h"
#include "server/http/http_front.h"

/* ---- Replies --------------------------------------------------------------------------------- */

static_assert((RULES_APPLIED + 1) * (6 * RULES_NAME_MOST + 3) + 32 <= HTTP_MORE_ROOM,
              "the names of all rules, escaped, and of the one that refused");

static char *put_rules(char *at, const struct limit_op *op, const struct weir_verdict *v)
{
    const struct weir__slice rule = check_rule_of(op, v);
    struct weir__slice rules = op->name, name, before = {NULL, 0};
    const char *comma = "";

    at = http_put_text(at, ",\"rule\":");
    at = rule.at ? http_put_json(at, rule) : http_put_text(at, "null");
    at = http_put_text(at, ",\"rules\":[");
    while (check_next_rule(&rules, &name)) {
        if (before.at && weir__slice_equal(before, name))
            continue; /* a rule of several limits */
        at = http_put(at, comma, strlen(comma));
        at = http_put_json(at, name);
        comma = ",";
        before = name;
    }
    return http_put_text(at, "]");
}

/* A limit that clients have changed since the file was read may not fit with the others. */
static bool check_failed(struct conn *c, const struct limit_op *op, int error)
{
    const struct http_call call = {.conn = c, .shape = op->shape};
    struct http_why why;

    if (error == WEIR_EINVAL || error == WEIR_ESTORE) {
        (void)http_because(&why, 503,
                           "the limits of the rules have more than 16 terms, or are in different "
                           "stores: one was changed while the daemon runs");
        http_fail(&call, &why);
    } else if (error) {
        http_fail_error(c, op->shape, error);
    }
    return error != 0;
}

static void http_reply_check(struct conn *c, const struct limit_op *op, int error,
                             const struct weir_verdict *v)
{
    if (!check_failed(c, op, error))
        http_reply_verdict_of_all(c, op, v->allowed ? 200 : http_refused(v), v, put_rules);
}

static void http_reply_auth_rules(struct conn *c, const struct limit_op *op, int error,
                                  const struct weir_verdict *v)
{
    if (!check_failed(c, op, error))
        http_reply_verdict_of_all(c, op,
                                  v->allowed                  ? 204
                                  : op->shape & HTTP_DENY_403 ? 403
                                                              : http_denied(v),
                                  v, put_rules);
}

/* ---- /v1/check ------------------------------------------------------------------------------- */

struct http_checking {
    struct check check;
    size_t fields;
    bool has_cost;
};

static bool http_because_check(struct http_why *why, const struct check_why *from)
{
    return http_because(why, from->status, from->text);
}

static bool check_read_cost(struct http_checking *k, struct weir__slice value, struct http_why *why)
{
    if (k->has_cost)
        return http_because(why, 400, "'cost' is given twice");
    k->has_cost = true;
    return weir__parse_int(value, &k->check.cost) == WEIR__NUMBER_OK ||
           http_because_of(why, 400, "'cost' is ", value, ": expected a whole number, 0 or more");
}

static bool check_read_member(void *arg, struct weir__slice name, struct weir__slice value,
                              struct http_why *why)
{
    struct http_checking *k = arg;
    struct check_why because;

    if (weir__slice_is(name, "cost"))
        return check_read_cost(k, value, why);
    if (++k->fields > CHECK_FIELDS)
        return http_because(why, 400, "more than 128 fields");
    return check_set(&k->check, name, value, &because) || http_because_check(why, &because);
}

static bool check_read_form(struct http_checking *k, struct weir__slice form, struct http_why *why)
{
    struct http_param p;
    int read;

    while ((read = http_param_next(&form, &p)) > 0)
        if (!check_read_member(k, p.name, p.value, why))
            return false;
    return read == 0 || http_because_of(why, 400, "invalid percent-encoding in ", p.name, "");
}

static bool check_read(const struct http_call *call, struct http_checking *k, struct http_why *why)
{
    const bool is_form = http_has_form(call->rq);
    json_t *json = NULL;

    if (!check_read_form(k, call->rq->query, why))
        return false;
    if (call->rq->body.len == 0)
        return true;
    if (is_form)
        return check_read_form(k, call->rq->body, why);
    return http_json_read(call->rq->body, &json, why) &&
           http_json_each(json, check_read_member, k, why);
}

static void check_decide(const struct http_call *call, struct check *k, op_reply *reply,
                         uint32_t shape)
{
    struct check_why because;
    struct http_why why;

    k->reply = reply;
    k->shape = shape;
    if (check_run(k, &because))
        return;
    (void)http_because_check(&why, &because);
    http_fail(call, &why);
}

void http_check(const struct http_call *call)
{
    struct http_checking k = {0};
    struct check_why because;
    struct http_why why;

    if (!check_begin(call->conn, &k.check, &because)) {
        (void)http_because_check(&why, &because);
        http_fail(call, &why);
    } else if (!check_read(call, &k, &why)) {
        http_fail(call, &why);
    } else {
        check_decide(call, &k.check, http_reply_check, call->shape);
    }
    http_json_forget();
}

/* ---- /v1/auth -------------------------------------------------------------------------------- */

/* What all fields of these names say; they must agree. NULL ends the list. */
static bool auth_field(const struct http_call *call, const char *const *names,
                       struct weir__slice *value, struct http_why *why)
{
    const struct http_request *rq = call->rq;

    *value = (struct weir__slice){NULL, 0};
    for (; *names; names++)
        for (size_t i = 0; i < rq->fields; i++) {
            if (!http_is(rq->field[i].name, *names) || rq->field[i].value.len == 0)
                continue;
            if (value->at && !weir__slice_equal(*value, rq->field[i].value))
                return http_because_of(why, 400, "header fields disagree: ", rq->field[i].name,
                                       " is not what another one says, and a proxy must clear "
                                       "those that it does not set");
            *value = rq->field[i].value;
        }
    return true;
}

static bool auth_set(struct check *k, const char *name, struct weir__slice value,
                     struct http_why *why)
{
    struct check_why because;

    return check_set(k, weir__slice_of(name), value, &because) || http_because_check(why, &because);
}

/* A whole URL has the host too: then it must be the same. */
static bool auth_read_place(const struct http_call *call, struct check *k, struct http_why *why)
{
    static const char *const URIS[] = {"x-forwarded-uri", "x-original-uri", NULL};
    static const char *const URLS[] = {"x-original-url", NULL};
    static const char *const HOSTS[] = {"x-forwarded-host", NULL};
    struct weir__slice uri, url, host;

    if (!auth_field(call, URIS, &uri, why) || !auth_field(call, URLS, &url, why) ||
        !auth_field(call, HOSTS, &host, why))
        return false;
    if (uri.at && url.at) {
        const struct weir__slice of = rules_url_host(url);
        const size_t begin = of.at ? (size_t)(of.at + of.len - url.at) : 0;

        if (!weir__slice_equal(uri, (struct weir__slice){url.at + begin, url.len - begin}))
            return http_because(why, 400,
                                "header fields disagree: X-Original-URL is not what another one "
                                "says, and a proxy must clear those that it does not set");
    }
    uri = uri.at ? uri : url;
    if (!uri.at)
        return http_because(why, 400,
                            "the path is not known: expected X-Forwarded-Uri, X-Original-URI or "
                            "X-Original-URL from a proxy that is trusted (--trust)");
    if (!host.at)
        host = rules_url_host(url);
    return auth_set(k, "path", uri, why) && auth_set(k, "host", host, why);
}

static bool auth_read(const struct http_call *call, struct check *k, struct http_why *why)
{
    static const char *const METHODS[] = {"x-forwarded-method", "x-original-method", NULL};
    const struct http_request *rq = call->rq;
    struct check_why because;
    struct weir__slice method, client;
    struct address ip;

    if (!http_peer_is_trusted(call))
        return http_because(why, 400,
                            "rules decide for proxies that are trusted: name this one with "
                            "--trust");
    if (!auth_field(call, METHODS, &method, why) || !auth_set(k, "method", method, why) ||
        !auth_read_place(call, k, why))
        return false;
    client = http_client_behind(call);
    if (address_read(client.at ? client : weir__slice_of(conn_peer(call->conn)), &ip))
        (void)rules_request_address(&k->request, &ip);
    for (size_t i = 0; i < rq->fields; i++)
        if (!check_was_set(rules_request_header(&k->request, rq->field[i].name, rq->field[i].value),
                           rq->field[i].name, &because))
            return http_because_check(why, &because);
    return true;
}

void http_auth_rules(const struct http_call *call)
{
    struct http_params params = {.may = HTTP_MAY(COST) | HTTP_MAY(DENY)};
    struct check_why because;
    struct http_why why;
    struct check k;

    if (!check_begin(call->conn, &k, &because)) {
        (void)http_because_check(&why, &because);
        http_fail(call, &why);
    } else if (!http_params_query(&params, call->rq->query, &why) || !auth_read(call, &k, &why)) {
        http_fail(call, &why);
    } else {
        k.cost = params.given & HTTP_MAY(COST) ? params.cost : 1;
        k.patience_ns = 0; /* a proxy acts on the reply at once */
        check_decide(call, &k, http_reply_auth_rules,
                     call->shape |
                         (params.given & HTTP_MAY(DENY) && params.deny == 403 ? HTTP_DENY_403 : 0));
    }
}
