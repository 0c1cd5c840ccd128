/* The circuit breaker: stop calling a service that does not answer.
 *
 *               too many fail                 the time is up
 *     CLOSED  ----------------->   OPEN   ------------------->  HALF-OPEN
 *       ^                           ^  ^                          |   |
 *       |                           |  +-- a probe fails ---------+   |
 *       |                           +----- or is not back in time     |
 *       +----------------------------------- the probes succeed ------+
 *
 * While the breaker is closed, every call passes and its outcome goes into a rolling window. When
 * the window says that too many failed or were slow, the breaker opens: for `open` no call passes,
 * so that the other side can recover and the callers do not wait in vain. Then `probes` calls may
 * pass. If all of them succeed it closes and the window starts at zero; if one fails, it opens
 * again, for `growth` times as long as before (to `open-max` at most). Closing brings the time back
 * to `open`.
 *
 * A probe that never ends would leave it half-open for ever (and does, in Sentinel and in
 * resilience4j with their defaults). Here probes that have not ended within `probe-timeout` count
 * as failed. So from every state, time alone leads to a caller being let in.
 *
 * ERROR and DROP are failures, and a slow call took longer than it may; IGNORE says nothing and
 * gives a probe's turn back. The presets say how many are too many (breaker_presets.c). One thing
 * differs from all of their libraries: there any call that ends while the breaker is half-open
 * decides, here only one that entered since.
 *
 * A call is one call, whatever its cost.
 *
 * Invariants:
 *   (1) A closed breaker with an empty window is a key never seen: closing resets the state (except
 *       that Hystrix counts the probe that closed it).
 *   (2) Entering a closed breaker changes nothing. There is nothing in flight to be lost.
 *   (3) A state that time alone does not end (open, half-open, a window of calls) is forgotten
 *       after a day without a call: no caller may fill a store for ever with keys that are never
 *       used again.
 *   (4) While it is half-open, no more than `probes` calls enter before the outcome is known.
 *   (5) A clock that steps back: an opening that has not begun yet begins now, and so do the
 *       probes' times. No caller waits for more than the opening's own length because of it.
 */
#include "algo/breaker/breaker.h"

#define STAND_SHIFT 32
#define GRANTED     ((INT64_C(1) << STAND_SHIFT) - 1)

/* The state as it stands at some time. */
struct breaker_look {
    enum weir_guard_state state;
    bool is_new;     /* closed, and nothing in the window          */
    int64_t granted; /* half-open: probes that were let in         */
    int64_t mark_ns, open_ns;
};

static void breaker_prepare(struct weir__meter *m)
{
    const struct weir_term *t = &m->term;
    const bool calls = t->window_ns == WEIR_NONE;

    m->limit = WEIR_COUNT_MAX; /* there is none */
    m->slot_ns = calls ? 0 : t->window_ns / t->slots;
    m->shape = calls ? -t->window_calls : t->slots * 2 + (t->preset == WEIR_PRESET_SRE);
}

static size_t breaker_state_size(const struct weir__meter *m)
{
    return sizeof(struct weir__breaker) + weir__breaker_window_bytes(m);
}

/* ---- The state ------------------------------------------------------------------------------ */

static int64_t breaker_grown(const struct weir_term *t, int64_t open_ns)
{
    return weir__min(weir__mul_div(open_ns, t->growth_milli, 1000), t->open_most_ns);
}

/* Any other value than the three is damage, and is read as open. */
static enum weir_guard_state breaker_stand(const struct weir__state *s)
{
    const int64_t stand = weir__state_part(s) >> STAND_SHIFT;

    return stand == WEIR_CLOSED || stand == WEIR_HALF_OPEN ? (enum weir_guard_state)stand
                                                           : WEIR_OPENED;
}

