/* Calendar arithmetic: days, weeks and months as people count them. */
#ifndef WEIR_LIMIT_CALENDAR_H
#define WEIR_LIMIT_CALENDAR_H

#include <stdint.h>

#include <weir.h>

#include "limit/zone.h"

/* Days since 1970-01-01 of a date in the proleptic Gregorian calendar; month is 1..12. */
int64_t weir__days_of(int64_t year, int month, int day);

struct weir__date {
    int64_t year;
    int month, day;
};

struct weir__date weir__date_of(int64_t days);

/* When the clock window of the term (align=clock) that holds now_ns ends: after now_ns. */
int64_t weir__calendar_edge(const struct weir_term *t, const struct weir__zone *zone,
                            int64_t now_ns);

#endif
