/* Waiters without threads of their own: requests that are decided now, or later in their turn, at
 * times that the test gives. */
#include "guard_test.h"

#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "listed.h"

#define WAITERS 6
#define CROWD   (UNDER_TSAN || UNDER_ASAN ? 2000 : 10000)

struct caller {
    struct weir__waiter waiter; /* first */
    struct weir_ticket ticket;
    struct weir_reservation reservation;
    int wakes;
};

static void count_wake(struct weir__waiter *me)
{
    ((struct caller *)me)->wakes++;
}

static void prepare(struct caller *c, enum weir__wait_verb verb)
{
    memset(c, 0, sizeof *c);
    c->waiter.wake = count_wake;
    c->waiter.reservation = &c->reservation;
    c->waiter.ticket = verb == WEIR__WAIT_ENTER ? &c->ticket : NULL;
}

/* True: it is decided. */
static bool begin(struct caller *c, struct weir *w, const struct weir_request *rq,
                  enum weir__wait_verb verb, int64_t now_ns)
{
    prepare(c, verb);
    assert_int_equal(weir__wait_begin(w, &c->waiter, rq, verb, weir__now_at(now_ns)), 0);
    return c->waiter.decided;
}

static bool begin_take(struct caller *c, struct weir *w, struct weir_policy *p, const char *key,
                       int64_t patience_ns, int64_t now_ns)
{
    const struct weir_request rq = request_for(p, key, 1, patience_ns);

    return begin(c, w, &rq, WEIR__WAIT_TAKE, now_ns);
}

static bool begin_enter(struct caller *c, struct weir *w, struct weir_policy *p, const char *key,
                        int64_t patience_ns, int64_t now_ns)
{
    const struct weir_request rq = request_for(p, key, 1, patience_ns);

    return begin(c, w, &rq, WEIR__WAIT_ENTER, now_ns);
}

static bool step(struct caller *c, int64_t now_ns)
{
    c->wakes = 0;
    assert_int_equal(weir__wait_step(&c->waiter, weir__now_at(now_ns)), 0);
    return c->waiter.decided;
}

static void give_up(struct caller *c, int64_t now_ns)
{
    weir__wait_cancel(&c->waiter, weir__now_at(now_ns));
}

/* ---- Takes ----------------------------------------------------------------------------------- */

static void a_take_that_may_pass_is_decided_at_once(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1m", T0);
    struct caller c;

    (void)state;
    assert_true(begin_take(&c, w, p, "k", WEIR_FOREVER, T0));
    assert_true(c.waiter.verdict.allowed);
    assert_int_equal(listed(w), 0);
    assert_int_equal(w->taking, 0);
    backend_close(w);
}

static void a_promise_is_kept_at_its_time_and_not_before(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "token-bucket 1/s burst=1", T0);
    struct caller c;

    (void)state;
    assert_true(take(w, p, "k", 1, T0).allowed);
    assert_false(begin_take(&c, w, p, "k", WEIR_FOREVER, T0));
    assert_true(c.waiter.granted);
    assert_int_equal(c.waiter.due_ns, T0 + SECOND);
    assert_int_equal(listed(w), 0); /* a waiter that has a grant delays no other */
    assert_false(step(&c, T0 + SECOND - 1));
    assert_true(step(&c, T0 + SECOND));
    assert_true(c.waiter.verdict.allowed);
    assert_int_equal(c.waiter.verdict.wait_ns, 0);
    backend_close(w);
}

static void a_promise_that_is_not_used_is_given_back(void **state)
{
    static const char *const LIMITS[] = {"token-bucket 1/s burst=1", "pacer 1/s",
                                         "pacer 1/s + fixed-window 5/day"};

    (void)state;
    for (size_t i = 0; i < LENGTH(LIMITS); i++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", LIMITS[i], T0);
        struct weir_verdict before, after;
        struct caller c;

        print_message("  %s\n", LIMITS[i]);
        assert_true(take(w, p, "k", 1, T0).allowed);
        before = look(w, p, "k", T0);
        assert_false(begin_take(&c, w, p, "k", WEIR_FOREVER, T0));
        give_up(&c, T0);
        after = look(w, p, "k", T0);
        same_verdict(&before, &after);
        backend_close(w);
    }
}

