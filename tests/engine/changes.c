/* Policies: their names, their lives, and what a change of limit keeps; and reservations. */
#include "engine_test.h"

/* ---- Names --------------------------------------------------------------------------------- */

static void bad_policies_are_refused_with_a_sentence(void **state)
{
    static char longest[WEIR_NAME_MAX], longer[WEIR_NAME_MAX + 1];
    static const struct {
        const char *name, *limit;
        int error;
    } ROWS[] = {
        {longer, "10/s", WEIR_EINVAL},
        {"p", "", WEIR_ESYNTAX},
        {"p", "token-bukket 10/s", WEIR_ESYNTAX},
        {"p", "token-bucket 10/s burst=0", WEIR_ERANGE},
        {"p", "token-bucket 10/s + sliding-log 65537/s", WEIR_ERANGE},
        {"p", "fixed-window 10/day tz=Mars/Olympus", WEIR_ENOZONE},
    };
    struct weir *w = backend_open(NULL);
    struct weir_policy *p;

    (void)state;
    memset(longest, 'n', sizeof longest - 1);
    memset(longer, 'n', sizeof longer - 1);
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_diag why = {.text = ""}, parsed = {.text = ""};
        struct weir_limit limit;

        print_message("  '%s'\n", ROWS[i].limit);
        smear(&p, sizeof p);
        assert_int_equal(weir_policy_set_at(w, ROWS[i].name, ROWS[i].limit, T0, &p, &why),
                         ROWS[i].error);
        untouched(&p, sizeof p);
        assert_true(why.text[0] != '\0');
        if (weir_limit_parse(&limit, ROWS[i].limit, &parsed) != 0) {
            assert_string_equal(why.text, parsed.text);
            assert_int_equal(why.column, parsed.column);
        }
        assert_int_equal(weir_policy_set_at(w, ROWS[i].name, ROWS[i].limit, T0, NULL, NULL),
                         ROWS[i].error);
        assert_null(weir_policy_find(w, "p"));
    }
    assert_int_equal(stats(w, T0).policies, 0);
    assert_int_equal(weir_policy_set_at(w, longest, "10/s", T0, &p, NULL), 0);
    assert_string_equal(weir_policy_name(p), longest);
    assert_ptr_equal(weir_policy_find(w, longest), p);
    assert_null(weir_policy_find(w, longer));
    backend_close(w);
}

/* A change that is refused leaves the limit in force, and its keys. */
static void a_bad_change_changes_nothing(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/h", T0);

    (void)state;
    (void)take(w, p, "k", 4, T0);
    assert_int_equal(weir_policy_set_at(w, "p", "10/", T0, NULL, NULL), WEIR_ESYNTAX);
    assert_int_equal(look(w, p, "k", T0).remaining, 6);
    assert_int_equal(look(w, p, "k", T0).limit, 10);
    backend_close(w);
}

static void the_number_of_policies_is_bounded(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_policies = 3});
    struct weir_policy *p, *q;
    struct weir_diag why = {.text = ""};

    (void)state;
    (void)backend_policy(w, "a", "1/s", T0);
    p = backend_policy(w, "b", "2/s", T0);
    (void)backend_policy(w, "c", "3/s", T0);
    smear(&q, sizeof q);
    assert_int_equal(weir_policy_set_at(w, "d", "4/s", T0, &q, &why), WEIR_EFULL);
    untouched(&q, sizeof q);
    assert_true(why.text[0] != '\0');
    assert_int_equal(weir_policy_set_at(w, "b", "5/s", T0, &q, NULL), 0); /* a change is none */
    assert_ptr_equal(q, p);
    weir_policy_forget(w, p);
    assert_int_equal(stats(w, T0).policies, 2);
    assert_int_equal(weir_policy_set_at(w, "d", "4/s", T0, &q, NULL), 0);
    assert_int_equal(weir_policy_set_at(w, "e", "4/s", T0, NULL, NULL), WEIR_EFULL);
    backend_close(w);
}

