/* The options of the rates, and those that every algorithm has: ranges, words and defaults. */
#include "limit/options.h"

#include <string.h>

#include "base/num.h"
#include "limit/explain.h"
#include "limit/grammar.h"

#define AT(field) offsetof(struct weir_term, field)
#define COUNTS    "1 .. 1000000000000"
#define KEYS_MOST ((int64_t)WEIR_MAX_KEYS_MOST)

static const struct weir__option FIXED_WINDOW[] = {
    {"align",
     WEIR__OPTION_ENUM,
     AT(align),
     0,
     0,
     "first or clock",
     {{"first", WEIR_ALIGN_FIRST}, {"clock", WEIR_ALIGN_CLOCK}}},
    {"tz", WEIR__OPTION_ZONE, AT(tz), 0, 0, "a time zone such as Europe/Berlin", {{NULL, 0}}},
    {"anchor",
     WEIR__OPTION_ANCHOR,
     AT(anchor_s),
     0,
     0,
     "06:00 for a day, thu-21:00 for a week, 17 or 17-06:00 for a month",
     {{NULL, 0}}},
    {.name = NULL},
};

static const struct weir__option SLIDING_WINDOW[] = {
    {"slots", WEIR__OPTION_COUNT, AT(slots), 1, WEIR_SLOTS_MAX, "1 .. 1000", {{NULL, 0}}},
    {"per-slot",
     WEIR__OPTION_COUNT,
     AT(per_slot),
     1,
     WEIR_COUNT_MAX,
     "none, even or " COUNTS,
     {{"none", WEIR_NONE}, {"even", WEIR__WORD_EVEN}}},
    {.name = NULL},
};

static const struct weir__option SLIDING_LOG[] = {
    {"min-interval",
     WEIR__OPTION_DURATION,
     AT(min_interval_ns),
     0,
     WEIR_PERIOD_MAX_NS,
     WEIR__EXPECT_SPAN,
     {{NULL, 0}}},
    {.name = NULL},
};

static const struct weir__option TOKEN_BUCKET[] = {
    {"burst", WEIR__OPTION_COUNT, AT(burst), 1, WEIR_COUNT_MAX, COUNTS, {{NULL, 0}}},
    {"initial",
     WEIR__OPTION_COUNT,
     AT(initial),
     0,
     WEIR_COUNT_MAX,
     "full, empty or a count",
     {{"full", WEIR__WORD_FULL}, {"empty", 0}}},
    {.name = NULL},
};

static const struct weir__option LEAKY_BUCKET[] = {
    {"capacity", WEIR__OPTION_COUNT, AT(burst), 1, WEIR_COUNT_MAX, COUNTS, {{NULL, 0}}},
    {"delay",
     WEIR__OPTION_COUNT,
     AT(delay),
     0,
     WEIR_COUNT_MAX,
     "none or a count",
     {{"none", WEIR_NONE}}},
    {.name = NULL},
};

/* slack is stored as burst = 1 + slack; weir__option_get and _set convert it. */
static const struct weir__option PACER[] = {
    {"slack",
     WEIR__OPTION_COUNT,
     AT(burst),
     0,
     WEIR_COUNT_MAX - 1,
     "0 .. 999999999999",
     {{NULL, 0}}},
    {"queue", WEIR__OPTION_COUNT, AT(queue), 0, WEIR_COUNT_MAX, "0 .. 1000000000000", {{NULL, 0}}},
    {"max-wait",
     WEIR__OPTION_DURATION,
     AT(max_wait_ns),
     0,
     WEIR_PERIOD_MAX_NS,
     "forever or " WEIR__EXPECT_SPAN,
     {{"forever", WEIR_FOREVER}}},
    {.name = NULL},
};

static const struct weir__option SMOOTH_BURSTY[] = {
    {"max-burst",
     WEIR__OPTION_DURATION,
     AT(max_burst_ns),
     0,
     WEIR_PERIOD_MAX_NS,
     WEIR__EXPECT_SPAN,
     {{NULL, 0}}},
    {.name = NULL},
};

