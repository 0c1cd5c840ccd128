/* Keys that share states, and what each of them is bound by in truth. */
#include "shared.h"

#include <inttypes.h>
#include <string.h>

#include "limit/calendar.h"

/* ---- The limit ------------------------------------------------------------------------------ */

/* A period that is like the first one: what is owed then outlives the change, as often as not. */
static int64_t like_period(struct prop_case *c)
{
    const int64_t period = c->term[0].period_ns;
    const int64_t most = weir__min(3 * period, WEIR_PERIOD_MAX_NS);

    return prop_range(&c->rng, weir__max(WEIR_PERIOD_MIN_NS, period / 3), most);
}

/* Most changes at random would start fresh or outlast all that is owed: rings and logs are made as
 * long as the first one's, and periods alike. A version that the grammar refuses stays as it
 * was. */
static void keep_alike(struct prop_case *c, int i)
{
    const struct weir_term *first = &c->term[0];
    struct weir_limit limit = {.n = 1, .term = {c->term[i]}};
    struct weir_term *t = &limit.term[0];
    char text[PROP_TEXT];
    struct weir_diag why;

    if (t->calendar == WEIR_DURATION && first->calendar == WEIR_DURATION && prop_odds(&c->rng, 2))
        t->period_ns = like_period(c);
    if (t->algorithm == WEIR_SLIDING_LOG) {
        t->count = first->count;
        t->min_interval_ns = prop_odds(&c->rng, 2) ? 0 : like_period(c);
    } else if (t->algorithm == WEIR_SLIDING_WINDOW) {
        t->slots = first->slots;
        t->count = first->count;
        t->per_slot = prop_odds(&c->rng, 2) ? WEIR_NONE : prop_range(&c->rng, 1, t->count);
        t->period_ns = weir__max(first->slots, t->period_ns / first->slots * first->slots);
    }
    weir_limit_print(&limit, text, sizeof text);
    if (weir_limit_parse(&limit, text, &why) != 0)
        return;
    c->term[i] = limit.term[0];
    memcpy(c->text[i], text, sizeof text);
}

static bool same_algorithm(const struct prop_case *c)
{
    for (int i = 1; i < c->versions; i++)
        if (c->term[i].algorithm != c->term[0].algorithm)
            return false;
    return true;
}

static struct weir_term rate_of(const struct weir_term *t)
{
    struct weir_term rate = *t;

    rate.algorithm = WEIR_SMOOTH_BURSTY;
    rate.max_burst_ns = 0;
    return rate;
}

void prop_shared_open(struct prop_shared *p, struct prop_case *c, int versions)
{
    struct weir_term rate;

    *p = (struct prop_shared){.c = c};
    prop_open(c, PROP_ANY, versions);
    while (!same_algorithm(c)) {
        prop_close(c);
        prop_open(c, PROP_ANY, versions);
    }
    for (int i = 1; i < versions; i++)
        if (!prop_odds(&c->rng, 5))
            keep_alike(c, i);
    rate = rate_of(&c->term[0]);
    weir__meter_init(&p->rate[0], &rate, c->meter[0].created_ns);
}

static const struct weir__meter *truth_meter(const struct prop_shared *p)
{
    const bool by_rate = p->c->m->term.algorithm == WEIR_SMOOTH_WARMUP;

    return by_rate ? &p->rate[p->c->m - p->c->meter] : p->c->m;
}

void prop_shared_change(struct prop_shared *p)
{
    struct prop_case *c = p->c;
    const int i = (int)(c->m - c->meter) + 1;
    const struct weir_term rate = rate_of(&c->term[i]);

    prop_change(c);
    weir__meter_change(&p->rate[i], &rate, &p->rate[i - 1], c->m->changed_ns);
}

/* ---- Asking --------------------------------------------------------------------------------- */

void prop_shared_move(struct prop_shared *p)
{
    prop_move(p->c, false);
    if (prop_odds(&p->c->rng, 20))
        p->ahead_ns = prop_range(&p->c->rng, 0, p->c->m->term.period_ns);
}

struct weir__attempt prop_shared_ask(struct prop_shared *p, int64_t cost, int64_t patience_ns)
{
    const struct prop_case *c = p->c;
    struct weir__attempt attempt = prop_ask(c, c->now_ns, cost, patience_ns);
    const int64_t wall_ns = c->now_ns + p->ahead_ns;

    if (c->m->term.align == WEIR_ALIGN_CLOCK && wall_ns <= PROP_FOREVER_NS)
        attempt.edge_ns = weir__calendar_edge(&c->m->term, NULL, wall_ns) - p->ahead_ns;
    return attempt;
}

void prop_shared_note(struct prop_shared *p, enum prop_verb verb, int64_t which)
{
    const struct prop_step step = {.verb = verb, .now_ns = p->c->now_ns, .cost = which};

    prop_note(p->c, &step);
}

/* A due time at the end of time is up to a nanosecond too cheap (due.h), and a change may stretch
 * it. */
static void note_end(struct prop_shared *p, const struct weir__state *s)
{
    p->ended = p->ended || s->fresh_ns == INT64_MAX;
}

static struct weir_verdict take(struct prop_shared *p, struct weir__state *s,
                                const struct weir__attempt *attempt)
{
    struct prop_step step = {.verb = PROP_TAKE,
                             .now_ns = attempt->now_ns,
                             .cost = attempt->cost,
                             .patience_ns = attempt->patience_ns};

    weir__meter_take(p->c->m, s, attempt, &step.v);
    note_end(p, s);
    prop_note(p->c, &step);
    p->c->last = step.v;
    return step.v;
}

