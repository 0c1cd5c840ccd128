/* The commands of `weir store`: their options, and `weir store info`. */
#include <stdio.h>
#include <string.h>

#include <weir.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/store/store_info.h"
#include "cli/store/store_options.h"

#define AT(field) OPTION_AT(store_options, field)

int store_info_run(const struct store_options *a)
{
    struct store_info info;
    int error;

    if (!store_info_open(&info, a->file)) {
        (void)fputs("weir store info: out of memory\n", stderr);
        return EXIT_FAILED;
    }
    error = info.error;
    if (a->json)
        store_info_print_json(&info);
    else
        store_info_print(&info, cli_colour());
    (void)fflush(stdout);
    if (error)
        (void)fprintf(stderr, "weir store info: %s\n", info.why.text);
    store_info_close(&info);
    return error ? EXIT_FAILED : EXIT_DONE;
}

/* Whether the word is the URL of a Redis, or was meant as one. */
static bool is_remote(const char *file)
{
    const char *const at = strrchr(file, '@');

    return (strncmp(file, "redis", 5) == 0 && strchr(file, ':')) || strstr(file, "://") ||
           (file[0] != '/' && at && memchr(file, ':', (size_t)(at - file)));
}

/* Reads the command line of a store command, and runs it. */
static int store_run(const struct command *c, int (*run)(const struct store_options *), int argc,
                     char **argv)
{
    struct store_options o = {0};

    if (options_read(c, &o, argc, argv) < 0)
        return EXIT_USAGE;
    o.file = argv[0];
    if (*o.file && !is_remote(o.file))
        return run(&o);
    (void)fprintf(stderr, "weir %s: expected the path of a state file%s\n", c->name,
                  is_remote(o.file)
                      ? "; for a Redis, use its own tools (redis-cli --scan --pattern 'weir:*')"
                      : "");
    return EXIT_USAGE;
}

static int store_info_command(int argc, char **argv)
{
    return store_run(&STORE_INFO_COMMAND, store_info_run, argc, argv);
}

static int store_convert_command(int argc, char **argv)
{
    return store_run(&STORE_CONVERT_COMMAND, store_convert_run, argc, argv);
}

static int store_reset_command(int argc, char **argv)
{
    return store_run(&STORE_RESET_COMMAND, store_reset_run, argc, argv);
}

/* ---- The tables ------------------------------------------------------------------------------ */

static const struct operand FILE_OPERAND[] = {{"FILE", "path of the state file", COMPLETE_FILE},
                                              {0}};

const struct command STORE_INFO_COMMAND = {
    "store info",
    "print what a state file contains, which processes use it, and whether it is sound",
    "FILE [--json]",
    .about = TEXTS("Prints what a state file contains: its version and sizes, when it was made and "
                   "what its own time is, which processes use it, how many decisions of killed "
                   "processes were undone, its policies and their limits, how many keys there are "
                   "for each size of state, and whether all of that is sound. The command writes "
                   "nothing and takes no lock, so it may run while the file is in use."),
    .operands = FILE_OPERAND,
    .options = (const struct option[]){{"--json", NULL, OPTION_FLAG, AT(json),
                                        .help = "print the same as one JSON object"},
                                       {0}},
    .statuses = TEXTS("0 the file is sound", "1 it is not, or cannot be read",
                      "2 the command line is wrong"),
    .examples =
        TEXTS("weir store info /run/shop/limits", "weir store info /run/shop/limits --json"),
    OPERANDS(1, 1, "the path of a state file"),
    .run = store_info_command,
};

static const struct option CONVERT_OPTIONS[] = {
    {"--max-keys", "N", OPTION_COUNT, AT(max_keys), .least = 1, .most = (int64_t)WEIR_MAX_KEYS_MOST,
     .expected = "1 to 3000000000 keys (k and M may follow)", .by_default = "as before",
     .help = "live keys that the file has room for; k or M may follow the number"},
    {"--max-memory", "BYTES", OPTION_BYTES, AT(max_memory), .least = 1, .most = INT64_C(1) << 46,
     .expected = "1 to 70368744177664 bytes, such as 64MiB or 1GiB",
     .by_default =
         "as chosen before, or else 256 bytes for each of --max-keys, at least 64MiB, and "
         "64KiB for each of --max-policies",
     .help = "most bytes that the whole file may take"},
    {"--max-policies", "N", OPTION_COUNT, AT(max_policies), .least = 1, .most = WEIR_POLICIES_MOST,
     .expected = "1 to 65536 policies", .by_default = "as before",
     .help = "policies that the file has room for"},
    {"--out", "NEW", OPTION_TEXT, AT(out), .times = 1, .expected = "the name of a new file",
     .completes = COMPLETE_FILE, .help = "write the new file there, and leave FILE as it is"},
    {0},
};

const struct command STORE_CONVERT_COMMAND = {
    "store convert",
    "give a state file another size; live keys are kept",
    "FILE [--max-keys N] [--max-memory BYTES] [--max-policies N] [--out NEW]",
    .about = TEXTS("Gives a state file another size. The new file keeps all live keys and all "
                   "policies, so no decision changes. If they do not fit, or if another process "
                   "has the file open, the command changes nothing.",
                   "The new file takes the place of the old one in one step; the old one is kept "
                   "as FILE.bak. A file that needs no change is left alone. A file of an older "
                   "version of the format cannot be converted."),
    .operands = FILE_OPERAND,
    .options = CONVERT_OPTIONS,
    .statuses = TEXTS("0 done, or there was nothing to change",
                      "1 nothing was changed: the file is in use, damaged or too small for its "
                      "keys, or could not be written",
                      "2 the command line is wrong"),
    .examples = TEXTS("weir store convert /var/lib/shop/limits --max-keys 5M",
                      "weir store convert /var/lib/shop/limits --max-keys 20k --out /tmp/limits"),
    OPERANDS(1, 1, "the path of a state file"),
    .run = store_convert_command,
};

const struct command STORE_RESET_COMMAND = {
    "store reset",
    "reset all keys of a state file",
    "FILE [--all] [--yes]",
    .about = TEXTS("Resets all keys of a state file: no key has used anything of any limit. The "
                   "policies, the sizes and the secret stay. The command asks first. No other "
                   "process may have the file open."),
    .operands = FILE_OPERAND,
    .options = (const struct option[]){{"--all", NULL, OPTION_FLAG, AT(all),
                                        .help = "forget the policies too"},
                                       {"--yes", NULL, OPTION_FLAG, AT(yes),
                                        .help = "do not ask; required without a terminal"},
                                       {0}},
    .statuses = TEXTS("0 done", "1 nothing was changed", "2 the command line is wrong"),
    .examples =
        TEXTS("weir store reset /run/shop/limits", "weir store reset /run/shop/limits --all --yes"),
    OPERANDS(1, 1, "the path of a state file"),
    .run = store_reset_command,
};

const struct command STORE_COMMAND = {
    "store",
    "inspect, convert or reset a file that processes share",
    "COMMAND FILE [OPTION...]",
    .about = TEXTS("Inspects or changes a state file: the FILE that programs and daemons with the "
                   "store file:FILE share. weir store COMMAND --help describes a command."),
    .parts = (const struct command *const[]){&STORE_INFO_COMMAND, &STORE_CONVERT_COMMAND,
                                             &STORE_RESET_COMMAND, NULL},
    .examples = TEXTS("weir store info /run/shop/limits",
                      "weir store convert /run/shop/limits --max-keys 5M",
                      "weir store reset /run/shop/limits"),
};
