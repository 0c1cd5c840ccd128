/* Makes formats: from names, from an nginx log_format, from the first lines. */
#include "sim/log/format.h"

#include <string.h>

#include "sim/log/log_time.h"

#define CLF                                                          \
    "$remote_addr $logname $remote_user [$time_local] \"$request\" " \
    "$status $body_bytes_sent"
#define CLF_MORE " \"$http_referer\" \"$http_user_agent\""

/* The most particular first: the first one that reads most lines is taken. */
static const struct {
    const char *name, *pattern;
} PATTERNS[] = {
    {"vhost", "$host:$server_port " CLF CLF_MORE},
    {"combined", CLF CLF_MORE},
    {"common", CLF},
};
enum { PATTERNS_N = sizeof PATTERNS / sizeof PATTERNS[0] };

bool log_name_is(struct weir__slice a, struct weir__slice b)
{
    if (a.len != b.len)
        return false;
    for (size_t i = 0; i < a.len; i++) {
        const char x = a.at[i], y = b.at[i];
        const bool letter = (x | 0x20) >= 'a' && (x | 0x20) <= 'z';

        if (x != y && !(letter && (x ^ y) == 0x20))
            return false;
    }
    return true;
}

bool log_parse(const struct log_format *f, struct weir__slice line, struct log_values *v)
{
    memset(v->value, 0, sizeof v->value);
    v->used = 0;
    switch (f->kind) {
    case LOG_PATTERN: return log_parse_pattern(f, line, v);
    case LOG_JSON: return log_parse_json(f, line, v);
    case LOG_LOGFMT: return log_parse_logfmt(f, line, v);
    case LOG_CSV: return log_parse_csv(f, line, v);
    }
    return false;
}

/* ---- Patterns -------------------------------------------------------------------------------- */

static bool pattern_is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

/* $name or ${name} at p: its name, and the pattern behind it. */
static const char *pattern_variable(const char *p, struct weir__slice *name)
{
    const bool braces = p[1] == '{';
    const char *const at = p + 1 + braces;
    size_t len = 0;

    while (pattern_is_name(at[len]))
        len++;
    if (len == 0 || (braces && at[len] != '}'))
        return NULL;
    *name = (struct weir__slice){at, len};
    return at + len + braces;
}

static bool pattern_compile(struct log_format *f, struct sim_error *error)
{
    const char *p = f->text;

    f->kind = LOG_PATTERN;
    f->before = (struct weir__slice){p, strcspn(p, "$")};
    p += f->before.len;
    while (*p) {
        struct log_column *const c = &f->column[f->columns];
        const bool quoted = p > f->text && p[-1] == '"';

        if (f->columns == LOG_COLUMNS_MAX)
            return sim_fail(error, "a log_format may have at most %d variables", LOG_COLUMNS_MAX);
        p = pattern_variable(p, &c->name);
        if (!p)
            return sim_fail(error, "a name must follow each $ of a log_format");
        c->after = (struct weir__slice){p, strcspn(p, "$")};
        c->quoted = quoted;
        p += c->after.len;
        if (*p && c->after.len == 0)
            return sim_fail(error,
                            "log_format: text must stand between $%.*s and the next variable",
                            (int)c->name.len, c->name.at);
        f->columns++;
    }
    return f->columns > 0 || sim_fail(error, "a log_format has at least one $variable");
}

/* The text of a directive as it stands in nginx.conf: log_format main escape=json '...' '...'; Its
 * quoted pieces are one pattern. Any other text is a pattern already. */
static bool pattern_copy(struct log_format *f, const char *text, struct sim_error *error)
{
    size_t len = 0;
    const char *p = text;

    if (strncmp(text, "log_format", 10) != 0) {
        len = strlen(text);
        if (len > LOG_PATTERN_MAX)
            return sim_fail(error, "a log_format may have at most %d bytes", LOG_PATTERN_MAX);
        memcpy(f->text, text, len + 1);
        return true;
    }
    while ((p = strpbrk(p, "'\""))) {
        const char quote = *p++;

        for (; *p && *p != quote; p++) {
            p += p[0] == '\\' && p[1] == quote;
            if (len == LOG_PATTERN_MAX)
                return sim_fail(error, "a log_format may have at most %d bytes", LOG_PATTERN_MAX);
            f->text[len++] = *p;
        }
        if (!*p)
            return sim_fail(error, "log_format: a quote is not closed");
        p++;
    }
    f->text[len] = '\0';
    return true;
}

