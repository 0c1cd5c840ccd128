/* The small print of weir.h: what is an error, what it leaves alone, what a key is, and what
 * happens at the ends of numbers and of time. */
#include "engine_test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* ---- Opening ------------------------------------------------------------------------------- */

static void stores_that_cannot_be_are_refused_with_a_sentence(void **state)
{
    static const struct {
        const char *sentence;
        struct weir_options o;
        int error;
    } ROWS[] = {
        {"nothing before the colon", {.store = ""}, WEIR_ESTORE},
        {"no colon", {.store = "memory"}, WEIR_ESTORE},
        {"a kind unknown", {.store = "tape:/dev/null"}, WEIR_ESTORE},
        {"a path alone", {.store = "/tmp/weir"}, WEIR_ESTORE},
        {"one key too many", {.max_keys = WEIR_MAX_KEYS_MOST + 1}, WEIR_EINVAL},
        {"all keys there could be", {.max_keys = UINT64_MAX}, WEIR_EINVAL},
        {"one policy too many", {.max_policies = WEIR_POLICIES_MOST + 1}, WEIR_EINVAL},
        {"all policies there could be", {.max_policies = UINT32_MAX}, WEIR_EINVAL},
        {"an unknown way to be full", {.full = (enum weir_full)3}, WEIR_EINVAL},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_diag why = {.text = ""};
        struct weir *w;

        print_message("  %s\n", ROWS[i].sentence);
        smear(&w, sizeof w);
        assert_int_equal(weir_open(&w, &ROWS[i].o, &why), ROWS[i].error);
        untouched(&w, sizeof w);
        assert_true(why.text[0] != '\0');
        assert_int_equal(weir_open(&w, &ROWS[i].o, NULL), ROWS[i].error);
        untouched(&w, sizeof w);
    }
}

static void nothing_said_is_memory_of_a_million_keys(void **state)
{
    static const struct weir_options named = {.store = "memory:", .max_keys = 1};
    struct weir_stats s;
    struct weir *w;

    (void)state;
    assert_int_equal(weir_open(&w, NULL, NULL), 0);
    s = stats(w, T0);
    assert_int_equal(s.max_keys, WEIR_MAX_KEYS_DEFAULT);
    assert_int_equal(s.max_policies, WEIR_POLICIES_DEFAULT);
    assert_int_equal(s.keys + s.live_keys + s.evicted + s.refused_full + s.allowed_full, 0);
    assert_int_equal(s.busy + s.recovered + s.policies, 0);
    weir_close(w);
    assert_int_equal(weir_open(&w, &named, NULL), 0);
    assert_true(stats(w, T0).max_keys >= 1);
    weir_close(w);
}

static void every_error_has_a_name_and_a_sentence(void **state)
{
#define X(name, code, text) {name, #name, text},
    static const struct {
        int code;
        const char *name, *text;
    } ROWS[] = {WEIR_ERRORS(X)};
#undef X

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        assert_string_equal(weir_error_name(ROWS[i].code), ROWS[i].name);
        assert_string_equal(weir_error_text(ROWS[i].code), ROWS[i].text);
    }
    for (int code = -100; code <= 100; code += 25) {
        assert_non_null(weir_error_name(code));
        assert_non_null(weir_error_text(code));
    }
}

/* ---- Requests ------------------------------------------------------------------------------ */

/* Errors in a request, whichever function gets it. */
static const struct {
    const char *sentence;
    size_t key_len;
    int64_t cost, patience_ns, now_ns;
} BAD[] = {
    {"a negative cost", 1, -1, 0, T0},
    {"the most negative cost", 1, INT64_MIN, 0, T0},
    {"a key of one byte too many", WEIR_KEY_MAX + 1, 1, 0, T0},
    {"a key of all bytes there are", SIZE_MAX, 1, 0, T0},
    {"a time before 1970", 1, 1, 0, -1},
    {"the first of times", 1, 1, 0, INT64_MIN},
    {"a time past 2^62", 1, 1, 0, NOW_MAX + 1},
    {"the last of times", 1, 1, 0, INT64_MAX},
    {"a negative patience that is not the default", 1, 1, -2, T0},
    {"the most negative patience", 1, 1, INT64_MIN, T0},
};

