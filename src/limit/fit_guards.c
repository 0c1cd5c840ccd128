/* Whether the numbers of a guard fit together. Indices are positions in the tables of
 * guard_options.c. */
#include "algo/algo.h"
#include "limit/grammar.h"
#include "limit/options.h"

static bool fit_refuse(struct weir__parser *p, const char *at, const char *text)
{
    return weir__contradiction(p, at, WEIR_ESYNTAX, text);
}

static bool fit_out_of_range(struct weir__parser *p, const char *at, const char *text)
{
    return weir__contradiction(p, at, WEIR_ERANGE, text);
}

/* Where the option of that name was given; NULL if it was not. */
static const char *fit_given(const struct weir_term *t, const struct weir__positions *at,
                             const char *name)
{
    const struct weir__option *own = weir__options_of(t->algorithm);

    for (int i = 0; own[i].name; i++)
        if (weir__slice_is(weir__slice_of(name), own[i].name))
            return at->option[i];
    return NULL;
}

/* Where to point at: the option if it was given, else the term. */
static const char *fit_near(const struct weir_term *t, const struct weir__positions *at,
                            const char *name)
{
    const char *where = fit_given(t, at, name);

    return where ? where : at->amount;
}

static bool check_concurrency(struct weir__parser *p, const struct weir_term *t,
                              const struct weir__positions *at)
{
    if (t->queue == 0 && t->max_wait_ns > 0)
        return fit_refuse(p, fit_near(t, at, "max-wait"),
                          "max-wait needs queue=: without a queue no caller waits");
    if (t->lease_ns != WEIR_NONE && t->count > WEIR_LOG_COUNT_MAX)
        return fit_out_of_range(p, fit_near(t, at, "lease"),
                                "with a lease the count is at most 65536");
    return true;
}

static bool check_system(struct weir__parser *p, const struct weir_term *t,
                         const struct weir__positions *at)
{
    const bool any = t->cpu_milli > 0 || t->load_milli > 0 || t->memory_milli > 0 ||
                     t->pressure_milli > 0 || t->target_ns > 0 || t->most > 0 || t->count > 0;

    return any ? true
               : fit_refuse(p, at->amount, "system needs at least one signal, such as cpu=80%");
}

static bool check_bbr(struct weir__parser *p, const struct weir_term *t,
                      const struct weir__positions *at)
{
    if (t->cpu_milli == WEIR_NONE && t->memory_milli == WEIR_NONE && t->load_milli == WEIR_NONE)
        return fit_refuse(p, fit_near(t, at, "cpu"), "bbr needs one of cpu=, memory= and load=");
    return weir__slots_divide(p, fit_near(t, at, "buckets"), "buckets", t->slots, "window",
                              t->window_ns);
}

static bool check_limits(struct weir__parser *p, const struct weir_term *t,
                         const struct weir__positions *at)
{
    if (t->least > t->most)
        return fit_out_of_range(p, fit_near(t, at, "min"), "min may not exceed max");
    if (t->initial < t->least || t->initial > t->most)
        return fit_out_of_range(p, fit_near(t, at, "initial"),
                                "initial must lie within min and max");
    return true;
}

static bool check_adaptive_rate(struct weir__parser *p, const struct weir_term *t,
                                const struct weir__positions *at)
{
    if (!fit_given(t, at, "min") || !fit_given(t, at, "max"))
        return fit_refuse(p, at->amount,
                          "adaptive-rate needs min= and max=, such as min=100 max=10k");
    if (t->count < t->least || t->count > t->most)
        return fit_out_of_range(p, fit_near(t, at, t->count < t->least ? "min" : "max"),
                                "the initial rate must lie within min and max");
    if (!weir__drains(t, t->burst))
        return fit_out_of_range(p, fit_near(t, at, "burst"),
                                "that many events take more than 146 years to drain at this rate");
    return true;
}

