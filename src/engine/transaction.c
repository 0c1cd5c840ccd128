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
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy/overrides.h"
#include "engine/remote.h"
#include "engine/store/overflow.h"
#include "engine/ticket.h"
#include "os/random.h"

#define LOCKS_MAX (3 * WEIR_TERMS_MAX)

/* One term of one request. */
struct item {
    struct weir_policy *policy;
    struct weir__revision *revision;
    struct weir__clause *clause;
    uint64_t fingerprint, key; /* key: its hash, or 0; see ticket.h */
    uint32_t index;            /* index of the term in its limit */
    int request;               /* index of the request in the call */
    int first;                 /* the first item with the same state; possibly this one */
    bool repeated;             /* other items have the same state */
    bool found, made;
    bool overflows; /* the key gets no place, and is charged in its cells */
    int newcomer;   /* index of the newcomer, if this is the first item of one; else -1 */
    struct weir__access hold;
    struct weir_verdict own;
};

struct transaction {
    struct weir *w;
    struct weir__owner *owner;
    struct weir__now now;
    enum weir__verb verb;
    struct weir_signals signals;
    int n;
    int listed;                     /* the request whose key is denied, or -1 */
    struct weir__wait_options line; /* for a single request */
    struct item item[WEIR_TERMS_MAX];
    struct weir__part part[WEIR_TERMS_MAX];
    uint64_t fingerprint[WEIR_TERMS_MAX];
    struct weir__lock *lock[LOCKS_MAX];
    int locks;
    struct weir__newcomer newcomer[WEIR_TERMS_MAX];
    int newcomers;
    struct weir__cell_locks cells;
    /* The states by which keys without a place are judged: untouched, or the debt of their cells.
     * Large ones are in the scratch memory. */
    _Alignas(16) unsigned char start[WEIR_TERMS_MAX][WEIR__SAVED_INLINE];
    _Alignas(16) unsigned char trial[WEIR_TERMS_MAX][WEIR__SAVED_INLINE];
    bool scratch;                /* the engine's scratch memory is locked */
    char *scratch_at;            /* what is left of it */
    struct weir__table *cramped; /* it must grow before the transaction starts again; or NULL */
};

/* ---- Gathering ----------------------------------------------------------------------------- */

static void item_find_twin(struct transaction *c, int i)
{
    struct item *it = &c->item[i];

    it->first = i;
    for (int j = 0; j < i; j++)
        if (c->item[j].first == j && c->item[j].fingerprint == it->fingerprint &&
            c->item[j].clause->table == it->clause->table) {
            it->first = j;
            it->repeated = c->item[j].repeated = true;
            return;
        }
}

static void gather_term(struct transaction *c, const struct weir_request *rq, int i,
                        struct weir__revision *e, struct weir__clause *clause, uint64_t key,
                        uint32_t index)
{
    struct item *it = &c->item[c->n];
    struct weir__part *part = &c->part[c->n];

    *it = (struct item){.policy = rq->policy,
                        .revision = e,
                        .clause = clause,
                        .key = key,
                        .index = index,
                        .request = i};
    it->fingerprint = c->fingerprint[c->n] = weir__fingerprint_at(clause, rq);
    weir__table_prefetch(clause->table, it->fingerprint);
    item_find_twin(c, c->n);
    *part = (struct weir__part){
        .meter = &clause->meter,
        .own = &it->own,
        .ask = weir__clause_ask(clause, rq->cost, rq->patience_ns, c->now.now_ns, c->now.wall_ns)};
    if (e->guards) {
        part->ask.signals = &c->signals;
        part->ask.random = weir__random_next(c->w->store->secret);
    }
    c->n++;
}

/* Gathers the terms of one request, by the clauses of `by`: the revision in force, or an
 * override. */
static int gather_request(struct transaction *c, const struct weir_request *rq, int i,
                          struct weir__revision *e, struct weir__revision *by, uint64_t key,
                          bool allowed)
{
    if (by->n > WEIR_TERMS_MAX - c->n)
        return WEIR_EINVAL;
    for (int k = 0; k < by->n; k++) {
        struct weir__clause *clause = weir__clause_of(e, by, by->chain[k]);

        if (!allowed || clause->meter.term.algorithm == WEIR_SYSTEM)
            gather_term(c, rq, i, e, clause, key, by->chain[k]);
    }
    c->line = by->line;
    return 0;
}

