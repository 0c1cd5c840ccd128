/* The share that a key owes: nothing for a new key, all for one that is used up, and more only for
 * one with waiters or a prepaid cost; and it does not grow with time. */
#include "prop.h"

#include <inttypes.h>

#define STEPS 40

static bool prepays(const struct prop_case *c)
{
    return c->algorithm == WEIR_SMOOTH_BURSTY || c->algorithm == WEIR_SMOOTH_WARMUP;
}

/* Limits where one more event is refused exactly if all but a part of one is owed, and the head
 * says everything. A bucket that refills within nanoseconds rounds to them. */
static bool is_plain(const struct weir__meter *m)
{
    const struct weir_term *t = &m->term;

    if (m->full.ns > 0 && m->full.ns < WEIR__NS_PER_MS)
        return false;
    switch ((enum weir_algorithm)t->algorithm) {
    case WEIR_FIXED_WINDOW:
    case WEIR_TOKEN_BUCKET:
    case WEIR_MIN_INTERVAL: return true;
    case WEIR_LEAKY_BUCKET: return t->delay == WEIR_NONE;
    case WEIR_SLIDING_WINDOW: return t->per_slot == WEIR_NONE;
    case WEIR_SLIDING_LOG: return t->min_interval_ns == 0;
    case WEIR_PACER:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP:
    case WEIR_UNLIMITED:
    case WEIR_ZERO:
    case WEIR__GUARDS: return false;
    }
    return false;
}

static void expect_share(struct prop_case *c, int64_t cost)
{
    const struct weir_verdict v = prop_take(c, cost, 0);
    const uint32_t share = weir__meter_share(c->m, c->state, c->now_ns);
    const bool owes = c->state->fresh_ns > c->now_ns;

    prop_expect(c, owes == (share > 0), "fresh at %" PRId64 ", share %u", c->state->fresh_ns,
                share);
    prop_expect(c, share <= 1024, "no caller waits, and the share is %u", share);
    if (v.reason == WEIR_LIMITED && cost == 1 && c->state->fresh_ns != 0 && is_plain(c->m))
        prop_expect(
            c, share >= (weir__wide(1024) * weir__wide(c->m->limit - 1)) / weir__wide(c->m->limit),
            "refused one, and the share is %u", share);
}

void prop_law_share(struct prop_case *c)
{
    prop_open(c, PROP_ANY, 1);
    prop_expect(c, weir__meter_share(c->m, c->state, c->now_ns) == 0, "a new key owes a share");
    for (int i = 0; i < STEPS && !c->failed; i++) {
        const int64_t cost = prepays(c) ? 1 : prop_cost(c);
        uint32_t before;

        expect_share(c, cost);
        before = weir__meter_share(c->m, c->state, c->now_ns);
        prop_move(c, false);
        prop_expect(c, weir__meter_share(c->m, c->state, c->now_ns) <= before,
                    "it grew with time from %u", before);
    }
}
