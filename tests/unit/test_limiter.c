/* Unit tests of limiters. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#include "engine/limiter/limiter.h"

#define S  INT64_C(1000000000)
#define MS INT64_C(1000000)
/* Some moment, on a timeline of the tests' own. */
#define T0 (INT64_C(2000000000) * S)

static struct weir_limiter *limiter(const char *text)
{
    struct weir_limiter *l;
    struct weir_diag why = {0};

    if (weir_limiter_open(&l, text, &why) != 0)
        fail_msg("%s: %s", text, why.text);
    return l;
}

/* Created at T0: a limit of another algorithm is created when it comes into force. */
static struct weir_limiter *limiter_created(const char *text)
{
    const bool is_interval = strncmp(text, "min-interval", 12) == 0;
    struct weir_limiter *l = limiter(is_interval ? "1/s" : "min-interval 1s");

    assert_int_equal(weir_limiter_change_at(l, text, T0, NULL), 0);
    return l;
}

static struct weir_verdict take_at(struct weir_limiter *l, int64_t cost, int64_t patience_ns,
                                   int64_t now_ns)
{
    struct weir_verdict v;

    assert_int_equal(weir_limiter_take_at(l, cost, patience_ns, now_ns, &v), 0);
    return v;
}

static struct weir_verdict peek_at(struct weir_limiter *l, int64_t cost, int64_t patience_ns,
                                   int64_t now_ns)
{
    struct weir_verdict v;

    assert_int_equal(weir_limiter_peek_at(l, cost, patience_ns, now_ns, &v), 0);
    return v;
}

static void assert_same(const struct weir_verdict *a, const struct weir_verdict *b)
{
    assert_int_equal(a->allowed, b->allowed);
    assert_int_equal(a->reason, b->reason);
    assert_int_equal(a->which, b->which);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->wait_ns, b->wait_ns);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
}

static uint64_t draw(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005U + 1442695040888963407U;
    return *seed >> 33;
}

/* ---- One thread ------------------------------------------------------------------------------ */

static void three_lines_serve_a_burst_and_then_the_rate(void **state)
{
    struct weir_limiter *api;
    const int64_t begin = weir__clock_now();
    int served = 0;
    int64_t took;

    (void)state;
    assert_int_equal(weir_limiter_open(&api, "token-bucket 100/s burst=20", NULL), 0);
    for (int i = 0; i < 30; i++)
        served += weir_limiter_allow(api);
    took = weir__clock_now() - begin;
    weir_limiter_close(api);
    assert_in_range(served, 20, 20 + took / (10 * MS) + 1);
}

