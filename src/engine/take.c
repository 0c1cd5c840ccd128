/* Decisions on one key, and batches of them.
 *
 * The steps of a decision: hash the key, prefetch its buckets, lock, check that the limit is still
 * in force, decide in place, unlock. A key without a place is judged as an untouched one; it gets a
 * place only when it is charged, so refusals and peeks cost no memory.
 *
 * A batch does each step for all its requests before the next step for any, so that the memory
 * accesses overlap.
 *
 * transaction.c decides limits of several terms, shadows, and policies with lists or overrides.
 */
#include <assert.h>
#include <string.h>

#include "engine/account/account.h"
#include "engine/key_access.h"
#include "engine/policy/overrides.h"
#include "engine/remote.h"
#include "engine/store/overflow.h"
#include "engine/ticket.h"
#include "engine/wait.h"

#define BATCH 64

/* ---- Newcomers ----------------------------------------------------------------------------- */

/* Whether the request changes a key without a place, which is judged by s and whose verdict is
 * v. */
static bool take_charges(const struct weir__meter *m, const struct weir__state *s,
                         const struct weir__attempt *attempt, const struct weir_verdict *v)
{
    return attempt->cost > 0 && !m->algo->enters_unseen &&
           (v->allowed || m->term.count_denied || weir__block_counts(m, s, attempt->now_ns));
}

/* The position of the cells' locks in a journal, after those of a lone key's buckets
 * (key_access.h). */
#define CELL_LOCKS_FIRST 3

/* Charges a key that has no place and whose request was granted. */
static int charge_new(struct weir__newcomer *n, struct weir__key_access *at,
                      struct weir__cell_locks *held, struct weir_verdict *v)
{
    const struct weir__meter *m = &n->term->meter;
    int64_t free_ns;
    int error;

    weir__newcomer_weigh(n);
    at->state = weir__newcomer_place(n, held, &free_ns);
    if (at->state) {
        weir__meter_take(m, at->state, &n->attempt, v);
        if (at->state->fresh_ns == 0)
            weir__table_forget(n->term->table, n->access);
        return 0;
    }
    if (free_ns == WEIR__GROW_FIRST)
        return WEIR__STALE;
    if (weir__newcomer_overflows(n) && !n->locked) {
        error = weir__newcomer_lock(n, held);
        if (error)
            return error;
        weir__newcomer_weigh(n); /* its cells may have a debt by now */
    }
    if (weir__newcomer_overflows(n)) {
        struct weir__state *cell = weir__newcomer_cell(n);

        weir__meter_take(m, cell, &n->attempt, v);
        weir__newcomer_keep(n, cell);
    } else {
        weir__fallback_full(n->w, n->term, free_ns - n->attempt.now_ns, true, v);
    }
    return 0;
}

/* Takes from a key without a place: it is judged by its cells, or as an untouched key if it owes
 * nothing there, and gets a place if it is charged. WEIR__STALE: the table must grow first, or the
 * limit has changed. */
static int take_new(struct weir *w, const struct weir__target *to, struct weir__key_access *at,
                    const struct weir__attempt *attempt, struct weir_verdict *v)
{
    struct weir__cell_locks held = {.owner = at->owner, .first = CELL_LOCKS_FIRST};
    struct weir__newcomer n = weir__newcomer_of(w, to->policy, to->revision, to->term, at->owner,
                                                to->fingerprint, &at->access, attempt);
    struct weir__state none = {0}, *judge;
    int error = weir__newcomers_bind(&n, 1, false, &held);

    if (error)
        return error;
    judge = n.base ? n.base : &none;
    weir__meter_peek(&to->term->meter, judge, &n.attempt, v);
    if (take_charges(&to->term->meter, judge, attempt, v))
        error = charge_new(&n, at, &held, v);
    if (!error)
        weir__newcomer_report(&n, attempt->cost > 0, v);
    weir__journal_commit(at->owner);
    weir__cells_unlock(&held);
    return error;
}

