/* Waits in a store that has no place to give: each keeps its deadline, hears signals, and is told
 * what a take would be told.
 *
 * The store is filled with calls in flight, whose keys are never evicted. Time is a clock that
 * sleepers move, so a wait that neither sleeps nor returns never ends: an alarm then ends the
 * program.
 */
#include "virtual_clock.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/engine.h"

#define MS      INT64_C(1000000)
#define CALLS   4000         /* many times more than the smallest table has places for */
#define LATE_NS (3 * SECOND) /* a machine may be busy; a wait that is stuck is later than that */
#define STUCK_S 60           /* a test that takes longer does not end */

static const enum weir_full EVERY_FULL[] = {WEIR_FULL_EVICT, WEIR_FULL_DENY, WEIR_FULL_ALLOW};

/* ---- A store full of calls in flight ------------------------------------------------------- */

struct full_store {
    struct virtual_clock time;
    struct weir *w;
    struct weir_policy *calls;
    struct weir_ticket ticket[CALLS];
};

static struct weir_request of_number(struct weir_policy *p, const uint32_t *key, int64_t cost,
                                     int64_t patience_ns)
{
    return (struct weir_request){p, key, sizeof *key, cost, patience_ns};
}

/* Enters `n` keys, as far as there is a place. */
static void fill(struct full_store *c, uint64_t max_keys, enum weir_full full, uint32_t n)
{
    const struct weir_clock clock = {virtual_clock_now, virtual_clock_sleep, &c->time};
    const struct weir_options o = {.max_keys = max_keys, .full = full, .clock = &clock};

    memset(c, 0, sizeof *c);
    c->time.now_ns = T0;
    c->w = backend_open(&o);
    c->calls = backend_policy(c->w, "calls", "concurrency 10", T0);
    for (uint32_t i = 0; i < n; i++) {
        const struct weir_request rq = of_number(c->calls, &i, 1, 0);
        struct weir_verdict v;

        assert_int_equal(weir_enter(c->w, &rq, &c->ticket[i], &v), 0);
    }
}

static struct full_store crowd;

/* ---- Deadlines ----------------------------------------------------------------------------- */

/* 145 calls of as many clients in a store for 100: the wait of a newcomer that finds all places
 * held. */
static void a_wait_that_finds_no_place_keeps_its_deadline(void **state)
{
    static const char *const LIMITS[] = {
        "fixed-window 5/1h", "token-bucket 5/1h",
        "fixed-window 5/1h + token-bucket 5/1h + leaky-bucket 5/1h + fixed-window 9/day"};
    int refused = 0;

    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_FULL) * LENGTH(LIMITS); i++) {
        struct weir_policy *p;

        fill(&crowd, 100, EVERY_FULL[i % LENGTH(EVERY_FULL)], 145);
        p = backend_policy(crowd.w, "p", LIMITS[i / LENGTH(EVERY_FULL)], T0);
        for (uint32_t key = 0; key < 500; key++) {
            const struct weir_request rq = of_number(p, &key, 1, 0);
            const int64_t began_ns = crowd.time.now_ns;
            struct weir_verdict v;

            assert_int_equal(weir_wait(crowd.w, &rq, began_ns + 100 * MS, &v), 0);
            assert_true(crowd.time.now_ns <= began_ns + 100 * MS);
            refused += !v.allowed && v.reason == WEIR_FULL;
            /* Where keys may do without a place, strangers' debts can refuse one for long. */
            assert_true(v.allowed || v.reason == WEIR_FULL || v.overflow);
        }
        backend_close(crowd.w);
    }
    assert_true(refused > 0);
}

