/* Requests to remote stores: begun, and answered when the store has replied. See
 * remote_request.h. */
#include "server/remote/remote_request.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "server/account/account.h"

#define KEY_USUAL 128 /* bytes of key and name; the memory of such a request is reused */

/* ---- Memory ---------------------------------------------------------------------------------- */

static struct remote_request *remote_request_alloc(struct worker *w, size_t bytes)
{
    struct remote_stores *stores = w->remote;
    const size_t cap = bytes < KEY_USUAL ? KEY_USUAL : bytes;
    struct remote_request *request = stores->spare;

    if (request && cap == KEY_USUAL) {
        stores->spare = request->next;
        stores->spare_n--;
        return request;
    }
    request = malloc(sizeof *request + cap);
    if (!request)
        return NULL;
    request->cap = cap;
    memory_grow(&w->server->memory, MEMORY_REMOTE, sizeof *request + cap + MEMORY_PIECE);
    return request;
}

struct remote_request *remote_request_make(struct worker *w, enum remote_verb verb,
                                           const struct limit_op *op)
{
    struct remote_request *request = remote_request_alloc(w, op->key.len + op->name.len);

    if (!request)
        return NULL;
    request->pipeline = &w->remote->pipeline[store_of(op->limit)->index];
    request->verb = verb;
    request->done = NULL;
    request->arg = NULL;
    request->place = (struct awaited_reply){0};
    request->op = *op;
    request->op.numbers = request->numbers = NULL;
    request->all = NULL;
    request->receipt = (struct weir__receipt){0};
    request->taken = NULL;
    request->entered = NULL;
    request->estimate = 0;
    request->key_bytes = op->key.len;
    request->error = 0;
    request->over = request->queued = false;
    request->next = request->prev = NULL;
    op_keep_text(&request->op, request->key);
    limit_retain(op->limit);
    return request;
}

void remote_request_free(struct remote_request *request)
{
    struct worker *w = request->pipeline->worker;
    struct remote_stores *stores = w->remote;

    for (size_t i = 0; request->all && i < request->all->n; i++)
        limit_release(request->all->limit[i]);
    free(request->all);
    free(request->taken);
    free(request->numbers);
    free(request->entered);
    limit_release(request->op.limit);
    if (request->cap == KEY_USUAL && stores->spare_n < REMOTE_MOST) {
        request->next = stores->spare;
        stores->spare = request;
        stores->spare_n++;
    } else {
        memory_shrink(&w->server->memory, MEMORY_REMOTE,
                      sizeof *request + request->cap + MEMORY_PIECE);
        free(request);
    }
}

/* ---- Beginning and ending -------------------------------------------------------------------- */

static void remote_count(struct remote_request *request, int more)
{
    struct worker *w = request->pipeline->worker;
    const unsigned n = atomic_load_explicit(&w->remote_pending, memory_order_relaxed);

    atomic_store_explicit(&w->remote_pending, n + (unsigned)more, memory_order_relaxed);
    w->remote_bytes += more > 0 ? request->key_bytes : -request->key_bytes;
}

/* One part of it has its result. */
static void remote_request_advance(struct remote_request *request, int error)
{
    if (request->error == 0)
        request->error = error;
    if (--request->left > 0)
        return;
    remote_count(request, -1);
    request->done(request);
}

/* A reservation is in the book from before it is sent, so that a client does not pass its bound by
 * those that are under way. This one was not made. */
static void remote_estimate_leave(struct remote_request *request)
{
    account_leave(request->pipeline->worker->server, request->estimate);
    request->estimate = 0;
}

static void remote_estimate_enter(struct conn *c, struct remote_request *request)
{
    const int64_t now_ns = weir_now(c->worker->server->engine);
    struct limit_op op = request->op;

    op.id = request->estimate = weir__account_new_id(request->pipeline->store->engine);
    account_enter(c, &op, weir__add_sat(now_ns, request->op.ttl_ns));
}

static void remote_decided(struct weir__decision *decision)
{
    struct remote_request *request = (struct remote_request *)decision;

    if (request->verb == REMOTE_ESTIMATE && (decision->error || !decision->account.made))
        remote_estimate_leave(request);
    if (request->verb == REMOTE_ESTIMATE)
        request->op.id = request->estimate;
    if (request->verb == REMOTE_SETTLE)
        request->op.back = decision->account.back;
    remote_request_advance(request, decision->error);
}

