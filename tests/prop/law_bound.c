/* (a) The bound holds over every interval, whatever the gaps: for what was not refunded, and for
 *     what is left when reservations were cancelled, out of the middle too.
 * (f) A clock that steps back grants nothing extra: the same bound holds with the clock's steps
 * undone, and in real time where callers' clocks differ. */
#include "prop.h"

#include <inttypes.h>
#include <string.h>

#define STEPS 70

/* Whether the key goes by the clock since that stepped back. */
static bool goes_by_low(const struct prop_case *c)
{
    return weir__state_is_behind(c->m, c->state) &&
           prop_inner(c)->fresh_ns - c->now_ns > c->m->most_ns;
}

/* A bucket that counts what it denies knows the time of that too. */
static bool counts(const struct prop_case *c)
{
    return c->m->mark != 0 && c->m->term.count_denied;
}

/* A caller has made a request, granted or not: a key that is behind goes by the clock since it
 * stepped back, any other by the highest time at which it was charged. A refunded event is
 * forgotten, its time too. */
static void bound_pass(struct prop_ledger *l, const struct prop_case *c, bool charged)
{
    const bool by_low = goes_by_low(c);

    if (l->n == 0 && !l->behind && !by_low)
        l->time_ns = l->high_ns = c->now_ns;
    if (by_low && !l->behind)
        l->low_ns = c->now_ns;
    if (by_low && charged && c->now_ns > l->low_ns) {
        l->time_ns = weir__add_sat(l->time_ns, c->now_ns - l->low_ns);
        l->low_ns = c->now_ns;
    }
    if (!by_low && charged && c->now_ns > l->high_ns)
        l->time_ns = weir__add_sat(l->time_ns, c->now_ns - l->high_ns);
    if (charged)
        l->high_ns = weir__max(l->high_ns, c->now_ns);
    l->behind = weir__state_is_behind(c->m, c->state);
}

static void bound_add(struct prop_ledger *l, const struct prop_case *c, int64_t cost,
                      int64_t wait_ns)
{
    const int64_t asked = weir__add_sat(c->now_ns, wait_ns);
    int64_t since;

    if (cost == 0 || l->n == PROP_STEPS)
        return;
    since = l->behind ? l->low_ns : l->high_ns;
    l->event[l->n++] =
        (struct prop_event){.at_ns = l->time_ns,
                            .act_ns = weir__add_sat(l->time_ns, weir__max(0, asked - since)),
                            .asked_act = asked,
                            .cost = cost,
                            .whole = cost,
                            .high_ns = l->high_ns,
                            .label = prop_inner(c)->fresh_ns,
                            .rounded = wait_ns > 0};
}

static void bound_drop(struct prop_ledger *l, int i)
{
    l->cancelled = true;
    l->n--;
    memmove(&l->event[i], &l->event[i + 1], (size_t)(l->n - i) * sizeof l->event[0]);
}

/* A reservation that waits and is refunded in part keeps its act time, which was for the whole: no
 * promise covers the rest. */
static void shrink(struct prop_ledger *l, int64_t n, int64_t now_ns)
{
    while (n > 0 && l->n > 0) {
        struct prop_event *newest = &l->event[l->n - 1];
        const int64_t part = weir__min(n, newest->cost);

        newest->cost -= part;
        n -= part;
        if (newest->cost == 0 || newest->asked_act > now_ns)
            l->n--;
    }
    if (l->n > 0 && l->event[l->n - 1].high_ns < l->high_ns) {
        l->high_ns = l->event[l->n - 1].high_ns;
        l->time_ns = l->event[l->n - 1].at_ns;
    }
}

/* A refused request waits for nothing; a granted one no longer than it said, or than the limit
 * allows. */
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

static void bound_take(struct prop_case *c, struct prop_ledger *l, int64_t cost, int64_t patience)
{
    const struct weir_verdict v = prop_take(c, cost, patience);

    check_wait(c, &v, v.allowed ? patience : 0);
    bound_pass(l, c, cost > 0 && (v.allowed || counts(c)));
    if (v.allowed)
        bound_add(l, c, cost, v.wait_ns);
}

