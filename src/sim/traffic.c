/* Makes the events of phases of load.
 *
 * The arithmetic is on whole numbers, and where it cannot be, on the four IEEE operations alone: a
 * logarithm or a power from a library rounds differently from machine to machine, and a simulation
 * that cannot be repeated proves nothing. */
#include "sim/traffic.h"

#include <string.h>

#include "base/num.h"
#include "sim/splitmix.h"

/* ---- When the k-th event of a phase comes ---------------------------------------------------- */

/* A ramp from a to b events per period p over d has had a t/p + (b - a) t^2/(2 d p) events by t.
 * The k-th comes at the least t for which that reaches k. It never falls, so bisection finds t. */
static int64_t ramp_time(const struct traffic_phase *p, int64_t k)
{
    const double d = (double)(p->end_ns - p->start_ns), a = (double)p->from, b = (double)p->to;
    int64_t lo = 0, hi = p->end_ns - p->start_ns;

    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;
        const double share = (double)middle / d; /* plain IEEE operations: the same everywhere */
        const double so_far = (a + (b - a) * share / 2) * ((double)middle / (double)p->period_ns);

        if (so_far >= (double)k)
            hi = middle;
        else
            lo = middle + 1;
    }
    return lo;
}

/* -ln(u / 2^64) in 2^-40, by squaring: each square yields one bit of the logarithm. */
static int64_t minus_log(uint64_t u)
{
    const int64_t ln2 = INT64_C(762123384786); /* ln 2 in 2^-40 */
    int64_t log2 = 63 - __builtin_clzll(u | 1);
    uint64_t m = (u | 1) << (63 - log2); /* 1.63 fixed point, in 1..2 */

    for (int bit = 0; bit < 40; bit++) {
        const weir__u128 square = (weir__u128)m * m; /* 2.126 */
        const bool two = square >> 127;

        m = (uint64_t)(two ? square >> 64 : square >> 63);
        log2 = log2 * 2 + two;
    }
    return (int64_t)(weir__wide((INT64_C(64) << 40) - log2) * weir__wide(ln2) >> 40);
}

static int64_t poisson_gap(struct traffic_phase *p)
{
    const int64_t units = minus_log(sim_random(&p->random));

    return (int64_t)((weir__wide(units) * weir__wide(p->period_ns) / weir__wide(p->from)) >> 40);
}

static void phase_advance(struct traffic_phase *p)
{
    int64_t at = p->start_ns;

    switch (p->kind) {
    case TRAFFIC_STEADY: at += weir__mul_div(p->made, p->period_ns, p->from); break;
    case TRAFFIC_RAMP: at += ramp_time(p, p->made); break;
    case TRAFFIC_POISSON: at = p->next_ns + poisson_gap(p); break;
    case TRAFFIC_BURST: at = p->made < p->from ? p->start_ns : p->end_ns; break;
    }
    p->next_ns = at < p->end_ns ? at : -1;
}

static void phase_begin(struct traffic_phase *p)
{
    p->next_ns = p->start_ns;
    if (p->kind == TRAFFIC_POISSON)
        p->next_ns += poisson_gap(p);
    if (p->next_ns >= p->end_ns)
        p->next_ns = -1;
}

/* ---- The text -------------------------------------------------------------------------------- */

static bool read_per(struct weir__slice s, int64_t *period_ns)
{
    if (s.len == 0)
        return false;
    s = (struct weir__slice){s.at + 1, s.len - 1}; /* skip the / */
    return weir__parse_unit(s, period_ns) ||
           (weir__parse_duration(s, period_ns) == WEIR__NUMBER_OK && *period_ns > 0 &&
            *period_ns <= WEIR_PERIOD_MAX_NS);
}

