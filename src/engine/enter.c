/* Entering and exiting guards.
 *
 * An entry is a decision like any other (take.c, transaction.c) whose grant is recorded in a
 * ticket. An exit finds each guard's state again and reports the outcome of the call to it.
 *
 * If a limit has permits with a queue, a caller that finds all permits in use waits: in the wait
 * list, behind the callers that came before it for the same key. Only the first of them asks. A
 * caller that exits wakes the first. Two events wake no waiter, so the first waiter looks for them
 * itself: the end of a lease at its time, and changes that other processes make to a shared file
 * every few milliseconds.
 *
 * Invariants:
 *   (1) No caller overtakes: one that comes while others wait for the same key goes behind them.
 *   (2) A waiter has taken nothing. So a waiter that leaves the list without entering leaves no
 *       trace.
 *   (3) A ticket is ended term by term, and each term once. A term that cannot be reached
 *       (WEIR_EBUSY) stays in the ticket, and a second exit continues there.
 *   (4) A term is not exited if its keys have started fresh since (another algorithm, a policy
 *       forgotten): the entry is no longer counted. Nor is a key that was reset since: the calls
 *       that it now counts are others (ticket.h).
 */
#include "engine/key_access.h"
#include "engine/policy/overrides.h"
#include "engine/remote.h"
#include "engine/store/overflow.h"
#include "engine/ticket.h"
#include "engine/wait.h"
#include "engine/wait_list.h"

/* ---- Refusing a waiter --------------------------------------------------------------------- */

/* Refuses a caller that may not wait (any more): the verdict is that of a peek, with this reason,
 * unless the peek now has a more serious one. */
static int enter_refuse(struct weir *w, const struct weir_request *rq,
                        const struct weir__receipt *receipt, struct weir__now now,
                        enum weir_reason reason, struct weir_verdict *v)
{
    const int error = weir__decide(w, rq, WEIR__PEEK, now, NULL, v);

    if (error || (!v->allowed && v->reason != WEIR_LIMITED))
        return error;
    if (v->allowed) { /* other waiters are before it */
        weir__verdict_refuse(v, reason, 0);
        v->which = receipt->line.term;
    }
    v->reason = reason;
    return 0;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* A caller that wants to enter. */
struct enter_waiter {
    struct weir *w;
    const struct weir_request *rq;
    struct weir__timeline time;
    struct weir__key_waiter line;
    int64_t deadline_ns;
};

/* The first time at which the caller could enter even if no other caller exits. Leases only end, so
 * a binary search finds it. */
static int64_t enter_lease_end(const struct enter_waiter *x, int64_t now_ns, int64_t lease_ns)
{
    int64_t lo = now_ns + 1, hi = weir__min(weir__add_sat(now_ns, lease_ns), WEIR__NOW_MAX);

    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;
        struct weir_verdict v;

        if (weir__decide(x->w, x->rq, WEIR__PEEK, weir__now_at(middle), NULL, &v) != 0)
            return lo;
        if (v.allowed || v.reason != WEIR_LIMITED)
            hi = middle;
        else
            lo = middle + 1;
    }
    return hi;
}

/* Sleeps until the waiter is woken, or should look again by itself. 0 or WEIR_EINTR. */
static int enter_sleep(struct enter_waiter *x, const struct weir__receipt *receipt, int64_t now_ns,
                       bool first)
{
    const bool shared = x->w->store->file || x->w->remote;
    const bool unheard = x->w->clock.now != NULL || (first && shared);
    int64_t until_ns = x->deadline_ns, left_ns;

    if (first && receipt->line.lease_ns > 0 && now_ns < WEIR__NOW_MAX && !x->w->remote)
        until_ns = weir__min(until_ns, enter_lease_end(x, now_ns, receipt->line.lease_ns));
    if (x->w->clock.sleep)
        return weir__timeline_sleep(&x->time, weir__min(until_ns, now_ns + WEIR__POLL_EVERY_NS));
    left_ns = until_ns - weir__max(0, now_ns); /* a caller's clock may have jumped back */
    return weir__wakeup_wait(&x->line.wakeup,
                             weir__min(left_ns, unheard ? WEIR__POLL_EVERY_NS : INT64_MAX))
               ? WEIR_EINTR
               : 0;
}

