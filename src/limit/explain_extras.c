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
    explain_say(o, "a grant that leaves %n of %n, or fewer, where more were left before it", m.warn,
                m.limit);
}
