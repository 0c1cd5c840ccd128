/* Eight threads at one limiter: it grants exactly its rate, while it is changed too.
 *
 * The threads share a timeline, as in threads.c: every call moves an atomic clock on and asks at
 * the time it got.
 */
#include "engine_test.h"

#include "thread_team.h"

#define SCALE (UNDER_TSAN ? 20 : UNDER_ASAN ? 4 : 1)
#define T_NS  INT64_C(1000000) /* between two tokens of 1000/s */
#define BURST 50

struct limiter_job {
    struct weir_limiter *limiter;
    int64_t ops;     /* of each thread */
    int64_t step_ns; /* by which each call moves the clock */
    _Atomic int64_t now_ns, working;
};

static int64_t limiter_tick(struct limiter_job *j)
{
    return atomic_fetch_add(&j->now_ns, j->step_ns);
}

static void allow_and_allow(struct team_thread *me)
{
    struct limiter_job *j = me->arg;
    struct weir_verdict v;

    for (int64_t i = 0; i < j->ops; i++)
        if (me->number % 2 == 0) {
            me->granted += weir_limiter_allow_at(j->limiter, limiter_tick(j));
        } else {
            me->errors += weir_limiter_take_at(j->limiter, 1, 0, limiter_tick(j), &v) != 0;
            me->granted += v.allowed;
        }
}

static void change_the_limiter(struct team_thread *me)
{
    struct limiter_job *j = me->arg;

    if (me->number >= 2) {
        allow_and_allow(me);
        atomic_fetch_sub(&j->working, 1);
        return;
    }
    for (int i = 0; j->working > 0; i++)
        me->errors += weir_limiter_change_at(j->limiter,
                                             i % 2 ? "token-bucket 1000/s burst=50"
                                                   : "token-bucket 1000/s burst=100",
                                             j->now_ns, NULL) != 0;
}

static int64_t drain_limiter(struct limiter_job *j)
{
    int64_t n = 0;

    while (weir_limiter_allow_at(j->limiter, j->now_ns))
        n++;
    return n;
}

static void a_limiter_hands_out_exactly_its_rate(void **state)
{
    (void)state;
    for (int changes = 0; changes < 2; changes++) {
        const int64_t begin = weir_now(NULL) + DAY; /* a limiter is created when it is opened */
        struct limiter_job j = {
            .ops = 100000 / SCALE, .step_ns = T_NS / 4, .now_ns = begin, .working = TEAM_SIZE - 2};
        struct team_thread sum;

        assert_int_equal(weir_limiter_open(&j.limiter, "token-bucket 1000/s burst=50", NULL), 0);
        assert_int_equal(drain_limiter(&j), BURST);
        team_run("a limiter", changes ? change_the_limiter : allow_and_allow, &j, 0, &sum);
        assert_int_equal(sum.errors, 0);
        assert_int_equal(
            weir_limiter_change_at(j.limiter, "token-bucket 1000/s burst=100", j.now_ns, NULL), 0);
        assert_int_equal(sum.granted + drain_limiter(&j),
                         (j.now_ns - begin) / T_NS + BURST /* of the larger burst */);
        weir_limiter_close(j.limiter);
    }
}

/* States of 16 bytes need no lock, larger ones have one: both count to the last. */
static void limiters_of_every_kind_count_to_the_last(void **state)
{
    static const char *const LIMITS[] = {
        "fixed-window 30000/h",         "sliding-counter 30000/h",
        "sliding-log 30000/h",          "token-bucket 30000/366d",
        "sliding-window 30000/h",       "leaky-bucket 30000/366d",
        "pacer 30000/366d slack=29999", "30000/366d + sliding-log 40000/h"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct limiter_job j = {.ops = 8000, .now_ns = weir_now(NULL) + 400 * DAY};
        struct team_thread sum;

        print_message("  %s\n", LIMITS[i]);
        assert_int_equal(weir_limiter_open(&j.limiter, LIMITS[i], NULL), 0);
        team_run(LIMITS[i], allow_and_allow, &j, 0, &sum);
        assert_int_equal(sum.errors, 0);
        assert_int_equal(sum.granted, 30000);
        weir_limiter_close(j.limiter);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_limiter_hands_out_exactly_its_rate),
    cmocka_unit_test(limiters_of_every_kind_count_to_the_last),
};

RUN("limiter-threads", TESTS)
