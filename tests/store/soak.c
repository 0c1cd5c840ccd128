#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hammer.h"

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

struct worker {
    struct weir *w;
    struct board *b;
    struct weir_policy *policy[POLICIES];
    _Atomic int *in_flight;
    int slot, thread;
    bool survives;
    uint64_t dice;
    int64_t busy_since; /* 0: not */
};

/* ---- Books ------------------------------------------------------------------------------------- */

void wrong(struct board *b, const char *format, ...)
{
    va_list list;

    if (atomic_fetch_add(&b->wrong, 1) > 0)
        return;
    va_start(list, format);
    (void)vsnprintf(b->first_wrong, sizeof b->first_wrong, format, list);
    va_end(list);
}

int64_t real_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

enum policy policy_of(int id)
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

struct weir_request request_of(struct weir_policy *const policy[POLICIES], int id, char key[16])
{
    const int n = snprintf(key, 16, "key %d", id);

    return (struct weir_request){policy[policy_of(id)], key, (size_t)n, 1, 0};
}

struct weir_request calm_request(struct weir_policy *const policy[POLICIES], int i, char key[16])
{
    static const enum policy kinds[] = {COUNT, RING, PREVIOUS, BOTH};
    const int n = snprintf(key, 16, "calm %d", i);

    return (struct weir_request){policy[kinds[i % 4]], key, (size_t)n, 1 + i, 0};
}

struct weir *open_store(const char *store, struct board *b, struct weir_policy *policy[POLICIES])
{
    static const char *const names[POLICIES] = {"count", "ring",   "previous",
                                                "both",  "change", "tight"};
    const struct weir_options o = {.store = store, .max_keys = 250, .max_policies = POLICIES};
    struct weir_diag why = {0};
    struct weir *w;

    if (weir_open(&w, &o, &why) != 0) {
        wrong(b, "cannot be opened: %.150s", why.text);
        return NULL;
    }
    for (int i = 0; i < POLICIES; i++) {
        policy[i] = weir_policy_find(w, names[i]);
        if (!policy[i] && weir_policy_set_at(w, names[i], limits[i], T0, &policy[i], &why) != 0) {
            wrong(b, "no policy %s: %.150s", names[i], why.text);
            return NULL;
        }
    }
    return w;
}

/* ---- Calls ------------------------------------------------------------------------------------- */

static uint64_t roll(struct worker *k, uint64_t sides)
{
    k->dice = k->dice * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (k->dice >> 33) % sides;
}

static int64_t tick(struct board *b)
{
    return atomic_fetch_add_explicit(&b->now_ns, TICK_NS, memory_order_relaxed);
}

/* Busy is an answer for a while: whoever holds the key may have lost the processor. */
static bool is_answer(struct worker *k, int error, int64_t begun_ns)
{
    const int64_t now = real_ns(), took = now - begun_ns;
    int64_t worst = atomic_load(&k->b->worst_ns);

    atomic_fetch_add_explicit(&k->b->decisions, 1, memory_order_relaxed);
    while (k->survives && took > worst &&
           !atomic_compare_exchange_weak(&k->b->worst_ns, &worst, took))
        ;
    if (k->survives && took > SECOND)
        wrong(k->b, "a survivor waited for %lld ms", (long long)(took / 1000000));
    if (error == 0) {
        k->busy_since = 0;
        return true;
    }
    if (error != WEIR_EBUSY)
        wrong(k->b, "%s", weir_error_name(error));
    atomic_fetch_add(&k->b->busy, 1);
    if (k->busy_since == 0)
        k->busy_since = begun_ns;
    if (k->survives && now - k->busy_since > SECOND)
        wrong(k->b, "busy for more than a second");
    return false;
}

/* Strikes out what was in flight, reporting it first if it was granted. */
static void report(struct worker *k, int i, int id, const struct weir_verdict *v, bool answered)
{
    if (answered && v->allowed)
        atomic_fetch_add(&k->b->book[id].reported, 1);
    if (answered && !v->allowed && id != ID_TIGHT)
        wrong(k->b, "key %d was refused: %s", id, weir_reason_name(v->reason));
    atomic_store(&k->in_flight[i], 0);
}

static void take_one(struct worker *k, int id)
{
    char key[16];
    const struct weir_request rq = request_of(k->policy, id, key);
    const int64_t begun = real_ns();
    struct weir_verdict v;

    atomic_store(&k->in_flight[0], id + 1);
    report(k, 0, id, &v, is_answer(k, weir_take_at(k->w, &rq, tick(k->b), &v), begun));
}

