/* Estimates that are settled later: what a key may be given back.
 *
 * An estimate of c was taken at t0, and at a later time it turns out to be a < c. If a had been
 * taken in the first place, the key would now owe less: by how much is what may be given back, or
 * later grants would pass the limit.
 *
 * A window knows when each event was counted: those of t0 go, as long as they are in the window
 * (`settle` of its row).
 *
 * A bucket does not. Had it owed c - a less since t0, it would have been empty earlier, and would
 * have let time pass unused: so the difference is c - a, but never more than the least that it has
 * owed at any time since t0. Between two calls nothing but grants and charges happens, which only
 * add; so what it owed after the first call, less what has drained, is a lower bound until the
 * second, and exact if no other call has charged. The caller keeps the least of these bounds.
 *
 *     100/min, burst 100: 60 are reserved at 0 s, and 0 were needed.
 *     settled at  0 s: it owes 60, and gets back 60
 *     settled at 30 s: 50 have drained: it owes 10, and gets back 10
 *     60 more are taken at 50 s (it owed 10 then, and 70 now); settled at 50 s: 10, and not 60: a
 *     key that had not reserved would have been full at 50 s, and would owe 60
 *
 * What is owed, and given back, is a time: what it takes to drain, exact as the due time is. In
 * whole events an estimate of 1 would get nothing back a nanosecond later, when a little less than
 * 1 is owed. The number that is reported is rounded up, so it is 0 just if nothing came back, and
 * never more than was asked for.
 *
 *     10/s: 1 is reserved at 0 s, and cancelled at 1 ns: 99999999 ns are given back, which count as
 *     1 event, and the key owes nothing, as if it had not been reserved
 *
 * What is given back for one estimate, g, has not been owed from its time on. For the other open
 * estimates that means: one that was taken later may get back g less; one that was taken earlier
 * keeps its least from before, but from the settled one's time on the least is g less. No order is
 * stored, for the leasts tell it: that of an earlier estimate covers more time, so it is not above
 * that of a later one; and where both are equal, both rules agree:
 *
 *     later, or equal:  its own - g
 *     earlier:          its own, and no more than (the other's - g)
 *
 *     10/s: 1 is reserved at 0 s (it owes 1), and 5 more (owes 6). The 5 are cancelled: given back
 *     are 5, and the 1 still has 1, because it owed 1 before the 5 came
 *
 * Terms that make callers wait (pacer, leaky-bucket with a delay, the smooth ones) give nothing
 * back: their turns have been given to others meanwhile. Nor does a term with block=: what it would
 * have refused had the key owed less is not known.
 */
#include "algo/due.h"

bool weir__meter_drains(const struct weir__meter *m)
{
    return m->algo->drains && !weir__meter_is_boxed(m) &&
           (m->term.algorithm != WEIR_LEAKY_BUCKET || m->term.delay == WEIR_NONE);
}

struct weir__stamp weir__meter_stamp(const struct weir__meter *m, struct weir__state *s,
                                     int64_t now_ns)
{
    struct weir__due d;

    weir__meter_touch(m, s, now_ns);
    if (!weir__meter_drains(m))
        return (struct weir__stamp){s->fresh_ns, 0};
    d = weir__due_load(m, s);
    return (struct weir__stamp){d.ns, d.behind_ns > 0 ? 0 : d.rem};
}

struct weir__span weir__meter_owed(const struct weir__meter *m, struct weir__stamp stamp,
                                   int64_t now_ns)
{
    const struct weir__due d = {.ns = stamp.ns, .rem = stamp.rem};

    if (stamp.ns <= now_ns || stamp.rem < 0 || stamp.rem >= m->term.count)
        return (struct weir__span){0};
    return weir__due_between(m, d, weir__due_at(now_ns));
}

/* In a file any process may have written a span: one that is none counts as 0. */
static struct weir__span settle_read(const struct weir__meter *m, struct weir__span since)
{
    const bool is_sound = since.ns >= 0 && since.rem >= 0 && since.rem < m->term.count;

    return is_sound ? since : (struct weir__span){0};
}

/* a - b, at least 0. */
static struct weir__span settle_less(const struct weir__meter *m, struct weir__span a,
                                     struct weir__span b)
{
    a.ns -= b.ns;
    a.rem -= b.rem;
    if (a.rem < 0) {
        a.rem += m->term.count;
        a.ns--;
    }
    return a.ns < 0 ? (struct weir__span){0} : a;
}

struct weir__span weir__meter_since(const struct weir__meter *m, struct weir__span since,
                                    struct weir__span of, struct weir__span given)
{
    since = settle_read(m, since);
    of = settle_read(m, of);
    if (weir__span_less(since, of))
        return weir__span_min(since, settle_less(m, of, given));
    return settle_less(m, since, given);
}

static struct weir__settled settle_bucket(const struct weir__meter *m, struct weir__state *s,
                                          int64_t n, struct weir__span since, int64_t now_ns)
{
    const struct weir__span most = weir__span_min(weir__due_price(m, n), settle_read(m, since));
    struct weir__settled back = {.time = weir__due_give_back(m, s, most, now_ns)};
    struct weir__span whole;

    back.events = weir__due_events(m, back.time);
    whole = weir__due_price(m, back.events);
    back.events += whole.ns != back.time.ns || whole.rem != back.time.rem;
    return back;
}

struct weir__settled weir__meter_settle(const struct weir__meter *m, struct weir__state *s,
                                        int64_t n, struct weir__span since, int64_t now_ns)
{
    weir__meter_touch(m, s, now_ns);
    if (s->fresh_ns == 0 || n == 0 || weir__meter_is_boxed(m))
        return (struct weir__settled){0};
    if (weir__meter_drains(m))
        return settle_bucket(m, s, n, since, now_ns);
    if (!m->algo->settle || since.ns <= 0) /* no state that counts anything has such a time */
        return (struct weir__settled){0};
    return (struct weir__settled){.events = m->algo->settle(m, s, n, since.ns, now_ns)};
}
