/* Permits in flight under a limit that moves: bbr, vegas, gradient and aimd. The seed decides which
 * (modulo 4). Limits are made as terms, because the algorithms accept more than the grammar does.
 *
 *   adaptive  callers enter and leave as they like, under a clock that jumps both ways, with
 *   latencies
 *             from 0 to 2^62. After each step: the limit is within its bounds; the calls in flight
 *             are those that entered and did not leave, and no call made them pass the limit; with
 *             one in flight bbr drops no call, and on a cool machine none later than two lulls and
 *             a cooling after it was last seen hot.
 *   recovery  from any resulting state, a service whose latency is good gets its limit back.
 */
#include "guards.h"

#include <string.h>

#define STEPS 200

/* ---- Limits -------------------------------------------------------------------------------- */

static struct weir_term learner_term(struct guards_case *t, enum weir_algorithm algorithm,
                                     int64_t ceiling)
{
    struct weir_term term = {.algorithm = algorithm};

    term.most = guards_any_size(t, 1, ceiling);
    term.least = guards_any_size(t, 1, term.most);
    term.initial = guards_range(t, term.least, term.most);
    if (algorithm == WEIR_AIMD)
        term.target_ns = guards_any_size(t, 1, WEIR_PERIOD_MAX_NS);
    return term;
}

static int64_t threshold(struct guards_case *t)
{
    return guards_range(t, 0, 2) == 0 ? WEIR_NONE : guards_range(t, 1, 1000);
}

static struct weir_term bbr_term(struct guards_case *t, bool usual)
{
    struct weir_term term = {.algorithm = WEIR_BBR};

    term.slots = usual ? guards_range(t, 10, 100) : guards_range(t, 1, WEIR_SLOTS_MAX);
    term.window_ns = term.slots * (usual ? guards_range(t, 20, 150) * MS
                                         : guards_any_size(t, 1, WEIR_PERIOD_MAX_NS / term.slots));
    term.cooling_ns =
        usual ? guards_range(t, 0, 2000) * MS : guards_any_size(t, 1, WEIR_PERIOD_MAX_NS) - 1;
    term.cpu_milli = usual ? 800 : threshold(t);
    term.memory_milli = usual ? WEIR_NONE : threshold(t);
    term.load_milli = usual ? WEIR_NONE : threshold(t);
    return term;
}

static void open_adaptive(struct guards_case *t, bool usual)
{
    static const enum weir_algorithm all[] = {WEIR_BBR, WEIR_VEGAS, WEIR_GRADIENT, WEIR_AIMD};
    const enum weir_algorithm algorithm = all[t->seed % 4];
    struct weir_limit limit = {.n = 1};

    t->hot_ns = -1;
    t->term = algorithm == WEIR_BBR ? bbr_term(t, usual)
                                    : learner_term(t, algorithm, usual ? 500 : WEIR_COUNT_MAX);
    limit.term[0] = t->term;
    (void)weir_limit_print(&limit, t->text, sizeof t->text);
    guards_open_limit(t, guards_range(t, 0, WEIR__NOW_MAX));
}

static bool is_bbr(const struct guards_case *t)
{
    return t->m.term.algorithm == WEIR_BBR;
}

/* ---- What must hold ------------------------------------------------------------------------ */

static void check_standing(struct guards_case *t)
{
    const struct weir_term *term = &t->m.term;
    const struct weir_view view = guards_view(t);

    guards_expect(t, view.in_flight == t->in_flight,
                  "%" PRId64 " in flight, and %" PRId64 " entered", view.in_flight, t->in_flight);
    guards_expect(t, view.limit >= 1, "the limit is %" PRId64, view.limit);
    guards_expect(t, is_bbr(t) || (view.limit >= term->least && view.limit <= term->most),
                  "the limit %" PRId64 " is not in %" PRId64 "..%" PRId64, view.limit, term->least,
                  term->most);
    guards_expect(t, (t->key.s.fresh_ns >= WEIR__NEVER_NS) == (t->in_flight > 0),
                  "fresh at %" PRId64 " with %" PRId64, t->key.s.fresh_ns, t->in_flight);
    for (int i = 0; i < t->calls; i++)
        guards_expect(t, t->call[i].epoch == guards_epoch(t),
                      "a call in flight entered another state");
}

static bool is_hot(const struct guards_case *t)
{
    const struct weir_term *m = &t->m.term;
    const struct weir_signals *s = &t->signals;

    return (m->cpu_milli != WEIR_NONE && s->cpu_milli >= m->cpu_milli) ||
           (m->memory_milli != WEIR_NONE && s->memory_milli >= m->memory_milli) ||
           (m->load_milli != WEIR_NONE && s->load_milli >= m->load_milli);
}