/* Waits in the list. Returns 0, and *v is the answer; or an error. */
static int enter_await(struct enter_waiter *x, struct weir__receipt *receipt,
                       struct weir_verdict *v)
{
    for (;;) {
        const struct weir__now now = weir__timeline_now(&x->time);
        const bool first = weir__wait_list_is_first(x->w, &x->line);
        int error = first ? weir__decide(x->w, x->rq, WEIR__ENTER, now, receipt, v) : 0;

        if (error || (first && (v->allowed || !receipt->full)))
            return error;
        if (now.now_ns >= x->deadline_ns)
            return enter_refuse(x->w, x->rq, receipt, now, WEIR_LIMITED, v);
        error = enter_sleep(x, receipt, now.now_ns, first);
        if (error)
            return error;
    }
}

static int enter_wait(struct enter_waiter *x, struct weir__receipt *receipt, struct weir__now now,
                      struct weir_verdict *v)
{
    int64_t wait_ns = receipt->line.max_wait_ns;
    int error;

    if (x->rq->patience_ns != WEIR_WAIT_DEFAULT)
        wait_ns = weir__min(wait_ns, x->rq->patience_ns);
    if (wait_ns == 0)
        return enter_refuse(x->w, x->rq, receipt, now, WEIR_LIMITED, v);
    x->deadline_ns = weir__add_sat(now.now_ns, wait_ns);
    if (!weir__wait_list_join(x->w, &x->line, receipt->line.room))
        return enter_refuse(x->w, x->rq, receipt, now, WEIR_QUEUE_FULL, v);
    error = enter_await(x, receipt, v);
    weir__wait_list_leave(x->w, &x->line);
    return error;
}

/* ---- Entering ------------------------------------------------------------------------------ */

/* Whether others wait for the same key; the receipt then has their wait options. */
static bool enter_is_behind(struct enter_waiter *x, struct weir__receipt *receipt)
{
    struct weir__revision *e;

    if (atomic_load_explicit(&x->w->waiting, memory_order_relaxed) == 0 || x->rq->cost == 0 ||
        !weir__wait_list_has(x->w, x->line.key))
        return false;
    weir__rcu_enter();
    e = atomic_load_explicit(&x->rq->policy->revision, memory_order_acquire);
    receipt->line = weir__revision_for(e, weir__key_hash(x->w->store, x->rq))->line;
    weir__rcu_exit();
    return receipt->line.room > 0;
}

static void enter_set_key(struct enter_waiter *x)
{
    x->line.policy = x->rq->policy;
    x->line.key = weir__wait_list_key(x->rq->policy, weir__key_hash(x->w->store, x->rq));
}

/* For a caller that comes while others wait: it goes behind them, unless it would be refused even
 * without them. */
static int enter_peek_behind(struct enter_waiter *x, struct weir__receipt *receipt,
                             struct weir__now now, struct weir_verdict *v)
{
    struct weir__receipt would = {0};
    const int error = weir__decide(x->w, x->rq, WEIR__PEEK, now, &would, v);

    receipt->full = !error && (v->allowed || would.full);
    return error;
}

static int enter_decide_or_wait(struct enter_waiter *x, struct weir__receipt *receipt,
                                struct weir__now now, struct weir_verdict *v)
{
    int error;

    enter_set_key(x);
    error = enter_is_behind(x, receipt) ? enter_peek_behind(x, receipt, now, v)
                                        : weir__decide(x->w, x->rq, WEIR__ENTER, now, receipt, v);
    return error || !receipt->full ? error : enter_wait(x, receipt, now, v);
}

/* Not inlined, so that a caller that need not wait has a small stack frame. */
__attribute__((noinline)) static int enter_in_order(struct weir *w, const struct weir_request *rq,
                                                    struct weir__now now,
                                                    struct weir__receipt *receipt,
                                                    struct weir_verdict *v)
{
    struct enter_waiter x = {
        .w = w, .rq = rq, .time = {w, now.now_ns - weir__now_of(w).now_ns, now.given}};
    int cancelable, error;

    /* A thread that is cancelled must not leave its waiter in the list. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = enter_decide_or_wait(&x, receipt, now, v);
    (void)pthread_setcancelstate(cancelable, NULL);
    return error;
}

int weir__enter(struct weir *w, const struct weir_request *rq, struct weir__now now,
                struct weir_ticket *t, struct weir_reservation *r, struct weir_verdict *out)
{
    struct weir__receipt receipt = {.ticket = t, .reservation = r};
    struct weir_verdict v;
    int error;

    if (!weir__request_fits(rq) || !weir__now_fits(now.now_ns))
        return WEIR_EINVAL;
    if (__builtin_expect(atomic_load_explicit(&w->load.missing, memory_order_relaxed), 0))
        (void)weir__load_want(&w->load);
    if (atomic_load_explicit(&w->waiting, memory_order_relaxed) == 0) {
        error = weir__decide(w, rq, WEIR__ENTER, now, &receipt, &v);
        if (!error && receipt.full && rq->patience_ns != 0)
            error = enter_in_order(w, rq, now, &receipt, &v);
    } else {
        error = enter_in_order(w, rq, now, &receipt, &v);
    }
    if (error)
        return error;
    if (!v.allowed || v.reason == WEIR_FALLBACK)
        t->n = 0; /* the entry was not counted */
    *out = v;
    return 0;
}

