/* A token bucket whose rate follows the outcomes of calls: quickly down, slowly up.
 *
 * The rate that the other side can bear is rarely known and never constant. So the bucket begins at
 * the configured rate and moves it between min and max, by the outcomes of calls, once a second:
 *
 *     more than `errors` of the second's calls failed,
 *     or took longer than `target`                         rate = rate x 7/10
 *     neither, and there were calls                   rate = rate + count/20
 *     no calls                                             count/20 towards count
 *
 *      rate  /|                   a saw with a steep edge: trouble costs much more than another
 *           / |  /|  /|           second of a rate that is a little too low
 *          /  |/  |/  |
 *
 * A call that entered before the rate was last lowered says nothing about the current rate: without
 * that rule the calls still under way would lower it again and again, for one and the same trouble.
 *
 * A DROP (refused further down, or timed out) is a plain sign of overload: it lowers the rate at
 * once, and then the second is not judged again. Above the configured rate it only rises while half
 * of it is used: an unused rate says nothing about a higher one. The rate is judged every second,
 * whatever the limit's period is: with 1000/h an hour would be too late, with 10/ms a millisecond
 * says nothing. 7/10 is what AWS's clients lower theirs by; a twentieth regains that in six to nine
 * seconds.
 *
 * The bucket is a due time as in due.h, but T = period/rate changes with the rate. Its capacity is
 * a time, burst x period / count, at every rate; so in events it holds burst x rate / count (at
 * least one), and with the default burst the reported limit is the rate. When the rate changes, D
 * stays: a bucket that is half empty is half empty at any rate. If the events owed stayed instead,
 * each way down and up again would leave some in the bucket that no caller put there.
 *
 * Invariants:
 *   (1) min <= rate <= max.
 *   (2) Over any interval of length t at most (burst/count x period + t) x max/period events pass:
 *       each takes at least period/max of a time that only passing time gives back.
 *   (3) From fresh_ns on the bucket is full and the rate is the configured one again, for idle
 *       seconds bring it back by themselves: the bucket forgets at the pace at which it learns.
 *   (4) A clock that steps back finds more owed, and starts its second again; a rate that was
 *       lowered in what is now the future counts as lowered now.
 *   (5) A refusal changes nothing, except with count-denied, where it fills the bucket.
 */
#include "algo/algo.h"

#define STEPS 20 /* from zero to the configured rate */

struct adaptive_state {
    struct weir__state head; /* its 40 bits are the due time's remainder */
    int64_t due_ns;
    int64_t rate;       /* events a period */
    int64_t lowered_ns; /* when it last fell */
    int64_t second;     /* the current one, counted since the epoch */
    uint32_t calls;     /* that ended in it */
    uint32_t bad;       /* of those */
    uint32_t events;    /* that entered in it */
    uint32_t dropped;   /* 1: a drop has lowered the rate already */
};
static_assert(sizeof(struct adaptive_state) == 64, "as the reference says");

static int64_t adaptive_step(const struct weir__meter *m)
{
    return weir__max(1, m->term.count / STEPS);
}

/* How many events the bucket holds at a rate. */
static int64_t adaptive_capacity(const struct weir__meter *m, int64_t rate)
{
    const weir__u128 events =
        weir__wide(m->term.burst) * weir__wide(rate) / weir__wide(m->term.count);

    return events > WEIR_COUNT_MAX ? WEIR_COUNT_MAX : weir__max(1, (int64_t)events);
}

/* An event is `period` units of 1/rate ns, whatever the rate. */
static weir__u128 adaptive_units(const struct weir__meter *m, int64_t events)
{
    return weir__wide(events) * weir__wide(m->term.period_ns);
}

static void adaptive_prepare(struct weir__meter *m)
{
    m->limit = adaptive_capacity(m, m->term.count);
}

/* ---- The bucket ----------------------------------------------------------------------------- */

static int64_t adaptive_rem(const struct adaptive_state *x)
{
    const int64_t rem = weir__state_part(&x->head);

    return rem < x->rate ? rem : 0;
}

/* What is owed at now, in units of 1/rate ns. Below 2^62 x 10^12. */
static weir__u128 adaptive_owed(const struct adaptive_state *x, int64_t now_ns)
{
    if (x->due_ns <= now_ns)
        return 0;
    return weir__wide(x->due_ns - now_ns) * weir__wide(x->rate) - weir__wide(adaptive_rem(x));
}

static void adaptive_owe(const struct weir__meter *m, struct adaptive_state *x, weir__u128 units,
                         int64_t now_ns)
{
    const weir__u128 rate = weir__wide(x->rate), ns = (units + rate - 1) / rate;

    x->due_ns = weir__add_sat(now_ns, (int64_t)ns); /* the bucket's length: 2^62 at most */
    x->head.word = weir__state_word((int64_t)(ns * rate - units), m->version);
}

