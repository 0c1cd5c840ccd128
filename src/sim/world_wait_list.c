/* The callers that wait to enter: a wait list for each key, first come first served.
 *
 * The pure part of `concurrency` refuses when it is full; waiting is its caller's business. Here a
 * call does not block: the world notes the waiter, and sim_world_decided tells its outcome later.
 *
 * Invariants:
 *   (1) No caller overtakes another: only the first waiter of a list may enter, and a caller that
 *       comes while others wait goes behind them.
 *   (2) The world checks a list when something may have changed for its first waiter: a caller
 *       left, the waiter before it is gone, the limit changed, the key was reset, a lease ended.
 *   (3) A waiter is decided once: it enters, another term refuses it when its turn comes, its time
 *       is over, or it gives up. In the last two cases it leaves no trace.
 *   (4) Where a lease and a deadline end at the same time, the lease serves the list first; a
 *       deadline refuses only when its time is past.
 */
#include <stdlib.h>

#include "sim/world_internal.h"

enum { AGENDA_WAKE, AGENDA_DEADLINE }; /* kinds; at one time they happen in this order */

int64_t sim__wait_list_room(const struct sim_revision *e, int64_t *max_wait_ns)
{
    int64_t room = INT64_MAX;

    *max_wait_ns = WEIR_FOREVER;
    for (int i = 0; i < e->n; i++) {
        const struct weir_term *t = &e->meter[i].term;

        if (t->algorithm != WEIR_CONCURRENCY || t->shadow || t->queue == 0)
            continue;
        room = weir__min(room, t->queue);
        *max_wait_ns = weir__min(*max_wait_ns, t->max_wait_ns);
    }
    return room == INT64_MAX ? 0 : room;
}

/* ---- The list itself ------------------------------------------------------------------------- */

static struct sim_wait_list *world_wait_list_of(struct sim_world *w, struct sim_record *r,
                                                struct weir__slice key)
{
    struct sim_wait_list *q = r->wait_list ? r->wait_list : calloc(1, sizeof *q);

    if (q && !r->wait_list) {
        q->key = key;
        q->wake_ns = INT64_MAX;
        q->next = w->wait_lists;
        r->wait_list = w->wait_lists = q;
    }
    return q;
}

bool sim__wait_list_join(struct sim_world *w, struct sim_record *r, struct weir__slice key,
                         const struct sim_waiter *like)
{
    struct sim_wait_list *q = world_wait_list_of(w, r, key);
    struct sim_waiter *x = q ? malloc(sizeof *x) : NULL;

    if (!x)
        return false;
    *x = *like;
    x->scheduled = x->deadline_ns <= WEIR__NOW_MAX - w->start_ns;
    if (x->scheduled && !agenda_add(&w->agenda, (struct agenda_item){.time_ns = x->deadline_ns,
                                                                     .kind = AGENDA_DEADLINE,
                                                                     .what = x})) {
        free(x);
        return false;
    }
    x->waits = true;
    x->wait_list = q;
    x->next = NULL;
    x->before = q->last;
    *(q->last ? &q->last->next : &q->first) = x;
    q->last = x;
    q->length++;
    w->waiting++;
    if (x->name)
        ((struct sim_ticket *)x->name->value)->waiter = x;
    if (q->length == 1)
        sim__wait_list_wake(w, q); /* to learn when a lease ends */
    return true;
}

static void world_wait_list_remove(struct sim_world *w, struct sim_waiter *x)
{
    struct sim_wait_list *q = x->wait_list;

    *(x->before ? &x->before->next : &q->first) = x->next;
    *(x->next ? &x->next->before : &q->last) = x->before;
    x->waits = false;
    q->length--;
    w->waiting--;
    sim__wait_list_wake(w, q); /* the waiter that is first now may have a lower cost */
}

void sim__wait_list_wake(struct sim_world *w, struct sim_wait_list *q)
{
    if (!q || q->ready || q->length == 0)
        return;
    q->ready = true;
    q->behind = NULL;
    *(w->ready ? &w->ready_last->behind : &w->ready) = q;
    w->ready_last = q;
}

void sim__wait_list_wake_all(struct sim_world *w)
{
    for (struct sim_wait_list *q = w->wait_lists; q; q = q->next)
        sim__wait_list_wake(w, q);
}

void sim__wait_list_leave(struct sim_world *w, struct sim_waiter *x)
{
    world_wait_list_remove(w, x);
    x->next = w->gave_up;
    w->gave_up = x;
}

/* Called once its outcome is told; the agenda may still have its deadline, and frees it then. */
static void world_waiter_free(struct sim_waiter *x)
{
    if (!x->scheduled)
        free(x);
}

void sim__wait_lists_free(struct sim_world *w)
{
    for (struct sim_waiter *x = w->gave_up, *next; x; x = next) {
        next = x->next;
        world_waiter_free(x);
    }
    for (const struct agenda_item *i; (i = agenda_first(&w->agenda));
         agenda_drop_first(&w->agenda)) {
        struct sim_waiter *x = i->kind == AGENDA_DEADLINE ? i->what : NULL;

        if (x)
            x->scheduled = false;
        if (x && !x->waits)
            world_waiter_free(x);
    }
    agenda_free(&w->agenda);
    for (struct sim_wait_list *q = w->wait_lists, *next; q; q = next) {
        next = q->next;
        for (struct sim_waiter *x = q->first, *after; x; x = after) {
            after = x->next;
            world_waiter_free(x);
        }
        free(q);
    }
}

