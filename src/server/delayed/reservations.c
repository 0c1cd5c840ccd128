/* Takes that are answered at once and can be given back later, by the names that their connections
 * gave them. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "server/delayed/delayed.h"

/* A reservation that is answered and can still be cancelled. */
struct reservation {
    struct reservation *next;
    const struct limit *limit; /* retained: its policy must exist for the refund */
    struct weir_reservation taken;
    int64_t act_ns; /* by the daemon's clock */
    size_t len;
    char name[];
};

/* A take that a remote store has not answered yet. */
struct asked_reservation {
    struct remote_question question; /* first */
    struct awaited_reply place;
    struct worker *worker;
    struct conn *conn; /* NULL: the client has left, and what is granted is given back */
    struct asked_reservation *next, *prev; /* in the connection's list */
    struct limit_op op;                    /* its key and name lie behind the struct */
    bool full;
    int64_t patience_ns;
    struct weir_reservation taken;
    char text[];
};

static size_t reservation_bytes(size_t name)
{
    return sizeof(struct reservation) + name + MEMORY_PIECE;
}

static struct reservation **reservation_find(struct conn *c, struct weir__slice name)
{
    struct reservation **at = &c->named;

    while (*at && ((*at)->len != name.len || memcmp((*at)->name, name.at, name.len) != 0))
        at = &(*at)->next;
    return at;
}

static void reservation_forget(struct conn *c, struct reservation **at)
{
    struct reservation *r = *at;

    *at = r->next;
    c->names--;
    memory_remove(c, MEMORY_RESERVATIONS, reservation_bytes(r->len));
    memory_remove_limit(c, r->limit);
    limit_release(r->limit);
    free(r);
}

/* A reservation whose time to act has come can give nothing back. */
static void reservation_forget_acted(struct conn *c)
{
    const int64_t now_ns = weir_now(c->worker->server->engine);
    struct reservation **at = &c->named;

    while (*at)
        if ((*at)->act_ns < now_ns)
            reservation_forget(c, at);
        else
            at = &(*at)->next;
}

static bool reservation_fits(const struct conn *c, const struct limit_op *op)
{
    return !conn_names_are_full(c) &&
           memory_fits(c, reservation_bytes(op->name.len) + memory_of_limit(op->limit));
}

bool reservation_has_room(struct conn *c, const struct limit_op *op)
{
    if (reservation_fits(c, op))
        return true;
    reservation_forget_acted(c);
    return reservation_fits(c, op);
}

void reservation_keep(struct conn *c, const struct limit_op *op,
                      const struct weir_reservation *taken, int64_t act_ns)
{
    const struct weir__slice name = op->name;
    struct reservation **at = reservation_find(c, name), *r;

    if (*at)
        reservation_forget(c, at);
    r = malloc(sizeof *r + name.len);
    if (!r)
        return; /* then it cannot be cancelled by name */
    r->taken = *taken;
    r->act_ns = act_ns;
    r->limit = op->limit;
    limit_retain(r->limit);
    r->len = name.len;
    memcpy(r->name, name.at, name.len);
    r->next = c->named;
    c->named = r;
    c->names++;
    memory_add(c, MEMORY_RESERVATIONS, reservation_bytes(r->len));
    memory_add_limit(c, r->limit);
}

/* ---- Taking ---------------------------------------------------------------------------------- */

/* Replies; c is NULL if the client has gone. Returns whether the grant is kept by a name. */
static bool reservation_reply(struct worker *w, struct conn *c, const struct limit_op *op,
                              int error, const struct weir_verdict *v,
                              const struct weir_reservation *taken)
{
    const bool keeps = c && !error && v->allowed && op->name.len > 0;

    if (keeps)
        reservation_keep(c, op, taken, weir__add_sat(weir_now(w->server->engine), v->wait_ns));
    batch_tally(w, op, error, v);
    if (c)
        op->reply(c, op, error, error ? NULL : v);
    return keeps;
}

/* The error of a take that should have been delayed, and could not be. */
static int reservation_error(bool full, int64_t patience_ns, int error,
                             const struct weir_verdict *v)
{
    const bool waiting_helps =
        full && !error && !v->allowed && v->retry_after_ns >= 0 && v->retry_after_ns <= patience_ns;

    return waiting_helps ? WEIR_EFULL : error;
}

static void reservation_take_here(struct conn *c, const struct limit_op *op, bool full,
                                  int64_t patience_ns)
{
    const struct weir_request rq = op_request(op);
    struct weir_reservation taken;
    struct weir_verdict v;
    int error = weir_reserve(store_of(op->limit)->engine, &rq, 1, &taken, &v);

    error = reservation_error(full, patience_ns, error, &v);
    (void)reservation_reply(c->worker, c, op, error, &v, &taken);
}

/* ---- Taking from a remote store -------------------------------------------------------------- */

static size_t asked_bytes(const struct asked_reservation *asked)
{
    return sizeof *asked + asked->op.key.len + asked->op.name.len + MEMORY_PIECE;
}

static struct asked_reservation *asked_make(struct conn *c, const struct limit_op *op)
{
    struct asked_reservation *asked = malloc(sizeof *asked + op->key.len + op->name.len);

    if (!asked)
        return NULL;
    memset(asked, 0, sizeof *asked);
    asked->worker = c->worker;
    asked->conn = c;
    asked->op = *op;
    op_keep_text(&asked->op, asked->text);
    limit_retain(op->limit);
    memory_grow(&asked->worker->server->memory, MEMORY_REMOTE, asked_bytes(asked));
    return asked;
}