static void bad_requests_are_refused_and_touch_nothing(void **state)
{
    static char key[WEIR_KEY_MAX + 1];
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/h", T0);
    const struct weir_verdict before = take(w, p, "", 1, T0);

    (void)state;
    assert_int_equal(before.remaining, 9);
    for (size_t i = 0; i < LENGTH(BAD); i++) {
        const struct weir_request rq = {p, key, BAD[i].key_len, BAD[i].cost, BAD[i].patience_ns};
        const struct weir_request batch[] = {weir_request_of(p, "", 0), rq,
                                             weir_request_of(p, "", 0)};
        const int64_t now = BAD[i].now_ns;
        struct weir_verdict v[3];
        struct weir_reservation r;
        int64_t back;

        print_message("  %s\n", BAD[i].sentence);
        smear(v, sizeof v);
        smear(&r, sizeof r);
        smear(&back, sizeof back);
        assert_int_equal(weir_take_at(w, &rq, now, v), WEIR_EINVAL);
        assert_int_equal(weir_peek_at(w, &rq, now, v), WEIR_EINVAL);
        assert_int_equal(weir_take_many_at(w, batch, 3, now, v), WEIR_EINVAL);
        assert_int_equal(weir_take_all_at(w, batch, 3, now, v), WEIR_EINVAL);
        assert_int_equal(weir_take_all_at(w, &rq, 1, now, v), WEIR_EINVAL);
        assert_int_equal(weir_reserve_at(w, batch, 3, now, &r, v), WEIR_EINVAL);
        if (BAD[i].patience_ns == 0) {
            assert_int_equal(weir_refund_at(w, &rq, now, &back), WEIR_EINVAL);
            assert_int_equal(weir_wait_at(w, &rq, now, NOW_MAX, v), WEIR_EINVAL);
        }
        if (BAD[i].key_len > WEIR_KEY_MAX)
            assert_int_equal(weir_reset_at(w, &rq, now), WEIR_EINVAL);
        untouched(v, sizeof v);
        untouched(&r, sizeof r);
        untouched(&back, sizeof back);
        assert_int_equal(look(w, p, "", T0).remaining, 9);
    }
    backend_close(w);
}

static void a_request_without_policy_or_key_is_refused(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/h", T0);
    const struct weir_request ROWS[] = {{NULL, "k", 1, 1, 0}, {p, NULL, 1, 1, 0}};

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_verdict v;
        int64_t back;

        smear(&v, sizeof v);
        smear(&back, sizeof back);
        assert_int_equal(weir_take_at(w, &ROWS[i], T0, &v), WEIR_EINVAL);
        assert_int_equal(weir_peek_at(w, &ROWS[i], T0, &v), WEIR_EINVAL);
        assert_int_equal(weir_take_many_at(w, &ROWS[i], 1, T0, &v), WEIR_EINVAL);
        assert_int_equal(weir_take_all_at(w, &ROWS[i], 1, T0, &v), WEIR_EINVAL);
        assert_int_equal(weir_wait_at(w, &ROWS[i], T0, T0, &v), WEIR_EINVAL);
        assert_int_equal(weir_refund_at(w, &ROWS[i], T0, &back), WEIR_EINVAL);
        assert_int_equal(weir_reset_at(w, &ROWS[i], T0), WEIR_EINVAL);
        untouched(&v, sizeof v);
        untouched(&back, sizeof back);
    }
    backend_close(w);
}