static void remote_undone(struct weir__undo *undo)
{
    struct remote_request *request = undo->arg;

    request->op.back = undo->back;
    if (request->verb == REMOTE_RELEASE && !undo->error && undo->back == 0)
        undo->error = WEIR_EGONE;
    remote_request_advance(request, undo->error);
}

static void remote_decide(struct remote_request *request, const struct weir_request *rq, size_t n,
                          enum weir__verb verb, struct weir__receipt *receipt)
{
    const struct remote_pipeline *pipeline = request->pipeline;

    weir__decision_begin(pipeline->store->engine, pipeline->pipeline, &request->decision, rq, n,
                         request->numbers, verb, worker_now(pipeline->worker, pipeline->store),
                         receipt);
}

/* The last call in each case may end the request and free it. */
static void remote_request_begin_verb(struct remote_request *request)
{
    const struct remote_pipeline *pipeline = request->pipeline;
    struct weir *engine = pipeline->store->engine;
    const struct weir__now at = worker_now(pipeline->worker, pipeline->store);
    struct weir_request rq = op_request(&request->op);

    switch (request->verb) {
    case REMOTE_TAKE: remote_decide(request, &rq, 1, WEIR__TAKE, NULL); return;
    case REMOTE_TAKE_ALL:
        remote_decide(request, request->all->rq, request->all->n, WEIR__TAKE_ALL, NULL);
        return;
    case REMOTE_RESERVE: remote_decide(request, &rq, 1, WEIR__TAKE_ALL, &request->receipt); return;
    case REMOTE_ENTER: remote_decide(request, &rq, 1, WEIR__ENTER, &request->receipt); return;
    case REMOTE_PEEK: remote_decide(request, &rq, 1, WEIR__PEEK, &request->receipt); return;
    case REMOTE_CHARGE: remote_decide(request, &rq, 1, WEIR__CHARGE, NULL); return;
    case REMOTE_REFUND:
        weir__undo_refund(engine, pipeline->pipeline, &request->undo, &rq, at);
        return;
    case REMOTE_REFUND_AND_PEEK:
        weir__undo_refund(engine, pipeline->pipeline, &request->undo, &rq, at);
        rq.cost = 0;
        remote_decide(request, &rq, 1, WEIR__PEEK, NULL);
        return;
    case REMOTE_RESET:
        weir__undo_reset(engine, pipeline->pipeline, &request->undo, &rq, at);
        return;
    case REMOTE_EXIT:
        weir__undo_exit(engine, pipeline->pipeline, &request->undo, request->entered, request->how,
                        at);
        return;
    case REMOTE_RELEASE:
        weir__undo_release(engine, pipeline->pipeline, &request->undo, &rq, request->op.name, at);
        return;
    case REMOTE_ESTIMATE:
        weir__decision_reserve(engine, pipeline->pipeline, &request->decision, &rq,
                               request->estimate, request->op.ttl_ns, request->op.lapses_free, at);
        return;
    case REMOTE_SETTLE:
        rq.cost = request->op.verb == OP_CANCEL ? 0 : rq.cost;
        weir__decision_settle(engine, pipeline->pipeline, &request->decision, &rq, request->op.id,
                              at);
        return;
    case REMOTE_CANCEL:
    case REMOTE_WITHDRAW:
        weir__undo_cancel(engine, pipeline->pipeline, &request->undo, request->taken,
                          request->verb == REMOTE_WITHDRAW, at);
        return;
    }
}

static void remote_request_begin(struct remote_request *request)
{
    struct remote_pipeline *pipeline = request->pipeline;

    request->decision.done = remote_decided;
    request->undo.done = remote_undone;
    request->undo.arg = request;
    request->left = request->verb == REMOTE_REFUND_AND_PEEK ? 2 : 1;
    pipeline->due = true;
    remote_count(request, 1);
    remote_request_begin_verb(request);
    if (++pipeline->unsent >= REMOTE_TOGETHER) { /* the store can work while we go on reading */
        pipeline->unsent = 0;
        weir__pipeline_flush(pipeline->pipeline);
    }
}

static bool remote_may_begin(const struct remote_request *request)
{
    return !remote_is_full(request->pipeline->worker) &&
           !weir__pipeline_is_paused(request->pipeline->pipeline);
}

