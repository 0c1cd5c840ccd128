/* The fast path to a key that is in the table, inlined where decisions are made.
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

static inline void weir__table_unlock_fast(const struct weir__access *access)
{
    if (access->bucket[1])
        weir__lock_drop(&access->bucket[1]->lock);
    weir__lock_drop(&access->bucket[0]->lock);
}

#endif
