/* Values: the numbers, shares, durations and words that a limit's text gives.
 *
 * A message about a wrong value points at the value and says what was expected.
 */
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "limit/anchor.h"
#include "limit/grammar.h"
#include "limit/options.h"
#include "limit/zone.h"

#define DAYS_NS          (86400 * WEIR__NS_PER_S)
#define WINDOW_CALLS_MAX INT64_C(65536)

/* What the writer should have put between words, if the word contains a separator; else NULL. */
static const char *separator_in(struct weir__slice word)
{
    if (word.len == 0)
        return NULL;
    if (memchr(word.at, '+', word.len))
        return "a space before and after the + between limits";
    if (memchr(word.at, ',', word.len) || memchr(word.at, ';', word.len))
        return "spaces between options, and ' + ' between limits";
    return NULL;
}

static bool bad_number(struct weir__parser *p, struct weir__slice word, const char *what,
                       enum weir__number read, const char *expected)
{
    const bool range =
        read == WEIR__NUMBER_NEGATIVE || read == WEIR__NUMBER_BIG || read == WEIR__NUMBER_OK;
    const char *separator = range ? NULL : separator_in(word);
    struct weir__out *o = weir__complain(p, range ? WEIR_ERANGE : WEIR_ESYNTAX, word.at);

    weir__out_text(o, what);
    weir__out_text(o, " ");
    weir__out_quoted(o, word);
    weir__out_text(o, range ? " is out of range; expected " : " is not valid; expected ");
    weir__out_text(o, separator ? separator : expected);
    return false;
}

bool weir__read_count(struct weir__parser *p, struct weir_term *t, struct weir__slice word)
{
    const bool log = t->algorithm == WEIR_SLIDING_LOG;
    const int64_t most = log ? WEIR_LOG_COUNT_MAX : WEIR_COUNT_MAX;
    const enum weir__number read = weir__parse_count(word, &t->count);

    if (read == WEIR__NUMBER_OK && t->count >= (t->algorithm != WEIR_ZERO) && t->count <= most)
        return true;
    if (read == WEIR__NUMBER_OK && t->count == 0)
        return bad_number(p, word, "count", read, "1 or more; the limit 0/s refuses all");
    if (read == WEIR__NUMBER_FINE)
        return bad_number(p, word, "count", read, "a whole number; for 1.5 per second write 3/2s");
    return bad_number(p, word, "count", read,
                      log ? "1 .. 65536, such as 5" : "1 .. 1000000000000, such as 10, 5k or 2M");
}

bool weir__read_duration(struct weir__parser *p, struct weir_term *t, struct weir__slice word)
{
    const enum weir__number read = weir__parse_duration(word, &t->period_ns);

    if (read == WEIR__NUMBER_OK && t->period_ns >= WEIR_PERIOD_MIN_NS &&
        t->period_ns <= WEIR_PERIOD_MAX_NS)
        return true;
    if (read == WEIR__NUMBER_FINE)
        return bad_number(p, word, "period", read, "whole nanoseconds");
    if (t->algorithm == WEIR_MIN_INTERVAL)
        return bad_number(p, word, "interval", read, "1us .. 366 days, such as 100ms, 1.5s, 1m30s");
    return bad_number(p, word, "period", read,
                      "1us .. 366 days, such as s, m, h, day, 500ms, 10s, 1m30s");
}

/* day, days */
static bool is_singular_or_plural(struct weir__slice word, const char *name)
{
    struct weir__slice singular = word;

    if (word.len > 0 && word.at[word.len - 1] == 's')
        singular.len--;
    return weir__slice_is(word, name) || weir__slice_is(singular, name);
}

static bool read_period(struct weir__parser *p, struct weir_term *t, struct weir__slice word)
{
    static const struct {
        const char *name;
        enum weir_calendar calendar;
        int days;
    } CALENDAR[] = {{"day", WEIR_DAY, 1}, {"week", WEIR_WEEK, 7}, {"month", WEIR_MONTH, 31}};
    const bool fixed = t->algorithm == WEIR_FIXED_WINDOW;

    for (int i = 0; i < 3; i++) {
        if (!is_singular_or_plural(word, CALENDAR[i].name))
            continue;
        if (CALENDAR[i].calendar == WEIR_MONTH && !fixed)
            return bad_number(p, word, "period", WEIR__NUMBER_BAD,
                              "a fixed length here: months differ, and only a fixed-window follows "
                              "the calendar");
        t->calendar = fixed ? CALENDAR[i].calendar : WEIR_DURATION;
        t->period_ns = CALENDAR[i].days * DAYS_NS;
        return true;
    }
    if (weir__parse_unit(word, &t->period_ns) && t->period_ns >= WEIR_PERIOD_MIN_NS)
        return true;
    return weir__read_duration(p, t, word);
}

