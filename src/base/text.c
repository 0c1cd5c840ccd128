/* Slices, the bounded writer, and store URLs with their secrets hidden. */
#include "base/text.h"

#include <string.h>

#include "base/digits.h"

struct weir__slice weir__slice_of(const char *text)
{
    return (struct weir__slice){text, strlen(text)};
}

bool weir__slice_is(struct weir__slice s, const char *text)
{
    return weir__slice_equal(s, weir__slice_of(text));
}

bool weir__slice_equal(struct weir__slice a, struct weir__slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.at, b.at, a.len) == 0);
}

struct weir__slice weir__slice_cut(struct weir__slice *s, char stop)
{
    const char *hit = s->len > 0 ? memchr(s->at, stop, s->len) : NULL;
    const size_t len = hit ? (size_t)(hit - s->at) : s->len;
    const struct weir__slice head = {s->at, len};

    s->at = len > 0 ? s->at + len : s->at; /* an empty slice may have no bytes at all */
    s->len -= len;
    return head;
}

static bool slice_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

struct weir__slice weir__slice_trim(struct weir__slice s)
{
    while (s.len > 0 && (slice_is_blank(s.at[0]) || s.at[0] == '\n'))
        s = (struct weir__slice){s.at + 1, s.len - 1};
    while (s.len > 0 && (slice_is_blank(s.at[s.len - 1]) || s.at[s.len - 1] == '\n'))
        s.len--;
    return s;
}

struct weir__slice weir__slice_word(struct weir__slice *s)
{
    struct weir__slice word;

    while (s->len > 0 && slice_is_blank(*s->at)) {
        s->at++;
        s->len--;
    }
    word = (struct weir__slice){s->at, 0};
    while (s->len > 0 && !slice_is_blank(*s->at)) {
        s->at++;
        s->len--;
        word.len++;
    }
    return word;
}

int weir__slice_distance(struct weir__slice a, struct weir__slice b)
{
    enum { LONGEST = 32 };
    int row[LONGEST + 1];

    if (a.len > LONGEST || b.len > LONGEST)
        return LONGEST;
    for (int j = 0; j <= (int)b.len; j++)
        row[j] = j;
    for (int i = 1; i <= (int)a.len; i++) {
        int corner = row[0];

        row[0] = i;
        for (int j = 1; j <= (int)b.len; j++) {
            const int above = row[j];
            int best = corner + (a.at[i - 1] != b.at[j - 1]);

            if (above + 1 < best)
                best = above + 1;
            if (row[j - 1] + 1 < best)
                best = row[j - 1] + 1;
            corner = above;
            row[j] = best;
        }
    }
    return row[b.len];
}

void weir__out_bytes(struct weir__out *o, const char *at, size_t len)
{
    if (o->len < o->cap) {
        const size_t room = o->cap - o->len;

        memcpy(o->at + o->len, at, len < room ? len : room);
    }
    o->len += len;
}

void weir__out_text(struct weir__out *o, const char *text)
{
    weir__out_bytes(o, text, strlen(text));
}

void weir__out_int(struct weir__out *o, int64_t value)
{
    char digits[WEIR__INT_MOST];

    weir__out_bytes(o, digits, (size_t)(weir__put_int(digits, value) - digits));
}

void weir__out_grouped(struct weir__out *o, uint64_t value)
{
    if (value >= 1000) {
        const char rest[4] = {',', (char)('0' + value % 1000 / 100), (char)('0' + value % 100 / 10),
                              (char)('0' + value % 10)};

        weir__out_grouped(o, value / 1000);
        weir__out_bytes(o, rest, sizeof rest);
    } else {
        weir__out_int(o, (int64_t)value);
    }
}

/* Whether the word may be a URL that contains a password. */
static bool looks_secret(struct weir__slice word)
{
    bool colon = false;

    for (size_t i = 0; i < word.len; i++) {
        if ((colon && word.at[i] == '@') ||
            (word.len - i >= 2 && memcmp(word.at + i, ":/", 2) == 0))
            return true;
        colon = colon || word.at[i] == ':';
    }
    return false;
}

void weir__out_quoted(struct weir__out *o, struct weir__slice word)
{
    enum { SHOWN = 40 };

    if (looks_secret(word)) {
        weir__out_text(o, "'***'");
        return;
    }
    weir__out_text(o, "'");
    for (size_t i = 0; i < word.len && i < SHOWN; i++) {
        const unsigned char c = (unsigned char)word.at[i];

        weir__out_bytes(o, c < 32 || c >= 127 ? "?" : &word.at[i], 1);
    }
    weir__out_text(o, word.len > SHOWN ? "...'" : "'");
}

static void out_printable(struct weir__out *o, const char *at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        weir__out_bytes(o, (unsigned char)at[i] < 32 || (unsigned char)at[i] >= 127 ? "?" : &at[i],
                        1);
}

/* ---- URLs ------------------------------------------------------------------------------------ */

#define HIDDEN  "***"
#define DIGITS  "0123456789"
#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

static bool slice_made_of(struct weir__slice s, const char *chars)
{
    for (size_t i = 0; i < s.len; i++)
        if (s.at[i] == '\0' || !strchr(chars, s.at[i]))
            return false;
    return true;
}

