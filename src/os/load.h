/* The load of the system (processor, memory, load average, pressure), for the guards that need it.
 *
 * It has three parts. A *gauge* reads the kernel's numbers once; it is the only part that knows a
 * platform (load_linux.c; load_none.c reads nothing and says so). The *smoothing* turns two
 * readings and the mean so far into the numbers that guards compare. The *sampler* is a thread that
 * does so twice a second, one for each engine with a guard that needs it. Values that the caller
 * injects replace the sampled ones.
 *
 * Invariants:
 *   (1) A decision reads four words and waits for no other thread.
 *   (2) A value that is not known is WEIR_NONE, and exceeds no threshold.
 *   (3) There is at most one thread, from the first guard that needs it until weir_close. After
 *       fork() the child has none; it starts its own when a guard next needs it, and uses the last
 *       numbers until then.
 */
#ifndef WEIR_OS_LOAD_H
#define WEIR_OS_LOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "base/num.h"
#include "os/wakeup.h"

#define WEIR__LOAD_SAMPLE_NS (500 * WEIR__NS_PER_MS)

/* ---- Gauges -------------------------------------------------------------------------------- */

#define WEIR__GAUGE_PATH 512

/* Whose processor time is counted: the machine's, or that of the narrower of two control groups:
 * the one with the container's quota (CONTAINER), or the one with its set of processors (SET). */
enum weir__cpu_of { WEIR__CPU_UNKNOWN, WEIR__CPU_MACHINE, WEIR__CPU_CONTAINER, WEIR__CPU_SET };

struct weir__reading {
    enum weir__cpu_of cpu_of;
    int64_t used_ns;     /* processor time used so far                                      */
    int64_t cores_milli; /* processors available, times 1000: 1500 is one and a half        */
    int64_t memory_milli, load_milli, pressure_milli; /* WEIR_NONE: not known                */
};

/* The files that have this process's numbers. Plain bytes. */
struct weir__gauge {
    char proc[WEIR__GAUGE_PATH], cgroup[WEIR__GAUGE_PATH];
    bool unified; /* control groups of the second version */
    /* Directories of control groups, "" if there is none: the lowest quota and its usage, our set
     * of processors and its usage, and our own groups for memory and pressure. */
    char quota[WEIR__GAUGE_PATH], usage[WEIR__GAUGE_PATH], cpuset[WEIR__GAUGE_PATH],
        cpuset_usage[WEIR__GAUGE_PATH], memory[WEIR__GAUGE_PATH], pressure[WEIR__GAUGE_PATH];
};

/* `proc` and `cgroup` are the mount points of the two; NULL: the usual ones. */
void weir__gauge_find(struct weir__gauge *g, const char *proc, const char *cgroup);
void weir__gauge_read(const struct weir__gauge *g, struct weir__reading *out);

/* ---- Smoothing ----------------------------------------------------------------------------- */

/* An exponential mean, in units of 2^-20 of a thousandth: rounding errors never show. */
struct weir__mean {
    int64_t scaled;
};

/* Adds `steps` samples of the same value; each has a weight of one twentieth. */
void weir__mean_add(struct weir__mean *m, int64_t milli, int64_t steps);
/* The mean, to the nearest thousandth. */
int64_t weir__mean_milli(const struct weir__mean *m);

/* The share of the processors that was used between two readings, 0..1000; WEIR_NONE if the
 * readings cannot be compared. */
int64_t weir__usage_between(const struct weir__reading *before, const struct weir__reading *now,
                            int64_t elapsed_ns);

/* ---- The sampler --------------------------------------------------------------------------- */

struct weir__load {
    pthread_mutex_t lock; /* guards every field below but `shown` */
    bool unsampled;       /* there is no thread: what is not injected is not known */
    bool wanted;          /* a guard needs the thread             */
    bool running;
    _Atomic bool missing; /* the thread ran in the parent of this process */
    _Atomic bool stop;
    pthread_t thread;
    struct weir__wakeup wakeup;
    struct weir_signals injected, sampled;
    _Atomic int64_t shown[4]; /* cpu, memory, load, pressure */
};

void weir__load_init(struct weir__load *s);
/* A guard needs the load: starts the thread, unless it runs already or there is nothing to sample.
 * WEIR_EIO: the thread could not be started. */
int weir__load_want(struct weir__load *s);
/* From now on no thread is started. To be called before a guard needs the load. */
void weir__load_unsampled(struct weir__load *s);
/* Called in the child of a fork. */
void weir__load_forked(struct weir__load *s);
/* Ends the thread and waits for it. */
void weir__load_close(struct weir__load *s);

int weir__load_inject(struct weir__load *s, const struct weir_signals *signals);

/* The load that guards see. */
static inline struct weir_signals weir__load_shown(const struct weir__load *s)
{
    return (struct weir_signals){
        .cpu_milli = atomic_load_explicit(&s->shown[0], memory_order_relaxed),
        .memory_milli = atomic_load_explicit(&s->shown[1], memory_order_relaxed),
        .load_milli = atomic_load_explicit(&s->shown[2], memory_order_relaxed),
        .pressure_milli = atomic_load_explicit(&s->shown[3], memory_order_relaxed),
    };
}

#endif
