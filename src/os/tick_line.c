/* Lines: how one follows another. The idea is in tick_line.h.
 *
 * Invariants:
 *   (1) No line starts at a time below the end of the line before it, and none returns a time below
 *       its own start.
 *   (2) A line is at most WEIR__TICK_LINE_STRAY_NS behind the true time while it serves: it starts
 *       at most half of that behind, and a rate that is off by more than a thousandth is rejected.
 *   (3) A line may be ahead of the true time: it then runs slower, at no less than half the rate,
 *       until it is not.
 */
#include "os/tick_line.h"

#define SPAN_NS    WEIR__NS_PER_S
#define LAG_MAX_NS (WEIR__TICK_LINE_STRAY_NS / 2)
#define LEAD_NS    (2 * WEIR__NS_PER_US) /* lasts 40 ms for a rate that is 50 millionths too low */
#define SURE       4096 /* a measurement must be this many times longer than its uncertainty */
#define DEVIATION  1024 /* a rate that is off by one part in this many is rejected */
#define LATE       16 /* a line that ended longer ago than one part in this many is not continued */

/* The rate between two samples; 0 if they give none. */
static uint64_t tick_rate_between(const struct weir__tick_sample *a,
                                  const struct weir__tick_sample *b)
{
    const uint64_t ticks = b->ticks - a->ticks;

    if (b->ticks <= a->ticks || b->ns <= a->ns || a->width + b->width >= ticks / SURE)
        return 0;
    /* The counter must run at 1 GHz and a little more, so that a corrected rate fits in 64 bits. */
    if ((uint64_t)(b->ns - a->ns) > ticks - ticks / 64)
        return 0;
    return (uint64_t)((weir__wide(b->ns - a->ns) << 64) / ticks);
}

static bool tick_rate_kept(uint64_t measured, uint64_t before)
{
    const uint64_t off = measured > before ? measured - before : before - measured;

    return off < before / DEVIATION;
}

/* The rate that corrects a lag (or, below zero, a lead) within one span. */
static uint64_t tick_rate_bent(uint64_t rate, int64_t lag_ns)
{
    const int64_t ns = weir__max(-SPAN_NS / 2, weir__min(LAG_MAX_NS, lag_ns));
    const uint64_t part = (uint64_t)((weir__u128)rate * (uint64_t)(ns < 0 ? -ns : ns) / SPAN_NS);

    return ns < 0 ? rate - part : rate + part;
}

static struct weir__tick_line tick_line_from(uint64_t from, int64_t ns, uint64_t measured,
                                             const struct weir__tick_sample *now)
{
    const int64_t lag_ns = now->ns - weir__tick_line_at(ns, measured, now->ticks - from);

    return (struct weir__tick_line){.from = from,
                                    .span = (uint64_t)((weir__wide(SPAN_NS) << 64) / measured),
                                    .ns = ns,
                                    .rate = tick_rate_bent(measured, lag_ns),
                                    .measured = measured};
}

struct weir__tick_line weir__tick_line_first(const struct weir__tick_line *none,
                                             const struct weir__tick_sample *before,
                                             const struct weir__tick_sample *now)
{
    const uint64_t rate = tick_rate_between(before, now);

    if (rate == 0)
        return *none;
    return tick_line_from(now->ticks, weir__max(none->ns, now->ns + LEAD_NS), rate, now);
}

struct weir__tick_line weir__tick_line_next(const struct weir__tick_line *l,
                                            const struct weir__tick_sample *before,
                                            const struct weir__tick_sample *now)
{
    const uint64_t rate = tick_rate_between(before, now);
    const uint64_t late = now->ticks - (l->from + l->span); /* huge if the counter has gone back */
    const int64_t end_ns = weir__tick_line_end(l);

    if (rate == 0 || !tick_rate_kept(rate, l->measured))
        return weir__tick_line_none(end_ns);
    if (late > l->span / LATE || now->ns - weir__tick_line_at(end_ns, rate, late) > LAG_MAX_NS)
        return tick_line_from(now->ticks, weir__max(end_ns, now->ns), rate, now);
    return tick_line_from(l->from + l->span, end_ns, rate, now);
}
