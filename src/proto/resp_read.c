/* RESP, the reading half: bytes to commands.
 *
 * A client sends a command as an array of strings, each announced by its length:
 *
 *     *2\r\n  $4\r\nECHO\r\n  $2\r\nhi\r\n
 *
 * or, by hand, as a line of words: `ECHO "hi"`. An array is read from left to right without looking
 * at the bytes of its strings, so a command costs as much as it has words (about 4 ns each:
 * read_short). A line is first searched for its end.
 *
 * Invariants:
 *   (1) The first impossible byte is refused, whatever follows it: a length that is too big is
 *       refused at its last digit so far, not when the string that it announces has arrived.
 *   (2) So a result other than RESP_MORE is the result for every continuation of the bytes.
 *   (3) No command is longer than `most` bytes, and RESP_MORE is returned only for fewer. Bytes
 *       after the first `most` are not read.
 *   (4) Lengths are digits without sign, blank or leading zero, as Redis writes and expects them.
 *       Only a count may have a minus, as in Redis: an array of -1 words is an empty one.
 *   (5) An inline word is never longer than its written form, so it is put together in place: the
 *       write position is never ahead of the read position.
 */
#include "proto/resp.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/digits.h"

/* A length is compared with its bound after every digit: ten times this, and nine, fits both
 * types. */
#define COMMAND_MAX ((size_t)LONG_MAX / 16)

enum { INTEGER_DIGITS = 19 }; /* of an int64_t */

enum resp_outcome { BAD = RESP_EPROTOCOL, MORE = RESP_MORE, DONE = 1 };

struct resp_reader {
    const char *bytes;
    size_t at, len, most; /* at <= len <= most */
    const char *why;      /* of BAD */
};

static inline enum resp_outcome resp_refuse(struct resp_reader *r, const char *why)
{
    r->why = why;
    return BAD;
}

static inline unsigned digit_of(char c)
{
    return (unsigned)(unsigned char)c - '0'; /* over 9: no digit */
}

/* The \r\n at `at`. */
static inline enum resp_outcome read_line_end(struct resp_reader *r, const char *why)
{
    if (r->at == r->len)
        return MORE;
    if (r->bytes[r->at] != '\r')
        return resp_refuse(r, why);
    if (r->at + 1 == r->len)
        return MORE;
    if (r->bytes[r->at + 1] != '\n')
        return resp_refuse(r, why);
    r->at += 2;
    return DONE;
}

/* What follows a '*' or '$': 0..bound, and the end of its line. */
static inline enum resp_outcome resp_read_length(struct resp_reader *r, size_t bound, size_t *value,
                                                 const char *why)
{
    const size_t first = r->at;
    size_t n = 0;

    for (; r->at < r->len; r->at++) {
        const unsigned digit = digit_of(r->bytes[r->at]);

        if (digit > 9)
            break;
        if (n == 0 && r->at > first)
            return resp_refuse(r, why);
        n = n * 10 + digit;
        if (n > bound)
            return resp_refuse(r, why);
    }
    if (r->at == first && r->at < r->len)
        return resp_refuse(r, why);
    *value = n;
    return read_line_end(r, why);
}

static inline enum resp_outcome read_bulk(struct resp_reader *r, struct weir__slice *word)
{
    size_t size;
    const enum resp_outcome header =
        resp_read_length(r, r->most, &size, "Protocol error: invalid bulk length");

    if (header != DONE)
        return header;
    if (size + 2 > r->most - r->at)
        return resp_refuse(r, "Protocol error: too big request");
    *word = (struct weir__slice){r->bytes + r->at, size};
    if (size > r->len - r->at)
        return MORE;
    r->at += size;
    return read_line_end(r, "Protocol error: expected CRLF after a bulk string");
}

/* Reads a complete bulk string of 1 to 99 bytes, as nearly all words are. False if it is
 * incomplete, longer or wrong; then nothing has been read. */
static inline bool read_short(struct resp_reader *r, struct weir__slice *word)
{
    const char *const p = r->bytes + r->at;
    const size_t left = r->len - r->at;
    size_t size, head = 4;

    if (left < 5 || p[0] != '$')
        return false;
    size = digit_of(p[1]);
    if (size - 1 > 8)
        return false;
    if (p[2] != '\r') {
        if (digit_of(p[2]) > 9)
            return false;
        size = size * 10 + digit_of(p[2]);
        head = 5;
    }
    if (memcmp(p + head - 2, "\r\n", 2) != 0 || left < head + size + 2 ||
        memcmp(p + head + size, "\r\n", 2) != 0)
        return false;
    *word = (struct weir__slice){p + head, size};
    r->at += head + size + 2;
    return true;
}

