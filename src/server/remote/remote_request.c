/* Requests to remote stores: begun, and answered when the store has replied. See
 * remote_request.h. */
#include "server/remote/remote_request.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define KEY_USUAL 128 /* bytes of key and name; the memory of such a request is reused */

/* ---- Memory ---------------------------------------------------------------------------------- */

static struct remote_request *remote_request_alloc(struct worker *w, size_t bytes)
{
    struct remote_stores *f = w->remote;
    const size_t cap = bytes < KEY_USUAL ? KEY_USUAL : bytes;
    struct remote_request *a = f->spare;

    if (a && cap == KEY_USUAL) {
        f->spare = a->next;
        f->spare_n--;
        return a;
    }
    a = malloc(sizeof *a + cap);
    if (!a)
        return NULL;
    a->cap = cap;
    memory_grow(&w->server->memory, MEMORY_REMOTE, sizeof *a + cap + MEMORY_PIECE);
    return a;
}

struct remote_request *remote_request_make(struct worker *w, enum remote_verb verb,
                                           const struct limit_op *op)
{
    struct remote_request *a = remote_request_alloc(w, op->key.len + op->name.len);

    if (!a)
        return NULL;
    a->pipeline = &w->remote->pipeline[store_of(op->limit)->index];
    a->verb = verb;
    a->done = NULL;
    a->arg = NULL;
    a->place = (struct awaited_reply){0};
    a->op = *op;
    a->op.numbers = a->numbers = NULL;
    a->all = NULL;
    a->receipt = (struct weir__receipt){0};
    a->taken = NULL;
    a->entered = NULL;
    a->key_bytes = op->key.len;
    a->error = 0;
    a->over = a->queued = false;
    a->next = a->prev = NULL;
    op_keep_text(&a->op, a->key);
    limit_retain(op->limit);
    return a;
}

void remote_request_free(struct remote_request *a)
{
    struct worker *w = a->pipeline->worker;
    struct remote_stores *f = w->remote;

    for (size_t i = 0; a->all && i < a->all->n; i++)
        limit_release(a->all->limit[i]);
    free(a->all);
    free(a->taken);
    free(a->numbers);
    free(a->entered);
    limit_release(a->op.limit);
    if (a->cap == KEY_USUAL && f->spare_n < REMOTE_MOST) {
        a->next = f->spare;
        f->spare = a;
        f->spare_n++;
    } else {
        memory_shrink(&w->server->memory, MEMORY_REMOTE, sizeof *a + a->cap + MEMORY_PIECE);
        free(a);
    }
}

/* ---- Beginning and ending -------------------------------------------------------------------- */

static void remote_count(struct remote_request *a, int more)
{
    struct worker *w = a->pipeline->worker;
    const unsigned n = atomic_load_explicit(&w->remote_pending, memory_order_relaxed);

    atomic_store_explicit(&w->remote_pending, n + (unsigned)more, memory_order_relaxed);
    w->remote_bytes += more > 0 ? a->key_bytes : -a->key_bytes;
}

/* One part of it has its result. */
static void remote_request_advance(struct remote_request *a, int error)
{
    if (a->error == 0)
        a->error = error;
    if (--a->left > 0)
        return;
    remote_count(a, -1);
    a->done(a);
}

static void remote_decided(struct weir__decision *decision)
{
    remote_request_advance((struct remote_request *)decision, decision->error);
}

static void remote_undone(struct weir__undo *undo)
{
    struct remote_request *a = undo->arg;

    a->op.back = undo->back;
    remote_request_advance(a, undo->error);
}

static void remote_decide(struct remote_request *a, const struct weir_request *rq, size_t n,
                          enum weir__verb verb, struct weir__receipt *receipt)
{
    const struct remote_pipeline *l = a->pipeline;

    weir__decision_begin(l->store->engine, l->pipeline, &a->decision, rq, n, a->numbers, verb,
                         worker_now(l->worker, l->store), receipt);
}

