/* Decisions by the library, as fast as its callers can wait for them.
 *
 *     remote_take --store URL --limit TEXT [OPTION...]
 *
 * Closed loop: every thread sends a request, waits for the verdict, and sends the next; a batch is
 * one weir_take_many. Keys are twelve digits, drawn at random from those below --keys: the keys
 * that redis-benchmark makes of __rand_int__.
 *
 * It prints one line of name=value, and fails unless the store decided everything, and as --refused
 * says: a decision of the fallback is fast, and not what is measured here.
 */
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include <weir.h>

#include "histogram.h"
#include "stopwatch.h"
#include "usage.h"

enum { KEY_DIGITS = 12, THREADS_MOST = 64, BATCH_MOST = 64, FILL_BATCH = 64 };
static const double NS_PER_S = 1e9;

struct take_plan {
    const char *store, *name, *limit;
    size_t threads, batch;
    uint64_t keys;
    double seconds, warm;
    int core; /* -1: any */
    pid_t server;
    bool each;    /* every key once, and no more */
    bool refused; /* the expected verdicts */
};

struct take_caller {
    _Alignas(64) _Atomic uint64_t decided;
    pthread_t thread;
    uint64_t seed;
    struct histogram times; /* of calls, while we measured */
};

static struct take_plan plan;
static struct weir *engine;
static struct weir_policy *policy;
static struct take_caller caller[THREADS_MOST];
static _Atomic bool began, ended;

/* ---- Callers --------------------------------------------------------------------------------- */

/* The requests of one call. */
struct request_batch {
    struct weir_request rq[BATCH_MOST];
    struct weir_verdict v[BATCH_MOST];
    char key[BATCH_MOST][KEY_DIGITS];
};

/* The key is written here and now, as by a server that has just read it: an array of all keys
 * would cost a memory access. */
static void batch_set(struct request_batch *a, size_t i, uint64_t key)
{
    for (int k = KEY_DIGITS - 1; k >= 0; k--, key /= 10)
        a->key[i][k] = (char)('0' + key % 10);
    a->rq[i] = weir_request_of(policy, a->key[i], KEY_DIGITS);
}

static void batch_decide(struct request_batch *a, size_t n)
{
    const int error =
        n == 1 ? weir_take(engine, a->rq, a->v) : weir_take_many(engine, a->rq, n, a->v);

    must(error == 0, "every decision is made");
    for (size_t i = 0; i < n && !plan.each; i++)
        must(a->v[i].allowed == !plan.refused, "the answers are those that the scene is about");
}

static void *caller_run(void *arg)
{
    struct request_batch a;
    struct take_caller *c = arg;
    int64_t then_ns = clock_ns(CLOCK_MONOTONIC), now_ns;

    while (!atomic_load_explicit(&ended, memory_order_relaxed)) {
        for (size_t i = 0; i < plan.batch; i++)
            batch_set(&a, i, random_below(&c->seed, plan.keys));
        batch_decide(&a, plan.batch);
        now_ns = clock_ns(CLOCK_MONOTONIC);
        if (atomic_load_explicit(&began, memory_order_relaxed))
            histogram_add(&c->times, (uint64_t)(now_ns - then_ns), 1);
        then_ns = now_ns;
        atomic_fetch_add_explicit(&c->decided, plan.batch, memory_order_relaxed);
    }
    return NULL;
}

static void fill_keys(void)
{
    struct request_batch a;

    for (uint64_t key = 0; key < plan.keys;) {
        size_t n = 0;

        while (n < FILL_BATCH && key < plan.keys)
            batch_set(&a, n++, key++);
        batch_decide(&a, n);
    }
}

/* ---- The measurement ------------------------------------------------------------------------- */

static void wait_for(double seconds)
{
    const struct timespec t = {(time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9)};

    (void)clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
}

static uint64_t decided(void)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < plan.threads; i++)
        sum += atomic_load_explicit(&caller[i].decided, memory_order_relaxed);
    return sum;
}

static struct usage measure(uint64_t *count)
{
    struct usage before, used;
    uint64_t first;

    for (size_t i = 0; i < plan.threads; i++) {
        caller[i].seed = (uint64_t)clock_ns(CLOCK_REALTIME) + i + 1;
        must(pthread_create(&caller[i].thread, NULL, caller_run, &caller[i]) == 0,
             "a thread begins");
    }
    wait_for(plan.warm);
    before = usage_now(plan.server);
    first = decided();
    atomic_store(&began, true);
    wait_for(plan.seconds);
    used = usage_since(before, plan.server);
    *count = decided() - first;
    atomic_store(&ended, true);
    for (size_t i = 0; i < plan.threads; i++)
        (void)pthread_join(caller[i].thread, NULL);
    return used;
}

static void check(void)
{
    struct weir_remote_stats s;

    weir_remote_stats(engine, &s);
    must(s.remote, "the store is remote");
    must(s.failed == 0 && s.crowded == 0 && s.fell_back == 0, "the store answered everything");
}

