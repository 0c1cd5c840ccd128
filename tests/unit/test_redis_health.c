/* Whether a store is up: one failure makes it down for all callers, a probe brings it back, and
 * both are logged. */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "redis/fallback/local.h"
#include "redis/health.h"

#define MS WEIR__NS_PER_MS
#define S  WEIR__NS_PER_S
#define T0 (INT64_C(1700000000) * S)

/* A store's health under a clock of the test's, and what was said of it. */
struct health_fixture {
    struct weir__health h;
    struct weir__local_counts counts;
    struct weir_clock clock;
    int64_t now_ns;
    char line[8][256];
    int lines;
};

static int64_t tell_time(void *arg)
{
    return ((struct health_fixture *)arg)->now_ns;
}

static void note(void *arg, const char *line)
{
    struct health_fixture *b = arg;

    assert_true(b->lines < 8);
    assert_null(strchr(line, '\n'));
    (void)snprintf(b->line[b->lines++], sizeof b->line[0], "%s", line);
}

static void open_health_fixture(struct health_fixture *b)
{
    const struct weir_log log = {note, b};

    memset(b, 0, sizeof *b);
    b->now_ns = T0;
    assert_int_equal(weir__health_open(&b->h, "redis://10.0.0.5:6379", &log), 0);
    b->clock = (struct weir_clock){.now = tell_time, .arg = b};
    b->h.clock = &b->clock;
    b->h.counts = &b->counts;
    atomic_store(&b->counts.nodes, 3);
}

static bool may_probe(struct health_fixture *b, int64_t *next_ns)
{
    return weir__health_may_probe(&b->h, b->now_ns, next_ns);
}

/* The time of the next probe, which is then let out. */
static int64_t await_probe(struct health_fixture *b)
{
    const int64_t from_ns = b->now_ns;
    int64_t next_ns;

    while (!may_probe(b, &next_ns)) {
        assert_true(next_ns > b->now_ns);
        b->now_ns = next_ns;
    }
    return b->now_ns - from_ns;
}

static void one_failure_makes_the_store_down_for_every_caller(void **state)
{
    struct health_fixture b;
    int64_t next_ns;

    (void)state;
    open_health_fixture(&b);
    assert_false(weir__health_is_down(&b.h));
    assert_false(may_probe(&b, &next_ns)); /* nothing to probe */
    weir__health_failed(&b.h, "no answer in 50 ms");
    assert_true(weir__health_is_down(&b.h));
    assert_int_equal(b.lines, 1);
    assert_string_equal(b.line[0], "redis://10.0.0.5:6379 is down: no answer in 50 ms; limits fall "
                                   "back (local: 1/3 each)");
    weir__health_failed(&b.h, "no answer in 50 ms"); /* a command that was on its way */
    assert_int_equal(b.lines, 1);
    assert_int_equal(atomic_load(&b.h.outages), 1);
    assert_int_equal(atomic_load(&b.h.failures), 2);
    weir__health_close(&b.h);
}

static void probes_go_out_one_by_one_and_ever_less_often(void **state)
{
    static const int64_t WAITS[] = {100 * MS,  200 * MS, 400 * MS, 800 * MS,
                                    1600 * MS, 2 * S,    2 * S};
    struct health_fixture b;
    int64_t next_ns;

    (void)state;
    open_health_fixture(&b);
    weir__health_failed(&b.h, "gone");
    for (size_t i = 0; i < sizeof WAITS / sizeof WAITS[0]; i++) {
        assert_int_equal(await_probe(&b), WAITS[i]);
        assert_false(may_probe(&b, &next_ns)); /* one is out */
        weir__health_failed(&b.h, "gone");     /* an old call ends, and decides nothing */
        assert_true(weir__health_is_down(&b.h));
        weir__health_probed(&b.h, false, "gone");
        assert_true(weir__health_is_down(&b.h));
    }
    assert_int_equal(b.lines, 1);
    weir__health_close(&b.h);
}