/* The same, without taking. */
static int peek_new(struct weir *w, const struct weir__target *to, struct weir__key_access *at,
                    const struct weir__attempt *attempt, struct weir_verdict *v)
{
    struct weir__cell_locks held = {.owner = at->owner, .first = CELL_LOCKS_FIRST};
    struct weir__newcomer n = weir__newcomer_of(w, to->policy, to->revision, to->term, at->owner,
                                                to->fingerprint, &at->access, attempt);
    const struct weir__meter *m = &to->term->meter;
    struct weir__state none = {0}, *judge;
    int64_t free_ns;
    int error = weir__newcomers_bind(&n, 1, false, &held);

    if (error)
        return error;
    judge = n.base ? n.base : &none;
    weir__meter_peek(m, judge, &n.attempt, v);
    if (take_charges(m, judge, attempt, v)) {
        weir__newcomer_weigh(&n);
        if (!weir__newcomer_overflows(&n) && !weir__newcomer_has_place(&n, &free_ns)) {
            if (free_ns == WEIR__GROW_FIRST)
                error = WEIR__STALE;
            else
                weir__fallback_full(w, to->term, free_ns - attempt->now_ns, false, v);
        }
    }
    weir__newcomer_report(&n, false, v);
    weir__cells_unlock(&held);
    return error;
}

/* ---- One decision -------------------------------------------------------------------------- */

/* Lets the table grow, if it can: for this newcomer now, or for the next. */
static void take_grow_table(struct weir *w, struct weir__table *t, bool now, int64_t now_ns)
{
    const struct weir__rescue rescue = weir__rescue_of(w);

    if (now)
        weir__table_grow_now(t, &rescue, now_ns);
    else
        weir__table_grow(t, &rescue, now_ns);
}

/* Finishes the access to a key that has no place. */
__attribute__((noinline)) static int take_absent(struct weir *w, const struct weir__target *to,
                                                 struct weir__key_access *at,
                                                 const struct weir__attempt *attempt,
                                                 uint64_t *epoch, struct weir_verdict *v)
{
    const int error = take_new(w, to, at, attempt, v);

    v->which = v->allowed ? -1 : 0;
    if (epoch && !error)
        *epoch = weir__ticket_epoch(to->policy, to->term, to->fingerprint, at->state);
    weir__key_unlock(at);
    take_grow_table(w, to->term->table, error == WEIR__STALE, attempt->now_ns);
    return error;
}

/* Decides on one key of one term. `epoch`, unless NULL, is for the ticket of an entry. The code for
 * newcomers is separate, so that it does not slow the decision on a key that has a place. */
static inline int take_lone(struct weir *w, struct weir__target *to, struct weir__owner *owner,
                            const struct weir__attempt *attempt, uint64_t *epoch,
                            struct weir_verdict *v)
{
    struct weir__key_access at;
    const int error = weir__key_lock(to, owner, attempt->now_ns, &at);

    if (error)
        return error;
    if (!at.state)
        return take_absent(w, to, &at, attempt, epoch, v);
    weir__meter_take(&to->term->meter, at.state, attempt, v);
    v->which = v->allowed ? -1 : 0;
    if (epoch)
        *epoch = weir__ticket_epoch(to->policy, to->term, to->fingerprint, at.state);
    weir__key_unlock(&at);
    return 0;
}

static inline int take_plain(struct weir *w, struct weir__target *to, struct weir__owner *owner,
                             const struct weir_request *rq, struct weir__now now,
                             struct weir_verdict *v)
{
    const struct weir__attempt attempt =
        weir__term_attempt(to->term, rq->cost, rq->patience_ns, now.now_ns, now.wall_ns);

    return take_lone(w, to, owner, &attempt, NULL, v);
}

