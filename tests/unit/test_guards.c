/* concurrency, system, adaptive-rate: permits, leases, bounds and a rate that moves. */
#include "guard_fixture.h"

#define NEVER INT64_MAX

/* ---- concurrency --------------------------------------------------------------------------- */

static void as_many_as_may_are_in_flight_and_an_exit_makes_room(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 3");
    struct weir_verdict v;

    (void)state;
    assert_true(enters(b, T0));
    assert_true(enters(b, T0 + 1));
    v = enter(b, 1, T0 + 2);
    assert_true(v.allowed);
    assert_int_equal(v.limit, 3);
    assert_int_equal(v.remaining, 0);
    assert_int_equal(look(b, T0 + 2).in_flight, 3);
    assert_int_equal(look(b, T0 + 2).limit, 3);
    v = enter(b, 1, T0 + 3);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_LIMITED);
    assert_int_equal(v.retry_after_ns, 0); /* not known */
    leave(b, 1, T0 + 1, T0 + 4, WEIR_ERROR);
    assert_true(enters(b, T0 + 4));
    assert_false(enters(b, T0 + 5));
}

static void a_cost_is_so_many_permits(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 5");
    struct weir_verdict v = enter(b, 6, T0);

    (void)state;
    assert_int_equal(v.reason, WEIR_TOO_BIG);
    assert_int_equal(v.retry_after_ns, -1);
    assert_true(enter(b, 3, T0).allowed);
    assert_int_equal(enter(b, 3, T0).reason, WEIR_LIMITED);
    assert_true(enter(b, 2, T0).allowed);
    assert_true(enter(b, 0, T0).allowed); /* nothing always fits */
    leave(b, 3, T0, T0, WEIR_SUCCESS);
    assert_int_equal(look(b, T0).in_flight, 2);
}

static void a_key_is_kept_while_calls_are_in_flight_and_forgotten_with_the_last(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 5");
    struct weir_verdict v = enter(b, 2, T0);

    (void)state;
    assert_int_equal(v.reset_after_ns, WEIR_FOREVER);
    assert_int_equal(b->key.s.fresh_ns, NEVER);
    leave(b, 1, T0, T0, WEIR_SUCCESS);
    assert_int_equal(b->key.s.fresh_ns, NEVER);
    leave(b, 1, T0, T0, WEIR_SUCCESS);
    assert_int_equal(b->key.s.fresh_ns, 0);
    leave(b, 1, T0, T0, WEIR_SUCCESS); /* no call is in flight */
    assert_int_equal(b->key.s.fresh_ns, 0);
}

static void more_than_is_in_flight_cannot_leave(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 2");

    (void)state;
    assert_true(enters(b, T0));
    leave(b, 5, T0, T0, WEIR_SUCCESS);
    assert_true(enter(b, 2, T0).allowed);
    assert_false(enters(b, T0));
}

static void a_permit_that_is_not_returned_ends_with_its_lease(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 2 lease=10s");

    (void)state;
    assert_true(enters(b, T0));
    assert_true(enters(b, T0 + SEC));
    assert_false(enters(b, T0 + 10 * SEC - 1));
    assert_true(enters(b, T0 + 10 * SEC));
    assert_false(enters(b, T0 + 11 * SEC - 1));
    assert_int_equal(look(b, T0 + 11 * SEC).in_flight, 1);
    assert_int_equal(look(b, T0 + 20 * SEC).in_flight, 0);
}

static void a_permit_returned_after_its_lease_frees_no_other(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 2 lease=10s");

    (void)state;
    assert_true(enters(b, T0));
    assert_true(enters(b, T0 + SEC));
    assert_true(enters(b, T0 + 10 * SEC)); /* in the place of the first */
    leave(b, 1, T0, T0 + 10 * SEC, WEIR_SUCCESS);
    assert_false(enters(b, T0 + 10 * SEC));
    leave(b, 1, T0 + SEC, T0 + 10 * SEC, WEIR_SUCCESS);
    assert_true(enters(b, T0 + 10 * SEC));
    assert_false(enters(b, T0 + 10 * SEC));
}

static void leases_that_began_together_are_equal(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 4 lease=10s");

    (void)state;
    assert_true(enter(b, 2, T0).allowed);
    assert_true(enter(b, 2, T0).allowed);
    leave(b, 2, T0, T0 + 1, WEIR_SUCCESS);
    assert_int_equal(look(b, T0 + 1).in_flight, 2);
    leave(b, 3, T0, T0 + 1, WEIR_SUCCESS);
    assert_int_equal(look(b, T0 + 1).in_flight, 0);
    assert_int_equal(b->key.s.fresh_ns, 0);
}

