/* Dice: 64 random bits for the guards that throw, from a generator of each thread's own (splitmix64). It
 * is seeded from the secret of the store that is first asked for, so that nobody outside can foretell
 * what is thrown; and anew in the child of a fork, or all children would throw alike. */
#ifndef WEIR_ENGINE_DICE_H
#define WEIR_ENGINE_DICE_H

#include "engine/store.h"

struct weir__dice {
    uint64_t state;
    uint32_t generation; /* of processes; 0: not seeded */
};

extern __thread struct weir__dice weir__dice_self __attribute__((tls_model("initial-exec")));

void weir__dice_seed(const struct weir__store *s);

static inline uint64_t weir__dice_throw(const struct weir__store *s)
{
    struct weir__dice *d = &weir__dice_self;
    uint64_t x;

    if (__builtin_expect(d->generation != weir__seat_private.number, 0))
        weir__dice_seed(s);
    x = d->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

#endif