static int peek_lone(struct weir *w, struct weir__target *to, struct weir__owner *owner,
                     const struct weir__attempt *attempt, struct weir_verdict *v)
{
    struct weir__key_access at;
    int error = weir__key_lock(to, owner, WEIR__PEEK_TIME, &at);

    if (error)
        return error;
    if (at.state)
        weir__meter_peek(&to->term->meter, at.state, attempt, v);
    else
        error = peek_new(w, to, &at, attempt, v);
    v->which = v->allowed ? -1 : 0;
    weir__key_unlock(&at);
    if (error == WEIR__STALE)
        take_grow_table(w, to->term->table, true, WEIR__PEEK_TIME);
    return error;
}

/* Finds the target of a request, if its limit is a plain one; whether that limit is still in force
 * is checked when the key is locked. The caller is inside an RCU section. */
static inline void find_target(const struct weir_request *rq, struct weir__target *to)
{
    to->policy = rq->policy;
    to->revision = atomic_load_explicit(&rq->policy->revision, memory_order_acquire);
    to->term = &to->revision->term[0];
    if (!to->revision->plain)
        return;
    to->fingerprint = weir__fingerprint(to->term, rq);
    weir__table_probe_start(to->term->table, to->fingerprint, &to->probe);
}

/* Records in the receipt whether a caller may wait for a lone guard that refused. */
static void take_note_wait_options(const struct weir__target *to, struct weir__receipt *receipt,
                                   const struct weir_verdict *v)
{
    receipt->wait = to->revision->wait;
    receipt->full = !v->allowed && v->reason == WEIR_LIMITED && receipt->wait.room > 0;
}

/* Records the entry in its ticket. */
static void take_note_ticket(const struct weir__target *to, const struct weir_request *rq,
                             const struct weir__attempt *attempt, uint64_t epoch,
                             struct weir__receipt *receipt, const struct weir_verdict *v)
{
    const struct weir__wait_options *wait = &to->revision->wait;

    take_note_wait_options(to, receipt, v);
    if (!v->allowed)
        return;
    weir__ticket_begin(receipt->ticket, to->policy->engine, attempt->now_ns);
    if (attempt->cost > 0 && v->reason != WEIR_FULL && to->revision->guards)
        weir__ticket_add(receipt->ticket, to->policy, to->term, 0, to->fingerprint,
                         wait->room > 0 ? weir__key_hash(to->policy->store, rq) : 0, 0, epoch,
                         attempt->cost);
}

/* The same for a limit that is not plain: a lone guard, a lone rate with an option that the short
 * path leaves out, or several terms. */
__attribute__((noinline)) static int take_decide_guard(struct weir *w, struct weir__target *to,
                                                       struct weir__owner *owner,
                                                       const struct weir_request *rq,
                                                       enum weir__verb verb, struct weir__now now,
                                                       struct weir__receipt *receipt,
                                                       struct weir_verdict *v)
{
    const struct weir_signals signals = weir__load_shown(&w->load);
    struct weir__attempt attempt;
    uint64_t epoch = 0;
    int error;

    if (!weir__target_is_current(to))
        return WEIR__STALE; /* perhaps it is no guard any more */
    if (weir__verb_takes(verb) && to->revision->guards)
        return WEIR_EGUARD; /* the guard could never be exited */
    if (!to->revision->lone || verb == WEIR__CHARGE ||
        (receipt && receipt->reservation && !to->revision->guards))
        return weir__transaction_decide(w, rq, 1, NULL, verb, now, receipt, v);
    weir__target_prefetch(to, weir__fingerprint_at(to->term, rq));
    attempt = weir__term_attempt(to->term, rq->cost, rq->patience_ns, now.now_ns, now.wall_ns);
    attempt.signals = &signals;
    attempt.random = weir__engine_random(w);
    weir__target_probe(to);
    if (verb == WEIR__PEEK) {
        error = peek_lone(w, to, owner, &attempt, v);
        if (!error && receipt)
            take_note_wait_options(to, receipt, v);
        return error;
    }
    error = take_lone(w, to, owner, &attempt, to->revision->guards ? &epoch : NULL, v);
    if (error)
        return error;
    if (v->warned)
        weir__policy_warned(to->policy);
    if (receipt)
        take_note_ticket(to, rq, &attempt, epoch, receipt, v);
    return 0;
}

