/* Undo on a Redis store; see redis_undo.h.
 *
 * An undo is one command, or one for each key of a receipt, and a second one for its windows: all
 * are sent together. A thread awaits them, an event loop is called back.
 *
 * Invariants:
 *   (1) An undo ends once: when the last of its commands has ended, or at once if it has none.
 *   (2) A part of a receipt whose command has been answered is not undone again.
 */
#include "redis/redis_undo.h"

#include <stdlib.h>
#include <string.h>

#include "engine/wait.h"
#include "redis/redis_store.h"

/* ---- Commands -------------------------------------------------------------------------------- */

/* Each command has memory of its own: undo is rare. */
struct undo_command {
    struct weir__command command; /* first */
    struct weir__undo *undo;
    int part; /* of the receipt */
    char bytes[];
};

/* What one command undoes. */
struct undo_kind {
    enum weir__plan_verb verb;
    int64_t act_us;
    struct weir__slice ticket;
    bool resets;
};

static void undo_replied(struct weir__command *c);

static struct weir__plan_request undo_plan_request(const struct weir__undo *u,
                                                   const struct undo_kind *kind,
                                                   const struct weir__plan_part *part)
{
    return (struct weir__plan_request){.verb = kind->verb,
                                       .now_us = u->at.given ? u->at.now_ns / 1000 : -1,
                                       .wall_ns = u->at.wall_ns,
                                       .act_us = kind->act_us,
                                       .prefix = weir__slice_of(u->redis->address.prefix),
                                       .ticket = kind->ticket,
                                       .part = part,
                                       .n = 1};
}

/* Within an RCU read section. 0 or WEIR_ENOMEM. */
static int undo_add(struct weir__undo *u, const struct undo_kind *kind,
                    const struct weir__plan_part *part, int index)
{
    const struct weir__plan_request request = undo_plan_request(u, kind, part);
    const size_t room = kind->resets ? weir__plan_encode_reset(&request, NULL, 0)
                                     : weir__plan_encoded_size(&request);
    struct undo_command *command = calloc(1, sizeof *command + room);
    struct weir__command *c = &command->command;
    int terms;

    if (!command)
        return WEIR_ENOMEM;
    command->undo = u;
    command->part = index;
    c->bytes = command->bytes;
    c->deadline_ns = u->deadline_ns;
    c->done = u->done ? undo_replied : NULL;
    c->len = kind->resets ? weir__plan_encode_reset(&request, command->bytes, room)
                          : weir__plan_encode(&request, command->bytes, room, &c->script, &terms);
    u->command[u->n++] = command;
    return 0;
}

/* ---- The end --------------------------------------------------------------------------------- */

/* One command has ended. */
static void undo_note(struct weir__undo *u, struct undo_command *command)
{
    struct weir__redis *r = u->redis;

    if (command->command.error) {
        atomic_fetch_add_explicit(&r->failed, 1, memory_order_relaxed);
        u->error = WEIR_EDOWN;
    } else {
        atomic_fetch_add_explicit(&r->asked, 1, memory_order_relaxed);
        u->back =
            weir__max(u->back, weir__plan_amount(command->command.number, command->command.n));
    }
    if (u->receipt && !command->command.error)
        u->receipt->part[command->part].cost = 0;
    free(command);
}

/* The key under which others wait for the part; false: its policy was forgotten. */
static bool undo_wait_key(struct weir *w, const struct weir__redis_receipt_part *m, uint64_t *key)
{
    const struct weir_request rq = weir_request_of(m->policy, m->key.at, m->key.len);
    bool here;

    weir__rcu_enter(); /* until whose end it stays here */
    here = weir__policy_is_here(w, m->policy);
    if (here)
        *key = weir__wait_key(m->policy, weir__key_hash(w->store, &rq));
    weir__rcu_exit();
    return here;
}