static void bad_times_are_refused_everywhere(void **state)
{
    static const int64_t ROWS[] = {-1, INT64_MIN, NOW_MAX + 1, INT64_MAX};
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/h", T0), *q;
    const struct weir_request rq = weir_request_of(p, "k", 1);

    (void)state;
    (void)take(w, p, "k", 4, T0);
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_reservation r, copy;
        struct weir_verdict v;
        struct weir_stats s;
        int64_t back;

        assert_int_equal(weir_reserve_at(w, &rq, 1, T0, &r, &v), 0);
        copy = r;
        smear(&s, sizeof s);
        smear(&q, sizeof q);
        smear(&back, sizeof back);
        assert_int_equal(weir_stats_at(w, ROWS[i], &s), WEIR_EINVAL);
        assert_int_equal(weir_reset_at(w, &rq, ROWS[i]), WEIR_EINVAL);
        assert_int_equal(weir_cancel_at(w, &r, ROWS[i], &back), WEIR_EINVAL);
        assert_int_equal(weir_policy_set_at(w, "p", "token-bucket 5/h", ROWS[i], &q, NULL),
                         WEIR_EINVAL);
        assert_int_equal(weir_policy_set_at(w, "q", "token-bucket 5/h", ROWS[i], &q, NULL),
                         WEIR_EINVAL);
        untouched(&s, sizeof s);
        untouched(&q, sizeof q);
        untouched(&back, sizeof back);
        assert_memory_equal(&r, &copy, sizeof r);
        assert_int_equal(look(w, p, "k", T0).limit, 10);
        assert_null(weir_policy_find(w, "q"));
        assert_int_equal(weir_cancel_at(w, &r, T0, &back), 0);
        assert_int_equal(back, 1);
        assert_int_equal(look(w, p, "k", T0).remaining, 6);
    }
    backend_close(w);
}

static void no_request_and_seventeen_are_refused(void **state)
{
    static const char keys[] = "0123456789abcdefg";
    struct weir *w = backend_open(NULL);
    struct weir_policy *one = backend_policy(w, "one", "token-bucket 10/h", T0);
    struct weir_policy *five =
        backend_policy(w, "five", "10/h + 10/h + 10/h + 10/h + fixed-window 10/h", T0);
    struct weir_request rq[17];
    struct weir_reservation r;
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < 17; i++)
        rq[i] = weir_request_of(one, &keys[i], 1);
    smear(&v, sizeof v);
    smear(&r, sizeof r);
    assert_int_equal(weir_take_all_at(w, rq, 0, T0, &v), WEIR_EINVAL);
    assert_int_equal(weir_take_all_at(w, rq, 17, T0, &v), WEIR_EINVAL);
    assert_int_equal(weir_reserve_at(w, rq, 0, T0, &r, &v), WEIR_EINVAL);
    assert_int_equal(weir_reserve_at(w, rq, 17, T0, &r, &v), WEIR_EINVAL);
    rq[3].policy = five;
    assert_int_equal(weir_take_all_at(w, rq + 3, 13, T0, &v), WEIR_EINVAL); /* 5 + 12 terms */
    assert_int_equal(weir_reserve_at(w, rq + 3, 13, T0, &r, &v), WEIR_EINVAL);
    untouched(&v, sizeof v);
    untouched(&r, sizeof r);
    assert_int_equal(weir_take_all_at(w, rq + 3, 12, T0, &v), 0); /* 5 + 11 terms */
    assert_true(v.allowed);
    for (int i = 4; i < 17; i++) {
        rq[i].cost = 0;
        assert_int_equal(weir_peek_at(w, &rq[i], T0, &v), 0);
        assert_int_equal(v.remaining, i < 15 ? 9 : 10);
    }
    backend_close(w);
}

