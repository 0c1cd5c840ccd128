/* Entering and leaving, as weir_enter and weir_exit do it: all terms or none, in the order of the
 * chain. A caller may wait for a term whose permits are all out. */
#include <stdlib.h>

#include "sim/world_internal.h"

/* ---- The chain ------------------------------------------------------------------------------- */

static int world_term_rank(const struct weir__part *p)
{
    const enum weir_algorithm a = p->meter->term.algorithm;

    if (a == WEIR_SYSTEM)
        return 0;
    return !weir__meter_guards(p->meter) ? 1
           : a == WEIR_CONCURRENCY       ? 2
           : a == WEIR_BREAKER           ? 3
                                         : 4;
}

/* The parts in the order in which they decide; place[i] is the index that the i-th had. */
static void chain_of(const struct weir__part part[], int n, struct weir__part chain[], int place[])
{
    int filled = 0;

    for (int rank = 0; rank <= 4; rank++)
        for (int i = 0; i < n; i++) {
            if (world_term_rank(&part[i]) != rank)
                continue;
            place[filled] = i;
            chain[filled++] = part[i];
        }
}

void sim__decide(const struct weir__part part[], int n, bool take, struct weir_verdict *v)
{
    struct weir__part chain[WEIR_TERMS_MAX];
    int place[WEIR_TERMS_MAX];

    chain_of(part, n, chain, place);
    (take ? weir__decide_take : weir__decide_peek)(chain, n, v);
    if (v->which >= 0)
        v->which = place[v->which];
}

/* Whether a term refuses only until a caller leaves, and lets others wait for that. */
static bool can_be_waited_for(const struct weir__part *p, const struct weir_verdict *v)
{
    return p->meter->term.algorithm == WEIR_CONCURRENCY && p->meter->term.queue > 0 &&
           v->reason == WEIR_LIMITED;
}

enum sim__entry sim__peek_enter(struct sim_world *w, struct sim_record *r, int64_t cost,
                                int64_t patience_ns)
{
    struct weir__part part[WEIR_TERMS_MAX];
    const int n = sim__parts(w, r, cost, patience_ns, part);
    bool full = false;

    for (int i = 0; i < n; i++) {
        struct weir_verdict one;

        weir__meter_peek(part[i].meter, part[i].state, &part[i].ask, &one);
        if (one.allowed || part[i].meter->term.shadow)
            continue;
        if (!can_be_waited_for(&part[i], &one))
            return SIM__REFUSED;
        full = true;
    }
    return full ? SIM__FULL : SIM__MAY_ENTER;
}

static bool would_enter(const struct weir__part *p, int64_t now_ns, int64_t *fresh_ns)
{
    struct weir__attempt ask = p->ask;
    struct weir_verdict v;

    ask.now_ns = now_ns;
    weir__meter_peek(p->meter, p->state, &ask, &v);
    *fresh_ns = weir__add_sat(now_ns, v.reset_after_ns);
    return v.allowed;
}

/* The earliest time at which a term would admit the cost though no caller leaves. It would once the
 * key has fully recovered, and leases only end: bisection finds the time. INT64_MAX: the leases do
 * not end. */
