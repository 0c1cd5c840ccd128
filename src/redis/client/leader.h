/* Leader and followers: which of the threads that share a pipeline reads for all of them.
 *
 * No thread is dedicated to a pipeline. A thread that waits for its commands and finds no leader
 * becomes the leader (`has_leader`): it polls the connection and reads the replies of all threads,
 * until its own commands are finished. The others are followers: each sleeps until the leader wakes
 * it. A leader that is done wakes one follower, which leads from there. So a lone caller has no
 * other thread between itself and its reply: it writes, polls and reads by itself. The leader
 * chooses the newest follower, whose replies come last: that one reads for all the others, and the
 * lead changes hands least often.
 *
 * Threads that write do not disturb a leader that polls, with three exceptions: the socket took
 * only a part of the bytes, so the leader must also poll for room; a command has an earlier
 * deadline than the one that the leader polls until; the connection broke. For these there is a
 * pipe (`wake_pipe`).
 *
 * Invariants:
 *   (1) While a thread waits for a command there is a leader, or a follower that was woken to lead.
 *   (2) A follower is in the list until it is woken, and it is woken once. It returns only after
 *       that. So its wakeup, which is on its stack, still exists when the leader signals it.
 *   (3) `finished` of a command without a `done` is set under the lock, so a thread that is about
 *       to wait for the command sees it.
 *   (4) No thread can be cancelled in here: the pipeline would be left without a leader.
 */
#ifndef WEIR_REDIS_CLIENT_LEADER_H
#define WEIR_REDIS_CLIENT_LEADER_H

#include "os/wakeup.h"
#include "redis/client/connection.h"

struct weir__pipeline_waiter {
    struct weir__wakeup wakeup;
    struct weir__pipeline_waiter *before, *next;
    size_t left;    /* commands that it waits for; 1 if it waits for all */
    uint64_t up_to; /* it waits for all commands up to this one; 0: only for its own */
    bool leads;     /* why it was woken: to lead; else because its commands are finished */
};

struct weir__pipeline {
    struct weir__connection connection;

    /* Under the connection's lock. */
    bool has_leader;
    bool in_callbacks; /* the leader is calling the commands' `done` */
    bool woken;
    struct weir__pipeline_waiter *waiters; /* the newest first */
    int all_waiters;                       /* threads that wait for all commands (await_all) */
    int64_t until_ns;                      /* the leader polls until then ... */
    short events;                          /* ... and for these */

    int wake_pipe[2]; /* -1: there is none */
};

static inline void weir__pipeline_lock(struct weir__pipeline *pipeline)
{
    (void)pthread_mutex_lock(&pipeline->connection.lock);
}

static inline void weir__pipeline_unlock(struct weir__pipeline *pipeline)
{
    (void)pthread_mutex_unlock(&pipeline->connection.lock);
}

/* Opens the wake pipe. If that fails, a leader looks every few milliseconds instead. */
void weir__leader_wake_open(struct weir__pipeline *pipeline);
void weir__leader_wake_close(struct weir__pipeline *pipeline);

/* Waits until the commands of `me` are finished, as leader or follower. The caller holds the
 * lock; it is dropped. */
void weir__leader_wait_locked(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *me);
/* Sends what is queued, unless another thread leads. */
void weir__leader_flush(struct weir__pipeline *pipeline);
/* Leads for one step, without waiting, unless another thread leads. */
void weir__leader_step(struct weir__pipeline *pipeline);
/* These commands are over: calls their `done`, and wakes the threads that wait for them. `me` is
 * the leader, or NULL. */
void weir__leader_finish(struct weir__pipeline *pipeline, struct weir__commands *over,
                         struct weir__pipeline_waiter *me);

#endif
