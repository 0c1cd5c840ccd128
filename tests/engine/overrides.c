/* Keys that a policy treats otherwise: allowed, denied, with a limit of their own. */
#include "engine_test.h"

#include <stdlib.h>

static struct weir_bytes bytes(const char *text)
{
    return (struct weir_bytes){text, strlen(text)};
}

static void list(struct weir *w, struct weir_policy *p, enum weir_list which, const char *a,
                 const char *b)
{
    const struct weir_bytes keys[] = {bytes(a ? a : ""), bytes(b ? b : "")};

    assert_int_equal(weir_list_set(w, p, which, keys, a ? b ? 2 : 1 : 0), 0);
}

static void set_override(struct weir *w, struct weir_policy *p, const char *key, const char *limit,
                         int64_t now_ns)
{
    struct weir_diag why = {0, ""};
    const int error = weir_override_set_at(w, p, key, strlen(key), limit, now_ns, &why);

    if (error)
        print_message("%s\n", why.text);
    assert_int_equal(error, 0);
}

static struct weir_verdict enter(struct weir *w, struct weir_policy *p, const char *key,
                                 struct weir_ticket *t)
{
    const struct weir_request rq = request_for(p, key, 1, 0);
    struct weir_verdict v;

    assert_int_equal(weir_enter_at(w, &rq, T0, t, &v), 0);
    return v;
}

/* ---- Lists --------------------------------------------------------------------------------- */

static void denied_keys_are_refused_by_every_verb(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0),
                       *q = backend_policy(w, "q", "10/s", T0);
    const struct weir_request rq[] = {request_for(q, "good", 1, 0), request_for(p, "bad", 1, 0)};
    struct weir_reservation r;
    struct weir_ticket t;
    struct weir_verdict v[2];

    (void)state;
    list(w, p, WEIR_LIST_DENY, "bad", "worse");
    v[0] = take(w, p, "bad", 1, T0);
    assert_false(v[0].allowed);
    assert_int_equal(v[0].reason, WEIR_LISTED);
    assert_int_equal(v[0].which, -1);
    assert_int_equal(v[0].retry_after_ns, -1);
    assert_int_equal(v[0].remaining, 0);
    assert_int_equal(weir_peek_at(w, &rq[1], T0, v), 0);
    assert_int_equal(v[0].reason, WEIR_LISTED);
    assert_int_equal(weir_take_many_at(w, rq, 2, T0, v), 0);
    assert_true(v[0].allowed);
    assert_int_equal(v[1].reason, WEIR_LISTED);
    assert_int_equal(weir_take_all_at(w, rq, 2, T0, v), 0);
    assert_int_equal(v[0].reason, WEIR_LISTED);
    assert_int_equal(v[0].which, 1);
    assert_int_equal(look(w, q, "good", T0).remaining, 9); /* only the batch has taken one */
    assert_int_equal(weir_reserve_at(w, &rq[1], 1, T0, &r, v), 0);
    assert_int_equal(r.n, 0);
    assert_int_equal(weir_wait_at(w, &rq[1], T0, T0 + HOUR, v), 0);
    assert_int_equal(v[0].reason, WEIR_LISTED);
    assert_int_equal(enter(w, p, "worse", &t).reason, WEIR_LISTED);
    assert_true(take(w, p, "good", 1, T0).allowed);
    assert_true(take(w, q, "bad", 1, T0).allowed);
    list(w, p, WEIR_LIST_DENY, NULL, NULL);
    assert_int_equal(take(w, p, "bad", 1, T0).remaining, 9);
    backend_close(w);
}

