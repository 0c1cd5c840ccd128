/* Guards under threads: never one too many inside, never a permit lost. Callers on a wait list are
 * in wait_list.c. */
#include "guard_test.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "listed.h"
#include "thread_team.h"

#define SCALE (UNDER_TSAN ? 10 : UNDER_ASAN ? 4 : 1)
#define KEYS  3

struct guard_job {
    struct weir *w;
    struct weir_policy *policy;
    int64_t most, ops, step_ns;
    const char *own[3];
    _Atomic int64_t inside[KEYS], entered, working, now_ns;
};

static struct weir_request request(struct weir_policy *p, const uint64_t *key, int64_t patience_ns)
{
    return (struct weir_request){p, key, sizeof *key, 1, patience_ns};
}

/* A job under that limit, with so much to do. */
static struct guard_job job_of(const char *limit, int64_t most, int64_t ops)
{
    struct guard_job j = {.w = open_guarded(), .most = most, .ops = ops / SCALE};

    j.policy = backend_policy(j.w, "p", limit, weir_now(j.w));
    return j;
}

/* All went well, and all have left. */
static void end_job(struct guard_job *j, const struct team_thread *sum)
{
    assert_int_equal(sum->errors, 0);
    assert_true(j->entered > 0);
    assert_int_equal(j->w->entering, 0);
    assert_int_equal(listed(j->w), 0);
    for (uint64_t k = 0; k < KEYS; k++) {
        const struct weir_request rq = request(j->policy, &k, 0);

        assert_int_equal(view_at(j->w, &rq, 0, weir_now(j->w)).in_flight, 0);
    }
    backend_close(j->w);
}

/* Inside: counts the callers there, and stays for a while. */
static void stay(struct team_thread *me, struct guard_job *j, uint64_t key)
{
    me->errors += atomic_fetch_add(&j->inside[key], 1) >= j->most;
    atomic_fetch_add(&j->entered, 1);
    if (team_roll(me, 4) == 0)
        (void)sched_yield();
    atomic_fetch_sub(&j->inside[key], 1);
}

static enum weir_outcome roll_outcome(struct team_thread *me)
{
    return (enum weir_outcome)team_roll(me, 4);
}

/* ---- Never one too many -------------------------------------------------------------------- */

static void enter_and_exit(struct team_thread *me)
{
    struct guard_job *j = me->arg;

    for (int64_t i = 0; i < j->ops; i++) {
        const uint64_t key = team_roll(me, KEYS);
        const struct weir_request rq = request(j->policy, &key, 0);
        struct weir_ticket t;
        struct weir_verdict v;

        me->errors += weir_enter(j->w, &rq, &t, &v) != 0;
        if (v.allowed)
            stay(me, j, key);
        me->errors += weir_exit(j->w, &t, roll_outcome(me)) != 0;
    }
}

static void never_more_are_inside_than_may(void **state)
{
    static const char *const LIMITS[] = {
        "concurrency 3", "concurrency 3 lease=1h", "concurrency 3 queue=9 max-wait=1h",
        "concurrency 3 + token-bucket 1M/s + vegas", "concurrency 3 shadow + concurrency 3"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct guard_job j = job_of(LIMITS[i], 3, 20000);
        struct team_thread sum;

        team_run(LIMITS[i], enter_and_exit, &j, 0, &sum);
        end_job(&j, &sum);
    }
}

/* ---- Never a permit lost ------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
}

static pthread_t threads[TEAM_SIZE];
static _Atomic int there;

/* Waits of all lengths, some of which end by a signal. */
static void wait_and_give_up(struct team_thread *me)
{
    static const int64_t PATIENCE[] = {0, 20000, 200000, MS, WEIR_WAIT_DEFAULT};
    struct guard_job *j = me->arg;

    threads[me->number] = pthread_self();
    atomic_fetch_add(&there, 1);
    for (int64_t i = 0; i < j->ops; i++) {
        const uint64_t key = team_roll(me, KEYS);
        const struct weir_request rq = request(j->policy, &key, PATIENCE[team_roll(me, 5)]);
        struct weir_ticket t;
        struct weir_verdict v;
        const int error = weir_enter(j->w, &rq, &t, &v);

        me->errors += error != 0 && error != WEIR_EINTR;
        if (error)
            continue;
        if (v.allowed)
            stay(me, j, key);
        else
            me->errors += v.reason != WEIR_LIMITED && v.reason != WEIR_QUEUE_FULL;
        if (team_roll(me, 8) == 0 && there == TEAM_SIZE)
            (void)pthread_kill(threads[team_roll(me, TEAM_SIZE)], SIGUSR1);
        me->errors += weir_exit(j->w, &t, roll_outcome(me)) != 0;
    }
    atomic_fetch_sub(&j->working, 1);
    while (j->working > 0) /* so that the signalled thread exists */
        (void)usleep(200);
}

