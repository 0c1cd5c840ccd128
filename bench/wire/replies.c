/* Counting replies, a block of bytes at a time. */
#include "replies.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK = 128 }; /* so that counts fit a byte, and the compiler counts 16 or more at once */

static void count_block(struct reply_tally *t, const char *b, size_t len)
{
    uint8_t lines = 0, errors = 0, arrays = 0, limited = 0;

    for (size_t i = 0; i < len; i++) {
        const char *at = b + i;
        const int begins = at[-1] == '\n';

        lines = (uint8_t)(lines + (at[0] == '\n'));
        errors = (uint8_t)(errors + (begins & (at[0] == '-')));
        arrays = (uint8_t)(arrays + (begins & (at[0] == '*')));
        limited = (uint8_t)(limited + ((at[-6] == '\n') & (at[-5] == '*') & (at[-1] == ':') &
                                       (at[0] == '1')));
    }
    t->lines += lines;
    t->errors += errors;
    t->arrays += arrays;
    t->limited += limited;
}

void reply_tally_add(struct reply_tally *t, const char *bytes, size_t len)
{
    for (; len >= BLOCK; bytes += BLOCK, len -= BLOCK)
        count_block(t, bytes, BLOCK);
    count_block(t, bytes, len);
}

unsigned reply_lines(const char *bytes, size_t len)
{
    if (len < 4 || !memchr(bytes, '\n', len))
        return 0;
    switch (bytes[0]) {
    case '+':
    case ':':
    case '-': return 1;
    case '*': return 1 + (unsigned)strtoul(bytes + 1, NULL, 10);
    default: return 0;
    }
}
