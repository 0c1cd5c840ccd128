/* Composite keys: whatever the parts, different lists are different keys. */
#include "engine_test.h"

#include <stdlib.h>

#define PART_MOST 2 /* bytes */
#define LIST_MOST 3 /* parts */

/* Bytes that would be mistaken for lengths or separators, were any of them not in front of their
 * part. */
static const unsigned char ALPHABET[] = {0, 1, 2, 'a'};

struct joined {
    size_t len;
    unsigned char bytes[LIST_MOST * (PART_MOST + 9)];
};

static int by_bytes(const void *a, const void *b)
{
    const struct joined *x = a, *y = b;

    if (x->len != y->len)
        return x->len < y->len ? -1 : 1;
    return memcmp(x->bytes, y->bytes, x->len);
}

/* The number-th part: "" first, then all of one byte, then all of two. */
static struct weir_bytes part_of(size_t number, unsigned char out[PART_MOST])
{
    size_t len = 0;

    for (size_t n = 1; number >= n; n *= sizeof ALPHABET) {
        number -= n;
        len++;
    }
    for (size_t i = 0; i < len; i++, number /= sizeof ALPHABET)
        out[i] = ALPHABET[number % sizeof ALPHABET];
    return (struct weir_bytes){out, len};
}

static void different_lists_are_different_keys(void **state)
{
    enum { PARTS = 1 + 4 + 16, LISTS = 1 + PARTS + PARTS * PARTS + PARTS * PARTS * PARTS };
    struct joined *all = calloc(LISTS, sizeof *all);
    size_t made = 0;

    (void)state;
    assert_non_null(all);
    for (size_t n = 0, lists = 1; n <= LIST_MOST; n++, lists *= PARTS)
        for (size_t list = 0; list < lists; list++) {
            unsigned char bytes[LIST_MOST][PART_MOST];
            struct weir_bytes part[LIST_MOST];
            size_t rest = list, least = 0;

            for (size_t i = 0; i < n; i++, rest /= PARTS) {
                part[i] = part_of(rest % PARTS, bytes[i]);
                least += part[i].len;
            }
            all[made].len = weir_key_join(all[made].bytes, sizeof all[made].bytes, part, n);
            assert_in_range(all[made].len, least, least + 9 * n);
            made++;
        }
    assert_int_equal(made, LISTS);
    qsort(all, made, sizeof *all, by_bytes);
    for (size_t i = 1; i < made; i++)
        assert_int_not_equal(by_bytes(&all[i - 1], &all[i]), 0);
    free(all);
}

/* The same bytes, cut elsewhere, at lengths where an encoding of numbers would change its own. */
static void different_cuts_are_different_keys(void **state)
{
    static const size_t CUTS[] = {0,     1,     127,   128,   129,   254,   255,
                                  256,   257,   16383, 16384, 16385, 32767, 32768,
                                  65279, 65280, 65534, 65535, 65536, 70000};
    static unsigned char text[70000], joined[LENGTH(CUTS)][70000 + 18];
    size_t len[LENGTH(CUTS)];

    (void)state;
    for (int fill = 0; fill < 256; fill++) { /* every byte: a length must not look like a text */
        memset(text, fill, sizeof text);
        for (size_t i = 0; i < LENGTH(CUTS); i++) {
            const struct weir_bytes part[] = {{text, CUTS[i]},
                                              {text + CUTS[i], sizeof text - CUTS[i]}};

            len[i] = weir_key_join(joined[i], sizeof joined[i], part, 2);
            assert_in_range(len[i], sizeof text, sizeof text + 18);
            for (size_t k = 0; k < i; k++)
                assert_true(len[i] != len[k] || memcmp(joined[i], joined[k], len[i]) != 0);
        }
    }
}

static void short_buffers_are_filled_and_not_passed(void **state)
{
    const struct weir_bytes part[] = {{"tenant", 6}, {"", 0}, {"/path", 5}, {NULL, 0}};
    unsigned char whole[64], cut[64];
    const size_t len = weir_key_join(whole, sizeof whole, part, 4);

    (void)state;
    assert_in_range(len, 11, 11 + 4 * 9);
    assert_int_equal(weir_key_join(NULL, 0, part, 4), len);
    for (size_t cap = 0; cap <= len; cap++) {
        smear(cut, sizeof cut);
        assert_int_equal(weir_key_join(cut, cap, part, 4), len);
        assert_memory_equal(cut, whole, cap);
        untouched(cut + cap, sizeof cut - cap);
    }
    assert_int_equal(weir_key_join(NULL, 0, NULL, 0), weir_key_join(whole, 64, part, 0));
}

static void joined_keys_are_keys(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 5/h", T0);
    const struct weir_bytes ab_c[] = {{"ab", 2}, {"c", 1}}, a_bc[] = {{"a", 1}, {"bc", 2}};
    unsigned char one[32], two[32];
    struct weir_request rq = {p, one, weir_key_join(one, sizeof one, ab_c, 2), 5, 0};
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_take_at(w, &rq, T0, &v), 0);
    assert_true(v.allowed);
    rq.key = two;
    rq.key_len = weir_key_join(two, sizeof two, a_bc, 2);
    assert_int_equal(weir_take_at(w, &rq, T0, &v), 0);
    assert_true(v.allowed);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(different_lists_are_different_keys),
    cmocka_unit_test(different_cuts_are_different_keys),
    cmocka_unit_test(short_buffers_are_filled_and_not_passed),
    cmocka_unit_test(joined_keys_are_keys),
};

RUN_BACKEND("joining", TESTS)
