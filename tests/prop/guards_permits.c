/* Permits: those that the guard counts are those that a list of calls has. */
#include "guards.h"

#define STEPS 300

/* Whether the i-th call is in flight at now: leases end. */
static bool is_in(const struct guards_case *t, int i)
{
    return t->m.term.lease_ns <= 0 || t->now_ns < t->call[i].entered_ns + t->m.term.lease_ns;
}

/* How many calls are in flight at now by the list. */
static int64_t listed(const struct guards_case *t)
{
    int64_t in_flight = 0;

    for (int i = 0; i < t->calls; i++)
        if (is_in(t, i))
            in_flight += t->call[i].cost;
    return in_flight;
}

static int64_t some_cost(struct guards_case *t, int64_t most)
{
    if (guards_odds(t, 8))
        return guards_any_size(t, 1, INT64_MAX);
    return guards_odds(t, 3) ? guards_range(t, 0, weir__min(most, 5)) : 1;
}

static void check_held(struct guards_case *t, int64_t most)
{
    const int64_t in_flight = listed(t), said = guards_view(t).in_flight;

    guards_expect(t, said == in_flight, "%" PRId64 " in flight, and the list has %" PRId64, said,
                  in_flight);
    guards_expect(t, said <= most, "%" PRId64 " in flight, of %" PRId64, said, most);
    for (int i = 0; i < t->calls; i++)
        guards_expect(t, !is_in(t, i) || t->call[i].epoch == guards_epoch(t),
                      "a call in flight entered another state");
}

static void try_to_enter(struct guards_case *t, int64_t most, bool sure)
{
    const int64_t cost = some_cost(t, most), room = most - listed(t);
    const uint64_t others = guards_epoch(t);
    const struct weir_verdict v = guards_enter(t, cost, guards_draw(t));

    if (sure)
        guards_expect(t, v.allowed == (cost <= room), "asked for %" PRId64 " of %" PRId64, cost,
                      room);
    if (sure && v.allowed && cost > 0 && room == most)
        guards_expect(t, guards_epoch(t) != others, "alone, and in the epoch of others");
    if (cost > most)
        guards_expect(t, v.reason == WEIR_TOO_BIG && v.retry_after_ns == -1,
                      "too big has another name");
}

/* Once all calls have left, no permit is left: none was lost, and none appeared. */
static void check_empty(struct guards_case *t)
{
    while (t->calls > 0)
        guards_leave_now(t, WEIR_SUCCESS);
    guards_expect(t, guards_view(t).in_flight == 0, "all have left, and %" PRId64 " are in flight",
                  guards_view(t).in_flight);
}

void law_permits(struct guards_case *t)
{
    const bool back = guards_odds(t, 3);
    int64_t most;
    bool sure;

    guards_draft(t, WEIR_CONCURRENCY, true);
    /* Swept under a clock that was ahead, a lease does not come back with it. */
    sure = !back || t->term.lease_ns == WEIR_NONE;
    guards_open_limit(t, guards_range(t, 0, WEIR__NOW_MAX / 2));
    most = t->m.term.count;
    for (t->step = 1; t->step <= STEPS && !t->failed; t->step++) {
        if (back)
            guards_jump_clock(t);
        else
            t->now_ns += guards_range(t, 0, 200) * MS;
        check_forgotten(t);
        if (t->calls < CALLS && (t->calls == 0 || guards_odds(t, 2)))
            try_to_enter(t, most, sure);
        else
            guards_leave(t, (int)guards_range(t, 0, t->calls - 1),
                         (enum weir_outcome)guards_range(t, 0, WEIR_IGNORE));
        if (sure)
            check_held(t, most);
        guards_expect(t, guards_view(t).in_flight <= most, "more in flight than may be");
    }
    check_empty(t);
    if (t->m.term.lease_ns == WEIR_NONE)
        guards_expect(t, t->key.s.fresh_ns == 0, "no call is in flight, and the key is kept");
}

void law_gate(struct guards_case *t)
{
    int64_t most;

    guards_draft(t, WEIR_SYSTEM, guards_odds(t, 2));
    guards_open_limit(t, guards_range(t, 0, WEIR__NOW_MAX));
    most = t->m.term.most;
    for (t->step = 1; t->step <= STEPS && !t->failed; t->step++) {
        guards_jump_clock(t);
        check_forgotten(t);
        if (t->calls < CALLS && (t->calls == 0 || guards_odds(t, 2))) {
            const int64_t cost = some_cost(t, most), room = most - listed(t);
            const struct weir_verdict v = guards_enter(t, cost, guards_draw(t));

            guards_expect(t, !v.allowed || cost <= room, "let in %" PRId64 " of %" PRId64, cost,
                          room);
            /* As quick calls leave the window the mean may rise: then it is another bound. */
            if (t->term.target_ns == WEIR_NONE && v.retry_after_ns > 0 &&
                t->now_ns + v.retry_after_ns <= WEIR__NOW_MAX) {
                const int64_t then = t->now_ns + v.retry_after_ns;

                guards_expect(t, !guards_peek(t, cost, then - 1, 0).allowed,
                              "allowed a nanosecond too early");
                guards_expect(t, guards_peek(t, cost, then, 0).allowed, "not allowed when it said");
            }
        } else {
            guards_leave(t, (int)guards_range(t, 0, t->calls - 1),
                         (enum weir_outcome)guards_range(t, 0, WEIR_IGNORE));
        }
        check_held(t, most);
    }
    check_empty(t);
}