/* 50/s, or 0..500/s for a ramp. */
static bool read_rate(struct traffic_phase *p, struct weir__slice word)
{
    struct weir__slice rest = word, low = weir__slice_cut(&rest, '/');
    const struct weir__slice all = low;

    if (!read_per(rest, &p->period_ns))
        return false;
    if (p->kind != TRAFFIC_RAMP)
        return weir__parse_count(low, &p->from) == WEIR__NUMBER_OK && p->from > 0 &&
               p->from <= WEIR_COUNT_MAX;
    for (size_t i = 0; i + 2 <= all.len; i++) {
        const struct weir__slice high = {all.at + i + 2, all.len - i - 2};

        if (all.at[i] != '.' || all.at[i + 1] != '.')
            continue;
        low.len = i;
        return weir__parse_count(low, &p->from) == WEIR__NUMBER_OK &&
               weir__parse_count(high, &p->to) == WEIR__NUMBER_OK && p->from <= WEIR_COUNT_MAX &&
               p->to <= WEIR_COUNT_MAX && p->from + p->to > 0;
    }
    return false;
}

static bool phase_read_setting(struct traffic_phase *p, struct weir__slice word,
                               struct sim_error *error)
{
    struct weir__slice value = word;
    const struct weir__slice name = weir__slice_cut(&value, '=');
    int64_t seed = 0;
    bool ok = false;

    if (value.len > 0)
        value = (struct weir__slice){value.at + 1, value.len - 1};
    if (weir__slice_is(name, "key") && value.len > 0 && value.len <= 64 && *value.at != '#') {
        p->key = value;
        ok = true;
    } else if (weir__slice_is(name, "keys")) {
        ok = weir__parse_count(value, &p->keys) == WEIR__NUMBER_OK && p->keys > 0 &&
             p->keys <= SIM_KEYS_MAX;
    } else if (weir__slice_is(name, "cost")) {
        ok = weir__parse_count(value, &p->cost) == WEIR__NUMBER_OK;
    } else if (weir__slice_is(name, "seed") && p->kind == TRAFFIC_POISSON) {
        ok = weir__parse_int(value, &seed) == WEIR__NUMBER_OK;
        p->random = (uint64_t)seed;
    }
    return ok || sim_fail_word(error, "traffic: ", word,
                               " is not valid here; expected key=NAME, keys=N, cost=N or, with "
                               "poisson, seed=N");
}

/* burst 200 at 59s */
static bool read_burst(struct traffic_phase *p, struct weir__slice *rest)
{
    return weir__parse_count(weir__slice_word(rest), &p->from) == WEIR__NUMBER_OK && p->from > 0 &&
           weir__slice_is(weir__slice_word(rest), "at") &&
           weir__parse_duration(weir__slice_word(rest), &p->start_ns) == WEIR__NUMBER_OK &&
           p->start_ns < WEIR__NOW_MAX;
}

static bool phase_read_length(struct traffic_phase *p, struct weir__slice *rest, int64_t *cursor)
{
    int64_t length;

    p->start_ns = *cursor;
    if (weir__parse_duration(weir__slice_word(rest), &length) != WEIR__NUMBER_OK || length == 0 ||
        length > WEIR__NOW_MAX - *cursor)
        return false;
    p->end_ns = *cursor += length;
    return true;
}

/* About how many events the phase will make. */
static int64_t expected_of(const struct traffic_phase *p)
{
    const int64_t per_period = p->kind == TRAFFIC_RAMP ? (p->from + p->to) / 2 : p->from;
    const weir__u128 events = weir__wide(per_period) * weir__wide(p->end_ns - p->start_ns) /
                              weir__wide(p->kind == TRAFFIC_BURST ? 1 : p->period_ns);

    return events > INT64_MAX ? INT64_MAX : (int64_t)events;
}

static bool read_service(struct traffic *t, struct weir__slice rest, struct sim_error *error)
{
    if (t->has_service)
        return sim_fail(error, "traffic: expected one service at most");
    t->has_service = true;
    return service_spec_parse(&t->service, rest, error);
}

static bool read_phase(struct traffic *t, struct weir__slice text, int64_t *cursor,
                       struct sim_error *error)
{
    static const char *const KINDS[] = {[TRAFFIC_STEADY] = "steady",
                                        [TRAFFIC_RAMP] = "ramp",
                                        [TRAFFIC_POISSON] = "poisson",
                                        [TRAFFIC_BURST] = "burst"};
    struct weir__slice rest = text, word = weir__slice_word(&rest);
    struct traffic_phase p = {.cost = 1, .keys = 0, .key = {"k", 1}};
    int kind = 0;

