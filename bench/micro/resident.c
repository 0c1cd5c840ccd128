/* Measures how much memory a live key takes, whatever its length.
 *
 *     resident KEYS KEY-BYTES RUNS
 *
 * The figure is the growth of the process's resident memory, from before the store is opened until
 * all keys are in it and live, over the number of live keys. Each run is a process of its own, so
 * that none finds memory that an earlier one left behind.
 */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench_engine.h"
#include "stopwatch.h"

static double resident_bytes(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long long pages = 0;

    must(f && fscanf(f, "%*u %llu", &pages) == 1, "/proc/self/statm can be read");
    (void)fclose(f);
    return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static void measure(uint64_t keys, size_t key_len, int run)
{
    struct weir_stats s;
    double before, after;
    char scene[64];
    struct bench_engine g;

    /* First a small store, so that memory that every program needs is not counted. */
    bench_engine_open(&g, NULL, 1000, LIMIT_LIVE, 1);
    (void)bench_engine_fill(&g, key_len, 0, 1000);
    bench_engine_close(&g);

    before = resident_bytes();
    bench_engine_open(&g, NULL, keys, LIMIT_LIVE, 1);
    must(bench_engine_fill(&g, key_len, 0, keys).granted == keys, "every key was granted");
    after = resident_bytes();
    s = bench_engine_stats(&g);

    (void)snprintf(scene, sizeof scene, "%llu x %zu", (unsigned long long)keys, key_len);
    emit("resident", scene, "bytes a key", run, (after - before) / (double)(keys - s.evicted), 0);
    emit("resident", scene, "stated", run, (double)s.bytes / (double)(keys - s.evicted), 0);
    emit("resident", scene, "evicted", run, (double)s.evicted / (double)keys, 0);
    bench_engine_close(&g);
}

int main(int argc, char **argv)
{
    const uint64_t keys = number_arg(argc, argv, 1);
    const size_t key_len = number_arg(argc, argv, 2);
    const int runs = (int)number_arg(argc, argv, 3);

    pin(CORE_MAIN);
    for (int run = 0; run < runs; run++) {
        const pid_t child = fork();
        int status = 0;

        must(child >= 0, "a process starts");
        if (child == 0) {
            measure(keys, key_len, run);
            return 0;
        }
        must(waitpid(child, &status, 0) == child && status == 0, "a run ended well");
    }
    return 0;
}
