/* Runs decisions on an engine with one policy, for the benchmarks. */
#include "bench_engine.h"

#include "stopwatch.h"

enum { FILL_CHUNK = 1 << 16 };

static const int64_t BEGIN_NS = INT64_C(1704067200000000000);

void bench_engine_open(struct bench_engine *g, const char *store, uint64_t max_keys,
                       const char *limit, int64_t step_ns)
{
    const struct weir_options options = {.store = store, .max_keys = max_keys};
    struct weir_diag why;

    g->now_ns = BEGIN_NS;
    g->step_ns = step_ns;
    if (weir_open(&g->w, &options, &why) != 0 ||
        weir_policy_set_at(g->w, "bench", limit, g->now_ns, &g->policy, &why) != 0) {
        (void)fprintf(stderr, "benchmark: %s\n", why.text);
        exit(1);
    }
}

void bench_engine_close(struct bench_engine *g)
{
    weir_close(g->w);
    g->w = NULL;
}

struct weir_stats bench_engine_stats(const struct bench_engine *g)
{
    struct weir_stats s;

    must(weir_stats_at(g->w, g->now_ns, &s) == 0, "weir_stats answers");
    return s;
}

struct bench_tally bench_engine_single(struct bench_engine *g, const struct keys *k, size_t from,
                                       size_t to)
{
    struct weir_request rq = weir_request_of(g->policy, NULL, k->len);
    struct bench_tally t = {0};
    struct weir_verdict v;

    for (size_t i = from; i < to; i++) {
        rq.key = key_at(k, i);
        g->now_ns += g->step_ns;
        if (weir_take_at(g->w, &rq, g->now_ns, &v) != 0)
            must(0, "weir_take_at answers");
        t.granted += v.allowed;
        t.remaining += v.remaining;
    }
    return t;
}

struct bench_tally bench_engine_batch(struct bench_engine *g, const struct keys *k, size_t from,
                                      size_t to)
{
    struct weir_request rq[BATCH];
    struct weir_verdict v[BATCH];
    struct bench_tally t = {0};

    for (size_t i = 0; i < BATCH; i++)
        rq[i] = weir_request_of(g->policy, NULL, k->len);
    for (size_t i = from; i < to;) {
        size_t n = 0;

        for (; n < BATCH && i < to; n++, i++)
            rq[n].key = key_at(k, i);
        g->now_ns += g->step_ns * (int64_t)n;
        if (weir_take_many_at(g->w, rq, n, g->now_ns, v) != 0)
            must(0, "weir_take_many_at answers");
        for (size_t j = 0; j < n; j++) {
            t.granted += v[j].allowed;
            t.remaining += v[j].remaining;
        }
    }
    return t;
}

struct bench_tally bench_engine_fill(struct bench_engine *g, size_t key_len, uint64_t first,
                                     uint64_t count)
{
    struct bench_tally sum = {0};
    struct keys k;

    keys_open(&k, key_len, FILL_CHUNK);
    for (uint64_t done = 0; done < count; done += FILL_CHUNK) {
        const uint64_t n = count - done < FILL_CHUNK ? count - done : FILL_CHUNK;
        struct bench_tally t;

        keys_serial(&k, first + done);
        t = bench_engine_batch(g, &k, 0, n);
        sum.granted += t.granted;
        sum.remaining += t.remaining;
    }
    keys_close(&k);
    return sum;
}

size_t bench_engine_timed(const struct keys *k)
{
    return k->count - k->count / 3;
}

struct bench_tally bench_engine_measure(struct bench_engine *g, const struct keys *k,
                                        bench_engine_decide *decide, const char *bench,
                                        const char *scene, const char *who, int run)
{
    const size_t timed = bench_engine_timed(k), warm = k->count - timed;
    struct bench_tally t;
    struct lap l;

    (void)decide(g, k, 0, warm);
    l = lap_start();
    t = decide(g, k, warm, k->count);
    emit_lap(bench, scene, who, run, lap_end(l), timed);
    return t;
}

void yardsticks_measure(struct region *r, const struct keys *k, uint64_t *seed, const char *bench,
                        const char *scene, int run)
{
    const size_t timed = bench_engine_timed(k), warm = k->count - timed;
    uint64_t at = chase(r, random_below(seed, r->size / STRIDE), warm);
    struct lap l = lap_start();

    at = chase(r, at, timed);
    emit_lap(bench, scene, "chase", run, lap_end(l), timed);
    keep(at);

    l = lap_start();
    update(r, seed, timed);
    emit_lap(bench, scene, "update", run, lap_end(l), timed);

    l = lap_start();
    update_blind(r, seed, timed);
    emit_lap(bench, scene, "update-blind", run, lap_end(l), timed);

    l = lap_start();
    keep(keys_read(k, warm, k->count));
    emit_lap(bench, scene, "keys", run, lap_end(l), timed);
}