static void leases_are_in_order_whatever_the_clock_does(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 5 lease=10s");

    (void)state;
    assert_true(enters(b, T0 + 5 * SEC));
    assert_true(enters(b, T0 + 6 * SEC));
    assert_true(enters(b, T0)); /* the clock stepped back */
    assert_true(enters(b, T0 + 5 * SEC));
    assert_true(enters(b, T0 + 7 * SEC));
    assert_false(enters(b, T0 + 8 * SEC));
    leave(b, 1, T0 + 5 * SEC, T0 + 8 * SEC, WEIR_SUCCESS); /* out of the middle */
    assert_int_equal(look(b, T0 + 8 * SEC).in_flight, 4);
    assert_int_equal(look(b, T0 + 10 * SEC).in_flight, 3);
    assert_int_equal(look(b, T0 + 15 * SEC).in_flight, 2);
    assert_int_equal(look(b, T0 + 16 * SEC).in_flight, 1);
    assert_int_equal(b->key.s.fresh_ns, T0 + 17 * SEC);
    assert_int_equal(enter(b, 0, T0 + 8 * SEC).reset_after_ns, 9 * SEC);
}

static void a_ring_of_leases_goes_round(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 3 lease=1s");

    (void)state;
    for (int i = 0; i < 100; i++) {
        const int64_t now = T0 + i * SEC / 4; /* four live a second: one too many */

        assert_int_equal(enters(b, now), i % 4 != 3);
    }
}

static void a_lower_limit_lets_no_call_in_until_enough_have_left(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 5");

    (void)state;
    assert_true(enter(b, 5, T0).allowed);
    change_to(b, "concurrency 2", T0 + 1);
    assert_int_equal(look(b, T0 + 1).in_flight, 5);
    leave(b, 3, T0, T0 + 2, WEIR_SUCCESS);
    assert_false(enters(b, T0 + 2));
    assert_int_equal(enter(b, 0, T0 + 2).remaining, 0);
    leave(b, 1, T0, T0 + 2, WEIR_SUCCESS);
    assert_true(enters(b, T0 + 2));
}

static void another_lease_counts_from_the_time_of_entry(void **state)
{
    struct guard_fixture *b = open_guard_fixture("concurrency 2 lease=10s");

    (void)state;
    assert_true(enter(b, 2, T0).allowed);
    change_to(b, "concurrency 2 lease=5s", T0 + SEC);
    assert_false(enters(b, T0 + 5 * SEC - 1));
    assert_true(enters(b, T0 + 5 * SEC));
}

static void without_patience_a_call_waits_as_long_as_the_queue_says(void **state)
{
    (void)state;
    assert_int_equal(weir__meter_patience(&open_guard_fixture("concurrency 2")->m), 0);
    assert_int_equal(weir__meter_patience(&open_guard_fixture("concurrency 2 queue=3")->m), SEC);
    assert_int_equal(
        weir__meter_patience(&open_guard_fixture("concurrency 2 queue=3 max-wait=forever")->m),
        WEIR_FOREVER);
}

/* ---- system -------------------------------------------------------------------------------- */

static void a_signal_over_its_bound_refuses_and_one_at_it_does_not(void **state)
{
    static const struct {
        const char *limit;
        struct weir_signals well, ill;
    } ROWS[] = {
        {"system cpu=80%", {800, 990, 9000, 990}, {801, 0, 0, 0}},
        {"system memory=80%", {990, 800, 9000, 990}, {0, 801, 0, 0}},
        {"system load=2.5", {990, 990, 2500, 990}, {0, 0, 2501, 0}},
        {"system pressure=20%", {990, 990, 9000, 200}, {0, 0, 0, 201}},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        struct guard_fixture *b = open_guard_fixture(ROWS[i].limit);
        const struct weir_signals unknown = {WEIR_NONE, WEIR_NONE, WEIR_NONE, WEIR_NONE};
        struct weir_verdict v;

        assert_true(enters(b, T0)); /* nothing known is nothing over */
        b->signals = &unknown;
        assert_true(enters(b, T0));
        b->signals = &ROWS[i].well;
        assert_true(enters(b, T0));
        b->signals = &ROWS[i].ill;
        v = enter(b, 1, T0);
        assert_int_equal(v.reason, WEIR_OVERLOAD);
        assert_int_equal(v.retry_after_ns, 0);
        assert_int_equal(v.remaining, 0);
        assert_int_equal(look(b, T0).in_flight, 3);
    }
}

