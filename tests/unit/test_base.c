/* Unit tests of base: numbers, durations, slices, the writer and hidden secrets. */
#include "check.h"

#include <limits.h>
#include <string.h>

#include "base/digits.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/num.h"
#include "base/sha256.h"
#include "base/text.h"

static void durations_are_read_exactly_or_refused(void **state)
{
    static const struct {
        const char *text;
        enum weir__number read;
        int64_t ns;
    } ROWS[] = {
        {"0", WEIR__NUMBER_OK, 0},
        {"0s", WEIR__NUMBER_OK, 0},
        {"250ms", WEIR__NUMBER_OK, 250000000},
        {"1.5s", WEIR__NUMBER_OK, 1500000000},
        {"1m30s", WEIR__NUMBER_OK, 90000000000},
        {"5min", WEIR__NUMBER_OK, 300000000000},
        {"333333333ns", WEIR__NUMBER_OK, 333333333},
        {"0.000000001s", WEIR__NUMBER_OK, 1},
        {"1.0000000000s", WEIR__NUMBER_OK, 1000000000},
        {"106751d", WEIR__NUMBER_OK, INT64_C(9223286400000000000)},
        {"0.0000000001s", WEIR__NUMBER_FINE, 0},
        {"1.5ns", WEIR__NUMBER_FINE, 0},
        {"-1s", WEIR__NUMBER_NEGATIVE, 0},
        {"106752d", WEIR__NUMBER_BIG, 0},
        {"9223372036854775808ns", WEIR__NUMBER_BIG, 0},
        {"9223372036854775807ns1ns", WEIR__NUMBER_BIG, 0},
        {"", WEIR__NUMBER_BAD, 0},
        {"1", WEIR__NUMBER_BAD, 0},
        {"s", WEIR__NUMBER_BAD, 0},
        {"1.s", WEIR__NUMBER_BAD, 0},
        {".5s", WEIR__NUMBER_BAD, 0},
        {"1.5.5s", WEIR__NUMBER_BAD, 0},
        {"1s2", WEIR__NUMBER_BAD, 0},
        {"1 s", WEIR__NUMBER_BAD, 0},
        {"1S", WEIR__NUMBER_BAD, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        int64_t ns = -7;

        print_message("  '%s'\n", ROWS[i].text);
        assert_int_equal(weir__parse_duration(weir__slice_of(ROWS[i].text), &ns), ROWS[i].read);
        if (ROWS[i].read == WEIR__NUMBER_OK)
            assert_int_equal(ns, ROWS[i].ns);
    }
}

static void counts_carry_k_and_M(void **state)
{
    static const struct {
        const char *text;
        enum weir__number read;
        int64_t value;
    } ROWS[] = {
        {"10", WEIR__NUMBER_OK, 10},
        {"1k", WEIR__NUMBER_OK, 1000},
        {"1.5k", WEIR__NUMBER_OK, 1500},
        {"2M", WEIR__NUMBER_OK, 2000000},
        {"0.5M", WEIR__NUMBER_OK, 500000},
        {"1.0001k", WEIR__NUMBER_FINE, 0},
        {"1.5", WEIR__NUMBER_FINE, 0},
        {"k", WEIR__NUMBER_BAD, 0},
        {"1K", WEIR__NUMBER_BAD, 0},
        {"1kk", WEIR__NUMBER_BAD, 0},
        {"0x10", WEIR__NUMBER_BAD, 0},
        {"-5", WEIR__NUMBER_NEGATIVE, 0},
        {"+5", WEIR__NUMBER_BAD, 0},
        {"9223372036854775807k", WEIR__NUMBER_BIG, 0},
        {"99999999999999999999", WEIR__NUMBER_BIG, 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        int64_t value = -7;

        print_message("  '%s'\n", ROWS[i].text);
        assert_int_equal(weir__parse_count(weir__slice_of(ROWS[i].text), &value), ROWS[i].read);
        if (ROWS[i].read == WEIR__NUMBER_OK)
            assert_int_equal(value, ROWS[i].value);
    }
}

static void printed_durations_parse_back(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } ROWS[] = {
        {0, "0s"},
        {1, "1ns"},
        {1500000000, "1s500ms"},
        {90000000000, "1m30s"},
        {86400000000000, "24h"},
        {1001, "1us1ns"},
        {INT64_MAX, NULL},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[64];
        struct weir__out o = {text, sizeof text, 0};
        int64_t back;

        weir__out_duration(&o, ROWS[i].ns);
        (void)weir__out_end(&o);
        if (ROWS[i].text)
            assert_string_equal(text, ROWS[i].text);
        assert_int_equal(weir__parse_duration(weir__slice_of(text), &back), WEIR__NUMBER_OK);
        assert_int_equal(back, ROWS[i].ns);
    }
}

static void a_writer_never_passes_its_buffer_and_knows_the_whole_length(void **state)
{
    char text[8];
    struct weir__out o = {text, 5, 0};

    (void)state;
    memset(text, 'x', sizeof text);
    weir__out_text(&o, "abcdefg");
    weir__out_int(&o, INT64_MIN);
    assert_int_equal(weir__out_end(&o), 27);
    assert_memory_equal(text, "abcd\0xxx", 8);
}

static void large_numbers_are_grouped(void **state)
{
    static const struct {
        uint64_t value;
        const char *text;
    } ROWS[] = {
        {0, "0"},          {999, "999"},           {1000, "1,000"},
        {12034, "12,034"}, {1000000, "1,000,000"}, {UINT64_MAX, "18,446,744,073,709,551,615"}};

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[32];
        struct weir__out o = {text, sizeof text, 0};

        weir__out_grouped(&o, ROWS[i].value);
        (void)weir__out_end(&o);
        assert_string_equal(text, ROWS[i].text);
    }
}

