/* Requests to remote stores, for which no worker waits. For the files of this folder:
 *
 *     remote_request.c   requests that are begun, and answered when the store has replied
 *     remote_group.c     many takes that are answered together
 *     remote_pipeline.c  a worker's pipeline to each remote store, and its loop
 *     remote_none.c      instead of these, in a build without hiredis
 *
 * A request gets its place among the replies of its connection (out.c) and is begun on the pipeline
 * that its worker has to that store. What is begun in one wake-up leaves in one write, before the
 * loop sleeps; when the store has answered, the replies are written into their places. There is
 * always a result, after the store's timeout at the latest: for a decision the limit's fallback,
 * for an undo an error. The pipeline keeps the order, so each request sees those before it.
 *
 * Invariants:
 *   (1) Every request that is begun ends once. Until then it retains its limits, and its keys are
 *       copies.
 *   (2) A connection that has closed gets no reply; what it took stays taken, as if it had been
 *       answered. What it reserved and did not act on is given back (delayed.h). Its requests that
 *       are not begun are dropped, except those that give back.
 *   (3) No more than REMOTE_MOST requests are under way in a worker; the others wait in a queue,
 *       first come first served. So a pipeline is never too full (WEIR__PIPELINE_COMMANDS; a
 *       backlog is drained in a command of its own), because then a limit would fall back though
 *       its store is up.
 *   (4) While REMOTE_MOST are under way, a connection that awaits a remote store is not read, and
 *       one that does not adds one request to the queue at most. Connections that ask for limits in
 *       memory go on.
 */
#ifndef WEIR_SERVER_REMOTE_REMOTE_REQUEST_H
#define WEIR_SERVER_REMOTE_REMOTE_REQUEST_H

#include "redis/embed.h"
#include "server/internal.h"

/* A worker's connection to a remote store. */
struct remote_pipeline {
    struct worker *worker;
    const struct store *store;
    struct weir__pipeline *pipeline;
    bool due;   /* it must run: a request was begun, or a reply can be read */
    int unsent; /* requests that were begun since the last write */

    uv_poll_t *poll; /* NULL: nothing is watched */
    int fd, events;
    unsigned epoch; /* of the connection that is watched */
};

/* A worker's remote stores. */
struct remote_stores {
    struct remote_pipeline pipeline[SERVE_STORES_MAX]; /* by store; unused for local ones */
    bool any;                                          /* at least one store is remote */
    uv_timer_t due;
    struct remote_request *spare; /* memory for requests, to be reused */
    unsigned spare_n;
    struct remote_request *queue_first, *queue_last; /* requests that wait for room */
    bool steps;                                      /* replies are being read */
    struct remote_request *late; /* what is given back after that, the newest first */
    struct remote_group *group;  /* those that are not all begun */
};

enum remote_verb {
    REMOTE_TAKE,
    REMOTE_TAKE_ALL, /* of the operations in `all` */
    REMOTE_RESERVE,  /* a take whose grant is recorded in receipt.reservation */
    REMOTE_PEEK,
    REMOTE_CHARGE,
    REMOTE_REFUND,
    REMOTE_REFUND_AND_PEEK, /* then a peek without cost: the verdict describes the key as it is */
    REMOTE_RESET,
    REMOTE_CANCEL,   /* of `taken` */
    REMOTE_ENTER,    /* recorded in receipt.ticket */
    REMOTE_EXIT,     /* of `entered` */
    REMOTE_RELEASE,  /* of the ticket that the operation's name is */
    REMOTE_ESTIMATE, /* reserves what will be settled; op.id is 0 if nothing was reserved */
    REMOTE_SETTLE,   /* of op.id */
    REMOTE_WITHDRAW  /* the same for a client that has left; see weir__undo_cancel */
};

/* The operations of a REMOTE_TAKE_ALL. */
struct remote_all {
    size_t n;
    const struct limit *limit[WEIR_TERMS_MAX];
    struct weir_request rq[WEIR_TERMS_MAX];
    char keys[];
};

/* One request under way, or waiting for room. */
struct remote_request {
    struct weir__decision decision; /* first */
    struct weir__undo undo;
    struct remote_pipeline *pipeline;
    enum remote_verb verb;
    /* Called when it is over, with `error`, `verdict` of the decision and op.back set; frees it. */
    void (*done)(struct remote_request *request);
    void *arg;                  /* the owner's ... */
    size_t index;               /* ... both of them */
    struct awaited_reply place; /* of one that is answered by itself */
    struct limit_op op;         /* of several: the first */
    struct remote_all *all;     /* or NULL */
    struct weir__receipt receipt;
    struct weir_reservation *taken; /* or NULL; owned */
    struct weir_limit *numbers;     /* those of the operation, owned; or NULL */
    struct weir_ticket *entered;    /* or NULL; owned */
    enum weir_outcome how;          /* of an exit */
    uint64_t estimate;              /* the number of an ESTIMATE; 0: none was made */
    size_t key_bytes;
    int left; /* parts without a result */
    int error;
    bool over;   /* it ended while it was being begun, before it had a place */
    bool queued; /* it waits for room */
    struct remote_request *next, *prev; /* in the queue; `next` also among the spare or late ones */
    size_t cap;
    char key[];
};

/* Makes a request with a copy of its key and name; the limit is retained. NULL: no memory. */
struct remote_request *remote_request_make(struct worker *w, enum remote_verb verb,
                                           const struct limit_op *op);
void remote_request_free(struct remote_request *request);
/* Begins it if there is room, else when there is. It may be over before this returns. */
void remote_request_submit(struct remote_request *request);
/* Begins what was given back while replies were read. */
void remote_late_resume(struct worker *w);
/* Begins those that wait, as far as there is room; with `all`, even if there is none. */
void remote_queue_resume(struct worker *w, bool all);
/* True if the first of them can begin. */
bool remote_queue_can_resume(const struct worker *w);

/* Begins more takes of the waiting groups, as far as there is room. */
void remote_group_resume(struct worker *w);

#endif
