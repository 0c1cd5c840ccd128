/* Several keys in one request, all or nothing, whoever else is at them.
 *
 * All candidate buckets of all keys are sorted, deduplicated and locked in that order, so that no two
 * requests wait for each other in a ring. Then all terms are asked and, if none refuses, charged
 * (algo/decide.c). A limit of several terms is such a request of one key, and so is a shadow, and one
 * whose policy treats some keys otherwise (lists.h).
 *
 * Invariants:
 *   (1) The locks are taken in the order of their addresses. The single path (table.c) takes its
 *       second lock in that order too, or only tries it.
 *   (2) Places for newcomers are made before anything is charged; if one cannot be had, nothing is.
 *       No key of the request is evicted for another of it.
 *   (3) The same key twice under the same term is one state: the second sees the first's charge. It is
 *       tried on a copy, so that a refusal leaves no trace.
 *   (4) Terms are asked in the order of the chain (edition.c), and named as they were written.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "engine/dice.h"
#include "engine/far.h"
#include "engine/lists.h"
#include "engine/ticket.h"

#define LOCKS_MAX (3 * WEIR_TERMS_MAX)

/* One term of one request. */
struct item {
    struct weir_policy *policy;
    struct weir__edition *edition;
    struct weir__clause *clause;
    uint64_t fingerprint, key; /* key: its hash, or 0; see ticket.h */
    uint32_t index;            /* of the term in its limit */
    int request;               /* of the request in the call */
    int first;                 /* the item that has the same state; itself, if it is the first */
    bool repeated;             /* others have the same state */
    bool found, made;
    struct weir__hold hold;
    struct weir_verdict own;
};

struct call {
    struct weir *w;
    struct weir__seat *seat;
    struct weir__moment now;
    enum weir__verb verb;
    struct weir_signals signals;
    int n;
    int listed;                 /* the request whose key is denied, or -1 */
    struct weir__patience line; /* of a single request */
    struct item item[WEIR_TERMS_MAX];
    struct weir__part part[WEIR_TERMS_MAX];
    uint64_t fingerprint[WEIR_TERMS_MAX];
    struct weir__lock *lock[LOCKS_MAX];
    int locks;
    struct weir__state none[WEIR_TERMS_MAX]; /* stand for keys that are not there */
    unsigned char trial[WEIR_TERMS_MAX][WEIR__SAVED_INLINE];
    bool scratch;                /* the engine's scratch is locked */
    struct weir__table *cramped; /* must grow, and then all begins anew; or NULL */
};

/* ---- Gathering --------------------------------------------------------------------------------- */

static void find_twin(struct call *c, int i)
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

static void gather_term(struct call *c, const struct weir_request *rq, int i,
                        struct weir__edition *e, struct weir__clause *clause, uint64_t key,
                        uint32_t index)
{
    struct item *it = &c->item[c->n];
    struct weir__part *part = &c->part[c->n];

    *it = (struct item){.policy = rq->policy,
                        .edition = e,
                        .clause = clause,
                        .key = key,
                        .index = index,
                        .request = i};
    it->fingerprint = c->fingerprint[c->n] = weir__fingerprint_at(clause, rq);
    weir__table_prefetch(clause->table, it->fingerprint);
    find_twin(c, c->n);
    *part = (struct weir__part){
        .meter = &clause->meter,
        .own = &it->own,
        .ask = weir__clause_ask(clause, rq->cost, rq->patience_ns, c->now.now_ns, c->now.wall_ns)};
    if (e->guards) {
        part->ask.signals = &c->signals;
        part->ask.dice = weir__dice_throw(c->w->store);
    }
    c->n++;
}

/* The terms of one request, by the clauses of `by`: the edition in force, or a key's own. */
static int gather_request(struct call *c, const struct weir_request *rq, int i,
                          struct weir__edition *e, struct weir__edition *by, uint64_t key,
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

static int gather(struct call *c, const struct weir_request *rq, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        struct weir__edition *e = weir__policy_edition(rq[i].policy);
        uint64_t key = 0;
        int error;

        assert(rq[i].policy->store == c->w->store);
        if (!e)
            return WEIR__STALE;
        if (e->guards && weir__verb_takes(c->verb))
            return WEIR_EINVAL; /* it could never be left */
        if (e->exceptions || e->line.room > 0)
            key = weir__key_hash(c->w->store, &rq[i]);
        if (weir__edition_lists(e, WEIR_LIST_DENY, key)) {
            c->listed = (int)i;
            return 0;
        }
        error = gather_request(c, &rq[i], (int)i, e, weir__edition_for(e, key), key,
                               weir__edition_lists(e, WEIR_LIST_ALLOW, key));
        if (error)
            return error;
    }
    return 0;
}

