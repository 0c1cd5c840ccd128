/* The breaker: its states and times, its windows, the comparisons of its presets, the throttle. The
 * libraries' own vectors are in tests/vectors; here is what those do not reach. */
#include "guard_fixture.h"

#include "algo/breaker/breaker.h"

#define DAY (86400 * SEC)

/* n calls begin and end now. */
static void calls(struct guard_fixture *b, int n, int64_t now_ns, enum weir_outcome how)
{
    for (int i = 0; i < n; i++)
        leave(b, 1, now_ns, now_ns, how);
}

static enum weir_guard_state stand(struct guard_fixture *b, int64_t now_ns)
{
    return look(b, now_ns).state;
}

/* A breaker that one failure opens, at T0. */
static struct guard_fixture *open_breaker(const char *text)
{
    struct guard_fixture *b = open_guard_fixture(text);

    calls(b, 1, T0, WEIR_ERROR);
    assert_int_equal(stand(b, T0), WEIR_OPENED);
    return b;
}

/* ---- States and times ---------------------------------------------------------------------- */

static void closed_it_lets_all_pass_and_entering_changes_nothing(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker");
    struct weir_verdict v = enter(b, 1000, T0);

    (void)state;
    assert_true(v.allowed);
    assert_int_equal(v.remaining, v.limit);
    assert_int_equal(b->key.s.fresh_ns, 0);
    assert_int_equal(look(b, T0).limit, -1);
}

static void it_opens_when_enough_calls_were_made_and_half_of_them_failed(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker");
    struct weir_verdict v;

    (void)state;
    calls(b, 10, T0, WEIR_DROP); /* all of ten: too few to tell */
    calls(b, 9, T0, WEIR_SUCCESS);
    assert_true(enters(b, T0));
    calls(b, 1, T0, WEIR_SUCCESS); /* a success can open it: now there are twenty */
    v = enter(b, 1, T0 + 1);
    assert_int_equal(v.reason, WEIR_OPEN);
    assert_int_equal(v.retry_after_ns, 5 * SEC - 1);
    assert_int_equal(v.remaining, 0);
    assert_int_equal(v.reset_after_ns, DAY + 5 * SEC - 1);
    assert_false(enters(b, T0 + 5 * SEC - 1));
    assert_true(enters(b, T0 + 5 * SEC));
}

static void one_probe_that_succeeds_closes_it_and_all_is_forgotten(void **state)
{
    struct guard_fixture *b = open_breaker("breaker volume=1");
    struct weir_verdict v;

    (void)state;
    assert_true(enters(b, T0 + 5 * SEC));
    assert_int_equal(stand(b, T0 + 5 * SEC), WEIR_HALF_OPEN);
    v = enter(b, 1, T0 + 5 * SEC);
    assert_int_equal(v.reason, WEIR_OPEN);
    assert_int_equal(v.retry_after_ns, 0);
    leave(b, 1, T0 + 5 * SEC, T0 + 6 * SEC, WEIR_SUCCESS);
    assert_int_equal(stand(b, T0 + 6 * SEC), WEIR_CLOSED);
    assert_int_equal(b->key.s.fresh_ns, 0);
}

static void each_opening_is_twice_as_long_until_it_closes(void **state)
{
    static const int64_t OPEN_S[] = {5, 10, 20, 40, 60, 60};
    struct guard_fixture *b = open_breaker("breaker volume=1");
    int64_t now = T0;

    (void)state;
    for (size_t i = 0; i < sizeof OPEN_S / sizeof *OPEN_S; i++) {
        assert_int_equal(enter(b, 1, now).retry_after_ns, OPEN_S[i] * SEC);
        now += OPEN_S[i] * SEC;
        assert_true(enters(b, now));
        leave(b, 1, now, now, WEIR_ERROR);
    }
    now += 60 * SEC;
    assert_true(enters(b, now));
    leave(b, 1, now, now, WEIR_SUCCESS);
    calls(b, 1, now, WEIR_ERROR);
    assert_int_equal(enter(b, 1, now).retry_after_ns, 5 * SEC);
}

