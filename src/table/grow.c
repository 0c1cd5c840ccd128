/* Growing a table, in place and without a pause.
 *
 * A hash h names the point h / 2^32 between 0 and 1; the i-th of n buckets covers i/n to (i+1)/n.
 * To grow from n to m buckets, a quarter more, buckets are moved one by one from the last to the
 * first: the keys of bucket i belong between i x m/n and (i+1) x m/n, which is i or later, where
 * everything has already moved on. The buckets before the sweep are still those of the old size.
 *
 *     old  |  0  |  1  |  2  |  3  |
 *     new  | 0  | 1  | 2  | 3  | 4  |         moved: the part to the right of the sweep
 *
 * So the load is even, except for the step between what has moved and what has not. (Linear hashing
 * splits a bucket into two instead: those not yet split are twice as full as the others, and no two
 * choices make up for that.) The memory in use grows with the table, from one end.
 *
 * Invariants:
 *   (1) The thread that moves a bucket holds `growing`, the bucket, and those that its keys go to;
 *       it records the move in `growth` before it unlocks any.
 *   (2) Where a new bucket is too full, room is made in it (displace.c). If that fails, usually
 *       because another thread has locked the buckets, nothing is moved, and the next newcomer
 *       tries again; after many failures in a row keys of the bucket lose their places, and what
 *       they owe goes into their limits' cells. If that cannot be done either (calls in flight),
 *       the table stays as it is.
 *   (3) Fully recovered keys are not moved.
 *   (4) A newcomer moves two buckets. From one size to the next there are as many newcomers as
 *       buckets, so the table has finished before it is due again. A newcomer that finds no place
 *       in a table that can still grow does not evict, but makes it grow.
 *   (5) fork() waits until no thread moves a bucket (os/rcu.h). Should it ever give up, a child may
 *       start between the recording of a move and the move itself: keys in a bucket where they no
 *       longer belong cannot be found by name, and go to their cells.
 */
#include <string.h>

#include "table/probe.h"

#define DUE_PERCENT       80 /* of the places in use make the next size due */
#define DUE_PERCENT_SMALL 60 /* in a small table, where chance weighs more and memory less */
#define SMALL             4096
#define AT_ONCE           2
#define AT_ONCE_BEHIND    32
#define FAILURES_MOST     64
#define TARGETS           3 /* buckets that the keys of one can go to */
#define DEEPEST           3

/* One step of growth: the table, the time, and the function that keeps what keys owe that lose
 * their places. */
struct growth {
    struct weir__table *table;
    const struct weir__rescue *rescue;
    int64_t now_ns;
};

static bool grow_is_due(const struct weir__table *t, struct weir__bucket_map m)
{
    const uint64_t used = atomic_load_explicit(&t->used, memory_order_relaxed);
    const uint64_t percent = m.old < SMALL ? DUE_PERCENT_SMALL : DUE_PERCENT;

    return m.new > m.old && (m.sweep < m.old || used * 100 > m.old * t->places * percent);
}

static void grow_publish_moved(struct weir__table *t, uint64_t sweep)
{
    const uint64_t growth = atomic_load_explicit(&t->growth, memory_order_relaxed);
    uint64_t step = growth >> WEIR__SWEEP_BITS;

    if (sweep == 0)
        sweep = t->size[++step];
    atomic_store_explicit(&t->growth, step << WEIR__SWEEP_BITS | sweep, memory_order_release);
}

/* The new number of a key in the i-th bucket: by its first hash if it is there because of that
 * one. */
static uint64_t grow_new_number(struct weir__bucket_map m, uint64_t fingerprint, uint64_t i)
{
    const uint64_t first = weir__first_hash(fingerprint);

    return (first * m.old >> 32 == i ? first : weir__second_hash(fingerprint)) * m.new >> 32;
}

/* The buckets where the keys of bucket i go, locked; bucket i is locked already. */
struct targets {
    struct weir__bucket *bucket[TARGETS];
    uint64_t from; /* the number of the first */
};

static struct targets lock_targets(struct weir__table *t, struct weir__bucket_map m, uint64_t i)
{
    struct targets to = {.from = i * m.new / m.old};

