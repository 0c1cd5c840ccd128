/* Reads vectors and compares a subject's answers with them; see reader.h. */
#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "sim/script.h"

#define WAITING_MAX 64
#define LINE_MAX    4096

/* An enter that was not decided at once, and what is expected of it. */
struct expectation {
    int line;
    char id[64], text[256];
};

struct vector_run {
    const struct vector_subject *of;
    const char *path;
    int line, cases, failed;
    bool case_failed;
    char name[64];
    void *subject;
    int64_t time_ns; /* of the last event */
    bool moved; /* an event of the case was not at a whole tick: what follows is not compared */
    int waiting;
    struct expectation expected[WAITING_MAX];
};

static void vector_complain(struct vector_run *r, const char *what, struct weir__slice word,
                            int64_t got)
{
    r->case_failed = true;
    (void)printf("%s:%d: %s: %s '%.*s', got %lld\n", r->path, r->line, r->name, what, (int)word.len,
                 word.at, (long long)got);
}

static int64_t whole_ticks(int64_t ns, int64_t tick_ns)
{
    return tick_ns > 0 && ns > 0 ? weir__div_ceil(ns, tick_ns) * tick_ns : ns;
}

/* A duration with an optional ~tolerance, or never. */
static bool near(struct weir__slice text, int64_t got, int64_t tick_ns)
{
    struct weir__slice rest = text;
    const struct weir__slice middle = weir__slice_cut(&rest, '~');
    int64_t want = -1, slack = 0;

    if (!weir__slice_is(text, "never") && weir__parse_duration(middle, &want) != WEIR__NUMBER_OK)
        return false;
    if (rest.len > 0 && weir__parse_duration((struct weir__slice){rest.at + 1, rest.len - 1},
                                             &slack) != WEIR__NUMBER_OK)
        return false;
    return got >= whole_ticks(want - slack, tick_ns) && got <= whole_ticks(want + slack, tick_ns);
}

static bool same(struct weir__slice text, int64_t got)
{
    int64_t want;

    return weir__parse_int(text, &want) == WEIR__NUMBER_OK && want == got;
}

static bool has_word(struct weir__slice text, struct weir__slice word)
{
    for (struct weir__slice one; (one = weir__slice_word(&text)).len > 0;)
        if (weir__slice_equal(one, word))
            return true;
    return false;
}

/* One word behind `=>`; *got is what there was instead. */
static bool holds(const struct vector_run *r, struct weir__slice word, const struct sim_outcome *o,
                  int64_t *got)
{
    const int64_t tick_ns = r->of->tick_ns;
    const struct weir_verdict *v = &o->verdict;
    struct weir__slice value = word;
    const struct weir__slice name = weir__slice_cut(&value, '=');

    *got = v->allowed;
    if (weir__slice_is(word, "allow") || weir__slice_is(word, "deny"))
        return v->allowed == weir__slice_is(word, "allow");
    if (r->moved)
        return true;
    if (value.len == 0)
        return false;
    value = (struct weir__slice){value.at + 1, value.len - 1};
    if (weir__slice_is(name, "reason"))
        return weir__slice_is(value, weir_reason_name(v->reason));
    if (weir__slice_is(name, "limit"))
        return same(value, *got = v->limit);
    if (weir__slice_is(name, "remaining"))
        return same(value, *got = v->remaining);
    if (weir__slice_is(name, "returned"))
        return same(value, *got = o->cost);
    if (weir__slice_is(name, "wait"))
        return near(value, *got = v->wait_ns, tick_ns) && v->allowed;
    if (weir__slice_is(name, "retry"))
        return near(value, *got = v->retry_after_ns, tick_ns) && !v->allowed;
    if (weir__slice_is(name, "reset"))
        return near(value, *got = v->reset_after_ns, tick_ns);
    if (weir__slice_is(name, "at"))
        return near(value, *got = o->time_ns, tick_ns);
    if (weir__slice_is(name, "state"))
        return weir__slice_is(value, "-") ? o->state.len == 0 : has_word(o->state, value);
    return false;
}

static void check(struct vector_run *r, struct weir__slice expected, const struct sim_outcome *o)
{
    for (;;) {
        const struct weir__slice word = weir__slice_word(&expected);
        int64_t got;

        if (word.len == 0)
            return;
        if (holds(r, word, o, &got))
            continue;
        vector_complain(r, "expected", word, got);
        (void)printf("  state: %.*s\n", (int)o->state.len, o->state.at);
    }
}

/* Checks the waiters that are decided by then. */
static void check_decided(struct vector_run *r, int64_t until_ns)
{
    const int line = r->line;
    struct sim_outcome o;

    while (r->of->decided && r->of->decided(r->subject, until_ns, &o)) {
        struct expectation *e = r->expected;

        while (e < r->expected + r->waiting && !weir__slice_is(o.id, e->id))
            e++;
        if (e == r->expected + r->waiting) {
            vector_complain(r, "no caller waits as", o.id, 0);
            continue;
        }
        r->line = e->line;
        check(r, weir__slice_of(e->text), &o);
        r->line = line;
        *e = r->expected[--r->waiting];
    }
}

static void expect_later(struct vector_run *r, struct weir__slice expected,
                         const struct sim_outcome *o)
{
    struct expectation *e = &r->expected[r->waiting];

    if (r->waiting == WAITING_MAX || o->id.len == 0 || o->id.len >= sizeof e->id ||
        expected.len >= sizeof e->text) {
        vector_complain(r, "cannot remember which caller waits as", o->id, 0);
        return;
    }
    *e = (struct expectation){.line = r->line};
    memcpy(e->id, o->id.at, o->id.len);
    memcpy(e->text, expected.at, expected.len);
    r->waiting++;
}

