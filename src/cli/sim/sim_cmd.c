/* `weir sim`: reads events from a script or makes them, runs them, and prints their outcomes. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/num.h"
#include "cli/commands.h"
#include "cli/sim/sim_options.h"
#include "sim/picture/collector.h"
#include "sim/picture/rows.h"
#include "sim/report.h"
#include "sim/script.h"
#include "sim/service.h"
#include "sim/traffic.h"
#include "sim/world.h"

struct sim {
    struct sim_options options;
    int run; /* number of the limit that runs */
    struct sim_world *world;
    struct sim_report report;
    struct collector *collector; /* one for each run */
    bool collects;               /* for a picture: lines are not printed */
    int64_t line;                /* number of the script's line; 0: traffic */
    int64_t events;
    struct cli_progress progress;
};

/* ---- Running --------------------------------------------------------------------------------- */

static const char *source_of(const struct sim *s)
{
    return !s->options.script || strcmp(s->options.script, "-") == 0 ? "standard input"
                                                                     : s->options.script;
}

static int sim_print_error(const struct sim *s, const struct sim_error *error)
{
    (void)fflush(stdout);
    if (s->line > 0)
        (void)fprintf(stderr, "weir sim: %s: line %lld: %s\n", source_of(s), (long long)s->line,
                      error->text);
    else
        (void)fprintf(stderr, "weir sim: %s\n", error->text);
    return EXIT_USAGE;
}

static void sim_print_progress(struct sim *s)
{
    if (s->events % 65536 == 0 && cli_progress_due(&s->progress))
        cli_progress_print("%lld events", (long long)s->events);
}

static void sim_print_outcome(struct sim *s, const struct sim_outcome *outcome)
{
    if (s->collects)
        collector_outcome(&s->collector[s->run], outcome);
    else if (!s->options.print_script)
        sim_report_line(&s->report, outcome);
    s->events++;
    sim_print_progress(s);
}

static void sim_note_event(struct sim *s, const struct sim_event *event)
{
    if (s->collects)
        collector_event(&s->collector[s->run], event, sim_world_time(s->world));
}

/* Prints the waiters that are decided by then. */
static void sim_print_decided(struct sim *s, int64_t until_ns)
{
    struct sim_outcome outcome;

    while (sim_world_decided(s->world, until_ns, &outcome))
        sim_print_outcome(s, &outcome);
}

static int sim_run_event(struct sim *s, const struct sim_event *event)
{
    struct sim_outcome outcome;
    struct sim_error error;

    sim_print_decided(s, event->timed ? event->time_ns : sim_world_time(s->world));
    if (!sim_world_apply(s->world, event, &outcome, &error))
        return sim_print_error(s, &error);
    sim_note_event(s, event);
    if (outcome.starts_fresh)
        (void)fprintf(stderr, "weir sim: %s: line %lld: note: keys start fresh under this limit\n",
                      source_of(s), (long long)s->line);
    if (outcome.not_reset)
        (void)fprintf(stderr,
                      "weir sim: %s: line %lld: note: the key is not reset: the store is full, and "
                      "has no place for it\n",
                      source_of(s), (long long)s->line);
    if (!outcome.queued)
        sim_print_outcome(s, &outcome);
    sim_print_decided(s, sim_world_time(s->world));
    return EXIT_DONE;
}

static int sim_run_line(struct sim *s, struct weir__slice line)
{
    struct sim_event event;
    struct sim_error error;

    s->line++;
    switch (sim_script_parse(line, &event, &error)) {
    case SIM_LINE_EVENT: return sim_run_event(s, &event);
    case SIM_LINE_EMPTY: return EXIT_DONE;
    case SIM_LINE_BAD: break;
    }
    return sim_print_error(s, &error);
}

static int sim_open_failed(const struct sim *s, int error)
{
    struct weir_limit limit;
    struct weir_diag why;

    (void)fprintf(stderr, "weir sim: cannot read '%s': %s\n", source_of(s), strerror(error));
    if (s->options.script && strchr(s->options.script, '='))
        (void)fputs("weir sim: if that is part of the limit, quote it: weir sim '100/s burst=3'\n",
                    stderr);
    if (s->options.limit_text && weir_limit_parse(&limit, s->options.limit_text, &why) != 0)
        (void)fprintf(stderr, "weir sim: it is not a limit either: %s\n", why.text);
    return EXIT_USAGE;
}

static int sim_line_too_long(struct sim *s)
{
    struct sim_error error;

    s->line++;
    (void)sim_fail(&error, "the line is longer than %d bytes", SIM_LINE_MAX);
    return sim_print_error(s, &error);
}

