/* Makes arrays of keys. */
#include "keys.h"

#include <string.h>

#include "stopwatch.h"

enum { DIGITS = 16 };

/* An odd factor permutes the 64-bit numbers: different numbers stay different keys, and neighbours
 * share no prefix. */
static void write_key(const struct keys *k, size_t i, uint64_t number)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char *at = k->memory.bytes + (i + 1) * k->len;

    number *= UINT64_C(0x9e3779b97f4a7c15);
    if (k->len == sizeof number) {
        memcpy(at - sizeof number, &number, sizeof number);
        return;
    }
    for (int d = 0; d < DIGITS; d++, number >>= 4)
        *--at = (unsigned char)hex[number & 15];
}

void keys_open(struct keys *k, size_t len, size_t count)
{
    must(len == sizeof(uint64_t) || (len >= DIGITS && len % 8 == 0),
         "a key has 8, 16, 24, ... bytes");
    k->len = len;
    k->count = count;
    region_open(&k->memory, len * count);
    memset(k->memory.bytes, '.', len * count);
}

void keys_close(struct keys *k)
{
    region_close(&k->memory);
}

void keys_random(struct keys *k, uint64_t *seed, uint64_t population)
{
    for (size_t i = 0; i < k->count; i++)
        write_key(k, i, random_below(seed, population));
}

void keys_serial(struct keys *k, uint64_t first)
{
    for (size_t i = 0; i < k->count; i++)
        write_key(k, i, first + i);
}

uint64_t keys_read(const struct keys *k, size_t from, size_t to)
{
    const unsigned char *end = key_at(k, to);
    uint64_t sum = 0, word;

    for (const unsigned char *at = key_at(k, from); at < end; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        sum += word;
    }
    return sum;
}
