/* Two counters that pretend to slide: the previous window, weighted by how much of it the sliding
 * one still covers, and the current one. RussellLuo/slidingwindow, Cloudflare.
 *
 *     used = floor(prev x overlap) + cur,    overlap = (period - e) / period,  e into the window
 *
 *          prev = 10          cur = 3
 *     [..................][...........now
 *            [======= the last period =]      overlap 0.4: used = 4 + 3
 *
 * What it forgets is where in the previous window the events were: it takes them to be spread
 * evenly. If they all came at its end, an interval of one period can hold 2 x count.
 *
 * Windows are cut from the epoch. The state keeps `cur` and `prev` and, instead of the window, the
 * time from which `used` is 0: that lies in the window after the one that holds `cur` (there the
 * weight of `cur` drops below 1), so the window can be read back from it. See (2).
 *
 * Invariants:
 *   (1) Any window cut from the epoch admits at most count; any interval of one period's length
 *       at most 2 x count.
 *   (2) A touched state has cur > 0. If all of cur is refunded, prev becomes cur, one window back:
 *       at every later time that says the same. Hence fresh_ns = (w + 1) x period + e, with e in
 *       1..period the least with cur x (period - e) < period, and w = (fresh_ns - 1)/period - 1.
 *   (3) A clock that steps back stands at the start of the newest window.
 *   (4) With no event, `used` never rises: within a window the weight sinks, and at an edge
 *       floor(prev x 0) + cur becomes floor(cur x 1) + 0. So retry_after can be solved for.
 *   (5) Keys join to the larger cur and the larger prev. `used` rises with both, a grant adds to
 *       cur alone, and a refund of n leaves the larger pair the larger: prev less its weight rises
 *       with prev. (The larger of the sums cur + prev would not do: a refund takes from cur first,
 *       and of prev only what it weighs.)
 *   (6) Two states stand in different windows only if the clock has stepped back since one was
 *       written. Their join stands in the later one, and the other's cur and prev move on with it:
 *       what is counted in them is then as old as it was, and not older.
 */
#include "algo/algo.h"

struct counter_state {
    struct weir__state head; /* its 40 bits are cur */
    uint64_t prev;
};
static_assert(sizeof(struct counter_state) == 24, "as the reference says");

struct sliding_counter_view {
    int64_t window; /* its number since the epoch */
    int64_t since_ns;
    int64_t cur, prev;
};

static void sliding_counter_prepare(struct weir__meter *m)
{
    m->limit = m->term.count;
    m->slot_ns = m->term.period_ns;
}

/* The window that cur belongs to; -2 if there is none. */
static int64_t sliding_counter_newest(const struct weir__meter *m, const struct weir__state *s)
{
    /* No later than possible: in a file any process may have written it. */
    const int64_t fresh_ns = weir__min(s->fresh_ns, WEIR__NOW_MAX + 2 * m->slot_ns);

    return fresh_ns == 0 ? -2 : (fresh_ns - 1) / m->slot_ns - 1;
}

static struct sliding_counter_view sliding_counter_load(const struct weir__meter *m,
                                                        const struct weir__state *s, int64_t now_ns)
{
    const struct counter_state *c = (const struct counter_state *)s;
    const int64_t of_now = now_ns / m->slot_ns;
    const int64_t newest = sliding_counter_newest(m, s);
    struct sliding_counter_view w = {of_now, now_ns % m->slot_ns, 0, 0};

    if (newest > of_now)
        w = (struct sliding_counter_view){newest, 0, 0, 0};
    if (newest == w.window) {
        w.cur = weir__state_part(s);
        w.prev = c->prev < WEIR__COUNTER_MAX ? (int64_t)c->prev : WEIR__COUNTER_MAX;
    } else if (newest == w.window - 1 && newest >= 0) {
        w.prev = weir__state_part(s);
    }
    return w;
}

/* The least e in 1..period from which n events of the window before weigh nothing. */
static int64_t weightless_from(const struct weir__meter *m, int64_t n)
{
    return m->slot_ns - weir__div_ceil(m->slot_ns, n) + 1;
}

