/* The limits that find themselves: vegas, gradient, aimd. CL.. are the vectors of
 * concurrency-limits, played through enter and leave. CL06, partitions of a limit, has no
 * counterpart: a share of a limit that may be overdrawn while the whole has room is not a limit
 * that can be written. */
#include "guard_fixture.h"

#include "algo/fixed.h"
#include "algo/flight.h"

static struct guard_fixture *open_limit(enum weir_algorithm algorithm, int64_t initial,
                                        int64_t least, int64_t most)
{
    char text[128];

    (void)snprintf(text, sizeof text, "%s min=%lld max=%lld initial=%lld",
                   weir_algorithm_name(algorithm), (long long)least, (long long)most,
                   (long long)initial);
    return open_guard_fixture(text);
}

/* Fills up to `in_flight` in flight, then one of them ends. The limit after it. */
static int64_t sample(struct guard_fixture *b, int64_t in_flight, int64_t took_ns,
                      enum weir_outcome how)
{
    const int64_t more = in_flight - look(b, T0).in_flight;

    if (more > 0)
        assert_true(enter(b, more, T0).allowed);
    leave(b, 1, T0, T0 + took_ns, how);
    return look(b, T0).limit;
}

/* ---- vegas --------------------------------------------------------------------------------- */

static void cl01_vegas_follows_the_queue(void **state)
{
    static const struct {
        int64_t took_ms, limit;
    } rows[] = {{10, 16}, {50, 9}, {14, 10}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct guard_fixture *b = open_limit(WEIR_VEGAS, 10, 1, 20);

        /* The source has 11 and 14 in flight of a limit of 10; ten are as many as enter here, and
         * as good: all that is asked is whether they are half of the limit. */
        assert_int_equal(sample(b, 10, 10 * MS, WEIR_SUCCESS), 10);
        assert_int_equal(sample(b, 10, rows[i].took_ms * MS, WEIR_SUCCESS), rows[i].limit);
    }
}