static void asked_free(struct asked_reservation *asked)
{
    memory_shrink(&asked->worker->server->memory, MEMORY_REMOTE, asked_bytes(asked));
    limit_release(asked->op.limit);
    free(asked);
}

static void asked_link(struct asked_reservation *asked)
{
    asked->next = asked->conn->asked;
    if (asked->next)
        asked->next->prev = asked;
    asked->conn->asked = asked;
    asked->conn->names++; /* it has room for its name */
}

static void asked_unlink(struct asked_reservation *asked)
{
    *(asked->prev ? &asked->prev->next : &asked->conn->asked) = asked->next;
    if (asked->next)
        asked->next->prev = asked->prev;
    asked->conn->names--;
}

/* The answer is there. `reply_to` is NULL if the connection has closed. */
static void asked_reply(struct asked_reservation *asked, struct conn *reply_to)
{
    const struct remote_question *q = &asked->question;
    const int error = reservation_error(asked->full, asked->patience_ns, q->error, &q->verdict);
    struct limit_op op = asked->op;

    if (!asked->conn) /* what is granted is not kept, but the reply may still leave */
        op.name.len = 0;
    if (!reservation_reply(asked->worker, reply_to, &op, error, &q->verdict, &asked->taken) &&
        !asked->conn && !q->error && q->verdict.allowed)
        remote_give_back(asked->worker, asked->op.limit, &asked->taken, true);
}

/* The connection has closed: what has not been asked yet is not asked any more. */
static void asked_left(struct awaited_reply *place)
{
    struct asked_reservation *asked =
        (struct asked_reservation *)(void *)((char *)place -
                                             offsetof(struct asked_reservation, place));

    if (!remote_unask(&asked->question))
        return;
    if (asked->conn)
        asked_unlink(asked);
    asked_free(asked);
}

static void asked_answered(struct remote_question *q)
{
    struct asked_reservation *asked = (struct asked_reservation *)q;
    struct conn *c = asked->place.conn;

    if (asked->conn)
        asked_unlink(asked);
    if (c)
        awaited_fill(&asked->place);
    asked_reply(asked, c);
    if (c) {
        out_aim(c, NULL);
        conn_answered(c);
    }
    asked_free(asked);
}

static void reservation_take_remote(struct conn *c, const struct limit_op *op, bool full,
                                    int64_t patience_ns)
{
    struct asked_reservation *asked = asked_make(c, op);

    if (!asked) {
        op->reply(c, op, WEIR_ENOMEM, NULL);
        return;
    }
    asked->full = full;
    asked->patience_ns = patience_ns;
    asked->question.answered = asked_answered;
    asked->place.left = asked_left;
    if (remote_ask(c->worker, &asked->op, &asked->taken, NULL, &asked->question)) {
        asked_reply(asked, c);
        asked_free(asked);
        return;
    }
    awaited_add(c, &asked->place);
    asked_link(asked);
}

void reservation_take(struct conn *c, const struct limit_op *op, bool full)
{
    struct limit_op once = *op;

    if (full)
        once.patience_ns = 0;
    once.delayed = false;
    if (store_of(op->limit)->remote)
        reservation_take_remote(c, &once, full, op->patience_ns);
    else
        reservation_take_here(c, &once, full, op->patience_ns);
}

bool reservation_is_asked(const struct conn *c, struct weir__slice name)
{
    const struct asked_reservation *asked = c->asked;

    while (asked && !(name.len > 0 && weir__slice_equal(asked->op.name, name)))
        asked = asked->next;
    return asked != NULL;
}

/* ---- Giving back ----------------------------------------------------------------------------- */

void reservation_undo(struct conn *c, const struct limit *limit, struct weir_reservation *taken,
                      op_reply *reply)
{
    const struct store *s = store_of(limit);
    struct limit_op op = {.limit = limit, .reply = reply};
    int error;

    if (s->remote && taken->n > 0) {
        remote_cancel(c, &op, taken);
        return;
    }
    error = weir_cancel(s->engine, taken, &op.back);
    reply(c, &op, error, NULL);
}

/* While its store is down it stays, so that the client can try again. */
static bool reservation_must_wait(const struct reservation *r)
{
    const struct store *s = store_of(r->limit);
    struct weir_remote_stats stats;

    if (!s->remote || r->taken.n == 0)
        return false;
    weir_remote_stats(s->engine, &stats);
    return stats.down;
}

bool reservation_cancel(struct conn *c, struct weir__slice name, op_reply *reply)
{
    struct reservation **at = reservation_find(c, name);

    if (!*at)
        return false;
    if (reservation_must_wait(*at)) {
        const struct limit_op op = {.limit = (*at)->limit};

        reply(c, &op, WEIR_EDOWN, NULL);
        return true;
    }
    reservation_undo(c, (*at)->limit, &(*at)->taken, reply);
    reservation_forget(c, at);
    return true;
}

/* What is under way is given back when it is answered. */
static void asked_abandon(struct conn *c)
{
    while (c->asked) {
        struct asked_reservation *asked = c->asked;

        asked_unlink(asked);
        asked->conn = NULL;
    }
}

void reservation_abandon(struct conn *c)
{
    asked_abandon(c);
    while (c->named) {
        const struct store *s = store_of(c->named->limit);

        if (!s->remote)
            (void)weir_cancel(s->engine, &c->named->taken, NULL);
        else if (c->named->taken.n > 0)
            remote_give_back(c->worker, c->named->limit, &c->named->taken, false);
        reservation_forget(c, &c->named);
    }
}
