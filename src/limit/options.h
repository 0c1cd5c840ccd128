/* The options of limits, as data: grammar, printer and completion all read this table. */
#ifndef WEIR_LIMIT_OPTIONS_H
#define WEIR_LIMIT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "base/text.h"

enum weir__option_kind {
    WEIR__OPTION_COUNT,    /* int64_t, k and M allowed       */
    WEIR__OPTION_DURATION, /* int64_t, in ns                 */
    WEIR__OPTION_MILLI,    /* int64_t, in thousandths        */
    WEIR__OPTION_PERCENT,  /* int64_t, in thousandths: 12.5% */
    WEIR__OPTION_SHARE,    /* slow=: a percentage and a time */
    WEIR__OPTION_WINDOW,   /* breaker: time, or calls        */
    WEIR__OPTION_GROWTH,   /* block=: two times, 1m..1h      */
    WEIR__OPTION_RATE,     /* count and period_ns            */
    WEIR__OPTION_ENUM,     /* int, one of the words          */
    WEIR__OPTION_FLAG,     /* int, no value                  */
    WEIR__OPTION_ZONE,     /* char[WEIR_ZONE_MAX]            */
    WEIR__OPTION_ANCHOR,   /* int64_t, in s: see anchor.h    */
};

/* Words that stand for a value which the term itself decides (see weir__option_default). */
#define WEIR__WORD_FULL INT64_C(-2) /* initial=full                */
#define WEIR__WORD_EVEN INT64_C(-3) /* per-slot=even               */

#define WEIR__WORDS_MAX 5

/* What a duration looks like, for messages. */
#define WEIR__EXPECT_PERIOD "a duration such as 5s or 100ms (1us .. 366 days)"
#define WEIR__EXPECT_SPAN   "a duration such as 5s or 100ms (at most 366 days)"

struct weir__word {
    const char *text;
    int64_t value;
};

struct weir__option {
    const char *name;
    enum weir__option_kind kind;
    size_t at;       /* offset in struct weir_term */
    int64_t lo, hi;  /* of the value as written */
    const char *say; /* what is expected, for messages */
    struct weir__word words[WEIR__WORDS_MAX];
};

#define WEIR__ALGORITHM_COUNT (WEIR_ADAPTIVE_RATE + 1)
#define WEIR__ANY_ALGORITHM   WEIR__ALGORITHM_COUNT /* options that any term may carry */

/* What stands between an algorithm's name and its options. */
enum weir__amount {
    WEIR__AMOUNT_RATE,     /* 10/s  */
    WEIR__AMOUNT_INTERVAL, /* 100ms */
    WEIR__AMOUNT_COUNT,    /* 10    */
    WEIR__AMOUNT_NOTHING,
};
enum weir__amount weir__amount_of(enum weir_algorithm algorithm);

/* The options of an algorithm in their canonical order, ended by one without a name. */
const struct weir__option *weir__options_of(unsigned algorithm);

/* The option of that name for the algorithm, its own or a common one; NULL if it has none. */
const struct weir__option *weir__option_find(unsigned algorithm, struct weir__slice name);

/* Gives the option its default. The caller has set the count, the period and the options before
 * it. */
void weir__option_fill(const struct weir__option *o, struct weir_term *t);
bool weir__option_is_default(const struct weir__option *o, const struct weir_term *t);

/* Whether the option has a meaning, given the values of the others. */
bool weir__option_applies(const struct weir__option *o, const struct weir_term *t);

int64_t weir__option_get(const struct weir__option *o, const struct weir_term *t);
void weir__option_set(const struct weir__option *o, struct weir_term *t, int64_t value);

/* 2.5 for 2500; 12.5% for 125 (print.c). */
void weir__out_milli(struct weir__out *o, int64_t milli);
void weir__out_percent(struct weir__out *o, int64_t milli);
/* "burst=20", or for a flag its name alone (print.c). */
void weir__option_print(struct weir__out *o, const struct weir__option *x,
                        const struct weir_term *t);

/* The options of the guards (guard_options.c). */
extern const struct weir__option weir__concurrency_options[], weir__system_options[],
    weir__breaker_options[], weir__bbr_options[], weir__vegas_options[], weir__aimd_options[],
    weir__adaptive_rate_options[];
void weir__guard_option_fill(const struct weir__option *o, struct weir_term *t);

/* "burst, initial, count-denied, shadow, fallback, warn, block, after, keys, full" */
void weir__options_list(struct weir__out *out, unsigned algorithm);

#endif
