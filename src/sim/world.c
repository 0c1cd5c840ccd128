/* The simulated world: its engine, its clock, and the verbs that need no waiter. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "sim/splitmix.h"
#include "sim/world_internal.h"

/* A simulation has no attackers, and it must be the same in every run: the first digits of pi. */
#define SECRET                                                     \
    {                                                              \
        UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344) \
    }

static int64_t world_clock(void *arg)
{
    return sim__now(arg).now_ns;
}

struct sim_world *sim_world_open(int64_t start_ns, uint64_t max_keys, struct weir_diag *why)
{
    struct sim_world *w = calloc(1, sizeof *w);
    const struct weir_clock clock = {.now = world_clock, .arg = w};
    const struct weir_options options = {.store = "memory:",
                                         .max_keys = max_keys,
                                         .max_policies = 1,
                                         .clock = &clock,
                                         .secret = SECRET};
    uint64_t seed = 0;

    if (!w)
        return NULL;
    w->start_ns = start_ns;
    w->ids.most = SIM_IDS_MAX;
    w->signals = (struct weir_signals){WEIR_NONE, WEIR_NONE, WEIR_NONE, WEIR_NONE};
    w->random = sim_random(&seed);
    if (weir__engine_open_virtual(&w->engine, &options, &w->random, why) != 0) {
        free(w);
        return NULL;
    }
    return w;
}

void sim_world_close(struct sim_world *w)
{
    sim__waiters_free(w);
    sim_names_free(&w->ids);
    weir_close(w->engine);
    free(w);
}

const struct weir_limit *sim_world_limit_now(const struct sim_world *w)
{
    return &w->limit;
}

int64_t sim_world_time(const struct sim_world *w)
{
    return w->time_ns;
}

int64_t sim_world_waiting(const struct sim_world *w)
{
    return w->waiting;
}

bool sim__failed(struct sim_error *error, const char *what, int code)
{
    return sim_fail(error, "%s: %s", what, weir_error_text(code));
}

bool sim__look(struct sim_world *w, struct sim_outcome *out, struct sim_error *error)
{
    const struct weir_request rq = sim__request(w, out->key, 0, 0);
    const int code = weir_peek_at(w->engine, &rq, sim__now(w).now_ns, &out->verdict);

    return code ? sim__failed(error, "peek", code) : sim__state(w, out, error);
}

/* ---- Names ----------------------------------------------------------------------------------- */

bool sim__is_waiting(const struct sim_world *w, struct weir__slice id)
{
    const struct sim_name *name = sim_names_find(&w->ids, id);
    const struct sim_ticket *t = name ? name->value : NULL;

    return t && t->kind == SIM_TICKET_WAITING;
}

struct weir__slice sim__ticket_key(const struct sim_ticket *t)
{
    return (struct weir__slice){t->bytes + t->receipt_len, t->key_len};
}