static void a_good_probe_brings_it_back_and_the_next_time_begins_anew(void **state)
{
    struct health_fixture b;

    (void)state;
    open_health_fixture(&b);
    atomic_store(&b.counts.decided, 7);
    atomic_store(&b.counts.allowed, 5);
    weir__health_failed(&b.h, "gone");
    atomic_fetch_add(&b.counts.decided, 1234);
    atomic_fetch_add(&b.counts.allowed, 1200);
    (void)await_probe(&b);
    weir__health_probed(&b.h, false, "gone");
    b.now_ns = T0 + 5200 * MS;
    assert_int_equal(await_probe(&b), 0);
    weir__health_probed(&b.h, true, NULL);
    assert_false(weir__health_is_down(&b.h));
    assert_int_equal(b.lines, 2);
    assert_string_equal(b.line[1], "redis://10.0.0.5:6379 is up after 5.2 s; 1234 decisions fell "
                                   "back, 1200 granted");
    assert_int_equal(atomic_load(&b.h.recoveries), 1);
    weir__health_failed(&b.h, "gone again");
    assert_int_equal(b.lines, 3);
    assert_int_equal(await_probe(&b), 100 * MS);
    weir__health_close(&b.h);
}

/* Goes for that reason, and is back with the first probe. Returns how long that took. */
static int64_t go_and_return(struct health_fixture *b, const char *why)
{
    int64_t took_ns;

    b->lines = 0;
    weir__health_failed(&b->h, why);
    took_ns = await_probe(b);
    weir__health_probed(&b->h, true, NULL);
    assert_false(weir__health_is_down(&b->h));
    return took_ns;
}

static void a_store_that_fails_again_is_left_alone_ever_longer(void **state)
{
    static const int64_t WAITS[] = {100 * MS, 400 * MS, 1600 * MS, 6400 * MS, 10 * S, 10 * S};
    struct health_fixture b;

    (void)state;
    open_health_fixture(&b);
    for (size_t i = 0; i < sizeof WAITS / sizeof WAITS[0]; i++) {
        char why[64];

        (void)snprintf(why, sizeof why, "OOM command not allowed, line %zu", i);
        assert_int_equal(go_and_return(&b, why), WAITS[i]);
        b.now_ns += 10 * S - 1; /* it was back for not quite long enough */
    }
    b.now_ns += 1;
    assert_int_equal(go_and_return(&b, "OOM command not allowed"), 100 * MS);
    assert_int_equal(go_and_return(&b, "OOM command not allowed"), 400 * MS);
    assert_int_equal(go_and_return(&b, "READONLY a replica"), 100 * MS); /* another reason */
    assert_int_equal(go_and_return(&b, "connection reset"), 100 * MS);   /* no answer of its own */
    assert_int_equal(go_and_return(&b, "connection reset"), 100 * MS);
    weir__health_close(&b.h);
}

/* Probes after the rest are as often as any. */
static void a_store_left_alone_is_probed_as_any_other(void **state)
{
    struct health_fixture b;

    (void)state;
    open_health_fixture(&b);
    for (int i = 0; i < 4; i++)
        (void)go_and_return(&b, "OOM");
    b.lines = 0;
    weir__health_failed(&b.h, "OOM");
    assert_int_equal(await_probe(&b), 10 * S);
    weir__health_probed(&b.h, false, "OOM");
    assert_int_equal(await_probe(&b), 200 * MS);
    weir__health_close(&b.h);
}

static void a_new_reason_is_logged_but_not_every_time(void **state)
{
    struct health_fixture b;

    (void)state;
    open_health_fixture(&b);
    weir__health_failed(&b.h, "connection refused");
    (void)await_probe(&b);
    weir__health_probed(&b.h, false, "LOADING Redis is loading the dataset in memory");
    assert_int_equal(b.lines, 1); /* it was told of just now */
    b.now_ns += 10 * S;
    (void)await_probe(&b);
    weir__health_probed(&b.h, false, "connection refused");
    assert_int_equal(b.lines, 1); /* it is told of */
    (void)await_probe(&b);
    weir__health_probed(&b.h, false, "WRONGPASS invalid username-password pair");
    assert_int_equal(b.lines, 2);
    assert_string_equal(b.line[1], "redis://10.0.0.5:6379 is still down: WRONGPASS invalid "
                                   "username-password pair");
    b.now_ns += 20 * S;
    (void)await_probe(&b);
    weir__health_probed(&b.h, false, "WRONGPASS invalid username-password pair");
    assert_int_equal(b.lines, 2);
    weir__health_close(&b.h);
}

