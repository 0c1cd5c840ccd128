#include "policy/explain.h"

#include "algo/algo.h"
#include "base/num.h"
#include "policy/options.h"
#include "policy/words.h"

/* "1 event", "5 events" */
static void events(struct weir__out *o, int64_t n)
{
    number(o, n);
    text(o, n == 1 ? " event" : " events");
}

static void period(struct weir__out *o, const struct weir_term *t)
{
    static const char *const NAMES[] = {
        [WEIR_DAY] = "day", [WEIR_WEEK] = "week (from Monday)", [WEIR_MONTH] = "month"};

    if (t->calendar == WEIR_DURATION)
        span(o, t->period_ns);
    else
        text(o, NAMES[t->calendar]);
}

/* "10 per 1s" */
static void rate(struct weir__out *o, const struct weir_term *t)
{
    number(o, t->count);
    text(o, " per ");
    period(o, t);
}

/* One event each T, rounded up to a whole ns and said so if it was. */
static void each(struct weir__out *o, const struct weir_term *t)
{
    if (t->count > t->period_ns) {
        text(o, "fraction of a nanosecond");
        return;
    }
    if (t->period_ns % t->count != 0)
        text(o, "about ");
    span(o, weir__div_ceil(t->period_ns, t->count));
}

static int64_t time_of(const struct weir_term *t, int64_t n)
{
    const weir__u128 ns = (weir__wide(n) * weir__wide(t->period_ns) + weir__wide(t->count) - 1) /
                          weir__wide(t->count);

    return ns > INT64_MAX ? INT64_MAX : (int64_t)ns;
}

static void what_fixed(struct weir__out *o, const struct weir_term *t)
{
    events(o, t->count);
    text(o, " in each ");
    period(o, t);
    if (t->align == WEIR_ALIGN_FIRST) {
        text(o, "; a window opens with its first event and starts from nothing");
        return;
    }
    text(o, ", cut by the clock in ");
    text(o, t->tz);
    text(o, "; each starts from nothing");
}

static void what_sliding(struct weir__out *o, const struct weir_term *t)
{
    events(o, t->count);
    text(o, " in a window of ");
    period(o, t);
    text(o, " that moves on by ");
    span(o, t->period_ns / t->slots);
    text(o, " at a time (");
    number(o, t->slots);
    text(o, t->slots == 1 ? " slot: a fixed window)" : " slots)");
    if (t->per_slot != WEIR_NONE) {
        text(o, ", at most ");
        number(o, t->per_slot);
        text(o, " in one slot");
    }
}

static void what_log(struct weir__out *o, const struct weir_term *t)
{
    text(o, "exactly ");
    events(o, t->count);
    text(o, " in any ");
    period(o, t);
    text(o, ", by the times of the last ones");
    if (t->min_interval_ns > 0) {
        text(o, "; at least ");
        span(o, t->min_interval_ns);
        text(o, " between requests");
    }
}

static void what_leaky(struct weir__out *o, const struct weir_term *t)
{
    text(o, "a bucket of ");
    number(o, t->burst);
    text(o, " that leaks ");
    rate(o, t);
    if (t->delay == WEIR_NONE) {
        text(o, "; what fits passes at once");
        return;
    }
    text(o, "; an event that finds more than ");
    number(o, t->delay);
    text(o, " in it waits until they have leaked");
}

static void what_pacer(struct weir__out *o, const struct weir_term *t)
{
    text(o, "one event each ");
    each(o, t);
    text(o, ", in turn; up to ");
    number(o, t->queue);
    text(o, " wait");
    if (t->max_wait_ns != WEIR_FOREVER) {
        text(o, ", none longer than ");
        span(o, t->max_wait_ns);
    }
    if (t->burst > 1) {
        text(o, "; up to ");
        number(o, t->burst - 1);
        text(o, " missed turns may be caught up");
    }
}

void weir__explain_what(struct weir__out *o, const struct weir_term *t)
{
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW: what_fixed(o, t); break;
    case WEIR_SLIDING_WINDOW: what_sliding(o, t); break;
    case WEIR_SLIDING_COUNTER:
        rate(o, t);
        text(o,
             ", counted in this window and, weighted by how much of it is still covered, the one "
             "before");
        break;
    case WEIR_SLIDING_LOG: what_log(o, t); break;
    case WEIR_TOKEN_BUCKET:
        text(o, "a token each ");
        each(o, t);
        text(o, " (");
        rate(o, t);
        text(o, "), up to ");
        number(o, t->burst);
        text(o, " kept; an event takes one");
        break;
    case WEIR_LEAKY_BUCKET: what_leaky(o, t); break;
    case WEIR_PACER: what_pacer(o, t); break;
    case WEIR_SMOOTH_BURSTY:
        rate(o, t);
        text(o, ", paid for by the next caller; idleness stores up to ");
        span(o, t->max_burst_ns);
        text(o, " worth of permits");
        break;
    case WEIR_SMOOTH_WARMUP:
        text(o, "up to ");
        rate(o, t);
        text(o,
             ", paid for by the next caller; after idleness it starts slower and warms up over ");
        span(o, t->warmup_ns);
        break;
    case WEIR_MIN_INTERVAL:
        text(o, "at least ");
        span(o, t->period_ns);
        text(o, " between events");
        break;
    case WEIR__GUARDS: weir__explain_guard(o, t); break;
    }
    if (t->count_denied)
        text(o, "; refused events count too");
    if (t->shadow)
        text(o, "; shadow: it refuses nothing");
}

