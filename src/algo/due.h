/* The due time: one word that is a bucket.
 *
 * Every event takes T = period/count. Give a key the instant D at which all its events so far will
 * have been paid for, and that is the whole bucket: at `now` the key owes (D - now)/T events if D
 * is ahead, and nothing if it is not. An event moves D by T; a bucket of B holds a caller back
 * while D is more than B x T ahead. This is GCRA, and D its theoretical arrival time.
 *
 * token-bucket, leaky-bucket, pacer, smooth-bursty and min-interval are this word read in five
 * ways; each file says how. What they share is here.
 *
 * Invariants:
 *   (1) D is exact. T is rarely a whole number of nanoseconds (3/s is 333333333 1/3), so D is kept
 *       as ns - rem/count: rem is what rounding D up to ns added. Additions carry the remainder and
 *       so lose nothing, in a year or in ten.
 *   (2) ns is D rounded up. An instant `t`, a whole number, is at or after D just if t >= ns: every
 *       comparison with a clock, and every wait, needs ns alone, and waits come out rounded up.
 *   (3) ns is also the state's fresh_ns: once D is past, the key owes nothing, and the bucket is
 *       fully recovered.
 *   (4) D never moves back but by refund and cancel. A clock that steps back finds more owed, never
 *       less, so no extra events are granted. If a key owes more than is possible, it gets a second
 *       due time for the clock as it is now; see due.c.
 *   (5) ns saturates at INT64_MAX. A reservation that would reach it is not made: it is decided
 *       again as "now or not at all". An event that need not wait is granted, at most one
 *       nanosecond of 2^62 too cheap.
 *
 *   (6) States join to the later D, for every answer, and every move of D by a grant, a refund, a
 *       denial that counts or a live change, keeps the order of two due times. The join is blurred:
 *       it is not known which keys' reservations stand before D.
 *
 * `blurred`: the act time of the last reservation is D - B x T (of a leaky bucket, whose events
 * wait for those before them, D less the last cost and its delay), until something other than a
 * grant moves D while reservations wait (a cancel out of the middle, a refund, a live change, a
 * join). Then it is no longer known, and cancel returns nothing rather than events on which another
 * caller depends; see due.c.
 *
 * How the word of a state says what else is known about D, where the meter has a mark (its count
 * leaves room for that bit beside the remainder):
 *
 *     flag  mark
 *      -     -    D was no further ahead than most_ns when it was written
 *      x     -    blurred
 *      -     x    reserved: it was further ahead
 *      x     x    behind: instead of the remainder, how far the second due time is before D
 */
#ifndef WEIR_ALGO_DUE_H
#define WEIR_ALGO_DUE_H

#include "algo/algo.h"

/* The highest bit of the 40 beside the version, and the counts whose remainders leave it free. */
#define WEIR__DUE_MARK      (UINT64_C(1) << 63)
#define WEIR__DUE_COUNT_MAX (INT64_C(1) << 39)
/* A caller may have read its clock and then waited: up to this much is not a step back. */
#define WEIR__DUE_STALE_NS (10 * WEIR__NS_PER_S)

/* Sets the most that a bucket owes right after a charge: `most`, and no more than least_ns. */
static inline void weir__due_bound(struct weir__meter *m, struct weir__span most, int64_t least_ns)
{
    if (m->term.count > WEIR__DUE_COUNT_MAX)
        return;
    m->mark = WEIR__DUE_MARK;
    m->most_ns = weir__min(most.ns + (most.rem > 0), least_ns);
    m->step_ns = weir__add_sat(m->most_ns, WEIR__DUE_STALE_NS);
}

static inline struct weir__due weir__due_at(int64_t now_ns)
{
    return (struct weir__due){.ns = now_ns};
}

static inline bool weir__due_after(struct weir__due a, struct weir__due b)
{
    return a.ns > b.ns || (a.ns == b.ns && a.rem < b.rem);
}

/* max(D, now) */
static inline struct weir__due weir__due_base(struct weir__due d, int64_t now_ns)
{
    return d.ns > now_ns ? d : weir__due_at(now_ns);
}

static inline struct weir__due weir__due_add(const struct weir__meter *m, struct weir__due d,
                                             struct weir__span s)
{
    d.rem -= s.rem;
    if (d.rem < 0) {
        d.rem += m->term.count;
        d.ns = weir__add_sat(d.ns, 1);
    }
    d.ns = weir__add_sat(d.ns, s.ns);
    return d;
}

