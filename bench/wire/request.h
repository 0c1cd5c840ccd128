/* Requests, rendered once and sent again and again: only the digits of their keys change. */
#ifndef WEIR_BENCH_REQUEST_H
#define WEIR_BENCH_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KEY_DIGITS = 12 };

/* Which key comes next: a random one, or each in turn. */
struct key_draw {
    uint64_t keys, seed;
    bool in_turn;
    uint64_t next;
};

/* `count` requests of equal length, one behind the other. */
struct requests {
    char *bytes;
    size_t count, each; /* bytes of one */
    size_t digits;      /* where a key's digits begin in each; 0: there is no key */
};

/* Renders one RESP command, an array of strings, `count` times. "%d" in a word stands for the
 * KEY_DIGITS digits of a key. */
void requests_open(struct requests *r, char *const *words, size_t n, size_t count);
/* Draws new keys for all of them. */
void requests_draw(struct requests *r, struct key_draw *d);

#endif
