/* The options of `weir check`. */
#include "cli/check_options.h"

#include "cli/commands.h"

static const struct option OPTIONS[] = {
    {"--json", NULL, OPTION_FLAG, OPTION_AT(check_options, json),
     .help = "print the result as one JSON object, mistakes included"},
    {0},
};

const struct command CHECK_COMMAND = {
    "check",
    "check a configuration file, and say what it means",
    "[OPTION...] [FILE]",
    .about = TEXTS("Reads a configuration file of weir serve and the files that it includes, "
                   "without starting anything, and prints what it means; or each of its mistakes "
                   "with file, line and column. docs/reference/config.md describes the file."),
    .operands =
        (const struct operand[]){{"FILE", "the file (default " SERVE_CONFIG ")", COMPLETE_FILE},
                                 {0}},
    .options = OPTIONS,
    .statuses = TEXTS("0 no mistakes", "1 mistakes, or the file cannot be read",
                      "2 the command line is wrong"),
    .examples = TEXTS("weir check /etc/weir/weir.yaml", "weir check --json weir.yaml"),
    OPERANDS(0, 1, "FILE"),
    .run = check_command,
};
