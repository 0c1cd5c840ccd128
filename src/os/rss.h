/* The resident part of the process's own memory. Private memory is reserved as address space, and
 * the system backs it when it is touched, in pages of more than one size: so only the system knows
 * the exact amount. rss_none.c is for systems that are not asked. */
#ifndef WEIR_OS_RSS_H
#define WEIR_OS_RSS_H

#include <stddef.h>
#include <stdint.h>

/* The number of resident bytes among `bytes` bytes from `at`, which is the start of a page; `guess`
 * if the system does not say. */
uint64_t weir__rss(const void *at, size_t bytes, uint64_t guess);

#endif
