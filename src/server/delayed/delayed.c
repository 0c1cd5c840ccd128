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

static int64_t daemon_now(const struct delayed_reply *reply)
{
    return weir_now(reply->worker->server->engine);
}

static const struct store *delayed_store(const struct delayed_reply *reply)
{
    return store_of(reply->op.limit);
}

static bool delayed_enters(const struct delayed_reply *reply)
{
    return reply->op.verb == OP_ENTER;
}

static void delayed_set_due(struct delayed_reply *reply, int64_t due_ns)
{
    due_heap_set(&reply->worker->heap, &reply->due, due_ns);
}

/* ---- Waking ---------------------------------------------------------------------------------- */

/* Called by any thread, under the lock of the wait list: its worker shall look at it. */
static void delayed_woken(struct weir__waiter *me)
{
    struct delayed_reply *reply = (struct delayed_reply *)me;
    struct worker *w = reply->worker;

    (void)pthread_mutex_lock(&w->ready_lock);
    if (!reply->ready) {
        reply->ready = true;
        reply->next_ready = w->ready;
        w->ready = reply;
    }
    (void)pthread_mutex_unlock(&w->ready_lock);
    (void)uv_async_send(&w->wake);
}

static void delayed_unready(struct delayed_reply *reply)
{
    struct delayed_reply **at = &reply->worker->ready;

    (void)pthread_mutex_lock(&reply->worker->ready_lock);
    while (reply->ready && *at != reply)
        at = &(*at)->next_ready;
    if (reply->ready)
        *at = reply->next_ready;
    reply->ready = false;
    (void)pthread_mutex_unlock(&reply->worker->ready_lock);
}

/* A waiter of this worker that was woken, or NULL. */
static struct delayed_reply *delayed_next_ready(struct worker *w)
{
    struct delayed_reply *reply;

    (void)pthread_mutex_lock(&w->ready_lock);
    reply = w->ready;
    if (reply) {
        w->ready = reply->next_ready;
        reply->ready = false;
    }
    (void)pthread_mutex_unlock(&w->ready_lock);
    return reply;
}

/* ---- Making and ending ----------------------------------------------------------------------- */

static struct delayed_reply *delayed_make(struct conn *c, const struct limit_op *op)
{
    const size_t bytes = sizeof(struct delayed_reply) + op->key.len + op->name.len;
    struct delayed_reply *reply = NULL;

    if (memory_fits(c, bytes + memory_of_limit(op->limit)))
        reply = malloc(bytes);
    if (!reply)
        return NULL;
    memset(reply, 0, sizeof *reply);
    reply->waiter.wake = delayed_woken;
    if (op->verb == OP_ENTER)
        reply->waiter.ticket = &reply->entered;
    else
        reply->waiter.reservation = &reply->reservation;
    reply->worker = c->worker;
    reply->conn = c;
    reply->op = *op;
    op_keep_text(&reply->op, reply->text);
    reply->poll_ns = op->poll_ns > 0 ? weir__add_sat(daemon_now(reply), op->poll_ns) : INT64_MAX;
    limit_retain(op->limit);
    return reply;
}

static void delayed_free(struct delayed_reply *reply)
{
    limit_release(reply->op.limit);
    free(reply);
}

/* The client has left, and what was granted is given back. */
static void delayed_forget(struct delayed_reply *reply)
{
    if (delayed_enters(reply))
        ticket_drop(reply->worker, reply->op.ticket);
    delayed_free(reply);
}

/* The bytes it counts for: the struct with its key and name, and its place in the heap. */
static size_t delayed_bytes(const struct delayed_reply *reply)
{
    return sizeof *reply + reply->op.key.len + reply->op.name.len + sizeof reply + MEMORY_PIECE;
}

/* Puts an admitted reply into the heap. False: there is no memory. */
static bool delayed_add(struct delayed_reply *reply)
{
    struct conn *c = reply->conn;

    reply->due.due_ns = INT64_MAX;
    if (!due_heap_add(&reply->worker->heap, &reply->due))
        return false;
    reply->segment = out_add_delayed(c, reply);
    reply->next = c->delayed;
    if (reply->next)
        reply->next->prev = reply;
    c->delayed = reply;
    c->delayed_n++;
    memory_add(c, MEMORY_DELAYED, delayed_bytes(reply));
    memory_add_limit(c, reply->op.limit);
    counter_add(&reply->worker->counters.delayed, 1);
    return true;
}

