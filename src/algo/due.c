/* The due time: what the five buckets share besides the decision itself. The idea is in due.h.
 *
 * A clock that steps back. A bucket that was charged at t owes at most M (most_ns: its burst, its
 * capacity, its queue), so that D <= t + M. A bucket that owes more has met a clock that is before
 * t. If it is a little before t, a thread read it and then had to wait, and that caller gets the
 * answer it would have got (the key owes no less than it does). If it is more than ten seconds
 * before t, the clock stepped back. Waiting until that clock has caught up would lock the key for
 * the whole step; setting D back to now + M would grant a burst each time the clock goes back and
 * forth, and with callers whose clocks differ it does so all the time. So D stays, and the key gets
 * a second due time for the clock as it is now, L = now + M: an empty bucket, and never less than
 * the key owes.
 *
 *     now < D - M     L decides; a grant moves both
 *     else            the clock has caught up: D decides; a grant ends L
 *
 *     token-bucket 1/s burst=10, all taken at 3600 s (D = 3610); then the clock says 0:
 *     0 s  deny, retry in 1 s (L = 10)      1 s  allow (L = 11, D = 3611)      3601 s  deny
 *
 * Invariants:
 *   (6) L never moves back while it exists. A second step back, before the clock has caught up with
 *       the first, waits for L; a clock that goes back and forth gains nothing.
 *   (7) D includes all grants. So measured by the highest time that the clock has shown, all grants
 *       keep the bound, except those since the last step back; and those keep it measured by the
 *       clock since then.
 *   (8) L is no further ahead of the clock than M: a caller that waits for more waits for D, as if
 *       the clock had not stepped back, and that ends L (reserved). So D grows no faster than the
 *       clock, and a caller that reads D by a clock that never stepped back finds it at most M
 *       ahead: however many callers there are and however much their clocks differ, as long as
 *       there are only two clocks and both run, the bound holds in real time.
 *   (9) Where a bucket may owe without bound (reservations of a token bucket, reserved), a step
 *       cannot be distinguished from a debt, and the key waits it out.
 *  (10) D is then a whole number and L is D less a number of 34 binary digits, rounded down: there
 *       is no room for more. Both are later than they should be, never earlier.
 */
#include "algo/due.h"

#define BEHIND_BITS 34

/* x to its highest BEHIND_BITS binary digits: a number of those, and by how many it is shifted. */
static int due_behind_shift(int64_t x)
{
    const int bits = 64 - __builtin_clzll((uint64_t)x);

    return bits > BEHIND_BITS ? bits - BEHIND_BITS : 0;
}

static int64_t due_cut(int64_t x)
{
    return x >> due_behind_shift(x) << due_behind_shift(x);
}

uint64_t weir__due_behind_word(const struct weir__meter *m, int64_t behind_ns)
{
    const int shift = due_behind_shift(behind_ns);
    const int64_t code = (int64_t)shift << BEHIND_BITS | behind_ns >> shift;

    return weir__state_word(code, m->version) | WEIR__STATE_FLAG | m->mark;
}

/* In a file any process may have written the digits: a value that is too large counts as 0, and the
 * key waits out the step. */
static int64_t due_behind_of(int64_t digits, int64_t shift)
{
    return shift <= 63 - BEHIND_BITS && digits <= INT64_MAX >> shift ? digits << shift : 0;
}

struct weir__due weir__due_load_marked(const struct weir__meter *m, const struct weir__state *s)
{
    const int64_t part = weir__state_part(s) & (WEIR__DUE_COUNT_MAX - 1);
    const int64_t digits = part & ((INT64_C(1) << BEHIND_BITS) - 1);

    if (s->word & WEIR__STATE_FLAG)
        return (struct weir__due){.ns = s->fresh_ns,
                                  .blurred = true,
                                  .behind_ns = due_behind_of(digits, part >> BEHIND_BITS)};
    return (struct weir__due){
        .ns = s->fresh_ns, .rem = part < m->term.count ? part : 0, .reserved = true};
}

void weir__due_step_back(const struct weir__meter *m, struct weir__state *s, int64_t now_ns)
{
    struct weir__due d = weir__due_load(m, s);

    if (d.blurred || d.reserved || !weir__due_after(d, m->zero))
        return;
    d.behind_ns = due_cut(d.ns - now_ns - m->most_ns);
    weir__due_store(m, s, d);
}

struct weir__span weir__due_price_of(const struct weir__meter *m, int64_t n)
{
    const int64_t count = m->term.count;
    weir__u128 units, ns;
    int64_t product;

