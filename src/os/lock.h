/* A lock of four bytes, for critical sections of nanoseconds, and the owner that takes it.
 *
 * The lock word is 0, or the number of the owner that holds the lock. A thread that finds the lock
 * taken spins for a while, which is nearly always enough, and then asks its owner what to do about
 * the slow holder: in a private table the holder has lost the processor and will be back; in a
 * shared table it may be stopped, or dead.
 */
#ifndef WEIR_OS_LOCK_H
#define WEIR_OS_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weir__journal;

struct weir__lock {
    _Atomic uint32_t holder;
};

struct weir__owner {
    uint32_t number;               /* not 0 */
    struct weir__journal *journal; /* shared table: what a successor needs; else NULL */
    char *base;                    /* shared table: the origin of the journal's offsets */
    /* `holder` has held `l` for a long time; `looks` counts the calls from 0. Returns 0 to go on
     * waiting, or an error to give up. */
    int (*stuck)(struct weir__owner *s, struct weir__lock *l, uint32_t holder, unsigned looks);
};

/* The owner for all threads in private tables. */
extern struct weir__owner weir__owner_private;

/* The `stuck` of an owner that is this process: drops the lock of a thread that fork() left behind
 * in the parent, and yields to a thread of this process. */
int weir__lock_yield(struct weir__owner *s, struct weir__lock *l, uint32_t holder, unsigned looks);

/* Waits until the lock looks free. Returns 0, or the error with which `stuck` gave up. */
int weir__lock_wait(struct weir__lock *l, struct weir__owner *s);

static inline bool weir__lock_try(struct weir__lock *l, const struct weir__owner *s)
{
    uint32_t unheld = 0;

    return atomic_compare_exchange_strong_explicit(&l->holder, &unheld, s->number,
                                                   memory_order_acquire, memory_order_relaxed);
}

static inline int weir__lock_take(struct weir__lock *l, struct weir__owner *s)
{
    while (!weir__lock_try(l, s)) {
        const int error = weir__lock_wait(l, s);

        if (error)
            return error;
    }
    return 0;
}

static inline void weir__lock_drop(struct weir__lock *l)
{
    atomic_store_explicit(&l->holder, 0, memory_order_release);
}

#endif
