/* The verbs of the reference; see reference.h. */
#include "reference.h"

#include <stdlib.h>
#include <string.h>

#include "reference_keys.h"
#include "sim/world.h"

struct reference *reference_open(int64_t start_ns)
{
    struct reference *w = calloc(1, sizeof *w);

    if (!w)
        abort();
    w->start_ns = start_ns;
    w->keys.most = SIM_KEYS_MAX;
    w->ids.most = SIM_IDS_MAX;
    w->signals = (struct weir_signals){WEIR_NONE, WEIR_NONE, WEIR_NONE, WEIR_NONE};
    return w;
}

void reference_close(struct reference *w)
{
    reference_keys_free(w);
    sim_names_free(&w->ids);
    free(w);
}

/* ---- The chain ----------------------------------------------------------------------------- */

/* The order of limits.md: system, rates, concurrency, breaker, adaptive ones. */
static int rank_of(const struct weir__part *p)
{
    const enum weir_algorithm a = p->meter->term.algorithm;

    if (a == WEIR_SYSTEM)
        return 0;
    return !weir__meter_guards(p->meter) ? 1
           : a == WEIR_CONCURRENCY       ? 2
           : a == WEIR_BREAKER           ? 3
                                         : 4;
}

/* Decides all or nothing, in the order of the chain; `which` is the term's index in the text. */
static void decide(const struct weir__part part[], int n, bool take, struct weir_verdict *v)
{
    struct weir__part chain[WEIR_TERMS_MAX];
    int place[WEIR_TERMS_MAX], filled = 0;

    for (int rank = 0; rank <= 4; rank++)
        for (int i = 0; i < n; i++)
            if (rank_of(&part[i]) == rank) {
                place[filled] = i;
                chain[filled++] = part[i];
            }
    (take ? weir__decide_take : weir__decide_peek)(chain, n, v);
    if (v->which >= 0)
        v->which = place[v->which];
}

static struct weir__slice states_of(struct reference *w, struct reference_key *k)
{
    struct weir__out o = {w->state, sizeof w->state, 0};
    const struct reference_revision *e = w->revision;

    for (int i = 0; i < e->n; i++) {
        struct weir_view view;

        if (!weir__meter_guards(&e->meter[i]))
            continue;
        weir__meter_view(&e->meter[i], reference_state(w, k, i), reference_now(w), &view);
        weir__out_text(&o, o.len > 0 ? " + " : "");
        sim_state_print(&o, &e->meter[i].term, &view, 0);
    }
    (void)weir__out_end(&o);
    return (struct weir__slice){w->state, o.len};
}

/* How the key stands: the answer to a peek of cost 0. */
static void look(struct reference *w, struct reference_key *k, struct sim_outcome *out)
{
    struct weir__part part[WEIR_TERMS_MAX];

    decide(part, reference_parts(w, k, 0, 0, part), false, &out->verdict);
    out->state = states_of(w, k);
}

/* ---- Taking -------------------------------------------------------------------------------- */

static struct reference_ticket *ticket_of(struct reference *w, struct weir__slice id)
{
    struct sim_name *name = sim_names_make(&w->ids, id);

    if (!name || (!name->value && !(name->value = calloc(1, sizeof(struct reference_ticket)))))
        abort();
    return name->value;
}

/* Notes under the name what the parts, which have been charged, have reserved. */
static void note_taken(struct reference *w, const struct sim_event *event, struct weir__slice key,
                       const struct weir__part part[], int n, const struct weir_verdict *v)
{
    const int64_t now = reference_now(w);
    struct reference_ticket *t = ticket_of(w, event->id);

    *t = (struct reference_ticket){.key = key, .serial = w->resets, .act_ns = now + v->wait_ns};
    t->n = v->allowed ? n : 0;
    for (int i = 0; i < t->n; i++) {
        t->term[i].lineage = w->revision->lineage[i];
        t->term[i].cost = part[i].verdict->allowed ? event->cost : 0;
        t->term[i].act_ns = now + part[i].verdict->wait_ns;
    }
}