static int transaction_gather(struct transaction *c, const struct weir_request *rq, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct weir__revision *e = weir__policy_revision(rq[i].policy);
        uint64_t key = 0;
        int error;

        assert(rq[i].policy->store == c->w->store);
        if (!e)
            return WEIR__STALE;
        if (e->guards && weir__verb_takes(c->verb))
            return WEIR_EINVAL; /* the guard could never be exited */
        if (e->overrides || e->line.room > 0)
            key = weir__key_hash(c->w->store, &rq[i]);
        if (weir__revision_lists(e, WEIR_LIST_DENY, key)) {
            c->listed = (int)i;
            return 0;
        }
        error = gather_request(c, &rq[i], (int)i, e, weir__revision_for(e, key), key,
                               weir__revision_lists(e, WEIR_LIST_ALLOW, key));
        if (error)
            return error;
    }
    return 0;
}

/* ---- Locking ------------------------------------------------------------------------------- */

static void add_lock(struct transaction *c, struct weir__lock *l)
{
    int i = c->locks;

    for (int j = 0; j < c->locks; j++)
        if (c->lock[j] == l)
            return;
    for (; i > 0 && (uintptr_t)c->lock[i - 1] > (uintptr_t)l; i--)
        c->lock[i] = c->lock[i - 1];
    c->lock[i] = l;
    c->locks++;
}

static void transaction_unlock(struct transaction *c, int n)
{
    while (n > 0)
        weir__lock_drop(c->lock[--n]);
}

static int lock_in_order(struct transaction *c)
{
    for (int i = 0; i < c->locks; i++) {
        int error;

        weir__journal_intend(c->owner, i, c->lock[i]);
        error = weir__lock_take(c->lock[i], c->owner);
        if (error) {
            transaction_unlock(c, i);
            return error;
        }
    }
    return 0;
}

static bool still_there(const struct transaction *c)
{
    for (int i = 0; i < c->n; i++)
        if (!weir__table_is_current(c->item[i].clause->table, c->item[i].fingerprint,
                                    &c->item[i].hold))
            return false;
    return true;
}

static bool still_in_force(const struct transaction *c)
{
    for (int i = 0; i < c->n; i++)
        if (weir__policy_revision(c->item[i].policy) != c->item[i].revision)
            return false;
    return true;
}

/* Locks every bucket that may hold one of the keys, and starts again if a table has grown in the
 * meantime. */
static int transaction_lock_all(struct transaction *c)
{
    for (;;) {
        int error;

        c->locks = 0;
        for (int i = 0; i < c->n; i++) {
            struct item *it = &c->item[i];
            struct weir__lock *saving = weir__table_saving(it->clause->table);
            const int buckets =
                weir__table_candidates(it->clause->table, it->fingerprint, &it->hold);

            for (int b = 0; b < buckets; b++)
                add_lock(c, weir__bucket_lock(it->hold.bucket[b]));
            if (saving && c->owner->journal)
                add_lock(c, saving);
        }
        error = lock_in_order(c);
        if (error)
            return error;
        if (still_there(c))
            break;
        transaction_unlock(c, c->locks);
    }
    if (still_in_force(c))
        return 0;
    transaction_unlock(c, c->locks);
    return WEIR__STALE;
}

/* ---- Scratch ------------------------------------------------------------------------------- */

static size_t item_size(const struct item *it)
{
    return weir__size_of_class((uint32_t)it->clause->placing.size_class);
}

/* Whether another key of the request is of the same limit: both may then have one cell. */
static bool item_shares_cells(const struct transaction *c, int i)
{
    const struct weir__cells_head *head = c->item[i].clause->cells.head;

    for (int k = 0; head && k < c->n; k++)
        if (k != i && c->item[k].first == k && c->item[k].clause->cells.head == head)
            return true;
    return false;
}

