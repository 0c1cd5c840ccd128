/* Digits: writing integers in decimal, and reading hexadecimal digits.
 *
 * These are here rather than in a .c file because replies are mostly numbers, and each would be a
 * call.
 */
#ifndef WEIR_BASE_DIGITS_H
#define WEIR_BASE_DIGITS_H

#include <stdint.h>
#include <string.h>

#define WEIR__INT_MOST 20 /* bytes of any int64_t, or uint64_t */

static inline int weir__digits_of(uint64_t value)
{
    for (int width = 1;; width += 4) {
        if (value < 10)
            return width;
        if (value < 100)
            return width + 1;
        if (value < 1000)
            return width + 2;
        if (value < 10000)
            return width + 3;
        value /= 10000;
    }
}

/* Writes the value at `at`, and returns its end. It writes from the last digit to the first, two at
 * a time, each in its final position. */
static inline char *weir__put_digits(char *at, uint64_t value)
{
    static const char PAIRS[] = "00010203040506070809101112131415161718192021222324"
                                "25262728293031323334353637383940414243444546474849"
                                "50515253545556575859606162636465666768697071727374"
                                "75767778798081828384858687888990919293949596979899";
    char *const end = at + weir__digits_of(value);
    char *p = end;

    while (value >= 100) {
        p -= 2;
        memcpy(p, PAIRS + value % 100 * 2, 2);
        value /= 100;
    }
    if (value >= 10)
        memcpy(at, PAIRS + value * 2, 2);
    else
        *at = (char)('0' + value);
    return end;
}

static inline char *weir__put_int(char *at, int64_t value)
{
    if (value >= 0)
        return weir__put_digits(at, (uint64_t)value);
    *at = '-';
    return weir__put_digits(at + 1, 0 - (uint64_t)value);
}

/* The value of a hexadecimal digit, or -1. */
static inline int weir__hex_of(char c)
{
    const char lower = (char)(c | 0x20);

    if (c >= '0' && c <= '9')
        return c - '0';
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

#endif