/* A caller that waits while the key goes by one clock may act when it goes by another: no reading
 * of time covers both. */
static void take_any(struct prop_case *c, struct prop_ledger *l)
{
    const int64_t cost = prop_cost(c), patience = prop_patience(c);
    const struct weir__attempt nothing = prop_ask(c, c->now_ns, 0, 0);
    struct weir_verdict v;

    weir__meter_peek(c->m, c->state, &nothing, &v);
    bound_take(c, l, cost, goes_by_low(c) ? 0 : patience);
}

/* What is reported is in whole events. Where less came back than was asked, a part of one more
 * did. */
static void bound_refund(struct prop_case *c, struct prop_ledger *l)
{
    const int64_t n = prop_odds(&c->rng, 2) ? prop_range(&c->rng, 1, 3) : prop_cost(c);
    const int64_t back = prop_refund(c, n);

    bound_pass(l, c, false);
    shrink(l, back < n ? back + 1 : back, c->now_ns);
}

/* Any reservation that has not acted, out of the middle too. An event that a refund has touched no
 * longer belongs to its caller. Returns its cost. */
static int64_t bound_cancel(struct prop_case *c, struct prop_ledger *l, int i)
{
    const struct prop_event e = l->event[i];

    if (e.asked_act < c->now_ns || e.cost != e.whole)
        return 0;
    prop_cancel(c, e.cost, e.asked_act);
    bound_drop(l, i);
    return e.cost;
}

/* Large and small: a cancel is wrong by what is between them. */
static int64_t bound_crowd_cost(struct prop_case *c)
{
    const int64_t limit = c->m->limit;

    switch (prop_range(&c->rng, 0, 3)) {
    case 0: return 1;
    case 1: return prop_range(&c->rng, 1, weir__min(limit, 4));
    case 2: return prop_range(&c->rng, 1, limit + 1);
    default: return weir__max(1, limit - prop_range(&c->rng, 0, 1));
    }
}

/* Takes one after the other as soon as each fits: anything granted in excess, even a part of an
 * event, is spent before the bound is checked. */
static void drain(struct prop_case *c, struct prop_ledger *l)
{
    for (int n = 0; n < 4; n++) {
        bound_take(c, l, 1, 0);
        if (!c->last.allowed && c->last.retry_after_ns > 0)
            c->now_ns =
                weir__min(PROP_FOREVER_NS, weir__add_sat(c->now_ns, c->last.retry_after_ns));
    }
}

/* Several callers wait, some give up, others come for what they left, and again. */
static void bound_crowd(struct prop_case *c, struct prop_ledger *l)
{
    for (int again = 0; again < 2; again++) {
        for (int64_t n = prop_range(&c->rng, 1, 4); n > 0; n--)
            bound_take(c, l, bound_crowd_cost(c), WEIR_FOREVER);
        for (int64_t n = prop_range(&c->rng, 1, 2); n > 0 && l->n > 0; n--) {
            const int64_t left =
                bound_cancel(c, l, (int)weir__max(0, l->n - prop_range(&c->rng, 1, 4)));

            if (prop_odds(&c->rng, 3))
                c->now_ns =
                    weir__min(PROP_FOREVER_NS, c->now_ns + prop_range(&c->rng, 0, c->m->step.ns));
            if (prop_odds(&c->rng, 2))
                bound_take(c, l, left, WEIR_FOREVER);
        }
    }
    for (int64_t n = prop_range(&c->rng, 0, 3); n > 0; n--)
        bound_take(c, l, bound_crowd_cost(c), WEIR_FOREVER);
    if (prop_odds(&c->rng, 2))
        drain(c, l);
}

