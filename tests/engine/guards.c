/* To enter and to exit, at times that the test says. */
#include "guard_test.h"

/* One limit of every guard. */
static const char *const EVERY_GUARD[] = {
    "concurrency 10",
    "concurrency 10 lease=1m",
    "concurrency 10 queue=3",
    "system cpu=90% inflight=10",
    "breaker",
    "breaker preset=hystrix",
    "breaker preset=resilience4j",
    "breaker preset=sentinel",
    "breaker preset=sre",
    "bbr",
    "vegas",
    "gradient",
    "aimd",
    "adaptive-rate 1k/s min=100 max=10k",
    "concurrency 10 shadow",
    "breaker + concurrency 10 + token-bucket 10/s + bbr + system cpu=90%",
};

/* ---- Entering and leaving ------------------------------------------------------------------ */

static void every_guard_is_entered_and_left(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_GUARD); i++) {
        struct weir *w = open_guarded();
        struct weir_policy *p = backend_policy(w, "p", EVERY_GUARD[i], T0);

        for (int k = 0; k < 50; k++) {
            struct weir_ticket t[2];

            assert_true(enter(w, p, "a", T0 + k * SECOND, &t[0]).allowed);
            assert_true(enter(w, p, "b", T0 + k * SECOND, &t[1]).allowed);
            assert_in_range(t[0].n, 1, 4);
            leave(w, &t[0], WEIR_SUCCESS, T0 + k * SECOND + 5 * MS);
            leave(w, &t[1], WEIR_SUCCESS, T0 + k * SECOND + 7 * MS);
            assert_int_equal(t[0].n, 0);
        }
        backend_close(w);
    }
}

static void what_could_not_be_left_is_not_taken(void **state)
{
    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_GUARD); i++) {
        struct weir *w = open_guarded();
        struct weir_policy *p = backend_policy(w, "p", EVERY_GUARD[i], T0);
        struct weir_policy *rate = backend_policy(w, "rate", "10/s", T0);
        const struct weir_request rq[] = {request_for(rate, "k", 1, 0), request_for(p, "k", 1, 0)};
        struct weir_reservation r;
        struct weir_verdict v[2];
        int64_t back;

        smear(v, sizeof v);
        assert_int_equal(weir_take_at(w, &rq[1], T0, v), WEIR_EGUARD);
        assert_int_equal(weir_take_many_at(w, rq, 2, T0, v), WEIR_EGUARD);
        assert_int_equal(weir_take_all_at(w, rq, 2, T0, v), WEIR_EGUARD);
        assert_int_equal(weir_reserve_at(w, &rq[1], 1, T0, &r, v), WEIR_EGUARD);
        assert_int_equal(weir_wait_at(w, &rq[1], T0, T0 + SECOND, v), WEIR_EGUARD);
        untouched(v, sizeof v);
        assert_int_equal(weir_peek_at(w, &rq[1], T0, v), 0);
        assert_true(v->allowed);
        assert_int_equal(weir_refund_at(w, &rq[1], T0, &back), 0);
        assert_int_equal(look(w, rate, "k", T0).remaining, 10);
        assert_int_equal(weir_reset_at(w, &rq[1], T0), 0);
        backend_close(w);
    }
}

static void a_limiter_without_keys_has_no_guards(void **state)
{
    struct weir_limiter *l = NULL;
    struct weir_diag why;

    (void)state;
    for (size_t i = 0; i < LENGTH(EVERY_GUARD); i++)
        assert_int_equal(weir_limiter_open(&l, EVERY_GUARD[i], &why), WEIR_EINVAL);
    assert_int_equal(weir_limiter_open(&l, "10/s", &why), 0);
    assert_int_equal(weir_limiter_change(l, "concurrency 3", &why), WEIR_EINVAL);
    assert_true(weir_limiter_allow(l));
    weir_limiter_close(l);
}

