/* One or two threads, each on its core, that do the same work at the same time. */
#ifndef WEIR_BENCH_MICRO_PINNED_THREADS_H
#define WEIR_BENCH_MICRO_PINNED_THREADS_H

#include <pthread.h>
#include <stdint.h>

/* Starts a thread on its core from its first instruction on: with real-time priority it might never
 * get there from a core on which another thread spins and waits for it. */
void start_pinned(int core, pthread_t *thread, void *(*run)(void *), void *arg);

enum { PINNED_MOST = 2 };

/* Does `count` operations as thread number `who`. Called again and again. */
typedef void pinned_work(void *arg, int who, uint64_t count);

/* Each thread works until the first has done `count` operations. Prints the ns of one operation in
 * each of the threads: 20 for two threads that do 100 million a second together. */
void pinned_measure(pinned_work *work, void *arg, int threads, uint64_t count, const char *bench,
                    const char *scene, const char *who, int run);

#endif
