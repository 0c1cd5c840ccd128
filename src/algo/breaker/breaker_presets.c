/* When a breaker opens: the comparisons of the libraries that its presets are named after, where
 * these differ by one.
 *
 *                   opens on                           volume   leaves OPEN        probes
 *     (none)        share >= errors, count >= N        shares   now >= until       all must be well
 *     hystrix       whole percent >= errors            shares   now >  until       the same, one
 *     resilience4j  share >= errors                    shares   now >  until       by their share
 *     sentinel      share > errors, count > N          both     now >= until       the same, one
 *                   (a slow share of 100%: >=)
 *     sre           no states: breaker_sre.c
 *
 * With hystrix alone, the probe that closes the breaker counts in the window that begins then.
 *
 * Shares are compared by cross multiplication, so that 3 of 8 is exactly 37.5%. Hystrix judges on a
 * timer every 500 ms; weir judges as a call ends.
 */
#include "algo/breaker/breaker.h"

/* Counts are below 2^32. */
static bool breaker_too_many(const struct weir_term *t, int64_t some, int64_t of, int64_t milli)
{
    switch (t->preset) {
    case WEIR_PRESET_HYSTRIX: return some * 100 / of * 10 >= milli;
    case WEIR_PRESET_SENTINEL: return some * 1000 > milli * of;
    case WEIR_PRESET_NONE:
    case WEIR_PRESET_RESILIENCE4J:
    case WEIR_PRESET_SRE: break;
    }
    return some * 1000 >= milli * of;
}

static bool breaker_fails(const struct weir_term *t, struct weir__tally n)
{
    return t->errors_milli != WEIR_NONE && breaker_too_many(t, n.errors, n.calls, t->errors_milli);
}

static bool breaker_lags(const struct weir_term *t, struct weir__tally n)
{
    if (t->slow_milli == WEIR_NONE)
        return false;
    if (t->slow_milli == 1000) /* there is no more than all */
        return n.slow == n.calls;
    return breaker_too_many(t, n.slow, n.calls, t->slow_milli);
}

static bool breaker_counts(const struct weir_term *t, struct weir__tally n)
{
    if (t->error_count == WEIR_NONE)
        return false;
    if (t->preset == WEIR_PRESET_SENTINEL)
        return n.errors > t->error_count && n.calls >= t->volume;
    return n.errors >= t->error_count;
}

bool weir__breaker_trips(const struct weir_term *t, struct weir__tally n)
{
    if (n.calls == 0)
        return false;
    return (n.calls >= t->volume && (breaker_fails(t, n) || breaker_lags(t, n))) ||
           breaker_counts(t, n);
}

/* Whether a probe with that outcome failed, by the criteria that the breaker uses. */
static bool breaker_is_bad(const struct weir_term *t, bool error, bool slow)
{
    const bool counts_errors = t->errors_milli != WEIR_NONE || t->error_count != WEIR_NONE;

    return (error && counts_errors) || (slow && t->slow_milli != WEIR_NONE);
}

int64_t weir__breaker_until(const struct weir_term *t, int64_t mark_ns)
{
    const bool strictly = t->preset == WEIR_PRESET_HYSTRIX || t->preset == WEIR_PRESET_RESILIENCE4J;

    return strictly ? mark_ns + 1 : mark_ns;
}

int weir__breaker_judges(const struct weir_term *t, struct weir__tally n, bool error, bool slow)
{
    const int64_t enough = weir__max(1, weir__min(t->volume, t->probes));

    if (t->preset != WEIR_PRESET_RESILIENCE4J)
        return breaker_is_bad(t, error, slow) ? -1 : n.calls >= t->probes;
    if (n.calls < enough)
        return 0;
    return breaker_fails(t, n) || breaker_lags(t, n) ||
                   (t->error_count != WEIR_NONE && n.errors > 0)
               ? -1
               : 1;
}
