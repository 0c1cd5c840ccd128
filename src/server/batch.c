/* Takes gathered to be decided together.
 *
 * A pipeline of takes is a row of trips to memory that do not depend on each other: gathered, they
 * overlap (weir_take_many). Everything that is not a take settles first, so that answers come in the
 * order of the questions, and so that a question sees what those before it did.
 */
#include "server/inside.h"

static struct weir_request request_of(const struct question *q)
{
    return (struct weir_request){.policy = q->limit->policy,
                                 .key = q->key.at,
                                 .key_len = q->key.len,
                                 .cost = q->cost,
                                 .patience_ns = q->patience_ns};
}

void ask_tally(struct conn *c, int error, const struct weir_verdict *v)
{
    struct counters *n = &c->worker->counters;

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

/* Decides them in order. An error is that of one of them: those that were not decided have a limit of
 * -1, and are asked alone. */
static int take(struct conn *c, const struct weir_request *rq, size_t n, struct weir_verdict *v)
{
    for (size_t i = 0; i < n; i++)
        v[i].limit = -1;
    return weir__take_many(c->worker->server->engine, rq, n, worker_moment(c->worker), v);
}

static int take_alone(struct conn *c, const struct weir_request *rq, struct weir_verdict *v)
{
    return v->limit >= 0 ? 0 : take(c, rq, 1, v);
}

static void settle_singly(struct conn *c, struct batch *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int error = take_alone(c, &b->request[i], &b->verdict[i]);

        ask_tally(c, error, &b->verdict[i]);
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
    if (take(c, b->request, n, b->verdict) != 0) {
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
    b->question[b->n] = *q;
    b->request[b->n] = request_of(q);
    if (++b->n == BATCH_TAKES)
        ask_settle(c);
}

/* ---- At once ----------------------------------------------------------------------------------- */

int ask_peek(struct conn *c, const struct question *q, struct weir_verdict *v)
{
    const struct weir_request rq = request_of(q);

    ask_settle(c);
    return weir_peek(c->worker->server->engine, &rq, v);
}

int ask_refund(struct conn *c, const struct question *q, int64_t *back)
{
    const struct weir_request rq = request_of(q);

    ask_settle(c);
    return weir_refund(c->worker->server->engine, &rq, back);
}

int ask_reset(struct conn *c, const struct question *q)
{
    const struct weir_request rq = request_of(q);

    ask_settle(c);
    return weir_reset(c->worker->server->engine, &rq);
}

int ask_take_all(struct conn *c, const struct question *q, size_t n, struct weir_verdict *v)
{
    struct weir_request rq[WEIR_TERMS_MAX];
    int error;

    ask_settle(c);
    if (n > WEIR_TERMS_MAX)
        return WEIR_EINVAL;
    for (size_t i = 0; i < n; i++)
        rq[i] = request_of(&q[i]);
    error = weir_take_all(c->worker->server->engine, rq, n, v);
    ask_tally(c, error, v);
    return error;
}

void ask_take_many(struct conn *c, const struct question *q, size_t n, struct weir_verdict *v,
                   int *error)
{
    ask_settle(c);
    for (size_t i = 0; i < n; i += BATCH_TAKES) {
        struct weir_request rq[BATCH_TAKES];
        const size_t some = n - i < BATCH_TAKES ? n - i : BATCH_TAKES;
        bool all;

        for (size_t k = 0; k < some; k++)
            rq[k] = request_of(&q[i + k]);
        all = take(c, rq, some, v + i) == 0;
        for (size_t k = 0; k < some; k++) {
            error[i + k] = all ? 0 : take_alone(c, &rq[k], &v[i + k]);
            ask_tally(c, error[i + k], &v[i + k]);
        }
    }
}
