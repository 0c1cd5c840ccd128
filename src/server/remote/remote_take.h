/* Takes from remote stores, for which no worker waits. For the files of this folder:
 *
 *     remote_take.c      takes that are begun, and answered when the store has replied
 *     remote_group.c     many of them that are answered together
 *     remote_pipeline.c  a worker's pipeline to each remote store, and its loop
 *     remote_none.c      instead of these, in a build without hiredis
 *
 * A take gets its place among the replies of its connection (out.c) and is begun on the pipeline
 * that its worker has to that store. What is begun in one wake-up leaves in one write, before the
 * loop sleeps; when the store has answered, the replies are written into their places. There is
 * always a reply, after the store's timeout at the latest: the limit's fallback.
 *
 * Every other command to a remote store goes through the engine, which waits. So that it sees the
 * takes before it, the pipeline is drained first (remote_sync).
 *
 * Invariants:
 *   (1) Every take that is begun completes once. Until then it retains its limit, and its key is a
 *       copy.
 *   (2) A connection that has closed gets no reply; what it took stays taken, as if it had been
 *       answered.
 *   (3) No more than REMOTE_MOST takes are under way in a worker. At that number none of its
 *       connections is read; so a pipeline is never too full (WEIR__PIPELINE_COMMANDS; a backlog is
 *       drained in a command of its own), because then a limit would fall back though its store is
 *       up.
 */
#ifndef WEIR_SERVER_REMOTE_REMOTE_TAKE_H
#define WEIR_SERVER_REMOTE_REMOTE_TAKE_H

#include "redis/embed.h"
#include "server/internal.h"

/* A worker's connection to a remote store. */
struct remote_pipeline {
    struct worker *worker;
    const struct store *store;
    struct weir__pipeline *pipeline;
    bool due;   /* it must run: a take was begun, or a reply can be read */
    int unsent; /* takes that were begun since the last write */

    uv_poll_t *poll; /* NULL: nothing is watched */
    int fd, events;
    unsigned epoch; /* of the connection that is watched */
};

/* A worker's remote stores. */
struct remote_stores {
    struct remote_pipeline pipeline[SERVE_STORES_MAX]; /* by store; unused for local ones */
    bool any;                                          /* at least one store is remote */
    uv_timer_t due;
    struct remote_request *spare; /* memory for takes, to be reused */
    struct remote_group *group;   /* those that are not all begun */
};

/* One take under way. */
struct remote_request {
    struct weir__decision decision; /* first */
    struct remote_pipeline *pipeline;
    struct awaited_reply place; /* of a take that is answered by itself */
    struct remote_group *group; /* or NULL: the group it belongs to, ... */
    size_t index;               /* ... and its index there */
    struct limit_op op;
    bool done; /* it completed while it was being begun */
    struct remote_request *next_spare;
    size_t cap;
    char key[];
};

/* Makes a take with a copy of its key; the limit is retained. NULL: no memory. */
struct remote_request *remote_request_make(struct worker *w, const struct limit_op *op);
void remote_request_free(struct remote_request *a);
/* Begins it; it may complete before this returns. */
void remote_request_begin(struct remote_request *a);

/* One take of the group has completed. */
void remote_group_reply(struct remote_request *a);
/* Begins more takes of the waiting groups, as far as there is room. */
void remote_group_resume(struct worker *w);

#endif
