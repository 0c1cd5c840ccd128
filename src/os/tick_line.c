/* How one line follows another.
 *
 * Invariants:
 *   (1) No line begins below the end of the one before it, in time, and none hands out a time below
 *       its own beginning.
 *   (2) A line is at most WEIR__TICK_LINE_STRAY_NS behind the truth while it serves: it begins at most
 *       half of that behind, and a rate that is off by more than a thousandth is not believed.
 *   (3) It may be ahead: then it runs slower, at half the rate at the least, until it is not.
 */
#include "os/tick_line.h"

#define SPAN_NS    WEIR__NS_PER_S
#define LAG_MAX_NS (WEIR__TICK_LINE_STRAY_NS / 2)
#define LEAD_NS    (2 * WEIR__NS_PER_US) /* lasts 40 ms for a rate that is 50 millionths too low */
#define SURE       4096                  /* times longer than it is unsure must a measurement be */
#define DEVIATION  1024                  /* the part of a rate that is too far off               */
#define LATE       16                    /* the part of a span after which nobody goes on from it */

/* 0 if there is none to tell. */
static uint64_t tick_rate_between(const struct weir__tick_sample *a,
                                  const struct weir__tick_sample *b)
{
    const uint64_t ticks = b->ticks - a->ticks;

    if (b->ticks <= a->ticks || b->ns <= a->ns || a->width + b->width >= ticks / SURE)
        return 0;
    /* Above 1 GHz with some to spare, so that a rate that is bent still fits in 64 bits. */
    if ((uint64_t)(b->ns - a->ns) > ticks - ticks / 64)
        return 0;
    return (uint64_t)((weir__wide(b->ns - a->ns) << 64) / ticks);
}

static bool tick_rate_kept(uint64_t measured, uint64_t before)
{
    const uint64_t off = measured > before ? measured - before : before - measured;

    return off < before / DEVIATION;
}

/* The rate that makes up within a span for what is missing or, below zero, too much. */
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
    const uint64_t late = now->ticks - (l->from + l->span); /* huge if it has gone back */
    const int64_t end_ns = weir__tick_line_end(l);

    if (rate == 0 || !tick_rate_kept(rate, l->measured))
        return weir__tick_line_none(end_ns);
    if (late > l->span / LATE || now->ns - weir__tick_line_at(end_ns, rate, late) > LAG_MAX_NS)
        return tick_line_from(now->ticks, weir__max(end_ns, now->ns), rate, now);
    return tick_line_from(l->from + l->span, end_ns, rate, now);
}