static void answers_are_those_of_the_algorithm(void **state)
{
    static const struct {
        const char *limit;
        int64_t cost, patience_ns, now_ns;
        bool allowed;
        int64_t remaining, wait_ns, retry_ns;
    } ROWS[] = {
        {"token-bucket 10/s burst=5", 5, 0, T0, true, 0, 0, 0},
        {NULL, 1, 0, T0, false, 0, 0, 100 * MS},
        {NULL, 1, 0, T0 + 100 * MS - 1, false, 0, 0, 1},
        {NULL, 1, 0, T0 + 100 * MS, true, 0, 0, 0},
        {NULL, 2, S, T0 + 100 * MS, true, 0, 200 * MS, 0},
        {NULL, 0, 0, T0 + 100 * MS, true, 0, 0, 0},
        {NULL, 6, WEIR_FOREVER, T0 + 9 * S, false, 5, 0, -1},
        {"pacer 10/s", 1, WEIR_WAIT_DEFAULT, T0, true, 0, 0, 0},
        {NULL, 1, WEIR_WAIT_DEFAULT, T0, true, 0, 100 * MS, 0},
        {NULL, 1, 0, T0, false, 0, 0, 200 * MS},
        {"fixed-window 2/1m", 2, 0, T0, true, 0, 0, 0},
        {NULL, 1, 0, T0 + S, false, 0, 0, 59 * S},
        {"fixed-window 2/day", 2, 0, INT64_C(86400) * 20000 * S + S, true, 0, 0, 0},
        {NULL, 1, 0, INT64_C(86400) * 20000 * S + 2 * S, false, 0, 0, INT64_C(86398) * S},
        {"sliding-log 2/10s", 1, 0, T0, true, 1, 0, 0},
        {NULL, 1, 0, T0 + S, true, 0, 0, 0},
        {NULL, 1, 0, T0 + 2 * S, false, 0, 0, 8 * S},
        {"10/s burst=9 + fixed-window 3/1m", 3, 0, T0, true, 0, 0, 0},
        {NULL, 1, 0, T0, false, 0, 0, 60 * S},
        {"fixed-window 1/1m shadow", 1, 0, T0, true, 0, 0, 0},
        {NULL, 1, 0, T0, true, 0, 0, 0},
    };
    struct weir_limiter *l = NULL;

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct weir_verdict v, first;

        if (ROWS[i].limit) {
            weir_limiter_close(l);
            l = limiter_created(ROWS[i].limit);
        }
        print_message("  row %zu, %s\n", i, ROWS[i].limit ? ROWS[i].limit : "\"");
        first = peek_at(l, ROWS[i].cost, ROWS[i].patience_ns, ROWS[i].now_ns);
        v = take_at(l, ROWS[i].cost, ROWS[i].patience_ns, ROWS[i].now_ns);
        assert_same(&v, &first);
        assert_int_equal(v.allowed, ROWS[i].allowed);
        assert_int_equal(v.remaining, ROWS[i].remaining);
        assert_int_equal(v.wait_ns, ROWS[i].wait_ns);
        assert_int_equal(v.retry_after_ns, ROWS[i].retry_ns);
    }
    weir_limiter_close(l);
}

static void a_refusal_names_its_term(void **state)
{
    struct weir_limiter *l = limiter_created("100/s burst=50 + fixed-window 1/1m");
    struct weir_limiter *one = limiter_created("1/s");

    (void)state;
    assert_int_equal(take_at(l, 1, 0, T0).which, -1);
    assert_int_equal(take_at(l, 1, 0, T0).which, 1);
    assert_int_equal(take_at(one, 1, 0, T0).which, -1);
    assert_int_equal(take_at(one, 1, 0, T0).which, 0);
    weir_limiter_close(l);
    weir_limiter_close(one);
}

static void what_is_given_back_can_be_taken_again(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 10/s burst=5", "fixed-window 5/1m",
                                         "sliding-log 5/1m", "10/s burst=5 + fixed-window 5/1m"};

    (void)state;
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct weir_limiter *l = limiter_created(LIMITS[i]);
        int64_t back = -1;

        print_message("  %s\n", LIMITS[i]);
        assert_true(take_at(l, 5, 0, T0).allowed);
        assert_false(weir_limiter_allow_at(l, T0));
        assert_int_equal(weir_limiter_refund_at(l, 3, T0, &back), 0);
        assert_int_equal(back, 3);
        assert_int_equal(peek_at(l, 0, 0, T0).remaining, 3);
        assert_int_equal(weir_limiter_refund_at(l, 9, T0, NULL), 0);
        assert_int_equal(peek_at(l, 0, 0, T0).remaining, 5);
        assert_true(take_at(l, 5, 0, T0).allowed);
        weir_limiter_reset(l);
        assert_true(take_at(l, 5, 0, T0).allowed);
        weir_limiter_close(l);
    }
}

