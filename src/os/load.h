/* What the system is doing: processor, memory, load and pressure, for the guards that look at them.
 *
 * Three parts. A *gauge* reads what the kernel says at one moment; it is the only part that knows a
 * platform (sampler_linux.c; sampler_none.c knows nothing and says so). The *smoothing* makes of two
 * readings and what was known before the numbers that guards compare. The *sampler* is a thread that
 * does so twice a second, one for each engine that has a guard who asks; what the caller injects
 * stands in the place of what is sampled.
 *
 * Invariants:
 *   (1) Whoever decides reads four words and waits for nobody.
 *   (2) What is not known is WEIR_NONE, and over no threshold.
 *   (3) There is at most one thread, from the first guard that asks to weir_close. After fork() the
 *       child has none; it gets its own when a guard asks again, and until then goes on with the last
 *       numbers.
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

/* ---- Gauges ------------------------------------------------------------------------------------ */

#define WEIR__GAUGE_PATH 512

/* Whose processor time is counted: of a container, of the group with its quota or of that with its
 * processors, whichever is the narrower. */
enum weir__cpu_of { WEIR__CPU_UNKNOWN, WEIR__CPU_MACHINE, WEIR__CPU_CONTAINER, WEIR__CPU_SET };

struct weir__reading {
    enum weir__cpu_of cpu_of;
    int64_t used_ns;     /* processor time used so far                                      */
    int64_t cores_milli; /* how much there is of it: 1500 is a second and a half in each one */
    int64_t memory_milli, load_milli, pressure_milli; /* WEIR_NONE: not known                */
};

/* Where this process's numbers are. Plain bytes. */
struct weir__gauge {
    char proc[WEIR__GAUGE_PATH], cgroup[WEIR__GAUGE_PATH];
    bool unified; /* control groups of the second version */
    /* Directories of control groups, "" where there are none: of the least quota and what is used of
     * it, of our processors and what is used of those, and our own for memory and pressure. */
    char quota[WEIR__GAUGE_PATH], usage[WEIR__GAUGE_PATH], cpuset[WEIR__GAUGE_PATH],
        cpuset_usage[WEIR__GAUGE_PATH], memory[WEIR__GAUGE_PATH], pressure[WEIR__GAUGE_PATH];
};

/* `proc` and `cgroup` are where the two are mounted; NULL: where they usually are. */
void weir__gauge_find(struct weir__gauge *g, const char *proc, const char *cgroup);
void weir__gauge_read(const struct weir__gauge *g, struct weir__reading *out);

/* ---- Smoothing --------------------------------------------------------------------------------- */

/* An exponential mean, in 2^-20 of a thousandth: so fine that what rounding loses is never seen. */
struct weir__mean {
    int64_t scaled;
};

/* `steps` samples of the same value; each weighs a twentieth. */
void weir__mean_add(struct weir__mean *m, int64_t milli, int64_t steps);
/* To the nearest thousandth. */
int64_t weir__mean_milli(const struct weir__mean *m);

/* The share of its processors that was used between two readings, 0..1000; WEIR_NONE if they do not
 * tell. */
int64_t weir__usage_between(const struct weir__reading *before, const struct weir__reading *now,
                            int64_t elapsed_ns);

/* ---- The sampler ------------------------------------------------------------------------------- */

struct weir__load {
    pthread_mutex_t lock; /* of all below but what is shown */
    bool wanted;          /* a guard has asked              */
    bool running;
    _Atomic bool missing; /* it ran in the parent of this process */
    _Atomic bool stop;
    pthread_t thread;
    struct weir__wakeup wakeup;
    struct weir_signals injected, sampled;
    _Atomic int64_t shown[4]; /* cpu, memory, load, pressure */
};

void weir__load_init(struct weir__load *s);
/* A guard asks: starts the thread unless there is one, or nothing to sample. WEIR_EIO: there is no
 * thread to be had. */
int weir__load_want(struct weir__load *s);
/* In the child of a fork. */
void weir__load_forked(struct weir__load *s);
/* Ends the thread and waits for it. */
void weir__load_close(struct weir__load *s);

int weir__load_inject(struct weir__load *s, const struct weir_signals *signals);

/* What guards are told. */
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
