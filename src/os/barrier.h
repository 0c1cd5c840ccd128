/* A memory barrier that one thread imposes on all others of its process, so that they need none.
 * Linux has membarrier(2); barrier_none.c is for where nothing of the kind is known. */
#ifndef WEIR_OS_BARRIER_H
#define WEIR_OS_BARRIER_H

#include <stdbool.h>

/* Whether weir__barrier_everywhere can be relied on. */
bool weir__barrier_known(void);

/* Returns once every thread of the process has passed a full barrier since the call began. */
void weir__barrier_everywhere(void);

#endif
