/* Many takes in one body: a JSON array of objects, answered by an array of verdicts in their order.
 *
 * They are decided one by one, not all or nothing: an item that is malformed, or that the engine
 * has no answer for, has {"error":"..."} in its place, and the others are decided as if it were not
 * there. An answer leaves when all are decided, so none of them can be held back ('wait'); a
 * reservation ('reserve') can be made.
 */
#include "server/http_front.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct item {
    size_t question;   /* its number, or SIZE_MAX: malformed */
    const char *error; /* then why, in memory of its own */
};

struct batch_of {
    struct http_call call; /* of it only how to answer: the request may be gone by then */
    size_t n, questions;
    struct item *item;
    struct question *question;
    struct weir_verdict *verdict;
    int *error_of; /* of questions, by number: what the engine said, or 0 */
};

static void close_batch(struct batch_of *b)
{
    for (size_t i = 0; b && i < b->n && b->item; i++)
        free((char *)b->item[i].error);
    if (b) {
        free(b->item);
        free(b->question);
        free(b->verdict);
        free(b->error_of);
    }
    free(b);
}

static struct batch_of *open_batch(const struct http_call *call, size_t n)
{
    struct batch_of *b = calloc(1, sizeof *b);

    if (!b)
        return NULL;
    *b = (struct batch_of){.call = *call,
                           .n = n,
                           .item = calloc(n, sizeof b->item[0]),
                           .question = calloc(n, sizeof b->question[0]),
                           .verdict = calloc(n, sizeof b->verdict[0]),
                           .error_of = calloc(n, sizeof b->error_of[0])};
    if (b->item && b->question && b->verdict && b->error_of)
        return b;
    close_batch(b);
    return NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool read_item(struct batch_of *b, const json_t *json, struct http_why *why)
{
    struct http_ask ask = {.may = HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST) |
                                  HTTP_MAY(WAIT) | HTTP_MAY(RESERVE)};

    if (!http_ask_json(&ask, json, why))
        return false;
    if (ask.given & HTTP_MAY(WAIT))
        return http_because(why, 400, "'wait' cannot be in an array: 'reserve' can");
    return http_ask_question(b->call.conn, &ask, &b->question[b->questions], why);
}

static void read_items(struct batch_of *b, const json_t *array)
{
    struct http_why why;

    for (size_t i = 0; i < b->n; i++) {
        if (read_item(b, json_array_get(array, i), &why)) {
            b->item[i].question = b->questions++;
        } else {
            b->item[i].question = SIZE_MAX;
            b->item[i].error = strdup(why.text);
        }
    }
}

/* ---- Telling --------------------------------------------------------------------------------- */

static const char *error_of(const struct batch_of *b, size_t i)
{
    const struct item *item = &b->item[i];

    if (item->question == SIZE_MAX)
        return item->error ? item->error : "out of memory";
    return b->error_of[item->question] ? weir_error_text(b->error_of[item->question]) : NULL;
}

static size_t room_of(const struct batch_of *b)
{
    size_t room = 8;

    for (size_t i = 0; i < b->n; i++) {
        const char *error = error_of(b, i);

        room += error ? 6 * strlen(error) + 32 : HTTP_VERDICT_JSON;
    }
    return room;
}

static char *put_item(char *at, const struct batch_of *b, size_t i)
{
    const char *error = error_of(b, i);

    if (!error)
        return http_put_verdict(at, &b->verdict[b->item[i].question]);
    at = http_put_text(at, "{\"error\":");
    at = http_put_json(at, weir__slice_of(error));
    *at++ = '}';
    return at;
}

static void tell(const struct batch_of *b)
{
    char *body = malloc(room_of(b)), *at = body;

    if (!body) {
        http_fail_error(b->call.conn, b->call.shape, WEIR_ENOMEM);
        return;
    }
    *at++ = '[';
    for (size_t i = 0; i < b->n; i++) {
        if (i > 0)
            at = http_put_text(at, ",\n");
        at = put_item(at, b, i);
    }
    at = http_put_text(at, "]\n");
    http_reply_json(&b->call, 200, body, (size_t)(at - body));
    free(body);
}

static void told(struct conn *c, void *batch)
{
    if (c)
        tell(batch);
    close_batch(batch);
}

void http_batch(const struct http_call *call, const struct json_t *array)
{
    const size_t n = json_array_size(array);
    struct http_why why;
    struct batch_of *b;

    if (n > HTTP_BATCH_MAX || call->rq->query.len > 0) {
        (void)http_because(&why, n > HTTP_BATCH_MAX ? 413 : 400,
                           n > HTTP_BATCH_MAX ? "the array has more than 10000 items"
                                              : "an array takes no parameters in the query");
        http_fail(call, &why);
        return;
    }
    if (n == 0) {
        http_reply_json(call, 200, "[]\n", 3);
        return;
    }
    ask_settle(call->conn);
    b = open_batch(call, n);
    if (!b) {
        http_fail_error(call->conn, call->shape, WEIR_ENOMEM);
        return;
    }
    read_items(b, array);
    ask_take_many(call->conn, b->question, b->questions, b->verdict, b->error_of, told, b);
}
