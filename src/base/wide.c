/* Products of 256 bits, for converting state from one rate to another.
 *
 * A debt of 103 bits times a period of 55 passes 128, and a conversion that rounds too early would
 * create or lose events. School arithmetic in 64-bit limbs, then long division bit by bit.
 */
#include "base/num.h"

struct wide {
    weir__u128 hi, lo;
};

static struct wide wide_multiply(weir__u128 a, weir__u128 b)
{
    const weir__u128 mask = UINT64_MAX;
    const weir__u128 a0 = a & mask, a1 = a >> 64, b0 = b & mask, b1 = b >> 64;
    const weir__u128 low = a0 * b0;
    const weir__u128 mid = a1 * b0 + (low >> 64); /* at most (2^64-1)^2 + 2^64-1: no carry out */
    const weir__u128 mid2 = a0 * b1 + (mid & mask);

    return (struct wide){.hi = a1 * b1 + (mid >> 64) + (mid2 >> 64),
                         .lo = (mid2 << 64) | (low & mask)};
}

weir__u128 weir__wide_mul_div_ceil(weir__u128 a, weir__u128 b, weir__u128 d, weir__u128 limit)
{
    const struct wide product = wide_multiply(a, b);
    weir__u128 quotient = 0, rest = product.hi;

    assert(d > 0);
    if (product.hi >= d)
        return limit; /* the quotient passes 128 bits */
    for (int bit = 127; bit >= 0; bit--) {
        const bool carry = (rest >> 127) != 0;

        rest = (rest << 1) | ((product.lo >> bit) & 1);
        quotient <<= 1;
        if (carry || rest >= d) {
            rest -= d;
            quotient |= 1;
        }
    }
    if (quotient >= limit)
        return limit;
    return quotient + (rest != 0);
}
