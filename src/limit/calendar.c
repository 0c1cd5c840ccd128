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

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* Years are counted from March, so that the leap day is the last; 400 of them have 146097 days. */
int64_t weir__days_of(int64_t year, int month, int day)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t era = floor_div(y, 400);
    const int64_t of_era = y - era * 400;
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct weir__date weir__date_of(int64_t days)
{
    const int64_t z = days + 719468;
    const int64_t era = floor_div(z, 146097);
    const int64_t doe = z - era * 146097;
    const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    const int64_t m = (5 * doy + 2) / 153;
    const int month = (int)(m < 10 ? m + 3 : m - 9);

    return (struct weir__date){.year = yoe + era * 400 + (month <= 2),
                               .month = month,
                               .day = (int)(doy - (153 * m + 2) / 5 + 1)};
}

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

        return (floor_div(now_ns + ahead, t->period_ns) + 1) * t->period_ns - ahead;
    }
    {
        const int64_t today = floor_div(now_s + weir__zone_offset(zone, now_s), DAY_S);

        return first_showing(zone, now_s, next_start(t->calendar, today) * DAY_S) * WEIR__NS_PER_S;
    }
}
