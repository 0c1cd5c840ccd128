/* block= in an engine: the box of a key through transactions, full stores, overrides, live changes,
 * batches, forgotten places and limiters. What a box does by itself is in tests/vectors/block.vec.
 */
#include "engine_test.h"

#include <stdlib.h>

#define CROWD 2000
#define LIMIT "fixed-window 1/s block=1m..1h after=2"

static void expect_blocked(struct weir_verdict v, int64_t retry_ns)
{
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_BLOCKED);
    assert_int_equal(v.retry_after_ns, retry_ns);
    assert_int_equal(v.remaining, 0);
    assert_int_equal(v.which, 0);
}

static void block(struct weir *w, struct weir_policy *p, const char *key, int64_t now_ns)
{
    assert_true(take(w, p, key, 1, now_ns).allowed);
    assert_int_equal(take(w, p, key, 1, now_ns).reason, WEIR_LIMITED);
    expect_blocked(take(w, p, key, 1, now_ns), MINUTE);
}

static void refusals_block_and_retry_after_is_exact(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", LIMIT, T0);

    (void)state;
    block(w, p, "k", T0);
    expect_blocked(take(w, p, "k", 1, T0 + MINUTE - 1), 1);
    assert_true(take(w, p, "other", 1, T0).allowed);
    assert_true(take(w, p, "k", 1, T0 + MINUTE).allowed);
    backend_close(w);
}

static void a_batch_decides_as_one_by_one(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", LIMIT, T0),
                       *q = backend_policy(w, "q", "100/s", T0);
    struct weir_request rq[6];
    struct weir_verdict v[6];

    (void)state;
    for (int i = 0; i < 6; i++)
        rq[i] = request_for(i % 2 ? q : p, "k", 1, 0);
    assert_int_equal(weir_take_many_at(w, rq, 6, T0, v), 0);
    assert_true(v[0].allowed && v[1].allowed && v[3].allowed && v[5].allowed);
    assert_int_equal(v[2].reason, WEIR_LIMITED);
    assert_int_equal(v[4].reason, WEIR_BLOCKED);
    backend_close(w);
}

/* All or nothing: what is refused counts for the limit that refuses, and for no other. */
static void of_several_the_one_that_refuses_counts(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", LIMIT, T0),
                       *q = backend_policy(w, "q", "fixed-window 1/h block=2m after=2", T0);
    const struct weir_request both[] = {request_for(p, "k", 1, 0), request_for(q, "k", 1, 0)};
    struct weir_verdict v;

    (void)state;
    assert_true(take(w, q, "k", 1, T0).allowed);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_take_all_at(w, both, 2, T0, &v), 0);
        assert_int_equal(v.which, 1);
        assert_int_equal(v.reason, i == 0 ? WEIR_LIMITED : WEIR_BLOCKED);
    }
    assert_true(take(w, p, "k", 1, T0).allowed); /* it was not charged, and has counted nothing */
    assert_int_equal(take(w, p, "k", 1, T0).reason, WEIR_LIMITED);
    assert_int_equal(weir_take_all_at(w, both, 2, T0, &v), 0);
    assert_int_equal(v.which, 0);
    assert_int_equal(v.reason, WEIR_BLOCKED);
    assert_int_equal(v.retry_after_ns, HOUR); /* of q, the longest */
    backend_close(w);
}

/* The second request sees the charge of the first, and is refused only because of it. */
static void a_key_named_twice_counts_one_refusal(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/s block=1m after=3", T0);
    const struct weir_request twice[] = {request_for(p, "k", 1, 0), request_for(p, "k", 1, 0)};
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_take_all_at(w, twice, 2, T0, &v), 0);
        assert_int_equal(v.reason, WEIR_LIMITED);
        assert_int_equal(v.which, 1);
    }
    assert_true(take(w, p, "k", 1, T0).allowed);
    expect_blocked(take(w, p, "k", 1, T0), MINUTE);
    backend_close(w);
}

/* Blocked keys that lose their places stay blocked: their cells are. */
static void a_full_store_unblocks_nobody(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 1, .secret = {3, 4}});
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s block=1h after=1", T0);
    bool *blocked = calloc(CROWD, sizeof *blocked);
    struct weir_policy_stats stats;
    int n = 0;

    (void)state;
    assert_non_null(blocked);
    for (uint32_t i = 0; i < CROWD; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "k%u", i);
        (void)take(w, p, key, 1, T0);
        blocked[i] = take(w, p, key, 1, T0).reason == WEIR_BLOCKED;
        n += blocked[i];
    }
    assert_int_equal(n, CROWD);
    assert_int_equal(weir_policy_stats(w, p, &stats), 0);
    assert_true(stats.evicted > 0);
    for (uint32_t i = 0; i < CROWD; i++) {
        char key[16];

        (void)snprintf(key, sizeof key, "k%u", i);
        assert_int_equal(take(w, p, key, 1, T0 + HOUR - 1).reason, WEIR_BLOCKED);
    }
    assert_true(take(w, p, "k1", 1, T0 + HOUR).allowed);
    free(blocked);
    backend_close(w);
}

