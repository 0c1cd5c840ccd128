/* Take, peek, charge, refund and reset: one operation, from the query, the body (a JSON object or a
 * form), or both.
 *
 * `curl -d` says that every body is a form, also if it is JSON. So a body that begins as JSON does
 * is JSON, whatever its type: no form begins so.
 */
#include "server/account/account.h"
#include "server/http/http_front.h"

#include <jansson.h>
#include <string.h>

#define TAKES                                                                                 \
    (HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST) | HTTP_MAY(WAIT) | HTTP_MAY(PATIENCE) | \
     HTTP_MAY(NUMBERS))

bool http_has_form(const struct http_request *rq)
{
    const struct weir__slice body = weir__slice_trim(rq->body);
    struct weir__slice type = http_field_of(rq, "content-type");

    type = weir__slice_trim(weir__slice_cut(&type, ';'));
    return body.len > 0 && body.at[0] != '{' && body.at[0] != '[' &&
           http_is(type, "application/x-www-form-urlencoded");
}

/* The limit and the key of the reservation that the id names. */
static bool http_params_of_id(struct http_params *params, struct account_id *id,
                              struct http_why *why)
{
    if (!(params->given & HTTP_MAY(ID)))
        return http_because(why, 400,
                            "'id' is missing: expected one that /v1/reserve has returned");
    if (!account_id_read(id, params->id))
        return http_because_of(why, 400, "'id' is ", params->id,
                               ": expected one that /v1/reserve has returned");
    params->limit = id->limit;
    params->key = id->key;
    params->given |= HTTP_MAY(LIMIT) | HTTP_MAY(KEY);
    return true;
}

/* Reads the operation from query and body: false and *why if it cannot. Its key may belong to the
 * JSON. */
static bool http_take_read_op(const struct http_call *call, const struct http_verb *verb,
                              struct http_params *params, struct account_id *id,
                              struct weir__slice form, const json_t *json, struct limit_op *op,
                              struct http_why *why)
{
    if (!http_params_query(params, call->rq->query, why) || !http_params_query(params, form, why) ||
        (json && !http_params_json(params, json, why)) ||
        (verb->may & HTTP_MAY(ID) && !http_params_of_id(params, id, why)))
        return false;
    if (verb->verb == OP_RESERVE)
        http_key_of_proxy(call, params);
    if (!http_params_op(call->conn, params, op, why))
        return false;
    op->shape = call->shape;
    if (verb->complete && !verb->complete(op, params, why))
        return false;
    if (verb->may & HTTP_MAY(ID))
        op->id = id->number;
    return true;
}

/* Only a POST has a body: what comes with a GET is ignored. */
void http_run_op(const struct http_call *call, const struct http_verb *verb)
{
    const bool has_body = call->rq->method == HTTP_POST_ && call->rq->body.len > 0;
    const bool is_form = has_body && http_has_form(call->rq);
    const struct weir__slice form = is_form ? call->rq->body : (struct weir__slice){NULL, 0};
    struct http_params params = {.may = verb->may, .use = verb->use};
    struct account_id id = {.text = NULL};
    struct http_why why;
    struct limit_op op;
    json_t *json = NULL;

    if (has_body && !is_form && !http_json_read(call->rq->body, &json, &why)) {
        http_fail(call, &why);
    } else if (json && json_is_array(json) && verb->many) {
        verb->many(call, json);
    } else if (!http_take_read_op(call, verb, &params, &id, form, json, &op, &why)) {
        http_fail(call, &why);
    } else {
        op.verb = verb->verb;
        op.reply = verb->reply;
        (op.verb == OP_TAKE ? batch_add : batch_run)(call->conn, &op);
        if (json)
            batch_flush(call->conn); /* the key lives as long as the JSON */
    }
    if (has_body && !is_form)
        http_json_forget();
    account_id_free(&id);
}

/* ---- Take ------------------------------------------------------------------------------------ */

void http_reply_take(struct conn *c, const struct limit_op *op, int error,
                     const struct weir_verdict *v)
{
    if (error)
        http_fail_error(c, op->shape, error);
    else
        http_reply_verdict(c, op, v->allowed ? 200 : http_refused(v), v);
}