static void vegas_moves_by_the_digits_of_its_limit(void **state)
{
    static const struct {
        int64_t initial, took_ns, limit;
    } rows[] = {
        {9, 1000, 15},      {99, 1000, 105},    {100, 1000, 112},   {999, 1000, 1011},
        {1000, 1000, 1018}, {100, 1030, 102},   {100, 1063, 100},   {100, 1100, 100},
        {100, 1137, 98},    {1000, 1018, 1000}, {1000, 1019, 997},  {100, 1020, 112},
        {1000, 1003, 1018}, {1000, 1008, 1003}, {1000, 1009, 1000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct guard_fixture *b = open_limit(WEIR_VEGAS, rows[i].initial, 1, 100000);

        (void)sample(b, rows[i].initial, 1000, WEIR_SUCCESS);
        assert_int_equal(sample(b, rows[i].initial, rows[i].took_ns, WEIR_SUCCESS), rows[i].limit);
    }
}

static void a_drop_lowers_vegas_and_is_no_latency(void **state)
{
    struct guard_fixture *b = open_limit(WEIR_VEGAS, 100, 1, 1000);

    (void)state;
    assert_int_equal(sample(b, 100, 1, WEIR_DROP), 98);
    assert_int_equal(sample(b, 98, 1000, WEIR_SUCCESS), 98); /* the first latency is no load */
    assert_int_equal(sample(b, 98, 1000, WEIR_SUCCESS), 104);
}

static void a_limit_of_which_less_than_half_is_used_stays(void **state)
{
    static const struct {
        enum weir_algorithm algorithm;
        int64_t of_half, of_more;
    } rows[] = {{WEIR_VEGAS, 26, 32}, {WEIR_GRADIENT, 20, 21}, {WEIR_AIMD, 21, 22}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct guard_fixture *b = open_limit(rows[i].algorithm, 20, 1, 1000);

        (void)sample(b, 9, 10 * MS, WEIR_SUCCESS);
        assert_int_equal(sample(b, 9, 10 * MS, WEIR_SUCCESS), 20);
        assert_int_equal(sample(b, 10, 10 * MS, WEIR_SUCCESS), rows[i].of_half); /* or 20.8 */
        assert_int_equal(sample(b, 15, 10 * MS, WEIR_SUCCESS), rows[i].of_more);
    }
}

/* After how many calls that took twice as long `no load` follows. */
static int64_t calls_to_a_probe(uint64_t random)
{
    struct guard_fixture *b = open_limit(WEIR_VEGAS, 10, 10, 10);

    b->random = random;
    (void)sample(b, 10, MS, WEIR_SUCCESS);
    for (int64_t n = 1; n < 1000; n++) {
        int64_t no_load_ns; /* behind the head and the limit */

        memcpy(&no_load_ns, b->key.bytes + 24, sizeof no_load_ns);
        if (no_load_ns != MS)
            return n;
        (void)sample(b, 10, 2 * MS, WEIR_SUCCESS);
    }
    return -1;
}

static void vegas_probes_after_15_to_30_limits_at_random(void **state)
{
    (void)state;
    assert_int_equal(calls_to_a_probe(0), 150);
    assert_int_equal(calls_to_a_probe(UINT64_C(1) << 63), 225);
    assert_int_equal(calls_to_a_probe(UINT64_MAX), 300);
}

static void a_service_slower_for_good_is_believed_after_a_probe(void **state)
{
    struct guard_fixture *b = open_limit(WEIR_VEGAS, 20, 1, 100);
    int64_t limit = 20;

    (void)state;
    for (int i = 0; i < 50; i++)
        limit = sample(b, limit, MS, WEIR_SUCCESS);
    assert_int_equal(limit, 100);
    for (int i = 0; i < 20; i++)
        limit = sample(b, limit, 10 * MS, WEIR_SUCCESS);
    assert_true(limit < 100);
    for (int i = 0; i < 3000; i++)
        limit = sample(b, limit, 10 * MS, WEIR_SUCCESS);
    assert_int_equal(limit, 100);
}

/* ---- gradient ------------------------------------------------------------------------------ */

static void cl04_gradient_compares_now_with_usual(void **state)
{
    static const struct {
        int64_t took_ms, limit;
    } rows[] = {{10, 20}, {10, 21}, {10, 22}, {10, 23}, {10, 24},
                {20, 24}, {20, 24}, {20, 25}, {20, 26}, {20, 27}};
    struct guard_fixture *b = open_limit(WEIR_GRADIENT, 20, 20, 200);

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(sample(b, 20, rows[i].took_ms * MS, WEIR_SUCCESS), rows[i].limit);
}

static void cl05_a_mean_warms_up_plainly_and_then_moves(void **state)
{
    struct weir__average a = {0};
    int64_t off;

    (void)state;
    for (int64_t i = 0; i < 10; i++)
        assert_int_equal(weir__average_add(&a, 100, weir__latency(10 + i)),
                         weir__latency(20 + i) / 2);
    /* 16.193069306930695, in 1/65536 */
    off = weir__average_add(&a, 100, weir__latency(100)) - INT64_C(1061228990099) / 1000000;
    assert_true(off >= -1 && off <= 1);
}

static uint64_t next_random(uint64_t *seed)
{
    return *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
}

static void a_mean_is_within_the_error_that_fixed_h_promises(void **state)
{
    struct weir__average a = {0};
    double mean = 0, sum = 0;
    uint64_t seed = 1;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        const int64_t took = i < 50000 ? (int64_t)(next_random(&seed) >> 40) : 1000 + i % 2;
        const double got = (double)weir__average_add(&a, 600, weir__latency(took)) / 65536;

        sum += i < 10 ? (double)took : 0;
        mean = i < 10 ? sum / (i + 1) : mean + ((double)took - mean) * 2 / 601;
        assert_true(got - mean < 0.0024 && mean - got < 0.0024);
    }
}

/* Against doubles, as the library computes: 200000 calls of a service whose latency wanders. */
static void gradient_in_fixed_point_is_that_of_doubles(void **state)
{
    struct guard_fixture *b = open_limit(WEIR_GRADIENT, 20, 5, 2000);
    double limit = 20, usual = 0, sum = 0;
    uint64_t seed = 1;
    int64_t apart = 0, took = 10 * MS;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        double g;

        if (next_random(&seed) >> 58 == 0)
            took = (int64_t)(seed >> 20) % (100 * MS) + 1;
        sum += i < 10 ? (double)took : 0;
        usual = i < 10 ? sum / (i + 1) : usual * (1 - 2.0 / 601) + (double)took * 2 / 601;
        g = 1.5 * usual / (double)took;
        g = g < 0.5 ? 0.5 : g > 1 ? 1 : g;
        if (usual > 2 * (double)took && i >= 9)
            usual *= 0.95;
        limit = limit * 0.8 + (limit * g + 4) * 0.2;
        limit = limit < 5 ? 5 : limit > 2000 ? 2000 : limit;
        apart += sample(b, look(b, T0).limit, took, WEIR_SUCCESS) != (int64_t)limit;
    }
    assert_int_equal(apart, 0);
}