static inline int take_decide_once(struct weir *w, const struct weir_request *rq,
                                   enum weir__verb verb, struct weir__now now,
                                   struct weir__receipt *receipt, struct weir_verdict *v)
{
    struct weir__owner *owner = weir__store_owner(w->store);
    struct weir__attempt attempt;
    struct weir__target to;

    assert(rq->policy->store == w->store);
    if (!owner)
        return weir__store_no_owner(w->store);
    find_target(rq, &to);
    if (!to.revision->plain || verb > WEIR__PEEK)
        return take_decide_guard(w, &to, owner, rq, verb, now, receipt, v);
    weir__bucket_prefetch(to.probe.second); /* a single decision can prefetch both */
    weir__target_probe(&to);
    if (verb == WEIR__TAKE)
        return take_plain(w, &to, owner, rq, now, v);
    attempt = weir__term_attempt(to.term, rq->cost, rq->patience_ns, now.now_ns, now.wall_ns);
    return peek_lone(w, &to, owner, &attempt, v);
}

#define GO_ON 2 /* beside 0, errors and WEIR__STALE */

/* To the remote store; or to what has lapsed: a key with reservations that lapse as nothing is
 * decided as a transaction, so that others do not pay for it. GO_ON: it is decided here. */
__attribute__((noinline)) static int take_detour(struct weir *w, const struct weir_request *rq,
                                                 enum weir__verb verb, struct weir__now now,
                                                 struct weir__receipt *receipt,
                                                 struct weir_verdict *v)
{
    if (w->remote)
        return w->remote->ops->decide(w->remote, rq, 1, verb, now, receipt, v);
    return weir__account_lapse(w, rq, 1, now) ? weir__decide_all(w, rq, 1, verb, now, receipt, v)
                                              : GO_ON;
}

static inline int take_decide(struct weir *w, const struct weir_request *rq, enum weir__verb verb,
                              struct weir__now now, struct weir__receipt *receipt,
                              struct weir_verdict *v)
{
    int error;

    if (!weir__request_fits(rq) || !weir__now_fits(now.now_ns))
        return WEIR_EINVAL;
    if (__builtin_expect(atomic_load_explicit(&w->detours, memory_order_relaxed), 0)) {
        error = take_detour(w, rq, verb, now, receipt, v);
        if (error != GO_ON)
            return error;
    }
    do {
        weir__rcu_enter();
        error = take_decide_once(w, rq, verb, now, receipt, v);
        weir__rcu_exit();
        if (error == WEIR__STALE)
            error = weir__policy_refresh(rq->policy) ?: WEIR__STALE;
    } while (error == WEIR__STALE);
    return error ? weir__fallback_error(w, rq->policy, error, v) : 0;
}

int weir__decide(struct weir *w, const struct weir_request *rq, enum weir__verb verb,
                 struct weir__now now, struct weir__receipt *receipt, struct weir_verdict *v)
{
    return take_decide(w, rq, verb, now, receipt, v);
}

int weir_take_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                 struct weir_verdict *v)
{
    return take_decide(w, rq, WEIR__TAKE, weir__now_at(now_ns), NULL, v);
}

int weir_take(struct weir *w, const struct weir_request *rq, struct weir_verdict *v)
{
    return take_decide(w, rq, WEIR__TAKE, weir__now_of(w), NULL, v);
}

int weir_peek_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                 struct weir_verdict *v)
{
    return weir__decide(w, rq, WEIR__PEEK, weir__now_at(now_ns), NULL, v);
}

