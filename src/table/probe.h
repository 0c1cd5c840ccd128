/* Where a key is: its two buckets, its place in one of them, and the fast path to a key that is in
 * the table, inlined where decisions are made.
 *
 * Nearly all decisions find their key, most of them in its first bucket, with its lock free. A
 * decision takes three steps, so that a batch can take each for all of its keys before the next for
 * any: aim (prefetch the bucket), look (find the key in it; if it is not there, prefetch its second
 * bucket), and lock (then check that the key is still there). weir__table_find handles everything
 * else.
 */
#ifndef WEIR_TABLE_PROBE_H
#define WEIR_TABLE_PROBE_H

#include "table/layout.h"

/* ---- Buckets and places ---------------------------------------------------------------------- */

/* A hash names a point between 0 and 1, and so, in a table of n buckets, the bucket that covers
 * it. While the table grows from one size to the next, buckets from `sweep` on have been moved,
 * those before have not (grow.c). */
struct weir__bucket_map {
    uint64_t old, new, sweep;
};

#define WEIR__SWEEP_BITS 40

static inline struct weir__bucket_map weir__bucket_map_of(const struct weir__table *t)
{
    const uint64_t growth = atomic_load_explicit(&t->growth, memory_order_acquire);
    const uint64_t step = growth >> WEIR__SWEEP_BITS;

    return (struct weir__bucket_map){t->size[step], t->size[step + 1],
                                     growth & ((UINT64_C(1) << WEIR__SWEEP_BITS) - 1)};
}

/* How many buckets may hold keys: while it grows, those of both sizes. */
static inline uint64_t weir__table_buckets(const struct weir__table *t)
{
    const struct weir__bucket_map m = weir__bucket_map_of(t);

    return m.sweep == m.old ? m.old : m.new;
}

static inline uint64_t weir__bucket_number(struct weir__bucket_map m, uint64_t hash)
{
    const uint64_t number = hash * m.old >> 32;

    return number < m.sweep ? number : hash * m.new >> 32;
}

/* The two halves of a fingerprint are the hashes that name its two buckets. */
static inline uint64_t weir__first_hash(uint64_t fingerprint)
{
    return fingerprint & UINT32_MAX;
}

static inline uint64_t weir__second_hash(uint64_t fingerprint)
{
    return fingerprint >> 32;
}

static inline bool weir__table_can_grow(const struct weir__table *t)
{
    const struct weir__bucket_map m = weir__bucket_map_of(t);

    return m.new > m.old &&atomic_load_explicit(&t->stuck, memory_order_relaxed) == 0;
}

/* Which place holds the fingerprint; `places` if none. It looks at all of them, for the position
 * cannot be predicted: stopping there would cost a mispredicted branch. */
static inline uint64_t weir__bucket_find(const struct weir__table *t, const struct weir__bucket *b,
                                         uint64_t fingerprint)
{
    uint64_t found = t->places;

    if (t->places == WEIR__PLACES_USUAL) { /* by hand: the compilers leave it a loop */
        found = weir__bucket_get(b, 4) == fingerprint ? 4 : found;
        found = weir__bucket_get(b, 3) == fingerprint ? 3 : found;
        found = weir__bucket_get(b, 2) == fingerprint ? 2 : found;
        found = weir__bucket_get(b, 1) == fingerprint ? 1 : found;
        return weir__bucket_get(b, 0) == fingerprint ? 0 : found;
    }
    for (uint64_t i = 0; i < t->places; i++)
        found = weir__bucket_get(b, i) == fingerprint ? i : found;
    return found;
}

/* ---- The fast path --------------------------------------------------------------------------- */

struct weir__probe {
    struct weir__bucket *bucket, *second;
    uint64_t place; /* `places`: not found */
};

static inline void weir__bucket_prefetch(const struct weir__bucket *b)
{
    __builtin_prefetch(b, 1);
    __builtin_prefetch((const char *)b + WEIR__TABLE_LINE, 1);
}

