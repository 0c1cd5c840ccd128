/* A clock that sleepers move: no test on it takes longer than it needs. */
#ifndef WEIR_TESTS_ENGINE_VIRTUAL_CLOCK_H
#define WEIR_TESTS_ENGINE_VIRTUAL_CLOCK_H

#include "engine_test.h"

/* A sleeper arrives at once; some sleeps are interrupted. */
struct virtual_clock {
    int64_t now_ns;
    int sleeps, disturbed; /* disturbed: the n-th sleep, from 1; 0 none */
    int64_t until_ns;      /* of the last */
    int64_t late_ns;       /* how much later than told sleepers wake */
};

static inline int64_t virtual_clock_now(void *arg)
{
    return ((struct virtual_clock *)arg)->now_ns;
}

static inline int virtual_clock_sleep(void *arg, int64_t until_ns)
{
    struct virtual_clock *d = arg;

    d->until_ns = until_ns;
    if (++d->sleeps == d->disturbed)
        return 1;
    if (until_ns > d->now_ns)
        d->now_ns = until_ns + d->late_ns;
    return 0;
}

static inline struct weir *open_virtual_clock(struct virtual_clock *d)
{
    const struct weir_clock clock = {virtual_clock_now, virtual_clock_sleep, d};

    *d = (struct virtual_clock){.now_ns = T0};
    return backend_open(&(struct weir_options){.clock = &clock});
}

#endif
