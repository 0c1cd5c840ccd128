/* Those who wait, in the order they came.
 *
 * Only the first of them asks; when it leaves, the next is rung for. A waiter is its owner's, on
 * its stack, and in the row from join to leave.
 *
 * Invariants:
 *   (1) Whoever joined earlier comes first, unless it left.
 *   (2) A ring is never lost: one that comes before the first pauses is heard when it does.
 *   (3) After fork() nobody waits: the waiters were the parent's threads.
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

/* Zero is empty. weir__fork_prepare comes first. */
struct weir__waiters {
    struct weir__lock lock;
    uint32_t generation; /* whose waiters these are */
    struct weir__limiter_waiter *first, *last;
};

void weir__waiters_join(struct weir__waiters *t, struct weir__limiter_waiter *w);
void weir__waiters_leave(struct weir__waiters *t, struct weir__limiter_waiter *w);
bool weir__waiters_is_first(struct weir__waiters *t, const struct weir__limiter_waiter *w);

/* Returns once w is rung for, or after ns: 0; or EINTR. */
int weir__waiters_pause(struct weir__limiter_waiter *w, int64_t ns);

/* Something has changed that the first, if there is one, should know. */
void weir__waiters_wake(struct weir__waiters *t);

#endif
