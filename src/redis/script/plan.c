/* Plans: from a limit to the numbers that its scripts need.
 *
 * The scripts count in microseconds, limits in nanoseconds. A rate loses nothing by that: T, the
 * time of one event, becomes a fraction of microseconds in lowest terms. Other durations are
 * rounded so that the limit never becomes looser: the time that must pass before another event may
 * act is rounded up; what is saved up, and how long a caller waits, is rounded down.
 *
 * Invariants (of what weir__plan_encode sends, besides script/README.md):
 *   (1) Every number except cost, patience and max-wait is below 2^53.
 *   (2) Equal limits with equal creation times have equal plans, on every machine: no number
 *       depends on the process.
 *   (3) Two terms have the same shape exactly if a state of one can be carried over to the other
 *       and their place in the limit is the same.
 */
#include "redis/script/plan.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/digits.h"
#include "base/hash.h"
#include "base/num.h"
#include "os/diag.h"
#include "redis/redis_decide.h"
#include "redis/script/scripts.h"

#define LIMIT     (INT64_C(1) << 53)
#define HASH_BITS 52

enum { COUNT_DENIED = 16, SHADOW = 32 };
enum { ALIGN_CLOCK = 1, ALIGN_CALENDAR = 2 };

unsigned weir__script_bit(enum weir_algorithm algorithm)
{
    return weir__algo_of(algorithm)->family;
}

int weir__redis_terms(const struct weir__revision *rev, unsigned char index[WEIR_TERMS_MAX])
{
    int n = 0;

    for (int i = 0; i < rev->n; i++)
        if ((rev->of_node >> rev->chain[i] & 1) == 0)
            index[n++] = rev->chain[i];
    return n;
}