/* The last call in each case may end the request and free it. */
static void remote_request_begin_verb(struct remote_request *a)
{
    const struct remote_pipeline *l = a->pipeline;
    struct weir *engine = l->store->engine;
    const struct weir__now at = worker_now(l->worker, l->store);
    struct weir_request rq = op_request(&a->op);

    switch (a->verb) {
    case REMOTE_TAKE: remote_decide(a, &rq, 1, WEIR__TAKE, NULL); return;
    case REMOTE_TAKE_ALL: remote_decide(a, a->all->rq, a->all->n, WEIR__TAKE_ALL, NULL); return;
    case REMOTE_RESERVE: remote_decide(a, &rq, 1, WEIR__TAKE_ALL, &a->receipt); return;
    case REMOTE_ENTER: remote_decide(a, &rq, 1, WEIR__ENTER, &a->receipt); return;
    case REMOTE_PEEK: remote_decide(a, &rq, 1, WEIR__PEEK, &a->receipt); return;
    case REMOTE_CHARGE: remote_decide(a, &rq, 1, WEIR__CHARGE, NULL); return;
    case REMOTE_REFUND: weir__undo_refund(engine, l->pipeline, &a->undo, &rq, at); return;
    case REMOTE_REFUND_AND_PEEK:
        weir__undo_refund(engine, l->pipeline, &a->undo, &rq, at);
        rq.cost = 0;
        remote_decide(a, &rq, 1, WEIR__PEEK, NULL);
        return;
    case REMOTE_RESET: weir__undo_reset(engine, l->pipeline, &a->undo, &rq, at); return;
    case REMOTE_EXIT:
        weir__undo_exit(engine, l->pipeline, &a->undo, a->entered, a->how, at);
        return;
    case REMOTE_CANCEL:
    case REMOTE_WITHDRAW:
        weir__undo_cancel(engine, l->pipeline, &a->undo, a->taken, a->verb == REMOTE_WITHDRAW, at);
        return;
    }
}

static void remote_request_begin(struct remote_request *a)
{
    struct remote_pipeline *l = a->pipeline;

    a->decision.done = remote_decided;
    a->undo.done = remote_undone;
    a->undo.arg = a;
    a->left = a->verb == REMOTE_REFUND_AND_PEEK ? 2 : 1;
    l->due = true;
    remote_count(a, 1);
    remote_request_begin_verb(a);
    if (++l->unsent >= REMOTE_TOGETHER) { /* the store can work while we go on reading */
        l->unsent = 0;
        weir__pipeline_flush(l->pipeline);
    }
}

static bool remote_may_begin(const struct remote_request *a)
{
    return !remote_is_full(a->pipeline->worker) && !weir__pipeline_is_paused(a->pipeline->pipeline);
}

void remote_request_submit(struct remote_request *a)
{
    struct remote_stores *f = a->pipeline->worker->remote;

    if (!f->queue_first && remote_may_begin(a)) {
        remote_request_begin(a);
        return;
    }
    a->queued = true;
    a->prev = f->queue_last;
    *(a->prev ? &a->prev->next : &f->queue_first) = a;
    f->queue_last = a;
}

static void remote_queue_remove(struct remote_request *a)
{
    struct remote_stores *f = a->pipeline->worker->remote;

    *(a->prev ? &a->prev->next : &f->queue_first) = a->next;
    *(a->next ? &a->next->prev : &f->queue_last) = a->prev;
    a->queued = false;
}

bool remote_queue_can_resume(const struct worker *w)
{
    return w->remote->queue_first && remote_may_begin(w->remote->queue_first);
}

void remote_queue_resume(struct worker *w, bool all)
{
    struct remote_stores *f = w->remote;

    while (f->queue_first && (all || remote_may_begin(f->queue_first))) {
        struct remote_request *a = f->queue_first;

        remote_queue_remove(a);
        remote_request_begin(a);
    }
}

/* ---- Requests that are answered by themselves ------------------------------------------------ */

/* The operation as its reply function wants it: of several limits, the one that refused. */
static struct limit_op remote_replied_op(const struct remote_request *a, struct op_all *all)
{
    struct limit_op op = a->op;
    int named;

    if (a->verb != REMOTE_TAKE_ALL)
        return op;
    named = a->error ? -1 : batch_named(&a->op, a->all->n, &a->decision.verdict);
    *all = (struct op_all){a->all->n, a->all->limit, a->all->rq};
    op.all = !a->error && all->n > 1 ? all : NULL;
    op.limit = NULL;
    if (named >= 0) {
        op.limit = a->all->limit[named];
        op.key = (struct weir__slice){a->all->rq[named].key, a->all->rq[named].key_len};
        op.cost = a->all->rq[named].cost;
    }
    return op;
}

