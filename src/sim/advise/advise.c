/* Finds the limits that fit a log, and tries them on the part of it that they did not see. */
#include "sim/advise/advise.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"

const int64_t ADVISE_SHARE[ADVISE_SHARES] = {0, 1, 10, 50};

/* ---- Rates ----------------------------------------------------------------------------------- */

#define PER_H (3600 * WEIR__NS_PER_S)
#define PER_M (60 * WEIR__NS_PER_S)
#define PER_S WEIR__NS_PER_S

/* Rates that people write, for requests that cost about 1. */
static const struct envelope_rate LADDER[] = {
    {6, PER_H},    {10, PER_H},   {20, PER_H},   {30, PER_H},    {1, PER_M},   {2, PER_M},
    {3, PER_M},    {5, PER_M},    {10, PER_M},   {15, PER_M},    {20, PER_M},  {30, PER_M},
    {1, PER_S},    {2, PER_S},    {3, PER_S},    {5, PER_S},     {10, PER_S},  {20, PER_S},
    {30, PER_S},   {50, PER_S},   {100, PER_S},  {200, PER_S},   {300, PER_S}, {500, PER_S},
    {1000, PER_S}, {2000, PER_S}, {5000, PER_S}, {10000, PER_S},
};
enum { LADDER_N = sizeof LADDER / sizeof LADDER[0] };

/* The power of ten that is nearest below the mean cost. */
static int64_t advise_scale(int64_t cost, int64_t requests)
{
    const int64_t mean = requests > 0 ? cost / requests : 1;
    int64_t scale = 1;

    while (scale <= mean / 10 && scale < INT64_C(100000000))
        scale *= 10;
    return scale;
}

static void advise_rates(struct advise *a, int64_t cost)
{
    struct envelope_rate rate[LADDER_N];
    const int64_t scale = advise_scale(cost, spool_count(a->spool));

    if (a->options.rates > 0) {
        envelope_init(&a->envelope, a->options.rate, a->options.rates);
        return;
    }
    for (int i = 0; i < LADDER_N; i++)
        rate[i] = (struct envelope_rate){LADDER[i].count * scale, LADDER[i].period_ns};
    envelope_init(&a->envelope, rate, LADDER_N);
}

/* ---- The frontier ---------------------------------------------------------------------------- */

/* The value that would have this place if all were sorted, the largest first. */
static int64_t value_at_place(int64_t *value, int64_t n, int64_t place)
{
    int64_t low = 0, high = n - 1;

    while (low < high) {
        const int64_t pivot = value[low + (high - low) / 2];
        int64_t i = low, j = high;

        while (i <= j) {
            while (value[i] > pivot)
                i++;
            while (value[j] < pivot)
                j--;
            if (i <= j) {
                const int64_t kept = value[i];

                value[i++] = value[j];
                value[j--] = kept;
            }
        }
        if (place <= j)
            high = j;
        else if (place >= i)
            low = i;
        else
            break;
    }
    return value[place];
}

/* Up to two digits that are not 0, rounded up: 187 is 190. */
static int64_t round_burst(int64_t burst)
{
    int64_t unit = 1;

    while (burst / unit >= 100)
        unit *= 10;
    return weir__div_ceil(burst, unit) * unit;
}

static void point_text(struct advise_point *p)
{
    struct weir__out o = {p->text, sizeof p->text, 0};

    weir__out_text(&o, "token-bucket ");
    weir__out_int(&o, p->rate.count);
    weir__out_text(&o, "/");
    weir__out_period(&o, p->rate.period_ns);
    weir__out_text(&o, " burst=");
    weir__out_int(&o, p->burst);
    (void)weir__out_end(&o);
}

