/* Guards in plain words: what a term does, its worst case, and when a refused caller may retry. */
#include "limit/explain.h"

#include "algo/algo.h"
#include "limit/explain_words.h"
#include "limit/options.h"

/* Writes `join` before every entry of a list but the first. */
static void explain_next(struct weir__out *o, bool *first, const char *join)
{
    explain_text(o, *first ? "" : join);
    *first = false;
}

static void explain_over(struct weir__out *o, bool *first, const char *what, int64_t milli,
                         bool percent)
{
    if (milli == WEIR_NONE)
        return;
    explain_next(o, first, " or ");
    explain_text(o, what);
    if (percent)
        weir__out_percent(o, milli);
    else
        weir__out_milli(o, milli);
}

/* ---- What ------------------------------------------------------------------------------------ */

static void what_concurrency(struct weir__out *o, const struct weir_term *t)
{
    explain_say(o, "at most %n in flight at once", t->count);
    if (t->queue > 0 && t->max_wait_ns == 0) {
        explain_text(o, "; max-wait=0: no caller waits, so the queue has no effect");
    } else if (t->queue > 0) {
        explain_say(o, "; up to %n", t->queue);
        explain_text(o, t->queue == 1 ? " waits" : " wait, first come first served");
        if (t->max_wait_ns != WEIR_FOREVER)
            explain_say(o, ", none longer than %t", t->max_wait_ns);
    }
    if (t->lease_ns != WEIR_NONE) {
        explain_say(o, "; a permit that is not returned expires after %t", t->lease_ns);
    }
}

static void what_system(struct weir__out *o, const struct weir_term *t)
{
    bool first = true;

    explain_text(o, "the whole process: refuses while ");
    explain_over(o, &first, "cpu is over ", t->cpu_milli, true);
    explain_over(o, &first, "the load average is over ", t->load_milli, false);
    explain_over(o, &first, "memory is over ", t->memory_milli, true);
    explain_over(o, &first, "pressure is over ", t->pressure_milli, true);
    if (t->target_ns != WEIR_NONE) {
        explain_next(o, &first, " or ");
        explain_say(o, "calls took longer than %t on average in the last second", t->target_ns);
    }
    if (t->most != WEIR_NONE) {
        explain_next(o, &first, " or ");
        explain_say(o, "%n are in flight", t->most);
    }
    if (t->count > 0) {
        explain_next(o, &first, " or ");
        explain_say(o, "more than %n per %t enter", t->count, t->period_ns);
    }
}

static void what_sre(struct weir__out *o, const struct weir_term *t)
{
    explain_say(o,
                "throttles: once more than %p of the calls of the last %t fail (of at least %n), "
                "it refuses calls at random, in proportion to the excess",
                t->errors_milli, t->window_ns, t->volume);
}

static void explain_of_many(struct weir__out *o, const struct weir_term *t)
{
    if (t->volume <= 1)
        return;
    explain_say(o, " of %n or more", t->volume);
}

static void opens_when(struct weir__out *o, const struct weir_term *t)
{
    bool first = true;

    explain_text(o, "opens when, of the ");
    if (t->window_ns == WEIR_NONE)
        explain_say(o, "last %n calls, however long ago, ", t->window_calls);
    else
        explain_say(o, "calls of the last %t, ", t->window_ns);
    if (t->errors_milli != WEIR_NONE) {
        explain_next(o, &first, " or ");
        weir__out_percent(o, t->errors_milli);
        explain_of_many(o, t);
        explain_text(o, " fail");
    }
    if (t->slow_milli != WEIR_NONE) {
        explain_next(o, &first, " or ");
        weir__out_percent(o, t->slow_milli);
        explain_of_many(o, t);
        explain_say(o, " take longer than %t", t->slow_ns);
    }
    if (t->error_count != WEIR_NONE) {
        explain_next(o, &first, " or ");
        explain_say(o, "%n", t->error_count);
        if (t->preset == WEIR_PRESET_SENTINEL) /* more than that, and a volume applies */
            explain_of_many(o, t);
        explain_text(o, " fail");
    }
}

static void what_breaker(struct weir__out *o, const struct weir_term *t)
{
    if (t->preset == WEIR_PRESET_SRE) {
        what_sre(o, t);
    } else {
        opens_when(o, t);
        explain_say(o, "; after %t it lets %n", t->open_ns, t->probes);
        explain_text(o, t->probes == 1 ? " probe through, and closes if it succeeds"
                                       : " probes through, and closes if they succeed");
        if (t->open_most_ns > t->open_ns && t->growth_milli > 1000) {
            explain_say(o, "; each time it opens again it stays open %m times as long, up to %t",
                        t->growth_milli, t->open_most_ns);
        }
    }
    switch (t->forced) {
    case WEIR_FORCED_NOT: break;
    case WEIR_FORCED_OPEN: explain_text(o, "; forced open: it refuses everything"); break;
    case WEIR_FORCED_CLOSED: explain_text(o, "; forced closed: it lets everything pass"); break;
    case WEIR_FORCED_METRICS:
        explain_text(o, "; metrics only: it measures, and refuses nothing");
        break;
    }
}

static void what_bbr(struct weir__out *o, const struct weir_term *t)
{
    bool first = true;

    explain_text(o, "while ");
    explain_over(o, &first, "cpu is at ", t->cpu_milli, true);
    explain_over(o, &first, "memory is at ", t->memory_milli, true);
    explain_over(o, &first, "the load average is at ", t->load_milli, false);
    explain_say(o,
                " or more, at most as many in flight as the best of the last %t carried (its "
                "throughput times its lowest latency)",
                t->window_ns);
    if (t->cooling_ns > 0) {
        explain_say(o, "; and for %t after the first refusal", t->cooling_ns);
    }
}

