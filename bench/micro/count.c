/* Makes decisions and does nothing else, for an instruction counter.
 *
 *     count NAME N     does N of what NAME names
 *     count --names    the names
 *
 * Run it under callgrind with two values of N: the difference of the counts over the difference of
 * the Ns is the cost of one decision. `loop` is the cost of going through the keys, and part of the
 * others.
 */
#include <stdio.h>
#include <string.h>

#include "bench_engine.h"
#include "bench_limits.h"
#include "stopwatch.h"

enum { KEYS = 1024, KEY_LEN = 16, ASKS_BEFORE = 30 /* until bursts are used up */ };

static void do_loop(struct keys *k, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        keep((uint64_t)(uintptr_t)key_at(k, i % KEYS));
}

static void decide(struct keys *k, const char *limit, int64_t step_ns, bench_engine_decide *how,
                   uint64_t n)
{
    struct bench_engine g;

    bench_engine_open(&g, NULL, KEYS * 8, limit, 0);
    (void)bench_engine_single(&g, k, 0,
                              KEYS); /* while the clock stands still each key has its place */
    g.step_ns = step_ns;
    for (int i = 0; i < ASKS_BEFORE; i++)
        (void)bench_engine_single(&g, k, 0, KEYS);
    for (uint64_t i = 0; i < n; i += KEYS)
        (void)how(&g, k, 0, KEYS);
    bench_engine_close(&g);
}

static void do_allow(struct keys *k, uint64_t n)
{
    struct weir_limiter *l;
    uint64_t granted = 0;

    (void)k;
    must(weir_limiter_open(&l, "token-bucket 1000M/s burst=1000M", NULL) == 0, "a limiter opens");
    for (uint64_t i = 0; i < n; i++)
        granted += weir_limiter_allow(l);
    must(granted == n, "all was granted");
    weir_limiter_close(l);
}

static void do_limiter_take(struct keys *k, uint64_t n)
{
    int64_t now_ns = weir_now(NULL);
    struct weir_limiter *l;
    struct weir_verdict v;

    (void)k;
    must(weir_limiter_open(&l, "token-bucket 1000M/s burst=1000M", NULL) == 0, "a limiter opens");
    for (uint64_t i = 0; i < n; i++)
        must(weir_limiter_take_at(l, 1, 0, ++now_ns, &v) == 0 && v.allowed, "it was granted");
    weir_limiter_close(l);
}

static void do_live(struct keys *k, uint64_t n)
{
    decide(k, LIMIT_LIVE, 1, bench_engine_single, n);
}

static void do_live_batch(struct keys *k, uint64_t n)
{
    decide(k, LIMIT_LIVE, 1, bench_engine_batch, n);
}

static void do_denied(struct keys *k, uint64_t n)
{
    decide(k, LIMIT_DENY, 1, bench_engine_single, n);
}

static void do_expired(struct keys *k, uint64_t n)
{
    decide(k, LIMIT_BRIEF, 2000, bench_engine_single, n);
}

static const struct plain {
    const char *name;
    void (*work)(struct keys *k, uint64_t n);
} PLAIN[] = {
    {"loop", do_loop},
    {"weir_limiter_allow", do_allow},
    {"weir_limiter_take_at", do_limiter_take},
    {"weir_take_at, granted", do_live},
    {"weir_take_many_at, granted", do_live_batch},
    {"weir_take_at, denied", do_denied},
    {"weir_take_at, expired", do_expired},
};
enum { PLAIN_COUNT = sizeof PLAIN / sizeof PLAIN[0] };

/* What an option of a limit adds to "token-bucket", whose traffic the first two have. */
#define BUCKET  "token-bucket 1000/s burst=10"
#define HALF_NS 500000
static const struct bench_limit OPTIONS[] = {
    {"token-bucket, warn=80%", BUCKET " warn=80%", HALF_NS},
    {"token-bucket, block=1ms..8ms after=10", BUCKET " block=1ms..8ms after=10", HALF_NS},
    {"token-bucket, block=1m..1h, granted", LIMIT_LIVE " block=1m..1h after=10", KEYS},
    {"token-bucket, block=1h..1day, blocked", LIMIT_DENY " block=1h..1day after=1", KEYS},
};
enum { OPTION_COUNT = sizeof OPTIONS / sizeof OPTIONS[0] };

static void print_names(void)
{
    for (int i = 0; i < PLAIN_COUNT; i++)
        (void)puts(PLAIN[i].name);
    for (int i = 0; i < BENCH_LIMIT_COUNT; i++)
        (void)puts(BENCH_LIMITS[i].name);
    for (int i = 0; i < OPTION_COUNT; i++)
        (void)puts(OPTIONS[i].name);
}

static bool decide_named(const char *name, const struct bench_limit *row, int rows, struct keys *k,
                         uint64_t n)
{
    for (int i = 0; i < rows; i++)
        if (strcmp(name, row[i].name) == 0) {
            decide(k, row[i].limit, row[i].step_ns / KEYS, bench_engine_single, n);
            return true;
        }
    return false;
}

int main(int argc, char **argv)
{
    uint64_t n;
    struct keys k;

    if (argc == 2 && strcmp(argv[1], "--names") == 0) {
        print_names();
        return 0;
    }
    n = number_arg(argc, argv, 2) / KEYS * KEYS;
    keys_open(&k, KEY_LEN, KEYS);
    keys_serial(&k, 0);
    for (int i = 0; i < PLAIN_COUNT; i++)
        if (strcmp(argv[1], PLAIN[i].name) == 0)
            return PLAIN[i].work(&k, n), 0;
    if (decide_named(argv[1], BENCH_LIMITS, BENCH_LIMIT_COUNT, &k, n) ||
        decide_named(argv[1], OPTIONS, OPTION_COUNT, &k, n))
        return 0;
    must(0, "the name is one of --names");
    return 1;
}