/* Takes it out of the heap and of all lists. */
static void delayed_unlink(struct delayed_reply *reply)
{
    struct conn *c = reply->conn;

    weir__waiter_leave(&reply->waiter);
    delayed_unready(reply);
    due_heap_remove(&reply->worker->heap, &reply->due);
    *(reply->prev ? &reply->prev->next : &c->delayed) = reply->next;
    if (reply->next)
        reply->next->prev = reply->prev;
    c->delayed_n--;
    memory_release_delayed(c);
    memory_remove(c, MEMORY_DELAYED, delayed_bytes(reply));
    memory_remove_limit(c, reply->op.limit);
}

/* Writes the reply, now or into the place that was kept for it. */
static void delayed_write(struct delayed_reply *reply, int error, const struct weir_verdict *v)
{
    struct conn *c = reply->conn;

    batch_tally(reply->worker, &reply->op, error, v);
    if (reply->segment) {
        reply->segment->delayed = NULL;
        out_aim(c, reply->segment);
    }
    reply->op.reply(c, &reply->op, error, error ? NULL : v);
    out_aim(c, NULL);
}

/* Replies with what the waiter has decided. */
static void delayed_reply_decided(struct delayed_reply *reply)
{
    struct weir_verdict *v = &reply->waiter.verdict;
    const int error = reply->waiter.error;

    if (delayed_enters(reply)) {
        delayed_write(reply,
                      ticket_settle(reply->worker, &reply->op, error, &reply->entered,
                                    reply->question.ticket, v),
                      v);
        return;
    }
    if (reply->granted) /* the verdict is as old as the wait was long */
        v->reset_after_ns =
            weir__max(0, v->reset_after_ns - weir__max(0, daemon_now(reply) - reply->granted_ns));
    if (!error && v->allowed && reply->op.name.len > 0)
        reservation_keep(reply->conn, &reply->op, &reply->reservation,
                         reply->granted ? reply->act_ns : daemon_now(reply));
    delayed_write(reply, error, v);
}

static void delayed_finish(struct delayed_reply *reply)
{
    struct conn *c = reply->conn;

    delayed_unlink(reply);
    delayed_reply_decided(reply);
    delayed_free(reply);
    conn_push_later(c);
}

/* ---- Stepping -------------------------------------------------------------------------------- */

/* A limit may make its callers wait longer than the daemon allows (a pacer, for a caller that names
 * no patience): then the reply is a refusal, and what was taken is given back. */
static void delayed_refuse_too_long(struct delayed_reply *reply)
{
    struct weir__waiter *me = &reply->waiter;
    const int64_t most_ns = reply->worker->server->options.max_wait_ns;
    const int64_t wait_ns = me->verdict.wait_ns;

    if (me->decided || !me->granted || reply->granted || wait_ns <= most_ns)
        return;
    if (delayed_store(reply)->remote)
        remote_give_back(reply->worker, reply->op.limit, &reply->reservation, false);
    else
        (void)weir_cancel(delayed_store(reply)->engine, &reply->reservation, NULL);
    weir__waiter_leave(me);
    me->decided = true;
    me->verdict = (struct weir_verdict){.reason = WEIR_LIMITED,
                                        .which = -1, /* the daemon refuses, not a term */
                                        .limit = me->verdict.limit,
                                        .retry_after_ns = wait_ns - most_ns,
                                        .reset_after_ns = me->verdict.reset_after_ns};
}

static void delayed_end_with(struct delayed_reply *reply, int error)
{
    weir__waiter_leave(&reply->waiter);
    reply->waiter.decided = true;
    reply->waiter.error = error;
}

static void delayed_tell(struct delayed_reply *reply)
{
    const struct remote_question *q = &reply->question;
    const struct weir__wait_answer a = {
        .error = q->error, .verdict = q->verdict, .full = q->full, .queue = q->queue};

    weir__waiter_answer(&reply->waiter, weir_now(delayed_store(reply)->engine), &a);
}

