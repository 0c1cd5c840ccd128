/* Those who share a pipeline: who drives the link, and how the others hear of it.
 *
 * `driven` says that somebody drives. Who awaits its commands and finds nobody driving drives, until all of them are
 * finished; then one of those who still wait is rung, and drives from there. So there is no thread between a lone
 * caller and its answer: it writes, polls and reads itself. The newest is chosen, for its answer comes last: it
 * will read for all the others, and hand on least often.
 *
 * A driver that polls is not disturbed by others who write, but for three things that it must hear of: the socket
 * took only a part, so that it is to be polled for room as well; a deadline that is sooner than the one it polls
 * until; the link broke. For those there is a pipe (`kick`).
 *
 * Invariants:
 *   (1) While a command is awaited there is a driver, or one has been rung to be it.
 *   (2) A waiter is in the list until it is rung, and is rung once. It leaves when it has heard, and only then: so
 *       its bell, on its stack, is there for whoever rings.
 *   (3) `finished` of a command without a `done` is set under the lock, so that who is about to await it sees it.
 *   (4) No thread is cancelled in here: the pipeline would stay without a driver.
 */
#ifndef WEIR_REDIS_CLIENT_LEADER_H
#define WEIR_REDIS_CLIENT_LEADER_H

#include "os/wakeup.h"
#include "redis/client/connection.h"

struct weir__pipeline_waiter {
    struct weir__wakeup wakeup;
    struct weir__pipeline_waiter *before, *next;
    size_t left;    /* commands that it waits for; 1 if it settles */
    uint64_t up_to; /* it waits for all commands up to this one; 0: it does not */
    bool leads;     /* what it was rung for: to drive, or else because it is over */
};

struct weir__pipeline {
    struct weir__connection connection;

    /* Under the link's lock. */
    bool has_leader;
    bool in_callbacks; /* commands' `done` are being called */
    bool woken;
    struct weir__pipeline_waiter *waiters; /* the newest first */
    int all_waiters;                       /* of those who wait or drive */
    int64_t until_ns;                      /* the driver polls until then ... */
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

/* The pipe; if there can be none, a driver looks every few milliseconds. */
void weir__leader_wake_open(struct weir__pipeline *pipeline);
void weir__leader_wake_close(struct weir__pipeline *pipeline);

/* Until what `me` waits for is there. The lock is held, and dropped. */
void weir__leader_wait_locked(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *me);
/* Sends what is queued, unless somebody else drives. */
void weir__leader_flush(struct weir__pipeline *pipeline);
/* Drives, without waiting, unless somebody else does. */
void weir__leader_step(struct weir__pipeline *pipeline);
/* These are over: whoever waits for them is told. `me` drives, or is NULL. */
void weir__leader_finish(struct weir__pipeline *pipeline, struct weir__commands *over,
                         struct weir__pipeline_waiter *me);

#endif
