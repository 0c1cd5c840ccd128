/* A live change carries what is used over: it is neither forgotten nor doubled. */
#include "prop.h"

#include <inttypes.h>

#define STEPS 15

/* Whether what is used is all there is to remaining, and all of it is kept. */
static bool comparable(const struct weir_term *from, const struct weir_term *to)
{
    if (from->algorithm != to->algorithm)
        return false;
    switch ((enum weir_algorithm)from->algorithm) {
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_TOKEN_BUCKET:
    case WEIR_PACER:
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP:
    case WEIR_MIN_INTERVAL:
    case WEIR_UNLIMITED:
    case WEIR_ZERO: return true;
    case WEIR__GUARDS: return false;
    case WEIR_LEAKY_BUCKET: return from->delay == WEIR_NONE && to->delay == WEIR_NONE;
    case WEIR_SLIDING_LOG:
        return from->count == to->count && from->min_interval_ns == 0 && to->min_interval_ns == 0 &&
               from->period_ns <= to->period_ns;
    case WEIR_SLIDING_WINDOW: /* wide and narrow rings start fresh */
        return from->slots == to->slots && from->per_slot == WEIR_NONE &&
               to->per_slot == WEIR_NONE && from->period_ns <= to->period_ns;
    }
    return false;
}

static bool prepays(const struct prop_case *c)
{
    return c->algorithm == WEIR_SMOOTH_BURSTY || c->algorithm == WEIR_SMOOTH_WARMUP;
}

/* Few drafts can be compared; this tries several. */
static bool open_pair(struct prop_case *c)
{
    for (int i = 0; i < 100; i++) {
        prop_open(c, prop_odds(&c->rng, 4) ? PROP_DENSE : PROP_HUMAN, 2);
        if (comparable(&c->term[0], &c->term[1]))
            return true;
        prop_close(c);
    }
    return false;
}

void prop_law_carry(struct prop_case *c)
{
    int64_t before, after, carried;

    if (!open_pair(c))
        return;
    for (int i = 0; i < STEPS; i++) {
        const int64_t cost = prop_cost(c);

        prop_take(c, cost, prop_odds(&c->rng, 4) ? prop_patience(c) : 0);
        prop_move(c, false);
    }
    before = prop_peek_at(c, c->now_ns, 0, 0).remaining;
    prop_change(c);
    after = prop_peek_at(c, c->now_ns, 0, 0).remaining;
    carried = weir__max(0, c->m->limit - (c->meter[0].limit - before));
    if (prepays(c)) /* any cost, or none */
        prop_expect(c, (before > 0) == (after > 0),
                    "remaining was %" PRId64 " and is %" PRId64 " after the change", before, after);
    else
        prop_expect(c, before > 0 ? after == carried : after <= carried,
                    "remaining was %" PRId64 " of %" PRId64 ", so %" PRId64 " of %" PRId64
                    " are left, not %" PRId64,
                    before, c->meter[0].limit, carried, c->m->limit, after);
}