int weir_peek(struct weir *w, const struct weir_request *rq, struct weir_verdict *v)
{
    return weir__decide(w, rq, WEIR__PEEK, weir__now_of(w), NULL, v);
}

/* A charge is a transaction even on one key: it is rarer than takes, and must not slow them. */
int weir_charge_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                   struct weir_verdict *v)
{
    return weir__decide(w, rq, WEIR__CHARGE, weir__now_at(now_ns), NULL, v);
}

int weir_charge(struct weir *w, const struct weir_request *rq, struct weir_verdict *v)
{
    return weir__decide(w, rq, WEIR__CHARGE, weir__now_of(w), NULL, v);
}

/* ---- Batches ------------------------------------------------------------------------------- */

/* Decides a batch. A request that a change, a full bucket or an error stopped is left to `answer`,
 * and so are all that follow it, because they may use the same key. The caller is inside an RCU
 * section. */
static void take_batch(struct weir *w, struct weir__owner *owner, const struct weir_request *rq,
                       size_t n, struct weir__now now, struct weir_verdict *v, bool *left_over)
{
    struct weir__target to[BATCH];
    bool stopped = false;

    for (size_t i = 0; i < n; i++) {
        assert(rq[i].policy->store == w->store);
        find_target(&rq[i], &to[i]);
        left_over[i] = !to[i].revision->plain;
    }
    for (size_t i = 0; i < n; i++)
        if (!left_over[i])
            weir__target_probe(&to[i]);
    for (size_t i = 0; i < n; i++) {
        if (!left_over[i] && !stopped)
            stopped = take_plain(w, &to[i], owner, &rq[i], now, &v[i]) != 0;
        left_over[i] = left_over[i] || stopped;
    }
}

static void mark_undecided(struct weir_verdict *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        v[i] = (struct weir_verdict){.which = -1, .limit = -1};
}

static int take_chunk(struct weir *w, const struct weir_request *rq, size_t n, struct weir__now now,
                      struct weir_verdict *v)
{
    struct weir__owner *owner = weir__store_owner(w->store);
    bool left_over[BATCH];
    int error = 0;

    if (!owner) {
        mark_undecided(v, n);
        return weir__store_no_owner(w->store);
    }
    weir__rcu_enter();
    take_batch(w, owner, rq, n, now, v, left_over);
    weir__rcu_exit();
    for (size_t i = 0; i < n; i++) {
        if (left_over[i] && !error)
            error = weir__decide(w, &rq[i], WEIR__TAKE, now, NULL, &v[i]);
        if (left_over[i] && error)
            mark_undecided(&v[i], 1);
    }
    return error;
}

int weir__take_many(struct weir *w, const struct weir_request *rq, size_t n, struct weir__now now,
                    struct weir_verdict *v)
{
    bool lapsing = false;

    if (!weir__now_fits(now.now_ns))
        return WEIR_EINVAL;
    for (size_t i = 0; i < n; i++)
        if (!weir__request_fits(&rq[i]))
            return WEIR_EINVAL;
        else if (weir__policy_guards(rq[i].policy))
            return WEIR_EGUARD;
    if (w->remote)
        return w->remote->ops->take_many(w->remote, rq, n, now, v);
    if (atomic_load_explicit(&w->detours, memory_order_relaxed))
        lapsing = weir__account_lapse(w, rq, n, now);
    for (size_t i = 0; i < n; i += BATCH) {
        const size_t some = n - i < BATCH ? n - i : BATCH;
        const int error = take_chunk(w, rq + i, some, now, v + i);

        if (error) {
            mark_undecided(v + i + some, n - i - some);
            return error;
        }
    }
    for (size_t i = 0; lapsing && i < n; i++)
        weir__account_extend(w, &rq[i], 1, now, &v[i]);
    return 0;
}

