/* A stretch of time, as a straight line through a counter: what clock.c disciplines.
 *
 * A line serves the ticks [from, from + span) and no others, and the line after it begins no lower
 * than it ends. So however late a thread still reads by an old line, and however early another
 * reads by a new one, no time is handed out that goes back: the lines themselves forbid it, and no
 * thread need wait for another or fence its readings.
 *
 * Pure: time and ticks are arguments.
 */
#ifndef WEIR_OS_TICK_LINE_H
#define WEIR_OS_TICK_LINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/num.h"

/* How far behind the truth a line may fall while it serves. */
#define WEIR__TICK_LINE_STRAY_NS (2 * WEIR__NS_PER_MS)

struct weir__tick_line {
    uint64_t from, span; /* ticks; span 0: there is no line, and no time below ns */
    int64_t ns;          /* the time at `from`                                    */
    uint64_t rate;       /* nanoseconds in a tick, x 2^64                         */
    uint64_t measured;   /* the counter's own rate; `rate` also makes up for an error */
};

/* A counter and the true time, read as one. */
struct weir__tick_sample {
    uint64_t ticks;
    uint64_t width; /* ticks that the reading took: how sure it is */
    int64_t ns;
};

static inline int64_t weir__tick_line_at(int64_t ns, uint64_t rate, uint64_t ticks_on)
{
    return ns + (int64_t)(uint64_t)((weir__u128)ticks_on * rate >> 64);
}

/* The time that it ends at, and that the next one may begin at. */
static inline int64_t weir__tick_line_end(const struct weir__tick_line *l)
{
    return weir__tick_line_at(l->ns, l->rate, l->span);
}

/* No line serves, and time goes on from ns. */
static inline struct weir__tick_line weir__tick_line_none(int64_t ns)
{
    return (struct weir__tick_line){.ns = ns};
}

/* The first line after none, from two samples. None again if they tell no rate: too near for how
 * unsure they are, or a counter of less than 1 GHz. It begins a little ahead of the truth: whoever
 * reads the true time while it begins must not be seen to overtake it. */
struct weir__tick_line weir__tick_line_first(const struct weir__tick_line *none,
                                             const struct weir__tick_sample *before,
                                             const struct weir__tick_sample *now);

/* The line after l, which has ended (or from which the counter has gone back), from a sample of a
 * while ago and one of now. It goes on where l ended and works off within a second what was wrong;
 * if l ended a while ago, or lags far behind, it begins anew at the truth, but never below l's end.
 * None if the counter has not kept its rate. */
struct weir__tick_line weir__tick_line_next(const struct weir__tick_line *l,
                                            const struct weir__tick_sample *before,
                                            const struct weir__tick_sample *now);

#endif
