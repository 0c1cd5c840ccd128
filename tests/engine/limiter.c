/* One limiter, without keys: its errors, its verbs, its clock. That it answers as an engine does is
 * the model's to show. */
#include "engine_test.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

/* A limiter is created when it is opened; times are counted from a while after that. */
static struct weir_limiter *open_solo(const char *limit, int64_t *now_ns)
{
    struct weir_limiter *l;
    struct weir_diag why;

    if (weir_limiter_open(&l, limit, &why) != 0)
        fail_msg("%s: %s", limit, why.text);
    *now_ns = weir_now(NULL) + 2 * DAY;
    return l;
}

static struct weir_verdict look_solo(struct weir_limiter *l, int64_t now_ns)
{
    struct weir_verdict v;

    assert_int_equal(weir_limiter_peek_at(l, 0, 0, now_ns, &v), 0);
    return v;
}

static void bad_limits_are_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *limit;
        int error;
    } ROWS[] = {
        {"", WEIR_ESYNTAX},
        {"10/", WEIR_ESYNTAX},
        {"token-bucket 10/s burst=0", WEIR_ERANGE},
        {"fixed-window 10/day tz=Mars/Olympus", WEIR_ENOZONE},
    };
    int64_t now;
    struct weir_limiter *l, *good = open_solo("5/h", &now);

    (void)state;
    assert_true(weir_limiter_allow_at(good, now));
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_diag why = {.text = ""};

        smear(&l, sizeof l);
        assert_int_equal(weir_limiter_open(&l, ROWS[i].limit, &why), ROWS[i].error);
        untouched(&l, sizeof l);
        assert_true(why.text[0] != '\0');
        assert_int_equal(weir_limiter_open(&l, ROWS[i].limit, NULL), ROWS[i].error);
        memset(&why, 0, sizeof why);
        assert_int_equal(weir_limiter_change_at(good, ROWS[i].limit, now, &why), ROWS[i].error);
        assert_true(why.text[0] != '\0');
        assert_int_equal(look_solo(good, now).remaining, 4);
    }
    weir_limiter_close(good);
}

static void bad_requests_are_refused_and_touch_nothing(void **state)
{
    static const struct {
        int64_t cost, patience_ns, now_ns;
    } ROWS[] = {
        {-1, 0, T0}, {INT64_MIN, 0, T0}, {1, -2, T0},         {1, INT64_MIN, T0},
        {1, 0, -1},  {1, 0, INT64_MIN},  {1, 0, NOW_MAX + 1}, {1, 0, INT64_MAX},
    };
    int64_t now;
    struct weir_limiter *l = open_solo("5/h", &now);

    (void)state;
    assert_true(weir_limiter_allow_at(l, now));
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        const int64_t at = ROWS[i].now_ns == T0 ? now : ROWS[i].now_ns;
        struct weir_verdict v;
        int64_t back;

        smear(&v, sizeof v);
        smear(&back, sizeof back);
        assert_int_equal(weir_limiter_take_at(l, ROWS[i].cost, ROWS[i].patience_ns, at, &v),
                         WEIR_EINVAL);
        assert_int_equal(weir_limiter_peek_at(l, ROWS[i].cost, ROWS[i].patience_ns, at, &v),
                         WEIR_EINVAL);
        if (ROWS[i].patience_ns == 0) {
            assert_int_equal(weir_limiter_refund_at(l, ROWS[i].cost, at, &back), WEIR_EINVAL);
            assert_int_equal(weir_limiter_cancel_at(l, ROWS[i].cost, now, at, &back), WEIR_EINVAL);
        }
        if (at != now) {
            assert_int_equal(weir_limiter_change_at(l, "6/h", at, NULL), WEIR_EINVAL);
            assert_false(weir_limiter_allow_at(l, at));
        }
        untouched(&v, sizeof v);
        untouched(&back, sizeof back);
        assert_int_equal(look_solo(l, now).remaining, 4);
        assert_int_equal(look_solo(l, now).limit, 5);
    }
    weir_limiter_close(l);
}

