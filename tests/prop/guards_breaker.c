/* The breaker: against a model that keeps every call, and from anywhere back to closed. */
#include "guards.h"

#define ENDED 4096
#define DAY   (86400 * SEC)

/* The breaker, written as if time and memory were unlimited. */
struct breaker_model {
    enum weir_guard_state state;
    int64_t until_ns, since_ns, open_ns;
    int64_t granted, good, bad, slow; /* of the probes; good and bad have ended */
    struct {
        int64_t at_ns;
        bool error, slow;
    } ended[ENDED];
    int n;
};

static struct breaker_model model;

static bool is_strict(const struct weir_term *t)
{
    return t->preset == WEIR_PRESET_HYSTRIX || t->preset == WEIR_PRESET_RESILIENCE4J;
}

static void model_open(struct breaker_model *m, int64_t open_ns, int64_t now_ns)
{
    m->state = WEIR_OPENED;
    m->open_ns = open_ns;
    m->until_ns = now_ns + open_ns;
    m->n = 0;
}

static int64_t longer(const struct weir_term *t, int64_t open_ns)
{
    const weir__u128 ns = (weir__u128)open_ns * (weir__u128)t->growth_milli / 1000;

    return ns > (weir__u128)t->open_most_ns ? t->open_most_ns : (int64_t)ns;
}

/* What time alone does. */
static void model_pass(struct breaker_model *m, const struct weir_term *t, int64_t now_ns)
{
    if (m->state == WEIR_HALF_OPEN && now_ns >= m->since_ns + t->probe_ns)
        model_open(m, longer(t, m->open_ns), m->since_ns + t->probe_ns);
    if (m->state == WEIR_OPENED && now_ns >= m->until_ns + DAY)
        m->state = WEIR_CLOSED;
    if (t->window_ns == WEIR_NONE && m->n > 0 && now_ns >= m->ended[m->n - 1].at_ns + DAY)
        m->n = 0;
}

static bool model_enters(struct breaker_model *m, const struct weir_term *t, int64_t now_ns)
{
    if (m->state == WEIR_CLOSED)
        return true;
    if (m->state == WEIR_OPENED) {
        if (is_strict(t) ? now_ns <= m->until_ns : now_ns < m->until_ns)
            return false;
        m->state = WEIR_HALF_OPEN;
        m->since_ns = now_ns;
        m->granted = m->good = m->bad = m->slow = 0;
    }
    if (m->granted == t->probes)
        return false;
    m->granted++;
    return true;
}

/* Of all ended calls, those in the window. */
static void model_count(const struct breaker_model *m, const struct weir_term *t, int64_t now_ns,
                        int64_t *all, int64_t *errors, int64_t *slow)
{
    const int64_t slot = t->window_ns == WEIR_NONE ? 1 : t->window_ns / t->slots;

    *all = *errors = *slow = 0;
    for (int i = 0; i < m->n; i++) {
        const bool in = t->window_ns == WEIR_NONE
                            ? i >= m->n - t->window_calls
                            : now_ns / slot - m->ended[i].at_ns / slot < t->slots;

        *all += in;
        *errors += in && m->ended[i].error;
        *slow += in && m->ended[i].slow;
    }
}

static bool share_trips(const struct weir_term *t, int64_t some, int64_t all, int64_t milli,
                        bool slow)
{
    const double share = (double)some / (double)all, bound = (double)milli / 1000;

    if (milli == WEIR_NONE)
        return false;
    if (slow && milli == 1000)
        return some == all;
    if (t->preset == WEIR_PRESET_SENTINEL)
        return share > bound;
    if (t->preset == WEIR_PRESET_HYSTRIX)
        return (double)(int)(share * 100 + 1e-9) >= bound * 100 - 1e-9;
    return share >= bound;
}

static bool model_trips(const struct breaker_model *m, const struct weir_term *t, int64_t now_ns)
{
    int64_t all, errors, slow;
    bool shares;

    model_count(m, t, now_ns, &all, &errors, &slow);
    shares = share_trips(t, errors, all, t->errors_milli, false) ||
             share_trips(t, slow, all, t->slow_milli, true);
    if (shares && all >= t->volume)
        return true;
    if (t->error_count == WEIR_NONE)
        return false;
    return t->preset == WEIR_PRESET_SENTINEL ? errors > t->error_count && all >= t->volume
                                             : errors >= t->error_count;
}