/* The number of copies of its state that the item may need: one to try on, one to start from. */
static size_t copies_of(const struct transaction *c, int i)
{
    const struct item *it = &c->item[i];

    if (it->first != i)
        return 0;
    return (size_t)it->repeated +
           (weir__cells_alive(&it->clause->cells, c->now.now_ns) || item_shares_cells(c, i));
}

/* Locks room for copies of large states, if there will be any. Called before the buckets are
 * locked. */
static int lock_scratch(struct transaction *c)
{
    size_t bytes = 0;

    for (int i = 0; i < c->n; i++)
        if (item_size(&c->item[i]) > WEIR__SAVED_INLINE)
            bytes += copies_of(c, i) * item_size(&c->item[i]);
    if (bytes == 0)
        return 0;
    (void)pthread_mutex_lock(&c->w->scratch_lock);
    c->scratch = true;
    if (bytes > c->w->scratch_bytes) { /* it grows only for the largest request so far */
        void *more = realloc(c->w->scratch, bytes);

        if (!more)
            return WEIR_ENOMEM;
        c->w->scratch = more;
        c->w->scratch_bytes = bytes;
    }
    c->scratch_at = c->w->scratch;
    return 0;
}

static void unlock_scratch(struct transaction *c)
{
    if (c->scratch)
        (void)pthread_mutex_unlock(&c->w->scratch_lock);
}

/* Room for a copy of the item's state: `own` if the state is small. NULL: there is none, and the
 * transaction starts again. */
static void *room_for(struct transaction *c, const struct item *it, void *own)
{
    const size_t bytes = item_size(it);
    char *at = c->scratch_at;

    if (bytes <= WEIR__SAVED_INLINE)
        return own;
    if (!c->scratch || (size_t)(at - (char *)c->w->scratch) + bytes > c->w->scratch_bytes)
        return NULL;
    c->scratch_at += bytes;
    return at;
}

/* ---- States -------------------------------------------------------------------------------- */

/* Finds the keys without a place, and the cells that judge them. */
static int find_newcomers(struct transaction *c)
{
    c->cells = (struct weir__cell_locks){.owner = c->owner, .first = c->locks};
    for (int i = 0; i < c->n; i++) {
        struct item *it = &c->item[i];

        it->newcomer = -1;
        if (it->first != i ||
            weir__table_search_locked(it->clause->table, it->fingerprint, &it->hold))
            continue;
        it->newcomer = c->newcomers;
        c->newcomer[c->newcomers] =
            weir__newcomer_of(c->w, it->policy, it->revision, it->clause, c->owner, it->fingerprint,
                              &it->hold, &c->part[i].ask);
        c->newcomer[c->newcomers++].spared =
            (struct weir__spared){.fingerprint = c->fingerprint, .n = c->n};
    }
    return weir__newcomers_bind(c->newcomer, c->newcomers, weir__verb_charges(c->verb), &c->cells);
}

/* The state by which a newcomer is judged. */
static struct weir__state *start_of(struct transaction *c, int i)
{
    const struct weir__newcomer *n = &c->newcomer[c->item[i].newcomer];
    struct weir__state *s = (void *)c->start[i];

    if (!n->base && !item_shares_cells(c, i)) {
        weir__state_reset(s);
        return s;
    }
    s = room_for(c, &c->item[i], s);
    if (!s)
        return NULL;
    if (!n->base) {
        memset(s, 0, weir__meter_state_size(&n->clause->meter));
        return s;
    }
    memcpy(s, n->base, weir__meter_state_size(&n->clause->meter));
    weir__meter_mark_copied(&n->clause->meter, s);
    return s;
}

/* 0, or WEIR__STALE: a limit has begun to judge by cells since the scratch memory was sized. */
static int find_states(struct transaction *c)
{
    for (int i = 0; i < c->n; i++) {
        struct item *it = &c->item[i];

        if (it->first != i) {
            c->part[i].state = c->part[it->first].state;
            continue;
        }
        it->found = it->newcomer < 0;
        if (it->found) {
            c->part[i].state =
                weir__table_search_locked(it->clause->table, it->fingerprint, &it->hold);
            weir__table_note(it->clause->table, c->owner, &it->hold);
        } else {
            c->part[i].state = start_of(c, i);
        }
        if (!c->part[i].state)
            return WEIR__STALE;
    }
    return 0;
}

