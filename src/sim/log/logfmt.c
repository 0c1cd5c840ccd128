/* Parses lines of logfmt: name=value name="a value with \"escapes\"" name. */
#include <string.h>

#include "sim/log/log.h"

static bool logfmt_is_name(char c)
{
    return (unsigned char)c > ' ' && c != '=' && c != '"' && c != 0x7f;
}

/* Moves behind the closing quote. NULL: there is none. */
static const char *logfmt_quote_end(const char *at, const char *end)
{
    while (at < end && *at != '"')
        at += *at == '\\' ? 2 : 1;
    return at < end ? at : NULL;
}

bool log_walk_logfmt(struct weir__slice line, log_found_fn *found, void *to)
{
    const char *at = line.at;
    const char *const end = line.at + line.len;
    int pairs = 0;

    while (at < end) {
        struct weir__slice name = {at, 0}, value = {NULL, 0};

        if (*at == ' ' || *at == '\t') {
            at++;
            continue;
        }
        while (at < end && logfmt_is_name(*at))
            at++;
        name.len = (size_t)(at - name.at);
        if (name.len == 0)
            return false;
        if (at < end && *at == '=') {
            const bool quoted = ++at < end && *at == '"';
            const char *stop = at += quoted;

            if (quoted)
                stop = logfmt_quote_end(at, end);
            else
                while (stop < end && *stop != ' ' && *stop != '\t')
                    stop++;
            if (!stop)
                return false;
            value = (struct weir__slice){at, (size_t)(stop - at)};
            at = stop + quoted;
            pairs++;
        }
        found(to, name, value);
    }
    return pairs > 0;
}

struct logfmt_search {
    const struct log_format *format;
    struct log_values *values;
};

static struct weir__slice logfmt_unescape(struct weir__slice raw, struct log_values *v)
{
    const size_t from = v->used;

    if (!raw.at || !memchr(raw.at, '\\', raw.len))
        return raw;
    for (size_t i = 0; i < raw.len; i++) {
        i += raw.at[i] == '\\' && i + 1 < raw.len;
        if (v->used < sizeof v->scratch)
            v->scratch[v->used++] = raw.at[i];
    }
    return (struct weir__slice){v->scratch + from, v->used - from};
}

static void logfmt_found(void *to, struct weir__slice name, struct weir__slice value)
{
    const struct logfmt_search *const s = to;

    for (int i = 0; i < s->format->wants; i++)
        if (!s->values->value[i].at && weir__slice_equal(name, s->format->want[i].name))
            s->values->value[i] = logfmt_unescape(value, s->values);
}

bool log_parse_logfmt(const struct log_format *f, struct weir__slice line, struct log_values *v)
{
    return log_walk_logfmt(line, logfmt_found, &(struct logfmt_search){f, v});
}
