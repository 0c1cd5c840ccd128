/* Shedding by Little's law while the machine is hot. kratos/aegis BBR, Sentinel's system rule.
 *
 * What a service can have in flight without a queue is its best throughput times its best latency:
 *
 *     limit = floor(most passed in a bucket x least mean latency of a bucket / bucket's length)
 *
 *     passed     |  7| 12| 15| 14|...       15 x 8 ms / 100 ms: 1.2, so 1 at once; more than that
 *     latency ms |  9|  8| 11| 30|...       only waits. The current bucket does not count
 *
 * TCP BBR measures a path in the same way. The limit applies only when it is needed: while the
 * processor, memory or load is at its threshold or above (hot), and for `cooling` after the first
 * drop of an episode, so that the calls that were shed do not come back at once and heat the
 * machine again. Later drops do not prolong it. An episode ends when a call finds the machine cool
 * and the cooling over, and when the cooling is over and no call has found the machine hot for a
 * window: only calls look at it.
 *
 * The entering call is not counted: it is refused if the calls in flight already exceed `limit`. So
 * limit + 1 may be in flight, and with one in flight a second always enters. This extra call lets
 * the limit grow: a limit that admitted exactly itself would measure exactly itself, for ever.
 *
 * It must not grow for ever either. In a long episode the window holds nothing but the episode: its
 * least latency includes the queue that the limit let in, and makes room for that queue and one
 * more. TCP BBR drains its queue now and then to see the path without it, and this limit does the
 * same. Once an episode is older than half a window, every window has a lull: for a twentieth of
 * its buckets, half of the limit applies. The machine may look cool for that long; so the limit
 * sheds in the lull whatever the signals say, and a new episode begins, with its cooling, where the
 * lull ends. kratos has no lulls.
 *
 *     |<- L ->|<- L ->|<--- cooling --->|       A lull of an overload that is over would shed on a
 *     |  hot  |  lull |                         cool machine. So there is one only if a call found
 *         ^ seen here, or in the lull           it hot in the lull, or within L before it.
 *
 * Latencies are whole milliseconds, rounded up call by call, and the mean of a bucket is rounded up
 * too, as kratos does: a service faster than that may queue for a millisecond. Where kratos divides
 * a second by the bucket and drops the rest (none are left of buckets longer than a second, and its
 * limit is 0), weir divides last. An empty window has the limit 1.
 *
 * Calls that passed are those that ended in SUCCESS or ERROR. A DROP was not executed; it only
 * leaves.
 *
 * Invariants:
 *   (1) limit >= 1, and a call that finds none or one in flight is never refused (but TOO_BIG).
 *   (2) `limit` is that of the bucket `newest`: it changes only as a bucket ends, so it is computed
 *       once per bucket and not once per call.
 *   (3) Buckets roll as rolling.h says. A call that ends late, by a clock that stepped back, counts
 *       in none of them, and a cooling that began in what is now the future begins again; what was
 *       seen in the future counts as seen now.
 *   (4) With nothing in flight, fresh_ns is when the window is empty and the cooling over. Then an
 *       episode that no cool call has ended is over too.
 *   (5) A call that finds the machine cool is refused for at most 2L + cooling after one that found
 *       it hot, whatever calls come in between.
 *   (6) Those of flight.h.
 */
#include "algo/bbr.h"

#include "algo/flight.h"
#include "algo/rolling.h"

#define NEVER       INT64_C(-1)
#define TOOK_MAX_MS (INT64_C(1) << 31) /* 24 days: the sum of a bucket fits 63 bits */
#define PASSES_MAX  ((int64_t)UINT32_MAX)
#define LULL_SHARE  20 /* one in this many buckets of a window */

struct bbr_bucket {
    uint32_t passed;
    uint32_t timed;   /* those of them with a known latency */
    uint64_t took_ms; /* in all */
};

struct bbr_state {
    struct weir__state head; /* its 40 bits count the permits in flight */
    int64_t dropped_ns;      /* the episode's first drop, or NEVER */
    int64_t hot_ns;          /* when a call last found the machine hot, or NEVER */
    int64_t newest;
    int64_t limit;
    struct bbr_bucket ring[];
};
static_assert(sizeof(struct bbr_state) == 48 && sizeof(struct bbr_bucket) == 16,
              "as the reference says");

/* The state as it stands at some time. */
struct bbr_look {
    bool is_new, hot, lull;
    int64_t slot, limit, in_flight, dropped_ns, hot_ns;
    int64_t cap; /* the limit in force: in a lull, half of it */
};