static void policies_are_found_by_name_and_one_after_another(void **state)
{
    enum { N = 40 };
    struct weir *w = backend_open(NULL);
    struct weir_policy *made[N];
    bool seen[N] = {false};
    struct weir_limit limit;
    int n = 0;

    (void)state;
    assert_null(weir_policy_next(w, NULL));
    assert_null(weir_policy_find(w, "p0"));
    for (int i = 0; i < N; i++) {
        char name[16], text[32];

        (void)snprintf(name, sizeof name, "p%d", i);
        (void)snprintf(text, sizeof text, "token-bucket %d/s", i + 1);
        made[i] = backend_policy(w, name, text, T0);
    }
    for (int i = 0; i < N; i++) {
        char name[16];

        (void)snprintf(name, sizeof name, "p%d", i);
        assert_ptr_equal(weir_policy_find(w, name), made[i]);
        assert_string_equal(weir_policy_name(made[i]), name);
        memset(&limit, 0xa5, sizeof limit);
        weir_policy_limit(made[i], &limit);
        assert_int_equal(limit.n, 1);
        assert_int_equal(limit.term[0].count, i + 1);
    }
    weir_policy_forget(w, made[7]);
    assert_null(weir_policy_find(w, "p7"));
    for (struct weir_policy *p = weir_policy_next(w, NULL); p; p = weir_policy_next(w, p), n++)
        for (int i = 0; i < N; i++)
            if (i != 7 && p == made[i]) {
                assert_false(seen[i]);
                seen[i] = true;
            }
    assert_int_equal(n, N - 1);
    for (int i = 0; i < N; i++)
        assert_int_equal(seen[i], i != 7);
    backend_close(w);
}

static void a_forgotten_policy_takes_its_keys_along(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 3/h", T0);

    (void)state;
    if (backend_is_remote()) { /* backend.h says why */
        backend_close(w);
        skip();
    }
    (void)take(w, p, "k", 3, T0);
    weir_policy_forget(w, p);
    assert_int_equal(stats(w, T0).live_keys, 1); /* until it has fully recovered */
    p = backend_policy(w, "p", "fixed-window 3/h", T0);
    assert_int_equal(look(w, p, "k", T0).remaining, 3);
    backend_close(w);
}

/* ---- Live change --------------------------------------------------------------------------- */

static void a_live_change_keeps_what_is_used(void **state)
{
    static const struct {
        const char *before, *after;
        int64_t remaining; /* after 4 of 10 were taken */
    } ROWS[] = {
        {"token-bucket 10/h", "token-bucket 20/h burst=20", 16},
        {"token-bucket 10/h", "token-bucket 5/h burst=5", 1},
        {"token-bucket 10/h", "token-bucket 10/h burst=3", 0},
        {"leaky-bucket 10/h", "leaky-bucket 10/h capacity=12", 8},
        {"fixed-window 10/h", "fixed-window 5/h", 1},
        {"fixed-window 10/day", "fixed-window 100/day", 96},
        {"sliding-window 10/h", "sliding-window 20/h", 16},
        {"sliding-counter 10/h", "sliding-counter 20/h", 16},
        {"sliding-log 10/h", "sliding-log 10/2h", 6},
        {"token-bucket 10/h", "token-bucket 10/h shadow", 6},
        {"10/h + fixed-window 10/h", "10/h + fixed-window 6/h", 2},
        /* fresh: */
        {"token-bucket 10/h", "leaky-bucket 10/h", 10},
        {"fixed-window 10/h", "sliding-log 10/h", 10},
        {"sliding-window 10/h slots=10", "sliding-window 10/h slots=12", 10},
        {"sliding-log 10/h", "sliding-log 11/h", 11},
        {"10/h + fixed-window 10/h", "20/h + sliding-log 10/h", 10},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", ROWS[i].before, T0);

        print_message("  %s, then %s\n", ROWS[i].before, ROWS[i].after);
        assert_true(take(w, p, "k", 4, T0).allowed);
        assert_ptr_equal(backend_policy(w, "p", ROWS[i].after, T0), p);
        assert_int_equal(look(w, p, "k", T0).remaining, ROWS[i].remaining);
        backend_close(w);
    }
}

