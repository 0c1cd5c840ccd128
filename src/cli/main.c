/* The program `weir`: finds the command that its arguments name, and runs it. */
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/topics/topics.h"

static int version_command(int argc, char **argv);
static int help_command(int argc, char **argv);

static const struct command VERSION_COMMAND = {
    "version",
    "print the version",
    "",
    .about = TEXTS("Prints the version of the command and the library."),
    .examples = TEXTS("weir version"),
    .run = version_command,
};

static const struct command HELP_COMMAND = {
    "help",
    "print this help, or the help of a command or a topic",
    "[COMMAND...|TOPIC|topics]",
    .about = TEXTS("Prints the help of weir, of the named command, or of a topic: limits, guards, "
                   "units, stores and others. weir help topics lists them."),
    .operands =
        (const struct operand[]){
            {"COMMAND",
             "name of a command; after store, one of its subcommands may follow: help store info",
             NULL},
            {0}},
    .examples =
        TEXTS("weir help", "weir help serve", "weir help store convert", "weir help limits"),
    .run = help_command,
};

static const struct command ROOT = {
    "",
    "rate limiting for programs and fleets",
    "COMMAND [ARGUMENT...]",
    .parts = (const struct command *const[]){&DEMO_COMMAND,
                                             &SIM_COMMAND,
                                             &REPLAY_COMMAND,
                                             &ADVISE_COMMAND,
                                             &EXPLAIN_COMMAND,
                                             &SERVE_COMMAND,
                                             &CHECK_COMMAND,
                                             &TAKE_COMMAND,
                                             &RUN_COMMAND,
                                             &PACE_COMMAND,
                                             &PEEK_COMMAND,
                                             &CHARGE_COMMAND,
                                             &RESERVE_COMMAND,
                                             &COMMIT_COMMAND,
                                             &CANCEL_COMMAND,
                                             &ENTER_COMMAND,
                                             &EXIT_COMMAND,
                                             &REFUND_COMMAND,
                                             &RESET_COMMAND,
                                             &LIMIT_COMMAND,
                                             &OVERRIDE_COMMAND,
                                             &LIST_COMMAND,
                                             &STATS_COMMAND,
                                             &PING_COMMAND,
                                             &RELOAD_COMMAND,
                                             &STORE_COMMAND,
                                             &VERSION_COMMAND,
                                             &HELP_COMMAND,
                                             NULL},
    .about =
        TEXTS("weir COMMAND --help describes a command, weir help topics lists what else there is "
              "to read. A limit is a line of text:",
              "  100/s                                              a token bucket; bursts of 100\n"
              "  token-bucket 10/s burst=20                         refills 10 a second, holds 20\n"
              "  sliding-log 5/1m                                   exact: 5 in any minute\n"
              "  fixed-window 1k/day tz=Europe/Berlin               resets at midnight in Berlin\n"
              "  token-bucket 10/s burst=20 + fixed-window 1k/day   both must grant",
              "or a guard, which looks at the calls that are running and at their results (enter, "
              "run, sim, explain and the library):",
              "  concurrency 10 queue=20                            10 at once, 20 may wait\n"
              "  breaker errors=50%                                 stops calls that fail\n"
              "  gradient                                           as many as latency allows\n"
              "  concurrency 10 queue=20 + breaker + 100/s          all must grant"),
    .statuses = TEXTS("0 done; allowed", "1 failed; denied",
                      "2 the command line, the limit or the script is wrong; a server replies with "
                      "an error",
                      "3 no answer from the server or the store",
                      "130 SIGINT ended the wait; 143: SIGTERM did"),
    .examples = TEXTS("weir demo", "weir explain 'token-bucket 10/s burst=20'",
                      "weir sim 'token-bucket 10/s burst=20' --traffic 'steady 15/s 10s' --rows",
                      "weir sim bbr --traffic 'ramp 0..800/s 20s; service 20ms workers=8' --rows",
                      "weir serve --limit api='token-bucket 100/s burst=20'"),
};

static int version_command(int argc, char **argv)
{
    if (options_read(&VERSION_COMMAND, NULL, argc, argv) < 0)
        return EXIT_USAGE;
    (void)puts("weir " WEIR_VERSION);
    return EXIT_DONE;
}

/* ---- Finding --------------------------------------------------------------------------------- */

/* The last word of a command's name: "info" for "store info". */
static const char *part_name(const void *parts, size_t i)
{
    const struct command *const c = ((const struct command *const *)parts)[i];
    const char *const blank = c ? strrchr(c->name, ' ') : NULL;

    return !c ? NULL : blank ? blank + 1 : c->name;
}

