/* A transaction: several keys decided as one, all or nothing, while other threads use the same
 * keys.
 *
 * All candidate buckets of all keys are sorted, deduplicated and locked in that order, so that no
 * two transactions deadlock. Then all terms are asked and, if none refuses, charged
 * (algo/decide.c). A limit of several terms is a transaction on one key; so is a shadow, and a
 * request whose policy has lists or overrides (overrides.h).
 *
 * Invariants:
 *   (1) The locks are taken in the order of their addresses. The path for a single key (table.c)
 *       takes its second lock in that order too, or only tries it.
 *   (2) Newcomers get their places before anything is charged. If a key that needs a place
 *       (overflow.h) gets none, nothing is charged. No key of the transaction is evicted for
 *       another key of it. A newcomer that is judged by its cells is judged on a copy; if it gets
 *       no place, the copy is joined into its cells after everything has been charged.
 *   (3) The same key twice under the same term is one state: the second request sees the charge of
 *       the first. It is tried on a copy, so that a refusal leaves no trace.
 *   (4) Terms are asked in the order of the chain (revision.c), and reported by their index in the
 *       text.
 */
#include "engine/transaction.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy/overrides.h"
#include "engine/remote.h"

/* ---- Gathering ----------------------------------------------------------------------------- */

static void item_find_twin(struct weir__transaction *tx, int i)
{
    struct weir__transaction_item *it = &tx->item[i];

    it->first = i;
    for (int j = 0; j < i; j++)
        if (tx->item[j].first == j && tx->item[j].fingerprint == it->fingerprint &&
            tx->item[j].term->table == it->term->table) {
            it->first = j;
            it->repeated = tx->item[j].repeated = true;
            return;
        }
}

static void gather_term(struct weir__transaction *tx, const struct weir_request *rq, int i,
                        struct weir__revision *rev, struct weir__compiled_term *term, uint64_t key,
                        uint32_t index)
{
    struct weir__transaction_item *it = &tx->item[tx->n];
    struct weir__part *part = &tx->part[tx->n];

    *it = (struct weir__transaction_item){.policy = rq->policy,
                                          .revision = rev,
                                          .term = term,
                                          .key = key,
                                          .index = index,
                                          .request = i};
    it->fingerprint = tx->fingerprint[tx->n] = weir__fingerprint_at(term, rq);
    weir__table_prefetch(term->table, it->fingerprint);
    item_find_twin(tx, tx->n);
    *part = (struct weir__part){.meter = &term->meter,
                                .verdict = &it->verdict,
                                .attempt = weir__term_attempt(term, rq->cost, rq->patience_ns,
                                                              tx->now.now_ns, tx->now.wall_ns)};
    if (rev->guards) {
        part->attempt.signals = &tx->signals;
        part->attempt.random = weir__engine_random(tx->engine);
    }
    tx->n++;
}

/* Gathers the terms of one request, by the terms of `by`: the revision in force, or an override. */
static int gather_request(struct weir__transaction *tx, const struct weir_request *rq, int i,
                          struct weir__revision *rev, struct weir__revision *by, uint64_t key,
                          uint64_t changes, bool allowed)
{
    if (by->n > WEIR_TERMS_MAX - tx->n)
        return WEIR_EINVAL;
    for (int k = 0; k < by->n; k++) {
        struct weir__compiled_term *term = weir__term_of(rev, by, by->chain[k]);

        if (allowed && term->meter.term.algorithm != WEIR_SYSTEM)
            continue;
        gather_term(tx, rq, i, rev, term, key, by->chain[k]);
        tx->item[tx->n - 1].by_hash = by->found;
        tx->item[tx->n - 1].changes = changes;
    }
    tx->wait = by->wait;
    return 0;
}