static bool format_pattern(struct log_format *f, const char *name, const char *text,
                           struct sim_error *error)
{
    memset(f, 0, sizeof *f);
    f->name = name;
    return pattern_copy(f, text, error) && pattern_compile(f, error);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

static bool table_names(struct log_format *f, struct weir__slice names, struct sim_error *error)
{
    const char *at = f->text, *end;

    if (names.len >= 3 && memcmp(names.at, "\xef\xbb\xbf", 3) == 0) /* a byte order mark */
        names = (struct weir__slice){names.at + 3, names.len - 3};
    if (names.len > LOG_PATTERN_MAX)
        return sim_fail(error, "the line of column names may have at most %d bytes",
                        LOG_PATTERN_MAX);
    memcpy(f->text, names.at, names.len);
    f->text[names.len] = '\0';
    end = at + names.len;
    for (;;) {
        const char *stop = at < end ? memchr(at, f->delimiter, (size_t)(end - at)) : NULL;
        struct weir__slice name;

        stop = stop ? stop : end;
        name = weir__slice_trim((struct weir__slice){at, (size_t)(stop - at)});
        if (name.len >= 2 && name.at[0] == '"' && name.at[name.len - 1] == '"')
            name = (struct weir__slice){name.at + 1, name.len - 2};
        if (f->columns == LOG_COLUMNS_MAX)
            return sim_fail(error, "a table may have at most %d columns", LOG_COLUMNS_MAX);
        f->column[f->columns++].name = name;
        if (stop == end)
            return true;
        at = stop + 1;
    }
}

static size_t table_count(struct weir__slice line, char delimiter)
{
    size_t n = 0;

    for (size_t i = 0; i < line.len; i++)
        n += line.at[i] == delimiter;
    return n;
}

/* The delimiter that the first line has most of. */
static char table_delimiter(struct weir__slice line)
{
    static const char DELIMITERS[] = "\t,;|";
    char best = ',';

    for (const char *d = DELIMITERS; *d; d++)
        if (table_count(line, *d) > table_count(line, best))
            best = *d;
    return best;
}

static bool format_table(struct log_format *f, char delimiter, const char *columns,
                         const struct log_sample *sample, struct sim_error *error)
{
    const struct weir__slice first = sample->n > 0 ? sample->line[0] : weir__slice_of("");

    memset(f, 0, sizeof *f);
    f->kind = LOG_CSV;
    f->delimiter = delimiter ? delimiter : table_delimiter(first);
    f->name = f->delimiter == '\t' ? "tsv" : "csv";
    f->quotes = f->delimiter != '\t';
    f->header = !columns;
    if (columns) {
        const char kept = f->delimiter;
        bool good;

        f->delimiter = ',';
        good = table_names(f, weir__slice_of(columns), error);
        f->delimiter = kept;
        return good;
    }
    return table_names(f, first, error);
}

/* ---- By looks -------------------------------------------------------------------------------- */

/* How many lines of the sample the format reads; those of a pattern must have its time. */
static int format_reads(const struct log_format *f, const struct log_sample *sample)
{
    static struct log_values values; /* too large for the stack */
    struct log_format probe = *f;
    const int time =
        f->kind == LOG_PATTERN ? log_format_want(&probe, weir__slice_of("time_local"), sample) : -1;
    const int port = f->kind == LOG_PATTERN
                         ? log_format_want(&probe, weir__slice_of("server_port"), sample)
                         : -1;
    int reads = 0;
    int64_t number;

    probe.last = probe.columns - 1;
    for (int i = 0; i < sample->n; i++)
        reads += log_parse(&probe, sample->line[i], &values) &&
                 (time < 0 || log_time_parse(values.value[time], LOG_TIME_CLF, &number)) &&
                 (port < 0 || weir__parse_int(values.value[port], &number) == WEIR__NUMBER_OK);
    return reads;
}

static bool format_other(struct log_format *f, enum log_kind kind, const char *name)
{
    memset(f, 0, sizeof *f);
    f->kind = kind;
    f->name = name;
    return true;
}

/* A first line of names: no empty one, none that is a number, and at least two. */
static bool looks_like_names(const struct log_format *f)
{
    for (int i = 0; i < f->columns; i++) {
        const struct weir__slice name = f->column[i].name;

        if (name.len == 0 || name.len > 64 || (name.at[0] >= '0' && name.at[0] <= '9') ||
            memchr(name.at, '"', name.len) || memchr(name.at, '[', name.len))
            return false;
    }
    return f->columns > 1;
}

static bool format_detect(struct log_format *f, const struct log_sample *sample,
                          struct sim_error *error)
{
    (void)format_other(f, LOG_JSON, "json");
    if (2 * format_reads(f, sample) > sample->n)
        return true;
    for (int i = 0; i < PATTERNS_N; i++)
        if (format_pattern(f, PATTERNS[i].name, PATTERNS[i].pattern, error) &&
            2 * format_reads(f, sample) > sample->n)
            return true;
    (void)format_other(f, LOG_LOGFMT, "logfmt");
    if (2 * format_reads(f, sample) > sample->n)
        return true;
    if (format_table(f, 0, NULL, sample, error) && looks_like_names(f))
        return true;
    return sim_fail(error, "the format is not known by its first lines; name it with --format "
                           "(common, combined, vhost, json, logfmt, csv, tsv or an nginx "
                           "log_format), or the columns of a table with --columns");
}

bool log_format_choose(struct log_format *f, const char *text, const char *columns,
                       const struct log_sample *sample, struct sim_error *error)
{
    const bool detects = !text || strcmp(text, "auto") == 0;

    if (columns && detects)
        return format_table(f, 0, columns, sample, error);
    if (detects)
        return format_detect(f, sample, error);
    if (strchr(text, '$'))
        return format_pattern(f, "log_format", text, error);
    for (int i = 0; i < PATTERNS_N; i++)
        if (strcmp(text, PATTERNS[i].name) == 0)
            return format_pattern(f, PATTERNS[i].name, PATTERNS[i].pattern, error);
    if (strcmp(text, "json") == 0)
        return format_other(f, LOG_JSON, "json");
    if (strcmp(text, "logfmt") == 0)
        return format_other(f, LOG_LOGFMT, "logfmt");
    if (strcmp(text, "csv") == 0)
        return format_table(f, 0, columns, sample, error);
    if (strcmp(text, "tsv") == 0)
        return format_table(f, '\t', columns, sample, error);
    return sim_fail(error, "unknown format '%.40s'; expected " LOG_FORMAT_WORDS, text);
}

/* ---- Columns --------------------------------------------------------------------------------- */

static int column_find(const struct log_format *f, struct weir__slice name)
{
    for (int i = 0; i < f->columns; i++)
        if (log_name_is(f->column[i].name, name))
            return i;
    return -1;
}

struct name_search {
    struct weir__slice name;
    char *as; /* how a line spells it, if that is wanted */
    bool found;
};

static void name_found(void *to, struct weir__slice name, struct weir__slice value)
{
    struct name_search *const s = to;

    (void)value;
    if (s->found || !log_name_is(name, s->name))
        return;
    s->found = true;
    if (s->as)
        memcpy(s->as, name.at, name.len);
}

/* Whether a line of the sample has the name; *as is how that line spells it. */
static bool sample_has(const struct log_format *f, struct weir__slice name,
                       const struct log_sample *sample, char *as)
{
    for (int i = 0; i < sample->n; i++) {
        struct name_search s = {name, as, false};

        (void)(f->kind == LOG_JSON ? log_walk_json : log_walk_logfmt)(sample->line[i], name_found,
                                                                      &s);
        if (s.found)
            return true;
    }
    return false;
}

/* method, uri and path are parts of a request line. */
static enum log_part part_of(struct weir__slice name)
{
    return log_name_is(name, weir__slice_of("method")) ? LOG_METHOD
           : log_name_is(name, weir__slice_of("uri"))  ? LOG_URI
           : log_name_is(name, weir__slice_of("path")) ? LOG_PATH
                                                       : LOG_WHOLE;
}

static bool free_named(const struct log_format *f)
{
    return f->kind == LOG_JSON || f->kind == LOG_LOGFMT;
}

bool log_format_has(const struct log_format *f, struct weir__slice name,
                    const struct log_sample *sample)
{
    if (free_named(f))
        return sample_has(f, name, sample, NULL);
    return column_find(f, name) >= 0 ||
           (part_of(name) != LOG_WHOLE && column_find(f, weir__slice_of("request")) >= 0);
}

/* Keeps the name as the sample spells it, behind what the text holds already. */
static bool want_spelled(struct log_format *f, struct log_want *w, const struct log_sample *sample)
{
    size_t used = 0;

    for (int i = 0; i < f->wants; i++)
        used += f->want[i].name.len;
    if (w->name.len == 0 || used + w->name.len > LOG_PATTERN_MAX)
        return false;
    if (!sample_has(f, w->name, sample, f->text + used))
        memcpy(f->text + used, w->name.at, w->name.len);
    w->name.at = f->text + used;
    return true;
}

int log_format_want(struct log_format *f, struct weir__slice name, const struct log_sample *sample)
{
    struct log_want w = {.name = name, .column = -1};

    if (!free_named(f)) {
        w.column = column_find(f, name);
        if (w.column < 0) {
            w.part = part_of(name);
            w.column = w.part != LOG_WHOLE ? column_find(f, weir__slice_of("request")) : -1;
        }
        if (w.column < 0)
            return -1;
    }
    for (int i = 0; i < f->wants; i++)
        if (free_named(f) ? log_name_is(f->want[i].name, name)
                          : f->want[i].column == w.column && f->want[i].part == w.part)
            return i;
    if (f->wants == LOG_WANTED_MAX || (free_named(f) && !want_spelled(f, &w, sample)))
        return -1;
    f->last = w.column > f->last ? w.column : f->last;
    f->want[f->wants] = w;
    return f->wants++;
}

struct name_list {
    struct weir__out *out;
    int n;
};

static void name_listed(void *to, struct weir__slice name, struct weir__slice value)
{
    struct name_list *const l = to;

    (void)value;
    if (++l->n > 32)
        return;
    weir__out_text(l->out, l->n > 1 ? ", " : "");
    for (size_t i = 0; i < name.len && i < 64; i++)
        weir__out_bytes(l->out, (unsigned char)name.at[i] < ' ' ? "?" : name.at + i, 1);
}

void log_format_columns(const struct log_format *f, const struct log_sample *sample,
                        struct weir__out *o)
{
    static const char *const PARTS[] = {"method", "uri", "path"}; /* of a request line */
    struct name_list list = {o, 0};

    for (int i = 0; i < f->columns; i++)
        name_listed(&list, f->column[i].name, f->column[i].name);
    for (size_t i = 0; i < 3 && column_find(f, weir__slice_of("request")) >= 0; i++)
        if (column_find(f, weir__slice_of(PARTS[i])) < 0)
            name_listed(&list, weir__slice_of(PARTS[i]), weir__slice_of(PARTS[i]));
    for (int i = 0; i < sample->n && free_named(f) && list.n == 0; i++)
        (void)(f->kind == LOG_JSON ? log_walk_json : log_walk_logfmt)(sample->line[i], name_listed,
                                                                      &list);
    if (list.n > 32)
        weir__out_text(o, ", ...");
}

bool log_format_names(const struct log_format *f, const struct log_sample *sample)
{
    struct weir__out none = {NULL, 0, 0};

    log_format_columns(f, sample, &none);
    return none.len > 0;
}
