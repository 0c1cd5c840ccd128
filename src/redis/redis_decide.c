/* Decisions on a far store.
 *
 * A request becomes one command, which names all terms of all its limits; its reply is the verdict. Around
 * that is what the store cannot know: which keys this process lists or gives limits of their own, what this
 * node granted while the store was away and has not paid in yet, and what to say when there is no answer.
 *
 * Invariants:
 *   (1) Every asking is settled once, with an answer: by the store, by the lists, or by the fallback.
 *   (2) Terms are named to the script in the order in which the engine asks them (edition.h, chain), so that
 *       the first that refuses is the same.
 *   (3) What a key owes is paid before the key is asked for, on the same connection.
 *   (4) A limit is encoded within a reader's section, and nothing of it is held while the reply is waited for.
 */
#include "remote/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/clock.h"
#include "engine/lists.h"
#include "engine/queue.h"
#include "engine/ticket.h"
#include "remote/redis.h"

#define TOGETHER 64 /* decisions of weir_take_many that are on their way at once */

/* ---- What is asked ----------------------------------------------------------------------------- */

/* A request as the script gets it, while it is gathered. */
struct order {
    struct weir__plan_part part[WEIR_TERMS_MAX];
    int request[WEIR_TERMS_MAX]; /* of the call, by part */
    int n;
    int listed;    /* the request whose key is denied, or -1 */
    bool unborn;   /* some limit cannot be asked for now */
    int64_t limit; /* of the first, for answers that no limit gives */
};

static int64_t us_of(struct weir__moment at)
{
    return at.given ? at.now_ns / 1000 : -1;
}

static int add_part(struct weir__asking *a, struct order *o, int i, struct weir__edition *by)
{
    const struct weir_request *rq = &a->rq[i];
    const struct weir__redis_policy *p = weir__redis_policy(rq->policy);
    const struct weir__plan *plan = weir__redis_plan(a->redis, rq->policy, by);

    o->unborn = o->unborn || !plan;
    if (by->n > WEIR_TERMS_MAX - a->terms)
        return WEIR_EINVAL;
    for (int k = 0; k < by->n; k++) {
        a->lease_ns = weir__max(a->lease_ns, by->clause[k].meter.term.lease_ns);
        a->request_of[a->terms] = (unsigned char)i;
        a->index_of[a->terms++] = by->chain[k];
    }
    o->request[o->n] = i;
    o->part[o->n++] = (struct weir__plan_part){.plan = plan,
                                               .scope = weir__redis_scope(p),
                                               .key = {rq->key, rq->key_len},
                                               .cost = rq->cost,
                                               .patience_ns = rq->patience_ns};
    return 0;
}

/* Within a reader's section. WEIR__STALE: begin anew. */
static int gather(struct weir__asking *a, struct order *o)
{
    a->terms = 0;
    a->lease_ns = 0;
    o->n = 0;
    o->listed = -1;
    o->unborn = false;
    for (size_t i = 0; i < a->n; i++) {
        struct weir__edition *e = weir__policy_edition(a->rq[i].policy);
        uint64_t key = 0;
        int error;

        if (!e)
            return WEIR__STALE;
        if (e->guards && weir__verb_takes(a->verb))
            return WEIR_EINVAL; /* it could never be left */
        if (i == 0)
            o->limit = e->clause[0].meter.limit;
        if (e->exceptions)
            key = weir__key_hash(a->rq[i].policy->store, &a->rq[i]);
        if (weir__edition_lists(e, WEIR_LIST_DENY, key)) {
            o->listed = (int)i;
            return 0;
        }
        if (weir__edition_lists(e, WEIR_LIST_ALLOW, key))
            continue;
        error = add_part(a, o, (int)i, weir__edition_for(e, key));
        if (error)
            return error;
    }
    return 0;
}

/* ---- In bytes ---------------------------------------------------------------------------------- */

