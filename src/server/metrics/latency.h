/* How long requests take in the daemon: a histogram that each worker fills for itself.
 *
 * Measured is one service of a connection: from the moment its bytes were read to the moment its
 * replies were handed to the system. Every request answered in it counts with that time, because
 * none of them left earlier. Replies that come later (WAIT, a Redis) are not in it.
 *
 * The buckets are powers of two of a microsecond, so that finding one is an instruction.
 */
#ifndef WEIR_SERVER_METRICS_LATENCY_H
#define WEIR_SERVER_METRICS_LATENCY_H

#include <stdatomic.h>
#include <stdint.h>

#define LATENCY_BUCKETS 20 /* up to 4 us, 8 us, ... 1.05 s; the last one has no bound */
#define LATENCY_LEAST   4  /* us of the first bucket */

struct latency {
    _Atomic uint64_t n[LATENCY_BUCKETS];
    _Atomic uint64_t sum_ns;
};

static inline unsigned latency_bucket(uint64_t ns)
{
    const uint64_t units = (ns + 1000 * LATENCY_LEAST - 1) / (1000 * LATENCY_LEAST);
    const unsigned k = units <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(units - 1);

    return k < LATENCY_BUCKETS ? k : LATENCY_BUCKETS - 1;
}

static inline void latency_add(_Atomic uint64_t *to, uint64_t n)
{
    atomic_store_explicit(to, atomic_load_explicit(to, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* `requests` took that long. A clock that stepped back counts as no time. */
static inline void latency_record(struct latency *l, uint64_t requests, int64_t ns)
{
    const uint64_t took = ns > 0 ? (uint64_t)ns : 0;

    if (requests == 0)
        return;
    latency_add(&l->n[latency_bucket(took)], requests);
    latency_add(&l->sum_ns, requests * took);
}

#endif
