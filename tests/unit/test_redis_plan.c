/* Plans: what a limit is to the scripts, and their replies to us. The numbers are in
 * tests/redis/script/plan.py. */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/num.h"
#include "redis/script/plan.h"
#include "redis/script/scripts.h"

static struct weir__plan *plan_of(const char *text)
{
    struct weir_limit limit;
    struct weir_diag why;
    struct weir__plan *plan = NULL;

    if (weir_limit_parse(&limit, text, &why) != 0 ||
        weir__plan_open(&plan, &limit, INT64_C(1600000000000000), &why) != 0)
        fail_msg("%s: %s", text, why.text);
    return plan;
}

static struct weir__plan_request ask_of(const struct weir__plan_part *part, int n)
{
    return (struct weir__plan_request){.verb = WEIR__PLAN_TAKE,
                                       .now_us = -1,
                                       .wall_ns = INT64_C(1700000000) * WEIR__NS_PER_S,
                                       .prefix = weir__slice_of("weir"),
                                       .part = part,
                                       .n = n};
}

/* The columns of a row that default to nothing: a new rate that forgets one would not be shared, or
 * not be divided among the machines that share it. */
static void every_rate_has_a_family_a_division_and_a_letter_of_its_own(void **state)
{
    (void)state;
    for (int i = 0; i <= WEIR_CONCURRENCY; i++) {
        const struct weir__algo *row = weir__algo_of((enum weir_algorithm)i);

        assert_int_not_equal(row->family, WEIR__FAMILY_LOCAL);
        assert_int_not_equal(row->division, WEIR__DIVIDE_NOTHING);
        assert_true(row->letter >= 'a' && row->letter <= 'z');
        for (int j = 0; j < i; j++)
            assert_int_not_equal(weir__algo_of((enum weir_algorithm)j)->letter, row->letter);
    }
}

