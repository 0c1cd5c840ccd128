/* Calls through guards: waiters, what guards learn, calls that run, and processes that die.
 * On clocks that the test moves, and sleepers too. */
#include "guard_test.h"
#include "virtual_clock.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- Waiting, on a clock that sleepers move ------------------------------------------------ */

static void waits_end_with_the_time_or_the_lease(void **state)
{
    static const struct {
        const char *limit;
        int64_t patience_ns, waited_ns;
        bool allowed;
    } ROWS[] = {
        {"concurrency 1", WEIR_WAIT_DEFAULT, 0, false},
        {"concurrency 1", SECOND, 0, false}, /* no caller may wait */
        {"concurrency 1 queue=1", WEIR_WAIT_DEFAULT, SECOND, false},
        {"concurrency 1 queue=1", 0, 0, false},
        {"concurrency 1 queue=1", 300 * MS, 300 * MS, false},
        {"concurrency 1 queue=1", HOUR, SECOND, false},
        {"concurrency 1 queue=1 max-wait=2s", WEIR_WAIT_DEFAULT, 2 * SECOND, false},
        {"concurrency 1 queue=1 max-wait=2s lease=500ms", WEIR_WAIT_DEFAULT, 500 * MS, true},
        {"concurrency 1 queue=1 max-wait=forever lease=20s", WEIR_WAIT_DEFAULT, 20 * SECOND, true},
        {"concurrency 1 queue=1 max-wait=2s lease=2s", WEIR_WAIT_DEFAULT, 2 * SECOND, true},
        {"concurrency 1 queue=1 max-wait=2s lease=2001ms", WEIR_WAIT_DEFAULT, 2 * SECOND, false},
        {"concurrency 1 queue=1 + breaker forced=open", WEIR_WAIT_DEFAULT, 0, false},
        {"concurrency 1 queue=1 + token-bucket 1/h burst=1", WEIR_WAIT_DEFAULT, 0, false},
        {"concurrency 1 queue=1 max-wait=3s + concurrency 1 queue=9", WEIR_FOREVER, SECOND, false},
        {"concurrency 1 shadow + concurrency 1 queue=9", WEIR_FOREVER, SECOND, false},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct virtual_clock d;
        struct weir *w = open_virtual_clock(&d);
        struct weir_policy *p = backend_policy(w, "p", ROWS[i].limit, T0);
        const struct weir_request rq = request_for(p, "k", 1, ROWS[i].patience_ns);
        struct weir_ticket first, t;
        struct weir_verdict v;

        print_message("  %s\n", ROWS[i].limit);
        if (strstr(ROWS[i].limit, "forced=open")) { /* entered before it was */
            (void)backend_policy(w, "p", "concurrency 1 queue=1 + breaker", T0);
            (void)enter(w, p, "k", T0, &first);
            (void)backend_policy(w, "p", ROWS[i].limit, T0);
        } else {
            assert_true(enter(w, p, "k", T0, &first).allowed);
        }
        assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
        assert_int_equal(d.now_ns - T0, ROWS[i].waited_ns);
        assert_int_equal(v.allowed, ROWS[i].allowed);
        assert_int_equal(v.reason, ROWS[i].allowed ? WEIR_OK : WEIR_LIMITED);
        assert_int_equal(t.n > 0, ROWS[i].allowed);
        if (v.allowed)
            assert_int_equal(t.entered_ns, d.now_ns);
        backend_close(w);
    }
}

