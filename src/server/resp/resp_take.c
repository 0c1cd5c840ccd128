/* The commands that decide. */
#include <string.h>

#include "server/resp_front.h"
#include "server/throttle.h"

#define NAME_MOST 256 /* bytes of a reservation's name */

/* ---- How answers are written ------------------------------------------------------------------- */

static void say_cl_throttle(struct conn *c, const struct question *q, int error,
                            const struct weir_verdict *v)
{
    char *at;

    (void)q;
    if (error) {
        reply_trouble(c, error);
        return;
    }
    at = resp_array(out_room(c, 6 * RESP_INT_ROOM), 5);
    at = resp_int(at, !v->allowed);
    at = resp_int(at, v->limit);
    at = resp_int(at, v->remaining);
    at = resp_int(at, v->allowed ? -1 : wire_s(v->retry_after_ns));
    out_done(c, resp_int(at, wire_s(v->reset_after_ns)));
}

static void say_throttle(struct conn *c, const struct question *q, int error,
                         const struct weir_verdict *v)
{
    char *at;

    (void)q;
    if (error) {
        reply_trouble(c, error);
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

static void say_take(struct conn *c, const struct question *q, int error,
                     const struct weir_verdict *v)
{
    (void)q;
    if (error)
        reply_trouble(c, error);
    else
        out_done(c, write_six(resp_array(out_room(c, 7 * RESP_INT_ROOM), 6), v));
}

/* ---- What questions are made of ---------------------------------------------------------------- */

static bool key_fits(struct conn *c, struct weir__slice key)
{
    const size_t most = server_options(conn_server(c))->max_key;

    if (key.len <= most)
        return true;
    reply_error(c, "a key of %zu bytes; expected at most %zu", key.len, most);
    return false;
}

/* The limit and the key of most commands; false if an error was said. */
static bool read_limit(struct conn *c, struct weir__slice limit, struct weir__slice key,
                       enum limit_use use, struct question *q)
{
    const char *why;
    int status;

    *q =
        (struct question){.key = key, .cost = 1, .patience_ns = WEIR_WAIT_DEFAULT, .say = say_take};
    q->limit = limit_find(c, limit, use, &status, &why);
    if (!q->limit) {
        reply_error(c, "%s", why);
        return false;
    }
    return key_fits(c, key);
}

static bool read_patience(struct conn *c, struct weir__slice word, int64_t *ns)
{
    if (wire_patience(word, ns)) {
        *ns = server_patience(conn_server(c), *ns);
        return true;
    }
    reply_error(c, "invalid time %s: expected milliseconds, a duration such as 1.5s, or forever",
                quoted(word));
    return false;
}

static bool looks_like_a_number(struct weir__slice word)
{
    return word.len > 0 && (word.at[0] == '-' || (word.at[0] >= '0' && word.at[0] <= '9'));
}

/* [cost] [WAIT ms] [RESERVE ms] [AS id], from word i on. */
static bool read_options(struct conn *c, struct words w, size_t i, bool all, struct question *q)
{
    bool patient = false;

    if (i < w.n && looks_like_a_number(w.word[i]) &&
        !word_int(c, w.word[i++], "cost", 0, INT64_MAX, &q->cost))
        return false;
    for (; i < w.n; i += 2) {
        const bool reserve = word_is(w.word[i], "RESERVE");

        if (reserve || (all && word_is(w.word[i], "WAIT"))) {
            if (i + 1 == w.n) {
                reply_error(c, "%s needs a time in milliseconds behind it", quoted(w.word[i]));
                return false;
            }
            if (patient) {
                reply_error(c, "WAIT and RESERVE are two ways to wait: expected one of them");
                return false;
            }
            patient = true;
            q->holds = !reserve;
            if (!read_patience(c, w.word[i + 1], &q->patience_ns))
                return false;
        } else if (all && word_is(w.word[i], "AS") && i + 1 < w.n && w.word[i + 1].len > 0) {
            if (w.word[i + 1].len > NAME_MOST) {
                reply_error(c, "a name of %zu bytes; expected at most %d", w.word[i + 1].len,
                            NAME_MOST);
                return false;
            }
            q->name = w.word[i + 1];
        } else {
            reply_error(c, "unexpected word %s: expected %s", quoted(w.word[i]),
                        all ? "a cost, WAIT ms, RESERVE ms or AS id" : "a cost or RESERVE ms");
            return false;
        }
    }
    return true;
}

/* ---- CL.THROTTLE and THROTTLE ------------------------------------------------------------------ */

/* The bytes from the first number to the last, if they are RESP's: those tell all three, lengths and all.
 * An inline command's may have had quotes. */
static struct weir__slice as_written(struct words w)
{
    const char *from = w.word[2].at, *to = w.word[4].at + w.word[4].len;
    const bool counted = to > from && w.word[3].at - from > 6 && from[w.word[2].len] == '\r';

    return (struct weir__slice){from, counted ? (size_t)(to - from) : 0};
}

/* As `what`, which is `more` less than the number itself. */
static bool read_number(struct conn *c, struct weir__slice word, const char *what,
                        enum throttle_number number, int64_t more, int64_t *value)
{
    const struct throttle_range r = throttle_range(number);

    return word_int(c, word, what, r.least - more, r.most - more, value);
}

/* key max_burst count period [cost]. `more` is what may come on top of max_burst at once. */
static bool read_throttle(struct conn *c, struct words w, int64_t more, int64_t least_cost,
                          struct question *q)
{
    const struct weir__slice said = as_written(w);
    int64_t burst, count, period;
    const char *why;

    *q = (struct question){.key = w.word[1], .cost = 1};
    if (!key_fits(c, q->key) ||
        (w.n > 5 && !word_int(c, w.word[5], "cost", least_cost, WEIR_COUNT_MAX, &q->cost)))
        return false;
    q->limit = limit_throttle_again(c, said, more);
    if (q->limit)
        return true;
    if (!read_number(c, w.word[2], "max_burst", THROTTLE_BURST, more, &burst) ||
        !read_number(c, w.word[3], "count", THROTTLE_COUNT, 0, &count) ||
        !read_number(c, w.word[4], "period", THROTTLE_PERIOD_S, 0, &period))
        return false;
    if (!throttle_refills(burst + more, count, period)) {
        reply_error(c, "invalid max_burst %s: it " THROTTLE_TOO_SLOW, quoted(w.word[2]));
        return false;
    }
    q->limit = limit_throttle(c, burst + more, count, period, &why);
    if (q->limit)
        limit_throttle_said(c, said, more, q->limit);
    else
        reply_error(c, "%s", why);
    return q->limit != NULL;
}

/* A negative cost gives back, and the key is then told as it stands. */
static void give_back(struct conn *c, struct question *q)
{
    struct weir_verdict v;
    int error;

    q->cost = -q->cost;
    error = ask_refund(c, q, NULL);
    q->cost = 0;
    if (!error)
        error = ask_peek(c, q, &v);
    say_cl_throttle(c, q, error, &v);
}

void run_cl_throttle(struct conn *c, struct words w)
{
    struct question q;

    if (!read_throttle(c, w, 1, -WEIR_COUNT_MAX, &q))
        return;
    q.say = say_cl_throttle;
    if (q.cost >= 0)
        ask_take(c, &q);
    else if (may_administer(c, w.word[0]))
        give_back(c, &q);
}

void run_throttle(struct conn *c, struct words w)
{
    struct question q;

    if (!read_throttle(c, w, 0, 0, &q))
        return;
    q.say = say_throttle;
    ask_take(c, &q);
}

/* ---- WEIR.* ------------------------------------------------------------------------------------ */

void run_take(struct conn *c, struct words w)
{
    struct question q;

    if (read_limit(c, w.word[1], w.word[2], LIMIT_TAKES, &q) && read_options(c, w, 3, true, &q))
        ask_take(c, &q);
}

void run_peek(struct conn *c, struct words w)
{
    struct weir_verdict v;
    struct question q;

    if (read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &q) && read_options(c, w, 3, false, &q))
        say_take(c, &q, ask_peek(c, &q, &v), &v);
}

void run_refund(struct conn *c, struct words w)
{
    struct question q;
    int64_t back = 0;
    int error;

    if (!may_administer(c, w.word[0]) || !read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &q) ||
        (w.n > 3 && !word_int(c, w.word[3], "cost", 0, INT64_MAX, &q.cost)))
        return;
    error = ask_refund(c, &q, &back);
    if (error)
        reply_trouble(c, error);
    else
        reply_int(c, back);
}