static void sixteen_requests_are_one(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 2/h", T0);
    struct weir_request rq[16];
    struct weir_verdict v;
    char key[16][16];

    (void)state;
    for (int i = 0; i < 16; i++) {
        (void)snprintf(key[i], sizeof key[i], "k%d", i);
        rq[i] = request_for(p, key[i], 1, 0);
    }
    assert_int_equal(weir_take_all_at(w, rq, 16, T0, &v), 0);
    assert_true(v.allowed && v.which == -1);
    assert_int_equal(v.remaining, 1);
    (void)take(w, p, "k9", 1, T0);
    assert_int_equal(weir_take_all_at(w, rq, 16, T0, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.which, 9);
    for (int i = 0; i < 16; i++)
        assert_int_equal(look(w, p, key[i], T0).remaining, i == 9 ? 0 : 1);
    backend_close(w);
}

/* Each row: how often a cost is taken from a fresh key, and what the last verdict names. */
static void the_term_that_refuses_is_named(void **state)
{
    static const struct {
        const char *limit;
        int times, cost, which, shadow, term;
        enum weir_reason reason;
    } ROWS[] = {
        {"fixed-window 2/h", 2, 1, -1, 0, 0, WEIR_OK},
        {"fixed-window 2/h", 3, 1, 0, 0, 0, WEIR_LIMITED},
        {"fixed-window 5/h + token-bucket 2/h", 3, 1, 1, 0, 1, WEIR_LIMITED},
        {"fixed-window 2/h + token-bucket 2/h", 3, 1, 0, 0, 0, WEIR_LIMITED},
        {"fixed-window 5/h + token-bucket 2/h", 1, 3, 1, 0, 1, WEIR_TOO_BIG},
        {"fixed-window 2/h shadow", 2, 1, -1, 0, 0, WEIR_OK},
        {"fixed-window 2/h shadow", 3, 1, -1, 1, 0, WEIR_LIMITED},
        {"fixed-window 5/h + token-bucket 2/h shadow", 3, 1, -1, 2, 1, WEIR_LIMITED},
        {"fixed-window 5/h + sliding-log 3/h shadow + token-bucket 2/h shadow", 3, 1, -1, 3, 2,
         WEIR_LIMITED},
        {"fixed-window 2/h shadow + token-bucket 2/h", 3, 1, 1, 0, 1, WEIR_LIMITED},
        {"token-bucket 2/h + fixed-window 1/h shadow", 3, 1, 0, 0, 0, WEIR_LIMITED},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++)
        for (int all = 0; all < 2; all++) {
            struct weir *w = backend_open(NULL);
            struct weir_policy *p = backend_policy(w, "p", ROWS[i].limit, T0);
            struct weir_policy *other = backend_policy(w, "other", "fixed-window 9/h", T0);
            const struct weir_request rq[] = {request_for(other, "k", 1, 0),
                                              request_for(p, "k", ROWS[i].cost, 0)};
            struct weir_verdict v;
            const int named = ROWS[i].which >= 0 || ROWS[i].shadow > 0;

            print_message("  %s\n", ROWS[i].limit);
            memset(&v, 0xff, sizeof v);
            for (int n = 0; n < ROWS[i].times; n++)
                assert_int_equal(
                    all ? weir_take_all_at(w, rq, 2, T0, &v) : weir_take_at(w, &rq[1], T0, &v), 0);
            assert_int_equal(v.allowed, ROWS[i].which < 0);
            assert_int_equal(v.reason, ROWS[i].reason);
            assert_int_equal(v.which, all && ROWS[i].which >= 0 ? 1 : ROWS[i].which);
            assert_int_equal(v.shadow, all && ROWS[i].shadow > 0 ? 2 : ROWS[i].shadow);
            if (named)
                assert_int_equal(v.term, ROWS[i].term);
            backend_close(w);
        }
}

static void the_same_key_twice_sees_its_first_charge(void **state)
{
    static const char *const ROWS[] = {"fixed-window 3/h",    "sliding-window 3/h slots=4",
                                       "sliding-counter 3/h", "sliding-log 3/h",
                                       "token-bucket 3/h",    "leaky-bucket 3/h",
                                       "pacer 3/h slack=2",   "10/h + sliding-log 3/h"};

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", ROWS[i], T0 - DAY);
        const struct weir_request rq[] = {request_for(p, "k", 1, 0), request_for(p, "other", 1, 0),
                                          request_for(p, "k", 1, 0), request_for(p, "k", 2, 0)};
        struct weir_verdict v;

        print_message("  %s\n", ROWS[i]);
        assert_int_equal(weir_take_all_at(w, rq, 4, T0, &v), 0);
        assert_false(v.allowed);
        assert_int_equal(v.which, 3);
        assert_int_equal(look(w, p, "k", T0).remaining, 3);
        assert_int_equal(look(w, p, "other", T0).remaining, 3);
        assert_int_equal(weir_take_all_at(w, rq, 3, T0, &v), 0);
        assert_true(v.allowed);
        assert_int_equal(v.remaining, 1);
        assert_int_equal(look(w, p, "k", T0).remaining, 1);
        assert_int_equal(look(w, p, "other", T0).remaining, 2);
        assert_int_equal(weir_take_all_at(w, rq, 3, T0, &v), 0);
        assert_false(v.allowed);
        assert_int_equal(v.which, 2);
        assert_int_equal(look(w, p, "k", T0).remaining, 1);
        backend_close(w);
    }
}