static const struct weir__option SMOOTH_WARMUP[] = {
    {"warmup",
     WEIR__OPTION_DURATION,
     AT(warmup_ns),
     WEIR_PERIOD_MIN_NS,
     WEIR_PERIOD_MAX_NS,
     WEIR__EXPECT_PERIOD,
     {{NULL, 0}}},
    {"cold",
     WEIR__OPTION_MILLI,
     AT(cold_milli),
     1000,
     100000,
     "1 .. 100, with at most three decimals",
     {{NULL, 0}}},
    {.name = NULL},
};

static const struct weir__option NO_OPTIONS[] = {{.name = NULL}};

static const struct weir__option COMMON[WEIR__COMMON_OPTIONS + 1] = {
    {"count-denied", WEIR__OPTION_FLAG, AT(count_denied), 0, 1, "no value", {{NULL, 0}}},
    {"shadow", WEIR__OPTION_FLAG, AT(shadow), 0, 1, "no value", {{NULL, 0}}},
    {"fallback",
     WEIR__OPTION_ENUM,
     AT(fallback),
     0,
     0,
     "local, allow or deny",
     {{"local", WEIR_FALLBACK_LOCAL},
      {"allow", WEIR_FALLBACK_ALLOW},
      {"deny", WEIR_FALLBACK_DENY}}},
    {"warn", WEIR__OPTION_PERCENT, AT(warn_milli), 1, 1000, "0.1% .. 100%", {{NULL, 0}}},
    {"block",
     WEIR__OPTION_GROWTH,
     AT(block_ns),
     WEIR_PERIOD_MIN_NS,
     WEIR_PERIOD_MAX_NS,
     "a duration, or two such as 1m..1h (1us .. 366 days, the first no longer than the second)",
     {{NULL, 0}}},
    {"after", WEIR__OPTION_COUNT, AT(block_after), 1, 1000000, "1 .. 1000000", {{NULL, 0}}},
    {"keys", WEIR__OPTION_COUNT, AT(keys), 1, KEYS_MOST, "1 .. 3000000000", {{NULL, 0}}},
    {"full",
     WEIR__OPTION_ENUM,
     AT(full),
     0,
     0,
     "evict, deny or allow",
     {{"evict", WEIR_FULL_EVICT + 1},
      {"deny", WEIR_FULL_DENY + 1},
      {"allow", WEIR_FULL_ALLOW + 1}}},
    {.name = NULL},
};

static const struct weir__option *const OPTIONS[] = {
    [WEIR_FIXED_WINDOW] = FIXED_WINDOW,
    [WEIR_SLIDING_WINDOW] = SLIDING_WINDOW,
    [WEIR_SLIDING_COUNTER] = NO_OPTIONS,
    [WEIR_SLIDING_LOG] = SLIDING_LOG,
    [WEIR_TOKEN_BUCKET] = TOKEN_BUCKET,
    [WEIR_LEAKY_BUCKET] = LEAKY_BUCKET,
    [WEIR_PACER] = PACER,
    [WEIR_SMOOTH_BURSTY] = SMOOTH_BURSTY,
    [WEIR_SMOOTH_WARMUP] = SMOOTH_WARMUP,
    [WEIR_MIN_INTERVAL] = NO_OPTIONS,
    [WEIR_UNLIMITED] = NO_OPTIONS,
    [WEIR_ZERO] = NO_OPTIONS,
    [WEIR_CONCURRENCY] = weir__concurrency_options,
    [WEIR_SYSTEM] = weir__system_options,
    [WEIR_BREAKER] = weir__breaker_options,
    [WEIR_BBR] = weir__bbr_options,
    [WEIR_VEGAS] = weir__vegas_options,
    [WEIR_GRADIENT] = weir__vegas_options,
    [WEIR_AIMD] = weir__aimd_options,
    [WEIR_ADAPTIVE_RATE] = weir__adaptive_rate_options,
    [WEIR__ANY_ALGORITHM] = COMMON,
};

