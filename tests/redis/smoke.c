/* The library on a Redis with its own clock: every algorithm and every verb, and what Redis then
 * stores.
 *
 *     remote_smoke redis+unix:/path
 *
 * Times are real here, so the test does not check the arithmetic (the vectors do that, with
 * injected times) but that a caller that waits as long as a verdict says gets what the verdict
 * promised.
 */
#include "observer.h"

/* ---- Algorithms ------------------------------------------------------------------------------ */

static void every_algorithm_grants_its_limit_and_no_more(void **state)
{
    static const struct {
        const char *limit, *key; /* in Redis */
        int grants;
        int64_t at_most_ns; /* until the next may pass */
    } ROWS[] = {
        {"fixed-window 5/1h", "weir:1:{p0:k}:0f", 5, HOUR},
        {"fixed-window 5/day tz=Europe/Berlin", "weir:1:{p1:k}:0f", 5, 25 * HOUR},
        {"fixed-window 5/month", "weir:1:{p2:k}:0f", 5, 31 * DAY},
        {"sliding-window 5/1h slots=60", "weir:1:{p3:k}:0w60", 5, HOUR + MINUTE},
        {"sliding-counter 5/1h", "weir:1:{p4:k}:0c", 5, 2 * HOUR},
        {"sliding-log 5/1h", "weir:1:{p5:k}:0l5", 5, HOUR},
        {"sliding-log 5/1h min-interval=1h", "weir:1:{p6:k}:0l5", 1, HOUR},
        {"token-bucket 5/1h", "weir:1:{p7:k}:0t", 5, HOUR},
        {"token-bucket 5/1h burst=9", "weir:1:{p8:k}:0t", 9, HOUR},
        {"token-bucket 5/1h initial=2", "weir:1:{p9:k}:0t", 2, HOUR},
        {"token-bucket 5/1h initial=empty", NULL, 0, HOUR},
        {"leaky-bucket 5/1h", "weir:1:{p11:k}:0b", 5, HOUR},
        {"leaky-bucket 5/1h capacity=2", "weir:1:{p12:k}:0b", 2, HOUR},
        {"pacer 5/1h", "weir:1:{p13:k}:0p", 1, HOUR},
        {"smooth-bursty 5/1h", "weir:1:{p14:k}:0s", 1, HOUR},
        {"smooth-warmup 5/1h warmup=1h", "weir:1:{p15:k}:0u", 1, 3 * HOUR},
        {"min-interval 1h", "weir:1:{p16:k}:0i", 1, HOUR},
        {"token-bucket 3/1h + fixed-window 5/1h", "weir:1:{p17:k}:1f", 3, HOUR},
        {"token-bucket 9/1h + sliding-log 2/1h + min-interval 1us", "weir:1:{p18:k}:1l2", 2, HOUR},
        {"token-bucket 2/1h shadow + token-bucket 4/1h", "weir:1:{p19:k}:1t", 4, HOUR},
    };
    struct weir *w = open_there("");

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        char name[16];
        struct weir_policy *p;
        struct weir_verdict v;

        (void)snprintf(name, sizeof name, "p%zu", i);
        print_message("  %s\n", ROWS[i].limit);
        p = policy(w, name, ROWS[i].limit);
        assert_int_equal(granted(w, p, "k", ROWS[i].grants), ROWS[i].grants);
        v = take_now(w, p, "k", 1);
        assert_false(v.allowed);
        assert_int_equal(v.reason, WEIR_LIMITED);
        assert_int_equal(v.remaining, 0);
        assert_true(v.retry_after_ns > 0 && v.retry_after_ns <= ROWS[i].at_most_ns);
        if (ROWS[i].key && !observer_has(ROWS[i].key))
            fail_msg("there is no key %s", ROWS[i].key);
        assert_true(take_now(w, p, "other", 0).allowed);
        assert_int_equal(observer_number("KEYS weir:1:{%s:other}:*", name), 0);
    }
    weir_close(w);
}

