/* Undo on a Redis store: refund, reset, cancel, exit.
 *
 * These have no fallback. An undo that does not reach Redis is lost: the limit stays stricter,
 * never looser. So they return WEIR_EDOWN, and change nothing on this node either. While the store
 * is known to be down, a cancel can be tried again; one that was sent and not answered cannot,
 * because Redis may have done it. An exit can always be tried again: a ticket is released only
 * once.
 *
 * A thread that can wait calls weir_refund and its like. An event loop has a pipeline of its own
 * (redis_decide.h) and begins an undo here; the result arrives through `done`, at once or from
 * within weir__pipeline_step or weir__pipeline_close.
 */
#ifndef WEIR_REDIS_REDIS_UNDO_H
#define WEIR_REDIS_REDIS_UNDO_H

#include "engine/embed.h"
#include "redis/client/pipeline.h"

struct undo_command;
struct weir__redis_receipt;

/* One undo. The memory is the caller's, from begin until done. */
struct weir__undo {
    void (*done)(struct weir__undo *u);
    void *arg;
    int error;
    int64_t back; /* what was returned */

    /* The rest belongs to redis_undo.c. */
    struct weir__redis *redis;
    struct weir__pipeline *pipeline;
    struct weir__now at;
    int64_t deadline_ns;
    struct weir_request rq; /* of a refund or reset */
    bool resets;
    struct weir__slice name;             /* of the ticket that is released; else {NULL, 0} */
    struct weir__redis_receipt *receipt; /* of a cancel or exit; else NULL */
    bool withdraws;
    struct weir_ticket *exits; /* of an exit; else NULL */
    int n, left;               /* commands, and those without a reply */
    struct undo_command *command[2 * WEIR_TERMS_MAX];
};

/* Policy and key must last until it is done. The caller sets done and arg. */
void weir__undo_refund(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                       const struct weir_request *rq, struct weir__now at);
void weir__undo_reset(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                      const struct weir_request *rq, struct weir__now at);
/* Releases the permits of a ticket that any node has issued, by its name in the Redis; `back` is 0
 * if there is no such ticket (any more). The name must last until it is done. */
void weir__undo_release(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                        const struct weir_request *rq, struct weir__slice name,
                        struct weir__now at);
/* The reservation is used up, whatever the result; it need not last. With `withdraw`, terms that
 * know no cancel are refunded (weir__reservation_withdraw), and the next waiter is woken. */
void weir__undo_cancel(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                       struct weir_reservation *r, bool withdraw, struct weir__now at);
/* The ticket must last until it is done: after an error it can be exited again. */
void weir__undo_exit(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                     struct weir_ticket *t, enum weir_outcome how, struct weir__now at);

#endif