/* The scripts number algorithms by themselves. */
static int64_t script_number(enum weir_algorithm a)
{
    enum { CONCURRENCY = 10, UNLIMITED = 11, ZERO = 12 };

    return a == WEIR_CONCURRENCY ? CONCURRENCY
           : a == WEIR_UNLIMITED ? UNLIMITED
           : a == WEIR_ZERO      ? ZERO
                                 : (int64_t)a;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static int64_t us_up(int64_t ns)
{
    return weir__div_ceil(ns, WEIR__NS_PER_US);
}

static int64_t us_down(int64_t ns)
{
    return ns == WEIR_FOREVER ? WEIR_FOREVER : ns / WEIR__NS_PER_US;
}

/* p1, p2: num/den in lowest terms. */
static void put_ratio(int64_t *p, int64_t num, int64_t den)
{
    const int64_t g = weir__gcd(num, den);

    p[0] = num / g;
    p[1] = den / g;
}

static void put_rate(int64_t *p, const struct weir_term *t)
{
    put_ratio(p, t->period_ns, t->count * WEIR__NS_PER_US); /* at most 10^15 */
    if (p[WEIR__PLAN_PERIOD] >= LIMIT)
        put_ratio(p, us_up(t->period_ns), t->count);
}

/* p4, p5: the creation time plus n events, as zero - rem/C. */
static void put_zero(int64_t *p, int64_t created_us, int64_t n)
{
    const weir__u128 units = weir__wide(n) * weir__wide(p[WEIR__PLAN_PERIOD]); /* 93 bits */
    const weir__u128 C = weir__wide(p[WEIR__PLAN_COUNT]);
    const weir__u128 us = (units + C - 1) / C;

    if (us >= weir__wide(LIMIT - created_us)) { /* full only after the end of time */
        p[WEIR__PLAN_ZERO] = LIMIT - 1;
        return;
    }
    p[WEIR__PLAN_ZERO] = created_us + (int64_t)us;
    p[WEIR__PLAN_ZERO_REM] = (int64_t)(us * C - units);
}

/* The zone, the kind of window and its anchor as one number: another number is another window. */
static int64_t calendar_number(const struct weir_term *t)
{
    const uint64_t no_secret[2] = {0};
    char text[1 + WEIR_ZONE_MAX + WEIR__INT_MOST], *at = text;

    *at++ = (char)('0' + t->calendar);
    at = stpcpy(at, t->tz);
    if (t->anchor_s != 0) { /* a zone's name has no blank */
        *at++ = ' ';
        at = weir__put_int(at, t->anchor_s);
    }
    return (int64_t)(weir__hash(text, (size_t)(at - text), no_secret) &
                     ((UINT64_C(1) << HASH_BITS) - 1));
}

/* fixed-window, align=clock: where its windows end. The edges of a calendar come with each
 * request. */
static void put_clock(struct weir__plan_term *to, const struct weir_term *t)
{
    int64_t *const p = to->number;
    const int64_t ahead = weir__zone_standard(to->zone) * (WEIR__NS_PER_S / WEIR__NS_PER_US);

    p[WEIR__PLAN_ALIGN] = t->calendar == WEIR_DURATION ? ALIGN_CLOCK : ALIGN_CALENDAR;
    p[WEIR__PLAN_CALENDAR] = calendar_number(t);
    if (t->calendar == WEIR_DURATION)
        p[WEIR__PLAN_EDGE] =
            (p[WEIR__PLAN_PERIOD] - ahead % p[WEIR__PLAN_PERIOD]) % p[WEIR__PLAN_PERIOD];
}

/* Algorithms that time pays for: a rate, and how much may be owed. */
static void put_bucket(int64_t *p, const struct weir_term *t, int64_t limit, int64_t created_us)
{
    put_rate(p, t);
    p[WEIR__PLAN_BURST] = limit; /* the burst, capacity, or 1 + slack, where there is one */
    if (t->algorithm == WEIR_TOKEN_BUCKET && t->initial < t->burst)
        put_zero(p, created_us, t->burst - t->initial);
    if (t->algorithm == WEIR_LEAKY_BUCKET)
        p[WEIR__PLAN_DELAY] = t->delay;
    if (t->algorithm == WEIR_PACER) {
        if (t->burst > 1)
            put_zero(p, created_us, t->burst - 1);
        p[WEIR__PLAN_QUEUE] = t->queue;
        p[WEIR__PLAN_MAX_WAIT] = us_down(t->max_wait_ns);
    }
    if (t->algorithm == WEIR_SMOOTH_BURSTY) {
        p[WEIR__PLAN_ZERO] = weir__min(created_us + us_down(t->max_burst_ns), LIMIT - 1);
        p[WEIR__PLAN_MAX_BURST] = us_down(t->max_burst_ns);
    }
    if (t->algorithm == WEIR_SMOOTH_WARMUP) {
        p[WEIR__PLAN_WARMUP] = us_up(t->warmup_ns);
        put_ratio(p + WEIR__PLAN_COLD, t->cold_milli, 1000);
    }
}

/* Algorithms that count. */
static void put_counter(int64_t *p, const struct weir_term *t, int64_t slots)
{
    p[WEIR__PLAN_PERIOD] = us_up(t->period_ns / slots); /* slots divide the period */
    p[WEIR__PLAN_COUNT] = t->count;
    if (t->algorithm == WEIR_SLIDING_WINDOW) {
        p[WEIR__PLAN_SLOTS] = t->slots;
        p[WEIR__PLAN_PER_SLOT] = t->per_slot;
    }
    if (t->algorithm == WEIR_SLIDING_LOG)
        p[WEIR__PLAN_INTERVAL] = us_up(t->min_interval_ns);
    if (t->algorithm == WEIR_CONCURRENCY)
        p[WEIR__PLAN_PERIOD] = us_up(t->lease_ns);
}

static void plan_put_numbers(struct weir__plan_term *to, const struct weir_term *t, int64_t limit,
                             int64_t created_us)
{
    switch (weir__algo_of(t->algorithm)->family) {
    case WEIR__FAMILY_DUE:
    case WEIR__FAMILY_WARMUP: put_bucket(to->number, t, limit, created_us); return;
    case WEIR__FAMILY_WINDOW:
    case WEIR__FAMILY_LOG:
    case WEIR__FAMILY_CONCURRENCY:
        put_counter(to->number, t, t->algorithm == WEIR_SLIDING_WINDOW ? t->slots : 1);
        break;
    case WEIR__FAMILY_LOCAL: return;
    }
    if (t->align == WEIR_ALIGN_CLOCK)
        put_clock(to, t);
}

/* ---- Terms ----------------------------------------------------------------------------------- */

/* The term's place, a letter for the algorithm, and what else a state's layout depends on. */
static void put_shape(struct weir__plan_term *to, const struct weir_term *t, int place)
{
    char *at = weir__put_int(to->shape, place);
    const bool wide = t->algorithm == WEIR_SLIDING_WINDOW && t->count > UINT32_MAX;

    *at++ = wide ? 'W' : weir__algo_of(t->algorithm)->letter;
    if (t->algorithm == WEIR_SLIDING_WINDOW)
        at = weir__put_int(at, t->slots);
    if (t->algorithm == WEIR_SLIDING_LOG)
        at = weir__put_int(at, t->count);
    *at = '\0';
    assert(at < to->shape + sizeof to->shape);
}

static int refuse_term(const struct weir_term *t, int place, struct weir_diag *why)
{
    if (t->block_ns > 0)
        return weir__diag(why, WEIR_EINVAL,
                          "term %d: block= cannot be in a shared store: its scripts count no "
                          "refusals",
                          place + 1);
    if (t->warn_milli > 0)
        return weir__diag(why, WEIR_EINVAL,
                          "term %d: warn= cannot be in a shared store: its scripts do not say what "
                          "remained before a take",
                          place + 1);
    return weir__diag(why, WEIR_EINVAL,
                      "term %d: %s needs a lease in a shared store, such as lease=60s: a machine "
                      "that dies releases no permit",
                      place + 1, weir_algorithm_name(t->algorithm));
}

static bool can_be_shared(const struct weir_term *t)
{
    return t->warn_milli == 0 && t->block_ns == 0 &&
           (t->algorithm != WEIR_CONCURRENCY || t->lease_ns > 0);
}

/* `place` is that among the shared terms: guards of the node beside it do not move its keys. */
static int plan_term_open(struct weir__plan_term *to, const struct weir_term *t, int place,
                          int64_t created_us)
{
    struct weir__meter m;

    if (t->align == WEIR_ALIGN_CLOCK) {
        const int error = weir__zone_load(&to->zone, t->tz);

        if (error)
            return error;
    }
    weir__meter_init(&m, t, created_us * WEIR__NS_PER_US);
    to->kind = script_number(t->algorithm) + (t->count_denied ? COUNT_DENIED : 0) +
               (t->shadow ? SHADOW : 0);
    to->bit = weir__script_bit(t->algorithm);
    to->patience_ns = weir__meter_patience(&m);
    to->calendar = t->calendar;
    to->anchor_s = t->anchor_s;
    put_shape(to, t, place);
    plan_put_numbers(to, t, m.limit, created_us);
    return 0;
}

/* ---- Plans ----------------------------------------------------------------------------------- */

static bool term_needs_creation_time(const struct weir_term *t)
{
    return (t->algorithm == WEIR_TOKEN_BUCKET && t->initial < t->burst) ||
           (t->algorithm == WEIR_PACER && t->burst > 1) || t->algorithm == WEIR_SMOOTH_BURSTY;
}

int weir__plan_open(struct weir__plan **plan, const struct weir_limit *limit, int64_t created_us,
                    struct weir_diag *why)
{
    struct weir__plan *p = calloc(1, sizeof *p + (size_t)limit->n * sizeof p->term[0]);

    if (!p)
        return weir__diag(why, WEIR_ENOMEM, "%s", weir_error_text(WEIR_ENOMEM));
    created_us = weir__min(weir__max(0, created_us), WEIR__NOW_MAX / WEIR__NS_PER_US);
    for (int i = 0; i < limit->n; i++) {
        const struct weir_term *t = &limit->term[i];
        int error = 0;

        if (weir__term_is_of_node(t))
            continue;
        if (!can_be_shared(t))
            error = refuse_term(t, i, why);
        else if ((error = plan_term_open(&p->term[p->n], t, p->n, created_us)) != 0)
            (void)weir__diag(why, error, "term %d: tz=%.*s: %s", i + 1, WEIR_ZONE_MAX, t->tz,
                             weir_error_text(error));
        if (error) {
            weir__plan_close(p);
            return error;
        }
        p->n++;
        p->mask |= weir__script_bit(t->algorithm);
        p->tickets = p->tickets || t->algorithm == WEIR_CONCURRENCY;
        p->needs_creation_time = p->needs_creation_time || term_needs_creation_time(t);
    }
    *plan = p;
    return 0;
}

void weir__plan_close(struct weir__plan *p)
{
    if (!p)
        return;
    for (int i = 0; i < p->n; i++)
        weir__zone_free(p->term[i].zone);
    free(p);
}

int weir__redis_check(const struct weir_limit *limit, struct weir_diag *why)
{
    struct weir__plan *plan;
    const int error = weir__plan_open(&plan, limit, 0, why);

    if (!error)
        weir__plan_close(plan);
    return error;
}
