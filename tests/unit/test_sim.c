/* Unit tests of the simulation: scripts, traffic and reports. */
#include "check.h"

#include <string.h>

#include "sim/script.h"
#include "sim/traffic.h"
#include "sim/world.h"

static void bad_lines_say_what_is_wrong(void **state)
{
    static const struct {
        const char *line, *says;
    } ROWS[] = {
        {"0s", "unknown verb ''"},
        {"0s reserve k 5 as=a", "a reserve needs ttl=DURATION and as=ID"},
        {"0s reserve k 5 ttl=25h as=a", "ttl='25h' is not valid"},
        {"0s reserve k 5 ttl=1s lapse=lose as=a", "lapse='lose' is not valid"},
        {"0s commit", "expected an id after commit"},
        {"take k", "time 'take' is not valid"},
        {"0x take k", "time '0x' is not valid"},
        {"-1s take k", "time '-1s' is not valid"},
        {"0s grab k",
         "unknown verb 'grab'; expected take, peek, charge, refund, cancel, reserve, commit, "
         "enter, exit, signal, "
         "reset or limit"},
        {"0s take", "expected a key after take"},
        {"0s cancel", "expected an id after cancel"},
        {"0s take k -1", "cost '-1' is negative"},
        {"0s take k 9223372036854775808", "above 9223372036854775807"},
        {"0s take k 1.5", "'1.5' is neither a cost nor an option"},
        {"0s take k 1 2", "unexpected word '2'"},
        {"0s take k wait=soon", "wait='soon' is not valid"},
        {"0s take k wait=", "wait='' is not valid"},
        {"0s take k wait=1s wait=1s", "'wait=1s' is neither a cost nor an option"},
        {"0s take k as=", "'as=' is neither a cost nor an option"},
        {"0s peek k as=a", "'as=a' is neither a cost nor an option"},
        {"0s reset k 1", "unexpected word '1'"},
        {"0s cancel a 1", "unexpected word '1'"},
        {"0s refund k wait=1s", "'wait=1s' is not a cost"},
        {"99999999h take k", "past the end of the clock"},
        {"0s enter", "expected a key after enter"},
        {"0s enter k 1 2", "unexpected word '2'"},
        {"0s enter k ok",
         "'ok' is neither a cost nor an option (wait=DURATION, wait=forever, as=ID)"},
        {"0s exit", "expected an id after exit"},
        {"0s exit a fine", "'fine' is not how a call ends; expected ok, error, drop or ignore"},
        {"0s exit a ok 1", "unexpected word '1'"},
        {"0s signal", "expected a signal after signal"},
        {"0s signal cpu", "'cpu' is not a signal"},
        {"0s signal cpu=", "'cpu=' is not a signal"},
        {"0s signal cpu=%", "'cpu=%' is not a signal"},
        {"0s signal cpu=85", "'cpu=85' is not a signal"},
        {"0s signal load=85%", "'load=85%' is not a signal"},
        {"0s signal cpu=85% heat=3", "'heat=3' is not a signal"},
        {"0s signal cpu=-1%", "'cpu=-1%' is not a signal"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct sim_event event;
        struct sim_error error = {""};

        print_message("  '%s'\n", ROWS[i].line);
        assert_int_equal(sim_script_parse(weir__slice_of(ROWS[i].line), &event, &error),
                         SIM_LINE_BAD);
        if (!strstr(error.text, ROWS[i].says))
            fail_msg("expected '%s' in '%s'", ROWS[i].says, error.text);
    }
}

static void lines_are_read_as_written(void **state)
{
    struct sim_event e;
    struct sim_error error;

    (void)state;
    assert_int_equal(sim_script_parse(weir__slice_of("  # only a comment"), &e, &error),
                     SIM_LINE_EMPTY);
    assert_int_equal(sim_script_parse(weir__slice_of("\t \r"), &e, &error), SIM_LINE_EMPTY);
    assert_int_equal(
        sim_script_parse(weir__slice_of("1.5s take a#b 3 wait=forever as=x # c"), &e, &error),
        SIM_LINE_EVENT);
    assert_int_equal(e.verb, SIM_TAKE);
    assert_int_equal(e.time_ns, 1500000000);
    assert_true(weir__slice_is(e.key, "a#b"));
    assert_int_equal(e.cost, 3);
    assert_int_equal(e.patience_ns, WEIR_FOREVER);
    assert_true(weir__slice_is(e.id, "x"));
    assert_int_equal(sim_script_parse(weir__slice_of("limit 5/s\r"), &e, &error), SIM_LINE_EVENT);
    assert_false(e.timed);
}

static void guards_are_read_as_written(void **state)
{
    struct sim_event e;
    struct sim_error error;

    (void)state;
    assert_int_equal(sim_script_parse(weir__slice_of("1s enter k 3 as=x wait=2s"), &e, &error),
                     SIM_LINE_EVENT);
    assert_int_equal(e.verb, SIM_ENTER);
    assert_int_equal(e.cost, 3);
    assert_int_equal(e.patience_ns, 2000000000);
    assert_true(weir__slice_is(e.id, "x"));
    assert_int_equal(sim_script_parse(weir__slice_of("1s exit x"), &e, &error), SIM_LINE_EVENT);
    assert_int_equal(e.how, WEIR_SUCCESS);
    assert_int_equal(sim_script_parse(weir__slice_of("1s exit x drop"), &e, &error),
                     SIM_LINE_EVENT);
    assert_int_equal(e.how, WEIR_DROP);
    assert_int_equal(
        sim_script_parse(weir__slice_of("1s signal cpu=12.5% load=3.25 memory=none"), &e, &error),
        SIM_LINE_EVENT);
    assert_int_equal(e.signals.cpu_milli, 125);
    assert_int_equal(e.signals.load_milli, 3250);
    assert_int_equal(e.signals.memory_milli, WEIR_NONE);
    assert_int_equal(e.signals.pressure_milli, SIM_SAME);
}

static void dates_are_checked(void **state)
{
    static const struct {
        const char *text;
        int64_t ns; /* -1: refused */
    } ROWS[] = {
        {"1970-01-01", 0},
        {"2024-01-01T00:00:00Z", INT64_C(1704067200000000000)},
        {"2024-01-01 00:00", INT64_C(1704067200000000000)},
        {"2024-01-01T01:00:00+01:00", INT64_C(1704067200000000000)},
        {"1970-01-01T00:00:00.000000001Z", 1},
        {"2024-02-30", -1},
        {"2023-02-29", -1},
        {"2024-13-01", -1},
        {"2024-01-01T24:00:00Z", -1},
        {"2024-01-01T00:00:00.Z", -1},
        {"2024-01-01T00:00:00.0000000001Z", -1},
        {"2024-01-01x", -1},
        {"1969-12-31", -1},
        {"1970-01-01T00:00:00+01:00", -1},
        {"2116-02-20T23:53:38Z", INT64_C(4611686018000000000)},
        {"2116-02-20T23:53:39Z", -1},
        {"2200-01-01", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct sim_error error;
        int64_t ns = -1;

        print_message("  '%s'\n", ROWS[i].text);
        assert_int_equal(sim_date_parse(weir__slice_of(ROWS[i].text), &ns, &error),
                         ROWS[i].ns >= 0);
        if (ROWS[i].ns >= 0)
            assert_int_equal(ns, ROWS[i].ns);
    }
}

/* Counts the events, checks that time never goes back, returns the last time. */
static int64_t drain(struct traffic *t, int64_t *count)
{
    struct sim_event e;
    struct sim_error error;
    int64_t last = 0;

    for (*count = 0; traffic_next(t, &e, &error); ++*count) {
        assert_true(e.time_ns >= last);
        last = e.time_ns;
    }
    assert_string_equal(error.text, "");
    return last;
}

static void traffic_makes_what_it_says(void **state)
{
    static const struct {
        const char *text;
        int64_t least, most, last_ns; /* last_ns -1: any */
    } ROWS[] = {
        {"steady 50/s 10s", 500, 500, INT64_C(9980000000)},
        {"steady 3/s 1s", 3, 3, 666666666},
        {"burst 200 at 59s", 200, 200, INT64_C(59000000000)},
        {"ramp 0..500/s 30s", 7500, 7501, -1},
        {"ramp 500..0/s 30s", 7500, 7501, -1},
        {"poisson 80/s 1m seed=7", 4600, 5000, -1},
        {"pause 5s; steady 1/s 1s", 1, 1, INT64_C(5000000000)},
        {"steady 50/s 10s; burst 200 at 59s; ramp 0..500/s 30s; poisson 80/s 1m seed=7", 12600,
         13000, -1},
    };
    static struct traffic t;

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct sim_error error = {""};
        int64_t count, last;

        print_message("  '%s'\n", ROWS[i].text);
        if (!traffic_parse(&t, weir__slice_of(ROWS[i].text), &error))
            fail_msg("%s", error.text);
        last = drain(&t, &count);
        assert_in_range(count, ROWS[i].least, ROWS[i].most);
        if (ROWS[i].last_ns >= 0)
            assert_int_equal(last, ROWS[i].last_ns);
    }
}

static void poisson_arrivals_are_the_same_everywhere(void **state)
{
    static const int64_t FIRST[] = {11775564, 62863981, 64170426, 70916521};
    static struct traffic t;
    struct sim_error error;
    struct sim_event e;

    (void)state;
    assert_true(traffic_parse(&t, weir__slice_of("poisson 80/s 1m seed=7"), &error));
    for (int i = 0; i < 4; i++) {
        assert_true(traffic_next(&t, &e, &error));
        assert_int_equal(e.time_ns, FIRST[i]);
    }
}

static void bad_traffic_is_refused(void **state)
{
    static const char *const ROWS[] = {
        "",
        ";",
        "stedy 5/s 1s",
        "steady 5 1s",
        "steady 0/s 1s",
        "steady 5/s",
        "steady 5/s 0s",
        "steady 5/0s 1s",
        "steady 1/106751d 100d",
        "steady 1M/s 1000s",
        "ramp 5/s 1s",
        "ramp 0..0/s 1s",
        "burst 5 in 1s",
        "burst 0 at 1s",
        "steady 5/s 1s seed=1",
        "poisson 5/s 1s seed=x",
        "steady 5/s 1s keys=0",
        "steady 5/s 1s cost=-1",
        "steady 5/s 1s what",
        "pause",
        "service 20ms",
        "steady 5/s 1s; service",
        "steady 5/s 1s; service 0s",
        "steady 5/s 1s; service 20ms 8",
        "steady 5/s 1s; service 20ms workers=0",
        "steady 5/s 1s; service 20ms queue=x",
        "steady 5/s 1s; service 20ms errors=30",
        "steady 5/s 1s; service 20ms errors=%",
        "steady 5/s 1s; service 20ms errors=0..101%",
        "steady 5/s 1s; service 20ms errors=0..%",
        "steady 5/s 1s; service 20ms errors=1..2..3..4..5..6..7..8..9%",
        "steady 5/s 1s; service 20ms timeout=0s",
        "steady 5/s 1s; service 20ms jitter=200%",
        "steady 5/s 1s; service 20ms seed=x",
        "steady 5/s 1s; service 20ms; service 20ms"};
    static struct traffic t;

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct sim_error error = {""};

        print_message("  '%s'\n", ROWS[i]);
        assert_false(traffic_parse(&t, weir__slice_of(ROWS[i]), &error));
        assert_memory_equal(error.text, "traffic: ", 9);
    }
}

