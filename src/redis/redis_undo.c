/* Giving back on a far store: refund, reset, cancel, exit.
 *
 * These have no fallback: what is given back to nobody is lost, which is on the safe side. So they say
 * WEIR_EAWAY, and change nothing here either. While the store is known to be away, cancel can be tried again; one that
 * was sent and not answered cannot, for it may have been heard. An exit always can: a ticket is given back once.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "remote/redis.h"

/* ---- One call, waited for ---------------------------------------------------------------------- */

/* A command is written into memory of its own: these are rare. */
struct errand {
    struct weir__call call; /* first */
    char bytes[];
};

static struct errand *errand_make(struct weir__redis *r, size_t room)
{
    struct errand *e = calloc(1, sizeof *e + room);

    if (e) {
        e->call.bytes = e->bytes;
        e->call.deadline_ns = weir__add_sat(weir__clock_now(), r->address.timeout_ns);
    }
    return e;
}

static int errand_run(struct weir__redis *r, struct errand *e)
{
    struct weir__lane *lane = weir__redis_lane(r);
    struct weir__call *call = &e->call;

    if (!weir__lane_submit(lane, &call, 1)) {
        atomic_fetch_add_explicit(&r->crowded, 1, memory_order_relaxed);
        return WEIR_EAWAY;
    }
    weir__lane_await(lane, &call, 1);
    if (e->call.error) {
        atomic_fetch_add_explicit(&r->failed, 1, memory_order_relaxed);
        return WEIR_EAWAY;
    }
    atomic_fetch_add_explicit(&r->asked, 1, memory_order_relaxed);
    return 0;
}

/* ---- What is given back ------------------------------------------------------------------------ */

struct gift {
    enum weir__plan_verb verb;
    struct weir__moment at;
    int64_t act_us;
    struct weir__slice ticket;
    bool reset;
};

static struct weir__plan_ask ask_of(struct weir__redis *r, const struct gift *g,
                                    const struct weir__plan_part *part, int n)
{
    return (struct weir__plan_ask){.verb = g->verb,
                                   .now_us = g->at.given ? g->at.now_ns / 1000 : -1,
                                   .wall_ns = g->at.wall_ns,
                                   .act_us = g->act_us,
                                   .prefix = weir__slice_of(r->address.prefix),
                                   .ticket = g->ticket,
                                   .part = part,
                                   .n = n};
}

/* Within a reader's section. NULL: no memory. */
static struct errand *write_errand(struct weir__redis *r, const struct gift *g,
                                   const struct weir__plan_part *part, int n)
{
    const struct weir__plan_ask ask = ask_of(r, g, part, n);
    const size_t room = weir__plan_room(&ask);
    struct errand *e = errand_make(r, room);
    int terms;

    if (!e)
        return NULL;
    e->call.len = g->reset ? weir__plan_write_reset(&ask, e->bytes, room)
                           : weir__plan_write(&ask, e->bytes, room, &e->call.script, &terms);
    return e;
}

static struct errand *make_errand(struct weir__redis *r, const struct weir_request *rq,
                                  const struct gift *g)
{
    const struct weir__redis_policy *p = weir__redis_policy(rq->policy);
    struct weir__plan_part part = {
        .scope = weir__redis_scope(p), .key = {rq->key, rq->key_len}, .cost = rq->cost};
    struct errand *e = NULL;
    struct weir__edition *by;

    weir__readers_enter();
    part.plan = weir__redis_plan_for(r, rq, &by);
    if (part.plan)
        e = write_errand(r, g, &part, 1);
    weir__readers_exit();
    return e;
}

/* To one key; *back unless NULL. */
static int give(struct weir__redis *r, const struct weir_request *rq, const struct gift *g,
                int64_t *back)
{
    struct errand *e;
    int error;

    if (weir__health_is_away(&r->health) || !weir__redis_is_born(r, rq->policy))
        return WEIR_EAWAY;
    (void)weir__policy_refresh(rq->policy);
    e = make_errand(r, rq, g);
    if (!e)
        return WEIR_ENOMEM;
    error = errand_run(r, e);
    if (!error && back)
        *back = e->call.n > 9 ? e->call.number[9] : 0;
    free(e);
    return error;
}

int weir__redis_refund(struct weir__far *f, const struct weir_request *rq, struct weir__moment at,
                       int64_t *back)
{
    /* A ticket that nobody has: permits are given back by those who have them. */
    const struct gift g = {WEIR__PLAN_REFUND, at, 0, weir__slice_of("-"), false};

    return give(weir__redis_of(f), rq, &g, back);
}

int weir__redis_reset(struct weir__far *f, const struct weir_request *rq, struct weir__moment at)
{
    const struct gift g = {WEIR__PLAN_REFUND, at, 0, {NULL, 0}, true};
    const int error = give(weir__redis_of(f), rq, &g, NULL);

    if (!error) /* a reset that failed has changed nothing here either */
        weir__local_reset(weir__redis_of(f)->local, weir__redis_policy(rq->policy)->local, rq, at);
    return error;
}

/* ---- What was kept ----------------------------------------------------------------------------- */