static int transaction_gather(struct weir__transaction *tx, const struct weir_request *rq, size_t n,
                              const struct weir_limit *numbers, struct weir__own *own)
{
    for (size_t i = 0; i < n; i++) {
        struct weir__revision *rev = weir__policy_revision(rq[i].policy), *by;
        uint64_t key = 0, changes = 0;
        int error;

        assert(rq[i].policy->store == tx->engine->store);
        if (!rev)
            return WEIR__STALE;
        if (rev->guards && weir__verb_takes(tx->verb))
            return WEIR_EGUARD; /* the guard could never be exited */
        if (rev->overrides)
            changes = atomic_load_explicit(&rev->overrides->changes, memory_order_acquire);
        if (rev->overrides || rev->wait.room > 0)
            key = weir__key_hash(tx->engine->store, &rq[i]);
        if (weir__revision_lists(rev, WEIR_LIST_DENY, &rq[i], key)) {
            tx->listed = (int)i;
            return 0;
        }
        by = numbers ? weir__own_compile(own, rev, numbers->term, numbers->n)
                     : weir__revision_for(rev, &rq[i], key, own);
        if (!by)
            return WEIR_EINVAL; /* the limit has another shape by now */
        error = gather_request(tx, &rq[i], (int)i, rev, by, key, changes,
                               weir__revision_lists(rev, WEIR_LIST_ALLOW, &rq[i], key));
        if (error)
            return error;
    }
    return 0;
}

/* ---- Locking ------------------------------------------------------------------------------- */

static void add_lock(struct weir__transaction *tx, struct weir__lock *l)
{
    int i = tx->locks;

    for (int j = 0; j < tx->locks; j++)
        if (tx->lock[j] == l)
            return;
    for (; i > 0 && (uintptr_t)tx->lock[i - 1] > (uintptr_t)l; i--)
        tx->lock[i] = tx->lock[i - 1];
    tx->lock[i] = l;
    tx->locks++;
}

static void transaction_unlock(struct weir__transaction *tx, int n)
{
    while (n > 0)
        weir__lock_drop(tx->lock[--n]);
}

static int lock_in_order(struct weir__transaction *tx)
{
    for (int i = 0; i < tx->locks; i++) {
        int error;

        weir__journal_intend(tx->owner, i, tx->lock[i]);
        error = weir__lock_take(tx->lock[i], tx->owner);
        if (error) {
            transaction_unlock(tx, i);
            return error;
        }
    }
    return 0;
}

static bool still_there(const struct weir__transaction *tx)
{
    const struct weir__account_step *a = tx->account;

    if (a && !weir__table_is_current(a->table, a->fingerprint, &a->access))
        return false;
    for (int i = 0; i < tx->n; i++)
        if (!weir__table_is_current(tx->item[i].term->table, tx->item[i].fingerprint,
                                    &tx->item[i].access))
            return false;
    return true;
}

/* Whether the item's limit and its key's override are still those that were read. */
static bool item_in_force(const struct weir__transaction_item *it)
{
    const struct weir__overrides *x = it->revision->overrides;

    return weir__policy_revision(it->policy) == it->revision &&
           (!x || atomic_load_explicit(&x->changes, memory_order_acquire) == it->changes);
}

static bool still_in_force(const struct weir__transaction *tx)
{
    for (int i = 0; i < tx->n; i++)
        if (!item_in_force(&tx->item[i]))
            return false;
    return true;
}

/* Adds the locks of the buckets in which the key may be. */
static void add_locks_of(struct weir__transaction *tx, struct weir__table *t, uint64_t fingerprint,
                         struct weir__access *access)
{
    struct weir__lock *saving = weir__table_saving(t);
    const int buckets = weir__table_candidates(t, fingerprint, access);

    for (int b = 0; b < buckets; b++)
        add_lock(tx, weir__bucket_lock(access->bucket[b]));
    if (saving && tx->owner->journal)
        add_lock(tx, saving);
}

/* Locks every bucket that may hold one of the keys, and starts again if a table has grown in the
 * meantime. */
static int transaction_lock_all(struct weir__transaction *tx)
{
    for (;;) {
        int error;

        tx->locks = 0;
        for (int i = 0; i < tx->n; i++)
            add_locks_of(tx, tx->item[i].term->table, tx->item[i].fingerprint, &tx->item[i].access);
        if (tx->account)
            add_locks_of(tx, tx->account->table, tx->account->fingerprint, &tx->account->access);
        error = lock_in_order(tx);
        if (error)
            return error;
        if (still_there(tx))
            break;
        transaction_unlock(tx, tx->locks);
    }
    if (still_in_force(tx))
        return 0;
    transaction_unlock(tx, tx->locks);
    return WEIR__STALE;
}