static void takes_of_one_key_are_served_in_the_order_they_came(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1m", T0);
    struct caller c[WAITERS], other;

    (void)state;
    assert_true(take(w, p, "k", 1, T0).allowed);
    for (int i = 0; i < WAITERS; i++)
        assert_false(begin_take(&c[i], w, p, "k", WEIR_FOREVER, T0));
    assert_true(begin_take(&other, w, p, "other", WEIR_FOREVER, T0));
    assert_int_equal(listed(w), WAITERS);
    for (int i = 0; i < WAITERS; i++) {
        const int64_t now_ns = T0 + (i + 1) * MINUTE;

        assert_int_equal(c[i].waiter.due_ns, now_ns);
        for (int k = WAITERS - 1; k > i; k--) { /* though they ask first */
            assert_false(step(&c[k], now_ns));
            assert_int_equal(c[k].waiter.due_ns, INT64_MAX);
        }
        assert_false(step(&c[i], now_ns - 1));
        assert_true(step(&c[i], now_ns));
        assert_true(c[i].waiter.verdict.allowed);
        if (i + 1 < WAITERS) {
            assert_int_equal(c[i + 1].wakes, 1);
            assert_false(step(&c[i + 1], now_ns));
        }
    }
    assert_int_equal(listed(w), 0);
    assert_int_equal(w->taking, 0);
    backend_close(w);
}

static void a_new_caller_does_not_overtake_waiters(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 3/1m", T0);
    const struct weir_request large = request_for(p, "k", 3, WEIR_FOREVER);
    struct caller first, second;

    (void)state;
    assert_true(take(w, p, "k", 2, T0).allowed);
    assert_false(begin(&first, w, &large, WEIR__WAIT_TAKE, T0));
    assert_false(begin_take(&second, w, p, "k", WEIR_FOREVER, T0)); /* though it would fit */
    assert_false(step(&second, T0 + SECOND));
    assert_true(step(&first, T0 + MINUTE));
    assert_false(step(&second, T0 + MINUTE));
    assert_true(step(&second, T0 + 2 * MINUTE));
    backend_close(w);
}

static void what_is_hopeless_is_refused_at_once_behind_others_too(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1m", T0);
    const struct weir_request large = request_for(p, "k", 2, WEIR_FOREVER);
    struct caller first, c;

    (void)state;
    assert_true(take(w, p, "k", 1, T0).allowed);
    assert_true(begin_take(&c, w, p, "k", MINUTE - 1, T0));
    assert_false(c.waiter.verdict.allowed);
    assert_false(begin_take(&first, w, p, "k", MINUTE, T0));
    assert_true(begin_take(&c, w, p, "k", MINUTE - 1, T0));
    assert_false(c.waiter.verdict.allowed);
    assert_true(begin(&c, w, &large, WEIR__WAIT_TAKE, T0));
    assert_int_equal(c.waiter.verdict.reason, WEIR_TOO_BIG);
    assert_int_equal(listed(w), 1);
    assert_true(step(&first, T0 + MINUTE));
    backend_close(w);
}

/* The second finds the window full when the first was served: it asks for the last time at its
 * deadline, to the nanosecond. */
