/* Enter and exit: guards for callers elsewhere. */
#include "server/http/http_front.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "server/tickets/tickets.h"

/* ---- Replies --------------------------------------------------------------------------------- */

/* A guard that looks at what is called, or at this machine, says that the service is not there;
 * all else is a client that asks too much. */
static int entry_status(const struct limit_op *op, const struct weir_verdict *v)
{
    if (v->allowed)
        return 200;
    if (op->shape & HTTP_DENY_403)
        return 403;
    return v->reason == WEIR_OPEN || v->reason == WEIR_OVERLOAD ? 503 : http_refused(v);
}

static char *put_ticket(char *at, const struct limit_op *op, const struct weir_verdict *v)
{
    char text[TICKET_TEXT];

    (void)v;
    if (!op->ticket)
        return http_put_text(at, ",\"ticket\":null,\"ttl_ms\":0");
    (void)ticket_print(op, text);
    at = http_put_text(at, ",\"ticket\":\"");
    at = http_put(at, text, strlen(text));
    at = http_put_text(at, "\",\"ttl_ms\":");
    return http_put_int(at, wire_ms(ticket_ttl_ns(op->ticket)));
}

static void http_reply_enter(struct conn *c, const struct limit_op *op, int error,
                             const struct weir_verdict *v)
{
    const struct http_call call = {.conn = c, .shape = op->shape};
    const struct http_why full = {.status = 503, .text = TICKETS_FULL};
    char text[TICKET_TEXT], field[sizeof "X-Weir-Ticket: \r\n" + TICKET_TEXT] = "";

    if (error == WEIR_EFULL) {
        http_fail(&call, &full);
    } else if (error) {
        http_fail_error(c, op->shape, error);
    } else {
        if (op->ticket) {
            (void)ticket_print(op, text);
            (void)snprintf(field, sizeof field, "X-Weir-Ticket: %s\r\n", text);
        }
        http_reply_verdict_and(c, op, entry_status(op, v), v, put_ticket, field);
    }
}

static void http_reply_exit(struct conn *c, const struct limit_op *op, int error,
                            const struct weir_verdict *v)
{
    const struct http_call call = {.conn = c, .shape = op->shape};
    const struct http_why none = {.status = 404, .text = NO_SUCH_TICKET};

    (void)v;
    if (error == WEIR_EGONE)
        http_fail(&call, &none);
    else if (error)
        http_fail_error(c, op->shape, error);
    else
        http_reply_nothing(&call, 204);
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads the parameters of query and body, and hands them over. Only a POST has a body. */
static void with_params(const struct http_call *call, struct http_params *params,
                        void (*run)(const struct http_call *call, struct http_params *params))
{
    const bool has_body = call->rq->body.len > 0, is_form = has_body && http_has_form(call->rq);
    const struct weir__slice form = is_form ? call->rq->body : (struct weir__slice){NULL, 0};
    struct http_why why;
    json_t *json = NULL;

    if ((has_body && !is_form && !http_json_read(call->rq->body, &json, &why)) ||
        !http_params_query(params, call->rq->query, &why) ||
        !http_params_query(params, form, &why) || (json && !http_params_json(params, json, &why)))
        http_fail(call, &why);
    else
        run(call, params);
    if (has_body && !is_form)
        http_json_forget();
}

static bool entry_ttl(const struct http_params *params, const struct limit *l, struct http_why *why)
{
    struct weir__out out = {why->text, sizeof why->text, 0};
    int64_t usual_ns;
    const int64_t longest_ns = ticket_longest_ns(l, &usual_ns);

    if (!(params->given & HTTP_MAY(TTL)) || (params->ttl_ns > 0 && params->ttl_ns <= longest_ns))
        return true;
    why->status = 400;
    weir__out_text(&out, "'ttl' is out of range: expected more than 0, and up to the lease of the "
                         "limit, ");
    weir__out_duration(&out, longest_ns);
    (void)weir__out_end(&out);
    return false;
}

static void run_enter(const struct http_call *call, struct http_params *params)
{
    struct http_why why;
    struct limit_op op;

    http_key_of_proxy(call, params);
    if (!http_params_op(call->conn, params, &op, &why) || !entry_ttl(params, op.limit, &why)) {
        http_fail(call, &why);
        return;
    }
    op.shape = call->shape;
    if (params->given & HTTP_MAY(DENY) && params->deny == 403)
        op.shape |= HTTP_DENY_403;
    op.reply = http_reply_enter;
    ticket_enter(call->conn, &op, params->given & HTTP_MAY(TTL) ? params->ttl_ns : 0, false);
}

void http_enter(const struct http_call *call)
{
    struct http_params params = {.may = HTTP_MAY(LIMIT) | HTTP_MAY(KEY) | HTTP_MAY(COST) |
                                        HTTP_MAY(WAIT) | HTTP_MAY(TTL) | HTTP_MAY(DENY),
                                 .use = LIMIT_TAKES};

    with_params(call, &params, run_enter);
}

static void run_exit(const struct http_call *call, struct http_params *params)
{
    const bool timed = params->given & HTTP_MAY(TOOK);
    struct weir__ending e = {
        .how = WEIR_SUCCESS, .timed = timed, .took_ns = timed ? params->took_ns : 0};
    struct http_why why;

    if (!(params->given & HTTP_MAY(TICKET))) {
        (void)http_because(&why, 400, "'ticket' is missing");
        http_fail(call, &why);
    } else if (params->given & HTTP_MAY(OUTCOME) && !ticket_outcome(params->outcome, &e.how)) {
        (void)http_because_of(&why, 400, "'outcome' is ", params->outcome,
                              ": expected ok, error, drop or ignore");
        http_fail(call, &why);
    } else {
        ticket_exit(call->conn, params->ticket, &e, call->shape, http_reply_exit);
    }
}

void http_exit(const struct http_call *call)
{
    struct http_params params = {.may = HTTP_MAY(TICKET) | HTTP_MAY(OUTCOME) | HTTP_MAY(TOOK)};

    with_params(call, &params, run_exit);
}