static void a_drop_takes_a_tenth_off_gradient(void **state)
{
    struct guard_fixture *b = open_limit(WEIR_GRADIENT, 100, 80, 200);

    (void)state;
    assert_int_equal(sample(b, 100, 1, WEIR_DROP), 90);
    assert_int_equal(sample(b, 1, 1, WEIR_DROP), 81);
    assert_int_equal(sample(b, 1, 1, WEIR_DROP), 80);
}

/* ---- aimd ---------------------------------------------------------------------------------- */

static void cl03_aimd_adds_one_and_takes_a_tenth(void **state)
{
    static const struct {
        int64_t initial, least, most, in_flight, took_ns;
        enum weir_outcome how;
        int64_t limit;
    } rows[] = {
        {20, 20, 200, 10, MS, WEIR_SUCCESS, 21},
        {30, 20, 200, 1, 0, WEIR_DROP, 27},
        {21, 1, 21, 11, MS, WEIR_SUCCESS, 21}, /* its min of 0 is 1 here */
        {30, 20, 200, 1, 5 * SEC, WEIR_SUCCESS, 30},
        {30, 20, 200, 1, 5 * SEC + 1, WEIR_SUCCESS, 27},
        {30, 20, 200, 1, 5 * SEC + 1, WEIR_ERROR, 27},
        {30, 20, 200, 30, MS, WEIR_ERROR, 30},
        {1, 1, 200, 1, MS, WEIR_DROP, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct guard_fixture *b =
            open_limit(WEIR_AIMD, rows[i].initial, rows[i].least, rows[i].most);

        assert_int_equal(sample(b, rows[i].in_flight, rows[i].took_ns, rows[i].how), rows[i].limit);
    }
}

/* ---- All three, and what they share -------------------------------------------------------- */

static const enum weir_algorithm LEARNERS[] = {WEIR_VEGAS, WEIR_GRADIENT, WEIR_AIMD};
#define EACH(i) for (size_t i = 0; i < sizeof LEARNERS / sizeof *LEARNERS; i++)

static void what_passes_the_limit_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    EACH(i)
    {
        struct guard_fixture *b = open_limit(LEARNERS[i], 3, 1, 10), before;
        struct weir_verdict v;

        assert_int_equal(enter(b, 2, T0).remaining, 1);
        assert_true(enters(b, T0));
        before = *b;
        v = enter(b, 1, T0 + SEC);
        assert_false(v.allowed);
        assert_int_equal(v.reason, WEIR_OVERLOAD);
        assert_int_equal(v.retry_after_ns, 0);
        assert_int_equal(v.limit, 3);
        assert_int_equal(v.remaining, 0);
        assert_int_equal(v.reset_after_ns, WEIR_FOREVER);
        assert_memory_equal(&before.key, &b->key, sizeof b->key);
        v = enter(b, 11, T0 + SEC);
        assert_int_equal(v.reason, WEIR_TOO_BIG);
        assert_int_equal(v.retry_after_ns, -1);
        assert_true(enter(b, 0, T0 + SEC).allowed);
        assert_memory_equal(&before.key, &b->key, sizeof b->key);
        leave(b, 1, T0, T0 + SEC, WEIR_IGNORE);
        assert_true(enters(b, T0 + SEC));
    }
}

static void a_call_alone_enters_whatever_it_costs(void **state)
{
    (void)state;
    EACH(i)
    {
        struct guard_fixture *b = open_limit(LEARNERS[i], 1, 1, 10);

        assert_true(enter(b, 10, T0).allowed);
        assert_int_equal(look(b, T0).in_flight, 10);
        assert_false(enters(b, T0));
        leave(b, 10, T0, T0 + 1, WEIR_IGNORE);
        assert_int_equal(enter(b, 11, T0).reason, WEIR_TOO_BIG);
    }
}

static void an_ignored_call_teaches_nothing(void **state)
{
    (void)state;
    EACH(i)
    {
        struct guard_fixture *b = open_limit(LEARNERS[i], 20, 1, 200), before;

        (void)sample(b, 20, 10 * MS, WEIR_SUCCESS);
        (void)sample(b, 20, 10 * MS, WEIR_SUCCESS);
        before = *b;
        assert_true(enters(b, T0));
        leave(b, 1, T0, T0 + 100 * SEC, WEIR_IGNORE);
        assert_memory_equal(before.key.bytes, b->key.bytes, 40);
    }
}