static struct breaker_look breaker_look_at(const struct weir__meter *m, const struct weir__state *s,
                                           int64_t now_ns)
{
    const struct weir__breaker *b = (const struct weir__breaker *)s;
    struct breaker_look w = {.state = WEIR_CLOSED, .is_new = true};

    if (now_ns >= s->fresh_ns)
        return w;
    w = (struct breaker_look){breaker_stand(s), false, weir__state_part(s) & GRANTED,
                              weir__clamp(b->mark_ns, 0, WEIR__NOW_MAX + m->term.open_most_ns),
                              weir__clamp(b->open_ns, 0, m->term.open_most_ns)};
    if (w.state == WEIR_HALF_OPEN && w.mark_ns > now_ns)
        w.mark_ns = now_ns;
    if (w.state == WEIR_HALF_OPEN && now_ns - w.mark_ns >= m->term.probe_ns) {
        w.state = WEIR_OPENED;
        w.open_ns = breaker_grown(&m->term, w.open_ns);
        w.mark_ns += m->term.probe_ns + w.open_ns;
    }
    if (w.state == WEIR_OPENED && w.mark_ns - w.open_ns > now_ns)
        w.mark_ns = now_ns + w.open_ns;
    return w;
}

/* Open or half-open: when the key is forgotten. If no probe ends in time, it opens once more. */
static int64_t breaker_forgotten_ns(const struct weir__meter *m, const struct breaker_look *w)
{
    const int64_t again_ns =
        w->state == WEIR_HALF_OPEN ? m->term.probe_ns + breaker_grown(&m->term, w->open_ns) : 0;

    return w->mark_ns + again_ns + WEIR__BREAKER_IDLE_NS;
}

/* Writes the state. While it is open or half-open, the window is not used, and the sum counts
 * probes. */
static void breaker_write(const struct weir__meter *m, struct weir__state *s,
                          const struct breaker_look *w, int64_t now_ns)
{
    struct weir__breaker *b = (struct weir__breaker *)s;

    s->fresh_ns = w->state == WEIR_CLOSED ? weir__breaker_window_empty_ns(m, b, now_ns)
                                          : breaker_forgotten_ns(m, w);
    s->word = weir__state_word((int64_t)w->state << STAND_SHIFT | w->granted, m->version);
    b->mark_ns = w->mark_ns;
    b->open_ns = w->open_ns;
}

static void breaker_open_for(struct breaker_look *w, struct weir__breaker *b, int64_t open_ns,
                             int64_t now_ns)
{
    *w = (struct breaker_look){WEIR_OPENED, false, 0, now_ns + open_ns, open_ns};
    b->sum = (struct weir__tally){0, 0, 0};
}

/* ---- Entering ------------------------------------------------------------------------------- */

static void breaker_enter_or_wait(const struct weir__meter *m, struct breaker_look *w,
                                  const struct weir__attempt *a, struct weir_verdict *v)
{
    const int64_t from_ns = weir__breaker_until(&m->term, w->mark_ns);

    if (w->state == WEIR_OPENED && a->now_ns < from_ns) {
        weir__verdict_refuse(v, WEIR_OPEN, from_ns - a->now_ns);
        return;
    }
    if (w->state == WEIR_OPENED)
        *w = (struct breaker_look){WEIR_HALF_OPEN, false, 0, a->now_ns, w->open_ns};
    if (w->granted >= m->term.probes) {
        weir__verdict_refuse(v, WEIR_OPEN, 0);
        return;
    }
    w->granted++;
    weir__verdict_grant(v, 0);
}

/* A call is one call, whatever its cost: where one may enter, any cost may. */
static int64_t breaker_remaining(const struct weir__meter *m, const struct breaker_look *w,
                                 int64_t now_ns)
{
    switch (m->term.forced) {
    case WEIR_FORCED_OPEN: return 0;
    case WEIR_FORCED_CLOSED:
    case WEIR_FORCED_METRICS: return m->limit;
    case WEIR_FORCED_NOT: break;
    }
    switch (w->state) {
    case WEIR_HALF_OPEN: return w->granted < m->term.probes ? m->limit : 0;
    case WEIR_OPENED: return now_ns < weir__breaker_until(&m->term, w->mark_ns) ? 0 : m->limit;
    case WEIR_CLOSED:
    case WEIR_COOLING: break;
    }
    return m->limit;
}

static struct weir__tally breaker_tally(const struct weir__meter *m, const struct weir__state *s,
                                        const struct breaker_look *w, int64_t now_ns)
{
    return w->is_new ? (struct weir__tally){0, 0, 0}
                     : weir__breaker_window_tally(m, (const struct weir__breaker *)s, now_ns);
}