static void rates_may_be_entered_too(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=2", T0);
    struct weir_ticket t;
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_true(enter(w, p, "k", T0, &t).allowed);
        assert_int_equal(t.n, 0);
        leave(w, &t, WEIR_SUCCESS, T0);
    }
    v = enter(w, p, "k", T0, &t);
    assert_false(v.allowed);
    assert_int_equal(v.retry_after_ns, SECOND);
    backend_close(w);
}

static void a_ticket_ends_once(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 2", T0);
    struct weir_ticket a, b, refused;

    (void)state;
    assert_true(enter(w, p, "k", T0, &a).allowed);
    assert_true(enter(w, p, "k", T0, &b).allowed);
    assert_false(enter(w, p, "k", T0, &refused).allowed);
    leave(w, &refused, WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 2);
    leave(w, &a, WEIR_SUCCESS, T0);
    leave(w, &a, WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 1);
    leave(w, &b, WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 0);
    backend_close(w);
}

static void arguments_are_checked(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 2 + 10/s", T0);
    struct weir_request rq = request_for(p, "k", -1, 0);
    struct weir_ticket t;
    struct weir_verdict v;
    struct weir_view view;

    (void)state;
    smear(&t, sizeof t);
    smear(&v, sizeof v);
    assert_int_equal(weir_enter_at(w, &rq, T0, &t, &v), WEIR_EINVAL);
    rq.cost = 1;
    assert_int_equal(weir_enter_at(w, &rq, -1, &t, &v), WEIR_EINVAL);
    assert_int_equal(weir_enter_all_at(w, &rq, 0, T0, &t, &v), WEIR_EINVAL);
    assert_int_equal(weir_enter_all_at(w, &rq, 17, T0, &t, &v), WEIR_EINVAL);
    assert_int_equal(weir_guard_view_at(w, &rq, -1, T0, &view), WEIR_EINVAL);
    assert_int_equal(weir_guard_view_at(w, &rq, 1, T0, &view), WEIR_EINVAL); /* a rate */
    assert_int_equal(weir_guard_view_at(w, &rq, 2, T0, &view), WEIR_EINVAL);
    untouched(&t, sizeof t);
    untouched(&v, sizeof v);
    t.n = 0;
    assert_int_equal(weir_exit_at(w, &t, (enum weir_outcome)7, T0), WEIR_EINVAL);
    assert_int_equal(weir_exit_at(w, &t, WEIR_SUCCESS, -1), WEIR_EINVAL);
    t.n = 17;
    assert_int_equal(weir_exit_at(w, &t, WEIR_SUCCESS, T0), WEIR_EINVAL);
    assert_int_equal(weir_signals_set(w, &(struct weir_signals){-5, 0, 0, 0}), WEIR_EINVAL);
    backend_close(w);
}

