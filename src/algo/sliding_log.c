/* The log: the times of the last events, exactly. The Redis sorted set; rolling-rate-limiter.
 *
 * A ring of `count` timestamps, one for each unit of cost, oldest first. An event passes if the
 * entries that are still alive leave room for it. Exact, at 8 bytes for every event of the limit:
 * for limits that are small, or that must be right to the event.
 *
 *     sliding-log 5/1m, 20 requests, one a second:  allow x 5, deny x 15; the next at 1:00
 *
 * With count-denied a refused event is logged too and pushes out the oldest: a caller that keeps
 * trying stays refused, as with a sorted set to which every attempt is added.
 *
 * Invariants:
 *   (1) Never more than `count` entries; so every interval (t, t + period] holds at most count
 *       granted events.
 *   (2) Entries are in order: an event under a clock that stepped back is logged at the newest
 *       time.
 *   (3) An entry lives while now < time + period: one exactly a period old is gone.
 *   (4) Dead entries are skipped, not swept: a search in an ordered ring finds the oldest live one.
 *       An entry is kept as long as it matters: while it lives, or min-interval counts from it
 *       should the newer ones be refunded. Every change of the log drops the others for good.
 *   (5) fresh_ns is newest + max(period, min-interval), so the newest time can be read back from
 *       it. min-interval separates events (requests), not units of cost.
 *   (6) Keys join, for each k, to the later of their k-th newest times, and to the later newest.
 *       How many live and when the k-th leaves follows from these; a grant puts the same before
 *       both, and a refund drops as many from both: so what is later stays later. (The union of two
 *       logs would bind both too, but five keys of one event would make a full log of five.) With a
 *       min-interval a copy takes no refund: the refunded entry could be another key's event, and
 *       the interval would no longer count from the key's own, which is dead but newer.
 */
#include "algo/algo.h"

/* The 40 bits beside the version hold the position of the oldest entry and the number of
 * entries. */
#define LEN_BITS 20

struct sliding_log_view {
    int64_t at_ns;       /* when an event of now is logged                            */
    int64_t first, kept; /* entries that still matter                                 */
    int64_t live;        /* of them, the newest ones that count                       */
    int64_t newest_ns;   /* of any entry, kept or not; -1 if there never was one      */
};

static void sliding_log_prepare(struct weir__meter *m)
{
    m->limit = m->term.count;
    m->shape = m->term.count;
}

static size_t sliding_log_state_size(const struct weir__meter *m)
{
    return sizeof(struct weir__state) + sizeof(int64_t) * (size_t)m->term.count;
}

static int64_t *sliding_log_entry(const struct weir__meter *m, struct weir__state *s, int64_t i)
{
    return (int64_t *)(void *)(s + 1) + i % m->term.count;
}

static int64_t sliding_log_time(const struct weir__meter *m, const struct weir__state *s, int64_t i)
{
    const int64_t time = ((const int64_t *)(const void *)(s + 1))[i % m->term.count];

    return weir__clamp(time, 0, WEIR__NOW_MAX);
}

static int64_t sliding_log_lives_ns(const struct weir__meter *m)
{
    return weir__max(m->term.period_ns, m->term.min_interval_ns);
}

/* How many of the `len` entries from `first` on come before the first that is younger than age.
 * Usually few have died since the last look, so it leaps ahead from the oldest, then halves. */
