/* The counter: at most `count` events per window, and each new window starts at zero.
 *
 * State is when the open window ends, and how much of it is used. With align=first a window opens
 * with its first event (gubernator, limitador, Redis INCR + EXPIRE). With align=clock windows tile
 * time, and the caller passes in the end of the one that holds now: days, weeks and months have
 * lengths that only a calendar knows, and this file knows no calendar.
 *
 * What it forgets: the events just before the edge. 200 per minute admits 200 requests at 0:59 and
 * another 200 at 1:00, so 400 within a second:
 *
 *     0:00                          0:59 |1:00
 *      [ . . . . . . . . . . . . . . 200 | 200 . . . . . . . . ]
 *
 * That is 2x the limit in an interval as short as you like, and no more than 2x in any interval of
 * one window. The sliding windows are the cure.
 *
 * Invariants:
 *   (1) A window admits at most count; any interval of one window's length at most 2 x count.
 *   (2) An open window stays open until its end, whatever the clock does: a clock that steps back
 *       does not reopen an older window with a fresh count.
 *   (3) fresh_ns is the window's end. A clock window that holds nothing is forgotten at once; one
 *       that a first event opened stays, for its end is part of earlier answers.
 *   (4) Keys join to the later end and the larger count of the windows that are open. That alone
 *       would not do: where the first of two windows has ended, its key opens another, which
 *       outlasts the join. So while a window is a copy each charge moves its end to where a window
 *       opened now would end: it then ends no sooner, and holds no less, than the window of any key
 *       that was joined.
 */
#include "algo/algo.h"

struct fixed_window_view {
    int64_t end_ns; /* 0: none is open */
    int64_t used;
    bool copied; /* joined from several keys: invariant (4) */
};

static void fixed_window_prepare(struct weir__meter *m)
{
    m->limit = m->term.count;
}

static struct fixed_window_view fixed_window_load(const struct weir__state *s, int64_t now_ns)
{
    if (s->fresh_ns <= now_ns)
        return (struct fixed_window_view){0};
    return (struct fixed_window_view){s->fresh_ns, weir__state_part(s), weir__state_is_copied(s)};
}

static void fixed_window_store(const struct weir__meter *m, struct weir__state *s,
                               struct fixed_window_view w)
{
    if (w.used == 0 && m->term.align == WEIR_ALIGN_CLOCK) {
        weir__state_reset(s);
        return;
    }
    s->fresh_ns = w.end_ns;
    s->word = weir__state_word(w.used, m->version) | (w.copied ? WEIR__STATE_FLAG : 0);
}

static struct fixed_window_view fixed_window_charged(const struct weir__meter *m,
                                                     struct fixed_window_view w,
                                                     const struct weir__attempt *a)
{
    const int64_t first_end = a->now_ns + m->term.period_ns;
    const int64_t end = m->term.align == WEIR_ALIGN_CLOCK ? a->edge_ns : first_end;

    if (w.end_ns == 0 || (w.copied && w.end_ns < end))
        w.end_ns = end;
    w.used = weir__min(weir__add_sat(w.used, a->cost), WEIR__COUNTER_MAX);
    return w;
}

static struct fixed_window_view fixed_window_decide(const struct weir__meter *m,
                                                    struct fixed_window_view w,
                                                    const struct weir__attempt *a,
                                                    struct weir_verdict *v)
{
    const bool allowed = a->cost == 0 || a->cost <= m->limit - w.used;

    if (a->cost > 0 && (allowed || m->term.count_denied))
        w = fixed_window_charged(m, w, a);
    if (allowed)
        weir__verdict_grant(v, 0);
    else if (a->cost > m->limit)
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__verdict_refuse(v, WEIR_LIMITED, w.end_ns - a->now_ns);
    v->limit = m->limit;
    v->remaining = weir__max(0, m->limit - w.used);
    v->reset_after_ns = w.end_ns > 0 ? w.end_ns - a->now_ns : 0;
    return w;
}