enum weir__amount weir__amount_of(enum weir_algorithm algorithm)
{
    switch (algorithm) {
    case WEIR_MIN_INTERVAL: return WEIR__AMOUNT_INTERVAL;
    case WEIR_CONCURRENCY: return WEIR__AMOUNT_COUNT;
    case WEIR_UNLIMITED:
    case WEIR_ZERO:
    case WEIR_SYSTEM:
    case WEIR_BREAKER:
    case WEIR_BBR:
    case WEIR_VEGAS:
    case WEIR_GRADIENT:
    case WEIR_AIMD: return WEIR__AMOUNT_NOTHING;
    case WEIR_FIXED_WINDOW:
    case WEIR_SLIDING_WINDOW:
    case WEIR_SLIDING_COUNTER:
    case WEIR_SLIDING_LOG:
    case WEIR_TOKEN_BUCKET:
    case WEIR_LEAKY_BUCKET:
    case WEIR_PACER:
    case WEIR_SMOOTH_BURSTY:
    case WEIR_SMOOTH_WARMUP:
    case WEIR_ADAPTIVE_RATE: return WEIR__AMOUNT_RATE;
    }
    return WEIR__AMOUNT_RATE;
}

const struct weir__option *weir__options_of(unsigned algorithm)
{
    return OPTIONS[algorithm];
}

static const struct weir__option *option_find_in(unsigned algorithm, struct weir__slice name)
{
    for (const struct weir__option *o = OPTIONS[algorithm]; o->name; o++)
        if (weir__slice_is(name, o->name))
            return o;
    return NULL;
}

const struct weir__option *weir__option_find(unsigned algorithm, struct weir__slice name)
{
    const struct weir__option *own = option_find_in(algorithm, name);

    return own ? own : option_find_in(WEIR__ANY_ALGORITHM, name);
}

static bool is_slack(const struct weir__option *o)
{
    return o == &PACER[0];
}

int64_t weir__option_get(const struct weir__option *o, const struct weir_term *t)
{
    int64_t wide;
    int word;

    if (o->kind == WEIR__OPTION_ENUM || o->kind == WEIR__OPTION_FLAG) {
        memcpy(&word, (const char *)t + o->at, sizeof word);
        return word;
    }
    memcpy(&wide, (const char *)t + o->at, sizeof wide);
    if (o->kind == WEIR__OPTION_RATE && wide == 0)
        return WEIR_NONE;
    return is_slack(o) ? wide - 1 : wide;
}

void weir__option_set(const struct weir__option *o, struct weir_term *t, int64_t value)
{
    const int word = (int)value;
    const int64_t wide = is_slack(o) ? value + 1 : value;

    if (o->kind ==
        WEIR__OPTION_RATE) { /* "none": the only value of a rate that is a single number */
        t->count = t->period_ns = 0;
        return;
    }
    if (o->kind == WEIR__OPTION_SHARE)
        t->slow_ns = 0;
    if (o->kind == WEIR__OPTION_GROWTH)
        t->block_most_ns = value;
    if (o->kind == WEIR__OPTION_ENUM || o->kind == WEIR__OPTION_FLAG)
        memcpy((char *)t + o->at, &word, sizeof word);
    else
        memcpy((char *)t + o->at, &wide, sizeof wide);
}

static int64_t option_default(const struct weir__option *o, const struct weir_term *t)
{
    if (o == &FIXED_WINDOW[0])
        return t->calendar == WEIR_DURATION ? WEIR_ALIGN_FIRST : WEIR_ALIGN_CLOCK;
    if (o == &SLIDING_WINDOW[0])
        return 10;
    if (o == &SLIDING_WINDOW[1] || o == &LEAKY_BUCKET[1])
        return WEIR_NONE;
    if (o == &TOKEN_BUCKET[0] || o == &LEAKY_BUCKET[0])
        return t->count;
    if (o == &TOKEN_BUCKET[1])
        return t->burst;
    if (o == &PACER[1])
        return 1000;
    if (o == &PACER[2])
        return WEIR_FOREVER;
    if (o == &SMOOTH_BURSTY[0])
        return WEIR__NS_PER_S;
    if (o == &SMOOTH_WARMUP[1])
        return 3000;
    return 0;
}

static bool is_common(const struct weir__option *o)
{
    for (const struct weir__option *x = COMMON; x->name; x++)
        if (x == o)
            return true;
    return false;
}

void weir__option_fill(const struct weir__option *o, struct weir_term *t)
{
    if (o == &COMMON[0]) /* the SRE book's throttle counts what it refuses */
        t->count_denied = t->preset == WEIR_PRESET_SRE;
    else if (t->algorithm >= WEIR_FIRST_GUARD && !is_common(o))
        weir__guard_option_fill(o, t);
    else if (o->kind != WEIR__OPTION_ZONE) /* fit.c knows whether it needs one */
        weir__option_set(o, t, option_default(o, t));
}

