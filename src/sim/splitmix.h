/* The random numbers of simulations, splitmix64: the same seed gives the same numbers on every
 * machine. */
#ifndef WEIR_SIM_SPLITMIX_H
#define WEIR_SIM_SPLITMIX_H

#include <stdint.h>

#define SIM_RANDOM_STEP UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t sim_random(uint64_t *state)
{
    uint64_t z = (*state += SIM_RANDOM_STEP);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif
