/* Plays a script of the model against an engine; see script_player.h. */
#include "script_player.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/world.h"

/* A reservation or a call that was entered, and whose it is. */
struct player_reservation {
    struct weir_reservation r;
    struct weir_ticket t;
    int64_t cost; /* 0 once a call has ended, or if it was refused */
    uint64_t id;  /* of an estimate that is settled later */
    bool is_estimate;
    size_t key_len;
    char key[];
};

static bool player_fail(struct sim_error *error, const char *what, int code)
{
    return sim_fail(error, "%s: %s", what, weir_error_name(code));
}

static struct player_reservation *player_keep(struct sim_names *ids, const struct sim_event *event)
{
    struct player_reservation *k = calloc(1, sizeof *k + event->key.len);
    struct sim_name *name = sim_names_make(ids, event->id);

    if (!k || !name)
        abort();
    k->cost = event->cost;
    k->key_len = event->key.len;
    memcpy(k->key, event->key.at, event->key.len);
    free(name->value); /* the latest of that name */
    name->value = k;
    return k;
}

static struct player_reservation *kept_as(const struct sim_names *ids,
                                          const struct sim_event *event, struct sim_outcome *out,
                                          struct sim_error *error)
{
    struct sim_name *name = sim_names_find(ids, event->key);
    struct player_reservation *k;

    if (!name) {
        (void)sim_fail(error, "no such reservation");
        return NULL;
    }
    k = name->value;
    out->key = (struct weir__slice){k->key, k->key_len};
    return k;
}

static void text_of(struct weir__slice s, char *out, size_t cap)
{
    while (s.len > 0 && (*s.at == ' ' || *s.at == '\t'))
        s = (struct weir__slice){s.at + 1, s.len - 1};
    if (s.len >= cap)
        abort();
    memcpy(out, s.at, s.len);
    out[s.len] = '\0';
}

static struct sim_outcome outcome_of(const struct sim_event *event, int64_t time_ns)
{
    return (struct sim_outcome){.verb = event->verb,
                                .time_ns = time_ns,
                                .key = event->key,
                                .cost = event->cost,
                                .has_verdict = event->verb < SIM_RESET};
}

/* ---- Policies of an engine ----------------------------------------------------------------- */

void player_init(struct script_player *s, struct weir *w, const char *name, int n, int64_t start_ns)
{
    *s = (struct script_player){.w = w, .n = n, .start_ns = start_ns, .ids.most = SIM_IDS_MAX};
    for (int i = 0; i < n; i++)
        (void)snprintf(s->name[i], sizeof s->name[i], "%s%d", name, i);
}

void player_end(struct script_player *s)
{
    sim_names_free(&s->ids);
}

static int64_t now_of(const struct script_player *s)
{
    return s->start_ns + s->time_ns;
}

static void requests(const struct script_player *s, struct weir__slice key, int64_t cost,
                     int64_t patience_ns, struct weir_request rq[PLAYER_PARTS])
{
    for (int i = 0; i < s->n; i++)
        rq[i] = (struct weir_request){s->policy[i], key.at, key.len, cost, patience_ns};
}

struct weir_request player_request(const struct script_player *s, const struct sim_event *event)
{
    struct weir_request rq[PLAYER_PARTS];

    requests(s, event->key, event->cost, event->patience_ns, rq);
    return rq[0];
}

/* How the key stands. Cost 0 takes nothing. */
static int player_peek(struct script_player *s, struct sim_outcome *out)
{
    struct weir_request rq[PLAYER_PARTS];

    requests(s, out->key, 0, 0, rq);
    if (s->n == 1)
        return weir_peek_at(s->w, rq, now_of(s), &out->verdict);
    return weir_take_all_at(s->w, rq, (size_t)s->n, now_of(s), &out->verdict);
}

/* How the guards stand: the words of the simulation. */
static int stand(struct script_player *s, struct sim_outcome *out)
{
    struct weir__out o = {s->state, sizeof s->state, 0};
    struct weir_request rq[PLAYER_PARTS];
    struct weir_limit limit;
    int code = 0;

    if (!s->guards) {
        out->state = out->verdict.warned ? weir__slice_of("warned") : (struct weir__slice){NULL, 0};
        return 0;
    }
    requests(s, out->key, 0, 0, rq);
    weir_policy_limit(s->policy[0], &limit);
    for (int i = 0; i < limit.n && code == 0; i++) {
        struct weir_view view;

        if (limit.term[i].algorithm < WEIR_FIRST_GUARD)
            continue;
        code = weir_guard_view_at(s->w, rq, i, now_of(s), &view);
        weir__out_text(&o, o.len > 0 ? " + " : "");
        sim_state_print(&o, &limit.term[i], &view, 0);
    }
    out->state = (struct weir__slice){s->state, o.len};
    return code;
}

static bool player_take(struct script_player *s, const struct sim_event *event,
                        struct sim_outcome *out, struct sim_error *error)
{
    struct weir_request rq[PLAYER_PARTS];
    const int64_t now = now_of(s);
    const size_t n = (size_t)s->n;
    int code;

    requests(s, event->key, event->cost, event->patience_ns, rq);
    if (event->verb == SIM_PEEK)
        code = n == 1 ? weir_peek_at(s->w, rq, now, &out->verdict) : player_peek(s, out);
    else if (event->id.len > 0)
        code = weir_reserve_at(s->w, rq, n, now, &player_keep(&s->ids, event)->r, &out->verdict);
    else
        code = n == 1 ? weir_take_at(s->w, rq, now, &out->verdict)
                      : weir_take_all_at(s->w, rq, n, now, &out->verdict);
    if (code == 0)
        code = stand(s, out);
    return code == 0 || player_fail(error, "take", code);
}

static bool player_charge(struct script_player *s, const struct sim_event *event,
                          struct sim_outcome *out, struct sim_error *error)
{
    struct weir_request rq[PLAYER_PARTS];
    int code = 0;

    requests(s, event->key, event->cost, 0, rq);
    for (int i = 0; code == 0 && i < s->n; i++)
        code = weir_charge_at(s->w, &rq[i], now_of(s), &out->verdict);
    if (code == 0 && s->n > 1)
        code = player_peek(s, out);
    if (code == 0)
        code = stand(s, out);
    return code == 0 || player_fail(error, "charge", code);
}

static bool player_refund(struct script_player *s, const struct sim_event *event,
                          struct sim_outcome *out, struct sim_error *error)
{
    struct weir_request rq[PLAYER_PARTS];
    int code = 0;

    requests(s, event->key, event->cost, 0, rq);
    out->cost = 0;
    for (int i = 0; code == 0 && i < s->n; i++) {
        int64_t back = INT64_MIN;

        code = weir_refund_at(s->w, &rq[i], now_of(s), &back);
        out->cost = back > out->cost ? back : out->cost;
    }
    if (code == 0)
        code = player_peek(s, out);
    return code == 0 || player_fail(error, "refund", code);
}

/* An estimate, of a stage of one part. */
static bool player_reserve(struct script_player *s, const struct sim_event *event,
                           struct sim_outcome *out, struct sim_error *error)
{
    struct player_reservation *k = player_keep(&s->ids, event);
    const struct weir_request rq = player_request(s, event);
    const int code = weir_account_reserve_at(s->w, &rq, event->ttl_ns,
                                             event->lapses_free ? WEIR_LAPSE_FREE : WEIR_LAPSE_KEEP,
                                             now_of(s), &k->id, &out->verdict);

    k->is_estimate = true;
    return code == 0 || player_fail(error, "reserve", code);
}

/* One that is settled, has lapsed or was refused changes nothing, and its cost is 0. */
static bool player_settle(struct script_player *s, const struct player_reservation *k,
                          struct sim_outcome *out, struct sim_error *error)
{
    const bool commits = out->verb == SIM_COMMIT;
    struct weir_request rq = weir_request_of(s->policy[0], k->key, k->key_len);
    int code;

    rq.cost = commits ? out->cost : 0;
    code = commits ? weir_account_commit_at(s->w, &rq, k->id, now_of(s), &out->verdict)
                   : weir_account_cancel_at(s->w, &rq, k->id, now_of(s), &out->cost);
    if (code == WEIR_ESETTLED)
        out->cost = 0;
    if (code == WEIR_ESETTLED || (code == 0 && !commits))
        code = player_peek(s, out);
    return code == 0 || player_fail(error, sim_verb_name(out->verb), code);
}

static bool player_commit(struct script_player *s, const struct sim_event *event,
                          struct sim_outcome *out, struct sim_error *error)
{
    const struct player_reservation *k = kept_as(&s->ids, event, out, error);

    return k && player_settle(s, k, out, error);
}

static bool player_cancel(struct script_player *s, const struct sim_event *event,
                          struct sim_outcome *out, struct sim_error *error)
{
    struct player_reservation *k = kept_as(&s->ids, event, out, error);
    int code;

