/* Limit to text: one text for one meaning. The rules are in docs/reference/limits.md. */
#include <weir.h>

#include "base/text.h"
#include "limit/anchor.h"
#include "limit/options.h"

const char *weir_algorithm_name(enum weir_algorithm algorithm)
{
    switch (algorithm) {
#define X(name, text) \
    case WEIR_##name: return text;
        WEIR_ALGORITHMS(X)
#undef X
    }
    return "?";
}

static void print_period(struct weir__out *o, const struct weir_term *t)
{
    static const char *const CALENDAR[] = {
        [WEIR_DAY] = "day", [WEIR_WEEK] = "week", [WEIR_MONTH] = "month"};

    if (t->calendar != WEIR_DURATION)
        weir__out_text(o, CALENDAR[t->calendar]);
    else
        weir__out_period(o, t->period_ns);
}

/* n / parts as a decimal; parts is a power of ten. */
static void print_parts(struct weir__out *o, int64_t n, int64_t parts)
{
    weir__out_int(o, n / parts);
    if (n % parts == 0)
        return;
    weir__out_text(o, ".");
    for (int64_t place = parts / 10, rest = n % parts; rest > 0; place /= 10) {
        weir__out_int(o, rest / place);
        rest %= place;
    }
}

void weir__out_milli(struct weir__out *o, int64_t milli)
{
    print_parts(o, milli, 1000);
}

void weir__out_percent(struct weir__out *o, int64_t milli)
{
    print_parts(o, milli, 10);
    weir__out_text(o, "%");
}

static void print_rate(struct weir__out *o, const struct weir_term *t)
{
    weir__out_int(o, t->count);
    weir__out_text(o, "/");
    print_period(o, t);
}

static bool print_word(struct weir__out *o, const struct weir__option *x, const struct weir_term *t)
{
    const int64_t value = weir__option_get(x, t);

    for (int i = 0; i < WEIR__WORDS_MAX && x->words[i].text; i++) {
        const bool full = x->words[i].value == WEIR__WORD_FULL && value == t->burst;

        if (full || x->words[i].value == value) {
            weir__out_text(o, x->words[i].text);
            return true;
        }
    }
    return false;
}

static void print_value(struct weir__out *o, const struct weir__option *x,
                        const struct weir_term *t)
{
    const int64_t value = weir__option_get(x, t);

    switch (x->kind) {
    case WEIR__OPTION_DURATION: weir__out_duration(o, value); return;
    case WEIR__OPTION_MILLI: weir__out_milli(o, value); return;
    case WEIR__OPTION_PERCENT: weir__out_percent(o, value); return;
    case WEIR__OPTION_SHARE:
        weir__out_percent(o, t->slow_milli);
        weir__out_text(o, "/");
        weir__out_duration(o, t->slow_ns);
        return;
    case WEIR__OPTION_WINDOW:
        if (t->window_ns == WEIR_NONE)
            weir__out_int(o, t->window_calls);
        else
            weir__out_duration(o, t->window_ns);
        return;
    case WEIR__OPTION_GROWTH:
        weir__out_duration(o, t->block_ns);
        if (t->block_most_ns == t->block_ns)
            return;
        weir__out_text(o, "..");
        weir__out_duration(o, t->block_most_ns);
        return;
    case WEIR__OPTION_RATE: print_rate(o, t); return;
    case WEIR__OPTION_ANCHOR: weir__anchor_print(o, t->calendar, value); return;
    case WEIR__OPTION_COUNT:
    case WEIR__OPTION_ENUM:
    case WEIR__OPTION_FLAG:
    case WEIR__OPTION_ZONE: weir__out_int(o, value); return;
    }
}

void weir__option_print(struct weir__out *o, const struct weir__option *x,
                        const struct weir_term *t)
{
    weir__out_text(o, x->name);
    if (x->kind == WEIR__OPTION_FLAG)
        return;
    weir__out_text(o, "=");
    if (x->kind == WEIR__OPTION_ZONE)
        weir__out_text(o, t->tz);
    else if (print_word(o, x, t))
        return;
    else
        print_value(o, x, t);
}

static void print_amount(struct weir__out *o, const struct weir_term *t)
{
    const enum weir__amount amount = weir__amount_of(t->algorithm);

    if (amount != WEIR__AMOUNT_NOTHING)
        weir__out_text(o, " ");
    switch (amount) {
    case WEIR__AMOUNT_RATE: print_rate(o, t); return;
    case WEIR__AMOUNT_INTERVAL: weir__out_duration(o, t->period_ns); return;
    case WEIR__AMOUNT_COUNT: weir__out_int(o, t->count); return;
    case WEIR__AMOUNT_NOTHING: return;
    }
}

static void limit_print_term(struct weir__out *o, const struct weir_term *t)
{
    const unsigned both[] = {t->algorithm, WEIR__ANY_ALGORITHM};

    weir__out_text(o, weir_algorithm_name(t->algorithm));
    print_amount(o, t);
    for (int i = 0; i < 2; i++)
        for (const struct weir__option *x = weir__options_of(both[i]); x->name; x++) {
            if (weir__option_is_default(x, t))
                continue;
            weir__out_text(o, " ");
            weir__option_print(o, x, t);
        }
}

size_t weir_limit_print(const struct weir_limit *limit, char *out, size_t cap)
{
    struct weir__out o = {out, cap, 0};

    for (int i = 0; i < limit->n; i++) {
        if (i > 0)
            weir__out_text(&o, " + ");
        limit_print_term(&o, &limit->term[i]);
    }
    return weir__out_end(&o);
}