static void undo_wake_waiters(struct weir__undo *u)
{
    struct weir *w = u->redis->remote.engine;
    uint64_t key;

    for (int i = 0; u->receipt && i < u->receipt->n; i++)
        if (undo_wait_key(w, &u->receipt->part[i], &key))
            weir__wait_wake_key(w, key);
    if (u->rq.policy)
        weir__wait_wake_request(w, &u->rq);
}

/* For a loop: its undo is over. */
static void undo_finish(struct weir__undo *u)
{
    if (u->resets && !u->error) /* a failed reset has changed nothing here either */
        weir__local_reset(u->redis->local, weir__redis_policy(u->rq.policy)->local, &u->rq, u->at);
    if (u->withdraws || u->exits || u->rq.policy)
        undo_wake_waiters(u);
    if (u->exits && u->error && u->receipt) {
        u->exits->term[0].fingerprint = weir__receipts_keep(u->redis->receipts, u->receipt);
        u->receipt = NULL;
    } else if (u->exits) {
        u->exits->n = 0;
    }
    free(u->receipt);
    u->receipt = NULL;
    u->done(u);
}

static void undo_replied(struct weir__command *c)
{
    struct undo_command *command = (struct undo_command *)c;
    struct weir__undo *u = command->undo;

    undo_note(u, command);
    if (--u->left == 0)
        undo_finish(u);
}

static void undo_drop_commands(struct weir__undo *u, int error)
{
    while (u->n > 0)
        free(u->command[--u->n]);
    u->error = error;
}

/* Sends what was added: false if nothing is under way. */
static bool undo_send(struct weir__undo *u)
{
    struct weir__command *command[2 * WEIR_TERMS_MAX];

    for (int i = 0; i < u->n; i++)
        command[i] = &u->command[i]->command;
    u->left = u->n;
    if (u->n == 0)
        return false;
    if (weir__pipeline_submit(u->pipeline, command, (size_t)u->n))
        return true;
    atomic_fetch_add_explicit(&u->redis->crowded, 1, memory_order_relaxed);
    undo_drop_commands(u, WEIR_EDOWN);
    return false;
}

/* For a thread: sends, waits, and returns the error. */
static int undo_run(struct weir__undo *u)
{
    struct weir__command *command[2 * WEIR_TERMS_MAX];

    for (int i = 0; i < u->n; i++)
        command[i] = &u->command[i]->command;
    if (!undo_send(u))
        return u->error;
    weir__pipeline_await(u->pipeline, command, (size_t)u->n);
    for (int i = 0; i < u->n; i++)
        undo_note(u, u->command[i]);
    return u->error;
}

static void undo_begin(struct weir__undo *u, struct weir__redis *r, struct weir__pipeline *pipeline,
                       struct weir__now at)
{
    u->error = 0;
    u->back = 0;
    u->redis = r;
    u->pipeline = pipeline;
    u->at = at;
    u->deadline_ns = weir__redis_deadline(r);
    u->rq = (struct weir_request){0};
    u->name = (struct weir__slice){NULL, 0};
    u->resets = u->withdraws = false;
    u->receipt = NULL;
    u->exits = NULL;
    u->n = u->left = 0;
}

/* ---- Undo of one key ------------------------------------------------------------------------- */

/* The terms of a kind, as bits in the script's order. */
static unsigned terms_that(const struct weir__revision *by,
                           bool (*is)(const struct weir__meter *meter))
{
    unsigned char index[WEIR_TERMS_MAX];
    const int n = weir__redis_terms(by, index);
    unsigned bits = 0;

    for (int i = 0; i < n; i++)
        if (is(&by->term[index[i]].meter))
            bits |= 1u << i;
    return bits;
}

static bool has_permits(const struct weir__meter *m)
{
    return m->term.algorithm == WEIR_CONCURRENCY;
}

