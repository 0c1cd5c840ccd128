/* Overflow cells: the debts of keys that have no place.
 *
 * A table is bounded, so a live key may have to give up its place to another. It is not forgotten:
 * its state is joined into two cells of its limit (algo.h: the join refuses whatever either would),
 * and a key without a place is judged by its two cells. So no key is ever granted more than its
 * limit, whatever keys other callers invent. The price of a flood: keys without a place may be
 * refused early, because of what other keys in the same cells owe.
 *
 *     table | header | buckets ... | saved | cells of limit A | cells of limit B | ... |
 *     cells of a limit: | head | state | state | state | ... |
 *
 * A key's fingerprint says which two cells are its own. Both bind it, for both include all that it
 * owes: the one that owes less is the better bound, and is used.
 *
 * Invariants:
 *   (1) What a key without a place owes is in both of its cells: a thread that takes a live key's
 *       place, or charges a key that gets none, joins it into both before any other thread can see
 *       the change.
 *   (2) A thread that reads or changes a cell holds its lock. Many cells share a lock; which one
 *       does not depend on the limit that owns them, so that a stale reader of cells that now
 *       belong to another limit locks the right word, finds that its limit is no longer in force,
 *       and leaves.
 *   (3) Locks of cells are taken after all locks of buckets, in the order of addresses; for a key
 *       that gives up its place they are only tried. All stay locked until the journal is
 *       committed.
 *   (4) Cells are judged by the caller's time, as places are: a state written under a clock that
 *       has stepped back since then binds longer because of it.
 *   (5) After until_ns every cell is fully recovered, and decisions skip them.
 */
#ifndef WEIR_TABLE_CELLS_H
#define WEIR_TABLE_CELLS_H

#include "table/table.h"

#define WEIR__CELLS_LEAST 64 /* for a limit whose states are not large */
#define WEIR__CELLS_PART  16 /* one cell for this many places */

/* The head of the cells of one limit, in the table's memory; the states follow it. */
struct weir__cells_head {
    _Atomic int64_t until_ns;
    _Atomic uint64_t evicted; /* live keys that were joined into cells                     */
    _Atomic uint64_t decided; /* decisions on keys without a place while cells were alive  */
    _Atomic uint64_t refused; /* those of them that were refused                           */
    uint64_t spare[4];
};
static_assert(sizeof(struct weir__cells_head) == 64, "a line");

/* The cells of one limit, as a process knows them: nothing here is read from shared memory. */
struct weir__cells {
    struct weir__table *table;
    struct weir__cells_head *head; /* NULL: the limit has none */
    uint64_t n;
};

/* The two cells of a key, and their locks, which may be one. */
struct weir__cell_pair {
    const struct weir__cells *cells;
    struct weir__state *cell[2];
    struct weir__lock *lock[2];
};

/* How many cells a limit with that many keys gets, and how many bytes they take. */
uint64_t weir__cells_count(const struct weir__table *t, uint64_t keys);
uint64_t weir__cells_bytes(const struct weir__table *t, uint64_t cells);
/* How many bytes all cells of a table for that many limits may take. */
uint64_t weir__cells_room(uint64_t places, uint64_t state_bytes, uint64_t limits);

/* The cells that begin `at` bytes into the room for cells; false if that many do not fit there. */
bool weir__cells_at(struct weir__cells *c, struct weir__table *t, uint64_t at, uint64_t cells);
/* Makes them all fresh. Only stale readers may still use them, see (2). 0, or the error of the
 * owner's patience. */
int weir__cells_reset(const struct weir__cells *c, struct weir__owner *s);

static inline bool weir__cells_alive(const struct weir__cells *c, int64_t now_ns)
{
    return c->head && atomic_load_explicit(&c->head->until_ns, memory_order_relaxed) > now_ns;
}

/* The numbers of the key's two cells. */
void weir__cells_of(const struct weir__cells *c, uint64_t fingerprint, uint64_t number[2]);
/* The first 16 bytes of a cell, read without its lock, so they may be half old: good for an
 * estimate only. */
struct weir__state weir__cell_glance(const struct weir__cells *c, uint64_t number);
void weir__cells_prefetch(const struct weir__cells *c, uint64_t fingerprint);

/* The cell locks of one decision, kept for the journal and so that none is taken twice. */
struct weir__cell_locks {
    struct weir__owner *owner;
    int first; /* where they begin in the journal's list of locks */
    int n;
    struct weir__lock *lock[4 * WEIR_TERMS_MAX];
};

/* Locks the cells of n keys, in order: 0, or the error of the owner's patience, and none is
 * locked. */
int weir__cells_lock(struct weir__cell_locks *held, const struct weir__cell_pair *pair, int n);
/* Tries to lock the cells of one more key; false, and nothing is changed, if another thread has
 * them. */
bool weir__cells_try(struct weir__cell_locks *held, const struct weir__cell_pair *pair);
void weir__cells_unlock(struct weir__cell_locks *held);
/* Unlocks all but the first n of them. */
void weir__cells_unlock_to(struct weir__cell_locks *held, int n);
/* Where a pair lies; the caller locks it. */
struct weir__cell_pair weir__cells_pair(const struct weir__cells *c, uint64_t fingerprint);

/* One cell alone, as both of a pair: for a caller that visits all cells. */
struct weir__cell_pair weir__cells_one(const struct weir__cells *c, uint64_t number);

/* The cell is about to be changed. */
void weir__cell_note(const struct weir__cell_pair *p, int i, const struct weir__owner *s);
/* Records that a cell was changed, and is alive until then. */
void weir__cells_touched(const struct weir__cells *c, int64_t until_ns);

#endif
