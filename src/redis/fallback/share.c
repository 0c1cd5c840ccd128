/* Shares: how a limit is divided among nodes. share.h says what is promised.
 *
 * A rate is count/period, so its n-th part is count/(n x period): exact for every n. What may be
 * used at once (burst, capacity, slack, queue) is a number of events, and is divided rounding down.
 * So is the count of a window, which is both. The store of a `smooth` limit is a length of time, in
 * which a share at an n-th of the rate stores an n-th without a change. Two events of a min-
 * interval are n intervals apart, on each node.
 *
 * What cannot be divided: n nodes may each grant one event at the same time, where the whole limit
 * grants only one (pacer, min-interval, a burst of less than n); and where the last event is not
 * paid for yet (the smooth algorithms), each node has a last event.
 */
#include "redis/fallback/share.h"

#include <assert.h>

#include "algo/algo.h"
#include "base/num.h"

/* A node's part of that many events; at least one. */
static int64_t share_part(int64_t events, int64_t nodes)
{
    return weir__max(1, events / nodes);
}

/* The n-th part of a rate. If the period would be too long, the longest period is used, and the
 * count is rounded down. */
static void divide_rate(struct weir_term *t, int64_t nodes)
{
    const int64_t common = weir__gcd(t->count, nodes), by = nodes / common;

    if (t->period_ns <= WEIR_PERIOD_MAX_NS / by) {
        t->count /= common;
        t->period_ns *= by;
        return;
    }
    /* 40 and 55 bits, over 55 and 17: the result is at most the old count. */
    t->count = weir__max(1, (int64_t)(weir__wide(t->count) * weir__wide(WEIR_PERIOD_MAX_NS) /
                                      (weir__wide(t->period_ns) * weir__wide(nodes))));
    t->period_ns = WEIR_PERIOD_MAX_NS;
}

/* After rounding down, the rate may take longer to refill the burst than a limit may. */
static int64_t most_that_drain(const struct weir_term *t)
{
    const weir__u128 most =
        weir__wide(t->count) * weir__wide(WEIR__SPAN_MAX) / weir__wide(t->period_ns);

    return most < weir__wide(WEIR_COUNT_MAX) ? (int64_t)most : WEIR_COUNT_MAX;
}

static void divide_bucket(struct weir_term *t, int64_t nodes)
{
    const bool full = t->initial == t->burst;

    divide_rate(t, nodes);
    t->burst = weir__min(share_part(t->burst, nodes), most_that_drain(t));
    if (t->algorithm == WEIR_TOKEN_BUCKET)
        t->initial = full ? t->burst : weir__min(t->initial / nodes, t->burst);
    if (t->algorithm == WEIR_LEAKY_BUCKET && t->delay != WEIR_NONE)
        t->delay = weir__min(t->delay / nodes, t->burst);
    if (t->queue > 0)
        t->queue = share_part(t->queue, nodes);
}

static void divide_window(struct weir_term *t, int64_t nodes)
{
    t->count = share_part(t->count, nodes);
    if (t->algorithm == WEIR_SLIDING_WINDOW && t->per_slot != WEIR_NONE)
        t->per_slot = weir__min(share_part(t->per_slot, nodes), t->count);
    t->min_interval_ns = weir__min(weir__mul_sat(t->min_interval_ns, nodes), WEIR_PERIOD_MAX_NS);
}

static void divide_term(struct weir_term *t, int64_t nodes)
{
    switch (weir__algo_of(t->algorithm)->division) {
    case WEIR__DIVIDE_WINDOW: divide_window(t, nodes); return;
    case WEIR__DIVIDE_BUCKET: divide_bucket(t, nodes); return;
    case WEIR__DIVIDE_RATE: divide_rate(t, nodes); return;
    case WEIR__DIVIDE_INTERVAL:
        t->period_ns = weir__min(weir__mul_sat(t->period_ns, nodes), WEIR_PERIOD_MAX_NS);
        return;
    case WEIR__DIVIDE_CONCURRENCY:
        t->count = share_part(t->count, nodes);
        if (t->queue > 0)
            t->queue = share_part(t->queue, nodes);
        return;
    case WEIR__DIVIDE_WHOLE: return;
    case WEIR__DIVIDE_NOTHING: return; /* it looks at this node, and has no share */
    }
}

bool weir__share_keeps(const struct weir_term *t)
{
    return t->fallback == WEIR_FALLBACK_LOCAL && !weir__term_is_of_node(t);
}

bool weir__share_denies(const struct weir_term *t)
{
    return t->fallback == WEIR_FALLBACK_DENY && !t->shadow && !weir__term_is_of_node(t);
}

enum weir__down_action weir__share_of(const struct weir_limit *whole, int64_t nodes,
                                      struct weir_limit *share)
{
    struct weir_limit out = {.n = 0};

    assert(nodes >= 1);
    for (int i = 0; i < whole->n; i++) {
        const struct weir_term *t = &whole->term[i];

        if (weir__share_denies(t))
            return WEIR__DOWN_DENY;
        if (!weir__share_keeps(t))
            continue;
        out.term[out.n] = *t;
        divide_term(&out.term[out.n++], nodes);
    }
    if (out.n == 0)
        return WEIR__DOWN_ALLOW;
    *share = out;
    return WEIR__DOWN_SHARE;
}
