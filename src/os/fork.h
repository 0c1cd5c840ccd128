/* Locks (os/lock.h) that survive a fork, and what modules do around one.
 *
 * fork() copies a lock that another thread holds, but not the thread. So the owner by which this
 * process takes its locks has another number in every generation: a thread that finds a lock held
 * by the owner of an older generation knows that the holder does not exist in this process, and
 * drops the lock. The data that the lock guards is then as the holder left it, perhaps in the
 * middle of a change: users of such a lock write their data so that it is then no worse than stale.
 *
 * The tables are never so: fork() is a moment at which no thread is inside an RCU section (rcu.h),
 * and decisions are made inside. This matters most, because the system copies a process page by
 * page while its other threads go on: a key that moves from a page that is not yet copied to one
 * that is would be in neither in the child, and would have its whole limit again.
 *
 * A module that has mutexes or threads adds hooks, which run in a fixed order around every fork.
 */
#ifndef WEIR_OS_FORK_H
#define WEIR_OS_FORK_H

#include <stdint.h>

#include "os/lock.h"

/* The owner for all threads of this process. Its number is the generation. */
extern struct weir__owner weir__owner_process;

/* Must be called before a lock is first taken by weir__owner_process. */
void weir__fork_prepare(void);

/* What a module does around a fork; each may be NULL. */
struct weir__fork_hooks {
    void (*before)(void);       /* in the parent; the module added last is called first */
    void (*after_parent)(void); /* the module added first is called first */
    void (*after_child)(void);  /* the same, in the one thread of the child */
};

#define WEIR__FORK_HOOKS_MAX 8

/* Adds a module's hooks, once; they live as long as the process. This is the one place that
 * registers with pthread_atfork, so that the order of all modules is the order in which they were
 * added. */
void weir__fork_add(const struct weir__fork_hooks *hooks);

#endif