    if (!__builtin_mul_overflow(n, m->term.period_ns, &product))
        return (struct weir__span){product / count, product % count};
    units = weir__wide(n) * weir__wide(m->term.period_ns);
    ns = units / weir__wide(count);
    if (ns >= INT64_MAX)
        return (struct weir__span){INT64_MAX, 0};
    return (struct weir__span){(int64_t)ns, (int64_t)(units % weir__wide(count))};
}

/* The second due time if that decides, else D. */
static struct weir__due due_for(const struct weir__meter *m, struct weir__due d, int64_t now_ns)
{
    const bool behind = d.behind_ns > 0 && d.ns - now_ns > m->most_ns;

    return weir__due_at(behind ? d.ns - d.behind_ns : d.ns);
}

/* Decides by the second due time. A reservation of a token bucket would move it further ahead than
 * M, so it is not made here. Reservations of the others stay within M. */
static void due_judge_behind(const struct weir__meter *m, struct weir__due *low,
                             const struct weir__attempt *a, struct weir_verdict *v)
{
    struct weir__attempt attempt = *a;

    if (m->term.algorithm == WEIR_TOKEN_BUCKET)
        attempt.patience_ns = 0;
    m->algo->judge(m, low, &attempt, v);
    assert(!v->allowed || low->ns - a->now_ns <= m->most_ns);
}

/* A token bucket whose caller waits long enough for D reserves by D, as if the clock had not
 * stepped back. */
static bool due_reserves_by_d(const struct weir__meter *m, const struct weir__attempt *a)
{
    return m->term.algorithm == WEIR_TOKEN_BUCKET && a->patience_ns > 0;
}

/* A refused event may pass by the second due time, or by D once the clock has caught up. */
static int64_t due_retry_behind(const struct weir__meter *m, struct weir__due d,
                                const struct weir__attempt *a)
{
    const int64_t caught_up_in = d.ns - a->now_ns - m->most_ns;
    struct weir__due low = weir__due_at(d.ns - d.behind_ns), high = weir__due_at(d.ns);
    struct weir__meter uncounted = *m;
    struct weir_verdict by_low, by_d;

    uncounted.term.count_denied = false; /* it has been counted */
    due_judge_behind(&uncounted, &low, a, &by_low);
    m->algo->judge(&uncounted, &high, a, &by_d);
    if (!due_reserves_by_d(m, a))
        by_d.retry_after_ns = weir__max(caught_up_in, by_d.retry_after_ns);
    if (by_low.retry_after_ns >= caught_up_in)
        return by_d.retry_after_ns;
    return weir__min(by_low.retry_after_ns, by_d.retry_after_ns);
}

struct weir__due weir__due_decide_behind(const struct weir__meter *m, struct weir__due d,
                                         const struct weir__attempt *a, struct weir_verdict *v)
{
    struct weir__due low = due_for(m, d, a->now_ns);

    if (low.ns == d.ns) {
        const struct weir__due after =
            weir__due_decide(m, low, a, v, m->algo->judge, m->algo->remaining);

        return after.ns == d.ns && after.rem == 0 ? d : after;
    }
    if (a->cost == 0)
        weir__verdict_grant(v, 0);
    else
        due_judge_behind(m, &low, a, v);
    if (!v->allowed && due_reserves_by_d(m, a)) {
        struct weir_verdict by_d = *v; /* fields that no algorithm writes stay the caller's */
        const struct weir__due after =
            weir__due_decide(m, weir__due_at(d.ns), a, &by_d, m->algo->judge, m->algo->remaining);

        if (by_d.allowed) {
            *v = by_d;
            return after;
        }
    }
    if (v->allowed && a->cost > 0)
        d.ns = weir__due_add(m, weir__due_at(d.ns), weir__due_price(m, a->cost)).ns;
    d.behind_ns = due_cut(d.ns - low.ns);
    if (!v->allowed && v->retry_after_ns > 0)
        v->retry_after_ns = due_retry_behind(m, d, a);
    v->limit = m->limit;
    v->remaining = m->algo->remaining(m, due_for(m, d, a->now_ns), a->now_ns);
    v->reset_after_ns = d.ns - a->now_ns;
    return d;
}

void weir__due_peek(const struct weir__meter *m, const struct weir__state *s,
                    const struct weir__attempt *a, struct weir_verdict *v)
{
    (void)weir__due_decide(m, weir__due_load(m, s), a, v, m->algo->judge, m->algo->remaining);
}

int64_t weir__wait_forever(const struct weir_term *t)
{
    (void)t;
    return WEIR_FOREVER;
}

struct weir__due weir__due_fill(const struct weir__meter *m, struct weir__due d, int64_t cost,
                                int64_t now_ns)
{
    const struct weir__due brim = weir__due_add(m, weir__due_at(now_ns), m->full);
    struct weir__due charged =
        weir__due_add(m, weir__due_base(d, now_ns), weir__due_price(m, cost));

    if (weir__due_after(charged, brim))
        charged = brim;
    charged.blurred = d.blurred && d.ns > now_ns; /* it lasts until D has passed */
    return weir__due_after(charged, d) ? charged : d;
}