static void every_algorithm_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_ALGORITHM); i++) {
        int64_t now, back;
        struct weir_limiter *l = open_solo(EVERY_ALGORITHM[i], &now);
        const struct weir_verdict fresh = look_solo(l, now);
        struct weir_verdict v;
        int n = 0;

        print_message("  %s\n", EVERY_ALGORITHM[i]);
        for (int k = 0; k < 30; k++)
            n += weir_limiter_allow_at(l, now + k);
        assert_in_range(n, 1, 12);
        assert_false(weir_limiter_allow_at(l, now + 30));
        assert_int_equal(weir_limiter_take_at(l, 1, 0, now + 30, &v), 0);
        assert_false(v.allowed);
        assert_int_equal(weir_limiter_refund_at(l, 1, now + 30, &back), 0);
        assert_in_range(back, 0, 1);
        assert_int_equal(weir_limiter_refund_at(l, 1, now + 30, NULL), 0);
        weir_limiter_reset(l);
        v = look_solo(l, now);
        same_verdict(&fresh, &v);
        assert_true(weir_limiter_allow_at(l, now));
        weir_limiter_close(l);
    }
}

static void changes_keep_what_is_used(void **state)
{
    int64_t now;
    struct weir_limiter *l = open_solo("token-bucket 10/h", &now);
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_limiter_take_at(l, 4, 0, now, &v), 0);
    assert_int_equal(weir_limiter_change_at(l, "token-bucket 20/h burst=20", now, NULL), 0);
    assert_int_equal(look_solo(l, now).remaining, 16);
    assert_int_equal(weir_limiter_change_at(l, "sliding-log 7/h", now, NULL), 0); /* starts fresh */
    assert_int_equal(look_solo(l, now).remaining, 7);
    assert_int_equal(weir_limiter_take_at(l, 7, 0, now, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(weir_limiter_change_at(l, "sliding-log 7/2h", now + 1, NULL), 0);
    assert_false(weir_limiter_allow_at(l, now + HOUR + MINUTE));
    assert_int_equal(weir_limiter_change_at(l, "token-bucket 20/h burst=20", now, NULL), 0);
    assert_int_equal(look_solo(l, now).remaining, 20);
    weir_limiter_close(l);
}

static void reservations_are_cancelled_by_cost_and_time(void **state)
{
    int64_t now, back;
    struct weir_limiter *l = open_solo("token-bucket 1/s burst=10", &now);
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_limiter_take_at(l, 10, 0, now, &v), 0);
    assert_int_equal(weir_limiter_take_at(l, 5, WEIR_FOREVER, now, &v), 0);
    assert_int_equal(v.wait_ns, 5 * SECOND);
    assert_int_equal(weir_limiter_cancel_at(l, 5, now + v.wait_ns, now + SECOND, &back), 0);
    assert_int_equal(back, 5);
    assert_int_equal(look_solo(l, now + SECOND).remaining, 1);
    assert_int_equal(weir_limiter_take_at(l, 5, WEIR_FOREVER, now + SECOND, &v), 0);
    assert_int_equal(
        weir_limiter_cancel_at(l, 5, now + SECOND + v.wait_ns, now + SECOND + v.wait_ns + 1, &back),
        0);
    assert_int_equal(back, 0); /* it has acted */
    weir_limiter_close(l);

    l = open_solo("token-bucket 1/s burst=10 + pacer 1/s", &now);
    assert_int_equal(weir_limiter_take_at(l, 1, WEIR_FOREVER, now, &v), 0);
    assert_int_equal(weir_limiter_take_at(l, 1, WEIR_FOREVER, now, &v), 0);
    assert_int_equal(weir_limiter_cancel_at(l, 1, now + v.wait_ns, now, &back), 0);
    assert_int_equal(back, 0); /* of several terms */
    weir_limiter_close(l);
}

