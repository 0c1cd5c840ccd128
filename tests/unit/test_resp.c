/* Unit tests of the RESP reader and writer. */
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/resp.h"

#define MOST        (1024 * 1024) /* the daemon's default */
#define TEXT(bytes) bytes, sizeof(bytes) - 1

/* Commands, and how their words read; '|' stands between words, and none holds one. */
static const struct command_row {
    const char *sentence, *bytes;
    size_t len;
    size_t n;
    const char *words;
    size_t words_len;
} COMMANDS[] = {
    {"an array of one", TEXT("*1\r\n$4\r\nPING\r\n"), 1, TEXT("PING")},
    {"what redis-cell's clients send",
     TEXT("*5\r\n$11\r\nCL.THROTTLE\r\n$6\r\nuser:1\r\n$2\r\n15\r\n$2\r\n30\r\n$2\r\n60\r\n"), 5,
     TEXT("CL.THROTTLE|user:1|15|30|60")},
    {"an empty array is no command", TEXT("*0\r\n"), 0, TEXT("")},
    {"nor is one of -1 words", TEXT("*-1\r\n"), 0, TEXT("")},
    {"nor one of -1024", TEXT("*-1024\r\n"), 0, TEXT("")},
    {"an empty word", TEXT("*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"), 2, TEXT("ECHO|")},
    {"NULs, line ends and bytes that are no UTF-8 within a word",
     TEXT("*2\r\n$4\r\nECHO\r\n$6\r\na\0\r\n\xff\xfe\r\n"), 2, TEXT("ECHO|a\0\r\n\xff\xfe")},
    {"a word that looks like a length", TEXT("*1\r\n$4\r\n$1\r\n\r\n"), 1, TEXT("$1\r\n")},
    {"a length of two digits", TEXT("*1\r\n$10\r\n0123456789\r\n"), 1, TEXT("0123456789")},
    {"integers in an array", TEXT("*4\r\n$1\r\nT\r\n:15\r\n:-3\r\n:+7\r\n"), 4, TEXT("T|15|-3|7")},
    {"the longest integers", TEXT("*2\r\n:-9223372036854775808\r\n:9223372036854775807\r\n"), 2,
     TEXT("-9223372036854775808|9223372036854775807")},
    {"simple strings in an array", TEXT("*3\r\n+ECHO\r\n+a b\r\n+\r\n"), 3, TEXT("ECHO|a b|")},
    {"a line", TEXT("PING\r\n"), 1, TEXT("PING")},
    {"a line that ends in a bare LF", TEXT("PING\n"), 1, TEXT("PING")},
    {"blanks around and between words", TEXT(" \t CL.THROTTLE\tuser  15 30 60 \r\n"), 5,
     TEXT("CL.THROTTLE|user|15|30|60")},
    {"a CR within a line is a blank", TEXT("a\rb\n"), 2, TEXT("a|b")},
    {"an empty line is no command", TEXT("\r\n"), 0, TEXT("")},
    {"nor is a bare LF", TEXT("\n"), 0, TEXT("")},
    {"nor are blanks", TEXT("  \t \r\n"), 0, TEXT("")},
    {"a star later in a line is a star", TEXT(" *1\r\n"), 1, TEXT("*1")},
    {"double quotes hold blanks", TEXT("WEIR.TAKE \"token-bucket 10/s\" k\r\n"), 3,
     TEXT("WEIR.TAKE|token-bucket 10/s|k")},
    {"single quotes hold blanks", TEXT("ECHO 'a \"b\" c'\r\n"), 2, TEXT("ECHO|a \"b\" c")},
    {"empty quotes are an empty word", TEXT("ECHO \"\" ''\r\n"), 3, TEXT("ECHO||")},
    {"escapes between double quotes", TEXT("\"\\n\\r\\t\\b\\a\\\"\\\\\\q\" x\n"), 2,
     TEXT("\n\r\t\b\a\"\\q|x")},
    {"bytes by their hex digits", TEXT("\"\\x00\\xfF\\x41z\"\n"), 1, TEXT("\0\xff\x41z")},
    {"hex digits that are none are letters", TEXT("\"\\xg0\\x4\"\n"), 1, TEXT("xg0x4")},
    {"single quotes escape only their own", TEXT("'it\\'s \\n'\n"), 1, TEXT("it's \\n")},
    {"backslashes outside quotes are bytes", TEXT("a\\n\\\n"), 1, TEXT("a\\n\\")},
    {"a quote may open within a word", TEXT("key:\"a b\" c'd e'\n"), 2, TEXT("key:a b|cd e")},
    {"other quotes within quotes", TEXT("\"it's\" '\"'\n"), 2, TEXT("it's|\"")},
    {"NULs in a line are bytes", TEXT("a\0b c\n"), 2, TEXT("a\0b|c")},
};

