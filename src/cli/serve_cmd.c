/* `weir serve`: what it may be told, and then the daemon (server/server.h). */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "cli/commands.h"
#include "server/server.h"

enum kind { COUNT, BYTES, DURATION, TEXT, LISTEN, LIMIT, CLOCK };

static const struct option {
    const char *name;
    enum kind kind;
    size_t at; /* in struct serve_options */
    int64_t least, most;
    const char *expected;
} OPTIONS[] = {
    {"--listen", LISTEN, 0, 0, 0, "HOST:PORT, [HOST]:PORT, :PORT or unix:/path"},
    {"--limit", LIMIT, 0, 0, 0, "NAME='LIMIT', as in api='token-bucket 10/s burst=20'"},
    {"--store", TEXT, offsetof(struct serve_options, store), 0, 0,
     "memory:, file:/path, redis://host:port or redis+unix:/path"},
    {"--threads", COUNT, offsetof(struct serve_options, threads), 1, SERVE_THREADS_MAX,
     "1 to 256 threads"},
    {"--max-keys", COUNT, offsetof(struct serve_options, max_keys), 1, (int64_t)WEIR_MAX_KEYS_MOST,
     "1 to 3000000000 keys (k and M may follow)"},
    {"--max-connections", COUNT, offsetof(struct serve_options, max_connections), 1, 1000000,
     "1 to 1000000 connections"},
    {"--max-held", COUNT, offsetof(struct serve_options, max_held), 1, 10000000,
     "1 to 10000000 answers"},
    {"--max-request", BYTES, offsetof(struct serve_options, max_request), 1024, INT64_C(1) << 30,
     "1KiB to 1GiB"},
    {"--max-key", BYTES, offsetof(struct serve_options, max_key), 1, WEIR_KEY_MAX,
     "1 to 65536 bytes, or 64KiB"},
    {"--max-output", BYTES, offsetof(struct serve_options, max_output), 4096, INT64_C(1) << 30,
     "4KiB to 1GiB"},
    {"--max-buffered", BYTES, offsetof(struct serve_options, max_buffered), 65536, INT64_C(1) << 40,
     "64KiB to 1024GiB"},
    {"--idle", DURATION, offsetof(struct serve_options, idle_ns), WEIR__NS_PER_MS,
     INT64_C(366) * 86400 * WEIR__NS_PER_S, "a duration such as 5m"},
    {"--drain", DURATION, offsetof(struct serve_options, drain_ns), WEIR__NS_PER_MS,
     INT64_C(86400) * WEIR__NS_PER_S, "a duration such as 5s"},
    {"--clock", CLOCK, 0, 0, 0, "manual or system"},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

static bool wrong(const struct option *o, const char *value)
{
    (void)fprintf(stderr, "weir serve: %s '%s': expected %s\n", o->name, value, o->expected);
    return false;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* 4096, 64KiB, 1MiB, 1GiB. */
static bool read_bytes(struct weir__slice word, int64_t *bytes)
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

static bool set_number(const struct option *o, const char *value, struct serve_options *to)
{
    const struct weir__slice word = weir__slice_of(value);
    void *field = (char *)to + o->at;
    int64_t n = 0;
    const bool good = o->kind == COUNT   ? weir__parse_count(word, &n) == WEIR__NUMBER_OK
                      : o->kind == BYTES ? read_bytes(word, &n)
                                         : weir__parse_duration(word, &n) == WEIR__NUMBER_OK;

    if (!good || n < o->least || n > o->most)
        return wrong(o, value);
    if (o->at == offsetof(struct serve_options, threads))
        *(int *)field = (int)n;
    else
        memcpy(field, &n, sizeof n); /* all others have 64 bits */
    return true;
}

static bool add_listen(const struct option *o, const char *value, struct serve_options *to)
{
    if (to->listens == SERVE_LISTENERS_MAX) {
        (void)fprintf(stderr, "weir serve: %s '%s': there are %d already, as many as may be\n",
                      o->name, value, SERVE_LISTENERS_MAX);
        return false;
    }
    to->listen[to->listens++] = value;
    return true;
}

static bool is_taken(const struct serve_options *to, const char *name, size_t len)
{
    for (size_t i = 0; i < to->limits; i++)
        if (strlen(to->limit[i].name) == len && memcmp(to->limit[i].name, name, len) == 0)
            return true;
    return false;
}

static bool add_limit(const struct option *o, char *value, struct serve_options *to)
{
    char *is = strchr(value, '=');

    if (!is || is == value || is[1] == '\0')
        return wrong(o, value);
    if (is_taken(to, value, (size_t)(is - value))) {
        (void)fprintf(stderr, "weir serve: %s '%s': '%.*s' is given twice\n", o->name, value,
                      (int)(is - value), value);
        return false;
    }
    if (to->limits == SERVE_LIMITS_MAX) {
        (void)fprintf(stderr, "weir serve: %s '%s': there are %d already, as many as may be\n",
                      o->name, value, SERVE_LIMITS_MAX);
        return false;
    }
    *is = '\0';
    to->limit[to->limits++] = (struct serve_limit){value, is + 1};
    return true;
}

static bool set(const struct option *o, char *value, struct serve_options *to)
{
    switch (o->kind) {
    case LISTEN: return add_listen(o, value, to);
    case LIMIT: return add_limit(o, value, to);
    case TEXT:
        if (to->store) {
            (void)fprintf(stderr, "weir serve: %s is given twice\n", o->name);
            return false;
        }
        to->store = value;
        return true;
    case CLOCK:
        to->manual_clock = strcmp(value, "manual") == 0;
        return to->manual_clock || strcmp(value, "system") == 0 || wrong(o, value);
    case COUNT:
    case BYTES:
    case DURATION: return set_number(o, value, to);
    }
    return false;
}

/* ---- Words ----------------------------------------------------------------------------------- */

static bool unknown_option(const char *word)
{
    const char *near = NULL;

    for (int i = 0; i < OPTION_COUNT && !near; i++)
        if (weir__slice_distance(weir__slice_of(word), weir__slice_of(OPTIONS[i].name)) <= 2)
            near = OPTIONS[i].name;
    (void)fprintf(stderr, "weir serve: unknown option '%s'%s%s%s (weir serve --help lists them)\n",
                  word, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return false;
}

/* --name value, or --name=value. */
static const struct option *find_option(const char *word, char **value)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const size_t len = strlen(OPTIONS[i].name);

        if (strncmp(word, OPTIONS[i].name, len) != 0 || (word[len] != '\0' && word[len] != '='))
            continue;
        *value = word[len] == '=' ? (char *)word + len + 1 : NULL;
        return &OPTIONS[i];
    }
    return NULL;
}

static bool read_options(int argc, char **argv, struct serve_options *to)
{
    for (int i = 0; i < argc; i++) {
        char *value = NULL;
        const struct option *o = find_option(argv[i], &value);

        if (!o)
            return unknown_option(argv[i]);
        if (!value && i + 1 == argc) {
            (void)fprintf(stderr, "weir serve: %s needs a value: expected %s\n", o->name,
                          o->expected);
            return false;
        }
        if (!set(o, value ? value : argv[++i], to))
            return false;
    }
    return true;
}

int serve_command(int argc, char **argv)
{
    static struct serve_options options;

    if (!read_options(argc, argv, &options))
        return EXIT_USAGE;
    if (!options.store) /* where nobody sees its password among the processes */
        options.store = getenv("WEIR_STORE");
    return serve(&options);
}
