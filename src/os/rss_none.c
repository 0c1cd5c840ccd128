/* The system is not asked what is in memory. */
#include "os/rss.h"

uint64_t weir__rss(const void *at, size_t bytes, uint64_t guess)
{
    (void)at;
    (void)bytes;
    return guess;
}