static void bbr_prepare(struct weir__meter *m)
{
    m->limit = 1; /* of an empty window */
    m->slot_ns = weir__max(1, m->term.window_ns / m->term.slots);
    m->shape = m->term.slots;
}

static size_t bbr_state_size(const struct weir__meter *m)
{
    return sizeof(struct bbr_state) + sizeof(struct bbr_bucket) * (size_t)m->term.slots;
}

/* ---- The window ---------------------------------------------------------------------------- */

static int64_t bbr_newest(const struct weir__meter *m, const struct bbr_state *b)
{
    return weir__rolling_newest(b->newest, m->slot_ns, m->term.slots);
}

static int64_t bbr_slot(const struct weir__meter *m, const struct bbr_state *b, int64_t now_ns)
{
    return weir__rolling_slot(now_ns / m->slot_ns, bbr_newest(m, b), m->term.slots);
}

/* A time that was noted, or NEVER. */
static int64_t bbr_noted(const struct weir__meter *m, int64_t time_ns)
{
    return weir__clamp(time_ns, NEVER, WEIR__NOW_MAX + m->term.window_ns);
}

/* Below 2^32 x 2^31 x 10^6: 128 bits hold it. */
static int64_t bbr_little_limit(const struct weir__meter *m, int64_t most_passed, int64_t least_ms)
{
    const weir__u128 work = weir__wide(most_passed) * weir__wide(least_ms * WEIR__NS_PER_MS);
    const weir__u128 limit = work / weir__wide(m->slot_ns);

    if (limit > weir__wide(WEIR_COUNT_MAX))
        return WEIR_COUNT_MAX;
    return weir__max(1, (int64_t)limit);
}

static int64_t bbr_mean_ms(const struct bbr_bucket *at)
{
    const int64_t took_ms = weir__max(0, (int64_t)at->took_ms);

    return weir__min(weir__div_ceil(took_ms, weir__max(1, at->timed)), TOOK_MAX_MS);
}

/* The figures of the buckets that are complete when `slot` is the current one. */
static struct weir__bbr_figures bbr_compute(const struct weir__meter *m, const struct bbr_state *b,
                                            int64_t slot)
{
    const int64_t slots = m->term.slots, newest = bbr_newest(m, b);
    struct weir__bbr_figures f = {.most_passed = 1, .least_ms = INT64_MAX};

    for (int64_t i = newest - slots + 1; i <= newest; i++) {
        const struct bbr_bucket *at = &b->ring[weir__rolling_place(weir__max(0, i), slots)];

        if (i == slot || !weir__rolling_holds(i, slot, slots))
            continue;
        f.most_passed = weir__max(f.most_passed, at->passed);
        if (at->timed > 0)
            f.least_ms = weir__min(f.least_ms, bbr_mean_ms(at));
    }
    if (f.least_ms == INT64_MAX)
        f.least_ms = 1;
    f.limit = bbr_little_limit(m, f.most_passed, f.least_ms);
    return f;
}

/* ---- Episodes and their lulls -------------------------------------------------------------- */

static int64_t bbr_lull_slots(const struct weir__meter *m)
{
    return weir__max(1, m->term.slots / LULL_SHARE);
}

/* Whether the slot is in a lull of the episode, given when it began and was last seen. */
static bool bbr_is_lull(const struct weir__meter *m, int64_t slot, int64_t dropped_ns,
                        int64_t hot_ns)
{
    const int64_t at = slot % m->term.slots, slots = bbr_lull_slots(m);

    return dropped_ns != NEVER && at < slots &&
           slot * m->slot_ns - dropped_ns >= m->term.window_ns / 2 &&
           hot_ns >= (slot - at - slots) * m->slot_ns;
}

/* The first drop of the episode at `slot`: the end of a lull is the first drop of the next
 * episode. */
static int64_t bbr_dropped_at(const struct weir__meter *m, const struct bbr_state *b, int64_t slot,
                              int64_t hot_ns)
{
    const int64_t newest = bbr_newest(m, b), begin = newest - newest % m->term.slots;
    const int64_t dropped_ns = bbr_noted(m, b->dropped_ns);

    if (slot <= newest || !bbr_is_lull(m, newest, dropped_ns, hot_ns) ||
        bbr_is_lull(m, slot, dropped_ns, hot_ns))
        return dropped_ns;
    return (begin + bbr_lull_slots(m)) * m->slot_ns;
}

