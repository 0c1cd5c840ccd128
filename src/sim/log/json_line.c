/* Parses lines that are JSON objects. A value within another object has a name with dots:
 * request.remote_ip. Of arrays, only the first value has a name: that of the array, because a
 * header field that a proxy logs is a list of one. Strings keep their escapes until they are
 * wanted.
 */
#include <string.h>

#include "base/digits.h"
#include "sim/log/log.h"

enum { JSON_PATH_MAX = 256 };

struct json_walk {
    const char *at, *end;
    log_found_fn *found;
    void *to;
    char path[JSON_PATH_MAX];
    size_t len; /* of the path; more than it holds: the name is too long to be wanted */
};

static bool json_value(struct json_walk *w, int depth);

static void json_skip(struct json_walk *w)
{
    while (w->at < w->end && (*w->at == ' ' || *w->at == '\t' || *w->at == '\r'))
        w->at++;
}

static bool json_is(struct json_walk *w, char c)
{
    json_skip(w);
    if (w->at == w->end || *w->at != c)
        return false;
    w->at++;
    return true;
}

/* A string, its escapes as they are. */
static bool json_string(struct json_walk *w, struct weir__slice *s)
{
    const char *p;

    if (!json_is(w, '"'))
        return false;
    for (p = w->at; p < w->end && *p != '"'; p++)
        p += *p == '\\';
    if (p >= w->end)
        return false;
    *s = (struct weir__slice){w->at, (size_t)(p - w->at)};
    w->at = p + 1;
    return true;
}

static void json_report(struct json_walk *w, struct weir__slice value)
{
    if (w->len <= sizeof w->path)
        w->found(w->to, (struct weir__slice){w->path, w->len}, value);
}

/* Adds ".name" to the path; returns its length before. */
static size_t json_enter(struct json_walk *w, struct weir__slice name)
{
    const size_t before = w->len, dot = before > 0;

    if (before + dot + name.len <= sizeof w->path) {
        if (dot)
            w->path[before] = '.';
        memcpy(w->path + before + dot, name.at, name.len);
    }
    w->len = before > sizeof w->path ? before : before + dot + name.len;
    return before;
}

static bool json_object(struct json_walk *w, int depth)
{
    if (json_is(w, '}'))
        return true;
    do {
        struct weir__slice name;
        size_t before;

        if (!json_string(w, &name) || !json_is(w, ':'))
            return false;
        before = json_enter(w, name);
        if (!json_value(w, depth + 1))
            return false;
        w->len = before;
    } while (json_is(w, ','));
    return json_is(w, '}');
}

static void json_ignore(void *to, struct weir__slice name, struct weir__slice value)
{
    (void)to, (void)name, (void)value;
}

static bool json_array(struct json_walk *w, int depth)
{
    log_found_fn *const found = w->found;
    bool good = true;

    if (json_is(w, ']'))
        return true;
    do {
        good = json_value(w, depth + 1);
        w->found = json_ignore;
    } while (good && json_is(w, ','));
    w->found = found;
    return good && json_is(w, ']');
}

/* A number, true, false or null: what stands up to the next mark. */
static bool json_word(struct json_walk *w)
{
    const char *const begin = w->at;
    struct weir__slice word;

    while (w->at < w->end && *w->at != ',' && *w->at != '}' && *w->at != ']' && *w->at != ' ' &&
           *w->at != '\t' && *w->at != '\r')
        w->at++;
    word = (struct weir__slice){begin, (size_t)(w->at - begin)};
    if (word.len == 0)
        return false;
    if (!weir__slice_is(word, "null"))
        json_report(w, word);
    return *begin == '-' || (*begin >= '0' && *begin <= '9') || weir__slice_is(word, "null") ||
           weir__slice_is(word, "true") || weir__slice_is(word, "false");
}

static bool json_value(struct json_walk *w, int depth)
{
    struct weir__slice text;

    json_skip(w);
    if (w->at == w->end || depth > LOG_DEPTH_MAX)
        return false;
    switch (*w->at) {
    case '{': w->at++; return json_object(w, depth);
    case '[': w->at++; return json_array(w, depth);
    case '"':
        if (!json_string(w, &text))
            return false;
        json_report(w, text);
        return true;
    default: return json_word(w);
    }
}

bool log_walk_json(struct weir__slice line, log_found_fn *found, void *to)
{
    struct json_walk w = {.at = line.at, .end = line.at + line.len, .found = found, .to = to};

    if (!json_is(&w, '{') || !json_object(&w, 0))
        return false;
    json_skip(&w);
    return w.at == w.end;
}

/* ---- Wanted values --------------------------------------------------------------------------- */

static void json_put_utf8(struct log_values *v, uint32_t c)
{
    char utf8[4];
    size_t n = 0;

    if (c < 0x80) {
        utf8[n++] = (char)c;
    } else if (c < 0x800) {
        utf8[n++] = (char)(0xc0 | c >> 6);
        utf8[n++] = (char)(0x80 | (c & 0x3f));
    } else {
        utf8[n++] = (char)(0xe0 | c >> 12);
        utf8[n++] = (char)(0x80 | (c >> 6 & 0x3f));
        utf8[n++] = (char)(0x80 | (c & 0x3f));
    }
    if (v->used + n > sizeof v->scratch)
        return;
    memcpy(v->scratch + v->used, utf8, n);
    v->used += n;
}

/* \uXXXX as UTF-8: half of a pair stays a half, because a key need only be the same each time. */
static size_t json_put_hex(struct log_values *v, struct weir__slice raw, size_t i)
{
    uint32_t c = 0;

    for (size_t digit = 1; digit <= 4; digit++) {
        const int value = i + digit < raw.len ? weir__hex_of(raw.at[i + digit]) : -1;

        if (value < 0)
            return i;
        c = c << 4 | (uint32_t)value;
    }
    json_put_utf8(v, c);
    return i + 4;
}

static struct weir__slice json_unescape(struct weir__slice raw, struct log_values *v)
{
    static const char FROM[] = "bfnrt", TO[] = "\b\f\n\r\t";
    const size_t from = v->used;

    if (!memchr(raw.at, '\\', raw.len))
        return raw;
    for (size_t i = 0; i < raw.len; i++) {
        const char *special;

        if (raw.at[i] != '\\' || i + 1 == raw.len) {
            if (v->used < sizeof v->scratch)
                v->scratch[v->used++] = raw.at[i];
            continue;
        }
        special = memchr(FROM, raw.at[++i], sizeof FROM - 1);
        if (raw.at[i] == 'u')
            i = json_put_hex(v, raw, i);
        else
            json_put_utf8(v, (unsigned char)(special ? TO[special - FROM] : raw.at[i]));
    }
    return (struct weir__slice){v->scratch + from, v->used - from};
}

struct json_search {
    const struct log_format *format;
    struct log_values *values;
};

static void json_found(void *to, struct weir__slice name, struct weir__slice value)
{
    const struct json_search *const s = to;

    for (int i = 0; i < s->format->wants; i++)
        if (!s->values->value[i].at && weir__slice_equal(name, s->format->want[i].name))
            s->values->value[i] = json_unescape(value, s->values);
}

bool log_parse_json(const struct log_format *f, struct weir__slice line, struct log_values *v)
{
    return log_walk_json(line, json_found, &(struct json_search){f, v});
}
