/* Parts of a full table: what a flood under one limit costs the keys of another. */
#include "../engine_test.h"

#include "engine/engine.h"

#define ROOM  10000 /* keys, of two limits: each has a part of half of it */
#define FLOOD (UNDER_TSAN || UNDER_ASAN ? 5 : 20) /* times as many keys as there is room for */

static int64_t now_ns;

static bool take_one(struct weir *w, struct weir_policy *p, uint32_t key)
{
    const struct weir_request rq = {p, &key, sizeof key, 1, 0};
    struct weir_verdict v;

    assert_int_equal(weir_take_at(w, &rq, now_ns, &v), 0);
    return v.allowed;
}

static bool has_place(struct weir *w, struct weir_policy *p, uint32_t key)
{
    const struct weir_request rq = {p, &key, sizeof key, 1, 0};
    struct weir_verdict v;

    assert_int_equal(weir_peek_at(w, &rq, now_ns, &v), 0);
    return !v.overflow && v.limit - v.remaining > 0;
}

static void flood(struct weir *w, struct weir_policy *p)
{
    for (uint32_t key = 0; key < ROOM * FLOOD; key++)
        (void)take_one(w, p, key);
}

static uint32_t count_places(struct weir *w, struct weir_policy *p, uint32_t keys)
{
    uint32_t n = 0;

    for (uint32_t key = 0; key < keys; key++)
        n += has_place(w, p, key);
    return n;
}

/* Another limit's flood takes nothing of a limit that is within its part; at its very part next to
 * nothing. */
static void a_flood_leaves_the_keys_of_others_alone(void **state)
{
    static const struct {
        uint32_t keys, lost_most;
    } ROWS[] = {{ROOM / 8, 0}, {ROOM / 4, 0}, {ROOM / 2, ROOM / 2 / 1000}};

    (void)state;
    now_ns = T0;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = backend_open(&(struct weir_options){.max_keys = ROOM, .secret = {3, 4}});
        struct weir_policy *quiet = backend_policy(w, "quiet", "fixed-window 5/1h", T0);
        struct weir_policy *loud = backend_policy(w, "loud", "fixed-window 1/366h", T0);
        uint32_t lost;

        for (uint32_t key = 0; key < ROWS[i].keys; key++)
            assert_true(take_one(w, quiet, key));
        flood(w, loud);
        lost = ROWS[i].keys - count_places(w, quiet, ROWS[i].keys);
        print_message("  of %u keys %u lost their places\n", ROWS[i].keys, lost);
        assert_in_range(lost, 0, ROWS[i].lost_most);
        backend_close(w);
    }
}

/* A limit that comes when a flood has taken everything gets its part all the same. */
static void a_limit_gets_its_part_back(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = ROOM, .secret = {3, 4}});
    struct weir_policy *loud = backend_policy(w, "loud", "fixed-window 1/366h", T0);
    struct weir_policy *quiet = backend_policy(w, "quiet", "fixed-window 5/1h", T0);
    uint32_t had;

    (void)state;
    now_ns = T0;
    flood(w, loud);
    for (uint32_t key = 0; key < ROOM / 4; key++)
        assert_true(take_one(w, quiet, key));
    had = count_places(w, quiet, ROOM / 4);
    print_message("  of %d keys %u have places\n", ROOM / 4, had);
    assert_in_range(had, ROOM / 4 - ROOM / 400, ROOM / 4);
    backend_close(w);
}

/* An operator denies keys of the flooding limit, or changes it, while the flood is on. */
static void changes_of_the_flooding_limit_cost_others_nothing(void **state)
{
    for (int way = 0; way < 2; way++) {
        struct weir *w = backend_open(&(struct weir_options){.max_keys = ROOM, .secret = {3, 4}});
        struct weir_policy *loud = backend_policy(w, "loud", "fixed-window 1/366h", T0);
        struct weir_policy *quiet = backend_policy(w, "quiet", "fixed-window 5/1h", T0);

        (void)state;
        now_ns = T0;
        flood(w, loud);
        for (uint32_t key = 0; key < ROOM / 4; key++) {
            const struct weir_bytes denied = {&key, sizeof key};

            if (key % 250 == 0 && way == 0)
                assert_int_equal(weir_list_set(w, loud, WEIR_LIST_DENY, &denied, 1), 0);
            else if (key % 250 == 0)
                (void)backend_policy(w, "loud",
                                     key % 500 ? "fixed-window 1/366h" : "fixed-window 2/366h", T0);
            assert_true(take_one(w, quiet, key));
        }
        assert_in_range(count_places(w, quiet, ROOM / 4), ROOM / 4 - ROOM / 400, ROOM / 4);
        backend_close(w);
    }
}