static bool reference_take(struct reference *w, const struct sim_event *event,
                           struct sim_outcome *out, struct sim_error *error)
{
    struct weir__part part[WEIR_TERMS_MAX];
    struct weir_verdict verdict[WEIR_TERMS_MAX] = {{0}};
    struct reference_key *k = reference_key(w, &out->key, event->verb == SIM_TAKE);
    const int n = reference_parts(w, k, event->cost, event->patience_ns, part);

    if (event->verb == SIM_TAKE && w->revision->guards)
        return sim_fail(error, "this limit has a guard");
    for (int i = 0; i < n; i++)
        part[i].verdict = &verdict[i];
    decide(part, n, event->verb == SIM_TAKE, &out->verdict);
    if (event->verb == SIM_PEEK)
        out->state = states_of(w, k);
    else if (event->id.len > 0)
        note_taken(w, event, out->key, part, n, &out->verdict);
    return true;
}

static bool reference_charge(struct reference *w, const struct sim_event *event,
                             struct sim_outcome *out, struct sim_error *error)
{
    struct weir__part part[WEIR_TERMS_MAX];
    struct reference_key *k = reference_key(w, &out->key, true);
    const int n = reference_parts(w, k, event->cost, 0, part);
    bool warned = false;

    if (w->revision->guards)
        return sim_fail(error, "this limit has a guard");

    for (int i = 0; i < n; i++) {
        struct weir_verdict one;

        weir__meter_charge(part[i].meter, part[i].state, &part[i].attempt, &one);
        warned = warned || one.warned;
    }
    look(w, k, out);
    out->verdict.warned = warned;
    return true;
}

/* Gives back what a reservation has, or without one n events, to every term as much as it takes
 * back. */
static bool give_back(struct reference *w, const struct reference_ticket *t, int64_t n,
                      struct sim_outcome *out)
{
    struct reference_key *k = reference_key(w, &out->key, false);
    struct weir__part part[WEIR_TERMS_MAX];
    const int terms = reference_parts(w, k, 0, 0, part);

    out->cost = 0;
    for (int i = 0; i < terms; i++) {
        const struct weir__part *p = &part[i];
        const int64_t now = p->attempt.now_ns;
        int64_t back = 0;

        if (!t)
            back = weir__meter_refund(p->meter, p->state, n, now);
        else if (i < t->n && t->act_ns >= now && t->serial == w->resets &&
                 t->term[i].lineage == w->revision->lineage[i])
            back = weir__meter_cancel(p->meter, p->state, t->term[i].cost,
                                      weir__max(t->term[i].act_ns, now), now);
        out->cost = weir__max(out->cost, back);
    }
    look(w, k, out);
    return true;
}

static bool reference_cancel(struct reference *w, const struct sim_event *event,
                             struct sim_outcome *out, struct sim_error *error)
{
    struct sim_name *name = sim_names_find(&w->ids, event->key);
    struct reference_ticket *t = name ? name->value : NULL;

    if (!t || t->entered)
        return sim_fail(error, "no such reservation");
    out->key = t->key;
    (void)give_back(w, t, 0, out);
    t->n = 0; /* once only */
    return true;
}

/* ---- Entering ------------------------------------------------------------------------------ */

static bool reference_enter(struct reference *w, const struct sim_event *event,
                            struct sim_outcome *out)
{
    struct weir__part part[WEIR_TERMS_MAX];
    struct weir_verdict verdict[WEIR_TERMS_MAX] = {{0}};
    struct reference_key *k = reference_key(w, &out->key, true);
    const int n = reference_parts(w, k, event->cost, event->patience_ns, part);
    struct reference_ticket t = {.entered = true,
                                 .key = out->key,
                                 .serial = k->serial,
                                 .entered_ns = reference_now(w),
                                 .cost = event->cost};

