/* Unit tests of the clock. */
#include "check.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"

/* ---- Lines ----------------------------------------------------------------------------------- */

/* A counter as the tests imagine one: it counts a given number of ticks in a second of the true
 * time. */
struct counter {
    uint64_t ticks, per_second;
    int64_t true_ns;
};

static void pass(struct counter *c, int64_t ns)
{
    c->true_ns += ns;
    c->ticks += (uint64_t)((weir__u128)(uint64_t)ns * c->per_second / 1000000000U);
}

static struct weir__tick_sample look(const struct counter *c)
{
    return (struct weir__tick_sample){.ticks = c->ticks, .width = 60, .ns = c->true_ns};
}

static int64_t at(const struct weir__tick_line *l, const struct counter *c)
{
    return weir__tick_line_at(l->ns, l->rate, c->ticks - l->from);
}

static struct weir__tick_line first_line(struct counter *c, struct weir__tick_sample *last)
{
    const struct weir__tick_line none = weir__tick_line_none(0);
    const struct weir__tick_sample before = look(c);

    pass(c, 20000000);
    *last = look(c);
    return weir__tick_line_first(&none, &before, last);
}

static bool has_ended(const struct weir__tick_line *l, const struct counter *c)
{
    return c->ticks - l->from >= l->span;
}

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return *seed >> 33;
}

static void lines_go_on_without_going_back(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t chance = seed;
        struct counter c = {.ticks = draw(&chance), .per_second = 1100000000 + draw(&chance)};
        const int64_t drift = (int64_t)(draw(&chance) % 400000) - 200000; /* in 10^9, each second */
        struct weir__tick_sample last, now;
        struct weir__tick_line l = first_line(&c, &last);
        int64_t before = 0;

        assert_true(l.span > 0);
        for (int i = 0; i < 2000; i++) {
            pass(&c, (int64_t)(draw(&chance) % 20000000));
            if (has_ended(&l, &c)) {
                now = look(&c);
                l = weir__tick_line_next(&l, &last, &now);
                last = now;
                assert_true(l.span > 0);
                /* a slow drift, as of a crystal in the sun, and a reading that is off a little */
                c.per_second += c.per_second * (uint64_t)(drift + 200000) / 1000000000 / 100;
            }
            assert_true(at(&l, &c) >= before);
            before = at(&l, &c);
            assert_in_range(before, c.true_ns - 20000, c.true_ns + 20000);
        }
    }
}

static void an_error_is_worked_off_within_a_second(void **state)
{
    static const int64_t ERRORS_NS[] = {-900000, -400000, 500, 500000, 3000000};

    (void)state;
    for (size_t i = 0; i < sizeof ERRORS_NS / sizeof ERRORS_NS[0]; i++) {
        struct counter c = {.ticks = 77, .per_second = 2800000000};
        struct weir__tick_sample last, now;
        struct weir__tick_line l = first_line(&c, &last);
        int64_t end;

        l.ns += ERRORS_NS[i];
        l.rate = l.measured;
        end = weir__tick_line_end(&l);
        pass(&c, 1000000000);
        now = look(&c);
        l = weir__tick_line_next(&l, &last, &now);
        assert_int_equal(l.ns, end);
        pass(&c, 500000000);
        assert_in_range(at(&l, &c) - c.true_ns - ERRORS_NS[i] / 2 + 5000, 0, 10000);
        pass(&c, 500000000);
        assert_in_range(at(&l, &c) - c.true_ns + 5000, 0, 10000);
    }
}

static void a_line_that_lags_far_steps_on(void **state)
{
    struct counter c = {.ticks = 77, .per_second = 2800000000};
    struct weir__tick_sample last, now;
    struct weir__tick_line l = first_line(&c, &last);

    (void)state;
    l.ns -= 1100000;
    pass(&c, 1000000000);
    now = look(&c);
    l = weir__tick_line_next(&l, &last, &now);
    assert_int_equal(at(&l, &c), c.true_ns);
}

