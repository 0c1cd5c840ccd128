/* The options of the guards and their defaults.
 *
 * A breaker's preset decides the defaults of its other options: they are those of the library that
 * the preset is named after. Where that library has no such option, the default is weir's own.
 */
#include "algo/algo.h"
#include "base/num.h"
#include "limit/options.h"

#define AT(field)  offsetof(struct weir_term, field)
#define COUNTS     "1 .. 1000000000000"
#define LIMITS_MAX INT64_C(1000000)
#define CALLS_MAX  INT64_C(1000000000)
#define NO_WORDS    \
    {               \
        {           \
            NULL, 0 \
        }           \
    }
#define NONE                  \
    {                         \
        {                     \
            "none", WEIR_NONE \
        }                     \
    }

const struct weir__option weir__concurrency_options[] = {
    {"queue", WEIR__OPTION_COUNT, AT(queue), 0, WEIR_COUNT_MAX, "0 .. 1000000000000", NO_WORDS},
    {"max-wait",
     WEIR__OPTION_DURATION,
     AT(max_wait_ns),
     0,
     WEIR_PERIOD_MAX_NS,
     "forever or " WEIR__EXPECT_SPAN,
     {{"forever", WEIR_FOREVER}}},
    {"lease", WEIR__OPTION_DURATION, AT(lease_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     "none or " WEIR__EXPECT_PERIOD, NONE},
    {.name = NULL},
};

#define SHARE(name, field)                                              \
    {                                                                   \
        name, WEIR__OPTION_PERCENT, AT(field), 1, 1000,                 \
            "none or a share such as 80% or 12.5% (0.1% .. 100%)", NONE \
    }
#define LOAD                                                                   \
    {                                                                          \
        "load", WEIR__OPTION_MILLI, AT(load_milli), 1, INT64_C(1000000000),    \
            "none or a load average such as 8 or 0.5 (0.001 .. 1000000)", NONE \
    }

const struct weir__option weir__system_options[] = {
    SHARE("cpu", cpu_milli),
    LOAD,
    SHARE("memory", memory_milli),
    SHARE("pressure", pressure_milli),
    {"rt", WEIR__OPTION_DURATION, AT(target_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     "none or " WEIR__EXPECT_PERIOD, NONE},
    {"inflight", WEIR__OPTION_COUNT, AT(most), 1, WEIR_COUNT_MAX, "none or " COUNTS, NONE},
    {"rate", WEIR__OPTION_RATE, AT(count), 0, 0, "none or COUNT/PERIOD, such as 5k/s", NONE},
    {.name = NULL},
};

const struct weir__option weir__breaker_options[] = {
    {"preset",
     WEIR__OPTION_ENUM,
     AT(preset),
     0,
     0,
     "none, hystrix, resilience4j, sentinel or sre",
     {{"none", WEIR_PRESET_NONE},
      {"hystrix", WEIR_PRESET_HYSTRIX},
      {"resilience4j", WEIR_PRESET_RESILIENCE4J},
      {"sentinel", WEIR_PRESET_SENTINEL},
      {"sre", WEIR_PRESET_SRE}}},
    SHARE("errors", errors_milli),
    {"slow", WEIR__OPTION_SHARE, AT(slow_milli), 1, 1000,
     "none or a share and a duration, such as 50%/200ms (0.1% .. 100%, 1us .. 366 days)", NONE},
    {"count", WEIR__OPTION_COUNT, AT(error_count), 1, CALLS_MAX, "none or 1 .. 1000000000", NONE},
    {"volume", WEIR__OPTION_COUNT, AT(volume), 0, CALLS_MAX, "0 .. 1000000000", NO_WORDS},
    {"window", WEIR__OPTION_WINDOW, AT(window_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     "a duration such as 10s (1us .. 366 days), or a number of calls, 1 .. 65536", NO_WORDS},
    {"buckets", WEIR__OPTION_COUNT, AT(slots), 1, WEIR_SLOTS_MAX, "1 .. 1000", NO_WORDS},
    {"open", WEIR__OPTION_DURATION, AT(open_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     WEIR__EXPECT_PERIOD, NO_WORDS},
    {"open-max", WEIR__OPTION_DURATION, AT(open_most_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     WEIR__EXPECT_PERIOD, NO_WORDS},
    {"growth", WEIR__OPTION_MILLI, AT(growth_milli), 1000, 100000,
     "1 .. 100, with at most three decimals", NO_WORDS},
    {"probes", WEIR__OPTION_COUNT, AT(probes), 1, CALLS_MAX, "1 .. 1000000000", NO_WORDS},
    {"probe-timeout", WEIR__OPTION_DURATION, AT(probe_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     WEIR__EXPECT_PERIOD, NO_WORDS},
    {"forced",
     WEIR__OPTION_ENUM,
     AT(forced),
     0,
     0,
     "none, open, closed or metrics",
     {{"none", WEIR_FORCED_NOT},
      {"open", WEIR_FORCED_OPEN},
      {"closed", WEIR_FORCED_CLOSED},
      {"metrics", WEIR_FORCED_METRICS}}},
    {.name = NULL},
};

const struct weir__option weir__bbr_options[] = {
    SHARE("cpu", cpu_milli),
    SHARE("memory", memory_milli),
    LOAD,
    {"window", WEIR__OPTION_DURATION, AT(window_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     WEIR__EXPECT_PERIOD, NO_WORDS},
    /* The current bucket does not count, so a single bucket would leave none. */
    {"buckets", WEIR__OPTION_COUNT, AT(slots), 2, WEIR_SLOTS_MAX, "2 .. 1000", NO_WORDS},
    {"cooling", WEIR__OPTION_DURATION, AT(cooling_ns), 0, WEIR_PERIOD_MAX_NS, WEIR__EXPECT_SPAN,
     NO_WORDS},
    {.name = NULL},
};

#define LIMIT(name, field)                                                           \
    {                                                                                \
        name, WEIR__OPTION_COUNT, AT(field), 1, LIMITS_MAX, "1 .. 1000000", NO_WORDS \
    }

const struct weir__option weir__vegas_options[] = {
    LIMIT("min", least),
    LIMIT("max", most),
    LIMIT("initial", initial),
    {.name = NULL},
};

const struct weir__option weir__aimd_options[] = {
    LIMIT("min", least),
    LIMIT("max", most),
    LIMIT("initial", initial),
    {"timeout", WEIR__OPTION_DURATION, AT(target_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     WEIR__EXPECT_PERIOD, NO_WORDS},
    {.name = NULL},
};

const struct weir__option weir__adaptive_rate_options[] = {
    {"min", WEIR__OPTION_COUNT, AT(least), 1, WEIR_COUNT_MAX, COUNTS, NO_WORDS},
    {"max", WEIR__OPTION_COUNT, AT(most), 1, WEIR_COUNT_MAX, COUNTS, NO_WORDS},
    {"target", WEIR__OPTION_DURATION, AT(target_ns), WEIR_PERIOD_MIN_NS, WEIR_PERIOD_MAX_NS,
     "none or " WEIR__EXPECT_PERIOD, NONE},
    {"errors", WEIR__OPTION_PERCENT, AT(errors_milli), 0, 1000,
     "a share such as 10% or 2.5% (0% .. 100%)", NO_WORDS},
    {"burst", WEIR__OPTION_COUNT, AT(burst), 1, WEIR_COUNT_MAX, COUNTS, NO_WORDS},
    {.name = NULL},
};

static const struct preset {
    int64_t errors_milli, slow_milli, slow_ns, volume, window_ns, window_calls, slots;
    int64_t open_ns, open_most_ns, growth_milli, probes;
} PRESETS[] = {
    [WEIR_PRESET_NONE] = {500, WEIR_NONE, 0, 20, 10 * WEIR__NS_PER_S, 0, 10, 5 * WEIR__NS_PER_S,
                          60 * WEIR__NS_PER_S, 2000, 1},
    [WEIR_PRESET_HYSTRIX] = {500, WEIR_NONE, 0, 20, 10 * WEIR__NS_PER_S, 0, 10, 5 * WEIR__NS_PER_S,
                             0, 2000, 1},
    [WEIR_PRESET_RESILIENCE4J] = {500, 1000, 60 * WEIR__NS_PER_S, 100, WEIR_NONE, 100, 0,
                                  60 * WEIR__NS_PER_S, 0, 1500, 10},
    [WEIR_PRESET_SENTINEL] = {500, WEIR_NONE, 0, 5, WEIR__NS_PER_S, 0, 1, 5 * WEIR__NS_PER_S, 0,
                              2000, 1},
    [WEIR_PRESET_SRE] = {400, WEIR_NONE, 0, 100, 3 * WEIR__NS_PER_S, 0, 10, 0, 0, 0, 0},
};

/* resilience4j keeps one sum per second. */
static int64_t default_buckets(const struct weir_term *t)
{
    if (t->window_ns == WEIR_NONE)
        return 0;
    if (t->preset != WEIR_PRESET_RESILIENCE4J)
        return PRESETS[t->preset].slots;
    return weir__max(1, weir__min(t->window_ns / WEIR__NS_PER_S, WEIR_SLOTS_MAX));
}

static int64_t default_errors(const struct weir_term *t)
{
    const bool other = t->slow_milli > 0 || t->error_count > 0;

    /* A Sentinel rule is about one of the three. */
    return t->preset == WEIR_PRESET_SENTINEL && other ? WEIR_NONE : PRESETS[t->preset].errors_milli;
}

static int64_t default_volume(const struct weir_term *t)
{
    const int64_t volume = PRESETS[t->preset].volume;

    return t->window_calls > 0 ? weir__min(volume, t->window_calls) : volume;
}

static void fill_breaker(const struct weir__option *o, struct weir_term *t)
{
    const struct preset *p = &PRESETS[t->preset];
    const bool sre = t->preset == WEIR_PRESET_SRE;

    switch (o->at) {
    case AT(preset): t->preset = WEIR_PRESET_NONE; break;
    case AT(errors_milli): t->errors_milli = default_errors(t); break;
    case AT(slow_milli):
        t->slow_milli = p->slow_milli;
        t->slow_ns = p->slow_ns;
        break;
    case AT(error_count): t->error_count = WEIR_NONE; break;
    case AT(volume): t->volume = default_volume(t); break;
    case AT(window_ns):
        t->window_ns = p->window_ns;
        t->window_calls = p->window_calls;
        break;
    case AT(slots): t->slots = default_buckets(t); break;
    case AT(open_ns): t->open_ns = p->open_ns; break;
    case AT(open_most_ns): t->open_most_ns = weir__max(t->open_ns, p->open_most_ns); break;
    case AT(growth_milli): t->growth_milli = p->growth_milli; break;
    case AT(probes): t->probes = p->probes; break;
    /* Longer than most calls take, so that a slow probe is not counted as lost again and again. */
    case AT(probe_ns): t->probe_ns = sre ? 0 : weir__max(t->open_ns, 10 * WEIR__NS_PER_S); break;
    case AT(forced): t->forced = WEIR_FORCED_NOT; break;
    }
}

static void fill_limits(const struct weir__option *o, struct weir_term *t)
{
    const bool vegas = t->algorithm == WEIR_VEGAS;
    const int64_t most = t->most > 0 ? t->most : vegas ? 1000 : 200;

    switch (o->at) {
    case AT(least): t->least = weir__min(vegas ? 1 : 20, most); break;
    case AT(most): t->most = weir__max(vegas ? 1000 : 200, t->least); break;
    case AT(initial): t->initial = weir__max(t->least, weir__min(20, t->most)); break;
    case AT(target_ns): t->target_ns = 5 * WEIR__NS_PER_S; break;
    }
}

static void fill_concurrency(const struct weir__option *o, struct weir_term *t)
{
    switch (o->at) {
    case AT(queue): t->queue = 0; break;
    case AT(max_wait_ns): t->max_wait_ns = t->queue > 0 ? WEIR__NS_PER_S : 0; break;
    case AT(lease_ns): t->lease_ns = WEIR_NONE; break;
    }
}

static void fill_bbr(const struct weir__option *o, struct weir_term *t)
{
    switch (o->at) {
    case AT(cpu_milli): t->cpu_milli = 800; break;
    case AT(memory_milli): t->memory_milli = WEIR_NONE; break;
    case AT(load_milli): t->load_milli = WEIR_NONE; break;
    case AT(window_ns): t->window_ns = 10 * WEIR__NS_PER_S; break;
    case AT(slots): t->slots = 100; break;
    case AT(cooling_ns): t->cooling_ns = WEIR__NS_PER_S; break;
    }
}

static void fill_adaptive_rate(const struct weir__option *o, struct weir_term *t)
{
    switch (o->at) {
    case AT(target_ns): t->target_ns = WEIR_NONE; break;
    case AT(errors_milli): t->errors_milli = 100; break;
    case AT(burst): t->burst = t->count; break;
    default: weir__option_set(o, t, 0); break; /* min and max must be given */
    }
}

void weir__guard_option_fill(const struct weir__option *o, struct weir_term *t)
{
    switch (t->algorithm) {
    case WEIR_CONCURRENCY: fill_concurrency(o, t); return;
    case WEIR_SYSTEM: weir__option_set(o, t, WEIR_NONE); return;
    case WEIR_BREAKER: fill_breaker(o, t); return;
    case WEIR_BBR: fill_bbr(o, t); return;
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD: fill_limits(o, t); return;
    case WEIR_ADAPTIVE_RATE: fill_adaptive_rate(o, t); return;
    case WEIR__RATES: return;
    }
}