static const struct command *part_find(const struct command *c, const char *name)
{
    for (size_t i = 0; name && c->parts && c->parts[i]; i++)
        if (strcmp(name, part_name(c->parts, i)) == 0)
            return c->parts[i];
    return NULL;
}

/* "info, convert or reset" */
static void part_list(const struct command *c, const char *last)
{
    for (size_t i = 0; c->parts[i]; i++)
        (void)fprintf(stderr, "%s%s",
                      i == 0            ? ""
                      : c->parts[i + 1] ? ", "
                                        : last,
                      part_name(c->parts, i));
}

static int part_unknown(const struct command *c, const char *word)
{
    (void)fprintf(stderr, "weir%s%s: unknown command '%s'%s (", c->name[0] ? " " : "", c->name,
                  cli_redacted(word), options_near(word, part_name, c->parts));
    part_list(c, ", ");
    (void)fputs(")\n", stderr);
    return EXIT_USAGE;
}

static int part_missing(const struct command *c)
{
    if (!c->name[0]) {
        help_print(c, stderr);
        return EXIT_USAGE;
    }
    (void)fprintf(stderr, "weir %s: expected ", c->name);
    part_list(c, " or ");
    (void)fprintf(stderr, " (see weir %s --help)\n", c->name);
    return EXIT_USAGE;
}

/* ---- Help ------------------------------------------------------------------------------------ */

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

/* Prints a topic, or their list, unless more words follow; false: the word is neither. */
static bool help_topic(const char *word, bool more)
{
    const struct topic *const t = topic_find(word);
    const bool list = strcmp(word, "topics") == 0;

    if (more)
        return (t || list) && !part_find(&ROOT, word);
    if (t)
        topic_print(t, stdout);
    else if (list)
        topics_list(stdout);
    return t || list;
}

/* The word is neither a command nor a topic. */
static int help_unknown(const char *word)
{
    const char *near = options_near(word, part_name, ROOT.parts);

    if (!*near)
        near = options_near(word, topic_name, TOPICS);
    (void)fprintf(stderr, "weir help: unknown command or topic '%s'%s (", cli_redacted(word), near);
    part_list(&ROOT, ", ");
    (void)fputs("; topics: ", stderr);
    for (size_t i = 0; topic_name(TOPICS, i); i++)
        (void)fprintf(stderr, "%s%s", i == 0 ? "" : ", ", topic_name(TOPICS, i));
    (void)fputs(")\n", stderr);
    return EXIT_USAGE;
}

/* weir help [COMMAND [PART]], weir help TOPIC; for scripts/cli_docs.py, help --format=table */
static int help_command(int argc, char **argv)
{
    const struct command *c = &ROOT;

    if (argc == 1 && strcmp(argv[0], "--format=table") == 0) {
        describe_print(&ROOT);
        return EXIT_DONE;
    }
    if (argc > 0 && help_topic(argv[0], argc > 1))
        return argc == 1 || options_unexpected(&HELP_COMMAND, argv[1]) ? EXIT_DONE : EXIT_USAGE;
    for (int i = 0; i < argc; i++) {
        const struct command *const part = part_find(c, argv[i]);

        if (!part && c->parts)
            return c == &ROOT ? help_unknown(argv[i]) : part_unknown(c, argv[i]);
        if (!part)
            return options_unexpected(&HELP_COMMAND, argv[i]) ? EXIT_DONE : EXIT_USAGE;
        c = part;
    }
    help_print(c, stdout);
    return EXIT_DONE;
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Finds the command that the words name, and runs it. */
static int command_run(int argc, char **argv)
{
    const struct command *c = &ROOT, *part;
    const bool help = argc > 0 && asks_for_help(argc, argv);
    int i = 0;

    while (i < argc && (part = part_find(c, argv[i]))) {
        c = part;
        i++;
    }
    if (help && (c != &ROOT || argv[0][0] == '-')) {
        help_print(c, stdout);
        return EXIT_DONE;
    }
    if (!c->parts)
        return c->run(argc - i, argv + i);
    return i < argc ? part_unknown(c, argv[i]) : part_missing(c);
}

/* Output that cannot be written is a failure, whatever the command returns. */
static int main_finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    (void)fputs("weir: cannot write the output\n", stderr);
    return status == EXIT_DONE ? EXIT_FAILED : status;
}

int main(int argc, char **argv)
{
    static char line[1024];

    /* A message is one write, so that those of commands in one pipeline do not mix. */
    (void)setvbuf(stderr, line, _IOLBF, sizeof line);
    if (argc > 1 && (strcmp(argv[1], "--version") == 0 || strcmp(argv[1], "-V") == 0))
        return main_finish(version_command(argc - 2, argv + 2));
    return main_finish(command_run(argc - 1, argv + 1));
}
