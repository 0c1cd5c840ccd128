/* Workers that use one file without pause, and their books. */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "soak.h"

#define MUCH    "1000000000/1h"
#define TICK_NS 1000

static const char *const limits[POLICIES] = {
    [COUNT] = "fixed-window " MUCH,
    [RING] = "sliding-window " MUCH " slots=60",
    [PREVIOUS] = "sliding-counter " MUCH,
    [BOTH] = "fixed-window " MUCH " + sliding-window " MUCH " slots=100",
    [CHANGE] = "fixed-window " MUCH,
    [TIGHT] = "token-bucket 1000/s burst=100",
};
static const char changed[] = "fixed-window 2000000000/1h";

struct soak_worker_thread {
    struct weir *w;
    struct soak_board *b;
    struct weir_policy *policy[POLICIES];
    _Atomic int *in_flight;
    int slot, thread;
    bool survives;
    uint64_t random;
    int64_t busy_since; /* 0: not */
};

/* ---- Books ----------------------------------------------------------------------------------- */

void soak_wrong(struct soak_board *b, const char *format, ...)
{
    va_list list;

    if (atomic_fetch_add(&b->wrong, 1) > 0)
        return;
    va_start(list, format);
    (void)vsnprintf(b->first_wrong, sizeof b->first_wrong, format, list);
    va_end(list);
}

int64_t soak_real_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

enum soak_policy soak_policy_of(int id)
{
    if (id >= ID_TIGHT)
        return TIGHT;
    if (id >= ID_OWN_RING)
        return RING;
    if (id >= ID_OWN)
        return COUNT;
    if (id >= ID_RING)
        return RING;
    if (id >= ID_CHANGE)
        return CHANGE;
    if (id >= ID_BOTH)
        return BOTH;
    if (id >= ID_PAIR_B)
        return RING;
    return id >= ID_PAIR_A ? PREVIOUS : COUNT;
}

struct weir_request soak_request(struct weir_policy *const policy[POLICIES], int id, char key[16])
{
    const int n = snprintf(key, 16, "key %d", id);

    return (struct weir_request){policy[soak_policy_of(id)], key, (size_t)n, 1, 0};
}

struct weir_request soak_idle_request(struct weir_policy *const policy[POLICIES], int i,
                                      char key[16])
{
    static const enum soak_policy kinds[] = {COUNT, RING, PREVIOUS, BOTH};
    const int n = snprintf(key, 16, "calm %d", i);

    return (struct weir_request){policy[kinds[i % 4]], key, (size_t)n, 1 + i, 0};
}

struct weir *soak_open_store(const char *store, struct soak_board *b,
                             struct weir_policy *policy[POLICIES])
{
    static const char *const names[POLICIES] = {"count", "ring",   "previous",
                                                "both",  "change", "tight"};
    const struct weir_options o = {.store = store, .max_keys = 250, .max_policies = POLICIES};
    struct weir_diag why = {0};
    struct weir *w;

