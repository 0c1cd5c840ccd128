/* A store on a Redis: what its parts share.
 *
 *     redis.c     open, close, policies, stats: the far store as the engine sees it (engine/far.h)
 *     ask.c       decisions: asked there, or answered here when the store is away
 *     fall_back.c what is said then
 *     pay.c       debts: what this node granted alone, paid in later
 *     remember.c  what a grant leaves behind, so that it can be given back
 *     give.c      giving back: refund, cancel, exit, reset
 *     memos.c     what reservations and tickets must remember until then
 *     plan.c      a limit as the scripts want it; plan_write.c requests in bytes; lua/ the scripts
 *     lane.c      a pipelined connection that many share; link.c the connection
 *     health.c    whether the store is there; keeper.c the thread that looks after it
 *     local.c     what this node grants by itself meanwhile; share.c how much that is
 */
#ifndef WEIR_REMOTE_REDIS_H
#define WEIR_REMOTE_REDIS_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/far.h"
#include "remote/address.h"
#include "remote/health.h"
#include "remote/keeper.h"
#include "remote/lane.h"
#include "remote/local.h"
#include "remote/memos.h"
#include "remote/plan.h"

struct weir__redis {
    struct weir__far far; /* first */
    struct weir__address address;
    struct weir__health health;
    struct weir__keeper *keeper;
    struct weir__local *local;
    struct weir__lane_watch watch;
    struct weir__lane *lane[16]; /* address.connections of them */
    struct weir__memos *memos;
    pthread_mutex_t lock;    /* of defining */
    pthread_mutex_t births;  /* of whoever asks for one */
    _Atomic int64_t born_us; /* of all limits that come with requests; -1: not known yet */
    char node[17];           /* who we are among those who share */
    _Atomic uint64_t tickets;
    _Atomic uint64_t asked, failed, crowded;
};

/* What is known of a policy. */
struct weir__redis_policy {
    struct weir__local_limit *local;
    bool unlisted;           /* it came with a request: its scope begins with "%%" */
    _Atomic bool ages;       /* its untouched keys depend on its birth, or have done so */
    int64_t here_ns;         /* when it was first defined here, by this engine's clock */
    _Atomic int64_t born_us; /* when anywhere, by Redis's; -1: not known yet */
    int64_t tried_ns;        /* when its birth was asked for last; under `births` */
    size_t scope_len;
    char scope[];
};

static inline struct weir__redis *weir__redis_of(struct weir__far *f)
{
    return (struct weir__redis *)f;
}

static inline struct weir__redis_policy *weir__redis_policy(const struct weir_policy *p)
{
    return p->far;
}

static inline struct weir__slice weir__redis_scope(const struct weir__redis_policy *p)
{
    return (struct weir__slice){p->scope, p->scope_len};
}

/* The lane of this thread: its calls stay in order. */
struct weir__lane *weir__redis_lane(struct weir__redis *r);

/* Within a reader's section: the plan of the edition. NULL: there is none now, fall back. */
const struct weir__plan *weir__redis_plan(struct weir__redis *r, struct weir_policy *p,
                                          struct weir__edition *e);
/* The same of the limit that judges the key of the request: its own, if it has one. */
const struct weir__plan *weir__redis_plan_for(struct weir__redis *r, const struct weir_request *rq,
                                              struct weir__edition **by);
/* Outside of one: whether the policy's birth is known, or need not be; may ask for it. */
bool weir__redis_is_born(struct weir__redis *r, struct weir_policy *p);

/* ---- Giving back (give.c) ---------------------------------------------------------------------- */

int weir__redis_refund(struct weir__far *f, const struct weir_request *rq, struct weir__moment at,
                       int64_t *back);
int weir__redis_reset(struct weir__far *f, const struct weir_request *rq, struct weir__moment at);
int weir__redis_cancel(struct weir__far *f, struct weir_reservation *r, bool withdraw,
                       struct weir__moment at, int64_t *back);
int weir__redis_exit(struct weir__far *f, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__moment at);

/* ---- Debts (pay.c) ----------------------------------------------------------------------------- */

/* Ahead of a request for the key on the same lane: pays in what this node granted and still counts. Outside
 * of a reader's section. */
void weir__redis_pay(struct weir__redis *r, struct weir__lane *lane, const struct weir_request *rq,
                     struct weir__moment at, int64_t deadline_ns);

/* ---- Deciding (ask.c) -------------------------------------------------------------------------- */

int weir__redis_decide(struct weir__far *f, const struct weir_request *rq, size_t n,
                       enum weir__verb verb, struct weir__moment at, struct weir__memo *memo,
                       struct weir_verdict *v);
struct weir__asking;
/* Of an asking that the store has answered: what its memo wants (remember.c). `refused` is the term that
 * refused, as the script counts; or -1. */
void weir__ask_remember(struct weir__asking *a, int refused);
/* What is to be kept of a grant until then; NULL: no memory. */
struct weir__keepsake *weir__ask_keepsake(struct weir__asking *a, int64_t until_ns);
int weir__redis_take_many(struct weir__far *f, const struct weir_request *rq, size_t n,
                          struct weir__moment at, struct weir_verdict *v);

#endif
