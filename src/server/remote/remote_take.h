/* Takes from far stores, for which no worker waits. For the files that this is made of:
 *
 *     far_take.c    takes that are begun, and answered when they are told
 *     far_many.c    many of them that are answered together
 *     far_lane.c    a worker's lane to each far store, and its loop
 *     far_none.c    instead of these, in a build without hiredis
 *
 * A take gets its place among the answers of its connection (out.c) and is begun on the lane that its worker
 * has to that store. What is begun in one wake-up leaves in one write, before the loop sleeps; when the
 * store has answered, the answers are written into their places. There is always an answer, after the
 * store's timeout at the latest: the limit's fallback.
 *
 * Everything else that is asked of a far store is asked by the engine, which waits. So that it sees what
 * was taken before, the lane is settled first (far_settle).
 *
 * Invariants:
 *   (1) Whatever is begun is told once. Until then it holds its limit, and its key is a copy.
 *   (2) A connection that has left is told nothing; what it took stays taken, as if it had been told.
 *   (3) No more than FAR_MOST are under way in a worker. When so many are, nobody there is read from; so a lane
 *       is never too full (WEIR__LANE_CALLS; a debt is paid in a call of its own), for then a limit would fall
 *       back though its store is there.
 */
#ifndef WEIR_SERVER_FAR_TAKE_H
#define WEIR_SERVER_FAR_TAKE_H

#include "remote/ask.h"
#include "server/inside.h"

/* A worker's way to a far store. */
struct lane {
    struct worker *worker;
    const struct store *store;
    struct weir__lane *lane;
    bool due;   /* to be turned: something was begun, or can be read */
    int unsent; /* takes that were begun since something was sent */

    uv_poll_t *poll; /* NULL: nothing is watched */
    int fd, events;
    unsigned epoch; /* of the connection that is watched */
};

/* What a worker has of far stores. */
struct far {
    struct lane lane[SERVE_STORES_MAX]; /* by store; of near ones unused */
    bool any;                           /* of them is far */
    uv_timer_t due;
    struct asked *spare; /* memory for takes */
    struct many *many;   /* those that are not all begun */
};

/* One take under way. */
struct asked {
    struct weir__asking asking; /* first */
    struct lane *lane;
    struct awaited place; /* of one that is answered by itself */
    struct many *many;    /* or NULL: with these, ... */
    size_t index;         /* ... as this of them */
    struct question question;
    bool told; /* while it was begun */
    struct asked *next_spare;
    size_t cap;
    char key[];
};

/* One, with its key's copy; the limit is held. NULL: no memory. */
struct asked *asked_make(struct worker *w, const struct question *q);
void asked_free(struct asked *a);
/* Sends it on its way; it may be told before this returns. */
void asked_begin(struct asked *a);

/* One of many is told. */
void many_told(struct asked *a);
/* Begins more of those that are not all begun, as far as there is room. */
void many_go_on(struct worker *w);

#endif
