/* Waiting for a lock of four bytes; see lock.h. */
#include "os/lock.h"

#include <sched.h>

#define SPINS 200

int weir__lock_yield(struct weir__owner *s, struct weir__lock *l, uint32_t holder, unsigned looks)
{
    (void)looks;
    /* After fork() the child has another number: a holder with an old one is a thread of the
     * parent, and does not exist here. */
    if (holder != s->number)
        (void)atomic_compare_exchange_strong(&l->holder, &holder, 0);
    else
        (void)sched_yield();
    return 0;
}

struct weir__owner weir__owner_private = {.number = 1, .stuck = weir__lock_yield};

static void lock_relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

int weir__lock_wait(struct weir__lock *l, struct weir__owner *s)
{
    for (unsigned spins = 0, looks = 0;; spins++) {
        const uint32_t holder = atomic_load_explicit(&l->holder, memory_order_relaxed);
        int error;

        if (holder == 0)
            return 0;
        if (spins < SPINS) {
            lock_relax();
            continue;
        }
        error = s->stuck(s, l, holder, looks++);
        if (error)
            return error;
    }
}