/* Applies a line to the world. */
static struct sim_outcome apply(struct sim_world *w, const char *line)
{
    struct sim_outcome out = {0};
    struct sim_event event;
    struct sim_error error;

    assert_int_equal(sim_script_parse(weir__slice_of(line), &event, &error), SIM_LINE_EVENT);
    if (!sim_world_apply(w, &event, &out, &error))
        fail_msg("%s: %s", line, error.text);
    return out;
}

static void a_limit_forgets_its_oldest_versions_and_none_breaks(void **state)
{
    struct sim_world *w = sim_world_open(0, 0, NULL);
    char line[64];

    (void)state;
    (void)apply(w, "limit token-bucket 10/h burst=10");
    (void)apply(w, "0s take k 10");
    for (int i = 1; i <= 40; i++) {
        (void)snprintf(line, sizeof line, "%ds limit token-bucket %d/h burst=10", i, 10 + i % 2);
        assert_false(apply(w, line).starts_fresh);
    }
    assert_false(apply(w, "41s take k 1").verdict.allowed); /* still owes nearly ten */
    sim_world_close(w);
}

static void terms_that_come_and_go_start_fresh(void **state)
{
    struct sim_world *w = sim_world_open(0, 0, NULL);

    (void)state;
    (void)apply(w, "limit token-bucket 10/h + fixed-window 2/h");
    assert_true(apply(w, "0s take k 2").verdict.allowed);
    (void)apply(w, "1s limit token-bucket 10/h");
    (void)apply(w, "2s limit token-bucket 10/h + fixed-window 2/h");
    assert_int_equal(apply(w, "3s peek k 0").verdict.remaining, 2); /* the window started again */
    assert_true(apply(w, "4s limit sliding-log 2/h").starts_fresh);
    assert_true(apply(w, "5s take k 2").verdict.allowed);
    sim_world_close(w);
}

