/* Rates in plain words: what a term does, its worst case, and when a refused caller may retry. */
#include "limit/explain.h"

#include "algo/algo.h"
#include "base/num.h"
#include "limit/anchor.h"
#include "limit/explain_words.h"
#include "limit/options.h"

/* "1 event", "5 events" */
static void explain_events(struct weir__out *o, int64_t n)
{
    explain_say(o, "%n", n);
    explain_text(o, n == 1 ? " event" : " events");
}

static void explain_period(struct weir__out *o, const struct weir_term *t)
{
    static const char *const NAMES[] = {
        [WEIR_DAY] = "day", [WEIR_WEEK] = "week", [WEIR_MONTH] = "month"};

    if (t->calendar == WEIR_DURATION)
        explain_say(o, "%t", t->period_ns);
    else
        explain_text(o, NAMES[t->calendar]);
    if (t->calendar != WEIR_DURATION && t->anchor_s != 0) {
        explain_text(o, " (from ");
        weir__anchor_explain(o, t->calendar, t->anchor_s);
        explain_text(o, ")");
    } else if (t->calendar == WEIR_WEEK) {
        explain_text(o, " (from Monday)");
    }
}

/* "10 per 1s" */
static void explain_rate(struct weir__out *o, const struct weir_term *t)
{
    explain_say(o, "%n per ", t->count);
    explain_period(o, t);
}

static bool each_is_rounded(const struct weir_term *t)
{
    return t->count <= t->period_ns && t->period_ns % t->count != 0;
}

/* The time that one event costs, rounded up to a whole ns. */
static void explain_interval(struct weir__out *o, const struct weir_term *t)
{
    if (t->count > t->period_ns)
        explain_text(o, "1ns or less");
    else
        explain_say(o, "%t", weir__div_ceil(t->period_ns, t->count));
}

/* "100ms", or "about 333ms333us334ns" if it was rounded. */
static void explain_each(struct weir__out *o, const struct weir_term *t)
{
    explain_text(o, each_is_rounded(t) ? "about " : "");
    explain_interval(o, t);
}

/* "every 100ms", or "about every 333ms333us334ns". */
static void explain_every(struct weir__out *o, const struct weir_term *t)
{
    explain_text(o, each_is_rounded(t) ? "about every " : "every ");
    explain_interval(o, t);
}

static int64_t explain_time_of(const struct weir_term *t, int64_t n)
{
    const weir__u128 ns = (weir__wide(n) * weir__wide(t->period_ns) + weir__wide(t->count) - 1) /
                          weir__wide(t->count);

    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

static void what_fixed(struct weir__out *o, const struct weir_term *t)
{
    explain_events(o, t->count);
    explain_text(o, " in each ");
    explain_period(o, t);
    if (t->align == WEIR_ALIGN_FIRST) {
        explain_text(o, "; a window opens with its first event and starts at zero");
        return;
    }
    explain_text(o, ", aligned to the clock in ");
    explain_text(o, t->tz);
    explain_text(o, "; each window starts at zero");
}

static void what_sliding(struct weir__out *o, const struct weir_term *t)
{
    explain_events(o, t->count);
    explain_text(o, " in a window of ");
    explain_period(o, t);
    explain_say(o, " that advances by %t at a time (%n", t->period_ns / t->slots, t->slots);
    explain_text(o, t->slots == 1 ? " slot: a fixed window)" : " slots)");
    if (t->per_slot != WEIR_NONE)
        explain_say(o, ", at most %n in one slot", t->per_slot);
}

static void what_log(struct weir__out *o, const struct weir_term *t)
{
    explain_text(o, "at most ");
    explain_events(o, t->count);
    explain_text(o, " in any ");
    explain_period(o, t);
    explain_text(o, ", exactly: the time of each is kept");
    if (t->min_interval_ns > 0) {
        explain_say(o, "; at least %t between requests", t->min_interval_ns);
    }
}

static void what_leaky(struct weir__out *o, const struct weir_term *t)
{
    explain_say(o, "a bucket of %n that leaks ", t->burst);
    explain_rate(o, t);
    if (t->delay == WEIR_NONE) {
        explain_text(o, "; an event that fits passes at once");
        return;
    }
    explain_say(o, "; an event that finds more than %n in it waits until the excess has leaked",
                t->delay);
}

static void what_pacer(struct weir__out *o, const struct weir_term *t)
{
    explain_text(o, "one event ");
    explain_every(o, t);
    explain_say(o, ", in order of arrival; up to %n wait", t->queue);
    if (t->max_wait_ns != WEIR_FOREVER)
        explain_say(o, ", none longer than %t", t->max_wait_ns);
    if (t->burst > 1) {
        explain_say(o, "; up to %n missed turns may be made up", t->burst - 1);
    }
}

void weir__explain_what(struct weir__out *o, const struct weir_term *t)
{
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW: what_fixed(o, t); break;
    case WEIR_SLIDING_WINDOW: what_sliding(o, t); break;
    case WEIR_SLIDING_COUNTER:
        explain_rate(o, t);
        explain_text(o, ": the count of this window plus that of the one before, weighted by how "
                        "much of it is still covered");
        break;
    case WEIR_SLIDING_LOG: what_log(o, t); break;
    case WEIR_TOKEN_BUCKET:
        explain_text(o, "a token ");
        explain_every(o, t);
        explain_text(o, " (");
        explain_rate(o, t);
        explain_say(o, "), at most %n kept; each event takes one", t->burst);
        break;
    case WEIR_LEAKY_BUCKET: what_leaky(o, t); break;
    case WEIR_PACER: what_pacer(o, t); break;
    case WEIR_SMOOTH_BURSTY:
        explain_rate(o, t);
        explain_say(o,
                    "; the cost of a call delays the next caller; idle time stores up to %t worth "
                    "of permits",
                    t->max_burst_ns);
        break;
    case WEIR_SMOOTH_WARMUP:
        explain_text(o, "up to ");
        explain_rate(o, t);
        explain_say(o,
                    "; the cost of a call delays the next caller; after idle time the rate starts "
                    "lower and warms up over %t",
                    t->warmup_ns);
        break;
    case WEIR_MIN_INTERVAL: explain_say(o, "at least %t between events", t->period_ns); break;
    case WEIR_UNLIMITED: explain_text(o, "grants everything, and counts nothing"); break;
    case WEIR_ZERO: explain_text(o, "refuses everything"); break;
    case WEIR__GUARDS: weir__explain_guard(o, t); break;
    }
    if (t->count_denied)
        explain_text(o, "; refused events count too");
    if (t->shadow)
        explain_text(o, "; shadow: it refuses nothing");
}

