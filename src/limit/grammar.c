/* Text to limit.
 *
 * The parser passes over the words once. It reads each word in place, so that every message can
 * name the word and its column, and say what was expected. After the last word of a term, the
 * parser fills in the options that were left out and checks the numbers against each other. A text
 * that is refused changes nothing.
 */
#include <weir.h>

#include <string.h>

#include "base/text.h"
#include "limit/grammar.h"
#include "limit/options.h"

#define TERMS_THAT_FIT 8 /* into a canonical text, with any options */

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

struct suggest {
    const char *name;
    int distance;
};

static void suggest(struct suggest *g, struct weir__slice word, const char *name)
{
    const int distance = weir__slice_distance(word, weir__slice_of(name));

    /* In a short word, two edits would change everything. */
    if (distance <= 2 && 2 * (size_t)distance <= word.len && distance < g->distance)
        *g = (struct suggest){name, distance};
}

/* "circuit-breaker" is many edits from "breaker", but contains it. */
static void suggest_within(struct suggest *g, struct weir__slice word, const char *name)
{
    const struct weir__slice part = weir__slice_of(name);

    for (size_t i = 0; !g->name && i + part.len <= word.len; i++)
        if (memcmp(word.at + i, part.at, part.len) == 0)
            g->name = name;
}

static void print_suggestion(struct weir__out *o, const struct suggest *g)
{
    if (!g->name)
        return;
    weir__out_text(o, "; did you mean '");
    weir__out_text(o, g->name);
    weir__out_text(o, "'?");
}

static bool grammar_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Whether the current word is a number and the next one `per`: 10 per minute. */
static bool grammar_at_per(const struct weir__parser *p)
{
    struct weir__slice rest = p->rest;

    return p->word.len > 0 && grammar_is_digit(*p->word.at) &&
           weir__slice_is(weir__slice_word(&rest), "per");
}

/* Whether the current word begins a rate: 10/s, or 10 per minute. */
static bool grammar_at_rate(const struct weir__parser *p)
{
    return (p->word.len > 0 && memchr(p->word.at, '/', p->word.len)) || grammar_at_per(p);
}

/* Whether the rate that the current word begins is none: 0/s, 0r/s, 0 per minute. */
static bool grammar_at_zero(const struct weir__parser *p)
{
    size_t zeros = 0;

    while (zeros < p->word.len && p->word.at[zeros] == '0')
        zeros++;
    return zeros > 0 &&
           (zeros == p->word.len || p->word.at[zeros] == '/' ||
            (p->word.at[zeros] == 'r' && zeros + 1 < p->word.len && p->word.at[zeros + 1] == '/'));
}

/* COUNT per PERIOD, or COUNT per NUMBER UNIT. Leaves the current word at the last of them. */
static bool grammar_read_per(struct weir__parser *p, struct weir_term *t)
{
    const struct weir__slice count = p->word;
    struct weir__slice number = {0};

    next_word(p); /* per */
    next_word(p);
    if (p->word.len > 0 && grammar_is_digit(p->word.at[p->word.len - 1])) {
        number = p->word;
        next_word(p);
    }
    if (p->word.len == 0 || weir__slice_is(p->word, "+")) {
        weir__out_text(weir__complain(p, WEIR_ESYNTAX, p->word.at),
                       "expected a period after 'per', such as minute or 5 minutes");
        return false;
    }
    return weir__read_rate_per(p, t, count, number, p->word);
}

static bool grammar_read_rate(struct weir__parser *p, struct weir_term *t)
{
    return grammar_at_per(p) ? grammar_read_per(p, t) : weir__read_rate(p, t, p->word);
}

