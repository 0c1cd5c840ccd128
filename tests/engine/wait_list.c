/* Waiters of a wait list, each a thread: first come, first served; and a caller that need not wait
 * does not. */
#include "guard_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "listed.h"

#define WAITERS 6

struct wait_list {
    struct weir *w;
    struct weir_policy *policy;
    int64_t cost; /* of each waiter */
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int entered[WAITERS], n;
    int may_leave;
    _Atomic int gone; /* without having entered */
};

struct waiting_thread {
    struct wait_list *row;
    int number;
    int64_t patience_ns, cost;
    pthread_t thread;
    int error;
    struct weir_verdict v;
};

static void *wait_in_list(void *arg)
{
    struct waiting_thread *x = arg;
    struct wait_list *r = x->row;
    const struct weir_request rq = request_for(r->policy, "k", x->cost, x->patience_ns);
    struct weir_ticket t;

    x->error = weir_enter(r->w, &rq, &t, &x->v);
    if (x->error || !x->v.allowed) {
        atomic_fetch_add(&r->gone, 1);
        return NULL;
    }
    (void)pthread_mutex_lock(&r->lock);
    r->entered[r->n++] = x->number;
    (void)pthread_cond_broadcast(&r->moved);
    while (r->may_leave == 0)
        (void)pthread_cond_wait(&r->moved, &r->lock);
    r->may_leave--;
    (void)pthread_mutex_unlock(&r->lock);
    x->error = weir_exit(r->w, &t, WEIR_SUCCESS);
    return NULL;
}

static void see_waiting(struct wait_list *r, uint64_t n)
{
    while (listed(r->w) != n)
        (void)usleep(200);
}

static void see_entered(struct wait_list *r, int n)
{
    (void)pthread_mutex_lock(&r->lock);
    while (r->n < n)
        (void)pthread_cond_wait(&r->moved, &r->lock);
    (void)pthread_mutex_unlock(&r->lock);
}

static void let_leave(struct wait_list *r, int n)
{
    (void)pthread_mutex_lock(&r->lock);
    r->may_leave += n;
    (void)pthread_cond_broadcast(&r->moved);
    (void)pthread_mutex_unlock(&r->lock);
}

static void begin_waiter(struct waiting_thread *x, struct wait_list *r, int number,
                         int64_t patience_ns)
{
    *x = (struct waiting_thread){
        .row = r, .number = number, .patience_ns = patience_ns, .cost = r->cost};
    assert_int_equal(pthread_create(&x->thread, NULL, wait_in_list, x), 0);
}

static void open_wait_list(struct wait_list *r, const char *limit, struct weir_ticket *held)
{
    struct weir_request first;
    struct weir_verdict v;

    *r = (struct wait_list){.w = open_guarded(),
                            .cost = 1,
                            .lock = PTHREAD_MUTEX_INITIALIZER,
                            .moved = PTHREAD_COND_INITIALIZER};
    r->policy = backend_policy(r->w, "p", limit, weir_now(r->w));
    first = request_for(r->policy, "k", 1, 0);
    assert_int_equal(weir_enter(r->w, &first, held, &v), 0);
    assert_true(v.allowed);
}

/* Those in line, one after the other. */
static void fill_wait_list(struct wait_list *r, struct waiting_thread *x, int n)
{
    for (int i = 0; i < n; i++) {
        begin_waiter(&x[i], r, i, WEIR_WAIT_DEFAULT);
        see_waiting(r, (uint64_t)i + 1);
    }
}

static void end_wait_list(struct wait_list *r, struct waiting_thread *x, int n)
{
    for (int i = 0; i < n; i++) {
        (void)pthread_join(x[i].thread, NULL);
        assert_int_equal(x[i].error, 0);
    }
    assert_int_equal(listed(r->w), 0);
    backend_close(r->w);
}

static void first_come_is_first_served(void **state)
{
    struct waiting_thread x[WAITERS];
    struct weir_ticket held;
    struct wait_list r;

    (void)state;
    open_wait_list(&r, "concurrency 1 queue=10 max-wait=1h", &held);
    fill_wait_list(&r, x, WAITERS);
    let_leave(&r, WAITERS);
    assert_int_equal(weir_exit(r.w, &held, WEIR_SUCCESS), 0);
    see_entered(&r, WAITERS);
    for (int i = 0; i < WAITERS; i++)
        assert_int_equal(r.entered[i], i);
    end_wait_list(&r, x, WAITERS);
}

static void no_caller_overtakes_the_waiters(void **state)
{
    struct waiting_thread x[2];
    struct weir_ticket held, t;
    struct weir_verdict v;
    struct weir_request rq;
    struct wait_list r;

    (void)state;
    open_wait_list(&r, "concurrency 1 queue=10 max-wait=1h", &held);
    rq = request_for(r.policy, "k", 1, 0);
    fill_wait_list(&r, x, 2);
    assert_int_equal(weir_exit(r.w, &held, WEIR_SUCCESS), 0);
    for (int i = 0; i < 100; i++) { /* whether or not the first has woken up */
        assert_int_equal(weir_enter(r.w, &rq, &t, &v), 0);
        assert_false(v.allowed);
        assert_int_equal(v.reason, WEIR_LIMITED);
        assert_int_equal(v.which, 0);
    }
    rq = request_for(r.policy, "other", 1, 0);
    assert_int_equal(weir_enter(r.w, &rq, &t, &v), 0);
    assert_true(v.allowed);
    let_leave(&r, 2);
    end_wait_list(&r, x, 2);
}

