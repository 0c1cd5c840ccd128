/* Reads the lines of a script: time, verb, key, options. */
#include "sim/script.h"

#include <string.h>

#include "base/date.h"
#include "base/num.h"

/* ---- Words ----------------------------------------------------------------------------------- */

static bool has_id(const struct sim_event *e)
{
    return e->verb == SIM_TAKE || e->verb == SIM_ENTER || e->verb == SIM_RESERVE;
}

static bool has_wait(const struct sim_event *e)
{
    return e->verb == SIM_TAKE || e->verb == SIM_ENTER || e->verb == SIM_PEEK;
}

static bool has_cost(const struct sim_event *e)
{
    return has_wait(e) || e->verb == SIM_REFUND || e->verb == SIM_CHARGE ||
           e->verb == SIM_RESERVE || e->verb == SIM_COMMIT;
}

static bool read_cost(struct weir__slice word, struct sim_event *e, struct sim_error *error)
{
    switch (weir__parse_int(word, &e->cost)) {
    case WEIR__NUMBER_OK: return true;
    case WEIR__NUMBER_NEGATIVE:
        return sim_fail_word(error, "cost ", word, " is negative; expected 0 or more");
    case WEIR__NUMBER_BIG:
        return sim_fail_word(error, "cost ", word, " is above 9223372036854775807");
    case WEIR__NUMBER_BAD:
    case WEIR__NUMBER_FINE: break;
    }
    return sim_fail_word(
        error, "", word,
        e->verb == SIM_RESERVE
            ? " is neither a cost nor an option (ttl=DURATION, lapse=keep|free, as=ID)"
        : has_id(e) ? " is neither a cost nor an option (wait=DURATION, wait=forever, as=ID)"
        : e->verb == SIM_PEEK ? " is neither a cost nor an option (wait=DURATION, wait=forever)"
                              : " is not a cost");
}

static bool read_wait(struct weir__slice value, struct sim_event *e, struct sim_error *error)
{
    if (weir__slice_is(value, "forever")) {
        e->patience_ns = WEIR_FOREVER;
        return true;
    }
    if (weir__parse_duration(value, &e->patience_ns) == WEIR__NUMBER_OK)
        return true;
    return sim_fail_word(error, "wait=", value,
                         " is not valid; expected forever or a duration such as 250ms");
}

/* ttl=DURATION and lapse=keep|free of a reservation. False and no error: it is neither. */
static bool read_reserve(struct weir__slice name, struct weir__slice value, struct sim_event *e,
                         struct sim_error *error)
{
    if (weir__slice_is(name, "ttl") && e->ttl_ns == 0) {
        if (weir__parse_duration(value, &e->ttl_ns) != WEIR__NUMBER_OK || e->ttl_ns == 0 ||
            e->ttl_ns > WEIR_ACCOUNT_TTL_MAX)
            return sim_fail_word(error, "ttl=", value,
                                 " is not valid; expected a duration up to 24h, such as 30s");
        return true;
    }
    if (!weir__slice_is(name, "lapse"))
        return false;
    e->lapses_free = weir__slice_is(value, "free");
    if (!e->lapses_free && !weir__slice_is(value, "keep"))
        return sim_fail_word(error, "lapse=", value, " is not valid; expected keep or free");
    return true;
}

/* The words behind the key. */
static bool read_rest(struct weir__slice rest, struct sim_event *e, struct sim_error *error)
{
    bool cost = false, wait = false, id = false, how = false;

    for (;;) {
        const struct weir__slice word = weir__slice_word(&rest);
        struct weir__slice value = word;
        const struct weir__slice name = weir__slice_cut(&value, '=');

        if (word.len == 0)
            return true;
        if (value.len > 0)
            value = (struct weir__slice){value.at + 1, value.len - 1};
        error->text[0] = '\0';
        if (e->verb == SIM_RESERVE && name.len < word.len && read_reserve(name, value, e, error))
            continue;
        if (error->text[0] != '\0')
            return false;
        if (has_wait(e) && !wait && weir__slice_is(name, "wait") && name.len < word.len) {
            wait = true;
            if (!read_wait(value, e, error))
                return false;
        } else if (has_id(e) && !id && weir__slice_is(name, "as") && value.len > 0) {
            id = true;
            e->id = value;
        } else if (!cost && has_cost(e)) {
            cost = true;
            if (!read_cost(word, e, error))
                return false;
        } else if (e->verb == SIM_EXIT && !how) {
            how = true;
            if (!sim_how_parse(word, &e->how))
                return sim_fail_word(error, "", word,
                                     " is not how a call ends; expected ok, error, drop or ignore");
        } else {
            return sim_fail_word(error, "unexpected word ", word, "");
        }
    }
}