static void adaptive_set_rate(const struct weir__meter *m, struct adaptive_state *x, int64_t rate,
                              int64_t at_ns)
{
    if (rate == x->rate)
        return;
    if (rate < x->rate)
        x->lowered_ns = at_ns;
    x->rate = rate;
    x->head.word =
        weir__state_word(0, m->version); /* a remainder belongs to its rate: rounded up */
}

/* ---- The rate ------------------------------------------------------------------------------- */

static int64_t adaptive_clamp(const struct weir__meter *m, int64_t rate)
{
    return weir__max(m->term.least, weir__min(rate, m->term.most));
}

/* A rate is below 2^40. */
static int64_t adaptive_lowered(const struct weir__meter *m, int64_t rate)
{
    return adaptive_clamp(m, rate * 7 / 10);
}

/* Whether at least half of the second's events were used. */
static bool adaptive_is_used(const struct weir__meter *m, const struct adaptive_state *x)
{
    return weir__wide(2 * (int64_t)x->events) * weir__wide(m->term.period_ns) >=
           weir__wide(x->rate) * weir__wide(WEIR__NS_PER_S);
}

/* The rate after that many idle seconds, in which no call entered or ended. */
static int64_t adaptive_drifted(const struct weir__meter *m, int64_t rate, int64_t seconds)
{
    const int64_t reach = weir__mul_sat(seconds, adaptive_step(m));

    return rate < m->term.count ? rate + weir__min(reach, m->term.count - rate)
                                : rate - weir__min(reach, rate - m->term.count);
}

/* Whether no call entered or ended in the second: a call was refused, or the limit was set. */
static bool adaptive_is_idle(const struct adaptive_state *x)
{
    return x->calls == 0 && x->events == 0;
}

/* The rate after the second that was counted. */
static int64_t adaptive_judged(const struct weir__meter *m, const struct adaptive_state *x)
{
    if (adaptive_is_idle(x))
        return adaptive_drifted(m, x->rate, 1);
    if (x->calls == 0 || x->dropped)
        return x->rate;
    if ((int64_t)x->bad * 1000 > m->term.errors_milli * x->calls)
        return adaptive_lowered(m, x->rate);
    return x->rate < m->term.count || adaptive_is_used(m, x)
               ? adaptive_clamp(m, x->rate + adaptive_step(m))
               : x->rate;
}

static int64_t seconds_to_forget(const struct weir__meter *m, int64_t rate)
{
    const int64_t distance = rate < m->term.count ? m->term.count - rate : rate - m->term.count;

    return weir__div_ceil(distance, adaptive_step(m));
}

static void adaptive_begin_second(struct adaptive_state *x, int64_t second)
{
    x->second = second;
    x->calls = x->bad = x->events = x->dropped = 0;
}

/* The state as it is at now. */
static struct adaptive_state adaptive_load(const struct weir__meter *m, const struct weir__state *s,
                                           int64_t now_ns)
{
    const int64_t second = now_ns / WEIR__NS_PER_S;
    struct adaptive_state x;

    if (now_ns >= s->fresh_ns)
        return (struct adaptive_state){.rate = m->term.count, .second = second};
    x = *(const struct adaptive_state *)s;
    x.due_ns = weir__max(0, x.due_ns);
    x.rate = adaptive_clamp(m, x.rate);
    x.second = weir__clamp(x.second, 0, WEIR__NOW_MAX / WEIR__NS_PER_S);
    if (second > x.second) {
        const int64_t rate = adaptive_drifted(m, adaptive_judged(m, &x), second - x.second - 1);

        adaptive_set_rate(m, &x, rate, (x.second + 1) * WEIR__NS_PER_S);
    }
    if (second != x.second)
        adaptive_begin_second(&x, second);
    x.lowered_ns = weir__min(x.lowered_ns, now_ns);
    return x;
}

static void adaptive_store(const struct weir__meter *m, struct weir__state *s,
                           const struct adaptive_state *x)
{
    const bool learned = x->rate != m->term.count || !adaptive_is_idle(x);
    const int64_t seconds =
        learned ? x->second + 1 + seconds_to_forget(m, adaptive_judged(m, x)) : 0;
    struct adaptive_state *to = (struct adaptive_state *)s;

    *to = *x;
    s->fresh_ns = weir__max(x->due_ns, weir__mul_sat(seconds, WEIR__NS_PER_S));
    s->word = weir__state_word(adaptive_rem(x), m->version);
}

/* ---- The row -------------------------------------------------------------------------------- */