/* A ticket is the node's, and never named again. */
static void name_ticket(struct weir__asking *a)
{
    (void)snprintf(a->ticket, sizeof a->ticket, "%s:%llx", a->redis->node,
                   (unsigned long long)atomic_fetch_add(&a->redis->tickets, 1));
}

static struct weir__plan_ask ask_of(struct weir__asking *a, const struct order *o,
                                    enum weir__plan_verb verb)
{
    return (struct weir__plan_ask){.verb = verb,
                                   .now_us = us_of(a->at),
                                   .wall_ns = a->at.wall_ns,
                                   .prefix = weir__slice_of(a->redis->address.prefix),
                                   .ticket = {a->ticket[0] ? a->ticket : NULL, strlen(a->ticket)},
                                   .part = o->part,
                                   .n = o->n};
}

static int encode(struct weir__asking *a, const struct order *o)
{
    const struct weir__plan_ask ask =
        ask_of(a, o, a->verb == WEIR__PEEK ? WEIR__PLAN_PEEK : WEIR__PLAN_TAKE);
    size_t cap = sizeof a->small;
    int terms;

    a->bytes = a->small;
    a->call.len = weir__plan_write(&ask, a->bytes, cap, &a->call.script, &terms);
    if (a->call.len > cap) {
        cap = a->call.len;
        a->bytes = malloc(cap);
        if (!a->bytes) {
            a->bytes = a->small;
            return WEIR_ENOMEM;
        }
        a->call.len = weir__plan_write(&ask, a->bytes, cap, &a->call.script, &terms);
    }
    a->call.bytes = a->bytes;
    return 0;
}

/* ---- Answers that the store did not give ------------------------------------------------------- */

static void answer_listed(struct weir__asking *a, const struct order *o)
{
    const bool denied = o->listed >= 0;

    a->verdict = (struct weir_verdict){.allowed = !denied,
                                       .reason = denied ? WEIR_LISTED : WEIR_OK,
                                       .which = weir__ask_names_requests(a->verb) ? o->listed : -1,
                                       .limit = o->limit,
                                       .remaining = denied ? 0 : o->limit,
                                       .retry_after_ns = denied ? -1 : 0};
    if (a->memo && a->memo->reservation)
        *a->memo->reservation = (struct weir_reservation){.act_ns = a->at.now_ns};
    if (!denied && a->memo && a->memo->ticket)
        weir__ticket_begin(a->memo->ticket, a->redis->far.engine, a->at.now_ns);
    weir__ask_settle(a, 0);
}

/* ---- The reply --------------------------------------------------------------------------------- */

static void settle_reply(struct weir__asking *a)
{
    const int refused = a->verdict.which;

    atomic_fetch_add_explicit(&a->redis->asked, 1, memory_order_relaxed);
    if (refused >= 0)
        a->verdict.which =
            weir__ask_names_requests(a->verb) ? a->request_of[refused] : a->index_of[refused];
    weir__ask_settle(a, 0);
    if (a->memo)
        weir__ask_remember(a, refused);
}

/* The call has ended, one way or the other. */
static void finish(struct weir__asking *a)
{
    const struct weir__call *c = &a->call;
    const bool takes = a->verb != WEIR__PEEK;
    struct weir_verdict v;

    if (a->bytes != a->small)
        free(a->bytes);
    if (c->error == 0 &&
        weir__plan_verdict(c->number, c->n, a->terms, takes, &v, a->act_us, &a->now_us)) {
        a->verdict = v;
        settle_reply(a);
        return;
    }
    atomic_fetch_add_explicit(&a->redis->failed, 1, memory_order_relaxed);
    if (c->error == 0) {
        weir__health_failed(&a->redis->health, "a reply that is no verdict");
        weir__keeper_hurry(a->redis->keeper);
    }
    weir__ask_fall_back(a);
}

/* ---- Asking ------------------------------------------------------------------------------------ */

