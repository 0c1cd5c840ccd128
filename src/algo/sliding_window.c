/* A ring of counters: the window is cut into slots, and slides by a slot at a time. Sentinel's
 * LeapArray, kratos.
 *
 *     10 per second in 100 ms slots: the window is the current slot and the nine before it
 *
 *      |  |  |  |  |  |  |  |  |  |  |  |
 *          [5  5  .  .  .  .  .  .  .  .]        one more is refused until the first 5 leave
 *
 * Slots trade memory for precision. An event leaves when its slot does, so it may leave up to one
 * slot early: a burst at the end of a slot is 1 - 1/slots of a window old when the slot goes.
 * slots=1 is a fixed window cut from the epoch.
 *
 * Invariants:
 *   (1) Any interval of one window's length that starts at a slot's edge holds at most count, and
 *       so does any interval at all of (1 - 1/slots) windows. An unaligned interval of a whole
 *       window touches slots + 1 slots, and can exceed count by what its last slot may hold: by
 *       count (2x) in the worst case, by per-slot where that is set.
 *   (2) fresh_ns is the edge at which the newest slot that holds an event leaves: a multiple of
 *       the slot's length, from which the ring's newest slot is read back. No other position is
 *       stored.
 *   (3) The ring is reused without clearing it all: slots between the old newest and the new one
 *       are zeroed as they are passed. Slots outside (newest - slots, newest] do not exist.
 *   (4) The 40 bits beside the version are the sum of the ring.
 *   (5) A clock that steps back stands in the newest slot: counted from the position of its ring,
 *       no event is ever older than it is in real time.
 *   (6) Keys join to the larger of their sums from each slot on. Every answer is made of these sums
 *       (of the window, of the newest slot); a grant adds to those of its slot and before, a refund
 *       of n takes n from each, down to 0, and a live change moves slots without changing their
 *       order: so what is larger stays larger. (The larger of each slot would bind both too, but
 *       add up the slots of unrelated keys.)
 *   (7) Two rings stand in different slots only if the clock has stepped back since one was
 *       written. Their join stands in the later one, and the events of the other move on by the
 *       difference: they are as old as they were. Left in their slots they would be too old: with
 *       per-slot=2, two events in the current slot would not be in the slot in which the join
 *       counts.
 */
#include "algo/algo.h"

#include <string.h>

struct sliding_window_view {
    int64_t slot, newest; /* numbers since the epoch; newest is -1 if the ring is empty */
    int64_t sum, in_slot; /* of the window at this slot; of this slot */
};

static bool sliding_window_is_wide(const struct weir__meter *m)
{
    return m->term.count > UINT32_MAX;
}

static void sliding_window_prepare(struct weir__meter *m)
{
    m->limit = m->term.count;
    m->slot_ns = m->term.period_ns / m->term.slots;
    m->shape = m->term.slots * 2 + sliding_window_is_wide(m);
}

static size_t sliding_window_state_size(const struct weir__meter *m)
{
    const size_t width = sliding_window_is_wide(m) ? 8 : 4;
    const size_t size = sizeof(struct weir__state) + width * (size_t)m->term.slots;

    return (size + 7) / 8 * 8;
}

/* Behind the head lie `slots` counters, 32 bits wide where every count fits, else 64. */
static int64_t sliding_window_get(const struct weir__meter *m, const struct weir__state *s,
                                  int64_t slot)
{
    const void *ring = s + 1;
    const int64_t at = slot % m->term.slots;

    if (sliding_window_is_wide(m))
        return weir__clamp((int64_t)((const uint64_t *)ring)[at], 0, WEIR__COUNTER_MAX);
    return ((const uint32_t *)ring)[at];
}

static void sliding_window_put(const struct weir__meter *m, struct weir__state *s, int64_t slot,
                               int64_t n)
{
    void *ring = s + 1;
    const int64_t at = slot % m->term.slots;

    if (sliding_window_is_wide(m))
        ((uint64_t *)ring)[at] = (uint64_t)n;
    else
        ((uint32_t *)ring)[at] = (uint32_t)n;
}

static int64_t sliding_window_newest(const struct weir__meter *m, const struct weir__state *s)
{
    return s->fresh_ns == 0 ? -1 : weir__max(-1, s->fresh_ns / m->slot_ns - m->term.slots);
}

