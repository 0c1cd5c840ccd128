/* Takes gathered to be decided together.
 *
 * A pipeline of takes is a series of accesses to memory that do not depend on each other: gathered,
 * they overlap (weir_take_many). Every command that is not a take flushes the batch first, so that
 * replies come in the order of the commands, and so that each command sees the effect of those
 * before it. The takes of one flush are in one store; the first take from another store flushes
 * those before it.
 */
#include <string.h>

#include "engine/embed.h"
#include "server/account/account.h"
#include "server/internal.h"

void op_keep_text(struct limit_op *op, char *text)
{
    if (op->key.len > 0)
        memcpy(text, op->key.at, op->key.len);
    if (op->name.len > 0)
        memcpy(text + op->key.len, op->name.at, op->name.len);
    op->key.at = text;
    op->name.at = text + op->key.len;
}

static void tally_shadow(struct worker *w, const struct limit *l)
{
    counter_add(&w->counters.shadow_denied, 1);
    limit_count_shadow(l);
}

/* Counts what a limit answered. */
static void tally_limit(struct worker *w, const struct limit *l, const struct weir_verdict *v)
{
    tally_verdict(w->tally, tally_slot_of(l), v);
    if (!v->allowed || v->shadow > 0)
        limit_note_refusal(l, v);
}

/* A decision of one limit, or of several that granted (NULL). */
static void tally_totals(struct worker *w, const struct limit *l, int error,
                         const struct weir_verdict *v)
{
    struct counters *n = &w->counters;

    counter_add(&n->takes, 1);
    if (error) /* its reply is counted among the errors */
        return;
    counter_add(v->allowed ? &n->allowed : &n->denied, 1);
    if (v->shadow > 0)
        tally_shadow(w, l);
}

void batch_tally(struct worker *w, const struct limit_op *op, int error,
                 const struct weir_verdict *v)
{
    tally_totals(w, op->limit, error, v);
    if (error) {
        tally_error(w->tally, tally_slot_of(op->limit));
        return;
    }
    tally_limit(w, op->limit, v);
    if (v->warned > 0)
        warned_note(w, op);
}

void batch_tally_all(struct worker *w, const struct limit *const *l, size_t n, int error,
                     const struct weir_verdict *v)
{
    const int named = error ? -1 : v->which >= 0 ? v->which : v->shadow - 1;
    const struct weir_verdict granted = {.allowed = true, .reason = WEIR_OK};

    tally_totals(w, named >= 0 && (size_t)named < n ? l[named] : NULL, error, v);
    for (size_t i = 0; i < n; i++) {
        if (error)
            tally_error(w->tally, tally_slot_of(l[i]));
        else if ((int)i == named)
            tally_limit(w, l[i], v);
        else if (v->allowed)
            tally_verdict(w->tally, tally_slot_of(l[i]), &granted);
    }
}

bool wire_patience(struct weir__slice word, int64_t *ns)
{
    int64_t ms;

    if (weir__slice_is(word, "forever") || weir__slice_is(word, "FOREVER")) {
        *ns = WEIR_FOREVER;
        return true;
    }
    if (weir__parse_int(word, &ms) == WEIR__NUMBER_OK && ms <= WEIR_FOREVER / WEIR__NS_PER_MS) {
        *ns = ms * WEIR__NS_PER_MS;
        return true;
    }
    return weir__parse_duration(word, ns) == WEIR__NUMBER_OK;
}

/* ---- The batch ------------------------------------------------------------------------------- */

struct weir__now worker_now(struct worker *w, const struct store *s)
{
    if (w->read_in[s->index] != w->wake_up) {
        w->now[s->index] = weir__now_of(s->engine);
        w->read_in[s->index] = w->wake_up;
    }
    return w->now[s->index];
}

/* Decides the operations in order, all in that store. An error belongs to one of them: the
 * operations that were not decided have a limit of -1, and are decided alone. */
static int batch_take(struct conn *c, const struct store *s, const struct weir_request *rq,
                      size_t n, struct weir_verdict *v)
{
    for (size_t i = 0; i < n; i++)
        v[i].limit = -1;
    return weir__take_many(s->engine, rq, n, worker_now(c->worker, s), v);
}

static int batch_take_alone(struct conn *c, const struct store *s, const struct weir_request *rq,
                            struct weir_verdict *v)
{
    return v->limit >= 0 ? 0 : batch_take(c, s, rq, 1, v);
}

static void batch_flush_singly(struct conn *c, struct batch *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int error = batch_take_alone(c, b->store, &b->request[i], &b->verdict[i]);

        batch_tally(c->worker, &b->op[i], error, &b->verdict[i]);
        b->op[i].reply(c, &b->op[i], error, error ? NULL : &b->verdict[i]);
    }
}

