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

#include "base/hash.h"
#include "engine/account/account.h"
#include "engine/policy/overrides.h"
#include "engine/ticket.h"
#include "engine/wait.h"
#include "engine/wait_list.h"
#include "os/clock.h"
#include "redis/redis_store.h"

#define IN_FLIGHT_MAX 64 /* decisions of weir_take_many that are under way at once */

/* ---- The parts of a command ------------------------------------------------------------------ */

/* A command while its parts are gathered. */
struct command_parts {
    struct weir__plan_part part[WEIR_TERMS_MAX];
    int request[WEIR_TERMS_MAX]; /* by part: the number of the request */
    int n, terms;                /* terms: of all limits, those of guards of this node too */
    int listed;                  /* the request whose key is on a deny list, or -1 */
    unsigned guarded;      /* the requests with guards that look at this node: a bit for each */
    bool creation_unknown; /* some limit has no plan yet */
    int64_t limit;         /* of the first request, for results without a limit */
};

static int64_t decision_now_us(struct weir__now at)
{
    return at.given ? at.now_ns / 1000 : -1;
}

static int add_part(struct weir__decision *decision, struct command_parts *parts, int i,
                    struct weir__revision *by)
{
    const struct weir_request *rq = &decision->rq[i];
    const struct weir__redis_policy *p = weir__redis_policy(rq->policy);
    const struct weir__plan *plan = atomic_load_explicit(&by->plan, memory_order_acquire);
    const int before = decision->terms;

    if (!plan) /* its first decision */
        plan = weir__redis_plan(decision->redis, rq->policy, by);
    parts->creation_unknown = parts->creation_unknown || !plan;
    parts->terms += by->n;
    if (parts->terms > WEIR_TERMS_MAX || (decision->account.step && by->n > WEIR_ACCOUNT_TERMS_MAX))
        return WEIR_EINVAL;
    if (by->of_node != 0)
        parts->guarded |= 1u << i;
    for (int k = 0; k < by->n; k++) {
        const struct weir__compiled_term *t = &by->term[by->chain[k]];

        if ((by->of_node >> by->chain[k] & 1) != 0)
            continue;
        decision->lease_ns = weir__max(decision->lease_ns, t->meter.term.lease_ns);
        decision->request_of[decision->terms] = (unsigned char)i;
        decision->scope_of[decision->terms] = t->scope;
        decision->index_of[decision->terms++] = by->chain[k];
    }
    decision->resets_of[i] = atomic_load(&rq->policy->record->resets);
    if (decision->terms == before)
        return 0; /* the store has nothing of it */
    parts->request[parts->n] = i;
    parts->part[parts->n++] = (struct weir__plan_part){.plan = plan,
                                                       .scope = weir__redis_scope(p),
                                                       .key = {rq->key, rq->key_len},
                                                       .cost = rq->cost,
                                                       .patience_ns = rq->patience_ns};
    return 0;
}

/* Within an RCU read section. WEIR__STALE: start again. */
static int gather_parts(struct weir__decision *decision, struct command_parts *parts,
                        struct weir__own *own)
{
    decision->terms = 0;
    decision->lease_ns = 0;
    parts->n = parts->terms = 0;
    parts->guarded = 0;
    parts->listed = -1;
    parts->creation_unknown = false;
    for (size_t i = 0; i < decision->n; i++) {
        struct weir__revision *rev = weir__policy_revision(decision->rq[i].policy), *by;
        uint64_t key = 0;
        int error;

        if (!rev)
            return WEIR__STALE;
        if (rev->guards && weir__verb_takes(decision->verb))
            return WEIR_EGUARD; /* a take of a guard could never be released */
        if (i == 0)
            parts->limit = rev->term[0].meter.limit;
        if (rev->overrides)
            key = weir__key_hash(decision->rq[i].policy->store, &decision->rq[i]);
        if (weir__revision_lists(rev, WEIR_LIST_DENY, &decision->rq[i], key)) {
            parts->listed = (int)i;
            return 0;
        }
        if (weir__revision_lists(rev, WEIR_LIST_ALLOW, &decision->rq[i], key))
            continue;
        by = decision->numbers
                 ? weir__own_compile(own, rev, decision->numbers->term, decision->numbers->n)
                 : weir__revision_for(rev, &decision->rq[i], key, own);
        error = by ? add_part(decision, parts, (int)i, by) : WEIR_EINVAL;
        if (error)
            return error;
    }
    return 0;
}

