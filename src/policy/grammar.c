/* Text to limit.
 *
 * One pass over the words. A word is looked at where it stands, so that every complaint can name it
 * and its column, and say what would have been right. What a term leaves out is filled in when its
 * last word has been read; then the numbers are held against each other. A text that is refused
 * changes nothing.
 */
#include <weir.h>

#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "policy/grammar.h"
#include "policy/options.h"
#include "policy/zone.h"

#define DAYS_NS (86400 * WEIR__NS_PER_S)

static void next_word(struct weir__parser *p)
{
    p->word = weir__slice_word(&p->rest);
}

struct weir__out *weir__complain(struct weir__parser *p, int error, const char *at)
{
    p->error = error;
    p->why->column = (int)(at - p->text.at) + 1;
    p->message = (struct weir__out){p->why->text, sizeof p->why->text, 0};
    weir__out_text(&p->message, "column ");
    weir__out_int(&p->message, p->why->column);
    weir__out_text(&p->message, ": ");
    return &p->message;
}

static void list_algorithms(struct weir__out *o)
{
    for (int i = 0; i < WEIR__ALGORITHM_COUNT; i++) {
        weir__out_text(o, i == 0 ? " (" : ", ");
        weir__out_text(o, weir_algorithm_name((enum weir_algorithm)i));
    }
    weir__out_text(o, ")");
}

struct guess {
    const char *name;
    int distance;
};

static void guess(struct guess *g, struct weir__slice word, const char *name)
{
    const int distance = weir__slice_distance(word, weir__slice_of(name));

    if (distance <= 2 && distance < g->distance)
        *g = (struct guess){name, distance};
}

static void did_you_mean(struct weir__out *o, const struct guess *g)
{
    if (!g->name)
        return;
    weir__out_text(o, "; did you mean '");
    weir__out_text(o, g->name);
    weir__out_text(o, "'?");
}

static bool read_algorithm(struct weir__parser *p, struct weir_term *t)
{
    struct guess g = {NULL, 99};
    struct weir__out *o;

    for (int i = 0; i < WEIR__ALGORITHM_COUNT; i++) {
        const char *name = weir_algorithm_name((enum weir_algorithm)i);

        if (weir__slice_is(p->word, name)) {
            t->algorithm = (enum weir_algorithm)i;
            next_word(p);
            return true;
        }
        guess(&g, p->word, name);
    }
    if (p->word.len > 0 && memchr(p->word.at, '/', p->word.len)) {
        t->algorithm = WEIR_TOKEN_BUCKET; /* a bare 100/s */
        return true;
    }
    o = weir__complain(p, WEIR_ESYNTAX, p->word.at);
    if (p->word.len == 0) {
        weir__out_text(o, "expected a limit, such as 'token-bucket 10/s burst=20'");
        return false;
    }
    if (*p->word.at >= '0' && *p->word.at <= '9') {
        weir__out_quoted(o, p->word);
        weir__out_text(o, " has no period; expected COUNT/PERIOD, such as 10/s");
        return false;
    }
    weir__out_text(o, "unknown algorithm ");
    weir__out_quoted(o, p->word);
    did_you_mean(o, &g);
    list_algorithms(o);
    return false;
}

static bool bad_number(struct weir__parser *p, struct weir__slice word, const char *what,
                       enum weir__number read, const char *expected)
{
    const bool range =
        read == WEIR__NUMBER_NEGATIVE || read == WEIR__NUMBER_BIG || read == WEIR__NUMBER_OK;
    struct weir__out *o = weir__complain(p, range ? WEIR_ERANGE : WEIR_ESYNTAX, word.at);

    weir__out_text(o, what);
    weir__out_text(o, " ");
    weir__out_quoted(o, word);
    weir__out_text(o, range ? " is out of range; expected " : " is not valid; expected ");
    weir__out_text(o, expected);
    return false;
}

static bool read_count(struct weir__parser *p, struct weir_term *t, struct weir__slice word)
{
    const bool log = t->algorithm == WEIR_SLIDING_LOG;
    const int64_t most = log ? WEIR_LOG_COUNT_MAX : WEIR_COUNT_MAX;
    const enum weir__number read = weir__parse_count(word, &t->count);

    if (read == WEIR__NUMBER_OK && t->count >= 1 && t->count <= most)
        return true;
    if (read == WEIR__NUMBER_FINE)
        return bad_number(p, word, "count", read,
                          "a whole number; 3/2s is one and a half a second");
    return bad_number(p, word, "count", read,
                      log ? "1 .. 65536, such as 5" : "1 .. 1000000000000, such as 10, 5k or 2M");
}

