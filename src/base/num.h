/* Integer arithmetic: checked, saturating and 128 bits wide.
 *
 * Limits are accepted up to 10^12 events in 366 days, so products of a time and a count need up to
 * 103 bits and use 128; the fast paths try 64 bits first, because a 128-bit division is a call.
 */
#ifndef WEIR_BASE_NUM_H
#define WEIR_BASE_NUM_H

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>

__extension__ typedef unsigned __int128 weir__u128;

#define WEIR__NS_PER_US INT64_C(1000)
#define WEIR__NS_PER_MS INT64_C(1000000)
#define WEIR__NS_PER_S  INT64_C(1000000000)
#define WEIR__NOW_MAX   (INT64_C(1) << 62)
#define WEIR__SPAN_MAX  (INT64_C(1) << 62)

/* Widens n >= 0. */
static inline weir__u128 weir__wide(int64_t n)
{
    return (weir__u128)(uint64_t)n;
}

static inline int64_t weir__min(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t weir__max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* a + b for b >= 0, or INT64_MAX. */
static inline int64_t weir__add_sat(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

/* a - b, or INT64_MIN or INT64_MAX if that overflows. */
static inline int64_t weir__sub_sat(int64_t a, int64_t b)
{
    int64_t difference;

    if (!__builtin_sub_overflow(a, b, &difference))
        return difference;
    return b < 0 ? INT64_MAX : INT64_MIN;
}

static inline int64_t weir__clamp(int64_t n, int64_t least, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}

/* a * b for a, b >= 0, or INT64_MAX. */
static inline int64_t weir__mul_sat(int64_t a, int64_t b)
{
    int64_t product;

    return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

/* The greatest common divisor of a, b >= 0. */
static inline int64_t weir__gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;

        a = b;
        b = rest;
    }
    return a;
}

static inline int64_t weir__div_ceil(int64_t a, int64_t b)
{
    assert(a >= 0 && b > 0);
    return a / b + (a % b != 0);
}

/* a may be negative. */
static inline int64_t weir__div_floor(int64_t a, int64_t b)
{
    assert(b > 0);
    return a / b - (a % b < 0);
}

/* floor(a * b / d) for a, b >= 0, d > 0, where the quotient is known to fit. */
static inline int64_t weir__mul_div(int64_t a, int64_t b, int64_t d)
{
    int64_t product;

    if (!__builtin_mul_overflow(a, b, &product))
        return product / d;
    return (int64_t)(weir__wide(a) * weir__wide(b) / weir__wide(d));
}

/* min(ceil(a * b / d), limit) with a product of up to 256 bits. It is slow (a shift and a
 * subtraction for each bit): for live changes, not for decisions. d > 0. */
weir__u128 weir__wide_mul_div_ceil(weir__u128 a, weir__u128 b, weir__u128 d, weir__u128 limit);

#endif
