/* The due time: what the five buckets share beside the decision itself. The idea is in due.h. */
#include "algo/due.h"

struct weir__span weir__due_price_of(const struct weir__meter *m, int64_t n)
{
    const int64_t count = m->term.count;
    weir__u128 units, ns;
    int64_t product;

    if (!__builtin_mul_overflow(n, m->term.period_ns, &product))
        return (struct weir__span){product / count, product % count};
    units = weir__wide(n) * weir__wide(m->term.period_ns);
    ns = units / weir__wide(count);
    if (ns >= INT64_MAX)
        return (struct weir__span){INT64_MAX, 0};
    return (struct weir__span){(int64_t)ns, (int64_t)(units % weir__wide(count))};
}

void weir__due_peek(const struct weir__meter *m, const struct weir__state *s,
                    const struct weir__ask *a, struct weir_verdict *v)
{
    (void)weir__due_decide(m, weir__due_load(m, s), a, v, m->algo->judge, m->algo->remaining);
}

int64_t weir__wait_forever(const struct weir__meter *m)
{
    (void)m;
    return WEIR_FOREVER;
}

struct weir__due weir__due_fill(const struct weir__meter *m, struct weir__due d, int64_t cost,
                                int64_t now_ns)
{
    const struct weir__due brim = weir__due_add(m, weir__due_at(now_ns), m->full);
    struct weir__due charged =
        weir__due_add(m, weir__due_base(d, now_ns), weir__due_price(m, cost));

    if (weir__due_after(charged, brim))
        charged = brim;
    charged.blurred = d.blurred && d.ns > now_ns; /* that passes with D, and not before */
    return weir__due_after(charged, d) ? charged : d;
}

int64_t weir__due_lower(const struct weir__meter *m, struct weir__due *d, int64_t n,
                        struct weir__due floor)
{
    struct weir__due lower = weir__due_sub(m, *d, weir__due_price(m, n));
    int64_t events = n;

    if (!weir__due_after(*d, floor))
        return 0;
    if (weir__due_after(floor, lower)) {
        lower = floor;
        events = weir__due_events(m, weir__due_between(m, *d, floor));
    }
    lower.blurred = d->blurred;
    *d = lower;
    return events;
}

int64_t weir__due_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                         int64_t now_ns)
{
    const struct weir__due before = weir__due_load(m, s);
    const bool waiting = weir__due_sub(m, before, m->full).ns > now_ns;
    struct weir__due after = before;
    const int64_t events = weir__due_lower(m, &after, n, weir__due_base(m->zero, now_ns));

    after.blurred = before.blurred || waiting;
    if (weir__due_after(before, after))
        weir__due_store(m, s, after);
    return events;
}

/* Later reservations stand on the events between this one's act time and the last one's: those
 * cannot be returned, for they were promised away. With act rounded up by less than 1 ns, their
 * number lies in [x, x + rate); we take the greatest whole number there, or x rounded up. */
static int64_t events_depended_on(const struct weir__meter *m, struct weir__due last,
                                  int64_t act_ns)
{
    const weir__u128 period = weir__wide(m->term.period_ns);
    const weir__u128 per_ns = weir__wide(m->term.count);
    weir__u128 units, least, most;

    if (last.ns < act_ns)
        return 0;
    /* ns - act + 1 - rem/count > 0, in units of 1/count */
    units = weir__wide(last.ns - act_ns + 1) * per_ns - weir__wide(last.rem);
    most = (units + period - 1) / period - 1;
    least = units > per_ns ? (units - per_ns + period - 1) / period : 0;
    if (most > INT64_MAX || least > INT64_MAX)
        return INT64_MAX;
    return (int64_t)(most > least ? most : least);
}

int64_t weir__due_cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                         int64_t act_ns, int64_t now_ns)
{
    struct weir__due d = weir__due_load(m, s);
    const struct weir__due last = weir__due_sub(m, d, m->full);
    const int64_t depended = events_depended_on(m, last, act_ns);
    int64_t events;

    /* Of a cost above the bucket (a pacer's), a bucketful stands before the act time and the rest
     * behind the one before it: that part only the last reservation may return. */
    if (depended > 0)
        cost = weir__min(cost, m->limit);
    if (d.blurred || depended >= cost)
        return 0;
    events = weir__due_lower(m, &d, cost - depended, weir__due_base(m->zero, now_ns));
    d.blurred = depended > 0; /* others came later: their last act time is now lost */
    if (events > 0)
        weir__due_store(m, s, d);
    return events;
}

weir__u128 weir__due_units(const struct weir__meter *m, struct weir__due d, int64_t since_ns)
{
    assert(d.ns > since_ns);
    return weir__wide(d.ns - since_ns) * weir__wide(m->term.count) - weir__wide(d.rem);
}

struct weir__due weir__due_of_units(const struct weir__meter *m, weir__u128 units, int64_t since_ns)
{
    const weir__u128 count = weir__wide(m->term.count);
    const weir__u128 ns = (units + count - 1) / count;

    if (ns > weir__wide(INT64_MAX - since_ns))
        return weir__due_at(INT64_MAX);
    return (struct weir__due){.ns = since_ns + (int64_t)ns, .rem = (int64_t)(ns * count - units)};
}

/* The events owed at the change carry over: D - C scales by T_new/T_old. */
static struct weir__due carried(const struct weir__meter *from, const struct weir__meter *to,
                                struct weir__due d)
{
    const int64_t at = to->changed_ns;
    const weir__u128 big = (weir__u128)1 << 120;
    struct weir__due after;
    weir__u128 units;

    if (d.ns <= at)
        return weir__due_at(d.ns);
    units = weir__wide_mul_div_ceil(weir__due_units(from, d, at), weir__wide(to->term.period_ns),
                                    weir__wide(from->term.period_ns), big);
    after = weir__due_of_units(to, units, at);
    after.blurred = d.blurred || weir__due_sub(from, d, from->full).ns > at;
    return after;
}

void weir__due_change(const struct weir__meter *from, const struct weir__meter *to,
                      struct weir__state *s)
{
    weir__due_store(to, s, carried(from, to, weir__due_load(from, s)));
}

void weir__due_change_zero(const struct weir__meter *from, struct weir__meter *to)
{
    to->zero = carried(from, to, from->zero);
    to->zero.blurred = false;
}
