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

/* When a waiter asks again. Zero to begin with. */
struct weir__retry {
    int64_t at_ns; /* or -1: there is no point */
    int refuted;   /* how often in a row a refusal was refuted by the peek after it */
};

/* For a waiter that was refused at now_ns, with all its patience. `without` is what a peek without patience
 * says then, for so every algorithm says when the request can pass by itself. If that is now, something has
 * changed since the refusal, or the store has a place for nobody: the waiter asks again in 1 ms, and each
 * time after twice as long, up to a second; the last time at its deadline. at_ns is later than now_ns, and
 * not later than the deadline. */
void weir__retry_plan(struct weir__retry *again, const struct weir_verdict *without, int64_t now_ns,
                      int64_t deadline_ns);

#endif
