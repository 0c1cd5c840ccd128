/* Measures the tail: single decisions, each timed, alone and while another thread invents keys.
 *
 *     latency VICTIMS MAX-KEYS RUNS
 *
 *     before    only the victims are in the table; all is quiet growing   another thread invents
 *     keys as fast as it can, and the table grows evicting  it continues when the table is full:
 *     every new key evicts a live one, or is counted in
 *               overflow cells
 *     after     the table is full of invented keys; all is quiet
 *     bully     quiet too, but another thread updates random memory of its own: the cost of the
 *               machine's shared caches, without any of our locks
 *
 * The unit is ticks of the time-stamp counter around each decision, less those of an empty pair.
 * "absent" is the part of the victims' decisions on keys that had lost their places, "refused" the
 * part that was refused.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "bench_engine.h"
#include "idle.h"
#include "pinned_threads.h"
#include "stopwatch.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

enum { KEY_LEN = 16, SAMPLES = 1000000, INVENTED = 1 << 14, GROWTH = 20 };

/* Another thread, which works until it is stopped. */
struct other {
    void (*work)(struct other *o);
    struct bench_engine rig;
    struct keys keys;
    struct region region;
    uint64_t next, seed;
    _Atomic uint64_t did;
    atomic_bool stop;
    pthread_t thread;
};

/* Victims have used far more than invented keys, which have used one event: they keep their
 * places. */
static const char *const LIMIT_OWED = "token-bucket 1/s burst=1000";

static uint32_t took[SAMPLES];

static uint64_t ticks_before(void)
{
#if defined(__x86_64__)
    _mm_lfence();
#endif
    return ticks();
}

static uint64_t ticks_after(void)
{
#if defined(__x86_64__)
    unsigned core;
    const uint64_t t = __rdtscp(&core);

    _mm_lfence();
    return t;
#else
    return ticks();
#endif
}

