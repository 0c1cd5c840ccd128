/* bbr, and the ring of buckets it looks at. AE.. are the vectors of aegis, played through enter and
 * leave. */
#include "guard_fixture.h"

#include "algo/bbr.h"
#include "algo/rolling.h"

static const struct weir_signals HOT = {900, WEIR_NONE, WEIR_NONE, WEIR_NONE},
                                 COOL = {100, 100, 100, 100};

/* ---- Windows of buckets -------------------------------------------------------------------- */

/* Adds v at a slot, as an owner of a ring would. */
static void add(int64_t *ring, int64_t slots, int64_t *newest, int64_t at, int64_t v)
{
    weir__rolling_roll(ring, sizeof *ring, *newest, at, slots);
    *newest = at;
    ring[at % slots] += v;
}

static void ae06_a_rolling_counter_holds_the_last_buckets(void **state)
{
    static const struct {
        int64_t at, add, oldest_first[3];
    } rows[] = {{0, 1, {0, 0, 1}}, {1, 5, {0, 1, 5}}, {2, 15, {1, 5, 15}}, {3, 7, {5, 15, 7}}};
    int64_t ring[3] = {0}, newest = 0;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        add(ring, 3, &newest, rows[i].at, rows[i].add);
        for (int64_t k = 0; k < 3; k++)
            assert_int_equal(ring[(newest + 1 + k) % 3], rows[i].oldest_first[k]);
    }
}

static void ae07_buckets_that_time_passed_over_are_empty(void **state)
{
    static const struct {
        int64_t last_ms, ring[3];
    } rows[] = {{403, {0, 4, 2}}, {703, {0, 4, 0}}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        int64_t ring[3] = {0}, newest = 0;

        add(ring, 3, &newest, 0, 0);
        add(ring, 3, &newest, 101 / 100, 1);
        add(ring, 3, &newest, 202 / 100, 2);
        add(ring, 3, &newest, rows[i].last_ms / 100, 4);
        assert_memory_equal(ring, rows[i].ring, sizeof ring);
    }
}

/* ---- bbr ----------------------------------------------------------------------------------- */

/* v calls that come and go at one moment pass, and tell no latency. */
static void pass(struct guard_fixture *b, int64_t v, int64_t now_ns)
{
    assert_true(enter(b, v, now_ns).allowed);
    leave(b, v, now_ns, now_ns, WEIR_SUCCESS);
}

static void pass_in(struct guard_fixture *b, int64_t v, int64_t took_ns, int64_t now_ns)
{
    assert_true(enter(b, v, now_ns).allowed);
    leave(b, v, now_ns - took_ns, now_ns, WEIR_SUCCESS);
}

static int64_t most_passed(struct guard_fixture *b, int64_t now_ns)
{
    return weir__bbr_figures(&b->m, &b->key.s, now_ns).most_passed;
}

static void ae01_the_most_passed_in_a_bucket(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr window=1s buckets=10");

    (void)state;
    assert_int_equal(most_passed(b, T0), 1);
    for (int64_t i = 0; i < 10; i++)
        pass(b, (i + 1) * 100, T0 + i * 100 * MS);
    assert_int_equal(most_passed(b, T0 + SEC), 1000);
}

/* The source keeps what it computed for one bucket from when it was asked, so that at 100 ms it
 * still says 1 because a caller asked at 50 ms. Here a look changes nothing: at 100 ms it is
 * 100. */
static void ae02_the_bucket_of_now_is_not_counted(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr window=1s buckets=10");

    (void)state;
    pass(b, 50, T0);
    assert_int_equal(most_passed(b, T0 + 50 * MS), 1);
    pass(b, 50, T0 + 50 * MS);
    assert_int_equal(most_passed(b, T0 + 100 * MS - 1), 1);
    assert_int_equal(most_passed(b, T0 + 100 * MS), 100);
    pass(b, 1, T0 + 100 * MS);
    assert_int_equal(most_passed(b, T0 + 200 * MS), 100);
}

