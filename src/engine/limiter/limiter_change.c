/* A limiter without keys: open, close, and changing the limit while it is in use.
 *
 * A change first creates the new revision and the memory for its states; then it quickly puts them
 * in the place of the old ones. A limit is lone (limiter.h) or locked:
 *
 *     lone to lone       publishes the new revision. Decisions under way finish by the old one, and
 *                        the states that they write are converted when they are next used.
 *     lone to locked     publishes no lone revision, waits until no thread decides by the pair any
 *                        more, and moves the state out of it. A caller that comes meanwhile waits
 *                        for the lock.
 *     locked to lone     moves the state to the pair and publishes the revision, under the lock.
 *     locked to locked   moves the states, under the lock.
 *
 * Terms keep their states by position, if the new term can continue from the old one
 * (algo/meter.c).
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "engine/limiter/limiter.h"
#include "os/diag.h"
#include "os/fork.h"

/* ---- The glance ---------------------------------------------------------------------------- */

/* Whether an event of cost 1 passes at once if the due time is ahead_ns ahead. */
static bool passes(const struct weir__meter *m, int64_t ahead_ns)
{
    const struct weir__attempt attempt = {.cost = 1};
    struct weir__due d = {.ns = ahead_ns};
    struct weir_verdict v;

    m->algo->judge(m, &d, &attempt, &v);
    return v.allowed;
}

/* Every bucket refuses once its due time is further ahead than some span. A binary search asks the
 * algorithm itself for that span, so that the glance cannot disagree with it. */
static int64_t furthest_passing(const struct weir__meter *m)
{
    int64_t low = 0, high = WEIR__SPAN_MAX;

    if (!passes(m, low) || passes(m, high))
        return INT64_MAX;
    while (high - low > 1) {
        const int64_t mid = low + (high - low) / 2;

        if (passes(m, mid))
            low = mid;
        else
            high = mid;
    }
    return low;
}

/* The due time is fresh_ns, or less than a nanosecond earlier: hence one more. */
static int64_t glance_of(const struct weir__revision *rev)
{
    const struct weir__meter *m = &rev->term[0].meter;

    if (!rev->plain || !m->algo->judge || m->term.count_denied)
        return INT64_MAX; /* a refusal would change the state, or would not count as one */
    return weir__add_sat(furthest_passing(m), 1);
}

static void end_glance(struct weir_limiter *l)
{
    atomic_store_explicit(&l->glance_ns, INT64_MAX, memory_order_release);
    (void)atomic_fetch_add(&l->glance_seq, 1);
}

/* Only converts a state to the version in force. */
static void limiter_convert(struct weir__revision *rev, struct weir__state *const *state,
                            struct weir__limiter_op *x)
{
    for (int i = 0; i < rev->n; i++)
        if (state[i]->fresh_ns != 0 && weir__state_version(state[i]) != rev->term[i].meter.version)
            weir__meter_bring_up(&rev->term[i].meter, state[i], x->at.now_ns);
}

/* Starts the glance. The revision is published, and no thread judges by another. */
static void begin_glance(struct weir_limiter *l, struct weir__revision *rev,
                         struct weir__limiter_now at)
{
    struct weir__limiter_op look = {.at = at};

    weir__limiter_run(l, limiter_convert, &look);
    atomic_store_explicit(&l->glance_most_ns, rev->term[0].meter.most_ns, memory_order_release);
    atomic_store_explicit(&l->glance_ns, glance_of(rev), memory_order_release);
}

/* ---- States -------------------------------------------------------------------------------- */

static bool is_lone(const struct weir__revision *rev)
{
    return rev->n == 1 && weir__meter_state_size(&rev->term[0].meter) == sizeof(struct weir__state);
}

static size_t state_bytes(const struct weir__revision *rev, int i)
{
    return (weir__meter_state_size(&rev->term[i].meter) + 7) / 8 * 8;
}

