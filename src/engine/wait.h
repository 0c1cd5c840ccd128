/* The timeline of a caller that may wait: the engine's clock, or a clock that starts at a time of
 * the caller's and runs at the speed of the engine's. And when a waiter asks again. */
#ifndef WEIR_ENGINE_WAIT_H
#define WEIR_ENGINE_WAIT_H

#include "engine/engine.h"

/* How often a waiter polls what cannot wake it: a clock that is not ours, a file that other
 * processes change. */
#define WEIR__POLL_EVERY_NS (5 * WEIR__NS_PER_MS)

struct weir__timeline {
    const struct weir *w;
    int64_t shift_ns;
    bool given; /* the caller gave the time at which it starts */
};

struct weir__now weir__timeline_now(const struct weir__timeline *t);
/* Sleeps until that time. Returns 0, or WEIR_EINTR. */
int weir__timeline_sleep(const struct weir__timeline *t, int64_t until_ns);

#endif
