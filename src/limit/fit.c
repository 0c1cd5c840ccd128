/* Whether the numbers of a term fit together, once all of them are known.
 *
 * The grammar checked each number against its own range as it read it. Here the numbers that depend
 * on each other are checked together: a message points at the option that was given, or else at the
 * rate. Words that stand for a number (full, even) are replaced by it.
 */
#include <string.h>

#include "algo/algo.h"
#include "base/num.h"
#include "limit/grammar.h"
#include "limit/options.h"

bool weir__contradiction(struct weir__parser *p, const char *at, int error, const char *text)
{
    weir__out_text(weir__complain(p, error, at), text);
    return false;
}

const char *weir__position(const struct weir__positions *at, int i)
{
    return at->option[i] ? at->option[i] : at->amount;
}

bool weir__slots_divide(struct weir__parser *p, const char *at, const char *name, int64_t slots,
                        const char *what, int64_t ns)
{
    struct weir__out *o;

    if (ns % slots == 0)
        return true;
    o = weir__complain(p, WEIR_ERANGE, at);
    weir__out_text(o, name);
    weir__out_text(o, "=");
    weir__out_int(o, slots);
    weir__out_text(o, " does not divide the ");
    weir__out_text(o, what);
    weir__out_text(o, " of ");
    weir__out_duration(o, ns);
    return false;
}

bool weir__drains(const struct weir_term *t, int64_t n)
{
    return weir__wide(n) * weir__wide(t->period_ns) <=
           weir__wide(t->count) * weir__wide(WEIR__SPAN_MAX);
}

static bool check_fixed_window(struct weir__parser *p, struct weir_term *t,
                               const struct weir__positions *at)
{
    if (t->calendar != WEIR_DURATION && t->align == WEIR_ALIGN_FIRST)
        return weir__contradiction(
            p, weir__position(at, 0), WEIR_ESYNTAX,
            "day, week and month follow the calendar: write 24h or 168h for a "
            "window that starts with its first event");
    if (at->option[1] && t->align == WEIR_ALIGN_FIRST)
        return weir__contradiction(
            p, weir__position(at, 1), WEIR_ESYNTAX,
            "tz needs align=clock: a window that starts with its first event "
            "has no time zone");
    if (!at->option[1] && t->align == WEIR_ALIGN_CLOCK)
        memcpy(t->tz, "UTC", 4);
    return true;
}

static bool check_sliding_window(struct weir__parser *p, struct weir_term *t,
                                 const struct weir__positions *at)
{
    if (!weir__slots_divide(p, weir__position(at, 0), "slots", t->slots, "period", t->period_ns))
        return false;
    if (t->per_slot == WEIR__WORD_EVEN)
        t->per_slot = weir__div_ceil(t->count, t->slots);
    if (t->per_slot > t->count)
        return weir__contradiction(p, weir__position(at, 1), WEIR_ERANGE,
                                   "per-slot may not exceed the count");
    return true;
}

static bool check_bucket(struct weir__parser *p, struct weir_term *t,
                         const struct weir__positions *at)
{
    if (t->initial == WEIR__WORD_FULL)
        t->initial = t->burst;
    if (!weir__drains(t, t->burst))
        return weir__contradiction(
            p, weir__position(at, 0), WEIR_ERANGE,
            "that many events take more than 146 years to drain at this rate");
    if (t->algorithm == WEIR_TOKEN_BUCKET && t->initial > t->burst)
        return weir__contradiction(p, weir__position(at, 1), WEIR_ERANGE,
                                   "initial may not exceed burst");
    if (t->algorithm == WEIR_LEAKY_BUCKET && t->delay > t->burst)
        return weir__contradiction(p, weir__position(at, 1), WEIR_ERANGE,
                                   "delay may not exceed capacity");
    return true;
}

static bool check_smooth(struct weir__parser *p, struct weir_term *t,
                         const struct weir__positions *at)
{
    const bool warm = t->algorithm == WEIR_SMOOTH_WARMUP;
    const int64_t idle = warm ? t->warmup_ns : t->max_burst_ns;
    /* warm: max = W/T x (5 + cold)/(2 (1 + cold)), cold in thousandths */
    const weir__u128 num = weir__wide(warm ? 5000 + t->cold_milli : 1);
    const weir__u128 den = weir__wide(warm ? 2 * (1000 + t->cold_milli) : 1);

    if (warm && !at->option[0])
        return weir__contradiction(p, at->amount, WEIR_ESYNTAX,
                                   "smooth-warmup needs warmup=, such as warmup=4s");
    /* 113 bits at most on either side */
    if (weir__wide(idle) * weir__wide(t->count) * num >
        weir__wide(WEIR_COUNT_MAX) * weir__wide(t->period_ns) * den)
        return weir__contradiction(p, weir__position(at, 0), WEIR_ERANGE,
                                   "that would store more than 1000000000000 permits");
    return true;
}

/* They have no amount: these are the numbers that everything else sees. */
static bool check_constant(struct weir__parser *p, struct weir_term *t,
                           const struct weir__positions *at)
{
    (void)p;
    (void)at;
    t->count = t->algorithm == WEIR_UNLIMITED ? WEIR_COUNT_MAX : 0;
    t->period_ns = WEIR__NS_PER_S;
    return true;
}

typedef bool check_term(struct weir__parser *p, struct weir_term *t,
                        const struct weir__positions *at);

/* What the options of a rate's own must have in common. NULL: nothing. */
static check_term *const CHECKS[WEIR_FIRST_GUARD] = {
    [WEIR_FIXED_WINDOW] = check_fixed_window,
    [WEIR_SLIDING_WINDOW] = check_sliding_window,
    [WEIR_TOKEN_BUCKET] = check_bucket,
    [WEIR_LEAKY_BUCKET] = check_bucket,
    [WEIR_PACER] = check_bucket,
    [WEIR_SMOOTH_BURSTY] = check_smooth,
    [WEIR_SMOOTH_WARMUP] = check_smooth,
    [WEIR_UNLIMITED] = check_constant,
    [WEIR_ZERO] = check_constant,
};

static bool check_block(struct weir__parser *p, const struct weir_term *t,
                        const struct weir__positions *at)
{
    const char *block = at->common[WEIR__COMMON_BLOCK], *after = at->common[WEIR__COMMON_AFTER];

    if (!block && !after)
        return true;
    if (!after)
        return weir__contradiction(p, block, WEIR_ESYNTAX,
                                   "block needs after=, such as after=10: how many refusals within "
                                   "a period block a key");
    if (!block)
        return weir__contradiction(p, after, WEIR_ESYNTAX,
                                   "after needs block=, such as block=1m..1h: how long a key is "
                                   "blocked");
    if (t->algorithm == WEIR_UNLIMITED || t->algorithm == WEIR_ZERO)
        return weir__contradiction(p, block, WEIR_ESYNTAX,
                                   "block does not apply here: this refuses all, or nothing");
    if (t->count_denied)
        return weir__contradiction(p, at->common[0], WEIR_ESYNTAX,
                                   "count-denied and block exclude each other: both say what a "
                                   "refusal costs");
    return true;
}

bool weir__term_fits(struct weir__parser *p, struct weir_term *t, const struct weir__positions *at)
{
    if (t->algorithm >= WEIR_FIRST_GUARD)
        return weir__guard_fits(p, t, at);
    return check_block(p, t, at) && (!CHECKS[t->algorithm] || CHECKS[t->algorithm](p, t, at));
}