/* What a waiter does that was refused, and then told this by a peek. */
static void a_waiter_asks_again_before_its_deadline_and_not_at_once(void **state)
{
    static const struct {
        const char *sentence;
        bool allowed;
        int64_t retry_ns, deadline_ns;
        int refuted;
        int64_t again_ns; /* from now; -1: never */
    } ROWS[] = {
        {"when it can pass", false, 7, 100, 0, 7},
        {"at the very end", false, 100, 100, 0, 100},
        {"not beyond it", false, 101, 100, 0, -1},
        {"never, if it never can", false, -1, WEIR_FOREVER - T0, 0, -1},
        {"soon, if the peek would grant", true, 0, SECOND, 0, MS},
        {"later, if it said so before", true, 0, SECOND, 3, 8 * MS},
        {"within a second at most", true, 0, HOUR, 1000, SECOND},
        {"for the last time at its deadline", true, 0, 100, 0, 100},
        {"not after it", true, 0, 0, 0, -1},
        {"not long after it", true, 0, -HOUR, 0, -1},
        {"soon, if the time is not known", false, 0, SECOND, 0, MS},
        {"for ever, if it may", true, 0, WEIR_FOREVER - T0, 0, MS},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        const struct weir_verdict without = {.allowed = ROWS[i].allowed,
                                             .retry_after_ns = ROWS[i].retry_ns};
        struct weir__retry again = {.refuted = ROWS[i].refuted};

        print_message("  %s\n", ROWS[i].sentence);
        weir__retry_plan(&again, &without, T0, T0 + ROWS[i].deadline_ns);
        assert_int_equal(again.at_ns, ROWS[i].again_ns < 0 ? -1 : T0 + ROWS[i].again_ns);
    }
}

/* A caller of any patience is served once the calls in flight have gone. */
static int leave_then_sleep(void *arg, int64_t until_ns)
{
    struct full_store *c = arg;

    if (++c->time.sleeps == 3)
        for (uint32_t i = 0; i < CALLS; i++)
            assert_int_equal(weir_exit(c->w, &c->ticket[i], WEIR_SUCCESS), 0);
    if (until_ns > c->time.now_ns)
        c->time.now_ns = until_ns;
    return 0;
}

static int64_t crowd_now(void *arg)
{
    return ((struct full_store *)arg)->time.now_ns;
}

static void a_waiter_for_a_place_gets_it_when_calls_end(void **state)
{
    const struct weir_clock clock = {crowd_now, leave_then_sleep, &crowd};
    struct weir_policy *p;
    int waited = 0;

    (void)state;
    for (size_t i = 0; i < 2; i++)
        for (uint32_t key = CALLS; key < CALLS + 8; key++) {
            const struct weir_options o = {.max_keys = 1, .full = EVERY_FULL[i], .clock = &clock};
            struct weir_request rq;
            struct weir_verdict v;

            memset(&crowd, 0, sizeof crowd);
            crowd.time.now_ns = T0;
            crowd.w = backend_open(&o);
            crowd.calls = backend_policy(crowd.w, "calls", "concurrency 10", T0);
            for (uint32_t n = 0; n < 500; n++) {
                rq = of_number(crowd.calls, &n, 1, 0);
                assert_int_equal(weir_enter(crowd.w, &rq, &crowd.ticket[n], &v), 0);
            }
            p = backend_policy(crowd.w, "p", "fixed-window 5/1h", T0);
            rq = of_number(p, &key, 1, 0);
            assert_int_equal(weir_wait(crowd.w, &rq, WEIR_FOREVER, &v), 0);
            assert_true(v.allowed && v.reason == WEIR_OK);
            waited += crowd.time.sleeps > 0;
            backend_close(crowd.w);
        }
    assert_true(waited > 0);
}

/* A signal wakes a waiter for a place, and leaves no trace. */
static void a_wait_for_a_place_hears_signals(void **state)
{
    int heard = 0;

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        struct weir_policy *p;

        fill(&crowd, 1, EVERY_FULL[i], CALLS);
        p = backend_policy(crowd.w, "p", "fixed-window 5/1h full=deny", T0);
        for (uint32_t key = 0; key < 100; key++) {
            const struct weir_request rq = of_number(p, &key, 1, 0);
            struct weir_verdict v;
            int error;

            crowd.time.disturbed = crowd.time.sleeps + 2;
            smear(&v, sizeof v);
            error = weir_wait(crowd.w, &rq, WEIR_FOREVER, &v);
            assert_int_equal(error, WEIR_EINTR);
            untouched(&v, sizeof v);
            heard++;
        }
        backend_close(crowd.w);
    }
    assert_true(heard > 0);
}