static void a_batch_is_decided_in_order(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 3/h", T0);
    struct weir_policy *q = backend_policy(w, "q", "sliding-log 2/h", T0);
    const struct weir_request rq[] = {request_for(p, "k", 2, 0), request_for(q, "k", 1, 0),
                                      request_for(p, "k", 2, 0), request_for(p, "k", 1, 0),
                                      request_for(q, "k", 1, 0), request_for(q, "k", 1, 0)};
    static const bool allowed[] = {true, true, false, true, true, false};
    struct weir_verdict v[6];

    (void)state;
    assert_int_equal(weir_take_many_at(w, rq, 6, T0, v), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(v[i].allowed, allowed[i]);
    smear(v, sizeof v);
    assert_int_equal(weir_take_many_at(w, rq, 0, T0, v), 0);
    untouched(v, sizeof v);
    backend_close(w);
}

static void a_batch_of_thousands_is_a_batch(void **state)
{
    enum { N = 3000 };
    static struct weir_request rq[N];
    static struct weir_verdict v[N];
    static uint32_t key[N];
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 2/h", T0);

    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        key[i] = i % 1000;
        rq[i] = weir_request_of(p, &key[i], sizeof key[i]);
    }
    assert_int_equal(weir_take_many_at(w, rq, N, T0, v), 0);
    for (int i = 0; i < N; i++)
        assert_int_equal(v[i].allowed, i < 2000);
    backend_close(w);
}

/* ---- Costs and times at their ends --------------------------------------------------------- */

static void costs_and_times_at_their_ends_are_answered(void **state)
{
    static const int64_t TIMES[] = {0, 1, T0, NOW_MAX - 1, NOW_MAX};
    static const int64_t PATIENCE[] = {0, WEIR_WAIT_DEFAULT, WEIR_FOREVER};

    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_ALGORITHM); i++)
        for (size_t t = 0; t < LENGTH(TIMES); t++)
            for (size_t k = 0; k < LENGTH(PATIENCE); k++) {
                struct weir *w = backend_open(NULL);
                struct weir_policy *p = backend_policy(w, "p", EVERY_ALGORITHM[i], TIMES[t]);
                struct weir_request rq = request_for(p, "k", INT64_MAX, PATIENCE[k]);
                struct weir_verdict v;
                int64_t back;

                assert_int_equal(weir_take_at(w, &rq, TIMES[t], &v), 0);
                assert_false(v.allowed);
                assert_int_equal(v.retry_after_ns, -1);
                assert_true(v.remaining >= 0 && v.remaining <= v.limit);
                rq.cost = 1;
                assert_int_equal(weir_take_at(w, &rq, TIMES[t], &v), 0);
                assert_true(v.remaining >= 0 && v.remaining <= v.limit);
                rq.cost = INT64_MAX;
                assert_int_equal(weir_refund_at(w, &rq, TIMES[t], &back), 0);
                assert_true(back >= 0 && back <= 10);
                rq.cost = 0;
                assert_int_equal(weir_take_at(w, &rq, TIMES[t], &v), 0);
                assert_true(v.allowed);
                assert_int_equal(v.wait_ns, 0);
                backend_close(w);
            }
}

static void nothing_costs_nothing(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/h", T0);

    (void)state;
    assert_true(take(w, p, "k", 0, T0).allowed);
    assert_int_equal(stats(w, T0).live_keys, 0);
    assert_true(take(w, p, "k", 1, T0 + MINUTE).allowed);
    assert_true(take(w, p, "k", 0, T0 + MINUTE).allowed);
    assert_false(take(w, p, "k", 1, T0 + MINUTE).allowed);
    /* the window began with the first event, not with the question */
    assert_false(take(w, p, "k", 1, T0 + HOUR).allowed);
    assert_true(take(w, p, "k", 1, T0 + HOUR + MINUTE).allowed);
    backend_close(w);
}

/* The clock jumps back an hour, then further and further, and forward again: no extra requests are
 * granted, stock may be spent. Forward a day: every key has fully recovered. */
