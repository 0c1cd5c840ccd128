/* SipHash-1-3. Attackers may choose the keys, and a table hashed with a secret gives them nothing
 * to aim at. It is in a header because it is a third of a decision, and is inlined there.
 */
#ifndef WEIR_BASE_HASH_H
#define WEIR_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct weir__sip {
    uint64_t v0, v1, v2, v3;
};

static inline uint64_t weir__sip_rotate(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void weir__sip_mix(struct weir__sip *s)
{
    s->v0 += s->v1;
    s->v1 = weir__sip_rotate(s->v1, 13) ^ s->v0;
    s->v0 = weir__sip_rotate(s->v0, 32);
    s->v2 += s->v3;
    s->v3 = weir__sip_rotate(s->v3, 16) ^ s->v2;
    s->v0 += s->v3;
    s->v3 = weir__sip_rotate(s->v3, 21) ^ s->v0;
    s->v2 += s->v1;
    s->v1 = weir__sip_rotate(s->v1, 17) ^ s->v2;
    s->v2 = weir__sip_rotate(s->v2, 32);
}

static inline void weir__sip_absorb(struct weir__sip *s, uint64_t word)
{
    s->v3 ^= word;
    weir__sip_mix(s);
    s->v0 ^= word;
}

/* The last 0..7 bytes, the first of them lowest, without reading beyond them. It uses overlapping
 * loads rather than a copy of variable length, which is a call. `len` is the length of the whole
 * text. */
static inline uint64_t weir__sip_tail(const unsigned char *at, size_t left, size_t len)
{
    uint64_t word;
    uint32_t low, high;

    if (left == 0)
        return 0;
    if (len >= 8) {
        memcpy(&word, at + left - 8, 8);
        return word >> (8 * (8 - left));
    }
    if (left >= 4) {
        memcpy(&low, at, 4);
        memcpy(&high, at + left - 4, 4);
        return low | (uint64_t)high << (8 * (left - 4));
    }
    return at[0] | (uint64_t)at[left / 2] << (8 * (left / 2)) |
           (uint64_t)at[left - 1] << (8 * (left - 1));
}

/* Little-endian machines only: weir is built for x86-64 and arm64. */
static inline uint64_t weir__hash(const void *bytes, size_t len, const uint64_t secret[2])
{
    const unsigned char *at = bytes;
    struct weir__sip s = {
        UINT64_C(0x736f6d6570736575) ^ secret[0], UINT64_C(0x646f72616e646f6d) ^ secret[1],
        UINT64_C(0x6c7967656e657261) ^ secret[0], UINT64_C(0x7465646279746573) ^ secret[1]};
    uint64_t word;
    size_t left = len;

    for (; left >= 8; left -= 8, at += 8) {
        memcpy(&word, at, 8);
        weir__sip_absorb(&s, word);
    }
    weir__sip_absorb(&s, weir__sip_tail(at, left, len) | (uint64_t)len << 56);
    s.v2 ^= 0xff;
    weir__sip_mix(&s);
    weir__sip_mix(&s);
    weir__sip_mix(&s);
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}

#endif