/* Room for a copy of every state that is named more than once, to try on. */
static int find_trials(struct transaction *c)
{
    for (int i = 0; i < c->n; i++) {
        struct item *it = &c->item[i];

        if (!it->repeated)
            continue;
        c->part[i].trial = it->first == i ? room_for(c, it, c->trial[i]) : c->part[it->first].trial;
        if (!c->part[i].trial)
            return WEIR__STALE;
    }
    return 0;
}

static void copy_trials(struct transaction *c)
{
    for (int i = 0; i < c->n; i++) {
        const struct weir__state *s = c->part[i].state;

        if (c->item[i].repeated && c->item[i].first == i)
            memcpy(c->part[i].trial, s,
                   s->fresh_ns == 0 ? sizeof *s : weir__meter_state_size(c->part[i].meter));
    }
}

/* ---- Deciding ------------------------------------------------------------------------------ */

/* Whether the i-th item charges an untouched key. */
static bool is_charged(const struct transaction *c, int i, bool allowed)
{
    const struct weir__meter *m = c->part[i].meter;

    return c->part[i].ask.cost > 0 && (allowed || m->term.count_denied) && !m->algo->enters_unseen;
}

/* Gives back the places of newcomers that were not charged after all. */
static void forget_unused(struct transaction *c, bool all)
{
    for (int i = 0; i < c->n; i++)
        if (c->item[i].made && (all || c->part[i].state->fresh_ns == 0)) {
            weir__table_forget(c->item[i].clause->table, &c->item[i].hold);
            c->item[i].made = false;
        }
}

/* Computes the debt of the i-th item's key if it were charged. A key that appears several times
 * must have a place, because its total debt is not known before it is charged. */
static void item_weigh(struct transaction *c, int i)
{
    struct weir__newcomer *n = &c->newcomer[c->item[i].newcomer];

    if (c->item[i].repeated)
        n->owes = UINT32_MAX;
    else
        weir__newcomer_weigh(n);
}

/* Makes a place for the i-th item, which will be charged and has none, or lets it overflow into its
 * cells. False: neither is possible. */
static bool make_place(struct transaction *c, int i, int64_t *free_ns)
{
    struct item *it = &c->item[i];
    struct weir__newcomer *n = &c->newcomer[it->newcomer];
    struct weir__state *s;

    item_weigh(c, i);
    s = weir__newcomer_place(n, &c->cells, free_ns);
    if (s) {
        /* A key that gave up its place for another item may have been joined into this item's cell:
         * so the item starts from the state by which it was judged. */
        if (n->base)
            memcpy(s, c->part[i].state, weir__meter_state_size(&n->clause->meter));
        it->made = true;
        c->part[i].state = s;
        return true;
    }
    it->overflows = *free_ns != WEIR__GROW_FIRST && n->locked && weir__newcomer_overflows(n);
    /* A large state that owes nothing has no copy, if no other key of the request can have the same
     * cell: it is charged in the cell, which owes nothing either. */
    if (it->overflows && !n->base && item_size(it) > WEIR__SAVED_INLINE && !item_shares_cells(c, i))
        c->part[i].state = weir__newcomer_cell(n);
    return it->overflows;
}

/* Makes places for all items that will be charged and have none. False: the store is full, and *v
 * says so; or a table must grow first. */
static bool make_places(struct transaction *c, struct weir_verdict *v)
{
    const bool allowed = v->allowed;

    for (int i = 0; i < c->n; i++) {
        const int first = c->item[i].first;
        struct item *it = &c->item[first];
        int64_t free_ns = 0;

        if (it->newcomer >= 0 && !it->made && !it->overflows && is_charged(c, i, allowed) &&
            !make_place(c, first, &free_ns)) {
            forget_unused(c, true);
            if (free_ns == WEIR__GROW_FIRST) {
                c->cramped = it->clause->table;
                return false;
            }
            weir__fallback_full(c->w, it->clause, free_ns - c->now.now_ns, true, v);
            v->which = v->allowed ? -1 : i;
            return false;
        }
        c->part[i].state = c->part[first].state;
    }
    return true;
}

