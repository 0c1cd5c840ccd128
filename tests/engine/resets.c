/* A reset forgets the calls in flight: the permits and outcomes with which they exit after it are
 * void, and change nothing for other calls. */
#include "guard_test.h"

#include <sys/wait.h>
#include <unistd.h>

/* Each lets two in. */
static const struct {
    const char *limit;
    int term; /* that counts */
} COUNTED[] = {
    {"concurrency 2", 0},
    {"concurrency 2 queue=3", 0},
    {"concurrency 2 lease=1h", 0},
    {"vegas min=1 initial=2 max=2", 0},
    {"gradient min=2 initial=2 max=2", 0},
    {"aimd min=2 initial=2 max=2", 0},
    {"token-bucket 100/s + concurrency 2 lease=1h", 1},
    {"breaker + concurrency 2", 1},
    {"concurrency 2 shadow + concurrency 2", 1},
};

/* ---- Permits ------------------------------------------------------------------------------- */

/* The second reset and the third find the same instant: time does not tell which came first. */
static void a_ticket_from_before_a_reset_returns_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(COUNTED); i++) {
        struct weir *w = open_guarded();
        struct weir_policy *p = backend_policy(w, "p", COUNTED[i].limit, T0);
        struct weir_ticket old[2], is[2], none;

        print_message("  %s\n", COUNTED[i].limit);
        assert_true(enter(w, p, "k", T0, &is[0]).allowed);
        assert_true(enter(w, p, "k", T0, &is[1]).allowed);
        for (int round = 0; round < 3; round++) {
            const int64_t now = T0 + (round > 0) * SECOND;

            old[0] = is[0];
            old[1] = is[1];
            reset(w, p, "k", now);
            assert_int_equal(in_flight(w, p, "k", COUNTED[i].term, now), 0);
            leave(w, &old[0], WEIR_SUCCESS, now); /* while no call is in flight */
            assert_true(enter(w, p, "k", now, &is[0]).allowed);
            assert_true(enter(w, p, "k", now, &is[1]).allowed);
            leave(w, &old[1], WEIR_DROP, now);
            assert_int_equal(old[0].n + old[1].n, 0);
            assert_int_equal(in_flight(w, p, "k", COUNTED[i].term, now), 2);
            assert_false(enter(w, p, "k", now, &none).allowed);
        }
        leave(w, &is[0], WEIR_SUCCESS, T0 + SECOND);
        leave(w, &is[1], WEIR_SUCCESS, T0 + SECOND);
        assert_int_equal(in_flight(w, p, "k", COUNTED[i].term, T0 + SECOND), 0);
        backend_close(w);
    }
}

static void a_call_under_another_key_stays_in_and_leaves(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(COUNTED); i++) {
        struct weir *w = open_guarded();
        struct weir_policy *p = backend_policy(w, "p", COUNTED[i].limit, T0);
        struct weir_ticket other, gone;

        assert_true(enter(w, p, "other", T0, &other).allowed);
        assert_true(enter(w, p, "k", T0, &gone).allowed);
        reset(w, p, "k", T0);
        reset(w, p, "never seen", T0);
        assert_int_equal(in_flight(w, p, "other", COUNTED[i].term, T0), 1);
        leave(w, &other, WEIR_SUCCESS, T0 + MS);
        assert_int_equal(in_flight(w, p, "other", COUNTED[i].term, T0 + MS), 0);
        backend_close(w);
    }
}

/* bbr has no number of its own that it never passes; but it says which calls are in. */
static void bbr_forgets_the_calls_in_flight_too(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "bbr", T0);
    struct weir_ticket old, is;

    (void)state;
    assert_true(enter(w, p, "k", T0, &old).allowed);
    reset(w, p, "k", T0);
    assert_true(enter(w, p, "k", T0, &is).allowed);
    leave(w, &old, WEIR_SUCCESS, T0 + MS);
    assert_int_equal(in_flight(w, p, "k", 0, T0 + MS), 1);
    leave(w, &is, WEIR_SUCCESS, T0 + MS);
    assert_int_equal(in_flight(w, p, "k", 0, T0 + MS), 0);
    backend_close(w);
}

static void the_gate_of_all_is_no_key_s_to_reset(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "system inflight=2 + concurrency 1", T0);
    struct weir_ticket a, b, none;

    (void)state;
    assert_true(enter(w, p, "a", T0, &a).allowed);
    assert_true(enter(w, p, "b", T0, &b).allowed);
    reset(w, p, "a", T0);
    assert_int_equal(in_flight(w, p, "a", 1, T0), 0);
    assert_int_equal(in_flight(w, p, "a", 0, T0), 2);
    assert_int_equal(enter(w, p, "a", T0, &none).which, 0);
    leave(w, &a, WEIR_SUCCESS, T0); /* the gate had it all the time */
    assert_int_equal(in_flight(w, p, "a", 0, T0), 1);
    leave(w, &b, WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "a", 0, T0), 0);
    backend_close(w);
}

/* ---- What is learned ----------------------------------------------------------------------- */

static struct weir_view view_of(struct weir *w, struct weir_policy *p, const char *key,
                                int64_t now_ns)
{
    const struct weir_request rq = request_for(p, key, 1, 0);

    return view_at(w, &rq, 0, now_ns);
}

