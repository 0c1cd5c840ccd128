/* Unit tests of how a client reads replies. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "proto/resp_reply.h"

#define MOST        200
#define ROOM        6
#define TEXT(bytes) bytes, sizeof(bytes) - 1

/* Replies, and their values in one text: i1 an integer, t'x' a text, e'x' an error, n null, a2 an
 * array of two. */
static const struct reply_row {
    const char *sentence, *bytes;
    size_t len;
    const char *values;
} REPLIES[] = {
    {"a line", TEXT("+OK\r\n"), "t'OK' "},
    {"an error", TEXT("-ERR no\r\n"), "e'ERR no' "},
    {"an integer", TEXT(":-12\r\n"), "i-12 "},
    {"a string", TEXT("$3\r\na\r\n\r\n"), "t'a\r\n' "},
    {"an empty string", TEXT("$0\r\n\r\n"), "t'' "},
    {"null of a string", TEXT("$-1\r\n"), "n "},
    {"null of an array", TEXT("*-1\r\n"), "n "},
    {"an empty array", TEXT("*0\r\n"), "a0 "},
    {"arrays within arrays", TEXT("*2\r\n$1\r\n0\r\n*2\r\n:1\r\n+x\r\n"), "a2 t'0' a2 i1 t'x' "},
    {"as many values as there is room for", TEXT("*5\r\n:1\r\n:2\r\n:3\r\n:4\r\n:5\r\n"),
     "a5 i1 i2 i3 i4 i5 "},
};

static const struct wrong_row {
    const char *sentence, *bytes;
    size_t len;
    const char *why;
} WRONG[] = {
    {"HTTP", TEXT("HTTP/1.1 200 OK\r\n"), "the bytes are not RESP"},
    {"one value more than there is room for", TEXT("*6\r\n"), "the reply has too many values"},
    {"the same within an array", TEXT("*2\r\n*4\r\n"), "the reply has too many values"},
    {"the longest array", TEXT("*9223372036854775807\r\n"), "the reply has too many values"},
    {"a string that is too long", TEXT("$200\r\n"), "the reply is too long"},
    {"the longest string", TEXT("$9223372036854775807\r\n"), "the reply is too long"},
    {"a length beyond 64 bits", TEXT("$92233720368547758070\r\n"), "a number is none"},
    {"a negative length", TEXT("$-2\r\n"), "a length is negative"},
    {"a negative array", TEXT("*-7\r\n"), "a length is negative"},
    {"a number that is none", TEXT(":1x\r\n"), "a number is none"},
    {"an empty number", TEXT(":\r\n"), "a number is none"},
    {"a bare LF", TEXT("+OK\n"), "a line does not end in CR LF"},
    {"a string without its end", TEXT("$1\r\nabc"), "a string does not end in CR LF"},
};

static void append(char *to, const struct resp_value *v)
{
    char *const end = to + strlen(to);

    switch (v->kind) {
    case RESP_IS_NULL: (void)sprintf(end, "n "); break;
    case RESP_IS_INTEGER: (void)sprintf(end, "i%lld ", (long long)v->number); break;
    case RESP_IS_ARRAY: (void)sprintf(end, "a%lld ", (long long)v->number); break;
    case RESP_IS_TEXT: (void)sprintf(end, "t'%.*s' ", (int)v->text.len, v->text.at); break;
    case RESP_IS_ERROR: (void)sprintf(end, "e'%.*s' ", (int)v->text.len, v->text.at); break;
    }
}

/* In a block of exactly that size, so that a sanitizer sees a read behind its end. */
static long parse(const char *bytes, size_t len, char *values, const char **why)
{
    struct resp_value value[ROOM];
    struct resp_reply r = {.value = value, .room = ROOM};
    char *const block = malloc(len + (len == 0));
    long n;

    memcpy(block, bytes, len);
    n = resp_reply_parse(block, len, MOST, &r);
    values[0] = '\0';
    for (size_t i = 0; n > 0 && i < r.n; i++)
        append(values, &value[i]);
    *why = r.why;
    free(block);
    return n;
}

static void replies_are_read(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof REPLIES / sizeof REPLIES[0]; i++) {
        const struct reply_row *const row = &REPLIES[i];
        char values[512];
        const char *why;

        for (size_t len = 0; len < row->len; len++)
            if (parse(row->bytes, len, values, &why) != 0)
                fail_msg("%s: is not complete with %zu bytes", row->sentence, len);
        if (parse(row->bytes, row->len, values, &why) != (long)row->len ||
            strcmp(values, row->values) != 0)
            fail_msg("%s: got %s", row->sentence, values);
    }
}

static void wrong_bytes_are_named(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof WRONG / sizeof WRONG[0]; i++) {
        char values[512];
        const char *why;

        if (parse(WRONG[i].bytes, WRONG[i].len, values, &why) != -1 ||
            strcmp(why, WRONG[i].why) != 0)
            fail_msg("%s: got %s", WRONG[i].sentence, why ? why : "nothing");
    }
}

/* A line that never ends is refused at the bound, not before. */
static void a_line_has_an_end(void **state)
{
    char line[MOST + 1], values[512];
    const char *why;

    (void)state;
    memset(line, 'x', sizeof line);
    line[0] = '+';
    assert_int_equal(parse(line, MOST - 1, values, &why), 0);
    assert_int_equal(parse(line, MOST, values, &why), -1);
    assert_string_equal(why, "a line is too long");
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(replies_are_read),
    cmocka_unit_test(wrong_bytes_are_named),
    cmocka_unit_test(a_line_has_an_end),
};

RUN("resp replies", TESTS)
