/* (a) The bound holds over every interval, whatever the gaps; with refunds and cancelled
 *     reservations too, for what was not given back.
 * (f) A clock that steps back mints nothing: the same bound, with the clock's steps undone. */
#include "prop.h"

#include <inttypes.h>

#define STEPS 70

/* A refused ask waits for nothing; a granted one no longer than it said, or than the limit lets. */
static void check_wait(struct prop_case *c, const struct weir_verdict *v, int64_t patience_ns)
{
    const struct weir_term *t = &c->m->term;
    const weir__u128 wait = weir__wide(v->wait_ns);

    prop_expect(c, v->wait_ns >= 0 && v->wait_ns <= patience_ns, "a wait of %" PRId64 " ns",
                v->wait_ns);
    if (t->algorithm != WEIR_PACER || v->wait_ns == 0)
        return;
    prop_expect(c, v->wait_ns <= t->max_wait_ns, "a wait of %" PRId64 " ns passes max-wait",
                v->wait_ns);
    /* wait <= ceil(queue x T) */
    prop_expect(c,
                (wait - 1) * weir__wide(t->count) < weir__wide(t->queue) * weir__wide(t->period_ns),
                "a wait of %" PRId64 " ns passes the queue", v->wait_ns);
}

static void take(struct prop_case *c, struct prop_ledger *l)
{
    const int64_t cost = prop_cost(c), patience = prop_patience(c);
    const struct weir_verdict v = prop_take(c, cost, patience);

    check_wait(c, &v, v.allowed ? patience : 0);
    if (v.allowed)
        prop_ledger_add(l, c, cost, v.wait_ns);
}

/* What is reported is in whole events. Where less than was asked came back, a part of one more did. */
static void refund(struct prop_case *c, struct prop_ledger *l)
{
    const int64_t n = prop_odds(&c->rng, 2) ? prop_range(&c->rng, 1, 3) : prop_cost(c);
    const int64_t back = prop_refund(c, n);

    prop_ledger_refund(l, back < n ? back + 1 : back, c->now_ns);
}

/* Any reservation that has not acted, out of the middle too. What a refund has touched is its
 * caller's no more. */
static void cancel(struct prop_case *c, struct prop_ledger *l)
{
    const int i = (int)prop_range(&c->rng, 0, l->n - 1);
    const struct prop_event e = l->event[i];

    if (e.asked_act < c->now_ns || e.cost != e.whole)
        return;
    prop_cancel(c, e.cost, e.asked_act);
    prop_ledger_drop(l, i);
}

static void run(struct prop_case *c, bool back)
{
    struct prop_ledger l = {.n = 0};
    bool refunds, cancels;

    prop_open(c, PROP_ANY, 1);
    refunds = prop_odds(&c->rng, 3) && (!back || c->algorithm >= WEIR_TOKEN_BUCKET);
    cancels = prop_odds(&c->rng, 2) && !back;
    for (int i = 0; i < STEPS && !c->failed; i++) {
        if (!prop_odds(&c->rng, 3))
            prop_move(c, back);
        if (refunds && prop_odds(&c->rng, 8))
            refund(c, &l);
        else if (cancels && l.n > 0 && prop_odds(&c->rng, 5))
            cancel(c, &l);
        else
            take(c, &l);
    }
    prop_bound(c, &l);
}

void prop_law_bound(struct prop_case *c)
{
    run(c, false);
}

void prop_law_clock(struct prop_case *c)
{
    run(c, true);
}
