/* A store on a Redis, as the files of this folder share it.
 *
 * A decision is one script call on a pipeline. While the store is down, this node grants its share
 * of each limit by itself, and records what it granted in a backlog; when the store is up again,
 * the backlog of a key is charged there before the key's next decision.
 *
 *     redis_store.c       open, close, policies, stats: the store as the engine sees it (remote.h)
 *     redis_decide.c      decisions: by Redis, or by the fallback while the store is down
 *     redis_undo.c        undo: refund, cancel, exit, reset
 *     decision_receipt.c  the receipt that a grant leaves, so that it can be undone
 *     receipts.c          all receipts of reservations and tickets
 *     health.c            whether the store is down or up
 *     monitor.c           the background thread: heartbeats and probes
 *     script/             plan.c: a limit as the scripts want it; encode.c: a command in bytes; Lua
 *     client/             pipeline.c: a connection that many threads share; connection.c, reply.c
 *     fallback/           redis_fallback.c: decisions while the store is down; local.c: this node's
 *                         shares; share.c: how large they are; backlog.c, drain.c: the backlog
 */
#ifndef WEIR_REDIS_REDIS_STORE_H
#define WEIR_REDIS_REDIS_STORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/policy/overrides.h"
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
    pthread_mutex_t lock;          /* held while a policy is defined */
    pthread_mutex_t creation_lock; /* held while a creation time is fetched */
    _Atomic int64_t created_us;    /* of all anonymous limits; -1: not known yet */
    _Atomic uint64_t tickets;
    _Atomic uint64_t asked, failed, crowded;
};

/* A policy's part in this store. */
struct weir__redis_policy {
    struct weir__local_limit *local;
    bool anonymous;                   /* it came with a request: its scope begins with "%%" */
    _Atomic bool needs_creation_time; /* its untouched keys depend, or have depended, on
                                       * created_us */
    int64_t here_ns;                  /* when it was first defined here, by this engine's clock */
    _Atomic int64_t created_us;       /* when it was first defined on any node, by Redis's clock;
                                       * -1: unknown */
    _Atomic int64_t tried_ns;         /* when its creation time was last asked for in vain */
    size_t scope_len;
    char scope[];
};

static inline struct weir__redis *weir__redis_of(struct weir__remote *remote)
{
    return (struct weir__redis *)remote;
}

static inline struct weir__redis_policy *weir__redis_policy(const struct weir_policy *p)
{
    return p->remote;
}

static inline struct weir__slice weir__redis_scope(const struct weir__redis_policy *p)
{
    return (struct weir__slice){p->scope, p->scope_len};
}

/* One of several pipelines: that of this thread, so that its commands stay in order. */
struct weir__pipeline *weir__redis_pipeline(struct weir__redis *r);

/* Within an RCU read section: the revision's plan. NULL: there is none now; fall back. */
const struct weir__plan *weir__redis_plan(struct weir__redis *r, struct weir_policy *p,
                                          struct weir__revision *rev);
/* The same for the limit that decides the request's key: the key's override, if it has one. */
const struct weir__plan *weir__redis_plan_for(struct weir__redis *r, const struct weir_request *rq,
                                              struct weir__revision **by, struct weir__own *own);
/* When a command that is sent now must be answered. */
int64_t weir__redis_deadline(const struct weir__redis *r);

/* ---- Creation times -------------------------------------------------------------------------- */

/* Another anonymous limit may have learned the creation time of all of them: true if so. */
bool weir__redis_share_creation(struct weir__redis *r, struct weir__redis_policy *p);

/* Whether the policy's creation time is known, or not needed. */
static inline bool weir__redis_has_creation(struct weir__redis *r, struct weir__redis_policy *p)
{
    return !atomic_load_explicit(&p->needs_creation_time, memory_order_relaxed) ||
           atomic_load_explicit(&p->created_us, memory_order_acquire) >= 0 ||
           weir__redis_share_creation(r, p);
}

/* The same, outside an RCU read section, for a thread that may wait: asks Redis if necessary. */
bool weir__redis_knows_creation(struct weir__redis *r, struct weir_policy *p);
/* For an event loop: makes the command that asks Redis. Returns its bytes, to be freed; NULL: there
 * is no memory, or Redis was asked in vain a moment ago. */
char *weir__redis_ask_creation(struct weir__redis *r, struct weir_policy *policy,
                               struct weir__command *command);
/* Its reply has come. */
void weir__redis_learn_creation(struct weir__redis *r, struct weir_policy *policy,
                                const struct weir__command *command);

/* ---- Undo (redis_undo.c) --------------------------------------------------------------------- */

int weir__redis_refund(struct weir__remote *remote, const struct weir_request *rq,
                       struct weir__now at, int64_t *back);
int weir__redis_reset(struct weir__remote *remote, const struct weir_request *rq,
                      struct weir__now at);
int weir__redis_cancel(struct weir__remote *remote, struct weir_reservation *r, bool withdraw,
                       struct weir__now at, int64_t *back);
int weir__redis_exit(struct weir__remote *remote, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__now at);

/* ---- Backlog (drain.c) ----------------------------------------------------------------------- */

/* Sends the backlog of the request's key (what this node granted alone and still counts) ahead
 * of the request, on the same pipeline. Outside an RCU read section. */
void weir__redis_drain_backlog(struct weir__redis *r, struct weir__pipeline *pipeline,
                               const struct weir_request *rq, struct weir__now at,
                               int64_t deadline_ns);

/* ---- Decide (redis_decide.c) ----------------------------------------------------------------- */

int weir__redis_decide(struct weir__remote *remote, const struct weir_request *rq, size_t n,
                       enum weir__verb verb, struct weir__now at, struct weir__receipt *receipt,
                       struct weir_verdict *v);
struct weir__decision;
/* After the store has decided: issues the reservation or ticket that the caller asked for
 * (decision_receipt.c). `refused` is the term that refused, in the script's order; or -1. */
void weir__decision_issue_receipts(struct weir__decision *a, int refused);
/* The receipt of a grant, kept until then; NULL: out of memory. */
struct weir__redis_receipt *weir__decision_make_receipt(struct weir__decision *a, int64_t until_ns);
int weir__redis_take_many(struct weir__remote *remote, const struct weir_request *rq, size_t n,
                          struct weir__now at, struct weir_verdict *v);

#endif
