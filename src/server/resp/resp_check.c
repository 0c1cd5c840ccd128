/* WEIR.CHECK: a request that the rules decide. */
#include <string.h>

#include "server/check.h"
#include "server/resp/resp_front.h"

/* ---- Replies --------------------------------------------------------------------------------- */

/* How many rules there are, each once. */
static size_t rules_named(struct weir__slice rules)
{
    struct weir__slice name, before = {NULL, 0};
    size_t n = 0;

    for (; check_next_rule(&rules, &name); before = name)
        n += !before.at || !weir__slice_equal(before, name);
    return n;
}

static void resp_reply_rules(struct conn *c, const struct limit_op *op,
                             const struct weir_verdict *v)
{
    const struct weir__slice rule = check_rule_of(op, v);
    struct weir__slice rules = op->name, name, before = {NULL, 0};

    resp_reply_text(c, "rule");
    if (rule.at)
        out_done(c, resp_bulk(out_room(c, rule.len + RESP_INT_ROOM), rule.at, rule.len));
    else
        resp_reply_null(c);
    resp_reply_text(c, "rules");
    resp_reply_array(c, rules_named(rules));
    for (; check_next_rule(&rules, &name); before = name)
        if (!before.at || !weir__slice_equal(before, name))
            out_done(c, resp_bulk(out_room(c, name.len + RESP_INT_ROOM), name.at, name.len));
}

static void resp_reply_check(struct conn *c, const struct limit_op *op, int error,
                             const struct weir_verdict *v)
{
    if (error || !(op->shape & RESP_VERBOSE)) {
        resp_reply_take_all(c, op, error, v);
        return;
    }
    resp_reply_verdict(c, op->limit, v->which, v, 2);
    resp_reply_rules(c, op, v);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool resp_check_read(struct conn *c, struct resp_words w, struct check *k)
{
    struct check_why why;
    bool cost = false;

    for (size_t i = 1; i + 1 < w.n; i += 2) {
        if (resp_word_is(w.word[i], "COST")) {
            if (cost) {
                resp_reply_error(c, "COST is given twice");
                return false;
            }
            cost = true;
            if (!resp_word_int(c, w.word[i + 1], "cost", 0, INT64_MAX, &k->cost))
                return false;
        } else if (!check_set(k, w.word[i], w.word[i + 1], &why)) {
            resp_reply_error(c, "%s", why.text);
            return false;
        }
    }
    return true;
}

void resp_run_check(struct conn *c, struct resp_words w)
{
    const bool verbose = w.n % 2 == 0 && resp_word_is(w.word[w.n - 1], "VERBOSE");
    struct check_why why;
    struct check k;

    w.n -= verbose;
    if (w.n % 2 == 0) {
        resp_reply_error(c,
                         "%s has no value: expected name value [name value ...] [COST n] "
                         "[VERBOSE]",
                         resp_quoted(w.word[w.n - 1]));
        return;
    }
    if (!check_begin(c, &k, &why)) {
        resp_reply_error(c, "%s", why.text);
        return;
    }
    k.reply = resp_reply_check;
    k.shape = verbose ? RESP_VERBOSE : 0;
    if (!resp_check_read(c, w, &k) || check_run(&k, &why))
        return;
    if (why.status == 403)
        resp_reply_code(c, "NOPERM " ACCESS_OTHER_KEY);
    else
        resp_reply_error(c, "%s", why.text);
}