static void a_ticket_from_before_a_reset_reports_nothing(void **state)
{
    static const char *const LIMITS[] = {"breaker count=1", "breaker count=1 window=50 volume=1",
                                         "breaker preset=sentinel count=1 volume=0",
                                         "adaptive-rate 100/s min=10 max=1k",
                                         "breaker count=1 + concurrency 5"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct weir *w = open_guarded();
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], T0);
        const struct weir_view fresh = view_of(w, p, "k", T0);
        struct weir_ticket old[2], is[2];
        struct weir_view view;

        print_message("  %s\n", LIMITS[i]);
        for (int k = 0; k < 2; k++)
            assert_true(enter(w, p, "k", T0, &old[k]).allowed);
        reset(w, p, "k", T0);
        assert_true(enter(w, p, "k", T0, &is[0]).allowed);
        assert_true(enter(w, p, "k", T0, &is[1]).allowed);
        for (int k = 0; k < 2; k++)
            leave(w, &old[k], WEIR_DROP, T0 + MS);
        view = view_of(w, p, "k", T0 + MS);
        assert_int_equal(view.state, fresh.state);
        assert_int_equal(view.rate, fresh.rate);
        for (int k = 0; k < 2; k++)
            leave(w, &is[k], WEIR_DROP, T0 + MS); /* these do tell */
        view = view_of(w, p, "k", T0 + MS);
        assert_true(view.state != fresh.state || view.rate != fresh.rate);
        backend_close(w);
    }
}

/* A closed breaker keeps nothing of a call that is under way; others may be reset as they like. */
static void calls_to_other_services_report_as_before(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "breaker count=1", T0);
    struct weir_ticket t, u;
    char key[16];

    (void)state;
    assert_true(enter(w, p, "k", T0, &t).allowed);
    assert_true(enter(w, p, "u", T0, &u).allowed);
    for (int i = 0; i < 3000; i++) {
        (void)snprintf(key, sizeof key, "%d", i);
        reset(w, p, key, T0);
    }
    leave(w, &t, WEIR_ERROR, T0 + MS);
    assert_int_equal(view_of(w, p, "k", T0 + MS).state, WEIR_OPENED);
    reset(w, p, "u", T0 + MS); /* the last of many */
    leave(w, &u, WEIR_ERROR, T0 + MS);
    assert_int_equal(view_of(w, p, "u", T0 + MS).state, WEIR_CLOSED);
    backend_close(w);
}

static void a_probe_that_was_out_decides_nothing_after_a_reset(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "breaker count=1 open=1s", T0);
    struct weir_ticket t, probe;

    (void)state;
    for (int round = 0; round < 2; round++) {
        const int64_t now = T0 + round * MINUTE;

        assert_true(enter(w, p, "k", now, &t).allowed);
        leave(w, &t, WEIR_ERROR, now);
        assert_true(enter(w, p, "k", now + SECOND, &probe).allowed);
        reset(w, p, "k", now + SECOND);
        if (round == 1) { /* open again, and half-open, with a probe of its own */
            assert_true(enter(w, p, "k", now + SECOND, &t).allowed);
            leave(w, &t, WEIR_ERROR, now + SECOND);
            assert_true(enter(w, p, "k", now + 2 * SECOND, &t).allowed);
        }
        leave(w, &probe, round == 1 ? WEIR_SUCCESS : WEIR_ERROR, now + 2 * SECOND);
        assert_int_equal(view_of(w, p, "k", now + 2 * SECOND).state,
                         round == 1 ? WEIR_HALF_OPEN : WEIR_CLOSED);
    }
    backend_close(w);
}

/* ---- Others -------------------------------------------------------------------------------- */

/* In a file, the reset may come from another process. */
static void a_reset_by_another_process_counts(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 2 + breaker count=1", T0);
    struct weir_ticket old, is;
    int status;
    pid_t child;

    (void)state;
    if (strcmp(backend_kind(), "memory:") == 0) { /* the child's memory would be its own */
        backend_close(w);
        return;
    }
    assert_true(enter(w, p, "k", T0, &old).allowed);
    child = fork();
    if (child == 0) {
        const struct weir_request rq = request_for(p, "k", 0, 0);

        _exit(weir_reset_at(w, &rq, T0) != 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(enter(w, p, "k", T0, &is).allowed);
    leave(w, &old, WEIR_ERROR, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 1);
    assert_true(fits(w, p, "k", T0));
    leave(w, &is, WEIR_ERROR, T0);
    assert_false(fits(w, p, "k", T0));
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_ticket_from_before_a_reset_returns_nothing),
    cmocka_unit_test(a_call_under_another_key_stays_in_and_leaves),
    cmocka_unit_test(bbr_forgets_the_calls_in_flight_too),
    cmocka_unit_test(the_gate_of_all_is_no_key_s_to_reset),
    cmocka_unit_test(a_ticket_from_before_a_reset_reports_nothing),
    cmocka_unit_test(calls_to_other_services_report_as_before),
    cmocka_unit_test(a_probe_that_was_out_decides_nothing_after_a_reset),
    cmocka_unit_test(a_reset_by_another_process_counts),
};

RUN_BACKEND("resets", TESTS)
