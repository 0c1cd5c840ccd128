/* A store that is full of live keys: which keys get a place, what the others are told, and what the
 * statistics say of it. */
#include "../engine_test.h"

#include <stdlib.h>

#define CROWD 5000 /* many times more keys than the smallest table has places for */

static struct weir *tiny(enum weir_full full)
{
    return backend_open(&(struct weir_options){.max_keys = 1, .full = full});
}

static struct weir_verdict take_n(struct weir *w, struct weir_policy *p, uint32_t key, int64_t cost,
                                  int64_t now_ns)
{
    const struct weir_request rq = {p, &key, sizeof key, cost, 0};
    struct weir_verdict v;

    assert_int_equal(weir_take_at(w, &rq, now_ns, &v), 0);
    return v;
}

static struct weir_verdict peek_n(struct weir *w, struct weir_policy *p, uint32_t key, int64_t cost,
                                  int64_t now_ns)
{
    const struct weir_request rq = {p, &key, sizeof key, cost, 0};
    struct weir_verdict v;

    assert_int_equal(weir_peek_at(w, &rq, now_ns, &v), 0);
    return v;
}

/* Every key asks once. A key that is granted owes from then on, with a place or without; the
 * verdict of a key that is refused says that other keys may be the reason. A key without a place is
 * judged by its cells, and its verdict says so. */
static void evicting_forgets_no_key_and_counts(void **state)
{
    struct weir *w = tiny(WEIR_FULL_EVICT);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=1", T0);
    uint64_t granted = 0, without = 0, placed = 0;
    static bool in[CROWD];
    struct weir_stats s;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_verdict v = take_n(w, p, i, 1, T0);

        in[i] = v.allowed;
        granted += v.allowed;
        assert_int_equal(v.reason, v.allowed ? WEIR_OK : WEIR_LIMITED);
        assert_true(v.allowed || (v.overflow && v.retry_after_ns > 0 && v.retry_after_ns <= HOUR));
        without += v.allowed && peek_n(w, p, i, 1, T0).overflow;
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_verdict v = peek_n(w, p, i, 1, T0);

        if (in[i])
            assert_false(v.allowed); /* wherever it is kept, it is not forgotten */
        placed += !v.allowed && !v.overflow;
    }
    s = stats(w, T0);
    assert_int_equal(placed + s.evicted + without, granted);
    assert_int_equal(s.live_keys, placed);
    assert_int_equal(s.keys, placed);
    assert_true(placed < CROWD / 2 && placed >= s.max_keys);
    assert_true(granted > placed && s.evicted + without > 0);
    assert_int_equal(s.refused_full + s.allowed_full, 0);
    assert_true(s.bytes <= s.max_bytes);
    /* An hour later all is past, in places and in cells. */
    for (uint32_t i = 0; i < CROWD; i++)
        assert_true(peek_n(w, p, i, 1, T0 + HOUR).allowed);
    backend_close(w);
}

static void denying_keeps_the_keys_that_have_places(void **state)
{
    struct weir *w = tiny(WEIR_FULL_DENY);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=2", T0);
    static bool in[CROWD];
    uint64_t refused = 0;
    struct weir_stats s;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_verdict before = peek_n(w, p, i, 1, T0);
        const struct weir_verdict v = take_n(w, p, i, 1, T0);

        in[i] = v.allowed;
        if (v.allowed) {
            assert_int_equal(v.reason, WEIR_OK);
            continue;
        }
        refused++;
        same_verdict(&before, &v);
        assert_int_equal(v.reason, WEIR_FULL);
        assert_true(v.retry_after_ns > 0 && v.retry_after_ns <= HOUR);
    }
    for (uint32_t i = 0; i < CROWD; i++)
        if (in[i])
            assert_int_equal(peek_n(w, p, i, 0, T0).remaining, 1);
    s = stats(w, T0);
    assert_true(refused > CROWD / 2);
    assert_true(s.refused_full >= refused); /* peeks may count as well */
    assert_int_equal(s.live_keys, CROWD - refused);
    assert_int_equal(s.evicted + s.allowed_full, 0);
    backend_close(w);
}

