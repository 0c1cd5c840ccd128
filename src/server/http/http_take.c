/* Take, peek, refund and reset: one question, from the query, a JSON object, or both. */
#include "server/http_front.h"

#include <jansson.h>

#define TAKES \
    (HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST) | HTTP_MAY(WAIT) | HTTP_MAY(RESERVE))

static void say_take(struct conn *c, const struct question *q, int error,
                     const struct weir_verdict *v)
{
    if (error)
        http_fail_error(c, q->shape, error);
    else
        http_say_verdict(c, q->shape, v->allowed ? 200 : http_denied(v), q->limit, v);
}

/* What is asked by query and body: false and *why, or the question. Its key may be the JSON's. */
static bool read_question(const struct http_call *call, struct http_ask *ask, const json_t *json,
                          struct question *q, struct http_why *why)
{
    if (!http_ask_query(ask, call->rq->query, why) || (json && !http_ask_json(ask, json, why)) ||
        !http_ask_question(call->conn, ask, q, why))
        return false;
    q->shape = call->shape;
    q->say = say_take;
    return true;
}

/* Reads one question and answers it by `answer`. Bodies count where they mean something: of a GET
 * there is none, whatever was sent. */
static void ask_one(const struct http_call *call, unsigned may, enum limit_use use,
                    void (*answer)(const struct http_call *call, const struct question *q),
                    void (*many)(const struct http_call *call, const json_t *array))
{
    const bool has_body = call->rq->method == HTTP_POST_ && call->rq->body.len > 0;
    struct http_ask ask = {.may = may, .use = use};
    struct http_why why;
    struct question q;
    json_t *json = NULL;

    if (has_body && !http_json_read(call->rq->body, &json, &why)) {
        http_fail(call, &why);
    } else if (json && json_is_array(json) && many) {
        many(call, json);
    } else if (!read_question(call, &ask, json, &q, &why)) {
        http_fail(call, &why);
    } else {
        answer(call, &q);
        if (json)
            ask_settle(call->conn); /* the key goes with the JSON */
    }
    if (has_body)
        http_json_forget();
}

/* ---- Take ------------------------------------------------------------------------------------ */

static void take(const struct http_call *call, const struct question *q)
{
    ask_take(call->conn, q);
}

void http_take(const struct http_call *call)
{
    ask_one(call, TAKES, LIMIT_TAKES, take, http_batch);
}

/* ---- Peek ------------------------------------------------------------------------------------ */

static void peek(const struct http_call *call, const struct question *q)
{
    struct weir_verdict v;
    const int error = ask_peek(call->conn, q, &v);

    if (error)
        http_fail_error(call->conn, call->shape, error);
    else
        http_say_verdict(call->conn, call->shape, 200, q->limit, &v);
}

void http_peek(const struct http_call *call)
{
    ask_one(call, TAKES & ~HTTP_MAY(WAIT), LIMIT_LOOKS, peek, NULL);
}

/* ---- Refund ---------------------------------------------------------------------------------- */

static void refund(const struct http_call *call, const struct question *q)
{
    char body[64], *at = http_put_text(body, "{\"returned\":");
    int64_t back = 0;
    const int error = ask_refund(call->conn, q, &back);

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
    ask_one(call, HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST), LIMIT_LOOKS, refund, NULL);
}

/* ---- Reset ----------------------------------------------------------------------------------- */

static void reset(const struct http_call *call, const struct question *q)
{
    const int error = ask_reset(call->conn, q);
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
    ask_one(call, HTTP_MAY(LIMIT) | HTTP_MAY(KEY), LIMIT_LOOKS, reset, NULL);
}
