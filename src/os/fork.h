/* Locks (os/lock.h) that outlive a fork.
 *
 * fork() copies a lock that another thread holds, but not the thread. So the seat by which the
 * locks of this process are taken has another number in every generation: one who finds a lock held
 * by the seat of an older generation knows that its holder is not here, and drops it. What the lock
 * guards is then as the holder left it, in the midst of a change perhaps: no worse than stale,
 * where its users write so that it is.
 */
#ifndef WEIR_OS_FORK_H
#define WEIR_OS_FORK_H

#include <stdint.h>

#include "os/lock.h"

/* Everybody's seat in this process. Its number is the generation. */
extern struct weir__owner weir__owner_process;

/* Before the first lock is taken by it. */
void weir__fork_prepare(void);

#endif