static void the_last_reservation_can_be_cancelled(void **state)
{
    struct weir_limiter *l = limiter_created("pacer 10/s");
    int64_t back = -1;

    (void)state;
    assert_int_equal(take_at(l, 1, WEIR_FOREVER, T0).wait_ns, 0);
    assert_int_equal(take_at(l, 1, WEIR_FOREVER, T0).wait_ns, 100 * MS);
    assert_int_equal(take_at(l, 1, WEIR_FOREVER, T0).wait_ns, 200 * MS);
    assert_int_equal(weir_limiter_cancel_at(l, 1, T0 + 200 * MS, T0, &back), 0);
    assert_int_equal(back, 1);
    assert_int_equal(take_at(l, 1, WEIR_FOREVER, T0).wait_ns, 200 * MS);
    weir_limiter_close(l);
    l = limiter_created("pacer 10/s + fixed-window 100/1m");
    assert_true(take_at(l, 1, WEIR_FOREVER, T0).allowed);
    assert_int_equal(weir_limiter_cancel_at(l, 1, T0, T0, &back), 0);
    assert_int_equal(back, 0); /* of several terms: weir_reserve knows how */
    weir_limiter_close(l);
}

static void arguments_out_of_range_are_refused_and_change_nothing(void **state)
{
    struct weir_limiter *l = limiter_created("100/s"), *none = NULL;
    struct weir_verdict v = {.limit = 77};
    struct weir_diag why;
    int64_t back = 77;

    (void)state;
    assert_int_equal(weir_limiter_take_at(l, -1, 0, T0, &v), WEIR_EINVAL);
    assert_int_equal(weir_limiter_take_at(l, 1, -2, T0, &v), WEIR_EINVAL);
    assert_int_equal(weir_limiter_take_at(l, 1, 0, -1, &v), WEIR_EINVAL);
    assert_int_equal(weir_limiter_take_at(l, 1, 0, WEIR__NOW_MAX + 1, &v), WEIR_EINVAL);
    assert_int_equal(weir_limiter_peek_at(l, 1, 0, INT64_MIN, &v), WEIR_EINVAL);
    assert_int_equal(weir_limiter_refund_at(l, -1, T0, &back), WEIR_EINVAL);
    assert_int_equal(weir_limiter_cancel_at(l, 1, T0, -1, &back), WEIR_EINVAL);
    assert_int_equal(weir_limiter_wait(l, -1, WEIR_FOREVER, &v), WEIR_EINVAL);
    assert_int_equal(weir_limiter_wait(l, 1, -1, &v), WEIR_EINVAL);
    assert_int_equal(weir_limiter_change_at(l, "1/s", -1, &why), WEIR_EINVAL);
    assert_int_equal(weir_limiter_change_at(l, "1/fortnight", T0, &why), WEIR_ESYNTAX);
    assert_int_equal(weir_limiter_open(&none, "token-bucket", &why), WEIR_ESYNTAX);
    assert_int_equal(weir_limiter_open(&none, NULL, &why), WEIR_EINVAL);
    assert_null(none);
    assert_false(weir_limiter_allow_at(l, -1));
    assert_false(weir_limiter_allow_at(l, INT64_MIN));
    assert_false(weir_limiter_allow_at(l, INT64_MAX));
    assert_int_equal(v.limit, 77);
    assert_int_equal(back, 77);
    assert_int_equal(peek_at(l, 0, 0, T0).remaining, 100);
    weir_limiter_close(l);
}

/* ---- allow is take --------------------------------------------------------------------------- */

static const char *const TEXTS[] = {
    "token-bucket %ld/%ldms burst=%ld",
    "token-bucket %ld/%ldus burst=%ld",
    "token-bucket %ld/%ldms burst=%ld initial=empty",
    "token-bucket %ld/%ldms burst=%ld count-denied",
    "token-bucket %ld/%ldms burst=%ld shadow",
    "leaky-bucket %ld/%ldms capacity=%ld",
    "leaky-bucket %ld/%ldms capacity=%ld delay=0",
    "leaky-bucket %ld/%ldms capacity=%ld count-denied",
    "pacer %ld/%ldms slack=%ld",
    "pacer %ld/%ldms queue=%ld max-wait=1s",
    "smooth-bursty %ld/%ldms max-burst=%ldms",
    "smooth-bursty %ld/%ldms max-burst=%ldms count-denied",
    "smooth-warmup %ld/%ldms warmup=%ldms",
    "fixed-window %ld/%ldms",
    "fixed-window %ld/%ldms align=clock",
    "sliding-counter %ld/%ldms",
    "sliding-log %ld/%ldms",
    "token-bucket %ld/%ldms burst=%ld + fixed-window 50/1s",
    "min-interval %ldms",
};

