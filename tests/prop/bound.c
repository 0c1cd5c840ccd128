/* What each algorithm promises over every interval, checked event against event.
 *
 * For every pair of events in the ledger the sum from the one to the other is compared with the
 * promise of the algorithm's essay. An interval that starts or ends between events holds no more
 * than one that starts and ends on them, so trying all pairs is enough.
 *
 * Waits are rounded up to whole nanoseconds. An event that waited may so act up to a nanosecond
 * after its exact turn, and the next one at its exact turn: an interval that starts with such an
 * event is given that nanosecond, and no more. So is one after a cancel: its act time is known only
 * to the nanosecond, in which above one event a nanosecond whole events hide.
 */
#include "prop.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "limit/calendar.h"

#define DAY (INT64_C(86400) * WEIR__NS_PER_S)

/* ---- Buckets: a stock, and the rate -------------------------------------------------------- */

static int by_act(const void *a, const void *b)
{
    const struct prop_event *x = a, *y = b;

    return (x->act_ns > y->act_ns) - (x->act_ns < y->act_ns);
}

struct bound_promise {
    weir__u128 stock;  /* what may be there at the start, in events x period */
    bool last_is_free; /* the cost of the interval's last event is not counted */
    bool by_admission; /* not by act */
};

/* What an interval's first events add to the promise: those that act when it starts. */
struct start {
    bool rounded;        /* one of them waited               */
    weir__u128 at_least; /* the most that one of them may be */
};

static int64_t time_of(const struct bound_promise *p, const struct prop_event *e)
{
    return p->by_admission ? e->at_ns : e->act_ns;
}

/* sum x T <= stock x T + t, in 1/count of a nanosecond. */
static void check_interval(struct prop_case *c, const struct bound_promise *p,
                           const struct prop_event *from, const struct prop_event *to,
                           struct start start, weir__u128 sum)
{
    const int64_t t = time_of(p, to) - time_of(p, from);
    const weir__u128 used = sum * weir__wide(c->m->term.period_ns);
    const weir__u128 count = weir__wide(c->m->term.count);
    const weir__u128 stock = p->stock > start.at_least ? p->stock : start.at_least;
    /* At the end of time a due time may be a nanosecond short (due.h). */
    const int64_t short_ns = to->at_ns >= INT64_MAX - c->m->full.ns ? 1 : 0;
    const weir__u128 may = stock + weir__wide(t + short_ns) * count;

    prop_expect(c, start.rounded ? used < may + count : used <= may,
                "%" PRIu64 " events in the %" PRId64 " ns from %" PRId64 " to %" PRId64
                " pass the bound",
                (uint64_t)sum, t, time_of(p, from), time_of(p, to));
}

static weir__u128 events(const struct prop_case *c, int64_t n)
{
    return weir__wide(n) * weir__wide(c->m->term.period_ns);
}

static void start_with(struct start *s, const struct prop_case *c, const struct prop_event *e)
{
    const weir__u128 whole = c->algorithm == WEIR_PACER ? events(c, e->whole) : 0;

    s->rounded = s->rounded || e->rounded;
    s->at_least = whole > s->at_least ? whole : s->at_least;
}

static void check_rate(struct prop_case *c, const struct prop_ledger *l,
                       const struct bound_promise *p)
{
    struct prop_event e[PROP_STEPS];

    memcpy(e, l->event, sizeof e);
    if (!p->by_admission)
        qsort(e, (size_t)l->n, sizeof e[0], by_act);
    for (int i = 0; i < l->n && !c->failed; i++) {
        struct start start = {.rounded = l->cancelled};
        weir__u128 sum = 0;

        for (int j = i; j < l->n; j++) {
            if (!p->by_admission && e[j].act_ns == e[i].act_ns)
                start_with(&start, c, &e[j]);
            if (!p->last_is_free)
                sum += weir__wide(e[j].cost);
            check_interval(c, p, &e[i], &e[j], start, sum);
            if (p->last_is_free)
                sum += weir__wide(e[j].cost);
        }
    }
}

/* What accrues from the creation of the limit is not there before. */
static void check_from_creation(struct prop_case *c, const struct prop_ledger *l, weir__u128 stock,
                                bool last_is_free)
{
    const struct bound_promise p = {.stock = stock, .last_is_free = last_is_free};
    const struct prop_event creation = {.act_ns = c->m->created_ns};
    struct prop_event e[PROP_STEPS];
    weir__u128 sum = 0;

    memcpy(e, l->event, sizeof e);
    qsort(e, (size_t)l->n, sizeof e[0], by_act);
    for (int i = 0; i < l->n; i++) {
        if (!last_is_free)
            sum += weir__wide(e[i].cost);
        check_interval(c, &p, &creation, &e[i], (struct start){.rounded = false}, sum);
        if (last_is_free)
            sum += weir__wide(e[i].cost);
    }
}

