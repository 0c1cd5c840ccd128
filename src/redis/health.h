/* Whether a store is there: a breaker of ours, what its turns are called in the log, and counters.
 *
 * One failure is enough to open it: an absent store costs each caller who was on its way one timeout, and
 * nobody after them any. While it is open callers fall back without asking; the keeper alone probes (by a
 * heartbeat, which writes: a store that is full or read-only is not back). The time between probes grows from
 * WEIR__PROBE_FIRST_NS to WEIR__PROBE_MOST_NS.
 *
 * A probe is one small write. A store that is full to the brim has room for it, and for a few decisions, whenever a
 * key of its expires: it would come and go ten times a second. So a store that refuses again for the same reason (the
 * code of its error: OOM, READONLY, ...) before it was back for WEIR__STEADY_NS is left alone before the next probe,
 * each time four times as long, up to WEIR__REST_MOST_NS.
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
    char shown[300];     /* of the address */
    /* What to tell of: set by the owner before it is used; NULL: nothing. */
    const struct weir__local_counts *counts;
    const struct weir_clock *clock; /* for tests; NULL: weir__clock_now() */
    _Atomic uint64_t outages, recoveries, failures;

    /* The rest is under the lock: the breaker, ... */
    struct weir__meter breaker;
    _Alignas(16) unsigned char state[128];
    int64_t probe_ns; /* when the probe went out */
    int64_t rest_ns;  /* so long after it went there is no probe; 0: as the breaker says */
    int64_t back_ns;  /* when it last came back; 0: it never went */
    /* ... and what the log is to know. */
    int64_t since_ns, logged_ns, refused_ns;
    uint64_t decided, allowed; /* when it went */
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

/* A caller's command failed. The first to say so turns everybody away, and is logged with the reason. */
void weir__health_failed(struct weir__health *h, const char *why);
/* The store refuses a request that it should have decided (an account that may not touch a key): it is there, but that
 * limit falls back. Logged, at most every 10 s. */
void weir__health_refused(struct weir__health *h, const char *why);
/* The keeper: whether to probe now; else *next_ns is when to ask again. */
bool weir__health_may_probe(struct weir__health *h, int64_t now_ns, int64_t *next_ns);
/* How the probe went; why: of a failure. A good one ends it: logged, with how long it took. */
void weir__health_probed(struct weir__health *h, bool good, const char *why);

#endif
