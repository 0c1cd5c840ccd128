#include "limit/explain.h"

#include "algo/algo.h"
#include "base/num.h"
#include "limit/explain_words.h"
#include "limit/options.h"

/* "1 event", "5 events" */
static void explain_events(struct weir__out *o, int64_t n)
{
    explain_number(o, n);
    explain_text(o, n == 1 ? " event" : " events");
}

static void explain_period(struct weir__out *o, const struct weir_term *t)
{
    static const char *const NAMES[] = {
        [WEIR_DAY] = "day", [WEIR_WEEK] = "week (from Monday)", [WEIR_MONTH] = "month"};

    if (t->calendar == WEIR_DURATION)
        explain_span(o, t->period_ns);
    else
        explain_text(o, NAMES[t->calendar]);
}

/* "10 per 1s" */
static void explain_rate(struct weir__out *o, const struct weir_term *t)
{
    explain_number(o, t->count);
    explain_text(o, " per ");
    explain_period(o, t);
}

/* One event each T, rounded up to a whole ns and said so if it was. */
static void explain_each(struct weir__out *o, const struct weir_term *t)
{
    if (t->count > t->period_ns) {
        explain_text(o, "fraction of a nanosecond");
        return;
    }
    if (t->period_ns % t->count != 0)
        explain_text(o, "about ");
    explain_span(o, weir__div_ceil(t->period_ns, t->count));
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
        explain_text(o, "; a window opens with its first event and starts from nothing");
        return;
    }
    explain_text(o, ", cut by the clock in ");
    explain_text(o, t->tz);
    explain_text(o, "; each starts from nothing");
}

static void what_sliding(struct weir__out *o, const struct weir_term *t)
{
    explain_events(o, t->count);
    explain_text(o, " in a window of ");
    explain_period(o, t);
    explain_text(o, " that moves on by ");
    explain_span(o, t->period_ns / t->slots);
    explain_text(o, " at a time (");
    explain_number(o, t->slots);
    explain_text(o, t->slots == 1 ? " slot: a fixed window)" : " slots)");
    if (t->per_slot != WEIR_NONE) {
        explain_text(o, ", at most ");
        explain_number(o, t->per_slot);
        explain_text(o, " in one slot");
    }
}

static void what_log(struct weir__out *o, const struct weir_term *t)
{
    explain_text(o, "exactly ");
    explain_events(o, t->count);
    explain_text(o, " in any ");
    explain_period(o, t);
    explain_text(o, ", by the times of the last ones");
    if (t->min_interval_ns > 0) {
        explain_text(o, "; at least ");
        explain_span(o, t->min_interval_ns);
        explain_text(o, " between requests");
    }
}

static void what_leaky(struct weir__out *o, const struct weir_term *t)
{
    explain_text(o, "a bucket of ");
    explain_number(o, t->burst);
    explain_text(o, " that leaks ");
    explain_rate(o, t);
    if (t->delay == WEIR_NONE) {
        explain_text(o, "; what fits passes at once");
        return;
    }
    explain_text(o, "; an event that finds more than ");
    explain_number(o, t->delay);
    explain_text(o, " in it waits until they have leaked");
}

static void what_pacer(struct weir__out *o, const struct weir_term *t)
{
    explain_text(o, "one event each ");
    explain_each(o, t);
    explain_text(o, ", in turn; up to ");
    explain_number(o, t->queue);
    explain_text(o, " wait");
    if (t->max_wait_ns != WEIR_FOREVER) {
        explain_text(o, ", none longer than ");
        explain_span(o, t->max_wait_ns);
    }
    if (t->burst > 1) {
        explain_text(o, "; up to ");
        explain_number(o, t->burst - 1);
        explain_text(o, " missed turns may be caught up");
    }
}

void weir__explain_what(struct weir__out *o, const struct weir_term *t)
{
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW: what_fixed(o, t); break;
    case WEIR_SLIDING_WINDOW: what_sliding(o, t); break;
    case WEIR_SLIDING_COUNTER:
        explain_rate(o, t);
        explain_text(
            o, ", counted in this window and, weighted by how much of it is still covered, the one "
               "before");
        break;
    case WEIR_SLIDING_LOG: what_log(o, t); break;
    case WEIR_TOKEN_BUCKET:
        explain_text(o, "a token each ");
        explain_each(o, t);
        explain_text(o, " (");
        explain_rate(o, t);
        explain_text(o, "), up to ");
        explain_number(o, t->burst);
        explain_text(o, " kept; an event takes one");
        break;
    case WEIR_LEAKY_BUCKET: what_leaky(o, t); break;
    case WEIR_PACER: what_pacer(o, t); break;
    case WEIR_SMOOTH_BURSTY:
        explain_rate(o, t);
        explain_text(o, ", paid for by the next caller; idleness stores up to ");
        explain_span(o, t->max_burst_ns);
        explain_text(o, " worth of permits");
        break;
    case WEIR_SMOOTH_WARMUP:
        explain_text(o, "up to ");
        explain_rate(o, t);
        explain_text(
            o, ", paid for by the next caller; after idleness it starts slower and warms up over ");
        explain_span(o, t->warmup_ns);
        break;
    case WEIR_MIN_INTERVAL:
        explain_text(o, "at least ");
        explain_span(o, t->period_ns);
        explain_text(o, " between events");
        break;
    case WEIR__GUARDS: weir__explain_guard(o, t); break;
    }
    if (t->count_denied)
        explain_text(o, "; refused events count too");
    if (t->shadow)
        explain_text(o, "; shadow: it refuses nothing");
}

