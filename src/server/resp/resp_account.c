/* Reservations that are settled later: WEIR.RESERVE, WEIR.COMMIT, WEIR.CANCEL. */
#include "server/account/account.h"
#include "server/resp/resp_front.h"

/* ---- Replies --------------------------------------------------------------------------------- */

static void resp_put_id(struct conn *c, const struct limit_op *op)
{
    char *start, *id;

    if (op->id == 0) {
        resp_reply_null(c);
        return;
    }
    /* Its length comes first, and is known last: so it is written behind its place, and copied. */
    start = out_room(c, 2 * account_id_room(op) + 2 * RESP_INT_ROOM);
    id = start + account_id_room(op) + 2 * RESP_INT_ROOM;
    out_done(c, resp_bulk(start, id, (size_t)(account_id_put(id, op) - id)));
}

static void resp_reply_reserve(struct conn *c, const struct limit_op *op, int error,
                               const struct weir_verdict *v)
{
    if (error == WEIR_EFULL) {
        resp_reply_error(c, ACCOUNTS_FULL);
    } else if (error == WEIR_EINVAL) {
        resp_reply_error(c, "the limit has too many terms: reservations go with %d at most",
                         WEIR_ACCOUNT_TERMS_MAX);
    } else if (error) {
        resp_reply_engine_error(c, error);
    } else if (op->shape & RESP_VERBOSE) {
        resp_reply_verdict(c, op->limit, v->which < 0 ? -1 : v->term, v, 1);
        resp_reply_text(c, "id");
        resp_put_id(c, op);
    } else {
        out_done(c, resp_write_seven(out_room(c, 8 * RESP_INT_ROOM), v));
        resp_put_id(c, op);
    }
}

#define NO_SUCH "no such reservation: it is settled, has lapsed, or was never made"

static void resp_reply_commit(struct conn *c, const struct limit_op *op, int error,
                              const struct weir_verdict *v)
{
    if (error == WEIR_ESETTLED)
        resp_reply_error(c, NO_SUCH);
    else
        resp_reply_take(c, op, error, v);
}

static void resp_reply_cancel(struct conn *c, const struct limit_op *op, int error,
                              const struct weir_verdict *v)
{
    if (error == WEIR_ESETTLED)
        resp_reply_error(c, NO_SUCH);
    else
        resp_reply_back(c, op, error, v);
}

/* ---- Commands -------------------------------------------------------------------------------- */

static bool resp_read_account_ttl(struct conn *c, struct weir__slice word, int64_t *ns)
{
    if (wire_patience(word, ns) && *ns > 0 && *ns <= WEIR_ACCOUNT_TTL_MAX)
        return true;
    resp_reply_error(c,
                     "invalid TTL %s: expected milliseconds, or a duration such as 30s, up to 24h",
                     resp_quoted(word));
    return false;
}

static bool resp_read_lapse(struct conn *c, struct weir__slice word, bool *is_free)
{
    *is_free = resp_word_is(word, "free");
    if (*is_free || resp_word_is(word, "keep"))
        return true;
    resp_reply_error(c, "invalid LAPSE %s: expected keep or free", resp_quoted(word));
    return false;
}

/* TTL t [LAPSE keep|free] [VERBOSE], from word i on. */
static bool resp_read_reserve(struct conn *c, struct resp_words w, size_t i, struct limit_op *op)
{
    for (; i < w.n; i += 2) {
        const bool more = i + 1 < w.n;

        if (resp_word_is(w.word[i], "VERBOSE")) {
            op->shape |= RESP_VERBOSE;
            i--; /* it has no value */
        } else if (more && resp_word_is(w.word[i], "TTL")) {
            if (!resp_read_account_ttl(c, w.word[i + 1], &op->ttl_ns))
                return false;
        } else if (more && resp_word_is(w.word[i], "LAPSE")) {
            if (!resp_read_lapse(c, w.word[i + 1], &op->lapses_free))
                return false;
        } else {
            resp_reply_error(c, "unexpected word %s: expected TTL t, LAPSE keep|free or VERBOSE",
                             resp_quoted(w.word[i]));
            return false;
        }
    }
    if (op->ttl_ns > 0)
        return true;
    resp_reply_error(c, "TTL is missing: expected TTL and milliseconds, or a duration such as 30s");
    return false;
}

void resp_run_reserve(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (!resp_read_limit(c, w.word[1], w.word[2], LIMIT_TAKES, &op) ||
        !resp_word_int(c, w.word[3], "cost", 0, INT64_MAX, &op.cost) ||
        !resp_read_reserve(c, w, 4, &op))
        return;
    op.verb = OP_RESERVE;
    op.name = w.word[1];
    op.reply = resp_reply_reserve;
    batch_run(c, &op);
}

/* Runs a verb on the reservation of that id. */
static void resp_settle(struct conn *c, const struct account_id *id, struct limit_op *op)
{
    struct limit_op of;

    if (!access_key_is_permitted(conn_access(c), id->key)) {
        resp_reply_code(c, "NOPERM " ACCESS_OTHER_KEY);
        return;
    }
    if (!resp_read_limit(c, id->limit, id->key, LIMIT_TAKES, &of))
        return;
    op->limit = of.limit;
    op->key = id->key;
    op->id = id->number;
    batch_run(c, op);
}

void resp_run_commit(struct conn *c, struct resp_words w)
{
    struct limit_op op = {.verb = OP_COMMIT, .reply = resp_reply_commit};
    struct account_id id;

    if (w.n > 3 && !resp_word_is(w.word[3], "VERBOSE")) {
        resp_reply_error(c, "unexpected word %s: expected VERBOSE", resp_quoted(w.word[3]));
        return;
    }
    op.shape = w.n > 3 ? RESP_VERBOSE : 0;
    if (!resp_word_int(c, w.word[2], "cost", 0, INT64_MAX, &op.cost))
        return;
    if (account_id_read(&id, w.word[1]))
        resp_settle(c, &id, &op);
    else
        resp_reply_error(c, "invalid id %s: expected one that WEIR.RESERVE has returned",
                         resp_quoted(w.word[1]));
    account_id_free(&id);
}

/* A name that this connection gave by AS, or the id of any reservation. */
void resp_run_cancel(struct conn *c, struct resp_words w)
{
    struct limit_op op = {.verb = OP_CANCEL, .reply = resp_reply_cancel};
    struct account_id id;

    batch_flush(c);
    if (delayed_is_asked(c, w.word[1])) {
        conn_postpone(c); /* what there is to cancel is not known yet */
        return;
    }
    if (delayed_cancel(c, w.word[1], resp_reply_back))
        return;
    if (account_id_read(&id, w.word[1]))
        resp_settle(c, &id, &op);
    else
        resp_reply_error(c,
                         "no such reservation: %s; expected a name given by AS on this connection, "
                         "or an id that WEIR.RESERVE has returned",
                         resp_quoted(w.word[1]));
    account_id_free(&id);
}
