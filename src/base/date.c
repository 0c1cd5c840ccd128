/* Dates of the proleptic Gregorian calendar as numbers of days. */
#include "base/date.h"

#include "base/num.h"

/* Years are counted from March, so that the leap day is the last; 400 of them have 146097 days. */
int64_t weir__days_of(int64_t year, int month, int day)
{
    const int64_t y = month <= 2 ? year - 1 : year;
    const int64_t era = weir__div_floor(y, 400);
    const int64_t of_era = y - era * 400;
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

struct weir__date weir__date_of(int64_t days)
{
    const int64_t z = days + 719468;
    const int64_t era = weir__div_floor(z, 146097);
    const int64_t doe = z - era * 146097;
    const int64_t yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
    const int64_t doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    const int64_t m = (5 * doy + 2) / 153;
    const int month = (int)(m < 10 ? m + 3 : m - 9);

    return (struct weir__date){.year = yoe + era * 400 + (month <= 2),
                               .month = month,
                               .day = (int)(doy - (153 * m + 2) / 5 + 1)};
}