/* `:-5\r\n`. The word is the number without a plus. */
static enum resp_outcome read_integer(struct resp_reader *r, struct weir__slice *word)
{
    static const char WHY[] = "Protocol error: invalid integer";
    size_t first;

    if (r->at < r->len && r->bytes[r->at] == '+')
        r->at++;
    word->at = r->bytes + r->at;
    if (r->at < r->len && r->bytes[r->at] == '-' && r->bytes[r->at - 1] != '+')
        r->at++;
    first = r->at;
    while (r->at < r->len && digit_of(r->bytes[r->at]) <= 9) {
        if (r->at - first == INTEGER_DIGITS)
            return resp_refuse(r, WHY);
        r->at++;
    }
    if (r->at == first && r->at < r->len)
        return resp_refuse(r, WHY);
    word->len = (size_t)(r->bytes + r->at - word->at);
    return read_line_end(r, WHY);
}

/* `+OK\r\n`: up to the first byte of a line end. Bounded like a line, because unlike a bulk string
 * it is searched again whenever more bytes arrive. */
static enum resp_outcome read_simple(struct resp_reader *r, struct weir__slice *word)
{
    const char *const start = r->bytes + r->at;
    const size_t left = r->len - r->at;
    const size_t seen = left < RESP_LINE_MAX ? left : RESP_LINE_MAX;
    const char *const cr = memchr(start, '\r', seen);
    const char *const lf = memchr(start, '\n', cr ? (size_t)(cr - start) : seen);

    if (!cr && !lf)
        return left < RESP_LINE_MAX ? MORE
                                    : resp_refuse(r, "Protocol error: too big simple string");
    *word = (struct weir__slice){start, (size_t)((lf ? lf : cr) - start)};
    r->at += word->len;
    return read_line_end(r, "Protocol error: expected CRLF after a simple string");
}

static enum resp_outcome refuse_kind(struct resp_reader *r, struct resp_command *c)
{
    static const char SAYS[] = "Protocol error: expected '$', got '?'";
    const char got = r->bytes[r->at];

    static_assert(sizeof SAYS <= sizeof c->message, "the message has room");
    memcpy(c->message, SAYS, sizeof SAYS);
    if (got >= ' ' && got <= '~')
        c->message[sizeof SAYS - 3] = got;
    return resp_refuse(r, c->message);
}

/* Reads a word that is not a bulk string; at least its first byte has arrived. */
static enum resp_outcome read_other(struct resp_reader *r, struct resp_command *c,
                                    struct weir__slice *word)
{
    const char kind = r->bytes[r->at];

    if (kind != ':' && kind != '+')
        return refuse_kind(r, c);
    r->at++;
    return kind == ':' ? read_integer(r, word) : read_simple(r, word);
}

/* How many words follow. A count below zero is none; there is no -0. */
static inline enum resp_outcome resp_read_count(struct resp_reader *r, size_t *n)
{
    static const char WHY[] = "Protocol error: invalid multibulk length";
    enum resp_outcome how;

    if (r->at == r->len || r->bytes[r->at] != '-')
        return resp_read_length(r, RESP_WORDS_MAX, n, WHY);
    r->at++;
    if (r->at < r->len && r->bytes[r->at] == '0')
        return resp_refuse(r, WHY);
    how = resp_read_length(r, RESP_WORDS_MAX, n, WHY);
    *n = 0;
    return how;
}

static enum resp_outcome read_array(struct resp_reader *r, struct resp_command *c)
{
    size_t n = 0;
    enum resp_outcome how;