/* A reservation that waits can be cancelled only as long as no change came between. */
static void setting_the_limit_in_force_changes_nothing(void **state)
{
    static const char *const SAME[] = {"10/s", "token-bucket 10/s", "token-bucket 10/1s burst=10",
                                       "token-bucket 10/1000ms initial=full fallback=local"};

    (void)state;
    for (size_t i = 0; i < LENGTH(SAME); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", "10/s", T0);
        const struct weir_request rq = request_for(p, "k", 5, WEIR_FOREVER);
        struct weir_reservation r;
        struct weir_verdict v;
        int64_t back;

        (void)take(w, p, "k", 10, T0);
        assert_int_equal(weir_reserve_at(w, &rq, 1, T0, &r, &v), 0);
        assert_int_equal(v.wait_ns, SECOND / 2);
        for (int k = 0; k < 20; k++)
            assert_ptr_equal(backend_policy(w, "p", SAME[i], T0 + k), p);
        assert_int_equal(weir_cancel_at(w, &r, T0 + 20, &back), 0);
        assert_int_equal(back, 5);
        backend_close(w);
    }
}

static void a_limit_forgets_its_oldest_versions_and_grants_nothing_extra(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/h burst=10", T0);

    (void)state;
    (void)take(w, p, "k", 10, T0);
    for (int i = 1; i <= 100; i++)
        (void)backend_policy(w, "p",
                             i % 2 ? "token-bucket 11/h burst=10" : "token-bucket 10/h burst=10",
                             T0 + i * SECOND);
    assert_false(take(w, p, "k", 1, T0 + 101 * SECOND).allowed);
    backend_close(w);
}

/* No newcomer may take the place of a key that owes, even if it would owe nothing any more under
 * the limit that wrote its state. */
static void a_slower_limit_keeps_keys_that_the_old_one_would_let_go(void **state)
{
    enum { KEYS = 40, CROWD = 4000 };
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 300});
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=1", T0);
    struct weir_policy *crowd = backend_policy(w, "crowd", "token-bucket 1/ms burst=1", T0);
    char key[16];

    (void)state;
    if (backend_is_remote()) { /* backend.h says why */
        backend_close(w);
        skip();
    }
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_true(take(w, p, key, 1, T0).allowed);
    }
    (void)backend_policy(w, "p", "token-bucket 1/h burst=1", T0 + SECOND / 2); /* half is owed */
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(key, sizeof key, "c%d", i);
        (void)take(w, crowd, key, 1, T0 + MINUTE + i * INT64_C(2000000));
    }
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_false(take(w, p, key, 1, T0 + 29 * MINUTE).allowed);
        assert_true(take(w, p, key, 1, T0 + 31 * MINUTE).allowed);
    }
    backend_close(w);
}

/* The same, while many others become slower, and this one's limit changes a few times more. */
static void keys_that_owe_are_kept_however_many_limits_change(void **state)
{
    enum { KEYS = 40, OTHERS = 40, CROWD = 4000 };
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 300});
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=1", T0);
    struct weir_policy *crowd = backend_policy(w, "crowd", "token-bucket 1/ms burst=1", T0);
    char key[16];

    (void)state;
    if (backend_is_remote()) { /* backend.h says why */
        backend_close(w);
        skip();
    }
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_true(take(w, p, key, 1, T0).allowed);
    }
    (void)backend_policy(w, "p", "token-bucket 1/h burst=1", T0 + SECOND / 2); /* half is owed */
    for (int i = 0; i < OTHERS; i++) {
        (void)snprintf(key, sizeof key, "o%d", i);
        (void)backend_policy(w, key, "token-bucket 1/s burst=1", T0 + SECOND);
        (void)backend_policy(w, key, "token-bucket 1/m burst=1", T0 + 2 * SECOND);
        if (i < 6) /* as many versions as are kept */
            (void)backend_policy(w, "p",
                                 i % 2 ? "token-bucket 1/h burst=1" : "token-bucket 1/h burst=2",
                                 T0 + 3 * SECOND);
    }
    for (int i = 0; i < CROWD; i++) {
        (void)snprintf(key, sizeof key, "c%d", i);
        (void)take(w, crowd, key, 1, T0 + MINUTE + i * INT64_C(2000000));
    }
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "k%d", i);
        assert_false(take(w, p, key, 1, T0 + 29 * MINUTE).allowed);
        assert_true(take(w, p, key, 1, T0 + 31 * MINUTE).allowed);
    }
    backend_close(w);
}

/* ---- Reservations -------------------------------------------------------------------------- */

