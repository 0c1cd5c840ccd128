#include "cli/store_args.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "base/text.h"
#include "cli/commands.h"

#define BYTES_MOST (INT64_C(1) << 46)

enum kind { FLAG, NUMBER, NAME };

static const struct option {
    const char *name;
    unsigned verbs;
    enum kind kind;
    size_t at;    /* in struct store_args */
    int64_t most; /* NUMBER: 1 to this */
} OPTIONS[] = {
    {"--json", STORE_INFO, FLAG, offsetof(struct store_args, json), 0},
    {"--max-keys", STORE_CONVERT, NUMBER, offsetof(struct store_args, max_keys),
     (int64_t)WEIR_MAX_KEYS_MOST},
    {"--max-memory", STORE_CONVERT, NUMBER, offsetof(struct store_args, max_memory), BYTES_MOST},
    {"--max-policies", STORE_CONVERT, NUMBER, offsetof(struct store_args, max_policies),
     WEIR_POLICIES_MOST},
    {"--out", STORE_CONVERT, NAME, offsetof(struct store_args, out), 0},
    {"--all", STORE_RESET, FLAG, offsetof(struct store_args, all), 0},
    {"--yes", STORE_RESET, FLAG, offsetof(struct store_args, yes), 0},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

/* What is being read. */
struct reading {
    struct store_args *to;
    enum store_verb verb;
    const char *name; /* of the verb */
    int argc;
    char **argv;
};

static bool unknown_option(const struct reading *r, const char *word)
{
    const char *near = NULL;

    for (int i = 0; i < OPTION_COUNT && !near; i++)
        if ((OPTIONS[i].verbs & r->verb) &&
            weir__slice_distance(weir__slice_of(word), weir__slice_of(OPTIONS[i].name)) <= 2)
            near = OPTIONS[i].name;
    (void)fprintf(stderr, "weir store %s: unknown option '%s'%s%s%s (", r->name, cli_shown(word),
                  near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    for (int i = 0; i < OPTION_COUNT; i++)
        if (OPTIONS[i].verbs & r->verb)
            (void)fprintf(stderr, "%s, ", OPTIONS[i].name);
    (void)fputs("--help)\n", stderr);
    return false;
}

static bool read_number(const struct reading *r, const struct option *o, const char *value)
{
    int64_t number = 0;
    const enum weir__number read = weir__parse_count(weir__slice_of(value), &number);

    if (read == WEIR__NUMBER_OK && number >= 1 && number <= o->most) {
        memcpy((char *)r->to + o->at, &number, sizeof number);
        return true;
    }
    (void)fprintf(stderr, "weir store %s: %s '%s' is %s; expected 1 to %" PRId64 "\n", r->name,
                  o->name, value, read == WEIR__NUMBER_BAD ? "not a number" : "out of range",
                  o->most);
    return false;
}

/* Accepts --name=value and --name value. */
static bool read_value(const struct reading *r, const struct option *o, int *i)
{
    const size_t len = strlen(o->name);
    const char *value = NULL;

    if (r->argv[*i][len] == '=')
        value = r->argv[*i] + len + 1;
    else if (*i + 1 < r->argc)
        value = r->argv[++*i];
    if (!value || !*value) {
        (void)fprintf(stderr, "weir store %s: %s needs a value; expected %s\n", r->name, o->name,
                      o->kind == NUMBER ? "a number, such as 5M" : "the name of a new file");
        return false;
    }
    if (o->kind == NUMBER)
        return read_number(r, o, value);
    memcpy((char *)r->to + o->at, &value, sizeof value);
    return true;
}

static bool read_option(const struct reading *r, int *i)
{
    const char *word = r->argv[*i];

    for (int k = 0; k < OPTION_COUNT; k++) {
        const struct option *o = &OPTIONS[k];
        const size_t len = strlen(o->name);

        if (!(o->verbs & r->verb) || strncmp(word, o->name, len) != 0)
            continue;
        if (o->kind != FLAG && (word[len] == '\0' || word[len] == '='))
            return read_value(r, o, i);
        if (o->kind == FLAG && word[len] == '\0') {
            const bool yes = true;

            memcpy((char *)r->to + o->at, &yes, sizeof yes);
            return true;
        }
    }
    return unknown_option(r, word);
}

/* Whether that is a Redis's URL, or was meant to be one. */
static bool is_remote(const char *file)
{
    const char *const at = strrchr(file, '@');

    return (strncmp(file, "redis", 5) == 0 && strchr(file, ':')) || strstr(file, "://") ||
           (file[0] != '/' && at && memchr(file, ':', (size_t)(at - file)));
}

bool store_args_read(struct store_args *a, enum store_verb verb, const char *name, int argc,
                     char **argv)
{
    const struct reading r = {a, verb, name, argc, argv};

    *a = (struct store_args){0};
    for (int i = 0; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1] != '\0') {
            if (!read_option(&r, &i))
                return false;
        } else if (a->file) {
            (void)fprintf(stderr, "weir store %s: unexpected argument '%s'; expected one file\n",
                          name, cli_shown(argv[i]));
            return false;
        } else {
            a->file = argv[i];
        }
    }
    if (a->file && is_remote(a->file)) {
        (void)fprintf(
            stderr,
            "weir store %s: expected the path of a state file: what a Redis holds its own "
            "tools tell (redis-cli --scan --pattern 'weir:*')\n",
            name);
        return false;
    }
    if (a->file && *a->file)
        return true;
    (void)fprintf(stderr, "weir store %s: expected the path of a state file\n", name);
    return false;
}
