/* The options of `weir check`. */
#include "cli/check_options.h"

#include <string.h>

#include "cli/commands.h"

static bool check_add_header(void *to, char *value, struct weir_diag *why)
{
    struct check_options *o = to;
    const char *colon = strchr(value, ':');

    (void)why;
    if (!colon || colon == value)
        return false;
    o->header[o->headers++] = value;
    return true;
}

static bool check_add_attribute(void *to, char *value, struct weir_diag *why)
{
    struct check_options *o = to;
    const char *equals = strchr(value, '=');

    (void)why;
    if (!equals || equals == value)
        return false;
    o->attribute[o->attributes++] = value;
    return true;
}

static const struct option OPTIONS[] = {
    {"--json", NULL, OPTION_FLAG, OPTION_AT(check_options, json),
     .help = "print the result as one JSON object, mistakes included"},
    {"--request", "'METHOD PATH'", OPTION_TEXT, OPTION_AT(check_options, request),
     .expected = "a method and a path, such as 'GET /x'",
     .help = "say what the rules of the file do with this request: which match, what keys they "
             "make, and why the others do not match. A URL names the host too"},
    {"--header", "'NAME: VALUE'", OPTION_OTHER, .set = check_add_header, .times = CHECK_FIELDS_MAX,
     .expected = "'NAME: VALUE'", .help = "a header field of that request; Host is its host"},
    {"--ip", "ADDRESS", OPTION_TEXT, OPTION_AT(check_options, ip), .expected = "an address",
     .help = "the client's address"},
    {"--attr", "NAME=VALUE", OPTION_OTHER, .set = check_add_attribute, .times = CHECK_FIELDS_MAX,
     .expected = "NAME=VALUE", .help = "an attribute of that request"},
    {0},
};

const struct command CHECK_COMMAND = {
    "check",
    "check a configuration file, and say what it means",
    "[OPTION...] [FILE]",
    .about = TEXTS("Reads a configuration file of weir serve and the files that it includes, "
                   "without starting anything, and prints what it means; or each of its mistakes "
                   "with file, line and column. docs/reference/config.md describes the file.",
                   "With --request it prints what the rules of the file do with a request. Nothing "
                   "is taken."),
    .operands =
        (const struct operand[]){{"FILE", "the file (default " SERVE_CONFIG ")", COMPLETE_FILE},
                                 {0}},
    .options = OPTIONS,
    .statuses = TEXTS("0 no mistakes", "1 mistakes, or the file cannot be read",
                      "2 the command line is wrong"),
    .examples = TEXTS("weir check /etc/weir/weir.yaml", "weir check --json weir.yaml",
                      "weir check weir.yaml --request 'POST /login' --ip 192.0.2.7"),
    OPERANDS(0, 1, "FILE"),
    .run = check_command,
};