static void a_probe_that_never_comes_back_does_not_leave_it_half_open(void **state)
{
    struct guard_fixture *b = open_breaker("breaker volume=1 probe-timeout=3s");

    (void)state;
    assert_true(enters(b, T0 + 5 * SEC));
    assert_false(enters(b, T0 + 8 * SEC - 1));
    assert_int_equal(stand(b, T0 + 8 * SEC - 1), WEIR_HALF_OPEN);
    assert_int_equal(stand(b, T0 + 8 * SEC), WEIR_OPENED);
    assert_int_equal(enter(b, 1, T0 + 8 * SEC).retry_after_ns, 10 * SEC);
    leave(b, 1, T0 + 5 * SEC, T0 + 9 * SEC, WEIR_SUCCESS); /* too late */
    assert_int_equal(stand(b, T0 + 9 * SEC), WEIR_OPENED);
    assert_true(enters(b, T0 + 18 * SEC));
    leave(b, 1, T0 + 18 * SEC, T0 + 18 * SEC, WEIR_SUCCESS);
    assert_int_equal(stand(b, T0 + 18 * SEC), WEIR_CLOSED);
}

static void long_after_a_lost_probe_the_next_caller_is_one(void **state)
{
    struct guard_fixture *b = open_breaker("breaker volume=1 probe-timeout=3s");

    (void)state;
    assert_true(enters(b, T0 + 5 * SEC));
    assert_true(enters(b, T0 + 1000 * SEC));
    assert_int_equal(stand(b, T0 + 1000 * SEC), WEIR_HALF_OPEN);
    leave(b, 1, T0 + 5 * SEC, T0 + 1000 * SEC, WEIR_ERROR); /* the lost one: of the time before */
    assert_int_equal(stand(b, T0 + 1000 * SEC), WEIR_HALF_OPEN);
    leave(b, 1, T0 + 1000 * SEC, T0 + 1001 * SEC, WEIR_SUCCESS);
    assert_int_equal(stand(b, T0 + 1001 * SEC), WEIR_CLOSED);
}

static void calls_from_before_it_opened_decide_nothing(void **state)
{
    struct guard_fixture *b = open_breaker("breaker volume=1");

    (void)state;
    leave(b, 1, T0 - SEC, T0 + SEC, WEIR_SUCCESS);
    assert_int_equal(enter(b, 1, T0 + SEC).retry_after_ns, 4 * SEC);
    assert_true(enters(b, T0 + 5 * SEC));
    leave(b, 1, T0 - SEC, T0 + 6 * SEC, WEIR_SUCCESS);
    leave(b, 1, T0 - SEC, T0 + 6 * SEC, WEIR_ERROR);
    assert_int_equal(stand(b, T0 + 6 * SEC), WEIR_HALF_OPEN);
}

static void of_several_probes_all_must_be_well(void **state)
{
    struct guard_fixture *b = open_breaker("breaker volume=1 probes=3");
    const int64_t t = T0 + 5 * SEC;

    (void)state;
    assert_int_equal(enter(b, 1, t).remaining, WEIR_COUNT_MAX); /* two more, of whatever cost */
    assert_true(enters(b, t));
    assert_int_equal(enter(b, 1, t).remaining, 0);
    assert_false(enters(b, t));
    leave(b, 1, t, t + 1, WEIR_SUCCESS);
    leave(b, 1, t, t + 1, WEIR_IGNORE); /* tells nothing: another may try */
    assert_true(enters(b, t + 1));
    assert_false(enters(b, t + 1));
    leave(b, 1, t, t + 2, WEIR_SUCCESS);
    assert_int_equal(stand(b, t + 2), WEIR_HALF_OPEN);
    leave(b, 1, t + 1, t + 3, WEIR_SUCCESS);
    assert_int_equal(stand(b, t + 3), WEIR_CLOSED);

    b = open_breaker("breaker volume=1 probes=3");
    assert_true(enters(b, t) && enters(b, t));
    leave(b, 1, t, t + 1, WEIR_SUCCESS);
    leave(b, 1, t, t + 1, WEIR_DROP);
    assert_int_equal(stand(b, t + 1), WEIR_OPENED);
}

static void a_clock_that_steps_back_costs_no_more_than_the_opening_itself(void **state)
{
    struct guard_fixture *b = open_breaker("breaker volume=1");
    const int64_t past = T0 - 3600 * SEC;

    (void)state;
    assert_int_equal(enter(b, 1, past).retry_after_ns, 5 * SEC);
    assert_false(enters(b, past + 5 * SEC - 1));
    assert_true(enters(b, past + 5 * SEC));
    leave(b, 1, past + 5 * SEC, past + 6 * SEC, WEIR_SUCCESS);
    assert_int_equal(stand(b, past + 6 * SEC), WEIR_CLOSED);

    b = open_breaker("breaker volume=1 probe-timeout=10s");
    assert_true(enters(b, T0 + 5 * SEC));
    assert_false(enters(b, past)); /* the probe is out since now */
    assert_int_equal(stand(b, past + 10 * SEC), WEIR_OPENED);
}