/* What a limit held an hour ago is no reason to take its places now. */
static void an_old_survey_is_repeated(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = ROOM, .secret = {3, 4}});
    struct weir_policy *loud = backend_policy(w, "loud", "fixed-window 1/366h", T0);
    struct weir_policy *quiet = backend_policy(w, "quiet", "fixed-window 5/1h", T0);

    (void)state;
    now_ns = T0;
    flood(w, quiet);
    now_ns = T0 + 2 * HOUR;
    for (uint32_t key = 0; key < ROOM / 4; key++)
        (void)take_one(w, quiet, key);
    flood(w, loud);
    assert_int_equal(count_places(w, quiet, ROOM / 4), ROOM / 4);
    backend_close(w);
}

/* Buckets of one table that surveys have sampled. */
static uint64_t sampled(const struct weir *w)
{
    uint64_t most = 0;

    for (int i = 0; i < WEIR__SIZE_CLASSES; i++)
        if (atomic_load(&w->store->surveyed[i]) > most)
            most = atomic_load(&w->store->surveyed[i]);
    return most;
}

/* Two callers whose clocks are an hour apart: a whole survey for each newcomer would be 256 buckets
 * a newcomer. */
static void clocks_that_differ_cost_few_surveys(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = ROOM, .secret = {3, 4}});
    struct weir_policy *loud = backend_policy(w, "loud", "fixed-window 1/366h", T0);
    uint64_t before;

    (void)state;
    now_ns = T0;
    for (uint32_t key = 0; key < 2 * ROOM; key++)
        (void)take_one(w, loud, key);
    before = sampled(w);
    for (uint32_t key = 0; key < ROOM; key++) {
        now_ns = T0 + (key % 2) * HOUR;
        (void)take_one(w, loud, 2 * ROOM + key);
    }
    print_message("  %.1f buckets a newcomer\n", (double)(sampled(w) - before) / ROOM);
    assert_in_range(sampled(w) - before, 1, 20 * ROOM);
    now_ns = T0;
    backend_close(w);
}

/* In a private store; a file cannot know which limits other processes still have. */
static void keys_of_a_forgotten_limit_make_way(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = ROOM, .secret = {3, 4}});
    struct weir_policy *loud = backend_policy(w, "loud", "fixed-window 1/366h", T0);
    struct weir_policy *quiet;
    uint32_t had;

    (void)state;
    now_ns = T0;
    if (strcmp(backend_kind(), "memory:") == 0) {
        flood(w, loud);
        assert_int_equal(weir_policy_forget(w, loud), 0);
        quiet = backend_policy(w, "quiet", "fixed-window 5/1h", T0);
        for (uint32_t key = 0; key < ROOM / 2; key++)
            assert_true(take_one(w, quiet, key));
        had = count_places(w, quiet, ROOM / 2);
        print_message("  of %d keys %u have places\n", ROOM / 2, had);
        assert_in_range(had, ROOM / 2 - ROOM / 2 / 1000, ROOM / 2);
    }
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_flood_leaves_the_keys_of_others_alone),
    cmocka_unit_test(a_limit_gets_its_part_back),
    cmocka_unit_test(changes_of_the_flooding_limit_cost_others_nothing),
    cmocka_unit_test(an_old_survey_is_repeated),
    cmocka_unit_test(clocks_that_differ_cost_few_surveys),
    cmocka_unit_test(keys_of_a_forgotten_limit_make_way),
};

RUN_BACKEND("parts", TESTS)
