/* Overflow cells in a table's memory: where they lie, which ones belong to a key, and their
 * locks. */
#include "table/cells.h"

#include <string.h>

#include "table/layout.h"

#define LARGE_STATE 1024 /* bytes; limits with larger states may have fewer cells than the least */
#define LEAST_LARGE 4
#define LITTLE_ROOM (UINT64_C(64) << 10)

/* ---- Sizes ----------------------------------------------------------------------------------- */

static uint64_t least_cells(uint64_t state_bytes)
{
    return state_bytes <= LARGE_STATE ? WEIR__CELLS_LEAST : LEAST_LARGE;
}

static uint64_t cells_bytes_of(uint64_t cells, uint64_t state_bytes)
{
    const uint64_t bytes = sizeof(struct weir__cells_head) + cells * state_bytes;

    return (bytes + WEIR__TABLE_LINE - 1) / WEIR__TABLE_LINE * WEIR__TABLE_LINE;
}

uint64_t weir__cells_count(const struct weir__table *t, uint64_t keys)
{
    const uint64_t places = keys * 100 / WEIR__FULL_PERCENT;
    const uint64_t least = least_cells(t->state_bytes);

    return places / WEIR__CELLS_PART > least ? places / WEIR__CELLS_PART : least;
}

uint64_t weir__cells_bytes(const struct weir__table *t, uint64_t cells)
{
    return cells_bytes_of(cells, t->state_bytes);
}

/* The n-th limit gets an n-th of what the first gets: twice the first's share is enough for four.
 * Every limit after those gets the least on top of that, as long as that is little or a quarter of
 * the bytes of the places. */
uint64_t weir__cells_room(uint64_t places, uint64_t state_bytes, uint64_t limits)
{
    const uint64_t least = limits * cells_bytes_of(least_cells(state_bytes), state_bytes);
    const uint64_t quarter = places * state_bytes / 4;
    const uint64_t most = quarter > LITTLE_ROOM ? quarter : LITTLE_ROOM;

    if (limits == 0)
        return 0;
    return cells_bytes_of(2 * places / WEIR__CELLS_PART, state_bytes) +
           (least < most ? least : most) / WEIR__TABLE_LINE * WEIR__TABLE_LINE;
}

bool weir__cells_at(struct weir__cells *c, struct weir__table *t, uint64_t at, uint64_t cells)
{
    if (cells < 2 || at % WEIR__TABLE_LINE != 0 || cells > t->cells_bytes / t->state_bytes ||
        at > t->cells_bytes || weir__cells_bytes(t, cells) > t->cells_bytes - at)
        return false;
    *c = (struct weir__cells){t, (void *)((char *)t + t->cells_at + at), cells};
    return true;
}

/* Once each lock was free, no decision for another limit uses these cells any more. */
static int cells_wait_for_users(struct weir__table *t, struct weir__owner *s)
{
    for (int i = 0; i < WEIR__CELL_LOCKS; i++) {
        int error;

        weir__journal_intend(s, 0, &t->cell_lock[i]);
        error = weir__lock_take(&t->cell_lock[i], s);
        if (error)
            return error;
        weir__lock_drop(&t->cell_lock[i]);
    }
    return 0;
}

/* How many of the first `bytes` bytes of these cells may not be zero. */
static uint64_t ever_used(const struct weir__cells *c, uint64_t bytes)
{
    struct weir__table *t = c->table;
    const uint64_t at = (uint64_t)((char *)c->head - (char *)t) - t->cells_at, used = t->cells_used;

    if (t->shared)
        return bytes;
    if (at + bytes > used)
        t->cells_used = at + bytes;
    return used <= at ? 0 : used - at < bytes ? used - at : bytes;
}

int weir__cells_reset(const struct weir__cells *c, struct weir__owner *s)
{
    uint64_t *words = (uint64_t *)(void *)c->head;
    const int error = cells_wait_for_users(c->table, s);
    uint64_t used;

    if (error)
        return error;
    used = ever_used(c, cells_bytes_of(c->n, c->table->state_bytes));
    for (uint64_t i = 0; i < used / sizeof *words; i++)
        if (words[i] != 0)
            words[i] = 0;
    return 0;
}

/* ---- Which cells ----------------------------------------------------------------------------- */

void weir__cells_of(const struct weir__cells *c, uint64_t fingerprint, uint64_t number[2])
{
    /* These are other bits than those that select the buckets: keys that share a bucket need not
     * share a cell. */
    const uint64_t h = (fingerprint ^ fingerprint >> 29) * UINT64_C(0x9e3779b97f4a7c15);

    number[0] = (h >> 32) * c->n >> 32;
    number[1] = (h & UINT32_MAX) * c->n >> 32;
    if (number[1] == number[0])
        number[1] = (number[0] + 1) % c->n;
}

static struct weir__state *cell_at(const struct weir__cells *c, uint64_t number)
{
    return (struct weir__state *)(void *)((char *)(c->head + 1) + number * c->table->state_bytes);
}

/* The only read of a cell without its lock: it ranks the keys that could give up a place, and
 * decides nothing. */
