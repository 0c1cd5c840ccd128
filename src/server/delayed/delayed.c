/* Takes that wait for their turn, without a thread that waits with them.
 *
 * A limit that can promise the future (buckets, pacers) is asked once, with all of the caller's
 * patience: what it grants is a reservation, and the reply is delayed until the caller may act. A
 * window cannot promise: a waiter that is refused tries again when it may pass. The waiters for one
 * key of such a limit form a wait list, shared by all workers, and only the first of them tries; so
 * they are served in the order they came.
 *
 * Invariants:
 *   (1) A waiter that leaves before it acts gives back what it took.
 *   (2) A delayed reply is in its worker's heap from its creation to its end, at the time when it
 *       must be looked at next.
 *   (3) A delayed reply is in a wait list exactly while it has no grant. A waiter that leaves the
 *       list wakes the next one for that key.
 *   (4) Times here are by the daemon's clock, whatever clock the limit's store has: only durations
 *       are used from the store's verdicts.
 *   (5) A refused waiter is looked at again later than now, so that the loop always ends.
 */
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

#include "server/delayed/delayed.h"

/* ---- Making and ending ----------------------------------------------------------------------- */

static struct delayed_reply *delayed_make(struct conn *c, const struct limit_op *op, int64_t now_ns)
{
    const size_t bytes = sizeof(struct delayed_reply) + op->key.len + op->name.len;
    struct delayed_reply *h = NULL;

    if (!op->delayed || memory_fits(c, bytes + memory_of_limit(op->limit)))
        h = malloc(bytes);
    if (!h)
        return NULL;
    memset(h, 0, sizeof *h);
    h->conn = c;
    h->op = *op;
    if (op->key.len > 0)
        memcpy(h->text, op->key.at, op->key.len);
    if (op->name.len > 0)
        memcpy(h->text + op->key.len, op->name.at, op->name.len);
    h->op.key.at = h->text;
    h->op.name.at = h->text + op->key.len;
    h->identity =
        ((const struct limit_entry *)op->limit)->identity ^
        weir__hash(op->key.at, op->key.len, weir__engine_secret(c->worker->server->engine));
    h->deadline_ns = weir__add_sat(now_ns, op->patience_ns);
    limit_retain(op->limit);
    return h;
}

static void delayed_free(struct delayed_reply *h)
{
    limit_release(h->op.limit);
    free(h);
}

/* The bytes it counts for: the struct with its key and name, and its place in the heap. */
static size_t delayed_bytes(const struct delayed_reply *h)
{
    return sizeof *h + h->op.key.len + h->op.name.len + sizeof h + MEMORY_PIECE;
}

/* Writes the reply, now or into the place that was kept for it. */
static void delayed_write(struct delayed_reply *h, int error)
{
    struct conn *c = h->conn;
    const struct weir_verdict *v = error ? NULL : &h->verdict;

    batch_tally(c->worker, error, v);
    if (h->segment) {
        h->segment->delayed = NULL;
        out_aim(c, h->segment);
    }
    h->op.reply(c, &h->op, error, v);
    out_aim(c, NULL);
}

/* Takes it out of the heap and of all lists. */
static void delayed_unlink(struct delayed_reply *h)
{
    struct conn *c = h->conn;

    wait_list_leave(c->worker->server->wait_lists, h);
    delayed_heap_remove(c->worker, h);
    *(h->prev ? &h->prev->next : &c->delayed) = h->next;
    if (h->next)
        h->next->prev = h->prev;
    c->delayed_n--;
    memory_release_delayed(c);
    memory_remove(c, MEMORY_DELAYED, delayed_bytes(h));
    memory_remove_limit(c, h->op.limit);
}