static void allowed_keys_pass_all_but_the_system(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p =
        backend_policy(w, "p", "token-bucket 1/h burst=1 + concurrency 1 + system cpu=50%", T0);
    struct weir_ticket t;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_signals_set(w, &(struct weir_signals){0, 0, 0, 0}), 0);
    list(w, p, WEIR_LIST_ALLOW, "vip", NULL);
    for (int i = 0; i < 5; i++)
        assert_true(enter(w, p, "vip", &t).allowed);
    assert_int_equal(t.n, 1); /* the system's */
    assert_true(enter(w, p, "k", &t).allowed);
    assert_false(enter(w, p, "k", &t).allowed);
    assert_int_equal(weir_signals_set(w, &(struct weir_signals){900, 0, 0, 0}), 0);
    v = enter(w, p, "vip", &t);
    assert_int_equal(v.reason, WEIR_OVERLOAD);
    assert_int_equal(v.which, 2);
    backend_close(w);
}

static void allowed_keys_are_not_counted(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/h burst=2", T0);
    struct weir_verdict v;

    (void)state;
    list(w, p, WEIR_LIST_ALLOW, "vip", NULL);
    for (int i = 0; i < 10; i++) {
        v = take(w, p, "vip", 1, T0);
        assert_true(v.allowed);
        assert_int_equal(v.reason, WEIR_OK);
        assert_int_equal(v.remaining, 2);
    }
    list(w, p, WEIR_LIST_DENY, "vip", NULL); /* a key on both lists is denied */
    assert_int_equal(take(w, p, "vip", 1, T0).reason, WEIR_LISTED);
    list(w, p, WEIR_LIST_DENY, NULL, NULL);
    list(w, p, WEIR_LIST_ALLOW, NULL, NULL);
    assert_int_equal(take(w, p, "vip", 1, T0).remaining, 1);
    backend_close(w);
}

static void lists_stay_when_the_limit_changes(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);

    (void)state;
    list(w, p, WEIR_LIST_DENY, "bad", NULL);
    (void)backend_policy(w, "p", "20/s", T0);
    assert_int_equal(take(w, p, "bad", 1, T0).reason, WEIR_LISTED);
    (void)backend_policy(w, "p", "sliding-log 20/s", T0);
    assert_int_equal(take(w, p, "bad", 1, T0).reason, WEIR_LISTED);
    weir_policy_forget(w, p);
    p = backend_policy(w, "p", "10/s", T0); /* another policy, without lists */
    assert_true(take(w, p, "bad", 1, T0).allowed);
    backend_close(w);
}

static void long_lists_have_all_their_keys_and_no_others(void **state)
{
    enum { KEYS = 30000 };
    static char text[KEYS][8];
    static struct weir_bytes keys[KEYS];
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);

    (void)state;
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(text[i], sizeof text[i], "k%d", i);
        keys[i] = bytes(text[i]);
    }
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, keys, KEYS / 2), 0);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(look(w, p, text[i], T0).allowed, i >= KEYS / 2);
    backend_close(w);
}

static void lists_are_checked(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);
    struct weir_bytes key = {NULL, 3};

    (void)state;
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, &key, 1), WEIR_EINVAL);
    key = (struct weir_bytes){"k", WEIR_KEY_MAX + 1};
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, &key, 1), WEIR_EINVAL);
    key = bytes("k");
    assert_int_equal(weir_list_set(w, p, (enum weir_list)2, &key, 1), WEIR_EINVAL);
    assert_int_equal(weir_list_set(w, NULL, WEIR_LIST_DENY, &key, 1), WEIR_EINVAL);
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, &key, WEIR_LIST_MOST + 1), WEIR_EFULL);
    key = bytes("");
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, &key, 1), 0);
    assert_false(take(w, p, "", 1, T0).allowed);
    backend_close(w);
}

/* ---- Limits of keys' own ------------------------------------------------------------------- */

