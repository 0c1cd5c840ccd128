/* Entering and exiting guards.
 *
 * An entry is a decision like any other (take.c, transaction.c) whose grant is recorded in a
 * ticket. An exit finds each guard's state again and reports the outcome of the call to it.
 *
 * If a limit has permits with a queue, a caller that finds all permits in use, or others before it,
 * waits (wait.c), and a caller that exits wakes the first of them.
 *
 * Invariants:
 *   (1) No caller overtakes: one that comes while others wait for the same key goes behind them.
 *   (2) A caller that waits has taken nothing. So one that leaves without entering leaves no trace.
 *   (3) A ticket is ended term by term, and each term once. A term that cannot be reached
 *       (WEIR_EBUSY) stays in the ticket, and a second exit continues there.
 *   (4) A term is not exited if its keys have started fresh since (another algorithm, a policy
 *       forgotten): the entry is no longer counted. Nor is a key that was reset since: the calls
 *       that it now counts are others (ticket.h).
 *   (5) The guards of a remote store's ticket that look at this node are exited first, and at once.
 */
#include <string.h>

#include "engine/key_access.h"
#include "engine/policy/overrides.h"
#include "engine/remote.h"
#include "engine/store/overflow.h"
#include "engine/ticket.h"
#include "engine/wait.h"

/* ---- Entering ------------------------------------------------------------------------------ */

/* Waits if all permits are in use, or others wait. Not inlined, so that a caller that need not wait
 * has a small stack frame. */
__attribute__((noinline)) static int enter_in_order(struct weir *w, const struct weir_request *rq,
                                                    struct weir__now now,
                                                    struct weir__receipt *receipt,
                                                    struct weir_verdict *v)
{
    const struct weir__timeline t = {w, now.now_ns - weir__now_of(w).now_ns, now.given};

    return weir__wait_block(w, rq, &t, now, receipt->ticket, receipt->reservation, v);
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
    if (atomic_load_explicit(&w->entering, memory_order_relaxed) == 0) {
        error = weir__decide(w, rq, WEIR__ENTER, now, &receipt, &v);
        if (!error && receipt.full && rq->patience_ns != 0)
            error = enter_in_order(w, rq, now, &receipt, &v);
    } else {
        error = enter_in_order(w, rq, now, &receipt, &v);
    }
    if (error)
        return error;
    if (!v.allowed || (v.reason == WEIR_FALLBACK && !w->remote))
        t->n = 0; /* the entry was not counted; of a remote store, guards of this node may be */
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
    for (size_t i = 0; i < n && n <= WEIR_TERMS_MAX; i++) {
        if (!weir__request_fits(&rq[i]))
            return -1;
        if (weir__wait_is_behind(w, &rq[i]))
            return (int)i;
    }
    return -1;
}

static int enter_all(struct weir *w, const struct weir_request *rq, size_t n, struct weir__now now,
                     struct weir_ticket *t, struct weir_verdict *v)
{
    struct weir__receipt receipt = {.ticket = t};
    const int behind = atomic_load_explicit(&w->entering, memory_order_relaxed) == 0
                           ? -1
                           : enter_first_behind(w, rq, n);
    int error;

    if (behind < 0)
        error = weir__decide_all(w, rq, n, WEIR__ENTER_ALL, now, &receipt, v);
    else
        error = weir__wait_refuse(w, &rq[behind], now, v);
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
    const struct weir__attempt attempt = {.now_ns = l->now_ns};
    struct weir__cell_locks held = {.owner = at->owner, .first = 3};
    struct weir__newcomer n = weir__newcomer_of(w, to->policy, to->revision, to->term, at->owner,
                                                to->fingerprint, &at->access, &attempt);
    int64_t free_ns;

    n.owes = UINT32_MAX; /* a guard needs a place to record what it learns */
    at->state = weir__newcomer_place(&n, &held, &free_ns);
    if (at->state) {
        weir__meter_leave(&to->term->meter, at->state, l);
        if (at->state->fresh_ns == 0)
            weir__table_forget(to->term->table, &at->access);
    }
    weir__journal_commit(at->owner);
    weir__cells_unlock(&held);
    return at->state || free_ns != WEIR__GROW_FIRST;
}

