/* A limiter without keys: its decisions. limiter.h has its structure.
 *
 * The fastest answer is a refusal. A caller that hammers a limit is refused nearly always, and a
 * glance is enough to see that: a due time (algo/due.h) that is further ahead than a precomputed
 * span refuses an event of cost 1. The glance reads no revision, writes nothing and divides
 * nothing. Every request that it does not decide is judged in full.
 *
 * Why the glance is right (limiter.h, invariant 3): the span that was read is in force until the
 * turn changes, and a state that another revision wrote can be read only after that. A zero state,
 * which is valid in every version, is never ahead.
 */
#include "engine/limiter/limiter.h"

#include "algo/due.h"

/* ---- Running an operation ------------------------------------------------------------------ */

static inline bool limiter_same_state(struct weir__state a, struct weir__state b)
{
    return a.fresh_ns == b.fresh_ns && a.word == b.word;
}

/* Judges and swaps until the swap succeeds. False: another limit has come into force. */
static inline bool limiter_run_under(struct weir_limiter *l, struct weir__revision *rev,
                                     weir__limiter_op_run *run, struct weir__limiter_op *op)
{
    struct weir__state before = weir__pair_load(&l->pair);

    while (atomic_load_explicit(&l->lone, memory_order_acquire) == rev) {
        struct weir__state after = before, *state = &after;

        run(rev, &state, op);
        if (limiter_same_state(before, after) || weir__pair_swap(&l->pair, &before, after))
            return true;
    }
    return false;
}

/* False: the limit is not a lone one. */
static inline bool limiter_run_lone(struct weir_limiter *l, weir__limiter_op_run *run,
                                    struct weir__limiter_op *op)
{
    struct weir__revision *rev;

    weir__rcu_enter();
    do
        rev = atomic_load_explicit(&l->lone, memory_order_acquire);
    while (rev && !limiter_run_under(l, rev, run, op));
    weir__rcu_exit();
    return rev != NULL;
}

/* False: the limit is a lone one. */
static bool limiter_run_locked(struct weir_limiter *l, weir__limiter_op_run *run,
                               struct weir__limiter_op *op)
{
    bool is_lone;

    (void)weir__lock_take(&l->lock, &weir__owner_process); /* this owner never gives up */
    is_lone = atomic_load_explicit(&l->lone, memory_order_relaxed) != NULL;
    if (!is_lone)
        run(l->revision, l->state, op);
    weir__lock_drop(&l->lock);
    return !is_lone;
}

static inline void limiter_run_inline(struct weir_limiter *l, weir__limiter_op_run *run,
                                      struct weir__limiter_op *op)
{
    while (!limiter_run_lone(l, run, op) && !limiter_run_locked(l, run, op))
        continue; /* a change between the two kinds came in between */
}

void weir__limiter_run(struct weir_limiter *l, weir__limiter_op_run *run,
                       struct weir__limiter_op *op)
{
    limiter_run_inline(l, run, op);
}

/* ---- Operations ---------------------------------------------------------------------------- */

static void limiter_fill_parts(struct weir__part *part, struct weir_verdict *verdict,
                               struct weir__revision *rev, struct weir__state *const *state,
                               const struct weir__limiter_op *x)
{
    for (int i = 0; i < rev->n; i++) {
        struct weir__compiled_term *c = &rev->term[i];

        part[i] = (struct weir__part){
            .meter = &c->meter,
            .state = state[i],
            .attempt = weir__term_attempt(c, x->cost, x->patience_ns, x->at.now_ns, x->at.wall_ns),
            .verdict = verdict ? &verdict[i] : NULL,
        };
    }
}

static void limiter_take_terms(struct weir__revision *rev, struct weir__state *const *state,
                               struct weir__limiter_op *x)
{
    struct weir__part part[WEIR_TERMS_MAX];
    struct weir_verdict verdict[WEIR_TERMS_MAX];

    limiter_fill_parts(part, verdict, rev, state, x);
    weir__decide_take(part, rev->n, x->verdict);
    for (int i = 0; x->promise && x->verdict->allowed && i < rev->n; i++) {
        x->promise[i].taken = verdict[i].allowed; /* a shadow that refuses takes nothing */
        x->promise[i].act_ns = x->at.now_ns + verdict[i].wait_ns;
        x->promise[i].version = rev->term[i].meter.version;
    }
}

void weir__limiter_op_take(struct weir__revision *rev, struct weir__state *const *state,
                           struct weir__limiter_op *x)
{
    struct weir__compiled_term *c = &rev->term[0];
    struct weir__attempt attempt;