static bool read_algorithm(struct weir__parser *p, struct weir_term *t)
{
    struct suggest g = {NULL, 99};
    struct weir__out *o;

    for (int i = 0; i < WEIR__ALGORITHM_COUNT; i++) {
        const char *name = weir_algorithm_name((enum weir_algorithm)i);

        if (weir__slice_is(p->word, name)) {
            t->algorithm = (enum weir_algorithm)i;
            next_word(p);
            return true;
        }
        suggest(&g, p->word, name);
    }
    if (grammar_at_rate(p) && grammar_at_zero(p)) {
        t->algorithm = WEIR_ZERO; /* 0/s in another form, such as 0/1m: it has no amount to print */
        if (!grammar_read_rate(p, t))
            return false;
        next_word(p);
        return true;
    }
    if (grammar_at_rate(p)) {
        t->algorithm = WEIR_TOKEN_BUCKET; /* a bare 100/s */
        return true;
    }
    o = weir__complain(p, WEIR_ESYNTAX, p->word.at);
    if (p->word.len == 0) {
        weir__out_text(o, "expected a limit, such as 'token-bucket 10/s burst=20'");
        return false;
    }
    if (grammar_is_digit(*p->word.at)) {
        weir__out_quoted(o, p->word);
        weir__out_text(o, " has no period; expected COUNT/PERIOD, such as 10/s");
        return false;
    }
    for (int i = 0; i < WEIR__ALGORITHM_COUNT; i++)
        suggest_within(&g, p->word, weir_algorithm_name((enum weir_algorithm)i));
    weir__out_text(o, "unknown algorithm ");
    weir__out_quoted(o, p->word);
    print_suggestion(o, &g);
    list_algorithms(o);
    return false;
}

static bool no_amount(struct weir__parser *p, const struct weir_term *t, enum weir__amount amount)
{
    static const struct {
        const char *what, *such_as;
    } EXPECTED[] = {[WEIR__AMOUNT_RATE] = {"COUNT/PERIOD", "10/s"},
                    [WEIR__AMOUNT_INTERVAL] = {"a duration", "100ms"},
                    [WEIR__AMOUNT_COUNT] = {"a count", "10"}};
    struct weir__out *o = weir__complain(p, WEIR_ESYNTAX, p->word.at);

    weir__out_text(o, "expected ");
    weir__out_text(o, EXPECTED[amount].what);
    weir__out_text(o, " after ");
    weir__out_text(o, weir_algorithm_name(t->algorithm));
    weir__out_text(o, ", such as ");
    weir__out_text(o, EXPECTED[amount].such_as);
    if (p->word.len > 0) {
        weir__out_text(o, ", not ");
        weir__out_quoted(o, p->word);
    }
    return false;
}

static bool read_amount(struct weir__parser *p, struct weir_term *t)
{
    const enum weir__amount amount = weir__amount_of(t->algorithm);
    const bool missing = p->word.len == 0 || weir__slice_is(p->word, "+");
    const bool slash = p->word.len > 0 && memchr(p->word.at, '/', p->word.len);
    bool read = false;

    if (amount == WEIR__AMOUNT_NOTHING)
        return true;
    if (missing || (amount == WEIR__AMOUNT_RATE && !grammar_at_rate(p)) ||
        (amount == WEIR__AMOUNT_COUNT && slash))
        return no_amount(p, t, amount);
    if (amount == WEIR__AMOUNT_INTERVAL)
        t->count = 1;
    switch (amount) {
    case WEIR__AMOUNT_RATE: read = grammar_read_rate(p, t); break;
    case WEIR__AMOUNT_INTERVAL: read = weir__read_duration(p, t, p->word); break;
    case WEIR__AMOUNT_COUNT: read = weir__read_count(p, t, p->word); break;
    case WEIR__AMOUNT_NOTHING: break;
    }
    if (read)
        next_word(p);
    return read;
}

/* Lists the other algorithms that have the option: a better hint than a list of options. False if
 * none has it. */
static bool list_owners(struct weir__out *o, struct weir__slice name)
{
    const char *join = "; it belongs to ";
    bool any = false;

    for (unsigned i = 0; i < WEIR__ALGORITHM_COUNT; i++) {
        if (!weir__option_find(i, name))
            continue;
        weir__out_text(o, join);
        weir__out_text(o, weir_algorithm_name((enum weir_algorithm)i));
        join = ", ";
        any = true;
    }
    return any;
}

static bool is_algorithm(struct weir__slice word)
{
    for (int i = 0; i < WEIR__ALGORITHM_COUNT; i++)
        if (weir__slice_is(word, weir_algorithm_name((enum weir_algorithm)i)))
            return true;
    return false;
}

/* Whether a word that stands where an option should be begins another limit. */
static bool begins_a_limit(struct weir__slice word)
{
    return is_algorithm(word) || (grammar_is_digit(*word.at) && memchr(word.at, '/', word.len));
}

static bool grammar_unknown_option(struct weir__parser *p, const struct weir_term *t,
                                   struct weir__slice name)
{
    struct weir__out *o = weir__complain(p, WEIR_ESYNTAX, name.at);
    struct suggest g = {NULL, 99};

