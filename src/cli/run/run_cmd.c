/* `weir run`: its options, and the order of things. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/num.h"
#include "cli/client/connection.h"
#include "cli/run/run.h"

static int run_command(int argc, char **argv);

#define AT(field) OPTION_AT(run_options, field)
#define STATUS(field) \
    .kind = OPTION_COUNT, AT(field), .most = 255, .times = 1, .expected = "an exit status, 0 to 255"

/* NAME='LIMIT' has a '=' behind its first word; no text of a limit has. */
static bool run_set_limit(void *to, char *value, struct weir_diag *why)
{
    struct run_options *const o = to;
    char *const is = value + strcspn(value, "= /");

    (void)why;
    o->own.limit = value;
    if (*is != '=')
        return true;
    *is = '\0';
    o->own.name = value;
    o->own.text = is + 1;
    return is > value && is[1] != '\0';
}

static const struct option OPTIONS[] = {
    {"--limit", "LIMIT", OPTION_OTHER, .set = run_set_limit, .times = 1,
     .expected = "the name of a limit, its text in quotes, or NAME='LIMIT'",
     .completes = COMPLETE_LIMIT,
     .help =
         "name of a limit, or its text in quotes; with --store also NAME='LIMIT', which defines "
         "NAME, as a file needs it for guards, and a lease= for concurrency; required"},
    {"--key", "KEY", OPTION_TEXT, AT(key), .times = 1, .expected = "a key; any text",
     .help = "key to count the command under; required"},
    {"--cost", "N", OPTION_COUNT, AT(cost), .most = INT64_MAX, .times = 1,
     .expected = "a whole number, 0 or more", .by_default = "1",
     .help = "how much to take, or how many permits"},
    {"--wait", "DURATION", OPTION_PATIENCE, AT(wait_ns), .most = INT64_MAX, .times = 1,
     .expected = "a duration such as 5s, or forever", .completes = "forever",
     .by_default = "no wait", .help = "wait for the turn for at most this long, or forever"},
    {"--ttl", "DURATION", OPTION_DURATION, AT(ttl_ns), .least = 1, .most = INT64_MAX, .times = 1,
     .expected = "a duration such as 30s", .by_default = "the limit's lease",
     .help = "of a server's limit with guards: how long the command may hold what it entered"},
    {"--store", "URL", OPTION_TEXT, AT(own.url), .times = 1,
     .expected = "memory:, file:/path, redis://host:port or redis+unix:/path",
     .by_default = "WEIR_STORE of the environment; or none: a server is asked",
     .completes = COMPLETE_STORE, .help = "decide here, on this store, and ask no server"},
    {"--denied-status", "N", STATUS(denied_status), .by_default = "1",
     .help = "exit status if the turn is denied, where that of the command may be 1 too"},
    {"--no-answer-status", "N", STATUS(no_answer_status), .by_default = "3",
     .help = "exit status if there is no answer, where that of the command may be 3 too"},
    CLIENT_SERVER_ROWS(run_options),
    {"--json", NULL, OPTION_FLAG, AT(client.json),
     .help = "print a denial as one JSON object, on standard error"},
    {0},
};

const struct command RUN_COMMAND = {
    "run",
    "run a command when its turn comes",
    "--limit LIMIT --key KEY [OPTION...] -- COMMAND [ARGUMENT...]",
    .about = TEXTS(
        "Runs a command when a limit lets it, and exits with its status. A server decides (weir "
        "serve, by default the one on this machine); with --store, or WEIR_STORE in the "
        "environment, the command decides itself, on a store that others share.",
        "A limit of rates is taken from. A limit with guards (concurrency, breaker and others) is "
        "entered before the command and exited after it, with an error if its status is not 0. "
        "What a server entered is freed too if weir run is killed; the command then goes on. A "
        "command that runs for longer than the limit's lease= has lost its permit by then, and "
        "weir run says so.",
        "Signals are passed on to the command. Standard output is the command's; messages of weir "
        "run begin with 'weir run: ', on standard error."),
    .operands = (const struct operand[]){{"COMMAND", "what to run, behind --", NULL},
                                         {"ARGUMENT", "its arguments", NULL},
                                         {0}},
    .options = OPTIONS,
    .statuses = TEXTS("0 the command succeeded; any other status is that of the command, but for "
                      "these:",
                      "1 denied (--denied-status)",
                      "2 the command line is wrong, or the server replies with an error",
                      "3 no answer from the server or the store (--no-answer-status)",
                      "126 the command cannot be run", "127 there is no such command",
                      "128 and N more: signal N ended the command, or the wait (130 SIGINT, 143 "
                      "SIGTERM)"),
    .examples = TEXTS("weir run --limit backups --key db1 --wait 10m -- pg_dump shop",
                      "weir run --store file:/run/jobs --limit jobs='concurrency 2 lease=1h' "
                      "--key x -- make",
                      "weir run --limit mail --key alice --denied-status 75 -- sendmail alice"),
    OPERANDS(0, 0,
             "--limit LIMIT --key KEY, and the command behind --, as in weir run --limit api "
             "--key alice -- date"),
    .run = run_command,
};