static void run(struct prop_case *c, bool back)
{
    struct prop_ledger l = {.n = 0};
    bool refunds;

    prop_open(c, PROP_ANY, 1);
    /* A window whose newest events are refunded no longer knows that the clock had been there; and
     * for a key that goes by two clocks it is undefined by which of them an event is given back. */
    refunds =
        prop_odds(&c->rng, 3) && (!back || (c->algorithm >= WEIR_TOKEN_BUCKET && c->m->mark == 0));
    /* A clock that ran through all of time twice has no reading that fits. */
    for (int i = 0; i < STEPS && !c->failed && l.time_ns < INT64_MAX; i++) {
        if (!prop_odds(&c->rng, 3))
            prop_move(c, back);
        if (refunds && prop_odds(&c->rng, 8))
            bound_refund(c, &l);
        else
            take_any(c, &l);
    }
    l.n -= l.time_ns == INT64_MAX; /* the event at which it ended */
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

/* What was granted between any two events, in real time: a bucketful, the rate, and once the lead
 * of the later clock over the earlier one, a bucketful at most. */
static void check_skew(struct prop_case *c, const struct prop_ledger *l, int64_t skew_ns)
{
    const weir__u128 period = weir__wide(c->m->term.period_ns);
    const weir__u128 count = weir__wide(c->m->term.count);
    const weir__u128 stock = weir__wide(c->m->limit) * period, skew = weir__wide(skew_ns) * count;

    for (int i = 0; i < l->n; i++) {
        weir__u128 used = 0;

        for (int j = i; j < l->n; j++) {
            const weir__u128 t = weir__wide(l->event[j].at_ns - l->event[i].at_ns);

            used += weir__wide(l->event[j].cost) * period;
            prop_expect(c, used <= stock + (skew < stock ? skew : stock) + t * count,
                        "%" PRIu64 " periods' worth in %" PRId64 " ns, with clocks %" PRId64
                        " ns apart",
                        (uint64_t)(used / period), (int64_t)t, skew_ns);
        }
    }
}

/* Two callers, whose clocks both run and differ by anything, make requests in any order. */
void prop_law_skew(struct prop_case *c)
{
    const int64_t late = INT64_C(1) << 60;
    struct prop_ledger l = {.n = 0};
    int64_t real_ns, skew_ns;

    prop_open(c, prop_odds(&c->rng, 4) ? PROP_DENSE : PROP_HUMAN, 1);
    skew_ns = prop_odds(&c->rng, 2) ? prop_range(&c->rng, 0, 3 * c->m->term.period_ns)
                                    : prop_any_size(&c->rng, 0, late);
    real_ns = weir__min(c->now_ns, late);
    for (int i = 0; i < STEPS && !c->failed; i++) {
        const int64_t cost = prop_cost(c);
        struct weir_verdict v;

        if (!prop_odds(&c->rng, 3)) {
            c->now_ns = real_ns;
            prop_move(c, false);
            real_ns = weir__min(c->now_ns, 2 * late);
        }
        c->now_ns = prop_odds(&c->rng, 2) ? real_ns + skew_ns : real_ns;
        v = prop_take(c, cost, 0);
        if (v.allowed && cost > 0)
            l.event[l.n++] = (struct prop_event){.at_ns = real_ns, .cost = cost};
    }
    check_skew(c, &l, skew_ns);
}

void prop_law_cancel(struct prop_case *c)
{
    struct prop_ledger l = {.n = 0};
    bool refunds;

    prop_open(c, PROP_ANY, 1);
    refunds = prop_odds(&c->rng, 4);
    for (int i = 0; i < STEPS && c->steps < STEPS && !c->failed; i++) {
        if (!prop_odds(&c->rng, 3))
            prop_move(c, false);
        if (refunds && prop_odds(&c->rng, 8))
            bound_refund(c, &l);
        else if (l.n > 0 && prop_odds(&c->rng, 4))
            bound_cancel(c, &l, (int)prop_range(&c->rng, 0, l.n - 1));
        else if (prop_odds(&c->rng, 3))
            bound_crowd(c, &l);
        else
            take_any(c, &l);
    }
    prop_bound(c, &l);
}