/* ---- Encode ---------------------------------------------------------------------------------- */

/* The name of a ticket has the node's name in it, and is used once. It cannot be guessed, because
 * any node may release the ticket by its name (weir__undo_release). */
static void name_ticket(struct weir__decision *decision)
{
    const uint64_t count = atomic_fetch_add(&decision->redis->tickets, 1);
    const uint64_t bits =
        weir__hash(&count, sizeof count, weir__engine_secret(decision->redis->remote.engine));

    (void)snprintf(decision->ticket, sizeof decision->ticket, "%s:%016llx",
                   weir__monitor_node(decision->redis->monitor), (unsigned long long)bits);
}

/* The step in an account, as the script reads it. */
static struct weir__slice decision_step(struct weir__decision *decision)
{
    const struct weir__decision_account *a = &decision->account;
    const struct weir__plan_step step = {.id = a->id,
                                         .ttl_us = a->ttl_ns / WEIR__NS_PER_US +
                                                   (a->ttl_ns % WEIR__NS_PER_US != 0),
                                         .free = a->free,
                                         .slots = weir__account_slots((uint32_t)decision->terms)};

    _Static_assert(sizeof step == sizeof decision->step, "there is room for it");
    memcpy(decision->step, &step, sizeof step);
    return (struct weir__slice){(const char *)decision->step,
                                a->step == WEIR__DECISION_RESERVES ? sizeof step : sizeof step.id};
}

/* What follows the numbers of the terms: a step in an account, or a ticket; or nothing. */
static struct weir__slice decision_word(struct weir__decision *decision)
{
    if (decision->account.step) /* in a plain decision nothing else of the account is set */
        return decision_step(decision);
    return (struct weir__slice){decision->ticket[0] ? decision->ticket : NULL,
                                strlen(decision->ticket)};
}

static struct weir__plan_request decision_plan_request(struct weir__decision *decision,
                                                       const struct command_parts *parts,
                                                       enum weir__plan_verb verb)
{
    return (struct weir__plan_request){.verb = verb,
                                       .now_us = decision_now_us(decision->at),
                                       .wall_ns = decision->at.wall_ns,
                                       .prefix = weir__slice_of(decision->redis->address.prefix),
                                       .ticket = decision_word(decision),
                                       .part = parts->part,
                                       .n = parts->n};
}

static enum weir__plan_verb decision_plan_verb(const struct weir__decision *decision)
{
    if (decision->account.step)
        return decision->account.step == WEIR__DECISION_RESERVES ? WEIR__PLAN_RESERVE
                                                                 : WEIR__PLAN_SETTLE;
    return decision->verb == WEIR__PEEK     ? WEIR__PLAN_PEEK
           : decision->verb == WEIR__CHARGE ? WEIR__PLAN_CHARGE
                                            : WEIR__PLAN_TAKE;
}

static void decision_drop_bytes(struct weir__decision *decision)
{
    if (decision->bytes != decision->small)
        free(decision->bytes);
}

static int decision_encode(struct weir__decision *decision, const struct command_parts *parts)
{
    const struct weir__plan_request request =
        decision_plan_request(decision, parts, decision_plan_verb(decision));
    size_t cap = sizeof decision->small;
    int terms;

    decision->bytes = decision->small;
    decision->command.len =
        weir__plan_encode(&request, decision->bytes, cap, &decision->command.script, &terms);
    if (decision->command.len > cap) {
        cap = decision->command.len;
        decision->bytes = malloc(cap);
        if (!decision->bytes) {
            decision->bytes = decision->small;
            return WEIR_ENOMEM;
        }
        decision->command.len =
            weir__plan_encode(&request, decision->bytes, cap, &decision->command.script, &terms);
    }
    decision->command.bytes = decision->bytes;
    return 0;
}

/* ---- Results without a command --------------------------------------------------------------- */

void weir__decision_finish(struct weir__decision *decision, int error)
{
    decision->error = error;
    decision->decided = true;
}