/* Runs the complete lines of *text (at the end of the input, all of it) and leaves the rest. */
static int run_text(struct sim *s, struct weir__slice *text, bool end)
{
    while (text->len > 0) {
        struct weir__slice rest = *text;
        const struct weir__slice line = weir__slice_cut(&rest, '\n');
        int status;

        if (line.len > SIM_LINE_MAX)
            return sim_line_too_long(s);
        if (rest.len == 0 && !end)
            return EXIT_DONE;
        status = sim_run_line(s, line);
        if (status != EXIT_DONE)
            return status;
        if (rest.len > 0)
            rest = (struct weir__slice){rest.at + 1, rest.len - 1}; /* the newline */
        *text = rest;
    }
    return EXIT_DONE;
}

/* Reads input as it comes, so that a person who types sees outcomes. The rest of an unfinished line
 * takes at most half of the buffer; a longer line is an error. */
static int run_lines(struct sim *s, int from, char buffer[2 * SIM_LINE_MAX])
{
    size_t have = 0;

    for (;;) {
        const ssize_t got = read(from, buffer + have, 2 * SIM_LINE_MAX - have);
        struct weir__slice text = {buffer, have + (got > 0 ? (size_t)got : 0)};
        int status;

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sim_open_failed(s, errno);
        status = run_text(s, &text, got == 0);
        if (status != EXIT_DONE || got == 0)
            return status;
        memmove(buffer, text.at, text.len);
        have = text.len;
    }
}

/* At the end of the script time goes on until every waiter is decided, except those that would wait
 * for ever. */
static void end_script(struct sim *s)
{
    sim_print_decided(s, INT64_MAX);
    if (sim_world_waiting(s->world) > 0)
        (void)fprintf(stderr, "weir sim: %s: note: callers that still wait to enter: %lld\n",
                      source_of(s), (long long)sim_world_waiting(s->world));
}

static int sim_draw_rows(struct sim *s)
{
    struct collector *c = &s->collector[s->run];

    if (s->options.rows)
        rows_draw(&c->timeline, c->longest_ns, stdout, s->report.colour);
    return EXIT_DONE;
}

static int run_script(struct sim *s)
{
    const bool standard = !s->options.script || strcmp(s->options.script, "-") == 0;
    const int from = standard ? STDIN_FILENO : open(s->options.script, O_RDONLY | O_CLOEXEC);
    char *buffer;
    int status;

    if (from < 0)
        return sim_open_failed(s, errno);
    if (!s->collects)
        sim_report_begin(&s->report);
    buffer = malloc(2 * SIM_LINE_MAX);
    status = buffer ? run_lines(s, from, buffer) : EXIT_FAILED;
    if (status == EXIT_DONE) {
        end_script(s);
        status = sim_draw_rows(s);
    }
    free(buffer);
    if (!standard)
        (void)close(from);
    return status;
}

static void print_script_line(const struct sim_event *e)
{
    (void)printf("%lldns %s ", (long long)e->time_ns, sim_verb_name(e->verb));
    if (e->verb == SIM_SIGNAL) {
        (void)printf("cpu=%lld.%lld%%\n", (long long)(e->signals.cpu_milli / 10),
                     (long long)(e->signals.cpu_milli % 10));
        return;
    }
    (void)printf("%.*s ", (int)e->key.len, e->key.at);
    if (e->verb == SIM_EXIT)
        (void)puts(sim_how_name(e->how));
    else if (e->verb == SIM_ENTER)
        (void)printf("%lld as=%.*s\n", (long long)e->cost, (int)e->id.len, e->id.at);
    else
        (void)printf("%lld\n", (long long)e->cost);
}

static bool looks_at_cpu(const struct weir_limit *limit)
{
    for (int i = 0; i < limit->n; i++) {
        const struct weir_term *t = &limit->term[i];

        if ((t->algorithm == WEIR_BBR || t->algorithm == WEIR_SYSTEM) && t->cpu_milli != WEIR_NONE)
            return true;
    }
    return false;
}

/* Prints what the guard decided, and passes it on to the service. */
static bool sim_forward_outcome(struct sim *s, struct service *service,
                                const struct sim_outcome *outcome, struct sim_error *error)
{
    sim_print_outcome(s, outcome);
    return service_decided(service, outcome, error);
}

/* Lets the service make a step. False: the step is not for the guard, or the guard decides it
 * later; or, with a message, an error. */
static bool sim_step_service(struct sim *s, struct service *service, struct sim_outcome *outcome,
                             struct sim_error *error)
{
    struct sim_event event;