static int64_t sliding_counter_fresh_ns(const struct weir__meter *m,
                                        const struct sliding_counter_view *w)
{
    if (w->cur > 0)
        return (w->window + 1) * m->slot_ns + weightless_from(m, w->cur);
    if (w->prev > 0)
        return w->window * m->slot_ns + weightless_from(m, w->prev);
    return 0;
}

static void sliding_counter_store(const struct weir__meter *m, struct weir__state *s,
                                  struct sliding_counter_view w)
{
    struct counter_state *c = (struct counter_state *)s;

    if (w.cur == 0) { /* invariant (2) */
        w.cur = w.prev;
        w.prev = 0;
        w.window--;
    }
    if (w.cur == 0) {
        weir__state_reset(s);
        return;
    }
    s->fresh_ns = sliding_counter_fresh_ns(m, &w);
    s->word = weir__state_word(w.cur, m->version);
    c->prev = (uint64_t)w.prev;
}

static int64_t weight_of_prev(const struct weir__meter *m, const struct sliding_counter_view *w)
{
    return weir__mul_div(w->prev, m->slot_ns - w->since_ns, m->slot_ns);
}

/* The least time into a window from which floor(prev x (period - e)/period) <= room. */
static int64_t sliding_counter_sunk_to(const struct weir__meter *m, int64_t prev, int64_t room)
{
    const weir__u128 below = (weir__wide(room) + 1) * weir__wide(m->slot_ns) - 1;
    const weir__u128 left = below / weir__wide(prev);

    return left >= weir__wide(m->slot_ns) ? 0 : m->slot_ns - (int64_t)left;
}

static int64_t sliding_counter_retry_after(const struct weir__meter *m,
                                           const struct sliding_counter_view *w,
                                           const struct weir__attempt *a)
{
    const int64_t start = w->window * m->slot_ns;
    const int64_t room = m->limit - w->cur - a->cost;

    if (room >= 0)
        return start + sliding_counter_sunk_to(m, w->prev, room) - a->now_ns;
    return start + m->slot_ns + sliding_counter_sunk_to(m, w->cur, m->limit - a->cost) - a->now_ns;
}

static struct sliding_counter_view sliding_counter_decide(const struct weir__meter *m,
                                                          struct sliding_counter_view w,
                                                          const struct weir__attempt *a,
                                                          struct weir_verdict *v)
{
    int64_t used = weight_of_prev(m, &w) + w.cur;
    const bool allowed = a->cost == 0 || a->cost <= m->limit - used;

    if (allowed || m->term.count_denied) {
        w.cur = weir__min(weir__add_sat(w.cur, a->cost), WEIR__COUNTER_MAX);
        used = weight_of_prev(m, &w) + w.cur;
    }
    if (allowed)
        weir__verdict_grant(v, 0);
    else if (a->cost > m->limit)
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__verdict_refuse(v, WEIR_LIMITED, sliding_counter_retry_after(m, &w, a));
    v->limit = m->limit;
    v->remaining = weir__max(0, m->limit - used);
    v->reset_after_ns = weir__max(0, sliding_counter_fresh_ns(m, &w) - a->now_ns);
    return w;
}

static void sliding_counter_take(const struct weir__meter *m, struct weir__state *s,
                                 const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct sliding_counter_view before = sliding_counter_load(m, s, a->now_ns);
    const struct sliding_counter_view after = sliding_counter_decide(m, before, a, v);

    if (after.cur != before.cur)
        sliding_counter_store(m, s, after);
}

static void sliding_counter_peek(const struct weir__meter *m, const struct weir__state *s,
                                 const struct weir__attempt *a, struct weir_verdict *v)
{
    (void)sliding_counter_decide(m, sliding_counter_load(m, s, a->now_ns), a, v);
}

static int64_t sliding_counter_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                      int64_t now_ns)
{
    struct sliding_counter_view w = sliding_counter_load(m, s, now_ns);
    const int64_t from_cur = weir__min(n, w.cur);
    const int64_t from_prev = weir__min(n - from_cur, weight_of_prev(m, &w));

    if (from_cur + from_prev > 0) {
        w.cur -= from_cur;
        w.prev -= from_prev;
        sliding_counter_store(m, s, w);
    }
    return from_cur + from_prev;
}