static void a_full_queue_refuses_at_once(void **state)
{
    struct waiting_thread x[2];
    struct weir_ticket held, t;
    struct weir_verdict v;
    struct weir_request rq;
    struct wait_list r;

    (void)state;
    open_wait_list(&r, "token-bucket 1k/s + concurrency 1 queue=2 max-wait=1h", &held);
    rq = request_for(r.policy, "k", 1, WEIR_FOREVER);
    fill_wait_list(&r, x, 2);
    assert_int_equal(weir_enter(r.w, &rq, &t, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_QUEUE_FULL);
    assert_int_equal(v.which, 1);
    assert_int_equal(v.retry_after_ns, 0);
    let_leave(&r, 2);
    assert_int_equal(weir_exit(r.w, &held, WEIR_SUCCESS), 0);
    end_wait_list(&r, x, 2);
}

/* The hurried ones stand before and between the others when they go. */
static void a_waiter_that_gives_up_leaves_the_others_in_order(void **state)
{
    struct waiting_thread x[4];
    struct weir_ticket held;
    struct wait_list r;

    (void)state;
    open_wait_list(&r, "concurrency 1 queue=10 max-wait=1h", &held);
    for (int i = 0; i < 4; i++) {
        begin_waiter(&x[i], &r, i, i % 2 ? WEIR_WAIT_DEFAULT : 300 * MS);
        while (listed(r.w) + (uint64_t)atomic_load(&r.gone) != (uint64_t)i + 1)
            (void)usleep(200);
    }
    for (int i = 0; i < 4; i += 2) {
        (void)pthread_join(x[i].thread, NULL);
        assert_int_equal(x[i].error, 0);
        assert_int_equal(x[i].v.reason, WEIR_LIMITED);
    }
    see_waiting(&r, 2);
    let_leave(&r, 2);
    assert_int_equal(weir_exit(r.w, &held, WEIR_SUCCESS), 0);
    see_entered(&r, 2);
    assert_int_equal(r.entered[0], 1);
    assert_int_equal(r.entered[1], 3);
    (void)pthread_join(x[1].thread, NULL);
    end_wait_list(&r, &x[3], 1);
}

static void a_higher_limit_lets_waiters_in(void **state)
{
    struct waiting_thread x[WAITERS];
    struct weir_ticket held;
    struct wait_list r;

    (void)state;
    open_wait_list(&r, "concurrency 1 queue=10 max-wait=1h", &held);
    fill_wait_list(&r, x, WAITERS);
    (void)backend_policy(r.w, "p", "concurrency 7 queue=10 max-wait=1h", weir_now(r.w));
    see_entered(&r, WAITERS);
    let_leave(&r, WAITERS);
    end_wait_list(&r, x, WAITERS);
}

static void so_do_an_override_and_a_reset(void **state)
{
    struct waiting_thread x[WAITERS];
    struct weir_ticket held;
    struct weir_request rq;
    struct wait_list r;

    (void)state;
    open_wait_list(&r, "concurrency 1 queue=10 max-wait=1h", &held);
    rq = request_for(r.policy, "k", 1, 0);
    fill_wait_list(&r, x, WAITERS);
    assert_int_equal(weir_reset(r.w, &rq), 0);
    see_entered(&r, 1);
    assert_int_equal(
        weir_override_set(r.w, r.policy, "k", 1, "concurrency 9 queue=10 max-wait=1h", NULL), 0);
    see_entered(&r, WAITERS);
    let_leave(&r, WAITERS);
    end_wait_list(&r, x, WAITERS);
}

static void a_lease_that_ends_lets_the_next_in(void **state)
{
    struct waiting_thread x[2];
    struct weir_ticket held;
    struct wait_list r;

    (void)state;
    open_wait_list(&r, "concurrency 1 queue=10 max-wait=1h lease=50ms", &held);
    for (int i = 0; i < 2; i++)
        begin_waiter(&x[i], &r, i, WEIR_WAIT_DEFAULT);
    see_entered(&r, 2); /* no caller has exited */
    let_leave(&r, 2);
    end_wait_list(&r, x, 2);
}

/* ---- Callers that need not wait ------------------------------------------------------------ */

/* One of those in line waits for an hour; what is refused whatever they do is told at once. */
static void a_call_that_would_be_refused_anyway_joins_no_wait_list(void **state)
{
    static const struct weir_signals HOT = {950, 0, 0, 0};
    static const struct {
        const char *limit;
        int64_t cost;
        bool hot;
        enum weir_reason reason;
        int which;
    } ROWS[] = {
        {"concurrency 1 queue=10 max-wait=1h", 2, false, WEIR_TOO_BIG, 0},
        {"concurrency 1 queue=10 max-wait=1h + system cpu=80%", 1, true, WEIR_OVERLOAD, 1},
        {"system cpu=80% + concurrency 1 queue=10 max-wait=1h", 2, false, WEIR_TOO_BIG, 1},
    };

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_ticket held, t;
        struct weir_verdict v;
        struct weir_request rq;
        struct waiting_thread x;
        struct wait_list r;

        print_message("  %s\n", ROWS[i].limit);
        open_wait_list(&r, ROWS[i].limit, &held);
        fill_wait_list(&r, &x, 1);
        assert_int_equal(weir_signals_set(r.w, ROWS[i].hot ? &HOT : &CALM), 0);
        rq = request_for(r.policy, "k", ROWS[i].cost, WEIR_WAIT_DEFAULT);
        assert_int_equal(weir_enter(r.w, &rq, &t, &v), 0);
        assert_false(v.allowed);
        assert_int_equal(v.reason, ROWS[i].reason);
        assert_int_equal(v.which, ROWS[i].which);
        see_waiting(&r, 1);
        assert_int_equal(weir_signals_set(r.w, &CALM), 0);
        let_leave(&r, 1);
        assert_int_equal(weir_exit(r.w, &held, WEIR_SUCCESS), 0);
        end_wait_list(&r, &x, 1);
    }
}