/* Puts an admitted reply into the heap. False: there is no memory. */
static bool delayed_add(struct delayed_reply *h, int64_t due_ns)
{
    struct conn *c = h->conn;

    h->due_ns = due_ns;
    if (!delayed_heap_add(c->worker, h))
        return false;
    h->segment = out_add_delayed(c, h);
    h->next = c->delayed;
    if (h->next)
        h->next->prev = h;
    c->delayed = h;
    c->delayed_n++;
    memory_add(c, MEMORY_DELAYED, delayed_bytes(h));
    memory_add_limit(c, h->op.limit);
    counter_add(&c->worker->counters.delayed, 1);
    return true;
}

static struct weir *delayed_engine(const struct delayed_reply *h)
{
    return store_of(h->op.limit)->engine;
}

static int64_t delayed_cancel_reservation(struct delayed_reply *h)
{
    const struct store *s = store_of(h->op.limit);
    int64_t back = 0;

    if (s->remote)
        remote_sync(h->conn->worker, s);
    (void)weir_cancel(s->engine, &h->reservation, &back);
    return back;
}

/* ---- Trying ---------------------------------------------------------------------------------- */

static struct weir_request delayed_request(const struct delayed_reply *h, int64_t patience_ns)
{
    return (struct weir_request){.policy = h->op.limit->policy,
                                 .key = h->op.key.at,
                                 .key_len = h->op.key.len,
                                 .cost = h->op.cost,
                                 .patience_ns = patience_ns};
}

static int64_t delayed_patience_left(const struct delayed_reply *h, int64_t now_ns)
{
    const int64_t asked = h->op.patience_ns;

    if (asked == WEIR_FOREVER || asked == WEIR_WAIT_DEFAULT)
        return asked;
    return weir__max(0, h->deadline_ns - now_ns);
}

/* Tries to take with all the patience that is left. *again_ns is when to try again, or -1: it is
 * granted, or trying again is pointless. */
static int delayed_try(struct delayed_reply *h, int64_t now_ns, int64_t *again_ns)
{
    struct weir *w = delayed_engine(h);
    const int64_t patience = delayed_patience_left(h, now_ns);
    struct weir_request rq = delayed_request(h, patience);
    struct weir_verdict without;
    int error;

    *again_ns = -1;
    if (atomic_load(&((const struct limit_entry *)h->op.limit)->gone))
        return WEIR_EGONE;
    error = weir_reserve(w, &rq, 1, &h->reservation, &h->verdict);
    /* Counted from now: from now_ns it could be slightly too early. */
    h->act_ns = weir__add_sat(weir_now(h->conn->worker->server->engine), h->verdict.wait_ns);
    if (error || h->verdict.allowed)
        return error;
    rq.patience_ns = 0;
    error = weir_peek(w, &rq, &without);
    if (error)
        return error;
    weir__retry_plan(&h->again, &without, now_ns, h->deadline_ns);
    *again_ns = h->again.at_ns;
    return 0;
}

/* ---- Giving back ----------------------------------------------------------------------------- */

bool delayed_cancel(struct conn *c, struct weir__slice name, int64_t *back)
{
    struct delayed_reply *h = c->delayed;

    batch_flush(c);
    while (h && !(name.len > 0 && weir__slice_equal(h->op.name, name)))
        h = h->next;
    if (h) { /* not answered yet: the client learns that it may not act */
        *back = h->granted ? delayed_cancel_reservation(h) : 0;
        h->verdict = (struct weir_verdict){.reason = WEIR_LIMITED,
                                           .limit = h->verdict.limit,
                                           .remaining = h->verdict.remaining,
                                           .retry_after_ns = 0};
        delayed_unlink(h);
        delayed_write(h, 0);
        delayed_free(h);
        return true;
    }
    return reservation_cancel(c, name, back);
}

/* A limit may make its callers wait longer than the daemon allows (a pacer, for a caller that names
 * no patience): then the reply is a refusal, and what was taken is given back. True if that
 * happened. */
