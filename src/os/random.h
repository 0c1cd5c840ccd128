/* Random numbers: 64 bits for each call, from a generator that each thread has (splitmix64).
 *
 * The generator is seeded from a secret of the caller, so that an attacker cannot predict it. The
 * child of a fork seeds it again, so that parent and child draw different numbers. */
#ifndef WEIR_OS_RANDOM_H
#define WEIR_OS_RANDOM_H

#include "os/lock.h"

struct weir__random {
    uint64_t state;
    uint32_t generation; /* the process generation (fork.h) of the seed; 0: not seeded */
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