/* Asks the remote store what the waiter wants to know, until it waits or is decided; or until an
 * answer is to come. */
static void delayed_step_remote(struct delayed_reply *reply)
{
    struct weir *engine = delayed_store(reply)->engine;
    enum weir__question question;

    while ((question = weir__waiter_next(&reply->waiter, weir_now(engine))) != WEIR__ASK_NOTHING) {
        struct limit_op op = reply->op;

        op.patience_ns = reply->waiter.ask_ns;
        reply->charges = question == WEIR__ASK_CHARGE;
        if (!remote_ask(reply->worker, &op, reply->charges ? reply->waiter.reservation : NULL,
                        reply->charges ? reply->waiter.ticket : NULL, &reply->question)) {
            reply->conn->asking_n++;
            return;
        }
        delayed_tell(reply);
    }
}

static void delayed_step(struct delayed_reply *reply)
{
    const struct store *s = delayed_store(reply);

    if (!reply->waiter.granted && atomic_load(&((const struct limit_entry *)reply->op.limit)->gone))
        delayed_end_with(reply, WEIR_EGONE);
    else if (s->remote)
        delayed_step_remote(reply);
    else
        (void)weir__wait_step(&reply->waiter, weir__now_of(s->engine));
    delayed_refuse_too_long(reply);
}

/* It is not decided: notes when to look at it again. */
static void delayed_rest(struct delayed_reply *reply)
{
    const struct weir__waiter *me = &reply->waiter;
    const int64_t now_ns = daemon_now(reply);
    const int64_t engine_ns = weir_now(delayed_store(reply)->engine);
    int64_t due_ns;

    if (reply->question.under_way) {
        delayed_set_due(reply, INT64_MAX);
        return;
    }
    due_ns = me->due_ns == INT64_MAX ? INT64_MAX
                                     : weir__add_sat(now_ns, weir__max(0, me->due_ns - engine_ns));
    if (me->granted && !reply->granted) {
        reply->granted = true;
        reply->granted_ns = now_ns;
        reply->act_ns = due_ns;
    }
    delayed_set_due(reply, weir__min(due_ns, reply->poll_ns));
}

/* The client wants to know what remains (POLL): of a grant, how long to wait until it acts. A
 * waiter without a grant is refused, and may ask again when its time comes. */
static void delayed_answer_poll(struct delayed_reply *reply)
{
    struct weir__waiter *me = &reply->waiter;
    const int64_t left_ns = weir__max(1, me->due_ns - weir_now(delayed_store(reply)->engine));

    if (reply->granted)
        me->verdict.wait_ns = left_ns;
    else
        me->verdict =
            (struct weir_verdict){.reason = WEIR_LIMITED,
                                  .which = me->verdict.which,
                                  .term = me->verdict.term,
                                  .limit = me->verdict.limit,
                                  .retry_after_ns = me->timed ? left_ns : reply->op.poll_ns,
                                  .reset_after_ns = me->verdict.reset_after_ns};
    delayed_end_with(reply, 0);
    delayed_finish(reply);
}

static void delayed_go_on(struct delayed_reply *reply)
{
    delayed_step(reply);
    if (reply->waiter.decided)
        delayed_finish(reply);
    else if (reply->poll_ns <= daemon_now(reply) && !reply->question.under_way)
        delayed_answer_poll(reply);
    else
        delayed_rest(reply);
}

/* The answer of a remote store has come. */
static void delayed_answered(struct remote_question *q)
{
    struct delayed_reply *reply =
        (struct delayed_reply *)(void *)((char *)q - offsetof(struct delayed_reply, question));

    q->under_way = false;
    if (reply->conn) {
        struct conn *c = reply->conn;

        c->asking_n--;
        delayed_tell(reply);
        delayed_go_on(reply);
        conn_answered(c);
        return;
    }
    if (reply->charges && !q->error && q->verdict.allowed) {
        if (delayed_enters(reply))
            remote_leave(reply->worker, reply->op.limit, &reply->entered);
        else
            remote_give_back(reply->worker, reply->op.limit, &reply->reservation, true);
    }
    delayed_forget(reply);
}

/* ---- The beginning --------------------------------------------------------------------------- */