static void no_permit_is_lost_by_callers_that_give_up(void **state)
{
    static const char *const LIMITS[] = {"concurrency 2 queue=2 max-wait=2ms",
                                         "concurrency 2 queue=9 max-wait=1h lease=1h",
                                         "concurrency 2 queue=3 max-wait=5ms + 1M/s"};
    const struct sigaction act = {.sa_handler = on_signal};

    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &act, NULL), 0);
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct guard_job j = job_of(LIMITS[i], 2, 4000);
        struct team_thread sum;

        j.working = TEAM_SIZE;
        there = 0;
        team_run(LIMITS[i], wait_and_give_up, &j, 0, &sum);
        end_job(&j, &sum);
    }
}

/* ---- Resets -------------------------------------------------------------------------------- */

/* Earlier entries are void: in the end no call is in flight, in whatever order callers exited. */
static void reset_now_and_then(struct team_thread *me)
{
    struct guard_job *j = me->arg;

    for (int64_t i = 0; i < j->ops; i++) {
        const uint64_t key = team_roll(me, KEYS);
        const struct weir_request rq = request(j->policy, &key, 0);
        struct weir_ticket t;
        struct weir_verdict v;

        me->errors += weir_enter(j->w, &rq, &t, &v) != 0;
        if (team_roll(me, 10) == 0)
            me->errors += weir_reset(j->w, &rq) != 0;
        if (v.allowed)
            stay(me, j, key);
        me->errors += weir_exit(j->w, &t, roll_outcome(me)) != 0;
    }
}

static void no_call_is_in_when_all_have_left_whatever_was_reset(void **state)
{
    static const char *const LIMITS[] = {"concurrency 3", "concurrency 3 lease=1h",
                                         "gradient + breaker",
                                         "vegas + adaptive-rate 1k/s min=1 max=2k"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct guard_job j = job_of(LIMITS[i], TEAM_SIZE, 10000);
        struct team_thread sum;

        team_run(LIMITS[i], reset_now_and_then, &j, 0, &sum);
        end_job(&j, &sum);
    }
}

/* ---- Lists and limits of keys' own, changed under load ------------------------------------- */

static void change_lists(struct team_thread *me)
{
    static const char *const OWN[] = {"concurrency 9 queue=5 max-wait=1ms", NULL,
                                      "concurrency 5 queue=1 max-wait=1ms"};
    static const char *const BASE[] = {"concurrency 3 queue=5 max-wait=1ms",
                                       "concurrency 4 queue=5 max-wait=1ms"};
    struct guard_job *j = me->arg;
    const uint64_t key[KEYS] = {0, 1, 2};
    struct weir_bytes all[KEYS];

    if (me->number >= 2) {
        enter_and_exit(me);
        atomic_fetch_sub(&j->working, 1);
        return;
    }
    for (int i = 0; i < KEYS; i++)
        all[i] = (struct weir_bytes){&key[i], sizeof key[i]};
    while (j->working > 0) {
        const uint64_t k = team_roll(me, KEYS);

        switch (team_roll(me, 4)) {
        case 0:
            me->errors += weir_override_set(j->w, j->policy, &key[k], sizeof key[k],
                                            OWN[team_roll(me, 3)], NULL) != 0;
            break;
        case 1:
            me->errors += weir_list_set(j->w, j->policy, WEIR_LIST_DENY, all,
                                        (size_t)team_roll(me, KEYS)) != 0;
            break;
        case 2:
            me->errors += weir_policy_set(j->w, "p", BASE[team_roll(me, 2)], NULL, NULL) != 0;
            break;
        default: me->errors += weir_list_set(j->w, j->policy, WEIR_LIST_DENY, NULL, 0) != 0; break;
        }
    }
}

static void lists_and_limits_change_under_load_and_no_permit_is_lost(void **state)
{
    struct guard_job j = job_of("concurrency 3 queue=5 max-wait=1ms", 9, 10000);
    struct team_thread sum;

    (void)state;
    j.working = TEAM_SIZE - 2;
    team_run("lists", change_lists, &j, 0, &sum);
    end_job(&j, &sum);
}

#define T_NS  MS
#define BURST 50