static int undo_add_key(struct weir__undo *u)
{
    /* No ticket has the name "-": a refund releases no permits; the owner of a ticket does. */
    const struct undo_kind kind = {
        WEIR__PLAN_REFUND, 0, u->resets || u->name.at ? u->name : weir__slice_of("-"), u->resets};
    const struct weir_request *rq = &u->rq;
    struct weir__plan_part part = {.scope = weir__redis_scope(weir__redis_policy(rq->policy)),
                                   .key = {rq->key, rq->key_len},
                                   .cost = rq->cost};
    struct weir__revision *by;
    struct weir__own own;
    int error = WEIR_ENOMEM;

    (void)weir__policy_refresh(rq->policy);
    weir__own_begin(&own);
    weir__rcu_enter();
    part.plan = weir__redis_plan_for(u->redis, rq, &by, &own);
    if (u->name.at)
        part.only = terms_that(by, has_permits);
    if (u->name.at && part.only == 0)
        error = 0; /* the limit has no permits any more */
    else if (part.plan && part.plan->n == 0)
        error = 0; /* nothing of it is in Redis */
    else if (part.plan)
        error = undo_add(u, &kind, &part, 0);
    weir__own_end(&own);
    weir__rcu_exit();
    return error;
}

/* The caller is a thread that can wait. */
static int redis_undo_key(struct weir__redis *r, const struct weir_request *rq, bool resets,
                          struct weir__now at, int64_t *back)
{
    struct weir__undo u = {.done = NULL};
    int error;

    if (weir__health_is_down(&r->health) || !weir__redis_knows_creation(r, rq->policy))
        return WEIR_EDOWN;
    undo_begin(&u, r, weir__redis_pipeline(r), at);
    u.rq = *rq;
    u.resets = resets;
    error = undo_add_key(&u);
    if (!error)
        error = undo_run(&u);
    if (!error && resets) /* a failed reset has changed nothing here either */
        weir__local_reset(r->local, weir__redis_policy(rq->policy)->local, rq, at);
    if (!error && back)
        *back = u.back;
    return error;
}

int weir__redis_refund(struct weir__remote *remote, const struct weir_request *rq,
                       struct weir__now at, int64_t *back)
{
    return redis_undo_key(weir__redis_of(remote), rq, false, at, back);
}

int weir__redis_reset(struct weir__remote *remote, const struct weir_request *rq,
                      struct weir__now at)
{
    return redis_undo_key(weir__redis_of(remote), rq, true, at, NULL);
}

/* ---- The same for a loop --------------------------------------------------------------------- */

static void undo_learned(struct weir__command *c);

/* Asks for the creation time of the limit, without which its keys cannot be named. */
static bool undo_learns(struct weir__undo *u)
{
    struct undo_command *question = calloc(1, sizeof *question);
    struct weir__command *command = &question->command;
    char *bytes = question ? weir__redis_ask_creation(u->redis, u->rq.policy, command) : NULL;

    if (bytes) {
        question->undo = u;
        command->deadline_ns = u->deadline_ns;
        command->done = undo_learned;
        if (weir__pipeline_submit(u->pipeline, &command, 1)) {
            weir__pipeline_pause(u->pipeline);
            return true;
        }
    }
    free(bytes);
    free(question);
    return false;
}

static void undo_proceed_key(struct weir__undo *u)
{
    if (weir__health_is_down(&u->redis->health)) {
        u->error = WEIR_EDOWN;
    } else if (!weir__redis_has_creation(u->redis, weir__redis_policy(u->rq.policy))) {
        if (undo_learns(u))
            return;
        u->error = WEIR_EDOWN;
    } else {
        u->error = undo_add_key(u);
        if (!u->error && undo_send(u))
            return;
    }
    undo_finish(u);
}

static void undo_learned(struct weir__command *c)
{
    struct undo_command *command = (struct undo_command *)c;
    struct weir__undo *u = command->undo;
    struct weir__pipeline *pipeline = u->pipeline;

    weir__redis_learn_creation(u->redis, u->rq.policy, c);
    free((char *)c->bytes);
    free(command);
    undo_proceed_key(u);
    weir__pipeline_resume(pipeline);
}

