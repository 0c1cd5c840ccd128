/* RESP, the writing half: a byte that tells the kind, a number or text, and \r\n. */
#include "proto/resp.h"

#include <assert.h>
#include <string.h>

static const char PAIRS[] = "00010203040506070809101112131415161718192021222324"
                            "25262728293031323334353637383940414243444546474849"
                            "50515253545556575859606162636465666768697071727374"
                            "75767778798081828384858687888990919293949596979899";

static char *put_line_end(char *at)
{
    memcpy(at, "\r\n", 2);
    return at + 2;
}

static int width_of(uint64_t value)
{
    for (int width = 1;; width += 4) {
        if (value < 10)
            return width;
        if (value < 100)
            return width + 1;
        if (value < 1000)
            return width + 2;
        if (value < 10000)
            return width + 3;
        value /= 10000;
    }
}

/* From the last digit to the first, two at a time, right where they belong. */
static char *put_number(char *at, uint64_t value)
{
    char *const end = at + width_of(value);
    char *p = end;

    while (value >= 100) {
        p -= 2;
        memcpy(p, PAIRS + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(at, PAIRS + value * 2, 2);
    else
        *at = (char)('0' + value);
    return end;
}

static char *put_head(char *at, char kind, uint64_t value)
{
    *at++ = kind;
    return put_line_end(put_number(at, value));
}

char *resp_int(char *at, int64_t value)
{
    if (value >= 0)
        return put_head(at, ':', (uint64_t)value);
    memcpy(at, ":-", 2);
    return put_line_end(put_number(at + 2, 0 - (uint64_t)value));
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
    if (len > 0) /* nothing may come as NULL, which memcpy may not be given */
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
