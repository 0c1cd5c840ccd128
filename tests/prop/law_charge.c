/* A charge takes without asking: of what a take would have granted it takes the same, and it leaves
 * a debt that no later request can miss. */
#include "prop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 40

/* Whether two keys answer alike: what is asked for is more than one of them could hide. */
static void charge_compare(struct prop_case *c, struct weir__state *twin, int64_t now_ns)
{
    for (int i = 0; i < 3; i++) {
        const int64_t cost = i == 0 ? 0 : i == 1 ? 1 : c->m->limit;
        const struct weir__attempt attempt = prop_ask(c, now_ns, cost, i == 2 ? WEIR_FOREVER : 0);
        const struct weir_verdict v = prop_peek_at(c, now_ns, cost, attempt.patience_ns);
        struct weir_verdict w;

        weir__meter_peek(c->m, twin, &attempt, &w);
        prop_expect(c, prop_same(&v, &w),
                    "at %" PRId64 " cost %" PRId64 ": taken retry=%" PRId64 " remaining=%" PRId64
                    ", charged retry=%" PRId64 " remaining=%" PRId64 " wait=%" PRId64
                    " reset=%" PRId64,
                    now_ns, cost, v.retry_after_ns, v.remaining, w.retry_after_ns, w.remaining,
                    w.wait_ns, w.reset_after_ns);
    }
}

/* Takes on the key and charges its twin as much. Whether the clock is behind decides by which due
 * time a caller that waits is granted, and a charge does not wait: such grants are left out. */
static void take_and_charge(struct prop_case *c)
{
    const int64_t cost = prop_cost(c);
    const struct weir__attempt attempt = prop_ask(c, c->now_ns, cost, 0);
    struct weir__state *twin = prop_state_new(c);
    struct weir_verdict v, w;
    int64_t patience;

    weir__meter_touch(c->m, c->state, c->now_ns);
    patience = weir__state_is_behind(c->m, c->state) ? 0 : prop_patience(c);
    memcpy(twin, c->state, c->size);
    v = prop_take(c, cost, patience);
    if (v.allowed && c->state->fresh_ns - c->now_ns <= WEIR__SPAN_MAX) {
        weir__meter_charge(c->m, twin, &attempt, &w);
        prop_expect(c,
                    w.allowed && w.remaining == v.remaining && w.reset_after_ns == v.reset_after_ns,
                    "charged, remaining=%" PRId64 " reset=%" PRId64, w.remaining, w.reset_after_ns);
        charge_compare(c, twin, c->now_ns);
        charge_compare(c, twin,
                       weir__min(PROP_FOREVER_NS, weir__add_sat(c->now_ns, v.reset_after_ns / 2)));
    }
    free(twin);
}

/* What is charged above what remains leaves nothing; and a charge never shortens what a refused
 * caller must wait. */
static void charge_too_much(struct prop_case *c)
{
    const struct weir_verdict before = prop_peek_at(c, c->now_ns, 1, 0);
    const int64_t room = prop_peek_at(c, c->now_ns, 0, 0).remaining;
    const int64_t more = weir__add_sat(room, prop_cost(c));
    struct weir_verdict after;

    prop_charge(c, more);
    after = prop_peek_at(c, c->now_ns, 1, 0);
    if (c->algorithm == WEIR_UNLIMITED || more == 0)
        return;
    prop_expect(c, !before.allowed || more <= room || !after.allowed,
                "1 is granted after %" PRId64 " were charged", more);
    prop_expect(c,
                c->m->term.count_denied || before.allowed || before.retry_after_ns < 0 ||
                    after.retry_after_ns < 0 || after.retry_after_ns >= before.retry_after_ns,
                "retry in %" PRId64 " after a charge, %" PRId64 " before", after.retry_after_ns,
                before.retry_after_ns);
}

void prop_law_charge(struct prop_case *c)
{
    prop_open(c, PROP_ANY, 1);
    for (int i = 0; i < STEPS && !c->failed; i++) {
        prop_move(c, prop_odds(&c->rng, 3));
        if (prop_odds(&c->rng, 4))
            charge_too_much(c);
        else
            take_and_charge(c);
    }
}