/* How long a cool machine may shed. A lull is a twentieth of a window, or one bucket. */
static int64_t afterglow_ns(const struct guards_case *t)
{
    const int64_t lull_ns = weir__max(1, t->m.term.slots / 20) * t->m.slot_ns;

    return 2 * lull_ns + t->m.term.cooling_ns;
}

static void check_grant(struct guards_case *t, int64_t cost, const struct weir_verdict *v)
{
    const int64_t after = t->in_flight + cost;

    if (cost == 0 || t->in_flight == 0)
        return; /* alone */
    if (is_bbr(t))
        guards_expect(t, !is_hot(t) || after <= v->limit + 1, "hot, and let in above limit + 1");
    else
        guards_expect(t, after <= v->limit, "let in above the limit");
}

static void check_refusal(struct guards_case *t, int64_t cost, const struct weir_verdict *v)
{
    const int64_t most = is_bbr(t) ? WEIR__COUNTER_MAX : t->m.term.most;

    if (cost > most) {
        guards_expect(t, v->reason == WEIR_TOO_BIG && v->retry_after_ns == -1,
                      "too big has another name");
        return;
    }
    guards_expect(t, v->reason == WEIR_OVERLOAD && v->retry_after_ns == 0,
                  "not OVERLOAD, unknown when");
    guards_expect(t, t->in_flight > 0, "refused, and no call is in flight");
    guards_expect(t, !is_bbr(t) || cost > 1 || t->in_flight > 1, "dropped with one in flight");
    guards_expect(t, !is_bbr(t) || cost > 1 || t->in_flight > v->limit, "dropped within the limit");
    guards_expect(t,
                  !is_bbr(t) || is_hot(t) || t->in_flight > WEIR__COUNTER_MAX - cost ||
                      (t->hot_ns >= 0 && t->now_ns <= t->hot_ns + afterglow_ns(t)),
                  "dropped, and cool since %" PRId64 " ns", t->now_ns - t->hot_ns);
}

/* ---- Chaos --------------------------------------------------------------------------------- */

static void move_signals(struct guards_case *t)
{
    t->signals.cpu_milli = guards_range(t, 0, 5) == 0 ? WEIR_NONE : guards_range(t, 0, 1000);
    t->signals.memory_milli = guards_range(t, 0, 5) == 0 ? WEIR_NONE : guards_range(t, 0, 1000);
    t->signals.load_milli = guards_range(t, 0, 5) == 0 ? WEIR_NONE : guards_range(t, 0, 1000);
}

static int64_t some_cost(struct guards_case *t)
{
    const int64_t limit = guards_view(t).limit;

    switch (guards_range(t, 0, 9)) {
    case 0: return guards_any_size(t, 1, INT64_MAX);
    case 1: return guards_range(t, 0, 3);
    case 2: return limit;
    case 3: return weir__max(1, limit - t->in_flight);
    default: return 1;
    }
}

static void try_to_enter(struct guards_case *t, int64_t cost)
{
    const int calls = t->calls;
    const struct weir_verdict v = guards_enter(t, cost, guards_draw(t));

    if (v.allowed)
        check_grant(t, cost, &v);
    else
        check_refusal(t, cost, &v);
    if (is_bbr(t) && is_hot(t) && cost > 0 && (v.allowed || t->in_flight > 0))
        t->hot_ns = t->now_ns;
    if (t->calls == calls)
        return;
    guards_expect(t, t->in_flight > 0 || guards_epoch(t) != t->last, "two epochs are alike");
    t->last = guards_epoch(t);
    t->in_flight += cost;
}

static void end_call(struct guards_case *t, int i, enum weir_outcome how)
{
    const int64_t limit = guards_view(t).limit;

    t->in_flight -= t->call[i].cost;
    guards_leave(t, i, how);
    if (how == WEIR_IGNORE && t->key.s.fresh_ns > t->now_ns)
        guards_expect(t, guards_view(t).limit == limit, "an ignored call moved the limit");
}

static void run_chaos(struct guards_case *t)
{
    for (t->step = 1; t->step <= STEPS && !t->failed; t->step++) {
        guards_jump_clock(t);
        if (guards_range(t, 0, 3) == 0)
            move_signals(t);
        check_forgotten(t);
        check_same_limit(t);
        if (t->calls < CALLS && (t->calls == 0 || guards_range(t, 0, 1) == 0))
            try_to_enter(t, some_cost(t));
        else
            end_call(t, (int)guards_range(t, 0, t->calls - 1),
                     (enum weir_outcome)guards_range(t, 0, WEIR_IGNORE));
        if (t->key.s.fresh_ns != 0)
            check_standing(t);
    }
}

