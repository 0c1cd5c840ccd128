/* Fixed point, where other libraries compute with doubles.
 *
 * A limit is kept in millionths. Its formulas are made of fifths, tenths and halves; fifths and
 * tenths have no end in binary, and five steps of 0.8 from 20 must make 24 and not 23.999999. In
 * millionths they are exact, and 10^12, the largest limit, fits 63 bits. A product with a ratio of
 * latencies is rounded to the nearest: off by half a millionth of a call.
 *
 * A mean latency is kept in 1/65536 ns. Ten samples of up to 2^42 ns (73 minutes; longer ones count
 * as that) add up to less than 2^62. Every step rounds to the nearest and is off by 2^-17 ns at
 * most; the step then shrinks old errors by (window - 1)/(window + 1), so that they never add up to
 * more than (window + 1)/2 of one: for a window of 600, 0.003 ns. No clock is that precise.
 */
#ifndef WEIR_ALGO_FIXED_H
#define WEIR_ALGO_FIXED_H

#include <stdbool.h>

#include "base/num.h"

#define WEIR__MILLIONTHS      INT64_C(1000000)
#define WEIR__LATENCY_BITS    16
#define WEIR__LATENCY_MAX_NS  (INT64_C(1) << 42)
#define WEIR__AVERAGE_WARM_UP 10 /* samples of which the plain mean is taken */

/* a / b to the nearest, with halves rounded outwards, from zero; b > 0. */
static inline int64_t weir__div_round(int64_t a, int64_t b)
{
    return (a < 0 ? a - b / 2 : a + b / 2) / b;
}

/* floor(log10(n)), at least 1. */
static inline int64_t weir__log10(int64_t n)
{
    int64_t digits = 0;

    for (; n >= 10; n /= 10)
        digits++;
    return weir__max(1, digits);
}

static inline int64_t weir__latency(int64_t ns)
{
    return weir__min(ns, WEIR__LATENCY_MAX_NS) << WEIR__LATENCY_BITS;
}

/* A moving mean: the plain one of the first samples, then each new sample weighs 2/(window + 1). */
struct weir__average {
    int64_t value; /* while it warms up the sum of the latencies, then their mean */
    int64_t samples;
};

static inline bool weir__average_is_warm(const struct weir__average *a)
{
    return a->samples >= WEIR__AVERAGE_WARM_UP;
}

/* Brings a damaged mean into its range. */
static inline void weir__average_mend(struct weir__average *a)
{
    const int64_t longest = WEIR__LATENCY_MAX_NS << WEIR__LATENCY_BITS;

    a->samples = weir__clamp(a->samples, 0, WEIR__AVERAGE_WARM_UP);
    a->value = weir__clamp(a->value, 0, longest * weir__max(1, a->samples % WEIR__AVERAGE_WARM_UP));
}

/* Returns the mean with this latency in it. */
static inline int64_t weir__average_add(struct weir__average *a, int64_t window, int64_t latency)
{
    int64_t mean;

    if (weir__average_is_warm(a)) {
        a->value += weir__div_round(2 * (latency - a->value), window + 1);
        return a->value;
    }
    a->samples++;
    a->value += latency;
    mean = weir__div_round(a->value, a->samples);
    if (weir__average_is_warm(a))
        a->value = mean;
    return mean;
}

#endif
