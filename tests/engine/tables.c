/* The table by itself: what cannot be seen through an engine, or only by luck. */
#include "../unit/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "table/probe.h"
#include "table/sample.h"

#define NOW   INT64_C(1000000000)
#define LATER (1000 * NOW) /* when keys that are live now have fully recovered */
/* Keys that are made while limits change; the thread sanitizer takes twenty times as long. */
#ifdef __SANITIZE_THREAD__
#define MOVES 100000
#else
#define MOVES 1000000
#endif

static struct weir__table *table_make(uint64_t max_keys, bool shared)
{
    const struct weir__table_options o = {
        .state_bytes = 16, .max_keys = max_keys, .shared = shared};
    const size_t bytes = (weir__table_size(&o) + 63) / 64 * 64;
    void *mem = aligned_alloc(64, bytes);

    assert_non_null(mem);
    memset(mem, 0, bytes);
    return weir__table_init(mem, &o);
}

/* Keeps the debt of a key that a growing table has no room for, and counts it; or, if arg is NULL,
 * keeps none, and the keys must then stay where they are. */
static bool keep_and_count(void *arg, uint64_t fingerprint, struct weir__state *state,
                           int64_t now_ns)
{
    uint64_t *kept = arg;

    (void)fingerprint;
    (void)now_ns;
    assert_int_equal(state->fresh_ns, LATER);
    if (kept)
        ++*kept;
    return kept != NULL;
}

/* A live key, as a decision makes it. False: there is no place for it, and the table cannot
 * grow. */
static bool table_reach(struct weir__table *t, uint64_t fingerprint, uint64_t *kept)
{
    const struct weir__rescue rescue = {keep_and_count, kept};
    struct weir__state *s = NULL;
    int64_t free_ns = 0;

    while (!s) {
        struct weir__access access;

        assert_int_equal(weir__table_find(t, &weir__owner_private, fingerprint, NOW, &access, &s),
                         0);
        if (!s)
            s = weir__table_make(t, &weir__owner_private, fingerprint, NOW, WEIR__MOVE_NOW_AND_THEN,
                                 (struct weir__spared){0}, &access, &free_ns);
        if (s)
            s->fresh_ns = LATER;
        weir__table_unlock(&access);
        if (!s && free_ns != WEIR__GROW_FIRST)
            return false;
        if (!s)
            weir__table_grow_now(t, &rescue, NOW);
    }
    weir__table_grow(t, &rescue, NOW);
    return true;
}

static uint64_t fingerprint_of(uint64_t i)
{
    i = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return i ^ i >> 29;
}

static bool is_there(struct weir__table *t, uint64_t fingerprint)
{
    struct weir__state *s;
    struct weir__access access;

    assert_int_equal(weir__table_find(t, &weir__owner_private, fingerprint, NOW, &access, &s), 0);
    weir__table_unlock(&access);
    return s != NULL;
}

/* What a child of fork may have: its parent's thread had said that it moved a bucket, and not moved
 * it. The keys of that bucket cannot be found any more. The others are there, or their debt is
 * kept; if no debt is kept, all of them are there. The table grows on in either case. */
static void a_bucket_that_was_half_moved_costs_its_keys_and_no_more(void **state)
{
    enum { KEYS = 6000 };

    (void)state;
    for (uint64_t after = 300; after < 1200; after += 7)
        for (int keeps = 0; keeps < 2; keeps++) {
            struct weir__table *t = table_make(20000, false);
            uint64_t lost = 0, kept = 0, refused = 0;

            for (uint64_t i = 0; i < after; i++)
                assert_true(table_reach(t, fingerprint_of(i), keeps ? &kept : NULL));
            assert_int_equal(kept, 0);
            if (weir__bucket_map_of(t).sweep > 1)
                atomic_fetch_sub(&t->growth, 1);
            for (uint64_t i = after; i < KEYS; i++)
                refused += !table_reach(t, fingerprint_of(i), keeps ? &kept : NULL);
            for (uint64_t i = 0; i < KEYS; i++)
                lost += !is_there(t, fingerprint_of(i));
            assert_int_equal(refused, 0);
            assert_in_range(lost, 0, 2 * t->places);
            assert_true(lost - kept <= t->places); /* those of the bucket */
            assert_int_equal(atomic_load(&t->evicted), kept);
            free(t);
        }
}

