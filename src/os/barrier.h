/* A memory barrier that one thread imposes on all other threads of its process, so that they need
 * none. On Linux it is membarrier(2) (barrier_linux.c); barrier_none.c is for systems without
 * one. */
#ifndef WEIR_OS_BARRIER_H
#define WEIR_OS_BARRIER_H

#include <stdbool.h>

/* Whether weir__barrier_everywhere can be relied on. */
bool weir__barrier_known(void);

/* Returns once every thread of the process has passed a full barrier since the call began. */
void weir__barrier_everywhere(void);

#endif
