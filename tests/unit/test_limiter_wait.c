/* Unit tests of limiters whose callers wait. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "engine/limiter/limiter.h"

#include "../engine/listed.h"

#define S  INT64_C(1000000000)
#define MS INT64_C(1000000)
/* Longer than any of this takes on a machine that has other things to do. */
#define LONG_NS (60 * S)

static struct weir_limiter *limiter(const char *text)
{
    struct weir_limiter *l;

    assert_int_equal(weir_limiter_open(&l, text, NULL), 0);
    return l;
}

static struct weir_verdict wait_for(struct weir_limiter *l, int64_t cost, int64_t deadline_ns)
{
    struct weir_verdict v;

    assert_int_equal(weir_limiter_wait(l, cost, deadline_ns, &v), 0);
    return v;
}

static struct weir_verdict take(struct weir_limiter *l, int64_t cost)
{
    struct weir_verdict v;

    assert_int_equal(weir_limiter_take(l, cost, 0, &v), 0);
    return v;
}

static int64_t remaining(struct weir_limiter *l)
{
    struct weir_verdict v;

    assert_int_equal(weir_limiter_peek(l, 0, 0, &v), 0);
    return v.remaining;
}

static int waiters(struct weir_limiter *l)
{
    return (int)listed_in(&l->waiters);
}

static void await_waiters(struct weir_limiter *l, int n)
{
    while (waiters(l) != n)
        (void)sched_yield();
}

/* A thread that waits. */
struct patient {
    pthread_t thread;
    struct weir_limiter *l;
    int64_t cost;
    _Atomic int *turn;
    int error, served; /* as the how-manieth */
    struct weir_verdict v;
    _Atomic bool started;
};

static void *be_patient(void *arg)
{
    struct patient *p = arg;

    atomic_store(&p->started, true);
    p->error = weir_limiter_wait(p->l, p->cost, WEIR_FOREVER, &p->v);
    p->served = atomic_fetch_add(p->turn, 1);
    return NULL;
}

static void start(struct patient *p, struct weir_limiter *l, int64_t cost, _Atomic int *turn)
{
    *p = (struct patient){.l = l, .cost = cost, .turn = turn};
    assert_int_equal(pthread_create(&p->thread, NULL, be_patient, p), 0);
    while (!atomic_load(&p->started))
        (void)sched_yield();
}

static void finish(struct patient *p)
{
    assert_int_equal(pthread_join(p->thread, NULL), 0);
}

/* ---- By the clock ---------------------------------------------------------------------------- */

static void what_is_free_is_granted_at_once(void **state)
{
    static const char *const LIMITS[] = {"1/s burst=2", "pacer 1/s", "fixed-window 1/1m",
                                         "sliding-log 3/1m", "1/s + fixed-window 1/1m"};

    (void)state;
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct weir_limiter *l = limiter(LIMITS[i]);
        const struct weir_verdict v = wait_for(l, 1, 0); /* a deadline that is past: now or never */

        assert_true(v.allowed);
        assert_int_equal(v.wait_ns, 0);
        assert_true(wait_for(l, 0, 0).allowed);
        weir_limiter_close(l);
    }
}

static void waits_until_its_turn(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 100/s burst=1",
                                         "pacer 100/s",
                                         "smooth-bursty 100/s max-burst=0s",
                                         "min-interval 10ms",
                                         "fixed-window 1/10ms",
                                         "sliding-log 1/10ms",
                                         "100/s burst=1 + fixed-window 1/10ms",
                                         "leaky-bucket 100/s capacity=1"};

    (void)state;
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct weir_limiter *l = limiter(LIMITS[i]);
        int64_t first;

        print_message("  %s\n", LIMITS[i]);
        assert_true(take(l, 1).allowed);
        first = weir__clock_now(); /* at or after the first */
        assert_true(wait_for(l, 1, first + LONG_NS).allowed);
        assert_true(wait_for(l, 1, first + LONG_NS).allowed);
        assert_true(weir__clock_now() - first > 10 * MS);
        weir_limiter_close(l);
    }
}