static void a_cost_of_nothing_enters_and_holds_nothing(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 + breaker", T0);
    const struct weir_request rq = request_for(p, "k", 0, 0);
    struct weir_ticket one, t;
    struct weir_verdict v;

    (void)state;
    assert_true(enter(w, p, "k", T0, &one).allowed);
    assert_int_equal(weir_enter_at(w, &rq, T0, &t, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(t.n, 0);
    leave(w, &t, WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 1);
    backend_close(w);
}

static void a_cost_takes_that_many_permits(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 5", T0);
    const struct weir_request rq = request_for(p, "k", 4, 0);
    struct weir_ticket t, other;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_enter_at(w, &rq, T0, &t, &v), 0);
    assert_int_equal(v.remaining, 1);
    assert_int_equal(weir_enter_at(w, &rq, T0, &other, &v), 0);
    assert_false(v.allowed);
    leave(w, &t, WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 0);
    backend_close(w);
}

/* ---- The chain ----------------------------------------------------------------------------- */

/* Refused by all five, and then by one less each time. */
static void the_first_of_the_chain_is_named_as_it_was_written(void **state)
{
    static const char LIMIT[] = "adaptive-rate 1/h min=1 max=1 + breaker forced=open + "
                                "concurrency 1 + token-bucket 1/h burst=1 + system cpu=50%";
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p",
                                           "adaptive-rate 1/h min=1 max=1 + breaker + "
                                           "concurrency 1 + token-bucket 1/h burst=1 + "
                                           "system cpu=50%",
                                           T0);
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_ticket t, other;
    struct weir_verdict v;

    (void)state;
    assert_true(enter(w, p, "k", T0, &t).allowed);
    (void)backend_policy(w, "p", LIMIT, T0);
    assert_int_equal(weir_signals_set(w, &(struct weir_signals){900, 0, 0, 0}), 0);
    v = enter(w, p, "k", T0, &other);
    assert_int_equal(v.which, 4);
    assert_int_equal(v.reason, WEIR_OVERLOAD);
    assert_int_equal(v.retry_after_ns, -1); /* the longest of all: it is forced open */
    assert_int_equal(weir_signals_set(w, &CALM), 0);
    v = enter(w, p, "k", T0, &other);
    assert_int_equal(v.which, 3);
    assert_int_equal(v.reason, WEIR_LIMITED);
    v = enter(w, p, "k", T0 + HOUR, &other);
    assert_int_equal(v.which, 2);
    assert_int_equal(v.reason, WEIR_LIMITED);
    leave(w, &t, WEIR_SUCCESS, T0 + HOUR);
    v = enter(w, p, "k", T0 + HOUR, &other);
    assert_int_equal(v.which, 1);
    assert_int_equal(v.reason, WEIR_OPEN);
    assert_int_equal(weir_peek_at(w, &rq, T0 + HOUR, &v), 0);
    assert_int_equal(v.which, 1);
    backend_close(w);
}

static void a_refusal_charges_no_key(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(
        w, "p", "token-bucket 1/h burst=5 + concurrency 5 + breaker forced=open", T0);
    struct weir_ticket t;
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < 20; i++) {
        v = enter(w, p, "k", T0, &t);
        assert_false(v.allowed);
        assert_int_equal(v.which, 2);
        assert_int_equal(t.n, 0);
    }
    assert_int_equal(in_flight(w, p, "k", 1, T0), 0);
    /* The breaker lets no call in, so nothing remains; once it does, the whole bucket is
     * available. */
    assert_int_equal(look(w, p, "k", T0).remaining, 0);
    (void)backend_policy(w, "p", "token-bucket 1/h burst=5 + concurrency 5 + breaker", T0);
    assert_int_equal(look(w, p, "k", T0).remaining, 5);
    backend_close(w);
}

static void a_shadow_that_refused_has_nothing_to_be_left(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 shadow + concurrency 3", T0);
    struct weir_ticket t[4];

    (void)state;
    assert_int_equal(enter(w, p, "k", T0, &t[0]).reason, WEIR_OK);
    for (int i = 1; i < 3; i++) {
        const struct weir_verdict v = enter(w, p, "k", T0, &t[i]);

        assert_true(v.allowed);
        assert_int_equal(v.reason, WEIR_LIMITED); /* what the shadow says */
        assert_int_equal(t[i].n, 1);
    }
    assert_false(enter(w, p, "k", T0, &t[3]).allowed);
    leave(w, &t[1], WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 1);
    assert_int_equal(in_flight(w, p, "k", 1, T0), 2);
    leave(w, &t[0], WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 0);
    backend_close(w);
}

static void the_system_is_one_for_all_keys(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "system inflight=2 + concurrency 5", T0);
    struct weir_ticket t[4];
    int n = 0;

    (void)state;
    while (enter(w, p, n % 2 ? "a" : "b", T0, &t[n]).allowed)
        assert_in_range(n++, 0, 2);
    assert_in_range(n, 2, 3);
    leave(w, &t[0], WEIR_SUCCESS, T0);
    assert_true(enter(w, p, "c", T0, &t[0]).allowed);
    backend_close(w);
}