static bool all_born(struct weir__asking *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (!weir__redis_is_born(a->redis, a->rq[i].policy))
            return false;
    return true;
}

/* Outside of a reader's section: what the request says in bytes; or its answer, if there is no need or no
 * point to ask. */
static int prepare(struct weir__asking *a, struct weir__lane *lane, bool away)
{
    bool asked = false; /* for births that a change has made needful just now */
    struct order o;
    int error;

    do {
        weir__readers_enter();
        error = gather(a, &o);
        if (!error && o.listed < 0 && o.n > 0 && !away && !o.unborn)
            error = encode(a, &o);
        weir__readers_exit();
        if (!error && o.unborn && !away && !asked) {
            asked = true;
            error = all_born(a) ? WEIR__STALE : 0;
        }
        for (size_t i = 0; i < a->n && error == WEIR__STALE; i++)
            error = weir__policy_refresh(a->rq[i].policy) ?: WEIR__STALE;
    } while (error == WEIR__STALE);
    if (!error && (o.listed >= 0 || o.n == 0))
        answer_listed(a, &o);
    else if (!error && (away || o.unborn))
        weir__ask_fall_back(a);
    else if (!error && weir__local_owes(a->redis->local, a->at))
        for (int i = 0; i < o.n; i++)
            weir__redis_pay(a->redis, lane, &a->rq[o.request[i]], a->at, a->call.deadline_ns);
    return error;
}

/* Makes it ready to be sent; settled if that need not be. */
static void begin(struct weir__asking *a, struct weir__lane *lane)
{
    struct weir__redis *r = a->redis;
    int error;

    a->settled = false;
    a->bytes = a->small;
    atomic_store_explicit(&a->call.finished, 0, memory_order_relaxed);
    a->call.repeats = 0;
    a->call.deadline_ns = weir__add_sat(weir__clock_now(), r->address.timeout_ns);
    a->ticket[0] = '\0';
    for (size_t i = 0; i < a->n; i++)
        if (weir__policy_guards(a->rq[i].policy) && a->ticket[0] == '\0')
            name_ticket(a);
    if (!weir__keeper_runs(r->keeper))
        weir__keeper_hurry(r->keeper); /* in a child of fork(), the first time */
    error = prepare(a, lane, weir__health_is_away(&r->health) || !all_born(a));
    if (error)
        weir__ask_settle(a, error);
}

/* Sends those that are not settled; false: there is no room, and then all are settled. */
static bool send_all(struct weir__lane *lane, struct weir__asking *a, size_t n)
{
    struct weir__call *call[TOGETHER];
    size_t calls = 0;

    for (size_t i = 0; i < n; i++)
        if (!a[i].settled)
            call[calls++] = &a[i].call;
    if (calls == 0 || weir__lane_submit(lane, call, calls))
        return true;
    for (size_t i = 0; i < n; i++)
        if (!a[i].settled) {
            atomic_fetch_add_explicit(&a[i].redis->crowded, 1, memory_order_relaxed);
            weir__ask_fall_back(&a[i]);
            if (a[i].bytes != a[i].small)
                free(a[i].bytes);
        }
    return false;
}

/* Waits for those that were sent. */
static void await(struct weir__lane *lane, struct weir__asking *a, size_t n)
{
    struct weir__call *call[TOGETHER];
    size_t calls = 0;

    for (size_t i = 0; i < n; i++)
        if (!a[i].settled)
            call[calls++] = &a[i].call;
    if (calls > 0)
        weir__lane_await(lane, call, calls);
    for (size_t i = 0; i < n; i++)
        if (!a[i].settled)
            finish(&a[i]);
}

/* ---- For those who wait ------------------------------------------------------------------------ */

static bool wants_memo(const struct weir__memo *memo)
{
    return memo && (memo->reservation || memo->ticket);
}

