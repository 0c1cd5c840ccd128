/* Takes that wait for their turn, and no thread waits with them.
 *
 * A limit that can promise the future (buckets, pacers) is asked once, with all the patience there is:
 * what it grants is a reservation, and its answer is held back until it acts. A window cannot promise:
 * whoever is refused there asks again when it may pass. Those who do so for one key stand in a line,
 * shared by all workers, and only the first of it asks; so they are served in the order they came.
 *
 * Invariants:
 *   (1) Whoever leaves without acting gives back what it took.
 *   (2) A hold is in its worker's heap from its making to its end, at the time when it must be looked at.
 *   (3) A hold is in a line just while it has no grant. Who leaves a line calls the next of that key.
 *   (4) Times here are the daemon's, whatever clock the limit's store has: of its answers only durations
 *       count.
 *   (5) A hold that is refused is looked at again later than now, so that nobody is asked for ever.
 */
#include <stdlib.h>
#include <string.h>

#include "server/hold.h"

/* ---- Making and ending ------------------------------------------------------------------------- */

static struct hold *hold_make(struct conn *c, const struct question *q, int64_t now_ns)
{
    const size_t bytes = sizeof(struct hold) + q->key.len + q->name.len;
    struct hold *h = NULL;

    if (!q->holds || memory_fits(c, bytes + memory_of_limit(q->limit)))
        h = malloc(bytes);
    if (!h)
        return NULL;
    memset(h, 0, sizeof *h);
    h->conn = c;
    h->question = *q;
    if (q->key.len > 0)
        memcpy(h->text, q->key.at, q->key.len);
    if (q->name.len > 0)
        memcpy(h->text + q->key.len, q->name.at, q->name.len);
    h->question.key.at = h->text;
    h->question.name.at = h->text + q->key.len;
    h->identity = ((const struct held_limit *)q->limit)->identity ^
                  weir__hash(q->key.at, q->key.len, c->worker->server->engine->store->secret);
    h->deadline_ns = weir__add_sat(now_ns, q->patience_ns);
    limit_hold(q->limit);
    return h;
}

static void hold_free(struct hold *h)
{
    limit_let_go(h->question.limit);
    free(h);
}

/* What it takes while it is held: itself, with its key and name, and its place in the heap. */
static size_t bytes_of(const struct hold *h)
{
    return sizeof *h + h->question.key.len + h->question.name.len + sizeof h + MEMORY_PIECE;
}

/* Says the answer, now or where a place was kept for it. */
static void answer(struct hold *h, int error)
{
    struct conn *c = h->conn;
    const struct weir_verdict *v = error ? NULL : &h->verdict;

    ask_tally(c->worker, error, v);
    if (h->segment) {
        h->segment->hold = NULL;
        out_aim(c, h->segment);
    }
    h->question.say(c, &h->question, error, v);
    out_aim(c, NULL);
}

/* Out of the heap and of all lists. */
static void release(struct hold *h)
{
    struct conn *c = h->conn;

    line_leave(c->worker->server->lines, h);
    heap_remove(c->worker, h);
    *(h->prev ? &h->prev->next : &c->holds) = h->next;
    if (h->next)
        h->next->prev = h->prev;
    c->held--;
    memory_leave_seat(c);
    memory_remove(c, MEMORY_DELAYED, bytes_of(h));
    memory_remove_limit(c, h->question.limit);
}

/* The hold has a seat. False: there is no memory. */
static bool keep(struct hold *h, int64_t due_ns)
{
    struct conn *c = h->conn;

    h->due_ns = due_ns;
    if (!heap_add(c->worker, h))
        return false;
    h->segment = out_hold(c, h);
    h->next = c->holds;
    if (h->next)
        h->next->prev = h;
    c->holds = h;
    c->held++;
    memory_add(c, MEMORY_DELAYED, bytes_of(h));
    memory_add_limit(c, h->question.limit);
    count(&c->worker->counters.held, 1);
    return true;
}

static struct weir *engine_of(const struct hold *h)
{
    return store_of(h->question.limit)->engine;
}

static int64_t cancel(struct hold *h)
{
    const struct store *s = store_of(h->question.limit);
    int64_t back = 0;

    if (s->far)
        far_settle(h->conn->worker, s);
    (void)weir_cancel(s->engine, &h->reservation, &back);
    return back;
}

/* ---- Asking ------------------------------------------------------------------------------------ */

static struct weir_request request_of(const struct hold *h, int64_t patience_ns)
{
    return (struct weir_request){.policy = h->question.limit->policy,
                                 .key = h->question.key.at,
                                 .key_len = h->question.key.len,
                                 .cost = h->question.cost,
                                 .patience_ns = patience_ns};
}