static void a_key_has_ten_times_as_much(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 10/1m", T0);

    (void)state;
    assert_int_equal(take(w, p, "acme", 4, T0).remaining, 6);
    set_override(w, p, "acme", "token-bucket 100/1m", T0);
    assert_int_equal(look(w, p, "acme", T0).limit, 100);
    assert_int_equal(look(w, p, "acme", T0).remaining, 96); /* what was used stays used */
    assert_int_equal(take(w, p, "acme", 90, T0).remaining, 6);
    assert_int_equal(take(w, p, "other", 4, T0).remaining, 6);
    assert_int_equal(look(w, p, "acme", T0 + 6 * SECOND).remaining, 16);
    set_override(w, p, "acme", NULL, T0 + 6 * SECOND); /* 84 used: more than the policy's 10 */
    assert_int_equal(look(w, p, "acme", T0 + 6 * SECOND).limit, 10);
    assert_false(take(w, p, "acme", 1, T0 + 6 * SECOND).allowed);
    set_override(w, p, "acme", NULL, T0 + 6 * SECOND); /* there is none to remove */
    backend_close(w);
}

/* Of every algorithm: a use under one limit is still there under the other, and back. */
static void a_state_survives_a_change_and_its_reversal(void **state)
{
    static const struct {
        const char *base, *own;
    } ROWS[] = {
        {"fixed-window 10/1m", "fixed-window 100/1m"},
        {"fixed-window 10/day tz=Europe/Berlin", "fixed-window 100/day tz=Europe/Berlin"},
        {"sliding-window 10/1m", "sliding-window 100/1m"},
        {"sliding-counter 10/1m", "sliding-counter 100/1m"},
        {"token-bucket 10/1m", "token-bucket 100/1m"},
        {"leaky-bucket 10/1m", "leaky-bucket 100/1m"},
        {"10/1m + fixed-window 10/1m", "100/1m + fixed-window 100/1m"},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", ROWS[i].base, T0);

        print_message("  %s\n", ROWS[i].base);
        assert_true(take(w, p, "k", 3, T0).allowed);
        for (int turn = 0; turn < 40; turn++) {
            set_override(w, p, "k", turn % 2 ? NULL : ROWS[i].own, T0);
            assert_int_equal(look(w, p, "k", T0).remaining, (turn % 2 ? 10 : 100) - 3);
        }
        backend_close(w);
    }
}

static void a_call_in_flight_stays_in(void **state)
{
    static const char *const LIMITS[] = {"concurrency 2", "concurrency 9"};
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", LIMITS[0], T0);
    struct weir_ticket t[9];

    (void)state;
    assert_true(enter(w, p, "k", &t[0]).allowed);
    assert_true(enter(w, p, "k", &t[1]).allowed);
    set_override(w, p, "k", LIMITS[1], T0);
    for (int i = 2; i < 9; i++)
        assert_true(enter(w, p, "k", &t[i]).allowed);
    set_override(w, p, "k", NULL, T0);
    for (int i = 0; i < 9; i++) {
        struct weir_ticket extra;

        assert_false(enter(w, p, "k", &extra).allowed && i < 7);
        assert_int_equal(weir_exit_at(w, &t[i], WEIR_SUCCESS, T0), 0);
        if (i >= 7)
            assert_int_equal(weir_exit_at(w, &extra, WEIR_SUCCESS, T0), 0);
    }
    assert_int_equal(look(w, p, "k", T0).remaining, 2);
    backend_close(w);
}