static void calls_that_take_too_long_close_the_gate_for_a_second(void **state)
{
    struct guard_fixture *b = open_guard_fixture("system rt=100ms");

    (void)state;
    assert_true(enter(b, 3, T0).allowed);
    leave(b, 1, T0, T0 + 100 * MS, WEIR_SUCCESS);
    assert_true(enters(b, T0 + 100 * MS)); /* 100 ms is not more than 100 ms */
    leave(b, 1, T0, T0 + 102 * MS, WEIR_ERROR);
    assert_int_equal(enter(b, 1, T0 + 102 * MS).reason, WEIR_OVERLOAD);
    leave(b, 1, T0, T0 + 150 * MS, WEIR_IGNORE); /* tells nothing */
    assert_int_equal(enter(b, 1, T0 + 1099 * MS).reason, WEIR_OVERLOAD);
    assert_true(enters(b, T0 + 1100 * MS)); /* their slots have left */
}

static void the_last_second_is_remembered_when_all_have_left(void **state)
{
    struct guard_fixture *b = open_guard_fixture("system rt=100ms");

    (void)state;
    assert_true(enters(b, T0));
    leave(b, 1, T0, T0 + 250 * MS, WEIR_SUCCESS);
    assert_int_equal(b->key.s.fresh_ns, T0 + 1200 * MS); /* the slot of 200 ms leaves */
    assert_int_equal(enter(b, 1, T0 + 1200 * MS - 1).reason, WEIR_OVERLOAD);
    assert_true(enters(b, T0 + 1200 * MS));
}

static void the_gate_counts_the_calls_inside(void **state)
{
    struct guard_fixture *b = open_guard_fixture("system inflight=2");
    struct weir_verdict v;

    (void)state;
    assert_true(enter(b, 2, T0).allowed);
    v = enter(b, 1, T0);
    assert_int_equal(v.reason, WEIR_LIMITED);
    assert_int_equal(v.retry_after_ns, 0);
    assert_int_equal(enter(b, 3, T0).reason, WEIR_TOO_BIG);
    leave(b, 2, T0, T0 + 5, WEIR_SUCCESS);
    assert_int_equal(b->key.s.fresh_ns, 0); /* nothing else is kept */
    assert_true(enters(b, T0 + 5));
}

static void the_rate_of_entry_is_a_bucket_that_knows_when(void **state)
{
    struct guard_fixture *b = open_guard_fixture("system rate=4/s");
    struct weir_verdict v;

    (void)state;
    assert_true(enter(b, 3, T0).allowed);
    v = enter(b, 1, T0);
    assert_true(v.allowed);
    assert_int_equal(v.remaining, 0);
    v = enter(b, 2, T0 + SEC / 8);
    assert_int_equal(v.reason, WEIR_LIMITED);
    assert_int_equal(v.retry_after_ns, SEC * 3 / 8);
    assert_false(enter(b, 2, T0 + SEC / 2 - 1).allowed);
    assert_true(enter(b, 2, T0 + SEC / 2).allowed);
    leave(b, 6, T0, T0 + SEC / 2, WEIR_SUCCESS);
    assert_int_equal(b->key.s.fresh_ns, T0 + SEC * 3 / 2);
}

static void another_rate_forgets_no_event_that_is_owed(void **state)
{
    struct guard_fixture *b = open_guard_fixture("system rate=4/s");

    (void)state;
    assert_true(enter(b, 4, T0).allowed);
    change_to(b, "system rate=2/s inflight=9", T0);
    assert_int_equal(look(b, T0).in_flight, 4);
    assert_false(enters(b, T0 + SEC)); /* four are owed, two may be */
    assert_false(enters(b, T0 + SEC * 3 / 2 - 1));
    assert_true(enters(b, T0 + SEC * 3 / 2));
}

/* ---- A call that did not take place --------------------------------------------------------- */

/* What was taken comes back, less what has drained since: had the call not entered, the bucket
 * might have been empty meanwhile. */
