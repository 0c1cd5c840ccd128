/* In flight at once: a semaphore for each key. nginx's limit_conn, Tomcat's maxThreads, a bulkhead.
 *
 * Entering takes permits, leaving returns them; a caller that finds too few is refused. The guard
 * does not know how long calls stay, so it cannot say when the next one may enter: retry_after is
 * 0, not known. A queue in front of it (queue=, max-wait=) is the engine's part, which has threads
 * that can wait.
 *
 *     concurrency 3                 enter enter enter ENTER       exit  enter
 *     in flight                       1     2     3   refused      2      3
 *
 * A caller that never returns a permit (its process was killed, or its code path forgot) keeps it
 * for ever. With `lease` a permit expires by itself: its time of entry is kept, and it no longer
 * counts once it is a lease old. Returning it after that does nothing. The call itself may well
 * still be running: a lease should be longer than any call.
 *
 * Invariants:
 *   (1) Permits in flight, expired leases apart, never exceed count except after a live change to a
 *       lower one; then no call enters until enough have left.
 *   (2) Without a lease the 40 bits beside the version are the number in flight, and fresh_ns is a
 *       time that never comes while there are any.
 *   (3) With a lease they say where the ring of entries begins and how long it is. Entries are in
 *       order of time, whatever the clock did, so that the expired ones come first, and a binary
 *       search finds one. fresh_ns is when the newest ends.
 *   (4) A permit is known by its time of entry. Permits that entered at the same time expire at the
 *       same time, so it does not matter which of them is returned.
 *   (5) Nothing is returned twice: only permits in flight are subtracted.
 *   (6) The calls in flight have a number, drawn at random by the first of them: in fresh_ns, or in
 *       front of the ring.
 */
#include "algo/algo.h"

/* The 40 bits hold the position of the first entry and the number of entries. */
#define LEN_BITS 20

static_assert(WEIR_LOG_COUNT_MAX < 1 << LEN_BITS, "a ring's length fits");

static bool concurrency_expires(const struct weir__meter *m)
{
    return m->term.lease_ns != WEIR_NONE;
}

static void concurrency_prepare(struct weir__meter *m)
{
    m->limit = m->term.count;
    m->shape = concurrency_expires(m) ? m->term.count : 0;
}

static size_t concurrency_state_size(const struct weir__meter *m)
{
    const int64_t words = concurrency_expires(m) ? 1 + m->term.count : 0;

    return sizeof(struct weir__state) + sizeof(int64_t) * (size_t)words;
}

static int64_t concurrency_patience(const struct weir_term *t)
{
    return t->queue > 0 ? t->max_wait_ns : 0;
}

/* ---- The ring ------------------------------------------------------------------------------- */

struct ring {
    int64_t first, len;
};

/* What follows the head. */
struct leases {
    uint64_t epoch;
    int64_t entered_ns[];
};

static struct leases *concurrency_leases(struct weir__state *s)
{
    return (struct leases *)(void *)(s + 1);
}

static int64_t *concurrency_entry(const struct weir__meter *m, struct weir__state *s, int64_t i)
{
    return &concurrency_leases(s)->entered_ns[i % m->term.count];
}

static int64_t concurrency_time(const struct weir__meter *m, const struct weir__state *s, int64_t i)
{
    const struct leases *l = (const struct leases *)(const void *)(s + 1);

    return weir__clamp(l->entered_ns[i % m->term.count], 0, WEIR__NOW_MAX);
}

/* How many of the ring's entries were made before that time. */
static int64_t concurrency_before(const struct weir__meter *m, const struct weir__state *s,
                                  struct ring r, int64_t time_ns)
{
    int64_t lo = 0, hi = r.len;

    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;

        if (concurrency_time(m, s, r.first + middle) < time_ns)
            lo = middle + 1;
        else
            hi = middle;
    }
    return lo;
}

/* The entries whose lease has not ended at now. */
static struct ring concurrency_live(const struct weir__meter *m, const struct weir__state *s,
                                    int64_t now_ns)
{
    struct ring r = {0, 0};
    int64_t ended;

    if (s->fresh_ns == 0)
        return r;
    r.first = weir__state_part(s) >> LEN_BITS;
    r.len = weir__min(weir__state_part(s) & ((1 << LEN_BITS) - 1), m->term.count);
    ended = concurrency_before(m, s, r, now_ns - m->term.lease_ns + 1);
    return (struct ring){(r.first + ended) % m->term.count, r.len - ended};
}

static void concurrency_write(const struct weir__meter *m, struct weir__state *s, struct ring r)
{
    if (r.len == 0) {
        weir__state_reset(s);
        return;
    }
    s->fresh_ns = concurrency_time(m, s, r.first + r.len - 1) + m->term.lease_ns;
    s->word = weir__state_word(r.first << LEN_BITS | r.len, m->version);
}

/* Makes room for n entries before the i-th and fills it. That is at the end, unless the clock
 * stepped back. */
static void concurrency_insert(const struct weir__meter *m, struct weir__state *s, struct ring *r,
                               int64_t n, int64_t time_ns)
{
    const int64_t at = concurrency_before(m, s, *r, time_ns + 1);

    for (int64_t i = r->len - 1; i >= at; i--)
        *concurrency_entry(m, s, r->first + i + n) = concurrency_time(m, s, r->first + i);
    for (int64_t i = 0; i < n; i++)
        *concurrency_entry(m, s, r->first + at + i) = time_ns;
    r->len += n;
}

/* Removes up to n entries of that time, and closes the gap from its shorter side: usually the
 * oldest leave first. */