void http_take(const struct http_call *call)
{
    static const struct http_verb TAKE = {OP_TAKE,         TAKES,      LIMIT_TAKES,
                                          http_reply_take, http_batch, NULL};

    http_run_op(call, &TAKE);
}

/* ---- Peek ------------------------------------------------------------------------------------ */

static char *put_guard_number(char *at, const char *name, int64_t value)
{
    at = http_put(at, name, strlen(name));
    return http_put_int(at, value);
}

/* The states of the limit's guards, for this key. */
static char *put_guards(char *at, const struct limit_op *op, const struct weir_verdict *v)
{
    struct limit_guard guard[WEIR_TERMS_MAX];
    const int n = limit_guards(op, guard);

    (void)v;
    at = http_put_text(at, ",\"guards\":[");
    for (int i = 0; i < n; i++) {
        const struct weir_term *t = &op->limit->parsed->term[guard[i].term];
        const struct weir_view *view = &guard[i].view;

        at = http_put_text(at, i == 0 ? "{\"guard\":" : ",{\"guard\":");
        at = http_put_json(at, weir__slice_of(weir_algorithm_name(t->algorithm)));
        at = http_put_text(at, ",\"state\":");
        at = http_put_json(at, weir__slice_of(weir_guard_state_name(view->state)));
        at = put_guard_number(at, ",\"limit\":", view->limit);
        at = put_guard_number(at, ",\"in_flight\":", view->in_flight);
        at = http_put_text(put_guard_number(at, ",\"rate\":", view->rate), "}");
    }
    return http_put_text(at, "]");
}

static void http_reply_peek(struct conn *c, const struct limit_op *op, int error,
                            const struct weir_verdict *v)
{
    if (error)
        http_fail_error(c, op->shape, error);
    else
        http_reply_verdict_and(c, op, 200, v,
                               limit_has_guard(op->limit->parsed) ? put_guards : NULL, "");
}

void http_peek(const struct http_call *call)
{
    static const struct http_verb PEEK = {
        OP_PEEK, TAKES & ~HTTP_MAY(WAIT), LIMIT_LOOKS, http_reply_peek, NULL, NULL};

    http_run_op(call, &PEEK);
}

/* ---- Charge ---------------------------------------------------------------------------------- */

/* Refused only if it was not counted: the key is denied, or the store is full. */
void http_charge(const struct http_call *call)
{
    static const struct http_verb CHARGE = {
        OP_CHARGE,   HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST),
        LIMIT_TAKES, http_reply_take,
        NULL,        NULL};

    http_run_op(call, &CHARGE);
}

/* ---- Refund ---------------------------------------------------------------------------------- */

void http_reply_refund(struct conn *c, const struct limit_op *op, int error,
                       const struct weir_verdict *v)
{
    const struct http_call call = {.conn = c, .shape = op->shape};
    char body[64], *at = http_put_text(body, "{\"returned\":");

    (void)v;
    if (error) {
        http_fail_error(c, op->shape, error);
        return;
    }
    at = http_put_int(at, op->back);
    at = http_put_text(at, "}\n");
    http_reply_json(&call, 200, body, (size_t)(at - body));
}

void http_refund(const struct http_call *call)
{
    static const struct http_verb REFUND = {
        OP_REFUND,   HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST),
        LIMIT_LOOKS, http_reply_refund,
        NULL,        NULL};

    http_run_op(call, &REFUND);
}

/* ---- Reset ----------------------------------------------------------------------------------- */

static void http_reply_reset(struct conn *c, const struct limit_op *op, int error,
                             const struct weir_verdict *v)
{
    const struct http_call call = {.conn = c, .shape = op->shape};
    const struct http_why full = {.status = 503, .text = RESET_FULL};

    (void)v;
    if (error == WEIR_EFULL)
        http_fail(&call, &full);
    else if (error)
        http_fail_error(c, op->shape, error);
    else
        http_reply_nothing(&call, 204);
}

void http_reset(const struct http_call *call)
{
    static const struct http_verb RESET = {
        OP_RESET, HTTP_MAY(LIMIT) | HTTP_MAY(KEY), LIMIT_LOOKS, http_reply_reset, NULL, NULL};

    http_run_op(call, &RESET);
}