static bool bbr_is_cooling(const struct weir__meter *m, const struct bbr_look *w, int64_t now_ns)
{
    return w->dropped_ns != NEVER && now_ns - w->dropped_ns <= m->term.cooling_ns;
}

/* What a call finds; `hot` if it finds the machine hot. */
static struct bbr_look bbr_look_at(const struct weir__meter *m, const struct weir__state *s,
                                   int64_t now_ns, bool hot)
{
    const struct bbr_state *b = (const struct bbr_state *)s;
    struct bbr_look w = {.is_new = weir__flight_is_new(s, now_ns),
                         .hot = hot,
                         .slot = now_ns / m->slot_ns,
                         .limit = m->limit,
                         .dropped_ns = NEVER,
                         .hot_ns = hot ? now_ns : NEVER,
                         .cap = m->limit};

    if (w.is_new)
        return w;
    w.slot = bbr_slot(m, b, now_ns);
    w.limit = w.slot == bbr_newest(m, b) ? weir__clamp(b->limit, 1, WEIR_COUNT_MAX)
                                         : bbr_compute(m, b, w.slot).limit;
    w.in_flight = weir__state_part(s);
    w.hot_ns = weir__min(bbr_noted(m, b->hot_ns), now_ns);
    w.dropped_ns = bbr_dropped_at(m, b, w.slot, w.hot_ns);
    if (now_ns - w.hot_ns > m->term.window_ns && !bbr_is_cooling(m, &w, now_ns))
        w.dropped_ns = NEVER;
    w.hot_ns = hot ? now_ns : w.hot_ns;
    w.lull = bbr_is_lull(m, w.slot, w.dropped_ns, w.hot_ns);
    w.cap = w.lull ? weir__max(1, w.limit / 2) : w.limit;
    return w;
}

/* Writes what the look saw into the state. */
static void bbr_write(const struct weir__meter *m, struct weir__state *s, const struct bbr_look *w)
{
    struct bbr_state *b = (struct bbr_state *)s;

    if (w->is_new)
        memset(s, 0, bbr_state_size(m));
    else if (w->slot != bbr_newest(m, b))
        weir__rolling_roll(b->ring, sizeof *b->ring, bbr_newest(m, b), w->slot, m->term.slots);
    b->newest = w->slot;
    b->limit = w->limit;
    b->dropped_ns = w->dropped_ns;
    b->hot_ns = w->hot_ns;
}

static int64_t bbr_fresh_ns(const struct weir__meter *m, const struct bbr_state *b)
{
    const int64_t empty_ns = (bbr_newest(m, b) + m->term.slots) * m->slot_ns;

    if (bbr_noted(m, b->dropped_ns) == NEVER)
        return empty_ns;
    return weir__max(empty_ns, bbr_noted(m, b->dropped_ns) + m->term.cooling_ns + 1);
}

/* ---- Heat ---------------------------------------------------------------------------------- */

static bool bbr_reaches(int64_t level_milli, int64_t threshold_milli)
{
    return level_milli != WEIR_NONE && threshold_milli != WEIR_NONE &&
           level_milli >= threshold_milli;
}

static bool bbr_is_hot(const struct weir__meter *m, const struct weir_signals *now)
{
    return now != NULL && (bbr_reaches(now->cpu_milli, m->term.cpu_milli) ||
                           bbr_reaches(now->memory_milli, m->term.memory_milli) ||
                           bbr_reaches(now->load_milli, m->term.load_milli));
}

/* ---- The row ------------------------------------------------------------------------------- */

/* Decides, and leaves in *w what is to be recorded about the episode. */
static void bbr_decide(const struct weir__meter *m, struct bbr_look *w, int64_t fresh_ns,
                       const struct weir__attempt *a, struct weir_verdict *v)
{
    const bool sheds = w->hot || w->lull || bbr_is_cooling(m, w, a->now_ns);
    const bool fits = a->cost <= WEIR__COUNTER_MAX - w->in_flight;
    const bool excess = w->in_flight > 0 && a->cost - 1 > w->cap - w->in_flight;
    const bool allowed = a->cost == 0 || (fits && !(sheds && excess));
    const int64_t after = allowed ? w->in_flight + a->cost : w->in_flight;

    if (allowed)
        weir__verdict_grant(v, 0);
    else if (a->cost > WEIR__COUNTER_MAX)
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__verdict_refuse(v, WEIR_OVERLOAD, 0);
    if (!sheds)
        w->dropped_ns = NEVER;
    else if (w->hot && !allowed && w->dropped_ns == NEVER)
        w->dropped_ns = a->now_ns;
    else if (w->dropped_ns > a->now_ns)
        w->dropped_ns = a->now_ns;
    v->limit = w->cap;
    v->remaining = sheds ? weir__max(0, weir__min(w->cap, w->cap + 1 - after)) : w->cap;
    v->reset_after_ns = after > 0 ? WEIR_FOREVER : weir__max(0, fresh_ns - a->now_ns);
}

