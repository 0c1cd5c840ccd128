/* Random numbers: 64 bits a call, from a generator of each thread's own (splitmix64).
 *
 * The generator is seeded from a secret of the caller's, so that an attacker cannot predict it, and again in
 * the child of a fork, so that parent and child draw different numbers. */
#ifndef WEIR_OS_RANDOM_H
#define WEIR_OS_RANDOM_H

#include "os/lock.h"

struct weir__random {
    uint64_t state;
    uint32_t generation; /* of processes; 0: not seeded */
};

extern __thread struct weir__random weir__random_self __attribute__((tls_model("initial-exec")));

void weir__random_seed(const uint64_t secret[2]);

/* The secret is read only when the generator must be seeded. */
static inline uint64_t weir__random_next(const uint64_t secret[2])
{
    struct weir__random *r = &weir__random_self;
    uint64_t x;

    if (__builtin_expect(r->generation != weir__owner_private.number, 0))
        weir__random_seed(secret);
    x = r->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

#endif
