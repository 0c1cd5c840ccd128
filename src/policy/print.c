/* Limit to text: one text for one meaning. The rules are in docs/reference/limits.md. */
#include <weir.h>

#include "base/text.h"
#include "policy/options.h"

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
    static const char *const UNITS[] = {"h", "m", "s", "ms", "us"};
    int64_t ns = 0;

    if (t->calendar != WEIR_DURATION) {
        weir__out_text(o, CALENDAR[t->calendar]);
        return;
    }
    for (int i = 0; i < 5; i++) {
        if (weir__parse_unit(weir__slice_of(UNITS[i]), &ns) && ns == t->period_ns) {
            weir__out_text(o, UNITS[i]);
            return;
        }
    }
    weir__out_duration(o, t->period_ns);
}

static void print_milli(struct weir__out *o, int64_t milli)
{
    weir__out_int(o, milli / 1000);
    if (milli % 1000 == 0)
        return;
    weir__out_text(o, ".");
    for (int64_t place = 100, rest = milli % 1000; rest > 0; place /= 10) {
        weir__out_int(o, rest / place);
        rest %= place;
    }
}

static bool print_word(struct weir__out *o, const struct weir__option *x, const struct weir_term *t)
{
    const int64_t value = weir__option_get(x, t);

    for (int i = 0; i < 4 && x->words[i].text; i++) {
        const bool full = x->words[i].value == WEIR__WORD_FULL && value == t->burst;

        if (full || x->words[i].value == value) {
            weir__out_text(o, x->words[i].text);
            return true;
        }
    }
    return false;
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
    else if (x->kind == WEIR__OPTION_DURATION)
        weir__out_duration(o, weir__option_get(x, t));
    else if (x->kind == WEIR__OPTION_MILLI)
        print_milli(o, weir__option_get(x, t));
    else
        weir__out_int(o, weir__option_get(x, t));
}

static bool is_default(const struct weir__option *x, const struct weir_term *t)
{
    if (x->kind == WEIR__OPTION_ZONE)
        return t->tz[0] == '\0' || weir__slice_is(weir__slice_of(t->tz), "UTC");
    return weir__option_get(x, t) == weir__option_default(x, t);
}

static void print_term(struct weir__out *o, const struct weir_term *t)
{
    const unsigned both[] = {t->algorithm, WEIR__ANY_ALGORITHM};

    weir__out_text(o, weir_algorithm_name(t->algorithm));
    weir__out_text(o, " ");
    if (t->algorithm == WEIR_MIN_INTERVAL) {
        weir__out_duration(o, t->period_ns);
    } else {
        weir__out_int(o, t->count);
        weir__out_text(o, "/");
        print_period(o, t);
    }
    for (int i = 0; i < 2; i++)
        for (const struct weir__option *x = weir__options_of(both[i]); x->name; x++) {
            if (is_default(x, t))
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
        print_term(&o, &limit->term[i]);
    }
    return weir__out_end(&o);
}
