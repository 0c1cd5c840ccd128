/* Guards that look at one node, in limits of a Redis: one entry with the shared terms, all or
 * nothing, through the library. The daemon's part is in tests/tickets.
 *
 *     remote_node_guards redis+unix:/path
 */
#include "observer.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/time.h>

#define BREAKER "breaker errors=50% volume=2 open=1h"

static int enter_now(struct weir *w, struct weir_policy *p, struct weir_ticket *t,
                     struct weir_verdict *v)
{
    const struct weir_request rq = request_for(p, "k", 1, 0);

    return weir_enter(w, &rq, t, v);
}

static bool enters(struct weir *w, struct weir_policy *p, struct weir_ticket *t)
{
    struct weir_verdict v;

    assert_int_equal(enter_now(w, p, t, &v), 0);
    assert_int_equal(v.allowed, t->n > 0);
    return v.allowed;
}

static void fails(struct weir *w, struct weir_policy *p)
{
    struct weir_ticket t = {.n = 0};

    assert_true(enters(w, p, &t));
    assert_int_equal(weir_exit(w, &t, WEIR_ERROR), 0);
    assert_int_equal(t.n, 0);
    assert_int_equal(weir_exit(w, &t, WEIR_ERROR), 0); /* the second time it does nothing */
}

/* A caller of another thread. */
struct late_entry {
    struct weir *w;
    const struct weir_request *rq;
    struct weir_verdict v;
    int error;
};

static void *enter_late(void *arg)
{
    struct late_entry *e = arg;
    struct weir_ticket t;

    e->error = weir_enter(e->w, e->rq, &t, &e->v);
    return NULL;
}

/* Two failures open the breaker, for entries and for peeks. */
static void opens(struct weir *w, struct weir_policy *p)
{
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_ticket t = {.n = 0};
    struct weir_verdict v;

    fails(w, p);
    fails(w, p);
    assert_false(enters(w, p, &t));
    assert_int_equal(weir_peek(w, &rq, &v), 0);
    assert_int_equal(v.reason, WEIR_OPEN);
}