/* Refused when the last byte shown has come, and not before. */
static const struct refusal_row {
    const char *sentence, *bytes;
    size_t len, most; /* 0: MOST */
    const char *why;
} REFUSALS[] = {
#define MULTIBULK "invalid multibulk length"
#define BULK      "invalid bulk length"
#define INTEGER   "invalid integer"
    {"minus zero words", TEXT("*-0"), 0, MULTIBULK},
    {"a minus without a count", TEXT("*-\r"), 0, MULTIBULK},
    {"two minuses", TEXT("*--"), 0, MULTIBULK},
    {"fewer words below zero than there may be above", TEXT("*-1025"), 0, MULTIBULK},
    {"an array with a plus", TEXT("*+"), 0, MULTIBULK},
    {"a blank before the count", TEXT("* "), 0, MULTIBULK},
    {"a blank behind the count", TEXT("*1 "), 0, MULTIBULK},
    {"no count", TEXT("*\r"), 0, MULTIBULK},
    {"a count that is no number", TEXT("*a"), 0, MULTIBULK},
    {"a count in hex", TEXT("*0x"), 0, MULTIBULK},
    {"a leading zero", TEXT("*01"), 0, MULTIBULK},
    {"more words than there may be, before the line has ended", TEXT("*1025"), 0, MULTIBULK},
    {"a huge count", TEXT("*9999"), 0, MULTIBULK},
    {"a count without CR", TEXT("*1\n"), 0, MULTIBULK},
    {"a count without LF", TEXT("*1\r$"), 0, MULTIBULK},
    {"a null string", TEXT("*1\r\n$-"), 0, BULK},
    {"a string with a plus", TEXT("*1\r\n$+"), 0, BULK},
    {"a blank before a length", TEXT("*1\r\n$ "), 0, BULK},
    {"no length", TEXT("*1\r\n$\r"), 0, BULK},
    {"a length with a leading zero", TEXT("*1\r\n$00"), 0, BULK},
    {"a length that is no number", TEXT("*1\r\n$4x"), 0, BULK},
    {"a length without CR", TEXT("*1\r\n$4\n"), 0, BULK},
    {"a length without LF", TEXT("*1\r\n$4\rP"), 0, BULK},
    {"a length over the most, at its last digit", TEXT("*1\r\n$1048577"), 0, BULK},
    {"the same with another most", TEXT("*1\r\n$41"), 40, BULK},
    {"a length over 2^64", TEXT("*1\r\n$18446744073709551617"), SIZE_MAX, BULK},
    {"a length near 2^64 that would wrap", TEXT("*1\r\n$18446744073709551615"), SIZE_MAX, BULK},
    {"a string that would end after the most", TEXT("*1\r\n$30\r\n"), 40, "too big request"},
    {"words that add up to more than the most", TEXT("*3\r\n$4\r\nabcd\r\n$5\r\n"), 24,
     "too big request"},
    {"an array that is not complete at the largest size", TEXT("*2\r\n$1\r\na\r\n$"), 12,
     "too big request"},
    {"no CR behind a string", TEXT("*1\r\n$4\r\nPINGx"), 0, "expected CRLF after a bulk string"},
    {"no LF behind a string", TEXT("*1\r\n$4\r\nPING\rx"), 0, "expected CRLF after a bulk string"},
    {"a string longer than it said", TEXT("*1\r\n$3\r\nPING"), 0,
     "expected CRLF after a bulk string"},
    {"a string shorter than it said", TEXT("*2\r\n$5\r\nPING\r\n"), 0,
     "expected CRLF after a bulk string"},
    {"a word without its length", TEXT("*1\r\nP"), 0, "expected '$', got 'P'"},
    {"an array within an array", TEXT("*1\r\n*"), 0, "expected '$', got '*'"},
    {"an error as a word", TEXT("*2\r\n$1\r\na\r\n-"), 0, "expected '$', got '-'"},
    {"RESP3's null as a word", TEXT("*1\r\n_"), 0, "expected '$', got '_'"},
    {"a byte that does not print", TEXT("*1\r\n\x01"), 0, "expected '$', got '?'"},
    {"a byte over 127", TEXT("*1\r\n\xff"), 0, "expected '$', got '?'"},
    {"an empty line for a word", TEXT("*1\r\n\r"), 0, "expected '$', got '?'"},
    {"an integer without digits", TEXT("*1\r\n:\r"), 0, INTEGER},
    {"a sign without digits", TEXT("*1\r\n:-\r"), 0, INTEGER},
    {"two signs", TEXT("*1\r\n:+-"), 0, INTEGER},
    {"a decimal", TEXT("*1\r\n:1."), 0, INTEGER},
    {"an integer of twenty digits", TEXT("*1\r\n:12345678901234567890"), 0, INTEGER},
    {"an integer without LF", TEXT("*1\r\n:1\r:"), 0, INTEGER},
    {"a simple string with a bare LF", TEXT("*1\r\n+a\n"), 0,
     "expected CRLF after a simple string"},
    {"a simple string with a bare CR", TEXT("*1\r\n+a\rb"), 0,
     "expected CRLF after a simple string"},
    {"a quote that does not close", TEXT("ECHO \"a\r\n"), 0, "unbalanced quotes in request"},
    {"a single quote that does not close", TEXT("ECHO 'a\\'\n"), 0, "unbalanced quotes in request"},
    {"a quote that an escape hides", TEXT("ECHO \"a\\\"\n"), 0, "unbalanced quotes in request"},
    {"an escape of the line's end", TEXT("ECHO \"a\\\n"), 0, "unbalanced quotes in request"},
    {"hex digits cut by the line's end", TEXT("ECHO \"\\x4\n"), 0, "unbalanced quotes in request"},
    {"a word that goes on behind its quote", TEXT("\"a\"b\n"), 0, "unbalanced quotes in request"},
    {"a quote right behind a quote", TEXT("'a''b'\n"), 0, "unbalanced quotes in request"},
    {"a line that is too long for the most", TEXT("PING PING"), 9, "too big inline request"},
};

