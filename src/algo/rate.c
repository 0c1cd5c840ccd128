/* Buckets whose parameters come with every request.
 *
 * Some callers name the limit in each request (redis-cell's CL.THROTTLE does), so a key can meet a
 * new limit with every request, and no store numbers them. A state then cannot say which version
 * wrote it. It says the rate at which it was written: the time of one event, T, as a floating-point
 * number of 22 bits, in the place of the version.
 *
 * A request of the same rate finds its own code there, and the state is exact. A request of another
 * rate is a live change at that time: the events owed carry over, with T of the old rate read from
 * the code. So 10/s -> 20/s neither forgets nor doubles what was used, where a bare due time would
 * (it is redis-cell's issue 54).
 *
 * Invariants:
 *   (1) The code is T to one part in 2^14. Both rates of a change are read from their codes, so
 *       that changing back and forth between two rates, however often, leaves what is owed as it
 *       was, to a nanosecond: an error of one part in 2^14, either way, does not add up.
 *   (2) Rates that have the same code differ by less than that, and a state of one is read
 *       unchanged as a state of the other; the remainder is cut to what the other's count allows:
 *       less than a nanosecond.
 *   (3) A state that names no rate owes its whole limit. No rate has the code 2^22 (that T would be
 *       below the least): it stands for limits given as text, which never change, and says nothing
 *       about a rate.
 *   (4) The burst is in no state: it is what the request says.
 */
#include "algo/due.h"
#include "algo/option/block.h"

#define MANTISSA_BITS 15
#define SCALE_BITS    60 /* of T before it is cut: the least T, 10^-9 ns, still has 30 bits */
/* T is mantissa x 2^(exponent - BIAS); the exponent is 0..87, in the code's upper 7 bits. */
#define BIAS          45
#define EXPONENT_MOST 87

static int bit_length(weir__u128 x)
{
    const uint64_t high = (uint64_t)(x >> 64), low = (uint64_t)x;

    if (high != 0)
        return 128 - __builtin_clzll(high);
    return low == 0 ? 0 : 64 - __builtin_clzll(low);
}

static uint32_t rate_code(const struct weir_term *t)
{
    /* A period is below 2^55 ns, so the shift loses nothing. */
    const weir__u128 scaled = (weir__wide(t->period_ns) << SCALE_BITS) / weir__wide(t->count);
    const int cut = bit_length(scaled) - MANTISSA_BITS;
    const uint32_t mantissa = (uint32_t)(scaled >> cut) & ((UINT32_C(1) << MANTISSA_BITS) - 1);

    return WEIR__VERSION_RATE | (mantissa & ~(UINT32_C(1) << (MANTISSA_BITS - 1))) |
           (uint32_t)(cut - SCALE_BITS + BIAS) << (MANTISSA_BITS - 1);
}

static bool rate_is_code(uint32_t code)
{
    return (code & ~WEIR__VERSION_RATE) >> (MANTISSA_BITS - 1) <= EXPONENT_MOST;
}

/* The rate of a code, as a pair: 2^a events in m x 2^b ns. */
static void rate_of_code(uint32_t code, struct weir_term *t)
{
    const uint32_t low = (UINT32_C(1) << (MANTISSA_BITS - 1)) - 1;
    const int64_t mantissa = (code & low) | (low + 1);
    const int exponent = (int)((code & ~WEIR__VERSION_RATE) >> (MANTISSA_BITS - 1)) - BIAS;

    t->count = exponent < 0 ? INT64_C(1) << -exponent : 1;
    t->period_ns = exponent < 0 ? mantissa : mantissa << exponent;
}

static void no_step(struct weir__meter *m)
{
    m->most_ns = INT64_MAX;
    *(weir__meter_is_boxed(m) ? &m->inner_step_ns : &m->step_ns) = INT64_MAX;
    m->mark = 0;
}