/* Decides, and leaves the resulting state in *w. True if a throttle is to count the call that it
 * refused. */
static bool breaker_decide(const struct weir__meter *m, const struct weir__state *s,
                           struct breaker_look *w, const struct weir__attempt *a,
                           struct weir_verdict *v)
{
    const bool sre = m->term.preset == WEIR_PRESET_SRE;
    bool drops = false;

    v->limit = m->limit;
    v->reset_after_ns = 0;
    if (m->term.forced == WEIR_FORCED_OPEN && a->cost > 0) {
        weir__verdict_refuse(v, WEIR_OPEN, -1);
        v->remaining = 0;
        return false;
    }
    if (a->cost == 0 || m->term.forced != WEIR_FORCED_NOT || w->state == WEIR_CLOSED)
        weir__verdict_grant(v, 0);
    else
        breaker_enter_or_wait(m, w, a, v);
    if (sre && a->cost > 0 && m->term.forced == WEIR_FORCED_NOT)
        drops = weir__sre_drops(m, breaker_tally(m, s, w, a->now_ns), a->random);
    if (drops)
        weir__verdict_refuse(v, WEIR_OPEN, 0);
    v->remaining = drops ? 0 : breaker_remaining(m, w, a->now_ns);
    if (w->state != WEIR_CLOSED && a->cost > 0 && m->term.forced == WEIR_FORCED_NOT)
        v->reset_after_ns = breaker_forgotten_ns(m, w) - a->now_ns; /* as it will be written */
    else if (!w->is_new)
        v->reset_after_ns = s->fresh_ns - a->now_ns;
    return drops && m->term.count_denied;
}

/* ---- Leaving -------------------------------------------------------------------------------- */

static void breaker_add(const struct weir__meter *m, struct weir__state *s, struct breaker_look *w,
                        int64_t now_ns, bool error, bool slow)
{
    struct weir__breaker *b = (struct weir__breaker *)s;

    if (w->is_new)
        weir__breaker_window_clear(m, b, now_ns);
    weir__breaker_window_add(m, b, now_ns, error, slow);
    w->is_new = false;
}

static void breaker_leave_closed(const struct weir__meter *m, struct weir__state *s,
                                 struct breaker_look *w, int64_t now_ns, bool error, bool slow)
{
    struct weir__breaker *b = (struct weir__breaker *)s;
    const bool trips_at_all =
        m->term.forced == WEIR_FORCED_NOT && m->term.preset != WEIR_PRESET_SRE;

    breaker_add(m, s, w, now_ns, error, slow);
    if (trips_at_all && weir__breaker_trips(&m->term, b->sum))
        breaker_open_for(w, b, m->term.open_ns, now_ns);
    breaker_write(m, s, w, now_ns);
}

/* The window starts at zero; Hystrix then counts the call that closed it in the new one. */
static void breaker_close(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                          bool error, bool slow)
{
    struct breaker_look w = {.state = WEIR_CLOSED, .is_new = true};

    weir__state_reset(s);
    if (m->term.preset != WEIR_PRESET_HYSTRIX)
        return;
    breaker_add(m, s, &w, now_ns, error, slow);
    breaker_write(m, s, &w, now_ns);
}

static void breaker_leave_half_open(const struct weir__meter *m, struct weir__state *s,
                                    struct breaker_look *w, const struct weir__leaving *l,
                                    bool error, bool slow)
{
    struct weir__breaker *b = (struct weir__breaker *)s;
    int how;

    if (l->entered_ns < w->mark_ns) /* it entered before that */
        return;
    if (l->how == WEIR_IGNORE) {
        w->granted = weir__max(b->sum.calls, w->granted - 1);
        breaker_write(m, s, w, l->now_ns);
        return;
    }
    b->sum.calls++;
    b->sum.errors += error;
    b->sum.slow += slow;
    how = weir__breaker_judges(&m->term, b->sum, error, slow);
    if (how > 0) {
        breaker_close(m, s, l->now_ns, error, slow);
        return;
    }
    if (how < 0)
        breaker_open_for(w, b, breaker_grown(&m->term, w->open_ns), l->now_ns);
    breaker_write(m, s, w, l->now_ns);
}

