/* The leaky bucket as a meter: events pour in, the bucket leaks at a rate, what would overflow is
 * refused. nginx's limit_req.
 *
 * The level is what the due time (due.h) is ahead of the clock, in events. Without a delay the
 * bucket only measures: an event passes at once or not at all. With `delay=N` events also queue in
 * it: one that finds the level above N waits until it has sunk to N,
 *
 *     wait = D - N x T - now
 *
 * so that delay=0 sends every excess event out at the rate, and a larger N lets N pass undelayed.
 * nginx's `burst=B` is `capacity=B+1`, for nginx counts from 0 what it calls excess; its `nodelay`
 * is `delay=none`.
 *
 *     leaky-bucket 10/s capacity=6 delay=0, seven at once:  wait 0, 100, 200 .. 500 ms, refused
 *
 * Invariants:
 *   (1) The level never passes capacity, whatever the patience: capacity is the queue.
 *   (2) An event's delay is paid by those before it (the level *before* it), so events of unit cost
 *       leave one T apart.
 *   (3) Over any interval of length t, at most capacity + t/T events are admitted.
 */
#include "algo/due.h"

static void prepare(struct weir__meter *m)
{
    m->limit = m->term.burst;
    m->full = weir__due_price_of(m, m->term.burst);
    if (m->term.delay != WEIR_NONE)
        m->delay = weir__due_price_of(m, m->term.delay);
}

static int64_t delay_of(const struct weir__meter *m, struct weir__due d, int64_t now_ns)
{
    if (m->term.delay == WEIR_NONE)
        return 0;
    return weir__max(0, weir__due_sub(m, d, m->delay).ns - now_ns);
}

/* How far the event would stand over the brim; at most 0 if it fits. */
static int64_t overflow_of(const struct weir__meter *m, struct weir__due d,
                           const struct weir__ask *a)
{
    return weir__due_wait(m, weir__due_base(d, a->now_ns), weir__due_price(m, a->cost), a->now_ns);
}

static inline void judge(const struct weir__meter *m, struct weir__due *d,
                         const struct weir__ask *a, struct weir_verdict *v)
{
    const struct weir__due after =
        weir__due_add(m, weir__due_base(*d, a->now_ns), weir__due_price(m, a->cost));
    int64_t patience = weir__due_patience(after, a->patience_ns);
    const int64_t delay = delay_of(m, *d, a->now_ns);
    const bool fits = a->cost <= m->term.burst;

    if (fits && overflow_of(m, *d, a) <= 0 && delay <= patience) {
        weir__grant(v, delay);
        *d = after;
        return;
    }
    if (m->term.count_denied) {
        *d = weir__due_fill(m, *d, a->cost, a->now_ns);
        patience = weir__due_patience(weir__due_add(m, *d, weir__due_price(m, a->cost)), patience);
    }
    if (fits)
        weir__refuse(v, WEIR_LIMITED,
                     weir__max(overflow_of(m, *d, a), delay_of(m, *d, a->now_ns) - patience));
    else
        weir__refuse(v, WEIR_TOO_BIG, -1);
}

static int64_t remaining(const struct weir__meter *m, struct weir__due d, int64_t now_ns)
{
    return delay_of(m, d, now_ns) > 0 ? 0 : weir__due_room(m, d, now_ns);
}

static void take(const struct weir__meter *m, struct weir__state *s, const struct weir__ask *a,
                 struct weir_verdict *v)
{
    weir__due_take(m, s, a, v, judge, remaining);
}

static int64_t default_patience(const struct weir__meter *m)
{
    return m->term.delay == WEIR_NONE ? 0 : WEIR_FOREVER;
}

/* Whoever came later was told to wait for this one's water to leave, so it is all or nothing. One who
 * still waits is the last if the delay that his water was due, read back from the level, is his own.
 * One who acts this very instant may have been granted in it, and then none of his water has leaked;
 * but if others wait by now, what they were told can no longer be read back. */
static int64_t cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                      int64_t act_ns, int64_t now_ns)
{
    struct weir__due d = weir__due_load(m, s);
    struct weir__due before;
    int64_t own, events;

    if (m->term.delay == WEIR_NONE || d.blurred || cost > m->term.burst)
        return 0;
    before = weir__due_sub(m, d, weir__due_price(m, cost));
    own = weir__due_sub(m, before, m->delay).ns;
    if (own != act_ns && (own > act_ns || act_ns > now_ns))
        return 0;
    d.blurred = act_ns == now_ns && weir__due_sub(m, d, m->delay).ns > now_ns;
    events = weir__due_lower(m, &d, cost, weir__due_base(m->zero, now_ns));
    if (events > 0)
        weir__due_store(m, s, d);
    return events;
}

const struct weir__algo weir__leaky_bucket = {
    .prepare = prepare,
    .state_bytes = sizeof(struct weir__state),
    .default_patience = default_patience,
    .take = take,
    .peek = weir__due_peek,
    .refund = weir__due_refund,
    .cancel = cancel,
    .change = weir__due_change,
    .change_zero = weir__due_change_zero,
    .judge = judge,
    .remaining = remaining,
};
