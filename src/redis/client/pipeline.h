/* A pipelined connection that many callers share.
 *
 * Any thread submits commands; each waits for its own answer only. No thread belongs to a pipeline: whoever waits
 * and finds nobody reading reads for all, until its own answer is there, and then hands that on. A pipeline of
 * a loop's own (the daemon's workers) is driven by that loop instead: fd, events, deadline, turn.
 *
 * When a command is not answered by its deadline, or the connection breaks, or says what it may not,
 * all commands of the pipeline fail at once (WEIR_EDOWN) and the connection is closed: what would come from it later
 * is nobody's. The next command opens another; to be reached, greeted (AUTH, SELECT) and answered takes no
 * longer than that command's deadline allows.
 *
 * Invariants:
 *   (1) Calls are sent and answered in the order they were submitted, but for those that are sent again
 *       (NOSCRIPT: the script is loaded and the command repeated; it had charged nobody).
 *   (2) A command's `done` is called once, by whoever drives the pipeline, without the pipeline's lock. After that
 *       the pipeline does not touch the command.
 *   (3) At most WEIR__PIPELINE_COMMANDS commands and WEIR__PIPELINE_BYTES bytes wait in a pipeline; more are refused.
 *   (4) Nobody waits past its deadline, whatever the other side does or does not.
 */
#ifndef WEIR_REDIS_CLIENT_PIPELINE_H
#define WEIR_REDIS_CLIENT_PIPELINE_H

#include <stdatomic.h>

#include <weir.h>

#include "os/tick_line.h"
#include "redis/client/address.h"

#define WEIR__PIPELINE_COMMANDS 4096
#define WEIR__PIPELINE_BYTES    (16 << 20)
#define WEIR__REPLY_NUMBERS     32
#define WEIR__REPLY_TEXT        160

/* One question and its answer. The memory is the caller's, from submit until done. */
struct weir__command {
    const char *bytes; /* the command, as RESP; must last until done */
    size_t len;
    unsigned script;     /* the script that it names (scripts.h), for NOSCRIPT; 0: none */
    int64_t deadline_ns; /* by weir__clock_now() */
    /* Quick; may submit, but wait for nothing; may free the command. Or NULL: then, and only then, it may be
     * awaited. */
    void (*done)(struct weir__command *c);
    void *arg; /* of whoever submits */

    /* The answer. */
    _Atomic int finished; /* set last */
    int error;            /* 0; WEIR_EDOWN: no reply; WEIR_EIO: an error reply */
    int n;                /* integers of the reply (an array's, or the one) */
    int64_t number[WEIR__REPLY_NUMBERS];
    char text
        [WEIR__REPLY_TEXT]; /* why there is no reply; or the error, status or string of the reply */

    /* The pipeline's. */
    struct weir__command *next;
    struct weir__pipeline_waiter *waiter; /* whoever awaits it, or NULL */
    uint64_t sequence;                    /* the how-manieth of the pipeline */
    int repeats;
    bool loads; /* its script was sent just ahead: that is answered first */
};

/* What a pipeline says of its connection's health, to whoever keeps it. Called without the pipeline's lock. */
struct weir__pipeline_watch {
    /* A command was not answered, or with an error that is Redis's own (OOM, READONLY, LOADING, ...). */
    void (*failed)(void *arg, const char *why);
    /* The address to connect to: copies it. It may change (a name that resolves anew). */
    void (*address)(void *arg, struct weir__address *a);
    void *arg;
};

struct weir__pipeline;

int weir__pipeline_open(struct weir__pipeline **pipeline, const struct weir__pipeline_watch *watch);
/* Calls that wait fail first. Nobody else may use it any more. */
void weir__pipeline_close(struct weir__pipeline *pipeline);
/* After fork(), in the child: the connection is the parent's; forgets it without a word. */
void weir__pipeline_forked(struct weir__pipeline *pipeline);

/* All n or none: false if there is no room. Only queues: they are sent with the next await, settle or turn of
 * anybody, together with all that was submitted until then. */
bool weir__pipeline_submit(struct weir__pipeline *pipeline, struct weir__command *const *c,
                           size_t n);
/* Until all n are finished; no longer than their deadlines. */
void weir__pipeline_await(struct weir__pipeline *pipeline, struct weir__command *const *c,
                          size_t n);
/* Until all that was submitted is finished. */
void weir__pipeline_await_all(struct weir__pipeline *pipeline);

/* For a loop, which turns the pipeline when it has submitted what it has, when the descriptor is ready, and at the
 * deadline. The descriptor changes with the connection: ask after every turn. -1: none, and then nothing is to be
 * waited for but the deadline. The epoch is another for every connection, though its descriptor may have the same
 * number. */
int weir__pipeline_fd(struct weir__pipeline *pipeline);
unsigned weir__pipeline_epoch(struct weir__pipeline *pipeline);
short weir__pipeline_events(struct weir__pipeline *pipeline); /* POLLIN, POLLOUT */
/* When to turn it at the latest: the soonest of all commands' (or a little before); 0: now; INT64_MAX: none waits. */
int64_t weir__pipeline_deadline(struct weir__pipeline *pipeline);
/* Sends what was submitted, as far as that goes at once; finishes nothing. */
void weir__pipeline_flush(struct weir__pipeline *pipeline);
/* Reads, writes, finishes commands, and fails those whose time is over. Never waits. */
void weir__pipeline_step(struct weir__pipeline *pipeline);

#endif