static void a_take_is_refused_at_its_deadline_and_not_before(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1m", T0);
    struct caller first, second, third;

    (void)state;
    assert_true(take(w, p, "k", 1, T0).allowed);
    assert_false(begin_take(&first, w, p, "k", 10 * MINUTE, T0));
    assert_false(begin_take(&second, w, p, "k", MINUTE + SECOND, T0));
    assert_int_equal(second.waiter.due_ns, T0 + MINUTE + SECOND);
    assert_false(step(&second, T0 + MINUTE + SECOND - 1));
    /* The first did not come to ask: a waiter that is out of time asks all the same. */
    assert_true(step(&second, T0 + MINUTE + SECOND));
    assert_true(second.waiter.verdict.allowed);
    /* The window of that grant began with it. */
    assert_false(begin_take(&third, w, p, "k", 90 * SECOND, T0 + MINUTE + SECOND));
    assert_int_equal(third.waiter.due_ns, T0 + 2 * MINUTE + 31 * SECOND);
    assert_false(step(&first, T0 + 2 * MINUTE));
    assert_int_equal(first.waiter.due_ns, T0 + 2 * MINUTE + SECOND);
    assert_true(step(&first, T0 + 2 * MINUTE + SECOND));
    assert_int_equal(third.wakes, 1);
    assert_true(step(&third, T0 + 2 * MINUTE + SECOND)); /* hopeless from now on */
    assert_false(third.waiter.verdict.allowed);
    assert_int_equal(listed(w), 0);
    backend_close(w);
}

static void a_waiter_that_leaves_keeps_the_others_in_order(void **state)
{
    static const int LEAVERS[][2] = {{0, 1}, {1, 2}, {2, 3}, {0, 3}};

    (void)state;
    for (size_t row = 0; row < LENGTH(LEAVERS); row++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1m", T0);
        struct caller c[4];
        int64_t now_ns = T0;

        assert_true(take(w, p, "k", 1, T0).allowed);
        for (int i = 0; i < 4; i++)
            assert_false(begin_take(&c[i], w, p, "k", WEIR_FOREVER, T0));
        give_up(&c[LEAVERS[row][1]], T0);
        give_up(&c[LEAVERS[row][0]], T0);
        assert_int_equal(listed(w), 2);
        for (int i = 0; i < 4; i++) {
            if (i == LEAVERS[row][0] || i == LEAVERS[row][1])
                continue;
            (void)step(&c[i], now_ns); /* it may be the first now */
            now_ns += MINUTE;
            assert_true(step(&c[i], now_ns));
            assert_true(c[i].waiter.verdict.allowed);
        }
        assert_int_equal(w->taking, 0);
        backend_close(w);
    }
}

/* ---- Entries --------------------------------------------------------------------------------- */

static void an_exit_wakes_the_first_and_no_other(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=9 max-wait=1h", T0);
    struct caller c[3];
    struct weir_ticket in;

    (void)state;
    assert_true(enter(w, p, "k", T0, &in).allowed);
    for (int i = 0; i < 3; i++)
        assert_false(begin_enter(&c[i], w, p, "k", WEIR_WAIT_DEFAULT, T0));
    leave(w, &in, WEIR_SUCCESS, T0 + 1);
    assert_int_equal(c[0].wakes, 1);
    assert_int_equal(c[1].wakes, 0);
    assert_false(step(&c[1], T0 + 1)); /* the permit is free, and not for it */
    assert_false(enter(w, p, "k", T0 + 1, &in).allowed);
    assert_true(step(&c[0], T0 + 1));
    assert_true(c[0].waiter.verdict.allowed);
    assert_int_equal(c[1].wakes, 1);
    assert_false(step(&c[1], T0 + 1));
    leave(w, &c[0].ticket, WEIR_SUCCESS, T0 + 2);
    assert_true(step(&c[1], T0 + 2));
    leave(w, &c[1].ticket, WEIR_SUCCESS, T0 + 3);
    assert_true(step(&c[2], T0 + 3));
    leave(w, &c[2].ticket, WEIR_SUCCESS, T0 + 4);
    assert_int_equal(w->entering, 0);
    assert_true(enter(w, p, "k", T0 + 4, &in).allowed);
    backend_close(w);
}

/* The address sanitizer sees whether the exit reads the policy that is not there any more. */
static void an_exit_from_a_forgotten_policy_wakes_none(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *gone = backend_policy(w, "gone", "concurrency 1 queue=1 max-wait=1m", T0);
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=1 max-wait=1m", T0);
    struct weir_ticket inside, mine;
    struct caller c;

    (void)state;
    assert_true(enter(w, gone, "k", T0, &inside).allowed);
    assert_true(enter(w, p, "k", T0, &mine).allowed);
    assert_false(begin_enter(&c, w, p, "k", WEIR_FOREVER, T0));
    weir_policy_forget(w, gone);
    leave(w, &inside, WEIR_SUCCESS, T0);
    assert_int_equal(c.wakes, 0);
    leave(w, &mine, WEIR_SUCCESS, T0);
    assert_int_equal(c.wakes, 1);
    assert_true(step(&c, T0));
    assert_true(c.waiter.verdict.allowed);
    backend_close(w);
}