/* Allocates zeroed states in one piece, which free(state[0]) frees; none for a lone revision. */
static int states_open(struct weir__state **state, const struct weir__revision *rev)
{
    size_t bytes = 0;
    char *at;

    memset(state, 0, WEIR_TERMS_MAX * sizeof *state);
    if (is_lone(rev))
        return 0;
    for (int i = 0; i < rev->n; i++)
        bytes += state_bytes(rev, i);
    at = calloc(1, bytes);
    if (!at)
        return WEIR_ENOMEM;
    for (int i = 0; i < rev->n; i++) {
        state[i] = (struct weir__state *)(void *)at;
        at += state_bytes(rev, i);
    }
    return 0;
}

/* Moves the states that the terms of rev inherit, by position. */
static void states_move(struct weir__state *const *to, struct weir__state *const *from,
                        const struct weir__revision *rev)
{
    for (int i = 0; i < rev->n; i++)
        if (weir__meter_keeps(&rev->term[i].meter))
            memcpy(to[i], from[i], weir__meter_state_size(&rev->term[i].meter));
}

static void pair_put(struct weir__pair *p, struct weir__state next)
{
    struct weir__state old = weir__pair_load(p);

    while (!weir__pair_swap(p, &old, next))
        continue;
}

/* ---- Taking over --------------------------------------------------------------------------- */

/* One change at a time for all limiters: changes are rare, and a process must not fork in the
 * middle of one. */
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void limiter_before_fork(void)
{
    (void)pthread_mutex_lock(&changing);
}

static void limiter_after_fork(void)
{
    (void)pthread_mutex_unlock(&changing);
}

static void limiter_register_fork(void)
{
    static const struct weir__fork_hooks HOOKS = {limiter_before_fork, limiter_after_fork,
                                                  limiter_after_fork};

    weir__fork_add(&HOOKS);
}

static void replace_lone(struct weir_limiter *l, struct weir__revision *rev)
{
    l->revision = rev;
    atomic_store_explicit(&l->lone, rev, memory_order_release);
    weir__rcu_synchronize();
}

static void pair_to_states(struct weir_limiter *l, struct weir__revision *rev,
                           struct weir__state *const *state)
{
    struct weir__state last, *from = &last;

    atomic_store_explicit(&l->lone, NULL, memory_order_release);
    weir__rcu_synchronize();
    last = weir__pair_load(&l->pair); /* it stays in the pair, but no revision uses it */
    states_move(state, &from, rev);
}

static void states_to_pair(struct weir_limiter *l, struct weir__revision *rev)
{
    struct weir__state first = {0}, *to = &first;

    states_move(&to, l->state, rev);
    pair_put(&l->pair, first);
    atomic_store_explicit(&l->lone, rev, memory_order_release);
}

/* Puts the new revision in force, and returns once no thread decides by the old one. `state` has
 * the new states, and on return the old ones, which the caller frees. The caller holds
 * `changing`. */
static void limiter_take_over(struct weir_limiter *l, struct weir__revision *rev,
                              struct weir__state **state)
{
    const bool was_lone = atomic_load(&l->lone) != NULL;
    struct weir__state *old[WEIR_TERMS_MAX];

    if (was_lone && is_lone(rev)) {
        replace_lone(l, rev);
        return;
    }
    (void)weir__lock_take(&l->lock, &weir__owner_process); /* this owner never gives up */
    if (was_lone)
        pair_to_states(l, rev, state);
    else if (is_lone(rev))
        states_to_pair(l, rev);
    else
        states_move(state, l->state, rev);
    l->revision = rev;
    memcpy(old, l->state, sizeof old);
    memcpy(l->state, state, sizeof l->state);
    weir__lock_drop(&l->lock);
    memcpy(state, old, sizeof old);
}

/* ---- Open, change, close ------------------------------------------------------------------- */

/* Parses a limit and refuses guards: a limiter has no exit, so guards need an engine. */
static int limiter_parse(struct weir_limit *limit, const char *text, struct weir_diag *why)
{
    const int error = text ? weir_limit_parse(limit, text, why)
                           : weir__diag(why, WEIR_EINVAL, "the limit is missing");

    for (int i = 0; !error && i < limit->n; i++)
        if (limit->term[i].algorithm >= WEIR_FIRST_GUARD)
            return weir__diag(why, WEIR_EINVAL,
                              "a limiter does not support the guard '%s': use an engine",
                              weir_algorithm_name(limit->term[i].algorithm));
    return error;
}

