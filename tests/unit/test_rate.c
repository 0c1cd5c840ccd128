/* Buckets by rate (algo/rate.c), and the policies that no store lists
 * (engine/policy/anonymous.h). */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <weir.h>

#include "algo/algo.h"
#include "engine/policy/anonymous.h"

#define T0     (INT64_C(1700000000) * WEIR__NS_PER_S)
#define ROUNDS 20000

static uint64_t seed = 7;

static int64_t draw(int64_t least, int64_t most)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return least + (int64_t)(seed % (uint64_t)(most - least + 1));
}

static struct weir_term term_of(int64_t count, int64_t period_s, int64_t burst)
{
    struct weir_limit limit;
    char text[128];

    (void)snprintf(text, sizeof text, "token-bucket %lld/%llds burst=%lld", (long long)count,
                   (long long)period_s, (long long)burst);
    assert_int_equal(weir_limit_parse(&limit, text, NULL), 0);
    return limit.term[0];
}

static struct weir__meter meter_of(int64_t count, int64_t period_s, int64_t burst)
{
    const struct weir_term t = term_of(count, period_s, burst);
    struct weir__meter m;

    weir__meter_init_by_rate(&m, &t, T0);
    return m;
}

static struct weir_verdict take(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                                int64_t now_ns)
{
    const struct weir__attempt attempt = {.cost = cost, .now_ns = now_ns};
    struct weir_verdict v;

    weir__meter_take(m, s, &attempt, &v);
    return v;
}

static void of_one_rate_it_is_the_token_bucket_exactly(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        const struct weir_term t = term_of(draw(1, 1000), draw(1, 100), draw(1, 50));
        struct weir__state a = {0}, b = {0};
        struct weir__meter plain, by_rate;
        int64_t now = T0;

        weir__meter_init(&plain, &t, T0);
        weir__meter_init_by_rate(&by_rate, &t, T0);
        for (int i = 0; i < 100; i++) {
            const int64_t cost = draw(0, 3);
            struct weir_verdict v, w;

            now += draw(0, 2 * t.period_ns / t.count);
            v = take(&plain, &a, cost, now);
            w = take(&by_rate, &b, cost, now);
            assert_memory_equal(&v, &w, sizeof v);
        }
    }
}

static void twice_the_rate_neither_forgets_nor_doubles_what_was_used(void **state)
{
    const struct weir__meter ten = meter_of(10, 1, 10), twenty = meter_of(20, 1, 20);
    struct weir__state s = {0};

    (void)state;
    assert_true(take(&ten, &s, 10, T0).allowed);
    assert_false(take(&ten, &s, 1, T0).allowed);
    /* Ten are owed, of twenty that may be; the code counts at most one in 2^14 too many. */
    assert_in_range(take(&twenty, &s, 0, T0).remaining, 9, 10);
    assert_false(take(&twenty, &s, 11, T0).allowed);
    assert_true(take(&twenty, &s, 9, T0).allowed);
    /* And back again. */
    assert_int_equal(take(&ten, &s, 0, T0).remaining, 0);
}

/* Events owed under a meter, rounded up, by asking when the key has fully recovered. */
static double owed(const struct weir__meter *m, struct weir__state *s, int64_t now_ns)
{
    return (double)take(m, s, 0, now_ns).reset_after_ns * (double)m->term.count /
           (double)m->term.period_ns;
}

static void to_and_fro_leaves_what_is_owed(void **state)
{
    const struct weir__meter ten = meter_of(10, 1, 1000), odd = meter_of(1234577, 86399, 1000);
    struct weir__state s = {0};
    double before;

    (void)state;
    (void)take(&ten, &s, 700, T0);
    before = owed(&ten, &s, T0);
    for (int i = 0; i < 100000; i++)
        (void)owed(i % 2 ? &ten : &odd, &s, T0);
    assert_true(owed(&ten, &s, T0) >= before && owed(&ten, &s, T0) < before + 0.01);
}