static int64_t world_lease_end(const struct weir__part *p)
{
    int64_t lo = p->ask.now_ns, hi, unused;

    if (would_enter(p, lo, &hi))
        return lo;
    if (hi > WEIR__NOW_MAX)
        return INT64_MAX;
    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;

        if (would_enter(p, middle, &unused))
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

int64_t sim__lease_end(struct sim_world *w, struct sim_record *r, int64_t cost)
{
    struct weir__part part[WEIR_TERMS_MAX];
    const int n = sim__parts(w, r, cost, 0, part);
    int64_t end_ns = 0;

    for (int i = 0; i < n; i++)
        if (part[i].meter->term.algorithm == WEIR_CONCURRENCY && !part[i].meter->term.shadow)
            end_ns = weir__max(end_ns, world_lease_end(&part[i]));
    return end_ns == INT64_MAX ? end_ns : end_ns - w->start_ns;
}

void sim__charge(struct sim_world *w, struct sim_record *r, int64_t cost, int64_t patience_ns,
                 struct sim_ticket *ticket, struct weir_verdict *v)
{
    struct weir__part part[WEIR_TERMS_MAX];
    struct weir_verdict own[WEIR_TERMS_MAX] = {{0}};
    const int n = sim__parts(w, r, cost, patience_ns, part);

    for (int i = 0; i < n; i++)
        part[i].own = &own[i];
    sim__decide(part, n, true, v);
    w->random++;
    *ticket = (struct sim_ticket){.kind = SIM_TICKET_ENTERED,
                                  .key = ticket->key,
                                  .serial = r->serial,
                                  .entered_ns = sim__now(w),
                                  .cost = cost,
                                  .n = v->allowed ? n : 0};
    for (int i = 0; i < n; i++) {
        ticket->term[i].lineage = w->revision->layout->lineage[i];
        ticket->term[i].cost = own[i].allowed ? cost : 0;
    }
}

void sim__refuse(struct sim_world *w, struct sim_record *r, int64_t cost, enum weir_reason reason,
                 struct weir_verdict *v)
{
    struct weir__part part[WEIR_TERMS_MAX];
    const int n = sim__parts(w, r, cost, 0, part);

    sim__decide(part, n, false, v);
    if (!v->allowed && v->reason != WEIR_LIMITED)
        return;                                      /* a stronger reason has come up meanwhile */
    for (int i = n - 1; i >= 0 && v->allowed; i--) { /* others wait before it */
        if (part[i].meter->term.algorithm != WEIR_CONCURRENCY || part[i].meter->term.queue == 0)
            continue;
        v->which = i;
        v->limit = part[i].meter->limit;
    }
    if (v->allowed)
        weir__verdict_refuse(v, reason, 0);
    v->reason = reason;
}

/* ---- Entering -------------------------------------------------------------------------------- */

/* The ticket that remembers the entered call; `scratch` if the call has no name. */
static struct sim_ticket *world_ticket_of(struct sim_world *w, const struct sim_event *event,
                                          struct sim_ticket *scratch, struct sim_name **name,
                                          struct sim_error *error)
{
    struct sim_ticket *ticket;

    *name = NULL;
    if (event->id.len == 0)
        return scratch;
    *name = sim_names_make(&w->ids, event->id);
    ticket = *name ? (*name)->value : NULL;
    if (ticket && ticket->kind == SIM_TICKET_WAITING) {
        (void)sim_fail_word(error, "", event->id, " still waits to enter");
        return NULL;
    }
    if (*name && !ticket)
        ticket = (*name)->value = calloc(1, sizeof *ticket);
    if (!ticket)
        (void)sim_fail(error, "out of memory, or of names: at most %d are kept", SIM_IDS_MAX);
    return ticket;
}

/* The caller waits, or is refused at once if it cannot or may not. */
static bool world_wait_or_refuse(struct sim_world *w, const struct sim_event *event,
                                 struct sim_record *r, struct sim_name *name,
                                 struct sim_outcome *out, struct sim_error *error)
{
    struct sim_waiter x = {.name = name,
                           .cost = event->cost,
                           .patience_ns = event->patience_ns,
                           .joined_ns = w->time_ns};
    int64_t wait_ns;
    const int64_t room = sim__wait_list_room(w->revision, &wait_ns);

    if (event->patience_ns != WEIR_WAIT_DEFAULT)
        wait_ns = weir__min(wait_ns, event->patience_ns);
    if (wait_ns == 0 || (r->wait_list && r->wait_list->length >= room)) {
        sim__refuse(w, r, event->cost, wait_ns == 0 ? WEIR_LIMITED : WEIR_QUEUE_FULL,
                    &out->verdict);
        return true;
    }
    x.deadline_ns = wait_ns == WEIR_FOREVER ? INT64_MAX : weir__add_sat(w->time_ns, wait_ns);
    if (!sim__wait_list_join(w, r, out->key, &x))
        return sim_fail(error, "out of memory");
    out->queued = true;
    if (name)
        ((struct sim_ticket *)name->value)->kind = SIM_TICKET_WAITING;
    return true;
}

/* Whether the caller must go behind waiters: no caller overtakes them. */
static bool world_is_behind(const struct sim_world *w, const struct sim_record *r, int64_t cost)
{
    int64_t unused;

    return cost > 0 && r->wait_list && r->wait_list->length > 0 &&
           sim__wait_list_room(w->revision, &unused) > 0;
}

/* Refuses at once, and counts nowhere, a caller that a term would refuse even if all waiters
 * left. */
static void refuse_behind(struct sim_world *w, const struct sim_event *event, struct sim_record *r,
                          struct weir_verdict *v)
{
    struct weir__part part[WEIR_TERMS_MAX];

    sim__decide(part, sim__parts(w, r, event->cost, event->patience_ns, part), false, v);
}

bool sim__enter(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                struct sim_error *error)
{
    struct sim_record *r = sim__record(w, &out->key, true);
    struct sim_ticket scratch = {0}, *ticket;
    enum sim__entry entry;
    struct sim_name *name;
    bool behind;

    if (!r)
        return sim_fail(error, "out of memory, or of keys: at most %d are kept", SIM_KEYS_MAX);
    ticket = world_ticket_of(w, event, &scratch, &name, error);
    if (!ticket)
        return false;
    *ticket = (struct sim_ticket){.kind = SIM_TICKET_ENTERED, .key = out->key};
    behind = world_is_behind(w, r, event->cost);
    entry = sim__peek_enter(w, r, event->cost, event->patience_ns);
    if (behind && entry == SIM__REFUSED)
        refuse_behind(w, event, r, &out->verdict);
    else if (!behind && entry != SIM__FULL)
        sim__charge(w, r, event->cost, event->patience_ns, ticket, &out->verdict);
    else if (!world_wait_or_refuse(w, event, r, name, out, error))
        return false;
    out->state = sim__guard_states(w, r);
    return true;
}

/* ---- Leaving --------------------------------------------------------------------------------- */

static void world_leave(struct sim_world *w, struct sim_record *r, const struct sim_ticket *h,
                        enum weir_outcome how)
{
    const struct weir__leaving l = {h->entered_ns, sim__now(w), h->cost, how};

    for (int i = 0; i < h->n && i < w->revision->n; i++) {
        const struct weir__meter *m = &w->revision->meter[i];
        const bool shared = m->term.algorithm == WEIR_SYSTEM;

        if (weir__meter_guards(m) && h->term[i].cost > 0 && (shared || h->serial == r->serial) &&
            h->term[i].lineage == w->revision->layout->lineage[i])
            weir__meter_leave(m, sim__state(w, r, i), &l);
    }
}

bool sim__exit(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
               struct sim_error *error)
{
    const struct sim_name *name = sim_names_find(&w->ids, event->key);
    struct sim_ticket *h = name ? name->value : NULL;
    struct weir__part part[WEIR_TERMS_MAX];
    struct sim_record *r;

    if (!h)
        return sim_fail_word(error, "nothing is named ", event->key,
                             "; name what is entered with enter ... as=ID");
    if (h->kind == SIM_TICKET_TAKEN)
        return sim_fail_word(error, "", event->key,
                             " was taken, not entered: cancel gives it back");
    out->id = name->name;
    out->key = h->key;
    r = sim__record(w, &out->key, false);
    if (!r)
        return sim_fail(error, "out of memory");
    out->cost = h->n > 0 ? h->cost : 0;
    world_leave(w, r, h, event->how);
    h->n = 0; /* once only */
    if (h->kind == SIM_TICKET_WAITING)
        sim__wait_list_leave(w, h->waiter);
    sim__wait_list_wake(w, r->wait_list);
    sim__decide(part, sim__parts(w, r, 0, 0, part), false, &out->verdict);
    out->state = sim__guard_states(w, r);
    return true;
}
