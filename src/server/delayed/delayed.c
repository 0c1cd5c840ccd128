/* Takes and entries that wait for their turn, without a thread that waits with them.
 *
 * Each is a waiter of the engine (engine/waiter.h), which says what to ask and when: a limit that
 * can promise the future (buckets, pacers) is asked once and the reply is delayed until the caller
 * may act; a window is asked again when the request may pass, by the first waiter for the key. The
 * engine answers at once. A remote store answers later: meanwhile the waiter rests.
 *
 * Invariants:
 *   (1) A waiter that leaves before it acts gives back what it took, also if the answer of a remote
 *       store is still to come.
 *   (2) A delayed reply is in its worker's heap from its creation to its end, at the time when it
 *       must be looked at next: never, while a question is under way.
 *   (3) Times here are by the daemon's clock, whatever clock the limit's store has: only durations
 *       are used from the waiter.
 *   (4) A waiter is looked at again later than now, unless it was woken, so that the loop always
 *       ends.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "server/delayed/delayed.h"

static int64_t daemon_now(const struct delayed_reply *h)
{
    return weir_now(h->worker->server->engine);
}

static const struct store *delayed_store(const struct delayed_reply *h)
{
    return store_of(h->op.limit);
}

static bool delayed_enters(const struct delayed_reply *h)
{
    return h->op.verb == OP_ENTER;
}

static void delayed_set_due(struct delayed_reply *h, int64_t due_ns)
{
    due_heap_set(&h->worker->heap, &h->due, due_ns);
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/* Called by any thread, under the lock of the wait list: its worker shall look at it. */
static void delayed_woken(struct weir__waiter *me)
{
    struct delayed_reply *h = (struct delayed_reply *)me;
    struct worker *w = h->worker;

    (void)pthread_mutex_lock(&w->ready_lock);
    if (!h->ready) {
        h->ready = true;
        h->next_ready = w->ready;
        w->ready = h;
    }
    (void)pthread_mutex_unlock(&w->ready_lock);
    (void)uv_async_send(&w->wake);
}

static void delayed_unready(struct delayed_reply *h)
{
    struct delayed_reply **at = &h->worker->ready;

    (void)pthread_mutex_lock(&h->worker->ready_lock);
    while (h->ready && *at != h)
        at = &(*at)->next_ready;
    if (h->ready)
        *at = h->next_ready;
    h->ready = false;
    (void)pthread_mutex_unlock(&h->worker->ready_lock);
}

/* A waiter of this worker that was woken, or NULL. */
static struct delayed_reply *delayed_next_ready(struct worker *w)
{
    struct delayed_reply *h;

    (void)pthread_mutex_lock(&w->ready_lock);
    h = w->ready;
    if (h) {
        w->ready = h->next_ready;
        h->ready = false;
    }
    (void)pthread_mutex_unlock(&w->ready_lock);
    return h;
}

/* ---- Making and ending ----------------------------------------------------------------------- */

static struct delayed_reply *delayed_make(struct conn *c, const struct limit_op *op)
{
    const size_t bytes = sizeof(struct delayed_reply) + op->key.len + op->name.len;
    struct delayed_reply *h = NULL;

    if (memory_fits(c, bytes + memory_of_limit(op->limit)))
        h = malloc(bytes);
    if (!h)
        return NULL;
    memset(h, 0, sizeof *h);
    h->waiter.wake = delayed_woken;
    if (op->verb == OP_ENTER)
        h->waiter.ticket = &h->entered;
    else
        h->waiter.reservation = &h->reservation;
    h->worker = c->worker;
    h->conn = c;
    h->op = *op;
    op_keep_text(&h->op, h->text);
    h->poll_ns = op->poll_ns > 0 ? weir__add_sat(daemon_now(h), op->poll_ns) : INT64_MAX;
    limit_retain(op->limit);
    return h;
}

static void delayed_free(struct delayed_reply *h)
{
    limit_release(h->op.limit);
    free(h);
}

