/* Puts the lines of a log into the order of their times, as far as a window reaches.
 *
 * A server writes a line when a request ends, and some write the time at which it began, so lines
 * are a little out of order. The last ARRIVALS_WINDOW lines are held back and sorted; lines of
 * equal times keep their order. A line that comes later than that happens when the clock is, which
 * never goes back, and is counted.
 */
#ifndef WEIR_SIM_REPLAY_ARRIVALS_H
#define WEIR_SIM_REPLAY_ARRIVALS_H

#include <stdbool.h>
#include <stdint.h>

#define ARRIVALS_WINDOW 4096

struct arrival {
    int64_t time_ns;
    int64_t cost;
    uint32_t client;
};

/* All zero is empty. */
struct arrivals {
    struct arrival held[2 * ARRIVALS_WINDOW];
    int begin, end;        /* of what is held */
    int64_t clock_ns;      /* of the arrival that was let go last */
    int64_t newest_ns;     /* of any line so far */
    int64_t swapped, late; /* lines that came after a later one; and of these, too late to sort */
};

/* Adds a line. True: *out is the earliest that was held back. */
bool arrivals_add(struct arrivals *a, const struct arrival *line, struct arrival *out);
/* The earliest that is still held. False: none is. */
bool arrivals_next(struct arrivals *a, struct arrival *out);

#endif