static void bbr_take(const struct weir__meter *m, struct weir__state *s,
                     const struct weir__attempt *a, struct weir_verdict *v)
{
    struct bbr_look w = bbr_look_at(m, s, a->now_ns, bbr_is_hot(m, a->signals));

    bbr_decide(m, &w, s->fresh_ns, a, v);
    if (a->cost == 0 || (w.in_flight == 0 && !v->allowed))
        return;
    bbr_write(m, s, &w);
    if (v->allowed)
        weir__flight_enter(m, s, a);
}

static void bbr_peek(const struct weir__meter *m, const struct weir__state *s,
                     const struct weir__attempt *a, struct weir_verdict *v)
{
    struct bbr_look w = bbr_look_at(m, s, a->now_ns, bbr_is_hot(m, a->signals));

    bbr_decide(m, &w, s->fresh_ns, a, v);
}

static void bbr_count(struct bbr_bucket *at, int64_t cost, int64_t took_ns)
{
    const int64_t took_ms = weir__min(weir__div_ceil(took_ns, WEIR__NS_PER_MS), TOOK_MAX_MS);
    const int64_t timed = took_ms == 0 ? 0 : weir__min(cost, PASSES_MAX - at->timed);

    at->passed += (uint32_t)weir__min(cost, PASSES_MAX - at->passed);
    at->timed += (uint32_t)timed;
    at->took_ms += (uint64_t)(timed * took_ms);
}

static void bbr_leave(const struct weir__meter *m, struct weir__state *s,
                      const struct weir__leaving *l)
{
    struct bbr_state *b = (struct bbr_state *)s;
    const struct bbr_look w = bbr_look_at(m, s, l->now_ns, false);
    const bool done = l->how == WEIR_SUCCESS || l->how == WEIR_ERROR;

    if (w.is_new)
        return;
    bbr_write(m, s, &w);
    if (done && !weir__rolling_is_late(l->now_ns / m->slot_ns, w.slot))
        bbr_count(&b->ring[weir__rolling_place(w.slot, m->term.slots)], l->cost,
                  weir__leaving_took(l));
    weir__flight_leave(m, s, l->cost, bbr_fresh_ns(m, b));
}

static void bbr_view(const struct weir__meter *m, const struct weir__state *s, int64_t now_ns,
                     struct weir_view *out)
{
    const struct bbr_look w = bbr_look_at(m, s, now_ns, false);

    *out = (struct weir_view){bbr_is_cooling(m, &w, now_ns) ? WEIR_COOLING : WEIR_CLOSED, w.cap,
                              w.in_flight, -1};
}

/* Permits in flight and the episode stay; so does the window, if the length of its buckets stays.
 * No key recovers later than it said. */
static void bbr_change(const struct weir__meter *from, const struct weir__meter *to,
                       struct weir__state *s)
{
    struct bbr_state *b = (struct bbr_state *)s;
    const int64_t in_flight = weir__state_part(s);

    if (from->slot_ns != to->slot_ns) {
        memset(b->ring, 0, sizeof *b->ring * (size_t)to->term.slots);
        b->newest = to->changed_ns / to->slot_ns;
        b->limit = to->limit;
    }
    if (in_flight == 0)
        s->fresh_ns = weir__min(s->fresh_ns, bbr_fresh_ns(to, b));
    s->word = weir__state_word(in_flight, to->version);
}

struct weir__bbr_figures weir__bbr_figures(const struct weir__meter *m, const struct weir__state *s,
                                           int64_t now_ns)
{
    const struct bbr_state *b = (const struct bbr_state *)s;

    if (weir__flight_is_new(s, now_ns))
        return (struct weir__bbr_figures){1, 1, m->limit};
    return bbr_compute(m, b, bbr_slot(m, b, now_ns));
}

const struct weir__algo weir__bbr = {
    .prepare = bbr_prepare,
    .state_size = bbr_state_size,
    .take = bbr_take,
    .peek = bbr_peek,
    .leave = bbr_leave,
    .view = bbr_view,
    .epoch = weir__flight_epoch,
    .change = bbr_change,
};
