/* The internals of a pool, shared by the files that make it up:
 *
 *     pool.c        open and close, the workers, drain and stop
 *     pool_call.c   submitting, and waiting for a result
 *
 * An open pool has everything that it will ever need: a place for each task that may be in it,
 * waiting or running. Places without a task are in a list; a submit fills one and puts it at the
 * end of the queue.
 *
 * Invariants:
 *   (1) queued + running <= places. A task that is accepted has a worker or a place in the queue,
 *       however long the workers take to wake up; so the pool accepts `threads + queue` tasks at
 *       once, neither more nor fewer.
 *   (2) Tasks start in the order in which they came. In a paced pool a worker first reserves a
 *       turn, and takes the first task when the turn has come: so a task that was withdrawn in the
 *       meantime leaves no gap.
 *   (3) Every accepted task has exactly one end: it ran, or it was cancelled.
 *   (4) A result goes to the caller that waits for it, or else to `discard`, once.
 *   (5) No function of the caller's is called under the lock.
 *   (6) After fork() the workers are the parent's: the child's pool refuses, and its close only
 *       frees.
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

/* A caller that waits for a result; on its stack. */
struct weir__pool_waiter {
    enum { WEIR__POOL_WAITING, WEIR__POOL_DONE, WEIR__POOL_DROPPED } at;
    void *result;
    struct weir__wakeup wakeup;
};

/* A place for a task. */
struct weir__job {
    struct weir_task task;
    struct weir__pool_waiter *call; /* NULL: no caller waits (any more) */
    bool runs;
    struct weir__job *next, *before;
};

struct weir_pool {
    pthread_mutex_t lock;     /* guards every field below */
    pthread_cond_t work;      /* for workers: there may be a task, or the pool ends */
    pthread_cond_t pace_over; /* for workers that wait for the pace: the pool ends */
    pthread_cond_t drained;   /* for drain and stop: fewer tasks are in the pool */
    uint32_t generation;      /* the process generation; see fork.h */
    size_t places, threads, started;
    size_t queued, running;
    size_t pacing;    /* workers that wait for the pace */
    bool shut, ended; /* the pool refuses new tasks; the workers end */
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

/* For all of these the caller holds the lock. */
void weir__pool_append_locked(struct weir_pool *p, struct weir__job *j);
void weir__pool_remove_locked(struct weir_pool *p, struct weir__job *j);
void weir__pool_free_locked(struct weir_pool *p, struct weir__job *j);

#endif
