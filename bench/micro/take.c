/* What one decision costs: each algorithm on one state, no table, the clock passed in.
 *
 *     take                    a table: ns per take, median of 9 runs, beside one clock_gettime
 *     take --count NAME N     runs N takes of one row and nothing else: for an instruction counter
 *
 * Half of the asks are granted and half refused, about: the clock moves by half of what the limit
 * needs between two events. Traffic that is all of one kind would flatter the branch predictor.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "algo/algo.h"

#define RUNS  9
#define TAKES 2000000

static const struct row {
    const char *name, *limit;
    int64_t step_ns; /* how far the clock moves between two asks */
} ROWS[] = {
    {"fixed-window", "fixed-window 1000/s", 500000},
    {"sliding-window", "sliding-window 1000/s", 500000},
    {"sliding-counter", "sliding-counter 1000/s", 500000},
    {"sliding-log", "sliding-log 1000/s", 500000},
    {"token-bucket", "token-bucket 1000/s burst=20", 500000},
    {"token-bucket 3/s (inexact T)", "token-bucket 3/s burst=20", 166666666},
    {"leaky-bucket", "leaky-bucket 1000/s capacity=20 delay=0", 500000},
    {"pacer", "pacer 1000/s queue=100", 500000},
    {"smooth-bursty", "smooth-bursty 1000/s", 1000000},
    {"smooth-warmup, warm", "smooth-warmup 1000/s warmup=1s", 1000000},
    {"smooth-warmup, cold", "smooth-warmup 1000/s warmup=1s", 2500000},
    {"min-interval", "min-interval 1ms", 500000},
};
enum { ROW_COUNT = sizeof ROWS / sizeof ROWS[0] };

static int64_t now_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int64_t run(const struct row *row, int64_t takes)
{
    const int64_t start = INT64_C(1704067200000000000);
    struct weir_verdict v = {0};
    struct weir_limit limit;
    struct weir__meter meter;
    struct weir__state *state;
    int64_t granted = 0, now = start;

    if (weir_limit_parse(&limit, row->limit, NULL) != 0)
        abort();
    weir__meter_init(&meter, &limit.term[0], start);
    state = calloc(1, weir__meter_state_size(&meter));
    if (!state)
        abort();
    for (int64_t i = 0; i < takes; i++) {
        const struct weir__ask ask = {
            .cost = 1, .patience_ns = weir__meter_patience(&meter), .now_ns = now += row->step_ns};

        weir__take(&meter, state, &ask, &v);
        granted += v.allowed;
    }
    free(state);
    return granted;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double clock_cost(void)
{
    double ns[RUNS];

    for (int r = 0; r < RUNS; r++) {
        const int64_t start = now_ns();

        for (int i = 0; i < TAKES; i++)
            (void)now_ns();
        ns[r] = (double)(now_ns() - start) / TAKES;
    }
    qsort(ns, RUNS, sizeof ns[0], by_size);
    return ns[RUNS / 2];
}

static double take_cost(const struct row *row, double *granted)
{
    double ns[RUNS];

    for (int r = 0; r < RUNS; r++) {
        const int64_t start = now_ns();

        *granted = (double)run(row, TAKES) / TAKES;
        ns[r] = (double)(now_ns() - start) / TAKES;
    }
    qsort(ns, RUNS, sizeof ns[0], by_size);
    return ns[RUNS / 2];
}

int main(int argc, char **argv)
{
    double clock;

    for (int i = 0; argc == 4 && strcmp(argv[1], "--count") == 0 && i < ROW_COUNT; i++) {
        if (strcmp(argv[2], ROWS[i].name) == 0) {
            (void)printf("%lld\n", (long long)run(&ROWS[i], atoll(argv[3])));
            return 0;
        }
    }
    if (argc > 1 && strcmp(argv[1], "--names") == 0) {
        for (int i = 0; i < ROW_COUNT; i++)
            (void)puts(ROWS[i].name);
        return 0;
    }
    clock = clock_cost();
    (void)printf("%-30s %8s %10s %8s\n", "one take on one state", "ns", "x clock", "granted");
    (void)printf("%-30s %8.1f %10.2f\n", "clock_gettime", clock, 1.0);
    for (int i = 0; i < ROW_COUNT; i++) {
        double granted = 0;
        const double ns = take_cost(&ROWS[i], &granted);

        (void)printf("%-30s %8.1f %10.2f %7.0f%%\n", ROWS[i].name, ns, ns / clock, 100 * granted);
    }
    return 0;
}
