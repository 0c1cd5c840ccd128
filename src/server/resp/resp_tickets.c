/* WEIR.ENTER and WEIR.EXIT: guards for callers elsewhere. */
#include <string.h>

#include "server/resp/resp_front.h"
#include "server/tickets/tickets.h"

#define TICKET_ROOM (RESP_INT_ROOM + TICKET_TEXT)

/* ---- Replies --------------------------------------------------------------------------------- */

/* The id, or null if the entry was refused. */
static char *write_ticket(char *at, const struct limit_op *op, bool resp3)
{
    char text[TICKET_TEXT];

    if (!op->ticket)
        return resp_null(at, resp3);
    return resp_bulk(at, text, ticket_print(op, text));
}

static void reply_verbose(struct conn *c, const struct limit_op *op, const struct weir_verdict *v)
{
    char *at;

    resp_reply_verdict(c, op->limit, v->which < 0 ? -1 : v->term, v, 2);
    at = out_room(c, 4 * RESP_INT_ROOM + TICKET_ROOM);
    at = write_ticket(resp_text(at, "ticket"), op, conn_resp(c)->resp3);
    at = resp_text(at, "ttl_ms");
    out_done(c, resp_int(at, op->ticket ? wire_ms(ticket_ttl_ns(op->ticket)) : 0));
}

static void resp_reply_enter(struct conn *c, const struct limit_op *op, int error,
                             const struct weir_verdict *v)
{
    if (error == WEIR_EFULL)
        resp_reply_error(c, TICKETS_FULL);
    else if (error)
        resp_reply_engine_error(c, error);
    else if (op->shape & RESP_VERBOSE)
        reply_verbose(c, op, v);
    else
        out_done(c, write_ticket(resp_write_seven(out_room(c, 8 * RESP_INT_ROOM + TICKET_ROOM), v),
                                 op, conn_resp(c)->resp3));
}

void resp_reply_guards(struct conn *c, const struct limit_op *op, int error,
                       const struct weir_verdict *v)
{
    struct limit_guard guard[WEIR_TERMS_MAX];
    int n;

    if (error) {
        resp_reply_engine_error(c, error);
        return;
    }
    n = limit_guards(op, guard);
    resp_reply_verdict(c, op->limit, v->which < 0 ? -1 : v->term, v, 1);
    resp_reply_text(c, "guards");
    resp_reply_array(c, (size_t)n);
    for (int i = 0; i < n; i++) {
        const struct weir_term *t = &op->limit->parsed->term[guard[i].term];
        const struct weir_view *view = &guard[i].view;

        resp_reply_pairs(c, 5);
        resp_reply_pair(c, "guard", weir_algorithm_name(t->algorithm));
        resp_reply_pair(c, "state", weir_guard_state_name(view->state));
        resp_reply_text(c, "limit");
        resp_reply_int(c, view->limit);
        resp_reply_text(c, "in_flight");
        resp_reply_int(c, view->in_flight);
        resp_reply_text(c, "rate");
        resp_reply_int(c, view->rate);
    }
}

static void resp_reply_exit(struct conn *c, const struct limit_op *op, int error,
                            const struct weir_verdict *v)
{
    (void)op;
    (void)v;
    if (error == WEIR_EGONE)
        resp_reply_error(c, NO_SUCH_TICKET);
    else if (error)
        resp_reply_engine_error(c, error);
    else
        resp_reply_ok(c);
}

/* ---- WEIR.ENTER ------------------------------------------------------------------------------ */

static bool resp_read_ttl(struct conn *c, const struct limit_op *op, struct weir__slice word,
                          int64_t *ttl_ns)
{
    char longest[32];
    struct weir__out out = {longest, sizeof longest, 0};
    int64_t usual_ns;
    const int64_t longest_ns = ticket_longest_ns(op->limit, &usual_ns);

    if (wire_patience(word, ttl_ns) && *ttl_ns > 0 && *ttl_ns <= longest_ns)
        return true;
    weir__out_duration(&out, longest_ns);
    (void)weir__out_end(&out);
    resp_reply_error(c,
                     "invalid TTL %s: expected milliseconds, or a duration such as 30s, above 0 "
                     "and up to the lease of the limit, %s",
                     resp_quoted(word), longest);
    return false;
}

static bool needs_time(struct conn *c, struct resp_words w, size_t i)
{
    if (i + 1 < w.n)
        return true;
    resp_reply_error(c, "%s needs a time: milliseconds, or a duration such as 1.5s",
                     resp_quoted(w.word[i]));
    return false;
}

struct entry_words {
    int64_t ttl_ns;
    bool tied;
};

/* [cost] [TTL t] [WAIT t] [CONN] [VERBOSE] */
static bool resp_read_entry(struct conn *c, struct resp_words w, struct limit_op *op,
                            struct entry_words *e)
{
    size_t i = 3;

    op->patience_ns = 0;
    if (i < w.n && resp_word_is_number(w.word[i]) &&
        !resp_word_int(c, w.word[i++], "cost", 0, INT64_MAX, &op->cost))
        return false;
    for (; i < w.n; i++) {
        if (resp_word_is(w.word[i], "VERBOSE")) {
            op->shape |= RESP_VERBOSE;
        } else if (resp_word_is(w.word[i], "CONN")) {
            e->tied = true;
        } else if (resp_word_is(w.word[i], "TTL")) {
            if (!needs_time(c, w, i) || !resp_read_ttl(c, op, w.word[++i], &e->ttl_ns))
                return false;
        } else if (resp_word_is(w.word[i], "WAIT")) {
            if (!needs_time(c, w, i) || !resp_read_patience(c, w.word[++i], &op->patience_ns))
                return false;
            op->delayed = true;
        } else {
            resp_reply_error(c,
                             "unexpected word %s: expected a cost, TTL t, WAIT t, CONN or VERBOSE",
                             resp_quoted(w.word[i]));
            return false;
        }
    }
    return true;
}

void resp_run_enter(struct conn *c, struct resp_words w)
{
    struct entry_words e = {0};
    struct limit_op op;

    if (!resp_read_limit(c, w.word[1], w.word[2], LIMIT_TAKES, &op) ||
        !resp_read_entry(c, w, &op, &e) || (op.delayed && !resp_may_wait(c)))
        return;
    op.reply = resp_reply_enter;
    ticket_enter(c, &op, e.ttl_ns, e.tied);
}

/* ---- WEIR.EXIT ------------------------------------------------------------------------------- */

static bool read_took(struct conn *c, struct resp_words w, size_t i, struct weir__ending *e)
{
    if (!needs_time(c, w, i))
        return false;
    if (wire_patience(w.word[i + 1], &e->took_ns) && e->took_ns != WEIR_FOREVER) {
        e->timed = true;
        return true;
    }
    resp_reply_error(c, "invalid time %s: expected milliseconds, or a duration such as 1.5s",
                     resp_quoted(w.word[i + 1]));
    return false;
}

void resp_run_exit(struct conn *c, struct resp_words w)
{
    struct weir__ending e = {.how = WEIR_SUCCESS};
    bool said = false;

    for (size_t i = 2; i < w.n; i++) {
        if (!said && ticket_outcome(w.word[i], &e.how)) {
            said = true;
        } else if (!e.timed && resp_word_is(w.word[i], "TOOK")) {
            if (!read_took(c, w, i++, &e))
                return;
        } else {
            resp_reply_error(c,
                             "unexpected word %s: expected OK, ERROR, DROP or IGNORE, and TOOK t",
                             resp_quoted(w.word[i]));
            return;
        }
    }
    ticket_exit(c, w.word[1], &e, 0, resp_reply_exit);
}