/* ---- Locking ----------------------------------------------------------------------------------- */

static void add_lock(struct call *c, struct weir__lock *l)
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

static void unlock(struct call *c, int n)
{
    while (n > 0)
        weir__lock_drop(c->lock[--n]);
}

static int lock_in_order(struct call *c)
{
    for (int i = 0; i < c->locks; i++) {
        int error;

        weir__journal_intend(c->seat, i, c->lock[i]);
        error = weir__lock_take(c->lock[i], c->seat);
        if (error) {
            unlock(c, i);
            return error;
        }
    }
    return 0;
}

static bool still_there(const struct call *c)
{
    for (int i = 0; i < c->n; i++)
        if (!weir__table_still(c->item[i].clause->table, c->item[i].fingerprint, &c->item[i].hold))
            return false;
    return true;
}

static bool still_in_force(const struct call *c)
{
    for (int i = 0; i < c->n; i++)
        if (weir__policy_edition(c->item[i].policy) != c->item[i].edition)
            return false;
    return true;
}

/* Locks every bucket that may hold one of the keys; again if a table has grown meanwhile. */
static int lock_all(struct call *c)
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
            if (saving && c->seat->journal)
                add_lock(c, saving);
        }
        error = lock_in_order(c);
        if (error)
            return error;
        if (still_there(c))
            break;
        unlock(c, c->locks);
    }
    if (still_in_force(c))
        return 0;
    unlock(c, c->locks);
    return WEIR__STALE;
}

/* ---- States ------------------------------------------------------------------------------------ */

static void find_states(struct call *c)
{
    for (int i = 0; i < c->n; i++) {
        struct item *it = &c->item[i];
        struct weir__state *s;

        if (it->first != i) {
            c->part[i].state = c->part[it->first].state;
            continue;
        }
        s = weir__table_search_locked(it->clause->table, it->fingerprint, &it->hold);
        it->found = s != NULL;
        if (s)
            weir__table_note(it->clause->table, c->seat, &it->hold);
        c->part[i].state = s ? s : &c->none[i];
    }
}

static size_t size_of(const struct item *it)
{
    return weir__size_of_class(it->clause->size_class);
}

/* A copy of every state that is named more than once, to try on. Large ones lie in the engine's
 * scratch, one request at a time. */
static int copy_trials(struct call *c)
{
    char *at = c->scratch ? c->w->scratch : NULL;

    for (int i = 0; i < c->n; i++) {
        struct item *it = &c->item[i];
        const size_t bytes = size_of(it);
        void *copy = c->trial[i];

        if (!it->repeated)
            continue;
        if (it->first != i) {
            c->part[i].trial = c->part[it->first].trial;
            continue;
        }
        if (bytes > WEIR__SAVED_INLINE) {
            if (!c->scratch)
                return WEIR_EINVAL;
            copy = at;
            at += bytes;
        }
        memcpy(copy, c->part[i].state, it->found ? bytes : sizeof(struct weir__state));
        c->part[i].trial = copy;
    }
    return 0;
}

/* Before the buckets are locked: room for copies of large states, if there will be any. */
static int lock_scratch(struct call *c)
{
    size_t bytes = 0;

    for (int i = 0; i < c->n; i++)
        if (c->item[i].repeated && c->item[i].first == i &&
            size_of(&c->item[i]) > WEIR__SAVED_INLINE)
            bytes += size_of(&c->item[i]);
    if (bytes == 0)
        return 0;
    (void)pthread_mutex_lock(&c->w->scratch_lock);
    c->scratch = true;
    if (bytes > c->w->scratch_bytes) { /* once for the largest such request */
        void *more = realloc(c->w->scratch, bytes);

        if (!more)
            return WEIR_ENOMEM;
        c->w->scratch = more;
        c->w->scratch_bytes = bytes;
    }
    return 0;
}