/* ---- Scratch ------------------------------------------------------------------------------- */

static size_t item_size(const struct weir__transaction_item *it)
{
    return weir__size_of_class((uint32_t)it->term->placing.size_class);
}

/* Whether another key of the request is of the same limit: both may then have one cell. */
static bool item_shares_cells(const struct weir__transaction *tx, int i)
{
    const struct weir__cells_head *head = tx->item[i].term->cells.head;

    for (int k = 0; head && k < tx->n; k++)
        if (k != i && tx->item[k].first == k && tx->item[k].term->cells.head == head)
            return true;
    return false;
}

/* The number of copies of its state that the item may need: one to try on, one to start from. */
static size_t copies_of(const struct weir__transaction *tx, int i)
{
    const struct weir__transaction_item *it = &tx->item[i];

    if (it->first != i)
        return 0;
    return (size_t)it->repeated +
           (weir__cells_alive(&it->term->cells, tx->now.now_ns) || item_shares_cells(tx, i));
}

/* Locks room for copies of large states, if there will be any. Called before the buckets are
 * locked. */
static int lock_scratch(struct weir__transaction *tx)
{
    size_t bytes = 0;

    for (int i = 0; i < tx->n; i++)
        if (item_size(&tx->item[i]) > WEIR__SAVED_INLINE)
            bytes += copies_of(tx, i) * item_size(&tx->item[i]);
    if (bytes == 0)
        return 0;
    (void)pthread_mutex_lock(&tx->engine->scratch_lock);
    tx->scratch = true;
    if (bytes > tx->engine->scratch_bytes) { /* it grows only for the largest request so far */
        void *more = realloc(tx->engine->scratch, bytes);

        if (!more)
            return WEIR_ENOMEM;
        tx->engine->scratch = more;
        tx->engine->scratch_bytes = bytes;
    }
    tx->scratch_at = tx->engine->scratch;
    return 0;
}

static void unlock_scratch(struct weir__transaction *tx)
{
    if (tx->scratch)
        (void)pthread_mutex_unlock(&tx->engine->scratch_lock);
}

/* Room for a copy of the item's state: `own` if the state is small. NULL: there is none, and the
 * transaction starts again. */
static void *room_for(struct weir__transaction *tx, const struct weir__transaction_item *it,
                      void *own)
{
    const size_t bytes = item_size(it);
    char *at = tx->scratch_at;

    if (bytes <= WEIR__SAVED_INLINE)
        return own;
    if (!tx->scratch ||
        (size_t)(at - (char *)tx->engine->scratch) + bytes > tx->engine->scratch_bytes)
        return NULL;
    tx->scratch_at += bytes;
    return at;
}

/* ---- States -------------------------------------------------------------------------------- */

/* Finds the keys without a place, and the cells that judge them. */
static int find_newcomers(struct weir__transaction *tx)
{
    tx->cells = (struct weir__cell_locks){.owner = tx->owner, .first = tx->locks};
    for (int i = 0; i < tx->n; i++) {
        struct weir__transaction_item *it = &tx->item[i];

        it->newcomer = -1;
        if (it->first != i ||
            weir__table_search_locked(it->term->table, it->fingerprint, &it->access))
            continue;
        it->newcomer = tx->newcomers;
        tx->newcomer[tx->newcomers] =
            weir__newcomer_of(tx->engine, it->policy, it->revision, it->term, tx->owner,
                              it->fingerprint, &it->access, &tx->part[i].attempt);
        tx->newcomer[tx->newcomers].charges = tx->verb == WEIR__CHARGE;
        tx->newcomer[tx->newcomers++].spared =
            (struct weir__spared){.fingerprint = tx->fingerprint, .n = tx->n};
    }
    return weir__newcomers_bind(tx->newcomer, tx->newcomers, weir__verb_charges(tx->verb),
                                &tx->cells);
}

/* The state by which a newcomer is judged. */
static struct weir__state *start_of(struct weir__transaction *tx, int i)
{
    const struct weir__newcomer *n = &tx->newcomer[tx->item[i].newcomer];
    struct weir__state *s = (void *)tx->start[i];

