/* The simulated world: its clock, and the verbs that need no wait list. */
#include "sim/world.h"

#include <stdlib.h>
#include <string.h>

#include "sim/world_internal.h"

struct sim_world *sim_world_open(int64_t start_ns)
{
    struct sim_world *w = calloc(1, sizeof *w);

    if (w) {
        w->start_ns = start_ns;
        w->keys.most = SIM_KEYS_MAX;
        w->ids.most = SIM_IDS_MAX;
        w->signals = (struct weir_signals){WEIR_NONE, WEIR_NONE, WEIR_NONE, WEIR_NONE};
    }
    return w;
}

void sim_world_close(struct sim_world *w)
{
    sim__wait_lists_free(w);
    sim__revisions_free(w);
    sim_names_free(&w->keys);
    sim_names_free(&w->ids);
    free(w->fresh_record);
    free(w->common_record);
    free(w);
}

int64_t sim_world_time(const struct sim_world *w)
{
    return w->time_ns;
}

int64_t sim_world_waiting(const struct sim_world *w)
{
    return w->waiting;
}

/* ---- Verbs ----------------------------------------------------------------------------------- */

/* Notes under the name what a take is about to reserve. */
static struct sim_ticket *world_remember(struct sim_world *w, struct weir__slice id,
                                         struct weir__slice key, const struct sim_record *r,
                                         const struct weir__part part[], int n)
{
    struct sim_name *name = sim_names_make(&w->ids, id);
    struct sim_ticket *v = NULL;

    if (!name || !(v = name->value ? name->value : malloc(sizeof *v)))
        return NULL;
    *v = (struct sim_ticket){.kind = SIM_TICKET_TAKEN, .key = key, .serial = r->serial, .n = n};
    for (int i = 0; i < n; i++) {
        struct weir_verdict one;

        weir__meter_peek(part[i].meter, part[i].state, &part[i].ask, &one);
        v->term[i].lineage = w->revision->layout->lineage[i];
        v->term[i].cost = one.allowed ? part[i].ask.cost : 0;
        v->term[i].act_ns = part[i].ask.now_ns + one.wait_ns;
    }
    name->value = v;
    return v;
}

static bool world_is_waiting(const struct sim_world *w, struct weir__slice id)
{
    const struct sim_name *name = sim_names_find(&w->ids, id);
    const struct sim_ticket *h = name ? name->value : NULL;

    return h && h->kind == SIM_TICKET_WAITING;
}

static bool world_take(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                       struct sim_error *error)
{
    struct weir__part part[WEIR_TERMS_MAX];
    struct sim_record *r = sim__record(w, &out->key, event->verb == SIM_TAKE);
    struct sim_ticket *v = NULL;
    int n;

    if (!r)
        return sim_fail(error, "out of memory, or of keys: at most %d are kept", SIM_KEYS_MAX);
    n = sim__parts(w, r, event->cost, event->patience_ns, part);
    if (event->verb == SIM_PEEK) {
        sim__decide(part, n, false, &out->verdict);
        out->state = sim__guard_states(w, r);
        return true;
    }
    if (w->revision->guards)
        return sim_fail(error,
                        "this limit has a guard, which is entered and left: use enter and exit "
                        "(in --traffic, add a service)");
    if (world_is_waiting(w, event->id))
        return sim_fail_word(error, "", event->id, " still waits to enter");
    if (event->id.len > 0 && !(v = world_remember(w, event->id, out->key, r, part, n)))
        return sim_fail(error, "out of memory, or of names: at most %d are kept", SIM_IDS_MAX);
    weir__decide_take(part, n, &out->verdict);
    if (v) {
        v->act_ns = sim__now(w) + out->verdict.wait_ns;
        v->n = out->verdict.allowed ? n : 0;
    }
    return true;
}

/* Gives back to every term as much as it takes back, and reports the most that any of them took:
 * what a reservation has, or without one n events. */
static bool world_give_back(struct sim_world *w, const struct sim_ticket *v, int64_t n,
                            struct sim_outcome *out, struct sim_error *error)
{
    struct sim_record *r = sim__record(w, &out->key, false);
    struct weir__part part[WEIR_TERMS_MAX];
    int terms;

