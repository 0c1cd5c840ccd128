/* Time, places and lines of output: what every benchmark here needs.
 *
 * A lap has two lengths. For one thread we report the thread's own CPU time, so that the time of
 * another program on the core does not count; the difference to the wall clock is that other time,
 * and the output shows it as `lost`. Programs print samples, one per line:
 *
 *     BENCH  SCENE  CONTENDER  RUN  VALUE  LOST        separated by tabs
 *
 * The contenders of a ratio are measured one after the other within a run. Only report.py makes
 * medians and ratios from the samples.
 */
#ifndef WEIR_BENCH_STOPWATCH_H
#define WEIR_BENCH_STOPWATCH_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The cores of the measured thread and of the other one. */
enum { CORE_MAIN = 1, CORE_OTHER = 0 };

struct lap {
    int64_t wall_ns, cpu_ns;
};

static inline int64_t clock_ns(clockid_t id)
{
    struct timespec t;

    (void)clock_gettime(id, &t);
    return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static inline struct lap lap_start(void)
{
    const struct lap l = {clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_THREAD_CPUTIME_ID)};

    return l;
}

static inline struct lap lap_end(struct lap start)
{
    const int64_t cpu_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const struct lap l = {clock_ns(CLOCK_MONOTONIC) - start.wall_ns, cpu_ns - start.cpu_ns};

    return l;
}

/* The part of the lap during which the thread did not run: 0 to 1. */
static inline double lap_lost(struct lap l)
{
    return l.wall_ns > l.cpu_ns ? 1.0 - (double)l.cpu_ns / (double)l.wall_ns : 0.0;
}

/* Ends the program: a benchmark that does not do what it says must not print a number. */
static inline void must(int true_or_die, const char *what)
{
    if (true_or_die)
        return;
    (void)fprintf(stderr, "benchmark: not so: %s\n", what);
    exit(1);
}

/* Best effort: on a machine with one core, or one that forbids it, the benchmark runs all the
 * same. */
static inline void pin(int core)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET((size_t)core, &set);
    (void)sched_setaffinity(0, sizeof set, &set);
}

/* Makes the compiler compute x. */
static inline void keep(uint64_t x)
{
    __asm__ volatile("" : : "r"(x) : "memory");
}

static inline void emit(const char *bench, const char *scene, const char *who, int run,
                        double value, double lost)
{
    (void)printf("%s\t%s\t%s\t%d\t%.4f\t%.4f\n", bench, scene, who, run, value, lost);
    (void)fflush(stdout);
}

/* The ns per operation of a lap. */
static inline void emit_lap(const char *bench, const char *scene, const char *who, int run,
                            struct lap l, uint64_t operations)
{
    emit(bench, scene, who, run, (double)l.cpu_ns / (double)operations, lap_lost(l));
}

/* A number on the command line, in digits or as 1e6. */
static inline uint64_t number_arg(int argc, char **argv, int i)
{
    must(argc > i, "a number is missing on the command line");
    return (uint64_t)strtod(argv[i], NULL);
}

/* xorshift64*: quick, and random enough that no prefetcher follows. The seed is not 0. */
static inline uint64_t random_next(uint64_t *seed)
{
    uint64_t x = *seed;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *seed = x;
    return x * UINT64_C(0x2545f4914f6cdd1d);
}

/* A random number below n, almost evenly distributed. */
static inline uint64_t random_below(uint64_t *seed, uint64_t n)
{
    return (uint64_t)((unsigned __int128)random_next(seed) * n >> 64);
}

#endif