static void blanks_and_line_ends_are_trimmed(void **state)
{
    static const struct {
        const char *text, *trimmed;
    } ROWS[] = {{"a", "a"}, {" \t a \r\n b\n\t ", "a \r\n b"}, {" \r\n\t", ""}, {"", ""}};

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        assert_true(
            weir__slice_is(weir__slice_trim(weir__slice_of(ROWS[i].text)), ROWS[i].trimmed));
}

static void hexadecimal_digits_are_all_that_is_read(void **state)
{
    static const char DIGITS[] = "0123456789abcdef0123456789ABCDEF";
    int found = 0;

    (void)state;
    for (int i = 0; i < 32; i++)
        assert_int_equal(weir__hex_of(DIGITS[i]), i % 16);
    for (int c = CHAR_MIN; c <= CHAR_MAX; c++)
        found += weir__hex_of((char)c) >= 0;
    assert_int_equal(found, 22);
}

static void quoted_words_are_cut_and_printable(void **state)
{
    char text[128];
    struct weir__out o = {text, sizeof text, 0};

    (void)state;
    weir__out_quoted(&o, (struct weir__slice){"a\nb\0c", 5});
    weir__out_quoted(&o, weir__slice_of("0123456789012345678901234567890123456789X"));
    (void)weir__out_end(&o);
    assert_string_equal(text, "'a?b?c''0123456789012345678901234567890123456789...'");
}