static int exit_key(struct weir *w, struct weir__target *to, struct weir__owner *owner,
                    uint64_t epoch, const struct weir__leaving *l)
{
    const struct weir__rescue rescue = weir__rescue_of(w);
    bool recorded = true, grows;
    struct weir__key_access at;
    const int error = weir__key_lock(to, owner, l->now_ns, &at);

    if (error)
        return error;
    grows = !at.state;
    if (weir__ticket_is_void(to->policy, to->term, to->fingerprint, at.state, epoch))
        grows = false; /* the call is no longer counted */
    else if (at.state)
        weir__meter_leave(&to->term->meter, at.state, l);
    else if (l->how != WEIR_IGNORE)
        recorded = exit_absent(w, to, &at, l);
    weir__key_unlock(&at);
    if (!recorded)
        weir__table_grow_now(to->term->table, &rescue, l->now_ns);
    else if (grows)
        weir__table_grow(to->term->table, &rescue, l->now_ns);
    return recorded ? 0 : WEIR__STALE;
}

/* What a guard is told of a call of which nothing was heard within its lease. To a guard that
 * judges what is called, the call has failed. `system` measures how long calls of this process
 * take, and a caller that vanished says nothing of that. */
static enum weir_outcome exit_lapsed(enum weir_algorithm algorithm)
{
    return algorithm == WEIR_SYSTEM ? WEIR_IGNORE : WEIR_DROP;
}

/* The caller is inside an RCU section, until whose end it stays here. */
static bool exit_policy_is_here(struct weir *w, const struct weir_ticket *t, int i)
{
    return atomic_load_explicit(&w->forgotten, memory_order_acquire) == t->forgotten ||
           weir__policy_is_here(w, t->term[i].policy);
}

/* Exits the i-th term of a ticket, if its key is still the same. The key keeps its place even if it
 * has fully recovered, because it will soon be used again. The caller is inside an RCU section. */
static int exit_term(struct weir *w, struct weir__owner *owner, const struct weir_ticket *t, int i,
                     const struct weir__ending *e, struct weir__leaving *l)
{
    struct weir__target to = {.policy = t->term[i].policy};
    const uint32_t index = t->term[i].index;
    struct weir__revision *by;
    struct weir__own own;

    if (!exit_policy_is_here(w, t, i))
        return 0; /* the policy was forgotten, and its keys with it */
    to.revision = weir__policy_revision(to.policy);
    if (!to.revision)
        return WEIR__STALE;
    if (index >= (uint32_t)to.revision->n || to.revision->term[index].scope != t->term[i].scope)
        return 0;
    weir__own_begin(&own);
    by = weir__revision_since(to.revision, t->term[i].found, t->term[i].key, t->term[i].fingerprint,
                              index, &own);
    to.term = weir__term_of(to.revision, by, index);
    l->cost = t->term[i].cost;
    l->how = e->lapsed ? exit_lapsed(to.term->meter.term.algorithm) : e->how;
    weir__target_prefetch(&to, t->term[i].fingerprint);
    weir__target_probe(&to);
    return exit_key(w, &to, owner, t->term[i].epoch, l);
}

/* Whether callers may wait to enter the policy, for some key. The caller is inside an RCU section,
 * and the policy is here. */
static bool exit_has_queue(const struct weir_policy *p)
{
    const struct weir__revision *rev = atomic_load_explicit(&p->revision, memory_order_acquire);

    return rev->wait.room > 0 || rev->overrides;
}

/* A ticket without a key is of a call that entered while none could wait. A policy that was
 * forgotten has no waiters, and its memory must not be read. */