/* nginx writes 10r/s. The r says nothing that the slash does not. */
static struct weir__slice without_requests(struct weir__slice count)
{
    const size_t n = count.len;

    if (n > 1 && count.at[n - 1] == 'r' && count.at[n - 2] >= '0' && count.at[n - 2] <= '9')
        count.len--;
    return count;
}

bool weir__read_rate(struct weir__parser *p, struct weir_term *t, struct weir__slice word)
{
    struct weir__slice period = word;
    const struct weir__slice count = weir__slice_cut(&period, '/');

    period.at++;
    period.len--;
    return weir__read_count(p, t, without_requests(count)) && read_period(p, t, period);
}

bool weir__read_rate_per(struct weir__parser *p, struct weir_term *t, struct weir__slice count,
                         struct weir__slice number, struct weir__slice unit)
{
    enum weir__number read;
    int64_t unit_ns;

    if (!weir__read_count(p, t, count))
        return false;
    if (number.len == 0)
        return read_period(p, t, unit);
    if (!weir__parse_unit(unit, &unit_ns))
        return bad_number(p, unit, "unit", WEIR__NUMBER_BAD, "such as seconds, minutes, hours");
    read = weir__parse_decimal(number, unit_ns, &t->period_ns);
    if (read == WEIR__NUMBER_OK && t->period_ns >= WEIR_PERIOD_MIN_NS &&
        t->period_ns <= WEIR_PERIOD_MAX_NS)
        return true;
    return bad_number(p, number, "period", read, "1us .. 366 days, such as 5 minutes");
}

/* ---- Options --------------------------------------------------------------------------------- */

/* The middle of the message: what is wrong with the value. */
static const char *value_fault_text(const struct weir__option *x, struct weir__slice value,
                                    int error)
{
    int64_t n;
    const bool bare = weir__parse_decimal(value, WEIR__NS_PER_S, &n) == WEIR__NUMBER_OK;

    if (error == WEIR_ERANGE)
        return " is out of range; expected ";
    if (bare && x->kind == WEIR__OPTION_DURATION)
        return " has no unit; expected ";
    if (bare && x->kind == WEIR__OPTION_PERCENT)
        return " has no %; expected ";
    return " is not valid; expected ";
}

static bool bad_value(struct weir__parser *p, const struct weir__option *x,
                      struct weir__slice value, int error)
{
    const char *separator = error == WEIR_ESYNTAX ? separator_in(value) : NULL;
    struct weir__out *o = weir__complain(p, error, value.at);

    weir__out_text(o, x->name);
    weir__out_text(o, "=");
    weir__out_quoted(o, value);
    weir__out_text(o, value_fault_text(x, value, error));
    weir__out_text(o, separator ? separator : x->say);
    return false;
}

static bool read_zone(struct weir__parser *p, const struct weir__option *x, struct weir_term *t,
                      struct weir__slice value)
{
    struct weir__zone *zone = NULL;
    int error = WEIR_ENOZONE;

    if (value.len > 0 && value.len < WEIR_ZONE_MAX) {
        memcpy(t->tz, value.at, value.len);
        error = weir__zone_load(&zone, t->tz);
        weir__zone_free(zone);
    }
    return error == 0 ? true : bad_value(p, x, value, error);
}

static bool read_anchor(struct weir__parser *p, const struct weir__option *x, struct weir_term *t,
                        struct weir__slice value)
{
    if (t->calendar == WEIR_DURATION)
        return weir__contradiction(p, value.at, WEIR_ESYNTAX,
                                   "anchor needs a window of the calendar: fixed-window with the "
                                   "period day, week or month");
    return weir__anchor_parse(value, t->calendar, &t->anchor_s) ||
           bad_value(p, x, value, WEIR_ESYNTAX);
}

/* WEIR_ESYNTAX if no number could be read, WEIR_ERANGE if it is outside its bounds, else 0. */
static int value_fault(enum weir__number read, int64_t n, int64_t lo, int64_t hi)
{
    if (read == WEIR__NUMBER_BAD || read == WEIR__NUMBER_FINE)
        return WEIR_ESYNTAX;
    return read != WEIR__NUMBER_OK || n < lo || n > hi ? WEIR_ERANGE : 0;
}

/* 80%, 12.5%: thousandths. */
static enum weir__number parse_percent(struct weir__slice s, int64_t *milli)
{
    if (s.len == 0 || s.at[s.len - 1] != '%')
        return WEIR__NUMBER_BAD;
    s.len--;
    return weir__parse_decimal(s, 10, milli);
}

