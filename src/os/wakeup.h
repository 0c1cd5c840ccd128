/* A bell that one thread waits for and others ring. bell_linux.c has a futex behind it;
 * bell_none.c, for where there is none, looks every millisecond. */
#ifndef WEIR_OS_WAKEUP_H
#define WEIR_OS_WAKEUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero is silent. */
struct weir__wakeup {
    _Atomic uint32_t signaled;
};

/* The bell must not go away meanwhile: whoever rings sees to it that its owner still waits. */
void weir__wakeup_signal(struct weir__wakeup *b);

/* Returns once it was rung, which it then forgets, or after ns: 0; or EINTR if a signal was handled
 * first, whether or not its handler asked for calls to be restarted. */
int weir__wakeup_wait(struct weir__wakeup *b, int64_t ns);

/* Whether it has been rung, after ns at most (or a signal). It stays rung. Whoever goes away with its bell only
 * once this was true need not be waited for by those who ring: after the ring nothing of the bell is read. */
bool weir__wakeup_peek(struct weir__wakeup *b, int64_t ns);

#endif