static void what_is_hopeless_fails_at_once_and_takes_nothing(void **state)
{
    static const struct {
        const char *limit;
        int64_t first, cost, within_ns;
    } ROWS[] = {
        {"token-bucket 1/h burst=1", 1, 1, LONG_NS},
        {"token-bucket 1/h burst=1", 0, 2, WEIR_FOREVER},
        {"fixed-window 1/h", 1, 1, LONG_NS},
        {"fixed-window 1/h", 0, 2, WEIR_FOREVER},
        {"sliding-log 2/h", 2, 1, LONG_NS},
        {"min-interval 1h", 1, 1, LONG_NS},
        {"pacer 1/h", 1, 1, LONG_NS},
        {"pacer 10/h max-wait=1s", 1, 1, LONG_NS},
        {"100/s + fixed-window 1/h", 1, 1, LONG_NS},
        {"leaky-bucket 1/m capacity=2 delay=0", 2, 1, 65 * S},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct weir_limiter *l = limiter(ROWS[i].limit);
        const int64_t begin = weir__clock_now();
        struct weir_verdict v;
        int64_t left;

        print_message("  %s\n", ROWS[i].limit);
        if (ROWS[i].first > 0)
            assert_int_equal(weir_limiter_take(l, ROWS[i].first, WEIR_FOREVER, &v), 0);
        left = remaining(l);
        v = wait_for(l, ROWS[i].cost,
                     ROWS[i].within_ns == WEIR_FOREVER ? WEIR_FOREVER
                                                       : weir__clock_now() + ROWS[i].within_ns);
        assert_false(v.allowed);
        assert_int_not_equal(v.reason, WEIR_OK);
        assert_int_equal(remaining(l), left);
        assert_true(weir__clock_now() - begin < LONG_NS / 2);
        weir_limiter_close(l);
    }
}

/* The queue is full, and the first place in it comes free long before the deadline. */
static void a_full_queue_is_waited_for(void **state)
{
    struct weir_limiter *l = limiter("pacer 100/s queue=1");
    struct weir_verdict v;

    (void)state;
    assert_true(take(l, 1).allowed);
    assert_int_equal(weir_limiter_take(l, 1, WEIR_FOREVER, &v), 0);
    assert_true(v.allowed);
    assert_true(wait_for(l, 1, weir__clock_now() + LONG_NS).allowed);
    weir_limiter_close(l);
}

/* ---- In turn --------------------------------------------------------------------------------- */

/* Lets the next one pass, and waits until it has. */
static void serve_one(struct weir_limiter *l, _Atomic int *turn)
{
    const int before = atomic_load(turn);

    weir_limiter_reset(l);
    while (atomic_load(turn) == before)
        (void)sched_yield();
}

static void callers_are_served_in_the_order_they_came(void **state)
{
    static const char *const LIMITS[] = {"fixed-window 1/h", "sliding-log 1/h",
                                         "token-bucket 50/s + fixed-window 1/h"};
    enum { PATIENTS = 4 };

    (void)state;
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct weir_limiter *l = limiter(LIMITS[i]);
        struct patient p[PATIENTS];
        _Atomic int turn = 0;

        print_message("  %s\n", LIMITS[i]);
        assert_true(take(l, 1).allowed);
        for (int k = 0; k < PATIENTS; k++) {
            start(&p[k], l, 1, &turn);
            await_waiters(l, k + 1);
        }
        for (int k = 0; k < PATIENTS; k++) {
            serve_one(l, &turn);
            finish(&p[k]);
            assert_int_equal(p[k].error, 0);
            assert_true(p[k].v.allowed);
            assert_int_equal(p[k].served, k);
        }
        weir_limiter_close(l);
    }
}

/* The second would fit, and the first does not. */
static void no_caller_passes_earlier_ones(void **state)
{
    struct weir_limiter *l = limiter("fixed-window 3/h");
    struct patient large, small;
    _Atomic int turn = 0;

    (void)state;
    assert_true(take(l, 2).allowed);
    start(&large, l, 3, &turn);
    await_waiters(l, 1);
    start(&small, l, 1, &turn);
    while (waiters(l) < 2 && atomic_load(&turn) == 0)
        (void)sched_yield();
    assert_int_equal(atomic_load(&turn), 0);
    serve_one(l, &turn);
    serve_one(l, &turn);
    finish(&large);
    finish(&small);
    assert_int_equal(large.served, 0);
    assert_int_equal(small.served, 1);
    weir_limiter_close(l);
}

static void the_next_is_woken_when_the_first_leaves(void **state)
{
    struct weir_limiter *l = limiter("fixed-window 2/h");
    struct patient first, second;
    _Atomic int turn = 0;

    (void)state;
    assert_true(take(l, 2).allowed);
    start(&first, l, 1, &turn);
    start(&second, l, 1, &turn);
    await_waiters(l, 2);
    weir_limiter_reset(l);
    finish(&first);
    finish(&second);
    assert_int_equal(remaining(l), 0);
    weir_limiter_close(l);
}