static bool delayed_refuse_too_long(struct delayed_reply *h)
{
    const int64_t most_ns = h->conn->worker->server->options.max_wait_ns;
    const int64_t wait_ns = h->verdict.wait_ns;

    if (!h->verdict.allowed || wait_ns <= most_ns)
        return false;
    (void)delayed_cancel_reservation(h);
    h->verdict = (struct weir_verdict){.reason = WEIR_LIMITED,
                                       .limit = h->verdict.limit,
                                       .retry_after_ns = wait_ns - most_ns,
                                       .reset_after_ns = h->verdict.reset_after_ns};
    return true;
}

/* ---- The first try --------------------------------------------------------------------------- */

/* Replies if the take is refused, granted for now, or not to be delayed: true if it replied. */
static bool delayed_write_now(struct delayed_reply *h, int error, int64_t again_ns)
{
    const bool waits =
        !error && h->op.delayed && (h->verdict.allowed ? h->verdict.wait_ns > 0 : again_ns >= 0);

    if (waits)
        return false;
    if (!error && h->verdict.allowed && h->op.name.len > 0)
        reservation_keep(h);
    delayed_write(h, error);
    return true;
}

/* No more replies can be delayed: the take succeeds now or not at all. It is an error only if
 * waiting would have helped. */
static void delayed_try_full(struct delayed_reply *h, int64_t now_ns)
{
    const struct weir_request patient = delayed_request(h, delayed_patience_left(h, now_ns));
    struct weir_verdict waiting;
    int64_t again_ns;
    int error;

    h->op.patience_ns = 0;
    h->op.delayed = false;
    h->deadline_ns = now_ns;
    error = delayed_try(h, now_ns, &again_ns);
    if (!error && !h->verdict.allowed) {
        error = weir_peek(delayed_engine(h), &patient, &waiting);
        if (!error && (waiting.allowed || (h->verdict.retry_after_ns >= 0 &&
                                           h->verdict.retry_after_ns <= patient.patience_ns)))
            error = WEIR_EFULL;
    }
    (void)delayed_write_now(h, error, -1);
}

/* For an admitted reply. True if it was answered and needs no delay. */
static bool delayed_try_first(struct delayed_reply *h, int64_t now_ns)
{
    struct wait_lists *l = h->conn->worker->server->wait_lists;
    const bool behind = delayed_patience_left(h, now_ns) > 0 && wait_list_has(l, h);
    /* A waiter behind others tries when it is woken, or when they have left meanwhile. */
    int64_t due_ns = now_ns;

    if (!behind) {
        const int error = delayed_try(h, now_ns, &due_ns);

        if (!error && delayed_refuse_too_long(h))
            due_ns = -1;
        if (delayed_write_now(h, error, due_ns))
            return true;
        h->granted = h->verdict.allowed;
        h->granted_ns = now_ns;
        if (h->granted)
            due_ns = h->act_ns;
        h->verdict.wait_ns = 0;
    }
    if (!delayed_add(h, due_ns)) {
        if (h->granted)
            (void)delayed_cancel_reservation(h);
        delayed_write(h, WEIR_ENOMEM);
        return true;
    }
    if (!h->granted)
        delayed_set_due(h, wait_list_join(l, h) ? due_ns : h->deadline_ns);
    return false;
}

void delayed_take(struct conn *c, const struct limit_op *op)
{
    struct server *s = c->worker->server;
    const int64_t now_ns = weir_now(s->engine);
    const bool waits = op->delayed;
    struct delayed_reply *h = NULL;
    int64_t again_ns;

    if (store_of(op->limit)->remote)
        remote_sync(c->worker, store_of(op->limit));
    if (op->name.len == 0 || reservation_has_room(c, op))
        h = delayed_make(c, op, now_ns);
    if (!h) {
        op->reply(c, op, WEIR_EFULL, NULL);
        return;
    }
    if (!waits) {
        const int error = delayed_try(h, now_ns, &again_ns);

        (void)delayed_write_now(h, error, -1);
    } else if (!memory_admit_delayed(c)) {
        /* Before the engine is asked: a reservation that is made and then turned away could not
         * always be given back, because another caller may have reserved behind it. */
        delayed_try_full(h, now_ns);
    } else if (delayed_try_first(h, now_ns)) {
        memory_release_delayed(c);
    } else {
        return;
    }
    delayed_free(h);
}