    if (!n->base && !item_shares_cells(tx, i)) {
        weir__state_reset(s);
        return s;
    }
    s = room_for(tx, &tx->item[i], s);
    if (!s)
        return NULL;
    if (!n->base) {
        memset(s, 0, weir__meter_state_size(&n->term->meter));
        return s;
    }
    memcpy(s, n->base, weir__meter_state_size(&n->term->meter));
    weir__meter_mark_copied(weir__meter_of_cells(&n->term->meter), s);
    return s;
}

/* 0, or WEIR__STALE: a limit has begun to judge by cells since the scratch memory was sized. */
static int find_states(struct weir__transaction *tx)
{
    for (int i = 0; i < tx->n; i++) {
        struct weir__transaction_item *it = &tx->item[i];

        if (it->first != i) {
            tx->part[i].state = tx->part[it->first].state;
            continue;
        }
        it->found = it->newcomer < 0;
        if (it->found) {
            tx->part[i].state =
                weir__table_search_locked(it->term->table, it->fingerprint, &it->access);
            weir__table_note(it->term->table, tx->owner, &it->access);
        } else {
            tx->part[i].state = start_of(tx, i);
        }
        if (!tx->part[i].state)
            return WEIR__STALE;
    }
    return 0;
}

/* Room for a copy of every state that is named more than once, to try on. */
static int find_trials(struct weir__transaction *tx)
{
    for (int i = 0; i < tx->n; i++) {
        struct weir__transaction_item *it = &tx->item[i];

        if (!it->repeated)
            continue;
        tx->part[i].trial =
            it->first == i ? room_for(tx, it, tx->trial[i]) : tx->part[it->first].trial;
        if (!tx->part[i].trial)
            return WEIR__STALE;
    }
    return 0;
}

static void copy_trials(struct weir__transaction *tx)
{
    for (int i = 0; i < tx->n; i++) {
        const struct weir__state *s = tx->part[i].state;

        if (tx->item[i].repeated && tx->item[i].first == i)
            memcpy(tx->part[i].trial, s,
                   s->fresh_ns == 0 ? sizeof *s : weir__meter_state_size(tx->part[i].meter));
    }
}

/* ---- Deciding ------------------------------------------------------------------------------ */

/* Whether the i-th item charges an untouched key. */
static bool is_charged(const struct weir__transaction *tx, int i, bool allowed)
{
    const struct weir__meter *m = tx->part[i].meter;

    return tx->part[i].attempt.cost > 0 && !m->algo->enters_unseen &&
           (allowed || m->term.count_denied ||
            (tx->part[i].refuses && weir__block_counts(m, tx->part[i].state, tx->now.now_ns)));
}

/* Gives back the places of newcomers that were not charged after all. */
static void forget_unused(struct weir__transaction *tx, bool all)
{
    for (int i = 0; i < tx->n; i++)
        if (tx->item[i].made && (all || tx->part[i].state->fresh_ns == 0)) {
            weir__table_forget(tx->item[i].term->table, &tx->item[i].access);
            tx->item[i].made = false;
        }
}

/* Computes the debt of the i-th item's key if it were charged. A key that appears several times
 * must have a place, because its total debt is not known before it is charged. */
static void item_weigh(struct weir__transaction *tx, int i)
{
    struct weir__newcomer *n = &tx->newcomer[tx->item[i].newcomer];

    if (tx->item[i].repeated)
        n->owes = UINT32_MAX;
    else
        weir__newcomer_weigh(n);
}

/* Makes a place for the i-th item, which will be charged and has none, or lets it overflow into its
 * cells. False: neither is possible. */