static void decide_by_list(struct weir__decision *decision, const struct command_parts *parts)
{
    const bool denied = parts->listed >= 0;

    decision->verdict = (struct weir_verdict){
        .allowed = !denied,
        .reason = denied ? WEIR_LISTED : WEIR_OK,
        .which = weir__decision_names_requests(decision->verb) ? parts->listed : -1,
        .limit = parts->limit,
        .remaining = denied ? 0 : parts->limit,
        .retry_after_ns = denied ? -1 : 0};
    if (decision->receipt && decision->receipt->reservation)
        *decision->receipt->reservation = (struct weir_reservation){.act_ns = decision->at.now_ns};
    if (!denied && decision->receipt && decision->receipt->ticket)
        weir__ticket_begin(decision->receipt->ticket, decision->redis->remote.engine,
                           decision->at.now_ns);
    weir__decision_finish(decision, 0);
}

/* The store has nothing of the limits: the guards of this node have decided. */
static void decide_by_guards(struct weir__decision *decision)
{
    decision->verdict = decision->guards->verdict;
    if (decision->receipt && decision->receipt->ticket)
        weir__ticket_begin(decision->receipt->ticket, decision->redis->remote.engine,
                           decision->at.now_ns);
    if (decision->receipt && decision->receipt->reservation)
        decision->receipt->reservation->n = 0;
    weir__decision_finish(decision, 0);
}

/* ---- The reply ------------------------------------------------------------------------------- */

/* Names the term that refused, or the shadow that would have, as the caller counts. */
static void decision_name_term(struct weir__decision *decision)
{
    struct weir_verdict *v = &decision->verdict;
    const int i = v->which >= 0 ? v->which : v->shadow - 1;
    int named;

    if (i < 0)
        return;
    named = weir__decision_names_requests(decision->verb) ? decision->request_of[i]
                                                          : decision->index_of[i];
    v->term = (int8_t)decision->index_of[i];
    if (v->which >= 0)
        v->which = named;
    else
        v->shadow = (int8_t)(named + 1);
}

static void decision_apply_reply(struct weir__decision *decision)
{
    const int refused = decision->verdict.which;

    atomic_fetch_add_explicit(&decision->redis->asked, 1, memory_order_relaxed);
    decision_name_term(decision);
    weir__decision_finish(decision, 0);
    if (decision->receipt)
        weir__decision_issue_receipts(decision, refused);
}

/* The step in the account is done, as the reply says. */
static void decision_note_account(struct weir__decision *decision, int64_t back)
{
    struct weir__decision_account *a = &decision->account;

    a->made = a->step == WEIR__DECISION_RESERVES && decision->verdict.allowed;
    if (a->step != WEIR__DECISION_SETTLES)
        return;
    a->back = weir__max(back, 0);
    if (back < 0)
        weir__decision_finish(decision, WEIR_ESETTLED);
    else if (back > 0)
        weir__wait_wake_request(decision->redis->remote.engine, &decision->rq[0]);
}

/* The command has ended, with a reply or without. */
static void decision_complete(struct weir__decision *decision)
{
    const struct weir__command *c = &decision->command;
    const bool takes = decision->verb != WEIR__PEEK && decision->verb != WEIR__CHARGE;
    /* A settled one has one number more. */
    const int more = decision->account.step == WEIR__DECISION_SETTLES;
    struct weir_verdict v;

    decision_drop_bytes(decision);
    if (c->error == 0 && weir__plan_decode(c->number, c->n - more, decision->terms, takes, &v,
                                           decision->act_us, &decision->now_us)) {
        decision->verdict = v;
        decision_apply_reply(decision);
        decision_note_account(decision, weir__plan_amount(c->number, c->n));
        return;
    }
    atomic_fetch_add_explicit(&decision->redis->failed, 1, memory_order_relaxed);
    if (c->error == 0) {
        weir__health_failed(&decision->redis->health, "the reply is not a verdict");
        weir__monitor_wake(decision->redis->monitor);
    }
    weir__decision_fall_back(decision);
}

/* ---- Send ------------------------------------------------------------------------------------ */

/* A decision that an event loop began; else a thread waits for it. */
static bool decision_is_of_loop(const struct weir__decision *decision)
{
    return decision->command.done != NULL;
}

/* A thread that waits asks Redis for those that are missing; a loop has asked before. */
static bool all_creations_known(struct weir__decision *decision)
{
    for (size_t i = 0; i < decision->n; i++)
        if (!weir__redis_has_creation(decision->redis,
                                      weir__redis_policy(decision->rq[i].policy)) &&
            (decision_is_of_loop(decision) ||
             !weir__redis_knows_creation(decision->redis, decision->rq[i].policy)))
            return false;
    return true;
}