    if (begins_a_limit(p->word)) {
        weir__out_quoted(o, p->word);
        weir__out_text(o, " begins another limit; expected ' + ' before it");
        return false;
    }
    weir__out_text(o, "unknown option ");
    weir__out_quoted(o, name);
    weir__out_text(o, " for ");
    weir__out_text(o, weir_algorithm_name(t->algorithm));
    for (const struct weir__option *x = weir__options_of(t->algorithm); x->name; x++)
        suggest(&g, name, x->name);
    for (const struct weir__option *x = weir__options_of(WEIR__ANY_ALGORITHM); x->name; x++)
        suggest(&g, name, x->name);
    if (!list_owners(o, name))
        print_suggestion(o, &g);
    weir__out_text(o, " (");
    weir__options_list(o, t->algorithm);
    weir__out_text(o, ")");
    return false;
}

/* The entry that records where the option was given. */
static const char **grammar_noted(struct weir__positions *at, const struct weir_term *t,
                                  const struct weir__option *x)
{
    const struct weir__option *own = weir__options_of(t->algorithm);

    for (int i = 0; own[i].name; i++)
        if (x == &own[i])
            return &at->option[i];
    return &at->common[x - weir__options_of(WEIR__ANY_ALGORITHM)];
}

/* Marks the option as given; false if it already was. */
static bool grammar_mark(struct weir__positions *at, const struct weir_term *t,
                         const struct weir__option *x, const char *where)
{
    const char **note = grammar_noted(at, t, x);

    if (*note)
        return false;
    *note = where;
    return true;
}

static bool grammar_read_option(struct weir__parser *p, struct weir_term *t,
                                struct weir__positions *at)
{
    struct weir__slice value = p->word;
    const struct weir__slice name = weir__slice_cut(&value, '=');
    const struct weir__option *x = weir__option_find(t->algorithm, name);
    const bool flag = x && x->kind == WEIR__OPTION_FLAG;
    struct weir__out *o;

    if (!x)
        return grammar_unknown_option(p, t, name);
    if (!grammar_mark(at, t, x, name.at)) {
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
        if (!weir__read_value(p, x, t, value))
            return false;
    }
    next_word(p);
    return true;
}

static void grammar_fill_in(struct weir_term *t, struct weir__positions *at)
{
    const unsigned both[] = {t->algorithm, WEIR__ANY_ALGORITHM};

    for (int i = 0; i < 2; i++)
        for (const struct weir__option *x = weir__options_of(both[i]); x->name; x++)
            if (!*grammar_noted(at, t, x))
                weir__option_fill(x, t);
}

static bool read_term(struct weir__parser *p, struct weir_term *t)
{
    struct weir__positions at = {0};

    memset(t, 0, sizeof *t);
    at.amount = p->word.at;
    if (!read_algorithm(p, t))
        return false;
    if (weir__amount_of(t->algorithm) != WEIR__AMOUNT_NOTHING)
        at.amount = p->word.at;
    if (!read_amount(p, t))
        return false;
    while (p->word.len > 0 && !weir__slice_is(p->word, "+"))
        if (!grammar_read_option(p, t, &at))
            return false;
    grammar_fill_in(t, &at);
    return weir__term_fits(p, t, &at);
}

/* The canonical form may be longer than the text, and has to fit too. Only guards have enough
 * options for it not to fit. */
static bool prints_short(struct weir__parser *p, const struct weir_limit *l)
{
    if (l->n <= TERMS_THAT_FIT || weir_limit_print(l, NULL, 0) < WEIR_LIMIT_TEXT_MAX)
        return true;
    weir__out_text(weir__complain(p, WEIR_ERANGE, p->text.at),
                   "the canonical form of the limit is longer than 4095 bytes");
    return false;
}

static bool grammar_read_limit(struct weir__parser *p, struct weir_limit *l)
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
            return prints_short(p, l);
        next_word(p); /* over the + */
    }
}

int weir_limit_parse(struct weir_limit *limit, const char *text, struct weir_diag *why)
{
    struct weir_diag unread;
    struct weir_limit l;
    struct weir__parser p = {.text = weir__slice_of(text), .why = why ? why : &unread};

    p.rest = p.text;
    if (!grammar_read_limit(&p, &l)) {
        (void)weir__out_end(&p.message);
        return p.error;
    }
    *limit = l;
    return 0;
}