/* The result may be below zero, which no clock shows. */
static inline struct weir__due weir__due_sub(const struct weir__meter *m, struct weir__due d,
                                             struct weir__span s)
{
    d.rem += s.rem;
    if (d.rem >= m->term.count) {
        d.rem -= m->term.count;
        d.ns--;
    }
    d.ns -= s.ns; /* no overflow: any span if D >= 0, up to 2^62 if D >= -2^62 */
    return d;
}

/* How long after now an event may act that moves the due time from base by price; at most 0 if it
 * may act at once. Subtracting first keeps this exact where D' would saturate. */
static inline int64_t weir__due_wait(const struct weir__meter *m, struct weir__due base,
                                     struct weir__span price, int64_t now_ns)
{
    return weir__due_add(m, weir__due_sub(m, base, m->full), price).ns - now_ns;
}

/* How long a caller may wait if its grant moves the due time to `after`. */
static inline int64_t weir__due_patience(struct weir__due after, int64_t patience_ns)
{
    return after.ns < INT64_MAX ? patience_ns : 0; /* invariant (5) */
}

/* n x T, saturating at ns = INT64_MAX. */
struct weir__span weir__due_price_of(const struct weir__meter *m, int64_t n);

static inline struct weir__span weir__due_price(const struct weir__meter *m, int64_t n)
{
    return n == 1 ? m->step : weir__due_price_of(m, n);
}

/* floor(units / period), without a division, which would take as long as all the rest of a
 * decision. The inverse is below 1/period by less than period/2^64 of it, so for units below 2^63
 * the product is too low by less than one half: it is right, or one too few. */
static inline int64_t weir__due_periods(const struct weir__meter *m, int64_t units)
{
    const int64_t guess = (int64_t)((weir__wide(units) * m->per_period) >> 64);

    return guess + (units - guess * m->term.period_ns >= m->term.period_ns);
}

/* floor(s / T) */
static inline int64_t weir__due_events(const struct weir__meter *m, struct weir__span s)
{
    int64_t units;

    if (!__builtin_mul_overflow(s.ns, m->term.count, &units) &&
        !__builtin_add_overflow(units, s.rem, &units))
        return weir__due_periods(m, units);
    return (int64_t)((weir__wide(s.ns) * weir__wide(m->term.count) + weir__wide(s.rem)) /
                     weir__wide(m->term.period_ns));
}

/* a - b, for b not after a. */
static inline struct weir__span weir__due_between(const struct weir__meter *m, struct weir__due a,
                                                  struct weir__due b)
{
    struct weir__span s = {a.ns - b.ns, b.rem - a.rem};

    if (s.rem < 0) {
        s.rem += m->term.count;
        s.ns--;
    }
    return s;
}

/* floor(B - (max(D, now) - now)/T), at least 0: how many events fit now. */
static inline int64_t weir__due_room(const struct weir__meter *m, struct weir__due d,
                                     int64_t now_ns)
{
    struct weir__span left;

    if (d.ns <= now_ns)
        return m->limit;
    /* full - (D - now), without passing the end of time on the way */
    left = (struct weir__span){m->full.ns - (d.ns - now_ns), m->full.rem + d.rem};
    if (left.rem >= m->term.count) {
        left.rem -= m->term.count;
        left.ns++;
    }
    return left.ns < 0 ? 0 : weir__due_events(m, left);
}

/* The remainder. A state written at a rate so near that it has the same code (rate.c) may hold a
 * remainder that is too large for this rate: then D is rounded up. */
static inline int64_t weir__due_rem(const struct weir__meter *m, const struct weir__state *s)
{
    const int64_t rem = weir__state_part(s);

    return rem < m->term.count ? rem : 0;
}

/* Loads a D that is reserved, or behind. */
struct weir__due weir__due_load_marked(const struct weir__meter *m, const struct weir__state *s);

static inline struct weir__due weir__due_load(const struct weir__meter *m,
                                              const struct weir__state *s)
{
    if (s->fresh_ns == 0)
        return m->zero;
    if (s->word & m->mark)
        return weir__due_load_marked(m, s);
    return (struct weir__due){.ns = s->fresh_ns,
                              .rem = weir__due_rem(m, s),
                              .blurred = (s->word & WEIR__STATE_FLAG) != 0};
}