#define COUNT(rows) (sizeof(rows) / sizeof((rows)[0]))

/* ---- A stage between two pages that cannot be touched ---------------------------------------- */

enum { KIB = 1024, PAGE = 64 * KIB, STAGE = 2 * PAGE }; /* no machine's pages are larger */

/* STAGE bytes. */
static char *stage(void)
{
    static char *all;

    if (!all) {
        all = mmap(NULL, STAGE + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_true(all != MAP_FAILED);
        assert_int_equal(mprotect(all + PAGE, STAGE, PROT_READ | PROT_WRITE), 0);
    }
    return all + PAGE;
}

/* A copy that ends where no byte can be read. */
static char *at_the_end(const char *bytes, size_t len)
{
    char *const copy = stage() + STAGE - len;

    assert_true(len <= STAGE);
    if (len > 0)
        memcpy(copy, bytes, len);
    return copy;
}

/* A copy before which no byte can be read. */
static char *at_the_start(const char *bytes, size_t len)
{
    assert_true(len <= STAGE);
    if (len > 0)
        memcpy(stage(), bytes, len);
    return stage();
}

/* What every answer keeps, whatever the bytes. */
static void check_answer(long used, const char *bytes, size_t len, size_t most,
                         const struct resp_command *c, const char *why)
{
    if (used == RESP_EPROTOCOL) {
        assert_non_null(why);
        assert_memory_equal(why, "Protocol error: ", 16);
        return;
    }
    assert_null(why);
    if (used == RESP_MORE) {
        assert_true(len < most);
        return;
    }
    assert_true(used > 0 && (size_t)used <= len && (size_t)used <= most);
    assert_true(c->n <= RESP_WORDS_MAX);
    for (size_t i = 0; i < c->n; i++) {
        assert_true(c->word[i].at >= bytes);
        assert_true(c->word[i].at + c->word[i].len <= bytes + used);
    }
}

static struct resp_command command; /* of the last parse */
static const char *complaint;

static long parse(const char *bytes, size_t len, size_t most)
{
    char *const copy = at_the_end(bytes, len);
    long used;

    complaint = NULL;
    used = resp_parse(copy, len, most, &command, &complaint);
    check_answer(used, copy, len, most, &command, complaint);
    if (used == RESP_MORE)
        assert_memory_equal(copy, bytes, len);
    return used;
}

static void check_words(size_t n, const char *words, size_t words_len)
{
    size_t at = 0;

    assert_int_equal(command.n, n);
    for (size_t i = 0; i < n; i++) {
        const char *const bar = memchr(words + at, '|', words_len - at);
        const size_t len = bar ? (size_t)(bar - words) - at : words_len - at;

        assert_int_equal(command.word[i].len, len);
        if (len > 0)
            assert_memory_equal(command.word[i].at, words + at, len);
        at += len + (bar ? 1 : 0);
    }
    assert_int_equal(at, words_len);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static void every_command_is_read_to_its_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(COMMANDS); i++) {
        const struct command_row *row = &COMMANDS[i];
        char *front;

        print_message("  %s\n", row->sentence);
        assert_int_equal(parse(row->bytes, row->len, MOST), row->len);
        check_words(row->n, row->words, row->words_len);
        front = at_the_start(row->bytes, row->len);
        assert_int_equal(resp_parse(front, row->len, MOST, &command, &complaint), row->len);
        check_words(row->n, row->words, row->words_len);
    }
}