/* Every third reading is a little behind the one before. */
static int64_t now_with_steps_back(void *arg)
{
    struct virtual_clock *d = arg;

    return d->now_ns - (++d->late_ns % 3 == 0 ? 10 * MS : 0);
}

static int sleep_a_while(void *arg, int64_t until_ns)
{
    struct virtual_clock *d = arg;

    assert_true(++d->sleeps < 100000);
    d->now_ns = until_ns > d->now_ns ? until_ns : d->now_ns;
    return 0;
}

static void a_clock_that_steps_back_ends_no_wait_early_and_keeps_none_for_ever(void **state)
{
    static const char *const LIMITS[] = {"fixed-window 1/1s", "token-bucket 1/s burst=1",
                                         "sliding-log 1/1s", "pacer 1/s", "sliding-counter 1/1s"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct virtual_clock d = {.now_ns = T0};
        const struct weir_clock clock = {now_with_steps_back, sleep_a_while, &d};
        struct weir *w = backend_open(&(struct weir_options){.clock = &clock});
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], T0);
        int64_t granted_ns = T0;

        assert_true(take(w, p, "k", 1, T0).allowed);
        for (int n = 0; n < 20; n++) {
            const struct weir_request rq = request_for(p, "k", 1, 0);
            struct weir_verdict v;

            d.now_ns = granted_ns;
            assert_int_equal(weir_wait(w, &rq, d.now_ns + 5 * SECOND, &v), 0);
            assert_true(v.allowed);
            assert_true(d.now_ns >= granted_ns + SECOND - 20 * MS);
            assert_true(d.now_ns <= granted_ns + 5 * SECOND);
            granted_ns = d.now_ns;
        }
        backend_close(w);
    }
}

/* ---- A file whose holder stands still ------------------------------------------------------ */

static int64_t mono_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* A child that holds the buckets of the key and stands still. */
static pid_t stop_holder(struct weir *w, struct weir_policy *p, const struct weir_request *rq)
{
    int status;
    const pid_t child = fork();

    assert_true(child >= 0);
    if (child == 0) {
        struct weir__compiled_term *c = &atomic_load(&p->revision)->term[0];
        struct weir__owner *owner = weir__store_owner(w->store);
        struct weir__access h;
        const int n = owner ? weir__table_candidates(c->table, weir__fingerprint(c, rq), &h) : 0;

        for (int i = 0; i < n; i++) {
            weir__journal_intend(owner, i, weir__bucket_lock(h.bucket[i]));
            if (weir__lock_take(weir__bucket_lock(h.bucket[i]), owner) != 0)
                _exit(1);
        }
        (void)raise(SIGSTOP);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, WUNTRACED), child);
    assert_true(WIFSTOPPED(status));
    return child;
}

static void end_holder(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

/* Real time: the patience with a holder is. */
static void a_wait_for_a_key_that_a_stopped_process_holds_keeps_its_deadline(void **state)
{
    static const struct {
        const char *limit;
        int error;
        bool allowed, until_deadline;
    } ROWS[] = {
        {"fixed-window 1/1h", WEIR_EBUSY, false, false},
        {"token-bucket 1/1h", WEIR_EBUSY, false, false},
        {"fixed-window 1/1h fallback=deny", 0, false, true},
        {"token-bucket 1/1h fallback=deny", 0, false, true},
        {"fixed-window 1/1h fallback=allow", 0, true, false},
    };

    (void)state;
    if (strcmp(backend_kind(), "file:") != 0)
        return;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = backend_open(&(struct weir_options){.max_keys = 100});
        struct weir_policy *p = backend_policy(w, "p", ROWS[i].limit, weir_now(NULL));
        const struct weir_request rq = request_for(p, "k", 1, 0);
        const pid_t holder = stop_holder(w, p, &rq);
        const int64_t began_ns = mono_ns();
        struct weir_verdict v = {0};
        int64_t took_ns;

        print_message("  %s\n", ROWS[i].limit);
        assert_int_equal(weir_wait(w, &rq, weir_now(w) + 300 * MS, &v), ROWS[i].error);
        took_ns = mono_ns() - began_ns;
        assert_int_equal(v.allowed, ROWS[i].allowed);
        assert_true(took_ns < 300 * MS + LATE_NS);
        if (ROWS[i].until_deadline)
            assert_true(took_ns >= 250 * MS && v.reason == WEIR_FALLBACK);
        end_holder(holder);
        assert_int_equal(weir_wait(w, &rq, weir_now(w) + SECOND, &v), 0);
        assert_true(v.allowed && v.reason == WEIR_OK);
        backend_close(w);
    }
}