static void take_pair(struct worker *k)
{
    const int pair = (int)roll(k, PAIRS), id[2] = {ID_PAIR_A + pair, ID_PAIR_B + pair};
    const int64_t begun = real_ns();
    struct weir_request rq[2];
    struct weir_verdict v;
    char key[2][16];
    bool answered;

    for (int i = 0; i < 2; i++) {
        rq[i] = request_of(k->policy, id[i], key[i]);
        atomic_store(&k->in_flight[i], id[i] + 1);
    }
    answered = is_answer(k, weir_take_all_at(k->w, rq, 2, tick(k->b), &v), begun);
    for (int i = 0; i < 2; i++)
        report(k, i, id[i], &v, answered);
}

/* A batch that fails stops where it was: what came before is decided, and nobody says how much. So none
 * of its grants are told, and all of them may have been. */
static void take_batch(struct worker *k)
{
    const int64_t begun = real_ns();
    struct weir_request rq[IN_FLIGHT];
    struct weir_verdict v[IN_FLIGHT];
    int id[IN_FLIGHT];
    char key[IN_FLIGHT][16];

    for (int i = 0; i < IN_FLIGHT; i++) {
        id[i] = (int)roll(k, ID_OWN); /* not TIGHT, nobody's own */
        if (id[i] >= ID_PAIR_A && id[i] < ID_BOTH)
            id[i] = ID_SHARED;
        rq[i] = request_of(k->policy, id[i], key[i]);
        atomic_store(&k->in_flight[i], id[i] + 1);
    }
    if (is_answer(k, weir_take_many_at(k->w, rq, IN_FLIGHT, tick(k->b), v), begun))
        for (int i = 0; i < IN_FLIGHT; i++)
            report(k, i, id[i], &v[i], true);
    else
        for (int i = 0; i < IN_FLIGHT; i++) {
            atomic_fetch_add(&k->b->book[id[i]].maybe, 1);
            atomic_store(&k->in_flight[i], 0);
        }
}

static void change_limit(struct worker *k)
{
    const int64_t begun = real_ns();
    const int error = weir_policy_set_at(k->w, "change", roll(k, 2) ? limits[CHANGE] : changed,
                                         tick(k->b), NULL, NULL);

    if (is_answer(k, error, begun))
        atomic_fetch_add(&k->b->changes, 1);
}

static void look_at_calm(struct worker *k)
{
    const int i = (int)roll(k, CALM);
    char key[16];
    struct weir_request rq = calm_request(k->policy, i, key);
    const int64_t begun = real_ns();
    struct weir_verdict v;

    rq.cost = 0;
    if (is_answer(k, weir_peek_at(k->w, &rq, tick(k->b), &v), begun) &&
        v.limit - v.remaining != 1 + i)
        wrong(k->b, "a key that nobody uses has %lld used and not %d",
              (long long)(v.limit - v.remaining), 1 + i);
}

/* ---- A worker ---------------------------------------------------------------------------------- */

static void do_something(struct worker *k)
{
    const int own = k->slot * THREADS + k->thread;

    switch (roll(k, 8)) {
    case 0: take_one(k, ID_OWN + own); break;
    case 1: take_one(k, ID_OWN_RING + own); break;
    case 2: take_one(k, ID_SHARED + (int)roll(k, SHARED)); break;
    case 3: take_one(k, ID_BOTH + (int)roll(k, 3 * PAIRS)); break;
    case 4: take_pair(k); break;
    case 5: take_batch(k); break;
    case 6: look_at_calm(k); break;
    case 7: take_one(k, ID_TIGHT); break;
    }
    if (roll(k, 3000) == 0)
        change_limit(k);
}

static void *work(void *worker)
{
    struct worker *k = worker;

    while (!atomic_load(&k->b->stop))
        do_something(k);
    return NULL;
}

void hammer(const char *store, struct board *b, int slot, uint64_t seed)
{
    struct worker k[THREADS] = {{.b = b, .slot = slot, .dice = seed}};
    const bool two = seed % 3 == 0;
    pthread_t thread;

    k[0].w = open_store(store, b, k[0].policy);
    if (!k[0].w)
        return;
    k[0].survives = slot >= SLOTS - SURVIVORS;
    k[0].in_flight = b->slot[slot][0].in_flight;
    k[1] = k[0];
    k[1].thread = 1;
    k[1].dice = ~seed;
    k[1].in_flight = b->slot[slot][1].in_flight;
    if (two && pthread_create(&thread, NULL, work, &k[1]) != 0)
        abort();
    (void)work(&k[0]);
    if (two)
        (void)pthread_join(thread, NULL);
    weir_close(k[0].w);
}