/* ---- What it looks at ---------------------------------------------------------------------- */

static void slow_calls_open_it_too(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker errors=none slow=50%/200ms volume=2");

    (void)state;
    leave(b, 1, T0, T0 + 200 * MS, WEIR_ERROR); /* not longer than that; errors it does not mind */
    leave(b, 1, T0, T0 + 200 * MS, WEIR_ERROR);
    assert_int_equal(stand(b, T0 + 200 * MS), WEIR_CLOSED);
    leave(b, 1, T0, T0 + 200 * MS + 1, WEIR_SUCCESS);
    leave(b, 1, T0, T0 + 200 * MS + 1, WEIR_SUCCESS);
    assert_int_equal(stand(b, T0 + 300 * MS), WEIR_OPENED);
    assert_true(enters(b, T0 + 6 * SEC));
    leave(b, 1, T0 + 6 * SEC, T0 + 6 * SEC + 100 * MS, WEIR_ERROR); /* quick is well */
    assert_int_equal(stand(b, T0 + 7 * SEC), WEIR_CLOSED);
}

static void a_count_of_errors_needs_no_volume(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker count=3");

    (void)state;
    calls(b, 2, T0, WEIR_ERROR);
    assert_true(enters(b, T0));
    calls(b, 1, T0 + SEC, WEIR_ERROR);
    assert_false(enters(b, T0 + SEC));
    b = open_guard_fixture("breaker count=3");
    calls(b, 2, T0, WEIR_ERROR);
    calls(b, 1, T0 + 10 * SEC, WEIR_ERROR); /* the others have left the window */
    assert_true(enters(b, T0 + 10 * SEC));
}

static void an_ignored_call_is_no_call(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker volume=1");

    (void)state;
    calls(b, 50, T0, WEIR_IGNORE);
    assert_int_equal(b->key.s.fresh_ns, 0);
}

static void a_window_of_time_rolls_by_a_bucket_and_then_is_fresh(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker volume=4 window=4s buckets=4 errors=75%");

    (void)state;
    calls(b, 2, T0, WEIR_ERROR);
    calls(b, 1, T0 + 3 * SEC, WEIR_SUCCESS);
    assert_int_equal(b->key.s.fresh_ns, T0 + 7 * SEC);
    calls(b, 1, T0 + 4 * SEC - 1, WEIR_SUCCESS); /* half of four */
    assert_true(enters(b, T0 + 4 * SEC));
    calls(b, 2, T0 + 4 * SEC, WEIR_ERROR); /* the first two have left: half of four */
    assert_true(enters(b, T0 + 4 * SEC));
    calls(b, 2, T0 + 7 * SEC, WEIR_ERROR); /* and now four of four */
    assert_false(enters(b, T0 + 7 * SEC));
}

static void a_window_of_calls_knows_no_time_but_a_day(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker window=5 volume=5 errors=60%");

    (void)state;
    calls(b, 2, T0, WEIR_ERROR);
    assert_int_equal(b->key.s.fresh_ns, T0 + DAY);
    calls(b, 3, T0 + 3600 * SEC, WEIR_SUCCESS);
    assert_true(enters(b, T0 + 3600 * SEC));  /* two of five */
    calls(b, 2, T0 + 3600 * SEC, WEIR_ERROR); /* the first two are pushed out: two of five */
    assert_true(enters(b, T0 + 3600 * SEC));
    calls(b, 1, T0 + 3600 * SEC, WEIR_ERROR);
    assert_false(enters(b, T0 + 3600 * SEC));

    b = open_guard_fixture("breaker window=5 volume=2 errors=60%");
    calls(b, 1, T0, WEIR_ERROR);
    calls(b, 1, T0 + DAY, WEIR_ERROR); /* the first is forgotten */
    assert_true(enters(b, T0 + DAY));
    calls(b, 1, T0 + 2 * DAY - 1, WEIR_ERROR);
    assert_false(enters(b, T0 + 2 * DAY - 1));
}

