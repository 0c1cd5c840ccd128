/* Prepay with a cold start. Guava's SmoothWarmingUp.
 *
 * As in smooth_bursty.c a caller waits for the next free ticket and leaves the bill to the next.
 * But here stored permits are expensive: a service that was idle is cold, and the more is stored,
 * the longer each stored permit takes, from T at the threshold up to cold x T at the most.
 *
 *           time per permit
 *     cold T |            /
 *            |          /  |
 *          T |________/    |       the bill for taking permits from the store is the area under
 *            |       |     |       this line; warming up takes W in all
 *            +-------+-----+-- stored
 *            0   threshold max
 *
 *     threshold = W/(2T)      max = threshold + 2W/(T(1 + cold))      one permit stored per W/max
 *
 * Arithmetic. Permits are counted in units so small that every number is whole: a permit is `price`
 * units, a nanosecond of idle time earns `gain` units, with price/gain = W/max = 2T(1 + cold)/(5 +
 * cold). Then max is W x gain units, and threshold is price x W/(2T). The bill is cost x T and the
 * area above T. In x, the stored permits above the threshold measured by the time they took to
 * store, that area is K x^2, K = (cold - 1)(5 + cold)^2 / (16 W (1 + cold)): T has cancelled out.
 * The area is not rational in any useful unit, so G(x) = ceil(K x^2) is rounded. But the bill of a
 * step is G(before) - G(after): the roundings telescope, and warming up takes what it should to the
 * nanosecond however many steps it is taken in.
 *
 * Invariants:
 *   (1) 0 <= stored <= max; zero stands for max: a key never seen is cold.
 *   (2) A bill is never below cost x T, kept exactly as a due time is (due.h), so over any
 *       interval of length t at most t/T events act, and the cost of the last one, not yet paid
 *       for.
 *   (3) fresh_ns is when the store will be full: next + (max - stored) x W/max.
 *   (4) A clock that steps back finds the ticket further ahead and stores nothing.
 *   (5) Keys join to the later ticket, and to the larger of what they will have stored when that
 *       ticket is due; an untouched key counts too, for it is cold. The later ticket keeps the
 *       rate, (2): a bill moves it by cost x T at least, whatever is stored. The join does not keep
 *       the warm-up: a key pays more while it is cold and so is warm sooner, and a key that was
 *       warmer may be the colder one later. No pair of ticket and store binds both keys in that, so
 *       for the warm-up a join only promises the next bill.
 */
#include "algo/due.h"

struct warmup_state {
    struct weir__state head; /* its 40 bits are the remainder of next */
    int64_t next_ns;
    uint64_t stored_hi, stored_lo;
};
static_assert(sizeof(struct warmup_state) == 40, "as the reference says");

static void smooth_warmup_prepare(struct weir__meter *m)
{
    const weir__u128 cold = weir__wide(m->term.cold_milli);
    const weir__u128 period = weir__wide(m->term.period_ns), count = weir__wide(m->term.count);
    const weir__u128 warmup = weir__wide(m->term.warmup_ns);

    /* cold <= 10^5, period and warmup < 2^55, count < 2^40: 74, 57, 112 and 112 bits */
    m->warm.price = period * 2 * (1000 + cold);
    m->warm.gain = count * (5000 + cold);
    m->warm.max = warmup * m->warm.gain;
    m->warm.threshold = warmup * count * (1000 + cold);
    /* K x W, cold being in thousandths: below 2^51 and 2^41 */
    m->warm.curve_num = (int64_t)((cold - 1000) * (5000 + cold) * (5000 + cold));
    m->warm.curve_den = (int64_t)(16 * (1000 + cold) * 1000000);
    m->limit = weir__max(1, (int64_t)(m->warm.max / m->warm.price));
}

/* Adds what idle time stores from `next` until a time not before it; that time becomes next. */
static void smooth_warmup_idle_until(const struct weir__meter *m, struct weir__warmth *t,
                                     struct weir__due then)
{
    const weir__u128 room = m->warm.max - t->stored;
    const int64_t idle_ns = then.ns - t->next.ns;
    /* gain is count x (5000 + cold), so the amount by which both were rounded up earns a whole
     * number too */
    const weir__u128 part = weir__wide(5000 + m->term.cold_milli);
    weir__u128 earned = room;

    if (idle_ns <= m->term.warmup_ns)
        earned = weir__wide(idle_ns) * m->warm.gain + part * weir__wide(t->next.rem) -
                 part * weir__wide(then.rem);
    t->stored += earned < room ? earned : room;
    t->next = then;
}

static struct weir__warmth smooth_warmup_load(const struct weir__meter *m,
                                              const struct weir__state *s, int64_t now_ns)
{
    const struct warmup_state *w = (const struct warmup_state *)s;
    struct weir__warmth t = {.stored = m->warm.max};

    if (s->fresh_ns != 0) {
        t.next = (struct weir__due){.ns = weir__max(0, w->next_ns), .rem = weir__due_rem(m, s)};
        t.stored = (weir__u128)w->stored_hi << 64 | w->stored_lo;
        if (t.stored > m->warm.max)
            t.stored = m->warm.max;
    }
    if (now_ns >= t.next.ns)
        smooth_warmup_idle_until(m, &t, weir__due_at(now_ns));
    return t;
}