static void a_caller_that_waits_as_told_is_let_in(void **state)
{
    static const char *const LIMITS[] = {
        "fixed-window 2/30ms",
        "sliding-window 2/40ms slots=4",
        "sliding-counter 2/20ms",
        "sliding-log 2/30ms",
        "token-bucket 50/s burst=2",
        "leaky-bucket 50/s capacity=2",
        "pacer 50/s",
        "smooth-bursty 50/s",
        "smooth-warmup 50/s warmup=20ms",
        "min-interval 20ms",
        "token-bucket 1/20ms + fixed-window 2/30ms",
    };
    struct weir *w = open_there("");

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct weir_policy *p = policy(w, "again", LIMITS[i]);
        struct weir_verdict v;
        int refused = 0;

        print_message("  %s\n", LIMITS[i]);
        for (int n = 0; n < 12; n++) {
            v = take_now(w, p, LIMITS[i], 1);
            if (v.allowed)
                continue;
            refused++;
            assert_true(v.retry_after_ns > 0);
            nap(v.retry_after_ns);
            assert_true(take_now(w, p, LIMITS[i], 1).allowed);
        }
        assert_true(refused > 0);
    }
    weir_close(w);
}

/* ---- What stands there ----------------------------------------------------------------------- */

static void a_key_ends_when_it_is_as_good_as_new(void **state)
{
    static const struct {
        const char *limit, *key;
        int64_t life_ms;
    } ROWS[] = {
        {"token-bucket 1/40ms burst=3", "weir:1:{p:k}:0t", 40},
        {"leaky-bucket 1/40ms capacity=3", "weir:1:{p:k}:0b", 40},
        {"fixed-window 3/40ms", "weir:1:{p:k}:0f", 40},
        {"sliding-window 3/40ms slots=4", "weir:1:{p:k}:0w4", 50},
        {"sliding-counter 3/20ms", "weir:1:{p:k}:0c", 40},
        {"sliding-log 3/40ms", "weir:1:{p:k}:0l3", 40},
        {"min-interval 40ms", "weir:1:{p:k}:0i", 40},
    };
    struct weir *w = open_there("");

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_policy *p = policy(w, "p", ROWS[i].limit);
        const struct weir_request nothing = request_for(p, "k", 0, 0);
        const int64_t begin = mono_ns();
        struct weir_verdict v = take_now(w, p, "k", 1);
        const long long left = observer_number("PTTL %s", ROWS[i].key);

        print_message("  %s: %lld ms left\n", ROWS[i].limit, left);
        assert_true(v.allowed);
        assert_true(left <= ROWS[i].life_ms + 1);
        assert_true(left > 0 || mono_ns() - begin >= (ROWS[i].life_ms / 2) * MS);
        assert_true(v.reset_after_ns <= (ROWS[i].life_ms + 1) * MS);
        nap(v.reset_after_ns);
        assert_int_equal(weir_peek(w, &nothing, &v), 0);
        assert_int_equal(v.reset_after_ns, 0);
        assert_int_equal(v.remaining, v.limit);
        /* In the millisecond after which it has fully recovered. */
        while (observer_has(ROWS[i].key))
            assert_true(mono_ns() - begin < (ROWS[i].life_ms + 2) * MS + SECOND / 4);
    }
    weir_close(w);
}

static void to_look_or_to_be_refused_writes_nothing(void **state)
{
    struct weir *w = open_there("&prefix=quiet");
    struct weir_policy *p = policy(w, "p", "token-bucket 2/1h + sliding-log 2/1h");
    const struct weir_request one = request_for(p, "cold", 1, 0),
                              many = request_for(p, "cold", 9, 0);
    struct weir_verdict v;
    int64_t back = -1;

    (void)state;
    assert_int_equal(weir_peek(w, &one, &v), 0);
    assert_true(v.allowed && v.remaining == 1);
    assert_int_equal(weir_take(w, &many, &v), 0);
    assert_int_equal(v.reason, WEIR_TOO_BIG);
    assert_int_equal(v.retry_after_ns, -1);
    assert_true(take_now(w, p, "cold", 0).allowed);
    assert_int_equal(weir_refund(w, &one, &back), 0);
    assert_int_equal(back, 0);
    assert_int_equal(weir_reset(w, &one), 0);
    assert_int_equal(observer_number("KEYS quiet:1:{p*"), 0);
    assert_int_equal(granted(w, p, "cold", 3), 2);
    assert_int_equal(observer_number("KEYS quiet:1:{p:cold}:*"), 2);
    weir_close(w);
}

