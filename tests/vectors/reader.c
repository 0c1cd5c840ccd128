#include "reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/script.h"

struct run {
    const struct vector_subject *of;
    const char *path;
    int line, cases, failed;
    bool case_failed;
    char name[64];
    void *subject;
};

static void complain(struct run *r, const char *what, struct weir__slice word, int64_t got)
{
    r->case_failed = true;
    (void)printf("%s:%d: %s: %s '%.*s', got %lld\n", r->path, r->line, r->name, what, (int)word.len,
                 word.at, (long long)got);
}

static void end_case(struct run *r)
{
    if (!r->subject)
        return;
    r->of->close(r->subject);
    r->subject = NULL;
    r->cases++;
    r->failed += r->case_failed;
    r->case_failed = false;
}

static void begin_case(struct run *r, int64_t start_ns)
{
    r->subject = r->of->open(r->of->arg, start_ns);
    if (!r->subject)
        abort();
}

/* A duration with an optional ~tolerance, or never. */
static bool near(struct weir__slice text, int64_t got)
{
    struct weir__slice rest = text;
    const struct weir__slice middle = weir__slice_cut(&rest, '~');
    int64_t want = -1, slack = 0;

    if (!weir__slice_is(text, "never") && weir__parse_duration(middle, &want) != WEIR__NUMBER_OK)
        return false;
    if (rest.len > 0 && weir__parse_duration((struct weir__slice){rest.at + 1, rest.len - 1},
                                             &slack) != WEIR__NUMBER_OK)
        return false;
    return got >= want - slack && got <= want + slack;
}

static bool same(struct weir__slice text, int64_t got)
{
    int64_t want;

    return weir__parse_int(text, &want) == WEIR__NUMBER_OK && want == got;
}

/* One word behind `=>`; *got is what there was instead. */
static bool holds(struct weir__slice word, const struct sim_outcome *o, int64_t *got)
{
    const struct weir_verdict *v = &o->verdict;
    struct weir__slice value = word;
    const struct weir__slice name = weir__slice_cut(&value, '=');

    *got = v->allowed;
    if (weir__slice_is(word, "allow") || weir__slice_is(word, "deny"))
        return v->allowed == weir__slice_is(word, "allow");
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
        return near(value, *got = v->wait_ns) && v->allowed;
    if (weir__slice_is(name, "retry"))
        return near(value, *got = v->retry_after_ns) && !v->allowed;
    if (weir__slice_is(name, "reset"))
        return near(value, *got = v->reset_after_ns);
    return false;
}

static void check(struct run *r, struct weir__slice expected, const struct sim_outcome *o)
{
    for (;;) {
        const struct weir__slice word = weir__slice_word(&expected);
        int64_t got;

        if (word.len == 0)
            return;
        if (!holds(word, o, &got))
            complain(r, "expected", word, got);
    }
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

static void run_line(struct run *r, struct weir__slice line)
{
    struct weir__slice expected, rest = line, word = weir__slice_word(&rest);
    struct sim_error error;
    struct sim_event event;
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
            complain(r, error.text, line, 0);
        r->of->close(r->subject);
        begin_case(r, start_ns);
        return;
    }
    split(&line, &expected, &times);
    switch (sim_script_parse(line, &event, &error)) {
    case SIM_LINE_EMPTY: return;
    case SIM_LINE_BAD: complain(r, error.text, line, 0); return;
    case SIM_LINE_EVENT: break;
    }
    for (int64_t i = 0; i < times; i++) {
        struct sim_outcome outcome;

        if (!r->of->apply(r->subject, &event, &outcome, &error))
            complain(r, error.text, line, 0);
        else
            check(r, expected, &outcome);
    }
}

static void run_file(struct run *r, const char *path)
{
    FILE *f = fopen(path, "rb");
    char line[4096];

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
    struct run r = {.of = subject};

    for (int i = 0; i < n; i++)
        run_file(&r, paths[i]);
    (void)printf("%s: %d passed, %d failed\n", name, r.cases - r.failed, r.failed);
    return r.failed > 0 || r.cases == 0;
}
