/* A pipeline: one connection to Redis that many callers share.
 *
 * Any thread submits commands, and each waits for its own replies only. Commands of all threads
 * leave together, and replies come back in the same order. No thread is dedicated to a pipeline:
 * one of the waiting threads is the leader and reads for all of them, until its own replies are
 * there; then another one leads (pipeline.c). A daemon's worker has a pipeline of its own, which
 * its event loop drives instead: fd, events, deadline, step.
 *
 * If a command has no reply by its deadline, or the connection breaks, or the peer violates the
 * protocol, all commands of the pipeline fail at once (WEIR_EDOWN) and the connection is closed: a
 * reply that came later could not be assigned to a command. The next command opens another
 * connection. Connect, handshake (AUTH, SELECT) and reply together must meet that command's
 * deadline.
 *
 * Invariants:
 *   (1) Commands are sent and answered in the order in which they were submitted. The exception is
 *       a command that is sent again (NOSCRIPT: the script is loaded and the command repeated; it
 *       had charged nothing).
 *   (2) A command's `done` is called once, by the leader, without the pipeline's lock. After that
 *       the pipeline does not touch the command.
 *   (3) At most WEIR__PIPELINE_COMMANDS commands and WEIR__PIPELINE_BYTES bytes wait in a pipeline;
 *       it refuses more.
 *   (4) No caller waits past its deadline, whatever the peer does.
 */
#ifndef WEIR_REDIS_CLIENT_PIPELINE_H
#define WEIR_REDIS_CLIENT_PIPELINE_H

#include <stdatomic.h>

#include <weir.h>

#include "os/tick_line.h"
#include "redis/client/address.h"
#include "redis/client/reply.h"

#define WEIR__PIPELINE_COMMANDS 4096
#define WEIR__PIPELINE_BYTES    (16 << 20)

/* One command and its reply. The memory is the caller's, from submit until done. */
struct weir__command {
    const char *bytes; /* the command, as RESP; must last until done */
    size_t len;
    unsigned script;     /* the script that it calls (scripts.h), for NOSCRIPT; 0: none */
    int64_t deadline_ns; /* by weir__clock_now() */
    /* Called once the command is finished. Must be quick; may submit but not wait; may free the
     * command. NULL: a thread may await the command, and only then. */
    void (*done)(struct weir__command *c);
    void *arg; /* for the caller's use */

    /* The reply. */
    _Atomic int finished; /* set last */
    int error;            /* 0; WEIR_EDOWN: no reply; WEIR_EIO: an error reply */
    int n;                /* how many integers the reply has (an array of them, or one) */
    int64_t number[WEIR__REPLY_NUMBERS];
    char text
        [WEIR__REPLY_TEXT]; /* why there is no reply; or the error, status or string of the reply */

    /* Used by the pipeline. */
    struct weir__command *next;
    struct weir__pipeline_waiter *waiter; /* the thread that awaits it, or NULL */
    uint64_t sequence;                    /* its number in the order of submission, from 1 */
    int repeats;
    bool loads; /* its script's load went just ahead: the first reply is for that */
};

/* What a pipeline asks of its owner, and reports to it. Called without the pipeline's lock. */
struct weir__pipeline_watch {
    /* A command got no reply, or an error about Redis itself (OOM, READONLY, LOADING, ...). */
    void (*failed)(void *arg, const char *why);
    /* Copies the address to connect to. It may change when a name is resolved again. */
    void (*address)(void *arg, struct weir__address *a);
    void *arg;
};

struct weir__pipeline;

/* For an event loop: while it is paused, requests that are begun would overtake one that first asks
 * for what it must know (redis_decide.c), so the loop begins none. */
void weir__pipeline_pause(struct weir__pipeline *pipeline);
void weir__pipeline_resume(struct weir__pipeline *pipeline);
bool weir__pipeline_is_paused(const struct weir__pipeline *pipeline);

int weir__pipeline_open(struct weir__pipeline **pipeline, const struct weir__pipeline_watch *watch);
/* Fails the commands that still wait. No other thread may use the pipeline any more. */
void weir__pipeline_close(struct weir__pipeline *pipeline);
/* After fork(), in the child: the connection is the parent's, and is dropped without sending
 * anything. */
void weir__pipeline_forked(struct weir__pipeline *pipeline);

/* Queues all n commands, or none. False: there is no room. They are sent with the next await,
 * await_all, flush or step of any thread, together with everything that was submitted until
 * then. */
bool weir__pipeline_submit(struct weir__pipeline *pipeline, struct weir__command *const *c,
                           size_t n);
/* Waits until all n are finished; no longer than their deadlines. */
void weir__pipeline_await(struct weir__pipeline *pipeline, struct weir__command *const *c,
                          size_t n);
/* Waits until everything that was submitted is finished. */
void weir__pipeline_await_all(struct weir__pipeline *pipeline);

/* For an event loop, which steps the pipeline after it has submitted, when the descriptor is
 * ready, and at the deadline. The descriptor changes with the connection: ask again after every
 * step. -1: there is none; then the loop waits for the deadline only. The epoch differs from
 * connection to connection, even if the descriptor has the same number. */
int weir__pipeline_fd(struct weir__pipeline *pipeline);
unsigned weir__pipeline_epoch(struct weir__pipeline *pipeline);
short weir__pipeline_events(struct weir__pipeline *pipeline); /* POLLIN, POLLOUT */
/* When to step at the latest: the soonest deadline (or a little before); 0: now; INT64_MAX:
 * nothing waits. */
int64_t weir__pipeline_deadline(struct weir__pipeline *pipeline);
/* Sends what was submitted, as much as the socket takes; finishes nothing. */
void weir__pipeline_flush(struct weir__pipeline *pipeline);
/* Reads, writes, finishes commands, and fails those past their deadline. Never waits. */
void weir__pipeline_step(struct weir__pipeline *pipeline);

#endif