static void what_is_given_back_is_gone(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "giving", "token-bucket 4/1h + sliding-log 4/1h");
    const struct weir_request two = request_for(p, "k", 2, 0);
    int64_t back = -1;

    (void)state;
    assert_int_equal(granted(w, p, "k", 9), 4);
    assert_int_equal(weir_refund(w, &two, &back), 0);
    assert_int_equal(back, 2);
    assert_int_equal(granted(w, p, "k", 9), 2);
    assert_int_equal(weir_refund(w, &two, NULL), 0);
    assert_int_equal(weir_refund(w, &two, &back), 0);
    assert_int_equal(back, 2);
    assert_int_equal(observer_number("KEYS weir:1:{giving:k}:*"), 0);
    assert_int_equal(granted(w, p, "k", 9), 4);
    assert_int_equal(weir_reset(w, &two), 0);
    assert_int_equal(observer_number("KEYS weir:1:{giving:k}:*"), 0);
    assert_int_equal(granted(w, p, "k", 9), 4);
    weir_close(w);
}

/* ---- Verbs ----------------------------------------------------------------------------------- */

static void reservations_are_cancelled(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "later", "pacer 1/10s");
    const struct weir_request rq = request_for(p, "k", 1, WEIR_FOREVER);
    struct weir_reservation first, second, third;
    struct weir_verdict v;
    int64_t back = -1;

    (void)state;
    assert_int_equal(weir_reserve(w, &rq, 1, &first, &v), 0);
    assert_true(v.allowed && v.wait_ns == 0);
    assert_int_equal(weir_reserve(w, &rq, 1, &second, &v), 0);
    assert_true(v.allowed && v.wait_ns > 9 * SECOND && v.wait_ns <= 10 * SECOND);
    assert_true(second.act_ns > weir_now(w) + 9 * SECOND);
    assert_int_equal(weir_reserve(w, &rq, 1, &third, &v), 0);
    assert_true(v.wait_ns > 19 * SECOND && v.wait_ns <= 20 * SECOND);
    assert_int_equal(weir_cancel(w, &second, &back), 0); /* another stands behind it */
    assert_int_equal(back, 0);
    assert_int_equal(weir_cancel(w, &third, &back), 0);
    assert_int_equal(back, 1);
    assert_int_equal(weir_cancel(w, &third, &back), 0);
    assert_int_equal(back, 0);
    assert_int_equal(weir_reserve(w, &rq, 1, &third, &v), 0);
    assert_true(v.wait_ns > 19 * SECOND - 10 * SECOND && v.wait_ns <= 20 * SECOND);
    weir_close(w);
}

static void waiters_have_their_turns(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *paced = policy(w, "paced", "pacer 1/20ms");
    struct weir_policy *window = policy(w, "window", "fixed-window 1/20ms");
    struct weir_policy *slow = policy(w, "slow", "token-bucket 1/1h");
    const struct weir_policy *const both[] = {paced, window};
    const struct weir_request hopeless = request_for(slow, "k", 1, 0);
    struct weir_verdict v;
    int64_t begin;

    (void)state;
    for (int i = 0; i < 2; i++) {
        const struct weir_request rq = request_for((struct weir_policy *)both[i], "k", 1, 0);

        begin = mono_ns();
        for (int n = 0; n < 4; n++) {
            assert_int_equal(weir_wait(w, &rq, WEIR_FOREVER, &v), 0);
            assert_true(v.allowed);
        }
        assert_true(mono_ns() - begin >= 59 * MS);
    }
    assert_true(take_now(w, slow, "k", 1).allowed);
    begin = mono_ns();
    assert_int_equal(weir_wait(w, &hopeless, weir_now(w) + 10 * SECOND, &v), 0);
    assert_false(v.allowed);
    assert_true(mono_ns() - begin < 5 * SECOND);
    weir_close(w);
}

