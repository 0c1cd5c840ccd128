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
#ifndef WEIR_ENGINE_TURNSTILE_H
#define WEIR_ENGINE_TURNSTILE_H

#include <stdbool.h>
#include <stdint.h>

#include "engine/bell.h"
#include "engine/fork.h"

struct weir__waiter {
    struct weir__waiter *next;
    struct weir__bell bell;
};

/* Zero is empty. weir__fork_prepare comes first. */
struct weir__turnstile {
    struct weir__lock lock;
    uint32_t generation; /* whose waiters these are */
    struct weir__waiter *first, *last;
};

void weir__turnstile_join(struct weir__turnstile *t, struct weir__waiter *w);
void weir__turnstile_leave(struct weir__turnstile *t, struct weir__waiter *w);
bool weir__turnstile_is_first(struct weir__turnstile *t, const struct weir__waiter *w);

/* Returns once w is rung for, or after ns: 0; or EINTR. */
int weir__turnstile_pause(struct weir__waiter *w, int64_t ns);

/* Something has changed that the first, if there is one, should know. */
void weir__turnstile_ring(struct weir__turnstile *t);

#endif