int weir_enter_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                  struct weir_ticket *t, struct weir_verdict *v)
{
    return weir__enter(w, rq, weir__now_at(now_ns), t, NULL, v);
}

int weir_enter(struct weir *w, const struct weir_request *rq, struct weir_ticket *t,
               struct weir_verdict *v)
{
    return weir__enter(w, rq, weir__now_of(w), t, NULL, v);
}

/* The first of the requests whose key others wait for, or -1. */
static int enter_first_behind(struct weir *w, const struct weir_request *rq, size_t n)
{
    struct weir__receipt unused;

    for (size_t i = 0; i < n && n <= WEIR_TERMS_MAX; i++) {
        struct enter_waiter x = {.w = w, .rq = &rq[i]};

        if (!weir__request_fits(&rq[i]))
            return -1;
        enter_set_key(&x);
        if (enter_is_behind(&x, &unused))
            return (int)i;
    }
    return -1;
}

static int enter_all(struct weir *w, const struct weir_request *rq, size_t n, struct weir__now now,
                     struct weir_ticket *t, struct weir_verdict *v)
{
    struct weir__receipt receipt = {.ticket = t};
    const int behind = atomic_load_explicit(&w->waiting, memory_order_relaxed) == 0
                           ? -1
                           : enter_first_behind(w, rq, n);
    int error;

    if (behind < 0)
        error = weir__decide_all(w, rq, n, WEIR__ENTER_ALL, now, &receipt, v);
    else
        error = enter_refuse(w, &rq[behind], &receipt, now, WEIR_LIMITED, v);
    if (!error && behind >= 0)
        v->which = behind;
    if (!error && !v->allowed)
        t->n = 0;
    return error;
}

int weir_enter_all_at(struct weir *w, const struct weir_request *rq, size_t n, int64_t now_ns,
                      struct weir_ticket *t, struct weir_verdict *v)
{
    return enter_all(w, rq, n, weir__now_at(now_ns), t, v);
}

int weir_enter_all(struct weir *w, const struct weir_request *rq, size_t n, struct weir_ticket *t,
                   struct weir_verdict *v)
{
    return enter_all(w, rq, n, weir__now_of(w), t, v);
}

/* ---- Exiting ------------------------------------------------------------------------------- */

/* Exits a key that has no place: entering a closed breaker changes nothing, but the outcome of the
 * call may be the first that it records. If the store is full of other keys, the breaker learns
 * nothing. False if the table must grow first. */
static bool exit_absent(struct weir *w, const struct weir__target *to, struct weir__key_access *at,
                        const struct weir__leaving *l)
{
    const struct weir__attempt ask = {.now_ns = l->now_ns};
    struct weir__cell_locks held = {.owner = at->owner, .first = 3};
    struct weir__newcomer n = weir__newcomer_of(w, to->policy, to->revision, to->clause, at->owner,
                                                to->fingerprint, &at->hold, &ask);
    int64_t free_ns;

    n.owes = UINT32_MAX; /* a guard needs a place to record what it learns */
    at->state = weir__newcomer_place(&n, &held, &free_ns);
    if (at->state) {
        weir__meter_leave(&to->clause->meter, at->state, l);
        if (at->state->fresh_ns == 0)
            weir__table_forget(to->clause->table, &at->hold);
    }
    weir__journal_commit(at->owner);
    weir__cells_unlock(&held);
    return at->state || free_ns != WEIR__GROW_FIRST;
}

