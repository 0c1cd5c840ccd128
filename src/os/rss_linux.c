/* The resident part of the process's memory, by mincore(2). */
#include <sys/mman.h>
#include <unistd.h>

#include "os/rss.h"

#define PAGES_AT_ONCE 4096

static size_t less_of(size_t a, size_t b)
{
    return a < b ? a : b;
}

uint64_t weir__rss(const void *at, size_t bytes, uint64_t guess)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char in_memory[PAGES_AT_ONCE];
    uint64_t pages = 0;

    for (size_t from = 0, part; from < bytes; from += part) {
        part = less_of(bytes - from, PAGES_AT_ONCE * page);
        if (mincore((char *)at + from, part, in_memory) != 0)
            return guess;
        for (size_t i = 0; i < (part + page - 1) / page; i++)
            pages += in_memory[i] & 1;
    }
    return pages * page;
}