    for (int i = 0; i < n; i++)
        part[i].verdict = &verdict[i];
    decide(part, n, true, &out->verdict);
    t.n = out->verdict.allowed ? n : 0;
    for (int i = 0; i < n; i++) {
        t.term[i].lineage = w->revision->lineage[i];
        t.term[i].cost = verdict[i].allowed ? event->cost : 0;
    }
    if (event->id.len > 0)
        *ticket_of(w, event->id) = t;
    out->state = states_of(w, k);
    return true;
}

static bool reference_exit(struct reference *w, const struct sim_event *event,
                           struct sim_outcome *out, struct sim_error *error)
{
    const struct sim_name *name = sim_names_find(&w->ids, event->key);
    struct reference_ticket *t = name ? name->value : NULL;
    struct reference_key *k;

    if (!t || !t->entered)
        return sim_fail(error, "no such call");
    out->id = name->name;
    out->key = t->key;
    out->cost = t->n > 0 ? t->cost : 0;
    k = reference_key(w, &out->key, false);
    for (int i = 0; i < t->n && i < w->revision->n; i++) {
        const struct weir__leaving l = {.entered_ns = t->entered_ns,
                                        .now_ns = reference_now(w),
                                        .cost = t->cost,
                                        .how = event->how};
        const struct weir__meter *m = &w->revision->meter[i];
        const bool shared = m->term.algorithm == WEIR_SYSTEM;

        if (weir__meter_guards(m) && t->term[i].cost > 0 && (shared || t->serial == k->serial) &&
            t->term[i].lineage == w->revision->lineage[i])
            weir__meter_leave(m, reference_state(w, k, i), &l);
    }
    t->n = 0; /* once only */
    look(w, k, out);
    return true;
}

/* ---- Signals and limits -------------------------------------------------------------------- */

static void set_signals(struct reference *w, const struct weir_signals *s)
{
    const int64_t given[] = {s->cpu_milli, s->memory_milli, s->load_milli, s->pressure_milli};
    int64_t *const kept[] = {&w->signals.cpu_milli, &w->signals.memory_milli,
                             &w->signals.load_milli, &w->signals.pressure_milli};

    for (int i = 0; i < 4; i++)
        if (given[i] != SIM_SAME)
            *kept[i] = given[i];
}

static bool change_limit(struct reference *w, const struct sim_event *event,
                         struct sim_outcome *out, struct sim_error *error)
{
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    struct weir_limit limit;
    struct weir_diag why;

    if (event->limit.len >= sizeof text)
        return sim_fail(error, "the limit is too long");
    memcpy(text, event->limit.at, event->limit.len);
    text[event->limit.len] = '\0';
    if (weir_limit_parse(&limit, text, &why) != 0)
        return sim_fail(error, "limit: %s", why.text);
    return reference_limit(w, &limit, &out->starts_fresh, error);
}

bool reference_apply(struct reference *w, const struct sim_event *event, struct sim_outcome *out,
                     struct sim_error *error)
{
    if (event->timed)
        w->time_ns = event->time_ns;
    *out = (struct sim_outcome){.verb = event->verb,
                                .time_ns = w->time_ns,
                                .key = event->key,
                                .id = event->id,
                                .cost = event->cost,
                                .has_verdict = event->verb < SIM_RESET};
    if (!w->revision && event->verb != SIM_LIMIT && event->verb != SIM_SIGNAL)
        return sim_fail(error, "there is no limit yet");
    switch (event->verb) {
    case SIM_TAKE:
    case SIM_PEEK: return reference_take(w, event, out, error);
    case SIM_CHARGE: return reference_charge(w, event, out, error);
    case SIM_REFUND: return give_back(w, NULL, event->cost, out);
    case SIM_CANCEL: return reference_cancel(w, event, out, error);
    case SIM_RESERVE:
    case SIM_COMMIT: return sim_fail(error, "%s is not played here", sim_verb_name(event->verb));
    case SIM_ENTER: return reference_enter(w, event, out);
    case SIM_EXIT: return reference_exit(w, event, out, error);
    case SIM_SIGNAL: set_signals(w, &event->signals); return true;
    case SIM_RESET: reference_reset(w, event->key); return true;
    case SIM_LIMIT: return change_limit(w, event, out, error);
    }
    return false;
}
