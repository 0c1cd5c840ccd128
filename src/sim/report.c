/* Prints the lines of `weir sim`: one for each outcome, as text or as JSON. */
#include "sim/report.h"

#include <stdlib.h>
#include <string.h>

static const char *const FIELDS[] = {
    "time_ns", "verb",      "key",     "cost",           "verdict",        "reason",
    "limit",   "remaining", "wait_ns", "retry_after_ns", "reset_after_ns", "state",
};
enum { FIELD_COUNT = sizeof FIELDS / sizeof FIELDS[0] };

/* One field: a word, a number, or nothing. */
struct field {
    enum { NOTHING, NUMBER, WORD, BYTES } kind;
    int64_t number;
    const char *word;
    struct weir__slice bytes;
};

static struct field field_number(int64_t n)
{
    return (struct field){.kind = NUMBER, .number = n};
}

static struct field field_word(const char *text)
{
    return (struct field){.kind = WORD, .word = text};
}

static void fields_of(const struct sim_outcome *o, struct field f[FIELD_COUNT])
{
    const struct weir_verdict *v = &o->verdict;

    memset(f, 0, sizeof *f * FIELD_COUNT);
    f[0] = field_number(o->time_ns);
    f[1] = field_word(sim_verb_name(o->verb));
    if (!o->has_verdict)
        return;
    f[2] = (struct field){.kind = BYTES, .bytes = o->key};
    f[3] = field_number(o->cost);
    f[4] = field_word(v->allowed ? "allow" : "deny");
    f[5] = field_word(weir_reason_name(v->reason));
    f[6] = field_number(v->limit);
    f[7] = field_number(v->remaining);
    if (v->allowed)
        f[8] = field_number(v->wait_ns);
    else
        f[9] = field_number(v->retry_after_ns);
    f[10] = field_number(v->reset_after_ns);
    if (o->state.len > 0)
        f[11] = (struct field){.kind = BYTES, .bytes = o->state};
}

static void put_number(FILE *to, int64_t n)
{
    char digits[24];
    struct weir__out o = {digits, sizeof digits, 0};

    weir__out_int(&o, n);
    (void)fwrite(digits, 1, o.len, to);
}

static void json_to_file(void *to, const char *at, size_t len)
{
    (void)fwrite(at, 1, len, to);
}

struct weir__json sim_json_to(FILE *to)
{
    return (struct weir__json){.put = json_to_file, .to = to};
}

static void put_json(struct weir__json *j, const struct field *f)
{
    switch (f->kind) {
    case NOTHING: weir__json_null(j); break;
    case NUMBER: weir__json_int(j, f->number); break;
    case WORD: weir__json_text(j, f->word); break;
    case BYTES: weir__json_string(j, f->bytes); break;
    }
}

static void put_plain(FILE *to, const struct field *f)
{
    switch (f->kind) {
    case NOTHING: (void)putc('-', to); break;
    case NUMBER: put_number(to, f->number); break;
    case WORD: (void)fputs(f->word, to); break;
    case BYTES: (void)fwrite(f->bytes.at, 1, f->bytes.len, to); break;
    }
}

void sim_report_begin(struct sim_report *r)
{
    if (r->json)
        return;
    for (int i = 0; i < FIELD_COUNT; i++)
        (void)fprintf(r->to, "%s%s", i == 0 ? "#" : "\t", FIELDS[i]);
    (void)putc('\n', r->to);
}

static void report_json(FILE *to, const struct field f[FIELD_COUNT])
{
    struct weir__json j = sim_json_to(to);

    weir__json_open(&j, '{');
    for (int i = 0; i < FIELD_COUNT; i++) {
        weir__json_key(&j, FIELDS[i]);
        put_json(&j, &f[i]);
    }
    weir__json_close(&j, '}');
}

static void report_plain(FILE *to, const struct field f[FIELD_COUNT])
{
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (i > 0)
            (void)putc('\t', to);
        put_plain(to, &f[i]);
    }
}

void sim_report_line(struct sim_report *r, const struct sim_outcome *outcome)
{
    struct field f[FIELD_COUNT];
    const char *colour = !outcome->has_verdict      ? "\033[1m"
                         : outcome->verdict.allowed ? "\033[32m"
                                                    : "\033[31m";

    fields_of(outcome, f);
    if (r->colour)
        (void)fputs(colour, r->to);
    (r->json ? report_json : report_plain)(r->to, f);
    (void)fputs(r->colour ? "\033[0m\n" : "\n", r->to);
}