/* 50%/200ms */
static bool value_read_share(struct weir__parser *p, const struct weir__option *x,
                             struct weir_term *t, struct weir__slice value)
{
    struct weir__slice rest = value;
    const struct weir__slice share = weir__slice_cut(&rest, '/');
    int64_t milli = 0, ns = 0;
    enum weir__number read = parse_percent(share, &milli);
    int error = value_fault(read, milli, x->lo, x->hi);

    if (!error && rest.len == 0)
        error = WEIR_ESYNTAX;
    if (!error) {
        rest.at++;
        rest.len--;
        read = weir__parse_duration(rest, &ns);
        error = value_fault(read, ns, WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS);
    }
    if (error)
        return bad_value(p, x, value, error);
    t->slow_milli = milli;
    t->slow_ns = ns;
    return true;
}

/* 10s is a window of time, 100 one of calls. */
static bool read_window(struct weir__parser *p, const struct weir__option *x, struct weir_term *t,
                        struct weir__slice value)
{
    const char last = value.len > 0 ? value.at[value.len - 1] : '?';
    const bool calls = (last >= '0' && last <= '9') || last == 'k' || last == 'M';
    int64_t n = 0;
    const enum weir__number read =
        calls ? weir__parse_count(value, &n) : weir__parse_duration(value, &n);
    const int error = value_fault(read, n, calls ? 1 : x->lo, calls ? WINDOW_CALLS_MAX : x->hi);

    if (error)
        return bad_value(p, x, value, error);
    t->window_calls = calls ? n : 0;
    t->window_ns = calls ? WEIR_NONE : n;
    return true;
}

/* 1m..1h, or 1m for both. */
static bool read_growth(struct weir__parser *p, const struct weir__option *x, struct weir_term *t,
                        struct weir__slice value)
{
    struct weir__slice first = value, second;
    int64_t least = 0, most = 0;
    enum weir__number read;
    int error;

    first.len = 0;
    while (first.len + 1 < value.len && memcmp(value.at + first.len, "..", 2) != 0)
        first.len++;
    if (first.len + 1 >= value.len)
        first = second = value;
    else
        second = (struct weir__slice){first.at + first.len + 2, value.len - first.len - 2};
    read = weir__parse_duration(first, &least);
    error = value_fault(read, least, x->lo, x->hi);
    if (!error) {
        read = weir__parse_duration(second, &most);
        error = value_fault(read, most, least, x->hi);
    }
    if (error)
        return bad_value(p, x, value, error);
    t->block_ns = least;
    t->block_most_ns = most;
    return true;
}

static bool read_rate_option(struct weir__parser *p, const struct weir__option *x,
                             struct weir_term *t, struct weir__slice value)
{
    if (value.len == 0 || !memchr(value.at, '/', value.len))
        return bad_value(p, x, value, WEIR_ESYNTAX);
    return weir__read_rate(p, t, value);
}

bool weir__read_value(struct weir__parser *p, const struct weir__option *x, struct weir_term *t,
                      struct weir__slice value)
{
    enum weir__number read = WEIR__NUMBER_BAD;
    int64_t n = 0;
    int error;

    for (int i = 0; i < WEIR__WORDS_MAX && x->words[i].text; i++) {
        if (weir__slice_is(value, x->words[i].text)) {
            weir__option_set(x, t, x->words[i].value);
            return true;
        }
    }
    switch (x->kind) {
    case WEIR__OPTION_COUNT: read = weir__parse_count(value, &n); break;
    case WEIR__OPTION_DURATION: read = weir__parse_duration(value, &n); break;
    case WEIR__OPTION_MILLI: read = weir__parse_decimal(value, 1000, &n); break;
    case WEIR__OPTION_PERCENT: read = parse_percent(value, &n); break;
    case WEIR__OPTION_SHARE: return value_read_share(p, x, t, value);
    case WEIR__OPTION_WINDOW: return read_window(p, x, t, value);
    case WEIR__OPTION_GROWTH: return read_growth(p, x, t, value);
    case WEIR__OPTION_RATE: return read_rate_option(p, x, t, value);
    case WEIR__OPTION_ZONE: return read_zone(p, x, t, value);
    case WEIR__OPTION_ANCHOR: return read_anchor(p, x, t, value);
    case WEIR__OPTION_ENUM:
    case WEIR__OPTION_FLAG: break;
    }
    error = value_fault(read, n, x->lo, x->hi);
    if (error)
        return bad_value(p, x, value, error);
    weir__option_set(x, t, n);
    return true;
}