static bool make_place(struct weir__transaction *tx, int i, int64_t *free_ns)
{
    struct weir__transaction_item *it = &tx->item[i];
    struct weir__newcomer *n = &tx->newcomer[it->newcomer];
    struct weir__state *s;

    item_weigh(tx, i);
    s = weir__newcomer_place(n, &tx->cells, free_ns);
    if (s) {
        /* A key that gave up its place for another item may have been joined into this item's cell:
         * so the item starts from the state by which it was judged. */
        if (n->base)
            memcpy(s, tx->part[i].state, weir__meter_state_size(&n->term->meter));
        it->made = true;
        tx->part[i].state = s;
        return true;
    }
    it->overflows = *free_ns != WEIR__GROW_FIRST && n->locked && weir__newcomer_overflows(n);
    /* A large state that owes nothing has no copy, if no other key of the request can have the same
     * cell: it is charged in the cell, which owes nothing either. */
    if (it->overflows && !n->base && item_size(it) > WEIR__SAVED_INLINE &&
        !item_shares_cells(tx, i))
        tx->part[i].state = weir__newcomer_cell(n);
    return it->overflows;
}

/* The key of the first item has no place, and full=allow grants it uncounted: it is asked for
 * nothing from now on, and the other keys decide. False: its own term refuses it, with a place or
 * without. */
static bool leave_uncounted(struct weir__transaction *tx, int first, bool allowed)
{
    for (int i = first; i < tx->n; i++) {
        struct weir__part *p = &tx->part[i];
        struct weir_verdict one;

        if (tx->item[i].first != first)
            continue;
        weir__meter_peek(p->meter, p->state, &p->attempt, &one);
        if (!allowed && !one.allowed && !p->meter->term.shadow)
            return false;
        p->attempt.cost = 0;
    }
    tx->uncounted = true;
    return true;
}

/* Makes places for all items that will be charged and have none. False: the store is full, and *v
 * says so; or a table must grow first. */
static bool make_places(struct weir__transaction *tx, struct weir_verdict *v)
{
    const bool allowed = v->allowed;

    for (int i = 0; i < tx->n; i++) {
        const int first = tx->item[i].first;
        struct weir__transaction_item *it = &tx->item[first];
        int64_t free_ns = 0;

        if (it->newcomer >= 0 && !it->made && !it->overflows && is_charged(tx, i, allowed) &&
            !make_place(tx, first, &free_ns)) {
            if (free_ns != WEIR__GROW_FIRST &&
                weir__term_full(tx->engine, it->term) == WEIR_FULL_ALLOW &&
                leave_uncounted(tx, first, allowed))
                continue;
            forget_unused(tx, true);
            if (free_ns == WEIR__GROW_FIRST) {
                tx->to_grow = it->term->table;
                return false;
            }
            weir__fallback_full(tx->engine, it->term, free_ns - tx->now.now_ns, true, v);
            v->which = v->allowed ? -1 : i;
            return false;
        }
        tx->part[i].state = tx->part[first].state;
    }
    return true;
}

/* Records the charges of keys without a place in their cells. */
static void keep_overflowing(struct weir__transaction *tx)
{
    for (int i = 0; i < tx->n; i++) {
        struct weir__newcomer *n =
            &tx->newcomer[tx->item[i].newcomer < 0 ? 0 : tx->item[i].newcomer];
        struct weir__state *s = tx->part[i].state;

        if (!tx->item[i].overflows || tx->item[i].first != i || s->fresh_ns == 0)
            continue;
        if (s != n->cells.cell[n->lesser])
            (void)weir__newcomer_cell(n);
        weir__newcomer_keep(n, s);
    }
}

/* The verdict of a peek if the store has no place for a newcomer. */
static void peek_places(struct weir__transaction *tx, struct weir_verdict *v)
{
    struct weir__access promised[WEIR_TERMS_MAX];
    struct weir__spared spared = {tx->fingerprint, tx->n, promised, 0};
    const bool allowed = v->allowed;

    for (int i = 0; i < tx->n; i++) {
        struct weir__transaction_item *first = &tx->item[tx->item[i].first];
        struct weir__newcomer *n;
        int64_t free_ns;

        if (first->newcomer < 0 || first->made || !is_charged(tx, i, allowed))
            continue;
        n = &tx->newcomer[first->newcomer];
        n->spared = spared;
        item_weigh(tx, tx->item[i].first);
        if (!weir__newcomer_has_place(n, &free_ns) && !weir__newcomer_overflows(n)) {
            if (free_ns == WEIR__GROW_FIRST) {
                tx->to_grow = first->term->table;
                break;
            }
            if (weir__term_full(tx->engine, first->term) == WEIR_FULL_ALLOW &&
                leave_uncounted(tx, tx->item[i].first, allowed))
                continue;
            weir__fallback_full(tx->engine, first->term, free_ns - tx->now.now_ns, false, v);
            v->which = v->allowed ? -1 : i;
            break;
        }
        if (first->access.in)
            promised[spared.promises++] = first->access;
        first->made = true; /* so that items with the same state make no other place */
    }
    for (int i = 0; i < tx->n; i++)
        tx->item[i].made = false; /* no place was made */
}