void run_cancel(struct conn *c, struct words w)
{
    int64_t back = 0;

    if (ask_cancel(c, w.word[1], &back))
        reply_int(c, back);
    else
        reply_error(c, "no such reservation: %s; expected a name given by AS on this connection",
                    quoted(w.word[1]));
}

void run_reset_key(struct conn *c, struct words w)
{
    struct question q;
    int error;

    if (!may_administer(c, w.word[0]) || !read_limit(c, w.word[1], w.word[2], LIMIT_LOOKS, &q))
        return;
    error = ask_reset(c, &q);
    if (error == WEIR_EFULL)
        reply_error(c, RESET_FULL);
    else if (error)
        reply_trouble(c, error);
    else
        reply_ok(c);
}

void run_take_all(struct conn *c, struct words w)
{
    struct question q[WEIR_TERMS_MAX];
    struct weir_verdict v;
    int64_t n;
    int error;

    if (!word_int(c, w.word[1], "number of limits", 1, WEIR_TERMS_MAX, &n))
        return;
    if (w.n != 2 + 3 * (size_t)n) {
        reply_error(c, "expected %lld times limit, key and cost behind %s, got %zu words",
                    (long long)n, quoted(w.word[1]), w.n - 2);
        return;
    }
    for (size_t i = 0; i < (size_t)n; i++)
        if (!read_limit(c, w.word[2 + 3 * i], w.word[3 + 3 * i], LIMIT_TAKES, &q[i]) ||
            !word_int(c, w.word[4 + 3 * i], "cost", 0, INT64_MAX, &q[i].cost))
            return;
    error = ask_take_all(c, q, (size_t)n, &v);
    if (error == WEIR_EINVAL)
        reply_error(c, "the limits have more than %d terms in all", WEIR_TERMS_MAX);
    else if (error == WEIR_ESTORE)
        reply_error(c, "the limits are in different stores: all or nothing can be had of one only");
    else if (error)
        reply_trouble(c, error);
    else
        out_done(c,
                 resp_int(write_six(resp_array(out_room(c, 8 * RESP_INT_ROOM), 7), &v), v.which));
}