static void a_key_denied_a_place_finds_one_after_retry_after(void **state)
{
    struct weir *w = tiny(WEIR_FULL_DENY);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=2", T0);
    int tried = 0;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++) {
        const int64_t now = T0 + i % 100 * MINUTE / 100;
        const struct weir_verdict v = take_n(w, p, i, 1, now);

        if (v.allowed)
            continue;
        assert_int_equal(peek_n(w, p, i, 1, now + v.retry_after_ns - 1).reason, WEIR_FULL);
        assert_int_equal(peek_n(w, p, i, 1, now + v.retry_after_ns).reason, WEIR_OK);
        tried++;
    }
    assert_true(tried > CROWD / 2);
    backend_close(w);
}

static void allowing_grants_what_is_not_counted(void **state)
{
    struct weir *w = tiny(WEIR_FULL_ALLOW);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=1", T0);
    struct weir_stats s;
    uint64_t uncounted = 0;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_verdict v = take_n(w, p, i, 1, T0);

        assert_true(v.allowed);
        if (v.reason == WEIR_OK) {
            assert_false(take_n(w, p, i, 1, T0).allowed);
            continue;
        }
        assert_int_equal(v.reason, WEIR_FULL);
        assert_int_equal(v.wait_ns, 0);
        assert_int_equal(v.remaining, v.limit); /* all of it would be granted now */
        uncounted++;
        assert_true(take_n(w, p, i, 1, T0).allowed);
    }
    s = stats(w, T0);
    assert_true(uncounted > CROWD / 2);
    assert_int_equal(s.allowed_full, 2 * uncounted);
    assert_int_equal(s.live_keys, CROWD - uncounted);
    assert_int_equal(s.evicted + s.refused_full, 0);
    backend_close(w);
}

#define LOOSE "sliding-log 20/1h full=allow"

/* full=allow of one limit grants what its own table cannot count: the other limits of the request
 * are charged, and refuse. All were granted, and nothing was counted. */
static void allowing_in_one_limit_leaves_the_others_in_force(void **state)
{
    struct weir *w = tiny(WEIR_FULL_EVICT);
    struct weir_policy *loose = backend_policy(w, "loose", LOOSE, T0);
    struct weir_policy *strict = backend_policy(w, "strict", "token-bucket 5/1h", T0);
    uint64_t full = 0;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++)
        (void)take_n(w, loose, i, 1, T0);
    for (uint32_t key = CROWD; key < CROWD + 4; key++) {
        struct weir_request rq[] = {{loose, &key, sizeof key, 1, 0},
                                    {strict, &key, sizeof key, 1, 0}};
        struct weir_reservation r;
        struct weir_verdict v;
        int64_t back;

        for (int i = 0; i < 8; i++) {
            assert_int_equal(weir_take_all_at(w, rq, 2, T0, &v), 0);
            assert_int_equal(v.allowed, i < 5);
            assert_int_equal(v.which, i < 5 ? -1 : 1);
            assert_int_equal(v.remaining, i < 5 ? 4 - i : 0);
            full += v.allowed && v.reason == WEIR_FULL;
        }
        rq[1].patience_ns = WEIR_FOREVER; /* the strict limit has a turn to give back */
        assert_int_equal(weir_reserve_at(w, rq, 2, T0, &r, &v), 0);
        assert_true(v.allowed && v.wait_ns > 0);
        assert_int_equal(weir_cancel_at(w, &r, T0, &back), 0);
        assert_int_equal(peek_n(w, strict, key, 1, T0).retry_after_ns, HOUR / 5);
    }
    assert_int_equal(full, 4 * 5);
    backend_close(w);
}