/* The client has left, and what was granted is given back. */
static void delayed_forget(struct delayed_reply *h)
{
    if (delayed_enters(h))
        ticket_drop(h->worker, h->op.ticket);
    delayed_free(h);
}

/* The bytes it counts for: the struct with its key and name, and its place in the heap. */
static size_t delayed_bytes(const struct delayed_reply *h)
{
    return sizeof *h + h->op.key.len + h->op.name.len + sizeof h + MEMORY_PIECE;
}

/* Puts an admitted reply into the heap. False: there is no memory. */
static bool delayed_add(struct delayed_reply *h)
{
    struct conn *c = h->conn;

    h->due.due_ns = INT64_MAX;
    if (!due_heap_add(&h->worker->heap, &h->due))
        return false;
    h->segment = out_add_delayed(c, h);
    h->next = c->delayed;
    if (h->next)
        h->next->prev = h;
    c->delayed = h;
    c->delayed_n++;
    memory_add(c, MEMORY_DELAYED, delayed_bytes(h));
    memory_add_limit(c, h->op.limit);
    counter_add(&h->worker->counters.delayed, 1);
    return true;
}

/* Takes it out of the heap and of all lists. */
static void delayed_unlink(struct delayed_reply *h)
{
    struct conn *c = h->conn;

    weir__waiter_leave(&h->waiter);
    delayed_unready(h);
    due_heap_remove(&h->worker->heap, &h->due);
    *(h->prev ? &h->prev->next : &c->delayed) = h->next;
    if (h->next)
        h->next->prev = h->prev;
    c->delayed_n--;
    memory_release_delayed(c);
    memory_remove(c, MEMORY_DELAYED, delayed_bytes(h));
    memory_remove_limit(c, h->op.limit);
}

/* Writes the reply, now or into the place that was kept for it. */
static void delayed_write(struct delayed_reply *h, int error, const struct weir_verdict *v)
{
    struct conn *c = h->conn;

    batch_tally(h->worker, &h->op, error, v);
    if (h->segment) {
        h->segment->delayed = NULL;
        out_aim(c, h->segment);
    }
    h->op.reply(c, &h->op, error, error ? NULL : v);
    out_aim(c, NULL);
}

/* Replies with what the waiter has decided. */
static void delayed_reply_decided(struct delayed_reply *h)
{
    struct weir_verdict *v = &h->waiter.verdict;
    const int error = h->waiter.error;

    if (delayed_enters(h)) {
        delayed_write(h, ticket_settle(h->worker, &h->op, error, &h->entered, v), v);
        return;
    }
    if (h->granted) /* the verdict is as old as the wait was long */
        v->reset_after_ns =
            weir__max(0, v->reset_after_ns - weir__max(0, daemon_now(h) - h->granted_ns));
    if (!error && v->allowed && h->op.name.len > 0)
        reservation_keep(h->conn, &h->op, &h->reservation, h->granted ? h->act_ns : daemon_now(h));
    delayed_write(h, error, v);
}

static void delayed_finish(struct delayed_reply *h)
{
    struct conn *c = h->conn;

    delayed_unlink(h);
    delayed_reply_decided(h);
    delayed_free(h);
    conn_push_later(c);
}

/* ---- Stepping -------------------------------------------------------------------------------- */

/* A limit may make its callers wait longer than the daemon allows (a pacer, for a caller that names
 * no patience): then the reply is a refusal, and what was taken is given back. */
static void delayed_refuse_too_long(struct delayed_reply *h)
{
    struct weir__waiter *me = &h->waiter;
    const int64_t most_ns = h->worker->server->options.max_wait_ns;
    const int64_t wait_ns = me->verdict.wait_ns;

    if (me->decided || !me->granted || h->granted || wait_ns <= most_ns)
        return;
    if (delayed_store(h)->remote)
        remote_give_back(h->worker, h->op.limit, &h->reservation, false);
    else
        (void)weir_cancel(delayed_store(h)->engine, &h->reservation, NULL);
    weir__waiter_leave(me);
    me->decided = true;
    me->verdict = (struct weir_verdict){.reason = WEIR_LIMITED,
                                        .which = -1, /* the daemon refuses, not a term */
                                        .limit = me->verdict.limit,
                                        .retry_after_ns = wait_ns - most_ns,
                                        .reset_after_ns = me->verdict.reset_after_ns};
}