/* Outside an RCU read section: encodes the command; or decides, if there is no need or no point
 * in sending it. */
static int decision_prepare(struct weir__decision *decision, struct weir__pipeline *pipeline,
                            bool down)
{
    bool asked = false; /* a change may have made a creation time necessary just now */
    struct command_parts parts;
    struct weir__own own;
    int error;

    weir__own_begin(&own);
    do {
        weir__rcu_enter();
        error = gather_parts(decision, &parts, &own);
        if (!error && parts.listed < 0 && parts.n > 0 && !down && !parts.creation_unknown)
            error = decision_encode(decision, &parts);
        weir__own_end(&own);
        weir__rcu_exit();
        if (!error && parts.creation_unknown && !down && !asked) {
            asked = true;
            error = all_creations_known(decision) ? WEIR__STALE : 0;
        }
        for (size_t i = 0; i < decision->n && error == WEIR__STALE; i++)
            error = weir__policy_refresh(decision->rq[i].policy) ?: WEIR__STALE;
    } while (error == WEIR__STALE);
    if (error)
        return error;
    if (parts.listed < 0 && parts.guarded != 0 &&
        !weir__decision_enter_guards(decision, parts.guarded))
        decision_drop_bytes(decision);
    else if (parts.listed < 0 && parts.n == 0 && decision->guards)
        decide_by_guards(decision);
    else if (parts.listed >= 0 || parts.n == 0)
        decide_by_list(decision, &parts);
    else if (down || parts.creation_unknown)
        weir__decision_fall_back(decision);
    else if (weir__local_has_backlog(decision->redis->local, decision->at))
        for (int i = 0; i < parts.n; i++)
            weir__redis_drain_backlog(decision->redis, pipeline, &decision->rq[parts.request[i]],
                                      decision->at, decision->command.deadline_ns);
    return 0;
}

/* Makes it ready to be sent, or decides it at once. */
static void decision_start(struct weir__decision *decision, struct weir__pipeline *pipeline)
{
    struct weir__redis *r = decision->redis;
    int error;

    decision->decided = false;
    decision->guards = NULL;
    decision->bytes = decision->small;
    atomic_store_explicit(&decision->command.finished, 0, memory_order_relaxed);
    decision->command.repeats = 0;
    decision->ticket[0] = '\0';
    for (size_t i = 0; i < decision->n; i++)
        if (weir__policy_guards(decision->rq[i].policy) && decision->ticket[0] == '\0')
            name_ticket(decision);
    if (!weir__monitor_is_running(r->monitor))
        weir__monitor_wake(r->monitor); /* in a child of fork(), the first time */
    error = decision_prepare(decision, pipeline,
                             weir__health_is_down(&r->health) || !all_creations_known(decision));
    if (error)
        weir__decision_finish(decision, error);
}

/* Sends the undecided ones. False: there was no room, and all of them fell back. */
static bool decisions_send(struct weir__pipeline *pipeline, struct weir__decision *decision,
                           size_t n)
{
    struct weir__command *command[IN_FLIGHT_MAX];
    size_t commands = 0;

    for (size_t i = 0; i < n; i++)
        if (!decision[i].decided)
            command[commands++] = &decision[i].command;
    if (commands == 0 || weir__pipeline_submit(pipeline, command, commands))
        return true;
    for (size_t i = 0; i < n; i++)
        if (!decision[i].decided) {
            atomic_fetch_add_explicit(&decision[i].redis->crowded, 1, memory_order_relaxed);
            weir__decision_fall_back(&decision[i]);
            decision_drop_bytes(&decision[i]);
        }
    return false;
}

/* Waits for those that were sent. */
static void decisions_await(struct weir__pipeline *pipeline, struct weir__decision *decision,
                            size_t n)
{
    struct weir__command *command[IN_FLIGHT_MAX];
    size_t commands = 0;

    for (size_t i = 0; i < n; i++)
        if (!decision[i].decided)
            command[commands++] = &decision[i].command;
    if (commands > 0)
        weir__pipeline_await(pipeline, command, commands);
    for (size_t i = 0; i < n; i++)
        if (!decision[i].decided)
            decision_complete(&decision[i]);
}

/* ---- For threads that wait ------------------------------------------------------------------- */

/* weir__redis_pipeline, without leaving this file if there is but one: every take passes here. */
static struct weir__pipeline *decision_pipeline(struct weir__redis *r)
{
    return r->address.connections == 1 ? r->pipeline[0] : weir__redis_pipeline(r);
}

