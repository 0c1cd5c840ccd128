/* Entering: the entry is decided now, or waits as a delayed reply does (delayed.h), and its grant
 * becomes an open ticket. See tickets.h. */
#include "server/tickets/ticket_table.h"

#include <stdio.h>

/* ---- Leases ---------------------------------------------------------------------------------- */

bool ticket_term_expires(const struct weir_term *t)
{
    return t->algorithm == WEIR_CONCURRENCY && t->lease_ns != WEIR_NONE;
}

int64_t ticket_longest_ns(const struct limit *l, int64_t *usual_ns)
{
    int64_t lease_ns = INT64_MAX;

    for (int i = 0; i < l->parsed->n; i++)
        if (ticket_term_expires(&l->parsed->term[i]))
            lease_ns = weir__min(lease_ns, l->parsed->term[i].lease_ns);
    *usual_ns = lease_ns == INT64_MAX ? TICKET_LEASE_NS : lease_ns;
    return lease_ns == INT64_MAX ? TICKET_LEASE_MOST_NS : lease_ns;
}

/* ---- The grant ------------------------------------------------------------------------------- */

/* Gives back what was entered for a ticket that cannot be issued. */
static void ticket_return(struct worker *w, const struct limit *l, struct weir_ticket *entered)
{
    const struct store *s = store_of(l);

    if (s->remote)
        remote_leave(w, l, entered);
    else
        (void)weir_exit(s->engine, entered, WEIR_IGNORE);
}

/* The time in the daemon is the time that leases are counted by; only durations are used of the
 * limit's store. */
static int ticket_issue(struct worker *w, struct ticket *t, const struct weir_ticket *entered)
{
    const int64_t now_ns = weir_now(w->server->engine);
    int64_t usual_ns;

    /* Another process has given the limit more terms meanwhile. */
    if (entered->n > t->room)
        return WEIR_EGONE;
    ticket_save(t, entered);
    t->due.due_ns = weir__add_sat(now_ns, t->ttl_ns);
    t->store_ns = weir__add_sat(now_ns, ticket_longest_ns(t->limit, &usual_ns));
    return ticket_add(w, t) ? 0 : WEIR_ENOMEM;
}

int ticket_settle(struct worker *w, struct limit_op *op, int error, struct weir_ticket *entered,
                  const char *name, const struct weir_verdict *v)
{
    if (!error && v->allowed) {
        if (v->reason == WEIR_FALLBACK && !store_of(op->limit)->remote)
            entered->n = 0; /* the entry was not counted; of a remote store, guards here may be */
        /* Another daemon could free its permits, but not tell the guards here how it ended. */
        if (name && entered->n > 0 && limit_node_terms(op->limit->parsed) == 0)
            (void)snprintf(op->ticket->name, sizeof op->ticket->name, "%s", name);
        error = ticket_issue(w, op->ticket, entered);
        if (!error) {
            counter_add(&w->counters.tickets_entered, 1);
            return 0;
        }
        ticket_return(w, op->limit, entered);
    }
    ticket_drop(w, op->ticket);
    op->ticket = NULL;
    return error;
}

void ticket_drop(struct worker *w, struct ticket *t)
{
    ticket_free(w->server, t);
}

/* ---- Entering -------------------------------------------------------------------------------- */

/* Enters now or not at all. `full`: the reply should wait, and no more can: it is an error if
 * waiting might have helped. */
static void ticket_enter_now(struct conn *c, struct limit_op *op, bool full)
{
    struct weir_request rq = op_request(op);
    struct weir_ticket entered = {.n = 0};
    struct weir_verdict v;
    int error;

    rq.patience_ns = 0; /* so it does not wait */
    error = weir_enter(store_of(op->limit)->engine, &rq, &entered, &v);
    if (!error && full && !v.allowed && v.reason == WEIR_LIMITED)
        error = WEIR_EFULL;
    error = ticket_settle(c->worker, op, error, &entered, NULL, &v);
    batch_tally(c->worker, op, error, &v);
    op->reply(c, op, error, error ? NULL : &v);
}

void ticket_enter(struct conn *c, const struct limit_op *op, int64_t ttl_ns, bool tied)
{
    const bool remote = store_of(op->limit)->remote;
    struct limit_op one = *op;
    int64_t usual_ns;

    batch_flush(c);
    (void)ticket_longest_ns(op->limit, &usual_ns);
    one.verb = OP_ENTER;
    if (!one.delayed)
        one.patience_ns = 0;
    one.ticket = ticket_make(c, op->limit, ttl_ns > 0 ? ttl_ns : usual_ns, tied);
    if (!one.ticket)
        one.reply(c, &one, WEIR_EFULL, NULL);
    else if (one.delayed || remote) /* a remote store answers later */
        delayed_enter(c, &one);
    else
        ticket_enter_now(c, &one, false);
}

void ticket_enter_full(struct conn *c, struct limit_op *op)
{
    if (!store_of(op->limit)->remote) {
        ticket_enter_now(c, op, true);
        return;
    }
    ticket_drop(c->worker, op->ticket);
    op->ticket = NULL;
    op->reply(c, op, WEIR_EFULL, NULL);
}