/* ---- Later ----------------------------------------------------------------------------------- */

static void delayed_finish(struct delayed_reply *h, int error)
{
    struct conn *c = h->conn;
    const int64_t now_ns = weir_now(c->worker->server->engine);

    delayed_unlink(h);
    if (h->granted) /* the verdict is as old as the wait was long */
        h->verdict.reset_after_ns =
            weir__max(0, h->verdict.reset_after_ns - weir__max(0, now_ns - h->granted_ns));
    if (!error && h->verdict.allowed && h->op.name.len > 0)
        reservation_keep(h);
    delayed_write(h, error);
    delayed_free(h);
    conn_push_later(c);
}

/* The first of its wait list, or out of time. */
static void delayed_retry(struct delayed_reply *h, int64_t now_ns)
{
    struct wait_lists *l = h->conn->worker->server->wait_lists;
    int64_t again_ns;
    int error;

    if (!wait_list_join(l, h) && h->deadline_ns > now_ns) {
        delayed_set_due(h, h->deadline_ns);
        return;
    }
    error = delayed_try(h, now_ns, &again_ns);
    if (!error && h->verdict.allowed && h->verdict.wait_ns > 0) {
        h->granted = true;
        h->granted_ns = now_ns;
        wait_list_leave(l, h);
        delayed_set_due(h, h->act_ns);
        h->verdict.wait_ns = 0;
    } else if (!error && !h->verdict.allowed && again_ns >= 0 && h->deadline_ns > now_ns) {
        delayed_set_due(h, weir__min(again_ns, h->deadline_ns));
    } else {
        delayed_finish(h, error);
    }
}

void delayed_run(struct worker *w)
{
    struct delayed_reply *h;
    int64_t now_ns;

    if (w->heap_n == 0)
        return;
    names_enter(w->server->names);
    now_ns = weir_now(w->server->engine);
    while ((h = wait_list_next_ready(w)))
        delayed_set_due(h, now_ns);
    while (w->heap_n > 0 && w->heap[0]->due_ns <= now_ns) {
        h = w->heap[0];
        if (h->granted)
            delayed_finish(h, 0);
        else
            delayed_retry(h, now_ns);
        while ((h = wait_list_next_ready(w)))
            delayed_set_due(h, now_ns);
    }
    names_leave(w->server->names);
    worker_push_all(w);
}

static void delayed_timer_fired(uv_timer_t *t)
{
    delayed_run(t->data);
}

void delayed_set_timer(struct worker *w)
{
    int64_t left_ns;

    if (w->heap_n == 0)
        return;
    left_ns = weir__max(0, w->heap[0]->due_ns - weir_now(w->server->engine));
    if (left_ns > 0 && w->server->options.manual_clock)
        return; /* a manual clock moves only when it is set */
    /* Rounded up: a timer that fires early finds nothing due. */
    (void)uv_timer_start(&w->due, delayed_timer_fired,
                         (uint64_t)weir__div_ceil(left_ns, WEIR__NS_PER_MS), 0);
}

void delayed_abandon(struct conn *c)
{
    if (!c->delayed && !c->named)
        return;
    names_enter(c->worker->server->names);
    while (c->delayed) {
        struct delayed_reply *h = c->delayed;

        delayed_unlink(h);
        if (h->granted)
            weir__reservation_withdraw(delayed_engine(h), &h->reservation,
                                       weir__now_of(delayed_engine(h)));
        delayed_free(h);
    }
    reservation_abandon(c);
    names_leave(c->worker->server->names);
}