static void all_or_nothing(void **state)
{
    struct weir *w = open_there("&prefix=all");
    struct weir_policy *p = policy(w, "p", "token-bucket 5/1h"),
                       *q = policy(w, "q", "sliding-log 2/1h");
    const struct weir_request rq[] = {request_for(p, "a", 2, 0), request_for(q, "a", 1, 0),
                                      request_for(p, "a", 1, 0)};
    struct weir_request much[17];
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_take_all(w, rq, 3, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(weir_take_all(w, rq, 3, &v), 0); /* the first's charge is seen by the third */
    assert_false(v.allowed);
    assert_int_equal(v.which, 2);
    assert_true(take_now(w, q, "a", 1).allowed); /* and none was charged */
    assert_int_equal(weir_take_all(w, rq, 2, &v), 0);
    assert_int_equal(v.which, 1);
    assert_int_equal(granted(w, p, "a", 5), 2);
    for (int i = 0; i < 17; i++)
        much[i] = request_for(p, "b", 0, 0);
    assert_int_equal(weir_take_all(w, much, 16, &v), 0);
    assert_int_equal(weir_take_all(w, much, 17, &v), WEIR_EINVAL);
    weir_close(w);
}

static void many_are_answered_in_order(void **state)
{
    enum { MANY = 1000, KEYS = 7 };
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "many", "token-bucket 100/1h");
    struct weir_request rq[MANY];
    struct weir_verdict v[MANY];
    static const char *const NAMES[KEYS] = {"a", "b", "c", "d", "e", "f", "g"};
    int64_t left[KEYS];

    (void)state;
    for (int i = 0; i < MANY; i++)
        rq[i] = request_for(p, NAMES[i % KEYS], 1, 0);
    for (int i = 0; i < KEYS; i++)
        left[i] = 100;
    assert_int_equal(weir_take_many(w, rq, MANY, v), 0);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(v[i].allowed, left[i % KEYS] > 0);
        left[i % KEYS] -= v[i].allowed;
        assert_int_equal(v[i].remaining, left[i % KEYS]);
    }
    rq[3].cost = -1;
    assert_int_equal(weir_take_many(w, rq, MANY, v), WEIR_EINVAL);
    assert_int_equal(weir_take_many(w, rq, 0, v), 0);
    weir_close(w);
}

static void permits_are_taken_and_given_back(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "in", "concurrency 2 lease=60s");
    struct weir_policy *brief = policy(w, "brief", "concurrency 1 lease=200ms");
    struct weir_policy *line = policy(w, "line", "concurrency 1 lease=40ms queue=1 max-wait=1s");
    const struct weir_request rq = request_for(p, "k", 1, 0),
                              short_rq = request_for(brief, "k", 1, 0);
    const struct weir_request waiting = request_for(line, "k", 1, WEIR_WAIT_DEFAULT);
    struct weir_ticket a, b, c;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_take(w, &rq, &v), WEIR_EGUARD); /* a guard could never be released */
    assert_int_equal(weir_enter(w, &rq, &a, &v), 0);
    assert_true(v.allowed && v.remaining == 1);
    assert_int_equal(weir_enter(w, &rq, &b, &v), 0);
    assert_int_equal(weir_enter(w, &rq, &c, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.retry_after_ns, 0);
    assert_int_equal(observer_number("ZCARD weir:1:{in:k}:0n"), 2);
    assert_int_equal(weir_exit(w, &a, WEIR_SUCCESS), 0);
    assert_int_equal(weir_exit(w, &a, WEIR_SUCCESS), 0); /* a second time does nothing */
    assert_int_equal(weir_exit(w, &c, WEIR_SUCCESS), 0);
    assert_int_equal(weir_enter(w, &rq, &a, &v), 0);
    assert_true(v.allowed && v.remaining == 0);
    assert_int_equal(weir_exit(w, &a, WEIR_ERROR), 0);
    assert_int_equal(weir_exit(w, &b, WEIR_ERROR), 0);
    assert_int_equal(observer_number("KEYS weir:1:{in:*"), 0);

    assert_int_equal(weir_enter(w, &short_rq, &a, &v), 0);
    do
        assert_int_equal(weir_enter(w, &short_rq, &b, &v), 0);
    while (!v.allowed); /* the lease has ended */
    assert_int_equal(weir_exit(w, &a, WEIR_SUCCESS),
                     0); /* and does not take the other's place away */
    assert_int_equal(weir_enter(w, &short_rq, &c, &v), 0);
    assert_false(v.allowed);

    assert_int_equal(weir_enter(w, &waiting, &a, &v), 0);
    assert_int_equal(weir_enter(w, &waiting, &b, &v), 0); /* waits until the first's lease ends */
    assert_true(v.allowed);
    assert_int_equal(weir_exit(w, &b, WEIR_SUCCESS), 0);
    weir_close(w);
}

