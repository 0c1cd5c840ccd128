/* An engine with one policy, and a clock that the benchmark moves. */
#ifndef WEIR_BENCH_MICRO_BENCH_ENGINE_H
#define WEIR_BENCH_MICRO_BENCH_ENGINE_H

#include <weir.h>

#include "keys.h"

/* A key stays live for the whole benchmark after its first request, and never runs out. */
#define LIMIT_LIVE "token-bucket 1/s burst=1000M"
/* One event each, then refusals for longer than the benchmark lasts. */
#define LIMIT_DENY "token-bucket 1/24h burst=1"
/* A key has fully recovered after a microsecond. */
#define LIMIT_BRIEF "token-bucket 1M/s burst=10"

enum { BATCH = 64 };

struct bench_engine {
    struct weir *w;
    struct weir_policy *policy;
    int64_t now_ns;
    int64_t step_ns; /* how far the clock moves with each decision */
};

/* The outcome of a run of decisions: enough to check that the intended path was measured. */
struct bench_tally {
    uint64_t granted;
    int64_t remaining; /* the sum of all */
};

void bench_engine_open(struct bench_engine *g, const char *store, uint64_t max_keys,
                       const char *limit, int64_t step_ns);
void bench_engine_close(struct bench_engine *g);
struct weir_stats bench_engine_stats(const struct bench_engine *g);

/* Decides keys from..to-1 by weir_take_at, or by weir_take_many_at in batches of 64. Within a batch
 * the clock stands still. */
typedef struct bench_tally bench_engine_decide(struct bench_engine *g, const struct keys *k,
                                               size_t from, size_t to);
bench_engine_decide bench_engine_single, bench_engine_batch;

/* Decides keys first..first + count - 1 of this length, once each, in batches. */
struct bench_tally bench_engine_fill(struct bench_engine *g, size_t key_len, uint64_t first,
                                     uint64_t count);

/* Decides a whole array and returns the ns per decision; the first third is an untimed warm-up. */
struct bench_tally bench_engine_measure(struct bench_engine *g, const struct keys *k,
                                        bench_engine_decide *decide, const char *bench,
                                        const char *scene, const char *who, int run);
/* How many decisions on an array are timed. */
size_t bench_engine_timed(const struct keys *k);

/* The same for the yardsticks: the region's two, and reading the keys. */
void yardsticks_measure(struct region *r, const struct keys *k, uint64_t *seed, const char *bench,
                        const char *scene, int run);

#endif