static void remote_request_reply(struct conn *c, const struct remote_request *a)
{
    struct op_all all;
    const struct limit_op op = remote_replied_op(a, &all);

    if (a->verb == REMOTE_TAKE_ALL)
        batch_tally_all(a->pipeline->worker, a->all->limit, a->all->n, a->error,
                        &a->decision.verdict);
    if (a->verb == REMOTE_EXIT && a->arg)
        ticket_exit_answered(a->pipeline->worker, a->arg, a->entered, a->error);
    if (a->verb == REMOTE_TAKE)
        batch_tally(a->pipeline->worker, &op, a->error, &a->decision.verdict);
    if (c)
        op.reply(c, &op, a->error, a->error ? NULL : &a->decision.verdict);
}

/* Called by the pipeline when it runs; or before the request has its place, while it is being
 * begun. */
static void remote_request_replied(struct remote_request *a)
{
    struct conn *c = a->place.conn;

    if (!a->place.segment) {
        a->over = true;
        return;
    }
    if (c)
        awaited_fill(&a->place);
    remote_request_reply(c, a);
    if (c) {
        out_aim(c, NULL);
        conn_push_later(c);
    }
    remote_request_free(a);
}

/* The connection has closed. What is given back must still reach the store. */
static void remote_request_left(struct awaited_reply *place)
{
    struct remote_request *a =
        (struct remote_request *)(void *)((char *)place - offsetof(struct remote_request, place));

    if (!a->queued || a->verb == REMOTE_CANCEL || a->verb == REMOTE_EXIT)
        return;
    remote_queue_remove(a);
    remote_request_free(a);
}

/* Replies now, or keeps a place for the reply. */
static void remote_run_request(struct conn *c, struct remote_request *a)
{
    a->done = remote_request_replied;
    a->place.left = remote_request_left;
    remote_request_submit(a);
    if (!a->over) {
        awaited_add(c, &a->place);
        return;
    }
    remote_request_reply(c, a);
    remote_request_free(a);
}

static enum remote_verb remote_verb_of(const struct limit_op *op)
{
    switch (op->verb) {
    case OP_TAKE: return REMOTE_TAKE;
    case OP_PEEK: return REMOTE_PEEK;
    case OP_CHARGE: return REMOTE_CHARGE;
    case OP_REFUND: return REMOTE_REFUND;
    case OP_REFUND_AND_PEEK: return REMOTE_REFUND_AND_PEEK;
    case OP_ENTER: /* has a way of its own */
    case OP_RESET: break;
    }
    return REMOTE_RESET;
}

/* The request keeps a copy of the terms that there are. */
static bool remote_keep_numbers(struct remote_request *a, const struct weir_limit *numbers)
{
    const size_t bytes =
        offsetof(struct weir_limit, term) + (size_t)numbers->n * sizeof numbers->term[0];

    a->op.numbers = a->numbers = malloc(bytes);
    if (a->numbers)
        memcpy(a->numbers, numbers, bytes);
    return a->numbers != NULL;
}

