/* The backlog: what this node granted alone while the store was down, and must charge in Redis now.
 *
 * Whatever a share grants is charged a second time, to a policy with the same rates that decides
 * nothing. The states of that policy are the backlog: the events of a window that still count, what
 * a bucket has not refilled yet. To drain a key is to read its state, rounded up to whole events,
 * and to forget it. That happens once, because it happens under the key's lock: a second thread
 * finds nothing. The share itself goes on as it is, so a store that goes down and up again and
 * again does not give this node a fresh share each time.
 *
 * Permits are not in the backlog. A caller that entered by the share leaves by the share, and no
 * other node can have its permit. So while such callers stay in (at most a lease), there may be
 * more of them than the limit, by this node's share.
 *
 * Invariants:
 *   (1) A thread waits here for nothing but a key's lock, so a backlog may be drained within an RCU
 *       read section, where commands are encoded. A limit that is being changed is left for the
 *       next time.
 *   (2) backlog_until_ns never decreases. It moves in steps, so that not every grant writes it.
 */
#include <sched.h>
#include <string.h>

#include "engine/key_access.h"
#include "engine/policy/overrides.h"
#include "engine/store/overflow.h"
#include "engine/wait_list.h"
#include "redis/fallback/local_internal.h"

#define STEP_NS (100 * WEIR__NS_PER_MS)
#define TRIES   100

/* If there is no room for it, nothing is lost but the charge: the share has counted the grant
 * already. */
void weir__local_backlog_record(struct weir__local *l, struct weir__local_limit *limit,
                                const struct weir_request *rq, enum weir__verb verb,
                                struct weir__now at)
{
    struct weir_request mine = *rq;
    struct weir_verdict v;

    mine.policy = atomic_load_explicit(&limit->backlog, memory_order_acquire);
    if (mine.policy)
        (void)weir__decide(l->engine, &mine, verb, at, NULL, &v);
}

void weir__local_backlog_extend(struct weir__local *l, int64_t until_ns)
{
    const int64_t step = weir__add_sat(until_ns - until_ns % STEP_NS, STEP_NS);
    int64_t seen = atomic_load_explicit(&l->backlog_until_ns, memory_order_relaxed);

    while (seen < step && !atomic_compare_exchange_weak(&l->backlog_until_ns, &seen, step))
        continue;
}

bool weir__local_has_backlog(const struct weir__local *l, struct weir__now at)
{
    return atomic_load_explicit(&l->backlog_until_ns, memory_order_relaxed) > at.now_ns;
}

/* ---- One term -------------------------------------------------------------------------------- */

/* What is done to a term's state. False: the table must grow first. */
struct backlog_job {
    struct weir *w;
    struct weir__now at;
    bool (*run)(struct backlog_job *b, const struct weir__target *to,
                struct weir__key_access *there);
    int64_t events; /* that were drained, or are to be restored */
};

/* Within an RCU read section. 0 or WEIR__STALE, or an error. */
static int backlog_access(struct backlog_job *b, const struct weir_request *rq, int term)
{
    struct weir__owner *owner = weir__store_owner(b->w->store);
    struct weir__target to = {.policy = rq->policy, .revision = weir__policy_revision(rq->policy)};
    const struct weir__rescue rescue = weir__rescue_of(b->w);
    struct weir__revision *by;
    struct weir__own own;
    struct weir__key_access there;
    bool fits;
    int error;

    if (!to.revision || !owner)
        return WEIR__STALE;
    if (term >= to.revision->n)
        return WEIR_EINVAL;
    weir__own_begin(&own);
    by = weir__revision_for(to.revision, rq,
                            to.revision->overrides ? weir__key_hash(b->w->store, rq) : 0, &own);
    to.term = &by->term[term];
    weir__target_prefetch(&to, weir__fingerprint_at(to.term, rq));
    weir__target_probe(&to);
    error = weir__key_lock(&to, owner, b->at.now_ns, &there);
    if (error)
        return error;
    fits = b->run(b, &to, &there);
    weir__key_unlock(&there);
    if (fits)
        return 0;
    weir__table_grow_now(to.term->table, &rescue, b->at.now_ns);
    return WEIR__STALE;
}

static int backlog_run(struct backlog_job *b, const struct weir_request *rq, int term)
{
    int error = WEIR__STALE;

    for (int i = 0; i < TRIES && error == WEIR__STALE; i++) {
        if (i > 0)
            (void)sched_yield();
        weir__rcu_enter();
        error = backlog_access(b, rq, term);
        weir__rcu_exit();
    }
    return error;
}

static struct weir_verdict backlog_peek(const struct backlog_job *b, struct weir__compiled_term *c,
                                        struct weir__state *s)
{
    const struct weir__attempt attempt = weir__term_attempt(c, 0, 0, b->at.now_ns, b->at.wall_ns);
    struct weir_verdict v;

