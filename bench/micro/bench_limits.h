/* The algorithms, each with a limit of a thousand events a second that gets twice as many requests,
 * so that about half are granted and half refused: traffic of one kind only would flatter the
 * branch predictor. The limits are small, so that a table of keys soon reaches that state.
 * Algorithms that make callers wait instead get as many requests as they grant. */
#ifndef WEIR_BENCH_MICRO_BENCH_LIMITS_H
#define WEIR_BENCH_MICRO_BENCH_LIMITS_H

#include <stdint.h>

static const struct bench_limit {
    const char *name, *limit;
    int64_t step_ns; /* how far the clock moves between two requests of one key */
} BENCH_LIMITS[] = {
    {"fixed-window", "fixed-window 4/4ms", 500000},
    {"sliding-window", "sliding-window 4/4ms", 500000},
    {"sliding-counter", "sliding-counter 4/4ms", 500000},
    {"sliding-log", "sliding-log 4/4ms", 500000},
    {"token-bucket", "token-bucket 1000/s burst=10", 500000},
    {"token-bucket, 3/s", "token-bucket 3/s burst=10", 166666666},
    {"leaky-bucket", "leaky-bucket 1000/s capacity=10 delay=0", 500000},
    {"pacer", "pacer 1000/s queue=10", 500000},
    {"smooth-bursty", "smooth-bursty 1000/s max-burst=10ms", 1000000},
    {"smooth-warmup", "smooth-warmup 1000/s warmup=10ms", 1000000},
    {"min-interval", "min-interval 1ms", 500000},
};
enum { BENCH_LIMIT_COUNT = sizeof BENCH_LIMITS / sizeof BENCH_LIMITS[0] };

#endif
