/* Reads command lines by a command's table: one reader for all commands.
 *
 * `--name value` and `--name=value` are the same. Every message names the command, the option, the
 * offending word and what was expected in its place.
 */
#include "cli/options.h"

#include <assert.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"

/* One command line while it is read. */
struct options_reading {
    const struct command *command;
    void *to;
    unsigned given[OPTIONS_MAX]; /* how often each option was given */
    bool *seen;                  /* for the caller, or NULL: which ones were */
};

/* ---- Messages -------------------------------------------------------------------------------- */

#define OPTION_EXPECTED 256

/* "weir serve: --threads '0': " */
static void options_blame(const struct command *c, const struct option *o, const char *value)
{
    const int len = (int)strcspn(o->name, "=");

    (void)fprintf(stderr, "weir %s: %.*s", c->name, len, o->name);
    if (value)
        (void)fprintf(stderr, " '%s':", cli_redacted(value));
    (void)fputc(' ', stderr);
}

/* What was expected, with the units that people get wrong: 1GB is not one. */
static const char *option_expected(const struct option *o, char text[OPTION_EXPECTED])
{
    (void)snprintf(text, OPTION_EXPECTED, "expected %s%s",
                   o->kind == OPTION_FLAG ? "no value" : o->expected,
                   o->kind == OPTION_BYTES ? ", in bytes, KiB, MiB or GiB" : "");
    return text;
}

static bool options_wrong(const struct command *c, const struct option *o, const char *value)
{
    char text[OPTION_EXPECTED];

    options_blame(c, o, value);
    (void)fprintf(stderr, "%s\n", option_expected(o, text));
    return false;
}

const char *options_near(const char *word, const char *(*name)(const void *of, size_t i),
                         const void *of)
{
    static char text[64];

    for (size_t i = 0; name(of, i); i++)
        if (weir__slice_distance(weir__slice_of(word), weir__slice_of(name(of, i))) <= 2) {
            (void)snprintf(text, sizeof text, "; did you mean '%s'?", name(of, i));
            return text;
        }
    return "";
}

static const char *option_name(const void *options, size_t i)
{
    return ((const struct option *)options)[i].name;
}