static void a_withdrawn_call_gives_its_rate_back(void **state)
{
    static const struct {
        const char *limit;
        int64_t after_ns;
        int64_t enter; /* at once, when two of four were entered and then withdrawn */
    } ROWS[] = {
        {"system rate=4/s", 0, 4},
        {"system rate=4/s", SEC / 8, 4}, /* half an event has drained, and is not given back */
        {"system rate=4/s", 2 * SEC, 4},
        {"adaptive-rate 4/s min=4 max=4", 0, 4},
        {"adaptive-rate 4/s min=4 max=4", SEC / 8, 4},
        {"adaptive-rate 4/s min=4 max=4", 2 * SEC, 4},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct guard_fixture *b = open_guard_fixture(ROWS[i].limit);
        const int64_t now_ns = T0 + ROWS[i].after_ns;

        assert_true(enter(b, 2, T0).allowed);
        withdraw(b, 2, T0, now_ns);
        assert_false(enter(b, ROWS[i].enter + 1, now_ns).allowed);
        assert_true(enter(b, ROWS[i].enter, now_ns).allowed);
    }
}

/* Two are entered, one drains, the bucket is filled up again, and then the two are withdrawn: one
 * comes back. */
static void a_withdrawn_call_gives_back_no_more_than_it_may(void **state)
{
    static const char *const LIMITS[] = {"system rate=4/s", "adaptive-rate 4/s min=4 max=4"};

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct guard_fixture *b = open_guard_fixture(LIMITS[i]);

        assert_true(enter(b, 2, T0).allowed);
        assert_true(enter(b, 3, T0 + SEC / 4).allowed);
        assert_false(enters(b, T0 + SEC / 4));
        withdraw(b, 2, T0, T0 + SEC / 4);
        assert_true(enters(b, T0 + SEC / 4));
        assert_false(enters(b, T0 + SEC / 4));
    }
}

/* ---- adaptive-rate ------------------------------------------------------------------------- */

/* n calls enter and end at once. */
static void calls(struct guard_fixture *b, int n, int64_t now_ns, enum weir_outcome how)
{
    for (int i = 0; i < n; i++)
        leave(b, 1, now_ns, now_ns, how);
}

static int64_t rate(struct guard_fixture *b, int64_t now_ns)
{
    return look(b, now_ns).rate;
}

static void it_is_a_token_bucket_at_the_rate_it_has(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 10/s min=2 max=40");
    struct weir_verdict v = enter(b, 10, T0);

    (void)state;
    assert_true(v.allowed);
    assert_int_equal(v.limit, 10);
    assert_int_equal(v.remaining, 0);
    v = enter(b, 1, T0);
    assert_int_equal(v.reason, WEIR_LIMITED);
    assert_int_equal(v.retry_after_ns, SEC / 10);
    assert_false(enters(b, T0 + SEC / 10 - 1));
    assert_true(enters(b, T0 + SEC / 10));
    assert_int_equal(enter(b, 41, T0).reason, WEIR_TOO_BIG); /* at no rate */
    v = enter(b, 11, T0 + 10 * SEC);
    assert_int_equal(v.reason, WEIR_LIMITED); /* at a higher one */
    assert_int_equal(v.retry_after_ns, 0);
}

static void a_bad_second_lowers_the_rate_by_three_tenths(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=40 max=400");

    (void)state;
    calls(b, 9, T0, WEIR_SUCCESS);
    calls(b, 1, T0, WEIR_ERROR);
    assert_int_equal(rate(b, T0 + SEC), 100); /* a tenth is borne; and it is hardly used */
    calls(b, 8, T0 + SEC, WEIR_SUCCESS);
    calls(b, 1, T0 + SEC, WEIR_ERROR);
    assert_int_equal(rate(b, T0 + 2 * SEC - 1), 100);
    assert_int_equal(rate(b, T0 + 2 * SEC), 70);
    calls(b, 1, T0 + 2 * SEC, WEIR_ERROR);
    assert_int_equal(rate(b, T0 + 3 * SEC), 49);
    calls(b, 1, T0 + 3 * SEC, WEIR_ERROR);
    assert_int_equal(rate(b, T0 + 4 * SEC), 40); /* not below min */
}

static void a_drop_lowers_it_at_once_and_once_a_second(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=10 max=400");

    (void)state;
    calls(b, 3, T0, WEIR_DROP);
    assert_int_equal(rate(b, T0), 70);
    calls(b, 50, T0 + 1, WEIR_ERROR);
    assert_int_equal(rate(b, T0 + SEC), 70);
    calls(b, 1, T0 + SEC, WEIR_DROP);
    assert_int_equal(rate(b, T0 + SEC), 49);
}

