/* Debts: what this node granted while the store was away, paid in when a key is asked for again.
 *
 * A payment goes ahead of the asking on the same connection. Nobody waits for its answer; if there is none, the
 * debt stands as it stood.
 *
 * Invariants:
 *   (1) A payment outlives its asking only if its script had to be loaded first. It has a copy of the key, and looks
 *       whether its policy is still there.
 *   (2) What is owed is taken out here before it is paid there, so it is paid once, whoever asks.
 *   (3) No more counts as paid than was owed, whatever the reply says.
 */
#include <stdlib.h>
#include <string.h>

#include "remote/redis.h"

struct payment {
    struct weir__call call; /* first */
    struct weir__redis *redis;
    struct weir_request rq;
    struct weir__moment at;
    int64_t back[WEIR_TERMS_MAX]; /* what is owed, by the terms of the limit */
    int64_t owed;                 /* the most of them */
    size_t key_at;                /* the key's copy, in bytes */
    char bytes[];
};

static void payment_ended(struct weir__call *c)
{
    struct payment *p = (struct payment *)c;

    weir__readers_enter(); /* the policy may be forgotten, but not under our hands */
    if (c->error && weir__policy_is_here(p->redis->far.engine, p->rq.policy))
        weir__local_unsettle(p->redis->local, weir__redis_policy(p->rq.policy)->local, &p->rq,
                             p->at, p->back);
    else if (!c->error && c->n > 9 && c->number[9] > 0)
        atomic_fetch_add_explicit(&weir__local_counts(p->redis->local)->paid,
                                  (uint64_t)weir__min(c->number[9], p->owed), memory_order_relaxed);
    weir__readers_exit();
    free(p);
}

/* Each term is a part of its own, for each is owed something else. The script counts them as the engine asks
 * them. */
static struct payment *write_payment(struct weir__redis *r, const struct weir__plan_part *whole,
                                     const unsigned char *chain, const int64_t *back,
                                     struct weir__moment at)
{
    struct weir__plan_part part[WEIR_TERMS_MAX];
    const struct weir__plan_ask ask = {.verb = WEIR__PLAN_PAY,
                                       .now_us = at.given ? at.now_ns / 1000 : -1,
                                       .wall_ns = at.wall_ns,
                                       .prefix = weir__slice_of(r->address.prefix),
                                       .ticket = weir__slice_of("-"),
                                       .part = part,
                                       .n = whole->plan->n};
    struct payment *p;
    size_t room;
    int terms;

    for (int i = 0; i < ask.n; i++) {
        part[i] = *whole;
        part[i].only = 1u << i;
        part[i].cost = back[chain[i]];
    }
    room = weir__plan_room(&ask);
    p = calloc(1, sizeof *p + room + whole->key.len);
    if (!p)
        return NULL;
    p->call.len = weir__plan_write(&ask, p->bytes, room, &p->call.script, &terms);
    p->call.bytes = p->bytes;
    p->call.done = payment_ended;
    p->key_at = room;
    return p;
}

/* By the limit that is in force now. NULL: there is none, or no memory. */
static struct payment *make_payment(struct weir__redis *r, const struct weir_request *rq,
                                    const int64_t *back, struct weir__moment at)
{
    const struct weir__redis_policy *policy = weir__redis_policy(rq->policy);
    struct weir__plan_part part = {.scope = weir__redis_scope(policy),
                                   .key = {rq->key, rq->key_len}};
    struct weir__edition *by;
    struct payment *p = NULL;

    weir__readers_enter();
    part.plan = weir__redis_plan_for(r, rq, &by);
    if (part.plan)
        p = write_payment(r, &part, by->chain, back, at);
    weir__readers_exit();
    return p;
}

void weir__redis_pay(struct weir__redis *r, struct weir__lane *lane, const struct weir_request *rq,
                     struct weir__moment at, int64_t deadline_ns)
{
    const struct weir__redis_policy *policy = weir__redis_policy(rq->policy);
    int64_t back[WEIR_TERMS_MAX] = {0};
    const int64_t owed = weir__local_settle(r->local, policy->local, rq, at, back);
    struct payment *p = owed > 0 ? make_payment(r, rq, back, at) : NULL;
    struct weir__call *call;

    if (owed > 0 && !p)
        weir__local_unsettle(r->local, policy->local, rq, at, back);
    if (!p)
        return;
    p->redis = r;
    p->rq = *rq;
    p->rq.key = p->bytes + p->key_at;
    if (rq->key_len > 0)
        memcpy(p->bytes + p->key_at, rq->key, rq->key_len);
    p->at = at;
    memcpy(p->back, back, sizeof back);
    p->owed = owed;
    call = &p->call;
    call->deadline_ns = deadline_ns;
    if (!weir__lane_submit(lane, &call, 1)) {
        call->error = WEIR_EAWAY;
        payment_ended(call);
    }
}