static int64_t smooth_warmup_fresh_ns(const struct weir__meter *m, const struct weir__warmth *t)
{
    const weir__u128 missing = m->warm.max - t->stored; /* at most W x gain: the quotient fits */
    const weir__u128 count = weir__wide(m->term.count);
    const weir__u128 ns = missing / m->warm.gain, part = missing % m->warm.gain;
    /* next + missing/gain = next.ns + ns + (part/gain - rem/count), rounded up */
    const bool more = part * count > weir__wide(t->next.rem) * m->warm.gain;

    return weir__add_sat(t->next.ns, (int64_t)ns + more);
}

static void smooth_warmup_store(const struct weir__meter *m, struct weir__state *s,
                                const struct weir__warmth *t)
{
    struct warmup_state *w = (struct warmup_state *)s;

    s->fresh_ns = smooth_warmup_fresh_ns(m, t);
    s->word = weir__state_word(t->next.rem, m->version);
    w->next_ns = t->next.ns;
    w->stored_hi = (uint64_t)(t->stored >> 64);
    w->stored_lo = (uint64_t)t->stored;
}

/* G: the area above T, from the threshold to what is stored. */
static int64_t smooth_warmup_area(const struct weir__meter *m, weir__u128 stored)
{
    const weir__u128 warmup = weir__wide(m->term.warmup_ns);
    const weir__u128 num = weir__wide(m->warm.curve_num), den = weir__wide(m->warm.curve_den);
    weir__u128 x, whole, part;

    if (stored <= m->warm.threshold)
        return 0;
    x = (stored - m->warm.threshold + m->warm.gain - 1) / m->warm.gain; /* < W < 2^55 */
    whole = x * x / warmup;
    part = x * x % warmup;
    /* ceil((num x whole + num x part/W) / den): num < 2^51, whole and part < 2^55. Rounding the
     * inner quotient up first changes nothing: only whole numbers are compared with den. */
    return (int64_t)((num * whole + (num * part + warmup - 1) / warmup + den - 1) / den);
}

static struct weir__warmth smooth_warmup_charged(const struct weir__meter *m, struct weir__warmth t,
                                                 int64_t cost)
{
    /* No store holds more than 10^12 permits; up to 2^53 the product fits, price being below
     * 2^74. */
    const bool empties = cost >> 53 != 0 || weir__wide(cost) * m->warm.price > t.stored;
    const weir__u128 after = empties ? 0 : t.stored - weir__wide(cost) * m->warm.price;
    const int64_t extra = smooth_warmup_area(m, t.stored) - smooth_warmup_area(m, after);

    t.next = weir__due_add(m, t.next, weir__due_price(m, cost));
    t.next.ns = weir__add_sat(t.next.ns, extra);
    t.stored = after;
    return t;
}

/* Whether the times fit: the store must fill before the end of time. */
static bool smooth_warmup_fits(const struct weir__meter *m, const struct weir__warmth *t)
{
    return t->next.ns < INT64_MAX - m->term.warmup_ns;
}

/* Decides a cost above 0 and returns the state after it. */
static struct weir__warmth smooth_warmup_judge(const struct weir__meter *m, struct weir__warmth t,
                                               const struct weir__attempt *a,
                                               struct weir_verdict *v)
{
    const struct weir__warmth after = smooth_warmup_charged(m, t, a->cost);
    const int64_t wait = t.next.ns - a->now_ns; /* >= 0: load ensures that */
    struct weir__warmth again = after;          /* the same bill, once more */

    if (!smooth_warmup_fits(m, &after)) {
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
        return t;
    }
    if (wait <= a->patience_ns) {
        weir__verdict_grant(v, wait);
        return after;
    }
    if (m->term.count_denied) {
        const struct weir__due later =
            weir__due_add(m, weir__due_at(a->now_ns), weir__due_price(m, a->cost));

        if (weir__due_after(later, t.next))
            t.next = later;
        again = smooth_warmup_charged(m, t, a->cost);
    }
    weir__verdict_refuse(v, WEIR_LIMITED,
                         smooth_warmup_fits(m, &again) ? t.next.ns - a->now_ns - a->patience_ns
                                                       : -1);
    return t;
}

static struct weir__warmth smooth_warmup_decide(const struct weir__meter *m, struct weir__warmth t,
                                                const struct weir__attempt *a,
                                                struct weir_verdict *v)
{
    if (a->cost == 0)
        weir__verdict_grant(v, 0);
    else
        t = smooth_warmup_judge(m, t, a, v);
    v->limit = m->limit;
    v->remaining = t.next.ns <= a->now_ns ? m->limit : 0;
    v->reset_after_ns = weir__max(0, smooth_warmup_fresh_ns(m, &t) - a->now_ns);
    return t;
}