__attribute__((no_sanitize("thread"))) struct weir__state weir__cell_glance(
    const struct weir__cells *c, uint64_t number)
{
    const volatile struct weir__state *s = cell_at(c, number);

    return (struct weir__state){s->fresh_ns, s->word};
}

void weir__cells_prefetch(const struct weir__cells *c, uint64_t fingerprint)
{
    uint64_t number[2];

    weir__cells_of(c, fingerprint, number);
    __builtin_prefetch(cell_at(c, number[0]));
    __builtin_prefetch(cell_at(c, number[1]));
}

/* ---- Locks ----------------------------------------------------------------------------------- */

static struct weir__lock *cell_lock_of(struct weir__table *t, const struct weir__state *cell)
{
    const uint64_t at = (uint64_t)((const char *)cell - (const char *)t) / 8;

    return &t->cell_lock[(at * UINT64_C(0x9e3779b97f4a7c15) >> 32) % WEIR__CELL_LOCKS];
}

struct weir__lock *weir__table_cell_lock_at(struct weir__table *t, uint64_t at)
{
    if (at % 8 != 0 || at < t->cells_at || t->state_bytes > t->cells_bytes ||
        at - t->cells_at > t->cells_bytes - t->state_bytes)
        return NULL;
    return cell_lock_of(t, (const struct weir__state *)(const void *)((const char *)t + at));
}

struct weir__cell_pair weir__cells_pair(const struct weir__cells *c, uint64_t fingerprint)
{
    struct weir__cell_pair p = {.cells = c};
    uint64_t number[2];

    weir__cells_of(c, fingerprint, number);
    for (int i = 0; i < 2; i++) {
        p.cell[i] = cell_at(c, number[i]);
        p.lock[i] = cell_lock_of(c->table, p.cell[i]);
    }
    return p;
}

struct weir__cell_pair weir__cells_one(const struct weir__cells *c, uint64_t number)
{
    struct weir__state *cell = cell_at(c, number);
    struct weir__lock *lock = cell_lock_of(c->table, cell);

    return (struct weir__cell_pair){c, {cell, cell}, {lock, lock}};
}

static bool cells_holds(const struct weir__cell_locks *held, const struct weir__lock *l)
{
    for (int i = 0; i < held->n; i++)
        if (held->lock[i] == l)
            return true;
    return false;
}

static void insert_in_order(struct weir__cell_locks *held, struct weir__lock *l)
{
    int i = held->n;

    if (cells_holds(held, l))
        return;
    for (; i > 0 && (uintptr_t)held->lock[i - 1] > (uintptr_t)l; i--)
        held->lock[i] = held->lock[i - 1];
    held->lock[i] = l;
    held->n++;
}

void weir__cells_unlock_to(struct weir__cell_locks *held, int n)
{
    while (held->n > n)
        weir__lock_drop(held->lock[--held->n]);
}

void weir__cells_unlock(struct weir__cell_locks *held)
{
    weir__cells_unlock_to(held, 0);
}

int weir__cells_lock(struct weir__cell_locks *held, const struct weir__cell_pair *pair, int n)
{
    assert(held->n == 0);
    for (int i = 0; i < n; i++)
        for (int k = 0; k < 2; k++)
            insert_in_order(held, pair[i].lock[k]);
    for (int i = 0; i < held->n; i++) {
        int error;

        weir__journal_intend(held->owner, held->first + i, held->lock[i]);
        error = weir__lock_take(held->lock[i], held->owner);
        if (error) {
            held->n = i;
            weir__cells_unlock(held);
            return error;
        }
    }
    return 0;
}

static bool cells_try_lock(struct weir__cell_locks *held, struct weir__lock *l)
{
    if (cells_holds(held, l))
        return true;
    weir__journal_intend(held->owner, held->first + held->n, l);
    if (!weir__lock_try(l, held->owner))
        return false;
    held->lock[held->n++] = l;
    return true;
}

bool weir__cells_try(struct weir__cell_locks *held, const struct weir__cell_pair *pair)
{
    const int before = held->n;

    if (cells_try_lock(held, pair->lock[0]) && cells_try_lock(held, pair->lock[1]))
        return true;
    weir__cells_unlock_to(held, before);
    return false;
}

/* ---- Changing -------------------------------------------------------------------------------- */

void weir__cell_note(const struct weir__cell_pair *p, int i, const struct weir__owner *s)
{
    if (s->journal)
        weir__journal_note(s, NULL, p->cell[i], p->cells->table->state_bytes,
                           weir__table_saved(p->cells->table, s));
}

static void cells_raise_to(_Atomic int64_t *at, int64_t to)
{
    int64_t now = atomic_load_explicit(at, memory_order_relaxed);

    while (now < to && !atomic_compare_exchange_weak_explicit(at, &now, to, memory_order_relaxed,
                                                              memory_order_relaxed))
        continue;
}

void weir__cells_touched(const struct weir__cells *c, int64_t until_ns)
{
    cells_raise_to(&c->head->until_ns, until_ns);
}
