/* Measures one limiter without keys, by one thread and by two.
 *
 *     limiter RUNS
 *
 * `refused` uses a limit that grants next to nothing; `granted` one that grants everything, so that
 * each decision changes the state. Beside them: the clocks that a limiter may read, and a
 * compare-and-swap on a word that one thread, or two, change.
 */
#include <stdatomic.h>
#include <stdio.h>

#include <weir.h>

#include "idle.h"
#include "pinned_threads.h"
#include "stopwatch.h"
#include "yardstick.h"

enum { DECISIONS = 4000000 };

/* A billion a second: more than two threads can request, also with a clock that moves by
 * STEP_NS. */
#define LIMIT_GRANTS  "token-bucket 1000M/s burst=1000M"
#define LIMIT_REFUSES "token-bucket 100/s burst=1"
enum { STEP_NS = 4 };

struct limiter_bench {
    struct weir_limiter *limiter;
    _Alignas(64) _Atomic uint64_t word;
    _Alignas(64) _Atomic uint64_t granted;
    _Atomic uint64_t asked;
    struct {
        _Alignas(64) int64_t now_ns; /* of one thread */
    } clock[PINNED_MOST];
};

static void count(struct limiter_bench *b, uint64_t granted, uint64_t asked)
{
    atomic_fetch_add_explicit(&b->granted, granted, memory_order_relaxed);
    atomic_fetch_add_explicit(&b->asked, asked, memory_order_relaxed);
}

static void do_tsc(void *arg, int who, uint64_t n)
{
    (void)arg, (void)who;
    read_tsc(n);
}

static void do_clock(void *arg, int who, uint64_t n)
{
    (void)arg, (void)who;
    yardstick_read_clock(n);
}

static void do_swap(void *arg, int who, uint64_t n)
{
    (void)who;
    swap(&((struct limiter_bench *)arg)->word, n);
}

static void do_now(void *arg, int who, uint64_t n)
{
    (void)arg, (void)who;
    while (n-- > 0)
        keep((uint64_t)weir_now(NULL));
}

static void do_allow(void *arg, int who, uint64_t n)
{
    struct limiter_bench *b = arg;
    uint64_t granted = 0;

    (void)who;
    for (uint64_t i = 0; i < n; i++)
        granted += weir_limiter_allow(b->limiter);
    count(b, granted, n);
}

static void do_take(void *arg, int who, uint64_t n)
{
    struct limiter_bench *b = arg;
    uint64_t granted = 0;
    struct weir_verdict v;

    (void)who;
    for (uint64_t i = 0; i < n; i++) {
        if (weir_limiter_take(b->limiter, 1, 0, &v) != 0)
            must(0, "weir_limiter_take answers");
        granted += v.allowed;
    }
    count(b, granted, n);
}

static void do_take_at(void *arg, int who, uint64_t n)
{
    struct limiter_bench *b = arg;
    int64_t now_ns = b->clock[who].now_ns;
    uint64_t granted = 0;
    struct weir_verdict v;

    for (uint64_t i = 0; i < n; i++) {
        if (weir_limiter_take_at(b->limiter, 1, 0, now_ns += STEP_NS, &v) != 0)
            must(0, "weir_limiter_take_at answers");
        granted += v.allowed;
    }
    b->clock[who].now_ns = now_ns;
    count(b, granted, n);
}

static void do_allow_at(void *arg, int who, uint64_t n)
{
    struct limiter_bench *b = arg;
    int64_t now_ns = b->clock[who].now_ns;
    uint64_t granted = 0;

    for (uint64_t i = 0; i < n; i++)
        granted += weir_limiter_allow_at(b->limiter, now_ns += STEP_NS);
    b->clock[who].now_ns = now_ns;
    count(b, granted, n);
}

static const struct limiter_contender {
    const char *name;
    pinned_work *work;
    enum { YARDSTICK, REFUSED, GRANTED } kind;
} CONTENDERS[] = {
    {"tsc", do_tsc, YARDSTICK},
    {"clock_gettime", do_clock, YARDSTICK},
    {"cas", do_swap, YARDSTICK},
    {"weir_now", do_now, YARDSTICK},
    {"allow, refused", do_allow, REFUSED},
    {"allow, granted", do_allow, GRANTED},
    {"allow_at, refused", do_allow_at, REFUSED},
    {"allow_at, granted", do_allow_at, GRANTED},
    {"take, refused", do_take, REFUSED},
    {"take, granted", do_take, GRANTED},
    {"take_at, refused", do_take_at, REFUSED},
    {"take_at, granted", do_take_at, GRANTED},
};
enum { CONTENDER_COUNT = sizeof CONTENDERS / sizeof CONTENDERS[0] };

static void check(const struct limiter_contender *c, const struct limiter_bench *b)
{
    switch (c->kind) {
    case YARDSTICK:
        must(c->work != do_swap || b->word > DECISIONS / 4, "the swaps took place");
        break;
    case REFUSED: must(b->granted > 0 && b->granted * 1000 < b->asked, "nearly all refused"); break;
    case GRANTED: must(b->asked > 0 && b->granted == b->asked, "all was granted"); break;
    }
}

static void measure(const struct limiter_contender *c, int threads, int run)
{
    const char *limit = c->kind == GRANTED ? LIMIT_GRANTS : LIMIT_REFUSES;
    const int64_t now_ns = weir_now(NULL);
    struct limiter_bench b = {.clock = {{now_ns}, {now_ns}}};

    must(weir_limiter_open(&b.limiter, limit, NULL) == 0, "the limiter opens");
    pinned_measure(c->work, &b, threads, DECISIONS, "limiter",
                   threads == 1 ? "1 thread" : "2 threads", c->name, run);
    check(c, &b);
    weir_limiter_close(b.limiter);
}

int main(int argc, char **argv)
{
    const int runs = (int)number_arg(argc, argv, 1);

    for (int run = 0; run < runs; run++) {
        for (int threads = 1; threads <= PINNED_MOST; threads++) {
            idle_wait("limiter", threads == 1 ? "1 thread" : "2 threads", run);
            for (int i = 0; i < CONTENDER_COUNT; i++)
                measure(&CONTENDERS[i], threads, run);
        }
    }
    return 0;
}
