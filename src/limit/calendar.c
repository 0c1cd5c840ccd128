/* Calendar arithmetic.
 *
 * Calendar windows are numbered, and each has a local time at which it begins (its anchor): the
 * n-th day at 06:00, the 17th of the n-th month. It begins when the local clock first shows that
 * time or a later one. Between two windows the offset may change, forwards (a day of 23 hours, or
 * an anchor that does not exist: the window begins with the change) or back (25 hours, or an anchor
 * that is shown twice: the first of the two); walking from change to change gets all of them right.
 *
 * Invariants:
 *   (1) Every date has one beginning, so a clock that is set back begins no window a second time.
 *   (2) Windows tile time: the end of one is the beginning of the next.
 *   (3) A month begins on its last day if it lacks the anchor's day. So it is never longer than 31
 *       days, nor shorter than 28.
 */
#include "limit/calendar.h"

#include "base/num.h"

#define DAY_S INT64_C(86400)

#define WEEK_S (7 * DAY_S)
/* No local clock is further from UTC than this; zone files allow a little more than a day. */
#define OFFSET_MOST_S (2 * DAY_S)

/* When the n-th window begins, by the local clock, in seconds since the local epoch. */
static int64_t local_start(const struct weir_term *t, int64_t n)
{
    const int64_t day = t->anchor_s / DAY_S, time = t->anchor_s % DAY_S;
    int64_t month, next;

    switch (t->calendar) {
    case WEIR_MONTH: /* n counts months since the year 0 */
        month = weir__days_of(n / 12, (int)(n % 12) + 1, 1);
        next = weir__days_of((n + 1) / 12, (int)((n + 1) % 12) + 1, 1);
        return (month + weir__min(day, next - month - 1)) * DAY_S + time;
    case WEIR_WEEK: return n * WEEK_S - 3 * DAY_S + t->anchor_s; /* the epoch was a Thursday */
    case WEIR_DAY:
    case WEIR_DURATION: break;
    }
    return n * DAY_S + t->anchor_s;
}

/* The first window that begins after local_s, by the local clock. */
static int64_t next_window(const struct weir_term *t, int64_t local_s)
{
    struct weir__date d;
    int64_t n;

    switch (t->calendar) {
    case WEIR_MONTH:
        d = weir__date_of(weir__div_floor(local_s, DAY_S));
        n = d.year * 12 + d.month - 1;
        return local_start(t, n) > local_s ? n : n + 1;
    case WEIR_WEEK: return weir__div_floor(local_s + 3 * DAY_S - t->anchor_s, WEEK_S) + 1;
    case WEIR_DAY:
    case WEIR_DURATION: break;
    }
    return weir__div_floor(local_s - t->anchor_s, DAY_S) + 1;
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
        int64_t n = next_window(t, now_s + weir__zone_offset(zone, now_s)), edge_s;

        do { /* the clock may have been set back, and have shown the beginning before */
            const int64_t start_s = local_start(t, n++);

            edge_s = first_showing(zone, start_s - OFFSET_MOST_S, start_s);
        } while (edge_s <= now_s);
        return edge_s * WEIR__NS_PER_S;
    }
}