void remote_request_submit(struct remote_request *request)
{
    struct remote_stores *stores = request->pipeline->worker->remote;

    if (!stores->queue_first && remote_may_begin(request)) {
        remote_request_begin(request);
        return;
    }
    request->queued = true;
    request->prev = stores->queue_last;
    *(request->prev ? &request->prev->next : &stores->queue_first) = request;
    stores->queue_last = request;
}

static void remote_queue_remove(struct remote_request *request)
{
    struct remote_stores *stores = request->pipeline->worker->remote;

    *(request->prev ? &request->prev->next : &stores->queue_first) = request->next;
    *(request->next ? &request->next->prev : &stores->queue_last) = request->prev;
    request->queued = false;
}

bool remote_queue_can_resume(const struct worker *w)
{
    return w->remote->queue_first && remote_may_begin(w->remote->queue_first);
}

void remote_queue_resume(struct worker *w, bool all)
{
    struct remote_stores *stores = w->remote;

    while (stores->queue_first && (all || remote_may_begin(stores->queue_first))) {
        struct remote_request *request = stores->queue_first;

        remote_queue_remove(request);
        remote_request_begin(request);
    }
}

/* ---- Requests that are answered by themselves ------------------------------------------------ */

/* The operation as its reply function wants it: of several limits, the one that refused. */
static struct limit_op remote_replied_op(const struct remote_request *request, struct op_all *all)
{
    struct limit_op op = request->op;
    int named;

    if (request->verb != REMOTE_TAKE_ALL)
        return op;
    named = request->error ? -1
                           : batch_named(&request->op, request->all->n, &request->decision.verdict);
    *all = (struct op_all){request->all->n, request->all->limit, request->all->rq};
    op.all = !request->error && all->n > 1 ? all : NULL;
    op.limit = NULL;
    if (named >= 0) {
        op.limit = request->all->limit[named];
        op.key = (struct weir__slice){request->all->rq[named].key, request->all->rq[named].key_len};
        op.cost = request->all->rq[named].cost;
    }
    return op;
}

static void remote_request_reply(struct conn *c, const struct remote_request *request)
{
    struct op_all all;
    const struct limit_op op = remote_replied_op(request, &all);

    if (request->verb == REMOTE_TAKE_ALL)
        batch_tally_all(request->pipeline->worker, request->all->limit, request->all->n,
                        request->error, &request->decision.verdict);
    if (request->verb == REMOTE_EXIT && request->arg)
        ticket_exit_answered(request->pipeline->worker, request->arg, request->entered,
                             request->error);
    if (request->verb == REMOTE_TAKE || request->verb == REMOTE_ESTIMATE)
        batch_tally(request->pipeline->worker, &op, request->error, &request->decision.verdict);
    if (request->verb == REMOTE_SETTLE)
        batch_note_account(request->pipeline->worker, c, &op, op.ttl_ns, request->error,
                           &request->decision.verdict);
    if (c)
        op.reply(c, &op, request->error, request->error ? NULL : &request->decision.verdict);
}

/* Called by the pipeline when it runs; or before the request has its place, while it is being
 * begun. */
static void remote_request_replied(struct remote_request *request)
{
    struct conn *c = request->place.conn;

    if (!request->place.segment) {
        request->over = true;
        return;
    }
    if (c)
        awaited_fill(&request->place);
    remote_request_reply(c, request);
    if (c) {
        out_aim(c, NULL);
        conn_push_later(c);
    }
    remote_request_free(request);
}

static bool remote_verb_returns(enum remote_verb verb)
{
    return verb == REMOTE_CANCEL || verb == REMOTE_EXIT || verb == REMOTE_RELEASE ||
           verb == REMOTE_SETTLE;
}

/* The connection has closed. What is given back must still reach the store. */
static void remote_request_left(struct awaited_reply *place)
{
    struct remote_request *request =
        (struct remote_request *)(void *)((char *)place - offsetof(struct remote_request, place));

    if (!request->queued || remote_verb_returns(request->verb))
        return;
    remote_queue_remove(request);
    if (request->verb == REMOTE_ESTIMATE)
        remote_estimate_leave(request);
    remote_request_free(request);
}

