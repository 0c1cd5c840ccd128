/* Exiting: by the client, with the lease, with the connection, and when the daemon stops. See
 * tickets.h. */
#include <string.h>
#include <strings.h>

#include "server/tickets/ticket_table.h"

#define RUN_MOST 256            /* tickets that end in one go */
#define AGAIN_NS WEIR__NS_PER_S /* a ticket that could not be exited is tried again then */

/* ---- The end of a ticket --------------------------------------------------------------------- */

/* It was exited, or the store did not do it. `left` is what of it is still entered. */
static void ticket_ended(struct worker *w, struct ticket *t, const struct weir_ticket *left,
                         int error)
{
    struct server *s = w->server;
    struct counters *n = &w->counters;

    if (error) {
        ticket_save(t, left);
        ticket_unclaim(s, t, t->by_client ? 0 : weir__add_sat(weir_now(s->engine), AGAIN_NS));
        return;
    }
    counter_add(t->by_client ? &n->tickets_exited
                : t->left    ? &n->tickets_abandoned
                             : &n->tickets_lapsed,
                1);
    ticket_remove(s, t);
    ticket_free(s, t);
}

/* How a ticket ends by itself. A client that has closed its connection says nothing about the
 * call. */
static struct weir__ending ticket_ending(const struct ticket *t)
{
    return (struct weir__ending){.how = t->left ? WEIR_IGNORE : WEIR_DROP, .lapsed = !t->left};
}

bool ticket_outcome(struct weir__slice word, enum weir_outcome *how)
{
    static const char *const WORDS[] = {[WEIR_SUCCESS] = "OK",
                                        [WEIR_ERROR] = "ERROR",
                                        [WEIR_DROP] = "DROP",
                                        [WEIR_IGNORE] = "IGNORE"};

    for (unsigned i = 0; i < sizeof WORDS / sizeof WORDS[0]; i++)
        if (strlen(WORDS[i]) == word.len && strncasecmp(word.at, WORDS[i], word.len) == 0) {
            *how = (enum weir_outcome)i;
            return true;
        }
    return false;
}

/* ---- By the client --------------------------------------------------------------------------- */

/* Another daemon has issued the ticket, or this one before it was restarted: the Redis knows
 * whether it is open. */
static void ticket_exit_elsewhere(struct conn *c, struct weir__slice id, const struct limit_op *op)
{
    struct limit_op one = *op;
    struct ticket_parts p;
    const char *why;
    int status;

    if (ticket_read_parts(id, &p) && access_key_is_permitted(conn_access(c), p.key))
        one.limit = limit_find(c, p.limit, LIMIT_BY_NAME, &status, &why);
    if (!one.limit || !one.limit->policy || !store_of(one.limit)->remote) {
        one.limit = NULL;
        op->reply(c, &one, WEIR_EGONE, NULL);
        return;
    }
    one.key = p.key;
    one.cost = p.cost;
    one.name = p.name;
    remote_release(c, &one);
}

void ticket_exit(struct conn *c, struct weir__slice id, const struct weir__ending *e,
                 uint32_t shape, op_reply *reply)
{
    struct limit_op op = {.reply = reply, .shape = shape};
    struct weir_ticket entered;
    const struct store *s;
    struct ticket *t;
    int error;

    batch_flush(c);
    t = ticket_claim(c->worker->server, id);
    if (!t) {
        ticket_exit_elsewhere(c, id, &op);
        return;
    }
    op.limit = t->limit;
    op.ticket = t;
    s = store_of(t->limit);
    ticket_load(t, &entered);
    (void)weir__exit_node_guards(s->engine, &entered, e, weir__now_of(s->engine));
    if (s->remote && entered.n > 0) {
        remote_exit(c->worker, c, &op, &entered, e->how);
        return;
    }
    error = weir__exit(s->engine, &entered, e, weir__now_of(s->engine));
    ticket_ended(c->worker, t, &entered, error);
    op.limit = NULL; /* the ticket retained it */
    op.ticket = NULL;
    reply(c, &op, error, NULL);
}

/* ---- By itself ------------------------------------------------------------------------------- */

/* The lease is over, or the connection has closed. */
static void ticket_lapse(struct worker *w, struct ticket *t, int64_t now_ns)
{
    const struct weir__ending e = ticket_ending(t);
    const struct store *s = store_of(t->limit);
    const struct limit_op op = {.limit = t->limit, .ticket = t};
    struct weir_ticket entered;
    int error;

    ticket_load(t, &entered);
    (void)weir__exit_node_guards(s->engine, &entered, &e, weir__now_of(s->engine));
    if (s->remote && entered.n > 0 && now_ns < t->store_ns) {
        remote_exit(w, NULL, &op, &entered, e.how);
        return;
    }
    error = s->remote ? 0 : weir__exit(s->engine, &entered, &e, weir__now_of(s->engine));
    ticket_ended(w, t, &entered, error);
}

void ticket_exit_answered(struct worker *w, struct ticket *t, const struct weir_ticket *left,
                          int error)
{
    ticket_ended(w, t, left, error);
}

void tickets_run(struct worker *w)
{
    int64_t now_ns;
    struct ticket *t;

    if (atomic_load_explicit(&w->server->open_tickets, memory_order_relaxed) == 0)
        return;
    names_enter(w->server->names);
    now_ns = weir_now(w->server->engine);
    for (int i = 0; i < RUN_MOST && (t = ticket_claim_due(w, now_ns)); i++)
        ticket_lapse(w, t, now_ns);
    names_leave(w->server->names);
}

void tickets_leave(struct conn *c)
{
    if (c->tickets_n > 0 && tickets_detach(c))
        tickets_run(c->worker);
}

static void tickets_timer_fired(uv_timer_t *t)
{
    tickets_run(t->data);
}

void tickets_set_timer(struct worker *w)
{
    int64_t next_ns = INT64_MAX, left_ns;

    if (atomic_load_explicit(&w->server->open_tickets, memory_order_relaxed) > 0)
        next_ns = tickets_next_ns(w);
    if (next_ns == INT64_MAX)
        return;
    left_ns = weir__max(0, next_ns - weir_now(w->server->engine));
    if (left_ns > 0 && w->server->options.manual_clock)
        return; /* a manual clock moves only when it is set */
    /* Rounded up: a timer that fires early finds nothing due. */
    (void)uv_timer_start(&w->lapse, tickets_timer_fired,
                         (uint64_t)weir__div_ceil(left_ns, WEIR__NS_PER_MS), 0);
}

/* ---- When the daemon stops ------------------------------------------------------------------- */

/* Calls go on while a daemon restarts, so what the store ends by itself (a lease) stays entered.
 * What it would keep for ever is exited. */
static void ticket_strip(const struct ticket *t, struct weir_ticket *entered)
{
    const struct weir_limit *parsed = t->limit->parsed;
    int n = 0;

    for (int i = 0; i < entered->n; i++)
        if (entered->term[i].index >= (uint32_t)parsed->n ||
            !ticket_term_expires(&parsed->term[entered->term[i].index]))
            entered->term[n++] = entered->term[i];
    entered->n = n;
}

void tickets_close(struct worker *w)
{
    struct ticket *t;

    while ((t = tickets_pop(w))) {
        const struct store *s = store_of(t->limit);
        struct weir_ticket entered;

        ticket_load(t, &entered);
        ticket_strip(t, &entered);
        if (!s->remote)
            (void)weir_exit(s->engine, &entered, WEIR_IGNORE);
        ticket_free(w->server, t);
    }
    tickets_free(w);
}