struct sim_ticket *sim__ticket_keep(struct sim_name *name, struct weir__slice key,
                                    const void *receipt, size_t len)
{
    struct sim_ticket *t = name->value;

    if (!t || t->room < len + key.len) {
        free(t);
        name->value = t = malloc(sizeof *t + len + key.len);
        if (!t)
            return NULL;
        t->room = len + key.len;
    }
    t->waiter = NULL;
    t->receipt_len = len;
    t->key_len = key.len;
    memcpy(t->bytes, receipt, len);
    memcpy(t->bytes + len, key.at, key.len);
    return t;
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* A take whose reservation has a name. */
static bool world_reserve(struct sim_world *w, const struct weir_request *rq,
                          const struct sim_event *event, struct sim_outcome *out,
                          struct sim_error *error)
{
    struct weir_reservation *r = &w->reservation;
    struct sim_name *name = sim_names_make(&w->ids, event->id);
    struct sim_ticket *t;
    int code;

    if (!name)
        return sim_fail(error, "out of memory, or of names: at most %d are kept", SIM_IDS_MAX);
    code = weir_reserve_at(w->engine, rq, 1, sim__now(w).now_ns, r, &out->verdict);
    if (code)
        return sim__failed(error, "take", code);
    t = sim__ticket_keep(name, event->key, r,
                         offsetof(struct weir_reservation, term) +
                             (size_t)r->n * sizeof r->term[0]);
    if (!t)
        return sim_fail(error, "out of memory");
    t->kind = SIM_TICKET_TAKEN;
    return true;
}

static bool world_take(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                       struct sim_error *error)
{
    const struct weir_request rq = sim__request(w, event->key, event->cost, event->patience_ns);
    int code;

    if (w->guards)
        return sim_fail(error,
                        "this limit has a guard, which is entered and left: use enter and exit "
                        "(in --traffic, add a service)");
    if (event->id.len > 0 && sim__is_waiting(w, event->id))
        return sim_fail_word(error, "", event->id, " still waits to enter");
    if (event->id.len > 0)
        return world_reserve(w, &rq, event, out, error) && sim__state(w, out, error);
    code = weir_take_at(w->engine, &rq, sim__now(w).now_ns, &out->verdict);
    return code ? sim__failed(error, "take", code) : sim__state(w, out, error);
}

static bool world_peek(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                       struct sim_error *error)
{
    const struct weir_request rq = sim__request(w, event->key, event->cost, event->patience_ns);
    const int code = weir_peek_at(w->engine, &rq, sim__now(w).now_ns, &out->verdict);

    return code ? sim__failed(error, "peek", code) : sim__state(w, out, error);
}

static bool world_charge(struct sim_world *w, const struct sim_event *event,
                         struct sim_outcome *out, struct sim_error *error)
{
    const struct weir_request rq = sim__request(w, event->key, event->cost, 0);
    const int code = weir_charge_at(w->engine, &rq, sim__now(w).now_ns, &out->verdict);

    if (code == WEIR_EGUARD)
        return sim_fail(error, "this limit has a guard, which cannot be charged");
    return code ? sim__failed(error, "charge", code) : sim__state(w, out, error);
}

static bool world_refund(struct sim_world *w, const struct sim_event *event,
                         struct sim_outcome *out, struct sim_error *error)
{
    const struct weir_request rq = sim__request(w, event->key, event->cost, 0);
    const int code = weir_refund_at(w->engine, &rq, sim__now(w).now_ns, &out->cost);

    return code ? sim__failed(error, "refund", code) : sim__look(w, out, error);
}

/* ---- Estimates ------------------------------------------------------------------------------- */

static bool world_estimate(struct sim_world *w, const struct sim_event *event,
                           struct sim_outcome *out, struct sim_error *error)
{
    const struct weir_request rq = sim__request(w, event->key, event->cost, event->patience_ns);
    struct sim_name *name = sim_names_make(&w->ids, event->id);
    struct sim_ticket *t;
    uint64_t id;
    int code;

    if (!name)
        return sim_fail(error, "out of memory, or of names: at most %d are kept", SIM_IDS_MAX);
    if (sim__is_waiting(w, event->id))
        return sim_fail_word(error, "", event->id, " still waits to enter");
    code = weir_account_reserve_at(w->engine, &rq, event->ttl_ns,
                                   event->lapses_free ? WEIR_LAPSE_FREE : WEIR_LAPSE_KEEP,
                                   sim__now(w).now_ns, &id, &out->verdict);
    if (code == WEIR_EGUARD)
        return sim_fail(error, "this limit has a guard, which cannot be reserved from");
    if (code)
        return sim__failed(error, "reserve", code);
    t = sim__ticket_keep(name, event->key, &id, sizeof id);
    if (!t)
        return sim_fail(error, "out of memory");
    t->kind = SIM_TICKET_RESERVED;
    return sim__state(w, out, error);
}

/* Settles it; one that is settled, has lapsed or was refused changes nothing, and its cost is 0. */
static bool world_settle(struct sim_world *w, const struct sim_ticket *t, bool commits,
                         struct sim_outcome *out, struct sim_error *error)
{
    struct weir_request rq;
    uint64_t id;
    int code;

    memcpy(&id, t->bytes, sizeof id);
    out->key = sim__ticket_key(t);
    rq = sim__request(w, out->key, commits ? out->cost : 0, 0);
    if (commits)
        code = weir_account_commit_at(w->engine, &rq, id, sim__now(w).now_ns, &out->verdict);
    else
        code = weir_account_cancel_at(w->engine, &rq, id, sim__now(w).now_ns, &out->cost);
    if (code == WEIR_ESETTLED)
        out->cost = 0;
    else if (code)
        return sim__failed(error, commits ? "commit" : "cancel", code);
    return code == 0 && commits ? sim__state(w, out, error) : sim__look(w, out, error);
}

static bool world_commit(struct sim_world *w, const struct sim_event *event,
                         struct sim_outcome *out, struct sim_error *error)
{
    const struct sim_name *name = sim_names_find(&w->ids, event->key);
    const struct sim_ticket *t = name ? name->value : NULL;

    if (!t || t->kind != SIM_TICKET_RESERVED)
        return sim_fail_word(error, "no estimate is named ", event->key,
                             "; name one with reserve ... as=ID");
    return world_settle(w, t, true, out, error);
}

static bool world_cancel(struct sim_world *w, const struct sim_event *event,
                         struct sim_outcome *out, struct sim_error *error)
{
    const struct sim_name *name = sim_names_find(&w->ids, event->key);
    struct sim_ticket *t = name ? name->value : NULL;
    struct weir_reservation *r = &w->reservation;
    int code;

    if (!t)
        return sim_fail_word(error, "no reservation is named ", event->key,
                             "; name one with take ... as=ID");
    if (t->kind == SIM_TICKET_RESERVED)
        return world_settle(w, t, false, out, error);
    if (t->kind != SIM_TICKET_TAKEN)
        return sim_fail_word(error, "", event->key, " was entered, not taken: exit leaves it");
    out->key = sim__ticket_key(t);
    memcpy(r, t->bytes, t->receipt_len);
    code = weir_cancel_at(w->engine, r, sim__now(w).now_ns, &out->cost);
    memcpy(t->bytes, r, offsetof(struct weir_reservation, term)); /* it can be cancelled once */
    return code ? sim__failed(error, "cancel", code) : sim__look(w, out, error);
}

/* ---- Keys, signals, limits ------------------------------------------------------------------- */

/* A key that finds no place in a full table for its fresh state is not reset; a caller of the
 * library gets the error, and may try again. */
static bool world_reset(struct sim_world *w, struct weir__slice key, struct sim_outcome *out,
                        struct sim_error *error)
{
    const struct weir_request rq = sim__request(w, key, 0, 0);
    const int code = weir_reset_at(w->engine, &rq, sim__now(w).now_ns);

    out->not_reset = code == WEIR_EFULL;
    return code == 0 || code == WEIR_EFULL || sim__failed(error, "reset", code);
}

static bool world_set_signals(struct sim_world *w, const struct weir_signals *s,
                              struct sim_error *error)
{
    const int64_t given[] = {s->cpu_milli, s->memory_milli, s->load_milli, s->pressure_milli};
    int64_t *const kept[] = {&w->signals.cpu_milli, &w->signals.memory_milli,
                             &w->signals.load_milli, &w->signals.pressure_milli};
    int code;

    for (int i = 0; i < 4; i++)
        if (given[i] != SIM_SAME)
            *kept[i] = given[i];
    code = weir_signals_set(w->engine, &w->signals);
    return code == 0 || sim__failed(error, "signal", code);
}

/* The scopes of the terms; all 0 if there is no limit yet. */
static void world_scopes(const struct sim_world *w, uint64_t scope[WEIR_TERMS_MAX])
{
    for (int i = 0; i < WEIR_TERMS_MAX; i++)
        scope[i] = w->policy ? weir__policy_scope(w->policy, i) : 0;
}

bool sim_world_limit(struct sim_world *w, const struct weir_limit *limit, bool *starts_fresh,
                     struct sim_error *error)
{
    /* The first limit is made when the clock starts (docs/reference/sim.md). */
    const int64_t now_ns = w->policy ? sim__now(w).now_ns : w->start_ns;
    uint64_t before[WEIR_TERMS_MAX], after[WEIR_TERMS_MAX];
    char text[WEIR_LIMIT_TEXT_MAX];
    struct weir_diag why;

    (void)weir_limit_print(limit, text, sizeof text);
    world_scopes(w, before);
    if (weir_policy_set_at(w->engine, "limit", text, now_ns, &w->policy, &why) != 0)
        return sim_fail(error, "limit: %s", why.text);
    world_scopes(w, after);
    w->limit = *limit;
    *starts_fresh = w->guards = w->queues = false;
    for (int i = 0; i < limit->n; i++) {
        const enum weir_algorithm a = limit->term[i].algorithm;

        *starts_fresh = *starts_fresh || (before[i] != 0 && before[i] != after[i]);
        w->guards = w->guards || a >= WEIR_FIRST_GUARD;
        w->queues = w->queues || (a == WEIR_CONCURRENCY && limit->term[i].queue > 0);
    }
    return true;
}

static bool world_change_limit(struct sim_world *w, const struct sim_event *event,
                               struct sim_outcome *out, struct sim_error *error)
{
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    struct weir_limit limit;
    struct weir_diag why;
    struct weir__slice s = event->limit;

    while (s.len > 0 && (*s.at == ' ' || *s.at == '\t'))
        s = (struct weir__slice){s.at + 1, s.len - 1};
    if (s.len >= sizeof text)
        return sim_fail(error, "the limit is longer than %d bytes", WEIR_LIMIT_TEXT_MAX - 1);
    if (memchr(s.at, '\0', s.len))
        return sim_fail(error, "the limit holds a NUL byte");
    memcpy(text, s.at, s.len);
    text[s.len] = '\0';
    if (weir_limit_parse(&limit, text, &why) != 0)
        return sim_fail(error, "limit: %s", why.text);
    return sim_world_limit(w, &limit, &out->starts_fresh, error);
}

/* ---- Events ---------------------------------------------------------------------------------- */

static bool move_clock(struct sim_world *w, const struct sim_event *event, struct sim_error *error)
{
    const int64_t time_ns = event->timed ? event->time_ns : w->time_ns;
    struct sim_outcome ignored;

    if (time_ns > WEIR__NOW_MAX - w->start_ns)
        return sim_fail(error, "the time is past the end of the clock, 2^62 ns after 1970");
    while (sim_world_decided(w, time_ns, &ignored))
        ;
    w->time_ns = time_ns;
    return !w->failed || sim_fail(error, "out of memory");
}

bool sim_world_apply(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                     struct sim_error *error)
{
    if (!move_clock(w, event, error))
        return false;
    *out = (struct sim_outcome){.verb = event->verb,
                                .time_ns = w->time_ns,
                                .key = event->key,
                                .id = event->id,
                                .cost = event->cost,
                                .has_verdict = event->verb < SIM_RESET};
    if (!w->policy && event->verb != SIM_LIMIT && event->verb != SIM_SIGNAL)
        return sim_fail(error, "there is no limit yet: start with a line such as 'limit "
                               "token-bucket 10/s', or name one on the command line");
    switch (event->verb) {
    case SIM_TAKE: return world_take(w, event, out, error);
    case SIM_PEEK: return world_peek(w, event, out, error);
    case SIM_CHARGE: return world_charge(w, event, out, error);
    case SIM_REFUND: return world_refund(w, event, out, error);
    case SIM_CANCEL: return world_cancel(w, event, out, error);
    case SIM_RESERVE: return world_estimate(w, event, out, error);
    case SIM_COMMIT: return world_commit(w, event, out, error);
    case SIM_ENTER: return sim__enter(w, event, out, error);
    case SIM_EXIT: return sim__exit(w, event, out, error);
    case SIM_SIGNAL: return world_set_signals(w, &event->signals, error);
    case SIM_RESET: return world_reset(w, event->key, out, error);
    case SIM_LIMIT: return world_change_limit(w, event, out, error);
    }
    return true;
}
