/* Eviction: which key gives up its place, and how its debt is kept. The rule is in overflow.h.
 *
 * Shares are read from the cells without their locks: they only rank the keys. A state is joined
 * under the locks, after everything that could have changed has been checked again.
 */
#include "engine/store/evict.h"

#include "engine/store/survey.h"

#define NOT_NOW UINT64_MAX
#define PART    1024
#define FULLER  (PART / 8) /* than the newcomer's limit; the error of a survey is smaller */
#define ALIKE   20         /* ranks that differ by so little differ by how shares were rounded */
#define TRIES   3 /* candidates whose cells are locked, before the newcomer gets no place */

/* A key in one of the places that the newcomer could take. */
struct candidate {
    const struct weir__compiled_term
        *owner;    /* the term of the key's limit; NULL: unknown to this process */
    uint64_t rank; /* the lowest goes first, NOT_NOW never */
    bool gone;     /* its limit is gone: no request will use the key again */
};

struct choice {
    int n;
    struct weir__occupant resident[WEIR__OCCUPANTS_MOST];
    struct candidate candidate[WEIR__OCCUPANTS_MOST];
    uint64_t parts; /* the sum over all limits that have a key here, in keys */
};

/* Whether both belong to one limit: an override belongs to the limit of its policy. */
static bool evict_same_limit(const struct weir__compiled_term *a,
                             const struct weir__compiled_term *b)
{
    return a && b && a->scope == b->scope;
}

/* The debt of the two cells of a key: the lesser of both. */
static uint32_t share_of_cells(const struct weir__compiled_term *c, uint64_t fingerprint,
                               int64_t now_ns)
{
    uint64_t number[2];
    uint32_t share[2];

    if (!weir__cells_alive(&c->cells, now_ns))
        return 0;
    weir__cells_of(&c->cells, fingerprint, number);
    for (int i = 0; i < 2; i++) {
        const struct weir__state head = weir__cell_glance(&c->cells, number[i]);

        share[i] = weir__meter_share(&c->meter, &head, now_ns);
    }
    return share[0] < share[1] ? share[0] : share[1];
}

/* The harm of joining a key that owes `share` into cells that owe `cells`: if the key owes more,
 * other keys in the cells are refused for the difference; if the cells owe more, the key is refused
 * for the difference, which weighs less. */
static uint64_t evict_rank(uint32_t share, uint32_t cells)
{
    return share > cells ? 10 * (uint64_t)(share - cells) : 3 * (uint64_t)(cells - share);
}

/* Whether a key of that limit may be joined into its cells; *share is its debt. */
static bool can_be_kept(const struct weir__compiled_term *c, const struct weir__occupant *r,
                        int64_t now_ns, uint32_t *share)
{
    if (!c || !c->cells.head)
        return false;
    *share = weir__meter_share(&c->meter, r->state, now_ns);
    return *share <= WEIR__WHOLE_SHARE;
}

/* Whether the key would be joined into the cell that judges the newcomer, which would then have
 * more debt than the newcomer was judged by. */
static bool burdens(const struct weir__newcomer *n, const struct weir__compiled_term *of,
                    uint64_t fingerprint)
{
    struct weir__cell_pair p;

    if (!n->base || of->cells.head != n->term->cells.head)
        return false;
    p = weir__cells_pair(&of->cells, fingerprint);
    return p.cell[0] == n->base || p.cell[1] == n->base;
}

/* The sum of the parts of all limits that have a key here, including the newcomer's limit. */
static uint64_t parts_here(const struct weir__newcomer *n, const struct choice *c)
{
    uint64_t sum = weir__term_keys(n->w->store, n->term);

    for (int i = 0; i < c->n; i++) {
        const struct weir__compiled_term *of = c->candidate[i].owner;
        bool counted = !of || evict_same_limit(of, n->term);

        for (int k = 0; k < i; k++)
            counted = counted || evict_same_limit(c->candidate[k].owner, of);
        if (!counted)
            sum += weir__term_keys(n->w->store, of);
    }
    return sum ? sum : 1;
}

static void find_candidates(const struct weir__newcomer *n, struct choice *c)
{
    const int64_t now_ns = n->attempt.now_ns;

    weir__survey_begin(n->w, n->term, now_ns);
    c->n = weir__table_occupants(n->term->table, n->access, n->spared, c->resident);
    for (int i = 0; i < c->n; i++) {
        const struct weir__compiled_term *owner =
            weir__revision_map_find(&n->w->store->revision_map, c->resident[i].state);

        c->candidate[i] = (struct candidate){
            owner, NOT_NOW,
            !n->w->store->file &&
                weir__revision_map_is_orphan(&n->w->store->revision_map, c->resident[i].state)};
        if (owner && owner->cells.head)
            weir__cells_prefetch(&owner->cells, c->resident[i].fingerprint);
    }
    for (int i = 0; i < c->n; i++) {
        const struct weir__compiled_term *owner = c->candidate[i].owner;
        const uint64_t fingerprint = c->resident[i].fingerprint;
        uint32_t share;

        if (can_be_kept(owner, &c->resident[i], now_ns, &share) && !burdens(n, owner, fingerprint))
            c->candidate[i].rank = evict_rank(share, share_of_cells(owner, fingerprint, now_ns));
    }
    c->parts = parts_here(n, c);
}

/* How full a limit's part of the table is, in 1/1024: the places that it holds, relative to its
 * part among the limits that have a key here. */
static uint64_t fullness(const struct weir__newcomer *n, const struct choice *c,
                         const struct weir__compiled_term *of)
{
    const uint64_t part = weir__term_keys(n->w->store, of);

    /* The parts of 32 limits of less than 2^32 keys, and a share up to 2^20: the product fits. */
    return weir__survey_share(n->w, of) * c->parts / ((part ? part : 1) * ((1 << 20) / PART));
}

