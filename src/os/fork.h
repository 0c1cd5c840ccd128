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

/* What a module does around a fork; each may be NULL. */
struct weir__fork_hooks {
    void (*before)(void);       /* in the parent, the module that was added last first */
    void (*after_parent)(void); /* the module that was added first first */
    void (*after_child)(void);  /* the same, in the child's one thread */
};

#define WEIR__FORK_HOOKS_MAX 8

/* Adds a module's hooks, once; they live as long as the process. This is the one place that registers with
 * pthread_atfork, so that the order of all modules is the order in which they were added. */
void weir__fork_add(const struct weir__fork_hooks *hooks);

#endif