static void the_permits_are_shared_and_the_breaker_is_not(void **state)
{
    static const char LIMIT[] = "concurrency 1 lease=1h + 1000/s + " BREAKER;
    static const int OTHERS[] = {0, 1, 3};
    struct weir *a = open_there(""), *b = open_there("");
    struct weir_policy *p = policy(a, "db", LIMIT), *q = policy(b, "db", LIMIT);
    const struct weir_request at_a = request_for(p, "k", 1, 0), at_b = request_for(q, "k", 1, 0);
    struct weir_ticket t, u = {.n = 0};
    struct weir_verdict v;
    struct weir_view view;

    (void)state;
    assert_true(enters(a, p, &t));
    assert_int_equal(enter_now(b, q, &u, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_LIMITED);
    assert_int_equal(v.which, 0);
    assert_int_equal(weir_exit(a, &t, WEIR_SUCCESS), 0);
    fails(b, q);
    fails(b, q);
    assert_int_equal(enter_now(b, q, &u, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_OPEN);
    assert_int_equal(v.which, 2);
    assert_true(v.retry_after_ns > 0 && v.retry_after_ns <= HOUR);
    assert_int_equal(weir_guard_view(b, &at_b, 2, &view), 0);
    assert_int_equal(view.state, WEIR_OPENED);
    assert_int_equal(weir_guard_view(a, &at_a, 2, &view), 0);
    assert_int_equal(view.state, WEIR_CLOSED);
    for (size_t i = 0; i < LENGTH(OTHERS); i++) /* what the Redis has is seen there only */
        assert_int_equal(weir_guard_view(a, &at_a, OTHERS[i], &view), WEIR_EINVAL);
    assert_true(enters(a, p, &t));
    assert_int_equal(weir_exit(a, &t, WEIR_SUCCESS), 0);
    assert_int_equal(observer_number("KEYS weir:1:{db:*"), 1); /* the bucket; no call is inside */
    weir_close(a);
    weir_close(b);
}

static void several_limits_are_entered_together(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "one", BREAKER " + concurrency 5 lease=1h");
    struct weir_policy *q = policy(w, "two", "aimd min=1 max=1 initial=1");
    struct weir_policy *r = policy(w, "three", "concurrency 1 lease=1h");
    const struct weir_request rq[] = {request_for(p, "k", 1, 0), request_for(q, "k", 1, 0),
                                      request_for(r, "k", 1, 0)};
    struct weir_ticket t, u = {.n = 0};
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_enter_all(w, rq, 3, &t, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(t.n, 4); /* two of the Redis, two of this node */
    assert_int_equal(weir_enter_all(w, rq, 2, &u, &v), 0);
    assert_false(v.allowed); /* by a guard of this node... */
    assert_int_equal(v.which, 1);
    assert_int_equal(v.term, 0);
    assert_int_equal(u.n, 0);
    assert_true(enters(w, p, &u)); /* ...and the first has charged nothing */
    assert_int_equal(weir_exit(w, &u, WEIR_SUCCESS), 0);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    assert_true(enters(w, r, &u));
    assert_int_equal(weir_enter_all(w, rq, 3, &t, &v), 0);
    assert_false(v.allowed); /* by the Redis */
    assert_int_equal(v.which, 2);
    assert_int_equal(weir_exit(w, &u, WEIR_SUCCESS), 0);
    assert_true(enters(w, q, &u)); /* and no call is in flight */
    assert_int_equal(weir_exit(w, &u, WEIR_SUCCESS), 0);
    weir_close(w);
}

/* Sixteen requests of one term each: those of guards alone have no part in the Redis. */
static void a_ticket_has_room_for_every_guard(void **state)
{
    struct weir *w = open_there("");
    struct weir_request rq[WEIR_TERMS_MAX];
    struct weir_verdict v;
    struct weir_ticket t;

    (void)state;
    for (int i = 0; i < WEIR_TERMS_MAX; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "g%d", i);
        rq[i] = request_for(
            policy(w, name, i == 3 ? "concurrency 1 lease=1h" : "aimd min=1 max=1 initial=1"), "k",
            1, 0);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(weir_enter_all(w, rq, WEIR_TERMS_MAX, &t, &v), 0);
        assert_true(v.allowed);
        assert_int_equal(t.n, WEIR_TERMS_MAX);
        assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0); /* all are free again */
    }
    weir_close(w);
}

