/* (h) Rates stay a pair: a caller that comes exactly when it may, for a million events, finds the
 * n-th where n x period/count puts it, to the nanosecond. */
#include "prop.h"

#include <inttypes.h>
#include <stdio.h>

#define EVENTS 1000000

struct rate {
    int64_t count;
    const char *period;
};

static const struct rate RATES[] = {{3, "1s"},      {7, "1m"},     {1000003, "1h"}, {11, "100ms"},
                                    {999983, "1s"}, {13, "1m30s"}, {1, "1s"}};
/* Logs and windows keep every event of a period. */
static const struct rate SMALL_RATES[] = {{3, "1s"}, {7, "1m"}, {100, "90ms"}, {1, "10us"}};

static int64_t due_ns(const struct weir_term *t, int64_t n)
{
    const weir__u128 count = weir__wide(t->count);

    return (int64_t)((weir__wide(n) * weir__wide(t->period_ns) + count - 1) / count);
}

/* Into the window after a full one, the k-th event (from 0) finds room once k + 1 of the last
 * window's have left: the least e with floor(count x (period - e)/period) <= count - k - 1. */
static int64_t counter_ns(const struct weir_term *t, int64_t n)
{
    const int64_t window = n / t->count, k = n % t->count;

    return window == 0 ? 0 : window * t->period_ns + weir__mul_div(k, t->period_ns, t->count) + 1;
}

/* When the n-th event acts, from 0, for a caller that takes every event as soon as it may. */
static int64_t expected_ns(const struct weir_term *t, int64_t n)
{
    switch ((enum weir_algorithm)t->algorithm) {
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_LOG: return n / t->count * t->period_ns;
    case WEIR_SLIDING_COUNTER: return counter_ns(t, n);
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET: return n < t->burst ? 0 : due_ns(t, n - t->burst + 1);
    case WEIR_PACER:
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP:
    case WEIR_MIN_INTERVAL: return due_ns(t, n);
    case WEIR_UNLIMITED:
    case WEIR_ZERO:
    case WEIR__GUARDS: return 0;
    }
    return 0;
}

static void write_limit(struct prop_case *c, char *text, size_t cap)
{
    static const char *const options[PROP_ALGORITHMS] = {
        [WEIR_SLIDING_WINDOW] = " slots=5",         [WEIR_TOKEN_BUCKET] = " burst=2",
        [WEIR_LEAKY_BUCKET] = " capacity=3",        [WEIR_SMOOTH_BURSTY] = " max-burst=0s",
        [WEIR_SMOOTH_WARMUP] = " warmup=1s cold=1",
    };
    const bool small = c->algorithm <= WEIR_SLIDING_LOG;
    const struct rate r =
        small ? SMALL_RATES[prop_range(&c->rng, 0, 3)] : RATES[prop_range(&c->rng, 0, 6)];
    const char *option = options[c->algorithm];

    if (c->algorithm == WEIR_MIN_INTERVAL)
        snprintf(text, cap, "min-interval %s", r.period);
    else
        snprintf(text, cap, "%s %lld/%s%s", weir_algorithm_name(c->algorithm), (long long)r.count,
                 r.period, option ? option : "");
}

/* Half of the callers that may wait do so; the others come back after retry_after. A bucket that
 * holds one event cannot keep the part of a nanosecond by which its caller is late, so these hold
 * two. */
static int64_t patience(struct prop_case *c)
{
    switch (c->algorithm) {
    case WEIR_PACER:
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP: return WEIR_FOREVER;
    case WEIR_TOKEN_BUCKET: return prop_odds(&c->rng, 2) ? WEIR_FOREVER : 0;
    default: return 0;
    }
}

void prop_law_drift(struct prop_case *c)
{
    const int64_t start = c->seed % 2 == 0 ? 0 : INT64_C(3600) * WEIR__NS_PER_S;
    const int64_t events = prop_odds(&c->rng, 4) ? EVENTS : EVENTS / 10;
    char text[PROP_TEXT];
    int64_t wait;

    write_limit(c, text, sizeof text);
    prop_open_text(c, text, start);
    wait = patience(c);
    for (int64_t n = 0; n < events && !c->failed; n++) {
        const int64_t due = start + expected_ns(&c->m->term, n);
        struct weir_verdict v = prop_take(c, 1, wait);

        if (!v.allowed) {
            c->now_ns += v.retry_after_ns;
            v = prop_take(c, 1, wait);
        }
        c->now_ns += v.wait_ns;
        prop_expect(c, v.allowed && c->now_ns == due,
                    "event %" PRId64 " at %" PRId64 ", due at %" PRId64, n, c->now_ns, due);
    }
}