static struct sliding_window_view sliding_window_load(const struct weir__meter *m,
                                                      const struct weir__state *s, int64_t now_ns)
{
    const int64_t newest = sliding_window_newest(m, s);
    struct sliding_window_view w = {weir__max(now_ns / m->slot_ns, newest), newest, 0, 0};

    if (newest < 0 || w.slot - newest >= m->term.slots)
        return w;
    w.sum = weir__state_part(s);
    for (int64_t gone = newest - m->term.slots + 1; gone <= w.slot - m->term.slots; gone++)
        w.sum -= gone < 0 ? 0 : sliding_window_get(m, s, gone);
    w.in_slot = w.slot == newest ? sliding_window_get(m, s, newest) : 0;
    w.sum = weir__max(w.sum, w.in_slot); /* true, except in a damaged state */
    return w;
}

/* How much room there is: a cost above it is refused. */
static int64_t sliding_window_room(const struct weir__meter *m, const struct sliding_window_view *w)
{
    const int64_t in_window = m->limit - w->sum;

    if (m->term.per_slot == WEIR_NONE)
        return in_window;
    return weir__min(in_window, m->term.per_slot - w->in_slot);
}

/* The part of a cost that the counters can still hold: all of it, except after very many denied
 * events that counted. */
static int64_t sliding_window_countable(const struct weir__meter *m,
                                        const struct sliding_window_view *w, int64_t cost)
{
    const int64_t width = sliding_window_is_wide(m) ? WEIR__COUNTER_MAX : UINT32_MAX;

    return weir__min(cost, weir__min(WEIR__COUNTER_MAX - w->sum, width - w->in_slot));
}

/* Slots leave one by one at the coming edges; the first edge at which enough have left. */
static int64_t sliding_window_retry_after(const struct weir__meter *m, const struct weir__state *s,
                                          const struct sliding_window_view *w,
                                          const struct weir__attempt *a)
{
    int64_t over = w->sum + a->cost - m->limit, ahead = 0;

    do {
        const int64_t leaving = w->slot + ++ahead - m->term.slots;

        if (leaving == w->slot)
            over -= w->in_slot;
        else if (leaving >= 0 && leaving <= w->newest && leaving > w->newest - m->term.slots)
            over -= sliding_window_get(m, s, leaving);
    } while (over > 0 && ahead < m->term.slots);
    return (w->slot + ahead) * m->slot_ns - a->now_ns;
}

static int64_t most_at_once(const struct weir__meter *m)
{
    return m->term.per_slot == WEIR_NONE ? m->limit : weir__min(m->limit, m->term.per_slot);
}

/* Decides, and returns how much is to be counted in the view's slot. */
static int64_t sliding_window_decide(const struct weir__meter *m, const struct weir__state *s,
                                     struct sliding_window_view w, const struct weir__attempt *a,
                                     struct weir_verdict *v)
{
    const bool allowed = a->cost == 0 || a->cost <= sliding_window_room(m, &w);
    const int64_t add =
        allowed || m->term.count_denied ? sliding_window_countable(m, &w, a->cost) : 0;
    const int64_t newest = add > 0 ? w.slot : w.newest;

    w.sum += add;
    w.in_slot += add;
    if (allowed)
        weir__verdict_grant(v, 0);
    else if (a->cost > most_at_once(m))
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__verdict_refuse(v, WEIR_LIMITED, sliding_window_retry_after(m, s, &w, a));
    v->limit = m->limit;
    v->remaining = weir__max(0, sliding_window_room(m, &w));
    v->reset_after_ns =
        newest < 0 ? 0 : weir__max(0, (newest + m->term.slots) * m->slot_ns - a->now_ns);
    return add;
}

static void sliding_window_write(const struct weir__meter *m, struct weir__state *s, int64_t newest,
                                 int64_t sum)
{
    s->fresh_ns = (newest + m->term.slots) * m->slot_ns;
    s->word = weir__state_word(sum, m->version);
}

static void sliding_window_charge(const struct weir__meter *m, struct weir__state *s,
                                  const struct sliding_window_view *w, int64_t add)
{
    const int64_t passed = w->newest < 0 ? m->term.slots : w->slot - w->newest;

    if (passed >= m->term.slots)
        memset(s + 1, 0, sliding_window_state_size(m) - sizeof *s);
    else
        for (int64_t slot = w->newest + 1; slot <= w->slot; slot++)
            sliding_window_put(m, s, slot, 0);
    sliding_window_put(m, s, w->slot, w->in_slot + add);
    sliding_window_write(m, s, w->slot, w->sum + add);
}