static void ae04_the_limit_is_throughput_times_latency(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr window=1s buckets=10");
    struct weir__bbr_figures f;

    (void)state;
    for (int64_t i = 0; i < 10; i++) {
        pass(b, (i + 2) * 100 - 10, T0 + i * 100 * MS);
        for (int64_t rt = i * 10 + 1; rt <= i * 10 + 10; rt++)
            pass_in(b, 1, rt * MS, T0 + i * 100 * MS);
    }
    f = weir__bbr_figures(&b->m, &b->key.s, T0 + 900 * MS);
    assert_int_equal(f.most_passed, 1000);
    assert_int_equal(f.least_ms, 6);
    assert_int_equal(f.limit, 60);
    assert_int_equal(look(b, T0 + 900 * MS).limit, 60);
}

static void a_cool_machine_sheds_nothing(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_true(enters(b, T0));
    b->signals = &COOL;
    for (int i = 0; i < 100; i++)
        assert_true(enters(b, T0));
    assert_int_equal(look(b, T0).in_flight, 200);
}

static void a_hot_one_sheds_what_finds_more_than_the_limit_inside(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");
    struct weir_verdict v;

    (void)state;
    pass_in(b, 20, 25 * MS, T0); /* 20 a bucket of 100 ms, 25 ms each: 5 at once */
    b->signals = &HOT;
    for (int i = 0; i < 6; i++)
        assert_true(enters(b, T0 + 100 * MS));
    v = enter(b, 1, T0 + 100 * MS);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_OVERLOAD);
    assert_int_equal(v.retry_after_ns, 0);
    assert_int_equal(v.limit, 5);
    assert_int_equal(v.remaining, 0);
    leave(b, 1, T0, T0 + 100 * MS, WEIR_SUCCESS);
    assert_true(enters(b, T0 + 100 * MS));
}

static void with_one_in_flight_no_call_is_dropped(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    b->signals = &HOT;
    assert_true(enters(b, T0));
    assert_true(enters(b, T0));
    assert_false(enters(b, T0)); /* an empty window has the limit 1, and two are inside */
}

static void the_threshold_itself_is_hot_and_what_is_unknown_is_not(void **state)
{
    static const struct {
        struct weir_signals now;
        bool hot;
    } rows[] = {
        {{800, 0, 0, 0}, true},          {{799, 0, 0, 0}, false},
        {{0, 700, 0, 0}, true},          {{0, 699, 0, 0}, false},
        {{0, 0, 3500, 0}, true},         {{0, 0, 3499, 0}, false},
        {{WEIR_NONE, 0, 0, 999}, false}, {{WEIR_NONE, WEIR_NONE, 4000, 0}, true},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct guard_fixture *b = open_guard_fixture("bbr memory=70% load=3.5");

        b->signals = &rows[i].now;
        assert_true(enter(b, 2, T0).allowed);
        assert_int_equal(enters(b, T0), !rows[i].hot);
    }
}

static void it_cools_from_the_first_drop_and_later_ones_do_not_prolong_it(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    b->signals = &HOT;
    assert_true(enter(b, 2, T0).allowed);
    assert_false(enters(b, T0));
    assert_int_equal(look(b, T0).state, WEIR_COOLING);
    assert_false(enters(b, T0 + 900 * MS)); /* hot, and not the first */
    b->signals = &COOL;
    assert_false(enters(b, T0 + SEC)); /* cool, but cooling */
    assert_int_equal(look(b, T0 + SEC).state, WEIR_COOLING);
    assert_int_equal(look(b, T0 + SEC + 1).state, WEIR_CLOSED);
    assert_true(enters(b, T0 + SEC + 1));
    b->signals = &HOT;
    assert_false(enters(b, T0 + 5 * SEC)); /* another episode has a cooling of its own */
    b->signals = &COOL;
    assert_false(enters(b, T0 + 6 * SEC));
    assert_true(enters(b, T0 + 6 * SEC + 1));
}

static void an_episode_longer_than_the_cooling_has_none_left(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    b->signals = &HOT;
    assert_true(enter(b, 2, T0).allowed);
    assert_false(enters(b, T0));
    assert_false(enters(b, T0 + 3 * SEC));
    b->signals = &COOL;
    assert_true(enters(b, T0 + 3 * SEC + 1));
}

