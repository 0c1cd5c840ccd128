/* The commands that decide. */
#include <string.h>

#include "server/limits/throttle.h"
#include "server/resp/resp_front.h"

#define NAME_MOST 256 /* bytes of a reservation's name */

/* ---- Writing replies ------------------------------------------------------------------------- */

static void resp_reply_ints(struct conn *c, const int64_t *value, size_t n)
{
    out_done(c, resp_ints(out_room(c, (1 + n) * RESP_INT_ROOM), n, value, n));
}

void resp_reply_cl_throttle(struct conn *c, const struct limit_op *op, int error,
                            const struct weir_verdict *v)
{
    (void)op;
    if (error)
        resp_reply_engine_error(c, error);
    else
        resp_reply_ints(c,
                        (int64_t[]){!v->allowed, v->limit, v->remaining,
                                    v->allowed ? -1 : wire_s(v->retry_after_ns),
                                    wire_s(v->reset_after_ns)},
                        5);
}

static void resp_reply_throttle(struct conn *c, const struct limit_op *op, int error,
                                const struct weir_verdict *v)
{
    (void)op;
    if (error)
        resp_reply_engine_error(c, error);
    else
        resp_reply_ints(c,
                        (int64_t[]){v->allowed, v->limit, v->remaining, wire_s(v->reset_after_ns),
                                    v->allowed ? 0 : wire_s(v->retry_after_ns)},
                        5);
}

/* A verdict as numbers; a command may add a seventh. */
struct resp_numbers {
    int64_t of[7];
};

static struct resp_numbers resp_numbers_of(const struct weir_verdict *v)
{
    return (struct resp_numbers){{v->allowed, v->limit, v->remaining,
                                  v->allowed ? 0 : wire_ms(v->retry_after_ns),
                                  wire_ms(v->reset_after_ns), wire_ms(v->wait_ns), v->which}};
}

char *resp_write_seven(char *at, const struct weir_verdict *v)
{
    return resp_ints(at, 7, resp_numbers_of(v).of, 6);
}

/* ---- Replies that name their values (VERBOSE) ------------------------------------------------ */

static char *write_pair(char *at, const char *name, int64_t value)
{
    return resp_int(resp_text(at, name), value);
}

/* A text, or null if it is NULL. */
static char *write_pair_text(char *at, const char *name, const char *text, size_t len, bool resp3)
{
    at = resp_text(at, name);
    return text ? resp_bulk(at, text, len) : resp_null(at, resp3);
}

/* A map of RESP3, pairs in an array of RESP2. */
void resp_reply_verdict(struct conn *c, const struct limit *l, int which,
                        const struct weir_verdict *v, int more)
{
    enum { PAIRS = 13, NAMES_ROOM = 16 };
    const bool resp3 = conn_resp(c)->resp3;
    const char *reason = weir_reason_name(v->reason), *name = l ? l->name : NULL, *term = NULL;
    const size_t len = limit_term_text(l, v, &term), name_len = name ? strlen(name) : 0;
    char *at =
        out_room(c, RESP_INT_ROOM + PAIRS * (2 * RESP_INT_ROOM + NAMES_ROOM) + 64 + name_len + len);

    at = resp_map(at, (size_t)(PAIRS + more), resp3);
    at = write_pair(at, "allowed", v->allowed);
    at = write_pair_text(at, "reason", reason, strlen(reason), resp3);
    at = write_pair(at, "limit", v->limit);
    at = write_pair(at, "remaining", v->remaining);
    at = write_pair(at, "retry_after_ms", v->allowed ? 0 : wire_ms(v->retry_after_ns));
    at = write_pair(at, "reset_after_ms", wire_ms(v->reset_after_ns));
    at = write_pair(at, "wait_ms", wire_ms(v->wait_ns));
    at = write_pair_text(at, "limit_name", name, name_len, resp3);
    at = write_pair(at, "which", which);
    at = write_pair_text(at, "term", term, len, resp3);
    at = write_pair(at, "shadow", v->shadow > 0);
    at = write_pair(at, "warned", v->warned > 0);
    out_done(c, write_pair(at, "overflow", v->overflow));
}

void resp_reply_take(struct conn *c, const struct limit_op *op, int error,
                     const struct weir_verdict *v)
{
    if (error == WEIR_EFULL && op->name.len > 0 && conn_names_are_full(c))
        resp_reply_error(c, "limit reached: %d named reservations and delayed replies",
                         DELAYED_IN_CONN);
    else if (error)
        resp_reply_engine_error(c, error);
    else if (op->shape & RESP_VERBOSE)
        resp_reply_verdict(c, op->limit, v->which < 0 ? -1 : v->term, v, 0);
    else
        resp_reply_ints(c, resp_numbers_of(v).of, 6);
}