/* Whether the i-th is a key of another limit whose part is at least that full. */
static bool is_of_fuller(const struct weir__newcomer *n, const struct choice *c, int i,
                         uint64_t from)
{
    const struct candidate *k = &c->candidate[i];

    return k->rank < NOT_NOW && !evict_same_limit(k->owner, n->term) &&
           fullness(n, c, k->owner) >= from;
}

/* The fullness from which on a limit loses places to the newcomer: it must hold more than its part,
 * and be fuller than the newcomer's limit. */
static uint64_t full_from(const struct weir__newcomer *n, const struct choice *c)
{
    const uint64_t fuller = fullness(n, c, n->term) + FULLER;

    if (n->ignores_parts)
        return 0;
    return fuller > PART ? fuller : PART;
}

/* The rank of the newcomer itself, if it is the one that does without a place. It is so if a key in
 * a place is no better: shares are rounded up, so of two equal differences one may seem smaller. */
static uint64_t rank_of_newcomer(const struct weir__newcomer *n)
{
    const uint32_t cells =
        n->base ? weir__meter_share(&n->term->meter, n->base, n->attempt.now_ns) : 0;
    const uint64_t rank = evict_rank(n->owes, cells);

    return rank > ALIKE ? rank - ALIKE : 0;
}

/* The place to give up; -1: the newcomer gets none. */
static int evict_choose(const struct weir__newcomer *n, const struct choice *c)
{
    const uint64_t from = full_from(n, c);
    uint64_t least = NOT_NOW;
    bool others = false;
    int chosen = -1;

    for (int i = 0; i < c->n; i++) {
        if (c->candidate[i].gone)
            return i;
        others = others || is_of_fuller(n, c, i, from);
    }
    if (!others && n->owes <= WEIR__WHOLE_SHARE)
        least = rank_of_newcomer(n);
    for (int i = 0; i < c->n; i++) {
        const bool own = evict_same_limit(c->candidate[i].owner, n->term);

        if (c->candidate[i].rank < least &&
            (own ? !others || n->ignores_parts : is_of_fuller(n, c, i, from))) {
            least = c->candidate[i].rank;
            chosen = i;
        }
    }
    return chosen;
}

/* ---- Keeping the debt of a key ------------------------------------------------------------- */

/* Joins a state into the cells of its key, if their locks are free. The entry has been noted. */
static bool evict_keep(const struct weir__compiled_term *c, struct weir__owner *owner,
                       uint64_t fingerprint, struct weir__state *s, int64_t now_ns,
                       struct weir__cell_locks *held)
{
    const struct weir__cell_pair p = weir__cells_pair(&c->cells, fingerprint);
    const int before = held->n;
    int64_t until_ns;

    if (!weir__cells_try(held, &p))
        return false;
    if (weir__policy_revision(c->revision->policy) != c->revision) {
        /* Its limit has changed, and the cells may belong to another limit by now. */
        weir__cells_unlock_to(held, before);
        return false;
    }
    for (int i = 0; i < 2; i++) {
        weir__cell_note(&p, i, owner);
        weir__meter_join(&c->meter, p.cell[i], s, now_ns);
    }
    until_ns = weir__max(p.cell[0]->fresh_ns, p.cell[1]->fresh_ns);
    weir__cells_touched(&c->cells, until_ns);
    atomic_fetch_add_explicit(&c->cells.head->evicted, 1, memory_order_relaxed);
    return true;
}

struct weir__state *weir__evict_for(struct weir__newcomer *n, struct weir__cell_locks *held)
{
    struct choice c;

    find_candidates(n, &c);
    weir__survey_step(n->w, n->term, n->attempt.now_ns);
    for (int tries = 0; tries < TRIES; tries++) {
        const int i = evict_choose(n, &c);
        struct weir__occupant *r;

        if (i < 0)
            return NULL;
        r = &c.resident[i];
        n->access->in = r->bucket;
        n->access->place = r->place;
        weir__table_note(n->term->table, n->owner, n->access);
        if (c.candidate[i].gone || evict_keep(c.candidate[i].owner, n->owner, r->fingerprint,
                                              r->state, n->attempt.now_ns, held))
            return weir__table_replace(n->term->table, n->fingerprint, n->access);
        weir__journal_unnote(n->owner);
        n->access->in = NULL;
        c.candidate[i].rank = NOT_NOW;
    }
    return NULL;
}

bool weir__evict_can(struct weir__newcomer *n)
{
    struct choice c;
    int i;

    find_candidates(n, &c);
    i = evict_choose(n, &c);
    n->access->in = i < 0 ? NULL : c.resident[i].bucket;
    n->access->place = i < 0 ? 0 : c.resident[i].place;
    return i >= 0;
}

/* ---- Growth -------------------------------------------------------------------------------- */

static bool evict_keep_on_growth(void *arg, uint64_t fingerprint, struct weir__state *s,
                                 int64_t now_ns)
{
    struct weir *w = arg;
    const struct weir__occupant r = {.fingerprint = fingerprint, .state = s};
    struct weir__cell_locks held = {.owner = &weir__owner_private};
    const struct weir__compiled_term *c = weir__revision_map_find(&w->store->revision_map, s);
    uint32_t share;
    const bool kept = can_be_kept(c, &r, now_ns, &share) &&
                      evict_keep(c, held.owner, fingerprint, s, now_ns, &held);

    weir__cells_unlock(&held);
    return kept;
}

struct weir__rescue weir__rescue_of(struct weir *w)
{
    return (struct weir__rescue){evict_keep_on_growth, w};
}