static struct weir_reservation reserve(struct weir *w, struct weir_policy *p, const char *key,
                                       int64_t cost, int64_t now_ns)
{
    const struct weir_request rq = request_for(p, key, cost, WEIR_FOREVER);
    struct weir_reservation r;
    struct weir_verdict v;

    assert_int_equal(weir_reserve_at(w, &rq, 1, now_ns, &r, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(r.act_ns, now_ns + v.wait_ns);
    assert_int_equal(r.n, 1);
    return r;
}

static int64_t cancel(struct weir *w, struct weir_reservation *r, int64_t now_ns)
{
    int64_t back = -1;

    assert_int_equal(weir_cancel_at(w, r, now_ns, &back), 0);
    return back;
}

static void what_was_reserved_can_be_cancelled_once(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=10", T0);
    struct weir_reservation r;

    (void)state;
    (void)take(w, p, "k", 10, T0);
    r = reserve(w, p, "k", 5, T0);
    assert_int_equal(r.act_ns, T0 + 5 * SECOND);
    assert_int_equal(cancel(w, &r, T0 + SECOND), 5);
    assert_int_equal(r.n, 0);
    assert_int_equal(cancel(w, &r, T0 + SECOND), 0);
    assert_int_equal(look(w, p, "k", T0 + SECOND).remaining, 1);
    backend_close(w);
}

static void what_has_acted_is_not_cancelled(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=10", T0);
    struct weir_reservation r;

    (void)state;
    (void)take(w, p, "k", 10, T0);
    r = reserve(w, p, "k", 5, T0);
    assert_int_equal(cancel(w, &r, r.act_ns + 1), 0);
    (void)take(w, p, "k2", 10, T0);
    r = reserve(w, p, "k2", 5, T0);
    assert_int_equal(cancel(w, &r, r.act_ns), 5);
    backend_close(w);
}

static void what_others_depend_on_is_not_given_back(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=10", T0);
    struct weir_reservation first, second;

    (void)state;
    (void)take(w, p, "k", 10, T0);
    first = reserve(w, p, "k", 5, T0);
    second = reserve(w, p, "k", 2, T0);
    assert_int_equal(cancel(w, &first, T0), 3);
    assert_int_equal(cancel(w, &second, T0), 0); /* limits.md: the last act time is not known */
    backend_close(w);
}

static void a_reservation_dies_with_a_reset_a_fresh_start_or_its_policy(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=10", T0), *q;
    struct weir_reservation r;

    (void)state;
    (void)take(w, p, "k", 10, T0);
    r = reserve(w, p, "k", 5, T0);
    reset(w, p, "k", T0);
    (void)take(w, p, "k", 10, T0);
    (void)reserve(w, p, "k", 5, T0);
    assert_int_equal(cancel(w, &r, T0), 0);

    r = reserve(w, p, "k", 5, T0);
    reset(w, p, "another", T0);
    assert_int_equal(cancel(w, &r, T0), 0);

    r = reserve(w, p, "k", 5, T0);
    (void)backend_policy(w, "p", "pacer 1/s", T0);
    (void)reserve(w, p, "k", 5, T0);
    assert_int_equal(cancel(w, &r, T0), 0);

    q = backend_policy(w, "q", "token-bucket 1/s burst=10", T0);
    r = reserve(w, q, "k", 10, T0);
    weir_policy_forget(w, q);
    q = backend_policy(w, "q", "token-bucket 1/s burst=10", T0);
    (void)take(w, q, "k", 10, T0);
    assert_int_equal(cancel(w, &r, T0), 0);
    assert_int_equal(look(w, q, "k", T0).remaining, 0);
    backend_close(w);
}

static void what_was_refused_holds_nothing(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=10", T0);
    struct weir_policy *q = backend_policy(w, "q", "fixed-window 1/h", T0);
    const struct weir_request rq[] = {request_for(p, "k", 5, WEIR_FOREVER),
                                      request_for(q, "k", 2, 0)};
    struct weir_reservation r;
    struct weir_verdict v;

    (void)state;
    memset(&r, 0xa5, sizeof r);
    assert_int_equal(weir_reserve_at(w, rq, 2, T0, &r, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.which, 1);
    assert_int_equal(r.n, 0);
    assert_int_equal(cancel(w, &r, T0), 0);
    assert_int_equal(look(w, p, "k", T0).remaining, 10);
    r = (struct weir_reservation){0};
    assert_int_equal(cancel(w, &r, T0), 0);
    assert_int_equal(weir_cancel_at(w, &r, T0, NULL), 0);
    backend_close(w);
}

/* Several requests act together, when the last of them may: until then each can be given back. */
static void a_reservation_of_several_acts_when_the_last_may(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=10", T0);
    struct weir_policy *q = backend_policy(w, "q", "pacer 1/m", T0);
    const struct weir_request rq[] = {request_for(p, "k", 3, WEIR_FOREVER),
                                      request_for(q, "k", 1, WEIR_FOREVER)};
    struct weir_reservation r;
    struct weir_verdict v;

    (void)state;
    (void)take(w, p, "k", 10, T0);
    (void)take(w, q, "k", 1, T0);
    assert_int_equal(weir_reserve_at(w, rq, 2, T0, &r, &v), 0);
    assert_int_equal(v.wait_ns, MINUTE);
    assert_int_equal(r.act_ns, T0 + MINUTE);
    assert_int_equal(r.n, 2);
    assert_true(cancel(w, &r, T0 + 2 * SECOND) == 3);
    assert_int_equal(look(w, p, "k", T0 + 2 * SECOND).remaining, 2);
    assert_int_equal(take_later(w, q, "k", 1, T0 + 2 * SECOND).wait_ns, 58 * SECOND);
    backend_close(w);
}

static void refunds_go_to_every_term_and_may_be_silent(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/h + fixed-window 4/m", T0);
    const struct weir_request rq = request_for(p, "k", 1, 0);

    (void)state;
    (void)take(w, p, "k", 4, T0);
    assert_int_equal(refund(w, p, "k", 3, T0), 3);
    assert_int_equal(look(w, p, "k", T0).remaining, 3);
    assert_int_equal(refund(w, p, "stranger", 3, T0), 0);
    assert_int_equal(weir_refund_at(w, &rq, T0, NULL), 0);
    assert_int_equal(look(w, p, "k", T0).remaining, 4);
    assert_int_equal(refund(w, p, "k", 9, T0), 0);
    (void)take(w, p, "k", 4, T0);
    /* two minutes later the window's are gone, and a third of one of the bucket's */
    assert_int_equal(refund(w, p, "k", 9, T0 + 2 * MINUTE), 3);
    backend_close(w);
}

static void a_reset_key_is_fresh(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_ALGORITHM); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", EVERY_ALGORITHM[i], T0 - DAY);
        const struct weir_verdict stranger = look(w, p, "stranger", T0);
        struct weir_verdict v;
        uint64_t used;

        (void)take(w, p, "other", 1, T0);
        used = stats(w, T0).live_keys;
        for (int k = 0; k < 12; k++)
            (void)take_later(w, p, "k", 1, T0);
        reset(w, p, "k", T0);
        v = look(w, p, "k", T0);
        same_verdict(&stranger, &v);
        assert_int_equal(v.reset_after_ns, 0);
        assert_int_not_equal(look(w, p, "other", T0).reset_after_ns, 0);
        assert_int_equal(stats(w, T0).live_keys, used);
        backend_close(w);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(bad_policies_are_refused_with_a_sentence),
    cmocka_unit_test(a_bad_change_changes_nothing),
    cmocka_unit_test(the_number_of_policies_is_bounded),
    cmocka_unit_test(policies_are_found_by_name_and_one_after_another),
    cmocka_unit_test(a_forgotten_policy_takes_its_keys_along),
    cmocka_unit_test(a_live_change_keeps_what_is_used),
    cmocka_unit_test(setting_the_limit_in_force_changes_nothing),
    cmocka_unit_test(a_limit_forgets_its_oldest_versions_and_grants_nothing_extra),
    cmocka_unit_test(a_slower_limit_keeps_keys_that_the_old_one_would_let_go),
    cmocka_unit_test(keys_that_owe_are_kept_however_many_limits_change),
    cmocka_unit_test(what_was_reserved_can_be_cancelled_once),
    cmocka_unit_test(what_has_acted_is_not_cancelled),
    cmocka_unit_test(what_others_depend_on_is_not_given_back),
    cmocka_unit_test(a_reservation_dies_with_a_reset_a_fresh_start_or_its_policy),
    cmocka_unit_test(what_was_refused_holds_nothing),
    cmocka_unit_test(a_reservation_of_several_acts_when_the_last_may),
    cmocka_unit_test(refunds_go_to_every_term_and_may_be_silent),
    cmocka_unit_test(a_reset_key_is_fresh),
};

RUN_BACKEND("changes", TESTS)