void weir__meter_init_by_rate(struct weir__meter *m, const struct weir_term *term,
                              int64_t created_ns)
{
    assert(term->algorithm == WEIR_TOKEN_BUCKET && term->initial == term->burst);
    weir__meter_init(m, term, created_ns);
    m->version = m->since = rate_code(term);
    /* A state may owe another request's burst, so a step back of the clock cannot be recognized. */
    no_step(m);
}

void weir__meter_bring_up_by_rate(const struct weir__meter *m, struct weir__state *s,
                                  int64_t now_ns)
{
    struct weir__meter from = *m, to = *m;

    if (m->version <= WEIR__VERSION_RATE || weir__state_version(s) <= WEIR__VERSION_RATE) {
        weir__plain_owe_all(m, s, now_ns, 0);
        return;
    }
    if (!rate_is_code(weir__state_version(s))) { /* damaged: the debt stays */
        s->word = 0;
        return;
    }
    rate_of_code(weir__state_version(s), &from.term);
    from.version = weir__state_version(s);
    from.full = (struct weir__span){0};
    s->word &= WEIR__VERSION_MASK; /* the remainder is less than a nanosecond: D is rounded up */
    rate_of_code(m->version, &to.term);
    to.changed_ns = now_ns;
    weir__due_change(&from, &to, s);
    s->word &= WEIR__VERSION_MASK; /* likewise: it is in parts of the code's count, not ours */
}

/* ---- A key's own numbers, in place of a limit's --------------------------------------------- */

/* The buckets of due.h say their rate. Other states are of the code 2^22: what they count does not
 * depend on the numbers that may differ (weir__meter_misfit). */
static uint32_t own_code(const struct weir__meter *m)
{
    return m->algo->judge ? rate_code(&m->term) : WEIR__VERSION_RATE;
}

void weir__meter_init_own(struct weir__meter *m, const struct weir_term *term,
                          const struct weir__meter *of)
{
    weir__meter_init(m, term, of->created_ns);
    m->version = m->since = own_code(m);
    m->of = of;
    /* As above: a state may owe the burst of other numbers. */
    no_step(m);
}

/* The numbers that wrote a state of that code, as far as the code says. */
static void own_of_code(const struct weir__meter *like, uint32_t code, struct weir__meter *m)
{
    *m = *like;
    m->version = code;
    no_step(m);
    if (!m->algo->judge || code == WEIR__VERSION_RATE || !rate_is_code(code))
        return;
    rate_of_code(code, &m->term);
    if (m->algo != &weir__smooth_bursty)
        m->full = (struct weir__span){0};
}

/* The states of windows and logs are the same under other numbers. */
static bool own_is_same_state(const struct weir__meter *m)
{
    return m->algo->family == WEIR__FAMILY_WINDOW || m->algo->family == WEIR__FAMILY_LOG;
}

static void own_change(const struct weir__meter *from, const struct weir__meter *to,
                       struct weir__state *s)
{
    const bool bucket = to->algo->judge != NULL;

    if (own_is_same_state(to))
        return;
    /* What rounding to a nanosecond added is in parts of a count that the other does not have. */
    if (bucket && (from->version & WEIR__VERSION_RATE))
        s->word &= WEIR__VERSION_MASK | WEIR__STATE_FLAG;
    to->algo->change(from, to, s);
    if (bucket && (to->version & WEIR__VERSION_RATE))
        s->word &= WEIR__VERSION_MASK | WEIR__STATE_FLAG;
}

void weir__meter_bring_up_own(const struct weir__meter *m, struct weir__state *s, int64_t now_ns)
{
    struct weir__meter from, to;

    if (weir__state_version(s) & WEIR__VERSION_RATE) {
        own_of_code(m, weir__state_version(s), &from);
    } else {
        if (weir__state_version(s) != m->of->version)
            weir__plain_bring_up(m->of, s, now_ns);
        from = *m->of;
    }
    if (s->fresh_ns == 0)
        return;
    to = *m;
    if (m->version & WEIR__VERSION_RATE) /* both ways by the code, so that nothing drifts */
        own_of_code(m, m->version, &to);
    to.changed_ns = now_ns;
    own_change(&from, &to, s);
}
