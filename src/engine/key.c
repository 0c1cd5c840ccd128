/* Joining several parts into one key. */
#include <string.h>

#include <weir.h>

/* Writes the length with seven bits in each byte, the low ones first; the eighth bit says that more
 * bytes follow. Nine bytes are enough for the length of any object. */
static size_t key_put_length(unsigned char out[10], size_t len)
{
    size_t n = 0;

    for (; len >= 0x80; len >>= 7)
        out[n++] = (unsigned char)(len & 0x7f) | 0x80;
    out[n++] = (unsigned char)len;
    return n;
}

static size_t key_put(void *out, size_t cap, size_t at, const void *bytes, size_t len)
{
    if (at < cap && len > 0)
        memcpy((char *)out + at, bytes, len < cap - at ? len : cap - at);
    return at + len;
}

size_t weir_key_join(void *out, size_t cap, const struct weir_bytes *part, size_t n)
{
    size_t at = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned char length[10];

        at = key_put(out, cap, at, length, key_put_length(length, part[i].len));
        at = key_put(out, cap, at, part[i].at, part[i].len);
    }
    return at;
}