static void a_change_of_rate_keeps_what_is_owed(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const struct weir__meter from =
            meter_of(draw(1, 1) << draw(0, 30), draw(1, 100000), draw(1, 1000));
        const struct weir__meter to = meter_of(draw(1, 1000000), draw(1, 100000), draw(1, 1000));
        struct weir__state s = {0};
        double before, after, slack;

        (void)take(&from, &s, draw(1, from.term.burst), T0);
        before = owed(&from, &s, T0);
        after = owed(&to, &s, T0);
        /* Waits are whole nanoseconds: what one of them is worth under either rate is allowed. */
        slack = 2 * ((double)from.term.count / (double)from.term.period_ns +
                     (double)to.term.count / (double)to.term.period_ns) +
                1e-9 * before;
        if (after < before * (1 - 1.0 / 16384) - slack ||
            after > before * (1 + 1.0 / 16384) + slack)
            fail_msg("%lld/%lldns -> %lld/%lldns: %f owed became %f", (long long)from.term.count,
                     (long long)from.term.period_ns, (long long)to.term.count,
                     (long long)to.term.period_ns, before, after);
    }
}

static void rates_so_near_that_they_share_a_code_do_no_harm(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        const int64_t count = draw(100000, 1000000000);
        const struct weir__meter a = meter_of(count, 60, 100),
                                 b = meter_of(count - draw(1, 3), 60, 100);
        struct weir__state s = {0};

        for (int i = 0; i < 8; i++)
            (void)take(i % 2 ? &a : &b, &s, 1, T0 + i);
        assert_true(owed(&a, &s, T0 + 8) > 0 && owed(&a, &s, T0 + 8) <= 8.01);
    }
}

/* ---- In an engine ---------------------------------------------------------------------------- */

static struct weir_policy *open_anonymous(struct weir *w, const char *text, const char *keys_of,
                                          bool by_rate)
{
    struct weir_policy *p;
    struct weir_limit limit;

    assert_int_equal(weir_limit_parse(&limit, text, NULL), 0);
    assert_int_equal(weir__anonymous_open(w, &limit, weir__slice_of(keys_of), by_rate, &p, NULL),
                     0);
    return p;
}

static int64_t left_of(struct weir *w, struct weir_policy *p, int64_t cost)
{
    struct weir_request rq = weir_request_of(p, "k", 1);
    struct weir_verdict v;

    rq.cost = cost;
    assert_int_equal(weir_take_at(w, &rq, T0, &v), 0);
    return v.allowed ? v.remaining : -1;
}

static void keys_outlive_the_policy_and_belong_to_the_word(void **state)
{
    struct weir *w;
    struct weir_policy *p, *other;

    (void)state;
    assert_int_equal(weir_open(&w, NULL, NULL), 0);
    p = open_anonymous(w, "fixed-window 5/1h", "five", false);
    other = open_anonymous(w, "fixed-window 5/1h", "other", false);
    assert_int_equal(left_of(w, p, 2), 3);
    assert_int_equal(left_of(w, other, 1), 4);
    weir__anonymous_close(w, p);
    p = open_anonymous(w, "fixed-window 5/1h", "five", false);
    assert_int_equal(left_of(w, p, 1), 2);
    weir__anonymous_close(w, p);
    weir__anonymous_close(w, other);
    weir_close(w);
}

static void a_key_may_meet_many_rates(void **state)
{
    struct weir *w;
    struct weir_policy *ten, *twenty;

    (void)state;
    assert_int_equal(weir_open(&w, NULL, NULL), 0);
    ten = open_anonymous(w, "token-bucket 10/s burst=10", "throttle", true);
    twenty = open_anonymous(w, "token-bucket 20/s burst=20", "throttle", true);
    assert_int_equal(left_of(w, ten, 10), 0);
    assert_int_equal(left_of(w, ten, 1), -1);
    assert_in_range(left_of(w, twenty, 5), 4, 5);
    weir__anonymous_close(w, ten);
    weir__anonymous_close(w, twenty);
    weir_close(w);
}

