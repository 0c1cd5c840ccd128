/* adaptive-rate: the rate stays in its bounds, and grants within the bound of the highest rate. */
#include "guards.h"

#define STEPS 400

/* What the bucket holds at the highest rate. */
static weir__u128 holds_most(const struct weir_term *t)
{
    const weir__u128 events = weir__wide(t->burst) * weir__wide(t->most) / weir__wide(t->count);

    return events + 1; /* rounded up, and at least one */
}

struct rate_record {
    int64_t start_ns;
    weir__u128 granted;
    int64_t second, lowered; /* how often in this one */
};

static void check_rate(struct guards_case *t, struct rate_record *r, int64_t before)
{
    const int64_t rate = guards_view(t).rate;

    guards_expect(t, rate >= t->term.least && rate <= t->term.most, "the rate is %" PRId64, rate);
    if (t->now_ns / SEC != r->second) {
        r->second = t->now_ns / SEC;
        r->lowered = 0;
    }
    r->lowered += rate < before;
    guards_expect(t, r->lowered <= 1, "lowered twice in a second");
}

static void check_bound(struct guards_case *t, const struct rate_record *r)
{
    const weir__u128 most = holds_most(&t->term) * weir__wide(t->term.period_ns) +
                            weir__wide(t->now_ns - r->start_ns) * weir__wide(t->term.most);

    guards_expect(t, r->granted * weir__wide(t->term.period_ns) <= most,
                  "more were let in than the highest rate allows");
}

static void attempt(struct guards_case *t, struct rate_record *r)
{
    const int64_t cost =
        guards_odds(t, 3) ? weir__max(1, guards_peek(t, 0, t->now_ns, 0).remaining) : 1;
    const struct weir_verdict v = guards_enter(t, cost, 0);
    const int64_t then = t->now_ns + v.retry_after_ns;

    if (v.allowed)
        r->granted += weir__wide(cost);
    /* Within the second the rate stays, and the time is exact. */
    if (v.retry_after_ns > 0 && then / SEC == t->now_ns / SEC) {
        guards_expect(t, !guards_peek(t, cost, then - 1, 0).allowed,
                      "lets in a nanosecond too early");
        guards_expect(t, guards_peek(t, cost, then, 0).allowed, "does not let in when it said");
    }
}

/* Every second all of it is used, and all goes well. */
static void recover(struct guards_case *t)
{
    const int64_t step = weir__max(1, t->term.count / 20);
    const int64_t seconds = (t->term.most - t->term.least) / step + 3;

    t->calls = 0;
    if (seconds > 1000 || t->term.period_ns > SEC)
        return;
    for (int64_t i = 0; i < seconds; i++) {
        const struct weir__attempt all = {.cost = guards_view(t).rate, .now_ns = t->now_ns};
        const struct weir__leaving well = {
            .entered_ns = t->now_ns, .now_ns = t->now_ns, .cost = 1, .how = WEIR_SUCCESS};
        struct weir_verdict v;

        for (int64_t n = 0; n < SEC / t->term.period_ns + 1 && n < 50; n++) {
            weir__meter_take(&t->m, &t->key.s, &all, &v);
            weir__meter_leave(&t->m, &t->key.s, &well);
        }
        t->now_ns += SEC;
    }
    guards_expect(t, guards_view(t).rate >= t->term.count, "the rate stays at %" PRId64,
                  guards_view(t).rate);
}

void law_rate(struct guards_case *t)
{
    struct rate_record r = {0};

    guards_draft(t, WEIR_ADAPTIVE_RATE, !guards_odds(t, 4));
    guards_open_limit(t, guards_range(t, 0, WEIR__NOW_MAX / 2));
    r = (struct rate_record){.start_ns = t->now_ns, .second = t->now_ns / SEC};
    for (t->step = 1; t->step <= STEPS && !t->failed; t->step++) {
        int64_t before;

        t->now_ns +=
            guards_odds(t, 20) ? guards_range(t, 0, 30) * SEC : guards_range(t, 0, 50) * MS;
        check_forgotten(t);
        before = guards_view(t).rate;
        if (t->calls < CALLS && (t->calls == 0 || guards_odds(t, 2)))
            attempt(t, &r);
        else
            guards_leave(t, (int)guards_range(t, 0, t->calls - 1),
                         (enum weir_outcome)guards_range(t, 0, WEIR_IGNORE));
        check_rate(t, &r, before);
        check_bound(t, &r);
    }
    recover(t);
}