void law_adaptive(struct guards_case *t)
{
    open_adaptive(t, false);
    run_chaos(t);
}

/* ---- Recovery ------------------------------------------------------------------------------ */

/* No call is in flight any more, and the clock has room ahead. */
static void calm_down(struct guards_case *t)
{
    while (t->calls > 0)
        end_call(t, t->calls - 1, WEIR_IGNORE);
    t->now_ns = weir__min(t->now_ns, WEIR__NOW_MAX / 2) + WEIR__NS_PER_S;
}

static void recover_learner(struct guards_case *t)
{
    const int64_t took_ns = t->m.term.algorithm == WEIR_AIMD
                                ? weir__min(t->m.term.target_ns, 10 * MS)
                                : guards_range(t, 1, 20) * MS;
    int64_t limit = guards_view(t).limit;

    for (int i = 0; i < 20000 && limit < t->m.term.most; i++) {
        const struct weir__attempt attempt = {
            .cost = limit - t->in_flight, .now_ns = t->now_ns, .random = guards_draw(t)};
        const struct weir__leaving l = {
            .entered_ns = t->now_ns, .now_ns = t->now_ns + took_ns, .cost = 1, .how = WEIR_SUCCESS};
        struct weir_verdict v;

        if (attempt.cost > 0) {
            weir__meter_take(&t->m, &t->key.s, &attempt, &v);
            t->in_flight += attempt.cost;
        }
        weir__meter_leave(&t->m, &t->key.s, &l);
        t->in_flight--;
        t->now_ns += took_ns;
        limit = guards_view(t).limit;
    }
    guards_expect(t, limit == t->m.term.most, "the limit stays at %" PRId64 " of %" PRId64, limit,
                  t->m.term.most);
}

/* Several workers, each of which calls again as soon as its call has ended. No two calls take as
 * long: two that end together in every bucket but one in fifty teach a window of twenty little. */
struct adaptive_crowd {
    int64_t began_ns[20], end_ns[20];
    int workers, most; /* how many there are, and that were busy at once */
};

static void tick(struct guards_case *t, struct adaptive_crowd *c, int64_t took_ns)
{
    const struct weir__attempt attempt = {.cost = 1, .now_ns = t->now_ns, .signals = &t->signals};

    int busy = 0;

    for (int i = 0; i < c->workers; i++) {
        struct weir_verdict v;

        busy += c->end_ns[i] > t->now_ns;
        if (c->end_ns[i] > t->now_ns)
            continue;
        if (c->end_ns[i] > 0) {
            const struct weir__leaving l = {
                .entered_ns = c->began_ns[i], .now_ns = t->now_ns, .cost = 1, .how = WEIR_SUCCESS};

            weir__meter_leave(&t->m, &t->key.s, &l);
        }
        weir__meter_take(&t->m, &t->key.s, &attempt, &v);
        c->began_ns[i] = t->now_ns;
        c->end_ns[i] = v.allowed ? t->now_ns + took_ns + guards_range(t, 0, took_ns / 4) : 0;
        busy += v.allowed;
    }
    c->most = busy > c->most ? busy : c->most;
}

/* The machine is hot all the time, and yet all the workers enter in the end (but not in a lull). */
static void recover_bbr(struct guards_case *t)
{
    const int64_t took_ns = guards_range(t, 1, 60) * MS;
    const int64_t until_ns =
        t->now_ns + 3 * t->m.term.window_ns + 20 * (took_ns + t->m.slot_ns) * 3;
    const int workers = (int)guards_range(t, 1, 20);
    struct adaptive_crowd c = {.workers = workers};

    t->signals = (struct weir_signals){1000, WEIR_NONE, WEIR_NONE, WEIR_NONE};
    for (; t->now_ns < until_ns; t->now_ns += MS)
        tick(t, &c, took_ns);
    for (c.most = 0; t->now_ns < until_ns + t->m.term.window_ns; t->now_ns += MS)
        tick(t, &c, took_ns);
    guards_expect(t, c.most == c.workers, "%d workers, and at most %d are let in", c.workers,
                  c.most);
}

void law_recovery(struct guards_case *t)
{
    if (t->seed % 4 == 0 && t->seed / 4 % 20 != 0)
        return; /* a crowd takes its time: one in twenty */
    open_adaptive(t, true);
    run_chaos(t);
    calm_down(t);
    if (t->failed)
        return;
    if (is_bbr(t))
        recover_bbr(t);
    else
        recover_learner(t);
}
