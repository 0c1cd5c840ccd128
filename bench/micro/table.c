/* Measures decisions on random live keys: the main figures.
 *
 *     table KEYS KEY-BYTES DECISIONS RUNS
 *
 * All keys are in the table and live, and every decision is a grant, so each decision finds its
 * key, checks it and writes it. The yardsticks use a region as large as the table has become.
 */
#include <stdio.h>

#include "bench_engine.h"
#include "idle.h"
#include "stopwatch.h"

static void measure(struct bench_engine *g, uint64_t keys, size_t key_len, size_t decisions,
                    int runs)
{
    const size_t table_bytes = bench_engine_stats(g).bytes;
    uint64_t seed = 0x5eed;
    struct region region;
    char scene[64];
    struct keys k;

    (void)snprintf(scene, sizeof scene, "%llu x %zu", (unsigned long long)keys, key_len);
    emit("table", scene, "bytes", 0, (double)table_bytes, 0);
    emit("table", scene, "evicted", 0, (double)bench_engine_stats(g).evicted / (double)keys, 0);
    region_open(&region, table_bytes);
    chase_prepare(&region, &seed);
    keys_open(&k, key_len, decisions + decisions / 2);
    for (int run = 0; run < runs; run++) {
        struct bench_tally t;

        idle_wait("table", scene, run);
        keys_random(&k, &seed, keys);
        yardsticks_measure(&region, &k, &seed, "table", scene, run);
        t = bench_engine_measure(g, &k, bench_engine_single, "table", scene, "single", run);
        must(t.granted == bench_engine_timed(&k), "every single decision was granted");
        keys_random(&k, &seed, keys);
        t = bench_engine_measure(g, &k, bench_engine_batch, "table", scene, "batch", run);
        must(t.granted == bench_engine_timed(&k), "every decision of a batch was granted");
    }
    keys_close(&k);
    region_close(&region);
}

int main(int argc, char **argv)
{
    const uint64_t keys = number_arg(argc, argv, 1);
    const size_t key_len = number_arg(argc, argv, 2), decisions = number_arg(argc, argv, 3);
    const int runs = (int)number_arg(argc, argv, 4);
    struct bench_engine g;

    pin(CORE_MAIN);
    bench_engine_open(&g, NULL, keys, LIMIT_LIVE, 1);
    must(bench_engine_fill(&g, key_len, 0, keys).granted == keys,
         "every key was granted its first event");
    measure(&g, keys, key_len, decisions, runs);
    bench_engine_close(&g);
    return 0;
}