static void undo_begin_key(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                           const struct weir_request *rq, bool resets, struct weir__slice name,
                           struct weir__now at)
{
    undo_begin(u, weir__redis_of(w->remote), pipeline, at);
    if (!weir__request_fits(rq) || !weir__now_fits(at.now_ns)) {
        u->error = WEIR_EINVAL;
        u->done(u);
        return;
    }
    u->rq = *rq;
    u->resets = resets;
    u->name = name;
    if (resets)
        atomic_fetch_add(&rq->policy->record->resets, 1); /* this voids earlier reservations */
    undo_proceed_key(u);
}

void weir__undo_refund(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                       const struct weir_request *rq, struct weir__now at)
{
    undo_begin_key(w, pipeline, u, rq, false, (struct weir__slice){NULL, 0}, at);
}

void weir__undo_reset(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                      const struct weir_request *rq, struct weir__now at)
{
    undo_begin_key(w, pipeline, u, rq, true, (struct weir__slice){NULL, 0}, at);
}

void weir__undo_release(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                        const struct weir_request *rq, struct weir__slice name, struct weir__now at)
{
    undo_begin_key(w, pipeline, u, rq, false, name, at);
}

/* ---- Undo by receipt ------------------------------------------------------------------------- */

/* Within an RCU read section: whether the part's terms are still those that granted it. */
static bool is_same_part(const struct weir__redis_receipt_part *m, const struct weir__revision *by)
{
    unsigned char index[WEIR_TERMS_MAX];

    if (m->n != weir__redis_terms(by, index) ||
        atomic_load(&m->policy->record->resets) != m->resets)
        return false;
    for (int i = 0; i < m->n; i++)
        if (by->term[index[i]].scope != m->scope[i])
            return false;
    return true;
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

/* Undoes one part of the receipt, for those of its terms that `to` selects. Permits have a name, so
 * they are found, or not there, whatever has become of the limit and of its keys. */
static int undo_add_part(struct weir__undo *u, int index, const struct undo_kind *kind,
                         bool (*to)(const struct weir__meter *meter))
{
    const struct weir__redis_receipt_part *m = &u->receipt->part[index];
    const struct weir_request rq = weir_request_of(m->policy, m->key.at, m->key.len);
    struct weir__plan_part part = {.key = m->key, .cost = m->cost, .act_us = m->act_us};
    struct weir__revision *by;
    struct weir__own own;
    int error = 0;

    weir__own_begin(&own);
    weir__rcu_enter();
    if (weir__policy_is_here(u->redis->remote.engine, m->policy)) { /* else its keys are gone */
        part.scope = weir__redis_scope(m->policy->remote);
        part.plan = weir__redis_plan_for(u->redis, &rq, &by, &own);
        part.only = terms_that(by, to);
        if (part.plan && part.only && (to == has_permits || is_same_part(m, by)))
            error = undo_add(u, kind, &part, index);
    }
    weir__own_end(&own);
    weir__rcu_exit();
    return error;
}

/* ---- Cancel ---------------------------------------------------------------------------------- */

static int undo_add_cancel(struct weir__undo *u)
{
    const struct undo_kind cancel = {WEIR__PLAN_CANCEL, u->receipt->act_us, weir__slice_of("-"),
                                     false};
    const struct undo_kind refund = {WEIR__PLAN_REFUND, 0, weir__slice_of("-"), false};
    int error = 0;

    for (int i = 0; i < u->receipt->n && !error; i++) {
        if (u->receipt->part[i].cost == 0)
            continue;
        if (!u->receipt->at_once)
            error = undo_add_part(u, i, &cancel, is_any);
        if (!error && u->withdraws)
            error = undo_add_part(u, i, &refund, u->receipt->at_once ? is_any : is_window);
    }
    return error;
}

/* Takes the receipt of the reservation and adds the commands that cancel it. A grant of this node
 * alone is cancelled here. False: the store is down, and the caller may try again. */
static bool undo_prepare_cancel(struct weir__undo *u, struct weir_reservation *r)
{
    struct weir__redis *redis = u->redis;
    struct weir__redis_receipt *k =
        r->n > 0 ? weir__receipts_remove(redis->receipts, r->term[0].fingerprint) : NULL;
    const bool undoes = k && (k->at_once ? u->withdraws : k->local || r->act_ns >= u->at.now_ns);

    if (undoes && !k->local && weir__health_is_down(&redis->health)) {
        r->term[0].fingerprint = weir__receipts_keep(redis->receipts, k);
        u->error = WEIR_EDOWN;
        return false;
    }
    u->receipt = k;
    r->n = 0;
    if (undoes && k->local)
        u->error = weir__local_cancel(redis->local, &k->reservation, u->at, &u->back);
    else if (undoes) {
        const int error = undo_add_cancel(u);

        if (error)
            undo_drop_commands(u, error);
    }
    return true;
}

int weir__redis_cancel(struct weir__remote *remote, struct weir_reservation *r, bool withdraw,
                       struct weir__now at, int64_t *back)
{
    struct weir__redis *redis = weir__redis_of(remote);
    struct weir__undo u = {.done = NULL};
    int error;

    undo_begin(&u, redis, weir__redis_pipeline(redis), at);
    u.withdraws = withdraw;
    if (!undo_prepare_cancel(&u, r))
        return u.error;
    error = undo_run(&u); /* Redis may have done a part of it: it cannot be tried again */
    free(u.receipt);
    if (!error && back)
        *back = u.back;
    return error;
}

void weir__undo_cancel(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                       struct weir_reservation *r, bool withdraw, struct weir__now at)
{
    undo_begin(u, weir__redis_of(w->remote), pipeline, at);
    u->withdraws = withdraw;
    if (!undo_prepare_cancel(u, r) || !undo_send(u))
        undo_finish(u);
}

/* ---- Exits ----------------------------------------------------------------------------------- */

/* Adds the commands that release the permits of the receipt. 0 or WEIR_ENOMEM. */
static int undo_add_exit(struct weir__undo *u)
{
    const struct undo_kind kind = {WEIR__PLAN_REFUND, 0, weir__slice_of(u->receipt->name), false};
    int error = 0;

    for (int i = 0; i < u->receipt->n && !error; i++)
        if (u->receipt->part[i].cost > 0)
            error = undo_add_part(u, i, &kind, has_permits);
    if (error)
        undo_drop_commands(u, error);
    return error;
}

static int exit_receipt(struct weir__redis *r, struct weir__redis_receipt *k, struct weir__now at)
{
    struct weir__undo u = {.done = NULL};
    int error;

    undo_begin(&u, r, weir__redis_pipeline(r), at);
    u.receipt = k;
    error = undo_add_exit(&u);
    return error ? error : undo_run(&u);
}

/* True if there is something to send. Redis may have granted a ticket of this node alone without a
 * reply; if not, no such ticket exists there. */
static bool undo_prepare_exit(struct weir__undo *u, enum weir_outcome how)
{
    struct weir__redis_receipt *k = u->receipt;
    const bool down = weir__health_is_down(&u->redis->health);

    if (k && k->local)
        u->error = weir__local_exit(u->redis->local, &k->ticket, how, u->at);
    else if (k && down)
        u->error = WEIR_EDOWN;
    return k && !u->error && !down && undo_add_exit(u) == 0;
}

void weir__undo_exit(struct weir *w, struct weir__pipeline *pipeline, struct weir__undo *u,
                     struct weir_ticket *t, enum weir_outcome how, struct weir__now at)
{
    undo_begin(u, weir__redis_of(w->remote), pipeline, at);
    u->exits = t;
    if (t->n > 0)
        u->receipt = weir__receipts_remove(u->redis->receipts, t->term[0].fingerprint);
    if (!undo_prepare_exit(u, how) || !undo_send(u))
        undo_finish(u);
}

int weir__redis_exit(struct weir__remote *remote, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__now at)
{
    struct weir__redis *r = weir__redis_of(remote);
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
