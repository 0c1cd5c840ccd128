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

/* When a waiter asks again. Zero at first. */
struct weir__retry {
    int64_t at_ns; /* or -1: the waiter gives up */
    int refuted;   /* refusals in a row that the peek after them contradicted */
};

/* Plans the next request of a waiter that was refused at now_ns, with all its patience. `without`
 * is the answer of a peek without patience, because to such a peek every algorithm says when the
 * request can pass by itself. If that is now, something has changed since the refusal, or the store
 * has no place for any key: the waiter asks again after 1 ms, and each time after twice as long, up
 * to a second; the last time at its deadline. at_ns is later than now_ns, and not later than the
 * deadline. */
void weir__retry_plan(struct weir__retry *again, const struct weir_verdict *without, int64_t now_ns,
                      int64_t deadline_ns);

#endif