    if (!rev->plain || x->promise) {
        limiter_take_terms(rev, state, x);
        return;
    }
    attempt = weir__term_attempt(c, x->cost, x->patience_ns, x->at.now_ns, x->at.wall_ns);
    weir__meter_take(&c->meter, state[0], &attempt, x->verdict);
    x->verdict->which = x->verdict->allowed ? -1 : 0;
}

/* Changes nothing, except that a peek may convert a state to the version in force. */
void weir__limiter_op_peek(struct weir__revision *rev, struct weir__state *const *state,
                           struct weir__limiter_op *x)
{
    struct weir__part part[WEIR_TERMS_MAX];

    limiter_fill_parts(part, NULL, rev, state, x);
    weir__decide_peek(part, rev->n, x->verdict);
}

/* Takes 1 without patience and returns only whether it is allowed: for the buckets, it is
 * weir__due_take without the divisions. */
static void limiter_allow(struct weir__revision *rev, struct weir__state *const *state,
                          struct weir__limiter_op *x)
{
    const struct weir__meter *m = &rev->term[0].meter;
    const struct weir__attempt attempt = {.cost = 1, .now_ns = x->at.now_ns};
    struct weir__due before, after;

    if (!rev->plain || !m->algo->judge ||
        (state[0]->fresh_ns != 0 && weir__state_version(state[0]) != m->version) ||
        state[0]->fresh_ns - attempt.now_ns > m->most_ns || (state[0]->word & m->mark) != 0) {
        weir__limiter_op_take(rev, state, x);
        return;
    }
    before = after = weir__due_load(m, state[0]);
    m->algo->judge(m, &after, &attempt, x->verdict);
    if (after.ns != before.ns || after.rem != before.rem)
        weir__due_store(m, state[0], after);
}

static void limiter_charge(struct weir__revision *rev, struct weir__state *const *state,
                           struct weir__limiter_op *x)
{
    struct weir__part part[WEIR_TERMS_MAX];

    limiter_fill_parts(part, NULL, rev, state, x);
    weir__decide_charge(part, rev->n, x->verdict);
}

static void limiter_refund(struct weir__revision *rev, struct weir__state *const *state,
                           struct weir__limiter_op *x)
{
    x->back = 0;
    for (int i = 0; i < rev->n; i++)
        x->back = weir__max(
            x->back, weir__meter_refund(&rev->term[i].meter, state[i], x->cost, x->at.now_ns));
}

static void limiter_cancel(struct weir__revision *rev, struct weir__state *const *state,
                           struct weir__limiter_op *x)
{
    x->back = 0;
    if (rev->n == 1)
        x->back =
            weir__meter_cancel(&rev->term[0].meter, state[0], x->cost, x->act_ns, x->at.now_ns);
}

static void limiter_reset(struct weir__revision *rev, struct weir__state *const *state,
                          struct weir__limiter_op *x)
{
    (void)x;
    for (int i = 0; i < rev->n; i++)
        weir__state_reset(state[i]);
}

/* ---- The fastest decision ------------------------------------------------------------------ */

static inline bool refused_at_a_glance(const struct weir_limiter *l, int64_t now_ns)
{
    const uint64_t sequence = atomic_load_explicit(&l->glance_seq, memory_order_acquire);
    const int64_t glance_ns = atomic_load_explicit(&l->glance_ns, memory_order_acquire);
    const int64_t most_ns = atomic_load_explicit(&l->glance_most_ns, memory_order_acquire);
    const int64_t fresh_ns = weir__pair_fresh_ns(&l->pair);
    const uint64_t again = atomic_load_explicit(&l->glance_seq, memory_order_relaxed);

    /* Unsigned, because the caller's now may be any number; a time out of range may be refused. */
    const int64_t ahead_ns = (int64_t)((uint64_t)fresh_ns - (uint64_t)now_ns);

    return ahead_ns > glance_ns && ahead_ns <= most_ns && again == sequence;
}

static bool allow_in_full(struct weir_limiter *l, struct weir__limiter_now at)
{
    struct weir_verdict v;
    struct weir__limiter_op x = {.cost = 1, .at = at, .verdict = &v};

    if (!weir__limiter_now_fits(at.now_ns))
        return false;
    weir__pair_expect_swap(&l->pair); /* the glance would have refused: a grant is likely */
    limiter_run_inline(l, limiter_allow, &x);
    return v.allowed;
}

/* Not inlined, so that the glance needs no stack frame. */
static __attribute__((noinline)) bool allow_by_the_clock(struct weir_limiter *l, int64_t now_ns)
{
    return allow_in_full(l, (struct weir__limiter_now){now_ns, weir__clock_wall(now_ns)});
}

static __attribute__((noinline)) bool allow_slowly(struct weir_limiter *l)
{
    return allow_by_the_clock(l, weir__clock_now());
}

