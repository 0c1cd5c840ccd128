/* Undo on a Redis store: refund, reset, cancel, exit.
 *
 * These have no fallback. An undo that does not reach Redis is lost: the limit stays stricter,
 * never looser. So they return WEIR_EDOWN, and change nothing on this node either. While the store
 * is known to be down, a cancel can be tried again; one that was sent and not answered cannot,
 * because Redis may have done it. An exit can always be tried again: a ticket is released only
 * once.
 */
#include <stdlib.h>
#include <string.h>

#include "os/clock.h"
#include "redis/redis_store.h"

/* ---- One command ----------------------------------------------------------------------------- */

/* Each command has memory of its own: undo is rare. */
struct undo_command {
    struct weir__command command; /* first */
    char bytes[];
};

static struct undo_command *undo_command_make(struct weir__redis *r, size_t room)
{
    struct undo_command *e = calloc(1, sizeof *e + room);

    if (e) {
        e->command.bytes = e->bytes;
        e->command.deadline_ns = weir__add_sat(weir__clock_now(), r->address.timeout_ns);
    }
    return e;
}

static int undo_command_run(struct weir__redis *r, struct undo_command *e)
{
    struct weir__pipeline *pipeline = weir__redis_pipeline(r);
    struct weir__command *command = &e->command;

    if (!weir__pipeline_submit(pipeline, &command, 1)) {
        atomic_fetch_add_explicit(&r->crowded, 1, memory_order_relaxed);
        return WEIR_EDOWN;
    }
    weir__pipeline_await(pipeline, &command, 1);
    if (e->command.error) {
        atomic_fetch_add_explicit(&r->failed, 1, memory_order_relaxed);
        return WEIR_EDOWN;
    }
    atomic_fetch_add_explicit(&r->asked, 1, memory_order_relaxed);
    return 0;
}

/* ---- Undo of one key ------------------------------------------------------------------------- */

struct redis_undo {
    enum weir__plan_verb verb;
    struct weir__now at;
    int64_t act_us;
    struct weir__slice ticket;
    bool reset;
};

static struct weir__plan_request undo_plan_request(struct weir__redis *r,
                                                   const struct redis_undo *g,
                                                   const struct weir__plan_part *part, int n)
{
    return (struct weir__plan_request){.verb = g->verb,
                                       .now_us = g->at.given ? g->at.now_ns / 1000 : -1,
                                       .wall_ns = g->at.wall_ns,
                                       .act_us = g->act_us,
                                       .prefix = weir__slice_of(r->address.prefix),
                                       .ticket = g->ticket,
                                       .part = part,
                                       .n = n};
}

/* Within an RCU read section. NULL: out of memory. */
static struct undo_command *undo_command_encode(struct weir__redis *r, const struct redis_undo *g,
                                                const struct weir__plan_part *part, int n)
{
    const struct weir__plan_request ask = undo_plan_request(r, g, part, n);
    const size_t room = weir__plan_encoded_size(&ask);
    struct undo_command *e = undo_command_make(r, room);
    int terms;

    if (!e)
        return NULL;
    e->command.len = g->reset ? weir__plan_encode_reset(&ask, e->bytes, room)
                              : weir__plan_encode(&ask, e->bytes, room, &e->command.script, &terms);
    return e;
}

static struct undo_command *undo_command_for(struct weir__redis *r, const struct weir_request *rq,
                                             const struct redis_undo *g)
{
    const struct weir__redis_policy *p = weir__redis_policy(rq->policy);
    struct weir__plan_part part = {
        .scope = weir__redis_scope(p), .key = {rq->key, rq->key_len}, .cost = rq->cost};
    struct undo_command *e = NULL;
    struct weir__revision *by;

    weir__rcu_enter();
    part.plan = weir__redis_plan_for(r, rq, &by);
    if (part.plan)
        e = undo_command_encode(r, g, &part, 1);
    weir__rcu_exit();
    return e;
}