static void model_probe(struct breaker_model *m, const struct weir_term *t, int64_t now_ns,
                        bool error, bool slow)
{
    const bool minds = t->errors_milli != WEIR_NONE || t->error_count != WEIR_NONE;
    const bool is_bad = (error && minds) || (slow && t->slow_milli != WEIR_NONE);
    const int64_t enough = weir__max(1, weir__min(t->volume, t->probes));
    bool fails = is_bad, done;

    m->bad += error;
    m->good += !error;
    m->slow += slow;
    done = m->good + m->bad == t->probes;
    if (t->preset == WEIR_PRESET_RESILIENCE4J) {
        const int64_t all = m->good + m->bad;

        done = all >= enough;
        fails = done && (share_trips(t, m->bad, all, t->errors_milli, false) ||
                         share_trips(t, m->slow, all, t->slow_milli, true) ||
                         (t->error_count != WEIR_NONE && m->bad > 0));
    }
    if (fails) {
        model_open(m, longer(t, m->open_ns), now_ns);
    } else if (done) {
        m->state = WEIR_CLOSED;
        m->n = t->preset == WEIR_PRESET_HYSTRIX;
        m->ended[0].at_ns = now_ns;
        m->ended[0].error = error;
        m->ended[0].slow = slow;
    }
}

static void model_leaves(struct breaker_model *m, const struct weir_term *t, int64_t entered_ns,
                         int64_t now_ns, enum weir_outcome how)
{
    const bool error = how == WEIR_ERROR || how == WEIR_DROP;
    const bool slow = t->slow_milli != WEIR_NONE && now_ns - entered_ns > t->slow_ns;

    if (m->state == WEIR_HALF_OPEN && entered_ns >= m->since_ns) {
        if (how == WEIR_IGNORE)
            m->granted--;
        else
            model_probe(m, t, now_ns, error, slow);
        return;
    }
    if (m->state != WEIR_CLOSED || how == WEIR_IGNORE || m->n == ENDED)
        return;
    m->ended[m->n].at_ns = now_ns;
    m->ended[m->n].error = error;
    m->ended[m->n++].slow = slow;
    if (model_trips(m, t, now_ns))
        model_open(m, t->open_ns, now_ns);
}

static void check_retry(struct guards_case *t, const struct weir_verdict *v)
{
    const int64_t then = t->now_ns + v->retry_after_ns;

    guards_expect(t, v->reason == WEIR_OPEN, "refused for another reason");
    if (v->retry_after_ns == 0)
        return;
    guards_expect(t, !guards_peek(t, 1, then - 1, 0).allowed, "lets in a nanosecond too early");
    guards_expect(t, guards_peek(t, 1, then, 0).allowed, "does not let in when it said");
}

/* `remaining` is the largest cost that is let in: any, or none. */
static void check_remaining(struct guards_case *t)
{
    const int64_t left = guards_peek(t, 0, t->now_ns, UINT64_MAX).remaining;

    guards_expect(t, left == 0 || left == t->m.limit, "remaining is %" PRId64, left);
    guards_expect(t,
                  guards_peek(t, weir__max(1, left), t->now_ns, UINT64_MAX).allowed == (left > 0),
                  "remaining is %" PRId64 ", and that is not so", left);
}

/* The probes that were let in, as the state has them. */
static int64_t probes_out(const struct guards_case *t)
{
    return weir__state_part(&t->key.s) & UINT32_MAX;
}

/* Moves to a time that may matter, or a little further. */
static void move_on(struct guards_case *t)
{
    const int64_t slot = t->m.slot_ns > 0 ? t->m.slot_ns : 100 * MS;

    switch (guards_odds(t, 100) ? 10 : guards_range(t, 0, 9)) {
    case 10:
        t->now_ns += DAY + (guards_odds(t, 2) ? guards_range(t, -1, 1) : t->m.term.open_ns);
        break;
    case 0: t->now_ns += slot - t->now_ns % slot - guards_odds(t, 2); break;
    case 1: t->now_ns += t->m.term.open_ns + guards_range(t, -1, 1); break;
    case 2: t->now_ns += t->m.term.probe_ns + guards_range(t, -1, 1); break;
    case 3:
    case 4: t->now_ns += guards_range(t, 0, 1000) * MS; break;
    default: t->now_ns += guards_range(t, 0, 20) * MS; break;
    }
}

