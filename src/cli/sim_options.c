/* The options of `weir sim`: its table, and which operand is the limit and which the script. */
#include "cli/sim_options.h"

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
             "field without meaning is null; not with --picture"},
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
    {"--picture", NULL, OPTION_FLAG, AT(picture_only),
     .help = "draw what was granted and refused over time instead of listing it; not with --json "
             "or --script"},
    {0},
};

const struct command SIM_COMMAND = {
    "sim",
    "run a script of events, or made-up traffic, against a limit",
    "[LIMIT] [OPTION...] [SCRIPT|-]",
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
        "limit; --picture then shows what became of the calls, second by second."),
    .operands =
        (const struct operand[]){
            {"LIMIT", "text of a limit, in quotes: the first word, if it is one", COMPLETE_LIMIT},
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
        "weir sim 'pacer 10/s' --traffic 'burst 50 at 0' --picture",
        "weir sim bbr --traffic 'ramp 0..800/s 20s; service 20ms workers=8' --picture"),
    OPERANDS(0, 2, "a limit in quotes, and a script"),
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

/* Two words are a limit and a script; a single word is the limit if it parses as one, else the
 * script. */
static bool sim_read_words(struct sim_options *o, int words, char **argv)
{
    struct weir_diag why;

    if (words == 0)
        return true;
    o->has_limit = weir_limit_parse(&o->limit, argv[0], &why) == 0;
    if (words == 2 && !o->has_limit)
        return sim_usage("not a limit: %s", why.text);
    if (!o->has_limit)
        o->limit_text = argv[0];
    o->script = words == 2 ? argv[1] : o->limit_text;
    return true;
}

/* With --traffic a single word can only be meant as the limit, unless it names a file. */
static bool sim_not_both(const struct sim_options *o)
{
    const bool is_script = strcmp(o->script, "-") == 0 || access(o->script, F_OK) == 0;
    struct weir_limit limit;
    struct weir_diag why;

    if (o->limit_text && !is_script && weir_limit_parse(&limit, o->limit_text, &why) != 0)
        return sim_usage("not a limit: %s", why.text);
    return sim_usage("either a script or --traffic, not both ('%s')", o->script);
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
    if (o->picture_only && o->print_script)
        return sim_usage("either --script or %s, not both", "--picture");
    if (o->picture_only && o->json)
        return sim_usage("either --json or %s, not both", "--picture");
    return true;
}
