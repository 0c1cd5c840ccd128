/* The options of `weir take`: its table, and how it reads the limit. */
#include "cli/take_options.h"

#include <stdio.h>
#include <stdlib.h>
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
    o->name = value;
    o->text = is + 1;
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
    {"--store", "URL", OPTION_TEXT, AT(store), .times = 1,
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
    {"--max-keys", "N", OPTION_COUNT, AT(max_keys), .least = 1, .most = (int64_t)WEIR_MAX_KEYS_MOST,
     .expected = "1 to 3000000000 keys (k and M may follow)", .by_default = "1M",
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
        "in milliseconds, rounded up.",
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
    .statuses = TEXTS("0 allowed", "1 denied",
                      "2 the command line is wrong, or the server replies with an error",
                      "3 no answer from the server or the store",
                      "130 a signal ended the wait, and the reservation was given back"),
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

static bool is_url(const char *word)
{
    return strstr(word, "://") || strncmp(word, "file:", 5) == 0 ||
           strncmp(word, "redis+unix:", 11) == 0;
}

/* The message does not quote the URL: it may contain a password. */
static bool take_wrong_place(void)
{
    (void)fputs("weir take: expected a limit, not the URL of a store: put --store before the URL\n",
                stderr);
    return false;
}

static bool take_is_text(const char *word)
{
    return strchr(word, ' ') || strchr(word, '/');
}

/* A limit with a guard is entered and left, which one command cannot do. */
static bool is_takeable(const struct weir_limit *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->term[i].algorithm >= WEIR_FIRST_GUARD) {
            (void)fprintf(
                stderr,
                "weir take: '%s' is a guard, which is entered and left: expected rates only\n",
                weir_algorithm_name(l->term[i].algorithm));
            return false;
        }
    return true;
}

static bool take_read_limit(struct take_options *o)
{
    const char *text = o->limit;
    struct weir_diag why;

    if (o->name && strcmp(o->limit, o->name) == 0)
        text = o->text;
    else if (o->name) {
        (void)fprintf(stderr,
                      "weir take: --limit defines '%s', but the limit to take from is '%s'\n",
                      o->name, o->limit);
        return false;
    } else if (!take_is_text(text))
        return true; /* a name: the store may know it */
    else
        o->literal = true;
    if (weir_limit_parse(&o->parsed, text, &why) != 0) {
        (void)fprintf(
            stderr, "weir take: %s\n",
            strstr(text, "store=")
                ? "store= is for limits of the daemon: expected --store URL before the limit"
                : why.text);
        return false;
    }
    o->has_parsed = true;
    return is_takeable(&o->parsed);
}

/* ---- Where it is decided --------------------------------------------------------------------- */

static bool take_only_for(const char *option, const char *place)
{
    (void)fprintf(stderr, "weir take: %s is for %s\n", option, place);
    return false;
}

static bool take_check_store(const struct take_options *o)
{
    static const char SERVER[] = "--server: a store is decided on here";

    return o->numbers             ? take_only_for("numbers=", SERVER)
           : o->client.tls        ? take_only_for("--tls", SERVER)
           : o->client.cacert     ? take_only_for("--cacert", SERVER)
           : o->client.token_file ? take_only_for("--token-file", SERVER)
           : o->client.timeout_ns ? take_only_for("--timeout", SERVER)
                                  : true;
}

static bool take_check_server(const struct take_options *o)
{
    return o->name       ? take_only_for("--limit", "--store: weir limit set changes a server's")
           : o->max_keys ? take_only_for("--max-keys", "--store: a server has its own")
                         : true;
}

/* An option wins over the environment; two of a kind contradict each other. */
static bool take_choose(struct take_options *o)
{
    const char *const store = getenv("WEIR_STORE"), *const server = getenv("WEIR_SERVER");

    o->store_source = "--store";
    if (o->store && o->client.server) {
        (void)fputs("weir take: --store and --server: expected one of them\n", stderr);
        return false;
    }
    if (o->store || o->client.server || !store || !*store)
        return true;
    if (server && *server) {
        (void)fputs("weir take: WEIR_STORE and WEIR_SERVER are both set: say --store or --server\n",
                    stderr);
        return false;
    }
    o->store = store;
    o->store_source = "WEIR_STORE";
    return true;
}

bool take_options_read(struct take_options *o, int argc, char **argv)
{
    int words;

    *o = (struct take_options){.cost = -1, .wait_ns = -1};
    words = options_read(&TAKE_COMMAND, o, argc, argv);
    if (words < 0)
        return false;
    o->limit = argv[0];
    o->key = argv[1];
    if (is_url(o->limit))
        return take_wrong_place();
    if (words > 2)
        return options_unexpected(&TAKE_COMMAND, argv[2]);
    if (!take_choose(o))
        return false;
    return o->store ? take_check_store(o) && take_read_limit(o) : take_check_server(o);
}
