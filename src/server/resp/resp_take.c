/* The commands that decide. */
#include <string.h>

#include "server/limits/throttle.h"
#include "server/resp/resp_front.h"

#define NAME_MOST 256 /* bytes of a reservation's name */

/* ---- Writing replies ------------------------------------------------------------------------- */

static void resp_reply_cl_throttle(struct conn *c, const struct limit_op *op, int error,
                                   const struct weir_verdict *v)
{
    char *at;

    (void)op;
    if (error) {
        resp_reply_engine_error(c, error);
        return;
    }
    at = resp_array(out_room(c, 6 * RESP_INT_ROOM), 5);
    at = resp_int(at, !v->allowed);
    at = resp_int(at, v->limit);
    at = resp_int(at, v->remaining);
    at = resp_int(at, v->allowed ? -1 : wire_s(v->retry_after_ns));
    out_done(c, resp_int(at, wire_s(v->reset_after_ns)));
}

static void resp_reply_throttle(struct conn *c, const struct limit_op *op, int error,
                                const struct weir_verdict *v)
{
    char *at;

    (void)op;
    if (error) {
        resp_reply_engine_error(c, error);
        return;
    }
    at = resp_array(out_room(c, 6 * RESP_INT_ROOM), 5);
    at = resp_int(at, v->allowed);
    at = resp_int(at, v->limit);
    at = resp_int(at, v->remaining);
    at = resp_int(at, wire_s(v->reset_after_ns));
    out_done(c, resp_int(at, v->allowed ? 0 : wire_s(v->retry_after_ns)));
}

static char *write_six(char *at, const struct weir_verdict *v)
{
    at = resp_int(at, v->allowed);
    at = resp_int(at, v->limit);
    at = resp_int(at, v->remaining);
    at = resp_int(at, v->allowed ? 0 : wire_ms(v->retry_after_ns));
    at = resp_int(at, wire_ms(v->reset_after_ns));
    return resp_int(at, wire_ms(v->wait_ns));
}

static void resp_reply_take(struct conn *c, const struct limit_op *op, int error,
                            const struct weir_verdict *v)
{
    if (error == WEIR_EFULL && op->name.len > 0 && conn_names_are_full(c))
        resp_reply_error(c, "limit reached: %d named reservations and delayed replies",
                         DELAYED_IN_CONN);
    else if (error)
        resp_reply_engine_error(c, error);
    else
        out_done(c, write_six(resp_array(out_room(c, 7 * RESP_INT_ROOM), 6), v));
}

/* ---- Reading operations ---------------------------------------------------------------------- */

static bool key_fits(struct conn *c, struct weir__slice key)
{
    const size_t most = server_options(conn_server(c))->max_key;

    if (key.len <= most)
        return true;
    resp_reply_error(c, "key too long: %zu bytes; expected at most %zu", key.len, most);
    return false;
}

/* Reads the limit and the key of most commands; false if it replied with an error. */
static bool resp_read_limit(struct conn *c, struct weir__slice limit, struct weir__slice key,
                            enum limit_use use, struct limit_op *op)
{
    const char *why;
    int status;

    *op = (struct limit_op){
        .key = key, .cost = 1, .patience_ns = WEIR_WAIT_DEFAULT, .reply = resp_reply_take};
    op->limit = limit_find(c, limit, use, &status, &why);
    if (!op->limit) {
        resp_reply_error(c, "%s", why);
        return false;
    }
    return key_fits(c, key);
}

static bool resp_read_patience(struct conn *c, struct weir__slice word, int64_t *ns)
{
    if (wire_patience(word, ns)) {
        *ns = server_patience(conn_server(c), *ns);
        return true;
    }
    resp_reply_error(c,
                     "invalid time %s: expected milliseconds, a duration such as 1.5s, or forever",
                     resp_quoted(word));
    return false;
}

static bool looks_like_a_number(struct weir__slice word)
{
    return word.len > 0 && (word.at[0] == '-' || (word.at[0] >= '0' && word.at[0] <= '9'));
}

/* [cost] [WAIT ms] [RESERVE ms] [AS id], from word i on. */
static bool resp_read_options(struct conn *c, struct resp_words w, size_t i, bool all,
                              struct limit_op *op)
{
    bool patient = false;

