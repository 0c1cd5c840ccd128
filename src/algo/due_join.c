/* Joining due times. The due time of several keys is the latest of theirs: a caller that waits for
 * that one waits for all. See due.h, (6). */
#include "algo/due.h"

/* An untouched key has the due time that zero stands for, so it joins like any other. */
void weir__due_join(const struct weir__meter *m, struct weir__state *into,
                    const struct weir__state *from, int64_t now_ns)
{
    struct weir__due d = weir__due_load(m, into);
    const struct weir__due other = weir__due_load(m, from);

    (void)now_ns;
    if (weir__due_after(other, d))
        d = other;
    d.blurred = true;
    d.behind_ns = 0; /* two keys, two clocks: the key waits out the step */
    weir__due_store(m, into, d);
}

void weir__due_mark_copied(const struct weir__meter *m, struct weir__state *s)
{
    struct weir__due d = weir__due_load(m, s);

    d.blurred = true;
    d.behind_ns = 0;
    weir__due_store(m, s, d);
}

uint32_t weir__due_share(const struct weir__meter *m, struct weir__state head, int64_t now_ns)
{
    if (head.fresh_ns <= now_ns)
        return 0;
    return weir__in_1024ths(head.fresh_ns - now_ns, m->full.ns + (m->full.rem > 0));
}

void weir__due_owe(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                   struct weir__span ahead)
{
    struct weir__due d = weir__due_add(m, weir__due_at(now_ns), ahead);

    if (s->fresh_ns > d.ns || (s->fresh_ns == d.ns && d.rem > 0))
        d = weir__due_at(s->fresh_ns); /* its remainder belongs to another count: rounded up */
    d.blurred = true;
    weir__due_store(m, s, d);
}

void weir__due_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                       int64_t edge_ns)
{
    (void)edge_ns;
    weir__due_owe(m, s, now_ns, m->full);
}