static void a_cooling_in_the_future_starts_again(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    b->signals = &HOT;
    assert_true(enter(b, 2, T0).allowed);
    assert_false(enters(b, T0));
    b->signals = &COOL;
    assert_false(enters(b, T0 - 3600 * SEC));
    assert_false(enters(b, T0 - 3599 * SEC));
    assert_true(enters(b, T0 - 3599 * SEC + 1)); /* not an hour later */
}

static void buckets_longer_than_a_second_have_a_limit(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr window=30s buckets=10");

    (void)state;
    pass_in(b, 600, 40 * MS, T0); /* 200 a second, 40 ms each */
    assert_int_equal(look(b, T0 + 3 * SEC).limit, 8);
}

static void an_empty_window_has_the_limit_one(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    assert_int_equal(look(b, T0).limit, 1);
    pass_in(b, 100, 50 * MS, T0);
    assert_true(enters(b, T0));
    assert_int_equal(look(b, T0 + 100 * MS).limit, 50);
    assert_int_equal(look(b, T0 + 9900 * MS).limit, 50);
    assert_int_equal(look(b, T0 + 10 * SEC).limit, 1); /* the bucket has left */
}

static void only_what_was_done_has_passed(void **state)
{
    static const struct {
        enum weir_outcome how;
        int64_t passed;
    } rows[] = {{WEIR_SUCCESS, 7}, {WEIR_ERROR, 7}, {WEIR_DROP, 1}, {WEIR_IGNORE, 1}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct guard_fixture *b = open_guard_fixture("bbr");

        assert_true(enter(b, 8, T0).allowed);
        leave(b, 7, T0 - 10 * MS, T0, rows[i].how);
        assert_int_equal(look(b, T0).in_flight, 1);
        assert_int_equal(most_passed(b, T0 + 100 * MS), rows[i].passed);
    }
}

static void what_comes_late_counts_in_no_bucket(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr window=1s buckets=10");

    (void)state;
    assert_true(enter(b, 40, T0).allowed);
    leave(b, 10, T0, T0 + 500 * MS, WEIR_SUCCESS);
    leave(b, 20, T0, T0 + 300 * MS, WEIR_SUCCESS); /* an older time than the last */
    assert_int_equal(most_passed(b, T0 + 600 * MS), 10);
    assert_int_equal(look(b, T0 + 600 * MS).in_flight, 10);
}

static void a_clock_back_by_a_window_starts_an_empty_one(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr window=1s buckets=10");

    (void)state;
    pass_in(b, 100, 50 * MS, T0);
    assert_true(enters(b, T0 + 100 * MS));
    assert_int_equal(look(b, T0 + 100 * MS).limit, 50);
    assert_int_equal(look(b, T0 - 800 * MS).limit, 50); /* less than a window: it stands */
    assert_int_equal(look(b, T0 - 900 * MS).limit, 1);
    pass_in(b, 20, 50 * MS, T0 - 900 * MS);
    assert_int_equal(look(b, T0 - 800 * MS).limit, 10);
}

static void an_idle_window_is_fresh_when_it_is_empty(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr window=1s buckets=10");

    (void)state;
    assert_int_equal(enter(b, 1, T0).reset_after_ns, WEIR_FOREVER);
    assert_true(b->key.s.fresh_ns == INT64_MAX);
    leave(b, 1, T0, T0 + 10 * MS, WEIR_SUCCESS);
    assert_int_equal(b->key.s.fresh_ns, T0 + SEC);
    assert_int_equal(enter(b, 0, T0 + 10 * MS).reset_after_ns, 990 * MS);
    assert_int_equal(enter(b, 0, T0 + SEC).reset_after_ns, 0);
}

static void a_cooling_longer_than_the_window_is_not_forgotten(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr window=1s buckets=10 cooling=20s");

    (void)state;
    b->signals = &HOT;
    assert_true(enter(b, 2, T0).allowed);
    assert_false(enters(b, T0));
    leave(b, 2, T0, T0, WEIR_SUCCESS);
    assert_int_equal(b->key.s.fresh_ns, T0 + 20 * SEC + 1);
    assert_int_equal(look(b, T0 + 20 * SEC).state, WEIR_COOLING);
    assert_int_equal(look(b, T0 + 20 * SEC + 1).state, WEIR_CLOSED);
}

