/* Overflow: how keys without a place are judged and charged by their cells. The idea is in
 * overflow.h; evict.c chooses the key that gives up its place. */
#include "engine/store/overflow.h"

#include <string.h>

#include "engine/store/evict.h"

/* ---- The cells that judge a newcomer ------------------------------------------------------- */

struct weir__newcomer weir__newcomer_of(struct weir *w, struct weir_policy *p,
                                        struct weir__revision *e, struct weir__compiled_term *c,
                                        struct weir__owner *owner, uint64_t fingerprint,
                                        struct weir__access *access,
                                        const struct weir__attempt *attempt)
{
    return (struct weir__newcomer){.w = w,
                                   .policy = p,
                                   .revision = e,
                                   .term = c,
                                   .owner = owner,
                                   .fingerprint = fingerprint,
                                   .access = access,
                                   .attempt = *attempt};
}

/* Converts a cell that an older version wrote, as a separate change: nothing else has been noted
 * yet. */
static void newcomer_bring_up(const struct weir__newcomer *n, int i)
{
    const struct weir__meter *m = weir__meter_of_cells(&n->term->meter);
    struct weir__state *s = n->cells.cell[i];

    if (s->fresh_ns == 0 || weir__state_version(s) == m->version)
        return;
    weir__cell_note(&n->cells, i, n->owner);
    weir__meter_touch(m, s, n->attempt.now_ns);
    weir__journal_commit(n->owner);
}

/* Finds the cell that judges the newcomer: the one of the two that owes less. */
static void newcomer_find_base(struct weir__newcomer *n)
{
    const struct weir__meter *m = weir__meter_of_cells(&n->term->meter);
    const struct weir__state *a = n->cells.cell[0], *b = n->cells.cell[1];
    uint32_t first, second;

    for (int i = 0; i < 2; i++)
        newcomer_bring_up(n, i);
    first = weir__meter_share(m, a, n->attempt.now_ns);
    second = weir__meter_share(m, b, n->attempt.now_ns);
    n->lesser = second < first || (second == first && b->fresh_ns < a->fresh_ns);
    n->base = n->cells.cell[n->lesser];
    if (n->base->fresh_ns <= n->attempt.now_ns)
        n->base = NULL;
}

static bool newcomer_in_force(const struct weir__newcomer *n)
{
    return weir__policy_revision(n->policy) == n->revision;
}

int weir__newcomers_bind(struct weir__newcomer *n, int count, bool all,
                         struct weir__cell_locks *held)
{
    struct weir__cell_pair pair[WEIR_TERMS_MAX];
    bool current = true;
    int pairs = 0, error;

    for (int i = 0; i < count; i++) {
        const struct weir__cells *c = &n[i].term->cells;

        n[i].locked = c->head && (all || weir__cells_alive(c, n[i].attempt.now_ns));
        if (!n[i].locked)
            continue;
        n[i].cells = weir__cells_pair(c, n[i].fingerprint);
        pair[pairs++] = n[i].cells;
    }
    if (pairs == 0)
        return 0;
    error = weir__cells_lock(held, pair, pairs);
    if (error)
        return error;
    for (int i = 0; i < count; i++)
        current = current && newcomer_in_force(&n[i]);
    if (!current) {
        weir__cells_unlock(held);
        return WEIR__STALE;
    }
    for (int i = 0; i < count; i++)
        if (n[i].locked)
            newcomer_find_base(&n[i]);
    return 0;
}

int weir__newcomer_lock(struct weir__newcomer *n, struct weir__cell_locks *held)
{
    int error;

    if (n->locked)
        return 0;
    n->cells = weir__cells_pair(&n->term->cells, n->fingerprint);
    error = weir__cells_lock(held, &n->cells, 1);
    if (error)
        return error;
    n->locked = true;
    if (newcomer_in_force(n)) {
        newcomer_find_base(n);
        return 0;
    }
    weir__cells_unlock(held);
    return WEIR__STALE;
}

/* ---- Weighing a newcomer ------------------------------------------------------------------- */

/* Charges a copy of the state that judges the newcomer. Only for small states. */
static uint32_t newcomer_weigh_copy(const struct weir__newcomer *n, size_t bytes)
{
    const struct weir__meter *m = &n->term->meter;
    union {
        struct weir__state state;
        unsigned char bytes[WEIR__SAVED_INLINE];
    } copy = {.bytes = {0}};
    struct weir_verdict v;

    if (n->base) {
        memcpy(copy.bytes, n->base, bytes);
        weir__meter_mark_copied(m, &copy.state);
    }
    if (n->charges)
        weir__meter_charge(m, &copy.state, &n->attempt, &v);
    else
        weir__meter_take(m, &copy.state, &n->attempt, &v);
    return weir__meter_share(m, &copy.state, n->attempt.now_ns);
}