static void a_queue_has_room_for_so_many(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=2 max-wait=1h", T0);
    struct caller c[3], other;
    struct weir_ticket in;

    (void)state;
    assert_true(enter(w, p, "k", T0, &in).allowed);
    assert_false(begin_enter(&c[0], w, p, "k", WEIR_WAIT_DEFAULT, T0));
    assert_false(begin_enter(&c[1], w, p, "k", WEIR_WAIT_DEFAULT, T0));
    assert_true(begin_enter(&c[2], w, p, "k", WEIR_WAIT_DEFAULT, T0));
    assert_int_equal(c[2].waiter.verdict.reason, WEIR_QUEUE_FULL);
    assert_true(begin_enter(&other, w, p, "other", WEIR_WAIT_DEFAULT, T0));
    assert_true(other.waiter.verdict.allowed);
    give_up(&c[0], T0);
    assert_false(begin_enter(&c[2], w, p, "k", WEIR_WAIT_DEFAULT, T0));
    give_up(&c[1], T0);
    give_up(&c[2], T0);
    assert_int_equal(listed(w), 0);
    assert_int_equal(w->entering, 0);
    backend_close(w);
}

/* A permit is free at the deadline of the second; the first, for which it is, has not come yet. */
static void an_entry_out_of_time_does_not_overtake(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=9 max-wait=1s", T0);
    struct caller first, second;
    struct weir_ticket in;

    (void)state;
    assert_true(enter(w, p, "k", T0, &in).allowed);
    assert_false(begin_enter(&first, w, p, "k", WEIR_WAIT_DEFAULT, T0));
    assert_false(begin_enter(&second, w, p, "k", SECOND / 2, T0));
    assert_int_equal(second.waiter.deadline_ns, T0 + SECOND / 2);
    leave(w, &in, WEIR_SUCCESS, T0 + SECOND / 2);
    assert_true(step(&second, T0 + SECOND / 2));
    assert_false(second.waiter.verdict.allowed);
    assert_int_equal(second.waiter.verdict.reason, WEIR_LIMITED);
    assert_true(step(&first, T0 + SECOND / 2));
    assert_true(first.waiter.verdict.allowed);
    backend_close(w);
}

static void the_first_is_served_at_its_deadline_or_refused(void **state)
{
    (void)state;
    for (int served = 0; served < 2; served++) {
        struct weir *w = open_guarded();
        struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=9 max-wait=1s", T0);
        struct weir_ticket in;
        struct caller c;

        assert_true(enter(w, p, "k", T0, &in).allowed);
        assert_false(begin_enter(&c, w, p, "k", WEIR_WAIT_DEFAULT, T0));
        assert_false(step(&c, T0 + SECOND - 1));
        if (served)
            leave(w, &in, WEIR_SUCCESS, T0 + SECOND);
        assert_true(step(&c, T0 + SECOND));
        assert_int_equal(c.waiter.verdict.allowed, served);
        assert_int_equal(listed(w), 0);
        backend_close(w);
    }
}

static void an_entry_that_gives_up_is_refused(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=9 max-wait=1h", T0);
    struct caller first, second;
    struct weir_ticket in;

    (void)state;
    assert_true(enter(w, p, "k", T0, &in).allowed);
    assert_false(begin_enter(&first, w, p, "k", WEIR_WAIT_DEFAULT, T0));
    assert_false(begin_enter(&second, w, p, "k", WEIR_WAIT_DEFAULT, T0));
    leave(w, &in, WEIR_SUCCESS, T0);
    assert_int_equal(weir__wait_expire(&first.waiter, weir__now_at(T0)), 0);
    assert_true(first.waiter.decided);
    assert_int_equal(first.waiter.verdict.reason, WEIR_LIMITED);
    assert_int_equal(second.wakes, 1);
    assert_true(step(&second, T0));
    assert_true(second.waiter.verdict.allowed);
    backend_close(w);
}