void resp_reply_take_all(struct conn *c, const struct limit_op *op, int error,
                         const struct weir_verdict *v)
{
    if (error == WEIR_EINVAL)
        resp_reply_error(c, "the limits have more than %d terms in all", WEIR_TERMS_MAX);
    else if (error == WEIR_ESTORE)
        resp_reply_error(c, "the limits are in different stores: expected one for all of them");
    else if (error)
        resp_reply_engine_error(c, error);
    else if (op->shape & RESP_VERBOSE)
        resp_reply_verdict(c, op->limit, v->which, v, 0);
    else
        resp_reply_ints(c, resp_numbers_of(v).of, 7);
}

void resp_reply_back(struct conn *c, const struct limit_op *op, int error,
                     const struct weir_verdict *v)
{
    (void)v;
    if (error)
        resp_reply_engine_error(c, error);
    else
        resp_reply_int(c, op->back);
}

static void resp_reply_reset_key(struct conn *c, const struct limit_op *op, int error,
                                 const struct weir_verdict *v)
{
    (void)op;
    (void)v;
    if (error == WEIR_EFULL)
        resp_reply_error(c, RESET_FULL);
    else if (error)
        resp_reply_engine_error(c, error);
    else
        resp_reply_ok(c);
}

/* ---- Reading operations ---------------------------------------------------------------------- */

bool resp_key_fits(struct conn *c, struct weir__slice key)
{
    const size_t most = server_options(conn_server(c))->max_key;

    if (key.len <= most)
        return true;
    resp_reply_error(c, "key too long: %zu bytes; expected at most %zu", key.len, most);
    return false;
}

bool resp_read_limit(struct conn *c, struct weir__slice limit, struct weir__slice key,
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
    return resp_key_fits(c, key);
}

bool resp_read_patience(struct conn *c, struct weir__slice word, int64_t *ns)
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

bool resp_word_is_number(struct weir__slice word)
{
    return word.len > 0 && (word.at[0] == '-' || (word.at[0] >= '0' && word.at[0] <= '9'));
}

/* POLL belongs to WAIT. */
static bool resp_options_agree(struct conn *c, const struct limit_op *op)
{
    if (op->numbers && (op->delayed || op->name.len > 0)) {
        resp_reply_error(c, LIMIT_NUMBERS_AT_ONCE ": use LIMIT without WAIT and AS");
        return false;
    }
    if (op->poll_ns == 0 || op->delayed)
        return true;
    resp_reply_error(c, "POLL goes with WAIT: it says when a reply that waits comes at the latest");
    return false;
}

/* POLL t, from word i on. */
static bool resp_read_poll(struct conn *c, struct resp_words w, size_t i, struct limit_op *op)
{
    if (i + 1 < w.n && resp_read_patience(c, w.word[i + 1], &op->poll_ns)) {
        if (op->poll_ns > 0)
            return true;
        resp_reply_error(c, "invalid time %s: POLL needs more than 0", resp_quoted(w.word[i + 1]));
    } else if (i + 1 == w.n) {
        resp_reply_error(c, "POLL needs a time: milliseconds, or a duration such as 1s");
    }
    return false;
}

/* AS id, from word i on. */
static bool resp_read_name(struct conn *c, struct resp_words w, size_t i, struct limit_op *op)
{
    const size_t len = i + 1 < w.n ? w.word[i + 1].len : 0;

    if (len == 0)
        resp_reply_error(c, "AS needs a name that is not empty");
    else if (len > NAME_MOST)
        resp_reply_error(c, "name too long: %zu bytes; expected at most %d", len, NAME_MOST);
    else
        op->name = w.word[i + 1];
    return op->name.len > 0;
}

/* LIMIT numbers, from word i on. */
static bool resp_read_numbers(struct conn *c, struct resp_words w, size_t i, struct limit_op *op)
{
    const char *why = "LIMIT needs numbers: a limit such as '200/s'";
    int status;

    if (i + 1 < w.n)
        op->numbers = limit_numbers(c, op->limit, w.word[i + 1], &status, &why);
    if (!op->numbers)
        resp_reply_error(c, "%s", why);
    return op->numbers != NULL;
}

/* [cost] [WAIT t [POLL t]] [PATIENCE t] [AS id] [LIMIT numbers] [VERBOSE], from word i on. */
static bool resp_read_options(struct conn *c, struct resp_words w, size_t i, bool all,
                              struct limit_op *op)
{
    bool patient = false;

