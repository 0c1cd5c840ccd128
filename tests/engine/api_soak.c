/* A random walk over the public calls, in a store that is far too small: every call returns when it
 * should.
 *
 *     engine_api_soak [memory:|file: [SEED [MS [MAX_KEYS]]]]
 *
 * Four threads do whatever comes to their minds: take, wait, enter and forget to exit, change
 * limits under each other, and are disturbed by signals meanwhile. Each says what it does and for
 * how long it may; a watchdog ends the program when one is overdue. What the answers are worth is
 * for other tests; here they only have to be possible.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#include "backend.h"

#define MS        INT64_C(1000000)
#define SECOND    (1000 * MS)
#define WALKERS   4
#define POLICIES  12
#define TICKETS   64
#define CROWD     200
#define NAMES     300 /* keys that are asked for: many more than there are places */
#define BATCH     20
#define LENGTH(a) (sizeof(a) / sizeof *(a))

/* How late a call may be on a machine that has other things to do. One that is stuck is later. */
#define MARGIN_NS ((UNDER_TSAN || UNDER_ASAN ? 30 : 10) * SECOND)
#define SPIN_NS   (MARGIN_NS / 200) /* of processor time: fifty times what any call needs */
#define WAIT_MOST (30 * MS)

/* The limits that a policy has in turn: the first of each row to begin with. */
static const char *const LIMITS[POLICIES][3] = {
    {"fixed-window 5/1h", "fixed-window 50/1h", "sliding-log 5/1h"},
    {"token-bucket 10/s burst=3", "token-bucket 1/h burst=3", "leaky-bucket 10/s capacity=3"},
    {"sliding-window 5/100ms", "sliding-window 5/1h", "sliding-window 5/1h slots=20"},
    {"sliding-counter 5/50ms", "sliding-counter 5/1h", "min-interval 1ms"},
    {"pacer 200/s queue=10", "pacer 20/s", "pacer 1k/s max-wait=5ms"},
    {"smooth-warmup 100/s warmup=1s", "smooth-bursty 100/s", "smooth-bursty 2/s"},
    {"fixed-window 5/20ms + token-bucket 100/s + sliding-log 9/1h",
     "fixed-window 1/1h + pacer 10/s",
     "sliding-counter 3/1h count-denied + token-bucket 5/1h shadow"},
    {"concurrency 10", "concurrency 2", "concurrency 10 lease=10ms"},
    {"concurrency 3 queue=4 max-wait=20ms", "concurrency 1 queue=9 max-wait=30ms",
     "concurrency 3 queue=2 max-wait=10ms lease=5ms"},
    {"breaker volume=2 open=5ms", "breaker volume=9 window=1s", "aimd initial=2 min=1 max=4"},
    {"concurrency 4 queue=2 max-wait=10ms + fixed-window 9/10ms + breaker", "vegas", "gradient"},
    {"system inflight=500 rate=100k/s + concurrency 5", "adaptive-rate 1k/s min=10 max=10k",
     "bbr window=1s"},
};
#define FIRST_GUARD 7 /* of the rows above */

static struct {
    struct weir *w;
    struct weir_policy *policy[POLICIES];
    struct weir_limiter *limiter;
    struct weir_pool *pool;
    struct weir_ticket crowd[CROWD]; /* calls that are in flight all the while */
    _Atomic bool over;
} world;

struct api_soak_thread {
    pthread_t thread;
    int number;
    uint64_t random;
    struct weir_ticket ticket[TICKETS];
    int tickets;
    const char *_Atomic doing;                   /* NULL: nothing that could be late */
    _Atomic int64_t until_ns;                    /* when it should be done */
    int64_t cpu_ns, worst_late_ns, worst_cpu_ns; /* cpu_ns: when its call began */
    uint64_t calls, granted, refused, full, disturbed, errors;
};

