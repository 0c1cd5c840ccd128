/* A clock that sleepers move: no test on it takes longer than it needs. */
#ifndef WEIR_TESTS_DREAM_H
#define WEIR_TESTS_DREAM_H

#include "kit.h"

/* Whoever sleeps is there at once; some sleeps are disturbed. */
struct dream {
    int64_t now_ns;
    int sleeps, disturbed; /* disturbed: the n-th sleep, from 1; 0 none */
    int64_t until_ns;      /* of the last */
    int64_t late_ns;       /* how much later than told sleepers wake */
};

static inline int64_t dream_now(void *arg)
{
    return ((struct dream *)arg)->now_ns;
}

static inline int dream_sleep(void *arg, int64_t until_ns)
{
    struct dream *d = arg;

    d->until_ns = until_ns;
    if (++d->sleeps == d->disturbed)
        return 1;
    if (until_ns > d->now_ns)
        d->now_ns = until_ns + d->late_ns;
    return 0;
}

static inline struct weir *open_dream(struct dream *d)
{
    const struct weir_clock clock = {dream_now, dream_sleep, d};

    *d = (struct dream){.now_ns = T0};
    return place_open(&(struct weir_options){.clock = &clock});
}

#endif