    if (!k)
        return false;
    if (k->is_estimate)
        return player_settle(s, k, out, error);
    code = weir_cancel_at(s->w, &k->r, now_of(s), &out->cost);
    if (code == 0)
        code = player_peek(s, out);
    return code == 0 || player_fail(error, "cancel", code);
}

static bool player_enter(struct script_player *s, const struct sim_event *event,
                         struct sim_outcome *out, struct sim_error *error)
{
    struct player_reservation scratch,
        *k = event->id.len > 0 ? player_keep(&s->ids, event) : &scratch;
    struct weir_request rq[PLAYER_PARTS];
    int code;

    requests(s, event->key, event->cost, event->patience_ns, rq);
    code = s->n == 1 ? weir_enter_at(s->w, rq, now_of(s), &k->t, &out->verdict)
                     : weir_enter_all_at(s->w, rq, (size_t)s->n, now_of(s), &k->t, &out->verdict);
    if (code == 0 && !out->verdict.allowed)
        k->cost = 0;
    if (code == 0)
        code = stand(s, out);
    return code == 0 || player_fail(error, "enter", code);
}

static bool player_exit(struct script_player *s, const struct sim_event *event,
                        struct sim_outcome *out, struct sim_error *error)
{
    struct player_reservation *k = kept_as(&s->ids, event, out, error);
    int code;

    if (!k)
        return false;
    code = weir_exit_at(s->w, &k->t, event->how, now_of(s));
    out->cost = k->cost;
    k->cost = 0;
    if (code == 0)
        code = player_peek(s, out);
    if (code == 0)
        code = stand(s, out);
    return code == 0 || player_fail(error, "exit", code);
}

/* What is not known is not over anything; to an engine nothing would be so that cannot be
 * sampled. */
static bool player_signal(struct script_player *s, const struct sim_event *event,
                          struct sim_error *error)
{
    const int64_t said[] = {event->signals.cpu_milli, event->signals.memory_milli,
                            event->signals.load_milli, event->signals.pressure_milli};
    int64_t *const kept[] = {&s->signals.cpu_milli, &s->signals.memory_milli,
                             &s->signals.load_milli, &s->signals.pressure_milli};
    int code;

    for (int i = 0; i < 4; i++)
        if (said[i] != SIM_SAME)
            *kept[i] = said[i] == WEIR_NONE ? 0 : said[i];
    code = weir_signals_set(s->w, &s->signals);
    return code == 0 || player_fail(error, "signal", code);
}

static bool player_reset(struct script_player *s, const struct sim_event *event,
                         struct sim_error *error)
{
    struct weir_request rq[PLAYER_PARTS];
    int code = 0;

    requests(s, event->key, 0, 0, rq);
    for (int i = 0; code == 0 && i < s->n; i++)
        code = weir_reset_at(s->w, &rq[i], now_of(s));
    return code == 0 || player_fail(error, "reset", code);
}

static bool look_at_limit(struct script_player *s, struct sim_error *error)
{
    struct weir_limit limit;
    int code = 0;

    s->guards = false;
    weir_policy_limit(s->policy[0], &limit);
    for (int i = 0; i < limit.n && s->n == 1; i++)
        s->guards = s->guards || limit.term[i].algorithm >= WEIR_FIRST_GUARD;
    if (s->guards)
        code = weir_signals_set(s->w, &s->signals);
    return code == 0 || player_fail(error, "limit", code);
}

static bool player_limit(struct script_player *s, const struct sim_event *event,
                         struct sim_error *error)
{
    char text[WEIR_LIMIT_TEXT_MAX * PLAYER_PARTS], *part = text;
    struct weir_diag why;

    text_of(event->limit, text, sizeof text);
    for (int i = 0; i < s->n; i++) {
        char *bar = strchr(part, '|');

        if (bar)
            *bar = '\0';
        if (weir_policy_set_at(s->w, s->name[i], part, now_of(s), &s->policy[i], &why) != 0)
            return sim_fail(error, "limit: %.500s", why.text);
        part = bar ? bar + 1 : part;
    }
    return look_at_limit(s, error);
}