/* What a refused entry took of a rate is given back, less what has drained since. */
static void an_entry_that_a_slow_redis_refuses_gives_its_rate_back(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "late", "400/1h + adaptive-rate 1000/s min=1000 max=1000");
    const struct weir_request first = request_for(p, "k", 500, 0),
                              second = request_for(p, "k", 300, 0),
                              look = request_for(p, "k", 1, 0);
    struct late_entry late = {.w = w, .rq = &first};
    struct weir_ticket t;
    struct weir_verdict v;
    pthread_t thread;
    int64_t begun_ns;

    (void)state;
    assert_true(enters(w, p, &t)); /* the connection is there */
    assert_int_equal(observer_number("CLIENT PAUSE 800"), -3);
    assert_int_equal(pthread_create(&thread, NULL, enter_late, &late), 0);
    nap(600 * MS); /* what it owes is paid by then */
    begun_ns = mono_ns();
    assert_int_equal(weir_enter(w, &second, &t, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(late.error, 0);
    assert_int_equal(late.v.reason, WEIR_TOO_BIG);
    (void)policy(w, "late", "1M/1h + adaptive-rate 1000/s min=1000 max=1000");
    assert_int_equal(weir_peek(w, &look, &v), 0);
    assert_in_range(v.remaining, 700, 702 + (mono_ns() - begun_ns) / MS);
    weir_close(w);
}

static void ignore_alarm(int number)
{
    (void)number;
}

/* Until `often` is false, a signal that ends sleeps comes every 20 ms. */
static void be_disturbed(bool often)
{
    const struct sigaction quiet = {.sa_handler = ignore_alarm};
    const struct timeval pause = {0, often ? 20000 : 0};

    assert_int_equal(sigaction(SIGALRM, &quiet, NULL), 0);
    assert_int_equal(setitimer(ITIMER_REAL, &(struct itimerval){pause, pause}, NULL), 0);
}

static enum weir_outcome run_never(void *arg)
{
    fail_msg("it ran (%p)", arg);
    return WEIR_SUCCESS;
}

static void an_interrupted_call_leaves_no_trace(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p =
        policy(w, "run",
               "pacer 1/h + concurrency 2 lease=1d + aimd min=2 max=2 initial=2 + "
               "adaptive-rate 2/h min=2 max=2");
    const struct weir_request rq = request_for(p, "k", 1, WEIR_FOREVER),
                              none = request_for(p, "k", 0, 0);
    struct weir_ticket t;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
    assert_int_equal(v.wait_ns, 0);
    be_disturbed(true);
    for (int i = 0; i < 4; i++)
        assert_int_equal(weir_run(w, &rq, run_never, NULL, NULL, NULL), WEIR_EINTR);
    be_disturbed(false);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
    assert_true(v.allowed && v.wait_ns > 0 && v.wait_ns <= HOUR);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    assert_int_equal(weir_peek(w, &none, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(observer_number("KEYS weir:1:{run:k}:1n"), 0);
    weir_close(w);
}

static void the_load_of_the_machine_counts_here(void **state)
{
    const struct weir_signals hot = {950, WEIR_NONE, WEIR_NONE, WEIR_NONE}, cool = {10, 10, 10, 10};
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "s", "system cpu=80% + 1000/s");
    struct weir_signals seen;
    struct weir_ticket t;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_signals_set(w, &hot), 0);
    weir_signals_get(w, &seen);
    assert_int_equal(seen.cpu_milli, 950);
    assert_int_equal(enter_now(w, p, &t, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_OVERLOAD);
    assert_int_equal(v.which, 0);
    assert_int_equal(weir_signals_set(w, &cool), 0);
    assert_true(enters(w, p, &t));
    assert_int_equal(t.n, 1); /* the Redis has no permit of it */
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    weir_close(w);
}

static void lists_and_resets_hold_for_both(void **state)
{
    static const struct weir_bytes KEY[] = {{"k", 1}};
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "db", "concurrency 5 lease=1h + " BREAKER);
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_ticket t = {.n = 0};
    struct weir_verdict v;

    (void)state;
    opens(w, p);
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_ALLOW, KEY, 1), 0);
    assert_int_equal(enter_now(w, p, &t, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(t.n, 0);
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_ALLOW, NULL, 0), 0);
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, KEY, 1), 0);
    assert_int_equal(enter_now(w, p, &t, &v), 0);
    assert_int_equal(v.reason, WEIR_LISTED);
    assert_int_equal(weir_list_set(w, p, WEIR_LIST_DENY, NULL, 0), 0);
    assert_int_equal(weir_reset(w, &rq), 0);
    assert_true(enters(w, p, &t));
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    assert_int_equal(weir_take(w, &rq, &v), WEIR_EGUARD);
    weir_close(w);
}

static void a_limit_of_guards_alone_asks_the_redis_nothing(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "alone", BREAKER);
    const struct weir_request rq = request_for(p, "k", 1, 0);
    struct weir_ticket t;

    (void)state;
    opens(w, p);
    assert_int_equal(weir_reset(w, &rq), 0);
    assert_true(enters(w, p, &t));
    assert_int_equal(weir_policy_forget(w, p), 0);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0); /* and nothing is left to exit */
    assert_int_equal(observer_number("KEYS weir:1:{alone:*"), 0);
    weir_close(w);
}

