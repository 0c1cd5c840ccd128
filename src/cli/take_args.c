#include "cli/take_args.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/commands.h"

enum kind { FLAG, TEXT, LIMIT, COUNT };

static const struct option {
    const char *name;
    enum kind kind;
    size_t at; /* in struct take_args */
    const char *expected;
} OPTIONS[] = {
    {"--store", TEXT, offsetof(struct take_args, store),
     "memory:, file:/path, redis://host:port or redis+unix:/path"},
    {"--limit", LIMIT, 0, "NAME='LIMIT', as in api='token-bucket 10/s burst=20'"},
    {"--max-keys", COUNT, offsetof(struct take_args, max_keys),
     "1 to 3000000000 keys (k and M may follow)"},
    {"--json", FLAG, offsetof(struct take_args, json), ""},
    {"--no-fallback", FLAG, offsetof(struct take_args, no_fallback), ""},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

static bool wrong(const struct option *o, const char *value)
{
    (void)fprintf(stderr, "weir take: %s '%s': expected %s\n", o->name, cli_shown(value),
                  o->expected);
    return false;
}

/* ---- Options --------------------------------------------------------------------------------- */

static bool unknown_option(const char *word)
{
    const char *near = NULL;

    for (int i = 0; i < OPTION_COUNT && !near; i++)
        if (weir__slice_distance(weir__slice_of(word), weir__slice_of(OPTIONS[i].name)) <= 2)
            near = OPTIONS[i].name;
    (void)fprintf(stderr, "weir take: unknown option '%s'%s%s%s (", cli_shown(word),
                  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (int i = 0; i < OPTION_COUNT; i++)
        (void)fprintf(stderr, "%s, ", OPTIONS[i].name);
    (void)fputs("--help)\n", stderr);
    return false;
}

static bool set(struct take_args *a, const struct option *o, char *value)
{
    const bool yes = true;
    char *is;

    switch (o->kind) {
    case FLAG: memcpy((char *)a + o->at, &yes, sizeof yes); return true;
    case TEXT:
        if (a->store) {
            (void)fprintf(stderr, "weir take: %s is given twice\n", o->name);
            return false;
        }
        a->store = value;
        return true;
    case COUNT:
        return (weir__parse_count(weir__slice_of(value), &a->max_keys) == WEIR__NUMBER_OK &&
                a->max_keys >= 1 && a->max_keys <= (int64_t)WEIR_MAX_KEYS_MOST) ||
               wrong(o, value);
    case LIMIT:
        is = strchr(value, '=');
        if (!is || is == value || is[1] == '\0' || a->name)
            return wrong(o, value);
        *is = '\0';
        a->name = value;
        a->text = is + 1;
        return true;
    }
    return false;
}

/* --name value, --name=value, or --name alone if it is a flag. */
static bool read_option(struct take_args *a, int argc, char **argv, int *i)
{
    char *word = argv[*i], *value = NULL;

    for (int k = 0; k < OPTION_COUNT; k++) {
        const struct option *o = &OPTIONS[k];
        const size_t len = strlen(o->name);

        if (strncmp(word, o->name, len) != 0 ||
            (word[len] != '\0' && (o->kind == FLAG || word[len] != '=')))
            continue;
        if (o->kind == FLAG)
            return set(a, o, NULL);
        if (word[len] == '=')
            value = word + len + 1;
        else if (*i + 1 < argc)
            value = argv[++*i];
        if (value)
            return set(a, o, value);
        (void)fprintf(stderr, "weir take: %s needs a value: expected %s\n", o->name, o->expected);
        return false;
    }
    return unknown_option(word);
}

/* ---- Words ----------------------------------------------------------------------------------- */

static bool read_cost(struct take_args *a, const char *value)
{
    if (weir__parse_count(weir__slice_of(value), &a->cost) == WEIR__NUMBER_OK)
        return true;
    (void)fprintf(stderr, "weir take: cost '%s': expected a whole number, 0 or more\n", value);
    return false;
}

static bool read_wait(struct take_args *a, const char *value)
{
    if (strcmp(value, "forever") == 0) {
        a->wait_ns = WEIR_FOREVER;
        return true;
    }
    if (weir__parse_duration(weir__slice_of(value), &a->wait_ns) == WEIR__NUMBER_OK)
        return true;
    (void)fprintf(stderr, "weir take: wait '%s': expected a duration such as 1.5s, or forever\n",
                  value);
    return false;
}

static bool is_url(const char *word)
{
    return strstr(word, "://") || strncmp(word, "file:", 5) == 0 ||
           strncmp(word, "redis+unix:", 11) == 0;
}

/* Not quoted: there may be a password in it. */
static bool wrong_place(void)
{
    (void)fputs("weir take: a store's URL stands where the limit was expected: --store goes before "
                "it\n",
                stderr);
    return false;
}

/* What stands behind the key. */
static bool read_word(struct take_args *a, const char *word)
{
    if (is_url(a->limit))
        return wrong_place();
    if (strncmp(word, "cost=", 5) == 0 && a->cost < 0)
        return read_cost(a, word + 5);
    if (strncmp(word, "wait=", 5) == 0 && a->wait_ns < 0)
        return read_wait(a, word + 5);
    (void)fprintf(stderr,
                  "weir take: unexpected argument '%s'; expected LIMIT KEY [cost=N] "
                  "[wait=DURATION], the limit in quotes\n",
                  word);
    return false;
}

static bool read_words(struct take_args *a, int argc, char **argv)
{
    bool options = true;

    for (int i = 0; i < argc; i++) {
        if (options && strcmp(argv[i], "--") == 0)
            options = false;
        else if (options && argv[i][0] == '-' && argv[i][1] == '-') {
            if (!read_option(a, argc, argv, &i))
                return false;
        } else if (!a->limit)
            a->limit = argv[i];
        else if (!a->key)
            a->key = argv[i];
        else if (!read_word(a, argv[i]))
            return false;
    }
    if (a->key)
        return true;
    (void)fputs("weir take: expected a limit and a key, as in "
                "weir take 'token-bucket 10/s burst=20' alice\n",
                stderr);
    return false;
}

/* ---- The limit ------------------------------------------------------------------------------- */

static bool is_text(const char *word)
{
    return strchr(word, ' ') || strchr(word, '/');
}

/* A limit with a guard in it is entered and left, which one command cannot do. */
static bool is_takeable(const struct weir_limit *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->term[i].algorithm >= WEIR_FIRST_GUARD) {
            (void)fprintf(stderr,
                          "weir take: '%s' is a guard, which is entered and left: expected rates "
                          "only\n",
                          weir_algorithm_name(l->term[i].algorithm));
            return false;
        }
    return true;
}

static bool read_limit(struct take_args *a)
{
    const char *text = a->limit;
    struct weir_diag why;

    if (a->name && strcmp(a->limit, a->name) == 0)
        text = a->text;
    else if (a->name) {
        (void)fprintf(stderr, "weir take: --limit tells what '%s' is, but '%s' is asked for\n",
                      a->name, a->limit);
        return false;
    } else if (!is_text(text))
        return true; /* a name: the store may know it */
    else
        a->literal = true;
    if (is_url(a->limit))
        return wrong_place();
    if (weir_limit_parse(&a->parsed, text, &why) != 0) {
        (void)fprintf(stderr, "weir take: %s\n",
                      strstr(text, "store=") ? "store= is a word of the daemon's limits: expected "
                                               "--store URL before the limit"
                                             : why.text);
        return false;
    }
    a->has_parsed = true;
    return is_takeable(&a->parsed);
}

bool take_args_read(struct take_args *a, int argc, char **argv)
{
    *a = (struct take_args){.cost = -1, .wait_ns = -1};
    return read_words(a, argc, argv) && read_limit(a);
}
