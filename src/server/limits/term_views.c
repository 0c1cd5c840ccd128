/* What each term of a limit has left after a decision, for replies that describe limits.
 *
 * A verdict has one set of numbers. For a limit of one term they are that term's, and for the
 * commonest algorithms the time until more remains follows from them; otherwise the engine is
 * asked, which takes about as long as a decision. A remote store is not asked a second time.
 */
#include "server/internal.h"

/* The n-th event from the last comes back when all but n - 1 have: a bucket refills evenly. */
static int64_t bucket_more_ns(const struct weir_term *t, const struct weir_verdict *v)
{
    const int64_t others = v->limit - v->remaining - 1;
    const int64_t later_ns =
        (int64_t)(weir__wide(others) * weir__wide(t->period_ns) / weir__wide(t->count));

    return weir__max(1, v->reset_after_ns - later_ns);
}

/* The time until more remains; false: the verdict does not say. */
static bool verdict_more(const struct weir_term *t, const struct weir_verdict *v, int64_t *ns)
{
    *ns = -1;
    if (v->remaining >= v->limit)
        return true;
    if (v->reason == WEIR_FULL || v->reason == WEIR_FALLBACK) { /* the limit did not judge */
        *ns = v->allowed ? -1 : v->retry_after_ns;
        return true;
    }
    switch (t->algorithm) {
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
        if (t->count <= 0)
            return true;
        if (t->algorithm == WEIR_LEAKY_BUCKET && t->delay != WEIR_NONE)
            return false; /* less remains than the bucket has room for */
        *ns = bucket_more_ns(t, v);
        return true;
    case WEIR_FIXED_WINDOW:
    case WEIR_MIN_INTERVAL: *ns = v->reset_after_ns; return true;
    default: return false;
    }
}

/* Of a limit that no client has taken from. */
static bool untouched_views(const struct limit_op *op, struct weir__term_view *view)
{
    static _Thread_local struct weir_limit one = {.n = 1}; /* too large for a stack */
    struct weir *w = store_of(op->limit)->engine;

    for (int i = 0; i < op->limit->parsed->n; i++) {
        struct weir_request rq = {.policy = NULL, .cost = 0};
        struct weir_verdict v;

        one.term[0] = op->limit->parsed->term[i];
        if (weir__untouched_peek(w, &one, &rq, &v) != 0)
            return false;
        view[i] = (struct weir__term_view){v.limit, v.remaining, -1, v.reset_after_ns};
        rq.cost = v.remaining + 1;
        if (v.remaining < v.limit && weir__untouched_peek(w, &one, &rq, &v) == 0 && !v.allowed)
            view[i].more_after_ns = v.retry_after_ns;
    }
    return true;
}

static bool asked_views(struct conn *c, const struct limit_op *op, struct weir__term_view *view)
{
    const struct store *s = store_of(op->limit);
    const struct weir_request rq = {
        .policy = op->limit->policy, .key = op->key.at, .key_len = op->key.len};

    if (weir__peek_terms(s->engine, &rq, worker_now(c->worker, s), view) != 0)
        return false;
    for (int i = 0; i < op->limit->parsed->n; i++)
        if (view[i].limit < 0) /* another process has changed the limit */
            return false;
    return true;
}

bool limit_views(struct conn *c, const struct limit_op *op, const struct weir_verdict *v,
                 struct weir__term_view view[WEIR_TERMS_MAX])
{
    const struct limit *l = op->limit;
    const bool lone = l->parsed->n == 1, remote = store_of(l)->remote;

    if (lone && v) {
        view[0] =
            (struct weir__term_view){v->limit, v->remaining, -1, weir__max(0, v->reset_after_ns)};
        if (verdict_more(&(op->numbers ? op->numbers : l->parsed)->term[0], v,
                         &view[0].more_after_ns))
            return true;
        if (remote ||
            op->numbers) { /* at the latest when all is restored, or the request can pass */
            view[0].more_after_ns = v->allowed || v->retry_after_ns < 0
                                        ? v->reset_after_ns
                                        : weir__min(v->reset_after_ns, v->retry_after_ns);
            return true;
        }
    }
    if (remote || op->numbers)
        return false;
    return l->policy ? asked_views(c, op, view) : untouched_views(op, view);
}

int limit_guards(const struct limit_op *op, struct limit_guard guard[WEIR_TERMS_MAX])
{
    const struct limit *l = op->limit;
    const struct weir_request rq = op_request(op);
    int n = 0;

    for (int i = 0; l->policy && i < l->parsed->n; i++)
        if (l->parsed->term[i].algorithm >= WEIR_FIRST_GUARD &&
            weir_guard_view(store_of(l)->engine, &rq, i, &guard[n].view) == 0)
            guard[n++].term = i;
    return n;
}
