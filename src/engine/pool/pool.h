/* A pool's insides, shared by the files that make it up:
 *
 *     pool.c        open and close, the workers, drain and stop
 *     pool_call.c   submitting, and waiting for a result
 *
 * All that a pool will ever need is there when it is open: a place for each task that may be in it,
 * waiting or running. Places without a task are in a list; to submit is to fill one and to put it at
 * the end of the queue.
 *
 * Invariants:
 *   (1) queued + running <= places. A task that is let in has a worker or a place in the queue,
 *       however long the workers take to wake up; so `threads + queue` at once are let in, neither
 *       more nor fewer.
 *   (2) Tasks begin in the order in which they came. In a paced pool a worker has its turn first and
 *       takes the task when the turn has come: one that was taken back meanwhile has left no gap.
 *   (3) Of every task that was let in exactly one is true in the end: it ran, or it was cancelled.
 *   (4) A result goes to whoever waits for it, or else to `discard`, once.
 *   (5) No function of the caller's is called under the lock.
 *   (6) After fork() the workers are the parent's: the child's pool refuses, and its close only frees.
 */
#ifndef WEIR_ENGINE_POOL_POOL_H
#define WEIR_ENGINE_POOL_POOL_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "os/fork.h"
#include "os/wakeup.h"

/* Whoever waits for a result; on its stack. */
struct weir__pool_waiter {
    enum { WEIR__POOL_WAITING, WEIR__POOL_DONE, WEIR__POOL_DROPPED } at;
    void *result;
    struct weir__wakeup wakeup;
};

/* A place. */
struct weir__job {
    struct weir_task task;
    struct weir__pool_waiter *call; /* NULL: nobody waits, or no longer */
    bool runs;
    struct weir__job *next, *before;
};

struct weir_pool {
    pthread_mutex_t lock;  /* of all below */
    pthread_cond_t work;   /* workers: there may be some, or it is over */
    pthread_cond_t turn;   /* workers who wait for a turn: it is over */
    pthread_cond_t settle; /* drain and stop: there is less in the pool */
    uint32_t generation;   /* of processes; see fork.h */
    size_t places, threads, started;
    size_t queued, running;
    size_t turns;     /* workers who wait for one */
    bool shut, ended; /* it takes no more; the workers go */
    struct weir__job *first, *last, *free;
    struct weir_limiter *pace; /* NULL: none */
    uint64_t submitted, refused, ran, cancelled, late;
    pthread_t *thread;
    struct weir__job *job;
};

/* False: this is the child of a fork, which has no workers. */
static inline bool weir__pool_is_ours(const struct weir_pool *p)
{
    return p->generation == weir__owner_process.number;
}

/* All of these: the caller holds the lock. */
void weir__pool_append_locked(struct weir_pool *p, struct weir__job *j);
void weir__pool_remove_locked(struct weir_pool *p, struct weir__job *j);
void weir__pool_free_locked(struct weir_pool *p, struct weir__job *j);

#endif