/* The limit is what passed, and what passed is what the limit let in: yet it grows. */
static void it_grows_while_hot_up_to_what_is_offered(void **state)
{
    const int64_t took_ns = 20 * MS;
    struct guard_fixture *b = open_guard_fixture("bbr");
    int64_t in_flight = 0;

    (void)state;
    b->signals = &HOT;
    for (int64_t now = T0; now < T0 + 20 * SEC; now += took_ns) {
        if (in_flight > 0)
            leave(b, in_flight, now - took_ns, now, WEIR_SUCCESS);
        for (in_flight = 0; in_flight < 40 && enters(b, now);)
            in_flight++;
    }
    assert_int_equal(in_flight, 40);
    assert_true(look(b, T0 + 20 * SEC - 1).limit >= 39);
}

/* Workers that serve in the order of arrival, offered four times what they can do. */
struct bbr_service {
    int64_t free_ns[8]; /* of each worker */
    int64_t end_ns[1000], entered_ns[1000];
    int first, n; /* in flight, in a ring */
    int64_t done;
};

static void serve(struct guard_fixture *b, struct bbr_service *v, int64_t now_ns)
{
    for (; v->n > 0 && v->end_ns[v->first] <= now_ns; v->n--, v->done++) {
        leave(b, 1, v->entered_ns[v->first], v->end_ns[v->first], WEIR_SUCCESS);
        v->first = (v->first + 1) % 1000;
    }
}

static void arrive(struct guard_fixture *b, struct bbr_service *v, int64_t took_ns, int64_t now_ns)
{
    const int at = (v->first + v->n) % 1000;
    int worker = 0;

    if (!enters(b, now_ns))
        return;
    for (int i = 1; i < 8; i++)
        worker = v->free_ns[i] < v->free_ns[worker] ? i : worker;
    v->free_ns[worker] = weir__max(now_ns, v->free_ns[worker]) + took_ns;
    v->entered_ns[at] = now_ns;
    v->end_ns[at] = v->free_ns[worker];
    v->n++;
    assert_true(v->n < 1000);
}

/* Without its lulls the limit would be 47 after five minutes, and go on. */
static void it_finds_what_a_service_can_do_and_stays_there(void **state)
{
    static struct bbr_service v;
    struct guard_fixture *b = open_guard_fixture("bbr");
    int64_t now = T0;

    (void)state;
    b->signals = &HOT;
    for (; now < T0 + 300 * SEC; now += MS * 5 / 8) {
        serve(b, &v, now);
        arrive(b, &v, 20 * MS, now);
    }
    assert_in_range(look(b, now - SEC).limit, 7, 12);
    assert_true(v.done > 300 * 400 * 95 / 100);
}

static void a_long_episode_has_lulls(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");
    int64_t now = T0 + 4900 * MS;

    (void)state;
    pass_in(b, 80, 50 * MS, now - 100 * MS); /* 40 at once, until 14.8 s */
    b->signals = &HOT;
    assert_true(enter(b, 41, now).allowed);
    assert_false(enters(b, now));
    leave(b, 19, now, now, WEIR_IGNORE);
    assert_true(enters(b, T0 + 9999 * MS)); /* 23 are inside */
    assert_int_equal(look(b, T0 + 10 * SEC).limit, 20);
    b->signals = &COOL;
    assert_false(enters(b, T0 + 10 * SEC));
    assert_false(enters(b, T0 + 10499 * MS));
    assert_true(enters(b, T0 + 10500 * MS));
    assert_int_equal(look(b, T0 + 10500 * MS).limit, 40);
    assert_int_equal(look(b, T0 + 11500 * MS).state, WEIR_COOLING);
    assert_int_equal(look(b, T0 + 11500 * MS + 1).state, WEIR_CLOSED);
}