static void after_idleness_a_line_begins_at_the_truth(void **state)
{
    struct counter c = {.ticks = 77, .per_second = 2800000000};
    struct weir__tick_sample last, now;
    struct weir__tick_line l = first_line(&c, &last);

    (void)state;
    pass(&c, INT64_C(3600000000000));
    now = look(&c);
    l = weir__tick_line_next(&l, &last, &now);
    assert_int_equal(at(&l, &c), c.true_ns);
    assert_int_equal(l.from, c.ticks);
}

static void a_counter_that_fails_is_left(void **state)
{
    static const struct {
        const char *what;
        int64_t ns_pass, ns_slept, ticks_lost;
    } ROWS[] = {
        {"the machine slept and the counter with it", 1000000000, INT64_C(3600000000000), 0},
        {"the counter jumped on", 1000000000, 0, -INT64_C(300000000000)},
        {"the counter went back", 1000000000, 0, INT64_C(90000000000)},
        {"the counter stands", 1000000000, 0, INT64_C(2800000000)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct counter c = {.ticks = UINT64_C(1) << 40, .per_second = 2800000000};
        struct weir__tick_sample last, now;
        struct weir__tick_line l = first_line(&c, &last);
        const int64_t end = weir__tick_line_end(&l);

        print_message("  %s\n", ROWS[i].what);
        pass(&c, ROWS[i].ns_pass);
        c.true_ns += ROWS[i].ns_slept;
        c.ticks -= (uint64_t)ROWS[i].ticks_lost;
        now = look(&c);
        l = weir__tick_line_next(&l, &last, &now);
        assert_int_equal(l.span, 0);
        assert_int_equal(l.ns, end); /* no time below it, all the same */
    }
}

static void no_line_is_drawn_from_samples_that_are_too_close(void **state)
{
    static const struct {
        const char *what;
        struct weir__tick_sample a, b;
    } ROWS[] = {
        {"too near for how unsure they are", {1000, 90, 1000}, {29000, 90, 11000}},
        {"a counter of less than 1 GHz", {0, 1, 0}, {10000000, 1, 20000000}},
        {"one that stands", {1000, 1, 0}, {1000, 1, 20000000}},
        {"time that stands", {1000, 1, 500}, {56000000, 1, 500}},
    };
    const struct weir__tick_line none = weir__tick_line_none(42);

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const struct weir__tick_line l = weir__tick_line_first(&none, &ROWS[i].a, &ROWS[i].b);

        print_message("  %s\n", ROWS[i].what);
        assert_int_equal(l.span, 0);
        assert_int_equal(l.ns, 42);
    }
}

/* ---- The clock ------------------------------------------------------------------------------- */

#define STRAY_NS (2 * WEIR__TICK_LINE_STRAY_NS)

