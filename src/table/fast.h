/* What a decision on a key that is there needs of the table, to be inlined where decisions are made.
 *
 * Nearly all decisions find their key in its first bucket, and nobody at it: a look, a lock, another
 * look. Everything else is a call.
 */
#ifndef WEIR_TABLE_FAST_H
#define WEIR_TABLE_FAST_H

#include "table/layout.h"

/* The key's state, its bucket locked, if it is in its first bucket and the lock is free. Else NULL, and
 * nothing is held: ask weir__table_find. */
static inline struct weir__state *weir__table_find_fast(struct weir__table *t, struct weir__seat *s,
                                                        uint64_t fingerprint, struct weir__hold *h)
{
    const uint64_t number = weir__number_of(weir__map_of(t), weir__first_hash(fingerprint));
    struct weir__bucket *b = weir__bucket_at(t, number);
    const uint64_t place = weir__bucket_look(t, b, fingerprint);

    if (place == t->places)
        return NULL;
    weir__journal_intend(s, 0, &b->lock);
    if (!weir__lock_try(&b->lock, s))
        return NULL;
    h->bucket[0] = h->in = b;
    h->bucket[1] = NULL;
    h->place = place;
    if (weir__bucket_get(b, place) == fingerprint)
        return weir__state_at(t, b, place);
    weir__lock_drop(&b->lock);
    return NULL;
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

static inline void weir__table_prefetch_first(const struct weir__table *t, uint64_t fingerprint)
{
    const char *b = (const char *)weir__bucket_at(
        t, weir__number_of(weir__map_of(t), weir__first_hash(fingerprint)));

    __builtin_prefetch(b, 1);
    __builtin_prefetch(b + WEIR__TABLE_LINE, 1);
}

#endif