static void sliding_window_take(const struct weir__meter *m, struct weir__state *s,
                                const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct sliding_window_view w = sliding_window_load(m, s, a->now_ns);
    const int64_t add = sliding_window_decide(m, s, w, a, v);

    if (add > 0)
        sliding_window_charge(m, s, &w, add);
}

static void sliding_window_peek(const struct weir__meter *m, const struct weir__state *s,
                                const struct weir__attempt *a, struct weir_verdict *v)
{
    (void)sliding_window_decide(m, s, sliding_window_load(m, s, a->now_ns), a, v);
}

static int64_t sliding_window_again(const struct weir__meter *m, const struct weir__state *s,
                                    const struct weir__attempt *a)
{
    struct sliding_window_view w = sliding_window_load(m, s, a->now_ns);
    const int64_t add = sliding_window_countable(m, &w, a->cost);

    w.sum += add;
    w.in_slot += add;
    return a->cost <= sliding_window_room(m, &w) ? 0 : sliding_window_retry_after(m, s, &w, a);
}

static int64_t sliding_window_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                     int64_t now_ns)
{
    const struct sliding_window_view w = sliding_window_load(m, s, now_ns);
    const int64_t oldest = weir__max(0, w.slot - m->term.slots + 1);
    int64_t left = weir__min(n, w.sum), newest = -1;

    if (left == 0)
        return 0;
    for (int64_t slot = w.newest; slot >= oldest && (left > 0 || newest < 0); slot--) {
        const int64_t here = sliding_window_get(m, s, slot);
        const int64_t back = weir__min(left, here);

        sliding_window_put(m, s, slot, here - back);
        left -= back;
        if (here > back)
            newest = slot;
    }
    if (newest < 0) {
        weir__state_reset(s);
        return weir__min(n, w.sum);
    }
    /* Slots that have left the window keep their counts in the ring, and in its sum. */
    sliding_window_write(m, s, newest, weir__max(0, weir__state_part(s) - weir__min(n, w.sum)));
    return weir__min(n, w.sum);
}

/* From the slot in which they were counted, while it is in the window. */
static int64_t sliding_window_settle(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                     int64_t made_ns, int64_t now_ns)
{
    const struct sliding_window_view w = sliding_window_load(m, s, now_ns);
    const int64_t slot = made_ns / m->slot_ns - m->term.slots;
    const int64_t oldest = weir__max(0, w.slot - m->term.slots + 1);
    int64_t newest = w.newest, back;

    if (w.sum == 0 || slot < oldest || slot > w.newest)
        return 0;
    back = weir__min(n, sliding_window_get(m, s, slot));
    sliding_window_put(m, s, slot, sliding_window_get(m, s, slot) - back);
    while (newest >= oldest && sliding_window_get(m, s, newest) == 0)
        newest--;
    if (newest < oldest)
        weir__state_reset(s);
    else
        sliding_window_write(m, s, newest, weir__max(0, weir__state_part(s) - back));
    return back;
}

/* Each slot's events move to the new slot that holds the old one's last nanosecond (or the change
 * itself, if the old slot had not ended): there they leave no earlier than they would have. */
static void sliding_window_change(const struct weir__meter *from, const struct weir__meter *to,
                                  struct weir__state *s)
{
    const struct sliding_window_view w = sliding_window_load(from, s, to->changed_ns);
    const int64_t oldest = weir__max(0, w.slot - from->term.slots + 1);
    int64_t count[WEIR_SLOTS_MAX] = {0}, start[WEIR_SLOTS_MAX] = {0}, n = 0;

    for (int64_t slot = oldest; w.sum > 0 && slot <= w.newest; slot++) {
        const int64_t last_ns = (slot + 1) * from->slot_ns - 1;

        count[n] = sliding_window_get(from, s, slot);
        start[n++] = weir__min(last_ns, to->changed_ns);
    }
    weir__state_reset(s);
    for (int64_t i = 0; i < n; i++) {
        const struct sliding_window_view at = sliding_window_load(to, s, start[i]);

        if (count[i] > 0)
            sliding_window_charge(to, s, &at, sliding_window_countable(to, &at, count[i]));
    }
}

