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
#include "policy/options.h"
#include "policy/zone.h"

#define DAYS_NS (86400 * WEIR__NS_PER_S)

struct parser {
    struct weir__slice text, rest;
    struct weir__slice word; /* the one in hand; of length 0 at the end */
    struct weir__out message;
    struct weir_diag *why;
    int error;
};

/* Where things of the term in hand stood, for complaints that come later. */
struct places {
    const char *rate;
    const char *option[8]; /* by position among the algorithm's own; NULL: not given */
    unsigned common;       /* bit i: the i-th common option was given */
};

static void next_word(struct parser *p)
{
    p->word = weir__slice_word(&p->rest);
}

/* Starts the message about what stands at `at`; the caller goes on writing to p->message. */
static struct weir__out *complain(struct parser *p, int error, const char *at)
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

static bool read_algorithm(struct parser *p, struct weir_term *t)
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
    o = complain(p, WEIR_ESYNTAX, p->word.at);
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

static bool bad_number(struct parser *p, struct weir__slice word, const char *what,
                       enum weir__number read, const char *expected)
{
    const bool range =
        read == WEIR__NUMBER_NEGATIVE || read == WEIR__NUMBER_BIG || read == WEIR__NUMBER_OK;
    struct weir__out *o = complain(p, range ? WEIR_ERANGE : WEIR_ESYNTAX, word.at);

    weir__out_text(o, what);
    weir__out_text(o, " ");
    weir__out_quoted(o, word);
    weir__out_text(o, range ? " is out of range; expected " : " is not valid; expected ");
    weir__out_text(o, expected);
    return false;
}

static bool read_count(struct parser *p, struct weir_term *t, struct weir__slice word)
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

static bool read_duration(struct parser *p, struct weir_term *t, struct weir__slice word)
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

static bool read_period(struct parser *p, struct weir_term *t, struct weir__slice word)
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