/* The word of a D that is behind. */
uint64_t weir__due_behind_word(const struct weir__meter *m, int64_t behind_ns);

/* Writes D, or zero if D is not after the due time that zero stands for. */
static inline void weir__due_store(const struct weir__meter *m, struct weir__state *s,
                                   struct weir__due d)
{
    if (!weir__due_after(d, m->zero)) {
        weir__state_reset(s);
        return;
    }
    s->fresh_ns = d.ns;
    if (d.behind_ns > 0)
        s->word = weir__due_behind_word(m, d.behind_ns);
    else
        s->word = weir__state_word(d.rem, m->version) | (d.blurred    ? WEIR__STATE_FLAG
                                                         : d.reserved ? m->mark
                                                                      : 0);
}

/* The same for a key whose clock has stepped back. */
struct weir__due weir__due_decide_behind(const struct weir__meter *m, struct weir__due d,
                                         const struct weir__attempt *a, struct weir_verdict *v);

static inline struct weir__due weir__due_decide(const struct weir__meter *m, struct weir__due d,
                                                const struct weir__attempt *a,
                                                struct weir_verdict *v, weir__due_judge *judge,
                                                weir__due_remaining *remaining)
{
    if (__builtin_expect(d.behind_ns > 0, 0))
        return weir__due_decide_behind(m, d, a, v);
    if (a->cost == 0)
        weir__verdict_grant(v, 0);
    else
        judge(m, &d, a, v);
    v->limit = m->limit;
    v->remaining = remaining(m, d, a->now_ns);
    v->reset_after_ns = weir__due_after(d, m->zero) ? weir__max(0, d.ns - a->now_ns) : 0;
    return d;
}

static inline void weir__due_take(const struct weir__meter *m, struct weir__state *s,
                                  const struct weir__attempt *a, struct weir_verdict *v,
                                  weir__due_judge *judge, weir__due_remaining *remaining)
{
    const struct weir__due before = weir__due_load(m, s);
    struct weir__due after = weir__due_decide(m, before, a, v, judge, remaining);

    if (after.ns == before.ns && after.rem == before.rem && after.behind_ns == before.behind_ns)
        return;
    after.reserved = after.ns - a->now_ns > m->most_ns;
    weir__due_store(m, s, after);
}

/* The peek of all buckets, by the judge and the remaining of their row. */
void weir__due_peek(const struct weir__meter *m, const struct weir__state *s,
                    const struct weir__attempt *a, struct weir_verdict *v);

/* The default patience of algorithms whose callers wait. */
int64_t weir__wait_forever(const struct weir_term *t);

/* count-denied: a refused event fills the bucket, and no further. */
struct weir__due weir__due_fill(const struct weir__meter *m, struct weir__due d, int64_t cost,
                                int64_t now_ns);

/* The rows' charge: D moves as by a grant, however much is owed then, up to 2^62 ns ahead. */
void weir__due_charge(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__attempt *a);

int64_t weir__due_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                         int64_t now_ns);
int64_t weir__due_cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                         int64_t act_ns, int64_t now_ns);
/* Lowers D by n events, at most to `floor`; returns the whole events in the difference. */
int64_t weir__due_lower(const struct weir__meter *m, struct weir__due *d, int64_t n,
                        struct weir__due floor);
/* A refund by time: lowers D by that much at most, and returns by how much. */
struct weir__span weir__due_give_back(const struct weir__meter *m, struct weir__state *s,
                                      struct weir__span by, int64_t now_ns);

void weir__due_change(const struct weir__meter *from, const struct weir__meter *to,
                      struct weir__state *s);
void weir__due_change_zero(const struct weir__meter *from, struct weir__meter *to);

/* The rows' join, share and owe_all (due_join.c). */
void weir__due_join(const struct weir__meter *m, struct weir__state *into,
                    const struct weir__state *from, int64_t now_ns);
uint32_t weir__due_share(const struct weir__meter *m, struct weir__state head, int64_t now_ns);
void weir__due_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                       int64_t edge_ns);
/* Moves D to `ahead` from now, unless it is later already; blurred. */
void weir__due_owe(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                   struct weir__span ahead);

/* D in units of 1/count since a time not after it, and back (rounding up, saturating). */
weir__u128 weir__due_units(const struct weir__meter *m, struct weir__due d, int64_t since_ns);
struct weir__due weir__due_of_units(const struct weir__meter *m, weir__u128 units,
                                    int64_t since_ns);

#endif