static void plans_say_what_they_need(void **state)
{
    static const struct {
        const char *limit;
        unsigned mask;
        bool tickets, needs_creation_time;
        int64_t patience_ns; /* of the first term */
        const char *shape;   /* of the last */
    } ROWS[] = {
        {"token-bucket 10/s", 1, false, false, 0, "0t"},
        {"token-bucket 10/s initial=9", 1, false, true, 0, "0t"},
        {"token-bucket 10/s initial=full", 1, false, false, 0, "0t"},
        {"leaky-bucket 10/s", 1, false, false, 0, "0b"},
        {"leaky-bucket 10/s delay=3", 1, false, false, WEIR_FOREVER, "0b"},
        {"pacer 10/s max-wait=1s", 1, false, false, WEIR_FOREVER, "0p"},
        {"pacer 10/s slack=1", 1, false, true, WEIR_FOREVER, "0p"},
        {"smooth-bursty 10/s", 1, false, true, WEIR_FOREVER, "0s"},
        {"min-interval 10ms", 1, false, false, 0, "0i"},
        {"unlimited", 2, false, false, 0, "0a"},
        {"10/s + 0/s", 3, false, false, 0, "1z"},
        {"smooth-warmup 2/s warmup=4s", 8, false, false, WEIR_FOREVER, "0u"},
        {"fixed-window 10/day", 2, false, false, 0, "0f"},
        {"sliding-window 10/m", 2, false, false, 0, "0w10"},
        {"sliding-window 4294967295/m slots=6", 2, false, false, 0, "0w6"},
        {"sliding-window 4294967296/m slots=6", 2, false, false, 0, "0W6"},
        {"sliding-counter 10/m", 2, false, false, 0, "0c"},
        {"sliding-log 65536/m", 4, false, false, 0, "0l65536"},
        {"concurrency 10 lease=60s", 16, true, false, 0, "0n"},
        {"10/s + 5/s + sliding-log 7/m + concurrency 3 lease=1s", 21, true, false, 0, "3n"},
        {"10/s + 10/s initial=empty + fixed-window 10/s shadow count-denied", 3, false, true, 0,
         "2f"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct weir__plan *p = plan_of(ROWS[i].limit);

        print_message("  %s\n", ROWS[i].limit);
        assert_int_equal(p->mask, ROWS[i].mask);
        assert_int_equal(p->tickets, ROWS[i].tickets);
        assert_int_equal(p->needs_creation_time, ROWS[i].needs_creation_time);
        assert_int_equal(p->term[0].patience_ns, ROWS[i].patience_ns);
        assert_string_equal(p->term[p->n - 1].shape, ROWS[i].shape);
        weir__plan_close(p);
    }
}

/* Other versions of weir, and other machines, must say the same. */
static void the_number_of_a_calendar_stays(void **state)
{
    static const struct {
        const char *limit;
        int64_t number;
    } ROWS[] = {
        {"fixed-window 1/day", INT64_C(412083029017988)},
        {"fixed-window 1/day tz=Europe/Berlin", INT64_C(521559937335111)},
        {"fixed-window 1/month tz=Europe/Berlin", INT64_C(609028324244517)},
        {"fixed-window 1/24h align=clock tz=Europe/Berlin", INT64_C(640426311548625)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        struct weir__plan *p = plan_of(ROWS[i].limit);

        assert_int_equal(p->term[0].number[6], ROWS[i].number);
        weir__plan_close(p);
    }
}

static void guards_of_one_node_are_not_in_the_plan(void **state)
{
    struct weir__plan *p =
        plan_of("system cpu=80% + 10/s + bbr + concurrency 3 lease=1m + breaker");

    (void)state;
    assert_int_equal(p->n, 2);
    assert_string_equal(p->term[0].shape, "0t"); /* as if they were not there */
    assert_string_equal(p->term[1].shape, "1n");
    assert_true(p->tickets);
    weir__plan_close(p);
    p = plan_of("breaker + vegas");
    assert_int_equal(p->n, 0);
    assert_int_equal(p->mask, 0);
    weir__plan_close(p);
}

static void what_cannot_be_shared_is_refused(void **state)
{
    struct weir_limit limit;
    struct weir__plan *plan = NULL;
    struct weir_diag why = {0};

    (void)state;
    assert_int_equal(
        weir_limit_parse(&limit, "breaker + fixed-window 1/day tz=Europe/Berlin", NULL), 0);
    memcpy(limit.term[1].tz, "Mars/Olympus", sizeof "Mars/Olympus");
    assert_int_equal(weir__plan_open(&plan, &limit, 0, &why), WEIR_ENOZONE);
    assert_string_equal(why.text, "term 2: tz=Mars/Olympus: no such time zone");
    assert_int_equal(weir__plan_open(&plan, &limit, 0, NULL), WEIR_ENOZONE);
    assert_int_equal(weir_limit_parse(&limit, "concurrency 3", NULL), 0);
    assert_int_equal(weir__plan_open(&plan, &limit, 0, &why), WEIR_EINVAL);
    assert_non_null(strstr(why.text, "needs a lease"));
    assert_null(plan);
    weir__plan_close(NULL);
}

static void no_number_needs_more_than_its_room(void **state)
{
    struct weir__plan *several = plan_of("10/s + sliding-log 5/m + concurrency 5 lease=1s");
    struct weir__plan *one = plan_of("fixed-window 5/week tz=America/New_York");
    const int64_t acts[] = {7, -1, 9};
    const struct weir__plan_part part[] = {
        {.plan = several, .scope = {"s", 1}, .key = {"", 0}, .cost = 1, .act_us = acts},
        {.plan = one, .scope = {"t", 1}, .key = {"abcdefgh", 8}, .cost = 2, .act_us = acts},
        {.plan = several, .scope = {"s", 1}, .key = {"k", 1}, .cost = 3, .act_us = acts, .only = 5},
    };

    (void)state;
    for (int verb = WEIR__PLAN_TAKE; verb <= WEIR__PLAN_DRAIN; verb++)
        for (int n = 1; n <= 3; n++)
            for (int ticket = 0; ticket < 2; ticket++) {
                struct weir__plan_request request = ask_of(part, n);
                const size_t room = weir__plan_encoded_size(&request) + (ticket ? 10 : 0);
                char *whole = malloc(room), *less = malloc(room);
                unsigned mask = 0;
                int terms = 0;

                request.verb = (enum weir__plan_verb)verb;
                request.ticket = (struct weir__slice){ticket ? "node" : NULL, ticket ? 4 : 0};
                assert_int_equal(weir__plan_encoded_size(&request), room);
                assert_int_equal(weir__plan_encode(&request, whole, room, &mask, &terms), room);
                assert_memory_equal(whole + room - 2, "\r\n", 2);
                assert_int_equal(terms, n == 1 ? 3 : n == 2 ? 4 : 6);
                assert_int_equal(mask, n == 1 ? 21 : 23);
                for (size_t cap = 0; cap < room; cap++) {
                    char *tight = malloc(cap + 1);

                    assert_int_equal(weir__plan_encode(&request, tight, cap, &mask, &terms), room);
                    free(tight);
                }
                assert_int_equal(weir__plan_encode(&request, less, room, &mask, &terms), room);
                assert_memory_equal(whole, less, room);
                free(whole);
                free(less);
            }
    weir__plan_close(several);
    weir__plan_close(one);
}

static void an_exit_names_its_permits_alone(void **state)
{
    struct weir__plan *plan = plan_of("10/s + concurrency 5 lease=1s");
    const struct weir__plan_part part = {
        .plan = plan, .scope = {"s", 1}, .key = {"k", 1}, .cost = 1, .only = 2};
    struct weir__plan_request request = ask_of(&part, 1);
    char out[512];
    unsigned mask;
    int terms;
    size_t len;

    (void)state;
    request.verb = WEIR__PLAN_REFUND;
    request.ticket = weir__slice_of("me");
    len = weir__plan_encode(&request, out, sizeof out, &mask, &terms);
    assert_true(len < sizeof out);
    assert_int_equal(terms, 1);
    assert_int_equal(mask, 16);
    assert_memory_equal(out, "*6\r\n$7\r\nEVALSHA\r\n$40\r\n", 22);
    assert_memory_equal(out + 22, weir__scripts[16].sha, 40);
    assert_memory_equal(out + 62, "\r\n$1\r\n1\r\n$15\r\nweir:1:{s:k}:1n\r\n$104\r\n", 37);
    assert_memory_equal(out + len - 10, "\r\n$2\r\nme\r\n", 10);
    weir__plan_close(plan);
}

static void a_reset_deletes_the_keys_of_all_terms(void **state)
{
    static const char SENT[] = "*4\r\n$3\r\nDEL\r\n$21\r\nweir:1:{a%3Ab:k}1}:0t\r\n"
                               "$22\r\nweir:1:{a%3Ab:k}1}:1l5\r\n"
                               "$20\r\nweir:1:{a%3Ab:k}1}:r\r\n";
    struct weir__plan *plan = plan_of("10/s + sliding-log 5/m");
    struct weir__plan_part part = {.plan = plan, .key = {"k}1", 3}};
    const struct weir__plan_request request = ask_of(&part, 1);
    char scope[16], out[128] = "";

    (void)state;
    part.scope = (struct weir__slice){scope, weir__scope_encode("a:b", 3, scope, sizeof scope)};
    assert_int_equal(weir__plan_encode_reset(&request, out, sizeof SENT - 2), sizeof SENT - 1);
    assert_int_equal(out[0], '\0');
    assert_int_equal(weir__plan_encode_reset(&request, out, sizeof SENT - 1), sizeof SENT - 1);
    assert_memory_equal(out, SENT, sizeof SENT - 1);
    weir__plan_close(plan);
}

static void scopes_are_written_so_that_they_end(void **state)
{
    static const struct {
        const char *name, *written;
        size_t len;
    } ROWS[] = {
        {"", "", 0},
        {"api", "api", 3},
        {"a b\xc3\xa4", "a b\xc3\xa4", 5},
        {":{}%", "%3A%7B%7D%25", 4},
        {"\0\n\x1f\x7f", "%00%0A%1F%7F", 4},
        {"%3A", "%253A", 3},
    };

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const size_t len = strlen(ROWS[i].written);
        char out[32], small[4] = "xxx";

        assert_int_equal(weir__scope_encode(ROWS[i].name, ROWS[i].len, out, sizeof out), len);
        assert_string_equal(out, ROWS[i].written);
        assert_int_equal(weir__scope_encode(ROWS[i].name, ROWS[i].len, small, 3), len);
        assert_int_equal(small[2], len >= 2 ? '\0' : 'x');
        assert_int_equal(small[3], '\0');
        assert_int_equal(weir__scope_encode(ROWS[i].name, ROWS[i].len, NULL, 0), len);
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Every word of up to `most` of these bytes; its number in, itself out. */
static size_t word_of(unsigned number, char *out)
{
    static const char BYTES[] = ":{}%30t";
    size_t len = 0;

    for (; number > 0; number = (number - 1) / 7)
        out[len++] = BYTES[(number - 1) % 7];
    return len;
}

static void no_two_scopes_and_keys_are_one(void **state)
{
    enum { NAMES = 1 + 7 + 49, KEYS = NAMES + 343, ALL = NAMES * KEYS * 2 };
    struct weir__plan *plan = plan_of("10/s + 10/s");
    char **seen = malloc(ALL * sizeof *seen);
    size_t n = 0;

    (void)state;
    for (unsigned name = 0; name < NAMES; name++)
        for (unsigned key = 0; key < KEYS; key++)
            for (unsigned only = 1; only <= 2; only++) {
                char raw[8], scope[32], bytes[8], out[128];
                const size_t raw_len = word_of(name, raw), key_len = word_of(key, bytes);
                const struct weir__plan_part part = {
                    .plan = plan,
                    .scope = {scope, weir__scope_encode(raw, raw_len, scope, sizeof scope)},
                    .key = {bytes, key_len},
                    .only = only};
                const struct weir__plan_request request = ask_of(&part, 1);
                const size_t len = weir__plan_encode_reset(&request, out, sizeof out - 1);
                const char *tag;

                out[len] = '\0';
                seen[n++] = strdup(strchr(out + 14, '\n') + 1);
                tag = strchr(seen[n - 1], '{');
                assert_non_null(tag); /* all terms of a key in one slot, and not all keys */
                assert_true(tag[1] != '}' && strchr(tag, '}'));
            }
    qsort(seen, n, sizeof *seen, by_text);
    for (size_t i = 1; i < n; i++)
        if (strcmp(seen[i - 1], seen[i]) == 0)
            fail_msg("two are %s", seen[i]);
    for (size_t i = 0; i < n; i++)
        free(seen[i]);
    free(seen);
    weir__plan_close(plan);
}

/* ---- Replies --------------------------------------------------------------------------------- */

static void replies_are_verdicts(void **state)
{
    const int64_t granted[] = {1, 0, -1, 20, 19, 3, 0, 1000, 77, 80, -1};
    const int64_t refused[] = {0, 1, 1, 5, 0, 0, 1500, INT64_C(1) << 53, 78};
    const int64_t never[] = {0, 2, 0, 5, 5, 0, -1, 0, 79};
    int64_t acts[2] = {0, 0}, now = 0;
    struct weir_verdict v = {0};

    (void)state;
    assert_true(weir__plan_decode(granted, 11, 2, true, &v, acts, &now));
    assert_true(v.allowed && v.reason == WEIR_OK && v.which == -1);
    assert_true(v.limit == 20 && v.remaining == 19 && v.wait_ns == 3000 &&
                v.reset_after_ns == 1000000);
    assert_true(acts[0] == 80 && acts[1] == -1 && now == 77);
    assert_true(weir__plan_decode(granted, 9, 2, false, &v, NULL, NULL)); /* a peek */
    assert_true(weir__plan_decode(granted, 11, 2, true, &v, NULL, NULL));

    assert_true(weir__plan_decode(refused, 9, 2, true, &v, acts, &now));
    assert_true(!v.allowed && v.reason == WEIR_LIMITED && v.which == 1 && now == 78);
    assert_true(v.retry_after_ns == 1500000 && v.reset_after_ns == (INT64_C(1) << 53) * 1000);
    assert_true(weir__plan_decode(never, 9, 2, true, &v, acts, &now));
    assert_true(v.reason == WEIR_TOO_BIG && v.retry_after_ns == -1);
}

static void what_is_no_reply_is_no_verdict(void **state)
{
    static const struct {
        const char *what;
        int at;
        int64_t value;
    } ROWS[] = {
        {"neither yes nor no", 0, 2},         {"less than no", 0, -1},
        {"no reason of ours", 1, 9},          {"a reason below none", 1, -1},
        {"a grant that names one", 2, 0},     {"a limit below 0", 3, -1},
        {"less than nothing left", 4, -5},    {"a wait below 0", 5, -1},
        {"a retry below never", 6, -2},       {"a reset below 0", 7, -1},
        {"a time before time", 8, -1},        {"an act time below never", 10, -2},
        {"a shadow without a reason", 2, -2},
    };
    const int64_t good[] = {1, 0, -1, 20, 19, 3, 0, 1000, 77, 80, -1};
    int64_t acts[2] = {5, 5}, now = 5;
    struct weir_verdict v = {.limit = 5};

    (void)state;
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        int64_t bad[11];

        print_message("  %s\n", ROWS[i].what);
        memcpy(bad, good, sizeof bad);
        bad[ROWS[i].at] = ROWS[i].value;
        assert_false(weir__plan_decode(bad, 11, 2, true, &v, acts, &now));
    }
    for (int count = 0; count <= 11; count++) {
        assert_int_equal(weir__plan_decode(good, count, 2, true, &v, NULL, NULL), count == 11);
        assert_int_equal(weir__plan_decode(good, count, 2, false, &v, NULL, NULL), count == 9);
    }
    assert_true(acts[0] == 5 && acts[1] == 5 && now == 5);
    {
        const int64_t no_reason[] = {0, 0, 0, 1, 1, 0, 1, 1, 1},
                      no_term[] = {0, 1, -1, 1, 1, 0, 1, 1, 1},
                      third[] = {0, 1, 2, 1, 1, 0, 1, 1, 1},
                      shadow[] = {1, 1, -3, 1, 1, 0, 1, 1, 1},
                      third_shadow[] = {1, 1, -4, 1, 1, 0, 1, 1, 1};

        assert_false(weir__plan_decode(no_reason, 9, 2, true, &v, NULL, NULL));
        assert_false(weir__plan_decode(no_term, 9, 2, true, &v, NULL, NULL));
        assert_false(weir__plan_decode(third, 9, 2, true, &v, NULL, NULL));
        assert_false(weir__plan_decode(third_shadow, 9, 2, false, &v, NULL, NULL));
        assert_true(weir__plan_decode(shadow, 9, 2, false, &v, NULL, NULL));
        assert_true(v.allowed && v.reason == WEIR_LIMITED && v.which == -1 && v.shadow == 2);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(every_rate_has_a_family_a_division_and_a_letter_of_its_own),
    cmocka_unit_test(plans_say_what_they_need),
    cmocka_unit_test(the_number_of_a_calendar_stays),
    cmocka_unit_test(guards_of_one_node_are_not_in_the_plan),
    cmocka_unit_test(what_cannot_be_shared_is_refused),
    cmocka_unit_test(no_number_needs_more_than_its_room),
    cmocka_unit_test(an_exit_names_its_permits_alone),
    cmocka_unit_test(a_reset_deletes_the_keys_of_all_terms),
    cmocka_unit_test(scopes_are_written_so_that_they_end),
    cmocka_unit_test(no_two_scopes_and_keys_are_one),
    cmocka_unit_test(replies_are_verdicts),
    cmocka_unit_test(what_is_no_reply_is_no_verdict),
};

RUN("remote plan", TESTS)
