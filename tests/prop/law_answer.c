/* What a single answer promises:
 * (b) a denial changes nothing;
 * (c) retry_after is exact: denied one nanosecond before it, allowed at it;
 * (d) remaining is what patience 0 would grant, and the numbers keep their ranges;
 *     peek is the answer that take gives; cost 0 is granted and changes nothing;
 * (g) all of that for the largest and smallest of everything, and no overflow.
 *
 * One walk serves them all: random requests, refunds, cancels and live changes under a clock that
 * also steps back, and at each take the law's own look at what was and what is. */
#include "prop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 40

struct taken {
    int64_t cost, patience_ns;
    struct weir_verdict peeked, v;
    bool blocked;    /* the key was blocked before it */
    bool same_bytes; /* the state before and after */
    bool peek_wrote; /* peek, which must not       */
};

typedef void look(struct prop_case *c, const struct taken *t);

/* A touch converts a state to the newest version; what comes after belongs to the law. */
static struct taken take(struct prop_case *c)
{
    const int64_t cost = prop_cost(c), patience = prop_patience(c);
    struct taken t = {.cost = cost, .patience_ns = patience};
    const struct weir__attempt attempt = prop_ask(c, c->now_ns, cost, patience);
    const struct weir__attempt nothing = prop_ask(c, c->now_ns, 0, 0);

    weir__meter_peek(c->m, c->state, &nothing, &t.peeked);
    memcpy(c->before, c->state, c->size);
    t.blocked = weir__meter_is_boxed(c->m) && !weir__block_counts(c->m, c->state, c->now_ns);
    weir__meter_peek(c->m, c->state, &attempt, &t.peeked);
    t.peek_wrote = memcmp(c->before, c->state, c->size) != 0;
    t.v = prop_take(c, t.cost, t.patience_ns);
    t.same_bytes = memcmp(c->before, c->state, c->size) == 0;
    return t;
}

static void cancel(struct prop_case *c)
{
    const int i = (int)prop_range(&c->rng, 0, weir__min(c->steps, PROP_STEPS) - 1);
    const struct prop_step *s = &c->step[i];

    if (s->verb == PROP_TAKE && s->v.allowed)
        prop_cancel(c, s->cost, weir__add_sat(s->now_ns, s->v.wait_ns));
}

static void walk(struct prop_case *c, enum prop_flavor flavor, look *at)
{
    prop_open(c, flavor, PROP_VERSIONS);
    for (int i = 0; i < STEPS && !c->failed; i++) {
        prop_move(c, c->seed % 3 == 0);
        if (prop_odds(&c->rng, 10)) {
            prop_refund(c, prop_cost(c));
        } else if (c->steps > 0 && prop_odds(&c->rng, 12)) {
            cancel(c);
        } else if (prop_odds(&c->rng, 30) && c->m < &c->meter[c->versions - 1]) {
            prop_change(c);
        } else {
            const struct taken t = take(c);

            at(c, &t);
        }
    }
}

/* ---- (b) ----------------------------------------------------------------------------------- */

static void look_at_denial(struct prop_case *c, const struct taken *t)
{
    if (!t->v.allowed && !c->m->term.count_denied && (!weir__meter_is_boxed(c->m) || t->blocked))
        prop_expect(c, t->same_bytes, "a denial changed the state");
    if (t->cost == 0)
        prop_expect(c, t->v.allowed && t->v.wait_ns == 0 && t->same_bytes,
                    "cost 0 was refused, had to wait or changed the state");
}

/* ---- (c) ----------------------------------------------------------------------------------- */

static void look_never(struct prop_case *c, const struct taken *t)
{
    const int64_t after[] = {1, c->m->term.period_ns, weir__mul_sat(400, c->m->term.period_ns),
                             PROP_FOREVER_NS};

    for (int i = 0; i < 4; i++) {
        const int64_t at = weir__min(PROP_FOREVER_NS, weir__add_sat(c->now_ns, after[i]));
        const struct weir_verdict v = prop_peek_at(c, at, t->cost, t->patience_ns);

        prop_expect(c, !v.allowed, "refused for ever, and allowed at %" PRId64, at);
    }
}