static void end_case(struct vector_run *r)
{
    if (!r->subject)
        return;
    check_decided(r, INT64_MAX);
    for (; r->waiting > 0; r->waiting--) {
        r->line = r->expected[r->waiting - 1].line;
        vector_complain(r, "never decided", weir__slice_of(r->expected[r->waiting - 1].id), 0);
    }
    r->of->close(r->subject);
    r->subject = NULL;
    r->cases++;
    r->failed += r->case_failed;
    r->case_failed = false;
}

static void begin_case(struct vector_run *r, int64_t start_ns)
{
    r->time_ns = 0;
    r->moved = false;
    r->subject = r->of->open(r->of->arg, start_ns);
    if (!r->subject)
        abort();
}

/* Cuts `=> ...` and `*N` off the line. */
static void split(struct weir__slice *line, struct weir__slice *expected, int64_t *times)
{
    const char *arrow = line->len > 0 ? memmem(line->at, line->len, "=>", 2) : NULL;
    const char *star;

    *expected = (struct weir__slice){line->at, 0};
    *times = 1;
    if (arrow) {
        *expected = (struct weir__slice){arrow + 2, line->len - (size_t)(arrow + 2 - line->at)};
        line->len = (size_t)(arrow - line->at);
    }
    star = line->len > 0 ? memrchr(line->at, '*', line->len) : NULL;
    if (star && star > line->at && star[-1] == ' ') {
        struct weir__slice count = {star + 1, line->len - (size_t)(star + 1 - line->at)};

        if (weir__parse_int(weir__slice_word(&count), times) == WEIR__NUMBER_OK)
            line->len = (size_t)(star - line->at);
    }
}

/* The line with the number in place of every @. */
static struct weir__slice numbered(struct weir__slice line, int64_t number, char out[LINE_MAX])
{
    struct weir__out o = {out, LINE_MAX, 0};

    for (size_t i = 0; i < line.len; i++) {
        if (line.at[i] == '@')
            weir__out_int(&o, number);
        else
            weir__out_bytes(&o, &line.at[i], 1);
    }
    return (struct weir__slice){out, o.len < LINE_MAX ? o.len : LINE_MAX};
}

/* The event at a whole tick of the subject's clock. */
static void move_to_tick(struct vector_run *r, struct sim_event *event, struct weir__slice expected)
{
    const int64_t tick_ns = r->of->tick_ns;

    if (tick_ns == 0 || !event->timed || event->time_ns % tick_ns == 0)
        return;
    r->moved = true;
    event->time_ns = has_word(expected, weir__slice_of("deny"))
                         ? weir__max(event->time_ns / tick_ns * tick_ns, r->time_ns)
                         : whole_ticks(event->time_ns, tick_ns);
}

/* The line for the i-th time. */
static void run_event(struct vector_run *r, struct weir__slice line, struct weir__slice expected,
                      int64_t i)
{
    char text[LINE_MAX];
    struct sim_error error;
    struct sim_event event;
    struct sim_outcome outcome;
    const bool compares = !r->moved;

    switch (sim_script_parse(numbered(line, i, text), &event, &error)) {
    case SIM_LINE_EMPTY: return;
    case SIM_LINE_BAD: vector_complain(r, error.text, line, 0); return;
    case SIM_LINE_EVENT: break;
    }
    move_to_tick(r, &event, expected);
    r->time_ns = event.timed ? event.time_ns : r->time_ns;
    check_decided(r, r->time_ns);
    if (!r->of->apply(r->subject, &event, &outcome, &error))
        vector_complain(r, error.text, line, 0);
    else if (outcome.queued)
        expect_later(r, expected, &outcome);
    else if (compares)
        check(r, expected, &outcome);
    check_decided(r, r->time_ns);
}

static void run_line(struct vector_run *r, struct weir__slice line)
{
    struct weir__slice expected, rest = line, word = weir__slice_word(&rest);
    struct sim_error error;
    int64_t times, start_ns;

    if (weir__slice_is(word, "case")) {
        end_case(r);
        word = weir__slice_word(&rest);
        (void)snprintf(r->name, sizeof r->name, "%.*s", (int)word.len, word.at);
        begin_case(r, SIM_START_NS);
        return;
    }
    if (weir__slice_is(word, "start")) {
        if (!sim_date_parse(weir__slice_word(&rest), &start_ns, &error))
            vector_complain(r, error.text, line, 0);
        r->of->close(r->subject);
        begin_case(r, start_ns);
        return;
    }
    split(&line, &expected, &times);
    for (int64_t i = 1; i <= times; i++)
        run_event(r, line, expected, i);
}

static void run_file(struct vector_run *r, const char *path)
{
    FILE *f = fopen(path, "rb");
    char line[LINE_MAX];

    if (!f) {
        perror(path);
        exit(2);
    }
    r->path = path;
    r->line = 0;
    while (fgets(line, sizeof line, f)) {
        const size_t len = strcspn(line, "\n");
        const char *comment = strstr(line, " #");

        r->line++;
        if (line[0] != '#')
            run_line(r, (struct weir__slice){line, comment ? (size_t)(comment - line) : len});
    }
    end_case(r);
    (void)fclose(f);
}

int vectors_run(const char *name, const struct vector_subject *subject, int n, char **paths)
{
    struct vector_run r = {.of = subject};

    for (int i = 0; i < n; i++)
        run_file(&r, paths[i]);
    (void)printf("%s: %d passed, %d failed\n", name, r.cases - r.failed, r.failed);
    return r.failed > 0 || r.cases == 0;
}