static void the_twin_waits_from_its_own_time_on(void **state)
{
    struct virtual_clock d;
    struct weir *w = open_virtual_clock(&d);
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=1 lease=500ms", T0 + DAY);
    const struct weir_request rq = request_for(p, "k", 1, WEIR_WAIT_DEFAULT);
    struct weir_ticket first, t;
    struct weir_verdict v;

    (void)state;
    assert_true(enter(w, p, "k", T0 + DAY, &first).allowed);
    assert_int_equal(weir_enter_at(w, &rq, T0 + DAY + 100 * MS, &t, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(t.entered_ns, T0 + DAY + 500 * MS);
    assert_int_equal(d.now_ns, T0 + 400 * MS);
    backend_close(w);
}

static void an_interrupted_waiter_leaves_no_trace(void **state)
{
    struct virtual_clock d;
    struct weir *w = open_virtual_clock(&d);
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=1", T0);
    const struct weir_request rq = request_for(p, "k", 1, WEIR_WAIT_DEFAULT);
    struct weir_ticket first, t;
    struct weir_verdict v;

    (void)state;
    assert_true(enter(w, p, "k", T0, &first).allowed);
    d.disturbed = 3;
    smear(&t, sizeof t);
    smear(&v, sizeof v);
    assert_int_equal(weir_enter(w, &rq, &t, &v), WEIR_EINTR);
    untouched(&t, sizeof t);
    untouched(&v, sizeof v);
    leave(w, &first, WEIR_SUCCESS, d.now_ns);
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0); /* the wait list is empty */
    assert_true(v.allowed);
    assert_int_equal(in_flight(w, p, "k", 0, d.now_ns), 1);
    backend_close(w);
}

/* ---- What guards learn --------------------------------------------------------------------- */

static void a_breaker_opens_on_errors_and_probes(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "breaker volume=10 open=5s", T0);
    const struct weir_request rq = request_for(p, "bad", 1, 0);
    struct weir_ticket t, u;
    struct weir_view view;
    struct weir_verdict v;
    int64_t now = T0;

    (void)state;
    for (int i = 0; i < 10; i++, now += MS) {
        assert_true(enter(w, p, "bad", now, &t).allowed);
        leave(w, &t, WEIR_ERROR, now + 1);
    }
    v = enter(w, p, "bad", now, &t);
    assert_int_equal(v.reason, WEIR_OPEN);
    assert_true(v.retry_after_ns > 4 * SECOND && v.retry_after_ns <= 5 * SECOND);
    assert_int_equal(weir_guard_view_at(w, &rq, 0, now, &view), 0);
    assert_int_equal(view.state, WEIR_OPENED);
    assert_true(fits(w, p, "good", now)); /* each key has its own */
    now += v.retry_after_ns;
    assert_true(enter(w, p, "bad", now, &t).allowed);
    assert_false(enter(w, p, "bad", now, &u).allowed);
    leave(w, &t, WEIR_SUCCESS, now + MS);
    assert_true(fits(w, p, "bad", now + MS));
    backend_close(w);
}

static void bbr_reads_the_signals_that_are_set(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "bbr", T0);
    struct weir_signals shown;
    struct weir_ticket t[20], u;

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_true(enter(w, p, "k", T0, &t[i]).allowed);
    assert_int_equal(weir_signals_set(w, &(struct weir_signals){850, 1, 2, 3}), 0);
    weir_signals_get(w, &shown);
    assert_int_equal(shown.cpu_milli, 850);
    assert_int_equal(shown.pressure_milli, 3);
    assert_int_equal(enter(w, p, "k", T0, &u).reason, WEIR_OVERLOAD);
    assert_int_equal(weir_signals_set(w, &CALM), 0);
    assert_int_equal(enter(w, p, "k", T0, &u).reason, WEIR_OVERLOAD); /* it cools */
    assert_true(enter(w, p, "k", T0 + 2 * SECOND, &u).allowed);
    for (int i = 0; i < 20; i++)
        leave(w, &t[i], WEIR_SUCCESS, T0 + 2 * SECOND);
    assert_int_equal(in_flight(w, p, "k", 0, T0 + 2 * SECOND), 1);
    backend_close(w);
}