static int64_t sliding_log_older_than(const struct weir__meter *m, const struct weir__state *s,
                                      int64_t first, int64_t len, int64_t age_ns, int64_t now_ns)
{
    int64_t lo = 0, hi = 1;

    while (hi <= len && now_ns >= sliding_log_time(m, s, first + hi - 1) + age_ns) {
        lo = hi;
        hi *= 2;
    }
    for (hi = weir__min(hi - 1, len); lo < hi;) {
        const int64_t middle = lo + (hi - lo) / 2;

        if (now_ns < sliding_log_time(m, s, first + middle) + age_ns)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

static struct sliding_log_view sliding_log_load(const struct weir__meter *m,
                                                const struct weir__state *s, int64_t now_ns)
{
    struct sliding_log_view w = {.at_ns = now_ns, .newest_ns = -1};
    int64_t first, len, gone;

    if (s->fresh_ns == 0)
        return w;
    first = weir__state_part(s) >> LEN_BITS;
    len = weir__min(weir__state_part(s) & ((1 << LEN_BITS) - 1), m->term.count);
    gone = sliding_log_older_than(m, s, first, len, sliding_log_lives_ns(m), now_ns);
    w.newest_ns = weir__clamp(s->fresh_ns - sliding_log_lives_ns(m), 0, WEIR__NOW_MAX);
    w.at_ns = weir__max(now_ns, w.newest_ns);
    w.first = (first + gone) % m->term.count;
    w.kept = len - gone;
    w.live = w.kept;
    if (m->term.min_interval_ns > m->term.period_ns) /* else all that is kept is alive */
        w.live -= sliding_log_older_than(m, s, w.first, w.kept, m->term.period_ns, now_ns);
    return w;
}

static int64_t interval_left(const struct weir__meter *m, int64_t newest_ns, int64_t now_ns)
{
    /* Without a min-interval a clock that stepped back before the newest event waits for nothing.
     */
    return newest_ns < 0 || m->term.min_interval_ns == 0
               ? 0
               : weir__max(0, newest_ns + m->term.min_interval_ns - now_ns);
}

/* How long until `cost` more fit if `logged` entries of this time followed the live entries (and
 * pushed out the oldest, if that is too many). */
static int64_t sliding_log_retry_after(const struct weir__meter *m, const struct weir__state *s,
                                       const struct sliding_log_view *w,
                                       const struct weir__attempt *a, int64_t logged)
{
    const int64_t live = weir__min(w->live, m->limit - logged);
    const int64_t must_go = live + logged + a->cost - m->limit;
    const int64_t newest_ns = logged > 0 ? w->at_ns : w->newest_ns;
    int64_t wait = interval_left(m, newest_ns, a->now_ns);

    if (must_go > 0) {
        const int64_t i = w->kept - live + must_go - 1;
        const int64_t time = i < w->kept ? sliding_log_time(m, s, w->first + i) : w->at_ns;

        wait = weir__max(wait, time + m->term.period_ns - a->now_ns);
    }
    return weir__max(1, wait);
}

/* Decides, and returns how many entries are to be logged. */
static int64_t sliding_log_decide(const struct weir__meter *m, const struct weir__state *s,
                                  const struct sliding_log_view *w, const struct weir__attempt *a,
                                  struct weir_verdict *v)
{
    const bool fits = a->cost <= m->limit - w->live;
    const bool spaced = interval_left(m, w->newest_ns, a->now_ns) == 0;
    const bool allowed = a->cost == 0 || (fits && spaced);
    const int64_t logged = allowed || m->term.count_denied ? weir__min(a->cost, m->limit) : 0;
    const int64_t newest_ns = logged > 0 ? w->at_ns : w->newest_ns;
    const int64_t live = weir__min(w->live + logged, m->limit);

    if (allowed)
        weir__verdict_grant(v, 0);
    else if (a->cost > m->limit)
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__verdict_refuse(v, WEIR_LIMITED, sliding_log_retry_after(m, s, w, a, logged));
    v->limit = m->limit;
    v->remaining = interval_left(m, newest_ns, a->now_ns) > 0 ? 0 : m->limit - live;
    v->reset_after_ns =
        newest_ns < 0 ? 0 : weir__max(0, newest_ns + sliding_log_lives_ns(m) - a->now_ns);
    return logged;
}

/* Whether the log was joined from several keys: invariant (6). A fully recovered log belongs to no
 * key. */
static bool sliding_log_is_copied(const struct weir__state *s, int64_t now_ns)
{
    return weir__state_is_copied(s) && s->fresh_ns > now_ns;
}

static void sliding_log_write(const struct weir__meter *m, struct weir__state *s, int64_t first,
                              int64_t len, int64_t newest_ns, bool copied)
{
    s->fresh_ns = newest_ns + sliding_log_lives_ns(m);
    s->word =
        weir__state_word(first << LEN_BITS | len, m->version) | (copied ? WEIR__STATE_FLAG : 0);
}

static void sliding_log_take(const struct weir__meter *m, struct weir__state *s,
                             const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct sliding_log_view w = sliding_log_load(m, s, a->now_ns);
    const int64_t logged = sliding_log_decide(m, s, &w, a, v);
    const int64_t pushed_out = weir__max(0, w.kept + logged - m->limit);

    if (logged == 0)
        return;
    for (int64_t i = 0; i < logged; i++)
        *sliding_log_entry(m, s, w.first + w.kept + i) = w.at_ns;
    sliding_log_write(m, s, (w.first + pushed_out) % m->limit, w.kept + logged - pushed_out,
                      w.at_ns, sliding_log_is_copied(s, a->now_ns));
}

static void sliding_log_peek(const struct weir__meter *m, const struct weir__state *s,
                             const struct weir__attempt *a, struct weir_verdict *v)
{
    const struct sliding_log_view w = sliding_log_load(m, s, a->now_ns);

    (void)sliding_log_decide(m, s, &w, a, v);
}

static int64_t sliding_log_again(const struct weir__meter *m, const struct weir__state *s,
                                 const struct weir__attempt *a)
{
    const struct sliding_log_view w = sliding_log_load(m, s, a->now_ns);

    return sliding_log_retry_after(m, s, &w, a, weir__min(a->cost, m->limit));
}

static int64_t sliding_log_refund(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                  int64_t now_ns)
{
    const struct sliding_log_view w = sliding_log_load(m, s, now_ns);
    const int64_t back = weir__min(n, w.live), kept = w.kept - back;
    const bool copied = sliding_log_is_copied(s, now_ns);

    if (back == 0 || (copied && m->term.min_interval_ns > 0))
        return 0;
    if (kept == 0)
        weir__state_reset(s);
    else
        sliding_log_write(m, s, w.first, kept, sliding_log_time(m, s, w.first + kept - 1), copied);
    return back;
}

/* Takes out entries of that time; those after them move up. */
static int64_t sliding_log_settle(const struct weir__meter *m, struct weir__state *s, int64_t n,
                                  int64_t made_ns, int64_t now_ns)
{
    const struct sliding_log_view w = sliding_log_load(m, s, now_ns);
    const int64_t at_ns = made_ns - sliding_log_lives_ns(m);
    const bool copied = sliding_log_is_copied(s, now_ns);
    int64_t from = w.kept, back = 0;

    if (copied && m->term.min_interval_ns > 0)
        return 0;
    while (from > w.kept - w.live && sliding_log_time(m, s, w.first + from - 1) > at_ns)
        from--;
    while (back < n && from - back > w.kept - w.live &&
           sliding_log_time(m, s, w.first + from - back - 1) == at_ns)
        back++;
    if (back == 0)
        return 0;
    for (int64_t i = from; i < w.kept; i++)
        *sliding_log_entry(m, s, w.first + i - back) = sliding_log_time(m, s, w.first + i);
    if (w.kept == back)
        weir__state_reset(s);
    else
        sliding_log_write(m, s, w.first, w.kept - back,
                          sliding_log_time(m, s, w.first + w.kept - back - 1), copied);
    return back;
}

static void sliding_log_change(const struct weir__meter *from, const struct weir__meter *to,
                               struct weir__state *s)
{
    const struct sliding_log_view w = sliding_log_load(from, s, to->changed_ns);

    /* The newest time outlives its entry if a min-interval still counts from it. */
    if (w.live == 0 &&
        (to->term.min_interval_ns == 0 || interval_left(from, w.newest_ns, to->changed_ns) == 0))
        weir__state_reset(s);
    else
        sliding_log_write(to, s, (w.first + w.kept - w.live) % from->term.count, w.live,
                          w.newest_ns, sliding_log_is_copied(s, to->changed_ns));
}

/* In place: both are counted from their newest entry back, and what is older than the oldest of
 * `into` goes where its ring is free. */
static void sliding_log_join(const struct weir__meter *m, struct weir__state *into,
                             const struct weir__state *from, int64_t now_ns)
{
    const struct sliding_log_view a = sliding_log_load(m, into, now_ns),
                                  b = sliding_log_load(m, from, now_ns);
    const int64_t newest_ns = weir__max(a.newest_ns, b.newest_ns);
    const int64_t len = weir__max(a.kept, b.kept);
    /* where the newest are; a turn of the ring ahead, so that nothing before them is below 0 */
    const int64_t last_a = a.first + a.kept - 1 + m->term.count;
    const int64_t last_b = b.first + b.kept - 1 + m->term.count;

    if (newest_ns < 0 || newest_ns + sliding_log_lives_ns(m) <= now_ns) {
        weir__state_reset(into);
        return;
    }
    for (int64_t k = 0; k < b.kept; k++) {
        int64_t *const at = sliding_log_entry(m, into, last_a - k);
        const int64_t other = sliding_log_time(m, from, last_b - k);

        *at = k < a.kept ? weir__max(*at, other) : other;
    }
    sliding_log_write(m, into, (last_a - len + 1) % m->term.count, len, newest_ns, true);
}

/* Counts all entries, though some may be dead: never less than what is owed. */
static uint32_t sliding_log_share(const struct weir__meter *m, struct weir__state head,
                                  int64_t now_ns)
{
    const int64_t len = weir__state_part(&head) & ((1 << LEN_BITS) - 1);

    if (head.fresh_ns <= now_ns)
        return 0;
    return weir__in_1024ths(weir__min(weir__max(len, 1), m->limit), m->limit);
}

static void sliding_log_owe_all(const struct weir__meter *m, struct weir__state *s, int64_t now_ns,
                                int64_t edge_ns)
{
    const int64_t at_ns = weir__max(now_ns, s->fresh_ns - sliding_log_lives_ns(m));

    (void)edge_ns;
    for (int64_t i = 0; i < m->term.count; i++)
        *sliding_log_entry(m, s, i) = at_ns;
    sliding_log_write(m, s, 0, m->term.count, at_ns, true);
}

const struct weir__algo weir__sliding_log = {
    .family = WEIR__FAMILY_LOG,
    .division = WEIR__DIVIDE_WINDOW,
    .letter = 'l',
    .prepare = sliding_log_prepare,
    .state_size = sliding_log_state_size,
    .take = sliding_log_take,
    .peek = sliding_log_peek,
    .again = sliding_log_again,
    .refund = sliding_log_refund,
    .settle = sliding_log_settle,
    .change = sliding_log_change,
    .join = sliding_log_join,
    .share = sliding_log_share,
    .owe_all = sliding_log_owe_all,
};
