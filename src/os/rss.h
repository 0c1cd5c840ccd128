/* How much of the process's own memory the system really has given to it. Private memory is reserved as
 * address space and comes when it is touched, in pages of more than one size: what was written to says
 * less than the system does. resident_none.c is for where it is not asked. */
#ifndef WEIR_OS_RSS_H
#define WEIR_OS_RSS_H

#include <stddef.h>
#include <stdint.h>

/* Of so many bytes from the beginning of a page on, those that are in memory; `guess` if the system does
 * not say. */
uint64_t weir__rss(const void *at, size_t bytes, uint64_t guess);

#endif
