/* Operations and their replies: where the fronts and the engine's verbs meet.
 *
 * A front (RESP, HTTP) turns bytes into an operation and knows how its reply is written; the verbs
 * know limits and time. No verb knows a protocol, no protocol knows a verb: an operation carries
 * the function that writes its reply.
 */
#ifndef WEIR_SERVER_BATCH_H
#define WEIR_SERVER_BATCH_H

#include "server/limits/limits.h"
#include "server/server.h"

struct limit_op;

/* Writes the reply with out_room/out_done (out.h). error: 0 and v is the verdict; or a weir_error
 * and v is NULL. */
typedef void op_reply(struct conn *c, const struct limit_op *op, int error,
                      const struct weir_verdict *v);

struct limit_op {
    const struct limit *limit;
    /* borrowed until batch_flush (decode in place, not on the stack); copied if the operation has
     * to wait */
    struct weir__slice key;
    int64_t cost;
    int64_t patience_ns; /* 0, a duration, WEIR_FOREVER or WEIR_WAIT_DEFAULT */
    bool delayed;        /* the reply is delayed until the caller may act (WAIT) */
    op_reply *reply;
    uint32_t shape; /* the front's own: which dialect, which flags */
    /* of a reservation (AS), or {NULL, 0}; borrowed and copied like the key */
    struct weir__slice name;
};

#define BATCH_MAX 64 /* most takes in one batch: their keys must last until the flush */

/* Adds a take. It is decided together with others of the same wake-up, in order; its reply function
 * is called then, or when its turn has come if the reply is delayed. All other code that writes a
 * reply must call batch_flush first, so that replies stay in order. */
void batch_add(struct conn *c, const struct limit_op *op);
/* Decides the takes that batch_add has gathered. */
void batch_flush(struct conn *c);

/* Decided at once (each flushes the batch first). Errors are the engine's. */
int batch_peek(struct conn *c, const struct limit_op *op, struct weir_verdict *v);
int batch_refund(struct conn *c, const struct limit_op *op, int64_t *back);
/* The message of a WEIR_EFULL for a take, and of what --no-admin refuses. */
#define TOO_MUCH_KEPT                                                                            \
    "limit reached: too many delayed replies or kept bytes for this connection, its address or " \
    "the daemon"
#define NO_ADMIN   "the daemon was started with --no-admin, so clients may only take and look"
#define RESET_FULL "the store is full: there is no place for a fresh key; try again"
int batch_reset(struct conn *c, const struct limit_op *op);
/* WEIR_ESTORE: the limits are not all in one store. */
int batch_take_all(struct conn *c, const struct limit_op *op, size_t n, struct weir_verdict *v);
/* Decides several takes one by one, in order, for one reply (HTTP's batch): each gets an error, or
 * 0 and a verdict. Returns NULL when all are decided. Otherwise `done` is called once, later;
 * verdicts and errors must last until then, or until remote_group_forget: after that they are not
 * written and `done` is not called. */
struct remote_group;
typedef void remote_group_done(void *arg);
struct remote_group *batch_take_many(struct conn *c, const struct limit_op *op, size_t n,
                                     struct weir_verdict *v, int *error, remote_group_done *done,
                                     void *arg);
void remote_group_forget(struct remote_group *m);
/* Cancels the named reservation of this connection: false if there is none. */
bool delayed_cancel(struct conn *c, struct weir__slice name, int64_t *back);

/* A reply that is worked out in steps, with other connections served in between (deferred.c). It
 * keeps its place among the replies; the connection is not read until the last step. If the
 * connection closes before that, `gone` is called and the rest is dropped. NULL: no memory. */
struct deferred;
typedef void deferred_step(void *arg);
struct deferred *deferred_begin(struct conn *c, deferred_step *step, deferred_step *gone,
                                void *arg);
/* Calls `step` again after one round of the loop. */
void deferred_resume(struct deferred *l);
/* Everything written from here to deferred_end is the reply. */
void deferred_reply(struct deferred *l);
void deferred_end(struct deferred *l);

/* Reads how long a caller will wait: milliseconds, a duration such as 1.5s, or forever. */
bool wire_patience(struct weir__slice word, int64_t *ns);
/* The same, cut to what the daemon allows (--max-wait). */
int64_t server_patience(const struct server *s, int64_t patience_ns);

/* Nanoseconds in the wire's unit, rounded up; -1 stays -1. */
static inline int64_t wire_ms(int64_t ns)
{
    return ns < 0 ? -1 : ns / 1000000 + (ns % 1000000 != 0);
}

static inline int64_t wire_s(int64_t ns)
{
    return ns < 0 ? -1 : ns / 1000000000 + (ns % 1000000000 != 0);
}

#endif