static void the_first_is_woken_when_things_get_better(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        struct weir_limiter *l = limiter(how == 3 ? "sliding-log 1/h" : "fixed-window 1/h");
        struct patient p;
        _Atomic int turn = 0;

        assert_true(take(l, 1).allowed);
        start(&p, l, 1, &turn);
        await_waiters(l, 1);
        switch (how) {
        case 0: weir_limiter_reset(l); break;
        case 1: assert_int_equal(weir_limiter_refund(l, 1, NULL), 0); break;
        case 2: assert_int_equal(weir_limiter_change(l, "fixed-window 2/h", NULL), 0); break;
        case 3: assert_int_equal(weir_limiter_refund(l, 1, NULL), 0); break;
        }
        finish(&p);
        assert_int_equal(p.error, 0);
        assert_true(p.v.allowed);
        weir_limiter_close(l);
    }
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
}

static void handle_signals(void)
{
    const struct sigaction restarting = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    assert_int_equal(sigaction(SIGUSR1, &restarting, NULL), 0);
}

/* A signal that comes before the sleep does not end it: so they come until it has ended. */
static void disturb_until_done(struct patient *p)
{
    while (atomic_load(p->turn) == 0) {
        (void)pthread_kill(p->thread, SIGUSR1);
        (void)sched_yield();
    }
    finish(p);
    assert_int_equal(p->error, WEIR_EINTR);
}

static void a_signal_gives_back_what_was_reserved(void **state)
{
    static const struct {
        const char *limit;
        int64_t hours, left; /* once it is given back, and these hours have passed */
    } ROWS[] = {
        {"token-bucket 1/h burst=1", 1, 1},
        {"pacer 1/h", 1, 1},
        {"leaky-bucket 1/h capacity=5 delay=0", 1, 5},
        {"pacer 1/h + fixed-window 9/day", 1, 1},
        {"pacer 1/h slack=5 + fixed-window 3/24h", 20, 2},
        {"pacer 1/h slack=5 + sliding-log 3/24h", 20, 2},
    };

    (void)state;
    handle_signals();
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct weir_limiter *l = limiter(ROWS[i].limit);
        struct weir_verdict v;
        struct patient p;
        _Atomic int turn = 0;

        print_message("  %s\n", ROWS[i].limit);
        assert_true(take(l, 1).allowed);
        start(&p, l, 1, &turn);
        disturb_until_done(&p);
        assert_int_equal(
            weir_limiter_peek_at(l, 0, 0, weir__clock_now() + ROWS[i].hours * 3600 * S, &v), 0);
        assert_int_equal(v.remaining, ROWS[i].left);
        weir_limiter_close(l);
    }
}

static void a_signal_takes_a_waiter_out_of_the_wait_list(void **state)
{
    struct weir_limiter *l = limiter("fixed-window 1/h");
    struct patient first, second, third;
    _Atomic int turn = 0, other = 0;

    (void)state;
    handle_signals();
    assert_true(take(l, 1).allowed);
    start(&first, l, 1, &other);
    await_waiters(l, 1);
    start(&second, l, 1, &turn);
    await_waiters(l, 2);
    start(&third, l, 1, &other);
    await_waiters(l, 3);
    disturb_until_done(&second);
    assert_int_equal(waiters(l), 2);
    serve_one(l, &other);
    finish(&first);
    assert_int_equal(first.served, 0);
    serve_one(l, &other);
    finish(&third);
    assert_int_equal(third.served, 1);
    assert_int_equal(remaining(l), 0);
    weir_limiter_close(l);
}

/* ---- Children -------------------------------------------------------------------------------- */

static void a_child_does_not_stand_behind_its_parents_waiters(void **state)
{
    struct weir_limiter *l = limiter("fixed-window 1/h");
    struct patient p;
    _Atomic int turn = 0;
    pid_t child;
    int status;

    (void)state;
    assert_true(take(l, 1).allowed);
    start(&p, l, 1, &turn);
    await_waiters(l, 1);
    child = fork();
    if (child == 0) {
        weir_limiter_reset(l);
        _exit(wait_for(l, 1, WEIR_FOREVER).allowed ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(waiters(l), 1);
    weir_limiter_reset(l);
    finish(&p);
    assert_true(p.v.allowed);
    weir_limiter_close(l);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(what_is_free_is_granted_at_once),
    cmocka_unit_test(waits_until_its_turn),
    cmocka_unit_test(what_is_hopeless_fails_at_once_and_takes_nothing),
    cmocka_unit_test(a_full_queue_is_waited_for),
    cmocka_unit_test(callers_are_served_in_the_order_they_came),
    cmocka_unit_test(no_caller_passes_earlier_ones),
    cmocka_unit_test(the_next_is_woken_when_the_first_leaves),
    cmocka_unit_test(the_first_is_woken_when_things_get_better),
    cmocka_unit_test(a_signal_gives_back_what_was_reserved),
    cmocka_unit_test(a_signal_takes_a_waiter_out_of_the_wait_list),
    cmocka_unit_test(a_child_does_not_stand_behind_its_parents_waiters),
};

RUN("limiter-wait", TESTS)