    for (uint64_t k = 0; k < TARGETS; k++) {
        if (to.from + k >= m.new)
            continue;
        to.bucket[k] = weir__bucket_at(t, to.from + k);
        if (to.from + k > i)
            (void)weir__lock_take(&to.bucket[k]->lock, &weir__owner_private);
    }
    return to;
}

static void unlock_targets(const struct targets *to, uint64_t i)
{
    for (uint64_t k = 0; k < TARGETS; k++)
        if (to->bucket[k] && to->from + k > i)
            weir__lock_drop(&to->bucket[k]->lock);
}

static void grow_drop(struct weir__table *t, struct weir__bucket *b, uint64_t place)
{
    weir__bucket_put(b, place, 0);
    atomic_fetch_sub_explicit(&t->used, 1, memory_order_relaxed);
}

static void grow_drop_fresh(struct weir__table *t, struct weir__bucket *b, int64_t now_ns)
{
    for (uint64_t place = 0; place < t->places; place++)
        if (weir__bucket_get(b, place) != 0 && weir__place_free_from(t, b, place) <= now_ns)
            grow_drop(t, b, place);
}

static uint64_t count_free(const struct weir__table *t, const struct weir__bucket *b,
                           int64_t now_ns)
{
    uint64_t n = 0;

    for (uint64_t place = 0; place < t->places; place++)
        n += weir__place_free_from(t, b, place) <= now_ns;
    return n;
}

/* Whether `to` has `wanted` free places, if need be by making room. */
static bool grow_has_room(struct weir__table *t, struct weir__bucket *to, uint64_t wanted,
                          int64_t now_ns)
{
    const struct weir__spared none = {0};
    uint64_t free = count_free(t, to, now_ns);

    for (int deeper = 0; free < wanted && deeper < DEEPEST; deeper++)
        while (free < wanted && weir__bucket_make_room(t, to, now_ns, none, deeper))
            free++;
    return free >= wanted;
}

static bool grow_all_have_room(struct weir__table *t, struct weir__bucket_map m, uint64_t i,
                               const struct weir__bucket *b, const struct targets *to,
                               int64_t now_ns)
{
    for (uint64_t k = 0; k < TARGETS; k++) {
        uint64_t wanted = 0;

        for (uint64_t place = 0; place < t->places; place++)
            wanted += weir__bucket_get(b, place) != 0 &&
                      grow_new_number(m, weir__bucket_get(b, place), i) == to->from + k;
        if (to->from + k != i && wanted > 0 && !grow_has_room(t, to->bucket[k], wanted, now_ns))
            return false;
    }
    return true;
}

/* Makes room for all keys of the bucket where they go; if need be it sends some to their other
 * bucket. */
static bool grow_make_ready(struct weir__table *t, struct weir__bucket_map m, uint64_t i,
                            struct weir__bucket *b, const struct targets *to, int64_t now_ns)
{
    const struct weir__spared none = {0};
    int deeper = 0;

    while (!grow_all_have_room(t, m, i, b, to, now_ns)) {
        while (deeper < DEEPEST && !weir__bucket_make_room(t, b, now_ns, none, deeper))
            deeper++;
        if (deeper == DEEPEST)
            return false;
    }
    return true;
}

static bool grow_keep(const struct growth *g, struct weir__bucket *b, uint64_t place)
{
    struct weir__table *t = g->table;

    if (!g->rescue->keep(g->rescue->arg, weir__bucket_get(b, place), weir__state_at(t, b, place),
                         g->now_ns))
        return false;
    atomic_fetch_add_explicit(&t->evicted, 1, memory_order_relaxed);
    grow_drop(t, b, place);
    return true;
}

/* Removes the keys that do not belong in the bucket, see (5): no search finds them any more, and no
 * other bucket can hold them. */
static void grow_drop_strays(const struct growth *g, struct weir__bucket_map m, uint64_t number,
                             struct weir__bucket *b)
{
    for (uint64_t place = 0; place < g->table->places; place++) {
        const uint64_t fingerprint = weir__bucket_get(b, place);

        if (fingerprint != 0 && weir__bucket_number(m, weir__first_hash(fingerprint)) != number &&
            weir__bucket_number(m, weir__second_hash(fingerprint)) != number &&
            !grow_keep(g, b, place))
            grow_drop(g->table, b, place);
    }
}