static void the_end_of_a_lease_is_due(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p =
        backend_policy(w, "p", "concurrency 1 queue=9 max-wait=1h lease=10s", T0);
    struct caller first, second;
    struct weir_ticket in;
    int64_t now_ns = T0;

    (void)state;
    assert_true(enter(w, p, "k", T0, &in).allowed);
    assert_false(begin_enter(&first, w, p, "k", WEIR_WAIT_DEFAULT, T0));
    assert_false(begin_enter(&second, w, p, "k", WEIR_WAIT_DEFAULT, T0));
    assert_int_equal(second.waiter.due_ns, T0 + HOUR);
    while (!step(&first, now_ns)) { /* in a file it looks more often */
        assert_true(first.waiter.due_ns > now_ns && first.waiter.due_ns <= T0 + 10 * SECOND);
        now_ns = first.waiter.due_ns;
    }
    assert_int_equal(now_ns, T0 + 10 * SECOND);
    assert_true(first.waiter.verdict.allowed);
    give_up(&second, now_ns);
    backend_close(w);
}

/* What is left of its patience is what the rate beside the permits is asked with. */
static void patience_is_spent_in_the_queue(void **state)
{
    struct weir *w = open_guarded();
    struct weir_policy *p = backend_policy(
        w, "p", "token-bucket 1/10s burst=1 + concurrency 1 queue=9 max-wait=1h", T0);
    struct weir_ticket in;
    struct caller c;

    (void)state;
    assert_true(enter(w, p, "k", T0, &in).allowed);
    assert_false(begin_enter(&c, w, p, "k", 11 * SECOND, T0));
    leave(w, &in, WEIR_SUCCESS, T0 + 2 * SECOND);
    assert_true(step(&c, T0 + 2 * SECOND)); /* 8 s are to wait, 9 s are left */
    assert_true(c.waiter.verdict.allowed);
    assert_int_equal(c.waiter.verdict.wait_ns, 8 * SECOND);
    leave(w, &c.ticket, WEIR_SUCCESS, T0 + 10 * SECOND);
    assert_true(enter(w, p, "k", T0 + 20 * SECOND, &in).allowed);
    assert_false(begin_enter(&c, w, p, "k", 11 * SECOND, T0 + 20 * SECOND));
    assert_int_equal(
        weir_policy_set_at(w, "p", "token-bucket 1/20s burst=1 + concurrency 1 queue=9 max-wait=1h",
                           T0 + 20 * SECOND, NULL, NULL),
        0);
    leave(w, &in, WEIR_SUCCESS, T0 + 22 * SECOND);
    assert_true(step(&c, T0 + 22 * SECOND));
    assert_false(c.waiter.verdict.allowed);
    backend_close(w);
}

/* ---- Wake-ups -------------------------------------------------------------------------------- */

static void what_helps_a_take_wakes_it(void **state)
{
    static const char *const WAYS[] = {"reset", "refund", "set", "override", "allow list", "wake"};

    (void)state;
    for (size_t how = 0; how < LENGTH(WAYS); how++) {
        struct weir *w = backend_open(NULL);
        struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1h", T0);
        const struct weir_request rq = request_for(p, "k", 1, 0);
        struct caller first, second, other;

        print_message("  %s\n", WAYS[how]);
        assert_true(take(w, p, "k", 1, T0).allowed && take(w, p, "other", 1, T0).allowed);
        assert_false(begin_take(&first, w, p, "k", WEIR_FOREVER, T0));
        assert_false(begin_take(&second, w, p, "k", WEIR_FOREVER, T0));
        assert_false(begin_take(&other, w, p, "other", WEIR_FOREVER, T0));
        switch (how) {
        case 0: assert_int_equal(weir_reset_at(w, &rq, T0), 0); break;
        case 1: assert_int_equal(refund(w, p, "k", 1, T0), 1); break;
        case 2:
            assert_int_equal(weir_policy_set_at(w, "p", "fixed-window 2/1h", T0, NULL, NULL), 0);
            break;
        case 3:
            assert_int_equal(weir_override_set(w, p, "k", 1, "fixed-window 2/1h", NULL), 0);
            break;
        case 4:
            assert_int_equal(weir_list_set(w, p, WEIR_LIST_ALLOW, &(struct weir_bytes){"k", 1}, 1),
                             0);
            break;
        case 5: weir__wait_wake_policy(w, p); break;
        }
        assert_int_equal(first.wakes, 1);
        assert_int_equal(second.wakes, 0);
        assert_int_equal(other.wakes, how >= 2);
        assert_int_equal(step(&first, T0), how != 5);
        give_up(&first, T0);
        give_up(&second, T0);
        give_up(&other, T0);
        assert_int_equal(w->taking, 0);
        backend_close(w);
    }
}