static void allowing_in_one_term_leaves_the_others_in_force(void **state)
{
    struct weir *w = tiny(WEIR_FULL_EVICT);
    struct weir_policy *flooded = backend_policy(w, "flooded", LOOSE, T0);
    struct weir_policy *p = backend_policy(w, "p", LOOSE " + token-bucket 5/1h", T0);

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++)
        (void)take_n(w, flooded, i, 1, T0);
    for (int i = 0; i < 8; i++) {
        const struct weir_verdict peeked = peek_n(w, p, CROWD, 1, T0);
        const struct weir_verdict v = take_n(w, p, CROWD, 1, T0);

        assert_int_equal(v.allowed, i < 5);
        assert_int_equal(v.reason, i < 5 ? WEIR_FULL : WEIR_LIMITED);
        assert_memory_equal(&peeked, &v, sizeof v);
    }
    backend_close(w);
}

/* What a limit refuses is not granted because the refusal cannot be counted. */
static void allowing_grants_nothing_that_is_refused(void **state)
{
    struct weir *w = tiny(WEIR_FULL_EVICT);
    struct weir_policy *p = backend_policy(w, "p", LOOSE " count-denied", T0);
    struct weir_policy *closed = backend_policy(w, "closed", "token-bucket 1/1h", T0);
    const uint32_t key = CROWD;
    const struct weir_request rq[] = {{p, &key, sizeof key, 1, 0},
                                      {closed, &key, sizeof key, 1, 0}};
    struct weir_verdict v;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++)
        (void)take_n(w, p, i, 1, T0);
    assert_int_equal(peek_n(w, p, key, 21, T0).reason, WEIR_TOO_BIG);
    assert_int_equal(take_n(w, p, key, 21, T0).reason, WEIR_TOO_BIG);
    assert_true(take_n(w, closed, key, 1, T0).allowed);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_take_all_at(w, rq, 2, T0, &v), 0);
        assert_false(v.allowed);
    }
    backend_close(w);
}

/* A request that takes nothing needs no place: a peek, a refusal, a cost of nothing. Nor
 * is anything of it kept in cells. */
static void a_take_of_nothing_evicts_no_key(void **state)
{
    struct weir *w = tiny(WEIR_FULL_EVICT);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=2", T0);
    static struct weir_verdict was[CROWD];
    struct weir_stats before, after;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++)
        (void)take_n(w, p, i, 1, T0);
    before = stats(w, T0);
    for (uint32_t i = 0; i < CROWD; i++)
        was[i] = peek_n(w, p, CROWD + i, 1, T0);
    for (uint32_t i = CROWD; i < 2 * CROWD; i++) {
        const struct weir_request rq = {p, &i, sizeof i, 1, 0};
        int64_t back = -1;

        assert_true(take_n(w, p, i, 0, T0).allowed);
        assert_int_equal(take_n(w, p, i, 3, T0).reason, WEIR_TOO_BIG);
        assert_int_equal(weir_refund_at(w, &rq, T0, &back), 0);
        assert_int_equal(back, 0);
    }
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_verdict v = peek_n(w, p, CROWD + i, 1, T0);

        same_verdict(&v, &was[i]);
    }
    after = stats(w, T0);
    assert_int_equal(after.evicted, before.evicted);
    assert_int_equal(after.live_keys, before.live_keys);
    backend_close(w);
}

/* The same of a reset, of keys that owe nothing and whose cells owe nothing. */
static void a_reset_key_that_owes_nothing_evicts_no_key(void **state)
{
    struct weir *w = tiny(WEIR_FULL_DENY); /* no key was ever evicted */
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=2 full=evict", T0);
    struct weir_policy *deny = backend_policy(w, "deny", "token-bucket 1/h burst=2", T0);
    struct weir_stats before, after;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++)
        (void)take_n(w, deny, i, 1, T0);
    before = stats(w, T0);
    for (uint32_t i = 0; i < CROWD; i++) {
        const struct weir_request rq = {p, &i, sizeof i, 1, 0};

        assert_true(peek_n(w, p, i, 1, T0).allowed);
        assert_int_equal(weir_reset_at(w, &rq, T0), 0);
    }
    after = stats(w, T0);
    assert_int_equal(after.evicted, before.evicted);
    assert_int_equal(after.live_keys, before.live_keys);
    backend_close(w);
}