/* "t seconds", or "t x 500ms" where no unit is as long as the period. */
static void explain_t_periods(struct weir__out *o, int64_t period_ns)
{
    static const struct {
        const char *name;
        int64_t ns;
    } UNITS[] = {{"days", 86400 * WEIR__NS_PER_S},  {"hours", 3600 * WEIR__NS_PER_S},
                 {"minutes", 60 * WEIR__NS_PER_S},  {"seconds", WEIR__NS_PER_S},
                 {"milliseconds", WEIR__NS_PER_MS}, {"microseconds", WEIR__NS_PER_US}};

    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++) {
        if (UNITS[i].ns == period_ns) {
            explain_text(o, "t ");
            explain_text(o, UNITS[i].name);
            return;
        }
    }
    explain_say(o, "t x %t", period_ns);
}

/* "in t seconds: 20 + 10 t; in any 1s: 30": the bound of the buckets. */
static void worst_bucket(struct weir__out *o, const struct weir_term *t, int64_t burst)
{
    explain_text(o, "in ");
    explain_t_periods(o, t->period_ns);
    explain_text(o, ": ");
    if (burst > 0)
        explain_say(o, "%n + ", burst);
    explain_say(o, "%n t; in any ", t->count);
    explain_period(o, t);
    explain_say(o, ": %n", burst + t->count);
}

/* A shadow term decides like any other, but its refusals do not reach the caller. */
static void explain_shadowed(struct weir__out *o, const struct weir_term *t, const char *what)
{
    if (!t->shadow)
        return;
    explain_text(o, what);
    explain_text(o, "; without shadow: ");
}