bool weir__option_is_default(const struct weir__option *o, const struct weir_term *t)
{
    struct weir_term filled = *t;

    if (o->kind == WEIR__OPTION_ZONE)
        return t->tz[0] == '\0' || weir__slice_is(weir__slice_of(t->tz), "UTC");
    weir__option_fill(o, &filled);
    return memcmp(&filled, t, sizeof filled) == 0;
}

bool weir__option_applies(const struct weir__option *o, const struct weir_term *t)
{
    const bool zero = o->kind != WEIR__OPTION_ZONE && weir__option_get(o, t) == 0;

    if (o->kind == WEIR__OPTION_ZONE)
        return t->tz[0] != '\0';
    if (o->kind == WEIR__OPTION_FLAG || o->at == AT(keys) || o->at == AT(full) ||
        o->at == AT(warn_milli) || o->at == AT(block_ns) || o->at == AT(block_after) ||
        o->kind == WEIR__OPTION_ANCHOR)
        return !zero;
    if (t->algorithm == WEIR_CONCURRENCY && o->at == AT(max_wait_ns))
        return t->queue > 0;
    if (t->algorithm == WEIR_BREAKER && t->preset == WEIR_PRESET_SRE && o->at == AT(slow_milli))
        return false;
    if (t->algorithm == WEIR_BREAKER && t->preset == WEIR_PRESET_SRE && o->at == AT(error_count))
        return false;
    /* A window of calls has no buckets; a throttle has no open time and no probes. */
    return t->algorithm != WEIR_BREAKER || !zero || o->kind == WEIR__OPTION_ENUM ||
           o->at == AT(volume);
}

/* Whether the algorithm accepts the common option. Among guards, only adaptive-rate counts refused
 * events, and a breaker with preset=sre (fit_guards.c). */
static bool option_is_accepted(const struct weir__option *o, unsigned algorithm)
{
    const bool boxes = o == &COMMON[WEIR__COMMON_BLOCK] || o == &COMMON[WEIR__COMMON_AFTER];

    if (algorithm < WEIR_FIRST_GUARD)
        return !boxes || (algorithm != WEIR_UNLIMITED && algorithm != WEIR_ZERO);
    if (o == &COMMON[0])
        return algorithm == WEIR_ADAPTIVE_RATE;
    return !boxes && o != &COMMON[WEIR__COMMON_WARN];
}

/* Prints the options that the algorithm may have: its own, then the common ones. */
static void print_options(struct weir__out *out, unsigned algorithm,
                          void (*print)(struct weir__out *out, const struct weir__option *o,
                                        bool first))
{
    const unsigned both[] = {algorithm, WEIR__ANY_ALGORITHM};
    bool first = true;

    for (int i = 0; i < 2; i++) {
        for (const struct weir__option *o = OPTIONS[both[i]]; o->name; o++) {
            if (!option_is_accepted(o, algorithm))
                continue;
            print(out, o, first);
            first = false;
        }
    }
}

static void print_option_name(struct weir__out *out, const struct weir__option *o, bool first)
{
    weir__out_text(out, first ? "" : ", ");
    weir__out_text(out, o->name);
}

void weir__options_list(struct weir__out *out, unsigned algorithm)
{
    print_options(out, algorithm, print_option_name);
}

static void print_option_spellings(struct weir__out *out, const struct weir__option *o, bool first)
{
    (void)first;
    if (o->kind != WEIR__OPTION_ENUM) {
        weir__out_text(out, "\t");
        weir__out_text(out, o->name);
        weir__out_text(out, o->kind == WEIR__OPTION_FLAG ? "" : "=");
    }
    for (int i = 0; i < WEIR__WORDS_MAX && o->words[i].text; i++) {
        weir__out_text(out, "\t");
        weir__out_text(out, o->name);
        weir__out_text(out, "=");
        weir__out_text(out, o->words[i].text);
    }
}

void weir__options_spell(struct weir__out *out, enum weir_algorithm algorithm)
{
    print_options(out, algorithm, print_option_spellings);
}

bool weir__algorithm_has_amount(enum weir_algorithm algorithm)
{
    return weir__amount_of(algorithm) != WEIR__AMOUNT_NOTHING;
}