static void clocks_that_step_grant_nothing_extra(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_ALGORITHM); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", EVERY_ALGORITHM[i], T0 - 2 * DAY);
        int64_t granted = 0, early = 0;

        print_message("  %s\n", EVERY_ALGORITHM[i]);
        for (int k = 0; k < 30; k++) {
            granted += take(w, p, "k", 1, T0 + HOUR).allowed;
            early += take(w, p, "k", 1, T0 + (15 - k) * MINUTE).allowed;
        }
        assert_true(granted >= 1 && granted + early <= 11);
        assert_false(take(w, p, "k", 1, T0).allowed);
        assert_true(take(w, p, "k", 1, T0 + 2 * DAY).allowed);
        assert_true(take(w, p, "new", 1, T0).allowed);
        backend_close(w);
    }
}

/* ---- Keys ---------------------------------------------------------------------------------- */

static void keys_are_any_bytes(void **state)
{
    static char longest[WEIR_KEY_MAX], twin[WEIR_KEY_MAX];
    const struct weir_bytes KEYS[] = {
        {"", 0},
        {"\0", 1},
        {"\0\0", 2},
        {"a", 1},
        {"a\0", 2},
        {"\0a", 2},
        {"a\0b", 3},
        {"a\0c", 3},
        {"\xff\xfe", 2},
        {"aaaaaaaa", 8},
        {"aaaaaaa", 7},
        {"        ", 8},
        {longest, 64},
        {longest, 65},
        {longest, 4096},
        {longest, WEIR_KEY_MAX - 1},
        {longest, WEIR_KEY_MAX},
        {twin, WEIR_KEY_MAX},
    };
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 100/h", T0);
    struct weir_verdict v;

    (void)state;
    memset(longest, 'x', sizeof longest);
    memset(twin, 'x', sizeof twin);
    twin[WEIR_KEY_MAX - 1] = 'y';
    for (size_t i = 0; i < LENGTH(KEYS); i++) {
        const struct weir_request rq = {p, KEYS[i].at, KEYS[i].len, 1 + (int64_t)i, 0};

        assert_int_equal(weir_take_at(w, &rq, T0, &v), 0);
        assert_int_equal(v.remaining, 99 - (int64_t)i); /* the key was not used before */
    }
    for (size_t i = 0; i < LENGTH(KEYS); i++) {
        const struct weir_request rq = {p, KEYS[i].at, KEYS[i].len, 0, 0};

        assert_int_equal(weir_peek_at(w, &rq, T0, &v), 0);
        assert_int_equal(v.remaining, 99 - (int64_t)i);
    }
    v.remaining = -1;
    assert_int_equal(weir_peek_at(w, &(struct weir_request){p, NULL, 0, 0, 0}, T0, &v), 0);
    assert_int_equal(v.remaining, 99); /* the empty key */
    if (!backend_is_remote())
        assert_int_equal(stats(w, T0).keys, LENGTH(KEYS));
    backend_close(w);
}

static void a_key_does_not_stay_where_it_was_read(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 100/h", T0);
    char *key = malloc(8);

    (void)state;
    assert_non_null(key);
    memcpy(key, "seventy", 8);
    (void)take(w, p, key, 1, T0);
    memcpy(key, "eighty", 7);
    assert_int_equal(look(w, p, key, T0).remaining, 100);
    free(key);
    assert_int_equal(look(w, p, "seventy", T0).remaining, 99);
    backend_close(w);
}

static void policies_do_not_share_keys(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 3/h", T0);
    struct weir_policy *q = backend_policy(w, "q", "fixed-window 3/h", T0);

    (void)state;
    (void)take(w, p, "alice", 3, T0);
    assert_int_equal(look(w, q, "alice", T0).remaining, 3);
    reset(w, q, "alice", T0);
    assert_int_equal(look(w, p, "alice", T0).remaining, 0);
    backend_close(w);
}

/* ---- Time ---------------------------------------------------------------------------------- */

static int64_t told(void *arg)
{
    return *(int64_t *)arg;
}

