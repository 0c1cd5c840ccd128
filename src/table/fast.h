/* What a decision on a key that is there needs of the table, to be inlined where decisions are made.
 *
 * Nearly all decisions find their key in its first bucket, and nobody at it. They go in three steps, so
 * that a batch can do each for all of its keys before the next for any: aim (memory is asked for the
 * bucket), look (where in it is the key? if it is not there, memory is asked for its second bucket), and
 * seize (lock, and see that it is still so). Everything else is weir__table_find's.
 */
#ifndef WEIR_TABLE_FAST_H
#define WEIR_TABLE_FAST_H

#include "table/layout.h"

struct weir__guess {
    struct weir__bucket *bucket;
    uint64_t place; /* `places`: not there */
};

static inline void weir__table_aim(const struct weir__table *t, uint64_t fingerprint,
                                   struct weir__guess *g)
{
    g->bucket = weir__bucket_at(t, weir__number_of(weir__map_of(t), weir__first_hash(fingerprint)));
    __builtin_prefetch(g->bucket, 1);
    __builtin_prefetch((const char *)g->bucket + WEIR__TABLE_LINE, 1);
}

/* The second bucket too: for one decision alone it costs nothing to ask for both at once, and a batch
 * has no hand free for what it will most likely not need. */
static inline void weir__table_aim_second(const struct weir__table *t, uint64_t fingerprint)
{
    const char *second = (const char *)weir__bucket_at(
        t, weir__number_of(weir__map_of(t), weir__second_hash(fingerprint)));

    __builtin_prefetch(second, 1);
    __builtin_prefetch(second + WEIR__TABLE_LINE, 1);
}

static inline void weir__table_look(const struct weir__table *t, uint64_t fingerprint,
                                    struct weir__guess *g)
{
    g->place = weir__bucket_look(t, g->bucket, fingerprint);
    if (g->place == t->places)
        weir__table_aim_second(t, fingerprint);
}

/* The key's state, its bucket locked, if the guess was right and the lock is free. Else NULL, and
 * nothing is held: ask weir__table_find. */
static inline struct weir__state *weir__table_seize(struct weir__table *t, struct weir__seat *s,
                                                    uint64_t fingerprint,
                                                    const struct weir__guess *g,
                                                    struct weir__hold *h)
{
    if (g->place == t->places)
        return NULL;
    weir__journal_intend(s, 0, &g->bucket->lock);
    if (!weir__lock_try(&g->bucket->lock, s))
        return NULL;
    if (weir__bucket_get(g->bucket, g->place) != fingerprint) {
        weir__lock_drop(&g->bucket->lock);
        return NULL;
    }
    h->bucket[0] = h->in = g->bucket;
    h->bucket[1] = NULL;
    h->place = g->place;
    return weir__state_at(t, g->bucket, g->place);
}

static inline void weir__table_note_fast(struct weir__table *t, const struct weir__seat *s,
                                         const struct weir__hold *h)
{
    if (s->journal)
        weir__table_note(t, s, h);
}

static inline void weir__table_release_fast(const struct weir__hold *h)
{
    if (h->bucket[1])
        weir__lock_drop(&h->bucket[1]->lock);
    weir__lock_drop(&h->bucket[0]->lock);
}

#endif