/* What the bursts of all clients say about one rate. `value` has room for all. */
static void point_make(const struct advise *a, int rate, int64_t *value, struct advise_point *p)
{
    const struct advise_options *const o = &a->options;
    int64_t n = 0;

    *p = (struct advise_point){.rate = a->envelope.rate[rate], .index = rate};
    for (uint32_t i = 0; i < a->envelope.clients; i++)
        if (a->envelope.client[i].requests > 0)
            value[n++] = envelope_burst(&a->envelope, i, rate);
    p->needed =
        value_at_place(value, n, weir__min(weir__mul_div(n, o->refuse_milli, 100000), n - 1));
    for (int i = 0; i < ADVISE_SHARES; i++)
        p->at[i] = value_at_place(value, n, weir__min(n * ADVISE_SHARE[i] / 1000, n - 1));
    p->everyone = p->at[0];
    p->needed = weir__max(p->needed, 1);
    p->burst = p->needed == ENVELOPE_MORE ? ENVELOPE_MORE : round_burst(p->needed);
    p->most = weir__add_sat(
        p->burst,
        weir__min(INT64_MAX / 2, (int64_t)(weir__wide(o->over_ns) * weir__wide(p->rate.count) /
                                           weir__wide(p->rate.period_ns))));
    point_text(p);
}

/* Whether the limit can be written: no bucket takes more than 2^62 ns to fill. */
static bool point_is_limit(const struct advise_point *p)
{
    struct weir_limit limit;

    return p->burst != ENVELOPE_MORE && weir_limit_parse(&limit, p->text, NULL) == 0;
}

/* A higher rate is worth its place only if it needs a smaller burst. */
static bool advise_frontier(struct advise *a, struct sim_error *error)
{
    const size_t clients = a->envelope.clients;
    int64_t *const value = malloc((clients + 1) * sizeof *value);

    if (!value)
        return sim_fail(error, "out of memory");
    for (int i = 0; i < a->envelope.rates; i++) {
        struct advise_point p;

        point_make(a, i, value, &p);
        if (point_is_limit(&p) &&
            (a->options.rates > 0 || a->points == 0 || p.burst < a->point[a->points - 1].burst))
            a->point[a->points++] = p;
    }
    free(value);
    return true;
}

/* Of the limits that let a client do least (to a tenth), the one that refuses fewest requests. */
static void advise_choose(struct advise *a)
{
    int64_t least = INT64_MAX;

    for (int i = 0; i < a->points; i++)
        least = weir__min(least, a->point[i].most);
    for (int i = 0; i < a->points; i++) {
        const struct advise_point *const p = &a->point[i];

        if (p->most - least <= least / 10 &&
            (a->best < 0 || p->seen.requests_refused < a->point[a->best].seen.requests_refused))
            a->best = i;
    }
}

struct burst_at {
    const struct envelope *envelope;
    int rate;
};

static int64_t burst_of(const void *of, uint32_t i)
{
    const struct burst_at *const b = of;

    return envelope_burst(b->envelope, i, b->rate);
}

static void advise_deciding(struct advise *a)
{
    uint32_t top[ADVISE_DECIDE];
    const struct burst_at at = {&a->envelope, a->best >= 0 ? a->point[a->best].index : 0};

    if (a->best < 0)
        return;
    a->deciding = replay_top(a->envelope.clients, ADVISE_DECIDE, burst_of, &at, top);
    for (uint32_t i = 0; i < a->deciding; i++) {
        const struct envelope_client *const c = &a->envelope.client[top[i]];

        a->decides[i] = (struct advise_client){top[i], c->requests, c->cost, burst_of(&at, top[i])};
    }
}

/* ---- What the limits do ---------------------------------------------------------------------- */

/* Takes the envelopes of a part of the log. */
static bool part_envelopes(struct advise *a, int64_t from, int64_t n, struct sim_error *error)
{
    struct arrival arrival;

    envelope_forget(&a->envelope);
    if (!spool_seek(a->spool, from, error))
        return false;
    error->text[0] = '\0';
    while (n-- > 0 && spool_next(a->spool, &arrival, error))
        if (!envelope_add(&a->envelope, &arrival))
            return sim_fail(error, "out of memory");
    return !error->text[0];
}

static struct advise_part part_asked(const struct envelope *e)
{
    struct advise_part part = {0};

    for (uint32_t i = 0; i < e->clients; i++) {
        part.clients += e->client[i].requests > 0;
        part.requests += e->client[i].requests;
        part.cost = weir__add_sat(part.cost, e->client[i].cost);
    }
    return part;
}