/* Records the charges of keys without a place in their cells. */
static void keep_overflowing(struct transaction *c)
{
    for (int i = 0; i < c->n; i++) {
        struct weir__newcomer *n = &c->newcomer[c->item[i].newcomer < 0 ? 0 : c->item[i].newcomer];
        struct weir__state *s = c->part[i].state;

        if (!c->item[i].overflows || c->item[i].first != i || s->fresh_ns == 0)
            continue;
        if (s != n->cells.cell[n->lesser])
            (void)weir__newcomer_cell(n);
        weir__newcomer_keep(n, s);
    }
}

/* The verdict of a peek if the store has no place for a newcomer. */
static void peek_places(struct transaction *c, struct weir_verdict *v)
{
    struct weir__access promised[WEIR_TERMS_MAX];
    struct weir__spared spared = {c->fingerprint, c->n, promised, 0};
    const bool allowed = v->allowed;

    for (int i = 0; i < c->n; i++) {
        struct item *first = &c->item[c->item[i].first];
        struct weir__newcomer *n;
        int64_t free_ns;

        if (first->newcomer < 0 || first->made || !is_charged(c, i, allowed))
            continue;
        n = &c->newcomer[first->newcomer];
        n->spared = spared;
        item_weigh(c, c->item[i].first);
        if (!weir__newcomer_has_place(n, &free_ns) && !weir__newcomer_overflows(n)) {
            if (free_ns == WEIR__GROW_FIRST) {
                c->cramped = first->clause->table;
                break;
            }
            weir__fallback_full(c->w, first->clause, free_ns - c->now.now_ns, false, v);
            v->which = v->allowed ? -1 : i;
            break;
        }
        if (first->hold.in)
            promised[spared.promises++] = first->hold;
        first->made = true; /* so that items with the same state make no other place */
    }
    for (int i = 0; i < c->n; i++)
        c->item[i].made = false; /* no place was made */
}

static void transaction_report_overflow(struct transaction *c, struct weir_verdict *v)
{
    for (int i = 0; i < c->newcomers; i++)
        weir__newcomer_report(&c->newcomer[i], weir__verb_charges(c->verb), v);
}

static int transaction_decide(struct transaction *c, enum weir__verb verb, struct weir_verdict *v)
{
    int error = find_newcomers(c);

    if (!error)
        error = find_states(c);
    if (!error)
        error = find_trials(c);
    if (error)
        return error;
    copy_trials(c);
    weir__decide_peek(c->part, c->n, v);
    v->overflow = false;
    if (verb == WEIR__PEEK) {
        peek_places(c, v);
    } else if (make_places(c, v)) {
        copy_trials(c); /* asking has changed the copies */
        weir__decide_take(c->part, c->n, v);
        v->overflow = false;
        keep_overflowing(c);
        forget_unused(c, false);
    }
    if (!c->cramped)
        transaction_report_overflow(c, v);
    return 0;
}

static void transaction_note_reservation(const struct transaction *c, const struct weir_verdict *v,
                                         struct weir_reservation *r)
{
    *r = (struct weir_reservation){.act_ns = weir__add_sat(c->now.now_ns, v->wait_ns)};
    /* A grant that was not counted (FULL) has nothing to give back. */
    if (!v->allowed || v->reason == WEIR_FULL)
        return;
    r->n = c->n;
    for (int i = 0; i < c->n; i++) {
        const struct item *it = &c->item[i];

        r->term[i].policy = it->policy;
        r->term[i].scope = it->clause->scope;
        r->term[i].fingerprint = it->fingerprint;
        r->term[i].key = it->key;
        r->term[i].index = it->index;
        r->term[i].cost = it->own.allowed ? c->part[i].ask.cost : 0;
        r->term[i].act_ns = weir__add_sat(c->now.now_ns, it->own.wait_ns);
        r->term[i].resets = atomic_load(&it->policy->record->resets);
    }
}