/* ---- Signals --------------------------------------------------------------------------------- */

/* 85%, 3.5 (load), or none: the level is no longer known. */
static bool read_level(struct weir__slice text, bool share, int64_t *milli)
{
    if (weir__slice_is(text, "none")) {
        *milli = WEIR_NONE;
        return true;
    }
    if (share && (text.len == 0 || text.at[--text.len] != '%'))
        return false;
    return weir__parse_decimal(text, share ? 10 : 1000, milli) == WEIR__NUMBER_OK;
}

static bool read_signal(struct weir__slice word, struct weir_signals *s, struct sim_error *error)
{
    struct weir__slice value = word;
    const struct weir__slice name = weir__slice_cut(&value, '=');
    int64_t *const milli = weir__slice_is(name, "cpu")        ? &s->cpu_milli
                           : weir__slice_is(name, "memory")   ? &s->memory_milli
                           : weir__slice_is(name, "load")     ? &s->load_milli
                           : weir__slice_is(name, "pressure") ? &s->pressure_milli
                                                              : NULL;

    if (value.len > 0)
        value = (struct weir__slice){value.at + 1, value.len - 1};
    if (milli && read_level(value, milli != &s->load_milli, milli)) {
        if (milli == &s->load_milli || *milli <= 1000)
            return true;
        return sim_fail_word(error, "", word, " is out of range; expected 0% .. 100%");
    }
    return sim_fail_word(error, "", word,
                         " is not a signal; expected such as cpu=85%, memory=70%, pressure=10%, "
                         "load=3.5 or cpu=none");
}