    if (i < w.n && looks_like_a_number(w.word[i]) &&
        !resp_word_int(c, w.word[i++], "cost", 0, INT64_MAX, &op->cost))
        return false;
    for (; i < w.n; i += 2) {
        const bool reserve = resp_word_is(w.word[i], "RESERVE");

        if (reserve || (all && resp_word_is(w.word[i], "WAIT"))) {
            if (i + 1 == w.n) {
                resp_reply_error(
                    c, "%s needs a time: milliseconds, a duration such as 1.5s, or forever",
                    resp_quoted(w.word[i]));
                return false;
            }
            if (patient) {
                resp_reply_error(c, "use WAIT or RESERVE, not both");
                return false;
            }
            patient = true;
            op->delayed = !reserve;
            if (!resp_read_patience(c, w.word[i + 1], &op->patience_ns))
                return false;
        } else if (all && resp_word_is(w.word[i], "AS") && i + 1 < w.n && w.word[i + 1].len > 0) {
            if (w.word[i + 1].len > NAME_MOST) {
                resp_reply_error(c, "name too long: %zu bytes; expected at most %d",
                                 w.word[i + 1].len, NAME_MOST);
                return false;
            }
            op->name = w.word[i + 1];
        } else {
            resp_reply_error(c, "unexpected word %s: expected %s", resp_quoted(w.word[i]),
                             all ? "a cost, WAIT ms, RESERVE ms or AS id" : "a cost or RESERVE ms");
            return false;
        }
    }
    return true;
}

/* ---- CL.THROTTLE and THROTTLE ---------------------------------------------------------------- */

/* The bytes from the first number to the last, if they are RESP: they determine all three numbers,
 * with their lengths. The numbers of an inline command may have had quotes. */
static struct weir__slice as_written(struct resp_words w)
{
    const char *from = w.word[2].at, *to = w.word[4].at + w.word[4].len;
    const bool counted = to > from && w.word[3].at - from > 6 && from[w.word[2].len] == '\r';

    return (struct weir__slice){from, counted ? (size_t)(to - from) : 0};
}

/* Reads the number `what`, which is `more` less than the number we use. */
static bool resp_read_number(struct conn *c, struct weir__slice word, const char *what,
                             enum throttle_number number, int64_t more, int64_t *value)
{
    const struct throttle_range r = throttle_range(number);

    return resp_word_int(c, word, what, r.least - more, r.most - more, value);
}

/* key max_burst count period [cost]. `more` is what may come on top of max_burst at once. */
static bool resp_read_throttle(struct conn *c, struct resp_words w, int64_t more,
                               int64_t least_cost, struct limit_op *op)
{
    const struct weir__slice said = as_written(w);
    int64_t burst, count, period;
    const char *why;

    *op = (struct limit_op){.key = w.word[1], .cost = 1};
    if (!key_fits(c, op->key) ||
        (w.n > 5 && !resp_word_int(c, w.word[5], "cost", least_cost, WEIR_COUNT_MAX, &op->cost)))
        return false;
    op->limit = limit_throttle_cached(c, said, more);
    if (op->limit)
        return true;
    if (!resp_read_number(c, w.word[2], "max_burst", THROTTLE_BURST, more, &burst) ||
        !resp_read_number(c, w.word[3], "count", THROTTLE_COUNT, 0, &count) ||
        !resp_read_number(c, w.word[4], "period", THROTTLE_PERIOD_S, 0, &period))
        return false;
    if (!throttle_refills(burst + more, count, period)) {
        resp_reply_error(c, "invalid max_burst %s: it " THROTTLE_TOO_SLOW, resp_quoted(w.word[2]));
        return false;
    }
    op->limit = limit_throttle(c, burst + more, count, period, &why);
    if (op->limit)
        limit_throttle_cache(c, said, more, op->limit);
    else
        resp_reply_error(c, "%s", why);
    return op->limit != NULL;
}