static void another_shape_is_refused(void **state)
{
    static const struct {
        const char *base, *own;
        int error;
        const char *says; /* part of the message */
    } ROWS[] = {
        {"10/s", "fixed-window 10/s", WEIR_EINVAL,
         "term 1 of the key's own limit is fixed-window, that of the policy 'p' is token-bucket"},
        {"10/s", "10/s + 10/s", WEIR_EINVAL,
         "the key's own limit has 2 terms and the limit of the policy 'p' has 1"},
        {"10/s + fixed-window 1/h", "fixed-window 1/h + 10/s", WEIR_EINVAL, "in the same order"},
        {"10/s + breaker", "10/s + concurrency 3", WEIR_EINVAL,
         "term 2 of the key's own limit is concurrency, that of the policy 'p' is breaker"},
        {"10/s + sliding-log 10/s", "10/s + sliding-log 100/s", WEIR_EINVAL,
         "term 2: the state of a key takes 816 bytes under its own sliding-log and 96 under that "
         "of the policy"},
        {"sliding-window 10/s slots=10", "sliding-window 10/s slots=5", WEIR_EINVAL, "term 1: "},
        {"concurrency 3", "concurrency 9 lease=1s", WEIR_EINVAL, "under its own concurrency"},
        {"concurrency 3 lease=1s", "concurrency 3 lease=2s", WEIR_EINVAL, "has another lease than"},
        {"fixed-window 3/1m", "fixed-window 3/1h", WEIR_EINVAL,
         "term 1 of the key's own limit has another period than that of the policy 'p'; a key's "
         "own fixed-window may change other numbers only"},
        {"sliding-counter 3/1m", "sliding-counter 3/2m", WEIR_EINVAL, "another period"},
        {"fixed-window 3/day", "fixed-window 3/day tz=Europe/Berlin", WEIR_EINVAL, "another tz"},
        {"smooth-bursty 5/s", "smooth-bursty 5/s max-burst=2s", WEIR_EINVAL, "another max-burst"},
        {"smooth-warmup 2/s warmup=4s", "smooth-warmup 2/s warmup=5s", WEIR_EINVAL,
         "another warmup"},
        {"sliding-log 3/1m", "sliding-log 9/1m", WEIR_EINVAL,
         "must have the same layout: the count of a sliding-log must stay"},
        {"concurrency 3 lease=1s", "concurrency 9 lease=1s", WEIR_EINVAL,
         "must have the same layout"},
        {"system rate=1/h + 10/s", "system rate=9/h + 10/s", WEIR_EINVAL,
         "system has one state for all keys"},
        {"10/s", "10/", WEIR_ESYNTAX, "column 4"},
        {"10/s", "pacer 10/s", WEIR_EINVAL, "is pacer"},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", ROWS[i].base, T0);
        struct weir_diag why = {0, ""};

        print_message("  %s, %s\n", ROWS[i].base, ROWS[i].own);
        assert_int_equal(weir_override_set_at(w, p, "k", 1, ROWS[i].own, T0, &why), ROWS[i].error);
        if (!strstr(why.text, ROWS[i].says))
            fail_msg("expected '%s' in '%s'", ROWS[i].says, why.text);
        assert_int_equal(look(w, p, "k", T0).limit, look(w, p, "other", T0).limit);
        backend_close(w);
    }
}

/* A call that was in flight when the key got its first override leaves by that one. */
static void a_call_from_before_leaves_by_the_new_limit(void **state)
{
    static const char *const LIMITS[][2] = {
        {"concurrency 2 lease=1m", "concurrency 2 lease=1m queue=3"},
        {"concurrency 2 lease=1m + fixed-window 9/s", "concurrency 2 lease=1m + fixed-window 99/s"},
        {"breaker errors=10% volume=1", "breaker errors=90% volume=100"},
        {"token-bucket 10/s + breaker count=1", "token-bucket 99/s + breaker count=9"},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i][0], T0);
        struct weir_ticket first, other, second;
        const struct weir_request rq = request_for(p, "k", 1, 0);
        struct weir_view view;

        print_message("  %s\n", LIMITS[i][0]);
        assert_true(enter(w, p, "k", &first).allowed);
        assert_true(enter(w, p, "other", &other).allowed);
        for (int k = 0; k < 50; k++) {
            char key[8];

            (void)snprintf(key, sizeof key, "%d", k);
            set_override(w, p, key, LIMITS[i][1], T0);
        }
        set_override(w, p, "k", LIMITS[i][1], T0);
        assert_true(enter(w, p, "k", &second).allowed);
        assert_int_equal(weir_exit_at(w, &first, WEIR_ERROR, T0 + 5 * SECOND), 0);
        assert_int_equal(weir_exit_at(w, &other, WEIR_ERROR, T0 + 5 * SECOND), 0);
        assert_int_equal(weir_guard_view_at(w, &rq, i % 2 && i > 1, T0 + 5 * SECOND, &view), 0);
        assert_int_equal(view.state, WEIR_CLOSED);
        assert_int_equal(view.in_flight, i < 2 ? 1 : -1);
        backend_close(w);
    }
}

