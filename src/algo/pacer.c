/* The pacer: a queue with a constant outflow. uber-go/ratelimit, Sentinel's pacing.
 *
 * Every event gets a turn, T after the one before it. With the due time of due.h a turn is
 *
 *     wait = D' - (1 + slack) x T - now,   D' = max(D, now) + cost x T
 *
 * which is a token bucket of 1 + slack whose callers wait by default. An event of cost c takes c
 * turns and acts with the last of them. Up to `slack` unused turns may be made up, never twice:
 * they accrue from the creation of the limit, so that a fresh pacer starts at its pace and not with
 * a burst.
 *
 *     pacer 10/s, three at once:                 wait 0, 100, 200 ms
 *     pacer 10/s slack=2, idle, four at once:    wait 0, 0, 0, 100 ms
 *
 * Invariants:
 *   (1) Over any interval of length t, at most 1 + slack + t/T events act (or, where the first
 *       costs more than 1 + slack, its cost + t/T: it acts once, with the last of its turns).
 *   (2) Callers never wait for more than `queue` turns: ceil(wait / T) events stand in the queue,
 *       so the bound on how many is the bound wait <= queue x T. No wait passes max-wait.
 *   (3) A refused event leaves no gap: the next event gets its turn.
 *   (4) Keys join to the later turn (due.h): a caller that gets a turn there gets one no later
 *       under either key.
 */
#include "algo/due.h"

static void pacer_prepare(struct weir__meter *m)
{
    const struct weir__span longest = {WEIR__SPAN_MAX, 0};

    m->limit = m->term.burst;
    m->full = weir__due_price_of(m, m->term.burst);
    m->backlog = weir__due_price_of(m, m->term.burst + m->term.queue);
    if (m->backlog.ns > WEIR__SPAN_MAX)
        m->backlog = longest;
    weir__due_bound(m, m->backlog,
                    weir__add_sat(m->full.ns + (m->full.rem > 0), m->term.max_wait_ns));
    if (m->term.burst > 1)
        m->zero =
            weir__due_add(m, weir__due_at(m->created_ns), weir__due_price_of(m, m->term.burst - 1));
}

struct pacer_departure {
    struct weir__due after;
    int64_t wait_ns; /* may be below 0: there is slack */
    int64_t late_ns; /* by how much the wait passes the caller's or the limit's bound */
    int64_t over_ns; /* by how much the wait passes the end of the queue              */
};

static struct pacer_departure pacer_departure_of(const struct weir__meter *m, struct weir__due d,
                                                 const struct weir__attempt *a)
{
    const struct weir__span price = weir__due_price(m, a->cost);
    const struct weir__due base = weir__due_base(d, a->now_ns);
    const int64_t wait = weir__due_wait(m, base, price, a->now_ns);
    const struct weir__due reach = weir__due_add(m, weir__due_sub(m, base, m->backlog), price);
    const struct weir__due after = weir__due_add(m, base, price);
    const int64_t patience = weir__due_patience(after, a->patience_ns);

    return (struct pacer_departure){
        .after = after,
        .wait_ns = wait,
        .late_ns = weir__max(0, wait) - weir__min(patience, m->term.max_wait_ns),
        .over_ns = reach.ns - a->now_ns,
    };
}

static bool pacer_is_on_time(struct pacer_departure t)
{
    return t.late_ns <= 0 && t.over_ns <= 0;
}

static inline void pacer_judge(const struct weir__meter *m, struct weir__due *d,
                               const struct weir__attempt *a, struct weir_verdict *v)
{
    struct pacer_departure t = pacer_departure_of(m, *d, a);
    const bool queue_full = t.late_ns <= 0;
    bool possible;

    if (pacer_is_on_time(t)) {
        weir__verdict_grant(v, weir__max(0, t.wait_ns));
        *d = t.after;
        return;
    }
    possible = pacer_is_on_time(pacer_departure_of(m, weir__due_at(a->now_ns), a));
    if (m->term.count_denied) {
        *d = weir__due_fill(m, *d, a->cost, a->now_ns);
        t = pacer_departure_of(m, *d, a);
    }
    if (possible)
        weir__verdict_refuse(v, queue_full ? WEIR_QUEUE_FULL : WEIR_LIMITED,
                             weir__max(t.late_ns, t.over_ns));
    else
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
}

static void pacer_take(const struct weir__meter *m, struct weir__state *s,
                       const struct weir__attempt *a, struct weir_verdict *v)
{
    weir__due_take(m, s, a, v, pacer_judge, weir__due_room);
}

const struct weir__algo weir__pacer = {
    .family = WEIR__FAMILY_DUE,
    .division = WEIR__DIVIDE_BUCKET,
    .letter = 'p',
    .prepare = pacer_prepare,
    .state_bytes = sizeof(struct weir__state),
    .default_patience = weir__wait_forever,
    .take = pacer_take,
    .peek = weir__due_peek,
    .charge = weir__due_charge,
    .refund = weir__due_refund,
    .cancel = weir__due_cancel,
    .change = weir__due_change,
    .change_zero = weir__due_change_zero,
    .join = weir__due_join,
    .share = weir__due_share,
    .owe_all = weir__due_owe_all,
    .judge = pacer_judge,
    .remaining = weir__due_room,
};
