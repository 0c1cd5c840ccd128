/* The resident part of the process's memory on systems that are not asked: the caller's guess. */
#include "os/rss.h"

uint64_t weir__rss(const void *at, size_t bytes, uint64_t guess)
{
    (void)at;
    (void)bytes;
    return guess;
}
