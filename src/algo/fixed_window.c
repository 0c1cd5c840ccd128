/* The counter: so many events per window, and a new window starts from nothing.
 *
 * State is when the open window ends, and how much of it is used. With align=first a window opens
 * with its first event (gubernator, limitador, Redis INCR + EXPIRE). With align=clock windows tile
 * time, and whoever calls hands in the edge of the one that holds now: days, weeks and months have
 * lengths that only a calendar knows, and this file knows no calendar.
 *
 * What it forgets: the moment before the edge. 200 per minute admits 200 requests at 0:59 and
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
 *   (2) The window that is open stays open until its end, whatever the clock does: one that steps
 *       back does not reopen an older window with a fresh count.
 *   (3) fresh_ns is the window's end. A clock window that holds nothing is forgotten at once; one
 *       that a first event opened stays, for its end is part of what was answered.
 *   (4) Keys join to the later end and the larger count of the windows that are open. That alone would
 *       not do: where the first of two windows has ended, its key opens another, which outlasts the
 *       join. So while a window is a copy each charge moves its end to where a window opened now would
 *       end: it then ends no sooner, and holds no less, than the window of any key that was joined.
 */
#include "algo/algo.h"

struct window {
    int64_t end_ns; /* 0: none is open */
    int64_t used;
    bool copied; /* of several keys: invariant (4) */
};

static void prepare(struct weir__meter *m)
{
    m->limit = m->term.count;
}

static struct window load(const struct weir__state *s, int64_t now_ns)
{
    if (s->fresh_ns <= now_ns)
        return (struct window){0};
    return (struct window){s->fresh_ns, weir__state_part(s), weir__is_copied(s)};
}

static void store(const struct weir__meter *m, struct weir__state *s, struct window w)
{
    if (w.used == 0 && m->term.align == WEIR_ALIGN_CLOCK) {
        weir__reset(s);
        return;
    }
    s->fresh_ns = w.end_ns;
    s->word = weir__state_word(w.used, m->version) | (w.copied ? WEIR__STATE_FLAG : 0);
}

static struct window charged(const struct weir__meter *m, struct window w,
                             const struct weir__ask *a)
{
    const int64_t first_end = a->now_ns + m->term.period_ns;
    const int64_t end = m->term.align == WEIR_ALIGN_CLOCK ? a->edge_ns : first_end;

    if (w.end_ns == 0 || (w.copied && w.end_ns < end))
        w.end_ns = end;
    w.used = weir__min(weir__add_sat(w.used, a->cost), WEIR__COUNTER_MAX);
    return w;
}

static struct window decide(const struct weir__meter *m, struct window w, const struct weir__ask *a,
                            struct weir_verdict *v)
{
    const bool allowed = a->cost == 0 || a->cost <= m->limit - w.used;

    if (a->cost > 0 && (allowed || m->term.count_denied))
        w = charged(m, w, a);
    if (allowed)
        weir__grant(v, 0);
    else if (a->cost > m->limit)
        weir__refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__refuse(v, WEIR_LIMITED, w.end_ns - a->now_ns);
    v->limit = m->limit;
    v->remaining = weir__max(0, m->limit - w.used);
    v->reset_after_ns = w.end_ns > 0 ? w.end_ns - a->now_ns : 0;
    return w;
}

static void take(const struct weir__meter *m, struct weir__state *s, const struct weir__ask *a,
                 struct weir_verdict *v)
{
    const struct window before = load(s, a->now_ns);
    const struct window after = decide(m, before, a, v);

    if (after.used != before.used || after.end_ns != before.end_ns)
        store(m, s, after);
}

static void peek(const struct weir__meter *m, const struct weir__state *s,
                 const struct weir__ask *a, struct weir_verdict *v)
{
    (void)decide(m, load(s, a->now_ns), a, v);
}

static int64_t refund(const struct weir__meter *m, struct weir__state *s, int64_t n, int64_t now_ns)
{
    struct window w = load(s, now_ns);
    const int64_t back = weir__min(n, w.used);

    if (back > 0) {
        w.used -= back;
        store(m, s, w);
    }
    return back;
}

/* What was used in a window that is open at the change stays used, no longer than the new limit
 * would have kept an event of that moment. */
static void change(const struct weir__meter *from, const struct weir__meter *to,
                   struct weir__state *s)
{
    const int64_t at = to->changed_ns;
    struct window w = load(s, at);

    if (w.end_ns == 0) {
        weir__reset(s);
        return;
    }
    if (to->term.align == WEIR_ALIGN_CLOCK)
        w.end_ns = to->changed_edge_ns;
    else if (to->term.period_ns <= from->term.period_ns)
        w.end_ns = weir__min(w.end_ns, at + to->term.period_ns);
    else if (from->term.align == WEIR_ALIGN_FIRST)
        w.end_ns = weir__add_sat(w.end_ns, to->term.period_ns - from->term.period_ns);
    else /* where a clock window began is not kept: at the change, at the latest */
        w.end_ns = at + to->term.period_ns;
    store(to, s, w);
}

static void join(const struct weir__meter *m, struct weir__state *into,
                 const struct weir__state *from, int64_t now_ns)
{
    const struct window a = load(into, now_ns), b = load(from, now_ns);
    const struct window both = {weir__max(a.end_ns, b.end_ns), weir__max(a.used, b.used), true};

    if (both.end_ns == 0)
        weir__reset(into);
    else
        store(m, into, both);
}

static uint32_t share(const struct weir__meter *m, struct weir__state head, int64_t now_ns)
{
    return weir__in_1024ths(weir__min(load(&head, now_ns).used, m->limit), m->limit);
}

/* No clock window that holds now ends later; on one day of the year a day has 25 hours. */
static int64_t latest_end(const struct weir__meter *m, int64_t now_ns)
{
    const int64_t more = m->term.calendar == WEIR_DURATION ? 0 : 3600 * WEIR__NS_PER_S;

    return weir__add_sat(now_ns, m->term.period_ns + more);
}

static void owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                    int64_t edge_ns)
{
    const int64_t end = edge_ns > 0 ? edge_ns : latest_end(m, now_ns);

    store(m, s, (struct window){weir__max(s->fresh_ns, end), m->limit, true});
}

const struct weir__algo weir__fixed_window = {
    .prepare = prepare,
    .state_bytes = sizeof(struct weir__state),
    .take = take,
    .peek = peek,
    .refund = refund,
    .change = change,
    .join = join,
    .share = share,
    .owe_all = owe_all,
};
