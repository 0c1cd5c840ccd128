/* The options of `weir sim`: its table, and which operand is the limit and which the script. */
#include "cli/sim/sim_options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "sim/script.h"

static bool sim_set_start(void *to, char *value, struct weir_diag *why)
{
    struct sim_options *const o = to;
    struct sim_error error;

    if (sim_date_parse(weir__slice_of(value), &o->start_ns, &error))
        return true;
    (void)snprintf(why->text, sizeof why->text, "%.500s", error.text);
    return false;
}

/* ---- The table ------------------------------------------------------------------------------- */

#define AT(field) OPTION_AT(sim_options, field)

static const struct option OPTIONS[] = {
    {"--json", NULL, OPTION_FLAG, AT(json),
     .help = "print one JSON object a line in place of tab-separated fields, and no header; a "
             "field without meaning is null; not with a picture"},
    {"--start", "DATE", OPTION_OTHER, .set = sim_set_start,
     .expected = "a date such as 2024-01-31, or 2024-01-31T12:00:00Z",
     .by_default = "2024-01-01T00:00:00Z",
     .help = "when the clock starts and the limit is made: a date, or a date and time with Z or an "
             "offset"},
    {"--max-keys", "N", OPTION_COUNT, AT(max_keys), .least = 1, .most = (int64_t)WEIR_MAX_KEYS_MOST,
     .expected = "1 to 3000000000 keys (k and M may follow)", .by_default = "1M",
     .help = "live keys that the simulated store has room for; full= in the limit says what a new "
             "key gets when it is full of them"},
    {"--traffic", "SPEC", OPTION_TEXT, AT(traffic_text), .times = 1,
     .expected = "phases, as in 'steady 50/s 10s; burst 200 at 59s'", .completes = COMPLETE_TRAFFIC,
     .help = "make the events from this text instead of reading a script"},
    {"--script", NULL, OPTION_FLAG, AT(print_script),
     .help = "print the script that --traffic makes, and run nothing"},
    {"--rows", NULL, OPTION_FLAG, AT(rows),
     .help = "print a row for each stretch of time instead of a line for each event: what was "
             "granted and refused; not with --json or --script"},
    DRAW_OPTION_ROWS(sim_options),
    {0},
};

const struct command SIM_COMMAND = {
    "sim",
    "run a script of events, or made-up traffic, against a limit",
    "[LIMIT...] [OPTION...] [SCRIPT|-]",
    .about = TEXTS(
        "Runs a script of events against a limit under a virtual clock: nothing sleeps, and the "
        "same script gives the same output on every machine.",
        "A script has one event a line:",
        "  limit token-bucket 10/s burst=2\n"
        "  0ms    take alice 2 wait=forever as=a\n"
        "  100ms  peek alice 1\n"
        "  200ms  cancel a\n"
        "  1.5s   take bob 1 wait=250ms\n"
        "  2s     refund bob 1\n"
        "  2s     reset alice\n"
        "  2s     limit token-bucket 20/s burst=4",
        "Guards (concurrency, breaker, bbr and the like) are entered and left:",
        "  0ms    enter shop as=a\n"
        "  0ms    signal cpu=85% load=3.5\n"
        "  300ms  exit a error                      ok, error, drop or ignore",
        "Traffic has phases: 'steady 50/s 10s; ramp 0..500/s 30s; poisson 80/s 1m seed=7; burst "
        "200 at 59s; pause 5s', each with key=NAME, keys=N, cost=N. With 'service 20ms workers=8 "
        "errors=0..30% queue=1000 timeout=1s' among them, a simulated service stands behind the "
        "limit; --rows then shows what became of the calls, second by second.",
        "Several limits run against the same events, and are drawn below each other (--chart, "
        "--svg)."),
    .operands =
        (const struct operand[]){
            {"LIMIT", "text of a limit, in quotes; several with --chart or --svg, up to 16",
             COMPLETE_LIMIT},
            {"SCRIPT", "file with the script; - or nothing is standard input", COMPLETE_FILE},
            {0}},
    .options = OPTIONS,
    .statuses = TEXTS("0 done; an event that is refused is an answer, not a failure",
                      "1 the output could not be written, or there was not enough memory",
                      "2 the command line, the limit or the script is wrong; an error in a script "
                      "names its line, and all decisions before that line have been printed"),
    .examples = TEXTS(
        "weir sim 'sliding-log 5/1m' events.sim", "echo '0s take alice' | weir sim 100/s --json",
        "weir sim 'fixed-window 200/1m align=clock' --traffic 'burst 200 at 59s; burst 200 at 60s'",
        "weir sim 'pacer 10/s' --traffic 'burst 50 at 0' --chart",
        "weir sim 'pacer 10/s' 20/s --traffic 'poisson 30/s 5s' --svg both.svg",
        "weir sim bbr --traffic 'ramp 0..800/s 20s; service 20ms workers=8' --rows"),
    OPERANDS(0, PICTURE_PANELS_MAX + 1, "limits, each in quotes, and a script"),
    .run = sim_command,
};

