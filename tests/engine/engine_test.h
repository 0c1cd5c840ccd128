/* What the unit tests of the engine share: cmocka, short ways to ask, a clock that stands still. */
#ifndef WEIR_TESTS_ENGINE_ENGINE_TEST_H
#define WEIR_TESTS_ENGINE_ENGINE_TEST_H

#include "../unit/check.h"

#include <string.h>

#include <weir.h>

#include "backend.h"

#define SECOND    INT64_C(1000000000)
#define MINUTE    (60 * SECOND)
#define HOUR      (60 * MINUTE)
#define DAY       (24 * HOUR)
#define T0        INT64_C(1704067200000000000) /* 2024-01-01T00:00:00Z */
#define NOW_MAX   (INT64_C(1) << 62)
#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* As RUN, of tests that take the kind of store as an argument: `NAME [memory:|file:]`. */
#define RUN_BACKEND(name, tests)                                                            \
    int main(int argc, char **argv)                                                         \
    {                                                                                       \
        const int all = (int)LENGTH(tests);                                                 \
        int failed;                                                                         \
                                                                                            \
        if (argc > 1 && !backend_choose(argv[1]))                                           \
            return 2;                                                                       \
        failed = cmocka_run_group_tests_name(name, tests, NULL, NULL);                      \
        (void)printf("%s (%s): %d passed, %d failed\n", name, backend_kind(), all - failed, \
                     failed);                                                               \
        return failed != 0;                                                                 \
    }

/* A request of a key that is text. */
static inline struct weir_request request_for(struct weir_policy *policy, const char *key,
                                              int64_t cost, int64_t patience_ns)
{
    return (struct weir_request){policy, key, strlen(key), cost, patience_ns};
}

/* Now or not at all; an error fails the test. */
static inline struct weir_verdict take(struct weir *w, struct weir_policy *policy, const char *key,
                                       int64_t cost, int64_t now_ns)
{
    const struct weir_request rq = request_for(policy, key, cost, 0);
    struct weir_verdict v;

    assert_int_equal(weir_take_at(w, &rq, now_ns, &v), 0);
    return v;
}

static inline struct weir_verdict take_later(struct weir *w, struct weir_policy *policy,
                                             const char *key, int64_t cost, int64_t now_ns)
{
    const struct weir_request rq = request_for(policy, key, cost, WEIR_FOREVER);
    struct weir_verdict v;

    assert_int_equal(weir_take_at(w, &rq, now_ns, &v), 0);
    return v;
}

/* How the key stands. */
static inline struct weir_verdict look(struct weir *w, struct weir_policy *policy, const char *key,
                                       int64_t now_ns)
{
    const struct weir_request rq = request_for(policy, key, 0, 0);
    struct weir_verdict v;

    assert_int_equal(weir_peek_at(w, &rq, now_ns, &v), 0);
    return v;
}

static inline int64_t refund(struct weir *w, struct weir_policy *policy, const char *key,
                             int64_t cost, int64_t now_ns)
{
    const struct weir_request rq = request_for(policy, key, cost, 0);
    int64_t back = -1;

    assert_int_equal(weir_refund_at(w, &rq, now_ns, &back), 0);
    return back;
}

static inline void reset(struct weir *w, struct weir_policy *policy, const char *key,
                         int64_t now_ns)
{
    const struct weir_request rq = request_for(policy, key, 0, 0);

    assert_int_equal(weir_reset_at(w, &rq, now_ns), 0);
}

static inline struct weir_stats stats(struct weir *w, int64_t now_ns)
{
    struct weir_stats s;

    memset(&s, 0xa5, sizeof s);
    assert_int_equal(weir_stats_at(w, now_ns, &s), 0);
    return s;
}

static inline struct weir_policy_stats policy_stats(struct weir *w, struct weir_policy *p)
{
    struct weir_policy_stats s;

    assert_int_equal(weir_policy_stats(w, p, &s), 0);
    return s;
}

/* The next of a sequence of random numbers, below `below`. */
static inline uint32_t draw_below(uint64_t *x, uint32_t below)
{
    *x = *x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*x >> 33) % below);
}

static inline void same_verdict(const struct weir_verdict *a, const struct weir_verdict *b)
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

/* Bytes that an error must leave as they are. */
static inline void smear(void *at, size_t n)
{
    memset(at, 0x5a, n);
}

static inline void untouched(const void *at, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_int_equal(((const unsigned char *)at)[i], 0x5a);
}

/* One limit of every algorithm, all of them with a burst of about ten. */
static const char *const EVERY_ALGORITHM[] = {
    "fixed-window 10/1m",
    "fixed-window 10/day tz=Europe/Berlin",
    "sliding-window 10/1m",
    "sliding-counter 10/1m",
    "sliding-log 10/1m min-interval=1ms",
    "token-bucket 10/1m",
    "token-bucket 10/1m initial=empty",
    "leaky-bucket 10/1m",
    "leaky-bucket 10/1m delay=2",
    "pacer 10/1m slack=9",
    "smooth-bursty 10/1m max-burst=1m",
    "smooth-warmup 10/1m warmup=1m",
    "min-interval 1m",
    "token-bucket 10/s + fixed-window 10/1m + sliding-log 10/1m count-denied",
    "sliding-window 10/1m shadow + token-bucket 10/1m",
};

#endif