static void fixed_window_take(const struct weir__meter *m, struct weir__state *s,
                              const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct fixed_window_view before = fixed_window_load(s, a->now_ns);
    const struct fixed_window_view after = fixed_window_decide(m, before, a, v);

    if (after.used != before.used || after.end_ns != before.end_ns)
        fixed_window_store(m, s, after);
}

static void fixed_window_peek(const struct weir__meter *m, const struct weir__state *s,
                              const struct weir__attempt *a, struct weir_verdict *v)
{
    (void)fixed_window_decide(m, fixed_window_load(s, a->now_ns), a, v);
}

static int64_t fixed_window_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                   int64_t now_ns)
{
    struct fixed_window_view w = fixed_window_load(s, now_ns);
    const int64_t back = weir__min(n, w.used);

    if (back > 0) {
        w.used -= back;
        fixed_window_store(m, s, w);
    }
    return back;
}

/* Of a window that is over nothing counts. */
static int64_t fixed_window_settle(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                   int64_t made_ns, int64_t now_ns)
{
    return s->fresh_ns == made_ns ? fixed_window_refund(m, s, n, now_ns) : 0;
}

/* Usage in a window that is open at the change stays, no longer than the new limit would keep an
 * event of that time. */
static void fixed_window_change(const struct weir__meter *from, const struct weir__meter *to,
                                struct weir__state *s)
{
    const int64_t at = to->changed_ns;
    struct fixed_window_view w = fixed_window_load(s, at);

    if (w.end_ns == 0) {
        weir__state_reset(s);
        return;
    }
    if (to->term.align == WEIR_ALIGN_CLOCK)
        w.end_ns = to->changed_edge_ns;
    else if (to->term.period_ns <= from->term.period_ns)
        w.end_ns = weir__min(w.end_ns, at + to->term.period_ns);
    else if (from->term.align == WEIR_ALIGN_FIRST)
        w.end_ns = weir__add_sat(w.end_ns, to->term.period_ns - from->term.period_ns);
    else /* the start of a clock window is not kept: at the latest, the change */
        w.end_ns = at + to->term.period_ns;
    fixed_window_store(to, s, w);
}

static void fixed_window_join(const struct weir__meter *m, struct weir__state *into,
                              const struct weir__state *from, int64_t now_ns)
{
    const struct fixed_window_view a = fixed_window_load(into, now_ns),
                                   b = fixed_window_load(from, now_ns);
    const struct fixed_window_view both = {weir__max(a.end_ns, b.end_ns), weir__max(a.used, b.used),
                                           true};

    if (both.end_ns == 0)
        weir__state_reset(into);
    else
        fixed_window_store(m, into, both);
}

static uint32_t fixed_window_share(const struct weir__meter *m, struct weir__state head,
                                   int64_t now_ns)
{
    return weir__in_1024ths(weir__min(fixed_window_load(&head, now_ns).used, m->limit), m->limit);
}

/* No clock window that holds now ends later; on one day of the year a day has 25 hours. */
static int64_t fixed_window_latest_end(const struct weir__meter *m, int64_t now_ns)
{
    const int64_t more = m->term.calendar == WEIR_DURATION ? 0 : 3600 * WEIR__NS_PER_S;

    return weir__add_sat(now_ns, m->term.period_ns + more);
}

static void fixed_window_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                                 int64_t edge_ns)
{
    const int64_t end = edge_ns > 0 ? edge_ns : fixed_window_latest_end(m, now_ns);

    fixed_window_store(m, s,
                       (struct fixed_window_view){weir__max(s->fresh_ns, end), m->limit, true});
}

const struct weir__algo weir__fixed_window = {
    .family = WEIR__FAMILY_WINDOW,
    .division = WEIR__DIVIDE_WINDOW,
    .letter = 'f',
    .prepare = fixed_window_prepare,
    .state_bytes = sizeof(struct weir__state),
    .take = fixed_window_take,
    .peek = fixed_window_peek,
    .refund = fixed_window_refund,
    .settle = fixed_window_settle,
    .change = fixed_window_change,
    .join = fixed_window_join,
    .share = fixed_window_share,
    .owe_all = fixed_window_owe_all,
};
