/* A wakeup: one thread waits for it, and others signal it. wakeup_linux.c uses a futex;
 * wakeup_none.c, for systems without one, looks every millisecond. */
#ifndef WEIR_OS_WAKEUP_H
#define WEIR_OS_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero is not signaled. */
struct weir__wakeup {
    _Atomic uint32_t signaled;
};

/* Wakes the waiter. The wakeup must not be freed during the call: the caller makes sure that its
 * owner still waits. */
void weir__wakeup_signal(struct weir__wakeup *b);

/* Waits until the wakeup is signaled, or for ns, and clears it. Returns 0; or EINTR if a (POSIX)
 * signal was handled first, even if its handler was installed with SA_RESTART. */
int weir__wakeup_wait(struct weir__wakeup *b, int64_t ns);

/* Whether the wakeup is signaled, after waiting for ns at most (or until a POSIX signal). It stays
 * signaled. A waiter that frees its wakeup only after this returned true needs no other
 * synchronization: weir__wakeup_signal reads nothing of the wakeup after it has set it. */
bool weir__wakeup_peek(struct weir__wakeup *b, int64_t ns);

#endif
