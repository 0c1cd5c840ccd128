/* Dates of the proleptic Gregorian calendar as numbers of days. */
#ifndef WEIR_BASE_DATE_H
#define WEIR_BASE_DATE_H

#include <stdint.h>

struct weir__date {
    int64_t year;
    int month, day;
};

/* Days since 1970-01-01 of a date; month is 1..12. */
int64_t weir__days_of(int64_t year, int month, int day);
struct weir__date weir__date_of(int64_t days);

#endif
