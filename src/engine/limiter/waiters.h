/* The wait list of a limiter: its waiters, in the order in which they came.
 *
 * Only the first waiter asks; when it leaves, it wakes the next. A waiter is a struct on the stack
 * of its thread, and is in the list from join to leave.
 *
 * Invariants:
 *   (1) A waiter that joined earlier comes first, unless it left.
 *   (2) A wakeup is never lost: one that comes before the first waiter pauses ends its next pause.
 *   (3) After fork() the list is empty: the waiters were threads of the parent.
 */
#ifndef WEIR_ENGINE_LIMITER_WAITERS_H
#define WEIR_ENGINE_LIMITER_WAITERS_H

#include <stdbool.h>
#include <stdint.h>

#include "os/fork.h"
#include "os/wakeup.h"

struct weir__limiter_waiter {
    struct weir__limiter_waiter *next;
    struct weir__wakeup wakeup;
};

/* Zero is an empty list. Call weir__fork_prepare first. */
struct weir__waiters {
    struct weir__lock lock;
    uint32_t generation; /* the process generation (fork.h) of the waiters */
    struct weir__limiter_waiter *first, *last;
};

void weir__waiters_join(struct weir__waiters *t, struct weir__limiter_waiter *w);
void weir__waiters_leave(struct weir__waiters *t, struct weir__limiter_waiter *w);
bool weir__waiters_is_first(struct weir__waiters *t, const struct weir__limiter_waiter *w);

/* Waits until w is woken, or for ns. Returns 0, or EINTR. */
int weir__waiters_pause(struct weir__limiter_waiter *w, int64_t ns);

/* Wakes the first waiter, if there is one: something has changed. */
void weir__waiters_wake(struct weir__waiters *t);

#endif
