/* Decisions of a Redis store.
 *
 * A request becomes one command that names all terms of all its limits, and the reply is the
 * verdict. The rest of this file is what Redis cannot know: which keys this process has on its
 * lists or gives an override, what this node granted while the store was down and has not charged
 * there yet, and what to answer without a reply.
 *
 * Invariants:
 *   (1) Every decision ends once, with a result: by Redis, by a list, or by the fallback.
 *   (2) The script gets the terms in the order in which the engine asks them (`chain` of a
 *       revision), so that the first term that refuses is the same.
 *   (3) A key's backlog is sent before the decision on that key, on the same connection.
 *   (4) A limit is encoded within an RCU read section, and nothing of it is kept while the command
 *       waits for its reply.
 */
#include "redis/redis_decide.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/policy/overrides.h"
#include "engine/ticket.h"
#include "engine/wait_list.h"
#include "os/clock.h"
#include "redis/redis_store.h"

#define IN_FLIGHT_MAX 64 /* decisions of weir_take_many that are under way at once */

/* ---- The parts of a command ------------------------------------------------------------------ */

/* A command while its parts are gathered. */
struct command_parts {
    struct weir__plan_part part[WEIR_TERMS_MAX];
    int request[WEIR_TERMS_MAX]; /* by part: the number of the request */
    int n;
    int listed;            /* the request whose key is on a deny list, or -1 */
    bool creation_unknown; /* some limit has no plan yet */
    int64_t limit;         /* of the first request, for results without a limit */
};

static int64_t decision_now_us(struct weir__now at)
{
    return at.given ? at.now_ns / 1000 : -1;
}

static int add_part(struct weir__decision *a, struct command_parts *o, int i,
                    struct weir__revision *by)
{
    const struct weir_request *rq = &a->rq[i];
    const struct weir__redis_policy *p = weir__redis_policy(rq->policy);
    const struct weir__plan *plan = weir__redis_plan(a->redis, rq->policy, by);

    o->creation_unknown = o->creation_unknown || !plan;
    if (by->n > WEIR_TERMS_MAX - a->terms)
        return WEIR_EINVAL;
    for (int k = 0; k < by->n; k++) {
        a->lease_ns = weir__max(a->lease_ns, by->term[k].meter.term.lease_ns);
        a->request_of[a->terms] = (unsigned char)i;
        a->scope_of[a->terms] = by->term[by->chain[k]].scope;
        a->index_of[a->terms++] = by->chain[k];
    }
    a->resets_of[i] = atomic_load(&rq->policy->record->resets);
    o->request[o->n] = i;
    o->part[o->n++] = (struct weir__plan_part){.plan = plan,
                                               .scope = weir__redis_scope(p),
                                               .key = {rq->key, rq->key_len},
                                               .cost = rq->cost,
                                               .patience_ns = rq->patience_ns};
    return 0;
}

/* Within an RCU read section. WEIR__STALE: start again. */
static int gather_parts(struct weir__decision *a, struct command_parts *o, struct weir__own *own)
{
    a->terms = 0;
    a->lease_ns = 0;
    o->n = 0;
    o->listed = -1;
    o->creation_unknown = false;
    for (size_t i = 0; i < a->n; i++) {
        struct weir__revision *e = weir__policy_revision(a->rq[i].policy), *by;
        uint64_t key = 0;
        int error;

        if (!e)
            return WEIR__STALE;
        if (e->guards && weir__verb_takes(a->verb))
            return WEIR_EGUARD; /* a take of a guard could never be released */
        if (i == 0)
            o->limit = e->term[0].meter.limit;
        if (e->overrides)
            key = weir__key_hash(a->rq[i].policy->store, &a->rq[i]);
        if (weir__revision_lists(e, WEIR_LIST_DENY, &a->rq[i], key)) {
            o->listed = (int)i;
            return 0;
        }
        if (weir__revision_lists(e, WEIR_LIST_ALLOW, &a->rq[i], key))
            continue;
        by = a->numbers ? weir__own_compile(own, e, a->numbers->term, a->numbers->n)
                        : weir__revision_for(e, &a->rq[i], key, own);
        error = by ? add_part(a, o, (int)i, by) : WEIR_EINVAL;
        if (error)
            return error;
    }
    return 0;
}