/* Within a reader's section: whether the part's terms are still those that granted it. */
static bool is_same(const struct weir__memo_part *m, const struct weir__edition *by)
{
    if (m->n != by->n || atomic_load(&m->policy->record->resets) != m->resets)
        return false;
    for (int i = 0; i < m->n; i++)
        if (by->clause[by->chain[i]].scope != m->scope[i])
            return false;
    return true;
}

/* The terms of a kind, as the script counts them. */
static unsigned terms_that(const struct weir__edition *by,
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

/* A window knows no cancel; but who was promised nothing can give back what it took. */
static bool is_window(const struct weir__meter *m)
{
    return !m->algo->cancel && !m->algo->default_patience && !weir__meter_guards(m);
}

static bool is_any(const struct weir__meter *m)
{
    (void)m;
    return true;
}

/* What is given back of one part, and to which of its terms. */
static int give_part(struct weir__redis *r, const struct weir__memo_part *m, const struct gift *g,
                     bool (*to)(const struct weir__meter *meter), int64_t *back)
{
    const struct weir_request rq = weir_request_of(m->policy, m->key.at, m->key.len);
    struct weir__plan_part part = {.key = m->key, .cost = m->cost, .act_us = m->act_us};
    struct errand *e = NULL;
    struct weir__edition *by;
    bool same = false;
    int error;

    *back = 0;
    weir__readers_enter();
    if (!weir__policy_is_here(r->far.engine, m->policy)) {
        weir__readers_exit();
        return 0; /* forgotten, and its keys with it */
    }
    part.scope = weir__redis_scope(m->policy->far);
    part.plan = weir__redis_plan_for(r, &rq, &by);
    part.only = terms_that(by, to);
    if (part.plan && part.only && is_same(m, by)) {
        same = true;
        e = write_errand(r, g, &part, 1);
    }
    weir__readers_exit();
    if (!same)
        return 0;
    error = e ? errand_run(r, e) : WEIR_ENOMEM;
    if (!error && e->call.n > 9)
        *back = e->call.number[9];
    free(e);
    return error;
}

static int cancel_kept(struct weir__redis *r, struct weir__keepsake *k, bool withdraw,
                       struct weir__moment at, int64_t *back)
{
    const struct gift cancel = {WEIR__PLAN_CANCEL, at, k->act_us, weir__slice_of("-"), false};
    const struct gift refund = {WEIR__PLAN_REFUND, at, 0, weir__slice_of("-"), false};

    *back = 0;
    for (int i = 0; i < k->n; i++) {
        int64_t one = 0, more = 0;
        int error = 0;

        if (k->part[i].cost == 0)
            continue;
        error = give_part(r, &k->part[i], &cancel, is_any, &one);
        if (!error && withdraw)
            error = give_part(r, &k->part[i], &refund, is_window, &more);
        if (error)
            return error;
        k->part[i].cost = 0; /* once only, also if a later one fails and this is tried again */
        *back = weir__max(*back, weir__max(one, more));
    }
    return 0;
}

int weir__redis_cancel(struct weir__far *f, struct weir_reservation *r, bool withdraw,
                       struct weir__moment at, int64_t *back)
{
    struct weir__redis *redis = weir__redis_of(f);
    struct weir__keepsake *k = NULL;
    int64_t most = 0;
    int error = 0;

    if (r->n > 0)
        k = weir__memos_take(redis->memos, r->term[0].fingerprint);
    if (k && k->here)
        error = weir__local_cancel(redis->local, &k->reservation, at, &most);
    else if (k && r->act_ns >= at.now_ns && weir__health_is_away(&redis->health)) {
        r->term[0].fingerprint = weir__memos_keep(redis->memos, k); /* to be tried again */
        return WEIR_EAWAY;
    } else if (k && r->act_ns >= at.now_ns)
        error = cancel_kept(redis, k, withdraw, at, &most);
    free(k);
    r->n = 0;
    if (error) /* nobody knows what was given back: it cannot be tried again */
        return error;
    if (back)
        *back = most;
    return 0;
}

/* ---- Exits ------------------------------------------------------------------------------------- */

static int exit_kept(struct weir__redis *r, struct weir__keepsake *k, struct weir__moment at)
{
    const struct gift g = {WEIR__PLAN_REFUND, at, 0, weir__slice_of(k->name), false};

    for (int i = 0; i < k->n; i++) {
        int64_t back;
        int error;

        if (k->part[i].cost == 0)
            continue;
        error = give_part(r, &k->part[i], &g, has_permits, &back);
        if (error)
            return error;
        k->part[i].cost = 0;
    }
    return 0;
}

int weir__redis_exit(struct weir__far *f, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__moment at)
{
    struct weir__redis *r = weir__redis_of(f);
    struct weir__keepsake *k = weir__memos_take(r->memos, t->term[0].fingerprint);
    int error = 0;

    if (k && k->here) {
        error = weir__local_exit(r->local, &k->ticket, how, at);
        if (!error && !weir__health_is_away(&r->health))
            (void)exit_kept(r, k,
                            at); /* its answer was lost, perhaps: else nobody has that ticket */
    } else if (k)
        error = weir__health_is_away(&r->health) ? WEIR_EAWAY : exit_kept(r, k, at);
    if (error) {
        t->term[0].fingerprint = weir__memos_keep(r->memos, k);
        return error;
    }
    free(k);
    t->n = 0;
    return 0;
}