static void an_entry_that_a_stopped_process_holds_up_keeps_its_deadline(void **state)
{
    struct weir *w;
    struct weir_policy *p;
    struct weir_request rq;
    struct weir_ticket in, t;
    struct weir_verdict v;
    int64_t began_ns;
    pid_t holder;

    (void)state;
    if (strcmp(backend_kind(), "file:") != 0)
        return;
    w = backend_open(&(struct weir_options){.max_keys = 100});
    p = backend_policy(w, "p", "concurrency 1 queue=5 max-wait=300ms", weir_now(NULL));
    rq = request_for(p, "k", 1, WEIR_WAIT_DEFAULT);
    assert_int_equal(weir_enter(w, &rq, &in, &v), 0);
    assert_true(v.allowed);
    began_ns = mono_ns();
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
    assert_false(v.allowed);
    assert_true(mono_ns() - began_ns >= 300 * MS && mono_ns() - began_ns < 300 * MS + LATE_NS);
    holder = stop_holder(w, p, &rq);
    began_ns = mono_ns();
    assert_int_equal(weir_enter(w, &rq, &t, &v), WEIR_EBUSY);
    assert_int_equal(weir_exit(w, &in, WEIR_SUCCESS), WEIR_EBUSY);
    assert_true(mono_ns() - began_ns < LATE_NS);
    end_holder(holder);
    assert_int_equal(weir_exit(w, &in, WEIR_SUCCESS), 0);
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
    assert_true(v.allowed);
    backend_close(w);
}

/* ---- Peek and take ------------------------------------------------------------------------- */

struct wait_answer {
    const char *limit;
    int64_t cost, patience_ns;
};

/* `moves`: a key may have to be moved for each of several newcomers. Only the caller that moves
 * them knows whether that goes for all, so there a peek may differ in that. */
static void agree(struct weir *w, const struct weir_request *rq, int64_t now_ns, bool moves,
                  int *full)
{
    struct weir_verdict peeked, taken;

    assert_int_equal(weir_peek_at(w, rq, now_ns, &peeked), 0);
    assert_int_equal(weir_take_at(w, rq, now_ns, &taken), 0);
    *full += taken.reason == WEIR_FULL;
    if (moves && (taken.reason == WEIR_FULL || peeked.reason == WEIR_FULL))
        return;
    same_verdict(&peeked, &taken);
}