/* ---- Deciding -------------------------------------------------------------------------------- */

/* Fills the outcome of a waiter that has left its list, and frees the waiter. */
static void world_fill_outcome(struct sim_world *w, struct sim_waiter *x, struct sim_record *r,
                               const struct weir_verdict *v, struct sim_outcome *out)
{
    *out = (struct sim_outcome){.verb = SIM_ENTER,
                                .time_ns = w->time_ns,
                                .key = x->wait_list->key,
                                .id = x->name ? x->name->name : (struct weir__slice){"", 0},
                                .cost = x->cost,
                                .has_verdict = true,
                                .state = sim__guard_states(w, r),
                                .verdict = *v};
    world_waiter_free(x);
}

/* The record of a key that has waiters: it exists, and a change of layout moves it. */
static struct sim_record *world_waiting_record(struct sim_world *w, const struct sim_wait_list *q)
{
    struct weir__slice key = q->key;
    struct sim_record *r = sim__record(w, &key, false);

    return r ? r : w->fresh_record; /* out of memory */
}

static void world_refuse_waiter(struct sim_world *w, struct sim_waiter *x, struct sim_outcome *out)
{
    struct sim_record *r = world_waiting_record(w, x->wait_list);
    struct weir_verdict v;

    sim__refuse(w, r, x->cost, WEIR_LIMITED, &v);
    if (x->name)
        *(struct sim_ticket *)x->name->value =
            (struct sim_ticket){.kind = SIM_TICKET_ENTERED, .key = x->wait_list->key};
    world_fill_outcome(w, x, r, &v, out);
}

/* Checks the list again when a lease ends: its first waiter cannot enter yet. */
static void world_wake_later(struct sim_world *w, struct sim_wait_list *q, int64_t at_ns)
{
    if (at_ns >= q->wake_ns || at_ns > WEIR__NOW_MAX - w->start_ns)
        return;
    /* The same time again would loop for ever: the clock may have stepped back. */
    at_ns = weir__max(at_ns, w->time_ns + 1);
    if (agenda_add(&w->agenda,
                   (struct agenda_item){.time_ns = at_ns, .kind = AGENDA_WAKE, .what = q}))
        q->wake_ns = at_ns;
}

static int64_t world_patience_left(const struct sim_world *w, const struct sim_waiter *x)
{
    if (x->patience_ns == WEIR_WAIT_DEFAULT || x->patience_ns == WEIR_FOREVER)
        return x->patience_ns;
    return weir__max(0, x->patience_ns - (w->time_ns - x->joined_ns));
}

/* Checks the first of the lists that are ready. True: its first waiter is decided. */
static bool world_serve(struct sim_world *w, struct sim_wait_list *q, struct sim_outcome *out)
{
    struct sim_waiter *x = q->first;
    struct sim_record *r = world_waiting_record(w, q);
    struct sim_ticket scratch, *ticket = x && x->name ? x->name->value : &scratch;
    struct weir_verdict v;

    q->ready = false;
    w->ready = q->behind;
    if (!x)
        return false;
    if (sim__peek_enter(w, r, x->cost, world_patience_left(w, x)) == SIM__FULL) {
        world_wake_later(w, q, sim__lease_end(w, r, x->cost));
        return false;
    }
    world_wait_list_remove(w, x);
    sim__charge(w, r, x->cost, world_patience_left(w, x), ticket, &v);
    ticket->key = q->key;
    world_fill_outcome(w, x, r, &v, out);
    return true;
}

/* Runs the first item of the agenda. True: a waiter is decided. */
static bool world_run_next(struct sim_world *w, struct sim_outcome *out)
{
    const struct agenda_item item = *agenda_first(&w->agenda);
    struct sim_waiter *x = item.what;
    struct sim_wait_list *q = item.what;

    agenda_drop_first(&w->agenda);
    if (item.kind == AGENDA_WAKE) {
        w->time_ns = item.time_ns;
        if (q->wake_ns == item.time_ns)
            q->wake_ns = INT64_MAX;
        sim__wait_list_wake(w, q);
        return false;
    }
    x->scheduled = false;
    if (!x->waits) {
        world_waiter_free(x);
        return false;
    }
    w->time_ns = item.time_ns;
    world_wait_list_remove(w, x);
    world_refuse_waiter(w, x, out);
    return true;
}

static bool world_is_due(const struct agenda_item *i, int64_t until_ns)
{
    return i && (i->time_ns < until_ns || (i->time_ns == until_ns && i->kind == AGENDA_WAKE));
}

bool sim_world_decided(struct sim_world *w, int64_t until_ns, struct sim_outcome *out)
{
    while (w->gave_up || w->ready || world_is_due(agenda_first(&w->agenda), until_ns)) {
        struct sim_waiter *x = w->gave_up;

        if (x) {
            w->gave_up = x->next;
            world_refuse_waiter(w, x, out);
            return true;
        }
        if (w->ready ? world_serve(w, w->ready, out) : world_run_next(w, out))
            return true;
    }
    return false;
}
