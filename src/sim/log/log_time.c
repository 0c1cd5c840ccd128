/* Reads the times that logs write. */
#include "sim/log/log_time.h"

#include <string.h>

#include "base/date.h"
#include "base/num.h"

/* Takes exactly n digits off the front. */
static bool time_digits(struct weir__slice *s, int n, int64_t *value)
{
    *value = 0;
    if (s->len < (size_t)n)
        return false;
    for (int i = 0; i < n; i++) {
        if (s->at[i] < '0' || s->at[i] > '9')
            return false;
        *value = *value * 10 + (s->at[i] - '0');
    }
    *s = (struct weir__slice){s->at + n, s->len - (size_t)n};
    return true;
}

static bool time_mark(struct weir__slice *s, const char *marks)
{
    if (s->len == 0 || s->at[0] == '\0' || !strchr(marks, s->at[0]))
        return false;
    *s = (struct weir__slice){s->at + 1, s->len - 1};
    return true;
}

/* .25 or ,25: what is finer than a nanosecond is cut off. */
static int64_t time_fraction(struct weir__slice *s)
{
    int64_t ns = 0, unit = WEIR__NS_PER_S / 10;

    if (!time_mark(s, ".,"))
        return 0;
    while (s->len > 0 && s->at[0] >= '0' && s->at[0] <= '9') {
        ns += unit * (s->at[0] - '0');
        unit /= 10;
        *s = (struct weir__slice){s->at + 1, s->len - 1};
    }
    return ns;
}

/* Z, +0200, +02:00, -07; nothing is UTC. */
static bool time_zone(struct weir__slice *s, int64_t *offset_s)
{
    int64_t hours, minutes = 0;
    bool west;

    *offset_s = 0;
    (void)time_mark(s, " ");
    if (s->len == 0 || time_mark(s, "Zz"))
        return true;
    if (s->len >= 3 && (memcmp(s->at, "UTC", 3) == 0 || memcmp(s->at, "GMT", 3) == 0)) {
        *s = (struct weir__slice){s->at + 3, s->len - 3};
        return true;
    }
    west = s->at[0] == '-';
    if (!time_mark(s, "+-") || !time_digits(s, 2, &hours))
        return false;
    (void)time_mark(s, ":");
    if (s->len > 0 && !time_digits(s, 2, &minutes))
        return false;
    if (hours > 23 || minutes > 59)
        return false;
    *offset_s = (hours * 60 + minutes) * (west ? -60 : 60);
    return true;
}

static bool time_of_day(struct weir__slice *s, int64_t *ns)
{
    int64_t h, m, sec = 0;

    if (!time_digits(s, 2, &h) || !time_mark(s, ":") || !time_digits(s, 2, &m))
        return false;
    if (time_mark(s, ":") && !time_digits(s, 2, &sec))
        return false;
    if (h > 23 || m > 59 || sec > 60)
        return false;
    *ns = (h * 3600 + m * 60 + sec) * WEIR__NS_PER_S + time_fraction(s);
    return true;
}

static bool time_of_date(int64_t year, int64_t month, int64_t day, int64_t *days)
{
    static const char LENGTH[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};

    if (year < 1970 || month < 1 || month > 12 || day < 1)
        return false;
    if (day > LENGTH[month - 1] && !(month == 2 && day == 29 && year % 4 == 0))
        return false;
    *days = weir__days_of(year, (int)month, (int)day);
    return true;
}

static bool time_whole(int64_t days, int64_t day_ns, int64_t offset_s, int64_t *ns)
{
    const int64_t seconds = days * 86400 - offset_s;

    if (seconds < -86400 || seconds > WEIR__NOW_MAX / WEIR__NS_PER_S - 86400)
        return false;
    *ns = seconds * WEIR__NS_PER_S + day_ns;
    return *ns >= 0;
}

static bool time_iso(struct weir__slice s, int64_t *ns)
{
    int64_t year, month, day, days, day_ns = 0, offset_s = 0;

    if (!time_digits(&s, 4, &year) || !time_mark(&s, "-/") || !time_digits(&s, 2, &month) ||
        !time_mark(&s, "-/") || !time_digits(&s, 2, &day) || !time_of_date(year, month, day, &days))
        return false;
    if (s.len > 0 && (!time_mark(&s, "Tt _") || !time_of_day(&s, &day_ns)))
        return false;
    return time_zone(&s, &offset_s) && s.len == 0 && time_whole(days, day_ns, offset_s, ns);
}

static bool time_clf(struct weir__slice s, int64_t *ns)
{
    static const char MONTHS[] = "JanFebMarAprMayJunJulAugSepOctNovDec";
    int64_t year, day, days, day_ns, offset_s;
    int month = 1;

    if (!time_digits(&s, 2, &day) || !time_mark(&s, "/") || s.len < 3)
        return false;
    while (month <= 12 && memcmp(s.at, MONTHS + 3 * (month - 1), 3) != 0)
        month++;
    s = (struct weir__slice){s.at + 3, s.len - 3};
    if (!time_mark(&s, "/") || !time_digits(&s, 4, &year) ||
        !time_of_date(year, month, day, &days) || !time_mark(&s, ": ") || !time_of_day(&s, &day_ns))
        return false;
    return time_zone(&s, &offset_s) && s.len == 0 && time_whole(days, day_ns, offset_s, ns);
}

/* A number of units, with or without decimals: 1431857103, 1431857103.250, 1.431857103e9 not. */
static bool time_number(struct weir__slice s, enum log_clock clock, int64_t *ns)
{
    static const int64_t UNITS[] = {[LOG_TIME_S] = 1000000000,
                                    [LOG_TIME_MS] = 1000000,
                                    [LOG_TIME_US] = 1000,
                                    [LOG_TIME_NS] = 1};
    int64_t whole = 0, fraction;
    size_t digits = 0;

    while (digits < s.len && digits < 19 && s.at[digits] >= '0' && s.at[digits] <= '9')
        if (__builtin_mul_overflow(whole, 10, &whole) ||
            __builtin_add_overflow(whole, s.at[digits++] - '0', &whole))
            return false;
    if (digits == 0)
        return false;
    s = (struct weir__slice){s.at + digits, s.len - digits};
    fraction = time_fraction(&s);
    if (clock == LOG_TIME_AUTO)
        clock = whole < INT64_C(100000000000)         ? LOG_TIME_S
                : whole < INT64_C(100000000000000)    ? LOG_TIME_MS
                : whole < INT64_C(100000000000000000) ? LOG_TIME_US
                                                      : LOG_TIME_NS;
    return s.len == 0 && !__builtin_mul_overflow(whole, UNITS[clock], ns) &&
           !__builtin_add_overflow(*ns, fraction / (WEIR__NS_PER_S / UNITS[clock]), ns) &&
           *ns <= WEIR__NOW_MAX;
}

bool log_time_parse(struct weir__slice s, enum log_clock clock, int64_t *ns)
{
    s = weir__slice_trim(s);
    if (s.len >= 2 && s.at[0] == '[' && s.at[s.len - 1] == ']')
        s = (struct weir__slice){s.at + 1, s.len - 2};
    if (clock == LOG_TIME_ISO)
        return time_iso(s, ns);
    if (clock == LOG_TIME_CLF)
        return time_clf(s, ns);
    if (clock == LOG_TIME_AUTO && s.len > 4 && (s.at[4] == '-' || s.at[4] == '/'))
        return time_iso(s, ns);
    if (clock == LOG_TIME_AUTO && s.len > 2 && s.at[2] == '/')
        return time_clf(s, ns);
    return time_number(s, clock, ns);
}
