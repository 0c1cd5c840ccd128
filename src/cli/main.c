/* The `weir` command: finds the command that was named and runs it. */
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "base/text.h"
#include "cli/commands.h"
#include "cli/help.h"

static int version_command(int argc, char **argv)
{
    (void)argv;
    if (argc > 0) {
        (void)fprintf(stderr, "weir version: unexpected argument '%s'\n", argv[0]);
        return EXIT_USAGE;
    }
    (void)puts("weir " WEIR_VERSION);
    return EXIT_DONE;
}

/* A command's word that has a help of its own. */
struct part {
    const char *name, *help;
};
static const struct part STORE_PARTS[] = {
    {"info", HELP_STORE_INFO}, {"convert", HELP_STORE_CONVERT}, {"reset", HELP_STORE_RESET}, {0}};

static const struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
    const struct part *parts; /* up to one without a name; or NULL */
} COMMANDS[] = {
    {"sim", sim_command, HELP_SIM, NULL},
    {"explain", explain_command, HELP_EXPLAIN, NULL},
    {"serve", serve_command, HELP_SERVE, NULL},
    {"take", take_command, HELP_TAKE, NULL},
    {"store", store_command, HELP_STORE, STORE_PARTS},
    {"version", version_command,
     "usage: weir version\n\nPrints the version.\n\nExample:\n  weir version\n", NULL},
};
enum { COMMAND_COUNT = sizeof COMMANDS / sizeof COMMANDS[0] };

static const struct command *find(const char *name)
{
    for (int i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(name, COMMANDS[i].name) == 0)
            return &COMMANDS[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char *near = NULL;

    for (int i = 0; i < COMMAND_COUNT && !near; i++)
        if (weir__slice_distance(weir__slice_of(name), weir__slice_of(COMMANDS[i].name)) <= 2)
            near = COMMANDS[i].name;
    (void)fprintf(
        stderr,
        "weir: unknown command '%s'%s%s%s (serve, take, sim, explain, store, version, help)\n",
        name, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    return EXIT_USAGE;
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 0; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

static const struct part *find_part(const struct command *c, const char *name)
{
    for (const struct part *p = c->parts; p && p->name && name; p++)
        if (strcmp(name, p->name) == 0)
            return p;
    return NULL;
}

/* Of a command and, where it has parts, of the one that is named. Either may be NULL. */
static int print_help(const char *name, const char *part)
{
    const struct command *c = name ? find(name) : NULL;
    const struct part *p = c ? find_part(c, part) : NULL;

    if (name && !c)
        return unknown(name);
    (void)fputs(p ? p->help : c ? c->help : HELP_MAIN, stdout);
    return EXIT_DONE;
}

/* weir help [COMMAND [PART]] */
static int help_command(int argc, char **argv)
{
    const struct command *c = argc > 0 ? find(argv[0]) : NULL;
    const int most = c && argc > 1 && find_part(c, argv[1]) ? 2 : 1;

    if (argc > most) {
        (void)fprintf(stderr, "weir help: unexpected argument '%s'\n", argv[most]);
        return EXIT_USAGE;
    }
    return print_help(argc > 0 ? argv[0] : NULL, argc > 1 ? argv[1] : NULL);
}

/* Output that could not be written is a failure, whatever the command thought. */
static int finish(int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    (void)fputs("weir: cannot write the output\n", stderr);
    return status == EXIT_DONE ? EXIT_FAILED : status;
}

int main(int argc, char **argv)
{
    const struct command *c;

    if (argc < 2) {
        (void)fputs(HELP_MAIN, stderr);
        return EXIT_USAGE;
    }
    if (strcmp(argv[1], "help") == 0)
        return finish(help_command(argc - 2, argv + 2));
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return finish(print_help(NULL, NULL));
    if (strcmp(argv[1], "--version") == 0)
        return finish(version_command(argc - 2, argv + 2));
    c = find(argv[1]);
    if (!c)
        return unknown(argv[1]);
    if (asks_for_help(argc - 2, argv + 2))
        return finish(print_help(c->name, argv[2]));
    return finish(c->run(argc - 2, argv + 2));
}
