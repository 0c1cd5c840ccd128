/* Permits: those that the guard counts are those that a list of calls has. */
#include "guards.h"

#define STEPS 300

/* Whether the i-th call is in flight at now: leases end. */
static bool is_in(const struct trial *t, int i)
{
    return t->m.term.lease_ns <= 0 || t->now_ns < t->call[i].entered_ns + t->m.term.lease_ns;
}

/* Who is in flight at now by the list. */
static int64_t listed(const struct trial *t)
{
    int64_t held = 0;

    for (int i = 0; i < t->calls; i++)
        if (is_in(t, i))
            held += t->call[i].cost;
    return held;
}

static int64_t some_cost(struct trial *t, int64_t most)
{
    if (odds(t, 8))
        return any_size(t, 1, INT64_MAX);
    return odds(t, 3) ? range(t, 0, weir__min(most, 5)) : 1;
}

static void check_held(struct trial *t, int64_t most)
{
    const int64_t held = listed(t), said = look(t).in_flight;

    expect(t, said == held, "%" PRId64 " in flight, and the list has %" PRId64, said, held);
    expect(t, said <= most, "%" PRId64 " in flight, of %" PRId64, said, most);
    for (int i = 0; i < t->calls; i++)
        expect(t, !is_in(t, i) || t->call[i].birth == birth(t), "who is in was born with others");
}

static void try_to_enter(struct trial *t, int64_t most, bool sure)
{
    const int64_t cost = some_cost(t, most), room = most - listed(t);
    const uint64_t others = birth(t);
    const struct weir_verdict v = enter(t, cost, draw(t));

    if (sure)
        expect(t, v.allowed == (cost <= room), "asked for %" PRId64 " of %" PRId64, cost, room);
    if (sure && v.allowed && cost > 0 && room == most)
        expect(t, birth(t) != others, "alone, and born with others");
    if (cost > most)
        expect(t, v.reason == WEIR_TOO_BIG && v.retry_after_ns == -1, "too big has another name");
}

/* Once all have left, nothing is left: no permit was lost, and none appeared. */
static void check_empty(struct trial *t)
{
    while (t->calls > 0)
        leave_at_once(t, WEIR_SUCCESS);
    expect(t, look(t).in_flight == 0, "all have left, and %" PRId64 " are in flight",
           look(t).in_flight);
}

void law_permits(struct trial *t)
{
    const bool back = odds(t, 3);
    int64_t most;
    bool sure;

    draft(t, WEIR_CONCURRENCY, true);
    /* Swept under a clock that was ahead, a lease does not come back with it. */
    sure = !back || t->term.lease_ns == WEIR_NONE;
    open_limit(t, range(t, 0, WEIR__NOW_MAX / 2));
    most = t->m.term.count;
    for (t->step = 1; t->step <= STEPS && !t->failed; t->step++) {
        if (back)
            jump(t);
        else
            t->now_ns += range(t, 0, 200) * MS;
        check_forgotten(t);
        if (t->calls < CALLS && (t->calls == 0 || odds(t, 2)))
            try_to_enter(t, most, sure);
        else
            leave(t, (int)range(t, 0, t->calls - 1), (enum weir_outcome)range(t, 0, WEIR_IGNORE));
        if (sure)
            check_held(t, most);
        expect(t, look(t).in_flight <= most, "more in flight than may be");
    }
    check_empty(t);
    if (t->m.term.lease_ns == WEIR_NONE)
        expect(t, t->key.s.fresh_ns == 0, "nobody is in flight, and the key is kept");
}

void law_gate(struct trial *t)
{
    int64_t most;

    draft(t, WEIR_SYSTEM, odds(t, 2));
    open_limit(t, range(t, 0, WEIR__NOW_MAX));
    most = t->m.term.most;
    for (t->step = 1; t->step <= STEPS && !t->failed; t->step++) {
        jump(t);
        check_forgotten(t);
        if (t->calls < CALLS && (t->calls == 0 || odds(t, 2))) {
            const int64_t cost = some_cost(t, most), room = most - listed(t);
            const struct weir_verdict v = enter(t, cost, draw(t));

            expect(t, !v.allowed || cost <= room, "let in %" PRId64 " of %" PRId64, cost, room);
            /* As quick calls leave the window the mean may rise: then it is another bound. */
            if (t->term.target_ns == WEIR_NONE && v.retry_after_ns > 0 &&
                t->now_ns + v.retry_after_ns <= WEIR__NOW_MAX) {
                const int64_t then = t->now_ns + v.retry_after_ns;

                expect(t, !asked(t, cost, then - 1, 0).allowed, "allowed a nanosecond too early");
                expect(t, asked(t, cost, then, 0).allowed, "not allowed when it said");
            }
        } else {
            leave(t, (int)range(t, 0, t->calls - 1), (enum weir_outcome)range(t, 0, WEIR_IGNORE));
        }
        check_held(t, most);
    }
    check_empty(t);
}