static int64_t patience_left(const struct hold *h, int64_t now_ns)
{
    const int64_t asked = h->question.patience_ns;

    if (asked == WEIR_FOREVER || asked == WEIR_WAIT_DEFAULT)
        return asked;
    return weir__max(0, h->deadline_ns - now_ns);
}

/* Asks with all the patience that is left. *again_ns is when to ask again, or -1: it is granted, or
 * there is no point. */
static int ask(struct hold *h, int64_t now_ns, int64_t *again_ns)
{
    struct weir *w = engine_of(h);
    const int64_t patience = patience_left(h, now_ns);
    struct weir_request rq = request_of(h, patience);
    struct weir_verdict without;
    int error;

    *again_ns = -1;
    if (atomic_load(&((const struct held_limit *)h->question.limit)->gone))
        return WEIR_EGONE;
    error = weir_reserve(w, &rq, 1, &h->reservation, &h->verdict);
    /* From now, or it could be a little too early. */
    h->act_ns = weir__add_sat(weir_now(h->conn->worker->server->engine), h->verdict.wait_ns);
    if (error || h->verdict.allowed)
        return error;
    rq.patience_ns = 0;
    error = weir_peek(w, &rq, &without);
    if (error)
        return error;
    weir__again_plan(&h->again, &without, now_ns, h->deadline_ns);
    *again_ns = h->again.at_ns;
    return 0;
}

/* ---- Giving back ------------------------------------------------------------------------------- */

bool ask_cancel(struct conn *c, struct weir__slice name, int64_t *back)
{
    struct hold *h = c->holds;

    ask_settle(c);
    while (h && !(name.len > 0 && weir__slice_equal(h->question.name, name)))
        h = h->next;
    if (h) { /* not answered yet: it is told that it will not act */
        *back = h->granted ? cancel(h) : 0;
        h->verdict = (struct weir_verdict){.reason = WEIR_LIMITED,
                                           .limit = h->verdict.limit,
                                           .remaining = h->verdict.remaining,
                                           .retry_after_ns = 0};
        release(h);
        answer(h, 0);
        hold_free(h);
        return true;
    }
    return reserved_cancel(c, name, back);
}

/* A limit may have its callers wait longer than the daemon does (a pacer's, who does not say for how long): then it
 * is a refusal, and nothing was taken. True if it was so. */
static bool refuse_too_long(struct hold *h)
{
    const int64_t most_ns = h->conn->worker->server->options.max_wait_ns;
    const int64_t wait_ns = h->verdict.wait_ns;

    if (!h->verdict.allowed || wait_ns <= most_ns)
        return false;
    (void)cancel(h);
    h->verdict = (struct weir_verdict){.reason = WEIR_LIMITED,
                                       .limit = h->verdict.limit,
                                       .retry_after_ns = wait_ns - most_ns,
                                       .reset_after_ns = h->verdict.reset_after_ns};
    return true;
}

/* ---- The first question ------------------------------------------------------------------------ */

/* Refused, granted now, or to be answered now whatever it says: true if that was said. */
static bool answered_now(struct hold *h, int error, int64_t again_ns)
{
    const bool waits = !error && h->question.holds &&
                       (h->verdict.allowed ? h->verdict.wait_ns > 0 : again_ns >= 0);

    if (waits)
        return false;
    if (!error && h->verdict.allowed && h->question.name.len > 0)
        reserved_keep(h);
    answer(h, error);
    return true;
}

/* Nobody else can be held: now, or not at all. It is an error only if to wait would have helped. */
static void ask_without_seat(struct hold *h, int64_t now_ns)
{
    const struct weir_request patient = request_of(h, patience_left(h, now_ns));
    struct weir_verdict waiting;
    int64_t again_ns;
    int error;

    h->question.patience_ns = 0;
    h->question.holds = false;
    h->deadline_ns = now_ns;
    error = ask(h, now_ns, &again_ns);
    if (!error && !h->verdict.allowed) {
        error = weir_peek(engine_of(h), &patient, &waiting);
        if (!error && (waiting.allowed || (h->verdict.retry_after_ns >= 0 &&
                                           h->verdict.retry_after_ns <= patient.patience_ns)))
            error = WEIR_EFULL;
    }
    (void)answered_now(h, error, -1);
}