static void breaker_leave(const struct weir__meter *m, struct weir__state *s,
                          const struct weir__leaving *l)
{
    struct breaker_look w = breaker_look_at(m, s, l->now_ns);
    const bool error = l->how == WEIR_ERROR || l->how == WEIR_DROP;
    const bool slow = m->term.slow_milli != WEIR_NONE && weir__leaving_took(l) > m->term.slow_ns;

    if (m->term.forced == WEIR_FORCED_OPEN || m->term.forced == WEIR_FORCED_CLOSED)
        return;
    if (m->term.forced == WEIR_FORCED_METRICS && w.state != WEIR_CLOSED)
        w = (struct breaker_look){.state = WEIR_CLOSED, .is_new = true}; /* it was forced since */
    if (w.state == WEIR_HALF_OPEN)
        breaker_leave_half_open(m, s, &w, l, error, slow);
    else if (w.state == WEIR_CLOSED && l->how != WEIR_IGNORE)
        breaker_leave_closed(m, s, &w, l->now_ns, error, slow);
}

/* ---- The row -------------------------------------------------------------------------------- */

static void breaker_take(const struct weir__meter *m, struct weir__state *s,
                         const struct weir__attempt *a, struct weir_verdict *v)
{
    struct weir__breaker *b = (struct weir__breaker *)s;
    struct breaker_look w = breaker_look_at(m, s, a->now_ns);
    const enum weir_guard_state was = w.state;

    if (breaker_decide(m, s, &w, a, v))
        breaker_leave_closed(m, s, &w, a->now_ns, true, false);
    if (was == WEIR_CLOSED || a->cost == 0 || m->term.forced != WEIR_FORCED_NOT)
        return;
    if (was != w.state)
        b->sum = (struct weir__tally){0, 0, 0}; /* of the probes */
    breaker_write(m, s, &w, a->now_ns);
}

static void breaker_peek(const struct weir__meter *m, const struct weir__state *s,
                         const struct weir__attempt *a, struct weir_verdict *v)
{
    struct breaker_look w = breaker_look_at(m, s, a->now_ns);

    (void)breaker_decide(m, s, &w, a, v);
}

static void breaker_view(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                         struct weir_view *out)
{
    const struct breaker_look w = breaker_look_at(m, s, now_ns);
    const struct weir__tally n =
        w.state == WEIR_CLOSED ? breaker_tally(m, s, &w, now_ns) : (struct weir__tally){0, 0, 0};

    switch (m->term.forced) {
    case WEIR_FORCED_NOT: out->state = w.state; break;
    case WEIR_FORCED_OPEN: out->state = WEIR_OPENED; return;
    case WEIR_FORCED_CLOSED: out->state = WEIR_CLOSED; return;
    /* The state that it would have if it decided. */
    case WEIR_FORCED_METRICS:
        out->state = weir__breaker_trips(&m->term, n) ? WEIR_OPENED : WEIR_CLOSED;
        break;
    }
    if (m->term.preset == WEIR_PRESET_SRE)
        out->state = weir__sre_throttles(m, n) ? WEIR_HALF_OPEN : WEIR_CLOSED;
}

/* The breaker keeps its state. A window whose buckets had another length starts at zero. */
static void breaker_change(const struct weir__meter *from, const struct weir__meter *to,
                           struct weir__state *s)
{
    const struct breaker_look w = breaker_look_at(from, s, to->changed_ns);

    if (w.is_new || (w.state == WEIR_CLOSED && from->slot_ns != to->slot_ns))
        weir__state_reset(s);
    else if (w.state == WEIR_CLOSED)
        s->word = weir__state_word(weir__state_part(s), to->version);
    else
        breaker_write(to, s, &w, to->changed_ns);
}

const struct weir__algo weir__breaker = {
    .prepare = breaker_prepare,
    .state_size = breaker_state_size,
    .take = breaker_take,
    .peek = breaker_peek,
    .leave = breaker_leave,
    .view = breaker_view,
    .enters_unseen = true,
    .change = breaker_change,
};