static void transaction_report_overflow(struct weir__transaction *tx, struct weir_verdict *v)
{
    for (int i = 0; i < tx->newcomers; i++)
        weir__newcomer_report(&tx->newcomer[i], weir__verb_charges(tx->verb), v);
}

/* Charges all items, which no term can refuse; only a full store can. */
static void transaction_charge(struct weir__transaction *tx, struct weir_verdict *v)
{
    *v = (struct weir_verdict){.allowed = true, .which = -1};
    if (make_places(tx, v)) {
        weir__decide_charge(tx->part, tx->n, v);
        v->overflow = false;
        keep_overflowing(tx);
        forget_unused(tx, false);
    }
    if (!tx->to_grow)
        transaction_report_overflow(tx, v);
}

static int transaction_decide(struct weir__transaction *tx, enum weir__verb verb,
                              struct weir_verdict *v)
{
    int error = tx->account ? weir__account_begin(tx, v) : 0;

    if (error)
        return error > 0 ? 0 : error;
    error = find_newcomers(tx);
    if (!error)
        error = find_states(tx);
    if (!error)
        error = find_trials(tx);
    if (error)
        return error;
    if (tx->account)
        weir__account_settle_states(tx);
    if (verb == WEIR__CHARGE) {
        transaction_charge(tx, v);
        return 0;
    }
    copy_trials(tx);
    weir__decide_peek(tx->part, tx->n, v);
    v->overflow = false;
    if (verb == WEIR__PEEK) {
        peek_places(tx, v);
        if (tx->uncounted && !tx->to_grow && v->reason != WEIR_FULL) {
            copy_trials(tx);
            weir__decide_peek(tx->part, tx->n, v);
            v->overflow = false;
        }
    } else if (make_places(tx, v)) {
        copy_trials(tx); /* asking has changed the copies */
        weir__decide_take(tx->part, tx->n, v);
        v->overflow = false;
        keep_overflowing(tx);
        forget_unused(tx, false);
    }
    if (!tx->to_grow)
        transaction_report_overflow(tx, v);
    return 0;
}

/* Counts every warn= that was crossed, though the verdict names only the first. */
static void transaction_count_warned(const struct weir__transaction *tx,
                                     const struct weir_verdict *v)
{
    if (v->warned == 0 || !weir__verb_charges(tx->verb))
        return;
    for (int i = 0; i < tx->n; i++)
        if (tx->item[i].verdict.warned)
            weir__policy_warned(tx->item[i].policy);
}

static int transaction_run(struct weir__transaction *tx, struct weir_verdict *v,
                           struct weir__receipt *receipt)
{
    const struct weir__rescue rescue = weir__rescue_of(tx->engine);
    int error = lock_scratch(tx);

    if (!error)
        error = transaction_lock_all(tx);
    if (error) {
        unlock_scratch(tx);
        return error;
    }
    error = transaction_decide(tx, tx->verb, v);
    if (tx->account)
        weir__account_end(tx, error ? NULL : v);
    if (!error && receipt && !tx->to_grow)
        weir__transaction_note(tx, v, receipt);
    weir__journal_commit(tx->owner);
    weir__cells_unlock(&tx->cells);
    transaction_unlock(tx, tx->locks);
    unlock_scratch(tx);
    if (tx->to_grow) {
        weir__table_grow_now(tx->to_grow, &rescue, tx->verb == WEIR__PEEK ? 0 : tx->now.now_ns);
        return WEIR__STALE;
    }
    if (tx->account && tx->account->made)
        weir__table_grow(tx->account->table, &rescue, tx->now.now_ns);
    for (int i = 0; i < tx->n; i++)
        if (tx->item[i].made)
            weir__table_grow(tx->item[i].term->table, &rescue, tx->now.now_ns);
    return error;
}