/* Several requests at once do not wait; nor do they go before those that do. */
static void several_at_once_overtake_no_waiter(void **state)
{
    struct weir_ticket held, t;
    struct weir_request rq[2];
    struct weir_verdict v;
    struct waiting_thread x;
    struct wait_list r;

    (void)state;
    open_wait_list(&r, "concurrency 2 queue=10 max-wait=1h", &held);
    rq[0] = request_for(r.policy, "other", 1, 0);
    rq[1] = request_for(r.policy, "k", 1, 0);
    r.cost = 2; /* there is room for one, and it waits for two */
    fill_wait_list(&r, &x, 1);
    assert_int_equal(weir_enter_all(r.w, rq, 2, &t, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_LIMITED);
    assert_int_equal(v.which, 1);
    assert_int_equal(v.limit, 2);
    assert_int_equal(v.remaining, 0); /* there is a permit, for those who wait */
    assert_int_equal(v.retry_after_ns, 0);
    assert_int_equal(t.n, 0);
    assert_int_equal(in_flight(r.w, r.policy, "other", 0, weir_now(r.w)), 0);
    assert_int_equal(weir_enter_all(r.w, rq, 1, &t, &v), 0);
    assert_true(v.allowed); /* no caller waits for the other key */
    assert_int_equal(weir_exit(r.w, &held, WEIR_SUCCESS), 0);
    let_leave(&r, 1);
    end_wait_list(&r, &x, 1);
}

/* ---- Threads that are cancelled ------------------------------------------------------------ */

static int64_t real_now(void *arg)
{
    (void)arg;
    return weir_now(NULL);
}

/* A point where threads are cancelled. */
static int real_sleep(void *arg, int64_t until_ns)
{
    const struct timespec nap = {0, MS};

    (void)arg;
    while (weir_now(NULL) < until_ns)
        (void)nanosleep(&nap, NULL);
    return 0;
}

static void a_cancelled_thread_leaves_the_wait_list(void **state)
{
    const struct weir_clock clock = {real_now, real_sleep, NULL};
    struct weir_ticket held;
    struct weir_verdict v;
    struct waiting_thread x;
    struct wait_list r = {
        .cost = 1, .lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

    (void)state;
    r.w = backend_open(&(struct weir_options){.clock = &clock});
    r.policy = backend_policy(r.w, "p", "concurrency 1 queue=10 max-wait=300ms", weir_now(r.w));
    assert_int_equal(weir_enter(r.w, &(struct weir_request){r.policy, "k", 1, 1, 0}, &held, &v), 0);
    begin_waiter(&x, &r, 0, WEIR_WAIT_DEFAULT);
    see_waiting(&r, 1);
    assert_int_equal(pthread_cancel(x.thread), 0);
    (void)pthread_join(x.thread, NULL);
    assert_int_equal(listed(r.w), 0);
    assert_int_equal(weir_exit(r.w, &held, WEIR_SUCCESS), 0);
    assert_int_equal(weir_enter(r.w, &(struct weir_request){r.policy, "k", 1, 1, 0}, &held, &v), 0);
    assert_true(v.allowed);
    backend_close(r.w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(first_come_is_first_served),
    cmocka_unit_test(no_caller_overtakes_the_waiters),
    cmocka_unit_test(a_full_queue_refuses_at_once),
    cmocka_unit_test(a_waiter_that_gives_up_leaves_the_others_in_order),
    cmocka_unit_test(a_higher_limit_lets_waiters_in),
    cmocka_unit_test(so_do_an_override_and_a_reset),
    cmocka_unit_test(a_lease_that_ends_lets_the_next_in),
    cmocka_unit_test(a_call_that_would_be_refused_anyway_joins_no_wait_list),
    cmocka_unit_test(several_at_once_overtake_no_waiter),
    cmocka_unit_test(a_cancelled_thread_leaves_the_wait_list),
};

RUN_BACKEND("lines", TESTS)