static void every_beginning_of_a_command_asks_for_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(COMMANDS); i++) {
        for (size_t len = 0; len < COMMANDS[i].len; len++)
            if (parse(COMMANDS[i].bytes, len, MOST) != RESP_MORE)
                fail_msg("%s: not at byte %zu", COMMANDS[i].sentence, len);
    }
}

static void what_follows_a_command_is_left_alone(void **state)
{
    static const char *const FOLLOWS[] = {"*", "x", "\r\n", "\n", "$", "PING\r\n", "\"", "\xff"};
    char bytes[256];

    (void)state;
    for (size_t i = 0; i < COUNT(COMMANDS); i++) {
        const struct command_row *row = &COMMANDS[i];

        for (size_t k = 0; k < COUNT(FOLLOWS); k++) {
            const size_t len = strlen(FOLLOWS[k]);

            memcpy(bytes, row->bytes, row->len);
            memcpy(bytes + row->len, FOLLOWS[k], len);
            assert_int_equal(parse(bytes, row->len + len, MOST), row->len);
            check_words(row->n, row->words, row->words_len);
            assert_memory_equal(stage() + STAGE - len, FOLLOWS[k], len);
        }
    }
}

static void what_cannot_be_is_refused_at_its_first_wrong_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(REFUSALS); i++) {
        const struct refusal_row *row = &REFUSALS[i];
        const size_t most = row->most ? row->most : MOST;

        print_message("  %s\n", row->sentence);
        if (most < SIZE_MAX) /* else some digit before the last is already too much */
            for (size_t len = 0; len < row->len; len++)
                assert_int_equal(parse(row->bytes, len, most), RESP_MORE);
        assert_int_equal(parse(row->bytes, row->len, most), RESP_EPROTOCOL);
        assert_string_equal(complaint + 16, row->why);
    }
}

static void a_refusal_does_not_depend_on_what_follows(void **state)
{
    char bytes[256];

    (void)state;
    for (size_t i = 0; i < COUNT(REFUSALS); i++) {
        const struct refusal_row *row = &REFUSALS[i];

        for (int next = 0; next < 256; next++) {
            memcpy(bytes, row->bytes, row->len);
            bytes[row->len] = (char)next;
            assert_int_equal(parse(bytes, row->len + 1, row->most ? row->most : MOST),
                             RESP_EPROTOCOL);
            assert_string_equal(complaint + 16, row->why);
        }
    }
}

static void a_command_may_take_the_most_and_not_a_byte_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(COMMANDS); i++) {
        const struct command_row *row = &COMMANDS[i];

        assert_int_equal(parse(row->bytes, row->len, row->len), row->len);
        for (size_t most = 1; most < row->len; most++) {
            assert_int_equal(parse(row->bytes, most, most), RESP_EPROTOCOL);
            assert_int_equal(parse(row->bytes, row->len, most), RESP_EPROTOCOL);
        }
    }
}

static void a_pipeline_is_read_command_by_command(void **state)
{
    static char all[4 * KIB];
    size_t len = 0, at = 0;

    (void)state;
    for (size_t i = 0; i < COUNT(COMMANDS); i++) {
        memcpy(all + len, COMMANDS[i].bytes, COMMANDS[i].len);
        len += COMMANDS[i].len;
    }
    for (size_t i = 0; i < COUNT(COMMANDS); i++) {
        assert_int_equal(parse(all + at, len - at, MOST), COMMANDS[i].len);
        check_words(COMMANDS[i].n, COMMANDS[i].words, COMMANDS[i].words_len);
        at += COMMANDS[i].len;
    }
    assert_int_equal(at, len);
}

/* ---- The caps -------------------------------------------------------------------------------- */

static void an_array_has_up_to_1024_words(void **state)
{
    static char bytes[16 * KIB];
    char *end = resp_array(bytes, RESP_WORDS_MAX);

    (void)state;
    for (int i = 0; i < RESP_WORDS_MAX; i++)
        end = resp_bulk(end, "word", 4);
    assert_int_equal(parse(bytes, (size_t)(end - bytes), MOST), end - bytes);
    assert_int_equal(command.n, RESP_WORDS_MAX);
    assert_memory_equal(command.word[RESP_WORDS_MAX - 1].at, "word", 4);
    end = resp_array(bytes, RESP_WORDS_MAX + 1);
    assert_int_equal(parse(bytes, (size_t)(end - bytes), MOST), RESP_EPROTOCOL);
    assert_string_equal(complaint, "Protocol error: invalid multibulk length");
}