/* ---- Encode ---------------------------------------------------------------------------------- */

/* The name of a ticket has the node's name in it, and is used once. */
static void name_ticket(struct weir__decision *a)
{
    (void)snprintf(a->ticket, sizeof a->ticket, "%s:%llx", weir__monitor_node(a->redis->monitor),
                   (unsigned long long)atomic_fetch_add(&a->redis->tickets, 1));
}

static struct weir__plan_request decision_plan_request(struct weir__decision *a,
                                                       const struct command_parts *o,
                                                       enum weir__plan_verb verb)
{
    return (struct weir__plan_request){
        .verb = verb,
        .now_us = decision_now_us(a->at),
        .wall_ns = a->at.wall_ns,
        .prefix = weir__slice_of(a->redis->address.prefix),
        .ticket = {a->ticket[0] ? a->ticket : NULL, strlen(a->ticket)},
        .part = o->part,
        .n = o->n};
}

static int decision_encode(struct weir__decision *a, const struct command_parts *o)
{
    const enum weir__plan_verb verb = a->verb == WEIR__PEEK     ? WEIR__PLAN_PEEK
                                      : a->verb == WEIR__CHARGE ? WEIR__PLAN_CHARGE
                                                                : WEIR__PLAN_TAKE;
    const struct weir__plan_request request = decision_plan_request(a, o, verb);
    size_t cap = sizeof a->small;
    int terms;

    a->bytes = a->small;
    a->command.len = weir__plan_encode(&request, a->bytes, cap, &a->command.script, &terms);
    if (a->command.len > cap) {
        cap = a->command.len;
        a->bytes = malloc(cap);
        if (!a->bytes) {
            a->bytes = a->small;
            return WEIR_ENOMEM;
        }
        a->command.len = weir__plan_encode(&request, a->bytes, cap, &a->command.script, &terms);
    }
    a->command.bytes = a->bytes;
    return 0;
}

/* ---- Results without a command --------------------------------------------------------------- */

void weir__decision_finish(struct weir__decision *a, int error)
{
    a->error = error;
    a->decided = true;
}

static void decide_by_list(struct weir__decision *a, const struct command_parts *o)
{
    const bool denied = o->listed >= 0;

    a->verdict =
        (struct weir_verdict){.allowed = !denied,
                              .reason = denied ? WEIR_LISTED : WEIR_OK,
                              .which = weir__decision_names_requests(a->verb) ? o->listed : -1,
                              .limit = o->limit,
                              .remaining = denied ? 0 : o->limit,
                              .retry_after_ns = denied ? -1 : 0};
    if (a->receipt && a->receipt->reservation)
        *a->receipt->reservation = (struct weir_reservation){.act_ns = a->at.now_ns};
    if (!denied && a->receipt && a->receipt->ticket)
        weir__ticket_begin(a->receipt->ticket, a->redis->remote.engine, a->at.now_ns);
    weir__decision_finish(a, 0);
}

/* ---- The reply ------------------------------------------------------------------------------- */

/* Names the term that refused, or the shadow that would have, as the caller counts. */
static void decision_name_term(struct weir__decision *a)
{
    struct weir_verdict *v = &a->verdict;
    const int i = v->which >= 0 ? v->which : v->shadow - 1;
    int named;

    if (i < 0)
        return;
    named = weir__decision_names_requests(a->verb) ? a->request_of[i] : a->index_of[i];
    v->term = (int8_t)a->index_of[i];
    if (v->which >= 0)
        v->which = named;
    else
        v->shadow = (int8_t)(named + 1);
}

