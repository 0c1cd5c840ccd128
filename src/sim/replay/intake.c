/* Reads a log line by line into arrivals. */
#include "sim/replay/intake.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

enum { PROGRESS_LINES = 65536 };

static bool intake_choose(struct intake *in, bool *words, struct sim_error *error)
{
    const char *const format = in->options.format;
    struct log_sample sample;

    lines_sample(in->lines, &sample);
    if (sample.n == 0)
        return sim_fail(error, "%s",
                        lines_failed(in->lines) ? lines_failed(in->lines) : "the log is empty");
    *words = format && strcmp(format, "auto") != 0;
    if (!log_format_choose(&in->format, format, in->options.columns, &sample, error))
        return false;
    *words = false;
    if (!log_format_names(&in->format, &sample))
        return sim_fail(error, "the first lines are not %s", in->format.name);
    *words = true;
    return log_fields_choose(&in->fields, &in->format, &in->options.names, &sample, error);
}

struct intake *intake_open(const struct intake_options *options, bool *words,
                           struct sim_error *error)
{
    struct intake *in = calloc(1, sizeof *in);

    *words = false;
    if (!in) {
        (void)sim_fail(error, "out of memory");
        return NULL;
    }
    in->options = *options;
    in->clients = roster_open((uint32_t)options->max_clients);
    if (!in->clients)
        (void)sim_fail(error, "out of memory");
    else
        in->lines = lines_open(options->path, error);
    if (in->lines && intake_choose(in, words, error))
        return in;
    intake_close(in);
    return NULL;
}

void intake_close(struct intake *in)
{
    if (in->lines)
        lines_close(in->lines);
    if (in->clients)
        roster_close(in->clients);
    free(in);
}

static void remember_unread(struct intake *in, struct weir__slice line, enum log_fault fault)
{
    size_t n = 0;

    in->unread[fault]++;
    if (in->shown == INTAKE_SHOWN)
        return;
    in->first_unread[in->shown].line = lines_number(in->lines);
    in->first_unread[in->shown].fault = fault;
    for (; n < line.len && n < INTAKE_TEXT; n++) {
        const unsigned char c = (unsigned char)line.at[n];

        in->first_unread[in->shown].text[n] = (char)(c < ' ' || c > '~' ? '?' : c);
    }
    in->first_unread[in->shown++].text[n] = '\0';
}

static void note_line(struct intake *in, const struct log_event *e)
{
    in->first_ns = in->read == 0 ? e->time_ns : weir__min(in->first_ns, e->time_ns);
    in->last_ns = weir__max(in->last_ns, e->time_ns);
    in->read++;
    in->fractions += e->time_ns % WEIR__NS_PER_S != 0;
    in->refused_before += e->status == 429 || e->status == 503;
}

/* Reads one line. True: *out is an arrival, which the line has pushed out of the window. */
static bool intake_line(struct intake *in, struct weir__slice line, bool too_long,
                        struct arrival *out)
{
    struct log_event e;
    enum log_fault fault;
    uint32_t client;

    if (line.len == 0) {
        in->empty++;
        return false;
    }
    if (in->format.header && !in->header_seen) {
        in->header_seen = true;
        return false;
    }
    fault = too_long ? LOG_TOO_LONG
                     : log_event_read(&in->fields, &in->format, line, &in->values, in->key, &e);
    if (fault != LOG_READ) {
        remember_unread(in, line, fault);
        return false;
    }
    note_line(in, &e);
    client = roster_find(in->clients, e.key);
    if (client == CLIENT_NONE) {
        in->crowded++;
        return false;
    }
    return arrivals_add(&in->arrivals, &(struct arrival){e.time_ns, e.cost, client}, out);
}

bool intake_next(struct intake *in, struct arrival *out)
{
    struct weir__slice line;
    bool too_long;

    while (!in->ended && lines_next(in->lines, &line, &too_long)) {
        if (in->options.progress && lines_number(in->lines) % PROGRESS_LINES == 0) {
            int64_t of;
            const int64_t place = lines_place(in->lines, &of);

            in->options.progress(in->options.to, lines_number(in->lines), place, of);
        }
        if (intake_line(in, line, too_long, out))
            return true;
    }
    in->ended = true;
    return arrivals_next(&in->arrivals, out);
}

int64_t intake_unread(const struct intake *in)
{
    int64_t n = 0;

    for (int i = 0; i < LOG_FAULTS; i++)
        n += in->unread[i];
    return n;
}

bool intake_whole_seconds(const struct intake *in)
{
    return in->read > 0 && in->fractions == 0;
}

const char *intake_key_name(const struct intake *in)
{
    return in->fields.found[1];
}