static bool read_signals(struct weir__slice rest, struct sim_event *e, struct sim_error *error)
{
    struct weir__slice word = weir__slice_word(&rest);

    e->signals = (struct weir_signals){SIM_SAME, SIM_SAME, SIM_SAME, SIM_SAME};
    if (word.len == 0)
        return sim_fail(error, "expected a signal after signal, such as cpu=85%%");
    for (; word.len > 0; word = weir__slice_word(&rest))
        if (!read_signal(word, &e->signals, error))
            return false;
    return true;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

static bool script_read_time(struct weir__slice *rest, struct sim_event *e, struct sim_error *error)
{
    const struct weir__slice after = *rest;
    const struct weir__slice word = weir__slice_word(rest);

    if (weir__slice_is(word, sim_verb_name(SIM_LIMIT))) {
        *rest = after; /* an untimed limit */
        return true;
    }
    e->timed = true;
    switch (weir__parse_duration(word, &e->time_ns)) {
    case WEIR__NUMBER_OK: return true;
    case WEIR__NUMBER_BIG:
        return sim_fail_word(error, "time ", word,
                             " is past the end of the clock, 2^62 ns after 1970");
    case WEIR__NUMBER_BAD:
    case WEIR__NUMBER_NEGATIVE:
    case WEIR__NUMBER_FINE: break;
    }
    return sim_fail_word(error, "time ", word,
                         " is not valid; expected a duration such as 0, 250ms, 1m30s");
}

static bool read_event(struct weir__slice rest, struct sim_event *e, struct sim_error *error)
{
    struct weir__slice word;

    *e = (struct sim_event){.cost = 1, .patience_ns = WEIR_WAIT_DEFAULT};
    if (!script_read_time(&rest, e, error))
        return false;
    word = weir__slice_word(&rest);
    if (!sim_verb_parse(word, &e->verb))
        return sim_fail_word(
            error, "unknown verb ", word,
            "; expected take, peek, charge, refund, cancel, reserve, commit, enter, exit, signal, "
            "reset or limit");
    if (e->verb == SIM_LIMIT) {
        e->limit = rest;
        return true;
    }
    if (e->verb == SIM_SIGNAL)
        return read_signals(rest, e, error);
    e->key = weir__slice_word(&rest);
    if (e->key.len == 0)
        return sim_fail(error, "expected %s after %s",
                        e->verb == SIM_CANCEL || e->verb == SIM_COMMIT || e->verb == SIM_EXIT
                            ? "an id"
                            : "a key",
                        sim_verb_name(e->verb));
    if (e->key.len > SIM_KEY_MAX)
        return sim_fail(error, "the key has %zu bytes; at most %d are accepted", e->key.len,
                        SIM_KEY_MAX);
    if (!read_rest(rest, e, error))
        return false;
    return e->verb != SIM_RESERVE || (e->ttl_ns > 0 && e->id.len > 0) ||
           sim_fail(error, "a reserve needs ttl=DURATION and as=ID");
}

/* A # that starts a word starts a comment. */
static struct weir__slice without_comment(struct weir__slice line)
{
    for (size_t i = 0; i < line.len; i++)
        if (line.at[i] == '#' && (i == 0 || line.at[i - 1] == ' ' || line.at[i - 1] == '\t'))
            return (struct weir__slice){line.at, i};
    return line;
}

enum sim_line sim_script_parse(struct weir__slice line, struct sim_event *event,
                               struct sim_error *error)
{
    struct weir__slice text = without_comment(line), rest = text;

    if (weir__slice_word(&rest).len == 0)
        return SIM_LINE_EMPTY;
    return read_event(text, event, error) ? SIM_LINE_EVENT : SIM_LINE_BAD;
}

/* ---- Dates ----------------------------------------------------------------------------------- */

static bool script_read_digits(struct weir__slice *s, int n, int64_t *value)
{
    const struct weir__slice head = {s->at, (size_t)n};

    if (s->len < (size_t)n || weir__parse_int(head, value) != WEIR__NUMBER_OK)
        return false;
    s->at += n;
    s->len -= (size_t)n;
    return true;
}

static bool script_skip_char(struct weir__slice *s, const char *any_of)
{
    if (s->len == 0 || !strchr(any_of, *s->at) || *s->at == '\0')
        return false;
    s->at++;
    s->len--;
    return true;
}

static bool read_day(struct weir__slice *s, int64_t *days)
{
    int64_t year, month, day;
    struct weir__date back;

    if (!script_read_digits(s, 4, &year) || !script_skip_char(s, "-") ||
        !script_read_digits(s, 2, &month) || !script_skip_char(s, "-") ||
        !script_read_digits(s, 2, &day) || month < 1 || month > 12)
        return false;
    *days = weir__days_of(year, (int)month, (int)day);
    back = weir__date_of(*days);
    return back.month == month && back.day == day;
}

/* hh:mm[:ss[.fraction]] in ns. */
static bool script_read_clock(struct weir__slice *s, int64_t *ns)
{
    int64_t hour, minute, second = 0, fraction = 0;

    if (!script_read_digits(s, 2, &hour) || !script_skip_char(s, ":") ||
        !script_read_digits(s, 2, &minute))
        return false;
    if (script_skip_char(s, ":") && !script_read_digits(s, 2, &second))
        return false;
    if (script_skip_char(s, ".")) {
        int64_t digit, place = WEIR__NS_PER_S;

        while (script_read_digits(s, 1, &digit)) {
            if (place == 1)
                return false;
            place /= 10;
            fraction += digit * place;
        }
        if (place == WEIR__NS_PER_S)
            return false;
    }
    *ns = ((hour * 60 + minute) * 60 + second) * WEIR__NS_PER_S + fraction;
    return hour < 24 && minute < 60 && second < 60;
}

static bool read_offset(struct weir__slice *s, int64_t *ns)
{
    const bool west = s->len > 0 && *s->at == '-';
    int64_t hour, minute = 0;

    *ns = 0;
    if (s->len == 0 || script_skip_char(s, "Zz"))
        return true;
    if (!script_skip_char(s, "+-") || !script_read_digits(s, 2, &hour) || hour > 23)
        return false;
    if (script_skip_char(s, ":") && (!script_read_digits(s, 2, &minute) || minute > 59))
        return false;
    *ns = (west ? -1 : 1) * (hour * 60 + minute) * 60 * WEIR__NS_PER_S;
    return true;
}

bool sim_date_parse(struct weir__slice text, int64_t *ns, struct sim_error *error)
{
    struct weir__slice s = text;
    int64_t days, of_day = 0, offset = 0;

    if (!read_day(&s, &days) || (script_skip_char(&s, "Tt ") && !script_read_clock(&s, &of_day)) ||
        !read_offset(&s, &offset) || s.len > 0)
        return sim_fail_word(error, "date ", text,
                             " is not valid; expected one such as 2024-01-01T00:00:00Z");
    if (days >= -1 && days <= WEIR__NOW_MAX / WEIR__NS_PER_S / 86400 + 1) { /* so that ns fits */
        *ns = days * 86400 * WEIR__NS_PER_S + of_day - offset;
        if (*ns >= 0 && *ns <= WEIR__NOW_MAX)
            return true;
    }
    return sim_fail_word(error, "date ", text, " is out of range; expected 1970 .. 2116");
}