/* "B and then RATE": the bound of the buckets. */
static void worst_bucket(struct weir__out *o, const struct weir_term *t, int64_t burst)
{
    text(o, "in any interval of length t: ");
    number(o, burst);
    text(o, " + t x ");
    rate(o, t);
    text(o, "; in any ");
    period(o, t);
    text(o, ": ");
    number(o, burst + t->count);
}

/* A shadow decides as the others do, but nobody hears of it. */
static void shadowed(struct weir__out *o, const struct weir_term *t, const char *what)
{
    if (!t->shadow)
        return;
    text(o, what);
    text(o, "; without shadow: ");
}

void weir__explain_worst(struct weir__out *o, const struct weir_term *t)
{
    shadowed(o, t, "whatever comes");
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW:
        /* the event that opens a window of its own is not at its end */
        number(o, 2 * t->count - (t->align == WEIR_ALIGN_FIRST));
        text(o, " in an instant: one window at its end, the next at its start");
        break;
    case WEIR_SLIDING_WINDOW:
        if (t->slots > 1) {
            number(o, t->count);
            text(o, " in any ");
            span(o, t->period_ns - t->period_ns / t->slots);
            text(o, "; ");
        }
        number(o, t->count + (t->per_slot == WEIR_NONE ? t->count : t->per_slot));
        text(o, " in a window's length that no slot's edge begins");
        break;
    case WEIR_SLIDING_COUNTER:
        number(o, 2 * t->count);
        text(o, " in any ");
        period(o, t);
        text(o, ", if all of a window comes at its end; ");
        number(o, t->count);
        text(o, " if arrivals are even");
        break;
    case WEIR_SLIDING_LOG:
        number(o, t->count);
        text(o, " in any ");
        period(o, t);
        text(o, ", always");
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
        text(o, "; and the last event's own cost, whatever it is");
        break;
    case WEIR_SMOOTH_WARMUP:
        worst_bucket(o, t, 0);
        text(o, "; and the last event's own cost, whatever it is");
        break;
    case WEIR_MIN_INTERVAL: text(o, "1 in any interval shorter than that"); break;
    case WEIR__GUARDS: weir__explain_guard_worst(o, t); break;
    }
}

void weir__explain_refused(struct weir__out *o, const struct weir_term *t)
{
    shadowed(o, t, "nobody is");
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW:
        text(o, "until the window ends: up to ");
        text(o, t->calendar == WEIR_DURATION ? "" : "a ");
        period(o, t);
        break;
    case WEIR_SLIDING_WINDOW:
        text(o, "until enough slots have left: up to ");
        span(o, t->period_ns);
        break;
    case WEIR_SLIDING_COUNTER:
        text(o, "until the weight of the past has sunk: up to ");
        span(o, weir__mul_sat(t->period_ns, 2));
        break;
    case WEIR_SLIDING_LOG:
        text(o, "until the oldest events are ");
        span(o, t->period_ns);
        text(o, " old");
        if (t->min_interval_ns > 0) {
            text(o, ", and the last request ");
            span(o, t->min_interval_ns);
        }
        break;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        each(o, t);
        text(o, " for one event");
        if (t->burst > 1) {
            text(o, ", ");
            span(o, time_of(t, t->burst));
            text(o, " for ");
            number(o, t->burst);
        }
        if (t->algorithm == WEIR_LEAKY_BUCKET && t->delay != WEIR_NONE) {
            text(o, "; an admitted one waits up to ");
            span(o, time_of(t, weir__max(0, t->burst - 1 - t->delay)));
        }
        break;
    case WEIR_PACER:
        text(o, "callers wait for their turn, up to ");
        span(o, weir__min(weir__min(time_of(t, t->queue), WEIR__SPAN_MAX), t->max_wait_ns));
        text(o, "; refused beyond that, until a place is free (");
        each(o, t);
        text(o, ")");
        break;
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP:
        text(o, "callers wait for what the ones before took (");
        each(o, t);
        text(o, " for one event); refused only if they will not wait that long");
        break;
    case WEIR_MIN_INTERVAL:
        text(o, "up to ");
        span(o, t->period_ns);
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
            text(o, space);
            weir__option_print(o, x, t);
            space = " ";
        }
    }
}
