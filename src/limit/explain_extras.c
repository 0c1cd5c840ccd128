/* Options that any rate may carry, in plain words; nothing where the term has none. */
#include "algo/algo.h"
#include "limit/explain.h"
#include "limit/explain_words.h"

void weir__explain_warned(struct weir__out *o, const struct weir_term *t)
{
    struct weir__meter m;

    if (t->warn_milli == 0)
        return;
    weir__meter_init(&m, t, 0);
    explain_say(o, "a grant that leaves %n of %n, or fewer, where more were left before it",
                weir__warn_threshold(&m), m.limit);
}

void weir__explain_blocked(struct weir__out *o, const struct weir_term *t)
{
    if (t->block_ns == 0)
        return;
    explain_say(o, "for %t by %n refusals within %t", t->block_ns, t->block_after, t->period_ns);
    if (t->block_most_ns > t->block_ns)
        explain_say(o,
                    "; each further block is twice as long, up to %t, until %t have passed "
                    "without one",
                    t->block_most_ns, t->block_most_ns);
}