/* From the window in which they were counted: this one, or the one before. */
static int64_t sliding_counter_settle(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                      int64_t made_ns, int64_t now_ns)
{
    struct sliding_counter_view w = sliding_counter_load(m, s, now_ns);
    const int64_t window = (made_ns - 1) / m->slot_ns - 1;
    int64_t *from = window == w.window ? &w.cur : window == w.window - 1 ? &w.prev : NULL;
    const int64_t back = from ? weir__min(n, *from) : 0;

    if (back > 0) {
        *from -= back;
        sliding_counter_store(m, s, w);
    }
    return back;
}

/* With the same windows nothing moves. With others, the usage at the change counts as if it had
 * happened then: it is neither forgotten nor doubled, and its true times are not known. */
static void sliding_counter_change(const struct weir__meter *from, const struct weir__meter *to,
                                   struct weir__state *s)
{
    struct sliding_counter_view w = sliding_counter_load(from, s, to->changed_ns);

    if (from->slot_ns != to->slot_ns)
        w = (struct sliding_counter_view){
            .window = to->changed_ns / to->slot_ns,
            .cur = weir__min(weight_of_prev(from, &w) + w.cur, WEIR__COUNTER_MAX)};
    sliding_counter_store(to, s, w);
}

static void sliding_counter_join(const struct weir__meter *m, struct weir__state *into,
                                 const struct weir__state *from, int64_t now_ns)
{
    const struct sliding_counter_view b = sliding_counter_load(m, from, now_ns);
    struct sliding_counter_view w = sliding_counter_load(m, into, now_ns);

    w.window = weir__max(w.window, b.window); /* invariant (6) */
    w.cur = weir__max(w.cur, b.cur);
    w.prev = weir__max(w.prev, b.prev);
    sliding_counter_store(m, into, w);
}

/* prev, which is not in the head, is left out: its weight only sinks. */
static uint32_t sliding_counter_share(const struct weir__meter *m, struct weir__state head,
                                      int64_t now_ns)
{
    const int64_t since_ns = now_ns % m->slot_ns;
    int64_t owed = weir__state_part(&head);

    if (head.fresh_ns <= now_ns)
        return 0;
    if (sliding_counter_newest(m, &head) < now_ns / m->slot_ns)
        owed = weir__mul_div(owed, m->slot_ns - since_ns, m->slot_ns);
    return weir__in_1024ths(weir__min(weir__max(owed, 1), m->limit), m->limit);
}

/* Fills the current window, or the first one that keeps fresh_ns from moving back; and the window
 * before it, for a refund may leave only what is there. */
static void sliding_counter_owe_all(const struct weir__meter *m, struct weir__state *s,
                                    int64_t now_ns, int64_t edge_ns)
{
    const int64_t last = INT64_MAX / m->slot_ns - 2; /* the last whose fresh_of fits */
    struct sliding_counter_view w = {
        .window = weir__max(now_ns / m->slot_ns, sliding_counter_newest(m, s)),
        .cur = m->limit,
        .prev = m->limit};

    (void)edge_ns;
    if (sliding_counter_fresh_ns(m, &w) < s->fresh_ns)
        w.window++;
    w.window = weir__min(w.window, last);
    sliding_counter_store(m, s, w);
}

const struct weir__algo weir__sliding_counter = {
    .family = WEIR__FAMILY_WINDOW,
    .division = WEIR__DIVIDE_WINDOW,
    .letter = 'c',
    .prepare = sliding_counter_prepare,
    .state_bytes = sizeof(struct counter_state),
    .take = sliding_counter_take,
    .peek = sliding_counter_peek,
    .refund = sliding_counter_refund,
    .settle = sliding_counter_settle,
    .change = sliding_counter_change,
    .join = sliding_counter_join,
    .share = sliding_counter_share,
    .owe_all = sliding_counter_owe_all,
};
