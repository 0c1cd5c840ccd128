/* Takes from far stores, for which no worker waits. For the files that this is made of:
 *
 *     remote_take.c      takes that are begun, and answered when they are told
 *     remote_group.c     many of them that are answered together
 *     remote_pipeline.c  a worker's lane to each far store, and its loop
 *     remote_none.c      instead of these, in a build without hiredis
 *
 * A take gets its place among the answers of its connection (out.c) and is begun on the lane that its worker
 * has to that store. What is begun in one wake-up leaves in one write, before the loop sleeps; when the
 * store has answered, the answers are written into their places. There is always an answer, after the
 * store's timeout at the latest: the limit's fallback.
 *
 * Everything else that is asked of a far store is asked by the engine, which waits. So that it sees what
 * was taken before, the lane is settled first (remote_sync).
 *
 * Invariants:
 *   (1) Whatever is begun is told once. Until then it holds its limit, and its key is a copy.
 *   (2) A connection that has left is told nothing; what it took stays taken, as if it had been told.
 *   (3) No more than REMOTE_MOST are under way in a worker. When so many are, nobody there is read from; so a lane
 *       is never too full (WEIR__PIPELINE_COMMANDS; a debt is paid in a call of its own), for then a limit would fall
 *       back though its store is there.
 */
#ifndef WEIR_SERVER_REMOTE_REMOTE_TAKE_H
#define WEIR_SERVER_REMOTE_REMOTE_TAKE_H

#include "redis/embed.h"
#include "server/internal.h"

/* A worker's way to a far store. */
struct remote_pipeline {
    struct worker *worker;
    const struct store *store;
    struct weir__pipeline *pipeline;
    bool due;   /* to be turned: something was begun, or can be read */
    int unsent; /* takes that were begun since something was sent */

    uv_poll_t *poll; /* NULL: nothing is watched */
    int fd, events;
    unsigned epoch; /* of the connection that is watched */
};

/* What a worker has of far stores. */
struct remote_stores {
    struct remote_pipeline pipeline[SERVE_STORES_MAX]; /* by store; of near ones unused */
    bool any;                                          /* of them is far */
    uv_timer_t due;
    struct remote_request *spare; /* memory for takes */
    struct remote_group *group;   /* those that are not all begun */
};

/* One take under way. */
struct remote_request {
    struct weir__decision decision; /* first */
    struct remote_pipeline *pipeline;
    struct awaited_reply place; /* of one that is answered by itself */
    struct remote_group *group; /* or NULL: with these, ... */
    size_t index;               /* ... as this of them */
    struct limit_op op;
    bool done; /* while it was begun */
    struct remote_request *next_spare;
    size_t cap;
    char key[];
};

/* One, with its key's copy; the limit is held. NULL: no memory. */
struct remote_request *remote_request_make(struct worker *w, const struct limit_op *q);
void remote_request_free(struct remote_request *a);
/* Sends it on its way; it may be told before this returns. */
void remote_request_begin(struct remote_request *a);

/* One of many is told. */
void remote_group_reply(struct remote_request *a);
/* Begins more of those that are not all begun, as far as there is room. */
void remote_group_resume(struct worker *w);

#endif