/* A key that is refused without ever having been granted needs a place for its count. */
static void refusals_of_a_key_without_a_place_count(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p =
        backend_policy(w, "p", "token-bucket 1/h initial=empty block=2h after=3", T0);
    struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < 2; i++)
        assert_int_equal(take(w, p, "k", 1, T0).reason, WEIR_LIMITED);
    assert_int_equal(weir_peek_at(w, &rq, T0, &v), 0);
    expect_blocked(v, 2 * HOUR);
    expect_blocked(take(w, p, "k", 1, T0), 2 * HOUR);
    backend_close(w);
}

static void another_number_carries_the_box_over_and_another_layout_does_not(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", LIMIT, T0);

    (void)state;
    block(w, p, "k", T0);
    p = backend_policy(w, "p", "fixed-window 5/s block=1s..2s after=7", T0 + 1);
    expect_blocked(take(w, p, "k", 1, T0 + SECOND), MINUTE - SECOND);
    p = backend_policy(w, "p", "fixed-window 5/s", T0 + 2 * SECOND);
    assert_true(take(w, p, "k", 1, T0 + 2 * SECOND).allowed);
    p = backend_policy(w, "p", LIMIT, T0 + 3 * SECOND);
    assert_true(take(w, p, "k", 1, T0 + 3 * SECOND).allowed);
    backend_close(w);
}

static void a_keys_own_limit_has_a_box_too(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", LIMIT, T0);
    struct weir_diag why;

    (void)state;
    block(w, p, "k", T0);
    assert_int_equal(weir_override_set_at(w, p, "k", 1, "fixed-window 9/s", T0, &why), WEIR_EINVAL);
    assert_non_null(strstr(why.text, "another block"));
    assert_int_equal(
        weir_override_set_at(w, p, "k", 1, "fixed-window 9/s block=1s after=1", T0, &why), 0);
    expect_blocked(take(w, p, "k", 1, T0 + SECOND), MINUTE - SECOND);
    assert_true(take(w, p, "k", 9, T0 + MINUTE).allowed);
    expect_blocked(take(w, p, "k", 1, T0 + MINUTE), SECOND);
    assert_int_equal(weir_override_set_at(w, p, "k", 1, NULL, T0 + MINUTE, &why), 0);
    expect_blocked(take(w, p, "k", 1, T0 + MINUTE), SECOND);
    backend_close(w);
}

static void a_limiter_without_keys_has_a_box_too(void **state)
{
    struct weir_limiter *l;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_limiter_open(&l, "token-bucket 1/s block=10s after=2", NULL), 0);
    assert_true(weir_limiter_allow_at(l, T0));
    assert_false(weir_limiter_allow_at(l, T0));
    assert_false(weir_limiter_allow_at(l, T0));
    assert_int_equal(weir_limiter_take_at(l, 1, 0, T0 + 5 * SECOND, &v), 0);
    expect_blocked(v, 5 * SECOND);
    assert_false(weir_limiter_allow_at(l, T0 + 10 * SECOND - 1));
    assert_true(weir_limiter_allow_at(l, T0 + 10 * SECOND));
    weir_limiter_reset(l);
    assert_true(weir_limiter_allow_at(l, T0 + 10 * SECOND));
    weir_limiter_close(l);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(refusals_block_and_retry_after_is_exact),
    cmocka_unit_test(a_batch_decides_as_one_by_one),
    cmocka_unit_test(of_several_the_one_that_refuses_counts),
    cmocka_unit_test(a_key_named_twice_counts_one_refusal),
    cmocka_unit_test(a_full_store_unblocks_nobody),
    cmocka_unit_test(refusals_of_a_key_without_a_place_count),
    cmocka_unit_test(another_number_carries_the_box_over_and_another_layout_does_not),
    cmocka_unit_test(a_keys_own_limit_has_a_box_too),
    cmocka_unit_test(a_limiter_without_keys_has_a_box_too),
};

RUN_BACKEND("blocks", TESTS)