static void what_limits(struct weir__out *o, const struct weir_term *t)
{
    explain_say(o, "a limit on calls in flight that begins at %n and moves between %n and %n",
                t->initial, t->least, t->most);
    switch (t->algorithm) {
    case WEIR_VEGAS:
        explain_text(o, ": up while calls are as fast as the fastest, down as they queue");
        break;
    case WEIR_GRADIENT:
        explain_text(o, ": down as calls take longer than their long-term average, otherwise up");
        break;
    case WEIR_AIMD:
        explain_say(o,
                    ": up by one while it is in use, down by a tenth when a call is dropped or "
                    "takes longer than %t",
                    t->target_ns);
        break;
    default: break; /* these three have limits */
    }
}

static void what_adaptive_rate(struct weir__out *o, const struct weir_term *t)
{
    explain_say(o,
                "a token bucket that begins at %n per %t and moves between %n and %n: down by "
                "three tenths after a second in which more than %p of the calls failed",
                t->count, t->period_ns, t->least, t->most, t->errors_milli);
    if (t->target_ns != WEIR_NONE)
        explain_say(o, " or took longer than %t", t->target_ns);
    explain_say(o,
                ", and at once when a call is dropped; up by a twentieth of %n after a second that "
                "went well",
                t->count);
}

void weir__explain_guard(struct weir__out *o, const struct weir_term *t)
{
    switch (t->algorithm) {
    case WEIR_CONCURRENCY: what_concurrency(o, t); return;
    case WEIR_SYSTEM: what_system(o, t); return;
    case WEIR_BREAKER: what_breaker(o, t); return;
    case WEIR_BBR: what_bbr(o, t); return;
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD: what_limits(o, t); return;
    case WEIR_ADAPTIVE_RATE: what_adaptive_rate(o, t); return;
    case WEIR__RATES: return; /* explain.c */
    }
}

/* ---- At worst -------------------------------------------------------------------------------- */

static void worst_system(struct weir__out *o, const struct weir_term *t)
{
    bool first = true;

    if (t->most != WEIR_NONE) {
        explain_next(o, &first, "; ");
        explain_say(o, "%n in flight", t->most);
    }
    if (t->count > 0) {
        explain_next(o, &first, "; ");
        explain_say(o, "%n in any %t", 2 * t->count, t->period_ns);
    }
    if (first)
        explain_text(o, "as many as arrive before the next sample of its signals");
}

static void worst_adaptive_rate(struct weir__out *o, const struct weir_term *t)
{
    const weir__u128 most =
        weir__wide(t->burst) * weir__wide(t->most) / weir__wide(t->count) + weir__wide(t->most);

    explain_say(o, "at the highest rate, in any %t: %n", t->period_ns,
                (int64_t)(most < weir__wide(WEIR_COUNT_MAX) ? most : weir__wide(WEIR_COUNT_MAX)));
}

void weir__explain_guard_worst(struct weir__out *o, const struct weir_term *t)
{
    switch (t->algorithm) {
    case WEIR_CONCURRENCY:
        explain_say(o, "%n at once, however long each takes; no bound per second", t->count);
        return;
    case WEIR_SYSTEM: worst_system(o, t); return;
    case WEIR_BREAKER:
        if (t->forced == WEIR_FORCED_OPEN)
            explain_text(o, "none");
        else if (t->preset == WEIR_PRESET_SRE)
            explain_text(o, "all, while few enough fail");
        else
            explain_text(o, "all while closed, none while open, only the probes while half-open");
        return;
    case WEIR_BBR: explain_text(o, "all, while the system is below its thresholds"); return;
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD:
        explain_say(o, "%n at once, and never fewer than %n", t->most, t->least);
        return;
    case WEIR_ADAPTIVE_RATE: worst_adaptive_rate(o, t); return;
    case WEIR__RATES: return;
    }
}

/* ---- Refused --------------------------------------------------------------------------------- */

static void refused_breaker(struct weir__out *o, const struct weir_term *t)
{
    if (t->forced != WEIR_FORCED_NOT) {
        explain_text(o,
                     t->forced == WEIR_FORCED_OPEN ? "retry when it is no longer forced" : "never");
        return;
    }
    if (t->preset == WEIR_PRESET_SRE) {
        explain_text(o, "retry at any time: each call is decided at random");
        return;
    }
    explain_say(o, "while open: retry after at most %t", t->open_ns);
    if (t->open_most_ns > t->open_ns && t->growth_milli > 1000)
        explain_say(o, " (up to %t after it has opened again)", t->open_most_ns);
    explain_say(o, "; while half-open: when the probes have ended, after at most %t", t->probe_ns);
}

void weir__explain_guard_refused(struct weir__out *o, const struct weir_term *t)
{
    switch (t->algorithm) {
    case WEIR_CONCURRENCY:
        if (t->queue == 0 || t->max_wait_ns == 0)
            explain_text(o, "retry when a permit is free");
        else
            explain_text(
                o, "if the queue is full, or the wait in it too long: retry when a permit is free");
        return;
    case WEIR_SYSTEM:
        explain_text(o, "retry when no signal is over its bound");
        if (t->count > 0) {
            explain_say(o, "; for the rate, after %t", weir__div_ceil(t->period_ns, t->count));
        }
        return;
    case WEIR_BREAKER: refused_breaker(o, t); return;
    case WEIR_BBR:
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD: explain_text(o, "retry when a call has left or the limit has risen"); return;
    case WEIR_ADAPTIVE_RATE:
        explain_say(o, "retry after %t for one at the highest rate, %t at the lowest",
                    weir__div_ceil(t->period_ns, t->most), weir__div_ceil(t->period_ns, t->least));
        return;
    case WEIR__RATES: return;
    }
}
