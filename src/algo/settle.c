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

int64_t weir__meter_owed(const struct weir__meter *m, struct weir__stamp stamp, int64_t now_ns)
{
    const struct weir__due d = {.ns = stamp.ns, .rem = stamp.rem};

    if (stamp.ns <= now_ns || stamp.rem < 0 || stamp.rem >= m->term.count)
        return 0;
    return weir__due_events(m, weir__due_between(m, d, weir__due_at(now_ns)));
}

int64_t weir__meter_settle(const struct weir__meter *m, struct weir__state *s, int64_t n,
                           int64_t since, int64_t now_ns)
{
    if (weir__meter_drains(m))
        return weir__meter_refund(m, s, weir__min(n, since), now_ns);
    weir__meter_touch(m, s, now_ns);
    if (s->fresh_ns == 0 || n == 0 || !m->algo->settle || weir__meter_is_boxed(m))
        return 0;
    return m->algo->settle(m, s, n, since, now_ns);
}