void prop_shared_disturb(struct prop_shared *p, struct weir__state *s)
{
    struct prop_case *c = p->c;
    const int64_t cost = prop_cost(c), patience = prop_patience(c);
    const struct weir__attempt attempt = prop_shared_ask(p, cost, patience);

    if (c->charges && prop_odds(&c->rng, 4)) {
        weir__meter_charge(c->m, s, &attempt, &c->last);
        note_end(p, s);
    }
    switch (prop_range(&c->rng, 0, 11)) {
    case 0: weir__meter_refund(c->m, s, cost, c->now_ns); return;
    case 1:
        weir__meter_cancel(c->m, s, cost, weir__add_sat(c->now_ns, c->last.wait_ns), c->now_ns);
        return;
    case 2:
        if (prop_odds(&c->rng, 4))
            prop_state_forget(c, s);
        return;
    default: weir__meter_take(c->m, s, &attempt, &c->last); note_end(p, s);
    }
}

/* Rings saturate (2^32 a slot, 2^40 in all), and denials of huge costs are then counted in part. */
static bool counts_in_full(const struct weir__meter *m)
{
    return m->term.algorithm != WEIR_SLIDING_WINDOW || m->term.count < INT64_C(1) << 24;
}

/* A refused request is counted as one without patience. What never fits a prepaid ticket is not
 * counted, and for the truth, whose ticket is earlier, it may still fit. */
static void deny_truth(struct prop_shared *p, struct weir__state *truth,
                       struct weir__attempt attempt, enum weir_reason why)
{
    struct weir_verdict v;

    if (!p->c->m->term.count_denied || !counts_in_full(p->c->m))
        return;
    attempt.patience_ns = 0;
    weir__meter_peek(truth_meter(p), truth, &attempt, &v);
    if (v.reason == WEIR_TOO_BIG || why != WEIR_TOO_BIG)
        weir__meter_take(truth_meter(p), truth, &attempt, &v);
    note_end(p, truth);
}

/* What is charged to the joined key is charged to each of those that it stands for. */
static void shared_charge(struct prop_shared *p, struct weir__state *s,
                          struct weir__state *const *truth, int n)
{
    const struct weir__attempt attempt = prop_shared_ask(p, prop_cost(p->c), 0);
    struct prop_step step = {.verb = PROP_CHARGE, .now_ns = attempt.now_ns, .cost = attempt.cost};

    for (int i = 0; i < n; i++) {
        weir__meter_touch(truth_meter(p), truth[i], attempt.now_ns);
        if (weir__state_is_behind(truth_meter(p), truth[i]))
            return; /* its due times are rounded up with each charge, those of the join are not */
    }
    weir__meter_charge(p->c->m, s, &attempt, &step.v);
    note_end(p, s);
    prop_note(p->c, &step);
    for (int i = 0; i < n && counts_in_full(p->c->m); i++) {
        weir__meter_charge(truth_meter(p), truth[i], &attempt, &step.v);
        note_end(p, truth[i]);
    }
}

struct weir_verdict prop_shared_take(struct prop_shared *p, struct weir__state *s,
                                     struct weir__state *const *truth, int n)
{
    struct prop_case *c = p->c;
    int64_t cost, patience;
    struct weir__attempt attempt;
    struct weir_verdict v;

    if (c->charges && prop_odds(&c->rng, 6))
        shared_charge(p, s, truth, n);
    cost = prop_cost(c);
    patience = prop_patience(c);
    attempt = prop_shared_ask(p, cost, patience);
    v = take(p, s, &attempt);

    for (int i = 0; i < n; i++) {
        struct weir_verdict own;

        if (!v.allowed) {
            deny_truth(p, truth[i], attempt, v.reason);
            continue;
        }
        weir__meter_take(truth_meter(p), truth[i], &attempt, &own);
        note_end(p, truth[i]);
        if (p->ended)
            continue;
        prop_expect(c, own.allowed, "granted, where key %d would have been refused for %" PRId64, i,
                    own.retry_after_ns);
        prop_expect(c, own.wait_ns <= v.wait_ns,
                    "made to wait %" PRId64 ", where key %d would have waited %" PRId64, v.wait_ns,
                    i, own.wait_ns);
    }
    return v;
}

/* A due time gives back parts of events, which it does not report. */
static bool counts_events(const struct weir__meter *m)
{
    return m->term.algorithm == WEIR_FIXED_WINDOW || m->term.algorithm == WEIR_SLIDING_WINDOW ||
           m->term.algorithm == WEIR_SLIDING_COUNTER || m->term.algorithm == WEIR_SLIDING_LOG;
}

void prop_shared_return(struct prop_shared *p, struct weir__state *s,
                        struct weir__state *const *truth, int n)
{
    struct prop_case *c = p->c;
    const int64_t now = c->now_ns, cost = prop_cost(c);
    const int64_t act = weir__add_sat(now, c->last.wait_ns);
    const bool cancels = c->last.allowed && prop_odds(&c->rng, 2);
    const int64_t back = cancels ? weir__meter_cancel(c->m, s, cost, act, now)
                                 : weir__meter_refund(c->m, s, cost, now);
    const struct prop_step step = {.verb = cancels ? PROP_CANCEL : PROP_REFUND,
                                   .now_ns = now,
                                   .cost = cost,
                                   .act_ns = act,
                                   .back = back};

    prop_note(c, &step);
    for (int i = 0; i < n; i++)
        if (!cancels)
            weir__meter_refund(truth_meter(p), truth[i], counts_events(c->m) ? back : cost, now);
        else if (back > 0)
            weir__meter_cancel(truth_meter(p), truth[i], cost, act, now);
}
