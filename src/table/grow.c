/* Growth: linear hashing, and the moves that make it work in buckets of a fixed size.
 *
 * With n buckets, half < n <= 2 x half for a power of two, a hash's low bits name a bucket below
 * 2 x half, or, where that is not there yet, one below half. Bucket n is made by splitting bucket
 * n - half: of its keys, those that belong to the new one go there. So the table grows by a bucket at
 * a time.
 *
 * The price is that buckets not yet split in a round have up to twice the keys of the others; with
 * nothing more, one live key in four would lose its place. But every key has two buckets, and the
 * full ones lie in one part of the table: a key of a full bucket is moved to its other bucket, or, if
 * that is full too, after a key of that one has been moved out of the way. With those two steps
 * (looking at one other bucket per insertion on average), one key in 100,000 finds no place at a
 * load of 70%; measured in tests/engine.
 *
 * Invariants:
 *   (1) Who displaces holds the two buckets of a newcomer and only tries the locks of others.
 *   (2) A key that moves is in one of its two buckets before and after, both locked: nobody ever
 *       fails to find it who looks under the locks.
 *   (3) A table that is full is left alone: when more than 75% of its places are taken, moving costs
 *       more than it gains, and an attacker would make us pay.
 */
#include <string.h>

#include "table/layout.h"

#define MOVES_PERCENT 75

/* ---- Moving keys out of the way ---------------------------------------------------------------- */

/* The free place of a bucket that the caller holds, or `places`. */
static uint64_t free_place(const struct weir__table *t, const struct weir__bucket *b,
                           int64_t now_ns)
{
    uint64_t i = 0;

    while (i < t->places && weir__place_free_from(t, b, i) > now_ns)
        i++;
    return i;
}

/* Tries to lock the other bucket of a key; NULL if it is the same one, taken, or no longer the key's.
 */
static struct weir__bucket *try_other(struct weir__table *t, const struct weir__bucket *at,
                                      uint64_t fingerprint)
{
    struct weir__hold h;
    struct weir__bucket *other;

    if (fingerprint == 0 || weir__table_candidates(t, fingerprint, &h) < 2)
        return NULL;
    other = h.bucket[0] == at ? h.bucket[1] : h.bucket[0];
    if (!weir__lock_try(&other->lock, &weir__seat_private))
        return NULL;
    if (weir__table_still(t, fingerprint, &h))
        return other;
    weir__lock_drop(&other->lock);
    return NULL;
}

static void moved(struct weir__table *t, struct weir__bucket *from, uint64_t from_place,
                  struct weir__bucket *to, uint64_t to_place)
{
    if (weir__bucket_get(to, to_place) != 0) /* a key as good as new makes way */
        atomic_fetch_sub_explicit(&t->used, 1, memory_order_relaxed);
    weir__entry_move(t, from, from_place, to, to_place);
}

/* Frees a place of `b`, which the caller holds, by moving its key to its other bucket; `deeper` times
 * by freeing a place there first. */
static bool make_room(struct weir__table *t, struct weir__bucket *b, int64_t now_ns,
                      struct weir__spared spared, int deeper)
{
    for (uint64_t i = 0; i < t->places; i++) {
        const uint64_t fingerprint = weir__bucket_get(b, i);
        struct weir__bucket *other;
        uint64_t place;

        for (int j = 0; j < spared.n; j++)
            if (spared.fingerprint[j] == fingerprint)
                return false; /* its place is known to the caller: rare enough to give up */
        other = try_other(t, b, fingerprint);
        if (!other)
            continue;
        place = free_place(t, other, now_ns);
        if (place == t->places && deeper > 0 &&
            make_room(t, other, now_ns, (struct weir__spared){0}, deeper - 1))
            place = free_place(t, other, now_ns);
        if (place < t->places)
            moved(t, b, i, other, place);
        weir__lock_drop(&other->lock);
        if (place < t->places)
            return true;
    }
    return false;
}

static bool may_move(const struct weir__table *t)
{
    const uint64_t used = atomic_load_explicit(&t->used, memory_order_relaxed);

    return weir__table_buckets(t) < t->buckets_max ||
           used * 100 < t->buckets_max * t->places * MOVES_PERCENT;
}

bool weir__table_displace(struct weir__table *t, const struct weir__hold *h, int64_t now_ns,
                          struct weir__spared spared)
{
    if (t->shared || !may_move(t))
        return false;
    for (int deeper = 0; deeper < 2; deeper++)
        for (int i = 0; i < 2 && h->bucket[i]; i++)
            if (make_room(t, h->bucket[i], now_ns, spared, deeper))
                return true;
    return false;
}

/* ---- Splitting --------------------------------------------------------------------------------- */

static bool is_due(const struct weir__table *t)
{
    const uint64_t n = atomic_load_explicit(&t->buckets, memory_order_relaxed);
    const uint64_t used = atomic_load_explicit(&t->used, memory_order_relaxed);

    return n < t->buckets_max && used * 100 > n * t->places * WEIR__FULL_PERCENT;
}

/* Moves to the new bucket what belongs there and no longer to the old one. */
static void split(struct weir__table *t, struct weir__bucket *old, uint64_t old_number,
                  struct weir__bucket *new, uint64_t buckets)
{
    uint64_t place = 0;

    for (uint64_t i = 0; i < t->places; i++) {
        const uint64_t fingerprint = weir__bucket_get(old, i);

        if (fingerprint != 0 && weir__first_of(fingerprint, buckets) != old_number &&
            weir__second_of(fingerprint, buckets) != old_number)
            weir__entry_move(t, old, i, new, place++);
    }
}

void weir__table_grow(struct weir__table *t)
{
    struct weir__seat *s = &weir__seat_private;
    uint64_t n, old_number;
    struct weir__bucket *old, *new;

    if (!is_due(t) || !weir__lock_try(&t->growing, s))
        return;
    n = weir__table_buckets(t);
    if (is_due(t)) {
        old_number = n - (UINT64_C(1) << (63 - __builtin_clzll(n)));
        old = weir__bucket_at(t, old_number);
        new = weir__bucket_at(t, n);
        (void)weir__lock_take(&old->lock, s);
        (void)weir__lock_take(&new->lock, s); /* nobody knows it yet, but will before we let go */
        split(t, old, old_number, new, n + 1);
        atomic_store_explicit(&t->buckets, n + 1, memory_order_release);
        weir__lock_drop(&new->lock);
        weir__lock_drop(&old->lock);
    }
    weir__lock_drop(&t->growing);
}