/* With a seat. True if it was answered, and needs none. */
static bool ask_first(struct hold *h, int64_t now_ns)
{
    struct lines *l = h->conn->worker->server->lines;
    const bool behind = patience_left(h, now_ns) > 0 && line_has(l, h);
    int64_t due_ns =
        now_ns; /* behind others it asks when it is called, or if they have left meanwhile */

    if (!behind) {
        const int error = ask(h, now_ns, &due_ns);

        if (!error && refuse_too_long(h))
            due_ns = -1;
        if (answered_now(h, error, due_ns))
            return true;
        h->granted = h->verdict.allowed;
        h->granted_ns = now_ns;
        if (h->granted)
            due_ns = h->act_ns;
        h->verdict.wait_ns = 0;
    }
    if (!keep(h, due_ns)) {
        if (h->granted)
            (void)cancel(h);
        answer(h, WEIR_ENOMEM);
        return true;
    }
    if (!h->granted)
        due_at(h, line_join(l, h) ? due_ns : h->deadline_ns);
    return false;
}

void wait_ask(struct conn *c, const struct question *q)
{
    struct server *s = c->worker->server;
    const int64_t now_ns = weir_now(s->engine);
    const bool waits = q->holds;
    struct hold *h = NULL;
    int64_t again_ns;

    if (store_of(q->limit)->far)
        far_settle(c->worker, store_of(q->limit));
    if (q->name.len == 0 || reserved_has_room(c, q))
        h = hold_make(c, q, now_ns);
    if (!h) {
        q->say(c, q, WEIR_EFULL, NULL);
        return;
    }
    if (!waits) {
        const int error = ask(h, now_ns, &again_ns);

        (void)answered_now(h, error, -1);
    } else if (!memory_take_seat(c)) {
        /* Before the engine is asked: one that is reserved and then sent away could not always be given
         * back, for another may have reserved behind it. */
        ask_without_seat(h, now_ns);
    } else if (ask_first(h, now_ns)) {
        memory_leave_seat(c);
    } else {
        return;
    }
    hold_free(h);
}

/* ---- Later ------------------------------------------------------------------------------------- */

static void finish(struct hold *h, int error)
{
    struct conn *c = h->conn;
    const int64_t now_ns = weir_now(c->worker->server->engine);

    release(h);
    if (h->granted) /* the verdict is as old as the wait was long */
        h->verdict.reset_after_ns =
            weir__max(0, h->verdict.reset_after_ns - weir__max(0, now_ns - h->granted_ns));
    if (!error && h->verdict.allowed && h->question.name.len > 0)
        reserved_keep(h);
    answer(h, error);
    hold_free(h);
    conn_push_later(c);
}

/* The first of its line, or out of time. */
static void look_again(struct hold *h, int64_t now_ns)
{
    struct lines *l = h->conn->worker->server->lines;
    int64_t again_ns;
    int error;

    if (!line_join(l, h) && h->deadline_ns > now_ns) {
        due_at(h, h->deadline_ns);
        return;
    }
    error = ask(h, now_ns, &again_ns);
    if (!error && h->verdict.allowed && h->verdict.wait_ns > 0) {
        h->granted = true;
        h->granted_ns = now_ns;
        line_leave(l, h);
        due_at(h, h->act_ns);
        h->verdict.wait_ns = 0;
    } else if (!error && !h->verdict.allowed && again_ns >= 0 && h->deadline_ns > now_ns) {
        due_at(h, weir__min(again_ns, h->deadline_ns));
    } else {
        finish(h, error);
    }
}

void wait_run(struct worker *w)
{
    struct hold *h;
    int64_t now_ns;

    if (w->heap_n == 0)
        return;
    names_enter(w->server->names);
    now_ns = weir_now(w->server->engine);
    while ((h = line_called(w)))
        due_at(h, now_ns);
    while (w->heap_n > 0 && w->heap[0]->due_ns <= now_ns) {
        h = w->heap[0];
        if (h->granted)
            finish(h, 0);
        else
            look_again(h, now_ns);
        while ((h = line_called(w)))
            due_at(h, now_ns);
    }
    names_leave(w->server->names);
    worker_push_all(w);
}

static void rung(uv_timer_t *t)
{
    wait_run(t->data);
}

void wait_set_timer(struct worker *w)
{
    int64_t left_ns;

    if (w->heap_n == 0)
        return;
    left_ns = weir__max(0, w->heap[0]->due_ns - weir_now(w->server->engine));
    if (left_ns > 0 && w->server->options.manual_clock)
        return; /* time stands still until it is told to go on */
    /* Rounded up: a timer that rings early finds nothing due. */
    (void)uv_timer_start(&w->due, rung, (uint64_t)weir__div_ceil(left_ns, WEIR__NS_PER_MS), 0);
}

void wait_abandon(struct conn *c)
{
    if (!c->holds && !c->named)
        return;
    names_enter(c->worker->server->names);
    while (c->holds) {
        struct hold *h = c->holds;

        release(h);
        if (h->granted)
            weir__withdraw(engine_of(h), &h->reservation, weir__moment_of(engine_of(h)));
        hold_free(h);
    }
    reserved_abandon(c);
    names_leave(c->worker->server->names);
}