static bool wants_receipt(const struct weir__receipt *receipt)
{
    return receipt && (receipt->reservation || receipt->ticket);
}

static struct weir__decision_account account_of(const struct weir__receipt *receipt,
                                                struct weir__now at)
{
    const struct weir__account_step *a = receipt ? receipt->account : NULL;

    if (!a)
        return (struct weir__decision_account){.step = WEIR__DECISION_PLAIN};
    return (struct weir__decision_account){
        .step = a->verb == WEIR__ACCOUNT_RESERVE ? WEIR__DECISION_RESERVES : WEIR__DECISION_SETTLES,
        .id = a->id,
        .ttl_ns = a->lapse_ns - at.now_ns,
        .free = a->free};
}

int weir__redis_decide(struct weir__remote *remote, const struct weir_request *rq, size_t n,
                       enum weir__verb verb, struct weir__now at, struct weir__receipt *receipt,
                       struct weir_verdict *v)
{
    struct weir__redis *r = weir__redis_of(remote);
    struct weir__pipeline *pipeline = decision_pipeline(r);
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
    a.account = account_of(receipt, at);
    decision_start(&a, pipeline);
    (void)decisions_send(pipeline, &a, 1);
    decisions_await(pipeline, &a, 1);
    if (a.guards)
        weir__decision_join_guards(&a);
    if (a.account.step) {
        receipt->account->made = a.account.made;
        receipt->account->back = a.account.back;
    }
    if (!a.error)
        *v = a.verdict;
    return a.error;
}

static int decisions_take(struct weir__redis *r, struct weir__decision *decision,
                          const struct weir_request *rq, size_t n, struct weir__now at,
                          struct weir_verdict *v)
{
    struct weir__pipeline *pipeline = decision_pipeline(r);
    int error = 0;

    for (size_t i = 0; i < n; i++) {
        decision[i].redis = r;
        decision[i].command.done = NULL;
        decision[i].command.deadline_ns = weir__redis_deadline(r);
        decision[i].rq = &rq[i];
        decision[i].n = 1;
        decision[i].verb = WEIR__TAKE;
        decision[i].at = at;
        decision[i].numbers = NULL;
        decision[i].receipt = NULL;
        decision[i].account.step = WEIR__DECISION_PLAIN;
        decision_start(&decision[i], pipeline);
    }
    (void)decisions_send(pipeline, decision, n);
    decisions_await(pipeline, decision, n);
    for (size_t i = 0; i < n; i++) {
        v[i] = decision[i].error ? (struct weir_verdict){.which = -1, .limit = -1}
                                 : decision[i].verdict;
        error = error ? error : decision[i].error;
    }
    return error;
}

int weir__redis_take_many(struct weir__remote *remote, const struct weir_request *rq, size_t n,
                          struct weir__now at, struct weir_verdict *v)
{
    const size_t most = n < IN_FLIGHT_MAX ? n : IN_FLIGHT_MAX;
    struct weir__decision *decision;
    int error = 0;

    if (n == 0)
        return 0;
    decision = malloc(most * sizeof *decision);
    if (!decision)
        return WEIR_ENOMEM;
    for (size_t i = 0; i < n; i += IN_FLIGHT_MAX) {
        const size_t some = n - i < IN_FLIGHT_MAX ? n - i : IN_FLIGHT_MAX;

        if (!error)
            error = decisions_take(weir__redis_of(remote), decision, rq + i, some, at, v + i);
        else
            for (size_t k = i; k < i + some; k++)
                v[k] = (struct weir_verdict){.which = -1, .limit = -1};
    }
    free(decision);
    return error;
}

/* ---- For an event loop ----------------------------------------------------------------------- */

static void decision_done(struct weir__decision *decision)
{
    if (decision->guards)
        weir__decision_join_guards(decision);
    decision->done(decision);
}

static void decision_replied(struct weir__command *c)
{
    struct weir__decision *decision = (struct weir__decision *)c;

    decision_complete(decision);
    decision_done(decision);
}

static void decision_learned(struct weir__command *c);

/* A limit whose creation time is not known cannot be encoded: asks for it first. True if it is
 * asked for; decision_learned goes on. */