/* For one key; sets *back unless it is NULL. */
static int redis_undo_key(struct weir__redis *r, const struct weir_request *rq,
                          const struct redis_undo *g, int64_t *back)
{
    struct undo_command *e;
    int error;

    if (weir__health_is_down(&r->health) || !weir__redis_knows_creation(r, rq->policy))
        return WEIR_EDOWN;
    (void)weir__policy_refresh(rq->policy);
    e = undo_command_for(r, rq, g);
    if (!e)
        return WEIR_ENOMEM;
    error = undo_command_run(r, e);
    if (!error && back)
        *back = e->command.n > 9 ? e->command.number[9] : 0;
    free(e);
    return error;
}

int weir__redis_refund(struct weir__remote *f, const struct weir_request *rq, struct weir__now at,
                       int64_t *back)
{
    /* No ticket has this name: a refund releases no permits; the owner of a ticket does. */
    const struct redis_undo g = {WEIR__PLAN_REFUND, at, 0, weir__slice_of("-"), false};

    return redis_undo_key(weir__redis_of(f), rq, &g, back);
}

int weir__redis_reset(struct weir__remote *f, const struct weir_request *rq, struct weir__now at)
{
    const struct redis_undo g = {WEIR__PLAN_REFUND, at, 0, {NULL, 0}, true};
    const int error = redis_undo_key(weir__redis_of(f), rq, &g, NULL);

    if (!error) /* a failed reset has changed nothing here either */
        weir__local_reset(weir__redis_of(f)->local, weir__redis_policy(rq->policy)->local, rq, at);
    return error;
}

/* ---- Undo by receipt ------------------------------------------------------------------------- */

/* Within an RCU read section: whether the part's terms are still those that granted it. */
static bool is_same_part(const struct weir__redis_receipt_part *m, const struct weir__revision *by)
{
    if (m->n != by->n || atomic_load(&m->policy->record->resets) != m->resets)
        return false;
    for (int i = 0; i < m->n; i++)
        if (by->clause[by->chain[i]].scope != m->scope[i])
            return false;
    return true;
}

/* The terms of a kind, as bits in the script's order. */
static unsigned terms_that(const struct weir__revision *by,
                           bool (*is)(const struct weir__meter *meter))
{
    unsigned bits = 0;

    for (int i = 0; i < by->n; i++)
        if (is(&by->clause[by->chain[i]].meter))
            bits |= 1u << i;
    return bits;
}

static bool has_permits(const struct weir__meter *m)
{
    return m->term.algorithm == WEIR_CONCURRENCY;
}

/* A window has no cancel; but a reservation that made no promise can return what it took. */
static bool is_window(const struct weir__meter *m)
{
    return !m->algo->cancel && !m->algo->default_patience && !weir__meter_guards(m);
}

static bool is_any(const struct weir__meter *m)
{
    (void)m;
    return true;
}

/* Undoes one part, for those of its terms that `to` selects. */
static int redis_undo_part(struct weir__redis *r, const struct weir__redis_receipt_part *m,
                           const struct redis_undo *g, bool (*to)(const struct weir__meter *meter),
                           int64_t *back)
{
    const struct weir_request rq = weir_request_of(m->policy, m->key.at, m->key.len);
    struct weir__plan_part part = {.key = m->key, .cost = m->cost, .act_us = m->act_us};
    struct undo_command *e = NULL;
    struct weir__revision *by;
    bool same = false;
    int error;

    *back = 0;
    weir__rcu_enter();
    if (!weir__policy_is_here(r->remote.engine, m->policy)) {
        weir__rcu_exit();
        return 0; /* forgotten, and its keys with it */
    }
    part.scope = weir__redis_scope(m->policy->remote);
    part.plan = weir__redis_plan_for(r, &rq, &by);
    part.only = terms_that(by, to);
    if (part.plan && part.only && is_same_part(m, by)) {
        same = true;
        e = undo_command_encode(r, g, &part, 1);
    }
    weir__rcu_exit();
    if (!same)
        return 0;
    error = e ? undo_command_run(r, e) : WEIR_ENOMEM;
    if (!error && e->command.n > 9)
        *back = e->command.number[9];
    free(e);
    return error;
}

