/* Measures guards: a call entered and exited, beside a decision of a token bucket.
 *
 *     guards KEYS CALLS RUNS
 *
 * The clock is passed in and moves by a microsecond within a call; every call is granted and
 * succeeds, one after the other. The calls are on one key, and on random ones of KEYS keys, 16
 * bytes long, that have all been called before. The benchmark sets the signals, so the engine
 * samples nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "bench_engine.h"
#include "idle.h"
#include "stopwatch.h"

enum { KEY_LEN = 16, STEP_NS = 1000 };

static const struct guard_limit {
    const char *name, *limit;
} ROWS[] = {
    {"concurrency", "concurrency 10"},
    {"concurrency, lease", "concurrency 10 lease=1m"},
    {"concurrency, queue", "concurrency 10 queue=10"},
    {"breaker", "breaker"},
    {"breaker, last 100 calls", "breaker window=100"},
    {"breaker, sre", "breaker preset=sre"},
    {"system", "system cpu=80% load=8 rt=1s inflight=500"},
    {"bbr", "bbr"},
    {"vegas", "vegas"},
    {"gradient", "gradient"},
    {"aimd", "aimd"},
    {"adaptive-rate", "adaptive-rate 1000M/s min=1M max=1000M"},
    {"concurrency + breaker", "concurrency 10 + breaker"},
    {"token-bucket + concurrency + breaker + system",
     "token-bucket 1000M/s + concurrency 10 + breaker + system cpu=80%"},
};
enum { ROW_COUNT = sizeof ROWS / sizeof ROWS[0] };

static struct bench_tally bench_guard_call(struct bench_engine *g, const struct keys *k,
                                           size_t from, size_t to)
{
    struct weir_request rq = weir_request_of(g->policy, NULL, k->len);
    struct bench_tally t = {0};
    struct weir_ticket ticket;
    struct weir_verdict v;

    for (size_t i = from; i < to; i++) {
        rq.key = key_at(k, i);
        g->now_ns += g->step_ns;
        if (weir_enter_at(g->w, &rq, g->now_ns, &ticket, &v) != 0)
            must(0, "weir_enter_at answers");
        t.granted += v.allowed;
        g->now_ns += STEP_NS;
        if (weir_exit_at(g->w, &ticket, WEIR_SUCCESS, g->now_ns) != 0)
            must(0, "weir_exit_at answers");
    }
    return t;
}

static void measure(const struct guard_limit *row, bench_engine_decide *decide, struct keys *k,
                    uint64_t keys, int run)
{
    static const struct weir_signals CALM = {100, 100, 100, 100};
    uint64_t seed = 0x5eed;
    struct bench_engine g;

    bench_engine_open(&g, NULL, keys, row->limit, STEP_NS);
    must(weir_signals_set(g.w, &CALM) == 0, "signals can be set");
    for (uint64_t first = 0; first < keys; first += k->count) {
        keys_serial(k, first);
        (void)decide(&g, k, 0, keys - first < k->count ? keys - first : k->count);
    }
    keys_random(k, &seed, keys);
    must(bench_engine_measure(&g, k, decide, "guards", row->name,
                              keys == 1 ? "one key" : "many keys", run)
                 .granted == bench_engine_timed(k),
         row->name);
    bench_engine_close(&g);
}

int main(int argc, char **argv)
{
    static const struct guard_limit BUCKET = {"token-bucket", LIMIT_LIVE};
    const uint64_t keys = number_arg(argc, argv, 1);
    const size_t calls = number_arg(argc, argv, 2);
    const int runs = (int)number_arg(argc, argv, 3);
    struct keys k;

    pin(CORE_MAIN);
    keys_open(&k, KEY_LEN, calls + calls / 2);
    for (int run = 0; run < runs; run++) {
        idle_wait("guards", "", run);
        for (int many = 0; many < 2; many++) {
            measure(&BUCKET, bench_engine_single, &k, many ? keys : 1, run);
            for (int i = 0; i < ROW_COUNT; i++)
                measure(&ROWS[i], bench_guard_call, &k, many ? keys : 1, run);
        }
    }
    return 0;
}