static bool read_duration(struct weir__parser *p, struct weir_term *t, struct weir__slice word)
{
    const enum weir__number read = weir__parse_duration(word, &t->period_ns);

    if (read == WEIR__NUMBER_OK && t->period_ns >= WEIR_PERIOD_MIN_NS &&
        t->period_ns <= WEIR_PERIOD_MAX_NS)
        return true;
    if (read == WEIR__NUMBER_FINE)
        return bad_number(p, word, "period", read, "whole nanoseconds");
    if (word.len > 0 && memchr(word.at, '+', word.len))
        return bad_number(p, word, "period", read, "a space before and after the + between limits");
    if (t->algorithm == WEIR_MIN_INTERVAL)
        return bad_number(p, word, "interval", read, "1us .. 366 days, such as 100ms, 1.5s, 1m30s");
    return bad_number(p, word, "period", read,
                      "1us .. 366 days, such as s, m, h, day, 500ms, 10s, 1m30s");
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
        if (!weir__slice_is(word, CALENDAR[i].name))
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
    return read_duration(p, t, word);
}

static bool read_rate(struct weir__parser *p, struct weir_term *t)
{
    struct weir__slice period = p->word;
    const struct weir__slice count = weir__slice_cut(&period, '/');

    if (p->word.len == 0 || (period.len == 0 && t->algorithm != WEIR_MIN_INTERVAL)) {
        struct weir__out *o = weir__complain(p, WEIR_ESYNTAX, p->word.at);
        const char *name = weir_algorithm_name(t->algorithm);

        weir__out_text(o, t->algorithm == WEIR_MIN_INTERVAL ? "expected a duration after "
                                                            : "expected COUNT/PERIOD after ");
        weir__out_text(o, name);
        weir__out_text(o, t->algorithm == WEIR_MIN_INTERVAL ? ", such as 100ms" : ", such as 10/s");
        if (p->word.len > 0) {
            weir__out_text(o, ", not ");
            weir__out_quoted(o, p->word);
        }
        return false;
    }
    if (t->algorithm == WEIR_MIN_INTERVAL) {
        t->count = 1;
        if (!read_duration(p, t, p->word))
            return false;
    } else {
        period.at++;
        period.len--;
        if (!read_count(p, t, count) || !read_period(p, t, period))
            return false;
    }
    next_word(p);
    return true;
}

/* Which other algorithm has the option, if any: a better hint than a list. */
static const char *owner_of(struct weir__slice name)
{
    for (unsigned i = 0; i < WEIR__ALGORITHM_COUNT; i++)
        if (weir__option_find(i, name))
            return weir_algorithm_name((enum weir_algorithm)i);
    return NULL;
}

static bool unknown_option(struct weir__parser *p, const struct weir_term *t,
                           struct weir__slice name)
{
    const char *owner = owner_of(name);
    struct weir__out *o = weir__complain(p, WEIR_ESYNTAX, name.at);
    struct guess g = {NULL, 99};

    weir__out_text(o, "unknown option ");
    weir__out_quoted(o, name);
    weir__out_text(o, " for ");
    weir__out_text(o, weir_algorithm_name(t->algorithm));
    for (const struct weir__option *x = weir__options_of(t->algorithm); x->name; x++)
        guess(&g, name, x->name);
    for (const struct weir__option *x = weir__options_of(WEIR__ANY_ALGORITHM); x->name; x++)
        guess(&g, name, x->name);
    if (owner) {
        weir__out_text(o, "; it belongs to ");
        weir__out_text(o, owner);
    } else {
        did_you_mean(o, &g);
    }
    weir__out_text(o, " (");
    weir__options_list(o, t->algorithm);
    weir__out_text(o, ")");
    return false;
}

static bool bad_value(struct weir__parser *p, const struct weir__option *x,
                      struct weir__slice value, int error)
{
    struct weir__out *o = weir__complain(p, error, value.at);

    weir__out_text(o, x->name);
    weir__out_text(o, "=");
    weir__out_quoted(o, value);
    weir__out_text(o, error == WEIR_ERANGE ? " is out of range; expected "
                                           : " is not valid; expected ");
    weir__out_text(o, x->say);
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

static bool read_value(struct weir__parser *p, const struct weir__option *x, struct weir_term *t,
                       struct weir__slice value)
{
    enum weir__number read = WEIR__NUMBER_BAD;
    int64_t n = 0;

