/* States of one limit, joined: one state that binds several keys at once.
 *
 * A key that must give up its place is joined into a state that it shares with other keys, and
 * continues from a copy of that state when it returns. It must not gain by that. So the join of two
 * states refuses whatever either would refuse, now and later, and after every sequence of requests
 * that it grants: it is an upper bound of both, in the order
 *
 *     A <= J   whatever J grants A grants, with no longer a wait, and then still A <= J
 *
 * Each algorithm's file says what that order is for its states, and why grants, time, refunds,
 * denials that count and live changes keep it.
 *
 * Invariants:
 *   (1) The join is commutative, associative and idempotent: the order in which keys were joined,
 *       and how often, makes no difference.
 *   (2) An untouched key joins as what it stands for: a bucket that began empty binds as such.
 *   (3) A join is marked as a copy: part of what it owes belongs to other keys, and may not be
 *       given back to its key where that would leave less than the key's own debt. The mark ends
 *       when the state is fully recovered.
 *   (4) `now` is the caller's, and may be earlier than at the last join: a clock can step back. A
 *       state that has ended by now is not joined; one that is ahead of now keeps its distance from
 *       now, as each algorithm's file says.
 *   (5) A state of an unknown version binds as one that owes its whole limit.
 */
#include "algo/option/block.h"

void weir__meter_join(const struct weir__meter *m, struct weir__state *into,
                      struct weir__state *from, int64_t now_ns)
{
    assert(m->algo->join);
    weir__meter_touch(m, into, now_ns);
    weir__meter_touch(m, from, now_ns);
    if (weir__meter_is_boxed(m))
        weir__block_join(m, into, from, now_ns);
    else
        m->algo->join(m, into, from, now_ns);
    weir__meter_mark_copied(m, into);
}

void weir__meter_mark_copied(const struct weir__meter *m, struct weir__state *s)
{
    if (!weir__meter_is_boxed(m))
        weir__plain_mark_copied(m, s);
    else if (s->fresh_ns != 0)
        weir__block_mark_copied(m, s);
}

void weir__plain_mark_copied(const struct weir__meter *m, struct weir__state *s)
{
    if (s->fresh_ns == 0 || !m->algo->join)
        return;
    if (s->word & m->mark) /* then a bucket's flag has another meaning (due.h) */
        weir__due_mark_copied(m, s);
    else
        s->word |= WEIR__STATE_FLAG;
}

uint32_t weir__meter_share(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns)
{
    if (s->fresh_ns == 0 || s->fresh_ns <= now_ns)
        return 0;
    if (weir__meter_is_boxed(m))
        return weir__block_share(m, *s, now_ns);
    return m->algo->share ? m->algo->share(m, *s, now_ns) : UINT32_MAX;
}

void weir__meter_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                         int64_t edge_ns)
{
    if (weir__meter_is_boxed(m))
        weir__block_owe_all(m, s, now_ns, edge_ns);
    else
        weir__plain_owe_all(m, s, now_ns, edge_ns);
}

void weir__plain_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                         int64_t edge_ns)
{
    if (!m->algo->owe_all) {
        weir__state_reset(s);
        return;
    }
    if (s->fresh_ns < 0) /* no time: damage */
        s->fresh_ns = 0;
    m->algo->owe_all(m, s, now_ns, edge_ns);
    weir__plain_mark_copied(m, s);
}