static void a_line_has_up_to_1024_words(void **state)
{
    static char bytes[2 * (RESP_WORDS_MAX + 1) + 2];

    (void)state;
    for (size_t i = 0; i <= RESP_WORDS_MAX; i++)
        memcpy(bytes + 2 * i, "w ", 2);
    memcpy(bytes + sizeof bytes - 2, "\r\n", 2);
    assert_int_equal(parse(bytes + 2, sizeof bytes - 2, MOST), sizeof bytes - 2);
    assert_int_equal(command.n, RESP_WORDS_MAX);
    assert_int_equal(parse(bytes, sizeof bytes, MOST), RESP_EPROTOCOL);
    assert_string_equal(complaint, "Protocol error: too many words in inline request");
}

static void a_line_has_up_to_64_KiB(void **state)
{
    static char bytes[RESP_LINE_MAX + 1];

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    bytes[RESP_LINE_MAX - 1] = '\n';
    assert_int_equal(parse(bytes, RESP_LINE_MAX - 1, MOST), RESP_MORE);
    assert_int_equal(parse(bytes, RESP_LINE_MAX, MOST), RESP_LINE_MAX);
    assert_int_equal(command.word[0].len, RESP_LINE_MAX - 1);
    memcpy(bytes + RESP_LINE_MAX - 1, "x\n", 2);
    for (size_t len = RESP_LINE_MAX; len <= sizeof bytes; len++) {
        assert_int_equal(parse(bytes, len, MOST), RESP_EPROTOCOL);
        assert_string_equal(complaint, "Protocol error: too big inline request");
    }
}

static void a_simple_string_has_less_than_64_KiB(void **state)
{
    static char bytes[RESP_LINE_MAX + 16];
    const size_t head = 5; /* *1\r\n+ */

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    memcpy(bytes, "*1\r\n+", head);
    assert_int_equal(parse(bytes, head + RESP_LINE_MAX - 1, MOST), RESP_MORE);
    memcpy(bytes + head + RESP_LINE_MAX - 1, "\r\n", 2);
    assert_int_equal(parse(bytes, head + RESP_LINE_MAX + 1, MOST), head + RESP_LINE_MAX + 1);
    assert_int_equal(command.word[0].len, RESP_LINE_MAX - 1);
    memcpy(bytes + head + RESP_LINE_MAX - 1, "x\r\n", 3);
    for (size_t len = head + RESP_LINE_MAX; len <= head + RESP_LINE_MAX + 2; len++) {
        assert_int_equal(parse(bytes, len, MOST), RESP_EPROTOCOL);
        assert_string_equal(complaint, "Protocol error: too big simple string");
    }
}

static void a_long_string_waits_for_its_last_byte(void **state)
{
    static char bytes[80 * KIB], word[70 * KIB];
    char *const end = resp_bulk(resp_array(bytes, 1), word, sizeof word);
    const size_t len = (size_t)(end - bytes);

    (void)state;
    assert_int_equal(parse(bytes, len - 2, MOST), RESP_MORE);
    assert_int_equal(parse(bytes, len - 1, MOST), RESP_MORE);
    assert_int_equal(parse(bytes, len, MOST), len);
    assert_int_equal(command.word[0].len, sizeof word);
}

/* ---- Garbage --------------------------------------------------------------------------------- */

static uint64_t seed;

static size_t random_below(size_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % n;
}

/* What comes byte by byte is answered as what comes at once, at the byte that decides it. */
static long parse_both_ways(const char *bytes, size_t len, size_t most)
{
    char why[64] = "";
    size_t n;
    long used = RESP_MORE, whole;

    for (size_t part = 0; part <= len && used == RESP_MORE; part++)
        used = parse(bytes, part, most);
    n = used > 0 ? command.n : 0;
    if (used == RESP_EPROTOCOL)
        (void)snprintf(why, sizeof why, "%s", complaint);
    whole = parse(bytes, len, most);
    assert_int_equal(whole, used);
    if (whole > 0)
        assert_int_equal(command.n, n);
    if (whole == RESP_EPROTOCOL)
        assert_string_equal(complaint, why);
    return whole;
}