static bool decision_learns(struct weir__decision *decision)
{
    struct weir__command *command = &decision->command;

    for (decision->learns = 0; decision->learns < decision->n; decision->learns++)
        if (!weir__redis_has_creation(decision->redis,
                                      weir__redis_policy(decision->rq[decision->learns].policy)))
            break;
    if (decision->learns == decision->n)
        return false;
    decision->bytes =
        weir__redis_ask_creation(decision->redis, decision->rq[decision->learns].policy, command);
    if (!decision->bytes)
        return false;
    command->done = decision_learned;
    if (weir__pipeline_submit(decision->pipeline, &command, 1)) {
        weir__pipeline_pause(decision->pipeline);
        return true;
    }
    free(decision->bytes);
    return false;
}

static void decision_proceed(struct weir__decision *decision)
{
    if (!weir__health_is_down(&decision->redis->health) && decision_learns(decision))
        return;
    decision->command.done = decision_replied;
    decision_start(decision, decision->pipeline);
    if (decision->decided || !decisions_send(decision->pipeline, decision, 1))
        decision_done(decision);
}

static void decision_learned(struct weir__command *c)
{
    struct weir__decision *decision = (struct weir__decision *)c;
    struct weir__pipeline *pipeline = decision->pipeline;

    free(decision->bytes);
    weir__redis_learn_creation(decision->redis, decision->rq[decision->learns].policy, c);
    decision_proceed(decision);
    weir__pipeline_resume(pipeline);
}

static bool requests_fit(const struct weir_request *rq, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!weir__request_fits(&rq[i]))
            return false;
    return n >= 1 && n <= WEIR_TERMS_MAX;
}

static void decision_begin(struct weir *w, struct weir__pipeline *pipeline,
                           struct weir__decision *decision, const struct weir_request *rq, size_t n,
                           const struct weir_limit *numbers, enum weir__verb verb,
                           struct weir__now at, struct weir__receipt *receipt)
{
    struct weir__redis *r = weir__redis_of(w->remote);
    int error = requests_fit(rq, n) && weir__now_fits(at.now_ns) ? 0 : WEIR_EINVAL;

    decision->redis = r;
    decision->pipeline = pipeline;
    decision->command.deadline_ns = weir__redis_deadline(r);
    decision->own = rq[0];
    decision->rq = n == 1 ? &decision->own : rq;
    decision->numbers = numbers;
    decision->n = n;
    decision->verb = verb;
    decision->at = at;
    decision->receipt = receipt;
    if (!error && wants_receipt(receipt) && !weir__receipts_have_room(r->receipts, at.now_ns))
        error = WEIR_EFULL;
    if (error) {
        weir__decision_finish(decision, error);
        decision->done(decision);
        return;
    }
    decision_proceed(decision);
}

void weir__decision_begin(struct weir *w, struct weir__pipeline *pipeline,
                          struct weir__decision *decision, const struct weir_request *rq, size_t n,
                          const struct weir_limit *numbers, enum weir__verb verb,
                          struct weir__now at, struct weir__receipt *receipt)
{
    decision->account.step = WEIR__DECISION_PLAIN;
    decision_begin(w, pipeline, decision, rq, n, numbers, verb, at, receipt);
}

void weir__decision_reserve(struct weir *w, struct weir__pipeline *pipeline,
                            struct weir__decision *decision, const struct weir_request *rq,
                            uint64_t id, int64_t ttl_ns, bool free, struct weir__now at)
{
    decision->account = (struct weir__decision_account){
        .step = WEIR__DECISION_RESERVES, .id = id, .ttl_ns = ttl_ns, .free = free};
    decision_begin(w, pipeline, decision, rq, 1, NULL, WEIR__TAKE, at, NULL);
}

void weir__decision_settle(struct weir *w, struct weir__pipeline *pipeline,
                           struct weir__decision *decision, const struct weir_request *rq,
                           uint64_t id, struct weir__now at)
{
    decision->account = (struct weir__decision_account){.step = WEIR__DECISION_SETTLES, .id = id};
    decision_begin(w, pipeline, decision, rq, 1, NULL, WEIR__CHARGE, at, NULL);
}

struct weir__pipeline *weir__redis_pipeline_open(struct weir *w)
{
    struct weir__pipeline *pipeline = NULL;
    struct weir__redis *r = w->remote ? weir__redis_of(w->remote) : NULL;

    return r && weir__pipeline_open(&pipeline, &r->watch) == 0 ? pipeline : NULL;
}
