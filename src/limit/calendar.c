/* Calendar arithmetic.
 *
 * The end of a local day is the first time at which the local clock shows the next date. Between
 * now and that time the offset may change, forwards (a day of 23 hours, or a midnight that does not
 * exist) or back (25 hours, or midnight twice); walking from change to change gets all of them
 * right.
 */
#include "limit/calendar.h"

#include "base/num.h"

#define DAY_S INT64_C(86400)

/* The first day of the next window, in days since the epoch, for one that holds `today`. */
static int64_t next_start(enum weir_calendar calendar, int64_t today)
{
    struct weir__date d;

    switch (calendar) {
    case WEIR_WEEK: return today + 7 - (today + 3) % 7; /* the epoch was a Thursday */
    case WEIR_MONTH:
        d = weir__date_of(today);
        return d.month == 12 ? weir__days_of(d.year + 1, 1, 1)
                             : weir__days_of(d.year, d.month + 1, 1);
    case WEIR_DAY:
    case WEIR_DURATION: break;
    }
    return today + 1;
}

/* The first time after at_s at which the local clock shows local_s or later. */
static int64_t first_showing(const struct weir__zone *zone, int64_t at_s, int64_t local_s)
{
    for (;;) {
        const int64_t candidate = local_s - weir__zone_offset(zone, at_s);
        const int64_t change = weir__zone_next_change(zone, at_s);

        if (candidate < change)
            return candidate;
        if (change + weir__zone_offset(zone, change) >= local_s)
            return change; /* the clock jumped over it */
        at_s = change;
    }
}

int64_t weir__calendar_edge(const struct weir_term *t, const struct weir__zone *zone,
                            int64_t now_ns)
{
    const int64_t now_s = now_ns / WEIR__NS_PER_S;

    if (t->calendar == WEIR_DURATION) {
        const int64_t ahead = weir__zone_standard(zone) * WEIR__NS_PER_S;

        return (weir__div_floor(now_ns + ahead, t->period_ns) + 1) * t->period_ns - ahead;
    }
    {
        const int64_t today = weir__div_floor(now_s + weir__zone_offset(zone, now_s), DAY_S);

        return first_showing(zone, now_s, next_start(t->calendar, today) * DAY_S) * WEIR__NS_PER_S;
    }
}
