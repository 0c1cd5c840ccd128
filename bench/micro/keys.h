/* Arrays of keys, made before the clock runs and read in order while it does. */
#ifndef WEIR_BENCH_KEYS_H
#define WEIR_BENCH_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include "yardstick.h"

/* Keys of `len` bytes: 8 raw bytes, or 16 hexadecimal digits after padding. */
struct keys {
    struct region memory;
    size_t len, count;
};

void keys_open(struct keys *k, size_t len, size_t count);
void keys_close(struct keys *k);

/* Random keys of those numbered 0 to population - 1; or the keys from `first` on, in order. */
void keys_random(struct keys *k, uint64_t *seed, uint64_t population);
void keys_serial(struct keys *k, uint64_t first);

static inline const unsigned char *key_at(const struct keys *k, size_t i)
{
    return k->memory.bytes + i * k->len;
}

/* Reads all bytes of keys from..to-1: the cost of reading alone. */
uint64_t keys_read(const struct keys *k, size_t from, size_t to);

#endif
