/* anchor=: where calendar windows begin, as text; the contract is in docs/reference/limits.md. */
#include "limit/anchor.h"

#include "base/num.h"

#define DAY_S INT64_C(86400)

static const char *const WEEKDAYS[] = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                       "Friday", "Saturday", "Sunday"};

/* Whether the word is the weekday's name or its first three letters, in either case. */
static bool anchor_is_weekday(struct weir__slice word, const char *name)
{
    size_t i = 0;

    for (; i < word.len && name[i]; i++)
        if ((word.at[i] | 0x20) != (name[i] | 0x20))
            return false;
    return i == word.len && (i == 3 || name[i] == '\0');
}

static bool anchor_read_day(struct weir__slice word, enum weir_calendar calendar, int64_t *day)
{
    if (calendar == WEIR_MONTH) {
        const bool read = word.len <= 2 && weir__parse_int(word, day) == WEIR__NUMBER_OK;

        *day -= 1;
        return read && *day >= 0 && *day < 31;
    }
    for (*day = 0; calendar == WEIR_WEEK && *day < 7; *day += 1)
        if (anchor_is_weekday(word, WEEKDAYS[*day]))
            return true;
    return false;
}

/* 06:00, 6:00 */
static bool anchor_read_time(struct weir__slice word, int64_t *s)
{
    struct weir__slice minutes = word;
    const struct weir__slice hours = weir__slice_cut(&minutes, ':');
    int64_t h = 0, m = 0;

    if (minutes.len != 3 || hours.len > 2)
        return false;
    minutes = (struct weir__slice){minutes.at + 1, 2};
    if (weir__parse_int(hours, &h) != WEIR__NUMBER_OK ||
        weir__parse_int(minutes, &m) != WEIR__NUMBER_OK || h > 23 || m > 59)
        return false;
    *s = h * 3600 + m * 60;
    return true;
}

bool weir__anchor_parse(struct weir__slice text, enum weir_calendar calendar, int64_t *s)
{
    struct weir__slice rest = text, word;
    int64_t day = 0, time = 0;
    size_t n = 0;

    if (anchor_read_time(text, s))
        return true;
    /* "Tuesday" and "thuT21:00": the T that counts is not the first letter of a word. */
    while (n < text.len && text.at[n] != '-' && (n == 0 || text.at[n] != 'T'))
        n++;
    word = (struct weir__slice){text.at, n};
    rest = (struct weir__slice){text.at + n, text.len - n};
    if (!anchor_read_day(word, calendar, &day))
        return false;
    if (rest.len > 0 && !anchor_read_time((struct weir__slice){rest.at + 1, rest.len - 1}, &time))
        return false;
    *s = day * DAY_S + time;
    return true;
}

static void anchor_print_time(struct weir__out *o, int64_t s)
{
    const int64_t parts[] = {s / 3600, s / 60 % 60};

    for (int i = 0; i < 2; i++) {
        weir__out_text(o, i == 0 ? "" : ":");
        weir__out_text(o, parts[i] < 10 ? "0" : "");
        weir__out_int(o, parts[i]);
    }
}

/* Whether the anchor names a day; if it does not, the windows begin on their first day. */
static bool anchor_names_day(enum weir_calendar calendar, int64_t s)
{
    return calendar != WEIR_DAY && s >= DAY_S;
}

void weir__anchor_print(struct weir__out *o, enum weir_calendar calendar, int64_t s)
{
    const int64_t day = s / DAY_S, time = weir__max(0, s % DAY_S);

    if (calendar == WEIR_WEEK && anchor_names_day(calendar, s)) {
        const char *name = WEEKDAYS[day % 7];
        const char word[] = {(char)(name[0] | 0x20), name[1], name[2], '\0'};

        weir__out_text(o, word);
    } else if (anchor_names_day(calendar, s)) {
        weir__out_int(o, day + 1);
    }
    if (anchor_names_day(calendar, s) && time == 0)
        return;
    weir__out_text(o, anchor_names_day(calendar, s) ? "-" : "");
    anchor_print_time(o, time);
}

void weir__anchor_explain(struct weir__out *o, enum weir_calendar calendar, int64_t s)
{
    const int64_t day = s / DAY_S;

    if (calendar == WEIR_WEEK)
        weir__out_text(o, WEEKDAYS[day % 7]);
    if (calendar == WEIR_MONTH) {
        weir__out_text(o, "day ");
        weir__out_int(o, day + 1);
        weir__out_text(o, day >= 28 ? " or its last day" : "");
    }
    if (s % DAY_S == 0)
        return;
    weir__out_text(o, calendar == WEIR_DAY ? "" : calendar == WEIR_WEEK ? " " : ", ");
    anchor_print_time(o, s % DAY_S);
}
