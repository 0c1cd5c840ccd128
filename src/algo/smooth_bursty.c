/* Prepay: the next caller pays for this one. Guava's SmoothBursty.
 *
 * Guava keeps stored permits, which idle time earns up to max-burst's worth, and the next free
 * ticket. A caller waits for the ticket, never for its own cost: it takes what is stored, and the
 * rest is charged to the ticket, which the next caller will wait for.
 *
 * Both numbers are one due time (due.h): D is when the store will be full again. What is stored at
 * `now` is by how much D is less than max-burst ahead; a ticket in the future is by how much it is
 * more:
 *
 *     next = D - max-burst            stored = (max-burst - (D - now)) / T, where that is positive
 *     wait = max(0, next - now)       D' = max(D, now) + cost x T
 *
 * Guava rounds every step to a microsecond, and so runs 80000/s at 83333/s; D is exact.
 *
 *     smooth-bursty 5/s, acquiring 5, 1, 1, 1, each when the one before it may act:
 *     wait 0, 1 s, 200 ms, 200 ms
 *
 * Invariants:
 *   (1) Any cost passes once the ticket is due: there is no cost too big, only a longer wait for
 *       the next caller (and the end of time, 2^63 ns).
 *   (2) Over any interval of length t, what acts is at most max-burst/T + t/T events, and the cost
 *       of the last one, which no caller has paid for yet.
 *   (3) The store is empty when the limit is created, and fills from then on.
 *   (4) Keys join to the later D (due.h): the later ticket and the emptier store.
 */
#include "algo/due.h"

static void smooth_bursty_prepare(struct weir__meter *m)
{
    const int64_t stored = weir__mul_div(m->term.max_burst_ns, m->term.count, m->term.period_ns);

    m->limit = weir__max(1, stored);
    m->full = (struct weir__span){m->term.max_burst_ns, 0};
    m->zero = weir__due_at(m->created_ns + m->term.max_burst_ns);
}

static int64_t ticket_in(const struct weir__meter *m, struct weir__due d, int64_t now_ns)
{
    return weir__max(0, weir__due_sub(m, d, m->full).ns - now_ns);
}

static inline void smooth_bursty_judge(const struct weir__meter *m, struct weir__due *d,
                                       const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct weir__span price = weir__due_price(m, a->cost);
    const struct weir__due after = weir__due_add(m, weir__due_base(*d, a->now_ns), price);
    int64_t wait = ticket_in(m, *d, a->now_ns);
    bool never = false;

    if (after.ns == INT64_MAX) { /* the bill passes the end of time, and later it would too */
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
        return;
    }
    if (wait <= a->patience_ns) {
        weir__verdict_grant(v, wait);
        *d = after;
        return;
    }
    if (m->term.count_denied) {
        const struct weir__due later =
            weir__due_add(m, weir__due_add(m, weir__due_at(a->now_ns), m->full), price);

        if (weir__due_after(later, *d))
            *d = later;
        wait = ticket_in(m, *d, a->now_ns);
        if (weir__due_add(m, *d, price).ns == INT64_MAX)
            never = true; /* once it is counted, the same bill no longer fits */
    }
    weir__verdict_refuse(v, WEIR_LIMITED, never ? -1 : wait - a->patience_ns);
}

static int64_t smooth_bursty_remaining(const struct weir__meter *m, struct weir__due d,
                                       int64_t now_ns)
{
    return ticket_in(m, d, now_ns) == 0 ? m->limit : 0;
}

static void smooth_bursty_take(const struct weir__meter *m, struct weir__state *s,
                               const struct weir__attempt *a, struct weir_verdict *v)
{
    weir__due_take(m, s, a, v, smooth_bursty_judge, smooth_bursty_remaining);
}

/* A rate change keeps the ticket, and the share of the store that is filled. Both are lengths of
 * time here, so with the same max-burst nothing moves at all. */
static struct weir__due smooth_bursty_rescaled(const struct weir__meter *from,
                                               const struct weir__meter *to, struct weir__due d)
{
    const weir__u128 count_from = weir__wide(from->term.count);
    const weir__u128 count_to = weir__wide(to->term.count);
    const weir__u128 burst_from = weir__wide(from->term.max_burst_ns);
    const weir__u128 burst_to = weir__wide(to->term.max_burst_ns);
    const weir__u128 big = (weir__u128)1 << 120;
    const struct weir__due ticket = weir__due_sub(from, d, from->full);
    const int64_t at = to->changed_ns;
    weir__u128 units;

    if (ticket.ns > at) {
        units =
            weir__wide_mul_div_ceil(weir__due_units(from, ticket, at), count_to, count_from, big);
        return weir__due_add(to, weir__due_of_units(to, units, at), to->full);
    }
    if (from->term.max_burst_ns == 0)
        return weir__due_at(at + to->term.max_burst_ns); /* nothing was stored */
    if (d.ns <= at)
        return weir__due_at(at);
    units = weir__wide_mul_div_ceil(weir__due_units(from, d, at), burst_to * count_to,
                                    burst_from * count_from, big);
    return weir__due_of_units(to, units, at);
}

static void smooth_bursty_change(const struct weir__meter *from, const struct weir__meter *to,
                                 struct weir__state *s)
{
    const struct weir__due before = weir__due_load(from, s);
    struct weir__due after = smooth_bursty_rescaled(from, to, before);

    after.blurred = before.blurred;
    weir__due_store(to, s, after);
}

static void smooth_bursty_change_zero(const struct weir__meter *from, struct weir__meter *to)
{
    to->zero = smooth_bursty_rescaled(from, to, from->zero);
}

/* An empty store, and one event beyond it, which the next caller pays for: only a larger cost, or
 * callers that wait, can owe more. */
static struct weir__span smooth_bursty_most_owed(const struct weir__meter *m)
{
    return (struct weir__span){m->full.ns + m->step.ns, m->step.rem};
}

static uint32_t smooth_bursty_share(const struct weir__meter *m, struct weir__state head,
                                    int64_t now_ns)
{
    const struct weir__span most = smooth_bursty_most_owed(m);

    if (head.fresh_ns <= now_ns)
        return 0;
    return weir__in_1024ths(head.fresh_ns - now_ns, most.ns + (most.rem > 0));
}

static void smooth_bursty_owe_all(const struct weir__meter *m, struct weir__state *s,
                                  int64_t now_ns, int64_t edge_ns)
{
    (void)edge_ns;
    weir__due_owe(m, s, now_ns, smooth_bursty_most_owed(m));
}

const struct weir__algo weir__smooth_bursty = {
    .family = WEIR__FAMILY_DUE,
    .division = WEIR__DIVIDE_RATE,
    .letter = 's',
    .prepare = smooth_bursty_prepare,
    .state_bytes = sizeof(struct weir__state),
    .default_patience = weir__wait_forever,
    .take = smooth_bursty_take,
    .peek = weir__due_peek,
    .charge = weir__due_charge,
    .refund = weir__due_refund,
    .change = smooth_bursty_change,
    .change_zero = smooth_bursty_change_zero,
    .join = weir__due_join,
    .share = smooth_bursty_share,
    .owe_all = smooth_bursty_owe_all,
    .judge = smooth_bursty_judge,
    .remaining = smooth_bursty_remaining,
};