static int cancel_receipt(struct weir__redis *r, struct weir__redis_receipt *k, bool withdraw,
                          struct weir__now at, int64_t *back)
{
    const struct redis_undo cancel = {WEIR__PLAN_CANCEL, at, k->act_us, weir__slice_of("-"), false};
    const struct redis_undo refund = {WEIR__PLAN_REFUND, at, 0, weir__slice_of("-"), false};

    *back = 0;
    for (int i = 0; i < k->n; i++) {
        int64_t one = 0, more = 0;
        int error = 0;

        if (k->part[i].cost == 0)
            continue;
        error = redis_undo_part(r, &k->part[i], &cancel, is_any, &one);
        if (!error && withdraw)
            error = redis_undo_part(r, &k->part[i], &refund, is_window, &more);
        if (error)
            return error;
        k->part[i].cost = 0; /* only once, even if a later part fails and the caller tries again */
        *back = weir__max(*back, weir__max(one, more));
    }
    return 0;
}

int weir__redis_cancel(struct weir__remote *f, struct weir_reservation *r, bool withdraw,
                       struct weir__now at, int64_t *back)
{
    struct weir__redis *redis = weir__redis_of(f);
    struct weir__redis_receipt *k = NULL;
    int64_t most = 0;
    int error = 0;

    if (r->n > 0)
        k = weir__receipts_remove(redis->receipts, r->term[0].fingerprint);
    if (k && k->local)
        error = weir__local_cancel(redis->local, &k->reservation, at, &most);
    else if (k && r->act_ns >= at.now_ns && weir__health_is_down(&redis->health)) {
        r->term[0].fingerprint = weir__receipts_keep(redis->receipts, k); /* the caller may try
                                                                           * again */
        return WEIR_EDOWN;
    } else if (k && r->act_ns >= at.now_ns)
        error = cancel_receipt(redis, k, withdraw, at, &most);
    free(k);
    r->n = 0;
    if (error) /* Redis may have done a part of it: it cannot be tried again */
        return error;
    if (back)
        *back = most;
    return 0;
}

/* ---- Exits ----------------------------------------------------------------------------------- */

static int exit_receipt(struct weir__redis *r, struct weir__redis_receipt *k, struct weir__now at)
{
    const struct redis_undo g = {WEIR__PLAN_REFUND, at, 0, weir__slice_of(k->name), false};

    for (int i = 0; i < k->n; i++) {
        int64_t back;
        int error;

        if (k->part[i].cost == 0)
            continue;
        error = redis_undo_part(r, &k->part[i], &g, has_permits, &back);
        if (error)
            return error;
        k->part[i].cost = 0;
    }
    return 0;
}

int weir__redis_exit(struct weir__remote *f, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__now at)
{
    struct weir__redis *r = weir__redis_of(f);
    struct weir__redis_receipt *k = weir__receipts_remove(r->receipts, t->term[0].fingerprint);
    int error = 0;

    if (k && k->local) {
        error = weir__local_exit(r->local, &k->ticket, how, at);
        if (!error && !weir__health_is_down(&r->health))
            (void)exit_receipt(r, k,
                               at); /* Redis may have granted it without a reply; if not, no such
                                     * ticket exists */
    } else if (k)
        error = weir__health_is_down(&r->health) ? WEIR_EDOWN : exit_receipt(r, k, at);
    if (error) {
        t->term[0].fingerprint = weir__receipts_keep(r->receipts, k);
        return error;
    }
    free(k);
    t->n = 0;
    return 0;
}
