/* A store on a Redis: what its parts share.
 *
 *     redis_store.c       open, close, policies, stats: the far store as the engine sees it (engine/remote.h)
 *     redis_decide.c      decisions: asked there, or answered here when the store is away
 *     redis_fallback.c    what is said then
 *     drain.c             the backlog: what this node granted alone, paid in later
 *     decision_receipt.c  what a grant leaves behind, so that it can be given back
 *     redis_undo.c        giving back: refund, cancel, exit, reset
 *     receipts.c          what reservations and tickets must remember until then
 *     plan.c              a limit as the scripts want it; encode.c requests in bytes
 *     pipeline.c          a pipelined connection that many share; connection.c the connection
 *     health.c            whether the store is there; monitor.c the thread that looks after it
 *     local.c             what this node grants by itself meanwhile; share.c how much that is
 */
#ifndef WEIR_REDIS_REDIS_STORE_H
#define WEIR_REDIS_REDIS_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/remote.h"
#include "redis/client/address.h"
#include "redis/client/pipeline.h"
#include "redis/fallback/local.h"
#include "redis/health.h"
#include "redis/monitor.h"
#include "redis/receipts.h"
#include "redis/script/plan.h"

struct weir__redis {
    struct weir__remote remote; /* first */
    struct weir__address address;
    struct weir__health health;
    struct weir__monitor *monitor;
    struct weir__local *local;
    struct weir__pipeline_watch watch;
    struct weir__pipeline *pipeline[16]; /* address.connections of them */
    struct weir__receipts *receipts;
    pthread_mutex_t lock;          /* of defining */
    pthread_mutex_t creation_lock; /* of whoever asks for one */
    _Atomic int64_t created_us;    /* of all limits that come with requests; -1: not known yet */
    char node[17];                 /* who we are among those who share */
    _Atomic uint64_t tickets;
    _Atomic uint64_t asked, failed, crowded;
};

/* What is known of a policy. */
struct weir__redis_policy {
    struct weir__local_limit *local;
    bool anonymous;                   /* it came with a request: its scope begins with "%%" */
    _Atomic bool needs_creation_time; /* its untouched keys depend on its birth, or have done so */
    int64_t here_ns;                  /* when it was first defined here, by this engine's clock */
    _Atomic int64_t created_us;       /* when anywhere, by Redis's; -1: not known yet */
    int64_t tried_ns;                 /* when its birth was asked for last; under `creation_lock` */
    size_t scope_len;
    char scope[];
};

static inline struct weir__redis *weir__redis_of(struct weir__remote *f)
{
    return (struct weir__redis *)f;
}

static inline struct weir__redis_policy *weir__redis_policy(const struct weir_policy *p)
{
    return p->remote;
}

static inline struct weir__slice weir__redis_scope(const struct weir__redis_policy *p)
{
    return (struct weir__slice){p->scope, p->scope_len};
}

/* The pipeline of this thread: its calls stay in order. */
struct weir__pipeline *weir__redis_pipeline(struct weir__redis *r);

/* Within a reader's section: the plan of the edition. NULL: there is none now, fall back. */
const struct weir__plan *weir__redis_plan(struct weir__redis *r, struct weir_policy *p,
                                          struct weir__revision *e);
/* The same of the limit that judges the key of the request: its own, if it has one. */
const struct weir__plan *weir__redis_plan_for(struct weir__redis *r, const struct weir_request *rq,
                                              struct weir__revision **by);
/* Outside of one: whether the policy's birth is known, or need not be; may ask for it. */
bool weir__redis_knows_creation(struct weir__redis *r, struct weir_policy *p);

/* ---- Giving back (redis_undo.c) -------------------------------------------------------------- */

int weir__redis_refund(struct weir__remote *f, const struct weir_request *rq, struct weir__now at,
                       int64_t *back);
int weir__redis_reset(struct weir__remote *f, const struct weir_request *rq, struct weir__now at);
int weir__redis_cancel(struct weir__remote *f, struct weir_reservation *r, bool withdraw,
                       struct weir__now at, int64_t *back);
int weir__redis_exit(struct weir__remote *f, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__now at);

/* ---- Backlog (drain.c) ----------------------------------------------------------------------- */

/* Ahead of a request for the key on the same pipeline: pays in what this node granted and still counts. Outside
 * of a reader's section. */
void weir__redis_drain_backlog(struct weir__redis *r, struct weir__pipeline *pipeline,
                               const struct weir_request *rq, struct weir__now at,
                               int64_t deadline_ns);

/* ---- Deciding (redis_decide.c) --------------------------------------------------------------- */

int weir__redis_decide(struct weir__remote *f, const struct weir_request *rq, size_t n,
                       enum weir__verb verb, struct weir__now at, struct weir__receipt *receipt,
                       struct weir_verdict *v);
struct weir__decision;
/* Of an asking that the store has answered: what its receipt wants (decision_receipt.c). `refused` is the term that
 * refused, as the script counts; or -1. */
void weir__decision_issue_receipts(struct weir__decision *a, int refused);
/* What is to be kept of a grant until then; NULL: no memory. */
struct weir__redis_receipt *weir__decision_make_receipt(struct weir__decision *a, int64_t until_ns);
int weir__redis_take_many(struct weir__remote *f, const struct weir_request *rq, size_t n,
                          struct weir__now at, struct weir_verdict *v);

#endif
