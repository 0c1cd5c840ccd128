/* Sorts lines within a window, by inserting each where it belongs: lines that are in order, as
 * nearly all are, cost one comparison. */
#include "sim/replay/arrivals.h"

#include <string.h>

bool arrivals_next(struct arrivals *a, struct arrival *out)
{
    if (a->begin == a->end)
        return false;
    *out = a->held[a->begin++];
    a->clock_ns = out->time_ns;
    return true;
}

/* The first of the held that is later than the time. */
static int place_of(const struct arrivals *a, int64_t time_ns)
{
    int low = a->begin, high = a->end;

    if (a->begin == a->end || a->held[a->end - 1].time_ns <= time_ns)
        return a->end;
    while (low < high) {
        const int middle = low + (high - low) / 2;

        if (a->held[middle].time_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool arrivals_add(struct arrivals *a, const struct arrival *line, struct arrival *out)
{
    struct arrival now = *line;
    int at;

    if (now.time_ns < a->newest_ns)
        a->swapped++;
    else
        a->newest_ns = now.time_ns;
    if (now.time_ns < a->clock_ns) {
        a->late++;
        now.time_ns = a->clock_ns;
    }
    if (a->end == 2 * ARRIVALS_WINDOW) {
        a->end -= a->begin;
        memmove(a->held, a->held + a->begin, (size_t)a->end * sizeof a->held[0]);
        a->begin = 0;
    }
    at = place_of(a, now.time_ns);
    memmove(a->held + at + 1, a->held + at, (size_t)(a->end - at) * sizeof a->held[0]);
    a->held[at] = now;
    a->end++;
    return a->end - a->begin > ARRIVALS_WINDOW && arrivals_next(a, out);
}