/* A permit is found by its name: neither the reset of another key nor a change of the limit keeps
 * it until its lease ends. */
static void permits_return_whatever_has_become_of_the_limit(void **state)
{
    static const char *const CHANGE[] = {"100/s + concurrency 3 lease=1h",
                                         "50/s + breaker + concurrency 3 lease=2h",
                                         "aimd + 50/s + concurrency 3 queue=9 lease=2h"};
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "in", "100/s + concurrency 2 lease=1h");
    const struct weir_request rq = request_for(p, "k", 1, 0), other = request_for(p, "j", 1, 0),
                              look = request_for(p, "k", 0, 0);
    struct weir_ticket t, u;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
    assert_int_equal(weir_reset(w, &other), 0);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    assert_int_equal(observer_number("KEYS weir:1:{in:k}:1n"), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
        assert_true(v.allowed);
        (void)policy(w, "in", CHANGE[i]);
        assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
        assert_int_equal(weir_peek(w, &look, &v), 0);
        assert_int_equal(v.remaining, 3);
    }
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
    assert_int_equal(weir_reset(w, &rq), 0);
    assert_int_equal(weir_enter(w, &rq, &u, &v), 0);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0); /* which the reset has returned */
    assert_int_equal(weir_peek(w, &look, &v), 0);
    assert_int_equal(v.remaining, 2);
    assert_int_equal(weir_exit(w, &u, WEIR_SUCCESS), 0);
    weir_close(w);
}

static void permits_of_several_at_once(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *one = policy(w, "one", "concurrency 1 lease=60s");
    struct weir_policy *two = policy(w, "two", "concurrency 2 lease=60s + token-bucket 3/1h");
    const struct weir_request rq[] = {request_for(one, "k", 1, 0), request_for(two, "k", 1, 0)};
    struct weir_ticket t, u;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_enter_all(w, rq, 2, &t, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(weir_enter_all(w, rq, 2, &u, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.which, 0);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_enter_all(w, rq, 2, &t, &v), 0);
        assert_true(v.allowed);
        assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    }
    assert_int_equal(weir_enter_all(w, rq, 2, &t, &v), 0); /* the rate is used up */
    assert_false(v.allowed);
    assert_int_equal(v.which, 1);
    assert_int_equal(observer_number("KEYS weir:1:{one:*"), 0);
    weir_close(w);
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static void limits_change_and_keys_go_on(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "live", "token-bucket 10/1h");

    (void)state;
    assert_int_equal(granted(w, p, "k", 4), 4);
    assert_ptr_equal(policy(w, "live", "token-bucket 20/1h"), p);
    assert_int_equal(granted(w, p, "k", 30), 16);
    (void)policy(w, "live", "token-bucket 5/1h");
    assert_int_equal(granted(w, p, "k", 30), 0);
    (void)policy(w, "live", "fixed-window 3/1h"); /* another algorithm: fresh */
    assert_int_equal(granted(w, p, "k", 30), 3);
    weir_close(w);
}

static void some_keys_are_treated_otherwise(void **state)
{
    const struct weir_bytes friends[] = {{"friend", 6}},
                            foes[] = {{"foe", 3}, {"friend of a foe", 15}};
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "lists", "token-bucket 2/1h");
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_ALLOW, friends, 1), 0);
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, foes, 2), 0);
    assert_int_equal(weir_override_set(w, p, "rich", 4, "token-bucket 9/1h", NULL), 0);
    assert_int_equal(granted(w, p, "friend", 100), 100);
    assert_int_equal(granted(w, p, "rich", 100), 9);
    assert_int_equal(granted(w, p, "anyone", 100), 2);
    v = take_now(w, p, "foe", 1);
    assert_true(!v.allowed && v.reason == WEIR_LISTED && v.retry_after_ns == -1);
    assert_int_equal(observer_number("KEYS weir:1:{lists:f*"), 0);
    assert_int_equal(weir_override_set(w, p, "rich", 4, NULL, NULL), 0);
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, NULL, 0), 0);
    assert_int_equal(granted(w, p, "rich", 100), 0);
    assert_int_equal(granted(w, p, "foe", 100), 2);
    weir_close(w);
}

