/* RESP as it is written, by a client and by a server: a mark, a number and a line end; or the same
 * before the bytes of a string. Sizes are exact, so that a writer can reserve first and need not
 * look for the end of its room.
 *
 * These are here rather than in a .c file for the reason that base/digits.h gives.
 */
#ifndef WEIR_BASE_RESP_PUT_H
#define WEIR_BASE_RESP_PUT_H

#include <stddef.h>

#include "base/digits.h"

/* Of *N or $N and the line end. */
static inline size_t weir__resp_head_size(size_t n)
{
    return 1 + (size_t)weir__digits_of(n) + 2;
}

static inline size_t weir__resp_bulk_size(size_t len)
{
    return weir__resp_head_size(len) + len + 2;
}

/* An empty string may be NULL, which memcpy must not get. */
static inline char *weir__resp_bytes(char *at, const void *bytes, size_t len)
{
    if (len > 0)
        memcpy(at, bytes, len);
    return at + len;
}

static inline char *weir__resp_end(char *at)
{
    return (char *)memcpy(at, "\r\n", 2) + 2;
}

static inline char *weir__resp_head(char *at, char mark, size_t n)
{
    *at = mark;
    return weir__resp_end(weir__put_digits(at + 1, n));
}

static inline char *weir__resp_bulk(char *at, const void *bytes, size_t len)
{
    return weir__resp_end(weir__resp_bytes(weir__resp_head(at, '$', len), bytes, len));
}

/* A command of n words. */
static inline size_t weir__resp_command_size(const char *const *word, size_t n)
{
    size_t size = weir__resp_head_size(n);

    for (size_t i = 0; i < n; i++)
        size += weir__resp_bulk_size(strlen(word[i]));
    return size;
}

static inline char *weir__resp_command(char *at, const char *const *word, size_t n)
{
    at = weir__resp_head(at, '*', n);
    for (size_t i = 0; i < n; i++)
        at = weir__resp_bulk(at, word[i], strlen(word[i]));
    return at;
}

#endif
