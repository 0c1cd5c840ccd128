/* How one line follows another.
 *
 * Invariants:
 *   (1) No line begins below the end of the one before it, in time, and none hands out a time below
 *       its own beginning.
 *   (2) A line is at most WEIR__LINE_STRAY_NS behind the truth while it serves: it begins at most
 *       half of that behind, and a rate that is off by more than a thousandth is not believed.
 *   (3) It may be ahead: then it runs slower, at half the rate at the least, until it is not.
 */
#include "engine/line.h"

#define SPAN_NS    WEIR__NS_PER_S
#define LAG_MAX_NS (WEIR__LINE_STRAY_NS / 2)
#define LEAD_NS    (2 * WEIR__NS_PER_US) /* lasts 40 ms for a rate that is 50 millionths too low */
#define SURE       4096                  /* times longer than it is unsure must a measurement be */
#define DEVIATION  1024                  /* the part of a rate that is too far off               */
#define LATE       16                    /* the part of a span after which nobody goes on from it */

/* 0 if there is none to tell. */
static uint64_t rate_between(const struct weir__sample *a, const struct weir__sample *b)
{
    const uint64_t ticks = b->ticks - a->ticks;

    if (b->ticks <= a->ticks || b->ns <= a->ns || a->width + b->width >= ticks / SURE)
        return 0;
    /* Above 1 GHz with some to spare, so that a rate that is bent still fits in 64 bits. */
    if ((uint64_t)(b->ns - a->ns) > ticks - ticks / 64)
        return 0;
    return (uint64_t)((weir__wide(b->ns - a->ns) << 64) / ticks);
}

static bool kept(uint64_t measured, uint64_t before)
{
    const uint64_t off = measured > before ? measured - before : before - measured;

    return off < before / DEVIATION;
}

/* The rate that makes up within a span for what is missing or, below zero, too much. */
static uint64_t bent(uint64_t rate, int64_t lag_ns)
{
    const int64_t ns = weir__max(-SPAN_NS / 2, weir__min(LAG_MAX_NS, lag_ns));
    const uint64_t part = (uint64_t)((weir__u128)rate * (uint64_t)(ns < 0 ? -ns : ns) / SPAN_NS);

    return ns < 0 ? rate - part : rate + part;
}

static struct weir__line line_from(uint64_t from, int64_t ns, uint64_t measured,
                                   const struct weir__sample *now)
{
    const int64_t lag_ns = now->ns - weir__line_at(ns, measured, now->ticks - from);

    return (struct weir__line){.from = from,
                               .span = (uint64_t)((weir__wide(SPAN_NS) << 64) / measured),
                               .ns = ns,
                               .rate = bent(measured, lag_ns),
                               .measured = measured};
}

struct weir__line weir__line_first(const struct weir__line *none, const struct weir__sample *before,
                                   const struct weir__sample *now)
{
    const uint64_t rate = rate_between(before, now);

    if (rate == 0)
        return *none;
    return line_from(now->ticks, weir__max(none->ns, now->ns + LEAD_NS), rate, now);
}

struct weir__line weir__line_next(const struct weir__line *l, const struct weir__sample *before,
                                  const struct weir__sample *now)
{
    const uint64_t rate = rate_between(before, now);
    const uint64_t late = now->ticks - (l->from + l->span); /* huge if it has gone back */
    const int64_t end_ns = weir__line_end(l);

    if (rate == 0 || !kept(rate, l->measured))
        return weir__line_none(end_ns);
    if (late > l->span / LATE || now->ns - weir__line_at(end_ns, rate, late) > LAG_MAX_NS)
        return line_from(now->ticks, weir__max(end_ns, now->ns), rate, now);
    return line_from(l->from + l->span, end_ns, rate, now);
}