/* What the ring counts in the slot; it may be read for slots that the ring does not hold. */
static int64_t sliding_window_count_in(const struct weir__meter *m, const struct weir__state *s,
                                       int64_t newest, int64_t slot)
{
    if (slot < 0 || slot > newest || slot <= newest - m->term.slots)
        return 0;
    return weir__clamp(sliding_window_get(m, s, slot), 0, WEIR__COUNTER_MAX);
}

/* Moves the ring, and each of its events with it, to a later slot. */
static void sliding_window_move_on(const struct weir__meter *m, struct weir__state *s, int64_t by)
{
    const int64_t newest = sliding_window_newest(m, s), slots = m->term.slots;
    int64_t count[WEIR_SLOTS_MAX];

    if (by == 0 || newest < 0)
        return;
    for (int64_t ago = 0; ago < slots; ago++)
        count[ago] = sliding_window_count_in(m, s, newest, newest - ago);
    for (int64_t ago = 0; ago < slots; ago++)
        sliding_window_put(m, s, newest + by - ago + slots, count[ago]);
    sliding_window_write(m, s, newest + by, weir__state_part(s));
}

/* From the newest slot back, so that a slot is read before it is written. Each ring is read as it
 * stands at now, and the one that stands earlier is moved on: invariant (7). */
static void sliding_window_join(const struct weir__meter *m, struct weir__state *into,
                                const struct weir__state *from, int64_t now_ns)
{
    const int64_t newest_b = sliding_window_newest(m, from), of_now = now_ns / m->slot_ns;
    const int64_t slot_a = weir__max(of_now, sliding_window_newest(m, into));
    const int64_t slot_b = weir__max(of_now, newest_b);
    const int64_t last = weir__max(slot_a, slot_b);
    int64_t a = 0, b = 0, sum = 0, newest = -1, newest_a;

    sliding_window_move_on(m, into, last - slot_a);
    newest_a = sliding_window_newest(m, into);
    for (int64_t ago = 0; ago < m->term.slots && ago <= last; ago++) {
        /* No more than a head can hold: in a file any process may have written the ring. */
        a = weir__min(a + sliding_window_count_in(m, into, newest_a, last - ago),
                      WEIR__COUNTER_MAX);
        b = weir__min(b + sliding_window_count_in(m, from, newest_b, slot_b - ago),
                      WEIR__COUNTER_MAX);
        sliding_window_put(m, into, last - ago, weir__max(a, b) - sum);
        sum = weir__max(a, b);
        if (newest < 0 && sum > 0)
            newest = last - ago;
    }
    if (newest < 0)
        weir__state_reset(into);
    else
        sliding_window_write(m, into, newest, sum);
}

/* The head's sum may include slots that have left: never less than what is owed. */
static uint32_t sliding_window_share(const struct weir__meter *m, struct weir__state head,
                                     int64_t now_ns)
{
    if (head.fresh_ns <= now_ns)
        return 0;
    return weir__in_1024ths(weir__min(weir__state_part(&head), m->limit), m->limit);
}

/* Fills the current slot, or the one that fresh_ns implies if that is later. */
static void sliding_window_owe_all(const struct weir__meter *m, struct weir__state *s,
                                   int64_t now_ns, int64_t edge_ns)
{
    const int64_t edge = weir__min(weir__div_ceil(s->fresh_ns, m->slot_ns), INT64_MAX / m->slot_ns);
    const int64_t slot = weir__max(now_ns / m->slot_ns, edge - m->term.slots);

    (void)edge_ns;
    memset(s + 1, 0, sliding_window_state_size(m) - sizeof *s);
    sliding_window_put(m, s, slot, m->limit);
    sliding_window_write(m, s, slot, m->limit);
}

const struct weir__algo weir__sliding_window = {
    .family = WEIR__FAMILY_WINDOW,
    .division = WEIR__DIVIDE_WINDOW,
    .letter = 'w',
    .prepare = sliding_window_prepare,
    .state_size = sliding_window_state_size,
    .take = sliding_window_take,
    .peek = sliding_window_peek,
    .again = sliding_window_again,
    .refund = sliding_window_refund,
    .settle = sliding_window_settle,
    .change = sliding_window_change,
    .join = sliding_window_join,
    .share = sliding_window_share,
    .owe_all = sliding_window_owe_all,
};