/* A throttle that drops one call in n drops about that many, and at random. */
static void random_numbers_are_drawn(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "breaker preset=sre", T0);
    struct weir_ticket t;
    int dropped = 0, runs = 0, last = -1;

    (void)state;
    for (int i = 0; i < 2000; i++) {
        if (!enter(w, p, "k", T0, &t).allowed)
            continue;
        leave(w, &t, i % 2 ? WEIR_ERROR : WEIR_SUCCESS, T0);
    }
    for (int i = 0; i < 2000; i++) {
        const bool drop = !enter(w, p, "k", T0, &t).allowed;

        leave(w, &t, WEIR_IGNORE, T0);
        dropped += drop;
        runs += drop != last;
        last = drop;
    }
    print_message("  %d of 2000 dropped in %d runs\n", dropped, runs);
    assert_in_range(dropped, 200, 1800);
    assert_in_range(runs, 200, 1800);
    backend_close(w);
}

/* ---- A call through a guard ---------------------------------------------------------------- */

struct guarded_call {
    struct virtual_clock *d;
    enum weir_outcome how;
    int ran, fell_back;
    enum weir_reason reason;
};

static enum weir_outcome run_guarded_call(void *arg)
{
    struct guarded_call *x = arg;

    x->ran++;
    x->d->now_ns += 20 * MS;
    return x->how;
}

static void instead(void *arg, const struct weir_verdict *v)
{
    struct guarded_call *x = arg;

    x->fell_back++;
    x->reason = v->reason;
}

static void a_call_runs_through_a_guard_or_falls_back(void **state)
{
    struct virtual_clock d;
    struct weir *w = open_virtual_clock(&d);
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 + breaker volume=4", T0);
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct guarded_call x = {.d = &d, .how = WEIR_SUCCESS};
    struct weir_ticket t;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_run(w, &rq, run_guarded_call, instead, &x, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(x.ran, 1);
    assert_int_equal(x.fell_back, 0);
    x.how = WEIR_ERROR;
    while (x.ran < 4)
        assert_int_equal(weir_run(w, &rq, run_guarded_call, x.ran == 2 ? NULL : instead, &x, NULL),
                         0);
    assert_int_equal(x.fell_back, 2);
    assert_int_equal(x.reason, WEIR_OK);
    assert_int_equal(weir_run(w, &rq, run_guarded_call, instead, &x, &v), 0);
    assert_int_equal(v.reason, WEIR_OPEN);
    assert_int_equal(x.ran, 4);
    assert_int_equal(x.fell_back, 3);
    assert_int_equal(x.reason, WEIR_OPEN);
    assert_true(enter(w, p, "other", d.now_ns, &t).allowed);
    assert_int_equal(in_flight(w, p, "k", 0, d.now_ns), 0);
    assert_int_equal(weir_run(w, &rq, NULL, NULL, NULL, NULL), WEIR_EINVAL);
    backend_close(w);
}

static void a_paced_call_waits_for_its_turn(void **state)
{
    struct virtual_clock d;
    struct weir *w = open_virtual_clock(&d);
    struct weir_policy *p = backend_policy(w, "p", "pacer 10/s + concurrency 5", T0);
    const struct weir_request rq = weir_request_of(p, "k", 1);
    struct guarded_call x = {.d = &d};

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(weir_run(w, &rq, run_guarded_call, instead, &x, NULL), 0);
    assert_int_equal(x.ran, 3);
    assert_int_equal(d.now_ns, T0 + 220 * MS);
    d.disturbed = d.sleeps + 1;
    assert_int_equal(weir_run(w, &rq, run_guarded_call, instead, &x, NULL), WEIR_EINTR);
    assert_int_equal(in_flight(w, p, "k", 1, d.now_ns), 0);
    backend_close(w);
}

static void an_interrupted_call_cancels_its_reservation(void **state)
{
    static const char *const LIMITS[] = {"pacer 1/s + concurrency 5", "pacer 1/s",
                                         "breaker + pacer 1/s + fixed-window 2/h"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct virtual_clock d;
        struct weir *w = open_virtual_clock(&d);
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], T0);
        const struct weir_request rq = weir_request_of(p, "k", 1);
        struct guarded_call x = {.d = &d};
        struct weir_ticket t;
        struct weir_verdict v;

        print_message("  %s\n", LIMITS[i]);
        assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
        assert_int_equal(v.wait_ns, 0);
        for (int k = 0; k < 3; k++) {
            d.disturbed = d.sleeps + 1;
            assert_int_equal(weir_run(w, &rq, run_guarded_call, instead, &x, NULL), WEIR_EINTR);
        }
        assert_int_equal(x.ran, 0);
        assert_int_equal(weir_peek(w, &rq, &v), 0);
        assert_true(v.allowed);
        assert_int_equal(v.wait_ns, SECOND);
        backend_close(w);
    }
}

