/* Random numbers, and random limits that the grammar accepts. */
#include "prop.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE(array) (sizeof(array) / sizeof *(array))
#define SECOND      WEIR__NS_PER_S

/* ---- Numbers ------------------------------------------------------------------------------- */

/* splitmix64: neighbouring seeds give unrelated numbers. */
uint64_t prop_next(struct prop_rng *r)
{
    uint64_t x = r->state += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

int64_t prop_range(struct prop_rng *r, int64_t lo, int64_t hi)
{
    const uint64_t n = (uint64_t)hi - (uint64_t)lo + 1;

    return lo + (int64_t)(n == 0 ? prop_next(r) : prop_next(r) % n);
}

bool prop_odds(struct prop_rng *r, int64_t n)
{
    return prop_range(r, 1, n) == 1;
}

int64_t prop_pick(struct prop_rng *r, const int64_t *of, size_t n)
{
    return of[prop_range(r, 0, (int64_t)n - 1)];
}

int64_t prop_any_size(struct prop_rng *r, int64_t lo, int64_t hi)
{
    const int64_t top = prop_range(r, 0, 62);

    return prop_range(r, lo, weir__max(lo, weir__min(hi, INT64_C(1) << top)));
}

/* ---- Limits -------------------------------------------------------------------------------- */

struct draft {
    struct prop_rng *r;
    enum prop_flavor flavor;
    int64_t count, period_ns;
    char text[PROP_TEXT];
};

static void write(struct draft *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void write(struct draft *d, const char *format, ...)
{
    const size_t used = strlen(d->text);
    va_list args;

    va_start(args, format);
    vsnprintf(d->text + used, sizeof d->text - used, format, args);
    va_end(args);
}

static int64_t count_of(struct draft *d)
{
    static const int64_t human[] = {1, 1, 2, 3, 4, 5, 7, 10, 10, 20, 100, 1000};
    static const int64_t extreme[] = {
        1, 2, 3, UINT32_MAX, (int64_t)UINT32_MAX + 1, WEIR_COUNT_MAX - 1, WEIR_COUNT_MAX};

    if (d->flavor == PROP_DENSE)
        return prop_any_size(d->r, 1000, 100000000);
    if (d->flavor == PROP_EXTREME)
        return prop_odds(d->r, 3) ? prop_any_size(d->r, 1, WEIR_COUNT_MAX)
                                  : prop_pick(d->r, extreme, SIZE(extreme));
    return prop_pick(d->r, human, SIZE(human));
}

static int64_t period_of(struct draft *d)
{
    static const int64_t human[] = {
        SECOND,  SECOND,      SECOND / 10, SECOND / 1000,         7 * SECOND, 10 * SECOND,
        1000003, 60 * SECOND, 90 * SECOND, 3600 * SECOND + 12345, 1234567891};
    /* Powers of two: with the right burst, one that takes just 2^62 ns to refill. */
    static const int64_t extreme[] = {WEIR_PERIOD_MIN_NS,     WEIR_PERIOD_MIN_NS + 1,
                                      WEIR_PERIOD_MAX_NS - 1, WEIR_PERIOD_MAX_NS,
                                      INT64_C(1) << 24,       INT64_C(1) << 30};

    if (d->flavor == PROP_DENSE)
        return prop_range(d->r, 1000, 20000);
    if (d->flavor == PROP_EXTREME)
        return prop_odds(d->r, 3) ? prop_any_size(d->r, WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS)
                                  : prop_pick(d->r, extreme, SIZE(extreme));
    return prop_pick(d->r, human, SIZE(human));
}

/* How many events a bucket may hold: often near the rate's own, sometimes the most there is. */
static int64_t burst_of(struct draft *d)
{
    const weir__u128 fits =
        weir__wide(WEIR__SPAN_MAX) * weir__wide(d->count) / weir__wide(d->period_ns);
    const int64_t most = fits > weir__wide(WEIR_COUNT_MAX) ? WEIR_COUNT_MAX : (int64_t)fits;

    if (d->flavor == PROP_EXTREME && prop_odds(d->r, 2))
        return weir__max(1, most - prop_range(d->r, 0, 1));
    if (prop_odds(d->r, 4))
        return 1;
    return prop_any_size(d->r, 1, weir__min(most, 3 * d->count));
}

static int64_t length_of(struct draft *d)
{
    static const int64_t extreme[] = {0, 1, WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS};
    int64_t times;

    if (d->flavor == PROP_EXTREME)
        return prop_pick(d->r, extreme, SIZE(extreme));
    times = prop_range(d->r, 0, 3);
    return times * d->period_ns / prop_range(d->r, 1, 7);
}

static void write_fixed_window(struct draft *d)
{
    static const char *const calendar[] = {"day", "week", "month"};

    static const char *const anchor[][3] = {{"", " anchor=06:00", " anchor=23:59"},
                                            {"", " anchor=thu-21:00", " anchor=sun"},
                                            {"", " anchor=17", " anchor=31-23:59"}};
    const int64_t kind = prop_range(d->r, 0, 2);

    if (prop_odds(d->r, 4))
        write(d, "fixed-window %lld/%s%s", (long long)d->count, calendar[kind],
              anchor[kind][prop_range(d->r, 0, 2)]);
    else
        write(d, "fixed-window %lld/%lldns%s", (long long)d->count, (long long)d->period_ns,
              prop_odds(d->r, 2) ? " align=clock" : "");
}

static void write_sliding_window(struct draft *d)
{
    static const int64_t slots[] = {1, 2, 3, 4, 5, 10, 10, 60, 1000};
    const int64_t n = prop_pick(d->r, slots, SIZE(slots));
    const int64_t period = weir__min(weir__max(n, d->period_ns / n * n), WEIR_PERIOD_MAX_NS);

    write(d, "sliding-window %lld/%lldns slots=%lld", (long long)d->count, (long long)period,
          (long long)n);
    if (prop_odds(d->r, 4))
        write(d, " per-slot=even");
    else if (prop_odds(d->r, 3))
        write(d, " per-slot=%lld", (long long)prop_range(d->r, 1, d->count));
}

static void write_sliding_log(struct draft *d)
{
    const int64_t most = d->flavor == PROP_EXTREME && prop_odds(d->r, 20) ? WEIR_LOG_COUNT_MAX : 64;

    write(d, "sliding-log %lld/%lldns", (long long)weir__min(d->count, most),
          (long long)d->period_ns);
    if (prop_odds(d->r, 3))
        write(d, " min-interval=%lldns", (long long)length_of(d));
}

static void write_token_bucket(struct draft *d)
{
    const int64_t burst = burst_of(d);

    write(d, "token-bucket %lld/%lldns burst=%lld", (long long)d->count, (long long)d->period_ns,
          (long long)burst);
    if (prop_odds(d->r, 6))
        write(d, " initial=empty");
    else if (prop_odds(d->r, 4))
        write(d, " initial=%lld", (long long)prop_range(d->r, 0, burst));
}

static void write_leaky_bucket(struct draft *d)
{
    const int64_t capacity = burst_of(d);

    write(d, "leaky-bucket %lld/%lldns capacity=%lld", (long long)d->count, (long long)d->period_ns,
          (long long)capacity);
    if (prop_odds(d->r, 2))
        write(d, " delay=%lld",
              prop_odds(d->r, 3) ? 0LL : (long long)prop_range(d->r, 0, capacity));
}

static void write_pacer(struct draft *d)
{
    write(d, "pacer %lld/%lldns", (long long)d->count, (long long)d->period_ns);
    if (prop_odds(d->r, 2))
        write(d, " slack=%lld", (long long)burst_of(d) - 1);
    if (prop_odds(d->r, 2))
        write(d, " queue=%lld", (long long)prop_any_size(d->r, 0, WEIR_COUNT_MAX));
    if (prop_odds(d->r, 3))
        write(d, " max-wait=%lldns", (long long)length_of(d));
}

static void write_smooth(struct draft *d, enum weir_algorithm algorithm)
{
    write(d, "%s %lld/%lldns", weir_algorithm_name(algorithm), (long long)d->count,
          (long long)d->period_ns);
    if (algorithm == WEIR_SMOOTH_BURSTY) {
        write(d, " max-burst=%lldns", (long long)length_of(d));
        return;
    }
    write(d, " warmup=%lldns", (long long)weir__max(WEIR_PERIOD_MIN_NS, length_of(d)));
    if (prop_odds(d->r, 2)) {
        const int64_t most = prop_odds(d->r, 3) ? 99 : 4;
        const int64_t whole = prop_range(d->r, 1, most);
        const int64_t milli = prop_odds(d->r, 2) ? 0 : prop_range(d->r, 0, 999);

        write(d, " cold=%lld.%03lld", (long long)whole, (long long)milli);
    }
}

static void write_own(struct draft *d, enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_FIXED_WINDOW: write_fixed_window(d); return;
    case WEIR_SLIDING_WINDOW: write_sliding_window(d); return;
    case WEIR_SLIDING_COUNTER:
        write(d, "sliding-counter %lld/%lldns", (long long)d->count, (long long)d->period_ns);
        return;
    case WEIR_SLIDING_LOG: write_sliding_log(d); return;
    case WEIR_TOKEN_BUCKET: write_token_bucket(d); return;
    case WEIR_LEAKY_BUCKET: write_leaky_bucket(d); return;
    case WEIR_PACER: write_pacer(d); return;
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP: write_smooth(d, algorithm); return;
    case WEIR_MIN_INTERVAL: write(d, "min-interval %lldns", (long long)d->period_ns); return;
    case WEIR_UNLIMITED: write(d, "unlimited"); return;
    case WEIR_ZERO: write(d, "0/%lldns", (long long)d->period_ns); return;
    case WEIR__GUARDS: return;
    }
}

/* The grammar rightly refuses some drafts (a burst too long to refill, too many stored permits). */
void prop_term(struct prop_rng *r, enum weir_algorithm algorithm, enum prop_flavor flavor,
               struct weir_term *term, char text[PROP_TEXT])
{
    struct weir_limit limit;
    struct weir_diag why;

    for (int tries = 0; tries < 1000; tries++) {
        struct draft d = {.r = r, .flavor = flavor};

        if (flavor == PROP_ANY)
            d.flavor = prop_odds(r, 5) ? PROP_EXTREME : prop_odds(r, 5) ? PROP_DENSE : PROP_HUMAN;
        d.count = count_of(&d);
        d.period_ns = period_of(&d);
        write_own(&d, algorithm);
        if (prop_odds(r, 4))
            write(&d, " count-denied");
        if (weir_limit_parse(&limit, d.text, &why) != 0)
            continue;
        *term = limit.term[0];
        memcpy(text, d.text, PROP_TEXT);
        return;
    }
    fprintf(stderr, "prop: no limit that the door lets in: %s\n", why.text);
    abort();
}