/* ---- Many callers ---------------------------------------------------------------------------- */

#define CALLERS 4 /* of each node */
#define CALLS   400

struct node {
    struct weir *w;
    struct weir_policy *p;
    atomic_int inside, most; /* of this node */
};

static atomic_int all_inside, all_most;

static void note_most(atomic_int *most, int n)
{
    int seen = atomic_load(most);

    while (seen < n && !atomic_compare_exchange_weak(most, &seen, n))
        continue;
}

static void *call_often(void *arg)
{
    struct node *n = arg;

    for (int i = 0; i < CALLS; i++) {
        const struct weir_request rq = request_for(n->p, "k", 1, 0);
        struct weir_ticket t;
        struct weir_verdict v;

        if (weir_enter(n->w, &rq, &t, &v) != 0 || !v.allowed)
            continue;
        note_most(&n->most, atomic_fetch_add(&n->inside, 1) + 1);
        note_most(&all_most, atomic_fetch_add(&all_inside, 1) + 1);
        sched_yield();
        atomic_fetch_sub(&all_inside, 1);
        atomic_fetch_sub(&n->inside, 1);
        if (weir_exit(n->w, &t, WEIR_IGNORE) != 0)
            return arg;
    }
    return NULL;
}

/* Three at once on all nodes, two on each: both bounds hold, and in the end both are free. */
static void both_bounds_hold_for_many_callers(void **state)
{
    static const char LIMIT[] = "concurrency 3 lease=1h + aimd min=2 max=2 initial=2";
    struct node node[2] = {{.w = NULL}};
    pthread_t caller[2 * CALLERS];

    (void)state;
    for (int i = 0; i < 2; i++) {
        node[i].w = open_there("");
        node[i].p = policy(node[i].w, "db", LIMIT);
    }
    for (int i = 0; i < 2 * CALLERS; i++)
        assert_int_equal(pthread_create(&caller[i], NULL, call_often, &node[i % 2]), 0);
    for (int i = 0; i < 2 * CALLERS; i++) {
        void *failed;

        assert_int_equal(pthread_join(caller[i], &failed), 0);
        assert_null(failed);
    }
    print_message("  at most %d inside, %d and %d of each node\n", atomic_load(&all_most),
                  atomic_load(&node[0].most), atomic_load(&node[1].most));
    assert_in_range(atomic_load(&all_most), 1, 3);
    for (int i = 0; i < 2; i++) {
        struct weir_ticket t[3];

        assert_in_range(atomic_load(&node[i].most), 1, 2);
        assert_true(enters(node[i].w, node[i].p, &t[0]));
        assert_true(enters(node[i].w, node[i].p, &t[1]));
        assert_false(enters(node[i].w, node[i].p, &t[2]));
        assert_int_equal(weir_exit(node[i].w, &t[0], WEIR_IGNORE), 0);
        assert_int_equal(weir_exit(node[i].w, &t[1], WEIR_IGNORE), 0);
    }
    assert_int_equal(observer_number("KEYS weir:1:{db:*"), 0);
    for (int i = 0; i < 2; i++)
        weir_close(node[i].w);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(the_permits_are_shared_and_the_breaker_is_not),
    cmocka_unit_test(several_limits_are_entered_together),
    cmocka_unit_test(a_ticket_has_room_for_every_guard),
    cmocka_unit_test(an_entry_that_a_slow_redis_refuses_gives_its_rate_back),
    cmocka_unit_test(an_interrupted_call_leaves_no_trace),
    cmocka_unit_test(the_load_of_the_machine_counts_here),
    cmocka_unit_test(lists_and_resets_hold_for_both),
    cmocka_unit_test(a_limit_of_guards_alone_asks_the_redis_nothing),
    cmocka_unit_test(both_bounds_hold_for_many_callers),
};

RUN_BESIDE("remote node guards", tests)
