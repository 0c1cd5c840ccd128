/* The options that say how a log is read, which `weir replay` and `weir advise` share; and the
 * progress bar that both show. */
#ifndef WEIR_CLI_LOG_LOG_OPTIONS_H
#define WEIR_CLI_LOG_LOG_OPTIONS_H

#include "cli/commands.h"
#include "cli/options.h"
#include "sim/replay/intake.h"

/* A command's struct begins with this one. */
struct log_options {
    const char *format, *columns, *time, *key, *cost, *status;
    enum log_clock clock;
    int64_t max_clients;
};

#define LOG_AT(field) OPTION_AT(log_options, field)
#define LOG_OPTION_ROWS                                                                            \
    {"--format",                                                                                   \
     "FORMAT",                                                                                     \
     OPTION_TEXT,                                                                                  \
     LOG_AT(format),                                                                               \
     .times = 1,                                                                                   \
     .expected = LOG_FORMAT_WORDS,                                                                 \
     .by_default = "auto",                                                                         \
     .completes = "auto common combined vhost json logfmt csv tsv",                                \
     .help = "auto (by the first lines), common, combined, vhost (combined behind host:port), "    \
             "json (an object a line), logfmt, csv, tsv, or an nginx log_format in quotes"},       \
        {"--columns",                                                                              \
         "NAMES",                                                                                  \
         OPTION_TEXT,                                                                              \
         LOG_AT(columns),                                                                          \
         .times = 1,                                                                               \
         .expected = "names of columns, as in time,ip,tokens",                                     \
         .help = "the columns of a table (csv, tsv) that has no line of names, as in "             \
                 "time,ip,tokens"},                                                                \
        {"--key",                                                                                  \
         "KEY",                                                                                    \
         OPTION_TEXT,                                                                              \
         LOG_AT(key),                                                                              \
         .times = 1,                                                                               \
         .expected = "a column, or a text such as '{ip} {path}'",                                  \
         .help = "who asks: a column, or a text with columns in braces, such as '{ip} {path}'; "   \
                 "without it, the column of the client's address"},                                \
        {"--time",                                                                                 \
         "COLUMN",                                                                                 \
         OPTION_TEXT,                                                                              \
         LOG_AT(time),                                                                             \
         .times = 1,                                                                               \
         .expected = "a column, or a text such as '{date} {time}'",                                \
         .help = "the column of the time, or a text with columns in braces; without it, a column " \
                 "with a usual name"},                                                             \
        {"--time-format",                                                                          \
         LOG_CLOCK_WORDS,                                                                          \
         OPTION_CHOICE,                                                                            \
         LOG_AT(clock),                                                                            \
         .expected = "auto, s, ms, us, ns, iso or clf",                                            \
         .by_default = "auto",                                                                     \
         .help = "how times are written: s, ms, us or ns since 1970, with or without decimals; "   \
                 "iso 2015-05-17T10:05:03.25+02:00; clf 17/May/2015:10:05:03 +0200"},              \
        {"--cost",                                                                                 \
         "COLUMN",                                                                                 \
         OPTION_TEXT,                                                                              \
         LOG_AT(cost),                                                                             \
         .times = 1,                                                                               \
         .expected = "a column, or several as in input+output",                                    \
         .help = "what a request costs: a column (tokens, bytes), or several that are added up, "  \
                 "as in input+output; without it, each costs 1"},                                  \
        {"--status",                                                                               \
         "COLUMN",                                                                                 \
         OPTION_TEXT,                                                                              \
         LOG_AT(status),                                                                           \
         .times = 1,                                                                               \
         .expected = "a column",                                                                   \
         .help = "the column of the status: 429 and 503 show that the log has refusals already"},  \
    {                                                                                              \
        "--max-clients", "N", OPTION_COUNT, LOG_AT(max_clients),                                   \
            .least = 1, .most = CLIENTS_MOST,                                                      \
            .expected = "1 to 16000000 clients (k and M may follow)", .by_default = "1M",          \
            .help =                                                                                \
                "how many clients there is memory for; lines of others are counted and left out"   \
    }

#define LOG_OPTIONS_DEFAULT              \
    {                                    \
        .max_clients = INT64_C(1000000), \
    }

/* What the options say, for the log at the path. */
struct intake_options log_intake_options(const struct log_options *o, const char *path,
                                         struct cli_progress *progress);
/* Prints why the command failed; returns its exit status. `words`: its arguments are wrong. */
int log_fail(const char *command, const char *path, bool words, struct cli_progress *progress,
             const struct sim_error *error);

#endif