static int64_t drain(struct guard_job *j, uint64_t key, int64_t now_ns)
{
    const struct weir_request rq = request(j->policy, &key, 0);
    struct weir_verdict v = {.allowed = true};
    int64_t n = -1;

    for (; v.allowed; n++)
        assert_int_equal(weir_take_at(j->w, &rq, now_ns, &v), 0);
    return n;
}

static void flip_own(struct team_thread *me)
{
    struct guard_job *j = me->arg;
    const uint64_t key = 0;
    const struct weir_request rq = request(j->policy, &key, 0);

    if (me->number < 2) {
        while (j->working > 0)
            me->errors += weir_override_set_at(j->w, j->policy, &key, sizeof key,
                                               j->own[team_roll(me, 3)], j->now_ns, NULL) != 0;
        return;
    }
    for (int64_t i = 0; i < j->ops; i++) {
        struct weir_verdict v;

        me->errors += weir_take_at(j->w, &rq, atomic_fetch_add(&j->now_ns, j->step_ns), &v) != 0;
        me->granted += v.allowed;
    }
    atomic_fetch_sub(&j->working, 1);
}

/* The total that a never idle bucket has granted is known, even if other threads changed its
 * burst. All of it takes less than the ten seconds from which on a stale time, that of a thread
 * which was kept waiting, counts as a clock that stepped back (decision 18). */
static void overrides_grant_nothing_extra_and_lose_nothing(void **state)
{
    struct guard_job j = {
        .w = backend_open(NULL),
        .ops = 20000 / SCALE,
        .step_ns = T_NS / 16,
        .working = TEAM_SIZE - 2,
        .now_ns = T0,
        .own = {"token-bucket 1000/s burst=70", NULL, "token-bucket 1000/s burst=100"}};
    const uint64_t key = 0;
    struct team_thread sum;

    (void)state;
    j.policy = backend_policy(j.w, "p", "token-bucket 1000/s burst=50", T0);
    assert_int_equal(drain(&j, 0, T0), BURST);
    team_run("limits of keys' own", flip_own, &j, 0, &sum);
    assert_int_equal(sum.errors, 0);
    assert_int_equal(weir_override_set_at(j.w, j.policy, &key, sizeof key,
                                          "token-bucket 1000/s burst=100", j.now_ns, NULL),
                     0);
    assert_int_equal(sum.granted + drain(&j, 0, j.now_ns), (j.now_ns - T0) / T_NS + 100 - BURST);
    backend_close(j.w);
}

/* While the clock stands still a burst is granted once, however the rates differ under which it
 * is. */
static void a_burst_is_granted_once_by_limits_of_any_rate(void **state)
{
    struct guard_job j = {
        .w = backend_open(NULL),
        .ops = 3000 / SCALE,
        .working = TEAM_SIZE - 2,
        .now_ns = T0,
        .own = {"token-bucket 10k/s burst=5k", NULL, "token-bucket 100/s burst=5k"}};
    struct team_thread sum;

    (void)state;
    j.policy = backend_policy(j.w, "p", "token-bucket 1000/s burst=5k", T0);
    team_run("bursts", flip_own, &j, 0, &sum);
    assert_int_equal(sum.errors, 0);
    assert_int_equal(sum.granted + drain(&j, 0, T0), 5000);
    backend_close(j.w);
}

/* ---- The sampler --------------------------------------------------------------------------- */

static void inject_and_enter(struct team_thread *me)
{
    struct guard_job *j = me->arg;

    if (me->number == 0)
        for (int i = 0; i < 200; i++) {
            const struct weir_signals s = {i % 2 ? 0 : WEIR_NONE, 0, WEIR_NONE, 0};

            me->errors += weir_signals_set(j->w, &s) != 0;
        }
    enter_and_exit(me);
}

static void engines_sample_while_they_are_open(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        struct guard_job j = job_of("concurrency 3 + bbr + system cpu=99%", 3, 2000);
        struct team_thread sum;

        team_run("signals", inject_and_enter, &j, 0, &sum);
        end_job(&j, &sum);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(never_more_are_inside_than_may),
    cmocka_unit_test(no_permit_is_lost_by_callers_that_give_up),
    cmocka_unit_test(no_call_is_in_when_all_have_left_whatever_was_reset),
    cmocka_unit_test(lists_and_limits_change_under_load_and_no_permit_is_lost),
    cmocka_unit_test(overrides_grant_nothing_extra_and_lose_nothing),
    cmocka_unit_test(a_burst_is_granted_once_by_limits_of_any_rate),
    cmocka_unit_test(engines_sample_while_they_are_open),
};

RUN_BACKEND("guard threads", TESTS)
