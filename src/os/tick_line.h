/* A line: a stretch of time as a linear function of a counter. clock.c keeps the lines true.
 *
 * A line serves the ticks [from, from + span) and no others, and the next line starts no lower than
 * it ends. So however late one thread still reads by an old line, and however early another reads
 * by a new one, the time never goes back: the lines themselves prevent it, and no thread needs to
 * wait for another or to fence its readings.
 *
 * Pure: time and ticks are arguments.
 */
#ifndef WEIR_OS_TICK_LINE_H
#define WEIR_OS_TICK_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

/* The most that a line may be behind the true time while it serves. */
#define WEIR__TICK_LINE_STRAY_NS (2 * WEIR__NS_PER_MS)

struct weir__tick_line {
    uint64_t from, span; /* ticks; span 0: no line, and no reading may be below ns */
    int64_t ns;          /* the time at `from`                                    */
    uint64_t rate;       /* nanoseconds in a tick, x 2^64                         */
    uint64_t measured;   /* the counter's own rate; `rate` also corrects an error */
};

/* The counter and the true time, read together. */
struct weir__tick_sample {
    uint64_t ticks;
    uint64_t width; /* ticks that the reading took: its uncertainty */
    int64_t ns;
};

static inline int64_t weir__tick_line_at(int64_t ns, uint64_t rate, uint64_t ticks_on)
{
    return ns + (int64_t)(uint64_t)((weir__u128)ticks_on * rate >> 64);
}

/* The time at which the line ends, and at which the next line may start. */
static inline int64_t weir__tick_line_end(const struct weir__tick_line *l)
{
    return weir__tick_line_at(l->ns, l->rate, l->span);
}

/* No line: time goes on from ns, without a counter. */
static inline struct weir__tick_line weir__tick_line_none(int64_t ns)
{
    return (struct weir__tick_line){.ns = ns};
}

/* The first line after none, from two samples. Returns none again if they give no rate: the samples
 * are too close for their uncertainty, or the counter runs at less than 1 GHz. The line starts a
 * little ahead of the true time, so that a thread that reads the true time while the line starts
 * does not overtake it. */
struct weir__tick_line weir__tick_line_first(const struct weir__tick_line *none,
                                             const struct weir__tick_sample *before,
                                             const struct weir__tick_sample *now);

/* The line after l, from an older sample and one of now. l has ended, or the counter has gone back.
 * The new line continues where l ended and corrects the error of l within a second. If l ended a
 * while ago, or lags far behind, the new line starts at the true time, but never below the end of
 * l. Returns none if the counter has not kept its rate. */
struct weir__tick_line weir__tick_line_next(const struct weir__tick_line *l,
                                            const struct weir__tick_sample *before,
                                            const struct weir__tick_sample *now);

#endif
