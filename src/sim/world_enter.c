/* Entering and leaving, and the callers that wait to enter.
 *
 * The engine has the wait lists: who is the first at a key, and whether it may enter
 * (engine/waiter.h). The world has the clock: it steps a waiter when the engine has woken it, and
 * when its time has come.
 *
 * Invariants:
 *   (1) Waiters that were woken are stepped before time goes on, in the order in which they came,
 *       whatever their keys are: so the order of the outcomes does not depend on hashes.
 *   (2) A waiter's deadline refuses it only when its time is past: what happens at that time is
 *       still in time. A lease that ends serves its waiter at once.
 *   (3) A waiter that is decided is freed when its outcome has been reported and no item of the
 *       agenda or of the ready ones points to it; `scheduled` counts those.
 */
#include <stdlib.h>
#include <string.h>

#include "sim/splitmix.h"
#include "sim/world_internal.h"

enum { AGENDA_WAKE, AGENDA_DEADLINE }; /* kinds; at one time they happen in this order */

#define KEY_ROOM_LEAST 64

/* ---- Waiters --------------------------------------------------------------------------------- */

/* The engine has woken the waiter. */
static void waiter_woken(struct weir__waiter *me)
{
    struct sim_waiter *x = (struct sim_waiter *)(void *)me;
    struct sim_world *w = x->world;

    if (x->woken)
        return;
    x->woken =
        agenda_add(&w->ready, (struct agenda_item){.time_ns = (int64_t)x->serial, .what = x});
    x->scheduled += x->woken;
    w->failed = w->failed || !x->woken;
}

static void waiter_free(struct sim_world *w, struct sim_waiter *x)
{
    *(x->before ? &x->before->next : &w->waiters) = x->next;
    if (x->next)
        x->next->before = x->before;
    free(x);
}

static struct sim_waiter *waiter_make(struct sim_world *w, size_t key_len)
{
    const size_t room = key_len > KEY_ROOM_LEAST ? key_len : KEY_ROOM_LEAST;
    struct sim_waiter *x = calloc(1, sizeof *x + room);

    if (!x)
        return NULL;
    x->world = w;
    x->key_room = room;
    x->next = w->waiters;
    if (x->next)
        x->next->before = x;
    w->waiters = x;
    return x;
}

/* A waiter for the event that has not begun. NULL: out of memory. */
static struct sim_waiter *waiter_open(struct sim_world *w, const struct sim_event *event)
{
    struct sim_waiter *x = w->spare;

    w->spare = NULL;
    if (x && x->key_room < event->key.len) {
        waiter_free(w, x);
        x = NULL;
    }
    if (!x)
        x = waiter_make(w, event->key.len);
    if (!x)
        return NULL;
    x->waiter = (struct weir__waiter){.wake = waiter_woken, .ticket = &w->ticket};
    x->name = NULL;
    x->serial = w->came++;
    x->cost = event->cost;
    x->wake_ns = INT64_MAX;
    x->waits = x->woken = false;
    x->key_len = event->key.len;
    memcpy(x->key, event->key.at, event->key.len);
    return x;
}

/* The waiter is decided, or has not begun. */
static void waiter_close(struct sim_world *w, struct sim_waiter *x)
{
    if (x->scheduled > 0 || x == w->reported || x == w->spare)
        return; /* it is closed by the last item that points to it, or by the next outcome */
    if (w->spare)
        waiter_free(w, x);
    else
        w->spare = x;
}

