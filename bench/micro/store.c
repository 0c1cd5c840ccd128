/* Measures the same decisions on a store in a shared file, and on a private one.
 *
 *     store KEYS DECISIONS RUNS FILE...
 *
 * The benchmark makes the files, and removes them at the end. Keys are live, random and 16 bytes
 * long; all decisions are grants.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench_engine.h"
#include "idle.h"
#include "stopwatch.h"

enum { KEY_LEN = 16, STORES_MOST = 4 };

struct bench_store {
    const char *url; /* NULL: memory: */
    struct bench_engine rig;
};

static const char *kind(const struct bench_store *s)
{
    if (!s->url)
        return "memory";
    return strncmp(s->url, "file:/dev/shm/", 14) == 0 ? "file, tmpfs" : "file, disk";
}

static void open_store(struct bench_store *s, uint64_t keys)
{
    if (s->url)
        (void)unlink(s->url + strlen("file:"));
    bench_engine_open(&s->rig, s->url, keys, LIMIT_LIVE, 1);
    must(bench_engine_fill(&s->rig, KEY_LEN, 0, keys).granted == keys, "every key was granted");
}

static void measure(struct bench_store *s, struct keys *k, bench_engine_decide *decide,
                    const char *how, int run, uint64_t keys)
{
    char scene[64], who[64];
    struct bench_tally t;

    (void)snprintf(scene, sizeof scene, "%llu", (unsigned long long)keys);
    (void)snprintf(who, sizeof who, "%s, %s", kind(s), how);
    t = bench_engine_measure(&s->rig, k, decide, "store", scene, who, run);
    must(t.granted == bench_engine_timed(k), "every decision was granted");
}

int main(int argc, char **argv)
{
    const uint64_t keys = number_arg(argc, argv, 1);
    const size_t decisions = number_arg(argc, argv, 2);
    const int runs = (int)number_arg(argc, argv, 3);
    struct bench_store stores[STORES_MOST] = {0};
    const int n = 1 + argc - 4;
    uint64_t seed = 0x5eed;
    struct keys k;

    pin(CORE_MAIN);
    must(n <= STORES_MOST, "there are at most three files");
    for (int i = 0; i < n; i++) {
        stores[i].url = i > 0 ? argv[3 + i] : NULL;
        open_store(&stores[i], keys);
    }
    keys_open(&k, KEY_LEN, decisions + decisions / 2);
    for (int run = 0; run < runs; run++) {
        idle_wait("store", "", run);
        keys_random(&k, &seed, keys);
        for (int i = 0; i < n; i++) {
            measure(&stores[i], &k, bench_engine_single, "single", run, keys);
            measure(&stores[i], &k, bench_engine_batch, "batch", run, keys);
        }
    }
    for (int i = 0; i < n; i++) {
        bench_engine_close(&stores[i].rig);
        if (stores[i].url)
            (void)unlink(stores[i].url + strlen("file:"));
    }
    return 0;
}