static void random_limit(uint64_t *seed, char *text, size_t cap)
{
    struct weir_limit limit;

    do {
        const char *format = TEXTS[draw(seed) % (sizeof TEXTS / sizeof TEXTS[0])];
        const long count = 1 + (long)(draw(seed) % (draw(seed) % 2 ? 9 : 5000));
        const long period = 1 + (long)(draw(seed) % (draw(seed) % 2 ? 9 : 3000));
        const long third = (long)(draw(seed) % (draw(seed) % 2 ? 5 : 2000));

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
        (void)snprintf(text, cap, format, count, period, third);
#pragma GCC diagnostic pop
    } while (weir_limit_parse(&limit, text, NULL) != 0);
}

/* Where something may change: at a refusal's retry and just before, a little on, far on, or
 * back. */
static int64_t random_step(uint64_t *seed, struct weir_limiter *l, int64_t now_ns)
{
    const struct weir_verdict v = peek_at(l, 1, 0, now_ns);
    const int64_t retry = v.retry_after_ns > 0 ? v.retry_after_ns : 0;

    switch (draw(seed) % 8) {
    case 0: return now_ns + retry;
    case 1: return now_ns + retry - (retry > 0);
    case 2: return now_ns + retry / 2;
    case 3: return now_ns + (int64_t)(draw(seed) % 1000);
    case 4: return now_ns + (int64_t)draw(seed);
    case 5: return now_ns - (int64_t)(draw(seed) % 100000);
    default: return now_ns;
    }
}

/* One of the other verbs, on both alike. */
static void disturb(uint64_t *seed, struct weir_limiter *a, struct weir_limiter *b, int64_t now_ns)
{
    const int64_t cost = (int64_t)(draw(seed) % 4);
    const int64_t patience = draw(seed) % 2 ? (int64_t)draw(seed) : 0;
    struct weir_verdict x, y;
    char text[128];

    switch (draw(seed) % 8) {
    case 0:
    case 1:
        x = take_at(a, cost, patience, now_ns);
        y = take_at(b, cost, patience, now_ns);
        assert_same(&x, &y);
        break;
    case 2:
        assert_int_equal(weir_limiter_refund_at(a, cost, now_ns, NULL), 0);
        assert_int_equal(weir_limiter_refund_at(b, cost, now_ns, NULL), 0);
        break;
    case 3:
        if (draw(seed) % 4 == 0) {
            random_limit(seed, text, sizeof text);
            assert_int_equal(weir_limiter_change_at(a, text, now_ns, NULL), 0);
            assert_int_equal(weir_limiter_change_at(b, text, now_ns, NULL), 0);
        }
        break;
    default: break;
    }
}

static void allow_says_what_take_says(void **state)
{
    int refused_at_a_glance = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        uint64_t chance = seed;
        struct weir_limiter *a, *b;
        int64_t now = T0;
        char text[128];

        random_limit(&chance, text, sizeof text);
        a = limiter_created(text);
        b = limiter_created(text);
        for (int i = 0; i < 300; i++) {
            struct weir_verdict x, y;
            bool allowed;

            now = random_step(&chance, a, now);
            y = take_at(b, 1, 0, now);
            allowed = weir_limiter_allow_at(a, now);
            if (allowed != y.allowed)
                fail_msg("seed %llu, %s, step %d: allow says %d, take %d", (unsigned long long)seed,
                         text, i, allowed, y.allowed);
            refused_at_a_glance += !allowed && weir__pair_fresh_ns(&a->pair) - now > a->glance_ns;
            disturb(&chance, a, b, now);
            x = peek_at(a, 1, 0, now);
            y = peek_at(b, 1, 0, now);
            assert_same(&x, &y);
        }
        weir_limiter_close(a);
        weir_limiter_close(b);
    }
    assert_true(refused_at_a_glance > 5000);
}