static void decision_apply_reply(struct weir__decision *a)
{
    const int refused = a->verdict.which;

    atomic_fetch_add_explicit(&a->redis->asked, 1, memory_order_relaxed);
    decision_name_term(a);
    weir__decision_finish(a, 0);
    if (a->receipt)
        weir__decision_issue_receipts(a, refused);
}

/* The command has ended, with a reply or without. */
static void decision_complete(struct weir__decision *a)
{
    const struct weir__command *c = &a->command;
    const bool takes = a->verb != WEIR__PEEK && a->verb != WEIR__CHARGE;
    struct weir_verdict v;

    if (a->bytes != a->small)
        free(a->bytes);
    if (c->error == 0 &&
        weir__plan_decode(c->number, c->n, a->terms, takes, &v, a->act_us, &a->now_us)) {
        a->verdict = v;
        decision_apply_reply(a);
        return;
    }
    atomic_fetch_add_explicit(&a->redis->failed, 1, memory_order_relaxed);
    if (c->error == 0) {
        weir__health_failed(&a->redis->health, "the reply is not a verdict");
        weir__monitor_wake(a->redis->monitor);
    }
    weir__decision_fall_back(a);
}

/* ---- Send ------------------------------------------------------------------------------------ */

/* A decision that an event loop began; else a thread waits for it. */
static bool decision_is_of_loop(const struct weir__decision *a)
{
    return a->command.done != NULL;
}

/* A thread that waits asks Redis for those that are missing; a loop has asked before. */
static bool all_creations_known(struct weir__decision *a)
{
    for (size_t i = 0; i < a->n; i++)
        if (!weir__redis_has_creation(a->redis, weir__redis_policy(a->rq[i].policy)) &&
            (decision_is_of_loop(a) || !weir__redis_knows_creation(a->redis, a->rq[i].policy)))
            return false;
    return true;
}

/* Outside an RCU read section: encodes the command; or decides, if there is no need or no point
 * in sending it. */
static int decision_prepare(struct weir__decision *a, struct weir__pipeline *pipeline, bool down)
{
    bool asked = false; /* a change may have made a creation time necessary just now */
    struct command_parts o;
    struct weir__own own;
    int error;

    weir__own_begin(&own);
    do {
        weir__rcu_enter();
        error = gather_parts(a, &o, &own);
        if (!error && o.listed < 0 && o.n > 0 && !down && !o.creation_unknown)
            error = decision_encode(a, &o);
        weir__own_end(&own);
        weir__rcu_exit();
        if (!error && o.creation_unknown && !down && !asked) {
            asked = true;
            error = all_creations_known(a) ? WEIR__STALE : 0;
        }
        for (size_t i = 0; i < a->n && error == WEIR__STALE; i++)
            error = weir__policy_refresh(a->rq[i].policy) ?: WEIR__STALE;
    } while (error == WEIR__STALE);
    if (!error && (o.listed >= 0 || o.n == 0))
        decide_by_list(a, &o);
    else if (!error && (down || o.creation_unknown))
        weir__decision_fall_back(a);
    else if (!error && weir__local_has_backlog(a->redis->local, a->at))
        for (int i = 0; i < o.n; i++)
            weir__redis_drain_backlog(a->redis, pipeline, &a->rq[o.request[i]], a->at,
                                      a->command.deadline_ns);
    return error;
}

/* Makes it ready to be sent, or decides it at once. */
static void decision_start(struct weir__decision *a, struct weir__pipeline *pipeline)
{
    struct weir__redis *r = a->redis;
    int error;

    a->decided = false;
    a->bytes = a->small;
    atomic_store_explicit(&a->command.finished, 0, memory_order_relaxed);
    a->command.repeats = 0;
    a->ticket[0] = '\0';
    for (size_t i = 0; i < a->n; i++)
        if (weir__policy_guards(a->rq[i].policy) && a->ticket[0] == '\0')
            name_ticket(a);
    if (!weir__monitor_is_running(r->monitor))
        weir__monitor_wake(r->monitor); /* in a child of fork(), the first time */
    error =
        decision_prepare(a, pipeline, weir__health_is_down(&r->health) || !all_creations_known(a));
    if (error)
        weir__decision_finish(a, error);
}