static enum weir__wait_verb delayed_verb(const struct delayed_reply *reply)
{
    return delayed_enters(reply) ? WEIR__WAIT_ENTER : WEIR__WAIT_TAKE;
}

/* A remote store may answer later: the reply has its place before it is asked. */
static bool delayed_begin_remote(struct delayed_reply *reply)
{
    const struct weir_request rq = op_request(&reply->op);
    struct weir *engine = delayed_store(reply)->engine;
    int error;

    if (!delayed_add(reply))
        return false;
    reply->question.answered = delayed_answered;
    error = weir__wait_open(engine, &reply->waiter, &rq, delayed_verb(reply), weir_now(engine));
    if (error)
        delayed_end_with(reply, error);
    delayed_go_on(reply);
    return true;
}

/* True if it waits. False: it is decided, and is not delayed. */
static bool delayed_begin(struct delayed_reply *reply)
{
    const struct weir_request rq = op_request(&reply->op);
    const struct store *s = delayed_store(reply);
    const int error = weir__wait_begin(s->engine, &reply->waiter, &rq, delayed_verb(reply),
                                       weir__now_of(s->engine));

    if (error)
        delayed_end_with(reply, error);
    delayed_refuse_too_long(reply);
    if (reply->waiter.decided)
        return false;
    if (!delayed_add(reply)) {
        weir__wait_cancel(&reply->waiter, weir__now_of(s->engine));
        delayed_end_with(reply, WEIR_ENOMEM);
        return false;
    }
    delayed_rest(reply);
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
    struct delayed_reply *reply = delayed_make(c, op);

    if (!reply) {
        delayed_turn_away(c, op, WEIR_EFULL);
    } else if (store_of(op->limit)->remote) {
        if (delayed_begin_remote(reply))
            return;
        delayed_turn_away(c, op, WEIR_ENOMEM);
        delayed_free(reply);
    } else {
        if (delayed_begin(reply))
            return;
        delayed_unready(reply); /* another thread may have woken it while it was in the list */
        delayed_reply_decided(reply);
        delayed_free(reply);
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
    struct delayed_reply *reply;

    while ((reply = delayed_next_ready(w)))
        if (!reply->question.under_way) /* the waiter itself remembers that it was woken */
            delayed_set_due(reply, now_ns);
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
    struct delayed_reply *reply = c->delayed;

    while (reply && !(name.len > 0 && weir__slice_equal(reply->op.name, name)))
        reply = reply->next;
    return reply;
}

bool delayed_is_asked(struct conn *c, struct weir__slice name)
{
    const struct delayed_reply *reply = delayed_find(c, name);

    return reply ? reply->question.under_way : reservation_is_asked(c, name);
}

bool delayed_cancel(struct conn *c, struct weir__slice name, op_reply *reply)
{
    struct delayed_reply *delayed;
    struct weir_verdict refused = {.reason = WEIR_LIMITED, .which = -1};

    batch_flush(c);
    delayed = delayed_find(c, name);
    if (!delayed)
        return reservation_cancel(c, name, reply);
    /* Not answered yet: the client learns that it may not act. */
    refused.limit = delayed->waiter.verdict.limit;
    refused.remaining = delayed->waiter.verdict.remaining;
    delayed_unlink(delayed);
    delayed_write(delayed, 0, &refused);
    if (!delayed->waiter.granted)
        delayed->reservation.n = 0;
    reservation_undo(c, delayed->op.limit, &delayed->reservation, reply);
    delayed_free(delayed);
    return true;
}

/* The client has left. */
static void delayed_withdraw(struct delayed_reply *reply)
{
    const struct store *s = delayed_store(reply);

    delayed_unlink(reply);
    reply->conn->asking_n -= reply->question.under_way;
    reply->conn = NULL;
    if (reply->question.under_way && !remote_unask(&reply->question))
        return;                             /* delayed_answered does the rest */
    if (s->remote && reply->waiter.granted) /* only a take acts later than it is granted */
        remote_give_back(reply->worker, reply->op.limit, &reply->reservation, true);
    else if (!s->remote)
        weir__wait_cancel(&reply->waiter, weir__now_of(s->engine));
    delayed_forget(reply);
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