static bool adaptive_decide(const struct weir__meter *m, struct adaptive_state *x,
                            const struct weir__attempt *a, struct weir_verdict *v)
{
    const int64_t most = adaptive_capacity(m, x->rate);
    const weir__u128 full = adaptive_units(m, most), price = adaptive_units(m, a->cost);
    const weir__u128 before = adaptive_owed(x, a->now_ns), rate = weir__wide(x->rate);
    weir__u128 after = before + price;
    bool changes = a->cost > 0;

    if (after <= full || a->cost == 0) {
        weir__verdict_grant(v, 0);
        x->events += (uint32_t)weir__min(a->cost, (int64_t)UINT32_MAX - x->events);
    } else {
        changes = m->term.count_denied;
        after = !changes ? before : before > full ? before : full;
        if (a->cost > adaptive_capacity(m, m->term.most))
            weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
        else if (a->cost > most)
            weir__verdict_refuse(v, WEIR_LIMITED, 0); /* not at this rate */
        else
            weir__verdict_refuse(v, WEIR_LIMITED,
                                 (int64_t)((after + price - full + rate - 1) / rate));
    }
    if (changes)
        adaptive_owe(m, x, after, a->now_ns);
    v->limit = most;
    v->remaining = after >= full ? 0 : (int64_t)((full - after) / weir__wide(m->term.period_ns));
    return changes;
}

static void adaptive_take(const struct weir__meter *m, struct weir__state *s,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    struct adaptive_state x = adaptive_load(m, s, a->now_ns);

    if (adaptive_decide(m, &x, a, v))
        adaptive_store(m, s, &x);
    v->reset_after_ns = weir__max(0, s->fresh_ns - a->now_ns);
}

static void adaptive_peek(const struct weir__meter *m, const struct weir__state *s,
                          const struct weir__attempt *a, struct weir_verdict *v)
{
    struct adaptive_state x = adaptive_load(m, s, a->now_ns);

    if (adaptive_decide(m, &x, a, v))
        adaptive_store(m, &x.head, &x);
    else
        x.head.fresh_ns = s->fresh_ns;
    v->reset_after_ns = weir__max(0, x.head.fresh_ns - a->now_ns);
}

/* Had the call not entered, the bucket would owe at least that much less now. */
static void adaptive_withdraw(const struct weir__meter *m, struct adaptive_state *x,
                              const struct weir__leaving *l)
{
    const weir__u128 price = adaptive_units(m, l->cost), owed = adaptive_owed(x, l->now_ns);
    const weir__u128 drained =
        weir__wide(weir__max(0, l->now_ns - l->entered_ns)) * weir__wide(x->rate);
    const weir__u128 back = drained < price ? price - drained : 0;

    adaptive_owe(m, x, owed > back ? owed - back : 0, l->now_ns);
    if (l->entered_ns / WEIR__NS_PER_S == x->second)
        x->events -= (uint32_t)weir__min(l->cost, x->events);
}

static void adaptive_leave(const struct weir__meter *m, struct weir__state *s,
                           const struct weir__leaving *l)
{
    struct adaptive_state x = adaptive_load(m, s, l->now_ns);
    const bool slow = m->term.target_ns != WEIR_NONE && weir__leaving_took(l) > m->term.target_ns;

    if (l->withdrawn && l->now_ns < s->fresh_ns) {
        adaptive_withdraw(m, &x, l);
        adaptive_store(m, s, &x);
    }
    if (l->how == WEIR_IGNORE || l->entered_ns < x.lowered_ns)
        return;
    if (x.calls < UINT32_MAX) {
        x.calls++;
        x.bad += l->how != WEIR_SUCCESS || slow;
    }
    if (l->how == WEIR_DROP && !x.dropped) {
        x.dropped = 1;
        adaptive_set_rate(m, &x, adaptive_lowered(m, x.rate), l->now_ns);
    }
    adaptive_store(m, s, &x);
}

static void adaptive_view(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                          struct weir_view *out)
{
    *out = (struct weir_view){WEIR_CLOSED, -1, -1, adaptive_load(m, s, now_ns).rate};
}

/* The learned rate stays, as far as the new bounds allow, if the period is the same. */
static void adaptive_change(const struct weir__meter *from, const struct weir__meter *to,
                            struct weir__state *s)
{
    struct adaptive_state x = adaptive_load(from, s, to->changed_ns);

    if (from->term.period_ns != to->term.period_ns || to->changed_ns >= s->fresh_ns) {
        weir__state_reset(s);
        return;
    }
    adaptive_set_rate(to, &x, adaptive_clamp(to, x.rate), to->changed_ns);
    adaptive_store(to, s, &x);
}

const struct weir__algo weir__adaptive_rate = {
    .prepare = adaptive_prepare,
    .state_bytes = sizeof(struct adaptive_state),
    .take = adaptive_take,
    .peek = adaptive_peek,
    .leave = adaptive_leave,
    .view = adaptive_view,
    .change = adaptive_change,
};