/* Replies now, or keeps a place for the reply. */
static void remote_run_request(struct conn *c, struct remote_request *request)
{
    request->done = remote_request_replied;
    request->place.left = remote_request_left;
    remote_request_submit(request);
    if (!request->over) {
        awaited_add(c, &request->place);
        return;
    }
    remote_request_reply(c, request);
    remote_request_free(request);
}

static enum remote_verb remote_verb_of(const struct limit_op *op)
{
    switch (op->verb) {
    case OP_TAKE: return REMOTE_TAKE;
    case OP_PEEK: return REMOTE_PEEK;
    case OP_CHARGE: return REMOTE_CHARGE;
    case OP_REFUND: return REMOTE_REFUND;
    case OP_REFUND_AND_PEEK: return REMOTE_REFUND_AND_PEEK;
    case OP_RESERVE: return REMOTE_ESTIMATE;
    case OP_COMMIT:
    case OP_CANCEL: return REMOTE_SETTLE;
    case OP_ENTER: /* has a way of its own */
    case OP_RESET: break;
    }
    return REMOTE_RESET;
}

/* The request keeps a copy of the terms that there are. */
static bool remote_keep_numbers(struct remote_request *request, const struct weir_limit *numbers)
{
    const size_t bytes =
        offsetof(struct weir_limit, term) + (size_t)numbers->n * sizeof numbers->term[0];

    request->op.numbers = request->numbers = malloc(bytes);
    if (request->numbers)
        memcpy(request->numbers, numbers, bytes);
    return request->numbers != NULL;
}

void remote_run(struct conn *c, const struct limit_op *op)
{
    struct remote_request *request = remote_request_make(c->worker, remote_verb_of(op), op);

    if (request && (!op->numbers || remote_keep_numbers(request, op->numbers))) {
        if (request->verb == REMOTE_ESTIMATE)
            remote_estimate_enter(c, request);
        remote_run_request(c, request);
        return;
    }
    if (request)
        remote_request_free(request);
    op->reply(c, op, WEIR_ENOMEM, NULL);
}

/* ---- All or nothing -------------------------------------------------------------------------- */

static struct remote_all *remote_all_make(const struct limit_op *op, size_t n, size_t *bytes)
{
    struct remote_all *all;
    char *at;

    *bytes = 0;
    for (size_t i = 0; i < n; i++)
        *bytes += op[i].key.len + op[i].name.len;
    all = malloc(sizeof *all + *bytes);
    if (!all)
        return NULL;
    all->n = n;
    at = all->keys;
    for (size_t i = 0; i < n; i++) {
        struct limit_op one = op[i];

        op_keep_text(&one, at);
        at += one.key.len + one.name.len;
        all->limit[i] = one.limit;
        all->rq[i] = op_request(&one);
        limit_retain(one.limit);
    }
    return all;
}

