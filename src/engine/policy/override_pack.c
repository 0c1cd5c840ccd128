/* Packed limits: the words of a term that are not 0, each with its number.
 *
 * A term has some fifty words, and a limit sets five or six of them. So a term is a count, and then
 * for each word that is not 0 its number and its value: seven bits in each byte, the low ones
 * first, folded so that small negative values are short too. A token bucket takes about 20 bytes
 * instead of 368. Fields that the term gets later are packed without a change here.
 */
#include <string.h>

#include "engine/policy/overrides.h"

#define WORDS (sizeof(struct weir_term) / sizeof(uint64_t))
static_assert(sizeof(struct weir_term) % sizeof(uint64_t) == 0 && WORDS < 256,
              "the number of a word is a byte");

static size_t put_byte(unsigned char *out, size_t cap, size_t at, unsigned char byte)
{
    if (at < cap)
        out[at] = byte;
    return at + 1;
}

static size_t put_word(unsigned char *out, size_t cap, size_t at, uint64_t word)
{
    uint64_t folded = word << 1 ^ (uint64_t) - (int64_t)(word >> 63);

    for (; folded >= 0x80; folded >>= 7)
        at = put_byte(out, cap, at, (unsigned char)(folded | 0x80));
    return put_byte(out, cap, at, (unsigned char)folded);
}

static size_t term_pack(const struct weir_term *term, unsigned char *out, size_t cap, size_t at)
{
    uint64_t word[WORDS];
    unsigned char count = 0;

    memcpy(word, term, sizeof word);
    for (size_t i = 0; i < WORDS; i++)
        count = (unsigned char)(count + (word[i] != 0));
    at = put_byte(out, cap, at, count);
    for (size_t i = 0; i < WORDS; i++)
        if (word[i] != 0) {
            at = put_byte(out, cap, at, (unsigned char)i);
            at = put_word(out, cap, at, word[i]);
        }
    return at;
}

size_t weir__terms_pack(const struct weir_term *term, int n, unsigned char *out, size_t cap)
{
    size_t at = 0;

    for (int i = 0; i < n; i++)
        at = term_pack(&term[i], out, cap, at);
    return at;
}

const unsigned char *weir__term_unpack(const unsigned char *at, struct weir_term *term)
{
    uint64_t word[WORDS] = {0};

    for (int left = *at++; left > 0; left--) {
        const size_t i = *at++;
        uint64_t folded = 0;
        int shift = 0;

        for (; *at & 0x80; shift += 7)
            folded |= (uint64_t)(*at++ & 0x7f) << shift;
        folded |= (uint64_t)*at++ << shift;
        word[i] = folded >> 1 ^ (uint64_t) - (int64_t)(folded & 1);
    }
    memcpy(term, word, sizeof *term);
    return at;
}