static void check_token_bucket(struct prop_case *c, const struct prop_ledger *l)
{
    const struct weir_term *t = &c->m->term;
    const struct bound_promise p = {.stock = events(c, t->burst)};

    check_rate(c, l, &p);
    if (t->initial < t->burst)
        check_from_creation(c, l, events(c, t->initial), false);
}

/* Admitted: capacity and the rate. With a delay they leave at the rate too: but for the last one,
 * which waits for those before it and not for itself; and with it no more than capacity and the
 * rate. A cancel changes none of that for the callers that still wait. */
static void check_leaky_bucket(struct prop_case *c, const struct prop_ledger *l)
{
    const struct weir_term *t = &c->m->term;
    const struct bound_promise in = {.stock = events(c, t->burst), .by_admission = true};
    const struct bound_promise out = {.stock = events(c, weir__max(0, t->delay)),
                                      .last_is_free = true};
    const struct bound_promise whole = {.stock = events(c, t->burst)};

    check_rate(c, l, &in);
    if (t->delay == WEIR_NONE)
        return;
    check_rate(c, l, &out);
    check_rate(c, l, &whole);
}

/* A cost above 1 + slack acts whole, with the last of its turns: an interval that starts with it
 * holds it, and not the turns that it waited for. */
static void check_pacer(struct prop_case *c, const struct prop_ledger *l)
{
    const struct bound_promise p = {.stock = events(c, c->m->term.burst)};

    check_rate(c, l, &p);
    if (c->m->term.burst > 1)
        check_from_creation(c, l, events(c, 1), false);
}

static void check_smooth(struct prop_case *c, const struct prop_ledger *l, int64_t stored_ns)
{
    const struct bound_promise p = {.stock = weir__wide(stored_ns) * weir__wide(c->m->term.count),
                                    .last_is_free = true};

    check_rate(c, l, &p);
    if (c->m->term.algorithm == WEIR_SMOOTH_BURSTY)
        check_from_creation(c, l, 0, true);
}

static void check_spacing(struct prop_case *c, const struct prop_ledger *l, int64_t gap_ns)
{
    for (int i = 1; i < l->n; i++)
        prop_expect(c, l->event[i].at_ns - l->event[i - 1].at_ns >= gap_ns,
                    "events at %" PRId64 " and %" PRId64 " are nearer than %" PRId64 " ns",
                    l->event[i - 1].at_ns, l->event[i].at_ns, gap_ns);
}

/* ---- Windows: a count in a length of time -------------------------------------------------- */

/* The sum over every [t, t + length) is at most `most`. */
static void check_length(struct prop_case *c, const struct prop_ledger *l, int64_t length_ns,
                         int64_t most)
{
    for (int i = 0; i < l->n; i++) {
        int64_t sum = 0;

        for (int j = i; j < l->n && l->event[j].at_ns - l->event[i].at_ns < length_ns; j++)
            sum += l->event[j].cost;
        prop_expect(c, sum <= most,
                    "%" PRId64 " events in the %" PRId64 " ns from %" PRId64 ", more than %" PRId64,
                    sum, length_ns, l->event[i].at_ns, most);
    }
}

/* Cut from the epoch: no `n` neighbouring pieces hold more than `most`. */
static void check_pieces(struct prop_case *c, const struct prop_ledger *l, int64_t piece_ns,
                         int64_t n, int64_t most)
{
    for (int i = 0; i < l->n; i++) {
        const int64_t first = l->event[i].at_ns / piece_ns;
        int64_t sum = 0;

        for (int j = 0; j < l->n; j++) {
            const int64_t piece = l->event[j].at_ns / piece_ns;

            sum += piece >= first && piece - first < n ? l->event[j].cost : 0;
        }
        prop_expect(c, sum <= most,
                    "%" PRId64 " events in %" PRId64 " slots of %" PRId64 " ns from slot %" PRId64
                    ", more than %" PRId64,
                    sum, n, piece_ns, first, most);
    }
}

