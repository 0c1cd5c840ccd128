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
 *   (4) The lines' lock is held for list work only, never while the engine is asked.
 */
#include <stdlib.h>
#include <string.h>

#include "server/inside.h"

#define CHAINS 256

struct hold {
    struct conn *conn;
    struct segment *segment;
    struct question question; /* its key and name lie behind the struct */
    struct hold *next;        /* of the connection */
    int64_t due_ns, deadline_ns, granted_ns;
    size_t at; /* in the heap */
    bool granted;
    struct weir_verdict verdict;
    struct weir_reservation reservation;

    /* In a line; under its lock. */
    bool in_line, called;
    uint64_t identity;
    struct hold *behind, *next_called;
    char text[];
};

/* One that is answered already, and could be cancelled. */
struct reservation {
    struct reservation *next;
    struct weir_reservation taken;
    size_t len;
    char name[];
};

struct line {
    struct hold *first, *last;
};

struct lines {
    pthread_mutex_t lock;
    struct line chain[CHAINS];
};

struct lines *lines_open(void)
{
    struct lines *l = calloc(1, sizeof *l);

    if (l)
        (void)pthread_mutex_init(&l->lock, NULL);
    return l;
}

void lines_close(struct lines *l)
{
    if (l)
        (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

/* ---- The heap ---------------------------------------------------------------------------------- */

static void put(struct worker *w, size_t at, struct hold *h)
{
    w->heap[at] = h;
    h->at = at;
}

/* Moves the hold at `at` to where its time belongs. */
static void sift(struct worker *w, size_t at)
{
    struct hold *h = w->heap[at];

    while (at > 0 && w->heap[(at - 1) / 2]->due_ns > h->due_ns) {
        put(w, at, w->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * at + 1;

        if (child + 1 < w->heap_n && w->heap[child + 1]->due_ns < w->heap[child]->due_ns)
            child++;
        if (child >= w->heap_n || w->heap[child]->due_ns >= h->due_ns)
            break;
        put(w, at, w->heap[child]);
        at = child;
    }
    put(w, at, h);
}

static bool heap_add(struct worker *w, struct hold *h)
{
    if (w->heap_n == w->heap_cap) {
        const size_t cap = w->heap_cap ? 2 * w->heap_cap : 64;
        struct hold **more = realloc(w->heap, cap * sizeof more[0]);

        if (!more)
            return false;
        w->heap = more;
        w->heap_cap = cap;
    }
    put(w, w->heap_n++, h);
    sift(w, h->at);
    return true;
}

static void heap_remove(struct worker *w, struct hold *h)
{
    const size_t at = h->at;
    struct hold *last = w->heap[--w->heap_n];

    if (last == h)
        return;
    put(w, at, last);
    sift(w, at);
}

static void due_at(struct hold *h, int64_t due_ns)
{
    h->due_ns = due_ns;
    sift(h->conn->worker, h->at);
}

/* ---- Lines ------------------------------------------------------------------------------------- */

static struct line *line_of(struct lines *l, const struct hold *h)
{
    return &l->chain[(h->identity ^ h->identity >> 32) % CHAINS];
}

static bool same_key(const struct hold *a, const struct hold *b)
{
    return a->identity == b->identity && weir__slice_equal(a->question.key, b->question.key);
}

static struct hold *first_like_locked(struct line *line, const struct hold *h)
{
    struct hold *at = line->first;

    while (at && !same_key(at, h))
        at = at->behind;
    return at;
}

static bool join(struct lines *l, struct hold *h)
{
    struct line *line = line_of(l, h);
    bool first;

    (void)pthread_mutex_lock(&l->lock);
    if (!h->in_line) {
        *(line->last ? &line->last->behind : &line->first) = h;
        line->last = h;
        h->in_line = true;
    }
    first = first_like_locked(line, h) == h;
    (void)pthread_mutex_unlock(&l->lock);
    return first;
}

/* Tells the hold's worker that its turn has come. */
static void call_locked(struct hold *h)
{
    struct worker *w = h->conn->worker;

    if (h->called)
        return;
    h->called = true;
    h->next_called = w->called;
    w->called = h;
    (void)uv_async_send(&w->wake);
}

static void uncall_locked(struct hold *h)
{
    struct hold **at = &h->conn->worker->called;

    while (h->called && *at != h)
        at = &(*at)->next_called;
    if (h->called)
        *at = h->next_called;
    h->called = false;
}

static void leave(struct lines *l, struct hold *h)
{
    struct line *line = line_of(l, h);
    struct hold *before = NULL;

    (void)pthread_mutex_lock(&l->lock);
    uncall_locked(h);
    if (h->in_line) {
        for (struct hold *at = line->first; at != h; at = at->behind)
            before = at;
        *(before ? &before->behind : &line->first) = h->behind;
        if (line->last == h)
            line->last = before;
        h->in_line = false;
        h->behind = NULL;
        before = first_like_locked(line, h);
        if (before)
            call_locked(before);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

static bool somebody_waits(struct lines *l, const struct hold *h)
{
    bool yes;

    (void)pthread_mutex_lock(&l->lock);
    yes = first_like_locked(line_of(l, h), h) != NULL;
    (void)pthread_mutex_unlock(&l->lock);
    return yes;
}

static struct hold *next_called(struct worker *w)
{
    struct lines *l = w->server->lines;
    struct hold *h;

    (void)pthread_mutex_lock(&l->lock);
    h = w->called;
    if (h)
        uncall_locked(h);
    (void)pthread_mutex_unlock(&l->lock);
    return h;
}

/* ---- Making and ending ------------------------------------------------------------------------- */

static struct hold *hold_make(struct conn *c, const struct question *q, int64_t now_ns)
{
    struct hold *h = malloc(sizeof *h + q->key.len + q->name.len);

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
    h->identity = ((const struct held_limit *)q->limit)->identity;
    h->deadline_ns = weir__add_sat(now_ns, q->patience_ns);
    limit_hold(q->limit);
    return h;
}

static void hold_free(struct hold *h)
{
    limit_let_go(h->question.limit);
    free(h);
}

static void tally(struct conn *c, int error, const struct weir_verdict *v)
{
    struct counters *n = &c->worker->counters;

    count(&n->takes, 1);
    count(error ? &n->errors : v->allowed ? &n->allowed : &n->denied, 1);
}

/* Says the answer, now or where a place was kept for it. */
static void answer(struct hold *h, int error)
{
    struct conn *c = h->conn;
    const struct weir_verdict *v = error ? NULL : &h->verdict;

    tally(c, error, v);
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
    struct hold **at = &c->holds;

    leave(c->worker->server->lines, h);
    heap_remove(c->worker, h);
    while (*at != h)
        at = &(*at)->next;
    *at = h->next;
    c->held--;
    atomic_fetch_sub(&c->worker->server->held, 1);
}

/* False: as many are held as may be, or there is no memory. */
static bool keep(struct hold *h, int64_t due_ns)
{
    struct conn *c = h->conn;
    struct server *s = c->worker->server;

    h->due_ns = due_ns;
    if (atomic_fetch_add(&s->held, 1) >= s->options.max_held || !heap_add(c->worker, h)) {
        atomic_fetch_sub(&s->held, 1);
        return false;
    }
    h->segment = out_hold(c, h);
    h->next = c->holds;
    c->holds = h;
    c->held++;
    count(&c->worker->counters.held, 1);
    return true;
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
    struct weir *w = h->conn->worker->server->engine;
    const int64_t patience = patience_left(h, now_ns);
    struct weir_request rq = request_of(h, patience);
    struct weir_verdict without;
    int error;

    *again_ns = -1;
    if (atomic_load(&((const struct held_limit *)h->question.limit)->gone))
        return WEIR_EGONE;
    error = weir_reserve(w, &rq, 1, &h->reservation, &h->verdict);
    if (error || h->verdict.allowed)
        return error;
    rq.patience_ns = 0;
    error = weir_peek(w, &rq, &without);
    if (error)
        return error;
    if (without.allowed)
        *again_ns = now_ns;
    else if (without.retry_after_ns >= 0 && without.retry_after_ns <= patience)
        *again_ns = weir__add_sat(now_ns, without.retry_after_ns);
    return 0;
}

/* ---- Names of reservations --------------------------------------------------------------------- */

static struct reservation **find_name(struct conn *c, struct weir__slice name)
{
    struct reservation **at = &c->named;

    while (*at && ((*at)->len != name.len || memcmp((*at)->name, name.at, name.len) != 0))
        at = &(*at)->next;
    return at;
}

static void forget_name(struct conn *c, struct reservation **at)
{
    struct reservation *r = *at;

    *at = r->next;
    c->names--;
    free(r);
}

/* Those that have acted can give nothing back. */
static void forget_acted(struct conn *c)
{
    const int64_t now_ns = weir_now(c->worker->server->engine);
    struct reservation **at = &c->named;

    while (*at)
        if ((*at)->taken.act_ns < now_ns)
            forget_name(c, at);
        else
            at = &(*at)->next;
}

/* The latest of a name is the one that counts. False: there are as many as may be. */
static bool remember(struct hold *h)
{
    struct conn *c = h->conn;
    const struct weir__slice name = h->question.name;
    struct reservation **at = find_name(c, name), *r;

    if (*at)
        forget_name(c, at);
    if (c->names >= HELD_IN_CONN)
        forget_acted(c);
    if (c->names >= HELD_IN_CONN)
        return false;
    r = malloc(sizeof *r + name.len);
    if (!r)
        return false;
    r->taken = h->reservation;
    r->len = name.len;
    memcpy(r->name, name.at, name.len);
    r->next = c->named;
    c->named = r;
    c->names++;
    return true;
}

static int64_t cancel(struct conn *c, struct weir_reservation *r)
{
    int64_t back = 0;

    (void)weir_cancel(c->worker->server->engine, r, &back);
    return back;
}

bool ask_cancel(struct conn *c, struct weir__slice name, int64_t *back)
{
    struct reservation **at;
    struct hold *h = c->holds;

    ask_settle(c);
    while (h && !(name.len > 0 && weir__slice_equal(h->question.name, name)))
        h = h->next;
    if (h) { /* not answered yet: it is told that it will not act */
        *back = h->granted ? cancel(c, &h->reservation) : 0;
        h->verdict = (struct weir_verdict){.reason = WEIR_LIMITED,
                                           .limit = h->verdict.limit,
                                           .remaining = h->verdict.remaining,
                                           .retry_after_ns = 0};
        release(h);
        answer(h, 0);
        hold_free(h);
        return true;
    }
    at = find_name(c, name);
    if (!*at)
        return false;
    *back = cancel(c, &(*at)->taken);
    forget_name(c, at);
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
    if (!error && h->verdict.allowed && h->question.name.len > 0 && !remember(h)) {
        (void)cancel(h->conn, &h->reservation);
        error = WEIR_EFULL;
    }
    answer(h, error);
    return true;
}

void wait_ask(struct conn *c, const struct question *q)
{
    const int64_t now_ns = weir_now(c->worker->server->engine);
    struct hold *h = hold_make(c, q, now_ns);
    int64_t due_ns = -1;
    int error = 0;

    if (!h) {
        q->say(c, q, WEIR_ENOMEM, NULL);
        return;
    }
    if (q->holds && somebody_waits(c->worker->server->lines, h)) {
        due_ns = h->deadline_ns; /* behind them */
    } else {
        error = ask(h, now_ns, &due_ns);
        if (answered_now(h, error, due_ns)) {
            hold_free(h);
            return;
        }
        h->granted = h->verdict.allowed;
        h->granted_ns = now_ns;
        if (h->granted)
            due_ns = h->reservation.act_ns;
        h->verdict.wait_ns = 0;
    }
    if (!keep(h, due_ns)) {
        if (h->granted)
            (void)cancel(c, &h->reservation);
        answer(h, WEIR_EFULL);
        hold_free(h);
        return;
    }
    if (!h->granted && join(c->worker->server->lines, h))
        due_at(h, due_ns); /* else it is called, or its deadline comes */
    else if (!h->granted)
        due_at(h, h->deadline_ns);
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
        (void)remember(h);
    answer(h, error);
    hold_free(h);
    if (!c->to_push) {
        c->to_push = true;
        c->next_push = c->worker->to_push;
        c->worker->to_push = c;
    }
}

/* The first of its line, or out of time. */
static void look_again(struct hold *h, int64_t now_ns)
{
    struct lines *l = h->conn->worker->server->lines;
    int64_t again_ns;
    int error;

    if (!join(l, h) && h->deadline_ns > now_ns) {
        due_at(h, h->deadline_ns);
        return;
    }
    error = ask(h, now_ns, &again_ns);
    if (!error && h->verdict.allowed && h->verdict.wait_ns > 0) {
        h->granted = true;
        h->granted_ns = now_ns;
        leave(l, h);
        due_at(h, h->reservation.act_ns);
        h->verdict.wait_ns = 0;
    } else if (!error && !h->verdict.allowed && again_ns >= 0 && h->deadline_ns > now_ns) {
        due_at(h, weir__min(again_ns, h->deadline_ns));
    } else {
        finish(h, error);
    }
}

/* Lets the answers out; what follows may be new questions. A connection that is closed meanwhile stays in
 * memory until the loop goes round. */
static void push_all(struct worker *w)
{
    while (w->to_push) {
        struct conn *c = w->to_push;

        w->to_push = c->next_push;
        c->to_push = false;
        conn_push(c);
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
    while ((h = next_called(w)))
        due_at(h, now_ns);
    while (w->heap_n > 0 && w->heap[0]->due_ns <= now_ns) {
        h = w->heap[0];
        if (h->granted)
            finish(h, 0);
        else
            look_again(h, now_ns);
        while ((h = next_called(w)))
            due_at(h, now_ns);
    }
    names_leave(w->server->names);
    push_all(w);
}

static void rung(uv_timer_t *t)
{
    wait_run(t->data);
}

void wait_set_timer(struct worker *w)
{
    int64_t left_ns;

    if (w->heap_n == 0 || w->server->options.manual_clock)
        return;
    left_ns = weir__max(0, w->heap[0]->due_ns - weir_now(w->server->engine));
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
            (void)cancel(c, &h->reservation);
        if (h->segment)
            h->segment->hold = NULL; /* its place stays empty */
        hold_free(h);
    }
    while (c->named) {
        (void)cancel(c, &c->named->taken);
        forget_name(c, &c->named);
    }
    names_leave(c->worker->server->names);
}