static void unlock_scratch(struct call *c)
{
    if (c->scratch)
        (void)pthread_mutex_unlock(&c->w->scratch_lock);
}

/* ---- Deciding ---------------------------------------------------------------------------------- */

/* Of an untouched key. */
static bool is_charged(const struct call *c, int i, bool allowed)
{
    const struct weir__meter *m = c->part[i].meter;

    return c->part[i].ask.cost > 0 && (allowed || m->term.count_denied) && !m->algo->enters_unseen;
}

/* Gives back the places that were made for those who were not charged after all. */
static void forget_unused(struct call *c, bool all)
{
    for (int i = 0; i < c->n; i++)
        if (c->item[i].made && (all || c->part[i].state->fresh_ns == 0)) {
            weir__table_forget(c->item[i].clause->table, &c->item[i].hold);
            c->item[i].made = false;
        }
}

/* Places for all who will be charged and have none. False: the store is full, and *v says so; or a table
 * must grow first. */
static bool make_places(struct call *c, struct weir_verdict *v)
{
    const bool allowed = v->allowed;

    for (int i = 0; i < c->n; i++) {
        struct item *it = &c->item[i], *first = &c->item[it->first];
        int64_t free_ns = 0;
        struct weir__state *s;

        if (!first->found && !first->made && is_charged(c, i, allowed)) {
            s = weir__table_make(it->clause->table, c->seat, it->fingerprint, c->now.now_ns,
                                 c->w->full == WEIR_FULL_EVICT,
                                 (struct weir__spared){c->fingerprint, c->n}, &first->hold,
                                 &free_ns);
            if (!s) {
                forget_unused(c, true);
                if (free_ns == WEIR__GROW_FIRST) {
                    c->cramped = it->clause->table;
                    return false;
                }
                weir__answer_full(c->w, c->part[i].meter, free_ns - c->now.now_ns, true, v);
                v->which = v->allowed ? -1 : i;
                return false;
            }
            first->made = true;
            c->part[it->first].state = s;
        }
        if (first->made)
            c->part[i].state = c->part[it->first].state;
    }
    return true;
}

/* What a peek says of newcomers for whom the store has no place. */
static void peek_places(struct call *c, struct weir_verdict *v)
{
    const bool allowed = v->allowed;

    for (int i = 0; i < c->n && c->w->full != WEIR_FULL_EVICT; i++) {
        const struct item *first = &c->item[c->item[i].first];
        int64_t free_ns;

        if (first->found || !is_charged(c, i, allowed) ||
            weir__table_has_place(first->clause->table, &first->hold, c->now.now_ns, &free_ns))
            continue;
        weir__answer_full(c->w, c->part[i].meter, free_ns - c->now.now_ns, false, v);
        v->which = v->allowed ? -1 : i;
        return;
    }
}

static int decide(struct call *c, enum weir__verb verb, struct weir_verdict *v)
{
    int error;

    find_states(c);
    error = copy_trials(c);
    if (error)
        return error;
    weir__decide_peek(c->part, c->n, v);
    if (verb == WEIR__PEEK) {
        peek_places(c, v);
        return 0;
    }
    if (!make_places(c, v))
        return 0;
    error = copy_trials(c); /* the asking has used them up */
    weir__decide_take(c->part, c->n, v);
    forget_unused(c, false);
    return error;
}