int weir_take_many_at(struct weir *w, const struct weir_request *rq, size_t n, int64_t now_ns,
                      struct weir_verdict *v)
{
    return weir__take_many(w, rq, n, weir__now_at(now_ns), v);
}

int weir_take_many(struct weir *w, const struct weir_request *rq, size_t n, struct weir_verdict *v)
{
    return weir__take_many(w, rq, n, weir__now_of(w), v);
}

/* ---- Giving back --------------------------------------------------------------------------- */

enum undo_kind { UNDO_REFUND, UNDO_CANCEL, UNDO_WITHDRAW, UNDO_RESET };

/* What to give back to one term of a key, and how much the term accepted. */
struct undo {
    enum undo_kind how;
    int64_t cost, act_ns, now_ns, back;
};

static int64_t undo_withdraw(const struct weir__meter *m, struct weir__state *s,
                             const struct undo *g)
{
    return m->algo->cancel || m->algo->default_patience
               ? weir__meter_cancel(m, s, g->cost, g->act_ns, g->now_ns)
               : weir__meter_refund(m, s, g->cost, g->now_ns);
}

/* Resets a key without a place. Its debt is in cells that it shares with other keys, so it gets a
 * fresh state in a place, which counts until the key loses that place. */
static int undo_reset_absent(struct weir *w, const struct weir__target *to,
                             struct weir__key_access *at, int64_t now_ns)
{
    const struct weir__attempt none = {.now_ns = now_ns};
    struct weir__cell_locks held = {.owner = at->owner, .first = CELL_LOCKS_FIRST};
    struct weir__newcomer n = weir__newcomer_of(w, to->policy, to->revision, to->term, at->owner,
                                                to->fingerprint, &at->access, &none);
    int64_t free_ns;

    if (!weir__cells_alive(&to->term->cells, now_ns))
        return 0;
    n.owes = UINT32_MAX; /* the key needs a place */
    n.ignores_parts = true;
    at->state = weir__newcomer_place(&n, &held, &free_ns);
    weir__journal_commit(at->owner);
    weir__cells_unlock(&held);
    if (at->state)
        return 0;
    return free_ns == WEIR__GROW_FIRST ? WEIR__STALE : WEIR_EFULL;
}

/* The caller is inside an RCU section. */
static int undo_key(struct weir *w, struct weir__target *to, struct weir__owner *owner,
                    struct undo *g)
{
    const struct weir__meter *m = &to->term->meter;
    struct weir__key_access at;
    int error = weir__key_lock(to, owner, g->now_ns, &at);

    if (error)
        return error;
    g->back = 0;
    if (g->how == UNDO_RESET && weir__meter_guards(m) && !m->algo->epoch)
        weir__resets_note(to->policy->store->directory, to->fingerprint);
    if (at.state) {
        switch (g->how) {
        case UNDO_REFUND: g->back = weir__meter_refund(m, at.state, g->cost, g->now_ns); break;
        case UNDO_CANCEL:
            g->back = weir__meter_cancel(m, at.state, g->cost, g->act_ns, g->now_ns);
            break;
        case UNDO_WITHDRAW: g->back = undo_withdraw(m, at.state, g); break;
        case UNDO_RESET: weir__state_reset(at.state); break;
        }
        /* While its cells have a debt, only its place shows that the key itself owes nothing. */
        if (at.state->fresh_ns == 0 && !weir__cells_alive(&to->term->cells, g->now_ns))
            weir__table_forget(to->term->table, &at.access);
    } else if (g->how == UNDO_RESET) {
        error = undo_reset_absent(w, to, &at, g->now_ns);
    }
    weir__key_unlock(&at);
    if (error == WEIR__STALE)
        take_grow_table(w, to->term->table, true, g->now_ns);
    return error;
}

/* A reset of a key does not apply to `system`, which has one state for the whole process. */
static bool undo_applies(const struct weir__compiled_term *c, const struct undo *g)
{
    return g->how != UNDO_RESET || c->meter.term.algorithm != WEIR_SYSTEM;
}