/* ---- Words ----------------------------------------------------------------------------------- */

static bool sim_usage(const char *format, const char *word)
{
    (void)fputs("weir sim: ", stderr);
    (void)fprintf(stderr, format, word);
    (void)fputs(" (see weir sim --help)\n", stderr);
    return false;
}

/* All words but the last are limits; the last is one if it parses, else the script. */
static bool sim_read_words(struct sim_options *o, int words, char **argv)
{
    struct weir_diag why;

    for (int i = 0; i < words; i++) {
        if (o->limits < PICTURE_PANELS_MAX &&
            weir_limit_parse(&o->limit[o->limits], argv[i], &why) == 0)
            o->limits++;
        else if (i == words - 1)
            o->script = o->limit_text = argv[i];
        else
            return sim_usage("not a limit: %s", why.text);
    }
    return true;
}

/* With --traffic a single word can only be meant as the limit, and a later one that has a blank or
 * a slash, unless it names a file. */
static bool sim_not_both(const struct sim_options *o)
{
    const bool is_script = strcmp(o->script, "-") == 0 || access(o->script, F_OK) == 0;
    struct weir_limit limit;
    struct weir_diag why;

    if ((o->limits == 0 || strpbrk(o->script, " /")) && !is_script &&
        weir_limit_parse(&limit, o->limit_text, &why) != 0)
        return sim_usage("not a limit: %s", why.text);
    return sim_usage("either a script or --traffic, not both ('%s')", o->script);
}

static bool sim_check_pictures(const struct sim_options *o)
{
    const char *drawn = o->rows ? "--rows" : o->draw.chart ? "--chart" : "--svg";
    const bool draws = draw_wanted(&o->draw);

    if ((o->rows || draws) && o->print_script)
        return sim_usage("either --script or %s, not both", drawn);
    if ((o->rows || draws) && o->json)
        return sim_usage("either --json or %s, not both", drawn);
    if (o->rows && draws)
        return sim_usage("either --rows or %s, not both", o->draw.chart ? "--chart" : "--svg");
    if (o->limits > 1 && !draws)
        return sim_usage("several limits need %s", "--chart or --svg");
    if (o->limits > 1 && !o->traffic_text && (!o->script || strcmp(o->script, "-") == 0))
        return sim_usage("several limits need --traffic or the file of a script: %s",
                         "standard input is read once");
    return true;
}

bool sim_options_read(struct sim_options *o, int argc, char **argv)
{
    int words;

    *o = (struct sim_options){.start_ns = SIM_START_NS};
    words = options_read(&SIM_COMMAND, o, argc, argv);
    if (words < 0 || !sim_read_words(o, words, argv))
        return false;
    if (o->traffic_text && o->script)
        return sim_not_both(o);
    if (o->print_script && !o->traffic_text)
        return sim_usage("%s goes with --traffic", "--script");
    return sim_check_pictures(o);
}
