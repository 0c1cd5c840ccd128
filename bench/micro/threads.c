/* Measures two threads on one engine.
 *
 *     threads KEYS RUNS
 *
 * Keys are random, live and 16 bytes long, and each thread has an array of its own; then both
 * threads use the same key. Beside them are the yardsticks by one thread and by two, because two
 * cores do not have twice the memory bandwidth of one.
 */
#include <stdio.h>

#include "bench_engine.h"
#include "idle.h"
#include "pinned_threads.h"
#include "stopwatch.h"

enum { KEY_LEN = 16, DECISIONS = 1000000 };

struct thread_keys {
    _Alignas(128) struct bench_engine rig; /* the same engine, a clock of its own */
    struct keys keys, hot;
    size_t at;
    uint64_t chain, seed;
};

struct threads_bench {
    struct thread_keys keys_of[PINNED_MOST];
    struct region region;
};

static void decide(struct thread_keys *l, const struct keys *k, bench_engine_decide *how,
                   uint64_t n)
{
    if (l->at + n > k->count)
        l->at = 0;
    must(how(&l->rig, k, l->at, l->at + n).granted == n, "every decision was granted");
    l->at += n;
}

static void do_single(void *arg, int who, uint64_t n)
{
    struct thread_keys *l = &((struct threads_bench *)arg)->keys_of[who];

    decide(l, &l->keys, bench_engine_single, n);
}

static void do_batch(void *arg, int who, uint64_t n)
{
    struct thread_keys *l = &((struct threads_bench *)arg)->keys_of[who];

    decide(l, &l->keys, bench_engine_batch, n);
}

static void do_hot(void *arg, int who, uint64_t n)
{
    struct thread_keys *l = &((struct threads_bench *)arg)->keys_of[who];

    decide(l, &l->hot, bench_engine_single, n);
}

static void do_chase(void *arg, int who, uint64_t n)
{
    struct threads_bench *b = arg;
    struct thread_keys *l = &b->keys_of[who];

    l->chain = chase(&b->region, l->chain, n);
}

static void do_update(void *arg, int who, uint64_t n)
{
    struct threads_bench *b = arg;

    update(&b->region, &b->keys_of[who].seed, n);
}

static const struct threads_contender {
    const char *name;
    pinned_work *work;
} CONTENDERS[] = {
    {"chase", do_chase}, {"update", do_update}, {"single", do_single},
    {"batch", do_batch}, {"one key", do_hot},
};
enum { CONTENDER_COUNT = sizeof CONTENDERS / sizeof CONTENDERS[0] };

static void open_bench(struct threads_bench *b, uint64_t keys)
{
    struct bench_engine g;

    bench_engine_open(&g, NULL, keys, LIMIT_LIVE, 1);
    must(bench_engine_fill(&g, KEY_LEN, 0, keys).granted == keys, "every key was granted");
    region_open(&b->region, bench_engine_stats(&g).bytes);
    for (uint64_t i = 0; i < PINNED_MOST; i++) {
        struct thread_keys *l = &b->keys_of[i];

        l->rig = g;
        l->seed = 0x5eed + i;
        l->chain = random_below(&l->seed, b->region.size / STRIDE);
        keys_open(&l->keys, KEY_LEN, DECISIONS * 2);
        keys_random(&l->keys, &l->seed, keys);
        keys_open(&l->hot, KEY_LEN, 1 << 14);
        keys_random(&l->hot, &l->seed, 1);
    }
    chase_prepare(&b->region, &b->keys_of[0].seed);
}

int main(int argc, char **argv)
{
    const uint64_t keys = number_arg(argc, argv, 1);
    const int runs = (int)number_arg(argc, argv, 2);
    static struct threads_bench b;
    char scene[64];

    open_bench(&b, keys);
    for (int run = 0; run < runs; run++) {
        for (int threads = 1; threads <= PINNED_MOST; threads++) {
            (void)snprintf(scene, sizeof scene, "%llu, %d", (unsigned long long)keys, threads);
            idle_wait("threads", scene, run);
            for (int i = 0; i < CONTENDER_COUNT; i++)
                pinned_measure(CONTENDERS[i].work, &b, threads, DECISIONS, "threads", scene,
                               CONTENDERS[i].name, run);
        }
    }
    return 0;
}