/* The term that judges the key: that of its override, if it has one. */
static struct weir__compiled_term *undo_term_of_key(struct weir__revision *rev,
                                                    const struct weir_request *rq, int term,
                                                    struct weir__own *own)
{
    struct weir__revision *by = rev;

    if (rev->overrides)
        by = weir__revision_for(rev, rq, weir__key_hash(rq->policy->store, rq), own);
    return weir__term_of(rev, by, (uint32_t)term);
}

/* Undoes one term of a request, and starts again each time the limit is changed in the meantime. *n
 * is the number of terms of the limit. */
static int undo_term(struct weir *w, const struct weir_request *rq, int term, struct undo *g,
                     int *n)
{
    struct weir__owner *owner = weir__store_owner(w->store);
    int error;

    assert(rq->policy->store == w->store);
    if (!owner)
        return weir__store_no_owner(w->store);
    do {
        struct weir__target to = {.policy = rq->policy};
        struct weir__own own;

        weir__own_begin(&own);
        weir__rcu_enter();
        to.revision = weir__policy_revision(rq->policy);
        error = to.revision ? 0 : WEIR__STALE;
        if (to.revision)
            *n = to.revision->n;
        if (to.revision && term < *n) {
            to.term = undo_term_of_key(to.revision, rq, term, &own);
            weir__target_prefetch(&to, weir__fingerprint_at(to.term, rq));
            weir__target_probe(&to);
            if (undo_applies(to.term, g))
                error = undo_key(w, &to, owner, g);
        }
        weir__rcu_exit();
        if (error == WEIR__STALE)
            error = weir__policy_refresh(rq->policy) ?: WEIR__STALE;
    } while (error == WEIR__STALE);
    return error;
}

static int undo_request(struct weir *w, const struct weir_request *rq, struct undo g, int64_t *back)
{
    int64_t most = 0;
    int n = 1;

    for (int i = 0; i < n; i++) {
        const int error = undo_term(w, rq, i, &g, &n);

        if (error)
            return error;
        most = weir__max(most, g.back);
    }
    if (back)
        *back = most;
    return 0;
}

static int undo_refund(struct weir *w, const struct weir_request *rq, struct weir__now at,
                       int64_t *back)
{
    int error;

    if (!weir__request_fits(rq) || !weir__now_fits(at.now_ns))
        return WEIR_EINVAL;
    if (!w->remote && atomic_load_explicit(&w->detours, memory_order_relaxed))
        (void)weir__account_lapse(w, rq, 1, at);
    error = w->remote
                ? w->remote->ops->refund(w->remote, rq, at, back)
                : undo_request(w, rq, (struct undo){UNDO_REFUND, rq->cost, 0, at.now_ns, 0}, back);
    weir__wait_wake_request(w, rq);
    return error;
}

int weir_refund_at(struct weir *w, const struct weir_request *rq, int64_t now_ns, int64_t *back)
{
    return undo_refund(w, rq, weir__now_at(now_ns), back);
}

int weir_refund(struct weir *w, const struct weir_request *rq, int64_t *back)
{
    return undo_refund(w, rq, weir__now_of(w), back);
}

static int undo_reset(struct weir *w, const struct weir_request *rq, struct weir__now at)
{
    int error;

    if (!weir__request_fits(rq) || !weir__now_fits(at.now_ns))
        return WEIR_EINVAL;
    atomic_fetch_add(&rq->policy->record->resets, 1); /* this voids earlier reservations */
    if (!w->remote)
        weir__account_reset(w, rq, at);
    error = w->remote ? w->remote->ops->reset(w->remote, rq, at)
                      : undo_request(w, rq, (struct undo){UNDO_RESET, 0, 0, at.now_ns, 0}, NULL);
    if (!error)
        weir__wait_wake_request(w, rq);
    return error;
}

