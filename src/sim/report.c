/* The lines that `weir sim` prints: one for each event, as text or JSON. */
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

/* How many bytes a UTF-8 character of this first byte has; 0 if none starts so. */
static size_t utf8_length(const char *at, size_t left)
{
    const unsigned char c = (unsigned char)*at;
    const size_t n = c < 0x80                ? 1
                     : c >= 0xc2 && c < 0xe0 ? 2
                     : c >= 0xe0 && c < 0xf0 ? 3
                     : c >= 0xf0 && c < 0xf5 ? 4
                                             : 0;

    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if (((unsigned char)at[i] & 0xc0) != 0x80)
            return 0;
    if ((c == 0xe0 && (unsigned char)at[1] < 0xa0) || (c == 0xed && (unsigned char)at[1] > 0x9f) ||
        (c == 0xf0 && (unsigned char)at[1] < 0x90) || (c == 0xf4 && (unsigned char)at[1] > 0x8f))
        return 0;
    return n;
}

void sim_json_string(FILE *to, struct weir__slice s)
{
    (void)putc('"', to);
    for (size_t i = 0; i < s.len;) {
        const size_t n = utf8_length(s.at + i, s.len - i);
        const char c = s.at[i];

        if (n == 0)
            (void)fputs("\\ufffd", to);
        else if (c == '"' || c == '\\')
            (void)fprintf(to, "\\%c", c);
        else if (n == 1 && (unsigned char)c < 0x20)
            (void)fprintf(to, "\\u%04x", (unsigned)c);
        else
            (void)fwrite(s.at + i, 1, n, to);
        i += n ? n : 1;
    }
    (void)putc('"', to);
}

static void put_json(FILE *to, const struct field *f)
{
    switch (f->kind) {
    case NOTHING: (void)fputs("null", to); break;
    case NUMBER: put_number(to, f->number); break;
    case WORD: sim_json_string(to, weir__slice_of(f->word)); break;
    case BYTES: sim_json_string(to, f->bytes); break;
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

void sim_report_line(struct sim_report *r, const struct sim_outcome *outcome)
{
    struct field f[FIELD_COUNT];
    const char *colour = !outcome->has_verdict      ? "\033[1m"
                         : outcome->verdict.allowed ? "\033[32m"
                                                    : "\033[31m";

    fields_of(outcome, f);
    if (r->colour)
        (void)fputs(colour, r->to);
    for (int i = 0; i < FIELD_COUNT; i++) {
        if (r->json)
            (void)fprintf(r->to, "%s\"%s\":", i == 0 ? "{" : ",", FIELDS[i]);
        else if (i > 0)
            (void)putc('\t', r->to);
        (r->json ? put_json : put_plain)(r->to, &f[i]);
    }
    (void)fputs(r->json ? "}" : "", r->to);
    (void)fputs(r->colour ? "\033[0m\n" : "\n", r->to);
}