/* ---- What both kinds of turn share ----------------------------------------------------------- */

int run_denied(const struct run_options *o, const struct cli_verdict *v)
{
    if (!o->client.json)
        (void)fputs("weir run: ", stderr);
    verdict_print(v, o->client.json, stderr);
    return EXIT_DENIED;
}

int64_t run_left(int64_t deadline_ns)
{
    const int64_t left_ns = deadline_ns - connection_now();

    return deadline_ns == INT64_MAX ? INT64_MAX : left_ns > 0 ? left_ns : 0;
}

void run_sleep(int64_t ns)
{
    struct timespec t = {.tv_sec = ns / WEIR__NS_PER_S, .tv_nsec = ns % WEIR__NS_PER_S};

    while (ns > 0 && nanosleep(&t, &t) != 0 && errno == EINTR)
        continue;
}

bool run_pause(const struct weir_verdict *v, int64_t *pause_ns, int64_t deadline_ns)
{
    const int64_t twice_ns = *pause_ns == 0 ? RUN_PAUSE_NS : *pause_ns * 2;

    *pause_ns = twice_ns > RUN_PAUSE_MOST_NS ? RUN_PAUSE_MOST_NS : twice_ns;
    if (v->retry_after_ns > *pause_ns)
        *pause_ns = v->retry_after_ns;
    if (v->retry_after_ns < 0 || *pause_ns > run_left(deadline_ns))
        return false;
    run_sleep(*pause_ns);
    return true;
}

/* ---- The command ----------------------------------------------------------------------------- */

/* The words before "--" are options; returns where the command begins, or 0. */
static int find_command(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--") == 0)
            return i + 1 < argc ? i + 1 : 0;
    return 0;
}

static bool run_options_read(struct run_options *o, int argc, char **argv)
{
    *o = (struct run_options){.own = {.command = "run"},
                              .cost = -1,
                              .ttl_ns = -1,
                              .denied_status = EXIT_DENIED,
                              .no_answer_status = EXIT_NO_ANSWER};
    if (options_read(&RUN_COMMAND, o, argc, argv) < 0)
        return false;
    if (!o->own.limit || !o->key) {
        (void)fprintf(stderr, "weir run: expected %s\n", RUN_COMMAND.words_expected);
        return false;
    }
    if (!own_store_choose(&o->own, &o->client))
        return false;
    if (!o->own.url)
        return !o->own.name || own_store_only_for(&o->own, "--limit NAME='LIMIT'",
                                                  "--store: weir limit set changes a server's");
    if (o->ttl_ns >= 0)
        return own_store_only_for(&o->own, "--ttl", "--server: say lease= in the limit");
    return own_store_check(&o->own, &o->client) && own_store_read_limit(&o->own) &&
           (!o->own.has_parsed || run_store_suits(o, &o->own.parsed));
}

static int run_status(const struct run_options *o, int status)
{
    return status == EXIT_DENIED      ? o->denied_status
           : status == EXIT_NO_ANSWER ? o->no_answer_status
                                      : status;
}

static int run_command(int argc, char **argv)
{
    const int command = find_command(argc, argv);
    struct run_options o;
    struct run_turn turn = {.held = false};
    enum run_outcome how;
    int status;

    if (!run_options_read(&o, command ? command - 1 : argc, argv))
        return EXIT_USAGE;
    if (!command) {
        (void)fprintf(stderr, "weir run: expected %s\n", RUN_COMMAND.words_expected);
        return EXIT_USAGE;
    }
    status = o.own.url ? run_store_begin(&o, &turn) : run_server_begin(&o, &turn);
    if (status)
        return run_status(&o, status);
    status = run_child(argv + command, &how);
    if (turn.held && o.own.url)
        run_store_end(&o, &turn, how);
    else if (turn.held)
        run_server_end(&turn, how);
    return status;
}