    if (weir_open(&w, &o, &why) != 0) {
        soak_wrong(b, "cannot be opened: %.150s", why.text);
        return NULL;
    }
    for (int i = 0; i < POLICIES; i++) {
        policy[i] = weir_policy_find(w, names[i]);
        if (!policy[i] && weir_policy_set_at(w, names[i], limits[i], T0, &policy[i], &why) != 0) {
            soak_wrong(b, "no policy %s: %.150s", names[i], why.text);
            return NULL;
        }
    }
    return w;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

static uint64_t soak_roll(struct soak_worker_thread *k, uint64_t sides)
{
    k->random = k->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (k->random >> 33) % sides;
}

static int64_t soak_tick(struct soak_board *b)
{
    return atomic_fetch_add_explicit(&b->now_ns, TICK_NS, memory_order_relaxed);
}

/* Busy is an answer for a while: the thread that holds the key may have lost the processor. */
static bool is_answer(struct soak_worker_thread *k, int error, int64_t begun_ns)
{
    const int64_t now = soak_real_ns(), took = now - begun_ns;
    int64_t worst = atomic_load(&k->b->worst_ns);

    atomic_fetch_add_explicit(&k->b->decisions, 1, memory_order_relaxed);
    while (k->survives && took > worst &&
           !atomic_compare_exchange_weak(&k->b->worst_ns, &worst, took))
        ;
    if (k->survives && took > SECOND)
        soak_wrong(k->b, "a survivor waited for %lld ms", (long long)(took / 1000000));
    if (error == 0) {
        k->busy_since = 0;
        return true;
    }
    if (error != WEIR_EBUSY)
        soak_wrong(k->b, "%s", weir_error_name(error));
    atomic_fetch_add(&k->b->busy, 1);
    if (k->busy_since == 0)
        k->busy_since = begun_ns;
    if (k->survives && now - k->busy_since > SECOND)
        soak_wrong(k->b, "busy for more than a second");
    return false;
}

/* Strikes out what was in flight, reporting it first if it was granted. */
static void report(struct soak_worker_thread *k, int i, int id, const struct weir_verdict *v,
                   bool answered)
{
    if (answered && v->allowed)
        atomic_fetch_add(&k->b->book[id].reported, 1);
    if (answered && !v->allowed && id != ID_TIGHT)
        soak_wrong(k->b, "key %d was refused: %s", id, weir_reason_name(v->reason));
    atomic_store(&k->in_flight[i], 0);
}

static void soak_take_one(struct soak_worker_thread *k, int id)
{
    char key[16];
    const struct weir_request rq = soak_request(k->policy, id, key);
    const int64_t begun = soak_real_ns();
    struct weir_verdict v;

    atomic_store(&k->in_flight[0], id + 1);
    report(k, 0, id, &v, is_answer(k, weir_take_at(k->w, &rq, soak_tick(k->b), &v), begun));
}

static void soak_take_pair(struct soak_worker_thread *k)
{
    const int pair = (int)soak_roll(k, PAIRS), id[2] = {ID_PAIR_A + pair, ID_PAIR_B + pair};
    const int64_t begun = soak_real_ns();
    struct weir_request rq[2];
    struct weir_verdict v;
    char key[2][16];
    bool answered;

    for (int i = 0; i < 2; i++) {
        rq[i] = soak_request(k->policy, id[i], key[i]);
        atomic_store(&k->in_flight[i], id[i] + 1);
    }
    answered = is_answer(k, weir_take_all_at(k->w, rq, 2, soak_tick(k->b), &v), begun);
    for (int i = 0; i < 2; i++)
        report(k, i, id[i], &v, answered);
}

/* A batch that fails stops where it was: what came before is decided, and the caller does not learn
 * how much. So none of its grants are reported, and all of them may have happened. */
static void soak_take_batch(struct soak_worker_thread *k)
{
    const int64_t begun = soak_real_ns();
    struct weir_request rq[IN_FLIGHT];
    struct weir_verdict v[IN_FLIGHT];
    int id[IN_FLIGHT];
    char key[IN_FLIGHT][16];

    for (int i = 0; i < IN_FLIGHT; i++) {
        id[i] = (int)soak_roll(k, ID_OWN); /* not TIGHT, not a worker's own */
        if (id[i] >= ID_PAIR_A && id[i] < ID_BOTH)
            id[i] = ID_SHARED;
        rq[i] = soak_request(k->policy, id[i], key[i]);
        atomic_store(&k->in_flight[i], id[i] + 1);
    }
    if (is_answer(k, weir_take_many_at(k->w, rq, IN_FLIGHT, soak_tick(k->b), v), begun))
        for (int i = 0; i < IN_FLIGHT; i++)
            report(k, i, id[i], &v[i], true);
    else
        for (int i = 0; i < IN_FLIGHT; i++) {
            atomic_fetch_add(&k->b->book[id[i]].maybe, 1);
            atomic_store(&k->in_flight[i], 0);
        }
}

static void soak_change_limit(struct soak_worker_thread *k)
{
    const int64_t begun = soak_real_ns();
    const int error = weir_policy_set_at(k->w, "change", soak_roll(k, 2) ? limits[CHANGE] : changed,
                                         soak_tick(k->b), NULL, NULL);

    if (is_answer(k, error, begun))
        atomic_fetch_add(&k->b->changes, 1);
}

static void look_at_calm(struct soak_worker_thread *k)
{
    const int i = (int)soak_roll(k, CALM);
    char key[16];
    struct weir_request rq = soak_idle_request(k->policy, i, key);
    const int64_t begun = soak_real_ns();
    struct weir_verdict v;

    rq.cost = 0;
    if (is_answer(k, weir_peek_at(k->w, &rq, soak_tick(k->b), &v), begun) &&
        v.limit - v.remaining != 1 + i)
        soak_wrong(k->b, "an unused key has %lld used and not %d",
                   (long long)(v.limit - v.remaining), 1 + i);
}

/* ---- A worker -------------------------------------------------------------------------------- */

static void do_something(struct soak_worker_thread *k)
{
    const int own = k->slot * THREADS + k->thread;

    switch (soak_roll(k, 8)) {
    case 0: soak_take_one(k, ID_OWN + own); break;
    case 1: soak_take_one(k, ID_OWN_RING + own); break;
    case 2: soak_take_one(k, ID_SHARED + (int)soak_roll(k, SHARED)); break;
    case 3: soak_take_one(k, ID_BOTH + (int)soak_roll(k, 3 * PAIRS)); break;
    case 4: soak_take_pair(k); break;
    case 5: soak_take_batch(k); break;
    case 6: look_at_calm(k); break;
    case 7: soak_take_one(k, ID_TIGHT); break;
    }
    if (soak_roll(k, 3000) == 0)
        soak_change_limit(k);
}

static void *work(void *worker)
{
    struct soak_worker_thread *k = worker;

    while (!atomic_load(&k->b->stop))
        do_something(k);
    return NULL;
}

void soak_worker(const char *store, struct soak_board *b, int slot, uint64_t seed)
{
    struct soak_worker_thread k[THREADS] = {{.b = b, .slot = slot, .random = seed}};
    const bool two = seed % 3 == 0;
    pthread_t thread;

    k[0].w = soak_open_store(store, b, k[0].policy);
    if (!k[0].w)
        return;
    k[0].survives = slot >= SLOTS - SURVIVORS;
    k[0].in_flight = b->slot[slot][0].in_flight;
    k[1] = k[0];
    k[1].thread = 1;
    k[1].random = ~seed;
    k[1].in_flight = b->slot[slot][1].in_flight;
    if (two && pthread_create(&thread, NULL, work, &k[1]) != 0)
        abort();
    (void)work(&k[0]);
    if (two)
        (void)pthread_join(thread, NULL);
    weir_close(k[0].w);
}
