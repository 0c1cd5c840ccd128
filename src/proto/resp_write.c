/* RESP, the writing half: a byte for the kind, a number or text, and \r\n. */
#include "proto/resp.h"

#include <assert.h>
#include <string.h>

#include "base/digits.h"

static char *put_line_end(char *at)
{
    memcpy(at, "\r\n", 2);
    return at + 2;
}

static char *put_head(char *at, char kind, uint64_t value)
{
    *at++ = kind;
    return put_line_end(weir__put_digits(at, value));
}

char *resp_int(char *at, int64_t value)
{
    *at++ = ':';
    return put_line_end(weir__put_int(at, value));
}

char *resp_array(char *at, size_t n)
{
    return put_head(at, '*', n);
}

char *resp_map(char *at, size_t n, bool resp3)
{
    assert(n <= SIZE_MAX / 2);
    return resp3 ? put_head(at, '%', n) : put_head(at, '*', n * 2);
}

char *resp_null(char *at, bool resp3)
{
    const char *const text = resp3 ? "_\r\n" : "$-1\r\n";
    const size_t len = resp3 ? 3 : 5;

    memcpy(at, text, len);
    return at + len;
}

char *resp_bulk(char *at, const void *bytes, size_t len)
{
    at = put_head(at, '$', len);
    if (len > 0) /* an empty string may be NULL, which memcpy must not get */
        memcpy(at, bytes, len);
    return put_line_end(at + len);
}

char *resp_text(char *at, const char *text)
{
    return resp_bulk(at, text, strlen(text));
}

char *resp_simple(char *at, const char *text)
{
    const size_t len = strlen(text);

    *at++ = '+';
    memcpy(at, text, len);
    return put_line_end(at + len);
}

char *resp_error(char *at, const char *text)
{
    *at++ = '-';
    for (; *text != '\0'; text++) {
        const char c = *text;

        if (c == '\r' || c == '\n')
            *at++ = ' ';
        else
            *at++ = c >= ' ' && c <= '~' ? c : '?';
    }
    return put_line_end(at);
}
