/* weir_wait, on a clock that the test moves: no test here sleeps but to see others asleep. */
#include "virtual_clock.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define WAITERS 6
#define GIVE_UP 30000 /* ms until a thread that does not come is missed */

/* ---- On a clock that sleepers move --------------------------------------------------------- */

static void a_wait_ends_when_the_request_may_act(void **state)
{
    static const struct {
        const char *limit;
        int64_t used, cost, wait_ns;
    } ROWS[] = {
        {"token-bucket 1/s burst=1", 1, 1, SECOND},
        {"token-bucket 1/s burst=4", 4, 3, 3 * SECOND},
        {"token-bucket 1/s burst=4", 2, 2, 0},
        {"leaky-bucket 1/s capacity=1", 1, 1, SECOND},
        {"leaky-bucket 1/s capacity=9 delay=0", 3, 1, 3 * SECOND},
        {"pacer 1/s", 1, 1, SECOND},
        {"smooth-bursty 1/s", 5, 1, 4 * SECOND},
        {"min-interval 7s", 1, 1, 7 * SECOND},
        {"fixed-window 2/1m", 2, 1, MINUTE},
        {"fixed-window 2/1m", 1, 2, MINUTE},
        {"fixed-window 2/day", 2, 1, DAY},
        {"sliding-window 2/1m slots=6", 2, 1, MINUTE},
        {"sliding-counter 2/1m", 2, 2, 2 * MINUTE - 30 * SECOND},
        {"sliding-log 2/1m", 2, 1, MINUTE},
        {"token-bucket 1/s burst=1 + fixed-window 1/1m", 1, 1, MINUTE},
        {"token-bucket 1/h burst=1 + fixed-window 1/1m", 1, 1, HOUR},
        {"pacer 1/s + fixed-window 1/1m shadow", 1, 1, SECOND},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++)
        for (int late = 0; late < 2; late++) {
            struct virtual_clock d;
            struct weir *w = open_virtual_clock(&d);
            struct weir_policy *p = backend_policy(w, "p", ROWS[i].limit, T0 - DAY);
            const struct weir_request rq = request_for(p, "k", ROWS[i].cost, WEIR_WAIT_DEFAULT);
            struct weir_verdict v;

            print_message("  %s\n", ROWS[i].limit);
            d.late_ns = late * 5;
            assert_true(take_later(w, p, "k", ROWS[i].used, T0).allowed);
            assert_int_equal(weir_wait(w, &rq, WEIR_FOREVER, &v), 0);
            assert_true(v.allowed);
            assert_int_equal(v.wait_ns, 0);
            assert_in_range(d.now_ns, T0 + ROWS[i].wait_ns,
                            T0 + ROWS[i].wait_ns + 20 + backend_tick_ns() - 1);
            assert_int_equal(d.sleeps > 0, ROWS[i].wait_ns > 0);
            assert_true(d.sleeps <= 3);
            backend_close(w);
        }
}

static void a_deadline_that_is_just_far_enough_is_kept(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/m burst=1", "fixed-window 1/m",
                                         "pacer 1/m", "sliding-log 1/m", "min-interval 1m"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct virtual_clock d;
        struct weir *w = open_virtual_clock(&d);
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], T0);
        const struct weir_request rq = request_for(p, "k", 1, 0);
        struct weir_verdict v, before;

        print_message("  %s\n", LIMITS[i]);
        assert_int_equal(weir_wait(w, &rq, T0, &v), 0); /* now is not too late */
        assert_true(v.allowed);
        before = look(w, p, "k", T0);
        assert_int_equal(weir_wait(w, &rq, T0 + MINUTE - 1, &v), 0);
        assert_false(v.allowed); /* hopeless, and known at once */
        assert_int_equal(d.sleeps, 0);
        assert_int_equal(d.now_ns, T0);
        assert_true(v.retry_after_ns > 0);
        v = look(w, p, "k", T0);
        same_verdict(&before, &v);
        assert_int_equal(weir_wait(w, &rq, T0 + MINUTE, &v), 0);
        assert_true(v.allowed);
        assert_int_equal(d.now_ns, T0 + MINUTE);
        backend_close(w);
    }
}

static void what_can_never_pass_is_refused_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_ALGORITHM); i++) {
        struct virtual_clock d;
        struct weir *w = open_virtual_clock(&d);
        struct weir_policy *p = backend_policy(w, "p", EVERY_ALGORITHM[i], T0);
        const struct weir_request rq = request_for(p, "k", INT64_MAX, 0);
        struct weir_verdict v;

        assert_int_equal(weir_wait(w, &rq, WEIR_FOREVER, &v), 0);
        assert_false(v.allowed);
        assert_int_equal(v.retry_after_ns, -1);
        assert_int_equal(d.sleeps, 0);
        backend_close(w);
    }
}