static int64_t read_clock(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

static int64_t mono_ns(void)
{
    return read_clock(CLOCK_MONOTONIC);
}

/* How long this thread has had a processor. */
static int64_t cpu_ns(void)
{
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* splitmix64: 0..n-1 */
static uint64_t roll(struct api_soak_thread *me, uint64_t n)
{
    uint64_t x = me->random += UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % n;
}

/* ---- What is said of a call ---------------------------------------------------------------- */

static void begin(struct api_soak_thread *me, const char *what, int64_t may_take_ns)
{
    me->cpu_ns = cpu_ns();
    atomic_store(&me->until_ns, mono_ns() + may_take_ns);
    atomic_store(&me->doing, what);
    me->calls++;
}

static void fail(struct api_soak_thread *me, const char *what, int64_t number)
{
    (void)printf("walker %d: %s: %s (%" PRId64 ")\n", me->number, atomic_load(&me->doing), what,
                 number);
    (void)fflush(stdout);
    _exit(1);
}

static void end(struct api_soak_thread *me, int error)
{
    const int64_t late_ns = mono_ns() - atomic_load(&me->until_ns);
    const int64_t used_ns = cpu_ns() - me->cpu_ns;

    if (late_ns > me->worst_late_ns)
        me->worst_late_ns = late_ns;
    if (used_ns > me->worst_cpu_ns)
        me->worst_cpu_ns = used_ns;
    if (used_ns > SPIN_NS)
        fail(me, "spins: ms of processor time", used_ns / MS);
    me->disturbed += error == WEIR_EINTR;
    me->errors += error != 0 && error != WEIR_EINTR;
    /* EGUARD: a rate was asked of a policy that another walker has just made a guard. EINVAL: the
     * like. EBUSY: a thread of ours lost the processor in the midst of a decision, for a second. */
    if (error && error != WEIR_EINTR && error != WEIR_EINVAL && error != WEIR_EGUARD &&
        error != WEIR_EBUSY && error != WEIR_EFULL)
        fail(me, weir_error_name(error), error);
    atomic_store(&me->doing, NULL);
}

static void fail_by_verdict(struct api_soak_thread *me, const struct weir_verdict *v)
{
    (void)printf("allowed %d, reason %d, which %d, term %d, limit %" PRId64 ", remaining %" PRId64
                 ", wait %" PRId64 "\n",
                 v->allowed, v->reason, v->which, v->term, v->limit, v->remaining, v->wait_ns);
    fail(me, "an answer that cannot be: retry_after", v->retry_after_ns);
}

static void judge(struct api_soak_thread *me, int error, const struct weir_verdict *v)
{
    if (!error) {
        me->granted += v->allowed;
        me->refused += !v->allowed;
        me->full += v->reason == WEIR_FULL;
        if (v->remaining < 0 || v->remaining > v->limit || v->wait_ns < 0 ||
            v->retry_after_ns < -1 || (v->allowed && v->retry_after_ns != 0))
            fail_by_verdict(me, v);
    }
    end(me, error);
}

/* ---- What is asked ------------------------------------------------------------------------- */

static char names[NAMES][8];

static struct weir_request request(struct api_soak_thread *me, uint64_t first, uint64_t n)
{
    const char *name = names[roll(me, roll(me, 2) ? NAMES : 8)];
    const uint64_t patience = roll(me, 4);

    return (struct weir_request){.policy = world.policy[first + roll(me, n)],
                                 .key = name,
                                 .key_len = strlen(name),
                                 .cost = (int64_t)roll(me, 10) / 4,
                                 .patience_ns = patience == 0   ? 0
                                                : patience == 1 ? WEIR_FOREVER
                                                : patience == 2 ? WEIR_WAIT_DEFAULT
                                                                : (int64_t)roll(me, WAIT_MOST)};
}

static struct weir_request rate(struct api_soak_thread *me)
{
    return request(me, 0, FIRST_GUARD);
}

static struct weir_request guard(struct api_soak_thread *me)
{
    return request(me, FIRST_GUARD, POLICIES - FIRST_GUARD);
}

static void take(struct api_soak_thread *me)
{
    const struct weir_request rq = rate(me);
    struct weir_verdict v;

    begin(me, "take", 0);
    judge(me, weir_take(world.w, &rq, &v), &v);
}

static void peek(struct api_soak_thread *me)
{
    const struct weir_request rq = request(me, 0, POLICIES);
    struct weir_verdict v;

    begin(me, "peek", 0);
    judge(me, weir_peek(world.w, &rq, &v), &v);
}

static void take_many(struct api_soak_thread *me)
{
    struct weir_request rq[BATCH];
    struct weir_verdict v[BATCH];

    for (int i = 0; i < BATCH; i++)
        rq[i] = rate(me);
    begin(me, "take_many", 0);
    end(me, weir_take_many(world.w, rq, BATCH, v));
}

static void take_all(struct api_soak_thread *me)
{
    const size_t n = 1 + roll(me, 5);
    struct weir_request rq[5];
    struct weir_verdict v;

    for (size_t i = 0; i < n; i++)
        rq[i] = rate(me);
    begin(me, "take_all", 0);
    judge(me, weir_take_all(world.w, rq, n, &v), &v);
}

static void reserve(struct api_soak_thread *me)
{
    const struct weir_request rq = rate(me);
    struct weir_reservation r = {0};
    struct weir_verdict v;
    int error;

    begin(me, "reserve", 0);
    error = weir_reserve(world.w, &rq, 1, &r, &v);
    judge(me, error, &v);
    if (error || roll(me, 2))
        return;
    begin(me, "cancel", 0);
    end(me, weir_cancel(world.w, &r, NULL));
}

static void give_back(struct api_soak_thread *me)
{
    const struct weir_request rq = request(me, 0, POLICIES);

    begin(me, "refund", 0);
    end(me, weir_refund(world.w, &rq, NULL));
    if (roll(me, 4) == 0) {
        begin(me, "reset", 0);
        end(me, weir_reset(world.w, &rq));
    }
}

static void wait(struct api_soak_thread *me)
{
    const struct weir_request rq = roll(me, 20) ? rate(me) : guard(me);
    const int64_t may_ns = (int64_t)roll(me, WAIT_MOST);
    struct weir_verdict v;

    begin(me, "wait", may_ns);
    judge(me, weir_wait(world.w, &rq, weir_now(world.w) + may_ns, &v), &v);
}

static void wait_for_limiter(struct api_soak_thread *me)
{
    const int64_t may_ns = (int64_t)roll(me, WAIT_MOST);
    struct weir_verdict v;

    begin(me, "limiter_wait", may_ns);
    judge(me, weir_limiter_wait(world.limiter, (int64_t)roll(me, 3), weir_now(NULL) + may_ns, &v),
          &v);
}

static void exit_one(struct api_soak_thread *me, int i)
{
    begin(me, "exit", 0);
    end(me, weir_exit(world.w, &me->ticket[i], (enum weir_outcome)roll(me, 4)));
    me->ticket[i] = me->ticket[--me->tickets];
}

static void enter(struct api_soak_thread *me)
{
    const struct weir_request rq = guard(me);
    struct weir_verdict v;
    int error;

    if (me->tickets == TICKETS)
        exit_one(me, (int)roll(me, TICKETS));
    begin(me, "enter", WAIT_MOST); /* no limit here waits longer */
    error = weir_enter(world.w, &rq, &me->ticket[me->tickets], &v);
    judge(me, error, &v);
    me->tickets += !error && v.allowed;
}

static void enter_all(struct api_soak_thread *me)
{
    const struct weir_request rq[2] = {guard(me), rate(me)};
    struct weir_verdict v;
    int error;

    if (me->tickets == TICKETS)
        exit_one(me, (int)roll(me, TICKETS));
    begin(me, "enter_all", 0);
    error = weir_enter_all(world.w, rq, 2, &me->ticket[me->tickets], &v);
    judge(me, error, &v);
    me->tickets += !error && v.allowed;
}

static void leave(struct api_soak_thread *me)
{
    if (me->tickets > 0)
        exit_one(me, (int)roll(me, (uint64_t)me->tickets));
}

static enum weir_outcome succeed(void *arg)
{
    (void)arg;
    return WEIR_SUCCESS;
}

static void run(struct api_soak_thread *me)
{
    const struct weir_request rq = guard(me);
    struct weir_verdict v;

    begin(me, "run", WAIT_MOST);
    judge(me, weir_run(world.w, &rq, succeed, NULL, NULL, &v), &v);
}

static void *echo(void *arg)
{
    return arg;
}

static void call_pool(struct api_soak_thread *me)
{
    const struct weir_task task = {.run = echo};
    const int64_t may_ns = (int64_t)roll(me, WAIT_MOST);
    struct weir_verdict v;

    begin(me, "pool_call", may_ns);
    judge(me, weir_pool_call(world.pool, &task, may_ns, NULL, &v), &v);
}

/* Changes a limit that all threads use; or defines its own policy, and ends it. */
static void change(struct api_soak_thread *me)
{
    const uint64_t i = roll(me, POLICIES);
    const char *limit = LIMITS[i][roll(me, LENGTH(LIMITS[i]))];
    char name[32];

    begin(me, "policy_set", 0);
    (void)snprintf(name, sizeof name, "p%" PRIu64, i);
    end(me, weir_policy_set(world.w, name, limit, NULL, NULL));
    if (roll(me, 4) == 0) {
        struct weir_policy *mine = NULL;

        begin(me, "policy_forget", 0);
        (void)snprintf(name, sizeof name, "mine%d", me->number);
        if (weir_policy_set(world.w, name, limit, &mine, NULL) == 0)
            (void)weir_policy_forget(world.w, mine);
        end(me, 0);
    }
}

static void change_keys(struct api_soak_thread *me)
{
    const uint64_t i = roll(me, POLICIES);
    const char *name = names[roll(me, 8)];
    const struct weir_bytes listed = {name, strlen(name)};

    begin(me, "override_set", 0);
    (void)weir_override_set(world.w, world.policy[i], name, strlen(name),
                            roll(me, 2) ? LIMITS[i][0] : NULL, NULL);
    end(me, 0);
    begin(me, "list_set", 0);
    end(me,
        weir_list_set(world.w, world.policy[i], (enum weir_list)roll(me, 2), &listed, roll(me, 2)));
}

static void change_limiter(struct api_soak_thread *me)
{
    static const char *const OTHERS[] = {"token-bucket 200/s burst=3", "fixed-window 3/5ms",
                                         "sliding-log 2/10ms", "pacer 100/s"};

    begin(me, "limiter_change", 0);
    end(me, weir_limiter_change(world.limiter, OTHERS[roll(me, LENGTH(OTHERS))], NULL));
}

static void look(struct api_soak_thread *me)
{
    const struct weir_request rq = guard(me);
    struct weir_stats stats;
    struct weir_view view;

    begin(me, "stats", 0);
    end(me, weir_stats(world.w, &stats));
    begin(me, "guard_view", 0);
    end(me, weir_guard_view(world.w, &rq, 0, &view));
}

static const struct {
    void (*act)(struct api_soak_thread *me);
    int weight;
} ACTS[] = {
    {take, 20},
    {peek, 10},
    {take_many, 4},
    {take_all, 10},
    {reserve, 6},
    {give_back, 6},
    {wait, 12},
    {enter, 20},
    {enter_all, 5},
    {leave, 12},
    {run, 4},
    {call_pool, 2},
    {change, 1},
    {change_keys, 1},
    {change_limiter, 1},
    {look, 1},
    {wait_for_limiter, 4},
};

static void *api_soak_thread_run(void *arg)
{
    struct api_soak_thread *me = arg;
    int weights = 0;

    for (size_t i = 0; i < LENGTH(ACTS); i++)
        weights += ACTS[i].weight;
    while (!atomic_load(&world.over)) {
        int at = (int)roll(me, (uint64_t)weights);
        size_t i = 0;

        while (at >= ACTS[i].weight)
            at -= ACTS[i++].weight;
        ACTS[i].act(me);
    }
    while (me->tickets > 0)
        exit_one(me, 0);
    return NULL;
}

/* ---- The watchdog -------------------------------------------------------------------------- */

static void soak_log(int number)
{
    (void)number;
}

/* Ends the program if a walker is overdue. */
static void watch(const struct api_soak_thread *walker)
{
    for (int i = 0; i < WALKERS; i++) {
        const int64_t until_ns = atomic_load(&walker[i].until_ns);
        const char *doing = atomic_load(&walker[i].doing);
        const int64_t late_ns = mono_ns() - until_ns;

        if (doing && late_ns > MARGIN_NS) {
            (void)printf("walker %d: %s is %" PRId64 " ms late\n", i, doing, late_ns / MS);
            (void)fflush(stdout);
            _exit(1);
        }
    }
}

static void watch_for(struct api_soak_thread *walker, int64_t ns)
{
    const int64_t until_ns = mono_ns() + ns;

    for (int i = 0; mono_ns() < until_ns; i++) {
        (void)nanosleep(&(struct timespec){0, 3 * MS}, NULL);
        (void)pthread_kill(walker[i % WALKERS].thread, SIGUSR1);
        watch(walker);
    }
}

static void join_all(struct api_soak_thread *walker)
{
    atomic_store(&world.over, true);
    for (int i = 0; i < WALKERS; i++)
        while (pthread_tryjoin_np(walker[i].thread, NULL) != 0) {
            (void)nanosleep(&(struct timespec){0, MS}, NULL);
            watch(walker);
        }
}

/* ---- One walk ------------------------------------------------------------------------------ */

/* Half of the places are held: of some keys all that they could have. */
static void enter_crowd(uint64_t max_keys)
{
    struct weir_policy *p = backend_policy(world.w, "crowd", "concurrency 1", weir_now(world.w));
    struct weir_verdict v;

    for (uint32_t i = 0; i < CROWD && i < max_keys; i++) {
        const struct weir_request rq = {p, &i, sizeof i, 1, 0};

        if (weir_enter(world.w, &rq, &world.crowd[i], &v) != 0)
            abort();
    }
}

static void soak_open(uint64_t seed, uint64_t max_keys)
{
    static const enum weir_full FULL[] = {WEIR_FULL_EVICT, WEIR_FULL_DENY, WEIR_FULL_ALLOW};
    const struct weir_options o = {.max_keys = max_keys, .full = FULL[seed % LENGTH(FULL)]};
    const struct weir_pool_options pool = {.threads = 2, .queue = 1};

    memset(&world, 0, sizeof world);
    world.w = backend_open(&o);
    for (int i = 0; i < POLICIES; i++) {
        char name[32];

        (void)snprintf(name, sizeof name, "p%d", i);
        world.policy[i] = backend_policy(world.w, name, LIMITS[i][0], weir_now(world.w));
    }
    enter_crowd(max_keys);
    if (weir_limiter_open(&world.limiter, "token-bucket 200/s burst=3", NULL) != 0 ||
        weir_pool_open(&world.pool, &pool, NULL) != 0)
        abort();
}

static void soak_close(void)
{
    for (int i = 0; i < CROWD; i++)
        if (weir_exit(world.w, &world.crowd[i], WEIR_SUCCESS) != 0)
            abort();
    weir_pool_close(world.pool);
    weir_limiter_close(world.limiter);
    backend_close(world.w);
}

static void soak_once(uint64_t seed, int64_t ns, uint64_t max_keys)
{
    static struct api_soak_thread walker[WALKERS];
    struct api_soak_thread sum = {0};

    soak_open(seed, max_keys);
    memset(walker, 0, sizeof walker);
    for (int i = 0; i < WALKERS; i++) {
        walker[i].number = i;
        walker[i].random = seed * WALKERS + (uint64_t)i;
        if (pthread_create(&walker[i].thread, NULL, api_soak_thread_run, &walker[i]) != 0)
            abort();
    }
    watch_for(walker, ns);
    join_all(walker);
    for (int i = 0; i < WALKERS; i++) {
        sum.calls += walker[i].calls;
        sum.granted += walker[i].granted;
        sum.refused += walker[i].refused;
        sum.full += walker[i].full;
        sum.disturbed += walker[i].disturbed;
        sum.errors += walker[i].errors;
        if (walker[i].worst_late_ns > sum.worst_late_ns)
            sum.worst_late_ns = walker[i].worst_late_ns;
        if (walker[i].worst_cpu_ns > sum.worst_cpu_ns)
            sum.worst_cpu_ns = walker[i].worst_cpu_ns;
    }
    (void)printf("  seed %" PRIu64 ": %" PRIu64 " calls, %" PRIu64 " granted, %" PRIu64
                 " refused, %" PRIu64 " full, %" PRIu64 " disturbed, %" PRIu64
                 " errors, worst %.1f ms late, %.1f ms busy\n",
                 seed, sum.calls, sum.granted, sum.refused, sum.full, sum.disturbed, sum.errors,
                 (double)sum.worst_late_ns / 1e6, (double)sum.worst_cpu_ns / 1e6);
    if (sum.full == 0) {
        (void)puts("the store was never full");
        _exit(1);
    }
    soak_close();
}

int main(int argc, char **argv)
{
    const uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 0;
    const int64_t ms = argc > 3 ? strtoll(argv[3], NULL, 10) : 800;
    const uint64_t max_keys = argc > 4 ? strtoull(argv[4], NULL, 10) : 50;
    const struct sigaction heard = {.sa_handler = soak_log};

    if (argc > 1 && !backend_choose(argv[1]))
        return 2;
    (void)sigaction(SIGUSR1, &heard, NULL);
    for (int i = 0; i < NAMES; i++)
        (void)snprintf(names[i], sizeof names[i], "k%d", i);
    for (uint64_t i = 0; i < 3; i++) /* evict, deny, allow */
        soak_once(seed + i, ms * MS, max_keys);
    (void)printf("walk (%s): 3 passed, 0 failed\n", backend_kind());
    return 0;
}
