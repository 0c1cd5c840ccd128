/* Moving keys to their other bucket, to make room for a newcomer.
 *
 * A newcomer whose two buckets are full of live keys need not evict one: each of those keys has
 * another bucket, and can go there if it has room, or if room can be made there in the same way.
 * Two such steps are enough: up to a load of 80% one key in 100,000 finds no place
 * (tests/engine/full/eviction.c).
 *
 * Invariants:
 *   (1) The caller holds the locks of the newcomer's buckets, and only tries the locks of others.
 *   (2) A key that moves is in one of its two buckets before and after, both locked: a search under
 *       the locks always finds it.
 *   (3) Where it has been in vain for long (the table is at its largest, and full of live keys) it
 *       is only tried now and then: otherwise an attacker would make every caller pay for it. But a
 *       caller gets the answer that the store is full only after a try, so it gets the same answer
 *       every time.
 */
#include <string.h>

#include "table/probe.h"

#define FAILED_MOVES_MOST 16
#define NOW_AND_THEN      64
#define EMPTY_ONLY        0 /* the time at which only empty places are free */

/* Tries to lock the other bucket of a key; NULL if it is the same bucket, locked, or no longer the
 * key's.
 */
static struct weir__bucket *displace_try_other(struct weir__table *t, const struct weir__bucket *at,
                                               uint64_t fingerprint)
{
    struct weir__access access;
    struct weir__bucket *other;

    if (fingerprint == 0 || weir__table_candidates(t, fingerprint, &access) < 2)
        return NULL;
    if (access.bucket[0] != at && access.bucket[1] != at)
        return NULL; /* see (5) of grow.c */
    other = access.bucket[0] == at ? access.bucket[1] : access.bucket[0];
    if (!weir__lock_try(&other->lock, &weir__owner_private))
        return NULL;
    if (weir__table_is_current(t, fingerprint, &access))
        return other;
    weir__lock_drop(&other->lock);
    return NULL;
}

/* Whether a place of the bucket can be made free; if `moves`, it makes it free. */
static bool displace_make_room(struct weir__table *t, struct weir__bucket *b, int64_t now_ns,
                               struct weir__spared spared, int deeper, bool moves)
{
    for (uint64_t i = 0; i < t->places; i++) {
        const uint64_t fingerprint = weir__bucket_get(b, i);
        struct weir__bucket *other =
            weir__is_spared(spared, fingerprint) || weir__is_promised(spared, b, i)
                ? NULL
                : displace_try_other(t, b, fingerprint);
        uint64_t free;
        bool has_room;

        if (!other)
            continue;
        free = weir__free_place(t, other, now_ns);
        has_room = free < t->places ||
                   (deeper > 0 && displace_make_room(t, other, now_ns, spared, deeper - 1, moves));
        /* A live change may keep a place from being free that was so a moment ago: it is looked for
         * once. */
        if (has_room && moves && free == t->places) {
            free = weir__free_place(t, other, now_ns);
            has_room = free < t->places;
        }
        if (has_room && moves)
            weir__entry_move(t, b, i, other, free);
        weir__lock_drop(&other->lock);
        if (has_room)
            return true;
    }
    return false;
}

bool weir__bucket_make_room(struct weir__table *t, struct weir__bucket *b, int64_t now_ns,
                            struct weir__spared spared, int deeper)
{
    return displace_make_room(t, b, now_ns, spared, deeper, true);
}

bool weir__table_can_move(const struct weir__table *t)
{
    return !t->shared &&
           (weir__table_can_grow(t) ||
            atomic_load_explicit(&t->failed_moves, memory_order_relaxed) < FAILED_MOVES_MOST);
}

static bool displace_make_room_in_either(struct weir__table *t, const struct weir__access *access,
                                         int64_t now_ns, struct weir__spared spared, bool moves)
{
    for (int deeper = 0; deeper < 2; deeper++)
        for (int i = 0; i < 2 && access->bucket[i]; i++)
            if (displace_make_room(t, access->bucket[i], now_ns, spared, deeper, moves))
                return true;
    return false;
}

bool weir__table_can_displace(struct weir__table *t, const struct weir__access *access,
                              int64_t now_ns, struct weir__spared spared)
{
    return !t->shared && !displace_make_room_in_either(t, access, EMPTY_ONLY, spared, true) &&
           displace_make_room_in_either(t, access, now_ns, spared, false);
}

bool weir__table_displace(struct weir__table *t, const struct weir__access *access, int64_t now_ns,
                          struct weir__spared spared, bool now_and_then)
{
    if (t->shared)
        return false;
    if (now_and_then &&
        atomic_fetch_add_explicit(&t->failed_moves, 1, memory_order_relaxed) % NOW_AND_THEN != 0 &&
        !weir__table_can_move(t))
        return false;
    if (!displace_make_room_in_either(t, access, now_ns, spared, true))
        return false;
    atomic_store_explicit(&t->failed_moves, 0, memory_order_relaxed);
    return true;
}