/* ---- Another limit --------------------------------------------------------------------------- */

static void usage_stays_when_the_rate_changes(void **state)
{
    struct weir_limiter *l = limiter_created("token-bucket 10/s burst=10");

    (void)state;
    assert_true(take_at(l, 10, 0, T0).allowed);
    assert_int_equal(weir_limiter_change_at(l, "token-bucket 20/s burst=10", T0, NULL), 0);
    assert_false(weir_limiter_allow_at(l, T0 + 50 * MS - 1));
    assert_true(weir_limiter_allow_at(l, T0 + 50 * MS));
    assert_false(weir_limiter_allow_at(l, T0 + 50 * MS));
    weir_limiter_close(l);
}

/* The first term keeps its state on its way out of the pair and back. */
static void usage_stays_when_terms_come_and_go(void **state)
{
    static const char *const LIMITS[] = {
        "10/s burst=10",
        "10/s burst=10 + fixed-window 100/1m",
        "10/s burst=10 shadow",
        "10/s burst=10 + sliding-log 7/1m",
        "10/s burst=10 + sliding-log 9/1m + 1/s",
        "10/s burst=10",
    };
    struct weir_limiter *l = limiter_created(LIMITS[0]);

    (void)state;
    assert_true(take_at(l, 8, 0, T0).allowed);
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        print_message("  %s\n", LIMITS[i]);
        assert_int_equal(weir_limiter_change_at(l, LIMITS[i], T0 + 1, NULL), 0);
        assert_int_equal(peek_at(l, 0, 0, T0 + 1).remaining > 2, 0);
    }
    assert_int_equal(peek_at(l, 0, 0, T0 + 1).remaining, 2);
    weir_limiter_close(l);
}

static void another_algorithm_starts_fresh(void **state)
{
    struct weir_limiter *l = limiter_created("10/s burst=10");

    (void)state;
    assert_true(take_at(l, 10, 0, T0).allowed);
    assert_int_equal(weir_limiter_change_at(l, "fixed-window 10/s", T0, NULL), 0);
    assert_true(take_at(l, 10, 0, T0).allowed);
    assert_int_equal(weir_limiter_change_at(l, "sliding-log 5/s", T0, NULL), 0);
    assert_true(take_at(l, 5, 0, T0).allowed);
    assert_int_equal(weir_limiter_change_at(l, "10/s burst=10", T0, NULL), 0);
    assert_true(take_at(l, 10, 0, T0).allowed);
    assert_false(weir_limiter_allow_at(l, T0));
    weir_limiter_close(l);
}

static void the_limit_in_force_changes_nothing(void **state)
{
    struct weir_limiter *l = limiter_created("token-bucket 10/s burst=10");
    const struct weir__revision *e = l->revision;

    (void)state;
    assert_int_equal(weir_limiter_change_at(l, "10/1s", T0 + S, NULL), 0);
    assert_ptr_equal(l->revision, e);
    weir_limiter_close(l);
}

/* ---- Many threads ---------------------------------------------------------------------------- */

#define THREADS 8
#define ASKS    5000  /* of one thread */
#define STEP_NS 40000 /* so much passes from ask to ask */

struct limiter_crowd {
    struct weir_limiter *l;
    bool by_take;
    _Atomic int64_t asked, granted;
    _Atomic bool over;
};

/* Time is what all have asked so far; between taking a time and asking at it, others may
 * overtake. */
static void *ask_along(void *arg)
{
    struct limiter_crowd *c = arg;

    for (int i = 0; i < ASKS; i++) {
        const int64_t now = T0 + atomic_fetch_add(&c->asked, 1) * STEP_NS;
        const bool granted =
            c->by_take ? take_at(c->l, 1, 0, now).allowed : weir_limiter_allow_at(c->l, now);

        if (granted)
            (void)atomic_fetch_add(&c->granted, 1);
    }
    return NULL;
}