static void remember(const struct call *c, const struct weir_verdict *v, struct weir_reservation *r)
{
    *r = (struct weir_reservation){.act_ns = weir__add_sat(c->now.now_ns, v->wait_ns)};
    /* A grant that nobody counted (FULL) has nothing to give back. */
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

/* A guard's own grant is to be left; a shadow that refused took nothing. */
static void note_entry(const struct call *c, const struct weir_verdict *v, struct weir_ticket *t)
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

/* Whether all who refuse would let it in once somebody leaves, and let callers wait for that. */
static bool may_be_waited_for(const struct call *c, const struct weir_verdict *v)
{
    if (v->allowed || v->reason != WEIR_LIMITED || c->line.room == 0)
        return false;
    for (int i = 0; i < c->n; i++) {
        const struct weir_term *t = &c->part[i].meter->term;
        struct weir_verdict one;

        weir__peek(c->part[i].meter, c->part[i].state, &c->part[i].ask, &one);
        if (!one.allowed && !t->shadow &&
            (t->algorithm != WEIR_CONCURRENCY || t->queue == 0 || one.reason != WEIR_LIMITED))
            return false;
    }
    return true;
}

static void note(const struct call *c, const struct weir_verdict *v, struct weir__memo *memo)
{
    if (memo->reservation)
        remember(c, v, memo->reservation);
    if (memo->ticket)
        note_entry(c, v, memo->ticket);
    if (c->verb == WEIR__ENTER || c->verb == WEIR__PEEK) {
        memo->full = may_be_waited_for(c, v);
        memo->line = c->line;
    }
}

static int run(struct call *c, struct weir_verdict *v, struct weir__memo *memo)
{
    int error = lock_scratch(c);

    if (!error)
        error = lock_all(c);
    if (error) {
        unlock_scratch(c);
        return error;
    }
    error = decide(c, c->verb, v);
    if (!error && memo && !c->cramped)
        note(c, v, memo);
    weir__journal_settle(c->seat);
    unlock(c, c->locks);
    unlock_scratch(c);
    if (c->cramped) {
        weir__table_grow_now(c->cramped, c->now.now_ns);
        return WEIR__STALE;
    }
    for (int i = 0; i < c->n; i++)
        if (c->item[i].made)
            weir__table_grow(c->item[i].clause->table, c->now.now_ns);
    return error;
}

/* What is said where no term has a say: the key is denied, or allowed. */
static void answer_listed(const struct call *c, const struct weir_request *rq,
                          struct weir__memo *memo, struct weir_verdict *v)
{
    const struct weir_policy *p = rq[c->listed < 0 ? 0 : c->listed].policy;
    const struct weir__edition *e = atomic_load_explicit(&p->edition, memory_order_acquire);
    const int64_t limit = e->clause[0].meter.limit;

    *v = (struct weir_verdict){.allowed = c->listed < 0,
                               .reason = c->listed < 0 ? WEIR_OK : WEIR_LISTED,
                               .which = -1,
                               .limit = limit,
                               .remaining = c->listed < 0 ? limit : 0,
                               .retry_after_ns = c->listed < 0 ? 0 : -1};
    if (memo)
        note(c, v, memo);
}

static int call_begin(struct call *c, struct weir *w, enum weir__verb verb, struct weir__moment at)
{
    c->w = w;
    c->seat = weir__store_seat(w->store);
    c->now = at;
    c->verb = verb;
    c->signals = weir__sampler_shown(&w->sampler);
    c->n = c->locks = 0;
    c->listed = -1;
    c->line = (struct weir__patience){0};
    c->scratch = false;
    c->cramped = NULL;
    memset(c->none, 0, sizeof c->none);
    return c->seat ? 0 : WEIR_EFULL;
}

int weir__several(struct weir *w, const struct weir_request *rq, size_t n, enum weir__verb verb,
                  struct weir__moment at, struct weir__memo *memo, struct weir_verdict *v)
{
    const bool all = verb == WEIR__TAKE_ALL || verb == WEIR__ENTER_ALL;
    struct call c;
    int error = call_begin(&c, w, verb, at);

    if (!error)
        error = gather(&c, rq, n);
    if (error)
        return error;
    if (c.listed >= 0 || c.n == 0) {
        answer_listed(&c, rq, memo, v);
        v->which = all ? c.listed : -1;
        return 0;
    }
    error = run(&c, v, memo);
    if (!error && v->which >= 0)
        v->which = all ? c.item[v->which].request : (int)c.item[v->which].index;
    return error;
}

/* ---- Another limit for one key ----------------------------------------------------------------- */

/* What `from` wrote, as `to` would have written it now. */
static void rewrite(const struct call *c, struct weir__state *s, const struct weir__clause *from,
                    struct weir__clause *to)
{
    struct weir__meter after = to->meter;

    weir__touch(&from->meter, s, c->now.now_ns);
    if (s->fresh_ns == 0)
        return;
    after.older = &from->meter;
    after.changed_ns = c->now.now_ns;
    if (to->meter.term.align == WEIR_ALIGN_CLOCK)
        after.changed_edge_ns = weir__clause_edge(to, c->now.now_ns, c->now.wall_ns);
    if (after.algo->change)
        after.algo->change(&from->meter, &after, s);
    else
        weir__reset(s);
    s->word = (s->word & ~WEIR__VERSION_MASK) | after.version;
}

int weir__several_rewrite(struct weir *w, const struct weir_request *rq, struct weir__edition *now,
                          struct weir__edition *from, struct weir__edition *to,
                          struct weir__edition *next, struct weir__moment at)
{
    struct call c;
    int error = call_begin(&c, w, WEIR__PEEK, at);

    if (!error)
        error = gather_request(&c, rq, 0, now, from, 0, false);
    if (!error)
        error = lock_all(&c);
    if (error)
        return error;
    find_states(&c);
    for (int i = 0; i < c.n; i++)
        if (c.item[i].found && c.part[i].meter->term.algorithm != WEIR_SYSTEM)
            rewrite(&c, c.part[i].state, c.item[i].clause, &to->clause[c.item[i].index]);
    atomic_store_explicit(&rq->policy->edition, next, memory_order_release);
    weir__journal_settle(c.seat);
    unlock(&c, c.locks);
    return 0;
}

/* ---- The public calls -------------------------------------------------------------------------- */

static int refresh_all(const struct weir_request *rq, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int error = weir__policy_refresh(rq[i].policy);

        if (error)
            return error;
    }
    return WEIR__STALE;
}