static void delayed_end_with(struct delayed_reply *h, int error)
{
    weir__waiter_leave(&h->waiter);
    h->waiter.decided = true;
    h->waiter.error = error;
}

static void delayed_tell(struct delayed_reply *h)
{
    const struct remote_question *q = &h->question;
    const struct weir__wait_answer a = {
        .error = q->error, .verdict = q->verdict, .full = q->full, .queue = q->queue};

    weir__waiter_answer(&h->waiter, weir_now(delayed_store(h)->engine), &a);
}

/* Asks the remote store what the waiter wants to know, until it waits or is decided; or until an
 * answer is to come. */
static void delayed_step_remote(struct delayed_reply *h)
{
    struct weir *engine = delayed_store(h)->engine;
    enum weir__question question;

    while ((question = weir__waiter_next(&h->waiter, weir_now(engine))) != WEIR__ASK_NOTHING) {
        struct limit_op op = h->op;

        op.patience_ns = h->waiter.ask_ns;
        h->charges = question == WEIR__ASK_CHARGE;
        if (!remote_ask(h->worker, &op, h->charges ? h->waiter.reservation : NULL,
                        h->charges ? h->waiter.ticket : NULL, &h->question)) {
            h->conn->asking_n++;
            return;
        }
        delayed_tell(h);
    }
}

static void delayed_step(struct delayed_reply *h)
{
    const struct store *s = delayed_store(h);

    if (!h->waiter.granted && atomic_load(&((const struct limit_entry *)h->op.limit)->gone))
        delayed_end_with(h, WEIR_EGONE);
    else if (s->remote)
        delayed_step_remote(h);
    else
        (void)weir__wait_step(&h->waiter, weir__now_of(s->engine));
    delayed_refuse_too_long(h);
}

/* It is not decided: notes when to look at it again. */
static void delayed_rest(struct delayed_reply *h)
{
    const struct weir__waiter *me = &h->waiter;
    const int64_t now_ns = daemon_now(h);
    const int64_t engine_ns = weir_now(delayed_store(h)->engine);
    int64_t due_ns;

    if (h->question.under_way) {
        delayed_set_due(h, INT64_MAX);
        return;
    }
    due_ns = me->due_ns == INT64_MAX ? INT64_MAX
                                     : weir__add_sat(now_ns, weir__max(0, me->due_ns - engine_ns));
    if (me->granted && !h->granted) {
        h->granted = true;
        h->granted_ns = now_ns;
        h->act_ns = due_ns;
    }
    delayed_set_due(h, weir__min(due_ns, h->poll_ns));
}

/* The client wants to know what remains (POLL): of a grant, how long to wait until it acts. A
 * waiter without a grant is refused, and may ask again when its time comes. */
static void delayed_answer_poll(struct delayed_reply *h)
{
    struct weir__waiter *me = &h->waiter;
    const int64_t left_ns = weir__max(1, me->due_ns - weir_now(delayed_store(h)->engine));

    if (h->granted)
        me->verdict.wait_ns = left_ns;
    else
        me->verdict = (struct weir_verdict){.reason = WEIR_LIMITED,
                                            .which = me->verdict.which,
                                            .term = me->verdict.term,
                                            .limit = me->verdict.limit,
                                            .retry_after_ns = me->timed ? left_ns : h->op.poll_ns,
                                            .reset_after_ns = me->verdict.reset_after_ns};
    delayed_end_with(h, 0);
    delayed_finish(h);
}

