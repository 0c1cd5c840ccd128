/* An engine with one policy, and a clock that the benchmark moves. */
#ifndef WEIR_BENCH_RIG_H
#define WEIR_BENCH_RIG_H

#include <weir.h>

#include "keys.h"

/* A key once touched stays alive for the whole benchmark, and has more left than is ever taken. */
#define LIMIT_LIVE "token-bucket 1/s burst=1000M"
/* One event each, then refusals for longer than the benchmark lasts. */
#define LIMIT_DENY "token-bucket 1/24h burst=1"
/* A key is as good as new after a microsecond. */
#define LIMIT_BRIEF "token-bucket 1M/s burst=10"

enum { BATCH = 64 };

struct rig {
    struct weir *w;
    struct weir_policy *policy;
    int64_t now_ns;
    int64_t step_ns; /* how far the clock moves with each decision */
};

/* What came of a run of decisions: enough to see that the intended path was the one measured. */
struct tally {
    uint64_t granted;
    int64_t remaining; /* the sum */
};

void rig_open(struct rig *g, const char *store, uint64_t max_keys, const char *limit,
              int64_t step_ns);
void rig_close(struct rig *g);
struct weir_stats rig_stats(const struct rig *g);

/* Decides keys from..to-1 by weir_take_at, or by weir_take_many_at in batches of 64. Within a batch
 * the clock stands still. */
typedef struct tally rig_decide(struct rig *g, const struct keys *k, size_t from, size_t to);
rig_decide rig_single, rig_batch;

/* Keys first..first + count - 1 of this length, once each, in batches. */
struct tally rig_fill(struct rig *g, size_t key_len, uint64_t first, uint64_t count);

/* Decides a whole array, the first third of it as a warm-up that is not timed: ns per decision. */
struct tally rig_measure(struct rig *g, const struct keys *k, rig_decide *decide, const char *bench,
                         const char *scene, const char *who, int run);
/* How many of an array are timed. */
size_t rig_timed(const struct keys *k);

/* The same for the yardsticks: the region's two, and reading the keys. */
void yardsticks_measure(struct region *r, const struct keys *k, uint64_t *seed, const char *bench,
                        const char *scene, int run);

#endif