static void check_sliding_window(struct prop_case *c, const struct prop_ledger *l)
{
    const struct weir_term *t = &c->m->term;
    const int64_t slot_ns = t->period_ns / t->slots;
    const int64_t in_slot = t->per_slot == WEIR_NONE ? t->count : weir__min(t->per_slot, t->count);

    check_pieces(c, l, slot_ns, t->slots, t->count);
    check_pieces(c, l, slot_ns, 1, in_slot);
    check_length(c, l, t->period_ns, t->count + in_slot);
    check_length(c, l, t->period_ns - slot_ns, t->count);
}

/* The rule itself, event by event: prev x overlap, rounded down, + cur <= count. */
static void check_weights(struct prop_case *c, const struct prop_ledger *l)
{
    const int64_t period = c->m->term.period_ns;

    for (int j = 0; j < l->n; j++) {
        const int64_t window = l->event[j].at_ns / period;
        const int64_t left = period - l->event[j].at_ns % period;
        int64_t prev = 0, cur = 0;

        for (int i = 0; i <= j; i++) {
            const int64_t of = l->event[i].at_ns / period;

            cur += of == window ? l->event[i].cost : 0;
            prev += of == window - 1 ? l->event[i].cost : 0;
        }
        prop_expect(c,
                    weir__wide(prev) * weir__wide(left) / weir__wide(period) + weir__wide(cur) <=
                        weir__wide(c->m->term.count),
                    "%" PRId64 " and %" PRId64 " before it are too many at %" PRId64, cur, prev,
                    l->event[j].at_ns);
    }
}

/* The state's first word is the end of the window that an event was counted in. */
static void check_fixed_window(struct prop_case *c, const struct prop_ledger *l)
{
    const struct weir_term *t = &c->m->term;
    const bool clock = t->align == WEIR_ALIGN_CLOCK;
    const int64_t shortest = t->calendar == WEIR_MONTH ? 28 * DAY : t->period_ns;

    check_length(c, l, shortest, 2 * t->count);
    for (int i = 0; i < l->n; i++) {
        const struct prop_event *e = &l->event[i];
        int64_t sum = 0;

        for (int j = 0; j < l->n; j++)
            sum += l->event[j].label == e->label ? l->event[j].cost : 0;
        prop_expect(c, sum <= t->count, "%" PRId64 " events in the window that ends at %" PRId64,
                    sum, e->label);
        prop_expect(c, e->label > e->at_ns && e->label - e->at_ns <= t->period_ns,
                    "an event at %" PRId64 " counted in the window that ends at %" PRId64, e->at_ns,
                    e->label);
        if (clock)
            prop_expect(c, e->label == weir__calendar_edge(t, NULL, e->at_ns),
                        "the window of %" PRId64 " ends at %" PRId64, e->at_ns, e->label);
        else if (i > 0 && e->label != l->event[i - 1].label)
            prop_expect(c, e->label - l->event[i - 1].label >= t->period_ns,
                        "windows that end at %" PRId64 " and %" PRId64 " overlap",
                        l->event[i - 1].label, e->label);
    }
}

void prop_bound(struct prop_case *c, const struct prop_ledger *l)
{
    const struct weir_term *t = &c->m->term;

    switch ((enum weir_algorithm)t->algorithm) {
    case WEIR_FIXED_WINDOW: check_fixed_window(c, l); return;
    case WEIR_SLIDING_WINDOW: check_sliding_window(c, l); return;
    case WEIR_SLIDING_COUNTER:
        check_pieces(c, l, t->period_ns, 1, t->count);
        check_length(c, l, t->period_ns, 2 * t->count);
        check_weights(c, l);
        return;
    case WEIR_SLIDING_LOG:
        check_length(c, l, t->period_ns, t->count);
        check_spacing(c, l, t->min_interval_ns);
        return;
    case WEIR_TOKEN_BUCKET: check_token_bucket(c, l); return;
    case WEIR_LEAKY_BUCKET: check_leaky_bucket(c, l); return;
    case WEIR_PACER: check_pacer(c, l); return;
    case WEIR_SMOOTH_BURSTY: check_smooth(c, l, t->max_burst_ns); return;
    case WEIR_SMOOTH_WARMUP: check_smooth(c, l, 0); return;
    case WEIR_MIN_INTERVAL: check_spacing(c, l, t->period_ns); return;
    case WEIR_ZERO: check_length(c, l, INT64_MAX, 0); return;
    case WEIR_UNLIMITED: return;
    case WEIR__GUARDS: return;
    }
}