/* ---- Processes ----------------------------------------------------------------------------- */

/* A process that is killed while it is in leaves with its lease. */
static void the_lease_of_a_killed_process_expires(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 2 lease=1m", T0);
    struct weir_ticket t;
    int status;
    pid_t child;

    (void)state;
    child = fork();
    if (child == 0) {
        const struct weir_request rq = request_for(p, "k", 1, 0);
        struct weir_verdict v;

        if (weir_enter_at(w, &rq, T0, &t, &v) != 0 || !v.allowed)
            _exit(2);
        (void)raise(SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    if (strcmp(backend_kind(), "memory:") == 0) { /* the child's memory was its own */
        assert_int_equal(in_flight(w, p, "k", 0, T0), 0);
        backend_close(w);
        return;
    }
    assert_int_equal(in_flight(w, p, "k", 0, T0), 1);
    assert_true(enter(w, p, "k", T0 + 30 * SECOND, &t).allowed);
    assert_false(fits(w, p, "k", T0 + MINUTE - 1));
    assert_int_equal(in_flight(w, p, "k", 0, T0 + MINUTE), 1);
    assert_true(fits(w, p, "k", T0 + MINUTE));
    backend_close(w);
}

static void children_draw_their_own_random_numbers(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "breaker preset=sre", T0);
    struct weir_ticket t;
    uint64_t seen[2] = {0, 0};
    int pipes[2];

    (void)state;
    for (int i = 0; i < 2000; i++)
        if (enter(w, p, "k", T0, &t).allowed)
            leave(w, &t, i % 2 ? WEIR_ERROR : WEIR_SUCCESS, T0);
    for (int c = 0; c < 2; c++) {
        pid_t child;

        assert_int_equal(pipe(pipes), 0);
        child = fork();
        if (child == 0) {
            uint64_t bits = 0;

            for (int i = 0; i < 64; i++) {
                bits = bits << 1 | enter(w, p, "k", T0, &t).allowed;
                leave(w, &t, WEIR_IGNORE, T0);
            }
            _exit(write(pipes[1], &bits, sizeof bits) != sizeof bits);
        }
        assert_int_equal(read(pipes[0], &seen[c], sizeof seen[c]), sizeof seen[c]);
        assert_int_equal(waitpid(child, NULL, 0), child);
        (void)close(pipes[0]);
        (void)close(pipes[1]);
    }
    assert_true(seen[0] != seen[1]);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(waits_end_with_the_time_or_the_lease),
    cmocka_unit_test(the_twin_waits_from_its_own_time_on),
    cmocka_unit_test(an_interrupted_waiter_leaves_no_trace),
    cmocka_unit_test(a_breaker_opens_on_errors_and_probes),
    cmocka_unit_test(bbr_reads_the_signals_that_are_set),
    cmocka_unit_test(random_numbers_are_drawn),
    cmocka_unit_test(a_call_runs_through_a_guard_or_falls_back),
    cmocka_unit_test(a_paced_call_waits_for_its_turn),
    cmocka_unit_test(an_interrupted_call_cancels_its_reservation),
    cmocka_unit_test(the_lease_of_a_killed_process_expires),
    cmocka_unit_test(children_draw_their_own_random_numbers),
};

RUN_BACKEND("calls", TESTS)