/* A negative cost gives back; the reply then describes the key as it is. */
static void resp_refund_throttle(struct conn *c, struct limit_op *op)
{
    struct weir_verdict v;
    int error;

    op->cost = -op->cost;
    error = batch_refund(c, op, NULL);
    op->cost = 0;
    if (!error)
        error = batch_peek(c, op, &v);
    resp_reply_cl_throttle(c, op, error, &v);
}

void resp_run_cl_throttle(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (!resp_read_throttle(c, w, 1, -WEIR_COUNT_MAX, &op))
        return;
    op.reply = resp_reply_cl_throttle;
    if (op.cost >= 0)
        batch_add(c, &op);
    else if (resp_may_administer(c, w.word[0]))
        resp_refund_throttle(c, &op);
}

void resp_run_throttle(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (!resp_read_throttle(c, w, 0, 0, &op))
        return;
    op.reply = resp_reply_throttle;
    batch_add(c, &op);
}

/* ---- WEIR.* ---------------------------------------------------------------------------------- */

void resp_run_take(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (resp_read_limit(c, w.word[1], w.word[2], LIMIT_TAKES, &op) &&
        resp_read_options(c, w, 3, true, &op))
        batch_add(c, &op);
}

void resp_run_peek(struct conn *c, struct resp_words w)
{
    struct weir_verdict v;
    struct limit_op op;

    if (resp_read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &op) &&
        resp_read_options(c, w, 3, false, &op))
        resp_reply_take(c, &op, batch_peek(c, &op, &v), &v);
}

void resp_run_refund(struct conn *c, struct resp_words w)
{
    struct limit_op op;
    int64_t back = 0;
    int error;

    if (!resp_may_administer(c, w.word[0]) ||
        !resp_read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &op) ||
        (w.n > 3 && !resp_word_int(c, w.word[3], "cost", 0, INT64_MAX, &op.cost)))
        return;
    error = batch_refund(c, &op, &back);
    if (error)
        resp_reply_engine_error(c, error);
    else
        resp_reply_int(c, back);
}

void resp_run_cancel(struct conn *c, struct resp_words w)
{
    int64_t back = 0;

    if (delayed_cancel(c, w.word[1], &back))
        resp_reply_int(c, back);
    else
        resp_reply_error(c,
                         "no such reservation: %s; expected a name given by AS on this connection",
                         resp_quoted(w.word[1]));
}

void resp_run_reset_key(struct conn *c, struct resp_words w)
{
    struct limit_op op;
    int error;

    if (!resp_may_administer(c, w.word[0]) ||
        !resp_read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &op))
        return;
    error = batch_reset(c, &op);
    if (error == WEIR_EFULL)
        resp_reply_error(c, RESET_FULL);
    else if (error)
        resp_reply_engine_error(c, error);
    else
        resp_reply_ok(c);
}

void resp_run_take_all(struct conn *c, struct resp_words w)
{
    struct limit_op op[WEIR_TERMS_MAX];
    struct weir_verdict v;
    int64_t n;
    int error;

    if (!resp_word_int(c, w.word[1], "number of limits", 1, WEIR_TERMS_MAX, &n))
        return;
    if (w.n != 2 + 3 * (size_t)n) {
        resp_reply_error(c, "expected %lld times limit, key and cost after %s, got %zu words",
                         (long long)n, resp_quoted(w.word[1]), w.n - 2);
        return;
    }
    for (size_t i = 0; i < (size_t)n; i++)
        if (!resp_read_limit(c, w.word[2 + 3 * i], w.word[3 + 3 * i], LIMIT_TAKES, &op[i]) ||
            !resp_word_int(c, w.word[4 + 3 * i], "cost", 0, INT64_MAX, &op[i].cost))
            return;
    error = batch_take_all(c, op, (size_t)n, &v);
    if (error == WEIR_EINVAL)
        resp_reply_error(c, "the limits have more than %d terms in all", WEIR_TERMS_MAX);
    else if (error == WEIR_ESTORE)
        resp_reply_error(c, "the limits are in different stores: WEIR.TAKEALL needs them in one");
    else if (error)
        resp_reply_engine_error(c, error);
    else
        out_done(c,
                 resp_int(write_six(resp_array(out_room(c, 8 * RESP_INT_ROOM), 7), &v), v.which));
}
