/* Unit tests of calendar windows and time zones. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "limit/calendar.h"
#include "sim/script.h"

static int64_t at(const char *date)
{
    struct sim_error error;
    int64_t ns = -1;

    if (!sim_date_parse(weir__slice_of(date), &ns, &error))
        fail_msg("%s", error.text);
    return ns;
}

static void windows_end_where_the_calendar_says(void **state)
{
    static const struct {
        const char *what, *limit, *now, *end;
    } ROWS[] = {
        {"a UTC day", "5/day", "2024-02-28T23:59:59.999999999Z", "2024-02-29T00:00:00Z"},
        {"the edge itself is in the next day", "5/day", "2024-02-29T00:00:00Z",
         "2024-03-01T00:00:00Z"},
        {"a week ends on Sunday night", "5/week", "2024-01-03T12:00:00Z", "2024-01-08T00:00:00Z"},
        {"a Monday begins a week", "5/week", "2024-01-08T00:00:00Z", "2024-01-15T00:00:00Z"},
        {"February of a leap year", "5/month", "2024-02-10T00:00:00Z", "2024-03-01T00:00:00Z"},
        {"February of 2100, no leap year", "5/month", "2100-02-10T00:00:00Z",
         "2100-03-01T00:00:00Z"},
        {"December ends the year", "5/month", "2023-12-31T23:00:00Z", "2024-01-01T00:00:00Z"},
        {"the epoch", "5/month", "1970-01-01T00:00:00Z", "1970-02-01T00:00:00Z"},
        {"Berlin in winter", "5/day tz=Europe/Berlin", "2024-01-01T12:00:00Z",
         "2024-01-01T23:00:00Z"},
        {"Berlin, 23 hours", "5/day tz=Europe/Berlin", "2024-03-30T23:00:00Z",
         "2024-03-31T22:00:00Z"},
        {"Berlin, 25 hours", "5/day tz=Europe/Berlin", "2024-10-26T22:00:00Z",
         "2024-10-27T23:00:00Z"},
        {"Berlin, a month with the change", "5/month tz=Europe/Berlin", "2024-03-10T00:00:00Z",
         "2024-03-31T22:00:00Z"},
        {"Berlin, past the file: by its rule", "5/day tz=Europe/Berlin", "2090-07-01T12:00:00Z",
         "2090-07-01T22:00:00Z"},
        {"Berlin, past the file, 23 hours", "5/day tz=Europe/Berlin", "2090-03-25T23:00:00Z",
         "2090-03-26T22:00:00Z"},
        {"midnight that does not exist", "5/day tz=America/Sao_Paulo", "2018-11-03T12:00:00Z",
         "2018-11-04T03:00:00Z"},
        {"midnight twice", "5/day tz=America/Sao_Paulo", "2018-02-17T12:00:00Z",
         "2018-02-18T03:00:00Z"},
        {"a day that was skipped", "5/day tz=Pacific/Apia", "2011-12-29T20:00:00Z",
         "2011-12-30T10:00:00Z"},
        {"a day from 06:00", "5/day anchor=06:00", "2024-02-28T05:59:59.999999999Z",
         "2024-02-28T06:00:00Z"},
        {"the anchor itself is in the next day", "5/day anchor=06:00", "2024-02-28T06:00:00Z",
         "2024-02-29T06:00:00Z"},
        {"a week from Sunday", "5/week anchor=sun", "2024-01-03T12:00:00Z", "2024-01-07T00:00:00Z"},
        {"a week from Monday at noon", "5/week anchor=12:00", "2024-01-08T11:59:59Z",
         "2024-01-08T12:00:00Z"},
        {"a week from Thursday 21:00", "5/week anchor=thu-21:00", "2024-01-04T21:00:00Z",
         "2024-01-11T21:00:00Z"},
        {"a month from the 17th", "5/month anchor=17", "2024-01-16T23:59:59Z",
         "2024-01-17T00:00:00Z"},
        {"and over the year", "5/month anchor=17-06:00", "2023-12-17T06:00:00Z",
         "2024-01-17T06:00:00Z"},
        {"day 31 of February is the 29th", "5/month anchor=31", "2024-01-31T00:00:00Z",
         "2024-02-29T00:00:00Z"},
        {"or the 28th", "5/month anchor=29-23:59", "2023-02-28T23:58:59Z", "2023-02-28T23:59:00Z"},
        {"day 31 of March is itself", "5/month anchor=31", "2023-02-28T00:00:00Z",
         "2023-03-31T00:00:00Z"},
        {"an anchor that is skipped", "5/day anchor=02:30 tz=Europe/Berlin", "2024-03-31T00:00:00Z",
         "2024-03-31T01:00:00Z"},
        {"the day after it", "5/day anchor=02:30 tz=Europe/Berlin", "2024-03-31T01:00:00Z",
         "2024-04-01T00:30:00Z"},
        {"an anchor that is shown twice", "5/day anchor=02:30 tz=Europe/Berlin",
         "2024-10-27T00:29:59Z", "2024-10-27T00:30:00Z"},
        {"between the two", "5/day anchor=02:30 tz=Europe/Berlin", "2024-10-27T01:00:00Z",
         "2024-10-28T01:30:00Z"},
        {"after the second", "5/day anchor=02:30 tz=Europe/Berlin", "2024-10-27T01:30:00Z",
         "2024-10-28T01:30:00Z"},
        {"an anchor of the month that is skipped", "5/month anchor=31-02:30 tz=Europe/Berlin",
         "2024-03-30T12:00:00Z", "2024-03-31T01:00:00Z"},
        {"an anchor on a day that was skipped", "5/day anchor=12:00 tz=Pacific/Apia",
         "2011-12-29T23:00:00Z", "2011-12-30T10:00:00Z"},
        {"set back to the day before: that day has ended", "5/day tz=America/St_Johns",
         "2010-11-07T03:00:00Z", "2010-11-08T03:30:00Z"},
        {"the epoch, behind UTC", "5/month anchor=31 tz=America/New_York", "1970-01-01T00:00:00Z",
         "1970-01-31T05:00:00Z"},
        {"hours by the clock", "5/h align=clock", "2024-01-01T10:59:59Z", "2024-01-01T11:00:00Z"},
        {"hours in India", "5/h align=clock tz=Asia/Kolkata", "2024-01-01T10:15:00Z",
         "2024-01-01T10:30:00Z"},
        {"7 minutes since the epoch", "5/7m align=clock", "1970-01-01T00:08:00Z",
         "1970-01-01T00:14:00Z"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct weir__zone *zone = NULL;
        struct weir_limit l;
        struct weir_diag why;
        char text[128];

        print_message("  %s\n", ROWS[i].what);
        (void)snprintf(text, sizeof text, "fixed-window %s", ROWS[i].limit);
        if (weir_limit_parse(&l, text, &why) != 0)
            fail_msg("%s", why.text);
        assert_int_equal(weir__zone_load(&zone, l.term[0].tz), 0);
        assert_int_equal(weir__calendar_edge(&l.term[0], zone, at(ROWS[i].now)), at(ROWS[i].end));
        weir__zone_free(zone);
    }
}

/* libc reads the same files by other code: a second opinion on every offset. */
static void offsets_agree_with_libc(void **state)
{
    static const char *const ZONES[] = {
        "Europe/Berlin",     "America/New_York", "America/Sao_Paulo",
        "Australia/Sydney",  "Asia/Kolkata",     "Europe/Dublin",
        "Africa/Casablanca", "Pacific/Apia",     "America/Nuuk"};

    (void)state;
    for (size_t z = 0; z < sizeof ZONES / sizeof ZONES[0]; z++) {
        struct weir__zone *zone = NULL;

        print_message("  %s\n", ZONES[z]);
        assert_int_equal(weir__zone_load(&zone, ZONES[z]), 0);
        assert_int_equal(setenv("TZ", ZONES[z], 1), 0);
        tzset();
        for (int64_t s = 0; s < INT64_C(4600000000); s += 3600 * 7 + 1801) {
            const time_t t = (time_t)s;
            struct tm tm;
            const int64_t next = weir__zone_next_change(zone, s);

            (void)localtime_r(&t, &tm);
            assert_int_equal(weir__zone_offset(zone, s), tm.tm_gmtoff);
            assert_true(next > s);
        }
        weir__zone_free(zone);
    }
}

static void every_day_has_a_date_and_every_date_a_day(void **state)
{
    (void)state;
    for (int64_t day = -800000; day < 800000; day++) {
        const struct weir__date d = weir__date_of(day);

        assert_int_equal(weir__days_of(d.year, d.month, d.day), day);
    }
    assert_int_equal(weir__days_of(2024, 2, 29), 19782);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(windows_end_where_the_calendar_says),
    cmocka_unit_test(offsets_agree_with_libc),
    cmocka_unit_test(every_day_has_a_date_and_every_date_a_day),
};

RUN("calendar", TESTS)