static void no_garbage_breaks_the_parser(void **state)
{
    static const char LETTERS[] = "****$$$$::++--00011223459\r\r\r\n\n\n\r\n\"\"''\\\\xan \t\0\xff";
    static const size_t MOSTS[] = {MOST, 1, 2, 7, 30};
    size_t outcomes[3] = {0};

    (void)state;
    seed = 1;
    for (int round = 0; round < 50000; round++) {
        char bytes[48];
        const size_t len = random_below(sizeof bytes);
        long used;

        for (size_t i = 0; i < len; i++)
            bytes[i] = LETTERS[random_below(sizeof LETTERS - 1)];
        used = parse_both_ways(bytes, len, MOSTS[random_below(COUNT(MOSTS))]);
        outcomes[used > 0 ? 2 : used - RESP_EPROTOCOL]++;
    }
    for (size_t i = 0; i < COUNT(outcomes); i++)
        assert_true(outcomes[i] > 500);
}

static void no_damage_to_a_command_breaks_the_parser(void **state)
{
    static const char DIRT[] =
        "*$:+-/0123456789\r\n\"'\\x \0\xff"; /* '/' and ':' surround the digits */

    (void)state;
    seed = 2;
    for (int round = 0; round < 50000; round++) {
        const struct command_row *row = &COMMANDS[random_below(COUNT(COMMANDS))];
        char bytes[128];

        assert_true(row->len <= sizeof bytes);
        memcpy(bytes, row->bytes, row->len);
        for (size_t wounds = 1 + random_below(3); wounds > 0; wounds--)
            bytes[random_below(row->len)] = DIRT[random_below(sizeof DIRT - 1)];
        (void)parse_both_ways(bytes, row->len, random_below(2) ? MOST : 40);
    }
}

/* Commands whose shape is right but for one byte: the short cut for short words must see it too. */
static void what_only_looks_like_a_command_is_refused(void **state)
{
    static const char *const ROWS[] = {
        "*1\r\n#4\r\nPING\r\n",
        "*1\r\n$:\r\n0123456789\r\n", /* ':' comes after '9', so it would be 10 */
        "*1\r\n$1:\r\n01234567890123456789\r\n",
        "*1\r\n$1/\r\n012345678\r\n",
        "*1\r\n$04\r\nPING\r\n",
        "*1\r\n$4\n\nPING\r\n",
        "*1\r\n$4\r\rPING\r\n",
        "*1\r\n$10\r0123456789\r\n",
        "*1\r\n$4\r\nPING\n\n",
        "*1\r\n$4\r\nPING\r\r",
        "*1\r\n$3\r\nPING\r\n",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(ROWS); i++)
        assert_int_equal(parse_both_ways(ROWS[i], strlen(ROWS[i]), MOST), RESP_EPROTOCOL);
}

/* ---- Which protocol -------------------------------------------------------------------------- */

static const struct protocol_row {
    const char *sentence, *bytes;
    size_t len;
    int http; /* once the last byte has come; before that, -1 */
} PROTOCOLS[] = {
    {"a star is RESP at once", TEXT("*"), 0},
    {"a request line", TEXT("GET / HTTP/1.1\r\n"), 1},
    {"HTTP/1.0", TEXT("GET / HTTP/1.0\r\n"), 1},
    {"a bare LF", TEXT("POST /v1/take?limit=a HTTP/1.1\n"), 1},
    {"the shortest", TEXT(" HTTP/1.1\n"), 1},
    {"one byte less than that", TEXT("HTTP/1.1\r\n"), 0},
    {"HTTP/2's preface is not ours", TEXT("PRI * HTTP/2.0\r\n"), 0},
    {"a version that is no digit", TEXT("GET / HTTP/1.x\r\n"), 0},
    {"a version of two digits", TEXT("GET / HTTP/1.10\r\n"), 0},
    {"a blank behind the version", TEXT("GET / HTTP/1.1 \r\n"), 0},
    {"two CRs", TEXT("GET / HTTP/1.1\r\r\n"), 0},
    {"small letters", TEXT("GET / http/1.1\r\n"), 0},
    {"an inline command", TEXT("PING\r\n"), 0},
    {"an inline command in quotes", TEXT("ECHO \"GET / HTTP/1.1\"\r\n"), 0},
    {"an empty line is neither", TEXT("\r\n"), -1},
    {"nor are several", TEXT("\r\n\r\n\r\n"), -1},
    {"an empty line before a request", TEXT("\r\nGET / HTTP/1.1\r\n"), 1},
    {"several", TEXT("\r\n\r\nGET / HTTP/1.1\r\n"), 1},
    {"an empty line before a command", TEXT("\r\nPING\r\n"), 0},
    {"an empty line before an array", TEXT("\r\n*"), 0},
    {"a CR alone before a request", TEXT("\rGET / HTTP/1.1\r\n"), 1},
    {"a bare line end", TEXT("\n"), 0},
};