/* "B and then RATE": the bound of the buckets. */
static void worst_bucket(struct weir__out *o, const struct weir_term *t, int64_t burst)
{
    explain_text(o, "in any interval of length t: ");
    explain_number(o, burst);
    explain_text(o, " + t x ");
    explain_rate(o, t);
    explain_text(o, "; in any ");
    explain_period(o, t);
    explain_text(o, ": ");
    explain_number(o, burst + t->count);
}

/* A shadow decides as the others do, but nobody hears of it. */
static void explain_shadowed(struct weir__out *o, const struct weir_term *t, const char *what)
{
    if (!t->shadow)
        return;
    explain_text(o, what);
    explain_text(o, "; without shadow: ");
}

void weir__explain_worst(struct weir__out *o, const struct weir_term *t)
{
    explain_shadowed(o, t, "whatever comes");
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW:
        /* the event that opens a window of its own is not at its end */
        explain_number(o, 2 * t->count - (t->align == WEIR_ALIGN_FIRST));
        explain_text(o, " in an instant: one window at its end, the next at its start");
        break;
    case WEIR_SLIDING_WINDOW:
        if (t->slots > 1) {
            explain_number(o, t->count);
            explain_text(o, " in any ");
            explain_span(o, t->period_ns - t->period_ns / t->slots);
            explain_text(o, "; ");
        }
        explain_number(o, t->count + (t->per_slot == WEIR_NONE ? t->count : t->per_slot));
        explain_text(o, " in a window's length that no slot's edge begins");
        break;
    case WEIR_SLIDING_COUNTER:
        explain_number(o, 2 * t->count);
        explain_text(o, " in any ");
        explain_period(o, t);
        explain_text(o, ", if all of a window comes at its end; ");
        explain_number(o, t->count);
        explain_text(o, " if arrivals are even");
        break;
    case WEIR_SLIDING_LOG:
        explain_number(o, t->count);
        explain_text(o, " in any ");
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
        explain_text(o, "; and the last event's own cost, whatever it is");
        break;
    case WEIR_SMOOTH_WARMUP:
        worst_bucket(o, t, 0);
        explain_text(o, "; and the last event's own cost, whatever it is");
        break;
    case WEIR_MIN_INTERVAL: explain_text(o, "1 in any interval shorter than that"); break;
    case WEIR__GUARDS: weir__explain_guard_worst(o, t); break;
    }
}

void weir__explain_refused(struct weir__out *o, const struct weir_term *t)
{
    explain_shadowed(o, t, "nobody is");
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW:
        explain_text(o, "until the window ends: up to ");
        explain_text(o, t->calendar == WEIR_DURATION ? "" : "a ");
        explain_period(o, t);
        break;
    case WEIR_SLIDING_WINDOW:
        explain_text(o, "until enough slots have left: up to ");
        explain_span(o, t->period_ns);
        break;
    case WEIR_SLIDING_COUNTER:
        explain_text(o, "until the weight of the past has sunk: up to ");
        explain_span(o, weir__mul_sat(t->period_ns, 2));
        break;
    case WEIR_SLIDING_LOG:
        explain_text(o, "until the oldest events are ");
        explain_span(o, t->period_ns);
        explain_text(o, " old");
        if (t->min_interval_ns > 0) {
            explain_text(o, ", and the last request ");
            explain_span(o, t->min_interval_ns);
        }
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        explain_each(o, t);
        explain_text(o, " for one event");
        if (t->burst > 1) {
            explain_text(o, ", ");
            explain_span(o, explain_time_of(t, t->burst));
            explain_text(o, " for ");
            explain_number(o, t->burst);
        }
        if (t->algorithm == WEIR_LEAKY_BUCKET && t->delay != WEIR_NONE) {
            explain_text(o, "; an admitted one waits up to ");
            explain_span(o, explain_time_of(t, weir__max(0, t->burst - 1 - t->delay)));
        }
        break;
    case WEIR_PACER:
        explain_text(o, "callers wait for their turn, up to ");
        explain_span(
            o, weir__min(weir__min(explain_time_of(t, t->queue), WEIR__SPAN_MAX), t->max_wait_ns));
        explain_text(o, "; refused beyond that, until a place is free (");
        explain_each(o, t);
        explain_text(o, ")");
        break;
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP:
        explain_text(o, "callers wait for what the ones before took (");
        explain_each(o, t);
        explain_text(o, " for one event); refused only if they will not wait that long");
        break;
    case WEIR_MIN_INTERVAL:
        explain_text(o, "up to ");
        explain_span(o, t->period_ns);
        break;
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