    weir__meter_peek(&c->meter, s, &attempt, &v);
    return v;
}

/* ---- Drain ----------------------------------------------------------------------------------- */

/* Whether the backlog of a bucket, which takes `ns` (rounded up) to refill, is more than that
 * many whole events. For smooth-warmup the time until the key has fully recovered does not say. */
static bool is_more(const struct weir_term *t, int64_t ns, int64_t events)
{
    return weir__algo_of(t->algorithm)->family == WEIR__FAMILY_DUE && ns > 0 &&
           weir__wide(ns - 1) * weir__wide(t->count) >=
               weir__wide(events) * weir__wide(t->period_ns);
}

static bool backlog_take_out(struct backlog_job *b, const struct weir__target *to,
                             struct weir__key_access *there)
{
    const struct weir__meter *m = &to->term->meter;
    struct weir_verdict v;

    b->events = 0;
    if (!there->state || weir__meter_guards(m))
        return true;
    v = backlog_peek(b, to->term, there->state);
    b->events = weir__meter_refund(m, there->state, INT64_MAX, b->at.now_ns);
    b->events += is_more(&m->term, v.reset_after_ns, b->events);
    weir__state_reset(there->state);
    weir__table_forget(to->term->table, &there->access);
    return true;
}

/* The i-th term with a backlog, as a term of the whole limit; -1: there are no more. */
static int backlog_term(uint64_t terms, int i)
{
    /* The terms ascend, so only the first can be 0. */
    return i < WEIR_TERMS_MAX && (i == 0 || weir__local_term(terms, i) != 0)
               ? weir__local_term(terms, i)
               : -1;
}

static bool has_backlog(const struct weir__local_limit *limit, const struct weir_request *rq,
                        struct weir_request *mine, uint64_t *terms)
{
    *mine = *rq;
    mine->policy = atomic_load_explicit(&limit->backlog, memory_order_acquire);
    *terms = atomic_load_explicit(&limit->backlog_terms, memory_order_relaxed);
    return mine->policy != NULL;
}

int64_t weir__local_backlog_drain(struct weir__local *l, struct weir__local_limit *limit,
                                  const struct weir_request *rq, struct weir__now at,
                                  int64_t events[WEIR_TERMS_MAX])
{
    struct backlog_job b = {.w = l->engine, .at = at, .run = backlog_take_out};
    struct weir_request mine;
    uint64_t terms;
    int64_t most = 0;

    if (events)
        memset(events, 0, WEIR_TERMS_MAX * sizeof events[0]);
    if (!has_backlog(limit, rq, &mine, &terms))
        return 0;
    for (int i = 0; backlog_term(terms, i) >= 0; i++) {
        if (backlog_run(&b, &mine, i) != 0)
            continue;
        if (events)
            events[backlog_term(terms, i)] = b.events;
        most = weir__max(most, b.events);
    }
    return most;
}

/* ---- Restore --------------------------------------------------------------------------------- */

/* At most what fits: what was granted meanwhile is charged already. */
static void backlog_charge(const struct backlog_job *b, struct weir__compiled_term *c,
                           struct weir__state *s)
{
    const int64_t events = weir__min(b->events, backlog_peek(b, c, s).remaining);
    const struct weir__attempt attempt =
        weir__term_attempt(c, events, 0, b->at.now_ns, b->at.wall_ns);
    struct weir_verdict v;

    weir__meter_take(&c->meter, s, &attempt, &v);
}

static bool backlog_put_back(struct backlog_job *b, const struct weir__target *to,
                             struct weir__key_access *there)
{
    struct weir__table *t = to->term->table;
    int64_t free_ns = 0;

    if (weir__meter_guards(&to->term->meter))
        return true;
    if (!there->state)
        there->state =
            weir__table_make(t, there->owner, to->fingerprint, b->at.now_ns, WEIR__MOVE_ALWAYS,
                             (struct weir__spared){0}, &there->access, &free_ns);
    if (!there->state)
        return free_ns != WEIR__GROW_FIRST; /* the table is full of other keys: the backlog is
                                             * dropped */
    backlog_charge(b, to->term, there->state);
    if (there->state->fresh_ns == 0)
        weir__table_forget(t, &there->access);
    return true;
}

void weir__local_backlog_restore(struct weir__local *l, struct weir__local_limit *limit,
                                 const struct weir_request *rq, struct weir__now at,
                                 const int64_t events[WEIR_TERMS_MAX])
{
    struct weir_request mine;
    uint64_t terms;

    if (!has_backlog(limit, rq, &mine, &terms))
        return;
    for (int i = 0; backlog_term(terms, i) >= 0; i++) {
        struct backlog_job b = {.w = l->engine,
                                .at = at,
                                .run = backlog_put_back,
                                .events = events[backlog_term(terms, i)]};

        if (b.events > 0)
            (void)backlog_run(&b, &mine, i);
    }
}