/* ---- What is printed ------------------------------------------------------------------------- */

static void print_times(void)
{
    static struct histogram all;

    for (size_t i = 0; i < plan.threads; i++) {
        for (unsigned k = 0; k < HISTOGRAM_STEPS * HISTOGRAM_DOUBLINGS; k++)
            all.count[k] += caller[i].times.count[k];
        all.total += caller[i].times.total;
    }
    (void)printf(" p50_us=%.2f p99_us=%.2f p999_us=%.2f\n", (double)histogram_at(&all, 500) / 1e3,
                 (double)histogram_at(&all, 990) / 1e3, (double)histogram_at(&all, 999) / 1e3);
}

static void print(struct usage u, uint64_t count)
{
    const double s = (double)u.wall_ns / NS_PER_S, n = (double)count;

    if (plan.threads > 1)
        u.client_wait_ns = 0; /* they wait for each other, too */
    (void)printf("decisions=%.0f seconds=%.4f rate=%.1f server_ns=%.1f server_busy=%.4f "
                 "server_system=%.4f client_ns=%.1f client_busy=%.4f lost=%.4f",
                 n, s, n / s, (double)u.server_cpu_ns / n,
                 (double)u.server_cpu_ns / (double)u.wall_ns, usage_system(&u),
                 (double)u.client_cpu_ns / n, (double)u.client_cpu_ns / (double)u.wall_ns,
                 usage_lost(&u));
    print_times();
}

/* ---- Options --------------------------------------------------------------------------------- */

static void usage(void)
{
    (void)fputs("remote_take --store URL --limit TEXT [OPTION...]\n"
                "  --name bench       of the limit\n"
                "  --threads 1        --batch 1   callers, and decisions in a call\n"
                "  --keys 100000      --each      every key once, and no more\n"
                "  --seconds 0.5      --warm 0.1  measured, and before that\n"
                "  --refused          what all answers are to be, else granted\n"
                "  --server PID       whose processor time to state\n"
                "  --core N           where to run\n",
                stderr);
    exit(2);
}

static void set(struct take_plan *p, int option, const char *value)
{
    switch (option) {
    case 'S': p->store = value; break;
    case 'l': p->limit = value; break;
    case 'n': p->name = value; break;
    case 't': p->threads = (size_t)strtod(value, NULL); break;
    case 'b': p->batch = (size_t)strtod(value, NULL); break;
    case 'k': p->keys = (uint64_t)strtod(value, NULL); break;
    case 's': p->seconds = strtod(value, NULL); break;
    case 'w': p->warm = strtod(value, NULL); break;
    case 'p': p->server = (pid_t)atoi(value); break;
    case 'C': p->core = atoi(value); break;
    case 'e': p->each = true; break;
    case 'r': p->refused = true; break;
    default: usage();
    }
}

static struct take_plan plan_of(int argc, char **argv)
{
    static const struct option OPTIONS[] = {{"store", required_argument, NULL, 'S'},
                                            {"limit", required_argument, NULL, 'l'},
                                            {"name", required_argument, NULL, 'n'},
                                            {"threads", required_argument, NULL, 't'},
                                            {"batch", required_argument, NULL, 'b'},
                                            {"keys", required_argument, NULL, 'k'},
                                            {"seconds", required_argument, NULL, 's'},
                                            {"warm", required_argument, NULL, 'w'},
                                            {"server", required_argument, NULL, 'p'},
                                            {"core", required_argument, NULL, 'C'},
                                            {"each", no_argument, NULL, 'e'},
                                            {"refused", no_argument, NULL, 'r'},
                                            {NULL, 0, NULL, 0}};
    struct take_plan p = {.name = "bench",
                          .threads = 1,
                          .batch = 1,
                          .keys = 100000,
                          .seconds = 0.5,
                          .warm = 0.1,
                          .core = -1};
    int option;

    while ((option = getopt_long(argc, argv, "", OPTIONS, NULL)) != -1)
        set(&p, option, optarg);
    if (optind < argc || !p.store || !p.limit || p.keys == 0 || p.threads == 0 ||
        p.threads > THREADS_MOST || p.batch == 0 || p.batch > BATCH_MOST)
        usage();
    return p;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void open_engine(void)
{
    const struct weir_options options = {.store = plan.store};
    struct weir_diag why;

    if (weir_open(&engine, &options, &why) != 0 ||
        weir_policy_set(engine, plan.name, plan.limit, &policy, &why) != 0) {
        (void)fprintf(stderr, "benchmark: %s\n", why.text);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    struct usage used;
    uint64_t count;

    plan = plan_of(argc, argv);
    if (plan.core >= 0)
        pin(plan.core);
    open_engine();
    if (plan.each) {
        fill_keys();
        check();
    } else {
        used = measure(&count);
        check();
        print(used, count);
    }
    weir_close(engine);
    return 0;
}