    if (!r)
        return sim_fail(error, "out of memory");
    terms = sim__parts(w, r, 0, 0, part);
    out->cost = 0;
    for (int i = 0; i < terms; i++) {
        const struct weir__part *p = &part[i];
        int64_t back = 0;

        if (!v)
            back = weir__meter_refund(p->meter, p->state, n, p->ask.now_ns);
        else if (i < v->n && v->act_ns >= p->ask.now_ns && v->serial == r->serial &&
                 v->term[i].lineage == w->revision->layout->lineage[i])
            back = weir__meter_cancel(p->meter, p->state, v->term[i].cost,
                                      weir__max(v->term[i].act_ns, p->ask.now_ns), p->ask.now_ns);
        out->cost = weir__max(out->cost, back);
    }
    weir__decide_peek(part, terms, &out->verdict);
    out->state = sim__guard_states(w, r);
    return true;
}

static bool world_cancel(struct sim_world *w, const struct sim_event *event,
                         struct sim_outcome *out, struct sim_error *error)
{
    struct sim_name *name = sim_names_find(&w->ids, event->key);
    struct sim_ticket *v = name ? name->value : NULL;
    bool done;

    if (!v)
        return sim_fail_word(error, "no reservation is named ", event->key,
                             "; name one with take ... as=ID");
    if (v->kind != SIM_TICKET_TAKEN)
        return sim_fail_word(error, "", event->key, " was entered, not taken: exit leaves it");
    out->key = v->key;
    done = world_give_back(w, v, 0, out, error);
    v->n = 0; /* once only */
    return done;
}

static void world_reset(struct sim_world *w, struct weir__slice key)
{
    struct sim_name *n = sim_names_find(&w->keys, key);
    struct sim_record *r = n ? n->value : NULL;

    if (r && r->wait_list) { /* its waiters stay */
        memset(r->bytes, 0, r->layout->bytes);
        r->serial = ++w->serials;
        sim__wait_list_wake(w, r->wait_list);
    } else if (r) {
        free(r);
        n->value = NULL;
    }
}

static void world_set_signals(struct sim_world *w, const struct weir_signals *s)
{
    const int64_t given[] = {s->cpu_milli, s->memory_milli, s->load_milli, s->pressure_milli};
    int64_t *const kept[] = {&w->signals.cpu_milli, &w->signals.memory_milli,
                             &w->signals.load_milli, &w->signals.pressure_milli};

    for (int i = 0; i < 4; i++)
        if (given[i] != SIM_SAME)
            *kept[i] = given[i];
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
    if (!sim_world_limit(w, &limit, &out->starts_fresh, error))
        return false;
    sim__wait_list_wake_all(w);
    return true;
}

static bool move_clock(struct sim_world *w, const struct sim_event *event, struct sim_error *error)
{
    const int64_t time_ns = event->timed ? event->time_ns : w->time_ns;
    struct sim_outcome ignored;

    if (time_ns > WEIR__NOW_MAX - w->start_ns)
        return sim_fail(error, "the time is past the end of the clock, 2^62 ns after 1970");
    while (sim_world_decided(w, time_ns, &ignored))
        ;
    w->time_ns = time_ns;
    return true;
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
    if (!w->revision && event->verb != SIM_LIMIT && event->verb != SIM_SIGNAL)
        return sim_fail(error, "there is no limit yet: start with a line such as 'limit "
                               "token-bucket 10/s', or name one on the command line");
    switch (event->verb) {
    case SIM_TAKE:
    case SIM_PEEK: return world_take(w, event, out, error);
    case SIM_REFUND: return world_give_back(w, NULL, event->cost, out, error);
    case SIM_CANCEL: return world_cancel(w, event, out, error);
    case SIM_ENTER: return sim__enter(w, event, out, error);
    case SIM_EXIT: return sim__exit(w, event, out, error);
    case SIM_SIGNAL: world_set_signals(w, &event->signals); return true;
    case SIM_RESET: world_reset(w, event->key); return true;
    case SIM_LIMIT: return world_change_limit(w, event, out, error);
    }
    return true;
}