static void several_keys_are_entered_all_or_nothing(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *server = backend_policy(w, "server", "concurrency 3", T0);
    struct weir_policy *client = backend_policy(w, "client", "concurrency 2", T0);
    struct weir_ticket t[4];
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < 4; i++) {
        const struct weir_request rq[] = {request_for(server, "", 1, 0),
                                          request_for(client, i < 3 ? "a" : "b", 1, 0)};

        assert_int_equal(weir_enter_all_at(w, rq, 2, T0, &t[i], &v), 0);
        assert_int_equal(v.allowed, i != 2);
        assert_int_equal(v.which, i == 2 ? 1 : -1);
        assert_int_equal(t[i].n, i == 2 ? 0 : 2);
    }
    assert_int_equal(in_flight(w, server, "", 0, T0), 3);
    assert_int_equal(in_flight(w, client, "a", 0, T0), 2);
    for (int i = 0; i < 4; i++)
        leave(w, &t[i], WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, server, "", 0, T0), 0);
    assert_int_equal(in_flight(w, client, "a", 0, T0), 0);
    backend_close(w);
}

/* ---- What happens meanwhile ---------------------------------------------------------------- */

static void an_expired_lease_is_exited_in_vain(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 lease=10s", T0);
    struct weir_ticket old, new;

    (void)state;
    assert_true(enter(w, p, "k", T0, &old).allowed);
    assert_false(fits(w, p, "k", T0 + 10 * SECOND - 1));
    assert_true(enter(w, p, "k", T0 + 10 * SECOND, &new).allowed);
    leave(w, &old, WEIR_SUCCESS, T0 + 11 * SECOND);
    assert_int_equal(in_flight(w, p, "k", 0, T0 + 11 * SECOND), 1);
    assert_false(fits(w, p, "k", T0 + 11 * SECOND));
    leave(w, &new, WEIR_SUCCESS, T0 + 11 * SECOND);
    assert_true(fits(w, p, "k", T0 + 11 * SECOND));
    backend_close(w);
}

static void a_call_in_flight_stays_in_when_the_limit_changes(void **state)
{
    static const char *const LIMITS[] = {"concurrency 3", "concurrency 9 queue=5", "concurrency 1",
                                         "concurrency 2"};
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", LIMITS[0], T0);
    struct weir_ticket t[3];

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(enter(w, p, "k", T0, &t[i]).allowed);
    for (int i = 1; i < 4; i++) {
        (void)backend_policy(w, "p", LIMITS[i], T0 + i);
        assert_int_equal(in_flight(w, p, "k", 0, T0 + i), 3);
    }
    for (int i = 0; i < 3; i++) {
        assert_false(fits(w, p, "k", T0 + 5) && i < 2);
        leave(w, &t[i], WEIR_SUCCESS, T0 + 5);
        assert_int_equal(in_flight(w, p, "k", 0, T0 + 5), 2 - i);
    }
    assert_true(fits(w, p, "k", T0 + 5));
    backend_close(w);
}

static void a_ticket_of_another_algorithm_is_forgotten(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 2 + vegas", T0);
    struct weir_ticket old, new;

    (void)state;
    assert_true(enter(w, p, "k", T0, &old).allowed);
    (void)backend_policy(w, "p", "aimd", T0);
    assert_true(enter(w, p, "k", T0, &new).allowed);
    leave(w, &old, WEIR_DROP, T0);
    assert_int_equal(old.n, 0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 1);
    (void)backend_policy(w, "p", "10/s", T0);
    leave(w, &new, WEIR_SUCCESS, T0);
    assert_int_equal(new.n, 0);
    backend_close(w);
}