static void the_length_of_an_outage_reads_well(void **state)
{
    static const struct {
        int64_t ns;
        const char *said;
    } ROWS[] = {{150 * MS, "150 ms"},
                {1999 * MS, "1.9 s"},
                {192 * S, "3 min 12 s"},
                {7500 * S, "2 h 5 min"}};

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char wanted[128];
        struct health_fixture b;

        open_health_fixture(&b);
        b.h.counts = NULL;
        weir__health_failed(&b.h, "gone");
        b.now_ns = T0 + ROWS[i].ns;
        assert_int_equal(await_probe(&b), 0);
        weir__health_probed(&b.h, true, NULL);
        (void)snprintf(wanted, sizeof wanted, "redis://10.0.0.5:6379 is up after %s", ROWS[i].said);
        assert_string_equal(b.line[1], wanted);
        weir__health_close(&b.h);
    }
}

static void a_lone_node_has_all_of_it_and_needs_no_listener(void **state)
{
    struct health_fixture b;

    (void)state;
    open_health_fixture(&b);
    atomic_store(&b.counts.nodes, 1);
    weir__health_failed(&b.h, "gone");
    assert_string_equal(b.line[0],
                        "redis://10.0.0.5:6379 is down: gone; limits fall back (local: all of it)");
    weir__health_close(&b.h);
    assert_int_equal(weir__health_open(&b.h, "redis://h:1", NULL), 0);
    weir__health_failed(&b.h, "gone");
    assert_true(weir__health_is_down(&b.h));
    weir__health_close(&b.h);
}

static void a_long_reason_is_cut(void **state)
{
    char why[2000];
    struct health_fixture b;

    (void)state;
    memset(why, 'x', sizeof why - 1);
    why[sizeof why - 1] = '\0';
    open_health_fixture(&b);
    weir__health_failed(&b.h, why);
    assert_int_equal(strlen(b.h.why), sizeof b.h.why - 1);
    b.now_ns += 20 * S;
    (void)await_probe(&b);
    weir__health_probed(&b.h, false, why); /* the same, as far as it is kept */
    assert_int_equal(b.lines, 1);
    weir__health_close(&b.h);
}

static void a_child_looks_for_itself(void **state)
{
    struct health_fixture b;

    (void)state;
    open_health_fixture(&b);
    weir__health_failed(&b.h, "gone");
    (void)await_probe(&b); /* the parent's is out */
    weir__health_forked(&b.h);
    assert_false(weir__health_is_down(&b.h));
    weir__health_failed(&b.h, "gone");
    assert_true(weir__health_is_down(&b.h));
    assert_int_equal(await_probe(&b), 100 * MS);
    weir__health_close(&b.h);
}

/* ---- Many at once -------------------------------------------------------------------------- */

static _Atomic int said;

static void count_line(void *arg, const char *line)
{
    (void)arg;
    (void)line;
    atomic_fetch_add(&said, 1);
}

static void *fail_often(void *arg)
{
    for (int i = 0; i < 1000; i++)
        weir__health_failed(arg, "gone");
    return NULL;
}

static void of_many_failures_at_once_one_is_logged(void **state)
{
    const struct weir_log log = {count_line, NULL};
    struct weir__health h;
    pthread_t thread[8];

    (void)state;
    assert_int_equal(weir__health_open(&h, "redis://h:1", &log), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, fail_often, &h), 0);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&said), 1);
    assert_int_equal(atomic_load(&h.outages), 1);
    assert_int_equal(atomic_load(&h.failures), 8000);
    weir__health_close(&h);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(one_failure_makes_the_store_down_for_every_caller),
    cmocka_unit_test(probes_go_out_one_by_one_and_ever_less_often),
    cmocka_unit_test(a_good_probe_brings_it_back_and_the_next_time_begins_anew),
    cmocka_unit_test(a_store_that_fails_again_is_left_alone_ever_longer),
    cmocka_unit_test(a_store_left_alone_is_probed_as_any_other),
    cmocka_unit_test(a_new_reason_is_logged_but_not_every_time),
    cmocka_unit_test(the_length_of_an_outage_reads_well),
    cmocka_unit_test(a_lone_node_has_all_of_it_and_needs_no_listener),
    cmocka_unit_test(a_long_reason_is_cut),
    cmocka_unit_test(a_child_looks_for_itself),
    cmocka_unit_test(of_many_failures_at_once_one_is_logged),
};

RUN("remote health", TESTS)
