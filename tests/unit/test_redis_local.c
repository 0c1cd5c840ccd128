/* A node by itself: what its shares grant, and what changes of limits and nodes make of them. */
#include "node_fixture.h"

#include <pthread.h>

/* ---- What shares answer -------------------------------------------------------------------- */

static void a_node_grants_its_share(void **state)
{
    struct weir__local *l = open_node(3);
    struct weir__local_limit *limit = limit_of(l, "token-bucket 9/s burst=10");
    struct weir_verdict v;

    (void)state;
    v = take(l, limit, "k", 2);
    assert_true(v.allowed);
    assert_int_equal(v.limit, 3);
    assert_int_equal(v.remaining, 1);
    v = take(l, limit, "k", 2);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_LIMITED);
    assert_int_equal(v.which, 0);
    assert_int_equal(v.retry_after_ns, S / 3 + 1);
    assert_int_equal(take(l, limit, "k", 4).reason, WEIR_TOO_BIG);
    assert_int_equal(left(l, limit, "k"), 1);
    assert_int_equal(left(l, limit, "other"), 3);
    clock_ns += S;
    assert_int_equal(left(l, limit, "k"), 3);
    assert_int_equal(weir__local_nodes_now(l), 3);
    weir__local_close(l);
}

static void a_limit_that_denies_refuses_and_one_that_allows_counts_nothing(void **state)
{
    struct weir__local *l = open_node(3);
    struct weir__local_limit *denies =
        limit_of(l, "100/s + fixed-window 30/m fallback=deny + 7/s fallback=deny");
    struct weir__local_limit *allows = limit_of(l, "token-bucket 9/s burst=5 fallback=allow");
    struct weir_verdict v;

    (void)state;
    v = take(l, denies, "k", 1);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_FALLBACK);
    assert_int_equal(v.which, 1);
    assert_int_equal(v.limit, 100);
    assert_int_equal(v.retry_after_ns, S);
    assert_true(take(l, denies, "k", 0).allowed); /* nothing is always granted */
    for (int i = 0; i < 100; i++)
        v = take(l, allows, "k", 1000);
    assert_true(v.allowed);
    assert_int_equal(v.reason, WEIR_FALLBACK);
    assert_int_equal(v.which, -1);
    assert_int_equal(v.limit, 5);
    assert_int_equal(v.remaining, 5); /* a caller that heeds it need not stop: all is granted */
    assert_false(weir__local_has_backlog(l, at()));
    assert_int_equal(drain_backlog(l, allows, "k", NULL), 0);
    weir__local_close(l);
}

static void terms_that_allow_are_left_out_and_the_others_keep_their_numbers(void **state)
{
    struct weir__local *l = open_node(3);
    struct weir__local_limit *limit =
        limit_of(l, "token-bucket 1/h fallback=allow + fixed-window 6/m + 1/h fallback=allow "
                    "+ sliding-log 3/m");
    int64_t back[WEIR_TERMS_MAX];
    struct weir_verdict v;

    (void)state;
    assert_true(take(l, limit, "k", 1).allowed);
    v = take(l, limit, "k", 1);
    assert_false(v.allowed);
    assert_int_equal(v.which, 3);
    assert_int_equal(v.limit, 1);
    assert_int_equal(take(l, limit, "k", 3).which, 1); /* more than the window's share, first */
    assert_int_equal(drain_backlog(l, limit, "k", back), 1);
    assert_int_equal(back[0], 0);
    assert_int_equal(back[1], 1);
    assert_int_equal(back[2], 0);
    assert_int_equal(back[3], 1);
    weir__local_close(l);
}