void remote_take_all(struct conn *c, const struct limit_op *op, size_t n)
{
    struct remote_request *request = remote_request_make(c->worker, REMOTE_TAKE_ALL, op);

    if (request)
        request->all = remote_all_make(op, n, &request->key_bytes);
    if (request && request->all) {
        remote_run_request(c, request);
        return;
    }
    if (request)
        remote_request_free(request);
    op->reply(c, op, WEIR_ENOMEM, NULL);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

static struct remote_request *remote_cancel_make(struct worker *w, enum remote_verb verb,
                                                 const struct limit_op *op,
                                                 const struct weir_reservation *taken)
{
    struct remote_request *request = remote_request_make(w, verb, op);

    if (!request)
        return NULL;
    request->taken = malloc(sizeof *request->taken);
    if (!request->taken) {
        remote_request_free(request);
        return NULL;
    }
    *request->taken = *taken;
    return request;
}

void remote_cancel(struct conn *c, const struct limit_op *op, const struct weir_reservation *taken)
{
    struct remote_request *request = remote_cancel_make(c->worker, REMOTE_CANCEL, op, taken);

    if (request)
        remote_run_request(c, request);
    else
        op->reply(c, op, WEIR_ENOMEM, NULL);
}

void remote_give_back(struct worker *w, const struct limit *limit,
                      const struct weir_reservation *taken, bool withdraw)
{
    const struct limit_op op = {.limit = limit};
    struct remote_request *request =
        remote_cancel_make(w, withdraw ? REMOTE_WITHDRAW : REMOTE_CANCEL, &op, taken);

    if (!request)
        return; /* it stays taken */
    request->done = remote_request_free;
    if (!w->remote->steps) {
        remote_request_submit(request);
        return;
    }
    request->next = w->remote->late;
    w->remote->late = request;
}

/* A reservation returns only what no later one depends on: so those whose grants came together are
 * given back in the reverse of their order. */
void remote_late_resume(struct worker *w)
{
    while (w->remote->late) {
        struct remote_request *request = w->remote->late;

        w->remote->late = request->next;
        request->next = NULL;
        remote_request_submit(request);
    }
}

/* ---- Exiting --------------------------------------------------------------------------------- */

static struct remote_request *remote_exit_make(struct worker *w, const struct limit_op *op,
                                               const struct weir_ticket *entered,
                                               enum weir_outcome how)
{
    struct remote_request *request = remote_request_make(w, REMOTE_EXIT, op);

    if (request)
        request->entered = malloc(sizeof *request->entered);
    if (request && !request->entered) {
        remote_request_free(request);
        return NULL;
    }
    if (request) {
        *request->entered = *entered;
        request->how = how;
        request->arg = op->ticket;
    }
    return request;
}

/* No client waits for the reply. */
static void remote_exit_done(struct remote_request *request)
{
    remote_request_reply(NULL, request);
    remote_request_free(request);
}

void remote_exit(struct worker *w, struct conn *c, const struct limit_op *op,
                 const struct weir_ticket *entered, enum weir_outcome how)
{
    struct remote_request *request = remote_exit_make(w, op, entered, how);

    if (!request) {
        if (op->ticket)
            ticket_exit_answered(w, op->ticket, entered, WEIR_ENOMEM);
        if (c)
            op->reply(c, op, WEIR_ENOMEM, NULL);
        return;
    }
    if (c) {
        remote_run_request(c, request);
        return;
    }
    request->done = remote_exit_done;
    remote_request_submit(request);
}

void remote_leave(struct worker *w, const struct limit *limit, const struct weir_ticket *entered)
{
    const struct limit_op op = {.limit = limit};
    const struct weir__ending withdrawn = {.how = WEIR_IGNORE, .withdrawn = true};
    struct weir *engine = store_of(limit)->engine;
    struct weir_ticket rest = *entered;

    (void)weir__exit_node_guards(engine, &rest, &withdrawn, weir__now_of(engine));
    if (rest.n > 0)
        remote_exit(w, NULL, &op, &rest, WEIR_IGNORE);
}

void remote_release(struct conn *c, const struct limit_op *op)
{
    struct remote_request *a = remote_request_make(c->worker, REMOTE_RELEASE, op);

    if (a)
        remote_run_request(c, a);
    else
        op->reply(c, op, WEIR_ENOMEM, NULL);
}

/* ---- Questions of waiters -------------------------------------------------------------------- */

static void remote_question_answered(struct remote_request *request)
{
    struct remote_question *q = request->arg;

    q->error = request->error;
    q->verdict = request->decision.verdict;
    memcpy(q->ticket, request->decision.ticket, sizeof q->ticket);
    q->full = request->receipt.full;
    q->queue = request->receipt.wait;
    if (q->under_way)
        q->answered(q);
    else
        request->over = true; /* remote_ask has not returned yet */
    if (!request->over)
        remote_request_free(request);
}

bool remote_ask(struct worker *w, const struct limit_op *op, struct weir_reservation *reservation,
                struct weir_ticket *entered, struct remote_question *q)
{
    struct remote_request *request = remote_request_make(w,
                                                         reservation ? REMOTE_RESERVE
                                                         : entered   ? REMOTE_ENTER
                                                                     : REMOTE_PEEK,
                                                         op);

    q->under_way = false;
    if (!request) {
        q->error = WEIR_ENOMEM;
        return true;
    }
    request->receipt.reservation = reservation;
    request->receipt.ticket = entered;
    request->done = remote_question_answered;
    request->arg = q;
    remote_request_submit(request);
    q->request = request;
    q->under_way = !request->over;
    if (request->over)
        remote_request_free(request);
    return !q->under_way;
}

bool remote_unask(struct remote_question *q)
{
    if (!q->under_way || !q->request->queued)
        return false;
    remote_queue_remove(q->request);
    remote_request_free(q->request);
    q->under_way = false;
    return true;
}
