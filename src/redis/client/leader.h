/* Those who share a lane: who drives the link, and how the others hear of it.
 *
 * `driven` says that somebody drives. Who awaits its calls and finds nobody driving drives, until all of them are
 * finished; then one of those who still wait is rung, and drives from there. So there is no thread between a lone
 * caller and its answer: it writes, polls and reads itself. The newest is chosen, for its answer comes last: it
 * will read for all the others, and hand on least often.
 *
 * A driver that polls is not disturbed by others who write, but for three things that it must hear of: the socket
 * took only a part, so that it is to be polled for room as well; a deadline that is sooner than the one it polls
 * until; the link broke. For those there is a pipe (`kick`).
 *
 * Invariants:
 *   (1) While a call is awaited there is a driver, or one has been rung to be it.
 *   (2) A waiter is in the list until it is rung, and is rung once. It leaves when it has heard, and only then: so
 *       its bell, on its stack, is there for whoever rings.
 *   (3) `finished` of a call without a `done` is set under the lock, so that who is about to await it sees it.
 *   (4) No thread is cancelled in here: the lane would stay without a driver.
 */
#ifndef WEIR_REMOTE_CREW_H
#define WEIR_REMOTE_CREW_H

#include "engine/bell.h"
#include "remote/link.h"

struct weir__waiter {
    struct weir__bell bell;
    struct weir__waiter *before, *next;
    size_t left;     /* calls that it waits for; 1 if it settles */
    uint64_t settle; /* it waits for all calls up to this one; 0: it does not */
    bool drives;     /* what it was rung for: to drive, or else because it is over */
};

struct weir__lane {
    struct weir__link link;

    /* Under the link's lock. */
    bool driven;
    bool telling; /* calls' `done` are being called */
    bool kicked;
    struct weir__waiter *waiters; /* the newest first */
    int settlers;                 /* of those who wait or drive */
    int64_t until_ns;             /* the driver polls until then ... */
    short events;                 /* ... and for these */

    int kick[2]; /* -1: there is none */
};

static inline void weir__crew_lock(struct weir__lane *lane)
{
    (void)pthread_mutex_lock(&lane->link.lock);
}

static inline void weir__crew_unlock(struct weir__lane *lane)
{
    (void)pthread_mutex_unlock(&lane->link.lock);
}

/* The pipe; if there can be none, a driver looks every few milliseconds. */
void weir__crew_open_kick(struct weir__lane *lane);
void weir__crew_close_kick(struct weir__lane *lane);

/* Until what `me` waits for is there. The lock is held, and dropped. */
void weir__crew_wait_locked(struct weir__lane *lane, struct weir__waiter *me);
/* Sends what is queued, unless somebody else drives. */
void weir__crew_push(struct weir__lane *lane);
/* Drives, without waiting, unless somebody else does. */
void weir__crew_turn(struct weir__lane *lane);
/* These are over: whoever waits for them is told. `me` drives, or is NULL. */
void weir__crew_finish(struct weir__lane *lane, struct weir__calls *over, struct weir__waiter *me);

#endif
