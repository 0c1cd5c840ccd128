/* The smoothing of load samples, and the sampler thread. The idea is in load.h.
 *
 * The mean is that of kratos: a sample every half second, each with a weight of one twentieth, so
 * that one busy second does not look like an overload and sixteen do: 1 - 0.95^32 is more than 80%.
 * kratos drops the fraction at each step, so a processor that is always busy reaches only 981
 * thousandths; here the loss is too small to show.
 */
#include "os/load.h"

#include <signal.h>
#include <time.h>

#define SCALE     (INT64_C(1) << 20)
#define WEIGHT    20                     /* a sample has a weight of one in this many */
#define STEPS_MAX 1000                   /* after these, no trace of the old mean is left */
#define LEAST_NS  (10 * WEIR__NS_PER_MS) /* readings closer than this are not compared */

/* ---- Smoothing ----------------------------------------------------------------------------- */

void weir__mean_add(struct weir__mean *m, int64_t milli, int64_t steps)
{
    for (steps = weir__min(steps, STEPS_MAX); steps > 0; steps--)
        m->scaled += (milli * SCALE - m->scaled) / WEIGHT;
}

int64_t weir__mean_milli(const struct weir__mean *m)
{
    return (m->scaled + SCALE / 2) / SCALE;
}

int64_t weir__usage_between(const struct weir__reading *before, const struct weir__reading *now,
                            int64_t elapsed_ns)
{
    const int64_t used_ns = now->used_ns - before->used_ns;

    if (now->cpu_of == WEIR__CPU_UNKNOWN || now->cpu_of != before->cpu_of ||
        now->cores_milli <= 0 || elapsed_ns < LEAST_NS || used_ns < 0)
        return WEIR_NONE;
    /* share = used / (elapsed * cores); both thousands at once. */
    return weir__min(1000, (int64_t)(weir__wide(used_ns) * 1000000 /
                                     (weir__wide(elapsed_ns) * weir__wide(now->cores_milli))));
}

/* ---- What is shown ------------------------------------------------------------------------- */

static int64_t load_either(int64_t injected, int64_t sampled)
{
    return injected != WEIR_NONE ? injected : sampled;
}

/* The caller holds the lock. */
static void load_show_locked(struct weir__load *s)
{
    const struct weir_signals *i = &s->injected, *d = &s->sampled;

    atomic_store_explicit(&s->shown[0], load_either(i->cpu_milli, d->cpu_milli),
                          memory_order_relaxed);
    atomic_store_explicit(&s->shown[1], load_either(i->memory_milli, d->memory_milli),
                          memory_order_relaxed);
    atomic_store_explicit(&s->shown[2], load_either(i->load_milli, d->load_milli),
                          memory_order_relaxed);
    atomic_store_explicit(&s->shown[3], load_either(i->pressure_milli, d->pressure_milli),
                          memory_order_relaxed);
}

static bool all_injected(const struct weir_signals *i)
{
    return i->cpu_milli != WEIR_NONE && i->memory_milli != WEIR_NONE &&
           i->load_milli != WEIR_NONE && i->pressure_milli != WEIR_NONE;
}

static void load_update(struct weir__load *s, const struct weir__reading *r, int64_t cpu_milli)
{
    (void)pthread_mutex_lock(&s->lock);
    s->sampled = (struct weir_signals){.cpu_milli = cpu_milli,
                                       .memory_milli = r->memory_milli,
                                       .load_milli = r->load_milli,
                                       .pressure_milli = r->pressure_milli};
    load_show_locked(s);
    (void)pthread_mutex_unlock(&s->lock);
}

/* ---- The thread ---------------------------------------------------------------------------- */

static int64_t load_monotonic_ns(void)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * WEIR__NS_PER_S + t.tv_nsec;
}

/* A late sample also stands for the samples that were missed. */
static int64_t steps_in(int64_t elapsed_ns)
{
    return weir__max(1, (elapsed_ns + WEIR__LOAD_SAMPLE_NS / 2) / WEIR__LOAD_SAMPLE_NS);
}

static void *load_sample_loop(void *arg)
{
    struct weir__load *s = arg;
    struct weir__gauge gauge;
    struct weir__reading before, now;
    struct weir__mean cpu = {0};
    int64_t before_ns = load_monotonic_ns(), shown = WEIR_NONE;

    weir__gauge_find(&gauge, NULL, NULL);
    weir__gauge_read(&gauge, &before);
    load_update(s, &before, shown);
    while (!atomic_load(&s->stop)) {
        int64_t now_ns, share;

        (void)weir__wakeup_wait(&s->wakeup, WEIR__LOAD_SAMPLE_NS);
        now_ns = load_monotonic_ns();
        weir__gauge_read(&gauge, &now);
        share = weir__usage_between(&before, &now, now_ns - before_ns);
        if (share != WEIR_NONE) {
            weir__mean_add(&cpu, share, steps_in(now_ns - before_ns));
            shown = weir__mean_milli(&cpu);
        }
        load_update(s, &now, shown);
        before = now;
        before_ns = now_ns;
    }
    return NULL;
}

/* Starts the thread if it is needed, with all signals blocked: they are for the program's own
 * threads. The caller holds the lock. */
static int load_start_locked(struct weir__load *s)
{
    sigset_t all, old;
    int error;

    if (s->running || s->unsampled || !s->wanted || all_injected(&s->injected)) {
        atomic_store(&s->missing, false);
        return 0;
    }
    atomic_store(&s->stop, false);
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &old);
    error = pthread_create(&s->thread, NULL, load_sample_loop, s);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    s->running = error == 0;
    atomic_store(&s->missing, false); /* after a failure, decisions do not try again and again */
    return error == 0 ? 0 : WEIR_EIO;
}

/* ---- For the engine ------------------------------------------------------------------------ */

static const struct weir_signals NOTHING = {WEIR_NONE, WEIR_NONE, WEIR_NONE, WEIR_NONE};

void weir__load_init(struct weir__load *s)
{
    *s = (struct weir__load){.injected = NOTHING, .sampled = NOTHING};
    (void)pthread_mutex_init(&s->lock, NULL);
    load_show_locked(s);
}

int weir__load_want(struct weir__load *s)
{
    int error;

    (void)pthread_mutex_lock(&s->lock);
    s->wanted = true;
    error = load_start_locked(s);
    (void)pthread_mutex_unlock(&s->lock);
    return error;
}

int weir__load_inject(struct weir__load *s, const struct weir_signals *signals)
{
    int error;

    (void)pthread_mutex_lock(&s->lock);
    s->injected = *signals;
    load_show_locked(s);
    error = load_start_locked(s);
    (void)pthread_mutex_unlock(&s->lock);
    return error;
}

void weir__load_unsampled(struct weir__load *s)
{
    s->unsampled = true;
}

void weir__load_forked(struct weir__load *s)
{
    (void)pthread_mutex_init(&s->lock, NULL);
    s->running = false;
    atomic_store(&s->missing, s->wanted && !s->unsampled && !all_injected(&s->injected));
}

void weir__load_close(struct weir__load *s)
{
    if (s->running) {
        atomic_store(&s->stop, true);
        weir__wakeup_signal(&s->wakeup);
        (void)pthread_join(s->thread, NULL);
    }
    (void)pthread_mutex_destroy(&s->lock);
}