static void a_deadline_that_has_passed_takes_nothing(void **state)
{
    struct virtual_clock d;
    struct weir *w = open_virtual_clock(&d);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=1", T0);
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_verdict v;

    (void)state;
    (void)take(w, p, "k", 1, T0);
    assert_int_equal(weir_wait(w, &rq, T0 - SECOND, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(d.sleeps, 0);
    smear(&v, sizeof v);
    assert_int_equal(weir_wait(w, &rq, -1, &v), WEIR_EINVAL);
    untouched(&v, sizeof v);
    backend_close(w);
}

static void a_disturbed_sleeper_gives_back_what_it_took(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/s burst=3",
                                         "pacer 1/s",
                                         "leaky-bucket 1/s capacity=9 delay=0",
                                         "fixed-window 3/1m",
                                         "sliding-log 3/1m",
                                         "token-bucket 1/s burst=3 + pacer 1/s",
                                         "min-interval 1s",
                                         "sliding-counter 3/1m",
                                         "pacer 1/s + fixed-window 5/day"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct virtual_clock d;
        struct weir *w = open_virtual_clock(&d);
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], T0 - DAY);
        const struct weir_request rq = request_for(p, "k", 1, 0);
        struct weir_verdict v, before, after;

        print_message("  %s\n", LIMITS[i]);
        while (take(w, p, "k", 1, T0).allowed)
            ;
        before = look(w, p, "k", T0);
        d.disturbed = 1;
        smear(&v, sizeof v);
        assert_int_equal(weir_wait(w, &rq, WEIR_FOREVER, &v), WEIR_EINTR);
        untouched(&v, sizeof v);
        assert_int_equal(d.sleeps, 1);
        after = look(w, p, "k", T0);
        same_verdict(&before, &after);
        for (int again = 0; again < 5; again++) {
            d.disturbed = d.sleeps + 1;
            assert_int_equal(weir_wait(w, &rq, WEIR_FOREVER, &v), WEIR_EINTR);
        }
        assert_int_equal(weir_wait(w, &rq, WEIR_FOREVER, &v), 0);
        assert_true(v.allowed);
        assert_true(d.now_ns < T0 + HOUR); /* and not only tomorrow */
        backend_close(w);
    }
}

