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
 *   (2) An event's delay depends on the events before it (the level *before* it), so events of unit
 *       cost leave one T apart.
 *   (3) Over any interval of length t, at most capacity + t/T events are admitted.
 *   (4) Keys join to the higher level (due.h): an event finds at least as much water before it as
 *       under either key.
 */
#include "algo/due.h"

static void leaky_bucket_prepare(struct weir__meter *m)
{
    m->limit = m->term.burst;
    m->full = weir__due_price_of(m, m->term.burst);
    weir__due_bound(m, m->full, INT64_MAX);
    if (m->term.delay != WEIR_NONE)
        m->delay = weir__due_price_of(m, m->term.delay);
}

static int64_t leaky_bucket_delay(const struct weir__meter *m, struct weir__due d, int64_t now_ns)
{
    if (m->term.delay == WEIR_NONE)
        return 0;
    return weir__max(0, weir__due_sub(m, d, m->delay).ns - now_ns);
}

/* By how much the event would overflow the bucket; at most 0 if it fits. */
static int64_t leaky_bucket_overflow(const struct weir__meter *m, struct weir__due d,
                                     const struct weir__attempt *a)
{
    return weir__due_wait(m, weir__due_base(d, a->now_ns), weir__due_price(m, a->cost), a->now_ns);
}

static inline void leaky_bucket_judge(const struct weir__meter *m, struct weir__due *d,
                                      const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct weir__due after =
        weir__due_add(m, weir__due_base(*d, a->now_ns), weir__due_price(m, a->cost));
    int64_t patience = weir__due_patience(after, a->patience_ns);
    const int64_t delay = leaky_bucket_delay(m, *d, a->now_ns);
    const bool fits = a->cost <= m->term.burst;

    if (fits && leaky_bucket_overflow(m, *d, a) <= 0 && delay <= patience) {
        weir__verdict_grant(v, delay);
        *d = after;
        return;
    }
    if (m->term.count_denied) {
        *d = weir__due_fill(m, *d, a->cost, a->now_ns);
        patience = weir__due_patience(weir__due_add(m, *d, weir__due_price(m, a->cost)), patience);
    }
    if (fits)
        weir__verdict_refuse(v, WEIR_LIMITED,
                             weir__max(leaky_bucket_overflow(m, *d, a),
                                       leaky_bucket_delay(m, *d, a->now_ns) - patience));
    else
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
}

static int64_t leaky_bucket_remaining(const struct weir__meter *m, struct weir__due d,
                                      int64_t now_ns)
{
    return leaky_bucket_delay(m, d, now_ns) > 0 ? 0 : weir__due_room(m, d, now_ns);
}

static void leaky_bucket_take(const struct weir__meter *m, struct weir__state *s,
                              const struct weir__attempt *a, struct weir_verdict *v)
{
    weir__due_take(m, s, a, v, leaky_bucket_judge, leaky_bucket_remaining);
}

static int64_t leaky_bucket_patience(const struct weir_term *t)
{
    return t->delay == WEIR_NONE ? 0 : WEIR_FOREVER;
}

/* A waiter is the last if the delay that its water was due, read back from the level, is its own.
 * Act times are rounded up, which hides events of less than a nanosecond: so with one event less
 * the delay must have been a nanosecond shorter. */
static bool leaky_bucket_is_last(const struct weir__meter *m, struct weir__due d, int64_t cost,
                                 int64_t act_ns)
{
    const struct weir__due before = weir__due_sub(m, d, weir__due_price(m, cost));
    const struct weir__due own = weir__due_sub(m, before, m->delay);

    return own.ns == act_ns && weir__due_sub(m, own, m->step).ns < act_ns;
}

/* A waiter found the level above N, and has added at least one event. */
static bool leaky_bucket_has_waiters(const struct weir__meter *m, struct weir__due d,
                                     int64_t now_ns)
{
    return weir__due_sub(m, weir__due_sub(m, d, m->delay), m->step).ns > now_ns;
}

/* Later callers wait for this one's water to leave, so a cancel returns all or nothing: all to a
 * caller that still waits and is the last, or that acts right now while no caller waits. */
static int64_t leaky_bucket_cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                                   int64_t act_ns, int64_t now_ns)
{
    struct weir__due d = weir__due_load(m, s);
    int64_t events;

    if (m->term.delay == WEIR_NONE || d.blurred || cost > m->term.burst)
        return 0;
    if (act_ns > now_ns ? !leaky_bucket_is_last(m, d, cost, act_ns)
                        : leaky_bucket_has_waiters(m, d, now_ns))
        return 0;
    events = weir__due_lower(m, &d, cost, weir__due_base(m->zero, now_ns));
    if (events > 0)
        weir__due_store(m, s, d);
    return events;
}

const struct weir__algo weir__leaky_bucket = {
    .family = WEIR__FAMILY_DUE,
    .division = WEIR__DIVIDE_BUCKET,
    .letter = 'b',
    .prepare = leaky_bucket_prepare,
    .state_bytes = sizeof(struct weir__state),
    .default_patience = leaky_bucket_patience,
    .take = leaky_bucket_take,
    .peek = weir__due_peek,
    .charge = weir__due_charge,
    .refund = weir__due_refund,
    .drains = true,
    .cancel = leaky_bucket_cancel,
    .change = weir__due_change,
    .change_zero = weir__due_change_zero,
    .join = weir__due_join,
    .share = weir__due_share,
    .owe_all = weir__due_owe_all,
    .judge = leaky_bucket_judge,
    .remaining = leaky_bucket_remaining,
};