/* The throttle has neither states nor probes. */
static bool check_sre(struct weir__parser *p, const struct weir_term *t,
                      const struct weir__positions *at)
{
    static const char *const NOT_ITS[] = {"slow",   "count",  "open",         "open-max",
                                          "growth", "probes", "probe-timeout"};

    for (size_t i = 0; i < sizeof NOT_ITS / sizeof NOT_ITS[0]; i++)
        if (fit_given(t, at, NOT_ITS[i]))
            return fit_refuse(p, fit_given(t, at, NOT_ITS[i]),
                              "preset=sre throttles by the share of errors: it takes only errors, "
                              "volume, window, buckets and forced");
    if (t->window_ns == WEIR_NONE)
        return fit_refuse(p, fit_near(t, at, "window"),
                          "preset=sre needs a window of time, such as 3s");
    if (t->errors_milli == WEIR_NONE || t->errors_milli == 1000)
        return fit_out_of_range(p, fit_near(t, at, "errors"),
                                "preset=sre needs a share of errors below 100%");
    return true;
}

static bool check_window(struct weir__parser *p, struct weir_term *t,
                         const struct weir__positions *at)
{
    if (t->window_ns != WEIR_NONE)
        return weir__slots_divide(p, fit_near(t, at, "buckets"), "buckets", t->slots, "window",
                                  t->window_ns);
    if (fit_given(t, at, "buckets"))
        return fit_refuse(p, fit_given(t, at, "buckets"),
                          "buckets needs a window of time: a window of calls has none");
    if (t->preset == WEIR_PRESET_RESILIENCE4J)
        t->volume = weir__min(t->volume, t->window_calls); /* as resilience4j does */
    if (t->volume > t->window_calls)
        return fit_out_of_range(p, fit_near(t, at, "volume"),
                                "volume may not exceed the window of calls");
    return true;
}

static bool check_breaker(struct weir__parser *p, struct weir_term *t,
                          const struct weir__positions *at)
{
    if (!check_window(p, t, at))
        return false;
    if (t->preset == WEIR_PRESET_SRE)
        return check_sre(p, t, at);
    if (t->errors_milli == WEIR_NONE && t->slow_milli == WEIR_NONE && t->error_count == WEIR_NONE)
        return fit_refuse(p, fit_near(t, at, "errors"),
                          "the breaker would never open: give errors=, slow= or count=");
    if (t->open_most_ns < t->open_ns)
        return fit_out_of_range(p, fit_near(t, at, "open-max"),
                                "open-max may not be less than open");
    return true;
}

static bool counts_refused(const struct weir_term *t)
{
    return t->algorithm == WEIR_ADAPTIVE_RATE ||
           (t->algorithm == WEIR_BREAKER && t->preset == WEIR_PRESET_SRE);
}

bool weir__guard_fits(struct weir__parser *p, struct weir_term *t, const struct weir__positions *at)
{
    if (at->common[0] && !counts_refused(t))
        return fit_refuse(
            p, at->common[0],
            "count-denied does not apply here: a refused call is not in flight and has no outcome");
    if (at->common[WEIR__COMMON_BLOCK] || at->common[WEIR__COMMON_AFTER])
        return fit_refuse(p,
                          at->common[WEIR__COMMON_BLOCK] ? at->common[WEIR__COMMON_BLOCK]
                                                         : at->common[WEIR__COMMON_AFTER],
                          "block and after are for rates: a guard refuses no key for what it did");
    if (at->common[WEIR__COMMON_WARN])
        return fit_refuse(p, at->common[WEIR__COMMON_WARN],
                          "warn is for rates: what remains of a guard is not a quota");
    switch (t->algorithm) {
    case WEIR_CONCURRENCY: return check_concurrency(p, t, at);
    case WEIR_SYSTEM: return check_system(p, t, at);
    case WEIR_BREAKER: return check_breaker(p, t, at);
    case WEIR_BBR: return check_bbr(p, t, at);
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD: return check_limits(p, t, at);
    case WEIR_ADAPTIVE_RATE: return check_adaptive_rate(p, t, at);
    case WEIR__RATES: return true;
    }
    return true;
}