bool player_apply(struct script_player *s, const struct sim_event *event, struct sim_outcome *out,
                  struct sim_error *error)
{
    if (event->timed)
        s->time_ns = event->time_ns;
    *out = outcome_of(event, s->time_ns);
    if (!s->policy[0] && event->verb != SIM_LIMIT)
        return sim_fail(error, "there is no limit yet");
    switch (event->verb) {
    case SIM_TAKE:
    case SIM_PEEK: return player_take(s, event, out, error);
    case SIM_CHARGE: return player_charge(s, event, out, error);
    case SIM_REFUND: return player_refund(s, event, out, error);
    case SIM_CANCEL: return player_cancel(s, event, out, error);
    case SIM_RESET: return player_reset(s, event, error);
    case SIM_LIMIT: return player_limit(s, event, error);
    case SIM_RESERVE: return player_reserve(s, event, out, error);
    case SIM_COMMIT: return player_commit(s, event, out, error);
    case SIM_ENTER: return player_enter(s, event, out, error);
    case SIM_EXIT: return player_exit(s, event, out, error);
    case SIM_SIGNAL: return player_signal(s, event, error);
    }
    return false;
}

/* ---- One limiter --------------------------------------------------------------------------- */

void limiter_player_init(struct limiter_player *s, int64_t start_ns)
{
    *s = (struct limiter_player){.start_ns = start_ns, .ids.most = SIM_IDS_MAX};
}

void limiter_player_end(struct limiter_player *s)
{
    sim_names_free(&s->ids);
    if (s->limiter)
        weir_limiter_close(s->limiter);
}

static int limiter_player_take(struct limiter_player *s, const struct sim_event *event,
                               int64_t now_ns, struct weir_verdict *v)
{
    const int code =
        event->verb == SIM_PEEK
            ? weir_limiter_peek_at(s->limiter, event->cost, event->patience_ns, now_ns, v)
            : weir_limiter_take_at(s->limiter, event->cost, event->patience_ns, now_ns, v);

    if (code == 0 && event->verb == SIM_TAKE && event->id.len > 0) {
        struct player_reservation *k = player_keep(&s->ids, event);

        k->r.act_ns = now_ns + v->wait_ns;
        k->r.n = v->allowed;
    }
    return code;
}

/* The caller keeps the book: a refused reservation is not cancelled, and none twice. */
static int limiter_player_cancel(struct limiter_player *s, struct player_reservation *k,
                                 int64_t now_ns, int64_t *back)
{
    *back = 0;
    if (k->r.n == 0)
        return 0;
    k->r.n = 0;
    return weir_limiter_cancel_at(s->limiter, k->cost, k->r.act_ns, now_ns, back);
}

static bool limiter_player_limit(struct limiter_player *s, const struct sim_event *event,
                                 int64_t now_ns, struct sim_error *error)
{
    char text[WEIR_LIMIT_TEXT_MAX];
    struct weir_diag why;
    int code;

    text_of(event->limit, text, sizeof text);
    code = s->limiter ? weir_limiter_change_at(s->limiter, text, now_ns, &why)
                      : weir_limiter_open(&s->limiter, text, &why);
    return code == 0 || sim_fail(error, "limit: %.500s", why.text);
}

bool limiter_player_apply(struct limiter_player *s, const struct sim_event *event,
                          struct sim_outcome *out, struct sim_error *error)
{
    struct player_reservation *k;
    int64_t now;
    int code = 0;

    if (event->timed)
        s->time_ns = event->time_ns;
    now = s->start_ns + s->time_ns;
    *out = outcome_of(event, s->time_ns);
    switch (event->verb) {
    case SIM_TAKE:
    case SIM_PEEK: code = limiter_player_take(s, event, now, &out->verdict); break;
    case SIM_REFUND: code = weir_limiter_refund_at(s->limiter, event->cost, now, &out->cost); break;
    case SIM_CANCEL:
        k = kept_as(&s->ids, event, out, error);
        if (!k)
            return false;
        code = limiter_player_cancel(s, k, now, &out->cost);
        break;
    case SIM_RESET: weir_limiter_reset(s->limiter); break;
    case SIM_LIMIT: return limiter_player_limit(s, event, now, error);
    case SIM_CHARGE:
        code = weir_limiter_charge_at(s->limiter, event->cost, now, &out->verdict);
        break;
    case SIM_RESERVE:
    case SIM_COMMIT:
    case SIM_ENTER:
    case SIM_EXIT:
    case SIM_SIGNAL: return sim_fail(error, "%s is not played here", sim_verb_name(event->verb));
    }
    if (code == 0 && (event->verb == SIM_REFUND || event->verb == SIM_CANCEL))
        code = weir_limiter_peek_at(s->limiter, 0, 0, now, &out->verdict);
    return code == 0 || player_fail(error, sim_verb_name(event->verb), code);
}