bool weir_limiter_allow(struct weir_limiter *l)
{
    int64_t now;

    if (__builtin_expect(!weir__clock_try(&now), 0))
        return allow_slowly(l);
    return !refused_at_a_glance(l, now) && allow_by_the_clock(l, now);
}

bool weir_limiter_allow_at(struct weir_limiter *l, int64_t now_ns)
{
    return !refused_at_a_glance(l, now_ns) && allow_in_full(l, weir__limiter_now_at(now_ns));
}

/* ---- The other calls ----------------------------------------------------------------------- */

static bool limiter_request_fits(int64_t cost, int64_t patience_ns, int64_t now_ns)
{
    return cost >= 0 && patience_ns >= WEIR_WAIT_DEFAULT && weir__limiter_now_fits(now_ns);
}

static inline int limiter_decide(struct weir_limiter *l, weir__limiter_op_run *run, int64_t cost,
                                 int64_t patience_ns, struct weir__limiter_now at,
                                 struct weir_verdict *v)
{
    struct weir__limiter_op x = {.cost = cost, .patience_ns = patience_ns, .at = at, .verdict = v};

    if (!limiter_request_fits(cost, patience_ns, at.now_ns))
        return WEIR_EINVAL;
    limiter_run_inline(l, run, &x);
    return 0;
}

int weir_limiter_take(struct weir_limiter *l, int64_t cost, int64_t patience_ns,
                      struct weir_verdict *v)
{
    return limiter_decide(l, weir__limiter_op_take, cost, patience_ns, weir__limiter_now_read(), v);
}

int weir_limiter_take_at(struct weir_limiter *l, int64_t cost, int64_t patience_ns, int64_t now_ns,
                         struct weir_verdict *v)
{
    return limiter_decide(l, weir__limiter_op_take, cost, patience_ns, weir__limiter_now_at(now_ns),
                          v);
}

int weir_limiter_peek(struct weir_limiter *l, int64_t cost, int64_t patience_ns,
                      struct weir_verdict *v)
{
    return limiter_decide(l, weir__limiter_op_peek, cost, patience_ns, weir__limiter_now_read(), v);
}

int weir_limiter_peek_at(struct weir_limiter *l, int64_t cost, int64_t patience_ns, int64_t now_ns,
                         struct weir_verdict *v)
{
    return limiter_decide(l, weir__limiter_op_peek, cost, patience_ns, weir__limiter_now_at(now_ns),
                          v);
}

int weir_limiter_charge(struct weir_limiter *l, int64_t cost, struct weir_verdict *v)
{
    return limiter_decide(l, limiter_charge, cost, 0, weir__limiter_now_read(), v);
}

int weir_limiter_charge_at(struct weir_limiter *l, int64_t cost, int64_t now_ns,
                           struct weir_verdict *v)
{
    return limiter_decide(l, limiter_charge, cost, 0, weir__limiter_now_at(now_ns), v);
}

/* Undoes a charge, and wakes the first waiter, which may now pass sooner. */
static int limiter_undo(struct weir_limiter *l, weir__limiter_op_run *run,
                        struct weir__limiter_op *x, int64_t *back)
{
    if (!limiter_request_fits(x->cost, 0, x->at.now_ns))
        return WEIR_EINVAL;
    weir__limiter_run(l, run, x);
    if (x->back > 0)
        weir__wait_list_wake(&l->waiters, 0);
    if (back)
        *back = x->back;
    return 0;
}

int weir_limiter_refund_at(struct weir_limiter *l, int64_t cost, int64_t now_ns, int64_t *back)
{
    struct weir__limiter_op x = {.cost = cost, .at = weir__limiter_now_at(now_ns)};

    return limiter_undo(l, limiter_refund, &x, back);
}

int weir_limiter_refund(struct weir_limiter *l, int64_t cost, int64_t *back)
{
    return weir_limiter_refund_at(l, cost, weir__clock_now(), back);
}

int weir_limiter_cancel_at(struct weir_limiter *l, int64_t cost, int64_t act_ns, int64_t now_ns,
                           int64_t *back)
{
    struct weir__limiter_op x = {
        .cost = cost, .act_ns = act_ns, .at = weir__limiter_now_at(now_ns)};

    return limiter_undo(l, limiter_cancel, &x, back);
}

int weir_limiter_cancel(struct weir_limiter *l, int64_t cost, int64_t act_ns, int64_t *back)
{
    return weir_limiter_cancel_at(l, cost, act_ns, weir__clock_now(), back);
}

void weir_limiter_reset(struct weir_limiter *l)
{
    struct weir__limiter_op x = {0};

    (void)atomic_fetch_add(&l->resets,
                           1); /* first, so that old promises are not given back to fresh states */
    weir__limiter_run(l, limiter_reset, &x);
    weir__wait_list_wake(&l->waiters, 0);
}