static void fully_recovered_keys_make_place_without_being_counted(void **state)
{
    struct weir *w = tiny(WEIR_FULL_DENY);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=1", T0);
    struct weir_stats s;

    (void)state;
    for (uint32_t i = 0; i < CROWD; i++)
        assert_true(take_n(w, p, i, 1, T0 + i * SECOND).allowed);
    s = stats(w, T0 + CROWD * SECOND);
    assert_int_equal(s.evicted + s.refused_full, 0);
    assert_int_equal(s.live_keys, 0);
    assert_true(s.keys < CROWD / 2);
    backend_close(w);
}

/* All or nothing: one without a place, and the others are not charged. */
static void no_place_for_one_is_a_refusal_of_all(void **state)
{
    struct weir *w = tiny(WEIR_FULL_DENY);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=2", T0);
    uint32_t home = 0;
    int refused = 0;

    (void)state;
    assert_true(take_n(w, p, home, 1, T0).allowed);
    for (uint32_t i = 1; i < CROWD; i++)
        (void)take_n(w, p, i, 1, T0);
    for (uint32_t i = CROWD; i < CROWD + 500; i++) {
        const struct weir_request rq[] = {{p, &home, sizeof home, 1, 0}, {p, &i, sizeof i, 1, 0}};
        struct weir_verdict v;

        assert_int_equal(weir_take_all_at(w, rq, 2, T0, &v), 0);
        if (v.allowed)
            return; /* there was a place after all */
        assert_int_equal(v.reason, WEIR_FULL);
        assert_int_equal(v.which, 1);
        assert_int_equal(peek_n(w, p, home, 0, T0).remaining, 1);
        refused++;
    }
    assert_int_equal(refused, 500);
    backend_close(w);
}

/* The places that were made before one could not be had are given back. */
static void a_refusal_of_all_leaves_no_place_behind(void **state)
{
    struct weir *w = tiny(WEIR_FULL_DENY);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=2", T0);
    int refused = 0;

    (void)state;
    for (uint32_t round = 0; round < 100; round++) {
        const struct weir_stats before = stats(w, T0);
        struct weir_request rq[8];
        struct weir_verdict v;
        uint32_t key[8];

        for (uint32_t i = 0; i < 8; i++) {
            key[i] = round * 8 + i;
            rq[i] = (struct weir_request){p, &key[i], sizeof key[i], 1, 0};
        }
        assert_int_equal(weir_take_all_at(w, rq, 8, T0, &v), 0);
        assert_int_equal(stats(w, T0).keys, before.keys + (v.allowed ? 8 : 0));
        assert_int_equal(stats(w, T0).live_keys, before.live_keys + (v.allowed ? 8 : 0));
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(peek_n(w, p, key[i], 0, T0).remaining, v.allowed ? 1 : 2);
        refused += !v.allowed;
    }
    assert_true(refused > 0);
    backend_close(w);
}

/* Sixteen keys in one request, in a store so small that they meet: none takes another's place, and
 * none is forgotten; keys without a place are kept in cells. */