/* In a store that calls in flight fill, almost or wholly, and at each step of its filling. */
static void peek_says_what_take_would_where_there_is_no_place(void **state)
{
    static const struct wait_answer ROWS[] = {
        {"fixed-window 5/1h", 1, 0},
        {"fixed-window 5/1h", 6, 0},
        {"token-bucket 5/1h", 2, WEIR_FOREVER},
        {"fixed-window 2/1h count-denied", 3, 0},
        {"fixed-window 5/1h shadow", 1, 0},
        {"fixed-window 5/1h + token-bucket 5/1h", 1, 0},
        {"pacer 5/1h + min-interval 1s + fixed-window 3/1h", 1, WEIR_WAIT_DEFAULT},
        {"fixed-window 5/1h + token-bucket 5/1h + leaky-bucket 5/1h + fixed-window 9/day", 1, 0},
    };

    const uint32_t step =
        strcmp(backend_kind(), "file:") == 0 ? 50 : 5; /* a file takes long to make */

    (void)state;
    for (size_t f = 0; f < LENGTH(EVERY_FULL); f++) {
        int full = 0;

        for (uint32_t calls = 0; calls <= 200; calls += step)
            for (size_t i = 0; i < LENGTH(ROWS); i++) {
                const bool moves = EVERY_FULL[f] == WEIR_FULL_EVICT && strchr(ROWS[i].limit, '+') &&
                                   strcmp(backend_kind(), "file:") != 0;
                struct weir_policy *p;

                fill(&crowd, calls % 2 ? 1 : 60, EVERY_FULL[f], calls);
                p = backend_policy(crowd.w, "p", ROWS[i].limit, T0);
                for (uint32_t n = 0; n < 80; n++) {
                    const uint32_t key = n % 40;
                    const struct weir_request rq =
                        of_number(p, &key, ROWS[i].cost, ROWS[i].patience_ns);

                    agree(crowd.w, &rq, T0 + (n < 40 ? n * MS : HOUR), moves, &full);
                }
                backend_close(crowd.w);
            }
        assert_true(full > 0);
    }
}

/* The same for a caller that enters. */
static void peek_says_what_enter_would_where_there_is_no_place(void **state)
{
    static const char *const LIMITS[] = {"concurrency 10", "concurrency 1",
                                         "concurrency 10 lease=1m", "concurrency 10 + breaker",
                                         "concurrency 10 + fixed-window 5/1h"};

    (void)state;
    for (size_t f = 0; f < LENGTH(EVERY_FULL); f++)
        for (size_t i = 0; i < LENGTH(LIMITS); i++) {
            struct weir_policy *p;
            int full = 0;

            fill(&crowd, 1, EVERY_FULL[f], 40);
            p = backend_policy(crowd.w, "p", LIMITS[i], T0);
            for (uint32_t key = 0; key < 400; key++) {
                const struct weir_request rq = of_number(p, &key, 1, 0);
                struct weir_verdict peeked, entered;
                struct weir_ticket t;

                assert_int_equal(weir_peek(crowd.w, &rq, &peeked), 0);
                assert_int_equal(weir_enter(crowd.w, &rq, &t, &entered), 0);
                same_verdict(&peeked, &entered);
                full += entered.reason == WEIR_FULL;
            }
            print_message("  %s: %d without a place\n", LIMITS[i], full);
            backend_close(crowd.w);
        }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(peek_says_what_take_would_where_there_is_no_place),
    cmocka_unit_test(peek_says_what_enter_would_where_there_is_no_place),
    cmocka_unit_test(a_wait_that_finds_no_place_keeps_its_deadline),
    cmocka_unit_test(a_waiter_asks_again_before_its_deadline_and_not_at_once),
    cmocka_unit_test(a_waiter_for_a_place_gets_it_when_calls_end),
    cmocka_unit_test(a_wait_for_a_place_hears_signals),
    cmocka_unit_test(a_clock_that_steps_back_ends_no_wait_early_and_keeps_none_for_ever),
    cmocka_unit_test(a_wait_for_a_key_that_a_stopped_process_holds_keeps_its_deadline),
    cmocka_unit_test(an_entry_that_a_stopped_process_holds_up_keeps_its_deadline),
};

int main(int argc, char **argv)
{
    const int all = (int)LENGTH(TESTS);
    int failed;

    if (argc > 1 && !backend_choose(argv[1]))
        return 2;
    (void)alarm(STUCK_S * (UNDER_ASAN || UNDER_TSAN ? 5 : 1));
    failed = cmocka_run_group_tests_name("deadlines", TESTS, NULL, NULL);
    (void)printf("deadlines (%s): %d passed, %d failed\n", backend_kind(), all - failed, failed);
    return failed != 0;
}