/* Lists the options if they are few; a longer list is in --help. */
static bool options_unknown(const struct command *c, const char *word)
{
    size_t n = 0;

    while (c->options && c->options[n].name)
        n++;
    (void)fprintf(stderr, "weir %s: unknown option '%s'%s (", c->name, cli_redacted(word),
                  n > 0 ? options_near(word, option_name, c->options) : "");
    if (n > 8) {
        (void)fprintf(stderr, "weir %s --help lists them)\n", c->name);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (c->options[i].name[0] == '-')
            (void)fprintf(stderr, "%s, ", c->options[i].name);
    (void)fputs("--help)\n", stderr);
    return false;
}

bool options_unexpected(const struct command *c, const char *word)
{
    (void)fprintf(stderr, "weir %s: unexpected argument '%s'%s%s\n", c->name, cli_redacted(word),
                  c->words_expected ? "; expected " : "",
                  c->words_expected ? c->words_expected : "");
    return false;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* 4096, 64KiB, 1MiB, 1GiB. */
static bool option_parse_bytes(struct weir__slice word, int64_t *bytes)
{
    static const struct {
        const char *unit;
        int shift;
    } UNITS[] = {{"KiB", 10}, {"MiB", 20}, {"GiB", 30}, {"k", 10}, {"M", 20}, {"G", 30}, {"", 0}};
    size_t digits = 0;

    while (digits < word.len && word.at[digits] >= '0' && word.at[digits] <= '9')
        digits++;
    for (size_t i = 0; i < sizeof UNITS / sizeof UNITS[0]; i++)
        if (weir__slice_is((struct weir__slice){word.at + digits, word.len - digits},
                           UNITS[i].unit))
            return weir__parse_int((struct weir__slice){word.at, digits}, bytes) ==
                       WEIR__NUMBER_OK &&
                   *bytes <= INT64_MAX >> UNITS[i].shift && ((*bytes <<= UNITS[i].shift), true);
    return false;
}

/* 1/16 is 16; 1 is 1. */
static bool option_parse_part(struct weir__slice word, int64_t *of)
{
    if (weir__slice_is(word, "1")) {
        *of = 1;
        return true;
    }
    return word.len > 2 && memcmp(word.at, "1/", 2) == 0 &&
           weir__parse_int((struct weir__slice){word.at + 2, word.len - 2}, of) == WEIR__NUMBER_OK;
}

static bool option_parse_patience(struct weir__slice word, int64_t *ns)
{
    if (!weir__slice_is(word, "forever"))
        return weir__parse_duration(word, ns) == WEIR__NUMBER_OK;
    *ns = WEIR_FOREVER;
    return true;
}

/* Finds the word among a|b|c. */
static bool option_parse_choice(const char *words, struct weir__slice word, int64_t *index)
{
    struct weir__slice rest = weir__slice_of(words);

    for (*index = 0; rest.len > 0; ++*index) {
        if (weir__slice_equal(weir__slice_cut(&rest, '|'), word))
            return true;
        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1};
    }
    return false;
}

static bool option_parse(const struct option *o, struct weir__slice word, int64_t *n)
{
    switch (o->kind) {
    case OPTION_CHOICE: return option_parse_choice(o->value, word, n);
    case OPTION_BYTES: return option_parse_bytes(word, n);
    case OPTION_PART: return option_parse_part(word, n);
    case OPTION_PATIENCE: return option_parse_patience(word, n);
    case OPTION_COUNT: return weir__parse_count(word, n) == WEIR__NUMBER_OK;
    case OPTION_DURATION: return weir__parse_duration(word, n) == WEIR__NUMBER_OK;
    case OPTION_FLAG:
    case OPTION_TEXT:
    case OPTION_OTHER: break;
    }
    return false;
}

/* Stores n in the option's field, whose size gives its type: a bool, an int or an enum, 64 bits. */
static void option_store(const struct option *o, void *to, int64_t n)
{
    void *const field = (char *)to + o->at;
    const int word = (int)n;
    const bool yes = n != 0;

    assert(o->size == sizeof yes || o->size == sizeof word || o->size == sizeof n);
    if (o->size == sizeof yes)
        memcpy(field, &yes, sizeof yes);
    else if (o->size == sizeof word)
        memcpy(field, &word, sizeof word);
    else
        memcpy(field, &n, sizeof n);
}

static bool option_expects(const struct option *o, struct weir_diag *why)
{
    char text[OPTION_EXPECTED];

    (void)snprintf(why->text, sizeof why->text, "%s", option_expected(o, text));
    return false;
}

bool options_set(const struct option *o, void *to, char *value, struct weir_diag *why)
{
    int64_t n = 0;

    *why = (struct weir_diag){.text = ""};
    if (o->kind == OPTION_OTHER)
        return o->set(to, value, why) || (why->text[0] ? false : option_expects(o, why));
    if (o->kind == OPTION_TEXT) {
        memcpy((char *)to + o->at, &value, sizeof value);
        return true;
    }
    if (o->kind != OPTION_FLAG) {
        const bool parsed = option_parse(o, weir__slice_of(value), &n);
        const bool fits = o->kind == OPTION_CHOICE || (n >= o->least && n <= o->most);

        if (!parsed || !fits)
            return option_expects(o, why);
    }
    option_store(o, to, o->kind == OPTION_FLAG ? 1 : n);
    return true;
}

static bool option_set(const struct options_reading *r, const struct option *o, char *value)
{
    struct weir_diag why;

    if (options_set(o, r->to, value, &why))
        return true;
    options_blame(r->command, o, value);
    (void)fprintf(stderr, "%s\n", why.text);
    return false;
}

/* ---- Words ----------------------------------------------------------------------------------- */

/* The option that the word names, and the value behind its '=', or NULL. */
static const struct option *option_find(const struct command *c, char *word, char **value)
{
    for (const struct option *o = c->options; o && o->name; o++) {
        const size_t len = strcspn(o->name, "=");

        if (strncmp(word, o->name, len) != 0 || (word[len] != '=' && word[len] != o->name[len]))
            continue;
        *value = word[len] == '=' ? word + len + 1 : NULL;
        return o;
    }
    return NULL;
}

static bool option_may_come(struct options_reading *r, const struct option *o, const char *value)
{
    const size_t i = (size_t)(o - r->command->options);

    assert(i < OPTIONS_MAX);
    if (o->times == 0 || ++r->given[i] <= o->times)
        return true;
    options_blame(r->command, o, o->times > 1 ? value : NULL);
    if (o->times > 1)
        (void)fprintf(stderr, "may be given at most %u times\n", o->times);
    else
        (void)fputs("is given twice\n", stderr);
    return false;
}

static bool option_read(struct options_reading *r, int argc, char **argv, int *i)
{
    char *value = NULL;
    const struct option *o = option_find(r->command, argv[*i], &value);

    if (!o)
        return options_unknown(r->command, argv[*i]);
    if (r->seen)
        r->seen[o - r->command->options] = true;
    if (o->kind == OPTION_FLAG)
        return value ? options_wrong(r->command, o, value) : option_set(r, o, NULL);
    if (!value && *i + 1 < argc)
        value = argv[++*i];
    if (!value || !*value) {
        options_blame(r->command, o, NULL);
        (void)fprintf(stderr, "needs a value: expected %s\n", o->expected);
        return false;
    }
    return option_may_come(r, o, value) && option_set(r, o, value);
}

static bool options_is_option(const struct command *c, const char *word)
{
    return word[0] == '-' && word[1] != '\0' && (word[1] == '-' || !c->dash_words);
}

/* Named operands may follow the required ones: cost=5. */
static bool options_is_named(const struct command *c, char *word, int words)
{
    char *value;

    return words >= c->words_least && word[0] != '-' && option_find(c, word, &value);
}

int options_read(const struct command *c, void *to, int argc, char **argv)
{
    return options_read_seen(c, to, NULL, argc, argv);
}

int options_read_seen(const struct command *c, void *to, bool *seen, int argc, char **argv)
{
    struct options_reading r = {.command = c, .to = to, .seen = seen};
    bool ended = false;
    int words = 0;

    for (int i = 0; i < argc; i++) {
        if (!ended && strcmp(argv[i], "--") == 0)
            ended = true;
        else if (options_is_named(c, argv[i], words) || (!ended && options_is_option(c, argv[i]))) {
            if (!option_read(&r, argc, argv, &i))
                return -1;
        } else
            argv[words++] = argv[i];
    }
    if (words > c->words_most)
        return options_unexpected(c, argv[c->words_most]) ? words : -1;
    if (words >= c->words_least)
        return words;
    (void)fprintf(stderr, "weir %s: expected %s\n", c->name, c->words_expected);
    return -1;
}