static void calls_from_before_it_fell_do_not_lower_it_again(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=10 max=400");

    (void)state;
    calls(b, 1, T0, WEIR_DROP);
    leave(b, 1, T0 - 1, T0 + SEC, WEIR_DROP);
    leave(b, 1, T0 - 1, T0 + SEC, WEIR_ERROR);
    assert_int_equal(rate(b, T0 + SEC), 70);
    leave(b, 1, T0, T0 + SEC, WEIR_DROP); /* as it fell */
    assert_int_equal(rate(b, T0 + SEC), 49);
    leave(b, 1, T0 + SEC - 1, T0 + SEC, WEIR_DROP);
    leave(b, 1, T0 - 3600 * SEC, T0 - 3600 * SEC, WEIR_DROP); /* the clock stepped back */
    assert_int_equal(rate(b, T0 - 3600 * SEC), 34);
}

static void calls_slower_than_the_target_are_bad_ones(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=10 max=400 target=50ms");

    (void)state;
    leave(b, 1, T0, T0 + 50 * MS, WEIR_SUCCESS);
    assert_int_equal(rate(b, T0 + SEC), 100);
    leave(b, 1, T0 + SEC, T0 + SEC + 50 * MS + 1, WEIR_SUCCESS);
    assert_int_equal(rate(b, T0 + 2 * SEC), 70);
}

static void good_seconds_raise_it_and_beyond_what_is_written_only_if_it_is_used(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=10 max=108");

    (void)state;
    calls(b, 1, T0, WEIR_DROP);
    calls(b, 1, T0 + SEC, WEIR_SUCCESS);
    assert_int_equal(rate(b, T0 + 2 * SEC), 75);
    for (int i = 2; i < 10; i++)
        calls(b, 1, T0 + i * SEC, WEIR_SUCCESS);
    assert_int_equal(rate(b, T0 + 10 * SEC), 100);
    assert_true(enter(b, 49, T0 + 10 * SEC).allowed);
    calls(b, 1, T0 + 10 * SEC, WEIR_SUCCESS);
    assert_int_equal(rate(b, T0 + 11 * SEC), 100);
    assert_true(enter(b, 50, T0 + 11 * SEC).allowed);
    calls(b, 1, T0 + 11 * SEC, WEIR_SUCCESS);
    assert_int_equal(rate(b, T0 + 12 * SEC), 105);
    assert_true(enter(b, 60, T0 + 12 * SEC).allowed);
    calls(b, 1, T0 + 12 * SEC, WEIR_SUCCESS);
    assert_int_equal(rate(b, T0 + 13 * SEC), 108);
}

static void what_was_learned_is_forgotten_when_no_calls_come(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=10 max=400");

    (void)state;
    calls(b, 1, T0, WEIR_DROP);
    assert_int_equal(rate(b, T0 + 3 * SEC), 80); /* two idle ones since */
    assert_int_equal(rate(b, T0 + 6 * SEC), 95);
    assert_int_equal(b->key.s.fresh_ns, T0 + 7 * SEC);
    assert_int_equal(rate(b, T0 + 7 * SEC), 100);
}

/* Whatever the time, and as often as one likes; and a refusal that is counted is not a call. */
static void the_same_limit_changes_nothing(void **state)
{
    static const char *const LIMIT = "adaptive-rate 100/s min=10 max=400 count-denied";

    (void)state;
    for (int64_t at = T0; at < T0 + 12 * SEC; at += SEC / 4) {
        struct guard_fixture *b = open_guard_fixture(LIMIT);
        int64_t fresh;

        calls(b, 1, T0, WEIR_DROP);
        fresh = b->key.s.fresh_ns;
        assert_int_equal(fresh, T0 + 7 * SEC);
        change_to(b, LIMIT, at);
        assert_int_equal(enter(b, 0, at).reset_after_ns, at < fresh ? fresh - at : 0);
        change_to(b, LIMIT, at);
        assert_int_equal(rate(b, at + SEC), at + SEC < fresh ? 70 + (at - T0) / SEC * 5 : 100);
    }
}

static void a_second_of_refusals_is_an_idle_one(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=10 max=400 count-denied");

    (void)state;
    calls(b, 1, T0, WEIR_DROP);
    for (int i = 1; i < 4; i++)
        assert_false(enter(b, 300, T0 + i * SEC).allowed);
    assert_int_equal(rate(b, T0 + 4 * SEC), 85);
}