int weir__redis_decide(struct weir__far *f, const struct weir_request *rq, size_t n,
                       enum weir__verb verb, struct weir__moment at, struct weir__memo *memo,
                       struct weir_verdict *v)
{
    struct weir__redis *r = weir__redis_of(f);
    struct weir__lane *lane = weir__redis_lane(r);
    struct weir__asking a;

    if (wants_memo(memo) && !weir__memos_have_room(r->memos, at.now_ns))
        return WEIR_EFULL;
    a.redis = r;
    a.call.done = NULL;
    a.rq = rq;
    a.n = n;
    a.verb = verb;
    a.at = at;
    a.memo = memo;
    begin(&a, lane);
    (void)send_all(lane, &a, 1);
    await(lane, &a, 1);
    if (!a.error)
        *v = a.verdict;
    return a.error;
}

static int take_some(struct weir__redis *r, struct weir__asking *a, const struct weir_request *rq,
                     size_t n, struct weir__moment at, struct weir_verdict *v)
{
    struct weir__lane *lane = weir__redis_lane(r);
    int error = 0;

    for (size_t i = 0; i < n; i++) {
        a[i].redis = r;
        a[i].call.done = NULL;
        a[i].rq = &rq[i];
        a[i].n = 1;
        a[i].verb = WEIR__TAKE;
        a[i].at = at;
        a[i].memo = NULL;
        begin(&a[i], lane);
    }
    (void)send_all(lane, a, n);
    await(lane, a, n);
    for (size_t i = 0; i < n; i++) {
        v[i] = a[i].error ? (struct weir_verdict){.which = -1, .limit = -1} : a[i].verdict;
        error = error ? error : a[i].error;
    }
    return error;
}

int weir__redis_take_many(struct weir__far *f, const struct weir_request *rq, size_t n,
                          struct weir__moment at, struct weir_verdict *v)
{
    const size_t most = n < TOGETHER ? n : TOGETHER;
    struct weir__asking *a;
    int error = 0;

    if (n == 0)
        return 0;
    a = malloc(most * sizeof *a);
    if (!a)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < n; i += TOGETHER) {
        const size_t some = n - i < TOGETHER ? n - i : TOGETHER;

        if (!error)
            error = take_some(weir__redis_of(f), a, rq + i, some, at, v + i);
        else
            for (size_t k = i; k < i + some; k++)
                v[k] = (struct weir_verdict){.which = -1, .limit = -1};
    }
    free(a);
    return error;
}

/* ---- For a loop -------------------------------------------------------------------------------- */

static void answered(struct weir__call *c)
{
    struct weir__asking *a = (struct weir__asking *)c;

    finish(a);
    a->told(a);
}

void weir__ask_begin(struct weir *w, struct weir__lane *lane, struct weir__asking *a,
                     const struct weir_request *rq, size_t n, struct weir__moment at)
{
    for (size_t from = 0; from < n; from += TOGETHER) {
        const size_t some = n - from < TOGETHER ? n - from : TOGETHER;
        bool waits[TOGETHER], sent;

        for (size_t i = 0; i < some; i++) {
            struct weir__asking *one = &a[from + i];

            one->redis = weir__redis_of(w->far);
            one->call.done = answered;
            one->own = rq[from + i];
            one->rq = &one->own;
            one->n = 1;
            one->verb = WEIR__TAKE;
            one->at = at;
            one->memo = NULL;
            begin(one, lane);
            waits[i] = !one->settled;
        }
        sent = send_all(lane, a + from, some);
        for (size_t i = 0; i < some; i++) /* what was sent may have been told, and be gone */
            if (!waits[i] || !sent)
                a[from + i].told(&a[from + i]);
    }
}

struct weir__lane *weir__ask_lane(struct weir *w)
{
    struct weir__lane *lane = NULL;
    struct weir__redis *r = w->far ? weir__redis_of(w->far) : NULL;

    return r && weir__lane_open(&lane, &r->watch) == 0 ? lane : NULL;
}