static int transaction_begin(struct weir__transaction *tx, struct weir *w, enum weir__verb verb,
                             struct weir__now at)
{
    tx->engine = w;
    tx->owner = weir__store_owner(w->store);
    tx->now = at;
    tx->verb = verb;
    tx->account = NULL;
    tx->signals = weir__load_shown(&w->load);
    tx->n = tx->locks = 0;
    tx->listed = -1;
    tx->wait = (struct weir__wait_options){0};
    tx->uncounted = tx->scratch = false;
    tx->to_grow = NULL;
    tx->newcomers = 0;
    tx->cells.n = 0;
    return tx->owner ? 0 : weir__store_no_owner(w->store);
}

/* Names the term that refused, or the shadow that would have, as the caller counts: by request, or
 * by the place of the term in its limit. */
static void transaction_name(const struct weir__transaction *tx, bool all, struct weir_verdict *v)
{
    const int i = v->which >= 0 ? v->which : v->shadow - 1;
    int named;

    if (v->warned > 0) {
        const struct weir__transaction_item *it = &tx->item[v->warned - 1];

        v->warned = (int8_t)(1 + (all ? it->request : (int)it->index));
    }
    if (i < 0)
        return;
    named = all ? tx->item[i].request : (int)tx->item[i].index;
    v->term = (int8_t)tx->item[i].index;
    if (v->which >= 0)
        v->which = named;
    else
        v->shadow = (int8_t)(named + 1);
}

int weir__transaction_decide(struct weir *w, const struct weir_request *rq, size_t n,
                             const struct weir_limit *numbers, enum weir__verb verb,
                             struct weir__now at, struct weir__receipt *receipt,
                             struct weir_verdict *v)
{
    const bool all = verb == WEIR__TAKE_ALL || verb == WEIR__ENTER_ALL;
    struct weir__transaction tx;
    struct weir__own own;
    int error = transaction_begin(&tx, w, verb, at);

    weir__own_begin(&own);
    if (!error)
        error = transaction_gather(&tx, rq, n, numbers, &own);
    if (error)
        return error;
    if (tx.listed >= 0 || tx.n == 0) {
        weir__transaction_listed(&tx, rq, receipt, v);
        v->which = all ? tx.listed : -1;
        return 0;
    }
    if (receipt && receipt->account) {
        if (tx.n > WEIR_ACCOUNT_TERMS_MAX)
            return WEIR_EINVAL;
        tx.account = receipt->account;
        weir__account_gather(&tx, rq);
    }
    error = transaction_run(&tx, v, receipt);
    if (error)
        return error;
    if (tx.uncounted && v->allowed) {
        v->reason = WEIR_FULL;
        if (verb != WEIR__PEEK)
            atomic_fetch_add_explicit(&w->allowed_full, 1, memory_order_relaxed);
    }
    transaction_count_warned(&tx, v);
    transaction_name(&tx, all, v);
    return 0;
}

/* ---- One key, locked for a change of its limit ---------------------------------------------- */

int weir__transaction_hold(struct weir *w, const struct weir_request *rq,
                           struct weir__revision *now, struct weir__now at,
                           int (*run)(void *arg, struct weir__state *const *state), void *arg)
{
    struct weir__state *state[WEIR_TERMS_MAX] = {0};
    struct weir__transaction tx;
    int error = transaction_begin(&tx, w, WEIR__PEEK, at);

    if (!error)
        error = gather_request(&tx, rq, 0, now, now, 0,
                               now->overrides ? atomic_load(&now->overrides->changes) : 0, false);
    if (!error)
        error = transaction_lock_all(&tx);
    if (error)
        return error;
    for (int i = 0; i < tx.n; i++) {
        struct weir__transaction_item *it = &tx.item[i];

        state[it->index] = weir__table_search_locked(it->term->table, it->fingerprint, &it->access);
        if (state[it->index])
            weir__table_note(it->term->table, tx.owner, &it->access);
    }
    error = run(arg, state);
    weir__journal_commit(tx.owner);
    transaction_unlock(&tx, tx.locks);
    return error;
}
