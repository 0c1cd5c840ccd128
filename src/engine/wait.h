/* Time as a caller counts it who may have to wait: the engine's clock, or from a time of the caller's on
 * as time passes. */
#ifndef WEIR_ENGINE_WAIT_H
#define WEIR_ENGINE_WAIT_H

#include "engine/engine.h"

/* How often a waiter looks at what nobody tells it: a clock that is not ours, a file that others change. */
#define WEIR__POLL_EVERY_NS (5 * WEIR__NS_PER_MS)

struct weir__timeline {
    const struct weir *w;
    int64_t shift_ns;
    bool given; /* the time it began at was the caller's */
};

struct weir__now weir__timeline_now(const struct weir__timeline *t);
/* 0, or WEIR_EINTR. */
int weir__timeline_sleep(const struct weir__timeline *t, int64_t until_ns);

#endif
