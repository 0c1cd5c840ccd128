/* Commands of Redis 8.8 that limit rates, for clients that speak them.
 *
 *     INCREX key [BYINT n] UBOUND m EX seconds | PX milliseconds ENX  -> [value, applied]
 *
 * counts in a window that begins with its first event: the counter expires that long after it was
 * created (ENX: the time is set only if the key has none), and does not pass its upper bound. That
 * is `fixed-window m/t`, and is decided as that limit: another bound or another time is another
 * counter. A counter that may go down, that has no bound or that never expires is no limit: for
 * these forms the error says what is served.
 *
 *     GCRA key max_burst tokens period [TOKENS n]                     -> as CL.THROTTLE
 *
 * is redis-cell's command with a period that may have decimals, and the same keys as CL.THROTTLE.
 * (Redis has it in its source, and held it out of the release.) A rate of tokens per P microseconds
 * is one of whole seconds too: tokens x 10^6 / g in P / g seconds, g being what both share.
 */
#include "base/num.h"
#include "server/limits/throttle.h"
#include "server/resp/resp_front.h"

#define US_PER_S     1000000
#define MS_PER_S     1000
#define MS_MOST      (WEIR_PERIOD_MAX_NS / WEIR__NS_PER_MS)
#define INCREX_FORM  "INCREX key [BYINT n] UBOUND m EX seconds|PX milliseconds ENX"
#define INCREX_OTHER "of INCREX only the form that limits is served: " INCREX_FORM

/* ---- INCREX ---------------------------------------------------------------------------------- */

/* A window counts up to its limit, so what is left says how many there are. */
static void resp_reply_increx(struct conn *c, const struct limit_op *op, int error,
                              const struct weir_verdict *v)
{
    char *at;

    if (error) {
        resp_reply_engine_error(c, error);
        return;
    }
    at = resp_array(out_room(c, 3 * RESP_INT_ROOM), 2);
    at = resp_int(at, v->limit - v->remaining);
    out_done(c, resp_int(at, v->allowed ? op->cost : 0));
}

struct increx {
    int64_t by, most, ms; /* -1, 0, 0: not given */
    bool enx;
};

/* Redis calls a repeated option a syntax error, and one of the two was meant. */
static bool increx_is_new(struct conn *c, struct weir__slice word, bool given)
{
    if (given)
        resp_reply_error(c, "%s is given twice: " INCREX_OTHER, resp_quoted(word));
    return !given;
}

/* One option, from word i on: how many words it has, or 0 after an error. */
static size_t read_increx_option(struct conn *c, struct resp_words w, size_t i, struct increx *x)
{
    const struct weir__slice word = w.word[i];
    const bool seconds = resp_word_is(word, "EX"), value = i + 1 < w.n;
    bool read = false;

    if (resp_word_is(word, "ENX")) {
        x->enx = true;
        return 1;
    }
    if (value && resp_word_is(word, "BYINT"))
        read = increx_is_new(c, word, x->by >= 0) &&
               resp_word_int(c, w.word[i + 1], "increment", 0, WEIR_COUNT_MAX, &x->by);
    else if (value && resp_word_is(word, "UBOUND"))
        read = increx_is_new(c, word, x->most > 0) &&
               resp_word_int(c, w.word[i + 1], "upper bound", 1, WEIR_COUNT_MAX, &x->most);
    else if (value && !x->ms && (seconds || resp_word_is(word, "PX")))
        read = resp_word_int(c, w.word[i + 1], "expiration time", 1,
                             seconds ? MS_MOST / MS_PER_S : MS_MOST, &x->ms);
    else
        resp_reply_error(c, "unexpected word %s: " INCREX_OTHER, resp_quoted(word));
    if (read && seconds)
        x->ms *= MS_PER_S;
    return read ? 2 : 0;
}

void resp_run_increx(struct conn *c, struct resp_words w)
{
    struct limit_op op = {.key = w.word[1], .reply = resp_reply_increx};
    struct increx x = {.by = -1};
    const char *why;

    if (!resp_key_fits(c, op.key))
        return;
    for (size_t i = 2, n; i < w.n; i += n) {
        n = read_increx_option(c, w, i, &x);
        if (n == 0)
            return;
    }
    if (!x.enx || x.most == 0 || x.ms == 0) {
        resp_reply_error(c, "missing %s: " INCREX_OTHER,
                         x.most == 0 ? "UBOUND"
                         : x.ms == 0 ? "EX or PX"
                                     : "ENX");
        return;
    }
    op.cost = x.by < 0 ? 1 : x.by;
    op.limit = limit_window(c, x.most, x.ms, &why);
    if (op.limit)
        batch_add(c, &op);
    else
        resp_reply_error(c, "%s", why);
}

/* ---- GCRA ------------------------------------------------------------------------------------ */

/* Reads tokens and period to a rate of whole seconds. */
static bool read_gcra_rate(struct conn *c, struct resp_words w, int64_t *count, int64_t *period_s)
{
    const struct throttle_range seconds = throttle_range(THROTTLE_PERIOD_S);
    int64_t tokens, us, common;

    if (!resp_word_int(c, w.word[3], "tokens", 1, WEIR_COUNT_MAX, &tokens))
        return false;
    if (weir__parse_decimal(w.word[4], US_PER_S, &us) != WEIR__NUMBER_OK || us < US_PER_S ||
        us / US_PER_S > seconds.most) {
        resp_reply_error(c,
                         "invalid period %s: expected seconds from 1 to %lld, with at most six "
                         "decimals",
                         resp_quoted(w.word[4]), (long long)seconds.most);
        return false;
    }
    common = weir__gcd(tokens * US_PER_S, us); /* at most 10^18 */
    *count = tokens * US_PER_S / common;
    *period_s = us / common;
    if (*count <= WEIR_COUNT_MAX && *period_s <= seconds.most)
        return true;
    resp_reply_error(c, "invalid period %s: too many decimals for that many tokens",
                     resp_quoted(w.word[4]));
    return false;
}

void resp_run_gcra(struct conn *c, struct resp_words w)
{
    struct limit_op op = {.key = w.word[1], .cost = 1, .reply = resp_reply_cl_throttle};
    const struct throttle_range bursts = throttle_range(THROTTLE_BURST);
    int64_t burst, count, period_s;
    const char *why;

    if (!resp_key_fits(c, op.key) ||
        !resp_word_int(c, w.word[2], "max_burst", bursts.least - 1, bursts.most - 1, &burst) ||
        !read_gcra_rate(c, w, &count, &period_s))
        return;
    if (w.n != 5 && (w.n != 7 || !resp_word_is(w.word[5], "TOKENS"))) {
        resp_reply_error(c, "unexpected word %s: expected TOKENS and a number",
                         resp_quoted(w.word[5]));
        return;
    }
    if (w.n == 7 && !resp_word_int(c, w.word[6], "number of tokens", 0, WEIR_COUNT_MAX, &op.cost))
        return;
    if (!throttle_refills(burst + 1, count, period_s)) {
        resp_reply_error(c, "invalid max_burst %s: it " THROTTLE_TOO_SLOW, resp_quoted(w.word[2]));
        return;
    }
    op.limit = limit_throttle(c, burst + 1, count, period_s, &why);
    if (op.limit)
        batch_add(c, &op);
    else
        resp_reply_error(c, "%s", why);
}
