/* Refund gives back no more than was taken, and what was just taken in full. */
#include "prop.h"

#include <inttypes.h>

#define STEPS 40

/* The cost of warming up is not given back. */
static bool restores(const struct prop_case *c)
{
    return c->algorithm != WEIR_SMOOTH_WARMUP || c->m->term.cold_milli == 1000;
}

/* Taken and given back at once is not taken. */
static int64_t take_and_return(struct prop_case *c)
{
    const int64_t cost = prop_cost(c);
    const int64_t before = prop_peek_at(c, c->now_ns, 0, 0).remaining;
    const struct weir_verdict v = prop_take(c, cost, prop_patience(c));
    /* At the end of time a due time may be a nanosecond short (due.h). */
    const bool ends = c->now_ns >= INT64_MAX - c->m->full.ns;
    int64_t back, after;

    if (!v.allowed)
        return 0;
    back = prop_refund(c, cost);
    after = prop_peek_at(c, c->now_ns, 0, 0).remaining;
    prop_expect(c, back == cost || (back == cost - 1 && ends),
                "of %" PRId64 " just taken %" PRId64 " came back", cost, back);
    if (restores(c))
        prop_expect(c, after == before, "remaining was %" PRId64 ", and is %" PRId64, before,
                    after);
    return cost - back;
}

/* The clock only moves on, so that the sums of what was granted and returned can be compared. */
void prop_law_refund(struct prop_case *c)
{
    weir__u128 charged = 0;
    bool exempt; /* what was denied is charged too, as is warming up */

    prop_open(c, PROP_ANY, 1);
    exempt = c->m->term.count_denied || !restores(c);
    for (int i = 0; i < STEPS && !c->failed; i++) {
        prop_move(c, false);
        if (prop_odds(&c->rng, 4)) {
            charged += weir__wide(take_and_return(c));
        } else if (prop_odds(&c->rng, 4)) {
            const int64_t back = prop_refund(c, prop_cost(c));
            const struct weir_verdict v = prop_peek_at(c, c->now_ns, 0, 0);

            prop_expect(c, exempt || weir__wide(back) <= charged,
                        "%" PRId64 " came back, more than was charged", back);
            prop_expect(c, v.remaining <= v.limit, "remaining is %" PRId64, v.remaining);
            charged -= exempt ? 0 : weir__wide(back);
        } else {
            const int64_t cost = prop_cost(c);

            if (prop_take(c, cost, prop_patience(c)).allowed)
                charged += weir__wide(cost);
        }
    }
}
