/* What callers do: how much they ask for, how long they would wait, when they come. */
#include "prop.h"

int64_t prop_cost(struct prop_case *c)
{
    struct prop_rng *r = &c->rng;

    switch (prop_range(r, 0, 11)) {
    case 0: return prop_odds(r, 4) ? 0 : 1;
    case 1: return prop_range(r, 1, weir__max(1, c->m->limit));
    case 2: return prop_any_size(r, 1, weir__max(1, c->m->limit));
    case 3: return prop_odds(r, 2) ? c->m->limit : c->m->limit + 1;
    case 4: return weir__max(1, c->last.remaining);
    case 5: return c->last.remaining + 1;
    case 6: return prop_odds(r, 4) ? INT64_MAX - prop_range(r, 0, 1) : 2;
    case 7: return weir__max(1, c->last.remaining / 2);
    default: return 1;
    }
}

int64_t prop_patience(struct prop_case *c)
{
    struct prop_rng *r = &c->rng;

    switch (prop_range(r, 0, 7)) {
    case 0: return WEIR_FOREVER - (prop_odds(r, 8) ? 1 : 0);
    case 1: return prop_range(r, 0, 3 * c->m->term.period_ns);
    case 2: return prop_range(r, 0, 1);
    case 3: return weir__max(0, c->last.retry_after_ns - prop_range(r, 0, 1));
    case 4: return prop_any_size(r, 0, WEIR_FOREVER);
    case 5: return weir__meter_patience(c->m);
    default: return 0;
    }
}

/* How long until the next time that may matter. */
static int64_t stride(struct prop_case *c)
{
    struct prop_rng *r = &c->rng;
    const int64_t period = c->m->term.period_ns, step = period / weir__max(1, c->m->term.count);

    switch (prop_range(r, 0, 13)) {
    case 0: return prop_range(r, 0, 2);
    case 1: return weir__max(0, c->last.retry_after_ns);
    case 2: return weir__max(0, weir__add_sat(c->last.retry_after_ns, prop_range(r, -1, 1)));
    case 3: return weir__max(0, weir__add_sat(c->last.reset_after_ns, prop_range(r, -1, 1)));
    case 4: return weir__max(0, step + prop_range(r, -1, 1));
    case 5: return prop_range(r, 0, 2 * step + 1);
    case 6: return period + prop_range(r, -1, 1);
    case 7: return prop_range(r, 0, period);
    case 8: return period - c->now_ns % period - prop_range(r, 0, 1);
    case 9: return c->m->slot_ns > 0 ? c->m->slot_ns - c->now_ns % c->m->slot_ns : 0;
    case 10: return prop_odds(r, 3) ? prop_range(r, 0, 20 * period) : c->last.wait_ns;
    default: return 0;
    }
}

void prop_move(struct prop_case *c, bool back)
{
    const int64_t by = stride(c);

    if (back && prop_odds(&c->rng, 3))
        c->now_ns = weir__max(0, c->now_ns - by);
    else
        c->now_ns = weir__min(PROP_FOREVER_NS, weir__add_sat(c->now_ns, by));
    if (c->charges && prop_odds(&c->rng, 5))
        prop_charge(c, prop_cost(c));
}