/* Only clients whose envelope is larger than the burst are ever refused: the engine decides theirs.
 */
static bool part_runs(struct advise *a, struct run *run, int64_t n, struct sim_error *error)
{
    struct arrival arrival;

    error->text[0] = '\0';
    while (n-- > 0 && spool_next(a->spool, &arrival, error))
        for (int i = 0; i < a->points; i++) {
            const struct advise_point *const p = &a->point[i];

            if (envelope_burst(&a->envelope, arrival.client, p->index) <= p->burst)
                continue;
            if (!run[i].parts && !run_open(&run[i], p->text, roster_count(a->intake->clients),
                                           arrival.time_ns, false, error))
                return false;
            if (!run_arrival(&run[i], &arrival, error))
                return false;
        }
    return !error->text[0];
}

/* What each limit of the frontier refuses of a part of the log. */
static bool part_decide(struct advise *a, int64_t from, int64_t n, bool seen,
                        struct sim_error *error)
{
    struct run *const run = calloc(ENVELOPE_RATES, sizeof *run);
    const struct advise_part asked = part_asked(&a->envelope);
    bool good;

    if (!run)
        return sim_fail(error, "out of memory");
    good = spool_seek(a->spool, from, error) && part_runs(a, run, n, error);
    for (int i = 0; i < a->points; i++) {
        struct advise_part *const part = seen ? &a->point[i].seen : &a->point[i].unseen;

        *part = asked;
        part->clients_refused = run[i].clients_refused;
        part->requests_refused = run[i].all.refused;
        part->cost_refused = run[i].all.cost_refused;
        run_close(&run[i]);
    }
    free(run);
    return good;
}

static bool advise_read(struct advise *a, int64_t *cost, struct sim_error *error)
{
    struct arrival arrival;

    while (intake_next(a->intake, &arrival)) {
        *cost = weir__add_sat(*cost, arrival.cost);
        if (!spool_add(a->spool, &arrival, error))
            return false;
    }
    if (lines_failed(a->intake->lines))
        return sim_fail(error, "%s (behind line %lld)", lines_failed(a->intake->lines),
                        (long long)lines_number(a->intake->lines));
    return true;
}

bool advise_run(struct advise *a, const struct advise_options *options, struct sim_error *error)
{
    int64_t cost = 0;

    memset(a, 0, sizeof *a);
    a->options = *options;
    a->best = -1;
    a->intake = intake_open(&options->intake, &a->words, error);
    if (!a->intake)
        return false;
    a->words = false;
    a->spool = spool_open(error);
    if (!a->spool || !advise_read(a, &cost, error))
        return false;
    if (spool_count(a->spool) == 0)
        return true;
    a->unseen = spool_count(a->spool) / 4;
    a->seen = spool_count(a->spool) - a->unseen;
    advise_rates(a, cost);
    if (!part_envelopes(a, 0, a->seen, error) || !advise_frontier(a, error))
        return false;
    if (!part_decide(a, 0, a->seen, true, error))
        return false;
    advise_choose(a);
    advise_deciding(a);
    return part_envelopes(a, a->seen, a->unseen, error) &&
           part_decide(a, a->seen, a->unseen, false, error);
}

bool advise_replay(struct advise *a, struct run *run, struct sim_error *error)
{
    struct arrival arrival;

    error->text[0] = '\0';
    if (!spool_seek(a->spool, 0, error) ||
        !run_open(run, a->point[a->best].text, roster_count(a->intake->clients),
                  a->intake->first_ns, false, error))
        return false;
    while (spool_next(a->spool, &arrival, error))
        if (!run_arrival(run, &arrival, error))
            return false;
    if (intake_whole_seconds(a->intake))
        timeline_coarsen(&run->timeline, WEIR__NS_PER_S);
    return !error->text[0];
}

void advise_free(struct advise *a)
{
    envelope_free(&a->envelope);
    if (a->spool)
        spool_close(a->spool);
    if (a->intake)
        intake_close(a->intake);
}