/* D after a charge: never further ahead than 2^62 ns, unless it was already. */
static struct weir__due due_charged(const struct weir__meter *m, struct weir__due d, int64_t cost,
                                    int64_t now_ns)
{
    const struct weir__due base = weir__due_base(d, now_ns);
    const struct weir__due last = weir__due_at(weir__add_sat(now_ns, WEIR__SPAN_MAX));
    struct weir__due after = weir__due_add(m, base, weir__due_price(m, cost));

    if (weir__due_after(after, last) || after.ns == INT64_MAX) /* and what rounding added is lost */
        after = last;
    after.blurred = base.blurred;
    return weir__due_after(after, base) ? after : base;
}

/* A key whose clock has stepped back is charged as by a grant: both due times move; once the clock
 * has caught up, D alone. The second may then be further ahead than M, for M bounds what is asked
 * for and this was not. */
void weir__due_charge(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__attempt *a)
{
    const struct weir__due before = weir__due_load(m, s);
    struct weir__due after = before.behind_ns > 0 ? weir__due_at(before.ns) : before;
    const struct weir__due low = due_for(m, before, a->now_ns);

    if (low.ns == before.ns) {
        after = due_charged(m, after, a->cost, a->now_ns);
        after.reserved = after.ns - a->now_ns > m->most_ns;
    } else {
        const struct weir__due base = weir__due_base(low, a->now_ns);
        const struct weir__due lower = due_charged(m, low, a->cost, a->now_ns);

        after.ns = weir__due_add(m, after, weir__due_between(m, lower, base)).ns;
        after.behind_ns = after.ns > lower.ns ? due_cut(after.ns - lower.ns) : 0;
        after.blurred = after.behind_ns == 0;
    }
    if (weir__due_after(after, before) || after.behind_ns != before.behind_ns)
        weir__due_store(m, s, after);
}

/* Lowers D by that much, at most to `floor`; returns by how much. */
static struct weir__span due_lower_by(const struct weir__meter *m, struct weir__due *d,
                                      struct weir__span by, struct weir__due floor)
{
    struct weir__due lower = weir__due_sub(m, *d, by);

    if (!weir__due_after(*d, floor))
        return (struct weir__span){0};
    if (weir__due_after(floor, lower)) {
        lower = floor;
        by = weir__due_between(m, *d, floor);
    }
    lower.blurred = d->blurred;
    lower.reserved = d->reserved;
    *d = lower;
    return by;
}

int64_t weir__due_lower(const struct weir__meter *m, struct weir__due *d, int64_t n,
                        struct weir__due floor)
{
    return weir__due_events(m, due_lower_by(m, d, weir__due_price(m, n), floor));
}

/* Whether a reservation may still wait to act: behind a full bucket, or behind a delay. */
static bool due_waits(const struct weir__meter *m, struct weir__due d, int64_t now_ns)
{
    const bool leaks = m->term.algorithm == WEIR_LEAKY_BUCKET;

    if (m->algo->cancel == NULL || (leaks && m->term.delay == WEIR_NONE))
        return false;
    return weir__due_sub(m, d, leaks ? m->delay : m->full).ns > now_ns;
}

/* For a key that is behind: both due times are lowered alike, by whole nanoseconds. */
static struct weir__span due_give_back_behind(const struct weir__meter *m, struct weir__state *s,
                                              struct weir__due d, struct weir__span by,
                                              int64_t now_ns)
{
    const struct weir__due before = due_for(m, d, now_ns);
    struct weir__due after = before;
    const struct weir__span given = due_lower_by(m, &after, by, weir__due_base(m->zero, now_ns));

    if (before.ns == d.ns)
        d = after;
    else
        d.ns -= before.ns - after.ns;
    if (weir__due_after(before, after))
        weir__due_store(m, s, d);
    return given;
}

struct weir__span weir__due_give_back(const struct weir__meter *m, struct weir__state *s,
                                      struct weir__span by, int64_t now_ns)
{
    const struct weir__due before = weir__due_load(m, s);
    const bool waiting = due_waits(m, before, now_ns);
    struct weir__due after = before;
    const struct weir__span given = due_lower_by(m, &after, by, weir__due_base(m->zero, now_ns));

    if (before.behind_ns > 0)
        return due_give_back_behind(m, s, before, by, now_ns);
    after.blurred = before.blurred || waiting;
    after.reserved = before.reserved;
    if (weir__due_after(before, after))
        weir__due_store(m, s, after);
    return given;
}