    if (i < w.n && resp_word_is_number(w.word[i]) &&
        !resp_word_int(c, w.word[i++], "cost", 0, INT64_MAX, &op->cost))
        return false;
    for (; i < w.n; i += 2) {
        const bool patience = resp_word_is(w.word[i], "PATIENCE");

        if (resp_word_is(w.word[i], "VERBOSE")) {
            op->shape |= RESP_VERBOSE;
            i--; /* it has no value */
        } else if (patience || (all && resp_word_is(w.word[i], "WAIT"))) {
            if (i + 1 == w.n) {
                resp_reply_error(
                    c, "%s needs a time: milliseconds, a duration such as 1.5s, or forever",
                    resp_quoted(w.word[i]));
                return false;
            }
            if (patient) {
                resp_reply_error(c, "use WAIT or PATIENCE, not both");
                return false;
            }
            patient = true;
            op->delayed = !patience;
            if (!resp_read_patience(c, w.word[i + 1], &op->patience_ns))
                return false;
        } else if (resp_word_is(w.word[i], "LIMIT")) {
            if (!resp_read_numbers(c, w, i, op))
                return false;
        } else if (all && resp_word_is(w.word[i], "POLL")) {
            if (!resp_read_poll(c, w, i, op))
                return false;
        } else if (all && resp_word_is(w.word[i], "AS")) {
            if (!resp_read_name(c, w, i, op))
                return false;
        } else {
            resp_reply_error(
                c, "unexpected word %s: expected %s", resp_quoted(w.word[i]),
                all ? "a cost, WAIT ms, POLL ms, PATIENCE ms, AS id, LIMIT numbers or VERBOSE"
                    : "a cost, PATIENCE ms, LIMIT numbers or VERBOSE");
            return false;
        }
    }
    return resp_options_agree(c, op);
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
    if (!resp_key_fits(c, op->key) ||
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

void resp_run_cl_throttle(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (!resp_read_throttle(c, w, 1, -WEIR_COUNT_MAX, &op))
        return;
    op.reply = resp_reply_cl_throttle;
    if (op.cost >= 0) {
        batch_add(c, &op);
        return;
    }
    if (!resp_may_administer(c, w.word[0]))
        return;
    op.verb = OP_REFUND_AND_PEEK; /* a negative cost gives back */
    op.cost = -op.cost;
    batch_run(c, &op);
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
        resp_read_options(c, w, 3, true, &op) && (!op.delayed || resp_may_wait(c)))
        batch_add(c, &op);
}

void resp_run_peek(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (!resp_read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &op) ||
        !resp_read_options(c, w, 3, false, &op))
        return;
    op.verb = OP_PEEK;
    if (op.shape & RESP_VERBOSE && limit_has_guard(op.limit->parsed))
        op.reply = resp_reply_guards;
    batch_run(c, &op);
}

void resp_run_charge(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (!resp_read_limit(c, w.word[1], w.word[2], LIMIT_TAKES, &op) ||
        !resp_word_int(c, w.word[3], "cost", 0, INT64_MAX, &op.cost))
        return;
    if (w.n > 4 && !resp_word_is(w.word[4], "VERBOSE")) {
        resp_reply_error(c, "unexpected word %s: expected VERBOSE", resp_quoted(w.word[4]));
        return;
    }
    op.shape = w.n > 4 ? RESP_VERBOSE : 0;
    op.verb = OP_CHARGE;
    batch_run(c, &op);
}

void resp_run_refund(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (!resp_may_administer(c, w.word[0]) ||
        !resp_read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &op) ||
        (w.n > 3 && !resp_word_int(c, w.word[3], "cost", 0, INT64_MAX, &op.cost)))
        return;
    op.verb = OP_REFUND;
    op.reply = resp_reply_back;
    batch_run(c, &op);
}

void resp_run_reset_key(struct conn *c, struct resp_words w)
{
    struct limit_op op;

    if (!resp_may_administer(c, w.word[0]) ||
        !resp_read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &op))
        return;
    op.verb = OP_RESET;
    op.reply = resp_reply_reset_key;
    batch_run(c, &op);
}

void resp_run_take_all(struct conn *c, struct resp_words w)
{
    struct limit_op op[WEIR_TERMS_MAX];
    bool verbose;
    int64_t n;

    if (!resp_word_int(c, w.word[1], "number of limits", 1, WEIR_TERMS_MAX, &n))
        return;
    verbose = w.n == 3 + 3 * (size_t)n && resp_word_is(w.word[w.n - 1], "VERBOSE");
    w.n -= verbose;
    if (w.n != 2 + 3 * (size_t)n) {
        resp_reply_error(c, "expected %lld times limit, key and cost after %s, got %zu words",
                         (long long)n, resp_quoted(w.word[1]), w.n - 2);
        return;
    }
    for (size_t i = 0; i < (size_t)n; i++)
        if (!resp_read_limit(c, w.word[2 + 3 * i], w.word[3 + 3 * i], LIMIT_TAKES, &op[i]) ||
            !resp_word_int(c, w.word[4 + 3 * i], "cost", 0, INT64_MAX, &op[i].cost))
            return;
    op[0].reply = resp_reply_take_all;
    op[0].shape = verbose ? RESP_VERBOSE : 0;
    batch_take_all(c, op, (size_t)n);
}
