/* Prints what a replay found, for programs. docs/reference/replay.md has the shape. */
#include "sim/replay/replay.h"

#include "base/num.h"
#include "sim/picture/words.h"
#include "sim/report.h"

static void json_int(struct weir__json *j, const char *name, int64_t value)
{
    weir__json_key(j, name);
    weir__json_int(j, value);
}

static void json_time(struct weir__json *j, const char *name, int64_t ns)
{
    char text[WORDS_MAX];

    weir__json_key(j, name);
    weir__json_text(j, words_iso(ns, text));
}

static void json_unread(struct weir__json *j, const struct intake *in)
{
    json_int(j, "unread", intake_unread(in));
    weir__json_key(j, "first_unread");
    weir__json_open(j, '[');
    for (int i = 0; i < in->shown; i++) {
        weir__json_open(j, '{');
        json_int(j, "line", in->first_unread[i].line);
        weir__json_key(j, "why");
        weir__json_text(j, log_fault_text(in->first_unread[i].fault));
        weir__json_key(j, "text");
        weir__json_text(j, in->first_unread[i].text);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

void replay_json_log(const struct intake *in, struct weir__json *j)
{
    weir__json_key(j, "log");
    weir__json_open(j, '{');
    weir__json_key(j, "path");
    weir__json_string(j, weir__slice_of(in->options.path));
    weir__json_key(j, "format");
    weir__json_text(j, in->format.name);
    weir__json_key(j, "key");
    if (*intake_key_name(in))
        weir__json_string(j, weir__slice_of(intake_key_name(in)));
    else
        weir__json_null(j);
    json_int(j, "lines", lines_number(in->lines));
    json_int(j, "read", in->read);
    json_unread(j, in);
    json_int(j, "out_of_order", in->arrivals.swapped);
    json_int(j, "late", in->arrivals.late);
    json_int(j, "left_out", in->crowded);
    json_int(j, "clients", roster_count(in->clients));
    if (in->read > 0) {
        json_time(j, "first", in->first_ns);
        json_time(j, "last", in->last_ns);
    }
    weir__json_key(j, "whole_seconds");
    weir__json_bool(j, intake_whole_seconds(in));
    json_int(j, "refused_before", in->refused_before);
    weir__json_close(j, '}');
}

static void json_whom(struct weir__json *j, const struct replay *r, const struct run *run)
{
    uint32_t top[REPLAY_TOP_MAX];
    const uint32_t n = replay_whom(r, run, top);

    weir__json_key(j, "whom");
    weir__json_open(j, '[');
    for (uint32_t i = 0; i < n; i++) {
        const struct run_count *const c = &run->client[top[i]];

        weir__json_open(j, '{');
        weir__json_key(j, "key");
        weir__json_string(j, roster_key(r->intake->clients, top[i]));
        json_int(j, "asked", c->asked);
        json_int(j, "passed", c->passed);
        json_int(j, "delayed", c->delayed);
        json_int(j, "refused", c->refused);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

static void json_when(struct weir__json *j, const struct run *run)
{
    uint32_t top[REPLAY_BUSIEST];
    const struct timeline *const t = &run->timeline;
    const uint32_t n = replay_when(run, top);

    weir__json_key(j, "when");
    weir__json_open(j, '[');
    for (uint32_t i = 0; i < n; i++) {
        const struct timeline_row *const row = &t->row[top[i]];

        weir__json_open(j, '{');
        json_time(j, "from", (t->first + top[i]) * t->row_ns);
        json_int(j, "length_ns", t->row_ns);
        json_int(j, "asked", row->asked);
        json_int(j, "passed", row->passed);
        json_int(j, "refused", row->refused);
        weir__json_close(j, '}');
    }
    weir__json_close(j, ']');
}

static void json_worst(struct weir__json *j, const struct replay *r, const struct run *run)
{
    struct run_worst w;

    weir__json_key(j, "worst_window");
    if (!run_worst(run, &w)) {
        weir__json_null(j);
        return;
    }
    weir__json_open(j, '{');
    json_int(j, "passed", w.most);
    json_int(j, "count", w.count);
    json_int(j, "period_ns", w.period_ns);
    weir__json_key(j, "key");
    weir__json_string(j, roster_key(r->intake->clients, w.client));
    weir__json_key(j, "at_least");
    weir__json_bool(j, run->worst_ends);
    weir__json_close(j, '}');
}

static void json_limit(struct weir__json *j, const struct replay *r, const struct run *run)
{
    const struct run_count *const c = &run->all;

    weir__json_open(j, '{');
    weir__json_key(j, "limit");
    weir__json_text(j, run->text);
    json_int(j, "asked", c->asked);
    json_int(j, "passed", c->passed);
    json_int(j, "delayed", c->delayed);
    json_int(j, "refused", c->refused);
    json_int(j, "cost_asked", c->cost_asked);
    json_int(j, "cost_passed", c->cost_passed);
    json_int(j, "cost_refused", c->cost_refused);
    json_int(j, "clients_refused", run->clients_refused);
    json_int(j, "longest_wait_ns", run->longest_wait_ns);
    json_int(j, "shadowed", run->shadowed);
    json_int(j, "overflow", run->crowded);
    json_worst(j, r, run);
    weir__json_key(j, "wrongful");
    if (run->has_wrongful)
        weir__json_int(j, run->wrongful);
    else
        weir__json_null(j);
    json_whom(j, r, run);
    json_when(j, run);
    weir__json_close(j, '}');
}

void replay_json(const struct replay *r, FILE *to)
{
    struct weir__json j = sim_json_to(to);

    weir__json_open(&j, '{');
    replay_json_log(r->intake, &j);
    weir__json_key(&j, "limits");
    weir__json_open(&j, '[');
    for (int i = 0; i < r->runs; i++)
        json_limit(&j, r, &r->run[i]);
    weir__json_close(&j, ']');
    weir__json_close(&j, '}');
    (void)fputc('\n', to);
}