static void concurrency_remove(const struct weir__meter *m, struct weir__state *s, struct ring *r,
                               int64_t n, int64_t time_ns)
{
    const int64_t at = concurrency_before(m, s, *r, time_ns);
    const int64_t there = concurrency_before(m, s, *r, time_ns + 1) - at;

    n = weir__min(n, there);
    if (at <= r->len - at - n) {
        for (int64_t i = at - 1; i >= 0; i--)
            *concurrency_entry(m, s, r->first + i + n) = concurrency_time(m, s, r->first + i);
        r->first = (r->first + n) % m->term.count;
    } else {
        for (int64_t i = at + n; i < r->len; i++)
            *concurrency_entry(m, s, r->first + i - n) = concurrency_time(m, s, r->first + i);
    }
    r->len -= n;
}

/* ---- The row -------------------------------------------------------------------------------- */

static int64_t concurrency_in_flight(const struct weir__meter *m, const struct weir__state *s,
                                     int64_t now_ns)
{
    if (concurrency_expires(m))
        return concurrency_live(m, s, now_ns).len;
    return s->fresh_ns == 0 ? 0 : weir__state_part(s);
}

/* How long until the key is fully recovered, with that many permits in flight. */
static int64_t concurrency_reset_after(const struct weir__meter *m, const struct weir__state *s,
                                       int64_t in_flight, bool entered, int64_t now_ns)
{
    const int64_t ends_ns = entered ? now_ns + m->term.lease_ns : 0;

    if (in_flight == 0)
        return 0;
    return concurrency_expires(m) ? weir__max(weir__max(s->fresh_ns, ends_ns), now_ns) - now_ns
                                  : WEIR_FOREVER;
}

static bool concurrency_decide(const struct weir__meter *m, const struct weir__state *s,
                               const struct weir__attempt *a, struct weir_verdict *v)
{
    const int64_t in_flight = concurrency_in_flight(m, s, a->now_ns);
    const bool enters = a->cost > 0 && a->cost <= m->limit - in_flight;
    const int64_t after = enters ? in_flight + a->cost : in_flight;

    if (enters || a->cost == 0)
        weir__verdict_grant(v, 0);
    else if (a->cost > m->limit)
        weir__verdict_refuse(v, WEIR_TOO_BIG, -1);
    else
        weir__verdict_refuse(v, WEIR_LIMITED, 0);
    v->limit = m->limit;
    v->remaining = weir__max(0, m->limit - after);
    v->reset_after_ns = concurrency_reset_after(m, s, after, enters, a->now_ns);
    return enters;
}

static void concurrency_take(const struct weir__meter *m, struct weir__state *s,
                             const struct weir__attempt *a, struct weir_verdict *v)
{
    if (!concurrency_decide(m, s, a, v))
        return;
    if (concurrency_expires(m)) {
        struct ring r = concurrency_live(m, s, a->now_ns);

        if (r.len == 0)
            concurrency_leases(s)->epoch = a->random;
        concurrency_insert(m, s, &r, a->cost, a->now_ns);
        concurrency_write(m, s, r);
        return;
    }
    s->word = weir__state_word(concurrency_in_flight(m, s, a->now_ns) + a->cost, m->version);
    if (s->fresh_ns == 0)
        s->fresh_ns = weir__never_ns(a->random);
}

static void concurrency_peek(const struct weir__meter *m, const struct weir__state *s,
                             const struct weir__attempt *a, struct weir_verdict *v)
{
    (void)concurrency_decide(m, s, a, v);
}

static void concurrency_leave(const struct weir__meter *m, struct weir__state *s,
                              const struct weir__leaving *l)
{
    int64_t in_flight;

    if (s->fresh_ns == 0)
        return;
    if (concurrency_expires(m)) {
        struct ring r = concurrency_live(m, s, l->now_ns);

        concurrency_remove(m, s, &r, l->cost, l->entered_ns);
        concurrency_write(m, s, r);
        return;
    }
    in_flight = weir__state_part(s);
    if (l->cost >= in_flight)
        weir__state_reset(s);
    else
        s->word = weir__state_word(in_flight - l->cost, m->version);
}

static void concurrency_view(const struct weir__meter *m, const struct weir__state *s,
                             int64_t now_ns, struct weir_view *out)
{
    *out = (struct weir_view){WEIR_CLOSED, m->limit, concurrency_in_flight(m, s, now_ns), -1};
}

static uint64_t concurrency_epoch(const struct weir__meter *m, const struct weir__state *s)
{
    return concurrency_expires(m) ? ((const struct leases *)(const void *)(s + 1))->epoch
                                  : (uint64_t)s->fresh_ns;
}

/* Calls in flight stay in flight; a lease is as long as the new limit says, from the time of
 * entry. */
static void concurrency_change(const struct weir__meter *from, const struct weir__meter *to,
                               struct weir__state *s)
{
    if (concurrency_expires(to))
        concurrency_write(to, s, concurrency_live(from, s, to->changed_ns));
    else
        s->word = weir__state_word(weir__state_part(s), to->version);
}

const struct weir__algo weir__concurrency = {
    .family = WEIR__FAMILY_CONCURRENCY,
    .division = WEIR__DIVIDE_CONCURRENCY,
    .letter = 'n',
    .prepare = concurrency_prepare,
    .state_size = concurrency_state_size,
    .default_patience = concurrency_patience,
    .take = concurrency_take,
    .peek = concurrency_peek,
    .leave = concurrency_leave,
    .view = concurrency_view,
    .epoch = concurrency_epoch,
    .change = concurrency_change,
};