static void a_policy_that_another_process_forgets_ends_its_waiters(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1h", T0);
    struct caller c[2];

    (void)state;
    assert_true(take(w, p, "k", 1, T0).allowed);
    for (int i = 0; i < 2; i++)
        assert_false(begin_take(&c[i], w, p, "k", WEIR_FOREVER, T0));
    atomic_store(&p->record->tag, 0); /* as another process would */
    atomic_fetch_add(&p->record->generation, 1);
    weir__wait_wake_policy(w, p);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(c[i].wakes, 1);
        assert_int_equal(weir__wait_step(&c[i].waiter, weir__now_at(T0)), WEIR_EGONE);
        assert_true(c[i].waiter.decided);
    }
    assert_int_equal(listed(w), 0);
    backend_close(w);
}

/* ---- Answers that come later ----------------------------------------------------------------- */

static struct weir__wait_answer refusal(int64_t retry_ns)
{
    return (struct weir__wait_answer){
        .verdict = {.reason = WEIR_LIMITED, .retry_after_ns = retry_ns}};
}

static void open_take(struct caller *c, struct weir *w, const struct weir_request *rq)
{
    prepare(c, WEIR__WAIT_TAKE);
    assert_int_equal(weir__wait_open(w, &c->waiter, rq, WEIR__WAIT_TAKE, T0), 0);
}

static void an_answer_may_come_later(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1h", T0);
    const struct weir_request rq = request_for(p, "k", 1, 10 * SECOND);
    const struct weir__wait_answer grant = {.verdict = {.allowed = true, .wait_ns = SECOND}};
    const struct weir__wait_answer no = refusal(3 * SECOND);
    struct caller c;

    (void)state;
    open_take(&c, w, &rq);
    assert_int_equal(weir__waiter_next(&c.waiter, T0), WEIR__ASK_CHARGE);
    assert_int_equal(c.waiter.ask_ns, 10 * SECOND);
    weir__waiter_answer(&c.waiter, T0 + SECOND, &no);
    assert_int_equal(weir__waiter_next(&c.waiter, T0 + SECOND), WEIR__ASK_PEEK);
    assert_int_equal(c.waiter.ask_ns, 0);
    weir__waiter_answer(&c.waiter, T0 + 2 * SECOND, &no);
    assert_int_equal(weir__waiter_next(&c.waiter, T0 + 2 * SECOND), WEIR__ASK_NOTHING);
    assert_int_equal(c.waiter.due_ns, T0 + 5 * SECOND);
    assert_int_equal(weir__waiter_next(&c.waiter, T0 + 5 * SECOND), WEIR__ASK_CHARGE);
    assert_int_equal(c.waiter.ask_ns, 5 * SECOND);
    weir__waiter_answer(&c.waiter, T0 + 6 * SECOND, &grant);
    assert_int_equal(weir__waiter_next(&c.waiter, T0 + 6 * SECOND), WEIR__ASK_NOTHING);
    assert_int_equal(c.waiter.due_ns, T0 + 7 * SECOND);
    assert_int_equal(weir__waiter_next(&c.waiter, T0 + 7 * SECOND), WEIR__ASK_NOTHING);
    assert_true(c.waiter.decided && c.waiter.verdict.allowed);
    assert_int_equal(w->taking, 0);
    backend_close(w);
}

