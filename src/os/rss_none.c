/* The system is not asked what is in memory. */
#include "engine/resident.h"

uint64_t weir__resident(const void *at, size_t bytes, uint64_t guess)
{
    (void)at;
    (void)bytes;
    return guess;
}