/* The twin: the same wait on a timeline of the caller's, which passes as the engine's does. */
static void a_wait_at_another_time_takes_as_long(void **state)
{
    struct virtual_clock d;
    struct weir *w = open_virtual_clock(&d);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=1", 0);
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_verdict v;

    (void)state;
    (void)take(w, p, "k", 1, 5 * SECOND);
    assert_int_equal(weir_wait_at(w, &rq, 5 * SECOND, 6 * SECOND - 1, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(weir_wait_at(w, &rq, 5 * SECOND, 6 * SECOND, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(d.now_ns, T0 + SECOND);
    backend_close(w);
}

/* ---- A clock that the test moves ----------------------------------------------------------- */

struct manual_wait_clock {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int64_t now_ns;
    int disturb; /* how many sleepers are interrupted */
};

static int64_t stand_now(void *arg)
{
    struct manual_wait_clock *s = arg;
    int64_t now;

    (void)pthread_mutex_lock(&s->lock);
    now = s->now_ns;
    (void)pthread_mutex_unlock(&s->lock);
    return now;
}

static int stand_sleep(void *arg, int64_t until_ns)
{
    struct manual_wait_clock *s = arg;
    int disturbed = 0;

    (void)pthread_mutex_lock(&s->lock);
    while (s->now_ns < until_ns && !disturbed) {
        (void)pthread_cond_wait(&s->moved, &s->lock);
        disturbed = s->disturb > 0;
        s->disturb -= disturbed;
    }
    (void)pthread_mutex_unlock(&s->lock);
    return disturbed;
}

static void stand_move(struct manual_wait_clock *s, int64_t by_ns)
{
    (void)pthread_mutex_lock(&s->lock);
    s->now_ns += by_ns;
    (void)pthread_cond_broadcast(&s->moved);
    (void)pthread_mutex_unlock(&s->lock);
}

static struct weir *open_stand(struct manual_wait_clock *s)
{
    const struct weir_clock clock = {stand_now, stand_sleep, s};

    *s = (struct manual_wait_clock){PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, T0, 0};
    return backend_open(&(struct weir_options){.clock = &clock});
}

struct sleeping_thread {
    pthread_t thread;
    struct weir *w;
    struct weir_request rq;
    int64_t deadline_ns;
    _Atomic pid_t id; /* once it is about to wait */
    _Atomic bool back;
    int place; /* the how-manieth to come back */
    int error;
    struct weir_verdict v;
};

static _Atomic int returned;

static void *wait_once(void *arg)
{
    struct sleeping_thread *me = arg;

    me->id = gettid();
    me->error = weir_wait(me->w, &me->rq, me->deadline_ns, &me->v);
    me->place = returned++;
    me->back = true;
    return NULL;
}

static void nap(void)
{
    (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* 'S' if the thread sleeps. */
static char state_of(pid_t id)
{
    char path[64], text[256] = "";
    const char *paren;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)id);
    f = fopen(path, "r");
    if (f) {
        if (!fgets(text, sizeof text, f))
            text[0] = '\0';
        (void)fclose(f);
    }
    paren = strrchr(text, ')');
    return paren && paren[1] ? paren[2] : '?';
}

/* Starts to wait; returns when it sleeps, or has come back. */
static void start(struct sleeping_thread *me, struct weir *w, struct weir_request rq,
                  int64_t deadline_ns)
{
    *me = (struct sleeping_thread){.w = w, .rq = rq, .deadline_ns = deadline_ns, .place = -1};
    assert_int_equal(pthread_create(&me->thread, NULL, wait_once, me), 0);
    for (int ms = 0, asleep = 0; !me->back && asleep < 5; ms++) {
        nap();
        asleep = me->id != 0 && state_of(me->id) == 'S' ? asleep + 1 : 0;
        assert_true(ms < GIVE_UP);
    }
}

static void comes_back(struct sleeping_thread *me)
{
    for (int ms = 0; !me->back; ms++) {
        nap();
        if (ms >= GIVE_UP)
            fail_msg("a waiter does not come back");
    }
    (void)pthread_join(me->thread, NULL);
}

static void waiters_for_one_key_are_served_in_order(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/m burst=1",
                                         "pacer 1/m",
                                         "fixed-window 1/m",
                                         "sliding-log 1/m",
                                         "sliding-window 1/m slots=2",
                                         "min-interval 1m",
                                         "leaky-bucket 1/m capacity=1",
                                         "fixed-window 1/m + token-bucket 10/s"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct manual_wait_clock s;
        struct weir *w = open_stand(&s);
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], T0);
        struct sleeping_thread waiter[WAITERS];

        print_message("  %s\n", LIMITS[i]);
        returned = 0;
        (void)take(w, p, "k", 1, T0);
        for (int n = 0; n < WAITERS; n++) {
            start(&waiter[n], w, request_for(p, "k", 1, 0), WEIR_FOREVER);
            assert_false(waiter[n].back);
        }
        for (int n = 0; n < WAITERS; n++) {
            stand_move(&s, MINUTE);
            comes_back(&waiter[n]);
            assert_int_equal(waiter[n].error, 0);
            assert_true(waiter[n].v.allowed);
            assert_int_equal(waiter[n].place, n);
            assert_int_equal(returned, n + 1); /* and no waiter before its time */
        }
        backend_close(w);
    }
}

/* A waiter does not wait for the waiters of another key. */
static void waiters_for_other_keys_do_not_wait_for_each_other(void **state)
{
    struct manual_wait_clock s;
    struct weir *w = open_stand(&s);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/m", T0);
    struct sleeping_thread waiter[64], first;
    char key[64][16];

    (void)state;
    (void)take(w, p, "k", 1, T0);
    start(&first, w, request_for(p, "k", 1, 0), WEIR_FOREVER);
    assert_false(first.back);
    for (int i = 0; i < 64; i++) {
        (void)snprintf(key[i], sizeof key[i], "k%d", i);
        start(&waiter[i], w, request_for(p, key[i], 1, 0), WEIR_FOREVER);
        comes_back(&waiter[i]);
        assert_true(waiter[i].v.allowed);
    }
    assert_false(first.back);
    stand_move(&s, MINUTE);
    comes_back(&first);
    backend_close(w);
}

/* Refused at once is refused at once behind others as well. */
static void a_request_that_can_never_pass_does_not_wait(void **state)
{
    static const struct {
        const char *sentence;
        int64_t cost, deadline_ns;
    } ROWS[] = {
        {"more than ever fits", 2, WEIR_FOREVER},
        {"a deadline before a waiter is served", 1, T0 + MINUTE - 1},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct manual_wait_clock s;
        struct weir *w = open_stand(&s);
        struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/m", T0);
        struct sleeping_thread first, second;
        bool at_once;

        print_message("  %s\n", ROWS[i].sentence);
        (void)take(w, p, "k", 1, T0);
        start(&first, w, request_for(p, "k", 1, 0), WEIR_FOREVER);
        start(&second, w, request_for(p, "k", ROWS[i].cost, 0), ROWS[i].deadline_ns);
        at_once = second.back;
        stand_move(&s, 10 * MINUTE);
        comes_back(&first);
        comes_back(&second);
        assert_true(at_once);
        assert_false(second.v.allowed);
        backend_close(w);
    }
}

static void a_waiter_that_gives_up_delays_no_other(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/m burst=1", "fixed-window 1/m"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct manual_wait_clock s;
        struct weir *w = open_stand(&s);
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], T0);
        struct sleeping_thread first, second;

        print_message("  %s\n", LIMITS[i]);
        (void)take(w, p, "k", 1, T0);
        start(&first, w, request_for(p, "k", 1, 0), WEIR_FOREVER);
        (void)pthread_mutex_lock(&s.lock);
        s.disturb = 1;
        (void)pthread_mutex_unlock(&s.lock);
        stand_move(&s, 0);
        comes_back(&first);
        assert_int_equal(first.error, WEIR_EINTR);
        start(&second, w, request_for(p, "k", 1, 0), WEIR_FOREVER);
        assert_false(second.back);
        stand_move(&s, MINUTE); /* its turn, had the first never come */
        comes_back(&second);
        assert_true(second.v.allowed);
        backend_close(w);
    }
}

/* ---- Real time ----------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
}

static void a_signal_ends_the_wait(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/h burst=1", "fixed-window 1/h"};

    (void)state;
    (void)sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], weir_now(w));
        struct sleeping_thread waiter;

        assert_true(take(w, p, "k", 1, weir_now(w)).allowed);
        start(&waiter, w, request_for(p, "k", 1, 0), WEIR_FOREVER);
        assert_false(waiter.back);
        (void)pthread_kill(waiter.thread, SIGUSR1);
        comes_back(&waiter);
        assert_int_equal(waiter.error, WEIR_EINTR);
        assert_true(look(w, p, "k", weir_now(w)).reset_after_ns <= HOUR); /* it took nothing */
        backend_close(w);
    }
}

static void a_signal_ends_the_wait_behind_others_too(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/h", weir_now(w));
    struct sleeping_thread first, second;

    (void)state;
    (void)sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
    assert_true(take(w, p, "k", 1, weir_now(w)).allowed);
    start(&first, w, request_for(p, "k", 1, 0), WEIR_FOREVER);
    start(&second, w, request_for(p, "k", 1, 0), WEIR_FOREVER);
    (void)pthread_kill(second.thread, SIGUSR1);
    comes_back(&second);
    assert_int_equal(second.error, WEIR_EINTR);
    assert_false(first.back);
    (void)pthread_kill(first.thread, SIGUSR1);
    comes_back(&first);
    assert_int_equal(first.error, WEIR_EINTR);
    backend_close(w);
}

/* The cancelled thread waits to the end, and then ends: it never leaves its waiter in the list. */
static void a_cancelled_thread_delays_no_other(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/200ms", weir_now(w));
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_verdict v;
    struct sleeping_thread waiter;

    (void)state;
    assert_true(take(w, p, "k", 1, weir_now(w)).allowed);
    start(&waiter, w, rq, WEIR_FOREVER);
    assert_int_equal(pthread_cancel(waiter.thread), 0);
    assert_int_equal(weir_wait(w, &rq, weir_now(w) + 5 * SECOND, &v), 0);
    assert_true(v.allowed);
    comes_back(&waiter);
    assert_true(waiter.v.allowed);
    backend_close(w);
}

static void without_a_callers_own_clock_time_passes(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/20ms burst=1", weir_now(w));
    const struct weir_request rq = request_for(p, "k", 1, 0);
    const int64_t before = weir_now(w);
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_wait(w, &rq, before + MINUTE, &v), 0);
        assert_true(v.allowed);
    }
    assert_in_range(weir_now(w) - before, 40 * 1000000, MINUTE);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_wait_ends_when_the_request_may_act),
    cmocka_unit_test(a_deadline_that_is_just_far_enough_is_kept),
    cmocka_unit_test(what_can_never_pass_is_refused_at_once),
    cmocka_unit_test(a_deadline_that_has_passed_takes_nothing),
    cmocka_unit_test(a_disturbed_sleeper_gives_back_what_it_took),
    cmocka_unit_test(a_wait_at_another_time_takes_as_long),
    cmocka_unit_test(waiters_for_one_key_are_served_in_order),
    cmocka_unit_test(waiters_for_other_keys_do_not_wait_for_each_other),
    cmocka_unit_test(a_request_that_can_never_pass_does_not_wait),
    cmocka_unit_test(a_waiter_that_gives_up_delays_no_other),
    cmocka_unit_test(a_signal_ends_the_wait),
    cmocka_unit_test(a_signal_ends_the_wait_behind_others_too),
    cmocka_unit_test(a_cancelled_thread_delays_no_other),
    cmocka_unit_test(without_a_callers_own_clock_time_passes),
};

RUN_BACKEND("waiting", TESTS)