static void what_cannot_be_shared_is_refused_with_a_reason(void **state)
{
    static const char *const LIMITS[] = {"concurrency 10", "breaker + concurrency 10",
                                         "5/s + 10/s warn=80%", "5/m block=1m..1h after=10"};
    struct weir *w = open_there("");

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct weir_policy *p = NULL;
        struct weir_diag why = {0};

        assert_int_equal(weir_policy_set(w, "no", LIMITS[i], &p, &why), WEIR_EINVAL);
        print_message("  %s\n", why.text);
        assert_true(strlen(why.text) > 20);
        assert_null(weir_policy_find(w, "no"));
    }
    weir_close(w);
}

/* ---- Keys and costs -------------------------------------------------------------------------- */

static void keys_are_any_bytes(void **state)
{
    static char long_a[WEIR_KEY_MAX + 1], long_b[WEIR_KEY_MAX];
    const struct {
        const char *at;
        size_t len;
    } KEYS[] = {
        {"", 0},
        {"\0", 1},
        {"\0\0", 2},
        {"a", 1},
        {"a\0", 2},
        {"a\0b", 3},
        {"{", 1},
        {"}", 1},
        {"{}", 2},
        {"}:0t", 4},
        {"a}:0t", 5},
        {"%", 1},
        {"%00", 3},
        {"\r\n", 2},
        {"$5\r\n", 4},
        {"\xff\xfe", 2},
        {"*", 1},
        {"k e y", 5},
        {"k{e}y", 5},
        {":", 1},
        {"a:b", 3},
        {long_a, WEIR_KEY_MAX},
        {long_b, WEIR_KEY_MAX},
        {long_a, WEIR_KEY_MAX - 1},
    };
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "a:b{c}%d", "token-bucket 3/1h + sliding-log 3/1h");
    struct weir_request rq = {p, long_a, WEIR_KEY_MAX + 1, 1, 0};
    struct weir_verdict v;

    (void)state;
    memset(long_a, 'x', sizeof long_a);
    memset(long_b, 'x', sizeof long_b);
    long_b[WEIR_KEY_MAX - 1] = 'y';
    assert_int_equal(weir_take(w, &rq, &v), WEIR_EINVAL);
    for (int turn = 1; turn <= 4; turn++)
        for (size_t i = 0; i < LENGTH(KEYS); i++) {
            rq.key = KEYS[i].at;
            rq.key_len = KEYS[i].len;
            assert_int_equal(weir_take(w, &rq, &v), 0);
            assert_int_equal(v.allowed, turn <= 3);
            assert_int_equal(v.remaining, turn <= 3 ? 3 - turn : 0);
        }
    weir_close(w);
}

static void names_and_keys_do_not_run_together(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *a = policy(w, "a", "token-bucket 1/1h"),
                       *ab = policy(w, "a:b", "token-bucket 1/1h");

    (void)state;
    assert_true(take_now(w, a, "b:c", 1).allowed);
    assert_true(take_now(w, ab, "c", 1).allowed);
    assert_true(take_now(w, ab, "b:c", 1).allowed);
    assert_false(take_now(w, a, "b:c", 1).allowed);
    weir_close(w);
}