void batch_flush(struct conn *c)
{
    struct batch *b = &c->worker->batch;
    const size_t n = b->n;
    uint64_t allowed = 0;
    struct counters *all = &c->worker->counters;

    if (n == 0)
        return;
    b->n = 0; /* first: a reply function that reports an error flushes the batch again */
    if (batch_take(c, b->store, b->request, n, b->verdict) != 0) {
        batch_flush_singly(c, b, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const struct weir_verdict *v = &b->verdict[i];
        const struct limit *l = b->op[i].limit;

        allowed += v->allowed;
        tally_verdict(c->worker->tally, tally_slot_of(l), v);
        if (!v->allowed || v->shadow > 0)
            limit_note_refusal(l, v);
        if (v->shadow > 0)
            tally_shadow(c->worker, l);
        if (v->warned > 0)
            warned_note(c->worker, &b->op[i]);
        b->op[i].reply(c, &b->op[i], 0, v);
    }
    counter_add(&all->takes, n);
    counter_add(&all->allowed, allowed);
    counter_add(&all->denied, n - allowed);
}

/* With numbers of its own, in the daemon's memory. */
static int batch_decide_by(struct conn *c, const struct limit_op *op, struct weir_verdict *v)
{
    const struct store *s = store_of(op->limit);
    const struct weir_request rq = op_request(op);

    return weir__decide_by(s->engine, &rq, op->numbers,
                           op->verb == OP_PEEK ? WEIR__PEEK : WEIR__TAKE, worker_now(c->worker, s),
                           v);
}

static void batch_take_by(struct conn *c, const struct limit_op *op)
{
    struct weir_verdict v = {.which = -1};
    const int error = batch_decide_by(c, op, &v);

    batch_tally(c->worker, op, error, &v);
    op->reply(c, op, error, error ? NULL : &v);
}

void batch_add(struct conn *c, const struct limit_op *op)
{
    struct batch *b = &c->worker->batch;

    if (op->delayed || op->name.len > 0) {
        batch_flush(c);
        delayed_take(c, op);
        return;
    }
    if (store_of(op->limit)->remote) {
        batch_flush(c);
        remote_run(c, op);
        return;
    }
    if (op->numbers) {
        batch_flush(c);
        batch_take_by(c, op);
        return;
    }
    if (b->store != store_of(op->limit))
        batch_flush(c);
    b->store = store_of(op->limit);
    b->op[b->n] = *op;
    b->request[b->n] = op_request(op);
    if (++b->n == BATCH_TAKES)
        batch_flush(c);
}

/* ---- One by one ------------------------------------------------------------------------------ */

/* A literal that a client only looks at has no policy until a client takes from it. */
static int batch_run_untouched(const struct limit_op *op, const struct weir_request *rq,
                               struct weir_verdict *v)
{
    if (op->verb == OP_PEEK || op->verb == OP_REFUND_AND_PEEK)
        return weir__untouched_peek(store_of(op->limit)->engine, op->limit->parsed, rq, v);
    return 0; /* the key is fresh: there is nothing to give back */
}

static int batch_run_verb(struct limit_op *op, struct weir_request *rq, struct weir_verdict *v)
{
    struct weir *w = store_of(op->limit)->engine;
    int error;

    switch (op->verb) {
    case OP_TAKE: return weir_take(w, rq, v);
    case OP_PEEK: return weir_peek(w, rq, v);
    case OP_CHARGE: return weir_charge(w, rq, v);
    case OP_REFUND: return weir_refund(w, rq, &op->back);
    case OP_REFUND_AND_PEEK:
        error = weir_refund(w, rq, &op->back);
        rq->cost = 0;
        return error ? error : weir_peek(w, rq, v);
    case OP_RESET: return weir_reset(w, rq);
    case OP_ENTER: break; /* has a way of its own */
    case OP_RESERVE:
        return weir_account_reserve(
            w, rq, op->ttl_ns, op->lapses_free ? WEIR_LAPSE_FREE : WEIR_LAPSE_KEEP, &op->id, v);
    case OP_COMMIT: return weir_account_commit(w, rq, op->id, v);
    case OP_CANCEL: return weir_account_cancel(w, rq, op->id, &op->back);
    }
    return WEIR_EINVAL;
}

bool batch_admits(struct conn *c, const struct limit_op *op)
{
    return op->verb != OP_RESERVE || account_admits(c, op, weir_now(c->worker->server->engine));
}

void batch_note_account(struct worker *w, struct conn *c, const struct limit_op *op, int64_t ttl_ns,
                        int error, const struct weir_verdict *v)
{
    switch (op->verb) {
    case OP_RESERVE:
        batch_tally(w, op, error, v);
        if (!error && op->id)
            account_enter(c, op, weir__add_sat(weir_now(w->server->engine), ttl_ns));
        return;
    case OP_COMMIT:
    case OP_CANCEL:
        if (!error) /* otherwise the number may be of another key, and open */
            account_leave(w->server, op->id);
        return;
    case OP_TAKE:
    case OP_PEEK:
    case OP_CHARGE:
    case OP_REFUND:
    case OP_REFUND_AND_PEEK:
    case OP_ENTER:
    case OP_RESET: return;
    }
}

void batch_run(struct conn *c, const struct limit_op *op)
{
    struct weir_request rq = op_request(op);
    struct weir_verdict v = {.which = -1};
    struct limit_op one = *op;
    int error;

    batch_flush(c);
    if (!batch_admits(c, op)) {
        op->reply(c, op, WEIR_EFULL, NULL);
        return;
    }
    if (op->limit->policy && store_of(op->limit)->remote) {
        remote_run(c, op);
        return;
    }
    if (op->verb == OP_REFUND_AND_PEEK && !op->limit->policy)
        rq.cost = 0;
    error = op->numbers         ? batch_decide_by(c, op, &v)
            : op->limit->policy ? batch_run_verb(&one, &rq, &v)
                                : batch_run_untouched(op, &rq, &v);
    if (!error && v.warned > 0 && op->verb == OP_CHARGE)
        warned_note(c->worker, op);
    batch_note_account(c->worker, c, &one, op->ttl_ns, error, &v);
    one.reply(c, &one, error, error ? NULL : &v);
}

int batch_named(const struct limit_op *op, size_t n, const struct weir_verdict *v)
{
    const int named = v->which >= 0 ? v->which : v->shadow - 1;

    if (named >= 0)
        return (size_t)named < n ? named : -1;
    return op->names_lone && n == 1 ? 0 : -1;
}

/* Replies about the limit that refused, or whose shadow would have; none: NULL. */
static void batch_reply_all(struct conn *c, const struct limit_op *op, size_t n, int error,
                            const struct weir_request *rq, const struct weir_verdict *v)
{
    const int named = error ? -1 : batch_named(op, n, v);
    const struct limit *all[WEIR_TERMS_MAX] = {NULL};
    const struct op_all together = {n, all, rq};
    struct limit_op one = *op;

    one.limit = NULL;
    one.all = !error && n > 1 ? &together : NULL;
    if (named >= 0) {
        one.limit = op[named].limit;
        one.key = op[named].key;
        one.cost = op[named].cost;
    }
    for (size_t i = 0; i < n && i < WEIR_TERMS_MAX; i++)
        all[i] = op[i].limit;
    batch_tally_all(c->worker, all, n < WEIR_TERMS_MAX ? n : WEIR_TERMS_MAX, error, v);
    if (!error && v->warned > 0)
        warned_note(c->worker, &op[v->warned - 1]);
    one.reply(c, &one, error, error ? NULL : v);
}

void batch_take_all(struct conn *c, const struct limit_op *op, size_t n)
{
    const struct store *s = store_of(op->limit);
    struct weir_request rq[WEIR_TERMS_MAX];
    struct weir_verdict v;
    int error = n > WEIR_TERMS_MAX ? WEIR_EINVAL : 0;

    batch_flush(c);
    for (size_t i = 0; i < n && !error; i++) {
        if (store_of(op[i].limit) != s)
            error = WEIR_ESTORE; /* one store could not take its charge back if another refused */
        else
            rq[i] = op_request(&op[i]);
    }
    if (!error && s->remote) {
        remote_take_all(c, op, n);
        return;
    }
    if (!error)
        error = weir_take_all(s->engine, rq, n, &v);
    batch_reply_all(c, op, n, error, rq, &v);
}

/* Takes as many of the operations as can be decided together. */
static size_t batch_take_some(struct conn *c, const struct limit_op *op, size_t n,
                              struct weir_verdict *v, int *error)
{
    const struct store *s = store_of(op->limit);
    struct weir_request rq[BATCH_TAKES];
    size_t some = 0;
    bool all;

    while (some < n && some < BATCH_TAKES && store_of(op[some].limit) == s) {
        rq[some] = op_request(&op[some]);
        some++;
    }
    all = batch_take(c, s, rq, some, v) == 0;
    for (size_t k = 0; k < some; k++) {
        error[k] = all ? 0 : batch_take_alone(c, s, &rq[k], &v[k]);
        batch_tally(c->worker, &op[k], error[k], &v[k]);
    }
    return some;
}

struct remote_group *batch_take_many(struct conn *c, const struct limit_op *op, size_t n,
                                     struct weir_verdict *v, int *error, remote_group_done *done,
                                     void *arg)
{
    bool remote = false;

    batch_flush(c);
    for (size_t i = 0; i < n;) {
        const bool here = !store_of(op[i].limit)->remote;

        remote = remote || !here;
        i += here ? batch_take_some(c, op + i, n - i, v + i, error + i) : 1;
    }
    return remote ? remote_take_many(c->worker, op, n, v, error, done, arg) : NULL;
}