/* Sends the undecided ones. False: there was no room, and all of them fell back. */
static bool decisions_send(struct weir__pipeline *pipeline, struct weir__decision *a, size_t n)
{
    struct weir__command *command[IN_FLIGHT_MAX];
    size_t commands = 0;

    for (size_t i = 0; i < n; i++)
        if (!a[i].decided)
            command[commands++] = &a[i].command;
    if (commands == 0 || weir__pipeline_submit(pipeline, command, commands))
        return true;
    for (size_t i = 0; i < n; i++)
        if (!a[i].decided) {
            atomic_fetch_add_explicit(&a[i].redis->crowded, 1, memory_order_relaxed);
            weir__decision_fall_back(&a[i]);
            if (a[i].bytes != a[i].small)
                free(a[i].bytes);
        }
    return false;
}

/* Waits for those that were sent. */
static void decisions_await(struct weir__pipeline *pipeline, struct weir__decision *a, size_t n)
{
    struct weir__command *command[IN_FLIGHT_MAX];
    size_t commands = 0;

    for (size_t i = 0; i < n; i++)
        if (!a[i].decided)
            command[commands++] = &a[i].command;
    if (commands > 0)
        weir__pipeline_await(pipeline, command, commands);
    for (size_t i = 0; i < n; i++)
        if (!a[i].decided)
            decision_complete(&a[i]);
}

/* ---- For threads that wait ------------------------------------------------------------------- */

static bool wants_receipt(const struct weir__receipt *receipt)
{
    return receipt && (receipt->reservation || receipt->ticket);
}

int weir__redis_decide(struct weir__remote *f, const struct weir_request *rq, size_t n,
                       enum weir__verb verb, struct weir__now at, struct weir__receipt *receipt,
                       struct weir_verdict *v)
{
    struct weir__redis *r = weir__redis_of(f);
    struct weir__pipeline *pipeline = weir__redis_pipeline(r);
    struct weir__decision a;

    if (wants_receipt(receipt) && !weir__receipts_have_room(r->receipts, at.now_ns))
        return WEIR_EFULL;
    a.redis = r;
    a.command.done = NULL;
    a.command.deadline_ns = weir__redis_deadline(r);
    a.rq = rq;
    a.numbers = NULL;
    a.n = n;
    a.verb = verb;
    a.at = at;
    a.receipt = receipt;
    decision_start(&a, pipeline);
    (void)decisions_send(pipeline, &a, 1);
    decisions_await(pipeline, &a, 1);
    if (!a.error)
        *v = a.verdict;
    return a.error;
}

static int decisions_take(struct weir__redis *r, struct weir__decision *a,
                          const struct weir_request *rq, size_t n, struct weir__now at,
                          struct weir_verdict *v)
{
    struct weir__pipeline *pipeline = weir__redis_pipeline(r);
    int error = 0;

    for (size_t i = 0; i < n; i++) {
        a[i].redis = r;
        a[i].command.done = NULL;
        a[i].command.deadline_ns = weir__redis_deadline(r);
        a[i].rq = &rq[i];
        a[i].n = 1;
        a[i].verb = WEIR__TAKE;
        a[i].at = at;
        a[i].numbers = NULL;
        a[i].receipt = NULL;
        decision_start(&a[i], pipeline);
    }
    (void)decisions_send(pipeline, a, n);
    decisions_await(pipeline, a, n);
    for (size_t i = 0; i < n; i++) {
        v[i] = a[i].error ? (struct weir_verdict){.which = -1, .limit = -1} : a[i].verdict;
        error = error ? error : a[i].error;
    }
    return error;
}

int weir__redis_take_many(struct weir__remote *f, const struct weir_request *rq, size_t n,
                          struct weir__now at, struct weir_verdict *v)
{
    const size_t most = n < IN_FLIGHT_MAX ? n : IN_FLIGHT_MAX;
    struct weir__decision *a;
    int error = 0;

