/* A bell that one thread waits for and others ring. bell_linux.c has a futex behind it;
 * bell_none.c, for where there is none, looks every millisecond. */
#ifndef WEIR_ENGINE_BELL_H
#define WEIR_ENGINE_BELL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Zero is silent. */
struct weir__bell {
    _Atomic uint32_t rung;
};

/* The bell must not go away meanwhile: whoever rings sees to it that its owner still waits. */
void weir__bell_ring(struct weir__bell *b);

/* Returns once it was rung, which it then forgets, or after ns: 0; or EINTR if a signal was handled
 * first, whether or not its handler asked for calls to be restarted. */
int weir__bell_await(struct weir__bell *b, int64_t ns);

/* Whether it has been rung, after ns at most (or a signal). It stays rung. Whoever goes away with its bell only
 * once this was true need not be waited for by those who ring: after the ring nothing of the bell is read. */
bool weir__bell_heard(struct weir__bell *b, int64_t ns);

#endif