static void a_line_tells_http_from_commands(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(PROTOCOLS); i++) {
        const struct protocol_row *row = &PROTOCOLS[i];

        print_message("  %s\n", row->sentence);
        for (size_t len = 0; len < row->len; len++)
            assert_int_equal(resp_is_http(at_the_end(row->bytes, len), len), -1);
        assert_int_equal(resp_is_http(at_the_end(row->bytes, row->len), row->len), row->http);
        assert_int_equal(resp_is_http(at_the_start(row->bytes, row->len), row->len), row->http);
    }
}

static void only_the_first_line_tells(void **state)
{
    static const char COMMAND[] = "PING\r\nGET / HTTP/1.1\r\n";
    static const char REQUEST[] = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    (void)state;
    assert_int_equal(resp_is_http(COMMAND, sizeof COMMAND - 1), 0);
    assert_int_equal(resp_is_http(REQUEST, sizeof REQUEST - 1), 1);
}

static void a_line_that_does_not_end_is_left_to_the_parser_to_refuse(void **state)
{
    static char bytes[RESP_LINE_MAX + 16];
    static const char LINE_END[] = " HTTP/1.1\r\n";

    (void)state;
    memset(bytes, 'x', sizeof bytes);
    assert_int_equal(resp_is_http(at_the_end(bytes, RESP_LINE_MAX - 1), RESP_LINE_MAX - 1), -1);
    assert_int_equal(resp_is_http(at_the_end(bytes, RESP_LINE_MAX), RESP_LINE_MAX), 0);
    memcpy(bytes + RESP_LINE_MAX + 1 - strlen(LINE_END), LINE_END, strlen(LINE_END));
    assert_int_equal(resp_is_http(bytes, sizeof bytes), 0);
    assert_int_equal(parse(bytes, sizeof bytes, MOST), RESP_EPROTOCOL);
    memcpy(bytes + RESP_LINE_MAX - strlen(LINE_END), LINE_END, strlen(LINE_END));
    assert_int_equal(resp_is_http(bytes, sizeof bytes), 1);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = i % 2 == 0 ? '\r' : '\n';
    assert_int_equal(resp_is_http(bytes, RESP_LINE_MAX - 1), -1);
    assert_int_equal(resp_is_http(bytes, RESP_LINE_MAX),
                     0); /* nor may empty lines go on for ever */
    assert_int_equal(resp_is_http(bytes, sizeof bytes), 0);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* Writes into bytes full of '#', so that one byte too many shows. */
static char written[4096];

static void begin(void)
{
    memset(written, '#', sizeof written);
}

static void check_written(const char *end, const char *expected, size_t len, size_t room)
{
    assert_int_equal(end - written, len);
    assert_memory_equal(written, expected, len);
    assert_true(len <= room);
    assert_int_equal(*end, '#');
}

static void check_int(int64_t value)
{
    char expected[40];
    const int len = snprintf(expected, sizeof expected, ":%lld\r\n", (long long)value);

    begin();
    check_written(resp_int(written, value), expected, (size_t)len, RESP_INT_ROOM);
}

static void integers_of_every_width_are_written(void **state)
{
    int64_t power = 1;

    (void)state;
    for (int digits = 1; digits <= 19; digits++) {
        for (int64_t near = -2; near <= 2; near++) {
            check_int(power + near);
            check_int(-power + near);
        }
        power = digits < 19 ? power * 10 : power;
    }
    for (int64_t value = -12000; value <= 12000; value++)
        check_int(value);
    check_int(INT64_MAX);
    check_int(INT64_MIN);
    seed = 3;
    for (int round = 0; round < 20000; round++) {
        (void)random_below(1);
        check_int((int64_t)seed >> random_below(64));
    }
}

static void heads_are_written(void **state)
{
    (void)state;
    begin();
    check_written(resp_array(written, 0), TEXT("*0\r\n"), RESP_INT_ROOM);
    begin();
    check_written(resp_array(written, 1234567), TEXT("*1234567\r\n"), RESP_INT_ROOM);
    begin();
    check_written(resp_array(written, UINT64_MAX), TEXT("*18446744073709551615\r\n"),
                  RESP_INT_ROOM);
    begin();
    check_written(resp_map(written, 7, true), TEXT("%7\r\n"), RESP_INT_ROOM);
    begin();
    check_written(resp_map(written, 7, false), TEXT("*14\r\n"), RESP_INT_ROOM);
    begin();
    check_written(resp_null(written, true), TEXT("_\r\n"), RESP_INT_ROOM);
    begin();
    check_written(resp_null(written, false), TEXT("$-1\r\n"), RESP_INT_ROOM);
}

static void strings_are_written(void **state)
{
    (void)state;
    begin();
    check_written(resp_bulk(written, "a\0\r\n", 4), TEXT("$4\r\na\0\r\n\r\n"),
                  RESP_INT_ROOM + 4 + 2);
    begin();
    check_written(resp_bulk(written, NULL, 0), TEXT("$0\r\n\r\n"), RESP_INT_ROOM + 2);
    begin();
    check_written(resp_text(written, "hello"), TEXT("$5\r\nhello\r\n"), RESP_INT_ROOM + 5 + 2);
    begin();
    check_written(resp_simple(written, "OK"), TEXT("+OK\r\n"), 2 + 3);
    begin();
    check_written(resp_simple(written, ""), TEXT("+\r\n"), 3);
    begin();
    check_written(resp_error(written, "ERR no such limit: 'x'"),
                  TEXT("-ERR no such limit: 'x'\r\n"), 22 + 3);
}

static void an_error_cannot_smuggle_a_second_answer(void **state)
{
    (void)state;
    begin();
    check_written(resp_error(written, "ERR a\r\n+OK\r\n\t\x01\x7f\xff~"),
                  TEXT("-ERR a  +OK  ????~\r\n"), 17 + 3);
}

static void a_written_command_reads_back(void **state)
{
    (void)state;
    seed = 4;
    for (int round = 0; round < 5000; round++) {
        char words[8][64];
        size_t len[8];
        const size_t n = random_below(9);
        char *end = resp_array(written, n);

        for (size_t i = 0; i < n; i++) {
            len[i] = random_below(sizeof words[i] + 1);
            for (size_t k = 0; k < len[i]; k++)
                words[i][k] = (char)random_below(256);
            end = resp_bulk(end, words[i], len[i]);
        }
        assert_int_equal(parse(written, (size_t)(end - written), MOST), end - written);
        assert_int_equal(command.n, n);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(command.word[i].len, len[i]);
            assert_memory_equal(command.word[i].at, words[i], len[i]);
        }
    }
}