/* A caller within a day finds it as it is; after that, closed. */
static void a_breaker_that_is_not_asked_is_forgotten_after_a_day(void **state)
{
    struct guard_fixture *b =
        open_guard_fixture("breaker count=1 open=1m growth=3 open-max=1h probe-timeout=2m");
    const int64_t tried = T0 + 60 * SEC;

    (void)state;
    calls(b, 1, T0, WEIR_ERROR);
    assert_int_equal(b->key.s.fresh_ns, tried + DAY);
    assert_int_equal(stand(b, tried + DAY - 1), WEIR_OPENED);
    assert_int_equal(stand(b, tried + DAY), WEIR_CLOSED);
    assert_true(enters(b, tried)); /* a probe that never comes back: open for 3 minutes more */
    assert_int_equal(b->key.s.fresh_ns, tried + (120 + 180) * SEC + DAY);
    assert_int_equal(stand(b, tried + 120 * SEC), WEIR_OPENED);
    assert_int_equal(stand(b, tried + 300 * SEC + DAY - 1), WEIR_OPENED);
    assert_int_equal(stand(b, tried + 300 * SEC + DAY), WEIR_CLOSED);
    calls(b, 1, tried + 300 * SEC + DAY, WEIR_ERROR); /* and the next opening is a first one */
    assert_int_equal(b->key.s.fresh_ns, tried + 360 * SEC + 2 * DAY);
}

static void a_call_that_ends_late_still_counts(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker volume=2 window=10s");

    (void)state;
    calls(b, 1, T0, WEIR_ERROR);
    calls(b, 1, T0 - 5 * SEC, WEIR_ERROR); /* the clock stepped back */
    assert_false(enters(b, T0 - 5 * SEC));
}

/* ---- Presets ------------------------------------------------------------------------------- */

/* errors of calls ended at T0: whether it is open then. */
static bool opens_at(const char *text, int errors, int all)
{
    struct guard_fixture *b = open_guard_fixture(text);

    calls(b, all - errors, T0, WEIR_SUCCESS);
    calls(b, errors, T0, WEIR_ERROR);
    return stand(b, T0) == WEIR_OPENED;
}