/* The first version's bytes are as many as the later ones', and it is no longer kept: they must not
 * be read as what they are not. */
static void bytes_of_a_forgotten_algorithm_are_not_read(void **state)
{
    struct sim_world *w = sim_world_open(0, 0, NULL);
    char line[64];

    (void)state;
    (void)apply(w, "limit sliding-log 5/1m");
    (void)apply(w, "0s take k 5");
    for (int i = 1; i <= 11; i++) {
        (void)snprintf(line, sizeof line, "%ds limit sliding-window %d/1m", i, 10 + i);
        (void)apply(w, line);
    }
    assert_int_equal(apply(w, "12s peek k 0").verdict.remaining, 21);
    sim_world_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(bad_lines_say_what_is_wrong),
    cmocka_unit_test(lines_are_read_as_written),
    cmocka_unit_test(guards_are_read_as_written),
    cmocka_unit_test(dates_are_checked),
    cmocka_unit_test(traffic_makes_what_it_says),
    cmocka_unit_test(poisson_arrivals_are_the_same_everywhere),
    cmocka_unit_test(bad_traffic_is_refused),
    cmocka_unit_test(a_limit_forgets_its_oldest_versions_and_none_breaks),
    cmocka_unit_test(terms_that_come_and_go_start_fresh),
    cmocka_unit_test(bytes_of_a_forgotten_algorithm_are_not_read),
};

RUN("sim", TESTS)
