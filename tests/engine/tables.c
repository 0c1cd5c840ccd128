/* The table by itself: what cannot be seen through an engine, or only by luck. */
#include "../unit/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "table/layout.h"

#define NOW   INT64_C(1000000000)
#define LATER (1000 * NOW) /* when keys that are alive now will be as good as new */

static struct weir__table *table_make(uint64_t max_keys, bool shared)
{
    const struct weir__table_options o = {16, max_keys, shared};
    const size_t bytes = (weir__table_size(&o) + 63) / 64 * 64;
    void *mem = aligned_alloc(64, bytes);

    assert_non_null(mem);
    memset(mem, 0, bytes);
    return weir__table_init(mem, &o);
}

/* A live key, as a decision makes it. */
static void come(struct weir__table *t, uint64_t fingerprint)
{
    struct weir__state *s = NULL;

    while (!s) {
        struct weir__hold h;
        int64_t free_ns;

        assert_int_equal(weir__table_find(t, &weir__seat_private, fingerprint, NOW, &h, &s), 0);
        if (!s)
            s = weir__table_make(t, &weir__seat_private, fingerprint, NOW, true,
                                 (struct weir__spared){0}, &h, &free_ns);
        if (s)
            s->fresh_ns = LATER;
        weir__table_release(&h);
        if (!s)
            weir__table_grow_now(t, NOW);
    }
    weir__table_grow(t, NOW);
}

static uint64_t fingerprint_of(uint64_t i)
{
    i = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    return i ^ i >> 29;
}

static bool is_there(struct weir__table *t, uint64_t fingerprint)
{
    struct weir__state *s;
    struct weir__hold h;

    assert_int_equal(weir__table_find(t, &weir__seat_private, fingerprint, NOW, &h, &s), 0);
    weir__table_release(&h);
    return s != NULL;
}

/* What a child of fork may have: its parent's thread had said that it moved a bucket, and not moved it. */
static void a_bucket_that_was_half_moved_costs_its_keys_and_no_more(void **state)
{
    (void)state;
    for (uint64_t after = 300; after < 1200; after += 7) {
        struct weir__table *t = table_make(20000, false);
        uint64_t lost = 0;

        for (uint64_t i = 0; i < after; i++)
            come(t, fingerprint_of(i));
        if (weir__map_of(t).sweep > 1)
            atomic_fetch_sub(&t->growth, 1);
        for (uint64_t i = after; i < 6000; i++)
            come(t, fingerprint_of(i));
        for (uint64_t i = 0; i < 6000; i++)
            lost += !is_there(t, fingerprint_of(i));
        assert_in_range(lost, 0, 2 * t->places);
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

        come(t, half << 32 | half);
    }
    weir__table_sample(t, &weir__seat_private, NOW, n / 3 * 2, &seen, &live);
    assert_int_equal(seen, n / 3 * 2 * t->places);
    assert_in_range(live * 100 / seen, 30, 36);
    weir__table_sample(t, &weir__seat_private, NOW, 2 * n, &seen, &live);
    assert_int_equal(seen, n * t->places);
    assert_int_equal(live, atomic_load(&t->used));
    free(t);
}

/* ---- Stretches --------------------------------------------------------------------------------- */

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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_bucket_that_was_half_moved_costs_its_keys_and_no_more),
    cmocka_unit_test(a_sample_is_spread_over_the_table),
    cmocka_unit_test(a_version_that_is_stretched_again_is_never_short),
};
RUN("tables", tests)