/* Records the guards that granted, which must be exited; a shadow that refused took nothing. */
static void transaction_note_ticket(const struct transaction *c, const struct weir_verdict *v,
                                    struct weir_ticket *t)
{
    if (!v->allowed)
        return;
    weir__ticket_begin(t, c->w, c->now.now_ns);
    for (int i = 0; i < c->n && v->reason != WEIR_FULL; i++) {
        const struct item *it = &c->item[i];

        if (weir__meter_guards(c->part[i].meter) && it->own.allowed && c->part[i].ask.cost > 0)
            weir__ticket_add(
                t, it->policy, it->clause, it->index, it->fingerprint, it->key,
                weir__ticket_birth(it->policy, it->clause, it->fingerprint, c->part[i].state),
                c->part[i].ask.cost);
    }
}

/* Whether every term that refuses would let the caller in once another caller exits, and lets
 * callers wait for that. */
static bool may_be_waited_for(const struct transaction *c, const struct weir_verdict *v)
{
    if (v->allowed || v->reason != WEIR_LIMITED || c->line.room == 0)
        return false;
    for (int i = 0; i < c->n; i++) {
        const struct weir_term *t = &c->part[i].meter->term;
        struct weir_verdict one;

        weir__meter_peek(c->part[i].meter, c->part[i].state, &c->part[i].ask, &one);
        if (!one.allowed && !t->shadow &&
            (t->algorithm != WEIR_CONCURRENCY || t->queue == 0 || one.reason != WEIR_LIMITED))
            return false;
    }
    return true;
}

static void transaction_note(const struct transaction *c, const struct weir_verdict *v,
                             struct weir__receipt *receipt)
{
    if (receipt->reservation)
        transaction_note_reservation(c, v, receipt->reservation);
    if (receipt->ticket)
        transaction_note_ticket(c, v, receipt->ticket);
    if (c->verb == WEIR__ENTER || c->verb == WEIR__PEEK) {
        receipt->full = may_be_waited_for(c, v);
        receipt->line = c->line;
    }
}

static int transaction_run(struct transaction *c, struct weir_verdict *v,
                           struct weir__receipt *receipt)
{
    const struct weir__rescue rescue = weir__rescue_of(c->w);
    int error = lock_scratch(c);

    if (!error)
        error = transaction_lock_all(c);
    if (error) {
        unlock_scratch(c);
        return error;
    }
    error = transaction_decide(c, c->verb, v);
    if (!error && receipt && !c->cramped)
        transaction_note(c, v, receipt);
    weir__journal_commit(c->owner);
    weir__cells_unlock(&c->cells);
    transaction_unlock(c, c->locks);
    unlock_scratch(c);
    if (c->cramped) {
        weir__table_grow_now(c->cramped, &rescue, c->verb == WEIR__PEEK ? 0 : c->now.now_ns);
        return WEIR__STALE;
    }
    for (int i = 0; i < c->n; i++)
        if (c->item[i].made)
            weir__table_grow(c->item[i].clause->table, &rescue, c->now.now_ns);
    return error;
}

/* The verdict for a key on a list, which no term judges: denied or allowed. */
static void transaction_listed_verdict(const struct transaction *c, const struct weir_request *rq,
                                       struct weir__receipt *receipt, struct weir_verdict *v)
{
    const struct weir_policy *p = rq[c->listed < 0 ? 0 : c->listed].policy;
    const struct weir__revision *e = atomic_load_explicit(&p->revision, memory_order_acquire);
    const int64_t limit = e->clause[0].meter.limit;

    *v = (struct weir_verdict){.allowed = c->listed < 0,
                               .reason = c->listed < 0 ? WEIR_OK : WEIR_LISTED,
                               .which = -1,
                               .limit = limit,
                               .remaining = c->listed < 0 ? limit : 0,
                               .retry_after_ns = c->listed < 0 ? 0 : -1};
    if (receipt)
        transaction_note(c, v, receipt);
}

static int transaction_begin(struct transaction *c, struct weir *w, enum weir__verb verb,
                             struct weir__now at)
{
    c->w = w;
    c->owner = weir__store_owner(w->store);
    c->now = at;
    c->verb = verb;
    c->signals = weir__load_shown(&w->load);
    c->n = c->locks = 0;
    c->listed = -1;
    c->line = (struct weir__wait_options){0};
    c->scratch = false;
    c->cramped = NULL;
    c->newcomers = 0;
    c->cells.n = 0;
    return c->owner ? 0 : weir__store_no_owner(w->store);
}