    for (int i = 0; i < 4 && x->words[i].text; i++) {
        if (weir__slice_is(value, x->words[i].text)) {
            weir__option_set(x, t, x->words[i].value);
            return true;
        }
    }
    switch (x->kind) {
    case WEIR__OPTION_COUNT: read = weir__parse_count(value, &n); break;
    case WEIR__OPTION_DURATION: read = weir__parse_duration(value, &n); break;
    case WEIR__OPTION_MILLI: read = weir__parse_decimal(value, 1000, &n); break;
    case WEIR__OPTION_ZONE: return read_zone(p, x, t, value);
    case WEIR__OPTION_ENUM:
    case WEIR__OPTION_FLAG: break;
    }
    if (read == WEIR__NUMBER_BAD || read == WEIR__NUMBER_FINE)
        return bad_value(p, x, value, WEIR_ESYNTAX);
    if (read != WEIR__NUMBER_OK || n < x->lo || n > x->hi)
        return bad_value(p, x, value, WEIR_ERANGE);
    weir__option_set(x, t, n);
    return true;
}

/* Marks the option as given; false if it already was. */
static bool mark(struct weir__places *at, const struct weir_term *t, const struct weir__option *x,
                 const char *where)
{
    const struct weir__option *common = weir__options_of(WEIR__ANY_ALGORITHM);
    const struct weir__option *own = weir__options_of(t->algorithm);

    for (int i = 0; own[i].name; i++) {
        if (x != &own[i])
            continue;
        if (at->option[i])
            return false;
        at->option[i] = where;
        return true;
    }
    if (at->common & 1u << (x - common))
        return false;
    at->common |= 1u << (x - common);
    return true;
}

static bool read_option(struct weir__parser *p, struct weir_term *t, struct weir__places *at)
{
    struct weir__slice value = p->word;
    const struct weir__slice name = weir__slice_cut(&value, '=');
    const struct weir__option *x = weir__option_find(t->algorithm, name);
    const bool flag = x && x->kind == WEIR__OPTION_FLAG;
    struct weir__out *o;

    if (!x)
        return unknown_option(p, t, name);
    if (!mark(at, t, x, name.at)) {
        o = weir__complain(p, WEIR_ESYNTAX, name.at);
        weir__out_text(o, "option ");
        weir__out_quoted(o, name);
        weir__out_text(o, " is given twice");
        return false;
    }
    if (flag != (value.len == 0)) {
        o = weir__complain(p, WEIR_ESYNTAX, name.at);
        weir__out_text(o, "option ");
        weir__out_quoted(o, name);
        weir__out_text(o, flag ? " takes no value" : " needs a value: ");
        weir__out_text(o, flag ? "" : x->say);
        return false;
    }
    if (flag) {
        weir__option_set(x, t, 1);
    } else {
        value.at++;
        value.len--;
        if (!read_value(p, x, t, value))
            return false;
    }
    next_word(p);
    return true;
}

static bool read_term(struct weir__parser *p, struct weir_term *t)
{
    const struct weir__option *own;
    struct weir__places at = {0};

    memset(t, 0, sizeof *t);
    if (!read_algorithm(p, t))
        return false;
    at.rate = p->word.at;
    if (!read_rate(p, t))
        return false;
    while (p->word.len > 0 && !weir__slice_is(p->word, "+"))
        if (!read_option(p, t, &at))
            return false;
    own = weir__options_of(t->algorithm);
    for (int i = 0; own[i].name; i++)
        if (!at.option[i] && own[i].kind != WEIR__OPTION_ZONE)
            weir__option_set(&own[i], t, weir__option_default(&own[i], t));
    return weir__term_fits(p, t, &at);
}

static bool read_limit(struct weir__parser *p, struct weir_limit *l)
{
    memset(l, 0, sizeof *l);
    if (p->text.len >= WEIR_LIMIT_TEXT_MAX) {
        weir__out_text(weir__complain(p, WEIR_ERANGE, p->text.at),
                       "a limit has at most 4095 bytes");
        return false;
    }
    next_word(p);
    for (;;) {
        if (l->n == WEIR_TERMS_MAX) {
            weir__out_text(weir__complain(p, WEIR_ERANGE, p->word.at),
                           "a limit has at most 16 terms");
            return false;
        }
        if (!read_term(p, &l->term[l->n++]))
            return false;
        if (p->word.len == 0)
            return true;
        next_word(p); /* over the + */
    }
}

int weir_limit_parse(struct weir_limit *limit, const char *text, struct weir_diag *why)
{
    struct weir_diag unread;
    struct weir_limit l;
    struct weir__parser p = {.text = weir__slice_of(text), .why = why ? why : &unread};

    p.rest = p.text;
    if (!read_limit(&p, &l)) {
        (void)weir__out_end(&p.message);
        return p.error;
    }
    *limit = l;
    return 0;
}