static void at_the_threshold_hystrix_and_resilience4j_open_and_sentinel_does_not(void **state)
{
    static const struct {
        const char *text;
        int errors, all;
        bool opens;
    } ROWS[] = {
        {"breaker errors=40% volume=10", 4, 10, true},
        {"breaker errors=40% volume=10", 4, 11, false},
        {"breaker errors=40% volume=11", 4, 10, false},
        {"breaker preset=hystrix errors=40% volume=10", 4, 10, true},
        {"breaker preset=hystrix errors=37.5% volume=8", 3, 8, false}, /* 37% */
        {"breaker preset=hystrix errors=37% volume=8", 3, 8, true},
        {"breaker preset=resilience4j errors=37.5% volume=8", 3, 8, true},
        {"breaker preset=sentinel errors=40% volume=10", 4, 10, false},
        {"breaker preset=sentinel errors=40% volume=10", 5, 10, true},
        {"breaker preset=sentinel errors=40% volume=11", 5, 10, false},
        {"breaker preset=sentinel count=3 volume=1", 3, 10, false},
        {"breaker preset=sentinel count=3 volume=1", 4, 10, true},
        {"breaker preset=sentinel count=3 volume=11", 4, 10, false},
        {"breaker count=3 volume=11", 3, 10, true},
        /* Without a preset and in Hystrix there are as many as 20 before anything happens. */
        {"breaker", 19, 19, false},
        {"breaker preset=hystrix", 19, 19, false},
        {"breaker preset=hystrix", 10, 20, true},
        {"breaker preset=resilience4j", 99, 99, false},
        {"breaker preset=resilience4j", 50, 100, true},
        {"breaker preset=sentinel", 4, 4, false},
        {"breaker preset=sentinel", 5, 5, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        print_message("  %s: %d of %d\n", ROWS[i].text, ROWS[i].errors, ROWS[i].all);
        assert_int_equal(opens_at(ROWS[i].text, ROWS[i].errors, ROWS[i].all), ROWS[i].opens);
    }
}

static void sentinel_opens_at_a_slow_share_of_all_though_it_cannot_be_passed(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker preset=sentinel slow=100%/10ms volume=2");

    (void)state;
    leave(b, 1, T0, T0 + 11 * MS, WEIR_SUCCESS);
    assert_int_equal(stand(b, T0 + 11 * MS), WEIR_CLOSED);
    leave(b, 1, T0, T0 + 11 * MS, WEIR_SUCCESS);
    assert_int_equal(stand(b, T0 + 11 * MS), WEIR_OPENED);
    b = open_guard_fixture("breaker preset=sentinel slow=50%/10ms volume=2");
    leave(b, 1, T0, T0 + 11 * MS, WEIR_SUCCESS);
    leave(b, 1, T0, T0 + 10 * MS, WEIR_SUCCESS);
    assert_int_equal(stand(b, T0 + 11 * MS), WEIR_CLOSED); /* half is not more than half */
}

static void sentinels_window_starts_from_nothing_at_every_edge(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker preset=sentinel errors=50% volume=5");

    (void)state;
    calls(b, 4, T0 + SEC - 1, WEIR_ERROR);
    calls(b, 1, T0 + SEC, WEIR_ERROR);
    assert_int_equal(stand(b, T0 + SEC), WEIR_CLOSED);
}

static void hystrix_and_resilience4j_wait_a_moment_longer(void **state)
{
    static const struct {
        const char *text;
        int64_t retry_ns;
    } ROWS[] = {
        {"breaker volume=1 open=5s", 5 * SEC},
        {"breaker preset=sentinel volume=1 open=5s", 5 * SEC},
        {"breaker preset=hystrix volume=1 open=5s", 5 * SEC + 1},
        {"breaker preset=resilience4j volume=1 window=10s open=5s", 5 * SEC + 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct guard_fixture *b = open_breaker(ROWS[i].text);

        assert_int_equal(enter(b, 1, T0).retry_after_ns, ROWS[i].retry_ns);
        assert_false(enters(b, T0 + ROWS[i].retry_ns - 1));
        assert_true(enters(b, T0 + ROWS[i].retry_ns));
    }
}

static void only_its_own_openings_grow(void **state)
{
    struct guard_fixture *b = open_breaker("breaker preset=hystrix volume=1");

    (void)state;
    assert_true(enters(b, T0 + 6 * SEC));
    leave(b, 1, T0 + 6 * SEC, T0 + 6 * SEC, WEIR_ERROR);
    assert_int_equal(enter(b, 1, T0 + 6 * SEC).retry_after_ns, 5 * SEC + 1);
}

/* ---- Forced -------------------------------------------------------------------------------- */

static void a_forced_breaker_stays_as_forced(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker volume=1 forced=open");
    struct weir_verdict v = enter(b, 1, T0);

    (void)state;
    assert_int_equal(v.reason, WEIR_OPEN);
    assert_int_equal(v.retry_after_ns, -1);
    assert_int_equal(stand(b, T0), WEIR_OPENED);
    assert_true(enter(b, 0, T0).allowed);

    b = open_guard_fixture("breaker volume=1 forced=closed");
    calls(b, 9, T0, WEIR_ERROR);
    assert_true(enters(b, T0));
    assert_int_equal(b->key.s.fresh_ns, 0); /* it measures nothing */

    b = open_guard_fixture("breaker volume=1 forced=metrics");
    calls(b, 9, T0, WEIR_ERROR);
    assert_true(enters(b, T0));
    assert_int_equal(stand(b, T0), WEIR_OPENED); /* what it would be */
    assert_int_equal(stand(b, T0 + 10 * SEC), WEIR_CLOSED);
}

static void an_opening_that_has_begun_lasts_through_a_change(void **state)
{
    struct guard_fixture *b = open_breaker("breaker volume=1");

    (void)state;
    change_to(b, "breaker volume=1 window=20s open=1s", T0 + SEC);
    assert_int_equal(enter(b, 1, T0 + SEC).retry_after_ns, 4 * SEC);
    change_to(b, "breaker volume=1 window=20s open=1s forced=closed", T0 + 2 * SEC);
    assert_true(enters(b, T0 + 2 * SEC));
    change_to(b, "breaker volume=1 window=20s open=1s", T0 + 2 * SEC);
    assert_int_equal(enter(b, 1, T0 + 2 * SEC).retry_after_ns, 3 * SEC);
}

static void metrics_of_a_breaker_that_was_open_start_again(void **state)
{
    struct guard_fixture *b = open_breaker("breaker volume=1");

    (void)state;
    change_to(b, "breaker volume=1 forced=metrics", T0 + SEC);
    assert_true(enters(b, T0 + SEC));
    calls(b, 1, T0 + SEC, WEIR_SUCCESS);
    assert_int_equal(stand(b, T0 + SEC), WEIR_CLOSED);
}

/* ---- The throttle -------------------------------------------------------------------------- */

/* The chance of being dropped: as many of 2^64 throws are below it. */
static double chance(struct guard_fixture *b, uint32_t total, uint32_t accepts)
{
    const struct weir__tally t = {total, total - accepts, 0};
    uint64_t lo = 0, hi = UINT64_MAX;

    if (!weir__sre_drops(&b->m, t, 0))
        return 0;
    while (lo + 1 < hi) {
        const uint64_t middle = lo + (hi - lo) / 2;

        if (weir__sre_drops(&b->m, t, middle))
            lo = middle;
        else
            hi = middle;
    }
    return (double)lo / 18446744073709551616.0;
}

static void ae08_the_chance_of_a_drop_is_the_formulas(void **state)
{
    static const struct {
        uint32_t accepts, total;
        double p;
    } ROWS[] = {
        {0, 99, 0},
        {80, 80, 0},
        {200, 200, 0},
        {100, 10000100, 0.999979900203008},
        {0, 10000000, 0.99999990000001},
        {100, 200, 0},
        {99, 200, 2.0 / 201},
    };
    struct guard_fixture *b = open_guard_fixture("breaker preset=sre errors=50% window=1s");

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++)
        assert_float_equal(chance(b, ROWS[i].total, ROWS[i].accepts), ROWS[i].p, 1e-14);
    /* As it comes: success 0.6. */
    assert_float_equal(chance(open_guard_fixture("breaker preset=sre"), 120, 60), 20.0 / 121,
                       1e-14);
}

static void what_the_throttle_refuses_counts_as_a_request(void **state)
{
    struct guard_fixture *b = open_guard_fixture("breaker preset=sre errors=50% volume=4");
    struct weir_verdict v;

    (void)state;
    calls(b, 4, T0, WEIR_ERROR);
    assert_int_equal(stand(b, T0), WEIR_HALF_OPEN);
    b->random = UINT64_MAX; /* p is 4/5 */
    assert_true(enters(b, T0));
    b->random = UINT64_MAX / 20 * 17; /* between 4/5 and 5/6 and so on: 17/20 */
    assert_true(enters(b, T0));
    b->random = 0;
    v = enter(b, 1, T0);
    assert_int_equal(v.reason, WEIR_OPEN);
    assert_int_equal(v.retry_after_ns, 0);
    assert_false(enters(b, T0)); /* six requests, none accepted: p is 6/7 */
    b->random = UINT64_MAX / 20 * 17;
    assert_false(enters(b, T0));
    assert_true(enters(b, T0 + 3 * SEC)); /* the window is empty */
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(closed_it_lets_all_pass_and_entering_changes_nothing),
    cmocka_unit_test(it_opens_when_enough_calls_were_made_and_half_of_them_failed),
    cmocka_unit_test(one_probe_that_succeeds_closes_it_and_all_is_forgotten),
    cmocka_unit_test(each_opening_is_twice_as_long_until_it_closes),
    cmocka_unit_test(a_probe_that_never_comes_back_does_not_leave_it_half_open),
    cmocka_unit_test(long_after_a_lost_probe_the_next_caller_is_one),
    cmocka_unit_test(calls_from_before_it_opened_decide_nothing),
    cmocka_unit_test(of_several_probes_all_must_be_well),
    cmocka_unit_test(a_clock_that_steps_back_costs_no_more_than_the_opening_itself),
    cmocka_unit_test(slow_calls_open_it_too),
    cmocka_unit_test(a_count_of_errors_needs_no_volume),
    cmocka_unit_test(an_ignored_call_is_no_call),
    cmocka_unit_test(a_window_of_time_rolls_by_a_bucket_and_then_is_fresh),
    cmocka_unit_test(a_window_of_calls_knows_no_time_but_a_day),
    cmocka_unit_test(a_breaker_that_is_not_asked_is_forgotten_after_a_day),
    cmocka_unit_test(a_call_that_ends_late_still_counts),
    cmocka_unit_test(at_the_threshold_hystrix_and_resilience4j_open_and_sentinel_does_not),
    cmocka_unit_test(sentinel_opens_at_a_slow_share_of_all_though_it_cannot_be_passed),
    cmocka_unit_test(sentinels_window_starts_from_nothing_at_every_edge),
    cmocka_unit_test(hystrix_and_resilience4j_wait_a_moment_longer),
    cmocka_unit_test(only_its_own_openings_grow),
    cmocka_unit_test(a_forced_breaker_stays_as_forced),
    cmocka_unit_test(an_opening_that_has_begun_lasts_through_a_change),
    cmocka_unit_test(metrics_of_a_breaker_that_was_open_start_again),
    cmocka_unit_test(ae08_the_chance_of_a_drop_is_the_formulas),
    cmocka_unit_test(what_the_throttle_refuses_counts_as_a_request),
};

RUN("breaker", TESTS)
