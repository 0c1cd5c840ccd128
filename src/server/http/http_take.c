/* Take, peek, refund and reset: one operation, from the query, a JSON object, or both. */
#include "server/http/http_front.h"

#include <jansson.h>

#define TAKES \
    (HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST) | HTTP_MAY(WAIT) | HTTP_MAY(RESERVE))

static void http_reply_take(struct conn *c, const struct limit_op *op, int error,
                            const struct weir_verdict *v)
{
    if (error)
        http_fail_error(c, op->shape, error);
    else
        http_reply_verdict(c, op->shape, v->allowed ? 200 : http_denied(v), op->limit, v);
}

/* Reads the operation from query and body: false and *why if it cannot. Its key may belong to the
 * JSON. */
static bool http_take_read_op(const struct http_call *call, struct http_params *params,
                              const json_t *json, struct limit_op *op, struct http_why *why)
{
    if (!http_params_query(params, call->rq->query, why) ||
        (json && !http_params_json(params, json, why)) ||
        !http_params_op(call->conn, params, op, why))
        return false;
    op->shape = call->shape;
    op->reply = http_reply_take;
    return true;
}

/* Reads one operation and runs it by `answer`. Only a POST has a body: what comes with a GET is
 * ignored. */
static void http_run_op(const struct http_call *call, unsigned may, enum limit_use use,
                        void (*answer)(const struct http_call *call, const struct limit_op *op),
                        void (*many)(const struct http_call *call, const json_t *array))
{
    const bool has_body = call->rq->method == HTTP_POST_ && call->rq->body.len > 0;
    struct http_params params = {.may = may, .use = use};
    struct http_why why;
    struct limit_op op;
    json_t *json = NULL;

    if (has_body && !http_json_read(call->rq->body, &json, &why)) {
        http_fail(call, &why);
    } else if (json && json_is_array(json) && many) {
        many(call, json);
    } else if (!http_take_read_op(call, &params, json, &op, &why)) {
        http_fail(call, &why);
    } else {
        answer(call, &op);
        if (json)
            batch_flush(call->conn); /* the key lives as long as the JSON */
    }
    if (has_body)
        http_json_forget();
}

/* ---- Take ------------------------------------------------------------------------------------ */

static void http_op_take(const struct http_call *call, const struct limit_op *op)
{
    batch_add(call->conn, op);
}

void http_take(const struct http_call *call)
{
    http_run_op(call, TAKES, LIMIT_TAKES, http_op_take, http_batch);
}

/* ---- Peek ------------------------------------------------------------------------------------ */

static void http_op_peek(const struct http_call *call, const struct limit_op *op)
{
    struct weir_verdict v;
    const int error = batch_peek(call->conn, op, &v);

    if (error)
        http_fail_error(call->conn, call->shape, error);
    else
        http_reply_verdict(call->conn, call->shape, 200, op->limit, &v);
}

void http_peek(const struct http_call *call)
{
    http_run_op(call, TAKES & ~HTTP_MAY(WAIT), LIMIT_LOOKS, http_op_peek, NULL);
}

/* ---- Refund ---------------------------------------------------------------------------------- */

static void http_op_refund(const struct http_call *call, const struct limit_op *op)
{
    char body[64], *at = http_put_text(body, "{\"returned\":");
    int64_t back = 0;
    const int error = batch_refund(call->conn, op, &back);

    if (error) {
        http_fail_error(call->conn, call->shape, error);
        return;
    }
    at = http_put_int(at, back);
    at = http_put_text(at, "}\n");
    http_reply_json(call, 200, body, (size_t)(at - body));
}

void http_refund(const struct http_call *call)
{
    http_run_op(call, HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST), LIMIT_LOOKS, http_op_refund,
                NULL);
}

/* ---- Reset ----------------------------------------------------------------------------------- */

static void http_op_reset(const struct http_call *call, const struct limit_op *op)
{
    const int error = batch_reset(call->conn, op);
    const struct http_why full = {.status = 503, .text = RESET_FULL};

    if (error == WEIR_EFULL)
        http_fail(call, &full);
    else if (error)
        http_fail_error(call->conn, call->shape, error);
    else
        http_reply_nothing(call, 204);
}

void http_reset(const struct http_call *call)
{
    http_run_op(call, HTTP_MAY(LIMIT) | HTTP_MAY(KEY), LIMIT_LOOKS, http_op_reset, NULL);
}
