/* What block= promises by itself: 2 x after - 1 refusals within a period do not happen without a
 * block among them; a block is no shorter than the first and no longer than the longest; and it
 * ends when it was said to end, however often the key asks meanwhile. */
#include "prop.h"

#include <inttypes.h>

#define STEPS 100

/* The refusals since the last block, in a ring. */
struct refusals {
    int64_t at[STEPS];
    int n;
    int64_t until_ns; /* of the block in force, as it was told; 0: none */
};

static void note_block(struct prop_case *c, struct refusals *r)
{
    const struct weir_term *t = &c->m->term;
    int64_t low = 0, high = t->block_most_ns;

    r->n = 0;
    /* The first instant at which the key is not blocked, by looking. */
    prop_expect(c, !weir__block_counts(c->m, c->state, c->now_ns + t->block_ns - 1),
                "a block is shorter than the first");
    prop_expect(c, weir__block_counts(c->m, c->state, c->now_ns + high), "longer than the longest");
    while (high - low > 1) {
        const int64_t mid = low + (high - low) / 2;

        *(weir__block_counts(c->m, c->state, c->now_ns + mid) ? &high : &low) = mid;
    }
    r->until_ns = c->now_ns + high;
}

static void step(struct prop_case *c, struct refusals *r)
{
    const int64_t after = c->m->term.block_after, cost = prop_cost(c), patience = prop_patience(c);
    const bool blocked = r->until_ns > c->now_ns;
    struct weir_verdict v;

    prop_expect(c, blocked == !weir__block_counts(c->m, c->state, c->now_ns),
                "a block was to end at %" PRId64, r->until_ns);
    v = prop_take(c, cost, patience);
    if (blocked)
        prop_expect(c, v.allowed == (cost == 0), "granted while it was blocked");
    if (v.allowed || blocked)
        return;
    if (!weir__block_counts(c->m, c->state, c->now_ns)) {
        note_block(c, r);
        return;
    }
    r->at[r->n++] = c->now_ns;
    if (r->n >= 2 * after - 1)
        prop_expect(c, c->now_ns - r->at[r->n - (2 * after - 1)] >= c->m->term.period_ns,
                    "%" PRId64 " refusals within a period, and no block", 2 * after - 1);
}

void prop_law_block(struct prop_case *c)
{
    struct refusals r = {.n = 0};

    prop_open(c, PROP_ANY, 1);
    for (int i = 0; weir__meter_is_boxed(c->m) && i < STEPS && !c->failed; i++) {
        prop_move(c, false);
        if (prop_odds(&c->rng, 12))
            prop_refund(c, prop_cost(c));
        else
            step(c, &r);
    }
}
