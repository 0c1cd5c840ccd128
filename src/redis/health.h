/* The health of a Redis store: a circuit breaker, its lines in the log, and counters.
 *
 * One failure opens the breaker, and the store is down. A store that stops answering costs one
 * timeout for each caller that was already waiting, and nothing for callers after that. While the
 * store is down, requests fall back without a command; only the monitor probes (with a heartbeat,
 * which writes: a store that is full or read-only is not up). The time between probes grows from
 * WEIR__PROBE_FIRST_NS to WEIR__PROBE_MOST_NS. A probe that succeeds closes the breaker: the store
 * is up.
 *
 * A probe is one small write. A store that is almost full has room for it, and for a few decisions,
 * whenever one of its keys expires: it would go down and up ten times a second. So if a store
 * refuses again for the same reason (its error code: OOM, READONLY, ...) before it was up for
 * WEIR__STEADY_NS, the next probe waits longer, each time four times as long, at most
 * WEIR__REST_MOST_NS.
 */
#ifndef WEIR_REDIS_HEALTH_H
#define WEIR_REDIS_HEALTH_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir.h>

#include "algo/algo.h"

struct weir__local_counts; /* local.h */

#define WEIR__PROBE_FIRST_NS (100 * WEIR__NS_PER_MS)
#define WEIR__PROBE_MOST_NS  (2 * WEIR__NS_PER_S)
#define WEIR__STEADY_NS      (10 * WEIR__NS_PER_S)
#define WEIR__REST_MOST_NS   (10 * WEIR__NS_PER_S)

struct weir__health {
    _Atomic bool down;
    pthread_mutex_t lock;
    struct weir_log log; /* say may be NULL */
    char shown[300];     /* the address, without secrets */
    /* The counts for the log: set by the owner before the first use; NULL: none. */
    const struct weir__local_counts *counts;
    const struct weir_clock *clock; /* for tests; NULL: weir__clock_now() */
    _Atomic uint64_t outages, recoveries, failures;

    /* The rest is under the lock: the breaker, ... */
    struct weir__meter breaker;
    _Alignas(16) unsigned char state[128];
    int64_t probe_ns; /* when the last probe was sent */
    int64_t rest_ns;  /* no probe for this long after it went down; 0: the breaker decides */
    int64_t back_ns;  /* when it last came up; 0: it was never down */
    /* ... and what the log needs. */
    int64_t since_ns, logged_ns, refused_ns;
    uint64_t decided, allowed; /* the counts at the moment it went down */
    char why[160];
};

int weir__health_open(struct weir__health *h, const char *shown, const struct weir_log *log);
void weir__health_close(struct weir__health *h);
/* After fork(), in the child (weir__monitor_forked does it). */
void weir__health_forked(struct weir__health *h);

static inline bool weir__health_is_down(const struct weir__health *h)
{
    return atomic_load_explicit(&h->down, memory_order_relaxed);
}

/* A caller's command failed. The first failure marks the store as down, and is logged with its
 * reason. */
void weir__health_failed(struct weir__health *h, const char *why);
/* The store refused a request that it should have decided (an account that may not touch a key):
 * the store is up, but that limit falls back. Logged at most every 10 s. */
void weir__health_refused(struct weir__health *h, const char *why);
/* For the monitor: whether to probe now; else *next_ns is when to ask again. */
bool weir__health_may_probe(struct weir__health *h, int64_t now_ns, int64_t *next_ns);
/* The result of the probe, and why it failed. A good one means that the store is up: logged,
 * with the length of the outage. */
void weir__health_probed(struct weir__health *h, bool good, const char *why);

#endif