int weir_limiter_open(struct weir_limiter **out, const char *text, struct weir_diag *why)
{
    const struct weir__limiter_now at = weir__limiter_now_read();
    struct weir_limiter *l;
    struct weir_limit limit;
    int error = limiter_parse(&limit, text, why);

    if (error)
        return error;
    weir__fork_prepare();
    (void)pthread_once(&once, limiter_register_fork);
    l = aligned_alloc(alignof(struct weir_limiter), sizeof *l);
    if (!l)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    memset(l, 0, sizeof *l);
    error = weir__revision_open(&l->revision, &limit, NULL, at.now_ns, at.wall_ns);
    if (!error)
        error = states_open(l->state, l->revision);
    if (error) {
        weir_limiter_close(l);
        return weir__diag(why, error, "%s", weir_error_text(error));
    }
    end_glance(l);
    if (is_lone(l->revision)) {
        atomic_store(&l->lone, l->revision);
        begin_glance(l, l->revision, at);
    }
    *out = l;
    return 0;
}

void weir_limiter_close(struct weir_limiter *l)
{
    if (!l)
        return;
    weir__revision_close(l->revision);
    free(l->state[0]);
    free(l);
}

/* Equal limits are equal bytes. */
static bool limiter_has_limit(const struct weir_limiter *l, const struct weir_limit *limit)
{
    if (l->revision->n != limit->n)
        return false;
    for (int i = 0; i < limit->n; i++)
        if (memcmp(&l->revision->term[i].meter.term, &limit->term[i], sizeof limit->term[i]) != 0)
            return false;
    return true;
}

/* Creates the revision after the one in force, which does not change. */
static int revision_after(struct weir__revision **out, const struct weir__revision *rev,
                          const struct weir_limit *limit, struct weir__limiter_now at)
{
    struct weir__revision *older;
    int error = weir__revision_copy(&older, rev, WEIR__VERSIONS_KEPT - 1);

    if (error)
        return error;
    error = weir__revision_open(out, limit, older, at.now_ns, at.wall_ns);
    if (error)
        weir__revision_close(older);
    return error;
}

/* The caller holds `changing`. */
static int limiter_change_locked(struct weir_limiter *l, const struct weir_limit *limit,
                                 struct weir__limiter_now at)
{
    struct weir__state *state[WEIR_TERMS_MAX];
    struct weir__revision *old = l->revision, *rev;
    int error;

    if (limiter_has_limit(l, limit))
        return 0;
    error = revision_after(&rev, old, limit, at);
    if (error)
        return error;
    error = states_open(state, rev);
    if (error) {
        weir__revision_close(rev);
        return error;
    }
    end_glance(l);
    limiter_take_over(l, rev, state);
    if (is_lone(rev))
        begin_glance(l, rev, at);
    weir__revision_close(old);
    free(state[0]);
    return 0;
}

static int limiter_change(struct weir_limiter *l, const char *text, struct weir__limiter_now at,
                          struct weir_diag *why)
{
    struct weir_limit limit;
    int error = limiter_parse(&limit, text, why);

    if (error)
        return error;
    if (!weir__limiter_now_fits(at.now_ns))
        return weir__diag(why, WEIR_EINVAL, "%s", weir_error_text(WEIR_EINVAL));
    (void)pthread_mutex_lock(&changing);
    error = limiter_change_locked(l, &limit, at);
    (void)pthread_mutex_unlock(&changing);
    if (error)
        return weir__diag(why, error, "%s", weir_error_text(error));
    weir__wait_list_wake(&l->waiters, 0);
    return 0;
}

int weir_limiter_change_at(struct weir_limiter *l, const char *text, int64_t now_ns,
                           struct weir_diag *why)
{
    return limiter_change(l, text, weir__limiter_now_at(now_ns), why);
}

int weir_limiter_change(struct weir_limiter *l, const char *text, struct weir_diag *why)
{
    return limiter_change(l, text, weir__limiter_now_read(), why);
}