static inline void weir__table_probe_start(const struct weir__table *t, uint64_t fingerprint,
                                           struct weir__probe *g)
{
    const struct weir__bucket_map m = weir__bucket_map_of(t);

    g->bucket = weir__bucket_at(t, weir__bucket_number(m, weir__first_hash(fingerprint)));
    g->second = weir__bucket_at(t, weir__bucket_number(m, weir__second_hash(fingerprint)));
    weir__bucket_prefetch(g->bucket);
}

static inline void weir__table_probe_first(const struct weir__table *t, uint64_t fingerprint,
                                           struct weir__probe *g)
{
    g->place = weir__bucket_find(t, g->bucket, fingerprint);
    if (g->place == t->places)
        weir__bucket_prefetch(g->second);
}

/* Looks in the second bucket, unless the first has an empty place: then weir__table_find moves the
 * key to its first bucket. */
static inline void weir__table_probe_second(const struct weir__table *t, uint64_t fingerprint,
                                            struct weir__probe *g)
{
    if (weir__bucket_find(t, g->bucket, 0) < t->places)
        return;
    g->place = weir__bucket_find(t, g->second, fingerprint);
    g->bucket = g->second;
}

/* The key's state, with its bucket locked, if the probe was right and the lock is free. Else NULL,
 * and nothing is locked: call weir__table_find. */
static inline struct weir__state *weir__table_probe_lock(struct weir__table *t,
                                                         struct weir__owner *s,
                                                         uint64_t fingerprint,
                                                         struct weir__probe *g,
                                                         struct weir__access *access)
{
    if (g->place == t->places)
        weir__table_probe_second(t, fingerprint, g);
    if (g->place == t->places)
        return NULL;
    weir__journal_intend(s, 0, &g->bucket->lock);
    if (!weir__lock_try(&g->bucket->lock, s))
        return NULL;
    if (weir__bucket_get(g->bucket, g->place) != fingerprint) {
        weir__lock_drop(&g->bucket->lock);
        return NULL;
    }
    access->bucket[0] = access->in = g->bucket;
    access->bucket[1] = NULL;
    access->place = g->place;
    return weir__state_at(t, g->bucket, g->place);
}

static inline void weir__table_note_fast(struct weir__table *t, const struct weir__owner *s,
                                         const struct weir__access *access)
{
    if (s->journal)
        weir__table_note(t, s, access);
}

/* ---- A key, locked --------------------------------------------------------------------------- */

/* A key that is locked, and its place. */
struct weir__key_access {
    struct weir__owner *owner;
    struct weir__lock *saving; /* also held, or NULL */
    struct weir__access access;
    struct weir__state *state; /* NULL: the key has no place */
};

/* Locks the key, which seems to be where the probe says; its state, if it has one, is noted in the
 * journal. Returns 0 or an error; only after 0 is there something to unlock. */
static inline int weir__table_key_lock(struct weir__table *t, struct weir__owner *owner,
                                       uint64_t fingerprint, struct weir__probe *probe,
                                       int64_t now_ns, struct weir__key_access *at)
{
    int error = 0;

    at->owner = owner;
    at->saving = owner->journal ? weir__table_saving(t) : NULL;
    if (at->saving)
        error = weir__lock_nth(owner, 2, at->saving);
    if (error)
        return error;
    at->state = weir__table_probe_lock(t, owner, fingerprint, probe, &at->access);
    if (!at->state)
        error = weir__table_find(t, owner, fingerprint, now_ns, &at->access, &at->state);
    if (error && at->saving)
        weir__lock_drop(at->saving);
    if (!error && at->state)
        weir__table_note_fast(t, owner, &at->access);
    return error;
}

/* Makes the change final, and unlocks the key. */
static inline void weir__table_key_unlock(const struct weir__key_access *at)
{
    weir__journal_commit(at->owner);
    if (at->access.bucket[1])
        weir__lock_drop(&at->access.bucket[1]->lock);
    weir__lock_drop(&at->access.bucket[0]->lock);
    if (at->saving)
        weir__lock_drop(at->saving);
}

#endif
