/* Takes gathered to be decided together.
 *
 * A pipeline of takes is a series of accesses to memory that do not depend on each other: gathered,
 * they overlap (weir_take_many). Every command that is not a take flushes the batch first, so that
 * replies come in the order of the commands, and so that each command sees the effect of those
 * before it. The takes of one flush are in one store; the first take from another store flushes
 * those before it.
 */
#include "engine/embed.h"
#include "server/internal.h"

static struct weir_request batch_request(const struct limit_op *op)
{
    return (struct weir_request){.policy = op->limit->policy,
                                 .key = op->key.at,
                                 .key_len = op->key.len,
                                 .cost = op->cost,
                                 .patience_ns = op->patience_ns};
}

void batch_tally(struct worker *w, int error, const struct weir_verdict *v)
{
    struct counters *n = &w->counters;

    counter_add(&n->takes, 1);
    counter_add(error ? &n->errors : v->allowed ? &n->allowed : &n->denied, 1);
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

        batch_tally(c->worker, error, &b->verdict[i]);
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
        allowed += b->verdict[i].allowed;
        b->op[i].reply(c, &b->op[i], 0, &b->verdict[i]);
    }
    counter_add(&all->takes, n);
    counter_add(&all->allowed, allowed);
    counter_add(&all->denied, n - allowed);
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
        remote_take_one(c, op);
        return;
    }
    if (b->store != store_of(op->limit))
        batch_flush(c);
    b->store = store_of(op->limit);
    b->op[b->n] = *op;
    b->request[b->n] = batch_request(op);
    if (++b->n == BATCH_TAKES)
        batch_flush(c);
}

/* ---- At once --------------------------------------------------------------------------------- */

/* The next operation must see every take before it. */
static void batch_flush_for(struct conn *c, const struct limit_op *op)
{
    batch_flush(c);
    if (store_of(op->limit)->remote)
        remote_sync(c->worker, store_of(op->limit));
}

int batch_peek(struct conn *c, const struct limit_op *op, struct weir_verdict *v)
{
    const struct weir_request rq = batch_request(op);

    batch_flush_for(c, op);
    if (!op->limit->policy)
        return weir__untouched_peek(store_of(op->limit)->engine, op->limit->parsed, &rq, v);
    return weir_peek(store_of(op->limit)->engine, &rq, v);
}

int batch_refund(struct conn *c, const struct limit_op *op, int64_t *back)
{
    const struct weir_request rq = batch_request(op);

    batch_flush_for(c, op);
    if (!op->limit->policy) {
        if (back)
            *back = 0; /* no caller has taken anything */
        return 0;
    }
    return weir_refund(store_of(op->limit)->engine, &rq, back);
}

int batch_reset(struct conn *c, const struct limit_op *op)
{
    const struct weir_request rq = batch_request(op);

    batch_flush_for(c, op);
    if (!op->limit->policy)
        return 0; /* the key is fresh */
    return weir_reset(store_of(op->limit)->engine, &rq);
}

int batch_take_all(struct conn *c, const struct limit_op *op, size_t n, struct weir_verdict *v)
{
    struct weir_request rq[WEIR_TERMS_MAX];
    int error;

    batch_flush(c);
    if (n > WEIR_TERMS_MAX)
        return WEIR_EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (store_of(op[i].limit) != store_of(op[0].limit))
            return WEIR_ESTORE; /* one store could not take its charge back if the other refused */
        rq[i] = batch_request(&op[i]);
    }
    batch_flush_for(c, op);
    error = weir_take_all(store_of(op[0].limit)->engine, rq, n, v);
    batch_tally(c->worker, error, v);
    return error;
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
        rq[some] = batch_request(&op[some]);
        some++;
    }
    all = batch_take(c, s, rq, some, v) == 0;
    for (size_t k = 0; k < some; k++) {
        error[k] = all ? 0 : batch_take_alone(c, s, &rq[k], &v[k]);
        batch_tally(c->worker, error[k], &v[k]);
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