/* A reset that comes between the question and its answer wakes no waiter: none is in the list
 * yet. */
static void a_change_while_it_asks_is_not_missed(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1h", T0);
    const struct weir_request rq = request_for(p, "k", 1, WEIR_FOREVER);
    const struct weir__wait_answer no = refusal(HOUR);

    (void)state;
    for (int when = 0; when < 4; when++) {
        struct caller c;

        open_take(&c, w, &rq);
        assert_int_equal(weir__waiter_next(&c.waiter, T0), WEIR__ASK_CHARGE);
        if (when == 1)
            assert_int_equal(weir_reset_at(w, &rq, T0), 0);
        weir__waiter_answer(&c.waiter, T0, &no);
        if (when == 2)
            assert_int_equal(weir_reset_at(w, &rq, T0), 0);
        assert_int_equal(weir__waiter_next(&c.waiter, T0), WEIR__ASK_PEEK);
        if (when == 3)
            weir__wait_wake_policy(w, p);
        weir__waiter_answer(&c.waiter, T0, &no);
        assert_int_equal(weir__waiter_next(&c.waiter, T0),
                         when == 0 ? WEIR__ASK_NOTHING : WEIR__ASK_CHARGE);
        weir__waiter_leave(&c.waiter);
        assert_int_equal(weir__waiter_next(&c.waiter, T0), WEIR__ASK_NOTHING);
        assert_int_equal(w->taking, 0);
    }
    backend_close(w);
}

static void an_error_ends_the_wait_and_serves_the_next(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1h", T0);
    const struct weir_request rq = request_for(p, "k", 1, WEIR_FOREVER);
    const struct weir__wait_answer broken = {.error = WEIR_EBUSY}, no = refusal(HOUR);
    struct caller first, second;

    (void)state;
    open_take(&first, w, &rq);
    assert_int_equal(weir__waiter_next(&first.waiter, T0), WEIR__ASK_CHARGE);
    weir__waiter_answer(&first.waiter, T0, &no);
    open_take(&second, w, &rq);
    assert_int_equal(weir__waiter_next(&second.waiter, T0), WEIR__ASK_PEEK); /* it is behind */
    assert_int_equal(weir__waiter_next(&first.waiter, T0), WEIR__ASK_PEEK);
    weir__waiter_answer(&first.waiter, T0, &broken);
    assert_true(first.waiter.decided);
    assert_int_equal(first.waiter.error, WEIR_EBUSY);
    assert_int_equal(second.wakes, 1);
    weir__waiter_answer(&second.waiter, T0, &no);
    assert_int_equal(weir__waiter_next(&second.waiter, T0), WEIR__ASK_PEEK);
    weir__waiter_answer(&second.waiter, T0, &no);
    assert_int_equal(weir__waiter_next(&second.waiter, T0), WEIR__ASK_CHARGE); /* its turn */
    weir__waiter_leave(&second.waiter);
    assert_int_equal(listed(w), 0);
    backend_close(w);
}

/* ---- Many ------------------------------------------------------------------------------------ */

/* A crowd for one key, and one for as many keys, in one engine: each finds its place at once, and
 * those that leave leave the others in order. */
