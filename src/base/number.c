/* Parsing and printing numbers and durations, exactly.
 *
 * A decimal is a whole number of units and a fraction of one: 1.5s is 1500000000 ns, and 1.5ns is
 * refused, because no choice of rounding is certain to be what the writer meant.
 */
#include "base/num.h"
#include "base/text.h"

struct unit {
    const char *name;
    int64_t ns;
};

/* Largest first. These names are printed. */
static const struct unit UNITS[] = {
    {"d", 86400 * WEIR__NS_PER_S},
    {"h", 3600 * WEIR__NS_PER_S},
    {"m", 60 * WEIR__NS_PER_S},
    {"s", WEIR__NS_PER_S},
    {"ms", WEIR__NS_PER_MS},
    {"us", WEIR__NS_PER_US},
    {"ns", 1},
};
enum { UNIT_COUNT = sizeof UNITS / sizeof UNITS[0] };

/* Other names that people type, without the s of a plural. They are read, and never printed. */
static const struct unit SYNONYMS[] = {
    {"week", 604800 * WEIR__NS_PER_S},
    {"day", 86400 * WEIR__NS_PER_S},
    {"hour", 3600 * WEIR__NS_PER_S},
    {"hr", 3600 * WEIR__NS_PER_S},
    {"minute", 60 * WEIR__NS_PER_S},
    {"min", 60 * WEIR__NS_PER_S},
    {"second", WEIR__NS_PER_S},
    {"sec", WEIR__NS_PER_S},
    {"millisecond", WEIR__NS_PER_MS},
    {"msec", WEIR__NS_PER_MS},
    {"microsecond", WEIR__NS_PER_US},
    {"usec", WEIR__NS_PER_US},
    {"nanosecond", 1},
};
enum { SYNONYM_COUNT = sizeof SYNONYMS / sizeof SYNONYMS[0] };

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

enum weir__number weir__parse_int(struct weir__slice s, int64_t *value)
{
    int64_t sum = 0;
    bool big = false;

    if (s.len == 0)
        return WEIR__NUMBER_BAD;
    if (s.len > 1 && s.at[0] == '-' && is_digit(s.at[1]))
        return WEIR__NUMBER_NEGATIVE;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.at[i]))
            return WEIR__NUMBER_BAD;
        big = big || __builtin_mul_overflow(sum, INT64_C(10), &sum) ||
              __builtin_add_overflow(sum, (int64_t)(s.at[i] - '0'), &sum);
    }
    if (big)
        return WEIR__NUMBER_BIG;
    *value = sum;
    return WEIR__NUMBER_OK;
}

enum weir__number weir__parse_decimal(struct weir__slice s, int64_t unit, int64_t *value)
{
    const struct weir__slice whole = weir__slice_cut(&s, '.');
    int64_t sum = 0, part = unit;
    const enum weir__number read = weir__parse_int(whole, &sum);

    if (read != WEIR__NUMBER_OK)
        return read;
    if (s.len == 1)
        return WEIR__NUMBER_BAD; /* "1." */
    if (__builtin_mul_overflow(sum, unit, &sum))
        return WEIR__NUMBER_BIG;
    for (size_t i = 1; i < s.len; i++) {
        if (!is_digit(s.at[i]))
            return WEIR__NUMBER_BAD;
        if (s.at[i] == '0' && part % 10 != 0)
            continue; /* 1.500000s: zeros past the last place change nothing */
        if (part % 10 != 0)
            return WEIR__NUMBER_FINE;
        part /= 10;
        if (__builtin_add_overflow(sum, part * (s.at[i] - '0'), &sum))
            return WEIR__NUMBER_BIG;
    }
    *value = sum;
    return WEIR__NUMBER_OK;
}

enum weir__number weir__parse_count(struct weir__slice s, int64_t *value)
{
    int64_t unit = 1;

    if (s.len > 1 && s.at[s.len - 1] == 'k')
        unit = 1000;
    if (s.len > 1 && s.at[s.len - 1] == 'M')
        unit = 1000000;
    if (unit > 1)
        s.len--;
    return weir__parse_decimal(s, unit, value);
}

bool weir__parse_unit(struct weir__slice s, int64_t *ns)
{
    for (int i = 0; i < UNIT_COUNT; i++) {
        if (weir__slice_is(s, UNITS[i].name)) {
            *ns = UNITS[i].ns;
            return true;
        }
    }
    if (s.len > 2 && s.at[s.len - 1] == 's')
        s.len--; /* minutes, hrs */
    for (int i = 0; i < SYNONYM_COUNT; i++) {
        if (weir__slice_is(s, SYNONYMS[i].name)) {
            *ns = SYNONYMS[i].ns;
            return true;
        }
    }
    return false;
}

static struct weir__slice number_take_while(struct weir__slice *s, bool number)
{
    struct weir__slice head = {s->at, 0};

    while (s->len > 0 && (is_digit(*s->at) || *s->at == '.') == number) {
        s->at++;
        s->len--;
        head.len++;
    }
    return head;
}

enum weir__number weir__parse_duration(struct weir__slice s, int64_t *ns)
{
    int64_t sum = 0;

    if (weir__slice_is(s, "0")) {
        *ns = 0;
        return WEIR__NUMBER_OK;
    }
    if (s.len > 1 && s.at[0] == '-' && is_digit(s.at[1]))
        return WEIR__NUMBER_NEGATIVE;
    do {
        const struct weir__slice number = number_take_while(&s, true);
        const struct weir__slice name = number_take_while(&s, false);
        int64_t unit, part;
        enum weir__number read;

        if (!weir__parse_unit(name, &unit))
            return WEIR__NUMBER_BAD;
        read = weir__parse_decimal(number, unit, &part);
        if (read != WEIR__NUMBER_OK)
            return read;
        if (__builtin_add_overflow(sum, part, &sum))
            return WEIR__NUMBER_BIG;
    } while (s.len > 0);
    *ns = sum;
    return WEIR__NUMBER_OK;
}

void weir__out_duration(struct weir__out *o, int64_t ns)
{
    int64_t rest = ns;

    if (ns == 0)
        weir__out_text(o, "0s");
    /* Days are printed as hours: 24h makes plain that it is not a calendar day. */
    for (int i = 1; i < UNIT_COUNT && rest > 0; i++) {
        const int64_t n = rest / UNITS[i].ns;

        if (n == 0)
            continue;
        weir__out_int(o, n);
        weir__out_text(o, UNITS[i].name);
        rest %= UNITS[i].ns;
    }
}

const char *weir__duration_text(int64_t ns, char text[WEIR__DURATION_MAX])
{
    struct weir__out o = {text, WEIR__DURATION_MAX, 0};

    weir__out_duration(&o, ns);
    (void)weir__out_end(&o);
    return text;
}

void weir__out_period(struct weir__out *o, int64_t ns)
{
    /* Neither a day, which would read as a calendar day, nor a nanosecond is a period by its bare
     * name. */
    for (int i = 1; i < UNIT_COUNT - 1; i++) {
        if (UNITS[i].ns == ns) {
            weir__out_text(o, UNITS[i].name);
            return;
        }
    }
    weir__out_duration(o, ns);
}
