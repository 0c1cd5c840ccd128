/* Measures a decision of each algorithm: on one state without a table, and through the engine.
 *
 *     algorithms KEYS DECISIONS RUNS
 *
 * The clock is passed in. In the engine the keys are random and 16 bytes long; before the
 * measurement each gets enough requests to use up its burst.
 */
#include <stdio.h>
#include <stdlib.h>

#include "algo/algo.h"

#include "bench_engine.h"
#include "bench_limits.h"
#include "idle.h"
#include "stopwatch.h"

enum { KEY_LEN = 16, ASKS_BEFORE = 30 };

static uint64_t take_alone(const struct bench_limit *row, uint64_t takes)
{
    int64_t now = INT64_C(1704067200000000000);
    struct weir_verdict v = {0};
    struct weir_limit limit;
    struct weir__meter meter;
    struct weir__state *state;
    uint64_t granted = 0;

    must(weir_limit_parse(&limit, row->limit, NULL) == 0, "a row's limit is one");
    weir__meter_init(&meter, &limit.term[0], now);
    state = calloc(1, weir__meter_state_size(&meter));
    must(state != NULL, "there is memory for a state");
    for (uint64_t i = 0; i < takes; i++) {
        const struct weir__attempt ask = {
            .cost = 1, .patience_ns = weir__meter_patience(&meter), .now_ns = now += row->step_ns};

        weir__meter_take(&meter, state, &ask, &v);
        granted += v.allowed;
    }
    free(state);
    return granted;
}

static void measure_alone(const struct bench_limit *row, uint64_t decisions, int run)
{
    struct lap l = lap_start();

    keep(take_alone(row, decisions));
    emit_lap("algorithms", row->name, "alone", run, lap_end(l), decisions);

    l = lap_start();
    yardstick_read_clock(decisions);
    emit_lap("algorithms", row->name, "clock_gettime", run, lap_end(l), decisions);
}

static void check_share(const struct bench_limit *row, struct bench_tally t, const struct keys *k)
{
    const double share = (double)t.granted / (double)bench_engine_timed(k);

    /* Algorithms that make callers wait grant everything. The others get twice as many requests as
     * they grant, at random, and grant about half: more in one part of a window than in another. */
    must(share > 0.1 && (share < 0.9 || share == 1.0), row->name);
}

static void measure_row(const struct bench_limit *row, struct keys *k, uint64_t keys, int runs)
{
    const int64_t step_ns = row->step_ns / (int64_t)keys;
    uint64_t seed = 0x5eed;
    struct bench_engine g;

    bench_engine_open(&g, NULL, keys, row->limit, step_ns);
    for (uint64_t asked = 0; asked < keys * ASKS_BEFORE; asked += k->count) {
        keys_random(k, &seed, keys);
        (void)bench_engine_batch(&g, k, 0, k->count);
    }
    for (int run = 0; run < runs; run++) {
        idle_wait("algorithms", row->name, run);
        measure_alone(row, bench_engine_timed(k), run);
        keys_random(k, &seed, keys);
        check_share(row,
                    bench_engine_measure(&g, k, bench_engine_single, "algorithms", row->name,
                                         "single", run),
                    k);
        check_share(
            row,
            bench_engine_measure(&g, k, bench_engine_batch, "algorithms", row->name, "batch", run),
            k);
    }
    bench_engine_close(&g);
}

int main(int argc, char **argv)
{
    const uint64_t keys = number_arg(argc, argv, 1);
    const size_t decisions = number_arg(argc, argv, 2);
    const int runs = (int)number_arg(argc, argv, 3);
    struct keys k;

    pin(CORE_MAIN);
    keys_open(&k, KEY_LEN, decisions + decisions / 2);
    for (int i = 0; i < BENCH_LIMIT_COUNT; i++)
        measure_row(&BENCH_LIMITS[i], &k, keys, runs);
    return 0;
}
