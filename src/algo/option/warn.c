/* warn=80%: a grant that brings the use of a limit to that share says so.
 *
 * A service that is told only when it is refused learns of its quota too late. A take, or a charge,
 * *crosses* the threshold if more than (100 - 80)% of the limit remained before it, and no more
 * than that remains after it. `remaining` is what the verdict says, so this is true for every rate
 * in the same way, and needs no state of its own:
 *
 *     fixed-window 10/m warn=80%, one event at a time:  the 8th crosses it, in every window
 *     token-bucket 10/s warn=80%: a caller that stays near it crosses it again and again
 *
 * Invariants:
 *   (1) A key at or below the threshold does not cross it again before more than that remains.
 *   (2) Nothing but `warned` in the verdict depends on warn=: it changes no state and no answer.
 *   (3) A refusal, and a cost of 0, cross nothing.
 */
#include "algo/algo.h"
#include "algo/option/block.h"

/* What remains when the threshold is reached. Rounded down: at least the share that was named is
 * used. Counts are below 2^40. */
int64_t weir__warn_threshold(const struct weir__meter *m)
{
    return m->limit * (1000 - m->term.warn_milli) / 1000;
}

/* What warn= is put around: the algorithm's own, or the box of block=. */
static void unwarned_take(const struct weir__meter *m, struct weir__state *s,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    (weir__meter_is_boxed(m) ? weir__block_take : m->algo->take)(m, s, a, v);
}

static void unwarned_peek(const struct weir__meter *m, const struct weir__state *s,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    (weir__meter_is_boxed(m) ? weir__block_peek : m->algo->peek)(m, s, a, v);
}

/* What remains in this state for a caller that does not wait. */
static int64_t warn_remaining(const struct weir__meter *m, const struct weir__state *s,
                              const struct weir__attempt *a)
{
    struct weir__attempt nothing = *a;
    struct weir_verdict v;

    nothing.cost = nothing.patience_ns = 0;
    unwarned_peek(m, s, &nothing, &v);
    return v.remaining;
}

bool weir__warn_crossed(const struct weir__meter *m, int64_t before, const struct weir_verdict *v)
{
    const int64_t threshold = weir__warn_threshold(m);

    return v->allowed && before > threshold && v->remaining <= threshold;
}

static void warn_take(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v)
{
    const int64_t before = warn_remaining(m, s, a);

    unwarned_take(m, s, a, v);
    v->warned = weir__warn_crossed(m, before, v);
}

static void warn_peek(const struct weir__meter *m, const struct weir__state *s,
                      const struct weir__attempt *a, struct weir_verdict *v)
{
    const int64_t before = warn_remaining(m, s, a);

    unwarned_peek(m, s, a, v);
    v->warned = weir__warn_crossed(m, before, v);
}

void weir__warn_prepare(struct weir__meter *m)
{
    m->take = warn_take;
    m->peek = warn_peek;
}
