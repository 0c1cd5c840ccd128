/* The numbers of CL.THROTTLE, THROTTLE and /throttle, and their ranges.
 *
 * Each front names them as its clients do and reports one that is out of range; the ranges are the
 * same, and within them limit_throttle can fail only for lack of memory.
 */
#ifndef WEIR_SERVER_LIMITS_THROTTLE_H
#define WEIR_SERVER_LIMITS_THROTTLE_H

#include <weir.h>

#include "base/num.h"

enum throttle_number { THROTTLE_BURST, THROTTLE_COUNT, THROTTLE_PERIOD_S, THROTTLE_COST };

struct throttle_range {
    int64_t least, most;
};

/* The burst is all that may come at once. */
static inline struct throttle_range throttle_range(enum throttle_number number)
{
    switch (number) {
    case THROTTLE_BURST:
    case THROTTLE_COUNT: return (struct throttle_range){1, WEIR_COUNT_MAX};
    case THROTTLE_PERIOD_S: return (struct throttle_range){1, WEIR_PERIOD_MAX_NS / WEIR__NS_PER_S};
    case THROTTLE_COST: break;
    }
    return (struct throttle_range){0, WEIR_COUNT_MAX};
}

/* The message if throttle_refills is false. */
#define THROTTLE_TOO_SLOW "would take more than 146 years to refill"

/* True if a whole burst is back within 2^62 ns, the longest time that is counted. */
static inline bool throttle_refills(int64_t burst, int64_t count, int64_t period_s)
{
    return weir__wide(burst) * weir__wide(period_s * WEIR__NS_PER_S) <=
           weir__wide(count) * weir__wide(WEIR__SPAN_MAX);
}

#endif