static void a_written_integer_reads_back_as_a_word(void **state)
{
    static const int64_t VALUES[] = {0, -1, 42, INT64_MIN, INT64_MAX};

    (void)state;
    for (size_t i = 0; i < COUNT(VALUES); i++) {
        char *const end = resp_int(resp_array(written, 1), VALUES[i]);
        char digits[40];

        assert_int_equal(parse(written, (size_t)(end - written), MOST), end - written);
        (void)snprintf(digits, sizeof digits, "%lld", (long long)VALUES[i]);
        check_words(1, digits, strlen(digits));
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(every_command_is_read_to_its_words),
    cmocka_unit_test(every_beginning_of_a_command_asks_for_more),
    cmocka_unit_test(what_follows_a_command_is_left_alone),
    cmocka_unit_test(what_cannot_be_is_refused_at_its_first_wrong_byte),
    cmocka_unit_test(a_refusal_does_not_depend_on_what_follows),
    cmocka_unit_test(a_command_may_take_the_most_and_not_a_byte_more),
    cmocka_unit_test(a_pipeline_is_read_command_by_command),
    cmocka_unit_test(an_array_has_up_to_1024_words),
    cmocka_unit_test(a_line_has_up_to_1024_words),
    cmocka_unit_test(a_line_has_up_to_64_KiB),
    cmocka_unit_test(a_simple_string_has_less_than_64_KiB),
    cmocka_unit_test(a_long_string_waits_for_its_last_byte),
    cmocka_unit_test(no_garbage_breaks_the_parser),
    cmocka_unit_test(no_damage_to_a_command_breaks_the_parser),
    cmocka_unit_test(what_only_looks_like_a_command_is_refused),
    cmocka_unit_test(a_line_tells_http_from_commands),
    cmocka_unit_test(only_the_first_line_tells),
    cmocka_unit_test(a_line_that_does_not_end_is_left_to_the_parser_to_refuse),
    cmocka_unit_test(integers_of_every_width_are_written),
    cmocka_unit_test(heads_are_written),
    cmocka_unit_test(strings_are_written),
    cmocka_unit_test(an_error_cannot_smuggle_a_second_answer),
    cmocka_unit_test(a_written_command_reads_back),
    cmocka_unit_test(a_written_integer_reads_back_as_a_word),
};

RUN("resp", TESTS)
