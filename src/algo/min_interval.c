/* A minimum time between events. rolling-rate-limiter's minDifference.
 *
 * The due time (due.h) of one event: an event passes if the one before it is an interval old, and
 * no caller may queue. An event exactly one interval after another passes.
 *
 *     min-interval 100ms, requests at 0, 99, 100 ms:  allow, deny (retry in 1 ms), allow
 *
 * Invariants:
 *   (1) Two granted events are never nearer than the interval, whatever the clock does.
 *   (2) A cost above 1 never fits: an event is one event.
 *   (3) Keys join to the later event (due.h): an interval after that is one after both.
 */
#include "algo/due.h"

static void min_interval_prepare(struct weir__meter *m)
{
    m->limit = 1;
    m->full = m->step;
    weir__due_bound(m, m->full, INT64_MAX);
}

static inline void min_interval_judge(const struct weir__meter *m, struct weir__due *d,
                                      const struct weir__attempt *a, struct weir_verdict *v)
{
    if (a->cost == 1 && d->ns <= a->now_ns) {
        weir__verdict_grant(v, 0);
        *d = weir__due_add(m, weir__due_at(a->now_ns), m->step);
        return;
    }
    if (m->term.count_denied)
        *d = weir__due_fill(m, *d, 1, a->now_ns);
    if (a->cost > 1)
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__verdict_refuse(v, WEIR_LIMITED, d->ns - a->now_ns);
}

static int64_t min_interval_remaining(const struct weir__meter *m, struct weir__due d,
                                      int64_t now_ns)
{
    (void)m;
    return d.ns <= now_ns ? 1 : 0;
}

static void min_interval_take(const struct weir__meter *m, struct weir__state *s,
                              const struct weir__attempt *a, struct weir_verdict *v)
{
    weir__due_take(m, s, a, v, min_interval_judge, min_interval_remaining);
}

/* The one event that counts is the estimate, if its time is. */
static int64_t min_interval_settle(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                   int64_t made_ns, int64_t now_ns)
{
    return s->fresh_ns == made_ns ? weir__due_refund(m, s, n, now_ns) : 0;
}

const struct weir__algo weir__min_interval = {
    .family = WEIR__FAMILY_DUE,
    .division = WEIR__DIVIDE_INTERVAL,
    .letter = 'i',
    .prepare = min_interval_prepare,
    .state_bytes = sizeof(struct weir__state),
    .take = min_interval_take,
    .peek = weir__due_peek,
    .charge = weir__due_charge,
    .refund = weir__due_refund,
    .settle = min_interval_settle,
    .change = weir__due_change,
    .change_zero = weir__due_change_zero,
    .join = weir__due_join,
    .share = weir__due_share,
    .owe_all = weir__due_owe_all,
    .judge = min_interval_judge,
    .remaining = min_interval_remaining,
};