static void an_episode_shorter_than_half_a_window_has_none(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");
    const int64_t now = T0 + 5000 * MS + 1;

    (void)state;
    pass_in(b, 80, 50 * MS, now - 100 * MS);
    b->signals = &HOT;
    assert_true(enter(b, 41, now).allowed);
    assert_false(enters(b, now));
    leave(b, 1, now, now, WEIR_IGNORE);
    assert_true(enters(b, T0 + 10 * SEC));
}

/* Two stay inside; one is dropped at `first`, another at `last` (if it is later), both hot. Then
 * the machine is cool, and no call enters until 10 s, where there would be a lull. */
static struct guard_fixture *left_alone(const char *limit, int64_t first, int64_t last)
{
    struct guard_fixture *b = open_guard_fixture(limit);

    b->signals = &HOT;
    assert_true(enter(b, 3, first).allowed);
    assert_false(enters(b, first));
    assert_true(first == last || !enters(b, last));
    leave(b, 1, first, T0 + 9990 * MS, WEIR_IGNORE); /* which says nothing of the machine */
    b->signals = &COOL;
    return b;
}

static void an_overload_that_is_over_has_no_lull(void **state)
{
    static const struct {
        const char *sentence;
        int64_t first_ms, last_ms, at_ms;
        bool sheds;
    } rows[] = {
        {"dropped once, and cool for a minute", 3000, 3000, 70000, false},
        {"and in the middle of a lull", 3000, 3000, 70400, false},
        {"and where one would have ended", 3000, 3000, 70600, false},
        {"not seen hot for most of a window", 1000, 1000, 10000, false},
        {"not seen hot for longer than a lull is", 1000, 9499, 10000, false},
        {"seen hot as long before as it is", 1000, 9500, 10000, true},
        {"and until it ends", 1000, 9500, 10498, true},
        {"but for none of the next", 1000, 9500, 20000, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t now = T0 + rows[i].at_ms * MS;
        struct guard_fixture *b =
            left_alone("bbr", T0 + rows[i].first_ms * MS, T0 + rows[i].last_ms * MS);
        const bool lets_in = enters(b, now);

        print_message("  %s\n", rows[i].sentence);
        assert_int_equal(lets_in, !rows[i].sheds);
        assert_int_equal(enters(b, now + MS), !rows[i].sheds);
        assert_int_equal(look(b, now + MS).state, WEIR_CLOSED);
    }
}

static void a_caller_that_finds_it_hot_in_the_lull_has_one(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    pass_in(b, 40, 10 * MS, T0 + 4900 * MS);
    b->signals = &HOT;
    assert_true(enter(b, 5, T0 + 5 * SEC).allowed);
    assert_false(enters(b, T0 + 5 * SEC));
    assert_int_equal(look(b, T0 + 10 * SEC).limit, 4);
    assert_int_equal(enter(b, 1, T0 + 10 * SEC).limit, 2); /* still going on, half a window later */
    assert_int_equal(look(b, T0 + 10 * SEC).limit, 2);
}

/* If the cooling started again at the end of each lull, the episode would never end. */
static void a_cooling_longer_than_the_window_ends(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr cooling=1m");

    (void)state;
    b->signals = &HOT;
    assert_true(enter(b, 2, T0 + SEC).allowed);
    assert_false(enters(b, T0 + SEC));
    b->signals = &COOL;
    for (int64_t now = T0 + SEC; now <= T0 + 61 * SEC; now += 100 * MS)
        assert_false(enters(b, now));
    assert_true(enters(b, T0 + 61 * SEC + 1));
}

static void an_episode_unseen_for_a_window_is_over(void **state)
{
    static const struct {
        int64_t unseen_ns;
        bool over;
    } rows[] = {{10 * SEC, false}, {10 * SEC + 1, true}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int64_t now = T0 + SEC + rows[i].unseen_ns;
        struct guard_fixture *b = left_alone("bbr", T0 + SEC, T0 + SEC);

        b->signals = &HOT;
        assert_false(enters(b, now));
        b->signals = &COOL;
        assert_int_equal(enters(b, now + SEC), !rows[i].over); /* only a new one has a cooling */
        assert_true(enters(b, now + SEC + 1));
    }
}

/* By an hour: what was seen then was not seen an hour ahead of all that comes. */
static void heat_in_the_future_was_seen_now(void **state)
{
    const int64_t back = T0 - 3600 * SEC;
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    b->signals = &HOT;
    assert_true(enter(b, 2, T0).allowed);
    assert_false(enters(b, T0));
    b->signals = &COOL;
    assert_false(enters(b, back));
    assert_true(enters(b, back + 60 * SEC));
}

static void another_window_starts_empty_and_keeps_what_is_in_flight(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    pass_in(b, 100, 50 * MS, T0);
    assert_true(enter(b, 3, T0).allowed);
    assert_int_equal(look(b, T0 + SEC).limit, 50);
    change_to(b, "bbr window=20s", T0 + SEC);
    assert_true(weir__meter_keeps(&b->m));
    assert_int_equal(look(b, T0 + SEC).limit, 1);
    assert_int_equal(look(b, T0 + SEC).in_flight, 3);
    change_to(b, "bbr window=20s buckets=200", T0 + SEC);
    assert_false(weir__meter_keeps(&b->m));
}

static void another_cooling_keeps_the_window(void **state)
{
    struct guard_fixture *b = open_guard_fixture("bbr");

    (void)state;
    pass_in(b, 100, 50 * MS, T0);
    change_to(b, "bbr cooling=1m", T0 + SEC);
    assert_int_equal(look(b, T0 + SEC).limit, 50);
    assert_int_equal(b->key.s.fresh_ns, T0 + 10 * SEC);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(ae06_a_rolling_counter_holds_the_last_buckets),
    cmocka_unit_test(ae07_buckets_that_time_passed_over_are_empty),
    cmocka_unit_test(ae01_the_most_passed_in_a_bucket),
    cmocka_unit_test(ae02_the_bucket_of_now_is_not_counted),
    cmocka_unit_test(ae04_the_limit_is_throughput_times_latency),
    cmocka_unit_test(a_cool_machine_sheds_nothing),
    cmocka_unit_test(a_hot_one_sheds_what_finds_more_than_the_limit_inside),
    cmocka_unit_test(with_one_in_flight_no_call_is_dropped),
    cmocka_unit_test(the_threshold_itself_is_hot_and_what_is_unknown_is_not),
    cmocka_unit_test(it_cools_from_the_first_drop_and_later_ones_do_not_prolong_it),
    cmocka_unit_test(an_episode_longer_than_the_cooling_has_none_left),
    cmocka_unit_test(a_cooling_in_the_future_starts_again),
    cmocka_unit_test(buckets_longer_than_a_second_have_a_limit),
    cmocka_unit_test(an_empty_window_has_the_limit_one),
    cmocka_unit_test(only_what_was_done_has_passed),
    cmocka_unit_test(what_comes_late_counts_in_no_bucket),
    cmocka_unit_test(a_clock_back_by_a_window_starts_an_empty_one),
    cmocka_unit_test(an_idle_window_is_fresh_when_it_is_empty),
    cmocka_unit_test(a_cooling_longer_than_the_window_is_not_forgotten),
    cmocka_unit_test(it_grows_while_hot_up_to_what_is_offered),
    cmocka_unit_test(it_finds_what_a_service_can_do_and_stays_there),
    cmocka_unit_test(a_long_episode_has_lulls),
    cmocka_unit_test(an_episode_shorter_than_half_a_window_has_none),
    cmocka_unit_test(an_overload_that_is_over_has_no_lull),
    cmocka_unit_test(a_caller_that_finds_it_hot_in_the_lull_has_one),
    cmocka_unit_test(a_cooling_longer_than_the_window_ends),
    cmocka_unit_test(an_episode_unseen_for_a_window_is_over),
    cmocka_unit_test(heat_in_the_future_was_seen_now),
    cmocka_unit_test(another_window_starts_empty_and_keeps_what_is_in_flight),
    cmocka_unit_test(another_cooling_keeps_the_window),
};

RUN("bbr", TESTS)