static void a_clock_that_steps_back_under_a_call_teaches_no_latency(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2; i++) { /* aimd has no use for how quick a call was */
        struct guard_fixture *b = open_limit(LEARNERS[i], 20, 1, 200), before;

        (void)sample(b, 20, 10 * MS, WEIR_SUCCESS);
        before = *b;
        assert_true(enters(b, T0));
        leave(b, 1, T0, T0 - 3600 * SEC, WEIR_SUCCESS);
        assert_memory_equal(before.key.bytes, b->key.bytes, 40);
    }
}

static void an_exit_from_a_forgotten_key_returns_nothing(void **state)
{
    (void)state;
    EACH(i)
    {
        struct guard_fixture *b = open_limit(LEARNERS[i], 20, 1, 200);

        leave(b, 5, T0, T0 + SEC, WEIR_DROP);
        assert_int_equal(b->key.s.fresh_ns, 0);
        assert_int_equal(look(b, T0).in_flight, 0);
        assert_int_equal(look(b, T0).limit, 20);
        assert_true(enters(b, T0));
        leave(b, 5, T0, T0 + SEC, WEIR_IGNORE); /* four more than there are */
        assert_int_equal(look(b, T0).in_flight, 0);
    }
}

static void what_was_learned_is_forgotten_after_ten_idle_minutes(void **state)
{
    (void)state;
    EACH(i)
    {
        struct guard_fixture *b = open_limit(LEARNERS[i], 20, 1, 200);

        assert_true(enters(b, T0));
        leave(b, 1, T0, T0, WEIR_DROP);
        assert_true(look(b, T0 + WEIR__IDLE_NS - 1).limit < 20);
        assert_int_equal(enter(b, 0, T0).reset_after_ns, WEIR__IDLE_NS);
        assert_int_equal(look(b, T0 + WEIR__IDLE_NS).limit, 20);
        assert_true(enters(b, T0 + WEIR__IDLE_NS - 1));
        assert_true(look(b, T0 + 365 * 86400 * SEC).limit < 20); /* not while one is in flight */
    }
}

static void a_live_change_keeps_what_was_learned_within_the_new_bounds(void **state)
{
    (void)state;
    EACH(i)
    {
        struct guard_fixture *b = open_limit(LEARNERS[i], 20, 1, 200);
        char text[64];

        (void)snprintf(text, sizeof text, "%s min=40 max=60", weir_algorithm_name(LEARNERS[i]));
        assert_true(enter(b, 7, T0).allowed);
        change_to(b, text, T0 + SEC);
        assert_true(weir__meter_keeps(&b->m));
        assert_int_equal(look(b, T0 + SEC).limit, 40);
        assert_int_equal(look(b, T0 + SEC).in_flight, 7);
    }
}

static void log10_is_whole_and_at_least_one(void **state)
{
    static const int64_t rows[][2] = {
        {1, 1},   {9, 1},    {10, 1},   {99, 1},    {100, 2},
        {999, 2}, {1000, 3}, {9999, 3}, {10000, 4}, {WEIR_COUNT_MAX, 12}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(weir__log10(rows[i][0]), rows[i][1]);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(cl01_vegas_follows_the_queue),
    cmocka_unit_test(vegas_moves_by_the_digits_of_its_limit),
    cmocka_unit_test(a_drop_lowers_vegas_and_is_no_latency),
    cmocka_unit_test(a_limit_of_which_less_than_half_is_used_stays),
    cmocka_unit_test(vegas_probes_after_15_to_30_limits_at_random),
    cmocka_unit_test(a_service_slower_for_good_is_believed_after_a_probe),
    cmocka_unit_test(cl04_gradient_compares_now_with_usual),
    cmocka_unit_test(cl05_a_mean_warms_up_plainly_and_then_moves),
    cmocka_unit_test(a_mean_is_within_the_error_that_fixed_h_promises),
    cmocka_unit_test(gradient_in_fixed_point_is_that_of_doubles),
    cmocka_unit_test(a_drop_takes_a_tenth_off_gradient),
    cmocka_unit_test(cl03_aimd_adds_one_and_takes_a_tenth),
    cmocka_unit_test(what_passes_the_limit_is_refused_and_changes_nothing),
    cmocka_unit_test(a_call_alone_enters_whatever_it_costs),
    cmocka_unit_test(an_ignored_call_teaches_nothing),
    cmocka_unit_test(a_clock_that_steps_back_under_a_call_teaches_no_latency),
    cmocka_unit_test(an_exit_from_a_forgotten_key_returns_nothing),
    cmocka_unit_test(what_was_learned_is_forgotten_after_ten_idle_minutes),
    cmocka_unit_test(a_live_change_keeps_what_was_learned_within_the_new_bounds),
    cmocka_unit_test(log10_is_whole_and_at_least_one),
};

RUN("adaptive", TESTS)