/* Writes the slice if it consists of these characters, else *** in its place. */
static void out_only(struct weir__out *o, struct weir__slice s, const char *chars)
{
    if (slice_made_of(s, chars))
        weir__out_bytes(o, s.at, s.len);
    else
        weir__out_text(o, HIDDEN);
}

/* Whether an option is no secret; `value` begins with its '='. What stands where a path or a
 * variable was expected may be the password itself. */
static bool option_is_harmless(struct weir__slice name, struct weir__slice value)
{
    static const char *const HARMLESS[] = {"timeout", "connections", "nodes", "prefix", "db"};

    for (size_t i = 0; i < sizeof HARMLESS / sizeof HARMLESS[0]; i++)
        if (weir__slice_is(name, HARMLESS[i]))
            return true;
    if (weir__slice_is(name, "password-file"))
        return value.len > 1 && value.at[1] == '/';
    return weir__slice_is(name, "password-env") && slice_made_of(value, "=_" DIGITS LETTERS);
}

/* Writes the options, from the '?' on. From the first option that is not known to be harmless, only
 * its name is shown: a password that contains a '&' looks like several options. */
static void out_options(struct weir__out *o, struct weir__slice rest)
{
    while (rest.len > 0) {
        struct weir__slice option, value, name;

        weir__out_bytes(o, rest.at, 1); /* the '?', or a '&' */
        rest = (struct weir__slice){rest.at + 1, rest.len - 1};
        option = value = weir__slice_cut(&rest, '&');
        name = weir__slice_cut(&value, '=');
        if (option_is_harmless(name, value)) {
            out_printable(o, option.at, option.len);
            continue;
        }
        if (value.len > 0)
            out_only(o, name, "-" LETTERS);
        weir__out_text(o, value.len > 0 ? "=" HIDDEN : option.len > 0 ? HIDDEN : "");
        return;
    }
}

/* HOST:PORT, or [HOST]:PORT. A port that is not a number may be a password without its '@'. */
static void out_where(struct weir__out *o, struct weir__slice where)
{
    struct weir__slice host = where;

    if (where.len > 0 && where.at[0] == '[') {
        host = weir__slice_cut(&where, ']');
        out_only(o, weir__slice_cut(&host, '%'), "[:.abcdefABCDEF" DIGITS);
        out_only(o, host, where.len > 0 ? "%-_." DIGITS LETTERS : "");
        out_only(o, where, "]:" DIGITS);
        return;
    }
    host = weir__slice_cut(&where, ':');
    out_only(o, host, "-_." DIGITS LETTERS);
    out_only(o, where, ":" DIGITS);
}

/* Writes what follows "redis://", or the '@' after it. */
static void out_remote(struct weir__out *o, struct weir__slice rest)
{
    const char *const end = rest.at + rest.len;
    struct weir__slice options, path;
    size_t len = 0;

    while (len < rest.len && !strchr("/?", rest.at[len]))
        len++;
    out_where(o, (struct weir__slice){rest.at, len});
    path = options = (struct weir__slice){rest.at + len, (size_t)(end - rest.at) - len};
    path = weir__slice_cut(&options, '?');
    if (path.len > 0)
        weir__out_text(o, "/");
    if (path.len > 1)
        out_only(o, (struct weir__slice){path.at + 1, path.len - 1}, DIGITS);
    out_options(o, options);
}

void weir__out_url(struct weir__out *o, const char *url)
{
    const char *const slashes = strstr(url, "://");
    const char *const at = strrchr(url, '@');
    struct weir__slice rest = weir__slice_of(url);

    if (strncmp(url, "file:", 5) == 0) {
        out_printable(o, url, strlen(url));
    } else if (at) {
        if (slashes && slashes < at) {
            out_only(o, (struct weir__slice){url, (size_t)(slashes - url)}, "+" LETTERS);
            weir__out_text(o, "://");
        }
        weir__out_text(o, HIDDEN "@");
        out_remote(o, weir__slice_of(at + 1));
    } else if (slashes) {
        out_only(o, (struct weir__slice){url, (size_t)(slashes - url)}, "+" LETTERS);
        weir__out_text(o, "://");
        out_remote(o, weir__slice_of(slashes + 3));
    } else { /* redis+unix:/path?options, memory:, or none at all */
        const struct weir__slice path = weir__slice_cut(&rest, '?');

        out_printable(o, path.at, path.len);
        out_options(o, rest);
    }
}

/* Where a secret may begin; NULL if there is none. */
static const char *text_secret_of(const char *text)
{
    const char *const store = strstr(text, "store=");
    const char *const url = strstr(text, ":/");
    const char *const at = strrchr(text, '@');
    const char *const colon = at ? memchr(text, ':', (size_t)(at - text)) : NULL;
    const char *from = store ? store + strlen("store=") : NULL;

    if (url && (!from || url < from))
        from = url;
    if (colon && (!from || colon < from))
        from = colon;
    return from;
}

void weir__out_limit(struct weir__out *o, const char *text)
{
    const char *const from = text_secret_of(text);

    out_printable(o, text, from ? (size_t)(from - text) : strlen(text));
    weir__out_text(o, from ? HIDDEN : "");
}

size_t weir__out_end(struct weir__out *o)
{
    if (o->cap > 0)
        o->at[o->len < o->cap ? o->len : o->cap - 1] = '\0';
    return o->len;
}
