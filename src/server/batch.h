/* Questions and their answers: where the fronts and the verbs meet.
 *
 * A front (RESP, HTTP) turns bytes into a question and knows how its answer is written; the verbs
 * know limits and time. No verb knows a protocol, no protocol a verb: a question carries the
 * function that writes its answer.
 */
#ifndef WEIR_SERVER_BATCH_H
#define WEIR_SERVER_BATCH_H

#include "server/limits/limits.h"
#include "server/server.h"

struct limit_op;

/* Writes the answer with out_room/out_done (out.h). error: 0 and v is the verdict; or a weir_error
 * and v is NULL. */
typedef void op_reply(struct conn *c, const struct limit_op *q, int error,
                      const struct weir_verdict *v);

struct limit_op {
    const struct limit *limit;
    struct weir__slice
        key; /* borrowed until batch_flush (decode in place, not on the stack); copied if
                               the question has to wait */
    int64_t cost;
    int64_t patience_ns; /* 0, a duration, WEIR_FOREVER or WEIR_WAIT_DEFAULT */
    bool delayed;        /* the answer is held back until the caller may act (WAIT) */
    op_reply *reply;
    uint32_t shape;          /* the front's own: which dialect, which flags */
    struct weir__slice name; /* of a reservation (AS), or {NULL, 0}; borrowed and copied likewise */
};

#define BATCH_MAX \
    64 /* takes are gathered at most: so many keys have to last until they are settled */

/* Takes. They are decided together with others of the same wake-up, in order; say is called then,
 * or when the turn has come if the question holds. Everything else that writes an answer must call
 * batch_flush first, so that answers stay in order. */
void batch_add(struct conn *c, const struct limit_op *q);
/* Decides what batch_add has gathered. */
void batch_flush(struct conn *c);

/* At once (each settles first). Errors as the engine's. */
int batch_peek(struct conn *c, const struct limit_op *q, struct weir_verdict *v);
int batch_refund(struct conn *c, const struct limit_op *q, int64_t *back);
#define RESET_FULL \
    "the store is full: there is no place where the key could be as good as new; try again"
int batch_reset(struct conn *c, const struct limit_op *q);
/* WEIR_ESTORE: they are not all in one store. */
int batch_take_all(struct conn *c, const struct limit_op *q, size_t n, struct weir_verdict *v);
/* Several, decided one by one in order and answered together (HTTP's batch): each has an error, or 0 and a
 * verdict. NULL: all are decided. Else `told` is called once, later; verdicts and errors must last until then, or
 * until remote_group_forget: after that they are not written, nor is anybody told. */
struct remote_group;
typedef void remote_group_done(void *arg);
struct remote_group *batch_take_many(struct conn *c, const struct limit_op *q, size_t n,
                                     struct weir_verdict *v, int *error, remote_group_done *told,
                                     void *arg);
void remote_group_forget(struct remote_group *m);
/* The named reservation of this connection: false if there is none. */
bool delayed_cancel(struct conn *c, struct weir__slice name, int64_t *back);

/* An answer that is worked out in steps, with others served in between (deferred.c). Its place among the answers is here;
 * the connection is not read from until the end. If it ends before, `gone` is called and the rest is void. NULL: no
 * memory. */
struct deferred;
typedef void deferred_step(void *arg);
struct deferred *deferred_begin(struct conn *c, deferred_step *step, deferred_step *gone,
                                void *arg);
/* Has `step` called when the loop has gone round. */
void deferred_resume(struct deferred *l);
/* What is written from here to deferred_end is the answer. */
void deferred_reply(struct deferred *l);
void deferred_end(struct deferred *l);

/* A time that a caller will wait: milliseconds, a duration such as 1.5s, or forever. */
bool wire_patience(struct weir__slice word, int64_t *ns);
/* As much of it as the daemon has (--max-wait). */
int64_t server_patience(const struct server *s, int64_t patience_ns);

/* Nanoseconds as the wire has them, rounded up; -1 stays -1. */
static inline int64_t wire_ms(int64_t ns)
{
    return ns < 0 ? -1 : ns / 1000000 + (ns % 1000000 != 0);
}

static inline int64_t wire_s(int64_t ns)
{
    return ns < 0 ? -1 : ns / 1000000000 + (ns % 1000000000 != 0);
}

#endif
