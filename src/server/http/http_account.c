/* Reserve, commit, cancel: estimates that are settled later. */
#include "server/http/http_front.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/account/account.h"

/* ---- Reserve --------------------------------------------------------------------------------- */

#define ID_FIELD_MOST 1024 /* a longer id is in the body only */

/* For a proxy, which reads no bodies: the id as a header field; nothing if there is none. */
static void id_field(const struct limit_op *op, const char *id, size_t len,
                     char field[ID_FIELD_MOST + 32])
{
    field[0] = '\0';
    if (op->id && len <= ID_FIELD_MOST)
        (void)snprintf(field, ID_FIELD_MOST + 32, "X-Weir-Id: %.*s\r\n", (int)len, id);
}

static int reserve_status(const struct limit_op *op, const struct weir_verdict *v)
{
    return v->allowed ? 200 : op->shape & HTTP_DENY_403 ? 403 : http_refused(v);
}

/* The verdict with one member more: the id, or null. */
static void http_reply_reserved(struct conn *c, const struct limit_op *op,
                                const struct weir_verdict *v)
{
    char field[ID_FIELD_MOST + 32];
    const char *id;
    char *body = malloc(http_verdict_room(op->limit, v) + account_id_room(op) + 16), *at = body;

    if (!body) {
        http_fail_error(c, op->shape, WEIR_ENOMEM);
        return;
    }
    at = http_put_verdict(at, op->limit, v) - 1; /* without its brace */
    at = http_put_text(at, op->id ? ",\"id\":\"" : ",\"id\":null");
    id = at;
    if (op->id)
        at = account_id_put(at, op);
    id_field(op, id, (size_t)(at - id), field);
    at = http_put_text(at, op->id ? "\"}\n" : "}\n");
    http_reply_body(c, op, reserve_status(op, v), v, field,
                    (struct weir__slice){body, (size_t)(at - body)});
    free(body);
}

static void http_reply_reserve(struct conn *c, const struct limit_op *op, int error,
                               const struct weir_verdict *v)
{
    const struct http_call call = {.conn = c, .shape = op->shape};
    const struct http_why full = {.status = 503, .text = ACCOUNTS_FULL};
    const struct http_why terms = {.status = 400,
                                   .text = "the limit has too many terms: reservations go with "
                                           "15 at most"};

    if (error == WEIR_EFULL)
        http_fail(&call, &full);
    else if (error == WEIR_EINVAL)
        http_fail(&call, &terms);
    else if (error)
        http_fail_error(c, op->shape, error);
    else if (!v->allowed && op->shape & HTTP_PROBLEM)
        http_reply_verdict(c, op, reserve_status(op, v), v);
    else
        http_reply_reserved(c, op, v);
}

static bool http_reserve_complete(struct limit_op *op, const struct http_params *params,
                                  struct http_why *why)
{
    if (!(params->given & HTTP_MAY(TTL)))
        return http_because(why, 400,
                            "'ttl' is missing: expected milliseconds, or a duration such as 30s");
    if (params->ttl_ns < 1 || params->ttl_ns > WEIR_ACCOUNT_TTL_MAX)
        return http_because(why, 400, "'ttl' is out of range: expected 1 ms to 24h");
    if (!(params->given & HTTP_MAY(COST)))
        return http_because(why, 400, "'cost' is missing: expected the estimate");
    op->lapses_free = weir__slice_is(params->lapse, "free");
    if (params->given & HTTP_MAY(LAPSE) && !op->lapses_free &&
        !weir__slice_is(params->lapse, "keep"))
        return http_because_of(why, 400, "'lapse' is ", params->lapse, ": expected keep or free");
    if (params->given & HTTP_MAY(DENY) && params->deny == 403)
        op->shape |= HTTP_DENY_403;
    op->ttl_ns = params->ttl_ns;
    op->name = params->limit;
    return true;
}

void http_reserve(const struct http_call *call)
{
    static const struct http_verb RESERVE = {.verb = OP_RESERVE,
                                             .may = HTTP_MAY(LIMIT) | HTTP_MAY(KEY) |
                                                    HTTP_MAY(COST) | HTTP_MAY(TTL) |
                                                    HTTP_MAY(LAPSE) | HTTP_MAY(DENY),
                                             .use = LIMIT_TAKES,
                                             .reply = http_reply_reserve,
                                             .complete = http_reserve_complete};

    http_run_op(call, &RESERVE);
}

/* ---- Commit and cancel ----------------------------------------------------------------------- */

static bool http_commit_complete(struct limit_op *op, const struct http_params *params,
                                 struct http_why *why)
{
    (void)op;
    return params->given & HTTP_MAY(COST) ||
           http_because(why, 400, "'cost' is missing: expected what it did cost");
}

void http_commit(const struct http_call *call)
{
    static const struct http_verb COMMIT = {.verb = OP_COMMIT,
                                            .may = HTTP_MAY(ID) | HTTP_MAY(COST),
                                            .use = LIMIT_TAKES,
                                            .reply = http_reply_take,
                                            .complete = http_commit_complete};

    http_run_op(call, &COMMIT);
}

void http_cancel(const struct http_call *call)
{
    static const struct http_verb CANCEL = {
        .verb = OP_CANCEL, .may = HTTP_MAY(ID), .use = LIMIT_TAKES, .reply = http_reply_refund};

    http_run_op(call, &CANCEL);
}