static void the_gate_of_all_is_the_policys(void **state)
{
    static const char *const OWN = "system inflight=3 rate=10/h + concurrency 9";
    struct weir *w = backend_open(NULL);
    struct weir_policy *p =
        backend_policy(w, "p", "system inflight=3 rate=10/h + concurrency 1", T0);
    struct weir_ticket t[5];

    (void)state;
    assert_true(enter(w, p, "a", &t[0]).allowed);
    set_override(w, p, "acme", OWN, T0);
    assert_true(enter(w, p, "acme", &t[1]).allowed);
    assert_true(enter(w, p, "acme", &t[2]).allowed);
    assert_int_equal(enter(w, p, "acme", &t[3]).which, 0); /* three are inside */
    (void)backend_policy(w, "p", "system inflight=4 rate=5/h + concurrency 1", T0);
    assert_true(enter(w, p, "acme", &t[3]).allowed); /* its own is still in force */
    assert_int_equal(enter(w, p, "b", &t[4]).which, 0);
    set_override(w, p, "acme", NULL, T0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(weir_exit_at(w, &t[i], WEIR_SUCCESS, T0), 0);
    assert_true(enter(w, p, "b", &t[4]).allowed); /* the fifth of the hour, and the last */
    assert_int_equal(enter(w, p, "a", &t[3]).which, 0);
    backend_close(w);
}

static void the_policys_own_change_leaves_them_alone(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/1m", T0);

    (void)state;
    set_override(w, p, "k", "100/1m", T0);
    assert_int_equal(take(w, p, "k", 30, T0).remaining, 70);
    for (int i = 0; i < 20; i++) {
        (void)backend_policy(w, "p", i % 2 ? "10/1m" : "20/1m", T0);
        assert_int_equal(look(w, p, "k", T0).remaining, 70);
        assert_int_equal(look(w, p, "k", T0).limit, 100);
        assert_int_equal(look(w, p, "x", T0).limit, i % 2 ? 10 : 20);
    }
    (void)backend_policy(w, "p", "fixed-window 5/1m", T0); /* out of force */
    assert_int_equal(look(w, p, "k", T0).limit, 5);
    (void)backend_policy(w, "p", "10/1m", T0); /* and back; the keys started fresh */
    assert_int_equal(look(w, p, "k", T0).limit, 100);
    assert_int_equal(look(w, p, "k", T0).remaining, 100);
    backend_close(w);
}

static void a_reservation_is_given_back_as_it_was_taken(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=10", T0);
    const struct weir_request rq = request_for(p, "k", 10, WEIR_FOREVER);
    struct weir_reservation r[2];
    struct weir_verdict v;
    int64_t back;

    (void)state;
    set_override(w, p, "k", "token-bucket 10/s burst=10", T0);
    assert_int_equal(weir_reserve_at(w, &rq, 1, T0, &r[0], &v), 0);
    assert_int_equal(v.wait_ns, 0);
    assert_int_equal(weir_reserve_at(w, &rq, 1, T0, &r[1], &v), 0);
    assert_int_equal(v.wait_ns, SECOND);
    assert_int_equal(weir_cancel_at(w, &r[1], T0, &back), 0);
    assert_int_equal(back, 10);
    assert_int_equal(look(w, p, "k", T0).reset_after_ns, SECOND);
    assert_int_equal(refund(w, p, "k", 5, T0), 5);
    assert_int_equal(look(w, p, "k", T0).remaining, 5);
    backend_close(w);
}

/* All at once, as a file of them is read: all or none. */
static void the_number_of_overrides_is_bounded(void **state)
{
    static char text[WEIR_OVERRIDES_MOST + 1][8];
    static struct weir_override all[WEIR_OVERRIDES_MOST + 1];
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "10/s", T0);
    struct weir_overrides_stats stats;
    struct weir_diag why;
    size_t which;

    (void)state;
    for (int i = 0; i <= WEIR_OVERRIDES_MOST; i++) {
        (void)snprintf(text[i], sizeof text[i], "k%d", i);
        all[i] = (struct weir_override){text[i], strlen(text[i]), 0, "100/s"};
    }
    assert_int_equal(weir_overrides_set_at(w, p, all, WEIR_OVERRIDES_MOST + 1, 1, T0, NULL, &why),
                     WEIR_EFULL);
    assert_int_equal(weir_overrides_set_at(w, p, all, WEIR_OVERRIDES_MOST, 0, T0, &which, &why), 0);
    assert_int_equal(which, WEIR_OVERRIDES_MOST);
    assert_int_equal(weir_override_set_at(w, p, "more", 4, "100/s", T0, &why), WEIR_EFULL);
    assert_string_equal(why.text, "limit reached: the policy 'p' has 250000 overrides");
    set_override(w, p, "k7", "200/s", T0); /* an existing one may change */
    assert_int_equal(look(w, p, "k7", T0).limit, 200);
    set_override(w, p, "k8", NULL, T0);
    set_override(w, p, "more", "100/s", T0);
    assert_int_equal(look(w, p, "more", T0).limit, 100);
    assert_int_equal(look(w, p, "k8", T0).limit, 10);
    assert_int_equal(look(w, p, "k249999", T0).limit, 100);
    assert_int_equal(weir_overrides_set_at(w, p, all, 3, 1, T0, NULL, &why), 0); /* the others go */
    weir_overrides_stats(w, p, &stats);
    assert_int_equal(stats.overrides, 3);
    assert_int_equal(look(w, p, "k249999", T0).limit, 10);
    assert_int_equal(look(w, p, "k2", T0).limit, 100);
    backend_close(w);
}

