/* Draining the backlog: what this node granted alone is charged in Redis before the next decision
 * on that key.
 *
 * The drain command goes ahead of the decision on the same connection. No caller waits for its
 * reply. If there is none, the backlog is restored.
 *
 * Invariants:
 *   (1) A drain command outlives the decision only if its script had to be loaded first. It has its
 *       own copy of the key, and checks that its policy still exists.
 *   (2) The backlog is taken out here before it is charged there, so it is charged once, whichever
 *       thread decides.
 *   (3) No more counts as drained than the backlog was, whatever the reply says.
 */
#include <stdlib.h>
#include <string.h>

#include "redis/redis_store.h"

struct drain_command {
    struct weir__command command; /* first */
    struct weir__redis *redis;
    struct weir_request rq;
    struct weir__now at;
    int64_t events[WEIR_TERMS_MAX]; /* the backlog, by term of the limit */
    int64_t most;                   /* the largest of them */
    size_t key_at;                  /* where in `bytes` the copy of the key is */
    char bytes[];
};

static void drain_command_ended(struct weir__command *c)
{
    struct drain_command *p = (struct drain_command *)c;
    const int64_t drained = weir__plan_amount(c->number, c->n);

    weir__rcu_enter(); /* the policy may be removed, but not while this reads it */
    if (c->error && weir__policy_is_here(p->redis->remote.engine, p->rq.policy))
        weir__local_backlog_restore(p->redis->local, weir__redis_policy(p->rq.policy)->local,
                                    &p->rq, p->at, p->events);
    else if (!c->error && drained > 0)
        atomic_fetch_add_explicit(&weir__local_counts(p->redis->local)->drained,
                                  (uint64_t)weir__min(drained, p->most), memory_order_relaxed);
    weir__rcu_exit();
    free(p);
}

/* Each term is a part of its own, because each has its own backlog. The script's order is that
 * in which the engine asks the terms. */
static struct drain_command *drain_command_encode(struct weir__redis *r,
                                                  const struct weir__plan_part *whole,
                                                  const unsigned char *index, const int64_t *events,
                                                  struct weir__now at)
{
    struct weir__plan_part part[WEIR_TERMS_MAX];
    const struct weir__plan_request request = {.verb = WEIR__PLAN_DRAIN,
                                               .now_us = at.given ? at.now_ns / 1000 : -1,
                                               .wall_ns = at.wall_ns,
                                               .prefix = weir__slice_of(r->address.prefix),
                                               .ticket = weir__slice_of("-"),
                                               .part = part,
                                               .n = whole->plan->n};
    struct drain_command *p;
    size_t room;
    int terms;

    for (int i = 0; i < request.n; i++) {
        part[i] = *whole;
        part[i].only = 1u << i;
        part[i].cost = events[index[i]];
    }
    room = weir__plan_encoded_size(&request);
    p = calloc(1, sizeof *p + room + whole->key.len);
    if (!p)
        return NULL;
    p->command.len = weir__plan_encode(&request, p->bytes, room, &p->command.script, &terms);
    p->command.bytes = p->bytes;
    p->command.done = drain_command_ended;
    p->key_at = room;
    return p;
}

/* By the limit that is in force now. NULL: there is none, or no memory. */
static struct drain_command *drain_command_make(struct weir__redis *r,
                                                const struct weir_request *rq,
                                                const int64_t *events, struct weir__now at)
{
    const struct weir__redis_policy *policy = weir__redis_policy(rq->policy);
    struct weir__plan_part part = {.scope = weir__redis_scope(policy),
                                   .key = {rq->key, rq->key_len}};
    unsigned char index[WEIR_TERMS_MAX];
    struct weir__revision *by;
    struct drain_command *p = NULL;
    struct weir__own own;

    weir__own_begin(&own);
    weir__rcu_enter();
    part.plan = weir__redis_plan_for(r, rq, &by, &own);
    if (part.plan && weir__redis_terms(by, index) > 0)
        p = drain_command_encode(r, &part, index, events, at);
    weir__own_end(&own);
    weir__rcu_exit();
    return p;
}

void weir__redis_drain_backlog(struct weir__redis *r, struct weir__pipeline *pipeline,
                               const struct weir_request *rq, struct weir__now at,
                               int64_t deadline_ns)
{
    const struct weir__redis_policy *policy = weir__redis_policy(rq->policy);
    int64_t events[WEIR_TERMS_MAX] = {0};
    const int64_t most = weir__local_backlog_drain(r->local, policy->local, rq, at, events);
    struct drain_command *p = most > 0 ? drain_command_make(r, rq, events, at) : NULL;
    struct weir__command *command;

    if (most > 0 && !p)
        weir__local_backlog_restore(r->local, policy->local, rq, at, events);
    if (!p)
        return;
    p->redis = r;
    p->rq = *rq;
    p->rq.key = p->bytes + p->key_at;
    if (rq->key_len > 0)
        memcpy(p->bytes + p->key_at, rq->key, rq->key_len);
    p->at = at;
    memcpy(p->events, events, sizeof events);
    p->most = most;
    command = &p->command;
    command->deadline_ns = deadline_ns;
    if (!weir__pipeline_submit(pipeline, &command, 1)) {
        command->error = WEIR_EDOWN;
        drain_command_ended(command);
    }
}
