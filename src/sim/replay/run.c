/* Runs one limit over the arrivals of a log, on the engine. */
#include "sim/replay/run.h"

#include <stdlib.h>
#include <string.h>

#include "engine/embed.h"
#include "sim/replay/window.h"

#define SLIDING_LOG_MOST 65536

/* An engine in virtual time with one policy. Keys are the clients' numbers. */
struct clockwork {
    struct weir *engine;
    struct weir_policy *policy;
    int64_t now_ns;
    uint64_t random;
};

struct run_parts {
    struct clockwork judge, exact; /* the limit, and sliding logs of the same rates */
    int terms;                     /* that have windows */
    struct {
        int64_t count, period_ns;
    } term[WEIR_TERMS_MAX];
    struct window *window; /* of each client, `terms` */
    struct run_worst worst[WEIR_TERMS_MAX];
    int64_t window_bytes;
};

/* ---- Engines --------------------------------------------------------------------------------- */

static int64_t clockwork_now(void *arg)
{
    return ((const struct clockwork *)arg)->now_ns;
}

static bool clockwork_open(struct clockwork *c, const struct weir_limit *limit,
                           uint32_t max_clients, int64_t start_ns, struct sim_error *error)
{
    const struct weir_clock clock = {.now = clockwork_now, .arg = c};
    const struct weir_options options = {
        .store = "memory:",
        .max_keys = max_clients,
        .max_policies = 1,
        .clock = &clock,
        .secret = {UINT64_C(0x243f6a8885a308d3), UINT64_C(0x13198a2e03707344)}};
    char text[WEIR_LIMIT_TEXT_MAX + 1];
    struct weir_diag why = {0, "out of memory"};

    c->now_ns = start_ns;
    (void)weir_limit_print(limit, text, sizeof text);
    if (weir__engine_open_virtual(&c->engine, &options, &c->random, &why) != 0)
        return sim_fail(error, "%s", why.text);
    if (weir_policy_set(c->engine, "replay", text, &c->policy, &why) != 0)
        return sim_fail(error, "%s: %s", text, why.text);
    return true;
}

static bool clockwork_take(struct clockwork *c, const struct arrival *a, struct weir_verdict *v,
                           struct sim_error *error)
{
    const struct weir_request rq = {c->policy, &a->client, sizeof a->client, a->cost,
                                    WEIR_WAIT_DEFAULT};
    int code;

    c->now_ns = a->time_ns;
    code = weir_take_at(c->engine, &rq, a->time_ns, v);
    return code == 0 || sim_fail(error, "take: %s", weir_error_text(code));
}

/* ---- Opening --------------------------------------------------------------------------------- */

static bool run_accepts(const struct weir_limit *limit, struct sim_error *error)
{
    for (int i = 0; i < limit->n; i++)
        if (limit->term[i].algorithm >= WEIR_FIRST_GUARD)
            return sim_fail(error,
                            "'%s' judges calls by when they end, which a log of arrivals does "
                            "not say; weir sim has a simulated service for it",
                            weir_algorithm_name(limit->term[i].algorithm));
    return true;
}

/* Sliding logs of the same rates. False: one of them would be too long, or has no rate. */
static bool exact_of(const struct weir_limit *limit, struct weir_limit *exact)
{
    struct weir_limit plain;

    if (weir_limit_parse(&plain, "sliding-log 1/s", NULL) != 0)
        return false;
    exact->n = limit->n;
    for (int i = 0; i < limit->n; i++) {
        const struct weir_term *const t = &limit->term[i];

        if (t->count < 1 || t->count > SLIDING_LOG_MOST || t->period_ns < 1)
            return false;
        exact->term[i] = plain.term[0];
        exact->term[i].count = t->count;
        exact->term[i].period_ns = t->period_ns;
    }
    return true;
}

static void add_terms(struct run_parts *p, const struct weir_limit *limit)
{
    for (int i = 0; i < limit->n; i++) {
        const struct weir_term *const t = &limit->term[i];

        if (t->count < 1 || t->period_ns < 1)
            continue; /* unlimited, 0/s */
        p->term[p->terms].count = t->count;
        p->term[p->terms].period_ns = t->period_ns;
        p->worst[p->terms++] = (struct run_worst){0, t->count, t->period_ns, 0};
    }
}

bool run_open(struct run *r, const char *text, uint32_t max_clients, int64_t start_ns,
              bool compares, struct sim_error *error)
{
    struct weir_limit exact = {0};
    struct weir_diag why;

    if (weir_limit_parse(&r->limit, text, &why) != 0)
        return sim_fail(error, "%s", why.text);
    if (!run_accepts(&r->limit, error))
        return false;
    (void)weir_limit_print(&r->limit, r->text, sizeof r->text);
    r->parts = calloc(1, sizeof *r->parts);
    if (!r->parts)
        return sim_fail(error, "out of memory");
    add_terms(r->parts, &r->limit);
    r->has_wrongful = compares && exact_of(&r->limit, &exact);
    return clockwork_open(&r->parts->judge, &r->limit, max_clients, start_ns, error) &&
           (!r->has_wrongful ||
            clockwork_open(&r->parts->exact, &exact, max_clients, start_ns, error));
}