static void look_at_retry(struct prop_case *c, const struct taken *t)
{
    const int64_t retry = t->v.retry_after_ns;

    if (t->v.allowed)
        return;
    if (retry == -1) {
        look_never(c, t);
        return;
    }
    if (retry <= PROP_FOREVER_NS - c->now_ns)
        prop_expect(c, prop_peek_at(c, c->now_ns + retry, t->cost, t->patience_ns).allowed,
                    "denied at retry_after, %" PRId64, c->now_ns + retry);
    for (int i = 0; i < 2 && retry > 0; i++) {
        const int64_t early = i == 0 ? retry - 1 : prop_range(&c->rng, 0, retry - 1);

        if (early <= PROP_FOREVER_NS - c->now_ns)
            prop_expect(c, !prop_peek_at(c, c->now_ns + early, t->cost, t->patience_ns).allowed,
                        "allowed at %" PRId64 ", %" PRId64 " ns before retry_after",
                        c->now_ns + early, retry - early);
    }
}

/* ---- (d) ----------------------------------------------------------------------------------- */

static bool prepays(const struct prop_case *c)
{
    return c->m->term.algorithm == WEIR_SMOOTH_BURSTY ||
           c->m->term.algorithm == WEIR_SMOOTH_WARMUP || c->m->term.algorithm == WEIR_UNLIMITED;
}

static void look_at_ranges(struct prop_case *c, const struct taken *t)
{
    const struct weir_verdict *v = &t->v;

    prop_expect(c, v->limit == c->m->limit && (v->limit >= 1 || c->algorithm == WEIR_ZERO),
                "limit is %" PRId64, v->limit);
    prop_expect(c, v->remaining >= 0 && v->remaining <= v->limit, "remaining is %" PRId64,
                v->remaining);
    prop_expect(c, v->reset_after_ns >= 0, "reset_after is %" PRId64, v->reset_after_ns);
    prop_expect(c, v->allowed == (v->reason == WEIR_OK), "allowed with a reason, or the reverse");
    if (v->allowed)
        prop_expect(c, v->retry_after_ns == 0 && v->wait_ns >= 0 && v->wait_ns <= t->patience_ns,
                    "granted: wait %" PRId64 ", retry %" PRId64, v->wait_ns, v->retry_after_ns);
    else
        prop_expect(c, v->wait_ns == 0 && (v->retry_after_ns > 0 || v->retry_after_ns == -1),
                    "denied: wait %" PRId64 ", retry %" PRId64, v->wait_ns, v->retry_after_ns);
    if (v->reason == WEIR_TOO_BIG)
        prop_expect(c, v->retry_after_ns == -1, "too big, and may retry");
}

static void look_at_remaining(struct prop_case *c, const struct taken *t)
{
    const int64_t remaining = t->v.remaining;

    look_at_ranges(c, t);
    if (remaining > 0)
        prop_expect(c, prop_peek_at(c, c->now_ns, remaining, 0).allowed,
                    "remaining is %" PRId64 ", and is refused", remaining);
    if (remaining == 0 || !prepays(c)) /* whose remaining stops at the limit, and they do not */
        prop_expect(c, !prop_peek_at(c, c->now_ns, remaining + 1, 0).allowed,
                    "remaining is %" PRId64 ", and one more is granted", remaining);
}

/* ---- peek ---------------------------------------------------------------------------------- */

static void look_at_peek(struct prop_case *c, const struct taken *t)
{
    prop_expect(c, !t->peek_wrote, "peek changed the state");
    prop_expect(c, prop_same(&t->peeked, &t->v),
                "peek said allowed=%d remaining=%" PRId64 " wait=%" PRId64 " retry=%" PRId64
                " reset=%" PRId64,
                t->peeked.allowed, t->peeked.remaining, t->peeked.wait_ns, t->peeked.retry_after_ns,
                t->peeked.reset_after_ns);
}

static void look_at_all(struct prop_case *c, const struct taken *t)
{
    look_at_denial(c, t);
    look_at_ranges(c, t);
    look_at_retry(c, t);
    look_at_remaining(c, t);
    look_at_peek(c, t);
}

void prop_law_denial(struct prop_case *c)
{
    walk(c, PROP_ANY, look_at_denial);
}

void prop_law_retry(struct prop_case *c)
{
    walk(c, PROP_ANY, look_at_retry);
}

void prop_law_remaining(struct prop_case *c)
{
    walk(c, PROP_ANY, look_at_remaining);
}

void prop_law_peek(struct prop_case *c)
{
    walk(c, PROP_ANY, look_at_peek);
}

void prop_law_extreme(struct prop_case *c)
{
    walk(c, PROP_EXTREME, look_at_all);
}