static void a_ticket_of_a_forgotten_policy_is_exited_in_vain(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 2 + vegas", T0);
    struct weir_policy *stays = backend_policy(w, "stays", "concurrency 2", T0);
    struct weir_ticket t, other;

    (void)state;
    assert_true(enter(w, p, "k", T0, &t).allowed);
    assert_true(enter(w, stays, "k", T0, &other).allowed);
    weir_policy_forget(w, p);
    leave(w, &t, WEIR_SUCCESS, T0);
    leave(w, &other, WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, stays, "k", 0, T0), 0);
    p = backend_policy(w, "p", "concurrency 2", T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 0);
    backend_close(w);
}

static void a_reset_forgets_the_calls_in_flight(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 2", T0);
    struct weir_ticket a, b, c;

    (void)state;
    assert_true(enter(w, p, "k", T0, &a).allowed);
    assert_true(enter(w, p, "k", T0, &b).allowed);
    reset(w, p, "k", T0);
    assert_true(enter(w, p, "k", T0, &c).allowed);
    leave(w, &a, WEIR_SUCCESS, T0);
    leave(w, &b, WEIR_SUCCESS, T0);
    leave(w, &c, WEIR_SUCCESS, T0);
    assert_int_equal(in_flight(w, p, "k", 0, T0), 0);
    backend_close(w);
}

/* Calls in flight hold their places; there is no key to evict for a newcomer. */
static void a_store_full_of_calls_in_flight_says_so(void **state)
{
    struct weir *w = backend_open(&(struct weir_options){.max_keys = 64});
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1", T0);
    static struct weir_ticket t[4000];
    int n = 0, refused = 0;

    (void)state;
    for (int i = 0; i < (int)LENGTH(t); i++) {
        char key[16];
        struct weir_verdict v;

        (void)snprintf(key, sizeof key, "k%d", i);
        v = enter(w, p, key, T0, &t[n]);
        if (v.allowed)
            n++;
        refused += !v.allowed;
        assert_int_equal(v.reason, v.allowed ? WEIR_OK : WEIR_FULL);
        assert_true(v.allowed || v.retry_after_ns > 0);
    }
    assert_true(refused > 0 && n >= 64);
    assert_int_equal(stats(w, T0).live_keys, n);
    assert_int_equal(stats(w, T0).evicted, 0);
    for (int i = 0; i < n; i++)
        leave(w, &t[i], WEIR_SUCCESS, T0);
    assert_int_equal(stats(w, T0).live_keys, 0);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(every_guard_is_entered_and_left),
    cmocka_unit_test(what_could_not_be_left_is_not_taken),
    cmocka_unit_test(a_limiter_without_keys_has_no_guards),
    cmocka_unit_test(rates_may_be_entered_too),
    cmocka_unit_test(a_ticket_ends_once),
    cmocka_unit_test(arguments_are_checked),
    cmocka_unit_test(a_cost_of_nothing_enters_and_holds_nothing),
    cmocka_unit_test(a_cost_takes_that_many_permits),
    cmocka_unit_test(the_first_of_the_chain_is_named_as_it_was_written),
    cmocka_unit_test(a_refusal_charges_no_key),
    cmocka_unit_test(a_shadow_that_refused_has_nothing_to_be_left),
    cmocka_unit_test(the_system_is_one_for_all_keys),
    cmocka_unit_test(several_keys_are_entered_all_or_nothing),
    cmocka_unit_test(an_expired_lease_is_exited_in_vain),
    cmocka_unit_test(a_call_in_flight_stays_in_when_the_limit_changes),
    cmocka_unit_test(a_ticket_of_another_algorithm_is_forgotten),
    cmocka_unit_test(a_ticket_of_a_forgotten_policy_is_exited_in_vain),
    cmocka_unit_test(a_reset_forgets_the_calls_in_flight),
    cmocka_unit_test(a_store_full_of_calls_in_flight_says_so),
};

RUN_BACKEND("guards", TESTS)