static void exit_wake_next(struct weir *w, const struct weir_ticket *t, int i)
{
    const struct weir_policy *p = t->term[i].policy;
    const bool has_key = t->term[i].key != 0;
    uint64_t key = 0;
    bool wakes;

    if (!weir__wait_has_entering(w))
        return;
    weir__rcu_enter();
    wakes = exit_policy_is_here(w, t, i) && (has_key || exit_has_queue(p));
    if (wakes && has_key)
        key = weir__wait_key(p, t->term[i].key);
    weir__rcu_exit();
    if (wakes && has_key)
        weir__wait_wake_key(w, key);
    else if (wakes)
        weir__wait_wake_policy(w, p);
}

static int exit_terms(struct weir *w, struct weir_ticket *t, const struct weir__ending *e,
                      struct weir__leaving *l)
{
    struct weir__owner *owner = weir__store_owner(w->store);

    if (!owner)
        return weir__store_no_owner(w->store);
    for (; t->n > 0; t->n--) {
        const int i = t->n - 1;
        int error;

        do {
            weir__rcu_enter();
            error = exit_term(w, owner, t, i, e, l);
            weir__rcu_exit();
            if (error == WEIR__STALE)
                error = weir__policy_refresh(t->term[i].policy) ?: WEIR__STALE;
        } while (error == WEIR__STALE);
        if (error && error != WEIR_EGONE)
            return error;
        exit_wake_next(w, t, i);
    }
    return 0;
}

int weir__exit_node_guards(struct weir *w, struct weir_ticket *t, const struct weir__ending *e,
                           struct weir__now at)
{
    struct weir_ticket mine = {.entered_ns = t->entered_ns};
    int n = 0, error;

    if (!w->remote || t->n < 0 || t->n > WEIR_TERMS_MAX)
        return 0;
    while (n < t->n && t->term[n].index == WEIR__TICKET_REMOTE)
        n++;
    if (n == t->n)
        return 0;
    mine.n = t->n - n;
    memcpy(mine.term, t->term + n, (size_t)mine.n * sizeof mine.term[0]);
    error = weir__exit(weir__engine_of_node(w), &mine, e, at);
    memcpy(t->term + n, mine.term, (size_t)mine.n * sizeof mine.term[0]);
    t->n = n + mine.n; /* without those that were exited */
    return error;
}

/* A remote store ends its part of the ticket as a whole; the waiters are in this process. */
static int exit_remote(struct weir *w, struct weir_ticket *t, const struct weir__ending *e,
                       struct weir__now at)
{
    int error = weir__exit_node_guards(w, t, e, at);
    const struct weir_ticket was = *t;

    if (!error && t->n > 0)
        error = w->remote->ops->exit(w->remote, t, e->how, at);
    for (int i = 0; !error && i < was.n; i++)
        exit_wake_next(w, &was, i);
    return error;
}

int weir__exit(struct weir *w, struct weir_ticket *t, const struct weir__ending *e,
               struct weir__now at)
{
    struct weir__leaving l = {
        .entered_ns = t->entered_ns, .now_ns = at.now_ns, .withdrawn = e->withdrawn};

    if (!weir__now_fits(at.now_ns) || e->how < WEIR_SUCCESS || e->how > WEIR_IGNORE || t->n < 0 ||
        t->n > WEIR_TERMS_MAX)
        return WEIR_EINVAL;
    if (e->timed)
        l.idle_ns = weir__max(0, at.now_ns - t->entered_ns - weir__max(0, e->took_ns));
    return w->remote ? exit_remote(w, t, e, at) : exit_terms(w, t, e, &l);
}

static int exit_ticket(struct weir *w, struct weir_ticket *t, enum weir_outcome how,
                       struct weir__now at)
{
    return weir__exit(w, t, &(struct weir__ending){.how = how}, at);
}

int weir_exit_at(struct weir *w, struct weir_ticket *t, enum weir_outcome how, int64_t now_ns)
{
    return exit_ticket(w, t, how, weir__now_at(now_ns));
}

int weir_exit(struct weir *w, struct weir_ticket *t, enum weir_outcome how)
{
    return exit_ticket(w, t, how, weir__now_of(w));
}