static int64_t read_clock(clockid_t id)
{
    struct timespec t;

    assert_int_equal(clock_gettime(id, &t), 0);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static void counts_from_the_epoch_with_the_boot_clock(void **state)
{
    const int64_t until = weir__clock_now() + 100000000; /* past the first line's beginning */

    (void)state;
    while (weir__clock_now() < until) {
        const int64_t before = read_clock(CLOCK_BOOTTIME);
        const int64_t now = weir__clock_now() - weir__clock_offset();
        const int64_t after = read_clock(CLOCK_BOOTTIME);

        assert_true(now >= before - STRAY_NS);
        assert_true(now <= after + STRAY_NS);
    }
    assert_in_range(weir__clock_now(), INT64_C(1600000000000000000), WEIR__NOW_MAX);
}

static void the_wall_clock_belongs_to_now(void **state)
{
    const int64_t before = read_clock(CLOCK_REALTIME);
    const int64_t wall = weir__clock_wall(weir__clock_now());
    const int64_t after = read_clock(CLOCK_REALTIME);

    (void)state;
    assert_in_range(wall, before - 10000000, after + 10000000);
}

static void never_goes_back_in_one_thread(void **state)
{
    const int64_t until = read_clock(CLOCK_MONOTONIC) + 100000000;
    int64_t last = 0;

    (void)state;
    while (read_clock(CLOCK_MONOTONIC) < until) {
        for (int i = 0; i < 1000; i++) {
            const int64_t now = weir__clock_now();

            assert_true(now >= last);
            last = now;
        }
    }
}

/* Long enough for the line to be replaced once or twice under the readers. */
#define RACE_NS 1200000000

/* What was loaded before is known before the clock is read. */
static void order_readings(void)
{
#if defined(__x86_64__)
    __builtin_ia32_lfence();
#endif
}

struct race {
    _Atomic int64_t latest_ns;
    _Atomic int64_t worst_ns;
};

static void *race(void *arg)
{
    struct race *r = arg;
    const int64_t until = read_clock(CLOCK_MONOTONIC) + RACE_NS;

    while (read_clock(CLOCK_MONOTONIC) < until) {
        for (int i = 0; i < 500; i++) {
            int64_t latest = atomic_load(&r->latest_ns);
            int64_t now;

            order_readings();
            now = weir__clock_now();
            if (latest - now > atomic_load(&r->worst_ns))
                atomic_store(&r->worst_ns, latest - now);
            while (now > latest && !atomic_compare_exchange_weak(&r->latest_ns, &latest, now))
                continue;
        }
    }
    return NULL;
}

static void never_goes_back_between_threads(void **state)
{
    struct race r = {0};
    pthread_t thread[4];

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, race, &r), 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_int_equal(atomic_load(&r.worst_ns), 0);
}

static void goes_on_in_a_child(void **state)
{
    const int64_t before = weir__clock_now(), offset = weir__clock_offset();
    const pid_t child = fork();
    int status;

    (void)state;
    if (child == 0) {
        const int64_t now = weir__clock_now();

        _exit(now >= before && now < before + INT64_C(60000000000) && weir__clock_offset() == offset
                  ? 0
                  : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

static void sleeps_no_less_than_asked(void **state)
{
    (void)state;
    for (int64_t ns = 1; ns < 5000000; ns *= 7) {
        const int64_t until = weir__clock_now() + ns;

        assert_int_equal(weir__clock_sleep(until), 0);
        assert_true(weir__clock_now() >= until);
    }
    assert_int_equal(weir__clock_sleep(0), 0);
}

static void on_alarm(int number)
{
    (void)number;
}

static void a_signal_ends_a_sleep(void **state)
{
    const struct sigaction restarting = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    const struct itimerspec soon = {.it_value = {.tv_nsec = 2000000}, .it_interval = {0, 2000000}};
    const struct itimerspec off = {0};
    timer_t timer;

    (void)state;
    assert_int_equal(sigaction(SIGALRM, &restarting, NULL), 0);
    assert_int_equal(timer_create(CLOCK_MONOTONIC, NULL, &timer), 0);
    assert_int_equal(timer_settime(timer, 0, &soon, NULL), 0);
    assert_int_equal(weir__clock_sleep(weir__clock_now() + INT64_C(60000000000)), EINTR);
    assert_int_equal(timer_settime(timer, 0, &off, NULL), 0);
    assert_int_equal(timer_delete(timer), 0);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(lines_go_on_without_going_back),
    cmocka_unit_test(an_error_is_worked_off_within_a_second),
    cmocka_unit_test(a_line_that_lags_far_steps_on),
    cmocka_unit_test(after_idleness_a_line_begins_at_the_truth),
    cmocka_unit_test(a_counter_that_fails_is_left),
    cmocka_unit_test(no_line_is_drawn_from_samples_that_are_too_close),
    cmocka_unit_test(counts_from_the_epoch_with_the_boot_clock),
    cmocka_unit_test(the_wall_clock_belongs_to_now),
    cmocka_unit_test(never_goes_back_in_one_thread),
    cmocka_unit_test(never_goes_back_between_threads),
    cmocka_unit_test(goes_on_in_a_child),
    cmocka_unit_test(sleeps_no_less_than_asked),
    cmocka_unit_test(a_signal_ends_a_sleep),
};

RUN("clock", TESTS)