void weir__explain_worst(struct weir__out *o, const struct weir_term *t)
{
    explain_shadowed(o, t, "no bound");
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW:
        /* The event that opens a window stands at its start, not at its end. */
        explain_say(o, "%n in an instant: one window at its end, the next at its start",
                    2 * t->count - (t->align == WEIR_ALIGN_FIRST));
        break;
    case WEIR_SLIDING_WINDOW:
        if (t->slots > 1) {
            explain_say(o, "%n in any %t; ", t->count, t->period_ns - t->period_ns / t->slots);
        }
        explain_say(o, "%n in any %t that does not start at the edge of a slot",
                    t->count + (t->per_slot == WEIR_NONE ? t->count : t->per_slot), t->period_ns);
        break;
    case WEIR_SLIDING_COUNTER:
        explain_say(o, "%n in any ", 2 * t->count);
        explain_period(o, t);
        explain_say(o, " if the events of a window all come at its end; %n if they come evenly",
                    t->count);
        break;
    case WEIR_SLIDING_LOG:
        explain_say(o, "%n in any ", t->count);
        explain_period(o, t);
        explain_text(o, ", always");
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_PACER: worst_bucket(o, t, t->burst); break;
    case WEIR_SMOOTH_BURSTY:
        worst_bucket(
            o, t,
            weir__mul_div(t->max_burst_ns, t->count, t->period_ns) +
                (weir__wide(t->max_burst_ns) * weir__wide(t->count) % weir__wide(t->period_ns) !=
                 0));
        explain_text(o, "; plus the cost of the last event, however large");
        break;
    case WEIR_SMOOTH_WARMUP:
        worst_bucket(o, t, 0);
        explain_text(o, "; plus the cost of the last event, however large");
        break;
    case WEIR_MIN_INTERVAL:
        explain_say(o, "1 in any interval shorter than %t", t->period_ns);
        break;
    case WEIR_UNLIMITED: explain_text(o, "no bound"); break;
    case WEIR_ZERO: explain_text(o, "0 in any interval"); break;
    case WEIR__GUARDS: weir__explain_guard_worst(o, t); break;
    }
}

void weir__explain_refused(struct weir__out *o, const struct weir_term *t)
{
    explain_shadowed(o, t, "never");
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW:
        explain_text(o, "retry when the window ends, after at most ");
        explain_text(o, t->calendar == WEIR_DURATION ? "" : "a ");
        explain_period(o, t);
        break;
    case WEIR_SLIDING_WINDOW:
        explain_say(o, "retry when enough slots have left the window, after at most %t",
                    t->period_ns);
        break;
    case WEIR_SLIDING_COUNTER:
        explain_say(o, "retry when the weighted count has dropped, after at most %t",
                    weir__mul_sat(t->period_ns, 2));
        break;
    case WEIR_SLIDING_LOG:
        explain_say(o, "retry when the oldest events are %t old", t->period_ns);
        if (t->min_interval_ns > 0)
            explain_say(o, ", and the last request %t", t->min_interval_ns);
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        explain_text(o, "retry after ");
        explain_each(o, t);
        explain_text(o, " for one");
        if (t->burst > 1)
            explain_say(o, ", %t for %n", explain_time_of(t, t->burst), t->burst);
        if (t->algorithm == WEIR_LEAKY_BUCKET && t->delay != WEIR_NONE) {
            explain_say(o, "; an admitted event waits up to %t",
                        explain_time_of(t, weir__max(0, t->burst - 1 - t->delay)));
        }
        break;
    case WEIR_PACER:
        explain_say(
            o,
            "callers wait for their turn, up to %t; beyond that they are refused: retry when a "
            "place is free (",
            weir__min(weir__min(explain_time_of(t, t->queue), WEIR__SPAN_MAX), t->max_wait_ns));
        explain_each(o, t);
        explain_text(o, ")");
        break;
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP:
        explain_text(o, "callers wait out the cost of the calls before them (");
        explain_each(o, t);
        explain_text(o, " for one event); refused only if they will not wait that long");
        break;
    case WEIR_MIN_INTERVAL: explain_say(o, "retry after at most %t", t->period_ns); break;
    case WEIR_UNLIMITED: explain_text(o, "never"); break;
    case WEIR_ZERO: explain_text(o, "always; there is no time to come back"); break;
    case WEIR__GUARDS: weir__explain_guard_refused(o, t); break;
    }
}

void weir__explain_options(struct weir__out *o, const struct weir_term *t)
{
    const unsigned both[] = {t->algorithm, WEIR__ANY_ALGORITHM};
    const char *space = "";

    for (int i = 0; i < 2; i++) {
        for (const struct weir__option *x = weir__options_of(both[i]); x->name; x++) {
            if (!weir__option_applies(x, t))
                continue;
            explain_text(o, space);
            weir__option_print(o, x, t);
            space = " ";
        }
    }
}

struct weir__term_numbers weir__explain_numbers(const struct weir_term *t)
{
    struct weir__meter m;

    weir__meter_init(&m, t, 0);
    return (struct weir__term_numbers){
        .has_limit = (!weir__meter_guards(&m) && t->algorithm != WEIR_UNLIMITED) ||
                     t->algorithm == WEIR_CONCURRENCY || m.limit < WEIR_COUNT_MAX,
        .limit_moves = t->algorithm >= WEIR_BBR,
        .limit = m.limit,
        .state_bytes = weir__meter_state_size(&m),
    };
}