static int by_size(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static double ns_per_tick(void)
{
    const int64_t start_ns = clock_ns(CLOCK_MONOTONIC), until_ns = start_ns + 50000000;
    const uint64_t start = ticks();
    int64_t now_ns;

    while ((now_ns = clock_ns(CLOCK_MONOTONIC)) < until_ns) {
    }
    return (double)(now_ns - start_ns) / (double)(ticks() - start);
}

static void emit_percentiles(const char *scene, int run, struct lap l, double tick_ns,
                             uint32_t empty)
{
    static const struct {
        const char *name;
        int permille;
    } P[] = {{"p50", 500}, {"p99", 990}, {"p99.9", 999}};

    qsort(took, SAMPLES, sizeof took[0], by_size);
    for (size_t i = 0; i < sizeof P / sizeof P[0]; i++) {
        const uint32_t t = took[(size_t)SAMPLES / 1000 * (size_t)P[i].permille];

        emit("latency", scene, P[i].name, run, (t > empty ? t - empty : 0) * tick_ns, lap_lost(l));
    }
}

/* The median length of an empty pair. */
static uint32_t empty_ticks(void)
{
    for (size_t i = 0; i < SAMPLES; i++) {
        const uint64_t start = ticks_before();

        took[i] = (uint32_t)(ticks_after() - start);
    }
    qsort(took, SAMPLES, sizeof took[0], by_size);
    return took[SAMPLES / 2];
}

static void measure(struct bench_engine *g, const struct keys *k, const char *scene, int run,
                    double tick_ns)
{
    const uint32_t empty = empty_ticks();
    uint64_t absent = 0, refused = 0;
    struct lap l;

    (void)bench_engine_single(g, k, 0, k->count - SAMPLES);
    l = lap_start();
    for (size_t i = 0; i < SAMPLES; i++) {
        const unsigned char *key = key_at(k, k->count - SAMPLES + i);
        const struct weir_request rq = weir_request_of(g->policy, key, KEY_LEN);
        struct weir_verdict v;
        const uint64_t start = ticks_before();
        const int error = weir_take_at(g->w, &rq, ++g->now_ns, &v);

        took[i] = (uint32_t)(ticks_after() - start);
        must(error == 0 && (v.allowed || v.overflow), "a victim that has its place was granted");
        absent += v.overflow;
        refused += !v.allowed;
    }
    emit_percentiles(scene, run, lap_end(l), tick_ns, empty);
    emit("latency", scene, "absent", run, (double)absent / SAMPLES, 0);
    emit("latency", scene, "refused", run, (double)refused / SAMPLES, 0);
}

static void invent(struct other *o)
{
    keys_serial(&o->keys, o->next);
    o->next += INVENTED;
    (void)bench_engine_batch(&o->rig, &o->keys, 0,
                             INVENTED); /* in a full table some may be refused */
}

static void bully(struct other *o)
{
    update(&o->region, &o->seed, INVENTED);
}

static void *run_other(void *arg)
{
    struct other *o = arg;

    while (!atomic_load_explicit(&o->stop, memory_order_relaxed)) {
        o->work(o);
        atomic_fetch_add(&o->did, INVENTED);
    }
    return NULL;
}

static void other_start(struct other *o, void (*work)(struct other *o))
{
    o->work = work;
    atomic_store(&o->did, 0);
    atomic_store(&o->stop, false);
    start_pinned(CORE_OTHER, &o->thread, run_other, o);
    while (atomic_load(&o->did) == 0) {
    }
}

/* How many operations it did. */
static uint64_t other_stop(struct other *o)
{
    atomic_store(&o->stop, true);
    (void)pthread_join(o->thread, NULL);
    return atomic_load(&o->did);
}

static void open_victims(struct bench_engine *g, struct other *o, uint64_t max_keys,
                         uint64_t victims)
{
    bench_engine_open(g, NULL, max_keys, LIMIT_OWED, 1);
    must(bench_engine_fill(g, KEY_LEN, 0, victims).granted == victims, "every victim was granted");
    o->rig = *g;
    o->next = victims;
}

/* A table so large that it grows during the whole measurement. */
static void run_growing(const struct keys *k, struct other *o, uint64_t max_keys, uint64_t victims,
                        int run, double tick_ns)
{
    struct bench_engine g;

    open_victims(&g, o, max_keys * GROWTH, victims);
    other_start(o, invent);
    measure(&g, k, "growing", run, tick_ns);
    must(other_stop(o) + victims < max_keys * GROWTH, "the table was still growing");
    bench_engine_close(&g);
}

static void run_full(const struct keys *k, struct other *o, uint64_t max_keys, uint64_t victims,
                     int run, double tick_ns)
{
    uint64_t evicted, invented;
    struct bench_engine g;

    open_victims(&g, o, max_keys, victims);
    measure(&g, k, "before", run, tick_ns);
    (void)bench_engine_fill(&o->rig, KEY_LEN, o->next, max_keys * 3);
    o->next += max_keys * 3;
    evicted = bench_engine_stats(&g).evicted;
    other_start(o, invent);
    measure(&g, k, "evicting", run, tick_ns);
    invented = other_stop(o);
    emit("latency", "evicting", "evicted", run,
         (double)(bench_engine_stats(&g).evicted - evicted) / (double)invented, 0);
    must(bench_engine_stats(&g).evicted > evicted && bench_engine_stats(&g).keys > max_keys,
         "the table was full");
    measure(&g, k, "after", run, tick_ns);
    other_start(o, bully);
    measure(&g, k, "bully", run, tick_ns);
    (void)other_stop(o);
    bench_engine_close(&g);
}

int main(int argc, char **argv)
{
    const uint64_t victims = number_arg(argc, argv, 1), max_keys = number_arg(argc, argv, 2);
    const int runs = (int)number_arg(argc, argv, 3);
    static struct other o = {.seed = 0xbad};
    uint64_t seed = 0x5eed;
    double tick_ns;
    struct keys k;

    pin(CORE_MAIN);
    tick_ns = ns_per_tick();
    keys_open(&o.keys, KEY_LEN, INVENTED);
    region_open(&o.region, (size_t)max_keys * 40);
    keys_open(&k, KEY_LEN, SAMPLES + victims * 4);
    for (int run = 0; run < runs; run++) {
        idle_wait("latency", "", run);
        keys_random(&k, &seed, victims);
        run_full(&k, &o, max_keys, victims, run, tick_ns);
        run_growing(&k, &o, max_keys, victims, run, tick_ns);
    }
    return 0;
}