    if (n == 0)
        return 0;
    a = malloc(most * sizeof *a);
    if (!a)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < n; i += IN_FLIGHT_MAX) {
        const size_t some = n - i < IN_FLIGHT_MAX ? n - i : IN_FLIGHT_MAX;

        if (!error)
            error = decisions_take(weir__redis_of(f), a, rq + i, some, at, v + i);
        else
            for (size_t k = i; k < i + some; k++)
                v[k] = (struct weir_verdict){.which = -1, .limit = -1};
    }
    free(a);
    return error;
}

/* ---- For an event loop ----------------------------------------------------------------------- */

static void decision_replied(struct weir__command *c)
{
    struct weir__decision *a = (struct weir__decision *)c;

    decision_complete(a);
    a->done(a);
}

static void decision_learned(struct weir__command *c);

/* A limit whose creation time is not known cannot be encoded: asks for it first. True if it is
 * asked for; decision_learned goes on. */
static bool decision_learns(struct weir__decision *a)
{
    struct weir__command *command = &a->command;

    for (a->learns = 0; a->learns < a->n; a->learns++)
        if (!weir__redis_has_creation(a->redis, weir__redis_policy(a->rq[a->learns].policy)))
            break;
    if (a->learns == a->n)
        return false;
    a->bytes = weir__redis_ask_creation(a->redis, a->rq[a->learns].policy, command);
    if (!a->bytes)
        return false;
    command->done = decision_learned;
    if (weir__pipeline_submit(a->pipeline, &command, 1)) {
        weir__pipeline_pause(a->pipeline);
        return true;
    }
    free(a->bytes);
    return false;
}

static void decision_proceed(struct weir__decision *a)
{
    if (!weir__health_is_down(&a->redis->health) && decision_learns(a))
        return;
    a->command.done = decision_replied;
    decision_start(a, a->pipeline);
    if (a->decided || !decisions_send(a->pipeline, a, 1))
        a->done(a);
}

static void decision_learned(struct weir__command *c)
{
    struct weir__decision *a = (struct weir__decision *)c;
    struct weir__pipeline *pipeline = a->pipeline;

    free(a->bytes);
    weir__redis_learn_creation(a->redis, a->rq[a->learns].policy, c);
    decision_proceed(a);
    weir__pipeline_resume(pipeline);
}

static bool requests_fit(const struct weir_request *rq, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!weir__request_fits(&rq[i]))
            return false;
    return n >= 1 && n <= WEIR_TERMS_MAX;
}

void weir__decision_begin(struct weir *w, struct weir__pipeline *pipeline, struct weir__decision *a,
                          const struct weir_request *rq, size_t n, const struct weir_limit *numbers,
                          enum weir__verb verb, struct weir__now at, struct weir__receipt *receipt)
{
    struct weir__redis *r = weir__redis_of(w->remote);
    int error = requests_fit(rq, n) && weir__now_fits(at.now_ns) ? 0 : WEIR_EINVAL;

    a->redis = r;
    a->pipeline = pipeline;
    a->command.deadline_ns = weir__redis_deadline(r);
    a->own = rq[0];
    a->rq = n == 1 ? &a->own : rq;
    a->numbers = numbers;
    a->n = n;
    a->verb = verb;
    a->at = at;
    a->receipt = receipt;
    if (!error && wants_receipt(receipt) && !weir__receipts_have_room(r->receipts, at.now_ns))
        error = WEIR_EFULL;
    if (error) {
        weir__decision_finish(a, error);
        a->done(a);
        return;
    }
    decision_proceed(a);
}

struct weir__pipeline *weir__redis_pipeline_open(struct weir *w)
{
    struct weir__pipeline *pipeline = NULL;
    struct weir__redis *r = w->remote ? weir__redis_of(w->remote) : NULL;

    return r && weir__pipeline_open(&pipeline, &r->watch) == 0 ? pipeline : NULL;
}