static void run_crowd(struct limiter_crowd *c, void *(*run)(void *))
{
    pthread_t thread[THREADS];

    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, run, c), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
}

/* The asks span 1.6 s. */
static void threads_together_get_no_more_than_the_law_allows(void **state)
{
    static const struct {
        const char *limit;
        int64_t least, most;
    } ROWS[] = {
        {"token-bucket 1000/s burst=10", 1500, 1610},
        {"token-bucket 3/s burst=1", 4, 5},
        {"token-bucket 1000M/s burst=10000M", THREADS * ASKS, THREADS * ASKS},
        {"pacer 1000/s", 1500, 1601},
        {"min-interval 1ms", 1500, 1601},
        {"smooth-bursty 1000/s", 1500, 2600},
        {"fixed-window 100/100ms", 1500, 1700},
        {"fixed-window 5/1m", 5, 5},
        {"sliding-log 100/100ms", 1500, 1600},
        {"sliding-counter 100/100ms", 1000, 1700},
        {"sliding-window 100/100ms", 1300, 1600},
        {"token-bucket 1000/s burst=10 + fixed-window 500/1m", 500, 500},
    };

    (void)state;
    for (size_t i = 0; i < 2 * sizeof ROWS / sizeof ROWS[0]; i++) {
        struct limiter_crowd c = {.l = limiter_created(ROWS[i / 2].limit), .by_take = i % 2 == 1};

        run_crowd(&c, ask_along);
        print_message("  %s: %lld\n", ROWS[i / 2].limit, (long long)c.granted);
        assert_in_range(c.granted, ROWS[i / 2].least, ROWS[i / 2].most);
        weir_limiter_close(c.l);
    }
}

static void *take_and_return(void *arg)
{
    struct limiter_crowd *c = arg;

    for (int i = 0; i < ASKS; i++)
        if (weir_limiter_allow_at(c->l, T0))
            assert_int_equal(weir_limiter_refund_at(c->l, 1, T0, NULL), 0);
    return NULL;
}

static void nothing_is_lost_or_made_when_threads_give_back(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/s burst=3", "fixed-window 3/1m",
                                         "sliding-log 3/1m"};

    (void)state;
    for (size_t i = 0; i < sizeof LIMITS / sizeof LIMITS[0]; i++) {
        struct limiter_crowd c = {.l = limiter_created(LIMITS[i])};

        run_crowd(&c, take_and_return);
        assert_int_equal(peek_at(c.l, 0, 0, T0).remaining, 3);
        weir_limiter_close(c.l);
    }
}

/* All of these are 1000/s with a burst of 10, kept in the pair or behind the lock. */
static void *keep_changing(void *arg)
{
    static const char *const LIMITS[] = {
        "token-bucket 1000/s burst=10 + fixed-window 1M/day",
        "token-bucket 1000/s burst=10 fallback=deny",
        "token-bucket 1000/s burst=10",
        "token-bucket 1000/s burst=10 + sliding-log 60k/1m",
        "token-bucket 1000/s burst=10 + sliding-log 50k/1m",
        "token-bucket 1000/s burst=10",
    };
    struct limiter_crowd *c = arg;

    for (size_t i = 0; !atomic_load(&c->over); i++) {
        const int64_t now = T0 + atomic_load(&c->asked) * STEP_NS;
        const char *limit = LIMITS[i % (sizeof LIMITS / sizeof LIMITS[0])];

        assert_int_equal(weir_limiter_change_at(c->l, limit, now, NULL), 0);
        (void)sched_yield();
    }
    return NULL;
}