int64_t weir__due_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                         int64_t now_ns)
{
    return weir__due_events(m, weir__due_give_back(m, s, weir__due_price(m, n), now_ns));
}

/* Later reservations stand on the events between this one's act time and the last one's: those
 * cannot be returned, for they are promised to others. With act rounded up by less than 1 ns, their
 * number lies in [x, x + rate); we take the greatest whole number there, or x rounded up. */
static int64_t events_depended_on(const struct weir__meter *m, struct weir__due last,
                                  int64_t act_ns)
{
    const weir__u128 period = weir__wide(m->term.period_ns);
    const weir__u128 per_ns = weir__wide(m->term.count);
    weir__u128 units, least, most;

    if (last.ns < act_ns)
        return 0;
    /* ns - act + 1 - rem/count > 0, in units of 1/count */
    units = (weir__wide(last.ns - act_ns) + 1) * per_ns - weir__wide(last.rem);
    most = (units + period - 1) / period - 1;
    least = units > per_ns ? (units - per_ns + period - 1) / period : 0;
    if (most > INT64_MAX || least > INT64_MAX)
        return INT64_MAX;
    return (int64_t)(most > least ? most : least);
}

int64_t weir__due_cancel(const struct weir__meter *m, struct weir__state *s, int64_t cost,
                         int64_t act_ns, int64_t now_ns)
{
    struct weir__due d = weir__due_load(m, s);
    const struct weir__due last = weir__due_sub(m, d, m->full);
    const int64_t depended = events_depended_on(m, last, act_ns);
    int64_t events;

    /* If a cost is above the bucket (a pacer's), a bucketful stands before its act time and the
     * rest behind the reservation before it: only the last reservation may return that part. */
    if (depended > 0)
        cost = weir__min(cost, m->limit);
    if (d.blurred || depended >= cost)
        return 0;
    events = weir__due_lower(m, &d, cost - depended, weir__due_base(m->zero, now_ns));
    d.blurred = depended > 0; /* others came later: their last act time is now lost */
    if (events > 0)
        weir__due_store(m, s, d);
    return events;
}

weir__u128 weir__due_units(const struct weir__meter *m, struct weir__due d, int64_t since_ns)
{
    assert(d.ns > since_ns);
    return weir__wide(d.ns - since_ns) * weir__wide(m->term.count) - weir__wide(d.rem);
}

struct weir__due weir__due_of_units(const struct weir__meter *m, weir__u128 units, int64_t since_ns)
{
    const weir__u128 count = weir__wide(m->term.count);
    const weir__u128 ns = (units + count - 1) / count;

    if (ns > weir__wide(INT64_MAX - since_ns))
        return weir__due_at(INT64_MAX);
    return (struct weir__due){.ns = since_ns + (int64_t)ns, .rem = (int64_t)(ns * count - units)};
}

/* The events owed at the change carry over: D - C scales by T_new/T_old. */
static struct weir__due due_carried_over(const struct weir__meter *from,
                                         const struct weir__meter *to, struct weir__due d)
{
    const int64_t at = to->changed_ns;
    const weir__u128 big = (weir__u128)1 << 120;
    struct weir__due after;
    weir__u128 units;

    if (d.ns <= at)
        return weir__due_at(d.ns);
    units = weir__wide_mul_div_ceil(weir__due_units(from, d, at), weir__wide(to->term.period_ns),
                                    weir__wide(from->term.period_ns), big);
    after = weir__due_of_units(to, units, at);
    after.blurred = d.blurred || due_waits(from, d, at);
    after.reserved = d.reserved || after.ns - at > to->most_ns; /* more than the new limit allows */
    return after;
}

/* Both due times of a key that is behind carry over; if the new limit has no room for two, only the
 * later one. */
static struct weir__due due_carried(const struct weir__meter *from, const struct weir__meter *to,
                                    struct weir__due d)
{
    struct weir__due high, low;

    if (d.behind_ns == 0 || d.ns <= to->changed_ns)
        return due_carried_over(from, to, d);
    high = due_carried_over(from, to, weir__due_at(d.ns));
    low = due_carried_over(from, to, weir__due_at(d.ns - d.behind_ns));
    high = (struct weir__due){.ns = high.ns, .blurred = true};
    if (to->mark != 0 && high.ns > low.ns)
        high.behind_ns = due_cut(high.ns - low.ns);
    return high;
}

void weir__due_change(const struct weir__meter *from, const struct weir__meter *to,
                      struct weir__state *s)
{
    weir__due_store(to, s, due_carried(from, to, weir__due_load(from, s)));
}

void weir__due_change_zero(const struct weir__meter *from, struct weir__meter *to)
{
    to->zero = due_carried(from, to, from->zero);
    to->zero.blurred = to->zero.reserved = false;
}