static void several_requests_are_all_or_nothing(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit[] = {limit_of(l, "10/s fallback=allow"), limit_of(l, "10/s"),
                                         limit_of(l, "4/s")};
    const struct weir_request rq[] = {ask_for("a", 100), ask_for("b", 2), ask_for("c", 2)};
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir__local_decide(l, limit, rq, 3, WEIR__TAKE_ALL, at(), NULL, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(v.reason, WEIR_OK);
    assert_int_equal(v.remaining, 0);
    assert_int_equal(weir__local_decide(l, limit, rq, 3, WEIR__TAKE_ALL, at(), NULL, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.which, 2);
    assert_int_equal(left(l, limit[1], "b"), 3); /* no key was charged */
    define(l, &limit[1], "10/s fallback=deny");
    assert_int_equal(weir__local_decide(l, limit, rq, 3, WEIR__TAKE_ALL, at(), NULL, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_FALLBACK);
    assert_int_equal(v.which, 1);
    weir__local_close(l);
}

static void peeks_are_not_counted_and_charge_nothing(void **state)
{
    struct weir__local *l = open_node(1);
    struct weir__local_limit *limit = limit_of(l, "2/s");
    const struct weir__local_counts *counts = weir__local_counts(l);

    (void)state;
    assert_true(decide(l, limit, "k", 2, WEIR__PEEK).allowed);
    assert_true(take(l, limit, "k", 2).allowed);
    assert_false(take(l, limit, "k", 2).allowed);
    assert_int_equal(atomic_load(&counts->decided), 2);
    assert_int_equal(atomic_load(&counts->allowed), 1);
    assert_int_equal(atomic_load(&counts->nodes), 1);
    weir__local_close(l);
}

static void keys_of_two_limits_are_two(void **state)
{
    struct weir__local *l = open_node(1);
    struct weir__local_limit *one = limit_of(l, "2/s"), *other = limit_of(l, "2/s");

    (void)state;
    assert_true(take(l, one, "k", 2).allowed);
    assert_int_equal(left(l, other, "k"), 2);
    assert_int_equal(drain_backlog(l, other, "k", NULL), 0);
    weir__local_forget(l, one);
    assert_int_equal(left(l, other, "k"), 2);
    weir__local_forget(l, other);
    assert_int_equal(left(l, limit_of(l, "2/s"), "k"), 2);
    weir__local_close(l);
}

static void a_reset_forgets_what_was_granted_and_what_is_owed(void **state)
{
    struct weir__local *l = open_node(1);
    struct weir__local_limit *limit = limit_of(l, "2/s");
    const struct weir_request rq = ask_for("k", 1);

    (void)state;
    assert_true(take(l, limit, "k", 2).allowed);
    weir__local_reset(l, limit, &rq, at());
    assert_int_equal(left(l, limit, "k"), 2);
    assert_int_equal(drain_backlog(l, limit, "k", NULL), 0);
    weir__local_close(l);
}

static void the_keys_it_holds_are_counted(void **state)
{
    struct weir__local *l = open_node(1);
    struct weir__local_limit *limit = limit_of(l, "2/s");
    struct weir_stats stats = {.policies = 77, .max_policies = 78};

    (void)state;
    assert_true(take(l, limit, "k", 2).allowed);
    assert_int_equal(weir__local_room(l, clock_ns, &stats), 0);
    assert_int_equal(stats.policies, 77);
    assert_int_equal(stats.max_policies, 78);
    assert_int_equal(stats.live_keys, 2); /* of the share, and of what it owes */
    weir__local_close(l);
}

/* ---- Entering, reserving ------------------------------------------------------------------- */

static void a_local_entry_is_left_locally(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit =
        limit_of(l, "100/s fallback=allow + concurrency 4 queue=2 lease=1m");
    const struct weir_request rq = ask_for("k", 2);
    struct weir_ticket first, second = {.n = 99};
    struct weir__receipt receipt = {.ticket = &first};
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir__local_decide(l, &limit, &rq, 1, WEIR__ENTER, at(), &receipt, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(first.n, 1);
    receipt.ticket = &second;
    assert_int_equal(weir__local_decide(l, &limit, &rq, 1, WEIR__ENTER, at(), &receipt, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.which, 1);
    assert_true(receipt.full); /* it may be waited for */
    assert_int_equal(receipt.wait.room, 1);
    assert_int_equal(receipt.wait.term, 1);
    assert_int_equal(second.n, 99);
    assert_int_equal(drain_backlog(l, limit, "k", NULL), 0); /* permits are no debts */
    assert_int_equal(weir__local_exit(l, &first, WEIR_SUCCESS, at()), 0);
    assert_int_equal(first.n, 0);
    assert_int_equal(weir__local_decide(l, &limit, &rq, 1, WEIR__ENTER_ALL, at(), &receipt, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(weir__local_exit(l, &second, WEIR_SUCCESS, at()), 0);
    define(l, &limit, "concurrency 4 lease=1m fallback=allow");
    assert_int_equal(weir__local_decide(l, &limit, &rq, 1, WEIR__ENTER, at(), &receipt, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(second.n, 0); /* no node counts it */
    weir__local_close(l);
}

static void a_reservation_made_here_is_cancelled_here(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit = limit_of(l, "pacer 2/s");
    struct weir_request rq = ask_for("k", 1);
    struct weir_reservation r;
    struct weir__receipt receipt = {.reservation = &r};
    struct weir_verdict v;
    int64_t back = -1;

    (void)state;
    assert_true(take(l, limit, "k", 1).allowed);
    rq.patience_ns = WEIR_FOREVER;
    assert_int_equal(weir__local_decide(l, &limit, &rq, 1, WEIR__TAKE_ALL, at(), &receipt, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(v.wait_ns, S);
    assert_int_equal(weir__local_cancel(l, &r, at(), &back), 0);
    assert_int_equal(back, 1);
    assert_int_equal(drain_backlog(l, limit, "k", NULL), 1); /* nor is it owed */
    assert_int_equal(take(l, limit, "k", 1).wait_ns, S);     /* its turn is the next one's */
    define(l, &limit, "pacer 2/s fallback=deny");
    assert_int_equal(weir__local_decide(l, &limit, &rq, 1, WEIR__TAKE_ALL, at(), &receipt, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(r.n, 0);
    weir__local_close(l);
}

/* ---- Changes ------------------------------------------------------------------------------- */

static void many_terms_are_reserved_too(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit =
        limit_of(l, "10/s + 20/s + 30/s + 40/s + 50/s + 60/s + 70/s + 80/s + 90/s");
    const struct weir_request rq = ask_for("k", 1);
    struct weir_reservation r;
    struct weir__receipt receipt = {.reservation = &r};
    struct weir_verdict v;
    int64_t back;

    (void)state;
    for (int i = 0; i < 6; i++)
        assert_int_equal(weir__local_decide(l, &limit, &rq, 1, WEIR__TAKE_ALL, at(), &receipt, &v),
                         0);
    assert_false(v.allowed);
    assert_int_equal(v.which, 0); /* the request */
    assert_int_equal(drain_backlog(l, limit, "k", NULL), 5);
    assert_int_equal(weir__local_cancel(l, &r, at(), &back), 0);
    assert_int_equal(back, 0);
    weir__local_close(l);
}

static void another_number_of_nodes_is_a_live_change(void **state)
{
    struct weir__local *l = open_node(1);
    struct weir__local_limit *bucket = limit_of(l, "token-bucket 10/s burst=10");
    struct weir__local_limit *window = limit_of(l, "fixed-window 10/m");

    (void)state;
    assert_true(take(l, bucket, "k", 3).allowed);
    assert_true(take(l, window, "k", 3).allowed);
    weir__local_nodes(l, 2);
    assert_int_equal(weir__local_nodes_now(l), 2);
    assert_int_equal(left(l, bucket, "k"), 2); /* 3 of 5 are used */
    assert_int_equal(left(l, window, "k"), 2);
    assert_int_equal(left(l, bucket, "new"), 5);
    clock_ns += S / 5; /* at half the rate, one comes back */
    assert_int_equal(left(l, bucket, "k"), 3);
    assert_int_equal(drain_backlog(l, bucket, "k", NULL), 2);
    assert_int_equal(drain_backlog(l, window, "k", NULL), 3);
    weir__local_nodes(l, 0); /* there is always oneself */
    assert_int_equal(weir__local_nodes_now(l), 1);
    assert_int_equal(left(l, window, "k"), 7);
    weir__local_close(l);
}

static void another_limit_is_a_live_change_too(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit = limit_of(l, "fixed-window 10/m fallback=deny"), *same = limit;

    (void)state;
    assert_false(take(l, limit, "k", 1).allowed);
    define(l, &limit, "fixed-window 10/m");
    assert_ptr_equal(limit, same);
    assert_true(take(l, limit, "k", 3).allowed);
    define(l, &limit, "fixed-window 20/m");
    assert_int_equal(left(l, limit, "k"), 7);
    define(l, &limit, "fixed-window 20/m fallback=allow");
    assert_true(take(l, limit, "k", 1000).allowed);
    define(l, &limit, "100/s fallback=allow + fixed-window 20/m");
    assert_int_equal(take(l, limit, "k", 8).which, 1);
    assert_int_equal(left(l, limit, "k"), 7);
    weir__local_close(l);
}

static void an_override_has_a_share_too(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *limit = limit_of(l, "token-bucket 10/s burst=10");
    const struct weir_limit own = parse("token-bucket 100/s burst=100 fallback=deny");
    const struct weir_limit less = parse("token-bucket 4/s burst=4");

    (void)state;
    assert_int_equal(weir__local_override(l, limit, "vip", 3, false, &own), 0);
    assert_int_equal(left(l, limit, "vip"), 50); /* it falls back as the policy does */
    assert_int_equal(left(l, limit, "k"), 5);
    assert_true(take(l, limit, "vip", 30).allowed);
    weir__local_nodes(l, 4);
    assert_int_equal(decide(l, limit, "vip", 0, WEIR__PEEK).limit, 25);
    assert_int_equal(left(l, limit, "vip"), 0);
    assert_int_equal(drain_backlog(l, limit, "vip", NULL), 30);
    assert_int_equal(weir__local_override(l, limit, "vip", 3, false, &less), 0);
    assert_int_equal(decide(l, limit, "vip", 0, WEIR__PEEK).limit, 1);
    define(l, &limit, "token-bucket 20/s burst=20");
    assert_int_equal(decide(l, limit, "vip", 0, WEIR__PEEK).limit, 1);
    define(l, &limit, "fixed-window 20/s"); /* of another shape: it is out of force */
    assert_int_equal(decide(l, limit, "vip", 0, WEIR__PEEK).limit, 5);
    define(l, &limit, "token-bucket 20/s burst=20");
    assert_int_equal(decide(l, limit, "vip", 0, WEIR__PEEK).limit, 1);
    assert_int_equal(weir__local_override(l, limit, "vip", 3, false, NULL), 0);
    assert_int_equal(decide(l, limit, "vip", 0, WEIR__PEEK).limit, 5);
    assert_int_equal(weir__local_override(l, limit, "none", 4, false, NULL), 0);
    define(l, &limit, "token-bucket 20/s fallback=allow"); /* and without a share */
    assert_int_equal(weir__local_override(l, limit, "vip", 3, false, &less), 0);
    assert_true(take(l, limit, "vip", 100).allowed);
    weir__local_close(l);
}

static struct weir__local_limit *unlisted_of(struct weir__local *l, const char *scope,
                                             const char *text)
{
    const struct weir_limit whole = parse(text);
    struct weir__local_limit *limit = NULL;

    assert_int_equal(weir__local_define(l, &limit, weir__slice_of(scope), &whole, true, NULL), 0);
    return limit;
}

static void limits_that_no_store_lists_share_the_keys_of_their_scope(void **state)
{
    struct weir__local *l = open_node(2);
    struct weir__local_limit *one = unlisted_of(l, "w", "sliding-counter 10/m");
    struct weir__local_limit *other = unlisted_of(l, "w", "sliding-counter 10/m");
    struct weir__local_limit *third = unlisted_of(l, "v", "sliding-counter 10/m");

    (void)state;
    assert_true(take(l, one, "k", 3).allowed);
    assert_int_equal(left(l, other, "k"), 2);
    assert_int_equal(left(l, third, "k"), 5);
    weir__local_forget(l, one); /* a handle, and not the keys */
    assert_int_equal(left(l, other, "k"), 2);
    assert_int_equal(drain_backlog(l, other, "k", NULL), 3);
    for (int64_t nodes = 1; nodes < 6; nodes++)
        weir__local_nodes(l, nodes);
    weir__local_nodes(l, 2);
    assert_int_equal(left(l, other, "k"), 2);
    weir__local_close(l);
}

static void buckets_of_many_rates_may_share_a_scope(void **state)
{
    struct weir__local *l = open_node(1);
    struct weir__local_limit *slow = unlisted_of(l, "t", "token-bucket 10/s burst=10");
    struct weir__local_limit *fast = unlisted_of(l, "t", "token-bucket 20/s burst=20");

    (void)state;
    assert_true(take(l, slow, "k", 4).allowed);
    assert_int_equal(left(l, fast, "k"), 16);
    weir__local_nodes(l, 2); /* at half the rate the four are still four */
    assert_int_equal(left(l, slow, "k"), 1);
    assert_int_equal(left(l, fast, "k"), 6);
    assert_int_equal(drain_backlog(l, slow, "k", NULL), 4);
    weir__local_close(l);
}

/* ---- Many at once -------------------------------------------------------------------------- */

struct share_crowd {
    struct weir__local *l;
    struct weir__local_limit *limit[2];
    _Atomic bool stop;
    _Atomic int64_t granted, decided;
};

static void *take_often(void *arg)
{
    struct share_crowd *c = arg;

    for (int i = 0; !atomic_load(&c->stop) || i < 1000; i++) {
        const struct weir_request rq = ask_for("k", 1);
        int64_t back[WEIR_TERMS_MAX];
        struct weir_verdict v;

        assert_int_equal(
            weir__local_decide(c->l, &c->limit[i % 2], &rq, 1, WEIR__TAKE, at(), NULL, &v), 0);
        if (i % 7 == 0) {
            weir__rcu_enter(); /* as the writer of a request does */
            (void)weir__local_backlog_drain(c->l, c->limit[i % 2], &rq, at(), back);
            weir__local_backlog_restore(c->l, c->limit[i % 2], &rq, at(), back);
            weir__rcu_exit();
        }
    }
    return NULL;
}

static void limits_may_change_while_threads_decide(void **state)
{
    static const char *const TEXTS[] = {"1000/s", "1000/s fallback=deny", "1000/s fallback=allow",
                                        "500/s + fixed-window 1000/m"};
    struct share_crowd c = {.l = open_node(2)};
    const struct weir_limit own = parse("2000/s");
    pthread_t thread[3];

    (void)state;
    c.limit[0] = limit_of(c.l, "1000/s");
    c.limit[1] = unlisted_of(c.l, "u", "1000/s");
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_often, &c), 0);
    for (int i = 0; i < 40; i++) {
        weir__local_nodes(c.l, 1 + i % 5);
        define(c.l, &c.limit[0], TEXTS[i % 4]);
        assert_int_equal(weir__local_override(c.l, c.limit[0], "k", 1, false, i % 3 ? &own : NULL),
                         0);
    }
    atomic_store(&c.stop, true);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    weir__local_close(c.l);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_node_grants_its_share),
    cmocka_unit_test(a_limit_that_denies_refuses_and_one_that_allows_counts_nothing),
    cmocka_unit_test(terms_that_allow_are_left_out_and_the_others_keep_their_numbers),
    cmocka_unit_test(several_requests_are_all_or_nothing),
    cmocka_unit_test(peeks_are_not_counted_and_charge_nothing),
    cmocka_unit_test(keys_of_two_limits_are_two),
    cmocka_unit_test(a_reset_forgets_what_was_granted_and_what_is_owed),
    cmocka_unit_test(the_keys_it_holds_are_counted),
    cmocka_unit_test(a_local_entry_is_left_locally),
    cmocka_unit_test(a_reservation_made_here_is_cancelled_here),
    cmocka_unit_test(many_terms_are_reserved_too),
    cmocka_unit_test(another_number_of_nodes_is_a_live_change),
    cmocka_unit_test(another_limit_is_a_live_change_too),
    cmocka_unit_test(an_override_has_a_share_too),
    cmocka_unit_test(limits_that_no_store_lists_share_the_keys_of_their_scope),
    cmocka_unit_test(buckets_of_many_rates_may_share_a_scope),
    cmocka_unit_test(limits_may_change_while_threads_decide),
};

RUN("redis local", TESTS)