/* Handles that are left are closed with the engine. */
static void a_reset_under_one_limit_voids_nothing_under_another(void **state)
{
    struct weir_reservation r[2];
    struct weir_request rq, other;
    struct weir_verdict v;
    int64_t back = -1;
    struct weir *w;

    (void)state;
    assert_int_equal(weir_open(&w, NULL, NULL), 0);
    rq = weir_request_of(open_anonymous(w, "pacer 1/h", "pacer", false), "k", 1);
    other = weir_request_of(open_anonymous(w, "token-bucket 5/h", "bucket", false), "k", 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(weir_reserve_at(w, &rq, 1, T0, &r[i], &v), 0);
    assert_int_equal(weir_reset_at(w, &other, T0), 0);
    assert_int_equal(weir_cancel_at(w, &r[1], T0, &back), 0);
    assert_int_equal(back, 1);
    weir_close(w);
}

struct rate_wait {
    struct weir *w;
    struct weir_request rq;
    _Atomic bool over;
};

static void *wait_long(void *arg)
{
    struct rate_wait *me = arg;
    struct weir_verdict v;

    (void)weir_wait(me->w, &me->rq, WEIR_FOREVER, &v);
    me->over = true;
    return NULL;
}

static void equal_keys_of_two_limits_do_not_wait_for_each_other(void **state)
{
    struct rate_wait first = {0};
    struct weir_request other;
    struct weir_verdict v;
    pthread_t thread;

    (void)state;
    assert_int_equal(weir_open(&first.w, NULL, NULL), 0);
    first.rq =
        weir_request_of(open_anonymous(first.w, "fixed-window 1/500ms", "slow", false), "k", 1);
    other = weir_request_of(open_anonymous(first.w, "100/s", "fast", false), "k", 1);
    assert_int_equal(weir_take(first.w, &first.rq, &v), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_long, &first), 0);
    (void)nanosleep(&(struct timespec){0, 100000000}, NULL);
    assert_int_equal(weir_wait(first.w, &other, WEIR_FOREVER, &v), 0);
    assert_false(first.over);
    (void)pthread_join(thread, NULL);
    weir_close(first.w);
}

/* Such a state is damaged, or another's: it is not forgiven. */
static void a_state_that_names_no_rate_owes_its_whole_limit(void **state)
{
    static const uint32_t versions[] = {0, 1, WEIR__VERSION_MOST, WEIR__VERSION_RATE};
    const struct weir__meter m = meter_of(10, 1, 10);

    (void)state;
    for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
        struct weir__state s = {T0 + 1, weir__state_word(0, versions[i])};

        assert_false(take(&m, &s, 1, T0).allowed);
        assert_true(take(&m, &s, 1, T0 + 100000000).allowed);
        assert_false(take(&m, &s, 10, T0 + 1000000000).allowed);
        assert_true(take(&m, &s, 10, T0 + 1100000000).allowed);
    }
}

/* A text never changes: its number is no code, and a state with another number is not its own. */
static void a_text_reads_no_rate_out_of_a_strange_state(void **state)
{
    const struct weir_term t = term_of(10, 1, 10);
    struct weir__state s = {T0 + 1, weir__state_word(0, WEIR__VERSION_RATE | 12345)};
    struct weir__meter m;

    (void)state;
    weir__meter_init(&m, &t, T0);
    weir__meter_number(&m, WEIR__VERSION_RATE);
    assert_false(take(&m, &s, 1, T0).allowed);
    assert_true(take(&m, &s, 1, T0 + 100000000).allowed);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_one_rate_it_is_the_token_bucket_exactly),
    cmocka_unit_test(twice_the_rate_neither_forgets_nor_doubles_what_was_used),
    cmocka_unit_test(to_and_fro_leaves_what_is_owed),
    cmocka_unit_test(a_change_of_rate_keeps_what_is_owed),
    cmocka_unit_test(rates_so_near_that_they_share_a_code_do_no_harm),
    cmocka_unit_test(a_state_that_names_no_rate_owes_its_whole_limit),
    cmocka_unit_test(a_text_reads_no_rate_out_of_a_strange_state),
    cmocka_unit_test(keys_outlive_the_policy_and_belong_to_the_word),
    cmocka_unit_test(a_key_may_meet_many_rates),
    cmocka_unit_test(a_reset_under_one_limit_voids_nothing_under_another),
    cmocka_unit_test(equal_keys_of_two_limits_do_not_wait_for_each_other),
};
RUN("rate", tests)