void run_close(struct run *r)
{
    struct run_parts *const p = r->parts;

    free(r->client);
    if (!p)
        return;
    for (size_t i = 0; i < (size_t)r->clients * (size_t)p->terms; i++)
        window_free(&p->window[i]);
    free(p->window);
    if (p->judge.engine)
        weir_close(p->judge.engine);
    if (p->exact.engine)
        weir_close(p->exact.engine);
    free(p);
}

/* ---- Deciding -------------------------------------------------------------------------------- */

/* Makes room for the client's counters; what is new is all zero. */
static bool run_make_room(struct run *r, uint32_t client)
{
    const size_t terms = (size_t)r->parts->terms;
    const uint32_t room = client < 512 ? 1024 : 2 * client;
    struct run_count *count;
    struct window *window;

    count = realloc(r->client, room * sizeof *count);
    if (!count)
        return false;
    r->client = count;
    memset(count + r->clients, 0, (room - r->clients) * sizeof *count);
    window = realloc(r->parts->window, (room * terms + 1) * sizeof *window);
    if (!window)
        return false;
    r->parts->window = window;
    memset(window + r->clients * terms, 0, (room - r->clients) * terms * sizeof *window);
    r->clients = room;
    return true;
}

static bool windows_add(struct run *r, const struct arrival *a, int64_t act_ns)
{
    struct run_parts *const p = r->parts;

    for (int i = 0; i < p->terms; i++) {
        struct window *const w = &p->window[a->client * (size_t)p->terms + (size_t)i];
        const int64_t bytes = window_add(w, act_ns, a->cost, p->term[i].period_ns);

        if (w->most > p->worst[i].most) {
            p->worst[i].most = w->most;
            p->worst[i].client = a->client;
        }
        if (bytes < 0)
            return false;
        p->window_bytes += bytes;
    }
    r->worst_ends = p->window_bytes > RUN_WINDOW_BYTES;
    return true;
}

static void run_count_add(struct run_count *c, const struct arrival *a,
                          const struct weir_verdict *v)
{
    c->asked++;
    c->passed += v->allowed;
    c->delayed += v->allowed && v->wait_ns > 0;
    c->refused += !v->allowed;
    c->cost_asked = weir__add_sat(c->cost_asked, a->cost);
    if (v->allowed)
        c->cost_passed = weir__add_sat(c->cost_passed, a->cost);
    else
        c->cost_refused = weir__add_sat(c->cost_refused, a->cost);
}

/* A grant is drawn when it acts: that is what shaping does to traffic. */
static void run_draw(struct run *r, const struct arrival *a, const struct weir_verdict *v,
                     int64_t act_ns)
{
    const int64_t passed = v->allowed ? a->cost : 0;

    timeline_add(&r->timeline, a->time_ns,
                 &(struct timeline_row){.asked = a->cost, .refused = a->cost - passed});
    if (v->allowed)
        timeline_add(
            &r->timeline, act_ns,
            &(struct timeline_row){.passed = passed, .delayed = v->wait_ns > 0 ? passed : 0});
}

static bool run_compare(struct run *r, const struct arrival *a, const struct weir_verdict *v,
                        struct sim_error *error)
{
    struct weir_verdict exact;

    if (!clockwork_take(&r->parts->exact, a, &exact, error))
        return false;
    r->wrongful += !v->allowed && exact.allowed;
    return true;
}

bool run_arrival(struct run *r, const struct arrival *a, struct sim_error *error)
{
    struct weir_verdict v;
    int64_t act_ns;

    if (a->client >= r->clients && !run_make_room(r, a->client))
        return sim_fail(error, "out of memory");
    if (!clockwork_take(&r->parts->judge, a, &v, error))
        return false;
    act_ns = weir__min(weir__add_sat(a->time_ns, v.wait_ns), WEIR__NOW_MAX);
    r->clients_refused += !v.allowed && r->client[a->client].refused == 0;
    run_count_add(&r->all, a, &v);
    run_count_add(&r->client[a->client], a, &v);
    r->shadowed += v.allowed && v.reason != WEIR_OK;
    r->crowded += v.overflow;
    if (v.wait_ns > r->longest_wait_ns) {
        r->longest_wait_ns = v.wait_ns;
        r->longest_client = a->client;
    }
    run_draw(r, a, &v, act_ns);
    if (r->has_wrongful && !run_compare(r, a, &v, error))
        return false;
    return !v.allowed || r->worst_ends || windows_add(r, a, act_ns) ||
           sim_fail(error, "out of memory");
}

bool run_worst(const struct run *r, struct run_worst *worst)
{
    const struct run_parts *const p = r->parts;

    for (int i = 0; i < p->terms; i++) {
        const struct run_worst *const w = &p->worst[i];

        /* w / count > worst / count, without dividing */
        if (i == 0 || weir__wide(w->most) * weir__wide(worst->count) >
                          weir__wide(worst->most) * weir__wide(w->count))
            *worst = *w;
    }
    return p->terms > 0;
}