void weir__newcomer_weigh(struct weir__newcomer *n)
{
    const struct weir__meter *m = &n->term->meter;
    const size_t bytes = weir__meter_state_size(m);
    uint32_t before;

    if (!m->algo->join || !n->term->cells.head || m->of) { /* of: its cells are the limit's */
        n->owes = UINT32_MAX;
        return;
    }
    if (bytes <= WEIR__SAVED_INLINE) {
        n->owes = newcomer_weigh_copy(n, bytes);
        return;
    }
    /* Only windows have large states, and what is in a box (block=), which is ranked like one that
     * owes its limit: none owes more. */
    before = n->base ? weir__meter_share(m, n->base, n->attempt.now_ns) : 0;
    n->owes = before + weir__in_1024ths(weir__min(n->attempt.cost, m->limit), m->limit);
    if (n->owes > WEIR__WHOLE_SHARE)
        n->owes = WEIR__WHOLE_SHARE;
}

bool weir__newcomer_overflows(const struct weir__newcomer *n)
{
    return weir__term_full(n->w, n->term) == WEIR_FULL_EVICT && n->owes <= WEIR__WHOLE_SHARE;
}

/* ---- Places -------------------------------------------------------------------------------- */

static enum weir__moving moving_of(const struct weir__newcomer *n)
{
    if (weir__term_full(n->w, n->term) != WEIR_FULL_EVICT)
        return WEIR__MOVE_NEVER;
    return n->owes <= WEIR__WHOLE_SHARE ? WEIR__MOVE_NOW_AND_THEN : WEIR__MOVE_ALWAYS;
}

struct weir__state *weir__newcomer_place(struct weir__newcomer *n, struct weir__cell_locks *held,
                                         int64_t *free_ns)
{
    const enum weir__moving moving = moving_of(n);
    struct weir__state *s =
        weir__table_make(n->term->table, n->owner, n->fingerprint, n->attempt.now_ns, moving,
                         n->spared, n->access, free_ns);

    if (!s && *free_ns != WEIR__GROW_FIRST && moving != WEIR__MOVE_NEVER)
        s = weir__evict_for(n, held);
    if (s && n->base) {
        memcpy(s, n->base, weir__meter_state_size(&n->term->meter));
        weir__meter_mark_copied(weir__meter_of_cells(&n->term->meter), s);
    }
    return s;
}

bool weir__newcomer_has_place(struct weir__newcomer *n, int64_t *free_ns)
{
    const enum weir__moving moving = moving_of(n);

    return weir__table_has_place(n->term->table, n->attempt.now_ns, moving, n->spared, n->access,
                                 free_ns) ||
           (*free_ns != WEIR__GROW_FIRST && moving != WEIR__MOVE_NEVER && weir__evict_can(n));
}

/* ---- Charging cells ------------------------------------------------------------------------ */

struct weir__state *weir__newcomer_cell(struct weir__newcomer *n)
{
    for (int i = 0; i < 2; i++)
        weir__cell_note(&n->cells, i, n->owner);
    return n->cells.cell[n->lesser];
}

void weir__newcomer_keep(struct weir__newcomer *n, struct weir__state *charged)
{
    const struct weir__meter *m = &n->term->meter;
    struct weir__state *lesser = n->cells.cell[n->lesser], *other = n->cells.cell[!n->lesser];

    if (charged == lesser)
        weir__meter_mark_copied(m, lesser);
    else
        weir__meter_join(m, lesser, charged, n->attempt.now_ns);
    weir__meter_join(m, other, lesser, n->attempt.now_ns);
    weir__cells_touched(&n->term->cells, weir__max(lesser->fresh_ns, other->fresh_ns));
}

void weir__newcomer_report(const struct weir__newcomer *n, bool counted, struct weir_verdict *v)
{
    struct weir__cells_head *head = n->term->cells.head;

    if (!n->base)
        return;
    v->overflow = true;
    if (!counted)
        return;
    atomic_fetch_add_explicit(&head->decided, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&n->w->overflow_decisions, 1, memory_order_relaxed);
    if (v->allowed)
        return;
    atomic_fetch_add_explicit(&head->refused, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&n->w->overflow_refusals, 1, memory_order_relaxed);
}