static void delayed_go_on(struct delayed_reply *h)
{
    delayed_step(h);
    if (h->waiter.decided)
        delayed_finish(h);
    else if (h->poll_ns <= daemon_now(h) && !h->question.under_way)
        delayed_answer_poll(h);
    else
        delayed_rest(h);
}

/* The answer of a remote store has come. */
static void delayed_answered(struct remote_question *q)
{
    struct delayed_reply *h =
        (struct delayed_reply *)(void *)((char *)q - offsetof(struct delayed_reply, question));

    q->under_way = false;
    if (h->conn) {
        struct conn *c = h->conn;

        c->asking_n--;
        delayed_tell(h);
        delayed_go_on(h);
        conn_answered(c);
        return;
    }
    if (h->charges && !q->error && q->verdict.allowed) {
        if (delayed_enters(h))
            remote_leave(h->worker, h->op.limit, &h->entered);
        else
            remote_give_back(h->worker, h->op.limit, &h->reservation, true);
    }
    delayed_forget(h);
}

/* ---- The beginning --------------------------------------------------------------------------- */

static enum weir__wait_verb delayed_verb(const struct delayed_reply *h)
{
    return delayed_enters(h) ? WEIR__WAIT_ENTER : WEIR__WAIT_TAKE;
}

/* A remote store may answer later: the reply has its place before it is asked. */
static bool delayed_begin_remote(struct delayed_reply *h)
{
    const struct weir_request rq = op_request(&h->op);
    struct weir *engine = delayed_store(h)->engine;
    int error;

    if (!delayed_add(h))
        return false;
    h->question.answered = delayed_answered;
    error = weir__wait_open(engine, &h->waiter, &rq, delayed_verb(h), weir_now(engine));
    if (error)
        delayed_end_with(h, error);
    delayed_go_on(h);
    return true;
}

/* True if it waits. False: it is decided, and is not delayed. */
static bool delayed_begin(struct delayed_reply *h)
{
    const struct weir_request rq = op_request(&h->op);
    const struct store *s = delayed_store(h);
    const int error =
        weir__wait_begin(s->engine, &h->waiter, &rq, delayed_verb(h), weir__now_of(s->engine));

    if (error)
        delayed_end_with(h, error);
    delayed_refuse_too_long(h);
    if (h->waiter.decided)
        return false;
    if (!delayed_add(h)) {
        weir__wait_cancel(&h->waiter, weir__now_of(s->engine));
        delayed_end_with(h, WEIR_ENOMEM);
        return false;
    }
    delayed_rest(h);
    return true;
}

/* There is no room for it. */
static void delayed_turn_away(struct conn *c, const struct limit_op *op, int error)
{
    struct limit_op one = *op;

    if (op->verb == OP_ENTER) {
        ticket_drop(c->worker, op->ticket);
        one.ticket = NULL;
    }
    one.reply(c, &one, error, NULL);
}

static void delayed_wait(struct conn *c, const struct limit_op *op)
{
    struct delayed_reply *h = delayed_make(c, op);

    if (!h) {
        delayed_turn_away(c, op, WEIR_EFULL);
    } else if (store_of(op->limit)->remote) {
        if (delayed_begin_remote(h))
            return;
        delayed_turn_away(c, op, WEIR_ENOMEM);
        delayed_free(h);
    } else {
        if (delayed_begin(h))
            return;
        delayed_reply_decided(h);
        delayed_free(h);
    }
    memory_release_delayed(c);
}

void delayed_enter(struct conn *c, struct limit_op *op)
{
    if (memory_admit_delayed(c))
        delayed_wait(c, op);
    else
        ticket_enter_full(c, op);
}

void delayed_take(struct conn *c, const struct limit_op *op)
{
    if (op->name.len > 0 && !reservation_has_room(c, op))
        op->reply(c, op, WEIR_EFULL, NULL);
    else if (!op->delayed)
        reservation_take(c, op, false);
    else if (!memory_admit_delayed(c))
        /* Before the limit is asked: a reservation that is made and then turned away could not
         * always be given back, because another caller may have reserved behind it. */
        reservation_take(c, op, true);
    else
        delayed_wait(c, op);
}

