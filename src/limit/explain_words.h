/* What the files that write limits in plain words share: sentences with numbers in them, and the
 * sentences of guards. */
#ifndef WEIR_LIMIT_EXPLAIN_WORDS_H
#define WEIR_LIMIT_EXPLAIN_WORDS_H

#include <weir.h>

#include "base/text.h"

static inline void explain_text(struct weir__out *o, const char *s)
{
    weir__out_text(o, s);
}

/* explain_say(o, "at most %n in %t", 10, period_ns): writes the sentence, with a value for each
 *
 *     %n   number
 *     %t   time in nanoseconds: 1m30s
 *     %p   thousandths, as a percentage
 *     %m   thousandths, as a decimal number
 *
 * A macro, so that each value becomes an int64_t and their number is known. */
#define explain_say(o, format, ...)                                 \
    weir__explain_values(o, format, (const int64_t[]){__VA_ARGS__}, \
                         sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t))

void weir__explain_values(struct weir__out *o, const char *format, const int64_t *value, size_t n);

/* The sentences of guards (explain_guards.c). */
void weir__explain_guard(struct weir__out *o, const struct weir_term *t);
void weir__explain_guard_worst(struct weir__out *o, const struct weir_term *t);
void weir__explain_guard_refused(struct weir__out *o, const struct weir_term *t);

#endif