static void keys_of_one_request_do_not_evict_each_other(void **state)
{
    struct weir *w = tiny(WEIR_FULL_EVICT);
    int granted = 0;

    (void)state;
    for (uint32_t round = 0; round < 100; round++) {
        const int64_t now = T0 + round * 2 * HOUR; /* when all keys before have fully recovered */
        struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=1", now);
        const uint64_t evicted = stats(w, now).evicted;
        struct weir_request rq[16];
        struct weir_verdict v;
        uint64_t placed = 0;
        uint32_t key[16];

        for (uint32_t i = 0; i < 16; i++) {
            key[i] = round * 16 + i;
            rq[i] = (struct weir_request){p, &key[i], sizeof key[i], 1, 0};
        }
        assert_int_equal(weir_take_all_at(w, rq, 16, now, &v), 0);
        assert_true(v.allowed);
        assert_int_equal(stats(w, now).evicted, evicted);
        for (uint32_t i = 0; i < 16; i++) {
            v = peek_n(w, p, key[i], 1, now);
            assert_false(v.allowed);
            placed += !v.overflow;
        }
        assert_int_equal(stats(w, now).live_keys, placed);
        granted += placed < 16;
    }
    assert_true(granted > 0); /* some did without a place */
    backend_close(w);
}

static void statistics_count_the_keys_of_a_store(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 2000, .max_policies = 7});
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/m burst=1", T0);
    const struct weir_stats empty = stats(w, T0);
    struct weir_stats s;

    (void)state;
    assert_int_equal(empty.max_keys, 2000);
    assert_int_equal(empty.max_policies, 7);
    assert_int_equal(empty.policies, 1);
    assert_int_equal(empty.keys, 0);
    for (uint32_t i = 0; i < 1000; i++)
        (void)take_n(w, p, i, 1, T0 + (i < 400 ? 0 : 30 * SECOND));
    s = stats(w, T0 + 30 * SECOND);
    assert_int_equal(s.keys, 1000);
    assert_int_equal(s.live_keys, 1000);
    assert_int_equal(stats(w, T0 + MINUTE - 1).live_keys, 1000);
    assert_int_equal(stats(w, T0 + MINUTE).live_keys, 600);
    assert_int_equal(stats(w, T0 + 2 * MINUTE).live_keys, 0);
    assert_true(s.bytes >= empty.bytes && s.bytes <= s.max_bytes);
    (void)backend_policy(w, "log", "sliding-log 10/m", T0); /* another size, another table */
    assert_true(stats(w, T0).max_bytes > s.max_bytes);
    assert_int_equal(stats(w, T0).policies, 2);
    backend_close(w);
}

static void few_keys_in_a_large_store_are_counted_to_the_last(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1000000});
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/m burst=1", T0);

    (void)state;
    for (uint32_t i = 0; i < 77; i++)
        (void)take_n(w, p, i, 1, T0);
    assert_int_equal(stats(w, T0).keys, 77);
    assert_int_equal(stats(w, T0).live_keys, 77);
    assert_int_equal(stats(w, T0 + MINUTE).live_keys, 0);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(evicting_forgets_no_key_and_counts),
    cmocka_unit_test(denying_keeps_the_keys_that_have_places),
    cmocka_unit_test(a_key_denied_a_place_finds_one_after_retry_after),
    cmocka_unit_test(allowing_grants_what_is_not_counted),
    cmocka_unit_test(allowing_in_one_limit_leaves_the_others_in_force),
    cmocka_unit_test(allowing_in_one_term_leaves_the_others_in_force),
    cmocka_unit_test(allowing_grants_nothing_that_is_refused),
    cmocka_unit_test(a_take_of_nothing_evicts_no_key),
    cmocka_unit_test(a_reset_key_that_owes_nothing_evicts_no_key),
    cmocka_unit_test(fully_recovered_keys_make_place_without_being_counted),
    cmocka_unit_test(no_place_for_one_is_a_refusal_of_all),
    cmocka_unit_test(a_refusal_of_all_leaves_no_place_behind),
    cmocka_unit_test(keys_of_one_request_do_not_evict_each_other),
    cmocka_unit_test(statistics_count_the_keys_of_a_store),
    cmocka_unit_test(few_keys_in_a_large_store_are_counted_to_the_last),
};

RUN_BACKEND("full", TESTS)