static void waits_end_in_time_or_are_hopeless_at_once(void **state)
{
    const int64_t before = weir_now(NULL);
    struct weir_limiter *l;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_limiter_open(&l, "token-bucket 1/20ms burst=1", NULL), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_limiter_wait(l, 1, WEIR_FOREVER, &v), 0);
        assert_true(v.allowed);
    }
    assert_true(weir_now(NULL) - before >= 40 * 1000000);
    assert_int_equal(weir_limiter_wait(l, 2, WEIR_FOREVER, &v), 0);
    assert_int_equal(v.reason, WEIR_TOO_BIG);
    assert_int_equal(weir_limiter_change(l, "fixed-window 1/h", NULL), 0);
    assert_true(weir_limiter_allow(l));
    assert_int_equal(weir_limiter_wait(l, 1, weir_now(NULL) + MINUTE, &v), 0);
    assert_false(v.allowed);
    smear(&v, sizeof v);
    assert_int_equal(weir_limiter_wait(l, -1, WEIR_FOREVER, &v), WEIR_EINVAL);
    untouched(&v, sizeof v);
    weir_limiter_close(l);
}

static void requests_that_can_never_pass_are_refused_at_once(void **state)
{
    static const char *const LIMITS[] = {
        "token-bucket 1/h burst=1",    "pacer 1/h",       "leaky-bucket 1/h capacity=9 delay=0",
        "smooth-bursty 1/h",           "min-interval 1h", "fixed-window 1/h",
        "leaky-bucket 1/h capacity=1", "sliding-log 1/h", "pacer 1/h + fixed-window 1/h"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        const int64_t before = weir_now(NULL);
        struct weir_verdict v, standing;
        struct weir_limiter *l;

        print_message("  %s\n", LIMITS[i]);
        assert_int_equal(weir_limiter_open(&l, LIMITS[i], NULL), 0);
        while (weir_limiter_allow(l))
            ;
        assert_int_equal(weir_limiter_wait(l, 1, before + 5 * SECOND, &v), 0);
        assert_false(v.allowed);
        assert_true(v.retry_after_ns > 0);
        assert_true(weir_now(NULL) - before < 4 * SECOND);
        assert_int_equal(weir_limiter_peek(l, 0, 0, &standing), 0);
        assert_true(standing.reset_after_ns <= 2 * HOUR); /* nothing was taken */
        weir_limiter_close(l);
    }
}

/* ---- Signals ------------------------------------------------------------------------------- */

static pthread_t sleeper;

static void on_signal(int number)
{
    (void)number;
}

static void *disturb(void *arg)
{
    const bool *over = arg;

    while (!__atomic_load_n(over, __ATOMIC_ACQUIRE)) {
        (void)nanosleep(&(struct timespec){0, 20000000}, NULL);
        (void)pthread_kill(sleeper, SIGUSR1);
    }
    return NULL;
}

static void a_signal_ends_the_wait_and_gives_back(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/h burst=1", "fixed-window 1/h"};

    (void)state;
    (void)sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
    sleeper = pthread_self();
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct weir_limiter *l;
        struct weir_verdict v;
        pthread_t thread;
        bool over = false;

        assert_int_equal(weir_limiter_open(&l, LIMITS[i], NULL), 0);
        assert_true(weir_limiter_allow(l));
        assert_int_equal(pthread_create(&thread, NULL, disturb, &over), 0);
        smear(&v, sizeof v);
        assert_int_equal(weir_limiter_wait(l, 1, WEIR_FOREVER, &v), WEIR_EINTR);
        untouched(&v, sizeof v);
        __atomic_store_n(&over, true, __ATOMIC_RELEASE);
        (void)pthread_join(thread, NULL);
        assert_int_equal(weir_limiter_peek(l, 0, 0, &v), 0);
        assert_true(v.reset_after_ns <= HOUR);
        weir_limiter_close(l);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(bad_limits_are_refused_with_a_sentence),
    cmocka_unit_test(bad_requests_are_refused_and_touch_nothing),
    cmocka_unit_test(every_algorithm_counts),
    cmocka_unit_test(changes_keep_what_is_used),
    cmocka_unit_test(reservations_are_cancelled_by_cost_and_time),
    cmocka_unit_test(waits_end_in_time_or_are_hopeless_at_once),
    cmocka_unit_test(requests_that_can_never_pass_are_refused_at_once),
    cmocka_unit_test(a_signal_ends_the_wait_and_gives_back),
};

RUN("limiter", TESTS)