static void an_empty_bucket_is_empty_at_a_lower_rate_and_not_in_debt(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=10 max=400");

    (void)state;
    assert_true(enter(b, 100, T0).allowed);
    calls(b, 1, T0, WEIR_DROP);
    assert_int_equal(enter(b, 0, T0).limit, 70);
    assert_int_equal(enter(b, 1, T0).retry_after_ns, 14285715); /* 1/70 s, rounded up */
    assert_false(enters(b, T0 + 14285714));
    assert_true(enters(b, T0 + 14285715));
}

static void a_refusal_counts_only_if_it_is_asked_to(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 10/s min=2 max=40 count-denied");

    (void)state;
    assert_true(enter(b, 5, T0).allowed);
    assert_false(enter(b, 6, T0).allowed); /* and the bucket is empty */
    assert_int_equal(enter(b, 1, T0).retry_after_ns, SEC / 10);
    b = open_guard_fixture("adaptive-rate 10/s min=2 max=40");
    assert_true(enter(b, 5, T0).allowed);
    assert_false(enter(b, 6, T0).allowed);
    assert_true(enter(b, 5, T0).allowed);
}

static void other_bounds_keep_what_was_learned_and_another_period_does_not(void **state)
{
    struct guard_fixture *b = open_guard_fixture("adaptive-rate 100/s min=10 max=400");

    (void)state;
    calls(b, 1, T0, WEIR_DROP);
    change_to(b, "adaptive-rate 100/s min=80 max=400", T0 + 1);
    assert_int_equal(rate(b, T0 + 1), 80);
    change_to(b, "adaptive-rate 100/m min=80 max=400", T0 + 2);
    assert_int_equal(rate(b, T0 + 2), 100);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(as_many_as_may_are_in_flight_and_an_exit_makes_room),
    cmocka_unit_test(a_cost_is_so_many_permits),
    cmocka_unit_test(a_key_is_kept_while_calls_are_in_flight_and_forgotten_with_the_last),
    cmocka_unit_test(more_than_is_in_flight_cannot_leave),
    cmocka_unit_test(a_permit_that_is_not_returned_ends_with_its_lease),
    cmocka_unit_test(a_permit_returned_after_its_lease_frees_no_other),
    cmocka_unit_test(leases_that_began_together_are_equal),
    cmocka_unit_test(leases_are_in_order_whatever_the_clock_does),
    cmocka_unit_test(a_ring_of_leases_goes_round),
    cmocka_unit_test(a_lower_limit_lets_no_call_in_until_enough_have_left),
    cmocka_unit_test(another_lease_counts_from_the_time_of_entry),
    cmocka_unit_test(without_patience_a_call_waits_as_long_as_the_queue_says),
    cmocka_unit_test(a_signal_over_its_bound_refuses_and_one_at_it_does_not),
    cmocka_unit_test(calls_that_take_too_long_close_the_gate_for_a_second),
    cmocka_unit_test(the_last_second_is_remembered_when_all_have_left),
    cmocka_unit_test(the_gate_counts_the_calls_inside),
    cmocka_unit_test(the_rate_of_entry_is_a_bucket_that_knows_when),
    cmocka_unit_test(another_rate_forgets_no_event_that_is_owed),
    cmocka_unit_test(a_withdrawn_call_gives_its_rate_back),
    cmocka_unit_test(a_withdrawn_call_gives_back_no_more_than_it_may),
    cmocka_unit_test(it_is_a_token_bucket_at_the_rate_it_has),
    cmocka_unit_test(a_bad_second_lowers_the_rate_by_three_tenths),
    cmocka_unit_test(a_drop_lowers_it_at_once_and_once_a_second),
    cmocka_unit_test(calls_from_before_it_fell_do_not_lower_it_again),
    cmocka_unit_test(calls_slower_than_the_target_are_bad_ones),
    cmocka_unit_test(good_seconds_raise_it_and_beyond_what_is_written_only_if_it_is_used),
    cmocka_unit_test(what_was_learned_is_forgotten_when_no_calls_come),
    cmocka_unit_test(the_same_limit_changes_nothing),
    cmocka_unit_test(a_second_of_refusals_is_an_idle_one),
    cmocka_unit_test(an_empty_bucket_is_empty_at_a_lower_rate_and_not_in_debt),
    cmocka_unit_test(a_refusal_counts_only_if_it_is_asked_to),
    cmocka_unit_test(other_bounds_keep_what_was_learned_and_another_period_does_not),
};

RUN("guards", TESTS)