static void urls_are_shown_without_their_secrets(void **state)
{
    static const struct {
        const char *url, *shown;
    } ROWS[] = {
        {"memory:", "memory:"},
        {"file:/var/a@b/state", "file:/var/a@b/state"},
        {"redis://cache:6379/3?timeout=50ms&nodes=2", "redis://cache:6379/3?timeout=50ms&nodes=2"},
        {"redis://[fe80::1%25eth0]:6379", "redis://[fe80::1%25eth0]:6379"},
        {"redis+unix:/run/r.sock?db=1", "redis+unix:/run/r.sock?db=1"},
        {"redis://:S3@cache", "redis://***@cache"},
        {"rediss://u:S3@cache:1/0?tmeout=1", "rediss://***@cache:1/0?tmeout=***"},
        {"redis://u:S3/@?@cache", "redis://***@cache"},
        {"redis:/:S3@h", "***@h"},
        {"tcp://:S3@h", "tcp://***@h"},
        {"redis://h?pass=S3", "redis://h?pass=***"},
        {"redis://h?PASSWORD=S3&nodes=1", "redis://h?PASSWORD=***"},
        {"redis://h?nodes=1&user=S3", "redis://h?nodes=1&user=***"},
        {"redis://h?S3", "redis://h?***"},
        {"redis://h?pass:S3=1", "redis://h?***=***"},
        {"redis://h:S3", "redis://h***"},
        {"redis://:S3", "redis://***"},
        {"redis://u:S3 h:1", "redis://u***"},
        {"redis://S$3", "redis://***"},
        {"redis://h/S3", "redis://h/***"},
        {"redis://[::1]S3", "redis://[::1***"},
        {"redis+unix:/r?password=S3", "redis+unix:/r?password=***"},
        {"redis+unix:/r?password=a@S3&b", "***@***"},
        {"tape:", "tape:"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[128];
        struct weir__out o = {text, sizeof text, 0};

        weir__out_url(&o, ROWS[i].url);
        (void)weir__out_end(&o);
        assert_string_equal(text, ROWS[i].shown);
    }
}

static void words_with_urls_in_them_are_not_shown(void **state)
{
    static const struct {
        const char *text, *shown;
    } ROWS[] = {
        {"10/s burst=5", "10/s burst=5"},
        {"10/s store=redis://:S3@h", "10/s store=***"},
        {"10/s redis://:S3@h", "10/s redis***"},
        {"10/s :S3@h", "10/s ***"},
        {"--stroe=redis:/:S3@h", "--stroe=redis***"},
        {"alice@example.org", "alice@example.org"},
    };
    char text[128];
    struct weir__out o = {text, sizeof text, 0};

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        o.len = 0;
        weir__out_limit(&o, ROWS[i].text);
        (void)weir__out_end(&o);
        assert_string_equal(text, ROWS[i].shown);
    }
    o.len = 0;
    weir__out_quoted(&o, weir__slice_of("redis://:S3@h"));
    weir__out_quoted(&o, weir__slice_of(":S3@h"));
    weir__out_quoted(&o, weir__slice_of("a@b"));
    (void)weir__out_end(&o);
    assert_string_equal(text, "'***''***''a@b'");
}

static void wide_products_round_up_and_stop_at_the_limit(void **state)
{
    const weir__u128 big = (weir__u128)1 << 120;

    (void)state;
    assert_true(weir__wide_mul_div_ceil(7, 3, 10, big) == 3);
    assert_true(weir__wide_mul_div_ceil(10, 3, 10, big) == 3);
    assert_true(weir__wide_mul_div_ceil(0, 3, 10, big) == 0);
    assert_true(weir__wide_mul_div_ceil((weir__u128)1 << 110, (weir__u128)1 << 100,
                                        (weir__u128)1 << 101, big) == (weir__u128)1 << 109);
    assert_true(weir__wide_mul_div_ceil((weir__u128)1 << 127, 3, 1, big) == big);
    assert_true(weir__wide_mul_div_ceil(~(weir__u128)0, ~(weir__u128)0, ~(weir__u128)0,
                                        ~(weir__u128)0) == ~(weir__u128)0);
    assert_true(weir__wide_mul_div_ceil(((weir__u128)1 << 127) + 1, (weir__u128)1 << 64,
                                        ((weir__u128)1 << 127) - 1,
                                        big) == ((weir__u128)1 << 64) + 1);
}

