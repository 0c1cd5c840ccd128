/* `weir serve`: what it may be told, and then the daemon (server/server.h). */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "base/text.h"
#include "cli/commands.h"
#include "server/server.h"

enum kind {
    COUNT,
    BYTES,
    DURATION,
    PATIENCE,
    PART,
    TEXT,
    LISTEN,
    HOST,
    LIMIT,
    CLOCK,
    LITERALS,
    FULL,
    FLAG
};

static const struct option {
    const char *name;
    enum kind kind;
    size_t at; /* in struct serve_options */
    int64_t least, most;
    const char *expected;
} OPTIONS[] = {
    {"--listen", LISTEN, 0, 0, 0, "HOST:PORT, [HOST]:PORT, :PORT or unix:/path"},
    {"--host", HOST, 0, 0, 0, "a name without a port, such as weir.internal"},
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
    {"--max-memory", BYTES, offsetof(struct serve_options, max_memory), 16 << 20, INT64_C(1) << 50,
     "16MiB or more"},
    {"--connection-part", PART, offsetof(struct serve_options, connection_part), 1, 1000000,
     "1/N, as in 1/16, or 1 for all of it"},
    {"--peer-part", PART, offsetof(struct serve_options, peer_part), 1, 1000000,
     "1/N, as in 1/4, or 1 for all of it"},
    {"--max-wait", PATIENCE, offsetof(struct serve_options, max_wait_ns), WEIR__NS_PER_MS,
     WEIR_FOREVER, "a duration such as 1h, or forever"},
    {"--idle", DURATION, offsetof(struct serve_options, idle_ns), WEIR__NS_PER_MS,
     INT64_C(366) * 86400 * WEIR__NS_PER_S, "a duration such as 5m"},
    {"--drain", DURATION, offsetof(struct serve_options, drain_ns), WEIR__NS_PER_MS,
     INT64_C(86400) * WEIR__NS_PER_S, "a duration such as 5s"},
    {"--ipv6-prefix", COUNT, offsetof(struct serve_options, ipv6_prefix), 1, 128, "1 to 128 bits"},
    {"--full", FULL, 0, 0, 0, "evict, deny or allow"},
    {"--literals", LITERALS, 0, 0, 0, "on or off"},
    {"--literal-state", BYTES, offsetof(struct serve_options, literal_state), 16, INT64_C(1) << 30,
     "16 bytes to 1GiB"},
    {"--no-admin", FLAG, offsetof(struct serve_options, no_admin), 0, 0, "no value"},
    {"--clock", CLOCK, 0, 0, 0, "manual or system"},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

static bool wrong(const struct option *o, const char *value)
{
    (void)fprintf(stderr, "weir serve: %s '%s': expected %s\n", o->name, cli_shown(value),
                  o->expected);
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

/* 1/16 is 16; 1 is 1. */
static bool read_part(struct weir__slice word, int64_t *of)
{
    if (weir__slice_is(word, "1")) {
        *of = 1;
        return true;
    }
    return word.len > 2 && memcmp(word.at, "1/", 2) == 0 &&
           weir__parse_int((struct weir__slice){word.at + 2, word.len - 2}, of) == WEIR__NUMBER_OK;
}

static bool read_patience(struct weir__slice word, int64_t *ns)
{
    if (!weir__slice_is(word, "forever"))
        return weir__parse_duration(word, ns) == WEIR__NUMBER_OK;
    *ns = WEIR_FOREVER;
    return true;
}

static bool read_number(enum kind kind, struct weir__slice word, int64_t *n)
{
    switch (kind) {
    case COUNT: return weir__parse_count(word, n) == WEIR__NUMBER_OK;
    case BYTES: return read_bytes(word, n);
    case PART: return read_part(word, n);
    case PATIENCE: return read_patience(word, n);
    case DURATION: return weir__parse_duration(word, n) == WEIR__NUMBER_OK;
    case TEXT:
    case LISTEN:
    case HOST:
    case LIMIT:
    case CLOCK:
    case LITERALS:
    case FULL:
    case FLAG: break;
    }
    return false;
}

static bool set_number(const struct option *o, const char *value, struct serve_options *to)
{
    void *field = (char *)to + o->at;
    int64_t n = 0;
    const bool good = read_number(o->kind, weir__slice_of(value), &n);

    if (!good || n < o->least || n > o->most)
        return wrong(o, value);
    if (o->at == offsetof(struct serve_options, threads) ||
        o->at == offsetof(struct serve_options, ipv6_prefix))
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

static bool add_host(const struct option *o, const char *value, struct serve_options *to)
{
    if (value[0] == '\0' || strpbrk(value, ":/ []") || to->hosts == SERVE_HOSTS_MAX)
        return wrong(o, value);
    to->host[to->hosts++] = value;
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
        (void)fprintf(stderr, "weir serve: %s '%s': '%.*s' is given twice\n", o->name,
                      cli_shown(value), (int)(is - value), value);
        return false;
    }
    if (to->limits == SERVE_LIMITS_MAX) {
        (void)fprintf(stderr, "weir serve: %s '%s': there are %d already, as many as may be\n",
                      o->name, cli_shown(value), SERVE_LIMITS_MAX);
        return false;
    }
    *is = '\0';
    to->limit[to->limits++] = (struct serve_limit){value, is + 1};
    return true;
}

static bool set_full(const struct option *o, const char *value, struct serve_options *to)
{
    static const char *const WORDS[] = {
        [WEIR_FULL_EVICT] = "evict", [WEIR_FULL_DENY] = "deny", [WEIR_FULL_ALLOW] = "allow"};

    for (int i = WEIR_FULL_EVICT; i <= WEIR_FULL_ALLOW; i++)
        if (strcmp(value, WORDS[i]) == 0) {
            to->full = (enum weir_full)i;
            return true;
        }
    return wrong(o, value);
}

static bool set(const struct option *o, char *value, struct serve_options *to)
{
    switch (o->kind) {
    case LISTEN: return add_listen(o, value, to);
    case HOST: return add_host(o, value, to);
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
    case FULL: return set_full(o, value, to);
    case LITERALS:
        to->no_literals = strcmp(value, "off") == 0;
        return to->no_literals || strcmp(value, "on") == 0 || wrong(o, value);
    case FLAG:
        if (value)
            return wrong(o, value);
        *(bool *)(void *)((char *)to + o->at) = true;
        return true;
    case COUNT:
    case BYTES:
    case PATIENCE:
    case PART:
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
                  cli_shown(word), near ? "; did you mean '" : "", near ? near : "",
                  near ? "'?" : "");
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
        if (o->kind == FLAG) {
            if (!set(o, value, to))
                return false;
            continue;
        }
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
    if (!options.store) { /* where nobody sees its password among the processes */
        options.store = getenv("WEIR_STORE");
        options.store_of_env = options.store != NULL;
    }
    return serve(&options);
}
