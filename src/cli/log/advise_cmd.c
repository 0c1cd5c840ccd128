/* `weir advise`: which limit fits a log. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/log/log_options.h"
#include "cli/sim/draw.h"
#include "sim/advise/advise.h"

struct advise_cmd_options {
    struct log_options log; /* the first */
    bool json;
    int64_t refuse_milli, over_ns;
    int rates;
    struct envelope_rate rate[ADVISE_RATES_MAX];
    struct draw_options draw;
};

/* 1%, 0.1%, 0 */
static bool advise_set_refuse(void *to, char *value, struct weir_diag *why)
{
    struct advise_cmd_options *const o = to;
    struct weir__slice s = weir__slice_of(value);

    (void)why;
    if (s.len > 1 && s.at[s.len - 1] == '%')
        s.len--;
    return weir__parse_decimal(s, 1000, &o->refuse_milli) == WEIR__NUMBER_OK &&
           o->refuse_milli <= 100000;
}

/* 10/s */
static bool advise_set_rate(void *to, char *value, struct weir_diag *why)
{
    struct advise_cmd_options *const o = to;
    struct weir_limit limit;
    char text[80];

    (void)why;
    if (strlen(value) > 40)
        return false;
    (void)snprintf(text, sizeof text, "token-bucket %s", value);
    if (weir_limit_parse(&limit, text, NULL) != 0 || limit.n != 1 ||
        limit.term[0].algorithm != WEIR_TOKEN_BUCKET || limit.term[0].count < 1)
        return false;
    o->rate[o->rates++] = (struct envelope_rate){limit.term[0].count, limit.term[0].period_ns};
    return true;
}

#define AT(field) OPTION_AT(advise_cmd_options, field)

static const struct option OPTIONS[] = {
    LOG_OPTION_ROWS,
    {"--refuse", "SHARE", OPTION_OTHER, .set = advise_set_refuse,
     .expected = "0 to 100%, such as 0.1%", .by_default = "1%",
     .help = "the share of clients that may ever be refused"},
    {"--over", "DURATION", OPTION_DURATION, AT(over_ns), .least = 1000000,
     .most = WEIR_PERIOD_MAX_NS, .expected = "1ms to 366d", .by_default = "1m",
     .help = "of the limits that keep within the share, those that let a client do least in this "
             "time (to a tenth) are preferred, and of them the one that refuses fewest requests"},
    {"--rate", "RATE", OPTION_OTHER, .set = advise_set_rate, .times = ADVISE_RATES_MAX,
     .expected = "COUNT/PERIOD, such as 10/s",
     .help = "look at this rate instead of a ladder from 6/h to 10000/s"},
    {"--json", NULL, OPTION_FLAG, AT(json), .help = "print one JSON object instead"},
    DRAW_OPTION_ROWS(advise_cmd_options),
    {0},
};

const struct command ADVISE_COMMAND = {
    "advise",
    "which limit fits a log?",
    "LOG [OPTION...]",
    .about = TEXTS(
        "Reads a log and finds, for each of some rates, the smallest burst at which no more than a "
        "share of clients would ever have been refused: exactly, from the token-bucket envelope of "
        "each client. It recommends one of these limits, names the clients that decide, and tries "
        "all of them on the last quarter of the log, which was not used to find them.",
        "Logs, and the columns of time, client and cost, are those of weir replay."),
    .operands =
        (const struct operand[]){{"LOG", "the log; - is standard input", COMPLETE_FILE}, {0}},
    .options = OPTIONS,
    .statuses = TEXTS("0 done", "1 no line could be read, or reading failed",
                      "2 the command line is wrong"),
    .examples = TEXTS("weir advise access.log.gz", "weir advise access.log --refuse 0.1% --over 1h",
                      "weir advise access.log --rate 5/s --rate 10/s",
                      "weir advise calls.csv --key account --cost input+output"),
    OPERANDS(1, 1, "a log"),
    .run = advise_command,
};

/* The recommended limit over the whole log. */
static int advise_draw(struct advise *a, const struct draw_options *o)
{
    static struct picture picture = {.dates = true}; /* too large for the stack */
    struct run *run = calloc(1, sizeof *run);
    struct sim_error error = {"out of memory"};
    int status = EXIT_FAILED;

    if (run && advise_replay(a, run, &error)) {
        picture_add(&picture, &run->limit, &run->timeline, 0,
                    roster_count(a->intake->clients) == 1);
        status = draw_picture(o, &picture, "advise");
    } else {
        (void)fprintf(stderr, "weir advise: no picture: %s\n", error.text);
    }
    if (run)
        run_close(run);
    free(run);
    return status;
}

static int advise_finish(struct advise *a, const struct advise_cmd_options *o)
{
    if (o->json)
        advise_json(a, stdout);
    else if (!draw_to_stdout(&o->draw))
        advise_print(a, stdout);
    if (a->intake->read > 0)
        return draw_wanted(&o->draw) && a->best >= 0 ? advise_draw(a, &o->draw) : EXIT_DONE;
    (void)fflush(stdout);
    (void)fputs("weir advise: no line could be read\n", stderr);
    return EXIT_FAILED;
}

int advise_command(int argc, char **argv)
{
    struct advise_cmd_options o = {
        .log = LOG_OPTIONS_DEFAULT, .refuse_milli = 1000, .over_ns = INT64_C(60000000000)};
    const int words = options_read(&ADVISE_COMMAND, &o, argc, argv);
    struct advise_options what = {
        .refuse_milli = o.refuse_milli, .over_ns = o.over_ns, .rates = o.rates};
    struct cli_progress progress = {0};
    struct sim_error error = {""};
    struct advise *a;
    int status;

    if (words < 0 || !draw_goes_with_json(&o.draw, o.json, "advise"))
        return EXIT_USAGE;
    what.intake = log_intake_options(&o.log, argv[0], &progress);
    memcpy(what.rate, o.rate, sizeof what.rate);
    a = calloc(1, sizeof *a);
    if (!a)
        return EXIT_FAILED;
    status = advise_run(a, &what, &error)
                 ? EXIT_DONE
                 : log_fail("advise", argv[0], a->words, &progress, &error);
    cli_progress_end(&progress);
    if (status == EXIT_DONE)
        status = advise_finish(a, &o);
    advise_free(a);
    free(a);
    return status;
}