static int exit_key(struct weir *w, struct weir__target *to, struct weir__owner *owner,
                    uint64_t birth, const struct weir__leaving *l)
{
    const struct weir__rescue rescue = weir__rescue_of(w);
    bool settled = true, grows;
    struct weir__key_access at;
    const int error = weir__key_lock(to, owner, l->now_ns, &at);

    if (error)
        return error;
    grows = !at.state;
    if (weir__ticket_is_void(to->policy, to->clause, to->fingerprint, at.state, birth))
        grows = false; /* the call is no longer counted */
    else if (at.state)
        weir__meter_leave(&to->clause->meter, at.state, l);
    else if (l->how != WEIR_IGNORE)
        settled = exit_absent(w, to, &at, l);
    weir__key_unlock(&at);
    if (!settled)
        weir__table_grow_now(to->clause->table, &rescue, l->now_ns);
    else if (grows)
        weir__table_grow(to->clause->table, &rescue, l->now_ns);
    return settled ? 0 : WEIR__STALE;
}

/* Exits the i-th term of a ticket, if its key is still the same. The key keeps its place even if it
 * has fully recovered, because it will soon be used again. The caller is inside an RCU section. */
static int exit_term(struct weir *w, struct weir__owner *owner, const struct weir_ticket *t, int i,
                     struct weir__leaving *l)
{
    struct weir__target to = {.policy = t->term[i].policy};
    const uint32_t index = t->term[i].index;
    struct weir__revision *by;

    if (atomic_load_explicit(&w->forgotten, memory_order_acquire) != t->forgotten &&
        !weir__policy_is_here(w, to.policy))
        return 0; /* the policy was forgotten, and its keys with it */
    to.revision = weir__policy_revision(to.policy);
    if (!to.revision)
        return WEIR__STALE;
    if (index >= (uint32_t)to.revision->n || to.revision->clause[index].scope != t->term[i].scope)
        return 0;
    by = weir__revision_since(to.revision, t->term[i].key, t->term[i].fingerprint, index);
    to.clause = weir__clause_of(to.revision, by, index);
    l->cost = t->term[i].cost;
    weir__target_prefetch(&to, t->term[i].fingerprint);
    weir__target_probe(&to);
    return exit_key(w, &to, owner, t->term[i].birth, l);
}

static void exit_wake_next(struct weir *w, const struct weir_policy *p, uint64_t key)
{
    if (atomic_load(&w->waiting) == 0)
        return;
    if (key != 0)
        weir__wait_list_wake(w, weir__wait_list_key(p, key));
    else
        weir__wait_list_wake_all(w, p); /* the call entered before others waited */
}

static int exit_terms(struct weir *w, struct weir_ticket *t, struct weir__leaving *l)
{
    struct weir__owner *owner = weir__store_owner(w->store);

    if (!owner)
        return weir__store_no_owner(w->store);
    for (; t->n > 0; t->n--) {
        const int i = t->n - 1;
        int error;

        do {
            weir__rcu_enter();
            error = exit_term(w, owner, t, i, l);
            weir__rcu_exit();
            if (error == WEIR__STALE)
                error = weir__policy_refresh(t->term[i].policy) ?: WEIR__STALE;
        } while (error == WEIR__STALE);
        if (error && error != WEIR_EGONE)
            return error;
        exit_wake_next(w, t->term[i].policy, t->term[i].key);
    }
    return 0;
}

/* A remote store ends the ticket as a whole; the waiters are in this process. */
static int exit_remote(struct weir *w, struct weir_ticket *t, enum weir_outcome how,
                       struct weir__now at)
{
    const struct weir_ticket was = *t;
    const int error = t->n > 0 ? w->remote->ops->exit(w->remote, t, how, at) : 0;

    for (int i = 0; !error && i < was.n; i++)
        if (weir__policy_is_here(w, was.term[i].policy))
            exit_wake_next(w, was.term[i].policy, was.term[i].key);
    return error;
}

static int exit_ticket(struct weir *w, struct weir_ticket *t, enum weir_outcome how,
                       struct weir__now at)
{
    struct weir__leaving l = {.entered_ns = t->entered_ns, .now_ns = at.now_ns, .how = how};

    if (!weir__now_fits(at.now_ns) || how < WEIR_SUCCESS || how > WEIR_IGNORE || t->n < 0 ||
        t->n > WEIR_TERMS_MAX)
        return WEIR_EINVAL;
    return w->remote ? exit_remote(w, t, how, at) : exit_terms(w, t, &l);
}

int weir_exit_at(struct weir *w, struct weir_ticket *t, enum weir_outcome how, int64_t now_ns)
{
    return exit_ticket(w, t, how, weir__now_at(now_ns));
}

int weir_exit(struct weir *w, struct weir_ticket *t, enum weir_outcome how)
{
    return exit_ticket(w, t, how, weir__now_of(w));
}