/* Of 3000 buckets the last third is full of live keys; 2000 are looked at. */
static void a_sample_is_spread_over_the_table(void **state)
{
    struct weir__table *t = table_make(3000 * WEIR__PLACES_USUAL * WEIR__FULL_PERCENT / 100, true);
    const uint64_t n = t->buckets_max;
    uint64_t seen, live;

    (void)state;
    for (uint64_t i = 0; i < n / 3 * t->places; i++) {
        const uint64_t half =
            ((n - 1 - i / t->places) * 2 + 1) * (UINT64_C(1) << 31) / n + i % t->places;

        assert_true(table_reach(t, half << 32 | half, NULL));
    }
    weir__table_sample(t, &weir__owner_private, NOW, n / 3 * 2, &seen, &live);
    assert_int_equal(seen, n / 3 * 2 * t->places);
    assert_in_range(live * 100 / seen, 30, 36);
    weir__table_sample(t, &weir__owner_private, NOW, 2 * n, &seen, &live);
    assert_int_equal(seen, n * t->places);
    assert_int_equal(live, atomic_load(&t->used));
    free(t);
}

/* ---- Stretches ----------------------------------------------------------------------------- */

#define STRETCHES 3000000

static void *stretch_and_stretch(void *table)
{
    for (int i = 0; i < STRETCHES; i++)
        weir__table_stretch(table, 7, NOW, 1, 1);
    return NULL;
}

static void a_version_that_is_stretched_again_is_never_short(void **state)
{
    struct weir__table *t = table_make(100, true);
    struct weir__bucket *b = weir__bucket_at(t, 0);
    int64_t from = LATER;
    pthread_t thread;

    (void)state;
    weir__bucket_put(b, 0, 1);
    *weir__state_at(t, b, 0) = (struct weir__state){2 * NOW, 7};
    weir__table_stretch(t, 7, NOW, LATER, 1);
    assert_int_equal(pthread_create(&thread, NULL, stretch_and_stretch, t), 0);
    while (from < 2 * NOW + LATER + STRETCHES) {
        from = weir__place_free_from(t, b, 0);
        assert_true(from >= 2 * NOW + LATER);
    }
    (void)pthread_join(thread, NULL);
    free(t);
}

/* ---- Keys that move while a limit is changed ------------------------------------------------ */

struct stretcher {
    struct weir__table *table;
    _Atomic bool stop;
};

/* As a thread that sets limits does: the entry of one version displaces that of another. */
static void *stretch_and_unstretch(void *arg)
{
    struct stretcher *a = arg;

    for (uint32_t i = 0; !atomic_load(&a->stop); i++)
        weir__table_stretch(a->table, i % 2 ? 1 : 257, 100, INT64_C(1) << 50, 1);
    return NULL;
}

static bool keep_nothing(void *arg, uint64_t fingerprint, struct weir__state *s, int64_t at_ns)
{
    (void)arg;
    (void)fingerprint;
    (void)s;
    (void)at_ns;
    return false;
}

/* Whether a place is free may change between two looks: a key must not be moved where none is. The
 * assert in weir__entry_move is what fails. */
static void keys_move_only_to_places_that_exist(void **state)
{
    const struct weir__table_options o = {.state_bytes = 16, .max_keys = 64, .limits = 1};
    const struct weir__rescue rescue = {keep_nothing, NULL};
    const size_t bytes = (weir__table_size(&o) + 4095) / 4096 * 4096;
    void *mem = aligned_alloc(4096, bytes);
    struct stretcher a = {0};
    uint64_t x = 1;
    pthread_t thread;

    (void)state;
    assert_non_null(mem);
    memset(mem, 0, bytes);
    a.table = weir__table_init(mem, &o);
    assert_int_equal(pthread_create(&thread, NULL, stretch_and_unstretch, &a), 0);
    for (int64_t now = 101; now < MOVES; now++) {
        struct weir__access access;
        struct weir__state *s;
        int64_t free_ns = 0;
        uint64_t fingerprint;

        x = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        fingerprint = (x ^ x >> 29) * UINT64_C(0x9e3779b97f4a7c15) | 1;
        assert_int_equal(
            weir__table_find(a.table, &weir__owner_private, fingerprint, now, &access, &s), 0);
        if (!s)
            s = weir__table_make(a.table, &weir__owner_private, fingerprint, now, WEIR__MOVE_ALWAYS,
                                 (struct weir__spared){0}, &access, &free_ns);
        if (s)
            *s = x >> 40 & 3 ? (struct weir__state){now + 60, 2} : (struct weir__state){now + 1, 1};
        weir__table_unlock(&access);
        if (free_ns == WEIR__GROW_FIRST)
            weir__table_grow_now(a.table, &rescue, now);
    }
    atomic_store(&a.stop, true);
    (void)pthread_join(thread, NULL);
    free(mem);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_bucket_that_was_half_moved_costs_its_keys_and_no_more),
    cmocka_unit_test(a_sample_is_spread_over_the_table),
    cmocka_unit_test(a_version_that_is_stretched_again_is_never_short),
    cmocka_unit_test(keys_move_only_to_places_that_exist),
};
RUN("tables", tests)
