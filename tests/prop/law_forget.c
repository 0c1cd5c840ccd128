/* (e) Forgetting a fully recovered key changes no later answer, and reset_after is the least time
 * after which that holds. It holds across a live change too. */
#include "prop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define STEPS_BEFORE 15
#define STEPS_AFTER  25

static void take_any(struct prop_case *c)
{
    const int64_t cost = prop_cost(c), patience = prop_patience(c);

    prop_take(c, cost, patience);
}

static void walk(struct prop_case *c, int steps)
{
    for (int i = 0; i < steps; i++) {
        prop_move(c, false);
        if (prop_odds(&c->rng, 8))
            prop_refund(c, prop_cost(c));
        else
            take_any(c);
    }
}

/* ---- Two keys, one forgotten --------------------------------------------------------------- */

static void take_both(struct prop_case *c, struct weir__state *twin)
{
    const int64_t cost = prop_cost(c), patience = prop_patience(c);
    const struct weir__attempt attempt = prop_ask(c, c->now_ns, cost, patience);
    const struct weir_verdict v = prop_take(c, cost, patience);
    struct weir_verdict w;

    weir__meter_take(c->m, twin, &attempt, &w);
    prop_expect(c, prop_same(&v, &w),
                "had it been forgotten: allowed=%d remaining=%" PRId64 " wait=%" PRId64
                " retry=%" PRId64 " reset=%" PRId64,
                w.allowed, w.remaining, w.wait_ns, w.retry_after_ns, w.reset_after_ns);
}

static void return_both(struct prop_case *c, struct weir__state *twin)
{
    const int64_t n = prop_cost(c);
    const bool cancels = c->last.allowed && prop_odds(&c->rng, 2);
    const int64_t act = weir__add_sat(c->now_ns, c->last.wait_ns);
    const int64_t a = cancels ? prop_cancel(c, n, act) : prop_refund(c, n);
    const int64_t b = cancels ? weir__meter_cancel(c->m, twin, n, act, c->now_ns)
                              : weir__meter_refund(c->m, twin, n, c->now_ns);

    prop_expect(c, a == b, "had it been forgotten: %" PRId64 " returned", b);
}

/* From here on the key and a forgotten one must answer alike. The clock may step back, but not to
 * before the key was forgotten: to know nothing of that time is what forgetting means. */
static void compare(struct prop_case *c)
{
    const struct prop_step step = {.verb = PROP_FORGET, .now_ns = c->now_ns};
    const int64_t since = c->now_ns;
    struct weir__state *twin = prop_state_new(c);

    prop_note(c, &step);
    for (int i = 0; i < STEPS_AFTER && !c->failed; i++) {
        if (prop_odds(&c->rng, 6))
            return_both(c, twin);
        else
            take_both(c, twin);
        prop_move(c, true);
        c->now_ns = weir__max(c->now_ns, since);
    }
    free(twin);
}

/* Moves on to the time at which the key says that it is fully recovered: by its first word or by
 * its answer. */
static bool wait_until_fresh(struct prop_case *c)
{
    const int64_t reset = prop_peek_at(c, c->now_ns, 0, 0).reset_after_ns;
    const int64_t at = prop_odds(&c->rng, 2) ? weir__max(c->now_ns, c->state->fresh_ns)
                                             : weir__add_sat(c->now_ns, reset);
    const int64_t later = prop_odds(&c->rng, 2) ? 0 : prop_range(&c->rng, 0, 1000);

    c->charges = false; /* from here on it is forgotten, or asked like its twin */
    if (at > PROP_FOREVER_NS)
        return false;
    c->now_ns = weir__min(PROP_FOREVER_NS, at + later);
    return true;
}

void prop_law_forget(struct prop_case *c)
{
    prop_open(c, PROP_ANY, 1);
    walk(c, STEPS_BEFORE);
    if (wait_until_fresh(c))
        compare(c);
}

/* Forgotten under the old limit, touched under the new one. */
void prop_law_change(struct prop_case *c)
{
    prop_open(c, PROP_ANY, PROP_VERSIONS);
    if (prop_odds(&c->rng, 2))
        prop_change(c); /* and one that the key saw */
    walk(c, STEPS_BEFORE);
    if (!wait_until_fresh(c))
        return;
    while (c->m < &c->meter[c->versions - 1] && (c->m->older == NULL || prop_odds(&c->rng, 2))) {
        prop_change(c);
        prop_move(c, false);
    }
    compare(c);
}

/* ---- The least such time ------------------------------------------------------------------- */

/* Whether one request shows a nanosecond too early: by remaining, or by the wait of the next
 * one. */
static bool differs(struct prop_case *c, int64_t now_ns)
{
    struct weir__state *twin = prop_state_new(c);
    const struct weir__attempt nothing = prop_ask(c, now_ns, 0, 0);
    struct weir__attempt much = prop_ask(c, now_ns, 1, WEIR_FOREVER);
    struct weir_verdict a, b;
    bool found;

    memcpy(c->spare, c->state, c->size);
    weir__meter_peek(c->m, c->spare, &nothing, &a);
    weir__meter_peek(c->m, twin, &nothing, &b);
    found = a.remaining != b.remaining;
    if (c->algorithm == WEIR_SMOOTH_BURSTY) { /* the first empties the store, the second pays */
        much.cost = weir__min(2 * c->m->limit + 1, WEIR_COUNT_MAX);
        weir__meter_take(c->m, c->spare, &much, &a);
        weir__meter_take(c->m, twin, &much, &b);
        weir__meter_peek(c->m, c->spare, &much, &a);
        weir__meter_peek(c->m, twin, &much, &b);
        found = a.wait_ns != b.wait_ns || a.allowed != b.allowed;
    }
    free(twin);
    return found;
}

/* Where no single request need show it: what a slot's own bound hides, stores that are cold or hold
 * a part of a nanosecond, a window that is open and empty, a key that began with little.
 */
static bool shows(const struct prop_case *c, int64_t early_ns)
{
    const struct weir_term *t = &c->m->term;

    if (weir__meter_is_boxed(c->m)) /* what it has counted shows only later */
        return false;
    switch (c->algorithm) {
    case WEIR_FIXED_WINDOW: return c->last.remaining < c->last.limit;
    case WEIR_SLIDING_WINDOW: return t->per_slot == WEIR_NONE;
    case WEIR_SMOOTH_WARMUP: return false;
    case WEIR_SMOOTH_BURSTY: return t->period_ns % t->count == 0 && c->m->zero.ns <= early_ns;
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_PACER: return c->m->zero.ns <= early_ns;
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
    case WEIR_MIN_INTERVAL: return true;
    case WEIR_UNLIMITED: /* a key is never anything but untouched */
    case WEIR_ZERO:
    case WEIR__GUARDS: return false;
    }
    return false;
}

void prop_law_reset(struct prop_case *c)
{
    int64_t early;

    prop_open(c, PROP_ANY, 1);
    walk(c, STEPS_BEFORE);
    c->last = prop_peek_at(c, c->now_ns, 0, 0);
    early = weir__add_sat(c->now_ns, c->last.reset_after_ns) - 1;
    if (c->last.reset_after_ns > 0 && early <= PROP_FOREVER_NS && shows(c, early))
        prop_expect(c, differs(c, early), "already fresh at %" PRId64, early);
}
