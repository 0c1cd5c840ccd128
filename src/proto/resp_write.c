/* RESP, the writing half: a byte for the kind, a number or text, and \r\n. */
#include "proto/resp.h"

#include <assert.h>
#include <string.h>

#include "base/resp_put.h"

char *resp_int(char *at, int64_t value)
{
    *at++ = ':';
    return weir__resp_end(weir__put_int(at, value));
}

char *resp_ints(char *at, size_t members, const int64_t *value, size_t n)
{
    assert(members < 10);
    *at++ = '*';
    *at++ = (char)('0' + members);
    at = weir__resp_end(at);
    for (size_t i = 0; i < n; i++)
        at = resp_int(at, value[i]);
    return at;
}

char *resp_array(char *at, size_t n)
{
    return weir__resp_head(at, '*', n);
}

char *resp_map(char *at, size_t n, bool resp3)
{
    assert(n <= SIZE_MAX / 2);
    return resp3 ? weir__resp_head(at, '%', n) : weir__resp_head(at, '*', n * 2);
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
    return weir__resp_bulk(at, bytes, len);
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
    return weir__resp_end(at + len);
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
    return weir__resp_end(at);
}