/* ---- Later ----------------------------------------------------------------------------------- */

static void delayed_mark_ready(struct worker *w, int64_t now_ns)
{
    struct delayed_reply *h;

    while ((h = delayed_next_ready(w)))
        if (!h->question.under_way) /* the waiter itself remembers that it was woken */
            delayed_set_due(h, now_ns);
}

static struct delayed_reply *delayed_of(struct due_item *due)
{
    return (struct delayed_reply *)(void *)((char *)due - offsetof(struct delayed_reply, due));
}

void delayed_run(struct worker *w)
{
    struct due_item *first;
    int64_t now_ns;

    if (w->heap.n == 0)
        return;
    names_enter(w->server->names);
    now_ns = weir_now(w->server->engine);
    delayed_mark_ready(w, now_ns);
    while ((first = due_heap_first(&w->heap)) && first->due_ns <= now_ns) {
        delayed_go_on(delayed_of(first));
        delayed_mark_ready(w, now_ns);
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
    const struct due_item *first = due_heap_first(&w->heap);
    int64_t left_ns;

    if (!first || first->due_ns == INT64_MAX)
        return;
    left_ns = weir__max(0, first->due_ns - weir_now(w->server->engine));
    if (left_ns > 0 && w->server->options.manual_clock)
        return; /* a manual clock moves only when it is set */
    /* Rounded up: a timer that fires early finds nothing due. */
    (void)uv_timer_start(&w->due, delayed_timer_fired,
                         (uint64_t)weir__div_ceil(left_ns, WEIR__NS_PER_MS), 0);
}

/* ---- Giving back ----------------------------------------------------------------------------- */

static struct delayed_reply *delayed_find(struct conn *c, struct weir__slice name)
{
    struct delayed_reply *h = c->delayed;

    while (h && !(name.len > 0 && weir__slice_equal(h->op.name, name)))
        h = h->next;
    return h;
}

bool delayed_is_asked(struct conn *c, struct weir__slice name)
{
    const struct delayed_reply *h = delayed_find(c, name);

    return h ? h->question.under_way : reservation_is_asked(c, name);
}

bool delayed_cancel(struct conn *c, struct weir__slice name, op_reply *reply)
{
    struct delayed_reply *h;
    struct weir_verdict refused = {.reason = WEIR_LIMITED, .which = -1};

    batch_flush(c);
    h = delayed_find(c, name);
    if (!h)
        return reservation_cancel(c, name, reply);
    /* Not answered yet: the client learns that it may not act. */
    refused.limit = h->waiter.verdict.limit;
    refused.remaining = h->waiter.verdict.remaining;
    delayed_unlink(h);
    delayed_write(h, 0, &refused);
    if (!h->waiter.granted)
        h->reservation.n = 0;
    reservation_undo(c, h->op.limit, &h->reservation, reply);
    delayed_free(h);
    return true;
}

/* The client has left. */
static void delayed_withdraw(struct delayed_reply *h)
{
    const struct store *s = delayed_store(h);

    delayed_unlink(h);
    h->conn->asking_n -= h->question.under_way;
    h->conn = NULL;
    if (h->question.under_way && !remote_unask(&h->question))
        return;                         /* delayed_answered does the rest */
    if (s->remote && h->waiter.granted) /* only a take acts later than it is granted */
        remote_give_back(h->worker, h->op.limit, &h->reservation, true);
    else if (!s->remote)
        weir__wait_cancel(&h->waiter, weir__now_of(s->engine));
    delayed_forget(h);
}

void delayed_abandon(struct conn *c)
{
    tickets_leave(c);
    if (!c->delayed && !c->named && !c->asked)
        return;
    names_enter(c->worker->server->names);
    while (c->delayed)
        delayed_withdraw(c->delayed);
    reservation_abandon(c);
    names_leave(c->worker->server->names);
}