int weir_reset_at(struct weir *w, const struct weir_request *rq, int64_t now_ns)
{
    return undo_reset(w, rq, weir__now_at(now_ns));
}

int weir_reset(struct weir *w, const struct weir_request *rq)
{
    return undo_reset(w, rq, weir__now_of(w));
}

/* ---- Cancelling ---------------------------------------------------------------------------- */

/* Cancels the i-th term of a reservation, if its key is still the same. The caller is inside an RCU
 * section. */
static int undo_cancel_term(struct weir *w, struct weir__owner *owner,
                            const struct weir_reservation *r, int i, struct undo *g)
{
    struct weir__target to = {.policy = r->term[i].policy, .fingerprint = r->term[i].fingerprint};
    const uint32_t index = r->term[i].index;
    struct weir__own own;

    weir__own_begin(&own);
    g->back = 0;
    to.revision = weir__policy_revision(to.policy);
    if (!to.revision)
        return WEIR__STALE;
    if (index >= (uint32_t)to.revision->n || r->term[i].cost == 0 ||
        to.revision->term[index].scope != r->term[i].scope ||
        atomic_load(&to.policy->record->resets) != r->term[i].resets)
        return 0;
    to.term = &weir__revision_since(to.revision, r->term[i].found, r->term[i].key, to.fingerprint,
                                    index, &own)
                   ->term[index];
    weir__target_prefetch(&to, to.fingerprint);
    weir__target_probe(&to);
    g->cost = r->term[i].cost;
    g->act_ns = weir__max(r->term[i].act_ns, g->now_ns);
    return undo_key(w, &to, owner, g);
}

static int undo_cancel_all(struct weir *w, struct weir_reservation *r, enum undo_kind how,
                           int64_t now_ns, int64_t *back)
{
    struct weir__owner *owner = weir__store_owner(w->store);
    struct undo g = {.how = how, .now_ns = now_ns};
    int64_t most = 0;

    if (!owner)
        return weir__store_no_owner(w->store);
    for (int i = 0; i < r->n && r->act_ns >= now_ns; i++) {
        int error;

        if (!weir__policy_is_here(w, r->term[i].policy))
            continue; /* the policy was forgotten, and its keys with it */
        do {
            weir__rcu_enter();
            error = undo_cancel_term(w, owner, r, i, &g);
            weir__rcu_exit();
            if (error == WEIR__STALE)
                error = weir__policy_refresh(r->term[i].policy) ?: WEIR__STALE;
        } while (error == WEIR__STALE);
        if (error)
            return error;
        r->term[i].cost = 0; /* only once, even if a later term fails and the caller tries again */
        most = weir__max(most, g.back);
    }
    r->n = 0;
    if (back)
        *back = most;
    return 0;
}

static int undo_cancel(struct weir *w, struct weir_reservation *r, enum undo_kind how,
                       struct weir__now at, int64_t *back)
{
    if (!weir__now_fits(at.now_ns) || r->n < 0 || r->n > WEIR_TERMS_MAX)
        return WEIR_EINVAL;
    return w->remote ? w->remote->ops->cancel(w->remote, r, how == UNDO_WITHDRAW, at, back)
                     : undo_cancel_all(w, r, how, at.now_ns, back);
}

int weir_cancel_at(struct weir *w, struct weir_reservation *r, int64_t now_ns, int64_t *back)
{
    return undo_cancel(w, r, UNDO_CANCEL, weir__now_at(now_ns), back);
}

void weir__reservation_withdraw(struct weir *w, struct weir_reservation *r, struct weir__now at)
{
    (void)undo_cancel(w, r, UNDO_WITHDRAW, at, NULL);
}

int weir_cancel(struct weir *w, struct weir_reservation *r, int64_t *back)
{
    return undo_cancel(w, r, UNDO_CANCEL, weir__now_of(w), back);
}