static void siphash_1_3_gives_the_reference_answers(void **state)
{
    /* key 00..0f, message 00..len-1; computed with the designers' own C, rounds set to 1 and 3 */
    static const struct {
        size_t len;
        uint64_t hash;
    } ROWS[] = {
        {0, UINT64_C(0xabac0158050fc4dc)},
        {1, UINT64_C(0xc9f49bf37d57ca93)},
        {8, UINT64_C(0x369095118d299a8e)},
        {15, UINT64_C(0xd320d86d2a519956)},
    };
    const uint64_t secret[2] = {UINT64_C(0x0706050403020100), UINT64_C(0x0f0e0d0c0b0a0908)};
    unsigned char message[16];

    (void)state;
    for (size_t i = 0; i < sizeof message; i++)
        message[i] = (unsigned char)i;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++)
        assert_int_equal(weir__hash(message, ROWS[i].len, secret), ROWS[i].hash);
}

static void the_nearest_word_is_found_by_edits(void **state)
{
    (void)state;
    assert_int_equal(weir__slice_distance(weir__slice_of("brust"), weir__slice_of("burst")), 2);
    assert_int_equal(weir__slice_distance(weir__slice_of("burst"), weir__slice_of("burst")), 0);
    assert_int_equal(weir__slice_distance(weir__slice_of(""), weir__slice_of("abc")), 3);
    assert_int_equal(weir__slice_distance(weir__slice_of("0123456789012345678901234567890123"),
                                          weir__slice_of("x")),
                     32);
}

