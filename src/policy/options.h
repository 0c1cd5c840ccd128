/* The options of limits, as data: grammar, printer and completion all read this table. */
#ifndef WEIR_POLICY_OPTIONS_H
#define WEIR_POLICY_OPTIONS_H

#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "base/text.h"

enum weir__option_kind {
    WEIR__OPTION_COUNT,    /* int64_t, k and M allowed       */
    WEIR__OPTION_DURATION, /* int64_t, in ns                 */
    WEIR__OPTION_MILLI,    /* int64_t, in thousandths        */
    WEIR__OPTION_ENUM,     /* int, one of the words          */
    WEIR__OPTION_FLAG,     /* int, no value                  */
    WEIR__OPTION_ZONE,     /* char[WEIR_ZONE_MAX]            */
};

/* Words that stand for a value which the term itself decides (see weir__option_default). */
#define WEIR__WORD_FULL INT64_C(-2) /* initial=full                */
#define WEIR__WORD_EVEN INT64_C(-3) /* per-slot=even               */

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
    struct weir__word words[4];
};

#define WEIR__ALGORITHM_COUNT (WEIR_MIN_INTERVAL + 1)
#define WEIR__ANY_ALGORITHM   WEIR__ALGORITHM_COUNT /* options that any term may carry */

/* The options of an algorithm in their canonical order, ended by one without a name. */
const struct weir__option *weir__options_of(unsigned algorithm);

/* The option of that name for the algorithm, its own or a common one; NULL if it has none. */
const struct weir__option *weir__option_find(unsigned algorithm, struct weir__slice name);

/* What the option is when it is not given. The count and period are known by then, and the options
 * before it. */
int64_t weir__option_default(const struct weir__option *o, const struct weir_term *t);

int64_t weir__option_get(const struct weir__option *o, const struct weir_term *t);
void weir__option_set(const struct weir__option *o, struct weir_term *t, int64_t value);

/* "burst=20", or the name alone of a flag (print.c). */
void weir__option_print(struct weir__out *o, const struct weir__option *x,
                        const struct weir_term *t);

/* "burst, initial, count-denied, shadow, fallback" */
void weir__options_list(struct weir__out *out, unsigned algorithm);

#endif