static void a_callers_own_clock_is_read(void **state)
{
    const int64_t tick = backend_tick_ns();
    int64_t now = T0;
    struct weir_clock clock = {told, NULL, &now};
    struct weir *w = backend_open(&(struct weir_options){.clock = &clock});
    struct weir_policy *p;
    struct weir_request rq;
    struct weir_verdict v;
    struct weir_stats s;

    (void)state;
    memset(&clock, 0, sizeof clock); /* it was copied */
    assert_int_equal(weir_now(w), T0);
    assert_int_equal(weir_policy_set(w, "p", "token-bucket 1/s burst=1", &p, NULL), 0);
    rq = request_for(p, "k", 1, 0);
    assert_int_equal(weir_take(w, &rq, &v), 0);
    assert_true(v.allowed);
    now += SECOND - tick;
    assert_int_equal(weir_take(w, &rq, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.retry_after_ns, tick);
    assert_int_equal(weir_stats(w, &s), 0);
    assert_int_equal(s.live_keys, !backend_is_remote());
    now += tick;
    assert_int_equal(weir_peek(w, &rq, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(weir_take_all(w, &rq, 1, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(weir_take_many(w, &rq, 1, &v), 0);
    assert_false(v.allowed);
    now += DAY;
    assert_int_equal(weir_now(w), T0 + SECOND + DAY);
    assert_int_equal(weir_stats(w, &s), 0);
    assert_int_equal(s.live_keys, 0);
    backend_close(w);
}

static void the_engines_clock_counts_from_1970_and_never_goes_back(void **state)
{
    struct weir *w = backend_open(NULL);
    int64_t last = weir_now(NULL);

    (void)state;
    assert_true(llabs((long long)(last / SECOND - (int64_t)time(NULL))) <= 2);
    assert_true(llabs((long long)(weir_now(w) / SECOND - (int64_t)time(NULL))) <= 2);
    for (int i = 0; i < 100000; i++) {
        const int64_t now = weir_now(i % 2 ? w : NULL);

        if (backend_kind()[0] == 'm')
            assert_true(now >= last); /* one clock for the process */
        last = now;
    }
    backend_close(w);
}

/* ---- Forks --------------------------------------------------------------------------------- */

static void after_a_fork_private_stores_are_two_and_files_one(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 10/h", T0);
    const bool shared = backend_kind()[0] == 'f' || backend_is_remote();
    int status;
    pid_t child;

    (void)state;
    (void)take(w, p, "k", 2, T0);
    child = fork();
    if (child == 0) {
        const struct weir_request rq = request_for(p, "k", 3, 0);
        struct weir_verdict v;

        _exit(weir_take_at(w, &rq, T0, &v) != 0 || !v.allowed || v.remaining != 5);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(look(w, p, "k", T0).remaining, shared ? 5 : 8);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(stores_that_cannot_be_are_refused_with_a_sentence),
    cmocka_unit_test(nothing_said_is_memory_of_a_million_keys),
    cmocka_unit_test(every_error_has_a_name_and_a_sentence),
    cmocka_unit_test(bad_requests_are_refused_and_touch_nothing),
    cmocka_unit_test(a_request_without_policy_or_key_is_refused),
    cmocka_unit_test(bad_times_are_refused_everywhere),
    cmocka_unit_test(no_request_and_seventeen_are_refused),
    cmocka_unit_test(sixteen_requests_are_one),
    cmocka_unit_test(the_term_that_refuses_is_named),
    cmocka_unit_test(the_same_key_twice_sees_its_first_charge),
    cmocka_unit_test(a_batch_is_decided_in_order),
    cmocka_unit_test(a_batch_of_thousands_is_a_batch),
    cmocka_unit_test(costs_and_times_at_their_ends_are_answered),
    cmocka_unit_test(nothing_costs_nothing),
    cmocka_unit_test(clocks_that_step_grant_nothing_extra),
    cmocka_unit_test(keys_are_any_bytes),
    cmocka_unit_test(a_key_does_not_stay_where_it_was_read),
    cmocka_unit_test(policies_do_not_share_keys),
    cmocka_unit_test(a_callers_own_clock_is_read),
    cmocka_unit_test(the_engines_clock_counts_from_1970_and_never_goes_back),
    cmocka_unit_test(after_a_fork_private_stores_are_two_and_files_one),
};

RUN_BACKEND("contract", TESTS)