    if (weir__slice_is(word, "service"))
        return read_service(t, rest, error);
    if (weir__slice_is(word, "pause"))
        return phase_read_length(&p, &rest, cursor) ||
               sim_fail(error, "traffic: expected 'pause DURATION'");
    while (kind <= TRAFFIC_BURST && !weir__slice_is(word, KINDS[kind]))
        kind++;
    if (kind > TRAFFIC_BURST)
        return sim_fail_word(error, "traffic: unknown phase ", word,
                             "; expected steady, ramp, poisson, burst, pause or service");
    p.kind = (enum traffic_kind)kind;
    if (p.kind == TRAFFIC_BURST) {
        if (!read_burst(&p, &rest))
            return sim_fail(error,
                            "traffic: expected 'burst COUNT at TIME', such as 'burst 200 at 59s'");
        p.end_ns = p.start_ns + 1;
    } else if (!read_rate(&p, weir__slice_word(&rest)) || !phase_read_length(&p, &rest, cursor)) {
        return sim_fail(error, "traffic: expected '%s', such as '%s'",
                        p.kind == TRAFFIC_RAMP ? "ramp COUNT..COUNT/PERIOD DURATION"
                                               : "steady|poisson COUNT/PERIOD DURATION",
                        p.kind == TRAFFIC_RAMP ? "ramp 0..500/s 30s" : "steady 50/s 10s");
    }
    while ((word = weir__slice_word(&rest)).len > 0)
        if (!phase_read_setting(&p, word, error))
            return false;
    t->end_ns = weir__max(t->end_ns, p.end_ns);
    t->expected = weir__add_sat(t->expected, expected_of(&p));
    if (t->expected > TRAFFIC_EVENTS_MAX)
        return sim_fail(error, "traffic: more than 100000000 events");
    if (t->n == TRAFFIC_PHASES_MAX)
        return sim_fail(error, "traffic: at most %d phases are accepted", TRAFFIC_PHASES_MAX);
    phase_begin(&p);
    t->phase[t->n++] = p;
    return true;
}

bool traffic_parse(struct traffic *t, struct weir__slice text, struct sim_error *error)
{
    int64_t cursor = 0;

    *t = (struct traffic){0};
    while (text.len > 0) {
        struct weir__slice phase = weir__slice_cut(&text, ';'), blank = phase;

        if (text.len > 0)
            text = (struct weir__slice){text.at + 1, text.len - 1};
        if (weir__slice_word(&blank).len > 0 && !read_phase(t, phase, &cursor, error))
            return false;
    }
    if (t->n == 0)
        return sim_fail(error,
                        "traffic: expected phases such as 'steady 50/s 10s; burst 200 at 59s'");
    return true;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static struct weir__slice traffic_key(struct traffic *t, const struct traffic_phase *p)
{
    struct weir__out o = {t->key, sizeof t->key, 0};

    if (p->keys == 0)
        return p->key;
    weir__out_bytes(&o, p->key.at, p->key.len);
    weir__out_int(&o, p->made % p->keys);
    return (struct weir__slice){t->key, o.len};
}

bool traffic_next(struct traffic *t, struct sim_event *event, struct sim_error *error)
{
    struct traffic_phase *first = NULL;

    for (int i = 0; i < t->n; i++) {
        struct traffic_phase *p = &t->phase[i];

        if (p->next_ns >= 0 && (!first || p->next_ns < first->next_ns))
            first = p;
    }
    error->text[0] = '\0';
    if (!first)
        return false;
    if (t->made++ == TRAFFIC_EVENTS_MAX)
        return sim_fail(error, "traffic: more than 100000000 events");
    *event = (struct sim_event){.verb = t->has_service ? SIM_ENTER : SIM_TAKE,
                                .timed = true,
                                .time_ns = first->next_ns,
                                .key = traffic_key(t, first),
                                .cost = first->cost,
                                .patience_ns = WEIR_WAIT_DEFAULT};
    first->made++;
    phase_advance(first);
    return true;
}