/* Makes room for the keys of the bucket, at the price of some of their places. */
static bool grow_clear_out(const struct growth *g, struct weir__bucket_map m, uint64_t i,
                           struct weir__bucket *b, const struct targets *to)
{
    for (uint64_t k = 0; k < TARGETS; k++)
        if (to->bucket[k] && to->from + k > i)
            grow_drop_strays(g, m, to->from + k, to->bucket[k]);
    for (uint64_t place = 0; place < g->table->places; place++) {
        if (grow_all_have_room(g->table, m, i, b, to, g->now_ns))
            return true;
        if (weir__bucket_get(b, place) != 0)
            (void)grow_keep(g, b, place);
    }
    return grow_all_have_room(g->table, m, i, b, to, g->now_ns);
}

static void grow_move_keys(const struct growth *g, struct weir__bucket_map m, uint64_t i,
                           struct weir__bucket *b, const struct targets *to)
{
    struct weir__table *t = g->table;

    for (uint64_t place = 0; place < t->places; place++) {
        const uint64_t fingerprint = weir__bucket_get(b, place);
        const uint64_t number = grow_new_number(m, fingerprint, i);
        struct weir__bucket *target = NULL;
        uint64_t free = t->places;

        if (fingerprint == 0 || number == i)
            continue;
        if (number - to->from < TARGETS) { /* else see (5) */
            target = to->bucket[number - to->from];
            /* A live change since room was made may have left none: then the key goes to its
             * cells. */
            free = weir__free_place(t, target, g->now_ns);
        }
        if (free < t->places)
            weir__entry_move(t, b, place, target, free);
        else if (!grow_keep(g, b, place))
            grow_drop(t, b, place);
    }
}

static bool grow_can_move(const struct growth *g, struct weir__bucket_map m, uint64_t i,
                          struct weir__bucket *b, const struct targets *to)
{
    struct weir__table *t = g->table;

    if (grow_make_ready(t, m, i, b, to, g->now_ns))
        return true;
    if (++t->failures <= FAILURES_MOST)
        return false;
    if (grow_clear_out(g, m, i, b, to))
        return true;
    atomic_store_explicit(&t->stuck, 1, memory_order_relaxed);
    return false;
}

/* The caller holds `growing`. */
static void move_bucket_locked(const struct growth *g, struct weir__bucket_map m)
{
    struct weir__table *t = g->table;
    const uint64_t i = m.sweep - 1;
    struct weir__bucket *b = weir__bucket_at(t, i);
    struct targets to;

    (void)weir__lock_take(&b->lock, &weir__owner_private);
    to = lock_targets(t, m, i);
    grow_drop_fresh(t, b, g->now_ns);
    if (grow_can_move(g, m, i, b, &to)) {
        grow_publish_moved(t, i);
        grow_move_keys(g, m, i, b, &to);
        t->failures = 0;
        atomic_store_explicit(&t->stuck, 0, memory_order_relaxed);
    }
    unlock_targets(&to, i);
    weir__lock_drop(&b->lock);
}

static bool grow_is_largest(struct weir__bucket_map m)
{
    return m.new == m.old;
}

void weir__table_grow_now(struct weir__table *t, const struct weir__rescue *rescue, int64_t now_ns)
{
    const struct growth g = {t, rescue, now_ns};

    if (grow_is_largest(weir__bucket_map_of(t))) /* as every shared table is */
        return;
    (void)weir__lock_take(&t->growing, &weir__owner_private);
    for (int i = 0; i < AT_ONCE_BEHIND && !grow_is_largest(weir__bucket_map_of(t)); i++)
        move_bucket_locked(&g, weir__bucket_map_of(t));
    weir__lock_drop(&t->growing);
}

void weir__table_grow(struct weir__table *t, const struct weir__rescue *rescue, int64_t now_ns)
{
    const struct growth g = {t, rescue, now_ns};

    if (!grow_is_due(t, weir__bucket_map_of(t)) ||
        !weir__lock_try(&t->growing, &weir__owner_private))
        return;
    for (int i = 0; i < AT_ONCE; i++) {
        const struct weir__bucket_map m = weir__bucket_map_of(t);

        if (grow_is_due(t, m))
            move_bucket_locked(&g, m);
    }
    weir__lock_drop(&t->growing);
}