static void costs_and_limits_may_be_extreme(void **state)
{
    static const struct {
        const char *limit;
        int64_t cost, times; /* granted so often */
    } ROWS[] = {
        {"token-bucket 1000000000000/1h", INT64_C(500000000000), 2},
        {"token-bucket 1/366d burst=100", 50, 2},
        {"token-bucket 1/1us burst=3", 1, 3},
        {"fixed-window 1000000000000/366d", INT64_C(1000000000000), 1},
        {"fixed-window 1000000000000/week", INT64_C(333333333333), 3},
        {"sliding-window 1000000000000/366d slots=1000", INT64_C(500000000000), 2},
        {"sliding-counter 1000000000000/366d", INT64_C(500000000000), 2},
        {"sliding-log 65536/366d", 32768, 2},
        {"leaky-bucket 7/366d capacity=1k", 1000, 1},
        {"min-interval 366d", 1, 1},
    };
    struct weir *w = open_there("");
    struct weir_request rq;
    struct weir_verdict v;

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_policy *p = policy(w, "vast", ROWS[i].limit);

        print_message("  %s\n", ROWS[i].limit);
        for (int64_t n = 0; n < ROWS[i].times; n++)
            assert_true(take_now(w, p, ROWS[i].limit, ROWS[i].cost).allowed);
        v = take_now(w, p, ROWS[i].limit, INT64_MAX);
        assert_true(!v.allowed && v.reason == WEIR_TOO_BIG && v.retry_after_ns == -1);
        if (!strstr(ROWS[i].limit, "1us"))
            assert_false(take_now(w, p, ROWS[i].limit, ROWS[i].cost).allowed);
        rq = request_for(p, "k", -1, 0);
        assert_int_equal(weir_take(w, &rq, &v), WEIR_EINVAL);
        rq = request_for(p, "k", 1, -2);
        assert_int_equal(weir_take(w, &rq, &v), WEIR_EINVAL);
    }
    weir_close(w);
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static void engines_share_what_has_one_prefix_and_one_database(void **state)
{
    struct weir *w[] = {open_there(""), open_there(""), open_there("&prefix=other"),
                        open_there("&db=1"), open_there("&connections=4")};
    struct weir_policy *p[LENGTH(w)];
    struct weir_remote_stats s;

    (void)state;
    for (size_t i = 0; i < LENGTH(w); i++)
        p[i] = policy(w[i], "shared", "token-bucket 3/1h initial=2");
    assert_int_equal(granted(w[0], p[0], "k", 1), 1);
    assert_int_equal(granted(w[1], p[1], "k", 9), 1);
    assert_int_equal(granted(w[4], p[4], "k", 9), 0);
    assert_int_equal(granted(w[2], p[2], "k", 9), 2);
    assert_int_equal(granted(w[3], p[3], "k", 9), 2);
    weir_remote_stats(w[1], &s);
    assert_true(s.remote && !s.down && s.asked == 9 && s.failed == 0 && s.fell_back == 0);
    for (size_t i = 0; i < LENGTH(w); i++)
        weir_close(w[i]);
    assert_int_equal(observer_number("EXISTS weir:1:{fleet}:nodes other:1:{fleet}:nodes"), 0);
}

static void a_store_that_is_no_redis_is_told(void **state)
{
    static const char *const URLS[] = {"redis://",
                                       "redis://host:99999",
                                       "redis://host/x",
                                       "redis://host?timeout=0",
                                       "redis://host?colour=red",
                                       "redis+unix:",
                                       "rediss://host:1?nope=1"};

    (void)state;
    for (size_t i = 0; i < LENGTH(URLS); i++) {
        const struct weir_options o = {.store = URLS[i]};
        struct weir_diag why = {0};
        struct weir *w = NULL;

        assert_int_equal(weir_open(&w, &o, &why), WEIR_ESTORE);
        print_message("  %s\n", why.text);
        assert_null(w);
        assert_true(why.text[0] != '\0');
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(every_algorithm_grants_its_limit_and_no_more),
    cmocka_unit_test(a_caller_that_waits_as_told_is_let_in),
    cmocka_unit_test(a_key_ends_when_it_is_as_good_as_new),
    cmocka_unit_test(to_look_or_to_be_refused_writes_nothing),
    cmocka_unit_test(what_is_given_back_is_gone),
    cmocka_unit_test(reservations_are_cancelled),
    cmocka_unit_test(waiters_have_their_turns),
    cmocka_unit_test(all_or_nothing),
    cmocka_unit_test(many_are_answered_in_order),
    cmocka_unit_test(permits_are_taken_and_given_back),
    cmocka_unit_test(permits_return_whatever_has_become_of_the_limit),
    cmocka_unit_test(permits_of_several_at_once),
    cmocka_unit_test(limits_change_and_keys_go_on),
    cmocka_unit_test(some_keys_are_treated_otherwise),
    cmocka_unit_test(what_cannot_be_shared_is_refused_with_a_reason),
    cmocka_unit_test(keys_are_any_bytes),
    cmocka_unit_test(names_and_keys_do_not_run_together),
    cmocka_unit_test(costs_and_limits_may_be_extreme),
    cmocka_unit_test(engines_share_what_has_one_prefix_and_one_database),
    cmocka_unit_test(a_store_that_is_no_redis_is_told),
};

RUN_BESIDE("remote smoke", TESTS)
