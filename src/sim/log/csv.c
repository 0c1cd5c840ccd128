/* Parses lines of tables: values between delimiters. With quotes, a value may stand in double
 * quotes, in which "" is one quote. A line is a row: values cannot hold line ends. */
#include <string.h>

#include "sim/log/log.h"

/* A value in quotes: without them, and with "" undone. *at is behind the first quote, and moves
 * behind the last one. */
static bool csv_quoted(const char **at, const char *end, struct log_values *v,
                       struct weir__slice *value)
{
    const char *const begin = *at;
    bool doubled = false;
    const char *p = begin;
    size_t from;

    while ((p = memchr(p, '"', (size_t)(end - p))) && p + 1 < end && p[1] == '"') {
        doubled = true;
        p += 2;
    }
    if (!p)
        return false;
    *at = p + 1;
    *value = (struct weir__slice){begin, (size_t)(p - begin)};
    if (!doubled)
        return true;
    from = v->used;
    for (const char *c = begin; c < p; c += *c == '"' ? 2 : 1)
        v->scratch[v->used++] = *c;
    *value = (struct weir__slice){v->scratch + from, v->used - from};
    return true;
}

static bool csv_value(const struct log_format *f, const char **at, const char *end,
                      struct log_values *v, struct weir__slice *value)
{
    const char *stop;

    if (f->quotes && *at < end && **at == '"') {
        ++*at;
        return csv_quoted(at, end, v, value) && (*at == end || **at == f->delimiter);
    }
    stop = *at < end ? memchr(*at, f->delimiter, (size_t)(end - *at)) : NULL;
    stop = stop ? stop : end;
    *value = (struct weir__slice){*at, (size_t)(stop - *at)};
    *at = stop;
    return true;
}

bool log_parse_csv(const struct log_format *f, struct weir__slice line, struct log_values *v)
{
    struct weir__slice value[LOG_COLUMNS_MAX];
    const char *at = line.at;
    const char *const end = line.at + line.len;

    for (int i = 0; i <= f->last; i++) {
        if (!csv_value(f, &at, end, v, &value[i]))
            return false;
        if (at == end && i < f->last)
            return false; /* the row is shorter than the columns that are wanted */
        at += at < end;
    }
    for (int i = 0; i < f->wants; i++)
        if (f->want[i].column >= 0)
            v->value[i] = value[f->want[i].column];
    return true;
}