static void each_key_waits_in_its_own_queue(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1", T0);
    const struct weir_request rq = request_for(p, "k", 1, WEIR_WAIT_DEFAULT);
    struct weir_ticket t;
    struct weir_verdict v;

    (void)state;
    set_override(w, p, "k", "concurrency 1 queue=2 max-wait=1ms", T0);
    assert_true(enter(w, p, "k", &t).allowed);
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0); /* it waits, in real time, and in vain */
    assert_int_equal(v.reason, WEIR_LIMITED);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(denied_keys_are_refused_by_every_verb),
    cmocka_unit_test(allowed_keys_pass_all_but_the_system),
    cmocka_unit_test(allowed_keys_are_not_counted),
    cmocka_unit_test(lists_stay_when_the_limit_changes),
    cmocka_unit_test(long_lists_have_all_their_keys_and_no_others),
    cmocka_unit_test(lists_are_checked),
    cmocka_unit_test(a_key_has_ten_times_as_much),
    cmocka_unit_test(a_state_survives_a_change_and_its_reversal),
    cmocka_unit_test(a_call_in_flight_stays_in),
    cmocka_unit_test(another_shape_is_refused),
    cmocka_unit_test(a_call_from_before_leaves_by_the_new_limit),
    cmocka_unit_test(the_gate_of_all_is_the_policys),
    cmocka_unit_test(the_policys_own_change_leaves_them_alone),
    cmocka_unit_test(a_reservation_is_given_back_as_it_was_taken),
    cmocka_unit_test(the_number_of_overrides_is_bounded),
    cmocka_unit_test(each_key_waits_in_its_own_queue),
};

RUN_BACKEND("lists", TESTS)
