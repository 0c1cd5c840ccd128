/* warn= tells of crossings and changes nothing else: a key under the same limit without it has the
 * same states and answers, byte for byte; and `warned` is what the remaining amounts say. */
#include "prop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STEPS 40

/* Of 1000 parts of the limit: 1000 - milli may remain. In 128 bits. */
static bool crosses(const struct prop_case *c, int64_t before, int64_t after)
{
    const weir__u128 line = weir__wide(c->m->limit) * weir__wide(1000 - c->m->term.warn_milli);

    return weir__wide(before) * 1000 > line && weir__wide(after) * 1000 <= line;
}

static void step_take(struct prop_case *c, const struct weir__meter *plain,
                      struct weir__state *twin)
{
    const int64_t cost = prop_cost(c), patience = prop_patience(c);
    const struct weir__attempt attempt = prop_ask(c, c->now_ns, cost, patience);
    const bool charges = prop_odds(&c->rng, 6);
    struct weir_verdict v, peeked, other;
    int64_t before;

    before = prop_peek_at(c, c->now_ns, 0, 0).remaining;
    peeked = prop_peek_at(c, c->now_ns, cost, patience);
    v = charges ? prop_charge(c, cost) : prop_take(c, cost, patience);
    if (charges)
        weir__meter_charge(plain, twin, &attempt, &other);
    else
        weir__meter_take(plain, twin, &attempt, &other);
    prop_expect(c, prop_same(&v, &other) && v.reason == other.reason, "warn= changed an answer");
    prop_expect(c, other.warned == 0, "a limit without warn= warned");
    prop_expect(c, v.warned == (v.allowed && crosses(c, before, v.remaining)),
                "warned=%d from %" PRId64 " to %" PRId64, v.warned, before, v.remaining);
    if (!charges)
        prop_expect(c, peeked.warned == v.warned, "peek said warned=%d", peeked.warned);
}

void prop_law_warn(struct prop_case *c)
{
    static struct weir__meter plain;
    struct weir__state *twin;

    prop_open(c, PROP_ANY, 1);
    twin = prop_state_new(c);
    plain = c->meter[0];
    c->term[0].warn_milli = prop_range(&c->rng, 1, 1000);
    weir__meter_init(&c->meter[0], &c->term[0], plain.created_ns);
    c->meter[0].step_ns = plain.step_ns;
    for (int i = 0; i < STEPS && !c->failed; i++) {
        prop_move(c, c->seed % 3 == 0);
        if (prop_odds(&c->rng, 10)) {
            const int64_t n = prop_cost(c);
            const int64_t back = prop_refund(c, n);

            prop_expect(c, weir__meter_refund(&plain, twin, n, c->now_ns) == back,
                        "warn= changed a refund");
        } else {
            step_take(c, &plain, twin);
        }
        prop_expect(c,
                    c->state->fresh_ns == twin->fresh_ns &&
                        (twin->fresh_ns == 0 || memcmp(c->state, twin, c->size) == 0),
                    "warn= changed a state");
    }
    free(twin);
}