/* The strictest of the policies' fallbacks answers. */
static int fall_back(struct weir *w, const struct weir_request *rq, size_t n, int error,
                     struct weir__memo *memo, struct weir_verdict *v)
{
    struct weir_verdict one = {.allowed = true};

    for (size_t i = 0; i < n && one.allowed; i++) {
        const int still = weir__answer_error(w, rq[i].policy, error, &one);

        if (still)
            return still;
        one.which = one.allowed ? -1 : (int)i;
    }
    *v = one;
    if (memo && memo->reservation)
        *memo->reservation = (struct weir_reservation){0};
    if (memo && memo->ticket)
        memo->ticket->n = 0; /* nobody has counted it */
    return 0;
}

int weir__all(struct weir *w, const struct weir_request *rq, size_t n, enum weir__verb verb,
              struct weir__moment at, struct weir__memo *memo, struct weir_verdict *v)
{
    int error;

    if (n < 1 || n > WEIR_TERMS_MAX || !weir__now_fits(at.now_ns))
        return WEIR_EINVAL;
    for (size_t i = 0; i < n; i++)
        if (!weir__request_fits(&rq[i]))
            return WEIR_EINVAL;
    if (w->far)
        return w->far->ops->decide(w->far, rq, n, verb, at, memo, v);
    do {
        weir__readers_enter();
        error = weir__several(w, rq, n, verb, at, memo, v);
        weir__readers_exit();
        if (error == WEIR__STALE)
            error = refresh_all(rq, n);
    } while (error == WEIR__STALE);
    return error ? fall_back(w, rq, n, error, memo, v) : 0;
}

int weir_take_all_at(struct weir *w, const struct weir_request *rq, size_t n, int64_t now_ns,
                     struct weir_verdict *v)
{
    return weir__all(w, rq, n, WEIR__TAKE_ALL, weir__moment_at(now_ns), NULL, v);
}

int weir_take_all(struct weir *w, const struct weir_request *rq, size_t n, struct weir_verdict *v)
{
    return weir__all(w, rq, n, WEIR__TAKE_ALL, weir__moment_of(w), NULL, v);
}

int weir_reserve_at(struct weir *w, const struct weir_request *rq, size_t n, int64_t now_ns,
                    struct weir_reservation *r, struct weir_verdict *v)
{
    struct weir__memo memo = {.reservation = r};

    return weir__all(w, rq, n, WEIR__TAKE_ALL, weir__moment_at(now_ns), &memo, v);
}

int weir_reserve(struct weir *w, const struct weir_request *rq, size_t n,
                 struct weir_reservation *r, struct weir_verdict *v)
{
    struct weir__memo memo = {.reservation = r};

    return weir__all(w, rq, n, WEIR__TAKE_ALL, weir__moment_of(w), &memo, v);
}