void remote_run(struct conn *c, const struct limit_op *op)
{
    struct remote_request *a = remote_request_make(c->worker, remote_verb_of(op), op);

    if (a && (!op->numbers || remote_keep_numbers(a, op->numbers))) {
        remote_run_request(c, a);
        return;
    }
    if (a)
        remote_request_free(a);
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
    struct remote_request *a = remote_request_make(c->worker, REMOTE_TAKE_ALL, op);

    if (a)
        a->all = remote_all_make(op, n, &a->key_bytes);
    if (a && a->all) {
        remote_run_request(c, a);
        return;
    }
    if (a)
        remote_request_free(a);
    op->reply(c, op, WEIR_ENOMEM, NULL);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

static struct remote_request *remote_cancel_make(struct worker *w, enum remote_verb verb,
                                                 const struct limit_op *op,
                                                 const struct weir_reservation *taken)
{
    struct remote_request *a = remote_request_make(w, verb, op);

    if (!a)
        return NULL;
    a->taken = malloc(sizeof *a->taken);
    if (!a->taken) {
        remote_request_free(a);
        return NULL;
    }
    *a->taken = *taken;
    return a;
}

void remote_cancel(struct conn *c, const struct limit_op *op, const struct weir_reservation *taken)
{
    struct remote_request *a = remote_cancel_make(c->worker, REMOTE_CANCEL, op, taken);

    if (a)
        remote_run_request(c, a);
    else
        op->reply(c, op, WEIR_ENOMEM, NULL);
}

void remote_give_back(struct worker *w, const struct limit *limit,
                      const struct weir_reservation *taken, bool withdraw)
{
    const struct limit_op op = {.limit = limit};
    struct remote_request *a =
        remote_cancel_make(w, withdraw ? REMOTE_WITHDRAW : REMOTE_CANCEL, &op, taken);

    if (!a)
        return; /* it stays taken */
    a->done = remote_request_free;
    if (!w->remote->steps) {
        remote_request_submit(a);
        return;
    }
    a->next = w->remote->late;
    w->remote->late = a;
}

/* A reservation returns only what no later one depends on: so those whose grants came together are
 * given back in the reverse of their order. */
void remote_late_resume(struct worker *w)
{
    while (w->remote->late) {
        struct remote_request *a = w->remote->late;

        w->remote->late = a->next;
        a->next = NULL;
        remote_request_submit(a);
    }
}

/* ---- Exiting --------------------------------------------------------------------------------- */

static struct remote_request *remote_exit_make(struct worker *w, const struct limit_op *op,
                                               const struct weir_ticket *entered,
                                               enum weir_outcome how)
{
    struct remote_request *a = remote_request_make(w, REMOTE_EXIT, op);

    if (a)
        a->entered = malloc(sizeof *a->entered);
    if (a && !a->entered) {
        remote_request_free(a);
        return NULL;
    }
    if (a) {
        *a->entered = *entered;
        a->how = how;
        a->arg = op->ticket;
    }
    return a;
}

/* No client waits for the reply. */
static void remote_exit_done(struct remote_request *a)
{
    remote_request_reply(NULL, a);
    remote_request_free(a);
}

void remote_exit(struct worker *w, struct conn *c, const struct limit_op *op,
                 const struct weir_ticket *entered, enum weir_outcome how)
{
    struct remote_request *a = remote_exit_make(w, op, entered, how);

    if (!a) {
        if (op->ticket)
            ticket_exit_answered(w, op->ticket, entered, WEIR_ENOMEM);
        if (c)
            op->reply(c, op, WEIR_ENOMEM, NULL);
        return;
    }
    if (c) {
        remote_run_request(c, a);
        return;
    }
    a->done = remote_exit_done;
    remote_request_submit(a);
}

void remote_leave(struct worker *w, const struct limit *limit, const struct weir_ticket *entered)
{
    const struct limit_op op = {.limit = limit};

    if (entered->n > 0)
        remote_exit(w, NULL, &op, entered, WEIR_IGNORE);
}

/* ---- Questions of waiters -------------------------------------------------------------------- */

static void remote_question_answered(struct remote_request *a)
{
    struct remote_question *q = a->arg;

    q->error = a->error;
    q->verdict = a->decision.verdict;
    q->full = a->receipt.full;
    q->queue = a->receipt.wait;
    if (q->under_way)
        q->answered(q);
    else
        a->over = true; /* remote_ask has not returned yet */
    if (!a->over)
        remote_request_free(a);
}

bool remote_ask(struct worker *w, const struct limit_op *op, struct weir_reservation *reservation,
                struct weir_ticket *entered, struct remote_question *q)
{
    struct remote_request *a = remote_request_make(w,
                                                   reservation ? REMOTE_RESERVE
                                                   : entered   ? REMOTE_ENTER
                                                               : REMOTE_PEEK,
                                                   op);

    q->under_way = false;
    if (!a) {
        q->error = WEIR_ENOMEM;
        return true;
    }
    a->receipt.reservation = reservation;
    a->receipt.ticket = entered;
    a->done = remote_question_answered;
    a->arg = q;
    remote_request_submit(a);
    q->request = a;
    q->under_way = !a->over;
    if (a->over)
        remote_request_free(a);
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
