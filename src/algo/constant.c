/* Limits that count nothing: `unlimited` grants all, `0/s` refuses all.
 *
 * The one is for a customer without a bound, and for a term that is switched off without changing
 * the form of its limit; the other blocks. Both are limits like any other, with keys, options and
 * verdicts, so that nothing above has to know of them:
 *
 *     unlimited:  allow, limit 10^12, remaining 10^12, whatever was taken before
 *     0/s:        deny (too big, and no time to come back), limit 0, remaining 0
 *
 * Invariants:
 *   (1) No state is ever written: every key is untouched, so forgetting it, joining it and carrying
 *       it over to another version change nothing.
 *   (2) unlimited grants any cost, also one above what it reports as its limit, the largest count.
 *   (3) 0/s refuses every cost but 0 as one that never fits: it is above the limit, which is 0.
 *   (4) Neither waits, whatever the patience.
 */
#include "algo/algo.h"

static void constant_prepare(struct weir__meter *m)
{
    m->limit = m->term.count;
}

static void constant_peek(const struct weir__meter *m, const struct weir__state *s,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    (void)s;
    if (a->cost == 0 || m->limit > 0)
        weir__verdict_grant(v, 0);
    else
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    v->limit = v->remaining = m->limit;
    v->reset_after_ns = 0;
}

static void constant_take(const struct weir__meter *m, struct weir__state *s,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    constant_peek(m, s, a, v);
}

/* Only a state that is not of this limit gets here: it has nothing to say. */
static void constant_join(const struct weir__meter *m, struct weir__state *into,
                          const struct weir__state *from, int64_t now_ns)
{
    (void)m;
    (void)from;
    (void)now_ns;
    weir__state_reset(into);
}

static uint32_t constant_share(const struct weir__meter *m, struct weir__state head, int64_t now_ns)
{
    (void)m;
    (void)head;
    (void)now_ns;
    return 0;
}

static void constant_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                             int64_t edge_ns)
{
    (void)m;
    (void)now_ns;
    (void)edge_ns;
    weir__state_reset(s);
}

static void constant_change(const struct weir__meter *from, const struct weir__meter *to,
                            struct weir__state *s)
{
    (void)from;
    (void)to;
    weir__state_reset(s);
}

#define CONSTANT(of)                                                                   \
    {                                                                                  \
        .family = WEIR__FAMILY_WINDOW, .division = WEIR__DIVIDE_WHOLE, .letter = (of), \
        .prepare = constant_prepare, .state_bytes = sizeof(struct weir__state),        \
        .take = constant_take, .peek = constant_peek, .change = constant_change,       \
        .join = constant_join, .share = constant_share, .owe_all = constant_owe_all,   \
        .enters_unseen = true /* so a full store is no reason to refuse */             \
    }

const struct weir__algo weir__unlimited = CONSTANT('a');
const struct weir__algo weir__zero = CONSTANT('z');