void law_breaker(struct guards_case *t)
{
    const int64_t sick = guards_range(t, 1, 5); /* how many of six calls fail */

    do
        guards_draft(t, WEIR_BREAKER, true);
    while (t->term.preset == WEIR_PRESET_SRE);
    guards_open_limit(t, guards_range(t, 0, WEIR__NOW_MAX / 2));
    model = (struct breaker_model){.state = WEIR_CLOSED};
    for (t->step = 1; t->step <= 400 && !t->failed; t->step++) {
        move_on(t);
        model_pass(&model, &t->term, t->now_ns);
        check_forgotten(t);
        check_remaining(t);
        if (t->calls < CALLS && (t->calls == 0 || guards_odds(t, 2))) {
            const bool expected = model_enters(&model, &t->term, t->now_ns);
            const struct weir_verdict v = guards_enter(t, guards_range(t, 1, 9), 0);

            guards_expect(t, v.allowed == expected, "let in: %d, should: %d", v.allowed, expected);
            if (!v.allowed)
                check_retry(t, &v);
        } else {
            const int i = (int)guards_range(t, 0, t->calls - 1);
            const enum weir_outcome how = guards_odds(t, 12)             ? WEIR_IGNORE
                                          : guards_range(t, 1, 6) > sick ? WEIR_SUCCESS
                                          : guards_odds(t, 2)            ? WEIR_DROP
                                                                         : WEIR_ERROR;

            model_leaves(&model, &t->term, t->call[i].entered_ns, t->now_ns, how);
            guards_leave(t, i, how);
        }
        guards_expect(t, guards_view(t).state == model.state, "stands at %d, should at %d",
                      guards_view(t).state, model.state);
    }
}

/* ---- Never stuck --------------------------------------------------------------------------- */

static void get_lost(struct guards_case *t)
{
    for (t->step = 1; t->step <= 150 && !t->failed; t->step++) {
        guards_jump_clock(t);
        if (t->calls < CALLS && (t->calls == 0 || guards_odds(t, 2)))
            (void)guards_enter(t, 1, guards_draw(t));
        else
            guards_leave(t, (int)guards_range(t, 0, t->calls - 1),
                         guards_odds(t, 3) ? WEIR_SUCCESS
                                           : (enum weir_outcome)guards_range(t, 1, WEIR_IGNORE));
        guards_expect(t,
                      guards_view(t).state != WEIR_HALF_OPEN || probes_out(t) <= t->m.term.probes,
                      "more probes than there are");
        check_remaining(t);
    }
}

/* The calls in flight never end. A new caller enters soon, and succeeds. */
void law_never_stuck(struct guards_case *t)
{
    int64_t waited = 0, tries = 0;

    guards_draft(t, WEIR_BREAKER, guards_odds(t, 2));
    guards_open_limit(t, guards_range(t, 0, WEIR__NOW_MAX / 2));
    get_lost(t);
    if (t->now_ns > WEIR__NOW_MAX / 2) /* leave room for the waits; a step back, then */
        t->now_ns = WEIR__NOW_MAX / 2;
    t->calls = 0;
    while (guards_view(t).state != WEIR_CLOSED && !t->failed && tries++ < 100) {
        const struct weir_verdict v = guards_enter(t, 1, UINT64_MAX);

        if (v.allowed) {
            guards_leave_now(t, WEIR_SUCCESS);
        } else {
            const int64_t wait = v.retry_after_ns > 0 ? v.retry_after_ns : t->m.term.probe_ns;

            t->now_ns += wait;
            waited += wait;
        }
        if (t->term.preset == WEIR_PRESET_SRE) /* its window passes */
            t->now_ns += t->term.window_ns;
    }
    guards_expect(t, guards_view(t).state == WEIR_CLOSED,
                  "still not closed after %" PRId64 " tries", tries);
    guards_expect(t, waited <= 2 * (t->m.term.probe_ns + t->m.term.open_most_ns + 1),
                  "closed after %" PRId64 " ns of waiting", waited);
}
