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

    s->at += len;
    s->len -= len;
    return head;
}

static bool blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

struct weir__slice weir__slice_trim(struct weir__slice s)
{
    while (s.len > 0 && (blank(s.at[0]) || s.at[0] == '\n'))
        s = (struct weir__slice){s.at + 1, s.len - 1};
    while (s.len > 0 && (blank(s.at[s.len - 1]) || s.at[s.len - 1] == '\n'))
        s.len--;
    return s;
}

struct weir__slice weir__slice_word(struct weir__slice *s)
{
    struct weir__slice word;

    while (s->len > 0 && blank(*s->at)) {
        s->at++;
        s->len--;
    }
    word = (struct weir__slice){s->at, 0};
    while (s->len > 0 && !blank(*s->at)) {
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

void weir__out_quoted(struct weir__out *o, struct weir__slice word)
{
    enum { SHOWN = 40 };

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

void weir__out_url(struct weir__out *o, const char *url)
{
    static const char SECRET[] = "password=";
    const char *const slashes = strstr(url, "://");
    const char *const at = strrchr(url, '@');
    const char *const secret = strstr(url, SECRET);

    if (strncmp(url, "file:", 5) == 0 || (!at && !secret)) {
        out_printable(o, url, strlen(url));
        return;
    }
    if (at && slashes && slashes < at)
        out_printable(o, url, (size_t)(slashes + 3 - url));
    if (at)
        weir__out_text(o, "...");
    if (at && secret && secret < at) /* which of the two hides the other nobody knows */
        return;
    url = at ? at : url;
    out_printable(o, url, secret ? (size_t)(secret - url) + sizeof SECRET - 1 : strlen(url));
    weir__out_text(o, secret ? "..." : "");
}

size_t weir__out_end(struct weir__out *o)
{
    if (o->cap > 0)
        o->at[o->len < o->cap ? o->len : o->cap - 1] = '\0';
    return o->len;
}