static bool read_rate(struct parser *p, struct weir_term *t)
{
    struct weir__slice period = p->word;
    const struct weir__slice count = weir__slice_cut(&period, '/');

    if (p->word.len == 0 || (period.len == 0 && t->algorithm != WEIR_MIN_INTERVAL)) {
        struct weir__out *o = complain(p, WEIR_ESYNTAX, p->word.at);
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

static bool unknown_option(struct parser *p, const struct weir_term *t, struct weir__slice name)
{
    const char *owner = owner_of(name);
    struct weir__out *o = complain(p, WEIR_ESYNTAX, name.at);
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

static bool bad_value(struct parser *p, const struct weir__option *x, struct weir__slice value,
                      int error)
{
    struct weir__out *o = complain(p, error, value.at);

    weir__out_text(o, x->name);
    weir__out_text(o, "=");
    weir__out_quoted(o, value);
    weir__out_text(o, error == WEIR_ERANGE ? " is out of range; expected "
                                           : " is not valid; expected ");
    weir__out_text(o, x->say);
    return false;
}

static bool read_zone(struct parser *p, const struct weir__option *x, struct weir_term *t,
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

static bool read_value(struct parser *p, const struct weir__option *x, struct weir_term *t,
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
static bool mark(struct places *at, const struct weir_term *t, const struct weir__option *x,
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

static bool read_option(struct parser *p, struct weir_term *t, struct places *at)
{
    struct weir__slice value = p->word;
    const struct weir__slice name = weir__slice_cut(&value, '=');
    const struct weir__option *x = weir__option_find(t->algorithm, name);
    const bool flag = x && x->kind == WEIR__OPTION_FLAG;
    struct weir__out *o;

    if (!x)
        return unknown_option(p, t, name);
    if (!mark(at, t, x, name.at)) {
        o = complain(p, WEIR_ESYNTAX, name.at);
        weir__out_text(o, "option ");
        weir__out_quoted(o, name);
        weir__out_text(o, " is given twice");
        return false;
    }
    if (flag != (value.len == 0)) {
        o = complain(p, WEIR_ESYNTAX, name.at);
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

static bool contradiction(struct parser *p, const char *at, int error, const char *text)
{
    weir__out_text(complain(p, error, at), text);
    return false;
}

static const char *place(const struct places *at, int i)
{
    return at->option[i] ? at->option[i] : at->rate;
}

/* Whether n events take at most 2^62 ns. */
static bool drains(const struct weir_term *t, int64_t n)
{
    return weir__wide(n) * weir__wide(t->period_ns) <=
           weir__wide(t->count) * weir__wide(WEIR__SPAN_MAX);
}

static bool check_fixed_window(struct parser *p, struct weir_term *t, const struct places *at)
{
    if (t->calendar != WEIR_DURATION && t->align == WEIR_ALIGN_FIRST)
        return contradiction(p, place(at, 0), WEIR_ESYNTAX,
                             "day, week and month follow the calendar: write 24h or 168h for a "
                             "window that starts with its first event");
    if (at->option[1] && t->align == WEIR_ALIGN_FIRST)
        return contradiction(p, place(at, 1), WEIR_ESYNTAX,
                             "tz needs align=clock: a window that starts with its first event "
                             "knows no time zone");
    if (!at->option[1] && t->align == WEIR_ALIGN_CLOCK)
        memcpy(t->tz, "UTC", 4);
    return true;
}

static bool check_sliding_window(struct parser *p, struct weir_term *t, const struct places *at)
{
    if (t->period_ns % t->slots != 0) {
        struct weir__out *o = complain(p, WEIR_ERANGE, place(at, 0));

        weir__out_text(o, "slots=");
        weir__out_int(o, t->slots);
        weir__out_text(o, " does not divide the period of ");
        weir__out_duration(o, t->period_ns);
        return false;
    }
    if (t->per_slot == WEIR__WORD_EVEN)
        t->per_slot = weir__div_ceil(t->count, t->slots);
    if (t->per_slot > t->count)
        return contradiction(p, place(at, 1), WEIR_ERANGE, "per-slot may not exceed the count");
    return true;
}

static bool check_bucket(struct parser *p, struct weir_term *t, const struct places *at)
{
    if (t->initial == WEIR__WORD_FULL)
        t->initial = t->burst;
    if (!drains(t, t->burst))
        return contradiction(p, place(at, 0), WEIR_ERANGE,
                             "that many events take more than 146 years to drain at this rate");
    if (t->algorithm == WEIR_TOKEN_BUCKET && t->initial > t->burst)
        return contradiction(p, place(at, 1), WEIR_ERANGE, "initial may not exceed burst");
    if (t->algorithm == WEIR_LEAKY_BUCKET && t->delay > t->burst)
        return contradiction(p, place(at, 1), WEIR_ERANGE, "delay may not exceed capacity");
    return true;
}

static bool check_smooth(struct parser *p, const struct weir_term *t, const struct places *at)
{
    const bool warm = t->algorithm == WEIR_SMOOTH_WARMUP;
    const int64_t idle = warm ? t->warmup_ns : t->max_burst_ns;
    /* warm: max = W/T x (5 + cold)/(2 (1 + cold)), cold in thousandths */
    const weir__u128 num = weir__wide(warm ? 5000 + t->cold_milli : 1);
    const weir__u128 den = weir__wide(warm ? 2 * (1000 + t->cold_milli) : 1);

    if (warm && !at->option[0])
        return contradiction(p, at->rate, WEIR_ESYNTAX,
                             "smooth-warmup needs warmup=, such as warmup=4s");
    /* 113 bits at most on either side */
    if (weir__wide(idle) * weir__wide(t->count) * num >
        weir__wide(WEIR_COUNT_MAX) * weir__wide(t->period_ns) * den)
        return contradiction(p, place(at, 0), WEIR_ERANGE,
                             "that would store more than 1000000000000 permits");
    return true;
}

static bool check_term(struct parser *p, struct weir_term *t, const struct places *at)
{
    switch (t->algorithm) {
    case WEIR_FIXED_WINDOW: return check_fixed_window(p, t, at);
    case WEIR_SLIDING_WINDOW: return check_sliding_window(p, t, at);
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_PACER: return check_bucket(p, t, at);
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP: return check_smooth(p, t, at);
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
    case WEIR_MIN_INTERVAL: return true;
    }
    return true;
}

static bool read_term(struct parser *p, struct weir_term *t)
{
    const struct weir__option *own;
    struct places at = {0};

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
    return check_term(p, t, &at);
}

static bool read_limit(struct parser *p, struct weir_limit *l)
{
    memset(l, 0, sizeof *l);
    if (p->text.len >= WEIR_LIMIT_TEXT_MAX) {
        complain(p, WEIR_ERANGE, p->text.at);
        weir__out_text(&p->message, "a limit has at most 4095 bytes");
        return false;
    }
    next_word(p);
    for (;;) {
        if (l->n == WEIR_TERMS_MAX)
            return contradiction(p, p->word.at, WEIR_ERANGE, "a limit has at most 16 terms");
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
    struct parser p = {.text = weir__slice_of(text), .why = why ? why : &unread};

    p.rest = p.text;
    if (!read_limit(&p, &l)) {
        (void)weir__out_end(&p.message);
        return p.error;
    }
    *limit = l;
    return 0;
}
