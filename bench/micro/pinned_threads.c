/* Runs one or two threads, each on its core, and times their work.
 *
 * The threads start together and stop together, so that all of them work during all of the measured
 * time. That holds for the wall clock alone, and only if no thread loses its core meanwhile: a
 * sample in which one does is taken again, a few times. */
#include "pinned_threads.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <time.h>

#include "stopwatch.h"

enum { CHUNK = 1024, TRIES = 8 };
static const double LOST_MOST = 0.03;

struct pinned_threads {
    pinned_work *work;
    void *arg;
    uint64_t count;
    int threads;
    atomic_int ready;
    atomic_bool done;
};

struct pinned_thread {
    struct pinned_threads *team;
    int who;
    uint64_t did;
    struct lap lap;
    pthread_t thread;
};

void start_pinned(int core, pthread_t *thread, void *(*run)(void *), void *arg)
{
    pthread_attr_t a;
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    (void)pthread_attr_init(&a);
    (void)pthread_attr_setaffinity_np(&a, sizeof set, &set);
    must(pthread_create(thread, &a, run, arg) == 0, "a thread starts");
    (void)pthread_attr_destroy(&a);
}

static void *run_pinned(void *arg)
{
    struct pinned_thread *m = arg;
    struct pinned_threads *c = m->team;
    struct lap start;

    for (uint64_t warm = 0; warm < c->count / 4; warm += CHUNK)
        c->work(c->arg, m->who, CHUNK);
    atomic_fetch_add(&c->ready, 1);
    while (atomic_load(&c->ready) < c->threads) {
    }
    start = lap_start();
    while (!atomic_load_explicit(&c->done, memory_order_relaxed) && m->did < c->count) {
        c->work(c->arg, m->who, CHUNK);
        m->did += CHUNK;
    }
    atomic_store(&c->done, true);
    m->lap = lap_end(start);
    return NULL;
}

/* The ns per operation and thread, and the largest part of its time that a thread lost. */
static double try_once(struct pinned_threads *c, double *lost)
{
    struct pinned_thread m[PINNED_MOST] = {0};
    uint64_t did = 0;
    double ns = 0;

    atomic_store(&c->ready, 0);
    atomic_store(&c->done, false);
    for (int i = 0; i < c->threads; i++) {
        m[i].team = c;
        m[i].who = i;
        start_pinned(i == 0 ? CORE_MAIN : CORE_OTHER, &m[i].thread, run_pinned, &m[i]);
    }
    *lost = 0;
    for (int i = 0; i < c->threads; i++) {
        (void)pthread_join(m[i].thread, NULL);
        did += m[i].did;
        ns += (double)(c->threads == 1 ? m[i].lap.cpu_ns : m[i].lap.wall_ns);
        if (lap_lost(m[i].lap) > *lost)
            *lost = lap_lost(m[i].lap);
    }
    return ns / (double)did;
}

void pinned_measure(pinned_work *work, void *arg, int threads, uint64_t count, const char *bench,
                    const char *scene, const char *who, int run)
{
    const struct timespec while_others_work = {.tv_nsec = 300000000};
    struct pinned_threads c = {.work = work, .arg = arg, .count = count, .threads = threads};
    double lost, ns = try_once(&c, &lost);

    for (int i = 1; threads > 1 && lost > LOST_MOST && i < TRIES; i++) {
        (void)nanosleep(&while_others_work, NULL);
        ns = try_once(&c, &lost);
    }
    emit(bench, scene, who, run, ns, lost);
}
