/* The layout of a table in memory: for the files of this layer, for the parts that decisions inline
 * (probe.h), and for `weir store`, which reads tables that it has not made. */
#ifndef WEIR_TABLE_LAYOUT_H
#define WEIR_TABLE_LAYOUT_H

#include <stdatomic.h>

#include "table/table.h"

#define WEIR__TABLE_PAGE   4096
#define WEIR__TABLE_HEADER (4 * WEIR__TABLE_PAGE)
#define WEIR__TABLE_LINE   64
#define WEIR__FULL_PERCENT 70  /* of the places are max_keys */
#define WEIR__SIZES        128 /* that a table grows through; see grow.c */
#define WEIR__PLACES_USUAL 5   /* of a bucket of 16-byte states */
#define WEIR__STRETCHES    256
#define WEIR__CELL_LOCKS   128 /* that the cells of a table share; see cells.h */

struct weir__bucket {
    struct weir__lock lock;
    uint32_t spare;
    /* [places]; the states follow them. Written under the lock; a search reads them without it, to
     * know which bucket to lock. */
    _Atomic uint64_t fingerprint[];
};
static_assert(sizeof(struct weir__bucket) == 8, "a lock and a spare word");

/* How much later the states of one version are fresh. Read without a lock, by a search for a
 * place. */
struct weir__stretch {
    _Atomic uint64_t version; /* 0: none */
    _Atomic int64_t since_ns, extra_ns, times;
};

/* The first page says where everything lies, and all addresses are computed from it alone. In a
 * shared table it never changes: every process maps a page of its own over it (weir__table_pin), so
 * that a process that can write the file cannot mislead another one. */
struct weir__table {
    uint64_t state_bytes, bucket_bytes, places, states_at; /* places: in one bucket */
    uint64_t max_keys, buckets_max, saved_at;              /* saved_at: from the header; 0 none */
    uint64_t shared;                                       /* with other processes */
    uint64_t limits, cells_at, cells_bytes; /* the overflow cells of all limits; from the header */
    _Atomic uint64_t growth;                /* how far it has grown; see grow.c */
    uint64_t size[WEIR__SIZES];             /* in buckets; the last size fills the rest */
    char rest_of_page[WEIR__TABLE_PAGE - (12 + WEIR__SIZES) * 8];

    _Atomic uint64_t used; /* here the second page begins */
    _Atomic uint64_t evicted;
    struct weir__lock growing, saving;
    uint32_t failures;             /* in a row, to move a bucket; under `growing` */
    _Atomic uint32_t stuck;        /* a bucket cannot be moved: for now the table cannot grow */
    _Atomic uint32_t failed_moves; /* since a key could last be moved out of the way */
    _Atomic uint32_t stretches;    /* whether there are any */
    _Atomic uint32_t moved;        /* how often a key went to its other bucket */

    _Alignas(WEIR__TABLE_LINE) struct weir__stretch stretch[WEIR__STRETCHES]; /* by version */
    struct weir__lock cell_lock[WEIR__CELL_LOCKS];
    /* Private tables: how much of the room for cells a limit has ever used. What follows is zero,
     * and should not be read: untouched memory takes no room. */
    uint64_t cells_used;
};
static_assert(offsetof(struct weir__table, used) == WEIR__TABLE_PAGE, "a page of its own");
static_assert(sizeof(struct weir__table) <= WEIR__TABLE_HEADER, "the buckets begin behind it");

static inline struct weir__bucket *weir__bucket_at(const struct weir__table *t, uint64_t number)
{
    return (struct weir__bucket *)((char *)t + WEIR__TABLE_HEADER + number * t->bucket_bytes);
}

static inline struct weir__state *weir__state_at(const struct weir__table *t,
                                                 const struct weir__bucket *b, uint64_t place)
{
    return (struct weir__state *)((char *)b + t->states_at + place * t->state_bytes);
}

static inline uint64_t weir__bucket_get(const struct weir__bucket *b, uint64_t place)
{
    return atomic_load_explicit(&b->fingerprint[place], memory_order_relaxed);
}

static inline void weir__bucket_put(struct weir__bucket *b, uint64_t place, uint64_t fingerprint)
{
    atomic_store_explicit(&b->fingerprint[place], fingerprint, memory_order_relaxed);
}

/* Where the next note of a decision saves a state that is too large for the journal, under the
 * table's saving lock; NULL if the states fit. */
static inline void *weir__table_saved(struct weir__table *t, const struct weir__owner *s)
{
    if (!t->saved_at)
        return NULL;
    return (char *)t + t->saved_at + weir__journal_next(s->journal) * t->state_bytes;
}

/* The time from which the place may be taken; an empty one always may. The caller has locked the
 * bucket. */
int64_t weir__place_free_from(const struct weir__table *t, const struct weir__bucket *b,
                              uint64_t place);

/* The free place of a bucket that the caller has locked, or `places`. */
static inline uint64_t weir__free_place(const struct weir__table *t, const struct weir__bucket *b,
                                        int64_t now_ns)
{
    uint64_t i = 0;

    while (i < t->places && weir__place_free_from(t, b, i) > now_ns)
        i++;
    return i;
}

/* Makes a place free in a bucket that the caller has locked, by moving a key to its other bucket;
 * up to `deeper` times by making one free there first (displace.c). The locks of other buckets are
 * only tried. */
bool weir__bucket_make_room(struct weir__table *t, struct weir__bucket *b, int64_t now_ns,
                            struct weir__spared spared, int deeper);

static inline bool weir__is_spared(struct weir__spared spared, uint64_t fingerprint)
{
    for (int i = 0; i < spared.n; i++)
        if (spared.fingerprint[i] == fingerprint)
            return true;
    return false;
}

static inline bool weir__is_promised(struct weir__spared spared, const struct weir__bucket *b,
                                     uint64_t place)
{
    for (int i = 0; i < spared.promises; i++)
        if (spared.promised[i].in == b && spared.promised[i].place == place)
            return true;
    return false;
}

/* Whether moving keys, or growing, may still help a newcomer. */
bool weir__table_can_move(const struct weir__table *t);

/* The same in one of the two buckets of a newcomer. `now_and_then`: the newcomer will evict a key
 * if that fails, so it is not always tried. */
bool weir__table_displace(struct weir__table *t, const struct weir__access *access, int64_t now_ns,
                          struct weir__spared spared, bool now_and_then);
/* For a peek, whose time is not certainly now: moves a key only if that costs no other key its
 * place. True if it could not, and the call above would. */
bool weir__table_can_displace(struct weir__table *t, const struct weir__access *access,
                              int64_t now_ns, struct weir__spared spared);

/* Moves an entry to a free place. The caller has locked both buckets. */
static inline void weir__entry_move(struct weir__table *t, struct weir__bucket *from,
                                    uint64_t from_place, struct weir__bucket *to, uint64_t to_place)
{
    assert(from_place < t->places && to_place < t->places);
    if (weir__bucket_get(to, to_place) != 0) /* a fully recovered key gives way */
        atomic_fetch_sub_explicit(&t->used, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&t->moved, 1, memory_order_relaxed);
    memcpy(weir__state_at(t, to, to_place), weir__state_at(t, from, from_place), t->state_bytes);
    weir__bucket_put(to, to_place, weir__bucket_get(from, from_place));
    weir__bucket_put(from, from_place, 0);
}

#endif
