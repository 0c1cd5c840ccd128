/* Takes gathered to be decided together.
 *
 * A pipeline of takes is a row of trips to memory that do not depend on each other: gathered, they
 * overlap (weir_take_many). Everything that is not a take settles first, so that answers come in the
 * order of the questions, and so that a question sees what those before it did. Those that are decided
 * together are in one store; the first that is in another one settles those before it.
 */
#include "engine/unlisted.h"
#include "server/inside.h"

static struct weir_request request_of(const struct question *q)
{
    return (struct weir_request){.policy = q->limit->policy,
                                 .key = q->key.at,
                                 .key_len = q->key.len,
                                 .cost = q->cost,
                                 .patience_ns = q->patience_ns};
}

void ask_tally(struct worker *w, int error, const struct weir_verdict *v)
{
    struct counters *n = &w->counters;

    count(&n->takes, 1);
    count(error ? &n->errors : v->allowed ? &n->allowed : &n->denied, 1);
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

/* ---- The batch --------------------------------------------------------------------------------- */

/* Decides them in order, all in that store. An error is that of one of them: those that were not decided
 * have a limit of -1, and are asked alone. */
static int take(struct conn *c, const struct store *s, const struct weir_request *rq, size_t n,
                struct weir_verdict *v)
{
    for (size_t i = 0; i < n; i++)
        v[i].limit = -1;
    return weir__take_many(s->engine, rq, n, worker_moment(c->worker, s), v);
}

static int take_alone(struct conn *c, const struct store *s, const struct weir_request *rq,
                      struct weir_verdict *v)
{
    return v->limit >= 0 ? 0 : take(c, s, rq, 1, v);
}

static void settle_singly(struct conn *c, struct batch *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int error = take_alone(c, b->store, &b->request[i], &b->verdict[i]);

        ask_tally(c->worker, error, &b->verdict[i]);
        b->question[i].say(c, &b->question[i], error, error ? NULL : &b->verdict[i]);
    }
}

void ask_settle(struct conn *c)
{
    struct batch *b = &c->worker->batch;
    const size_t n = b->n;
    uint64_t allowed = 0;
    struct counters *all = &c->worker->counters;

    if (n == 0)
        return;
    b->n = 0; /* first: who says an error settles what was asked before */
    if (take(c, b->store, b->request, n, b->verdict) != 0) {
        settle_singly(c, b, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        allowed += b->verdict[i].allowed;
        b->question[i].say(c, &b->question[i], 0, &b->verdict[i]);
    }
    count(&all->takes, n);
    count(&all->allowed, allowed);
    count(&all->denied, n - allowed);
}

void ask_take(struct conn *c, const struct question *q)
{
    struct batch *b = &c->worker->batch;

    if (q->holds || q->name.len > 0) {
        ask_settle(c);
        wait_ask(c, q);
        return;
    }
    if (store_of(q->limit)->far) {
        ask_settle(c);
        far_take(c, q);
        return;
    }
    if (b->store != store_of(q->limit))
        ask_settle(c);
    b->store = store_of(q->limit);
    b->question[b->n] = *q;
    b->request[b->n] = request_of(q);
    if (++b->n == BATCH_TAKES)
        ask_settle(c);
}

/* ---- At once ----------------------------------------------------------------------------------- */

/* What comes next is to see all that was taken before. */
static void settle_for(struct conn *c, const struct question *q)
{
    ask_settle(c);
    if (store_of(q->limit)->far)
        far_settle(c->worker, store_of(q->limit));
}

int ask_peek(struct conn *c, const struct question *q, struct weir_verdict *v)
{
    const struct weir_request rq = request_of(q);

    settle_for(c, q);
    if (!q->limit->policy)
        return weir__untouched_peek(store_of(q->limit)->engine, q->limit->parsed, &rq, v);
    return weir_peek(store_of(q->limit)->engine, &rq, v);
}

int ask_refund(struct conn *c, const struct question *q, int64_t *back)
{
    const struct weir_request rq = request_of(q);

    settle_for(c, q);
    if (!q->limit->policy) {
        if (back)
            *back = 0; /* nobody has taken */
        return 0;
    }
    return weir_refund(store_of(q->limit)->engine, &rq, back);
}

int ask_reset(struct conn *c, const struct question *q)
{
    const struct weir_request rq = request_of(q);

    settle_for(c, q);
    if (!q->limit->policy)
        return 0; /* it is as good as new */
    return weir_reset(store_of(q->limit)->engine, &rq);
}

int ask_take_all(struct conn *c, const struct question *q, size_t n, struct weir_verdict *v)
{
    struct weir_request rq[WEIR_TERMS_MAX];
    int error;

    ask_settle(c);
    if (n > WEIR_TERMS_MAX)
        return WEIR_EINVAL;
    for (size_t i = 0; i < n; i++) {
        if (store_of(q[i].limit) != store_of(q[0].limit))
            return WEIR_ESTORE; /* one could not be taken back if the other refuses */
        rq[i] = request_of(&q[i]);
    }
    settle_for(c, q);
    error = weir_take_all(store_of(q[0].limit)->engine, rq, n, v);
    ask_tally(c->worker, error, v);
    return error;
}

/* As many of them as are decided together. */
static size_t take_some(struct conn *c, const struct question *q, size_t n, struct weir_verdict *v,
                        int *error)
{
    const struct store *s = store_of(q->limit);
    struct weir_request rq[BATCH_TAKES];
    size_t some = 0;
    bool all;

    while (some < n && some < BATCH_TAKES && store_of(q[some].limit) == s) {
        rq[some] = request_of(&q[some]);
        some++;
    }
    all = take(c, s, rq, some, v) == 0;
    for (size_t k = 0; k < some; k++) {
        error[k] = all ? 0 : take_alone(c, s, &rq[k], &v[k]);
        ask_tally(c->worker, error[k], &v[k]);
    }
    return some;
}

struct many *ask_take_many(struct conn *c, const struct question *q, size_t n,
                           struct weir_verdict *v, int *error, ask_told *told, void *arg)
{
    bool far = false;

    ask_settle(c);
    for (size_t i = 0; i < n;) {
        const bool here = !store_of(q[i].limit)->far;

        far = far || !here;
        i += here ? take_some(c, q + i, n - i, v + i, error + i) : 1;
    }
    return far ? far_take_many(c->worker, q, n, v, error, told, arg) : NULL;
}