int weir__transaction_decide(struct weir *w, const struct weir_request *rq, size_t n,
                             enum weir__verb verb, struct weir__now at,
                             struct weir__receipt *receipt, struct weir_verdict *v)
{
    const bool all = verb == WEIR__TAKE_ALL || verb == WEIR__ENTER_ALL;
    struct transaction c;
    int error = transaction_begin(&c, w, verb, at);

    if (!error)
        error = transaction_gather(&c, rq, n);
    if (error)
        return error;
    if (c.listed >= 0 || c.n == 0) {
        transaction_listed_verdict(&c, rq, receipt, v);
        v->which = all ? c.listed : -1;
        return 0;
    }
    error = transaction_run(&c, v, receipt);
    if (!error && v->which >= 0)
        v->which = all ? c.item[v->which].request : (int)c.item[v->which].index;
    return error;
}

/* ---- A new override for one key ------------------------------------------------------------ */

/* Converts a state that `from` wrote to what `to` would have written. */
static void transaction_rewrite_state(const struct transaction *c, struct weir__state *s,
                                      const struct weir__clause *from, struct weir__clause *to)
{
    struct weir__meter after = to->meter;

    weir__meter_touch(&from->meter, s, c->now.now_ns);
    if (s->fresh_ns == 0)
        return;
    after.older = &from->meter;
    after.changed_ns = c->now.now_ns;
    if (to->meter.term.align == WEIR_ALIGN_CLOCK)
        after.changed_edge_ns = weir__clause_edge(to, c->now.now_ns, c->now.wall_ns);
    if (after.algo->change)
        after.algo->change(&from->meter, &after, s);
    else
        weir__state_reset(s);
    s->word = (s->word & ~WEIR__VERSION_MASK) | after.version;
}

/* Makes a place for a key that has none but whose cells have a debt: no cells know the limit that
 * it has from now on. */
static int transaction_place_absent(struct transaction *c)
{
    for (int i = 0; i < c->newcomers; i++) {
        struct weir__newcomer *n = &c->newcomer[i];
        int64_t free_ns;

        n->owes = UINT32_MAX;
        n->ignores_parts = true;
        if (!n->base || weir__newcomer_place(n, &c->cells, &free_ns))
            continue;
        if (free_ns != WEIR__GROW_FIRST)
            return WEIR_EFULL;
        c->cramped = n->clause->table;
        return WEIR__STALE;
    }
    return 0;
}

static void transaction_rewrite_states(struct transaction *c, struct weir__revision *to)
{
    for (int i = 0; i < c->n; i++) {
        struct item *it = &c->item[i];
        struct weir__state *s =
            weir__table_search_locked(it->clause->table, it->fingerprint, &it->hold);

        if (!s || it->first != i || it->clause->meter.term.algorithm == WEIR_SYSTEM)
            continue;
        if (it->newcomer < 0)
            weir__table_note(it->clause->table, c->owner, &it->hold);
        transaction_rewrite_state(c, s, it->clause, &to->clause[it->index]);
    }
}

int weir__transaction_rewrite(struct weir *w, const struct weir_request *rq,
                              struct weir__revision *now, struct weir__revision *from,
                              struct weir__revision *to, struct weir__revision *next,
                              struct weir__now at)
{
    const struct weir__rescue rescue = weir__rescue_of(w);
    struct transaction c;
    int error = transaction_begin(&c, w, WEIR__PEEK, at);

    if (!error)
        error = gather_request(&c, rq, 0, now, from, 0, false);
    if (!error)
        error = transaction_lock_all(&c);
    if (error)
        return error;
    error = find_newcomers(&c);
    if (!error)
        error = transaction_place_absent(&c);
    if (!error) {
        transaction_rewrite_states(&c, to);
        weir__policy_publish(rq->policy, next);
    }
    weir__journal_commit(c.owner);
    weir__cells_unlock(&c.cells);
    transaction_unlock(&c, c.locks);
    if (error == WEIR__STALE && c.cramped)
        weir__table_grow_now(c.cramped, &rescue, at.now_ns);
    return error;
}
