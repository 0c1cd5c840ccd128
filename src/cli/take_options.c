/* The options of `weir take`: its table, and how it reads the limit. */
#include "cli/take_options.h"

#include <stdio.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"

static bool take_set_limit(void *to, char *value, struct weir_diag *why)
{
    struct take_options *const o = to;
    char *const is = strchr(value, '=');

    (void)why;
    if (!is || is == value || is[1] == '\0')
        return false;
    *is = '\0';
    o->own.name = value;
    o->own.text = is + 1;
    return true;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define AT(field) OPTION_AT(take_options, field)

static const struct option OPTIONS[] = {
    {"cost=", "N", OPTION_COUNT, AT(cost), .most = INT64_MAX, .times = 1,
     .expected = "a whole number, 0 or more", .by_default = "1",
     .help = "how much to take at once"},
    {"wait=", "DURATION", OPTION_PATIENCE, AT(wait_ns), .most = INT64_MAX, .times = 1,
     .expected = "a duration such as 1.5s, or forever", .completes = "forever",
     .by_default = "no wait",
     .help = "wait for a grant for at most this long, or forever; a request that cannot be granted "
             "by then is denied at once"},
    {"numbers=", "LIMIT", OPTION_TEXT, AT(numbers), .times = 1, .expected = "a limit such as 200/s",
     .help = "of a server: numbers that replace the limit's this once"},
    {"--store", "URL", OPTION_TEXT, AT(own.url), .times = 1,
     .expected = "memory:, file:/path, redis://host:port or redis+unix:/path",
     .by_default = "WEIR_STORE of the environment; or none: a server is asked",
     .completes = COMPLETE_STORE,
     .help = "decide here, on this store, and ask no server: file:/path, "
             "redis://[[user]:password@]host[:port][/db] or "
             "redis+unix:/path, with ?timeout=50ms&nodes=N&prefix=weir as needed, and "
             "password-file=/path or password-env=NAME instead of a password; memory: ends with "
             "the command and only shows what an answer looks like"},
    {"--limit", "NAME='LIMIT'", OPTION_OTHER, .set = take_set_limit, .times = 1,
     .expected = "NAME='LIMIT', as in api='token-bucket 10/s burst=20'",
     .help = "with --store: define NAME, which a file then remembers; if the store defines NAME "
             "otherwise, the "
             "command fails and changes nothing"},
    {"--no-fallback", NULL, OPTION_FLAG, AT(no_fallback),
     .help = "give no answer (status 3) if the store does not answer, whatever fallback= in the "
             "limit says"},
    {"--max-keys", "N", OPTION_COUNT, AT(own.max_keys), .least = 1,
     .most = (int64_t)WEIR_MAX_KEYS_MOST, .expected = "1 to 3000000000 keys (k and M may follow)",
     .by_default = "1M",
     .help = "with --store: live keys that a file has room for, if this command makes the file"},
    CLIENT_SERVER_ROWS(take_options),
    CLIENT_JSON_ROW(take_options),
    {0},
};

const struct command TAKE_COMMAND = {
    "take",
    "take from a limit, once",
    "[OPTION...] LIMIT KEY [cost=N] [wait=DURATION] [numbers=LIMIT]",
    .about = TEXTS(
        "Takes from a key under a limit, once, and prints the decision. A server decides (weir "
        "serve, by default the one on this machine); with --store, or WEIR_STORE in the "
        "environment, the command decides itself, on a store that others share. Times are printed "
        "as 1m or 1s50ms, rounded up to a millisecond.",
        "A limit given as text has the same keys as in the daemon: those of its canonical form. A "
        "limit given by name has the keys of that name.",
        "While a Redis that is the store does not answer, the limit's fallback= decides; the "
        "answer says so, and "
        "standard error says why. The command remembers nothing, so fallback=local grants what a "
        "fresh key would be granted: in scripts, fallback=deny or --no-fallback is better."),
    .operands = (const struct operand[]){{"LIMIT", "name of a limit, or its text in quotes",
                                          COMPLETE_LIMIT},
                                         {"KEY", "key to take from; any text", NULL},
                                         {0}},
    .options = OPTIONS,
    .statuses = TEXTS(
        "0 allowed", "1 denied", "2 the command line is wrong, or the server replies with an error",
        "3 no answer from the server or the store",
        "130 SIGINT ended the wait, and the reservation was given back; 143: SIGTERM did"),
    .examples =
        TEXTS("weir take api alice", "weir take 'token-bucket 10/s burst=20' alice cost=2",
              "weir take --store redis://10.0.0.5 --limit api='100/s' api alice cost=5",
              "weir take --store file:/run/shop/limits '1/10m' nightly-report && send-report",
              "weir take --store redis://10.0.0.5 'pacer 2/s' mail wait=30s && send-mail"),
    .words_least = 2,
    .words_most = 4, /* more than two are wrong, but a misplaced URL has its own message */
    .dash_words = true,
    .words_expected = "a limit and a key, as in weir take 'token-bucket 10/s burst=20' alice, the "
                      "limit in quotes",
    .run = take_command,
};

/* ---- The limit ------------------------------------------------------------------------------- */

/* The message does not quote the URL: it may contain a password. */
static bool take_wrong_place(void)
{
    (void)fputs("weir take: expected a limit, not the URL of a store: put --store before the URL\n",
                stderr);
    return false;
}

/* A limit with a guard is entered and left, which one take cannot do. */
static bool take_read_limit(struct own_store *s)
{
    const char *guard;

    if (s->name && strcmp(s->limit, s->name) != 0) {
        (void)fprintf(stderr,
                      "weir take: --limit defines '%s', but the limit to take from is '%s'\n",
                      s->name, s->limit);
        return false;
    }
    if (!own_store_read_limit(s))
        return false;
    guard = own_store_guard(&s->parsed);
    if (guard)
        (void)fprintf(
            stderr, "weir take: '%s' is a guard, which is entered and left: expected rates only\n",
            guard);
    return !guard;
}

/* ---- Where it is decided --------------------------------------------------------------------- */

static bool take_check_store(struct take_options *o)
{
    if (o->numbers)
        return own_store_only_for(&o->own, "numbers=", "--server");
    return own_store_check(&o->own, &o->client) && take_read_limit(&o->own);
}

static bool take_check_server(const struct take_options *o)
{
    if (o->own.name)
        return own_store_only_for(&o->own, "--limit", "--store: weir limit set changes a server's");
    return o->own.max_keys == 0 ||
           own_store_only_for(&o->own, "--max-keys", "--store: a server has its own");
}

bool take_options_read(struct take_options *o, int argc, char **argv)
{
    int words;

    *o = (struct take_options){.own = {.command = "take"}, .cost = -1, .wait_ns = -1};
    words = options_read(&TAKE_COMMAND, o, argc, argv);
    if (words < 0)
        return false;
    o->own.limit = argv[0];
    o->key = argv[1];
    if (own_store_is_url(o->own.limit))
        return take_wrong_place();
    if (words > 2)
        return options_unexpected(&TAKE_COMMAND, argv[2]);
    if (!own_store_choose(&o->own, &o->client))
        return false;
    return o->own.url ? take_check_store(o) : take_check_server(o);
}
