/* Questions and their answers: where the fronts and the verbs meet.
 *
 * A front (RESP, HTTP) turns bytes into a question and knows how its answer is written; the verbs
 * know limits and time. No verb knows a protocol, no protocol a verb: a question carries the
 * function that writes its answer.
 */
#ifndef WEIR_SERVER_ANSWER_H
#define WEIR_SERVER_ANSWER_H

#include "server/limits.h"
#include "server/server.h"

struct question;

/* Writes the answer with out_room/out_done (out.h). error: 0 and v is the verdict; or a weir_error
 * and v is NULL. */
typedef void say(struct conn *c, const struct question *q, int error, const struct weir_verdict *v);

struct question {
    const struct limit *limit;
    struct weir__slice
        key; /* borrowed until ask_settle (decode in place, not on the stack); copied if
                               the question has to wait */
    int64_t cost;
    int64_t patience_ns; /* 0, a duration, WEIR_FOREVER or WEIR_WAIT_DEFAULT */
    bool holds;          /* the answer is held back until the caller may act (WAIT) */
    say *say;
    uint32_t shape;          /* the front's own: which dialect, which flags */
    struct weir__slice name; /* of a reservation (AS), or {NULL, 0}; borrowed and copied likewise */
};

/* Takes. They are decided together with others of the same wake-up, in order; say is called then,
 * or when the turn has come if the question holds. Everything else that writes an answer must call
 * ask_settle first, so that answers stay in order. */
void ask_take(struct conn *c, const struct question *q);
/* Decides what ask_take has gathered. */
void ask_settle(struct conn *c);

/* At once (each settles first). Errors as the engine's. */
int ask_peek(struct conn *c, const struct question *q, struct weir_verdict *v);
int ask_refund(struct conn *c, const struct question *q, int64_t *back);
int ask_reset(struct conn *c, const struct question *q);
/* WEIR_ESTORE: they are not all in one store. */
int ask_take_all(struct conn *c, const struct question *q, size_t n, struct weir_verdict *v);
/* Several, decided one by one in order and answered together (HTTP's batch): each has an error, or 0 and a
 * verdict. `told` is called once, now or later, to write the answer; c is NULL if nobody hears it any more.
 * Verdicts and errors must last until then. */
typedef void ask_told(struct conn *c, void *arg);
void ask_take_many(struct conn *c, const struct question *q, size_t n, struct weir_verdict *v,
                   int *error, ask_told *told, void *arg);
/* The named reservation of this connection: false if there is none. */
bool ask_cancel(struct conn *c, struct weir__slice name, int64_t *back);

/* A time that a caller will wait: milliseconds, a duration such as 1.5s, or forever. */
bool wire_patience(struct weir__slice word, int64_t *ns);

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