    if (!service_step(service, &event, error))
        return false;
    if (s->options.print_script)
        print_script_line(&event);
    error->text[0] = '\0';
    if (!sim_world_apply(s->world, &event, outcome, error))
        return false;
    sim_note_event(s, &event);
    return !outcome->queued;
}

/* The guard and the service take turns: the one whose next step is earlier makes it. */
static int drive_service(struct sim *s, struct service *service)
{
    struct sim_error error = {""};

    for (;;) {
        const int64_t due_ns = service_due(service);
        struct sim_outcome outcome;

        if (sim_world_decided(s->world, due_ns, &outcome) ||
            (due_ns != INT64_MAX && sim_step_service(s, service, &outcome, &error)))
            (void)sim_forward_outcome(s, service, &outcome, &error);
        else if (due_ns == INT64_MAX)
            return EXIT_DONE;
        if (error.text[0])
            return sim_print_error(s, &error);
    }
}

static int run_service(struct sim *s, struct traffic *traffic)
{
    static struct summary summary; /* too large for the stack */
    struct service *service =
        service_open(&traffic->service, traffic, &summary, looks_at_cpu(&s->options.limit[s->run]));
    int status;

    memset(&summary, 0, sizeof summary);
    if (!service)
        return EXIT_FAILED;
    status = drive_service(s, service);
    service_close(service);
    if (status == EXIT_DONE && s->options.rows)
        summary_draw(&summary, stdout);
    return status;
}

static int run_traffic(struct sim *s)
{
    static struct traffic traffic; /* too large for the stack */
    struct sim_event event;
    struct sim_error error;

    if (!traffic_parse(&traffic, weir__slice_of(s->options.traffic_text), &error))
        return sim_print_error(s, &error);
    if (!s->collects && !s->options.print_script)
        sim_report_begin(&s->report);
    if (traffic.has_service)
        return run_service(s, &traffic);
    while (traffic_next(&traffic, &event, &error)) {
        const int status = s->options.print_script ? EXIT_DONE : sim_run_event(s, &event);

        if (s->options.print_script)
            print_script_line(&event);
        if (status != EXIT_DONE)
            return status;
    }
    if (error.text[0])
        return sim_print_error(s, &error);
    return s->options.print_script ? EXIT_DONE : sim_draw_rows(s);
}

/* Runs the events against one of the limits, in a world of its own. */
static int sim_run(struct sim *s, int run)
{
    struct weir_diag why = {0, "out of memory"};
    struct sim_error error;
    bool fresh;
    int status;

    s->run = run;
    s->line = 0;
    s->world = sim_world_open(s->options.start_ns, (uint64_t)s->options.max_keys, &why);
    if (!s->world) {
        (void)fprintf(stderr, "weir sim: %s\n", why.text);
        return EXIT_FAILED;
    }
    if (s->options.limits > 0 && !sim_world_limit(s->world, &s->options.limit[run], &fresh, &error))
        status = sim_print_error(s, &error);
    else
        status = s->options.traffic_text ? run_traffic(s) : run_script(s);
    cli_progress_end(&s->progress);
    s->options.limit[run] = *sim_world_limit_now(s->world); /* a script may set its own */
    sim_world_close(s->world);
    return status;
}

static int sim_draw(struct sim *s)
{
    static struct picture picture; /* too large for the stack */
    const int runs = (int)weir__max(s->options.limits, 1);

    for (int i = 0; i < runs; i++) {
        const struct collector *c = &s->collector[i];

        picture_add(&picture, &s->options.limit[i], &c->timeline, s->options.start_ns,
                    !c->many_keys);
    }
    return draw_picture(&s->options.draw, &picture, "sim");
}

static int sim_run_all(struct sim *s)
{
    const int runs = (int)weir__max(s->options.limits, 1);
    int status = EXIT_DONE;

    s->collector = calloc((size_t)runs, sizeof *s->collector);
    if (!s->collector)
        return EXIT_FAILED;
    for (int i = 0; i < runs && status == EXIT_DONE; i++)
        status = sim_run(s, i);
    if (status == EXIT_DONE && draw_wanted(&s->options.draw))
        status = sim_draw(s);
    for (int i = 0; i < runs; i++)
        collector_free(&s->collector[i]);
    free(s->collector);
    return status;
}

int sim_command(int argc, char **argv)
{
    static struct sim s; /* too large for the stack */

    if (!sim_options_read(&s.options, argc, argv))
        return EXIT_USAGE;
    s.collects = s.options.rows || draw_wanted(&s.options.draw);
    s.report = (struct sim_report){
        .to = stdout, .json = s.options.json, .colour = cli_colour() && !s.options.json};
    return sim_run_all(&s);
}
