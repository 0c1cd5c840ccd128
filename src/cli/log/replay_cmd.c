/* `weir replay`: what limits would have done to a log. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/log/log_options.h"
#include "cli/sim/draw.h"
#include "sim/replay/replay.h"

struct replay_cmd_options {
    struct log_options log; /* the first */
    bool compare, json;
    int64_t top;
    struct draw_options draw;
};

#define AT(field) OPTION_AT(replay_cmd_options, field)

static const struct option OPTIONS[] = {
    LOG_OPTION_ROWS,
    {"--compare", NULL, OPTION_FLAG, AT(compare),
     .help = "print one table with a line for each limit: passed, refused, clients refused, the "
             "worst window, wrongful refusals, the longest wait"},
    {"--top", "N", OPTION_COUNT, AT(top), .least = 1, .most = REPLAY_TOP_MAX,
     .expected = "1 to 100 clients", .by_default = "10",
     .help = "how many of the clients that are refused most are listed"},
    {"--json", NULL, OPTION_FLAG, AT(json), .help = "print one JSON object instead"},
    DRAW_OPTION_ROWS(replay_cmd_options),
    {0},
};

const struct command REPLAY_COMMAND = {
    "replay",
    "run a log through limits: what would they have done?",
    "LOG LIMIT... [OPTION...]",
    .about = TEXTS(
        "Runs the requests of a log through limits, each on the engine in virtual time: how many "
        "would have passed, waited or been refused, whom it hits, and when.",
        "A log is an access log (common, combined, an nginx log_format), JSON or logfmt lines, or "
        "a table (csv, tsv) with a line of names; gzip or plain. The format, and the columns of "
        "time and client, are found by the first lines. Lines that cannot be read are counted, and "
        "the first of them are shown."),
    .operands =
        (const struct operand[]){{"LOG", "the log; - is standard input", COMPLETE_FILE},
                                 {"LIMIT", "text of a limit, in quotes; up to 16", COMPLETE_LIMIT},
                                 {0}},
    .options = OPTIONS,
    .statuses = TEXTS("0 done", "1 no line could be read, or reading failed",
                      "2 the command line or a limit is wrong"),
    .examples = TEXTS(
        "weir replay access.log 'token-bucket 100/s burst=50'",
        "weir replay access.log.gz 10/s 'fixed-window 600/m' 'sliding-window 600/m' --compare",
        "weir replay access.log 'token-bucket 5/s burst=10' --key '{ip} {path}'",
        "weir replay access.log 10/s 'sliding-window 600/m' --svg both.svg",
        "weir replay calls.csv 'token-bucket 100k/m burst=200k' --key account --cost tokens"),
    OPERANDS(2, 1 + REPLAY_LIMITS_MAX, "a log and one to 16 limits, each in quotes"),
    .run = replay_command,
};

/* The limits below each other. A line is drawn if all requests are one client's. */
static int replay_draw(const struct replay *r, const struct draw_options *o)
{
    static struct picture picture = {.dates = true}; /* too large for the stack */

    for (int i = 0; i < r->runs; i++)
        picture_add(&picture, &r->run[i].limit, &r->run[i].timeline, 0,
                    roster_count(r->intake->clients) == 1);
    return draw_picture(o, &picture, "replay");
}

static int replay_finish(const struct replay *r, const struct replay_cmd_options *o)
{
    if (o->json)
        replay_json(r, stdout);
    else if (!draw_to_stdout(&o->draw))
        replay_print(r, stdout);
    if (r->intake->read > 0)
        return draw_wanted(&o->draw) ? replay_draw(r, &o->draw) : EXIT_DONE;
    (void)fflush(stdout);
    (void)fprintf(stderr, "weir replay: no line could be read\n");
    return EXIT_FAILED;
}

int replay_command(int argc, char **argv)
{
    struct replay_cmd_options o = {.log = LOG_OPTIONS_DEFAULT, .top = 10};
    const int words = options_read(&REPLAY_COMMAND, &o, argc, argv);
    struct replay_options what = {.limits = words - 1, .compare = o.compare, .top = o.top};
    struct cli_progress progress = {0};
    struct sim_error error = {""};
    struct weir_limit limit;
    struct replay *r;
    int status;

    if (words < 0 || !draw_goes_with_json(&o.draw, o.json, "replay"))
        return EXIT_USAGE;
    if (access(argv[0], F_OK) != 0 && weir_limit_parse(&limit, argv[0], NULL) == 0) {
        (void)fprintf(stderr, "weir replay: '%s' is a limit: the log comes first\n", argv[0]);
        return EXIT_USAGE;
    }
    what.intake = log_intake_options(&o.log, argv[0], &progress);
    for (int i = 0; i < what.limits; i++)
        what.limit[i] = argv[1 + i];
    r = calloc(1, sizeof *r);
    if (!r)
        return EXIT_FAILED;
    status = replay_run(r, &what, &error)
                 ? EXIT_DONE
                 : log_fail("replay", argv[0], r->words, &progress, &error);
    cli_progress_end(&progress);
    if (status == EXIT_DONE)
        status = replay_finish(r, &o);
    replay_free(r);
    free(r);
    return status;
}
