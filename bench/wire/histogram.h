/* Counts of times, in buckets whose width grows with the time: 64 to each doubling, so that a time
 * that is read back is exact to one part in 64. */
#ifndef WEIR_BENCH_HISTOGRAM_H
#define WEIR_BENCH_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_STEPS = 64, HISTOGRAM_DOUBLINGS = 40 };

struct histogram {
    uint64_t total, most_ns;
    uint64_t count[HISTOGRAM_STEPS * HISTOGRAM_DOUBLINGS];
};

/* Up to 127 every nanosecond has its own bucket; from there on 64 buckets share a doubling. */
static inline unsigned histogram_place(uint64_t ns)
{
    const unsigned shift = ns < 2 * HISTOGRAM_STEPS ? 0 : 57 - (unsigned)__builtin_clzll(ns);
    const unsigned place = shift * HISTOGRAM_STEPS + (unsigned)(ns >> shift);
    const unsigned last = HISTOGRAM_STEPS * HISTOGRAM_DOUBLINGS - 1;

    return place < last ? place : last;
}

/* The least time that belongs to a place. */
static inline uint64_t histogram_least(unsigned place)
{
    const unsigned shift = place < 2 * HISTOGRAM_STEPS ? 0 : place / HISTOGRAM_STEPS - 1;

    return (uint64_t)(place - shift * HISTOGRAM_STEPS) << shift;
}

static inline void histogram_add(struct histogram *h, uint64_t ns, uint64_t times)
{
    h->count[histogram_place(ns)] += times;
    h->total += times;
    if (ns > h->most_ns)
        h->most_ns = ns;
}

/* The time that `permille` of a thousand samples did not exceed. */
static inline uint64_t histogram_at(const struct histogram *h, unsigned permille)
{
    uint64_t left = (h->total * permille + 999) / 1000;

    for (unsigned i = 0; i < HISTOGRAM_STEPS * HISTOGRAM_DOUBLINGS; i++) {
        if (h->count[i] >= left)
            return histogram_least(i);
        left -= h->count[i];
    }
    return h->most_ns;
}

#endif
