/* Operations and their replies: where the fronts and the engine's verbs meet.
 *
 * A front (RESP, HTTP) turns bytes into an operation and knows how its reply is written; the verbs
 * know limits and time. No verb knows a protocol, no protocol knows a verb: an operation carries
 * the function that writes its reply.
 */
#ifndef WEIR_SERVER_BATCH_H
#define WEIR_SERVER_BATCH_H

#include "engine/embed.h"
#include "server/limits/limits.h"
#include "server/server.h"

struct limit_op;

enum op_verb {
    OP_TAKE,
    OP_PEEK,
    OP_CHARGE,
    OP_ENTER, /* by ticket_enter */
    OP_REFUND,
    OP_REFUND_AND_PEEK, /* the verdict describes the key as it is after the refund */
    OP_RESET,
    OP_RESERVE, /* op->ttl_ns, op->lapses_free; the reply function gets op->id */
    OP_COMMIT,  /* of op->id */
    OP_CANCEL   /* of op->id; the reply function gets op->back */
};

/* Writes the reply with out_room/out_done (out.h). error: 0 and v is the verdict (of a take, a
 * peek or a charge); or a weir_error and v is NULL. */
typedef void op_reply(struct conn *c, const struct limit_op *op, int error,
                      const struct weir_verdict *v);

/* Requests that were decided together. */
struct op_all {
    size_t n;
    const struct limit *const *limit;
    const struct weir_request *rq;
};

struct limit_op {
    enum op_verb verb;
    const struct limit *limit;
    /* borrowed until batch_flush (decode in place, not on the stack); copied if the operation has
     * to wait */
    struct weir__slice key;
    int64_t cost;
    int64_t patience_ns; /* 0, a duration, WEIR_FOREVER or WEIR_WAIT_DEFAULT */
    bool delayed;        /* the reply is delayed until the caller may act (WAIT) */
    union {
        int64_t poll_ns; /* but no longer than this (POLL); 0: as long as it takes */
        int64_t ttl_ns;  /* of a reservation, before it is made ... */
        uint64_t id;     /* ... and its number; 0: none was made */
    };
    op_reply *reply;
    uint32_t shape;            /* the front's own: which dialect, which flags */
    union {                    /* for the reply function: */
        int64_t back;          /* what a refund or a cancel has returned */
        struct ticket *ticket; /* of an entry; NULL: it was refused */
    };
    /* of a reservation (AS); or the rules of a check (check.h); or the limit of OP_RESERVE as its
     * client wrote it; or {NULL, 0}. Borrowed and copied like the key */
    struct weir__slice name;
    /* in place of the limit's (LIMIT), of its shape; or NULL. Borrowed and copied like the key */
    const struct weir_limit *numbers;
    bool lapses_free; /* OP_RESERVE: it lapses as nothing */
    bool names_lone;  /* batch_take_all of one: the reply function gets its limit in any case */
    const struct op_all *all; /* for the reply function of batch_take_all, if there are several */
};

/* The operation as the engine wants it. */
static inline struct weir_request op_request(const struct limit_op *op)
{
    return (struct weir_request){.policy = op->limit->policy,
                                 .key = op->key.at,
                                 .key_len = op->key.len,
                                 .cost = op->cost,
                                 .patience_ns = op->patience_ns};
}

/* Copies key and name into `text`, which has room for both, so that the operation can wait. */
void op_keep_text(struct limit_op *op, char *text);

#define BATCH_MAX 64 /* most takes in one batch: their keys must last until the flush */

/* Adds a take. It is decided together with others of the same wake-up, in order; its reply function
 * is called then, or when its turn has come if the reply is delayed. All other code that writes a
 * reply must call batch_flush first, so that replies stay in order. */
void batch_add(struct conn *c, const struct limit_op *op);
/* Decides the takes that batch_add has gathered. */
void batch_flush(struct conn *c);

/* Runs another verb than a take, after all takes before it. Its reply function is called now; or
 * later, if the limit is in a remote store. */
void batch_run(struct conn *c, const struct limit_op *op);
/* Takes all or nothing; the reply function is that of the first. Its error is WEIR_ESTORE if the
 * limits are not all in one store. The operation that it gets has the limit that refused, or whose
 * shadow would have, and its key; NULL if there is none. */
void batch_take_all(struct conn *c, const struct limit_op *op, size_t n);
/* Cancels the named reservation of this connection; the reply function of the operation gets what
 * was returned. False: there is none of that name. */
bool delayed_cancel(struct conn *c, struct weir__slice name, op_reply *reply);
/* True if a take of that name is under way to a remote store: it cannot be cancelled yet. */
bool delayed_is_asked(struct conn *c, struct weir__slice name);

/* What each term has left after the decision, by its index in the limit (term_views.c). The verdict
 * is NULL if it is about other limits too. False: not known for each, because the limit has several
 * terms in a remote store, or there was no verdict of its own. */
bool limit_views(struct conn *c, const struct limit_op *op, const struct weir_verdict *v,
                 struct weir__term_view view[WEIR_TERMS_MAX]);

/* The state of a guard of the operation's limit, for its key. */
struct limit_guard {
    int term; /* its index in the limit */
    struct weir_view view;
};
/* Those of all guards; returns how many. 0: it has none, or they are in a remote store, or no
 * client has entered the limit (term_views.c). */
int limit_guards(const struct limit_op *op, struct limit_guard guard[WEIR_TERMS_MAX]);

/* The message of a WEIR_EFULL for a take, and of what --no-admin refuses. */
#define TOO_MUCH_KEPT                                                                            \
    "limit reached: too many delayed replies or kept bytes for this connection, its address or " \
    "the daemon"
#define NO_ADMIN   "the daemon was started with --no-admin, so clients may only take and look"
#define RESET_FULL "the store is full: there is no place for a fresh key; try again"

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
