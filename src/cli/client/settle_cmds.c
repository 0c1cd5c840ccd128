/* `weir commit`, `cancel`, `exit`, `refund` and `reset`: what comes after a decision. */
#include <inttypes.h>
#include <stdio.h>
#include <strings.h>

#include "cli/client/call.h"

static const struct option CLIENT_ONLY[] = {CALL_CLIENT, {0}};

/* Prints how much was given back, which commands call `returned` as HTTP does. */
static int call_returned(const struct command *command, const struct call_options *o,
                         const struct client_command *w)
{
    int64_t returned;
    const int status = call_number(command, o, w, &returned);

    if (status)
        return status;
    (void)printf(o->client.json ? "{\"returned\":%" PRId64 "}\n" : "%" PRId64 " given back\n",
                 returned);
    return EXIT_DONE;
}

/* ---- Commit ---------------------------------------------------------------------------------- */

static int commit_command(int argc, char **argv);

const struct command COMMIT_COMMAND = {
    "commit",
    "settle a reservation on a server",
    "[OPTION...] ID COST",
    .about = TEXTS("Settles a reservation, once, with what it did cost, below or above the "
                   "estimate."),
    .operands = (const struct operand[]){{"ID", "what weir reserve printed", NULL},
                                         {"COST", "what it did cost", NULL},
                                         {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 settled", "1 not counted", CLIENT_STATUSES),
    .examples = TEXTS("weir commit $id 1234"),
    OPERANDS(2, 2, "the id of a reservation and a cost, as in weir commit $id 1234"),
    .run = commit_command,
};

static int commit_command(int argc, char **argv)
{
    static const struct call_verdict HOW = {"commit", "settled", "not settled", NULL, false};
    struct call_options o;
    struct client_command w = {.word = {"WEIR.COMMIT"}, .n = 1};
    const int status = call_read(&COMMIT_COMMAND, &o, argc, argv);

    if (status || !call_read_cost(&COMMIT_COMMAND, argv[1], &o.cost))
        return EXIT_USAGE;
    words_add(&w, argv[0]);
    words_add_int(&w, o.cost);
    words_add(&w, "VERBOSE");
    return call_verdict(&HOW, &o.client, &w, 0);
}

/* ---- Cancel ---------------------------------------------------------------------------------- */

static int cancel_command(int argc, char **argv);

const struct command CANCEL_COMMAND = {
    "cancel",
    "give a reservation on a server back",
    "[OPTION...] ID",
    .about = TEXTS("Gives a reservation back, once, and prints how much that was."),
    .operands = (const struct operand[]){{"ID", "what weir reserve printed", NULL}, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 given back", CLIENT_STATUSES),
    .examples = TEXTS("weir cancel $id"),
    OPERANDS(1, 1, "the id of a reservation, as in weir cancel $id"),
    .run = cancel_command,
};

static int cancel_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = {.word = {"WEIR.CANCEL"}, .n = 1};
    const int status = call_read(&CANCEL_COMMAND, &o, argc, argv);

    if (status)
        return status;
    words_add(&w, argv[0]);
    return call_returned(&CANCEL_COMMAND, &o, &w);
}

/* ---- Exit ------------------------------------------------------------------------------------ */

static int exit_command(int argc, char **argv);

static const struct option EXIT_OPTIONS[] = {
    {"took=", "DURATION", OPTION_DURATION, CALL_AT(took_ns), .most = INT64_MAX, .times = 1,
     .expected = "a duration such as 1.5s", .by_default = "the time since it entered",
     .help = "how long the call took"},
    CALL_CLIENT,
    {0},
};

const struct command EXIT_COMMAND = {
    "exit",
    "end a ticket on a server",
    "[OPTION...] TICKET [ok|error|drop|ignore] [took=DURATION]",
    .about =
        TEXTS("Ends a ticket of weir enter, and tells the guards how the call went: ok, error, "
              "drop (refused or timed out further down) or ignore; ok if nothing is said. A ticket "
              "that has ended is "
              "an error, and changes nothing."),
    .operands =
        (const struct operand[]){{"TICKET", "what weir enter printed", NULL},
                                 {"OUTCOME",
                                  "how the call went: ok (the default), error, drop or ignore",
                                  "ok error drop ignore"},
                                 {0}},
    .options = EXIT_OPTIONS,
    .statuses = TEXTS("0 ended", CLIENT_STATUSES),
    .examples = TEXTS("weir exit $ticket", "weir exit $ticket error took=120ms"),
    OPERANDS(1, 2, "a ticket and how the call went, as in weir exit $ticket error"),
    .run = exit_command,
};

static bool exit_outcome(const char *word)
{
    static const char *const OUTCOMES[] = {"ok", "error", "drop", "ignore"};

    for (size_t i = 0; i < sizeof OUTCOMES / sizeof OUTCOMES[0]; i++)
        if (strcasecmp(word, OUTCOMES[i]) == 0)
            return true;
    (void)fprintf(stderr, "weir exit: '%s': expected ok, error, drop or ignore\n",
                  cli_redacted(word));
    return false;
}

static int exit_command(int argc, char **argv)
{
    struct call_options o = {.took_ns = -1};
    struct client_command w = {.word = {"WEIR.EXIT"}, .n = 1};
    const int words = options_read(&EXIT_COMMAND, &o, argc, argv);

    if (words < 0)
        return EXIT_USAGE;
    if (words > 1 && !exit_outcome(argv[1]))
        return EXIT_USAGE;
    for (int i = 0; i < words; i++)
        words_add(&w, argv[i]);
    if (o.took_ns >= 0)
        words_add_time(&w, "TOOK", o.took_ns);
    return call_ok(&EXIT_COMMAND, &o, &w, "ended");
}

/* ---- Refund and reset ------------------------------------------------------------------------ */

static int refund_command(int argc, char **argv);
static int reset_command(int argc, char **argv);

static const struct option REFUND_OPTIONS[] = {
    CALL_ROW_COST("how much to give back"), CALL_CLIENT, {0}};

const struct command REFUND_COMMAND = {
    "refund",
    "give back on a server what was taken",
    "[OPTION...] LIMIT KEY [cost=N]",
    .about = TEXTS("Gives back what was taken, and prints how much that was: never more than what "
                   "the key owes."),
    .operands = (const struct operand[]){CALL_OPERAND_LIMIT, CALL_OPERAND_KEY, {0}},
    .options = REFUND_OPTIONS,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir refund api alice cost=5"),
    OPERANDS(2, 2, "a limit and a key, as in weir refund api alice"),
    .dash_words = true,
    .run = refund_command,
};

const struct command RESET_COMMAND = {
    "reset",
    "make a key on a server fresh",
    "[OPTION...] LIMIT KEY",
    .about = TEXTS("Makes a key fresh, as if it had never been used."),
    .operands = (const struct operand[]){CALL_OPERAND_LIMIT, CALL_OPERAND_KEY, {0}},
    .options = CLIENT_ONLY,
    .statuses = TEXTS("0 done", CLIENT_STATUSES),
    .examples = TEXTS("weir reset login alice"),
    OPERANDS(2, 2, "a limit and a key, as in weir reset login alice"),
    .dash_words = true,
    .run = reset_command,
};

static int refund_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = {.word = {"WEIR.REFUND"}, .n = 1};
    const int status = call_read(&REFUND_COMMAND, &o, argc, argv);

    if (status)
        return status;
    words_add(&w, argv[0]);
    words_add(&w, argv[1]);
    if (o.cost >= 0)
        words_add_int(&w, o.cost);
    return call_returned(&REFUND_COMMAND, &o, &w);
}

static int reset_command(int argc, char **argv)
{
    struct call_options o;
    struct client_command w = {.word = {"WEIR.RESET"}, .n = 1};
    const int status = call_read(&RESET_COMMAND, &o, argc, argv);

    if (status)
        return status;
    words_add(&w, argv[0]);
    words_add(&w, argv[1]);
    return call_ok(&RESET_COMMAND, &o, &w, "the key is fresh");
}