    r->at = 1;
    how = resp_read_count(r, &n);
    for (size_t i = 0; how == DONE && i < n; i++) {
        if (read_short(r, &c->word[i]))
            continue;
        if (r->at == r->len)
            return MORE;
        if (r->bytes[r->at] == '$') {
            r->at++;
            how = read_bulk(r, &c->word[i]);
        } else {
            how = read_other(r, c, &c->word[i]);
        }
    }
    c->n = n;
    return how;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* A \r counts as blank: the one before the \n needs no special case. */
static bool resp_is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* The character that an escape between double quotes stands for; *at moves past it. */
static char inline_escape(char **at, const char *end)
{
    const char c = *(*at)++;

    switch (c) {
    case 'n': return '\n';
    case 'r': return '\r';
    case 't': return '\t';
    case 'b': return '\b';
    case 'a': return '\a';
    case 'x':
        if (end - *at >= 2 && weir__hex_of((*at)[0]) >= 0 && weir__hex_of((*at)[1]) >= 0) {
            const int byte = weir__hex_of((*at)[0]) * 16 + weir__hex_of((*at)[1]);

            *at += 2;
            return (char)byte;
        }
        return c;
    default: return c;
    }
}

/* Reads from after a quote to after its closing quote, and writes what is between at *out. NULL if
 * there is no closing quote, or if the word continues after it. */
static char *inline_unquote(char *at, const char *end, char quote, char **out)
{
    while (at < end && *at != quote) {
        char c = *at++;

        if (c == '\\' && at < end && quote == '"')
            c = inline_escape(&at, end);
        else if (c == '\\' && at < end && *at == quote)
            c = *at++;
        *(*out)++ = c;
    }
    if (at == end || (at + 1 < end && !resp_is_blank(at[1])))
        return NULL;
    return at + 1;
}

/* Reads the word at `at`: returns its end, or NULL. As in Redis, a quote may open within a word. */
static char *read_word(char *at, const char *end, struct weir__slice *word)
{
    char *out = at;

    word->at = at;
    while (at && at < end && !resp_is_blank(*at)) {
        if (*at == '"' || *at == '\'')
            at = inline_unquote(at + 1, end, *at, &out);
        else
            *out++ = *at++;
    }
    word->len = (size_t)(out - word->at);
    return at;
}

static enum resp_outcome resp_read_line(struct resp_reader *r, char *bytes, struct resp_command *c)
{
    const size_t bound = r->most < RESP_LINE_MAX ? r->most : RESP_LINE_MAX;
    const char *const end = memchr(bytes, '\n', r->len < bound ? r->len : bound);
    char *at = bytes;

    if (!end)
        return r->len < bound ? MORE : resp_refuse(r, "Protocol error: too big inline request");
    for (c->n = 0;; c->n++) {
        while (at < end && resp_is_blank(*at))
            at++;
        if (at == end)
            break;
        if (c->n == RESP_WORDS_MAX)
            return resp_refuse(r, "Protocol error: too many words in inline request");
        at = read_word(at, end, &c->word[c->n]);
        if (!at)
            return resp_refuse(r, "Protocol error: unbalanced quotes in request");
    }
    r->at = (size_t)(end - bytes) + 1;
    return DONE;
}

/* ---- Commands -------------------------------------------------------------------------------- */

long resp_parse(char *bytes, size_t len, size_t most, struct resp_command *c, const char **why)
{
    struct resp_reader r = {.bytes = bytes, .most = most < COMMAND_MAX ? most : COMMAND_MAX};
    enum resp_outcome how;

    if (len == 0)
        return RESP_MORE;
    r.len = len < r.most ? len : r.most;
    how = bytes[0] == '*' ? read_array(&r, c) : resp_read_line(&r, bytes, c);
    if (how == MORE && r.len == r.most)
        how = resp_refuse(&r, "Protocol error: too big request");
    if (how == BAD)
        *why = r.why;
    return how == DONE ? (long)r.at : (long)how;
}

int resp_is_http(const char *bytes, size_t len)
{
    static const char VERSION[] = " HTTP/1."; /* and a digit */
    const size_t tail = sizeof VERSION;
    const bool whole = len >= RESP_LINE_MAX; /* no more is read */
    const char *end;
    size_t line;

    if (whole)
        len = RESP_LINE_MAX;
    for (; len >= 2 && memcmp(bytes, "\r\n", 2) == 0; len -= 2)
        bytes += 2;
    if (len > 0 && bytes[0] == '*')
        return 0;
    end = len > 0 ? memchr(bytes, '\n', len) : NULL;
    if (!end)
        return whole ? 0 : -1;
    line = (size_t)(end - bytes);
    if (line > 0 && bytes[line - 1] == '\r')
        line--;
    return line >= tail && memcmp(bytes + line - tail, VERSION, tail - 1) == 0 &&
           digit_of(bytes[line - 1]) <= 9;
}