void sim__waiters_free(struct sim_world *w)
{
    for (struct sim_waiter *x = w->waiters, *next; x; x = next) {
        next = x->next;
        if (x->waits)
            weir__wait_cancel(&x->waiter, sim__now(w));
        free(x);
    }
    agenda_free(&w->agenda);
    agenda_free(&w->ready);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void waiter_schedule(struct sim_world *w, struct sim_waiter *x, int64_t due_ns, int kind)
{
    const struct agenda_item item = {.time_ns = due_ns - w->start_ns, .kind = kind, .what = x};

    if (due_ns > WEIR__NOW_MAX)
        return;
    if (agenda_add(&w->agenda, item))
        x->scheduled++;
    else
        w->failed = true;
}

/* The engine wants to step the waiter at due_ns. Its deadline is on the agenda already. */
static void waiter_wake_later(struct sim_world *w, struct sim_waiter *x)
{
    const int64_t due_ns = x->waiter.due_ns;

    if (due_ns >= x->waiter.deadline_ns || due_ns - w->start_ns >= x->wake_ns)
        return;
    waiter_schedule(w, x, due_ns, AGENDA_WAKE);
    x->wake_ns = due_ns - w->start_ns;
}

/* Takes the first item. NULL: its waiter was decided meanwhile. */
static struct sim_waiter *item_drop(struct sim_world *w, struct agenda *from)
{
    const struct agenda_item item = *agenda_first(from);
    struct sim_waiter *x = item.what;

    agenda_drop_first(from);
    x->scheduled--;
    if (from == &w->ready)
        x->woken = false;
    else if (item.kind == AGENDA_WAKE && item.time_ns == x->wake_ns)
        x->wake_ns = INT64_MAX;
    if (x->waits)
        return x;
    waiter_close(w, x);
    return NULL;
}

/* ---- Outcomes -------------------------------------------------------------------------------- */

/* The next entry draws another random number, unless a queue turned this one away: then no guard
 * has judged it. */
static void draw_next(struct sim_world *w, const struct weir_verdict *v)
{
    const struct weir_term *by = v->which >= 0 ? &w->limit.term[v->which] : NULL;
    uint64_t seed;

    if (by && by->algorithm == WEIR_CONCURRENCY && by->queue > 0)
        return;
    seed = ++w->entries * SIM_RANDOM_STEP;
    w->random = sim_random(&seed);
}

/* Keeps under the waiter's name what an exit has to leave, or that it still waits. False: out of
 * memory. */
static bool waiter_note(struct sim_world *w, struct sim_waiter *x)
{
    const bool entered = x->waiter.decided && x->waiter.verdict.allowed;
    const struct weir_ticket *of = &w->ticket;
    struct sim_ticket *t;

    if (!x->name)
        return true;
    if (!entered)
        w->ticket.n = 0;
    t = sim__ticket_keep(x->name, (struct weir__slice){x->key, x->key_len}, of,
                         offsetof(struct weir_ticket, term) + (size_t)of->n * sizeof of->term[0]);
    if (!t)
        return false;
    t->kind = x->waits ? SIM_TICKET_WAITING : SIM_TICKET_ENTERED;
    t->waiter = x->waits ? x : NULL;
    t->cost = entered ? x->cost : 0;
    return true;
}

static void waiter_leave(struct sim_world *w, struct sim_waiter *x)
{
    x->waits = false;
    w->waiting--;
}

/* Fills the outcome of a waiter that is decided. */
static void waiter_tell(struct sim_world *w, struct sim_waiter *x, struct sim_outcome *out)
{
    struct sim_error unused;

    *out = (struct sim_outcome){.verb = SIM_ENTER,
                                .time_ns = w->time_ns,
                                .key = {x->key, x->key_len},
                                .id = x->name ? x->name->name : (struct weir__slice){"", 0},
                                .cost = x->cost,
                                .has_verdict = true,
                                .verdict = x->waiter.verdict};
    w->failed = w->failed || !waiter_note(w, x) || !sim__state(w, out, &unused);
    w->reported = x;
}

/* Steps the waiter. True: it is decided. */
static bool waiter_step(struct sim_world *w, struct sim_waiter *x, struct sim_outcome *out)
{
    w->ticket.n = 0;
    w->failed = w->failed || weir__wait_step(&x->waiter, sim__now(w)) != 0;
    if (!x->waiter.decided) {
        waiter_wake_later(w, x);
        return false;
    }
    draw_next(w, &x->waiter.verdict);
    waiter_leave(w, x);
    waiter_tell(w, x, out);
    return true;
}

/* Steps a waiter that was woken. At its deadline the engine would refuse it for good if it cannot
 * enter; but another permit may come back at that time (2), so it stays. */
static bool waiter_step_woken(struct sim_world *w, struct sim_waiter *x, struct sim_outcome *out)
{
    const int64_t now_ns = sim__now(w).now_ns;
    const struct weir_request rq =
        sim__request(w, (struct weir__slice){x->key, x->key_len}, x->cost, 0);
    struct weir_verdict v;

    if (now_ns == x->waiter.deadline_ns && weir_peek_at(w->engine, &rq, now_ns, &v) == 0 &&
        !v.allowed && v.reason == WEIR_LIMITED)
        return false;
    return waiter_step(w, x, out);
}

static bool world_report_given_up(struct sim_world *w, struct sim_outcome *out)
{
    struct sim_waiter *x = w->gave_up;

    w->gave_up = x->behind;
    waiter_tell(w, x, out);
    return true;
}

/* Runs the first item of the agenda. True: a waiter is decided. */
static bool world_run_next(struct sim_world *w, struct sim_outcome *out)
{
    const struct agenda_item item = *agenda_first(&w->agenda);
    struct sim_waiter *x = item_drop(w, &w->agenda);

    if (!x)
        return false;
    w->time_ns = item.time_ns;
    return waiter_step(w, x, out);
}

static bool world_is_due(const struct agenda_item *i, int64_t until_ns)
{
    return i && (i->time_ns < until_ns || (i->time_ns == until_ns && i->kind == AGENDA_WAKE));
}

bool sim_world_decided(struct sim_world *w, int64_t until_ns, struct sim_outcome *out)
{
    struct sim_waiter *reported = w->reported;

    w->reported = NULL;
    if (reported)
        waiter_close(w, reported);
    while (!w->failed) {
        if (w->gave_up)
            return world_report_given_up(w, out);
        if (agenda_first(&w->ready)) {
            struct sim_waiter *x = item_drop(w, &w->ready);

            if (x && waiter_step_woken(w, x, out))
                return true;
        } else if (!world_is_due(agenda_first(&w->agenda), until_ns)) {
            return false;
        } else if (world_run_next(w, out)) {
            return true;
        }
    }
    return false;
}

/* ---- Entering -------------------------------------------------------------------------------- */

/* The caller waits from now on. */
static void waiter_join(struct sim_world *w, struct sim_waiter *x)
{
    x->waits = true;
    w->waiting++;
    waiter_schedule(w, x, x->waiter.deadline_ns, AGENDA_DEADLINE);
    waiter_wake_later(w, x);
}

static bool world_begin(struct sim_world *w, struct sim_waiter *x, const struct sim_event *event,
                        struct sim_outcome *out, struct sim_error *error)
{
    const struct weir_request rq =
        sim__request(w, (struct weir__slice){x->key, x->key_len}, event->cost, event->patience_ns);
    int code;

    w->ticket.n = 0;
    code = weir__wait_begin(w->engine, &x->waiter, &rq, WEIR__WAIT_ENTER, sim__now(w));
    if (code)
        return sim__failed(error, "enter", code);
    out->queued = !x->waiter.decided;
    out->verdict = x->waiter.verdict;
    if (out->queued)
        waiter_join(w, x);
    else
        draw_next(w, &out->verdict);
    if (w->failed || !waiter_note(w, x))
        return sim_fail(error, "out of memory");
    return out->queued || sim__state(w, out, error);
}

bool sim__enter(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
                struct sim_error *error)
{
    struct sim_name *name = NULL;
    struct sim_waiter *x;
    bool done;

    if (event->id.len > 0 && sim__is_waiting(w, event->id))
        return sim_fail_word(error, "", event->id, " still waits to enter");
    if (event->id.len > 0 && !(name = sim_names_make(&w->ids, event->id)))
        return sim_fail(error, "out of memory, or of names: at most %d are kept", SIM_IDS_MAX);
    x = waiter_open(w, event);
    if (!x)
        return sim_fail(error, "out of memory");
    x->name = name;
    done = world_begin(w, x, event, out, error);
    if (!x->waits)
        waiter_close(w, x);
    return done;
}

/* ---- Leaving --------------------------------------------------------------------------------- */

/* A caller that still waits gives up; the next call of sim_world_decided reports its outcome. */
static int world_give_up(struct sim_world *w, struct sim_waiter *x)
{
    const int code = weir__wait_expire(&x->waiter, sim__now(w));

    if (code)
        return code;
    waiter_leave(w, x);
    x->behind = NULL;
    *(w->gave_up ? &w->gave_up_last->behind : &w->gave_up) = x;
    w->gave_up_last = x;
    return 0;
}

static int world_leave(struct sim_world *w, struct sim_ticket *t, enum weir_outcome how)
{
    int code;

    memcpy(&w->ticket, t->bytes, t->receipt_len);
    code = weir_exit_at(w->engine, &w->ticket, how, sim__now(w).now_ns);
    memcpy(t->bytes, &w->ticket, offsetof(struct weir_ticket, term)); /* once only */
    t->cost = 0;
    return code;
}

bool sim__exit(struct sim_world *w, const struct sim_event *event, struct sim_outcome *out,
               struct sim_error *error)
{
    const struct sim_name *name = sim_names_find(&w->ids, event->key);
    struct sim_ticket *t = name ? name->value : NULL;
    int code;

    if (!t)
        return sim_fail_word(error, "nothing is named ", event->key,
                             "; name what is entered with enter ... as=ID");
    if (t->kind == SIM_TICKET_TAKEN)
        return sim_fail_word(error, "", event->key,
                             " was taken, not entered: cancel gives it back");
    out->id = name->name;
    out->key = sim__ticket_key(t);
    out->cost = t->cost;
    code =
        t->kind == SIM_TICKET_WAITING ? world_give_up(w, t->waiter) : world_leave(w, t, event->how);
    return code ? sim__failed(error, "exit", code) : sim__look(w, out, error);
}
