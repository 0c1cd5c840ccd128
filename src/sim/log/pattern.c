/* Parses lines by a pattern: fixed text with values between, as nginx' log_format writes them. The
 * common and combined formats are patterns too (format.c).
 *
 * A value ends where the whole text after it begins, so that a lone quote in a user agent does not
 * end it. In quotes, a backslash takes the next byte with it: Apache writes \" there.
 */
#include <string.h>

#include "sim/log/log.h"

static const char *find_text(const char *at, const char *end, struct weir__slice text)
{
    while (at < end) {
        at = memchr(at, text.at[0], (size_t)(end - at));
        if (!at || (size_t)(end - at) < text.len)
            return NULL;
        if (memcmp(at, text.at, text.len) == 0)
            return at;
        at++;
    }
    return NULL;
}

/* The same, but a byte behind a backslash does not count. */
static const char *find_unescaped(const char *at, const char *end, struct weir__slice text)
{
    const char *from = at;
    const char *found;

    while ((found = find_text(from, end, text))) {
        const char *slash = found;

        while (slash > at && slash[-1] == '\\')
            slash--;
        if ((found - slash) % 2 == 0)
            return found;
        from = found + 1;
    }
    return NULL;
}

/* The end of the value that begins at `at`; NULL: the text that should follow it is not there. */
static const char *value_end(const struct log_column *c, const char *at, const char *end)
{
    if (c->after.len == 0)
        return end;
    return c->quoted ? find_unescaped(at, end, c->after) : find_text(at, end, c->after);
}

/* The last quote of a line that has text behind it which the pattern does not know. */
static const char *value_cut(const struct log_column *c, const char *at, const char *end)
{
    return c->quoted && c->after.len > 0
               ? find_unescaped(at, end, (struct weir__slice){c->after.at, 1})
               : NULL;
}

bool log_parse_pattern(const struct log_format *f, struct weir__slice line, struct log_values *v)
{
    struct weir__slice value[LOG_COLUMNS_MAX];
    const char *at = line.at;
    const char *const end = line.at + line.len;
    const int last = f->rest_matters ? f->columns - 1 : f->last;

    if (line.len < f->before.len || memcmp(at, f->before.at, f->before.len) != 0)
        return false;
    at += f->before.len;
    for (int i = 0; i <= last; i++) {
        const struct log_column *const c = &f->column[i];
        const char *stop = value_end(c, at, end);

        if (!stop && i == f->columns - 1)
            stop = value_cut(c, at, end);
        if (!stop)
            return false;
        value[i] = (struct weir__slice){at, (size_t)(stop - at)};
        at = stop + c->after.len;
    }
    for (int i = 0; i < f->wants; i++)
        if (f->want[i].column >= 0)
            v->value[i] = value[f->want[i].column];
    return true;
}