static void a_period_is_a_bare_unit_where_one_is_enough(void **state)
{
    static const struct {
        int64_t ns;
        const char *text;
    } ROWS[] = {
        {WEIR__NS_PER_S, "s"},
        {60 * WEIR__NS_PER_S, "m"},
        {3600 * WEIR__NS_PER_S, "h"},
        {WEIR__NS_PER_MS, "ms"},
        {WEIR__NS_PER_US, "us"},
        {1, "1ns"},
        {500 * WEIR__NS_PER_MS, "500ms"},
        {90 * WEIR__NS_PER_S, "1m30s"},
        {86400 * WEIR__NS_PER_S, "24h"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[32];
        struct weir__out o = {text, sizeof text, 0};

        weir__out_period(&o, ROWS[i].ns);
        (void)weir__out_end(&o);
        assert_string_equal(text, ROWS[i].text);
    }
}

static void json_to_out(void *to, const char *at, size_t len)
{
    weir__out_bytes(to, at, len);
}

static void json_strings_are_escaped_and_valid_utf8(void **state)
{
    static const struct {
        const char *bytes, *json;
    } ROWS[] = {
        {"", "\"\""},
        {"alice", "\"alice\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"\x01 \t\n\x1f\x7f", "\"\\u0001 \\u0009\\u000a\\u001f\x7f\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff"
         "a",
         "\"\\ufffda\""},
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"cut \xe2\x82", "\"cut \\ufffd\\ufffd\""},
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
        {"\xc3\"", "\"\\ufffd\\\"\""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        char text[96];
        struct weir__out o = {text, sizeof text, 0};
        struct weir__json j = {.put = json_to_out, .to = &o};

        weir__json_text(&j, ROWS[i].bytes);
        (void)weir__out_end(&o);
        assert_string_equal(text, ROWS[i].json);
    }
}

static void json_values_have_commas_between_them(void **state)
{
    char text[160];
    struct weir__out o = {text, sizeof text, 0};
    struct weir__json j = {.put = json_to_out, .to = &o};

    (void)state;
    weir__json_open(&j, '{');
    weir__json_key(&j, "a");
    weir__json_int(&j, INT64_MIN);
    weir__json_key(&j, "b");
    weir__json_open(&j, '[');
    weir__json_uint(&j, UINT64_MAX);
    weir__json_null(&j);
    weir__json_open(&j, '{');
    weir__json_close(&j, '}');
    weir__json_open(&j, '[');
    weir__json_close(&j, ']');
    weir__json_close(&j, ']');
    weir__json_key(&j, "c");
    weir__json_bool(&j, true);
    weir__json_key(&j, "d");
    weir__json_bool(&j, false);
    weir__json_close(&j, '}');
    (void)weir__out_end(&o);
    assert_string_equal(text, "{\"a\":-9223372036854775808,"
                              "\"b\":[18446744073709551615,null,{},[]],\"c\":true,\"d\":false}");
}

/* Of so many letters a: around the ends of a block, where the padding differs. */
static void sha256_gives_the_reference_answers(void **state)
{
    static const struct {
        size_t n;
        const char *hex;
    } ROWS[] = {
        {0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        {1, "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"},
        {55, "9f4390f8d30c2dd92ec9f095b65e2b9ae9b0a925a5258e241c9f1e910f734318"},
        {56, "b35439a4ac6f0948b6d6f9e3c6af0f5f590ce20f1bde7090ef7970686ec6738a"},
        {63, "7d3e74a05d7db15bce4ad9ec0658ea98e3f06eeecf16b4c6fff2da457ddc2f34"},
        {64, "ffe054fe7ae0cb6dc65c3af9b61d5209f439851db43d0ba5997337df154668eb"},
        {65, "635361c48bb9eab14198e76ea8ab7f1a41685d6ad62aa9146d301d4f17eb0ae0"},
        {119, "31eba51c313a5c08226adf18d4a359cfdfd8d2e816b13f4af952f7ea6584dcfb"},
        {120, "2f3d335432c70b580af0e8e1b3674a7c020d683aa5f73aaaedfdc55af904c21c"},
        {128, "6836cf13bac400e9105071cd6af47084dfacad4e5e302c94bfed24e013afb73e"},
        {1000, "41edece42d63e8d9bf515a9ba6932e1c20cbc9f5a5d134645adb5db1b9737ea3"},
    };
    char text[1000], hex[2 * WEIR__SHA256_BYTES + 1];
    unsigned char digest[WEIR__SHA256_BYTES], other[WEIR__SHA256_BYTES];

    (void)state;
    memset(text, 'a', sizeof text);
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        weir__sha256(text, ROWS[i].n, digest);
        for (size_t k = 0; k < sizeof digest; k++)
            (void)snprintf(hex + 2 * k, 3, "%02x", digest[k]);
        assert_string_equal(hex, ROWS[i].hex);
    }
    for (size_t i = 0; i < sizeof digest; i++) {
        memcpy(other, digest, sizeof other);
        assert_true(weir__sha256_equal(digest, other));
        other[i] ^= (unsigned char)(1 << i % 8);
        assert_false(weir__sha256_equal(digest, other));
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(sha256_gives_the_reference_answers),
    cmocka_unit_test(a_period_is_a_bare_unit_where_one_is_enough),
    cmocka_unit_test(json_strings_are_escaped_and_valid_utf8),
    cmocka_unit_test(json_values_have_commas_between_them),
    cmocka_unit_test(durations_are_read_exactly_or_refused),
    cmocka_unit_test(counts_carry_k_and_M),
    cmocka_unit_test(printed_durations_parse_back),
    cmocka_unit_test(a_writer_never_passes_its_buffer_and_knows_the_whole_length),
    cmocka_unit_test(quoted_words_are_cut_and_printable),
    cmocka_unit_test(large_numbers_are_grouped),
    cmocka_unit_test(blanks_and_line_ends_are_trimmed),
    cmocka_unit_test(hexadecimal_digits_are_all_that_is_read),
    cmocka_unit_test(urls_are_shown_without_their_secrets),
    cmocka_unit_test(words_with_urls_in_them_are_not_shown),
    cmocka_unit_test(wide_products_round_up_and_stop_at_the_limit),
    cmocka_unit_test(siphash_1_3_gives_the_reference_answers),
    cmocka_unit_test(the_nearest_word_is_found_by_edits),
};

RUN("base", TESTS)