static void smooth_warmup_take(const struct weir__meter *m, struct weir__state *s,
                               const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct weir__warmth before = smooth_warmup_load(m, s, a->now_ns);
    const struct weir__warmth after = smooth_warmup_decide(m, before, a, v);

    if (after.next.ns != before.next.ns || after.next.rem != before.next.rem ||
        after.stored != before.stored)
        smooth_warmup_store(m, s, &after);
}

static void smooth_warmup_peek(const struct weir__meter *m, const struct weir__state *s,
                               const struct weir__attempt *a, struct weir_verdict *v)
{
    (void)smooth_warmup_decide(m, smooth_warmup_load(m, s, a->now_ns), a, v);
}

/* The bill is as for a grant, but ends 2^62 ns ahead, or where the store can still fill before the
 * end of time. */
static void smooth_warmup_charge(const struct weir__meter *m, struct weir__state *s,
                                 const struct weir__attempt *a)
{
    const struct weir__warmth before = smooth_warmup_load(m, s, a->now_ns);
    const int64_t last =
        weir__min(weir__add_sat(a->now_ns, WEIR__SPAN_MAX), INT64_MAX - m->term.warmup_ns - 1);
    struct weir__warmth after = smooth_warmup_charged(m, before, a->cost);

    if (weir__due_after(after.next, weir__due_at(last)))
        after.next =
            weir__due_after(before.next, weir__due_at(last)) ? before.next : weir__due_at(last);
    smooth_warmup_store(m, s, &after);
}

/* Refunds at the stable rate: the cost of warming up is not given back. */
static int64_t smooth_warmup_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                    int64_t now_ns)
{
    struct weir__warmth t = smooth_warmup_load(m, s, now_ns);
    const struct weir__due before = t.next;
    const int64_t events = weir__due_lower(m, &t.next, n, weir__due_at(now_ns));

    if (weir__due_after(before, t.next))
        smooth_warmup_store(m, s, &t);
    return events;
}

/* The share of the store that is filled carries over; the ticket stays. */
static void smooth_warmup_change(const struct weir__meter *from, const struct weir__meter *to,
                                 struct weir__state *s)
{
    const int64_t at = to->changed_ns;
    struct weir__warmth t = smooth_warmup_load(from, s, at);

    t.stored = weir__wide_mul_div_ceil(t.stored, to->warm.max, from->warm.max, to->warm.max);
    if (t.next.ns > at) {
        const weir__u128 units =
            weir__wide_mul_div_ceil(weir__due_units(from, t.next, at), weir__wide(to->term.count),
                                    weir__wide(from->term.count), (weir__u128)1 << 120);

        t.next = weir__due_of_units(to, units, at);
    }
    smooth_warmup_store(to, s, &t);
}

static void smooth_warmup_join(const struct weir__meter *m, struct weir__state *into,
                               const struct weir__state *from, int64_t now_ns)
{
    struct weir__warmth a = smooth_warmup_load(m, into, now_ns),
                        b = smooth_warmup_load(m, from, now_ns);
    const struct weir__due next = weir__due_after(b.next, a.next) ? b.next : a.next;

    smooth_warmup_idle_until(m, &a, next);
    smooth_warmup_idle_until(m, &b, next);
    if (b.stored > a.stored)
        a.stored = b.stored;
    if (next.ns <= now_ns && a.stored == m->warm.max)
        weir__state_reset(into);
    else
        smooth_warmup_store(m, into, &a);
}

/* All of the store, and one event at the coldest: only a larger cost, or callers that wait, can owe
 * more. */
static uint32_t smooth_warmup_share(const struct weir__meter *m, struct weir__state head,
                                    int64_t now_ns)
{
    const int64_t coldest = weir__mul_div(m->step.ns + 1, m->term.cold_milli, 1000);

    if (head.fresh_ns <= now_ns)
        return 0;
    return weir__in_1024ths(head.fresh_ns - now_ns, m->term.warmup_ns + coldest);
}

/* Sets the ticket one event ahead, and no earlier than it can have been; and the key is cold. */
static void smooth_warmup_owe_all(const struct weir__meter *m, struct weir__state *s,
                                  int64_t now_ns, int64_t edge_ns)
{
    struct weir__warmth t = {.stored = m->warm.max};

    (void)edge_ns;
    t.next = weir__due_add(m, weir__due_at(now_ns), m->step);
    if (s->fresh_ns >= t.next.ns)
        t.next = weir__due_at(s->fresh_ns);
    smooth_warmup_store(m, s, &t);
}

const struct weir__algo weir__smooth_warmup = {
    .family = WEIR__FAMILY_WARMUP,
    .division = WEIR__DIVIDE_RATE,
    .letter = 'u',
    .prepare = smooth_warmup_prepare,
    .state_bytes = sizeof(struct warmup_state),
    .default_patience = weir__wait_forever,
    .take = smooth_warmup_take,
    .peek = smooth_warmup_peek,
    .charge = smooth_warmup_charge,
    .refund = smooth_warmup_refund,
    .change = smooth_warmup_change,
    .join = smooth_warmup_join,
    .share = smooth_warmup_share,
    .owe_all = smooth_warmup_owe_all,
};
