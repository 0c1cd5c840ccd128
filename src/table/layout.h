/* How a table lies in memory: for the files of this layer alone. */
#ifndef WEIR_TABLE_LAYOUT_H
#define WEIR_TABLE_LAYOUT_H

#include <stdatomic.h>

#include "table/table.h"

#define WEIR__TABLE_HEADER 1024
#define WEIR__TABLE_LINE   64
#define WEIR__FULL_PERCENT 70 /* of the places: from there on a table grows; max_keys are so many */
#define WEIR__STRETCHES    16

struct weir__bucket {
    struct weir__lock lock;
    uint32_t spare;
    /* [places], and behind them the states. Written under the lock; looked at without it by those who
     * want to know which bucket to lock. */
    _Atomic uint64_t fingerprint[];
};
static_assert(sizeof(struct weir__bucket) == 8, "a lock and a spare word");

/* Read without a lock, by those who look for a place; a mix of two costs nothing but precision. */
struct weir__stretch {
    _Atomic uint64_t version; /* 0: none */
    _Atomic int64_t since_ns, extra_ns, times;
};

struct weir__table {
    uint64_t state_bytes, bucket_bytes, places, states_at; /* places: in one bucket */
    uint64_t max_keys, buckets_max, saved_at;              /* saved_at: from the header; 0 none */
    uint64_t shared;                                       /* with other processes */
    _Atomic uint64_t buckets;                              /* in use */

    _Alignas(WEIR__TABLE_LINE) _Atomic uint64_t used;
    _Atomic uint64_t evicted;
    struct weir__lock growing, saving;
    _Atomic uint32_t stretches; /* how many there ever were */

    _Alignas(WEIR__TABLE_LINE) struct weir__stretch stretch[WEIR__STRETCHES];
};
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

static inline uint64_t weir__table_buckets(const struct weir__table *t)
{
    return atomic_load_explicit(&t->buckets, memory_order_acquire);
}

/* Linear hashing: the low bits of the hash, one fewer where that bucket is not there yet. */
static inline uint64_t weir__number_of(uint64_t hash, uint64_t buckets)
{
    const uint64_t half = UINT64_C(1) << (63 - __builtin_clzll(buckets));
    const uint64_t number = hash & (2 * half - 1);

    return number < buckets ? number : hash & (half - 1);
}

static inline uint64_t weir__first_of(uint64_t fingerprint, uint64_t buckets)
{
    return weir__number_of(fingerprint & UINT32_MAX, buckets);
}

static inline uint64_t weir__second_of(uint64_t fingerprint, uint64_t buckets)
{
    return weir__number_of(fingerprint >> 32, buckets);
}

/* From when on the place may be taken: an empty one always. The caller holds the bucket. */
int64_t weir__place_free_from(const struct weir__table *t, const struct weir__bucket *b,
                              uint64_t place);

/* Makes a place free in one of two full buckets that the caller holds, by moving a key to its other
 * bucket (grow.c). */
bool weir__table_displace(struct weir__table *t, const struct weir__hold *h, int64_t now_ns,
                          struct weir__spared spared);

/* Moves an entry to a free place. The caller holds both buckets. */
static inline void weir__entry_move(const struct weir__table *t, struct weir__bucket *from,
                                    uint64_t from_place, struct weir__bucket *to, uint64_t to_place)
{
    memcpy(weir__state_at(t, to, to_place), weir__state_at(t, from, from_place), t->state_bytes);
    weir__bucket_put(to, to_place, weir__bucket_get(from, from_place));
    weir__bucket_put(from, from_place, 0);
}

#endif
