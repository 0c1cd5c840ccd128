/* Measures less common decisions: new keys, refusals, fully recovered keys, a full table.
 *
 *     churn KEYS RUNS
 *
 *     insert    every key is new; the table starts empty and grows, page faults included
 *     reuse     every key is new, and finds the places of keys that have fully recovered
 *     full      every key is new, and live keys have all places: the store evicts one of them, or
 *               counts the key in overflow cells
 *     denied    every key is found, and refused
 *     expired   every key is found, and has fully recovered
 *
 * KEYS is max_keys; keys have 16 bytes. The yardsticks use a region as large as the table.
 */
#include <stdio.h>

#include "bench_engine.h"
#include "idle.h"
#include "stopwatch.h"

enum { KEY_LEN = 16 };

struct churn {
    uint64_t max_keys, next; /* next: the number of the next unused key */
    struct bench_engine reuse, full, denied, expired;
    struct keys k;
    uint64_t seed;
};

static void fresh_keys(struct churn *c)
{
    keys_serial(&c->k, c->next);
    c->next += c->k.count;
}

static void run_insert(struct churn *c, bench_engine_decide *decide, const char *who, int run)
{
    struct bench_engine g;
    struct keys k;
    struct bench_tally t;
    struct lap l;

    keys_open(&k, KEY_LEN, c->max_keys);
    keys_serial(&k, 0);
    bench_engine_open(&g, NULL, c->max_keys, LIMIT_LIVE, 1);
    l = lap_start();
    t = decide(&g, &k, 0, k.count);
    emit_lap("churn", "insert", who, run, lap_end(l), k.count);
    must(t.granted == k.count, "every new key was granted");
    emit("churn", "insert", "evicted", run,
         (double)bench_engine_stats(&g).evicted / (double)k.count, 0);
    bench_engine_close(&g);
    keys_close(&k);
}

static void run_reuse(struct churn *c, bench_engine_decide *decide, const char *who, int run)
{
    const uint64_t evicted = bench_engine_stats(&c->reuse).evicted;

    fresh_keys(c);
    must(bench_engine_measure(&c->reuse, &c->k, decide, "churn", "reuse", who, run).granted ==
             bench_engine_timed(&c->k),
         "every new key was granted");
    must(bench_engine_stats(&c->reuse).evicted == evicted, "no live key was evicted");
}

static void run_full(struct churn *c, bench_engine_decide *decide, const char *who, int run)
{
    const uint64_t evicted = bench_engine_stats(&c->full).evicted;

    fresh_keys(c);
    must(bench_engine_measure(&c->full, &c->k, decide, "churn", "full", who, run).granted ==
             bench_engine_timed(&c->k),
         "every new key was granted");
    emit("churn", "full", "evicted", run,
         (double)(bench_engine_stats(&c->full).evicted - evicted) / (double)c->k.count, 0);
    must(bench_engine_stats(&c->full).keys > c->max_keys, "the table was full");
}

static void run_denied(struct churn *c, bench_engine_decide *decide, const char *who, int run)
{
    keys_random(&c->k, &c->seed, c->max_keys);
    must(bench_engine_measure(&c->denied, &c->k, decide, "churn", "denied", who, run).granted *
                 200 <
             bench_engine_timed(&c->k),
         "every decision was refused, but of keys that were lost");
}

static void run_expired(struct churn *c, bench_engine_decide *decide, const char *who, int run)
{
    struct bench_tally t;

    keys_random(&c->k, &c->seed, c->max_keys);
    t = bench_engine_measure(&c->expired, &c->k, decide, "churn", "expired", who, run);
    must(t.granted == bench_engine_timed(&c->k), "every decision was granted");
    /* A batch may contain a key twice. */
    must(t.remaining > (int64_t)t.granted * 9 * 99 / 100, "keys had fully recovered");
}

/* A table full of keys that all recover fully at the same time. The clock stands still while they
 * are added; else each would take the place of another. */
static void open_passed(const struct churn *c, struct bench_engine *g, int64_t step_ns)
{
    bench_engine_open(g, NULL, c->max_keys, LIMIT_BRIEF, 0);
    (void)bench_engine_fill(g, KEY_LEN, 0, c->max_keys);
    must(bench_engine_stats(g).keys * 100 > c->max_keys * 99, "nearly all keys have a place");
    g->now_ns += 1000000;
    g->step_ns = step_ns;
}

static void prepare(struct churn *c)
{
    const uint64_t n = c->max_keys;

    bench_engine_open(&c->full, NULL, n, LIMIT_LIVE, 1);
    bench_engine_open(&c->denied, NULL, n, LIMIT_DENY, 1);
    (void)bench_engine_fill(&c->full, KEY_LEN, 0, n * 3);
    (void)bench_engine_fill(&c->denied, KEY_LEN, 0, n);
    open_passed(c, &c->reuse, 2);
    open_passed(c, &c->expired, 2000);
    c->next = n * 3;
    keys_open(&c->k, KEY_LEN, n + n / 2);
}

static void run_all(struct churn *c, bench_engine_decide *decide, const char *who, int run)
{
    run_insert(c, decide, who, run);
    run_reuse(c, decide, who, run);
    run_full(c, decide, who, run);
    run_denied(c, decide, who, run);
    run_expired(c, decide, who, run);
}

int main(int argc, char **argv)
{
    struct churn c = {.max_keys = number_arg(argc, argv, 1), .seed = 0x5eed};
    const int runs = (int)number_arg(argc, argv, 2);
    struct region region;

    pin(CORE_MAIN);
    prepare(&c);
    region_open(&region, bench_engine_stats(&c.full).bytes);
    chase_prepare(&region, &c.seed);
    for (int run = 0; run < runs; run++) {
        idle_wait("churn", "", run);
        yardsticks_measure(&region, &c.k, &c.seed, "churn", "yardsticks", run);
        run_all(&c, bench_engine_single, "single", run);
        run_all(&c, bench_engine_batch, "batch", run);
    }
    return 0;
}