static void a_limit_that_changes_under_load_forgets_nothing(void **state)
{
    struct limiter_crowd c = {.l = limiter_created("token-bucket 1000/s burst=10")};
    pthread_t changer;

    (void)state;
    assert_int_equal(pthread_create(&changer, NULL, keep_changing, &c), 0);
    run_crowd(&c, ask_along);
    atomic_store(&c.over, true);
    assert_int_equal(pthread_join(changer, NULL), 0);
    print_message("  %lld granted under version %u\n", (long long)c.granted,
                  c.l->revision->term[0].meter.version);
    assert_in_range(c.granted, 1500, 1610);
    weir_limiter_close(c.l);
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

struct swapping {
    struct weir__pair pair;
    _Atomic bool mixed;
    _Atomic int64_t swaps;
};

/* Both words always say the same. */
static void *swap_and_look(void *arg)
{
    struct swapping *s = arg;

    for (int i = 0; i < ASKS; i++) {
        struct weir__state seen = weir__pair_load(&s->pair);
        struct weir__state next = {seen.fresh_ns + 1, seen.word + 1};

        if ((uint64_t)seen.fresh_ns != seen.word)
            atomic_store(&s->mixed, true);
        if (weir__pair_swap(&s->pair, &seen, next))
            (void)atomic_fetch_add(&s->swaps, 1);
        else if ((uint64_t)seen.fresh_ns != seen.word)
            atomic_store(&s->mixed, true);
    }
    return NULL;
}

static void a_pair_is_never_seen_half_swapped(void **state)
{
    struct swapping s = {0};
    pthread_t thread[THREADS];

    (void)state;
    weir__fork_prepare();
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, swap_and_look, &s), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_false(atomic_load(&s.mixed));
    assert_int_equal(weir__pair_load(&s.pair).fresh_ns, atomic_load(&s.swaps));
}

/* ---- Children -------------------------------------------------------------------------------- */

static void a_child_goes_on_with_a_limiter_of_its_own(void **state)
{
    struct weir_limiter *l = limiter_created("sliding-log 5/1m");
    struct weir_limiter *pair = limiter_created("1/s burst=5");
    pid_t child;
    int status;

    (void)state;
    assert_true(take_at(l, 2, 0, T0).allowed);
    assert_true(take_at(pair, 2, 0, T0).allowed);
    /* As if another thread were in the midst of a decision. */
    assert_int_equal(weir__lock_take(&l->lock, &weir__owner_process), 0);
    child = fork();
    if (child == 0) {
        const bool right = take_at(l, 3, 0, T0).allowed && !weir_limiter_allow_at(l, T0) &&
                           take_at(pair, 3, 0, T0).allowed && !weir_limiter_allow_at(pair, T0);

        _exit(right && weir_limiter_change_at(l, "1/s", T0, NULL) == 0 ? 0 : 1);
    }
    weir__lock_drop(&l->lock);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(peek_at(l, 0, 0, T0).remaining, 3);
    assert_int_equal(peek_at(pair, 0, 0, T0).remaining, 3);
    weir_limiter_close(l);
    weir_limiter_close(pair);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(three_lines_serve_a_burst_and_then_the_rate),
    cmocka_unit_test(answers_are_those_of_the_algorithm),
    cmocka_unit_test(a_refusal_names_its_term),
    cmocka_unit_test(what_is_given_back_can_be_taken_again),
    cmocka_unit_test(the_last_reservation_can_be_cancelled),
    cmocka_unit_test(arguments_out_of_range_are_refused_and_change_nothing),
    cmocka_unit_test(allow_says_what_take_says),
    cmocka_unit_test(usage_stays_when_the_rate_changes),
    cmocka_unit_test(usage_stays_when_terms_come_and_go),
    cmocka_unit_test(another_algorithm_starts_fresh),
    cmocka_unit_test(the_limit_in_force_changes_nothing),
    cmocka_unit_test(threads_together_get_no_more_than_the_law_allows),
    cmocka_unit_test(nothing_is_lost_or_made_when_threads_give_back),
    cmocka_unit_test(a_limit_that_changes_under_load_forgets_nothing),
    cmocka_unit_test(a_pair_is_never_seen_half_swapped),
    cmocka_unit_test(a_child_goes_on_with_a_limiter_of_its_own),
};

RUN("limiter", TESTS)