static void a_crowd_keeps_its_order(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "fixed-window 1/1h", T0);
    struct caller *c = calloc(2 * CROWD, sizeof *c);
    int served = 0;

    (void)state;
    assert_non_null(c);
    for (uint32_t i = 0; i < 2 * CROWD; i++) {
        const struct weir_request one = request_for(p, "k", 1, WEIR_FOREVER);
        const struct weir_request many = {p, &i, sizeof i, 1, WEIR_FOREVER};
        const struct weir_request rq = i % 2 ? many : one;

        (void)take(w, p, "k", 1, T0);
        if (i % 2) {
            struct weir_verdict v;

            assert_int_equal(weir_take_at(w, &(struct weir_request){p, &i, sizeof i, 1, 0}, T0, &v),
                             0);
        }
        (void)begin(&c[i], w, &rq, WEIR__WAIT_TAKE, T0);
        c[i].waiter.request.key = "k"; /* `i` does not live as long */
    }
    assert_true(listed(w) >= CROWD);
    for (uint32_t i = 1; i < 2 * CROWD; i += 2)
        give_up(&c[i], T0);
    for (uint32_t i = 2; i < 2 * CROWD; i += 4)
        give_up(&c[i], T0);
    for (uint32_t i = 0; i < 2 * CROWD; i += 4) {
        const struct weir_request rq = request_for(p, "k", 1, 0);

        assert_int_equal(c[i].waiter.first || c[i].wakes > 0, 1); /* and no one behind it */
        assert_int_equal(i + 4 < 2 * CROWD ? c[i + 4].wakes : 0, 0);
        assert_int_equal(weir_reset_at(w, &rq, T0), 0);
        assert_true(step(&c[i], T0));
        served += c[i].waiter.verdict.allowed;
    }
    assert_int_equal(served, CROWD / 2);
    assert_int_equal(listed(w), 0);
    assert_int_equal(w->taking, 0);
    free(c);
    backend_close(w);
}

/* ---- Children -------------------------------------------------------------------------------- */

static void a_child_begins_with_empty_lists(void **state)
{
    struct weir *w = backend_open(NULL);
    struct weir_policy *p = backend_policy(w, "p", "concurrency 1 queue=1 max-wait=1h", T0);
    struct weir_ticket in;
    struct caller c, own;
    pid_t child;
    int status;

    (void)state;
    assert_true(enter(w, p, "k", T0, &in).allowed);
    assert_false(begin_enter(&c, w, p, "k", WEIR_WAIT_DEFAULT, T0));
    child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const bool empty = listed(w) == 0 && w->entering == 0;
        const bool waits = !begin_enter(&own, w, p, "k", WEIR_WAIT_DEFAULT, T0);

        give_up(&c, T0); /* its copy is in no list */
        _exit(empty && waits && listed(w) == 1 && w->entering == 1 ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(listed(w), 1);
    give_up(&c, T0);
    assert_int_equal(listed(w), 0);
    backend_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_take_that_may_pass_is_decided_at_once),
    cmocka_unit_test(a_promise_is_kept_at_its_time_and_not_before),
    cmocka_unit_test(a_promise_that_is_not_used_is_given_back),
    cmocka_unit_test(takes_of_one_key_are_served_in_the_order_they_came),
    cmocka_unit_test(a_new_caller_does_not_overtake_waiters),
    cmocka_unit_test(what_is_hopeless_is_refused_at_once_behind_others_too),
    cmocka_unit_test(a_take_is_refused_at_its_deadline_and_not_before),
    cmocka_unit_test(a_waiter_that_leaves_keeps_the_others_in_order),
    cmocka_unit_test(an_exit_wakes_the_first_and_no_other),
    cmocka_unit_test(an_exit_from_a_forgotten_policy_wakes_none),
    cmocka_unit_test(a_queue_has_room_for_so_many),
    cmocka_unit_test(an_entry_out_of_time_does_not_overtake),
    cmocka_unit_test(the_first_is_served_at_its_deadline_or_refused),
    cmocka_unit_test(an_entry_that_gives_up_is_refused),
    cmocka_unit_test(the_end_of_a_lease_is_due),
    cmocka_unit_test(patience_is_spent_in_the_queue),
    cmocka_unit_test(what_helps_a_take_wakes_it),
    cmocka_unit_test(a_policy_that_another_process_forgets_ends_its_waiters),
    cmocka_unit_test(an_answer_may_come_later),
    cmocka_unit_test(a_change_while_it_asks_is_not_missed),
    cmocka_unit_test(an_error_ends_the_wait_and_serves_the_next),
    cmocka_unit_test(a_crowd_keeps_its_order),
    cmocka_unit_test(a_child_begins_with_empty_lists),
};

RUN_BACKEND("waiters", TESTS)
