/* Pools: which tasks are let in, when they run, and what becomes of the others. Tasks wait at gates
 * that the test opens, so that what is full is full and what is late is late. */
#include "engine_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "thread_team.h"

#define MS     INT64_C(1000000)
#define MOST   64
#define SOON   (5 * 60 * SECOND) /* far longer than anything here takes */
#define CALLER 0                 /* fallback's result */

/* ---- Gates and books ----------------------------------------------------------------------- */

static struct {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    int open; /* how many may pass */
    int waiting;
    int began[MOST], n; /* in this order */
    int cancelled[MOST], dropped;
    int discarded, fallbacks;
    enum weir_reason reason; /* the last fallback's */
    int64_t retry_ns;
} book = {.lock = PTHREAD_MUTEX_INITIALIZER, .moved = PTHREAD_COND_INITIALIZER};

static void clear_book(void)
{
    book.open = book.waiting = book.n = book.dropped = book.discarded = book.fallbacks = 0;
}

static void open_gate(int n)
{
    (void)pthread_mutex_lock(&book.lock);
    book.open += n;
    (void)pthread_cond_broadcast(&book.moved);
    (void)pthread_mutex_unlock(&book.lock);
}

/* Until that many wait at the gate. */
static void see_waiting(int n)
{
    (void)pthread_mutex_lock(&book.lock);
    while (book.waiting != n)
        (void)pthread_cond_wait(&book.moved, &book.lock);
    (void)pthread_mutex_unlock(&book.lock);
}

static int begun(void)
{
    int n;

    (void)pthread_mutex_lock(&book.lock);
    n = book.n;
    (void)pthread_mutex_unlock(&book.lock);
    return n;
}

static void *pass_gate(void *arg)
{
    (void)pthread_mutex_lock(&book.lock);
    book.began[book.n++] = (int)(intptr_t)arg;
    book.waiting++;
    (void)pthread_cond_broadcast(&book.moved);
    while (book.open == 0)
        (void)pthread_cond_wait(&book.moved, &book.lock);
    book.open--;
    book.waiting--;
    (void)pthread_cond_broadcast(&book.moved);
    (void)pthread_mutex_unlock(&book.lock);
    return arg;
}

static void note_cancelled(void *arg)
{
    (void)pthread_mutex_lock(&book.lock);
    book.cancelled[book.dropped++] = (int)(intptr_t)arg;
    (void)pthread_mutex_unlock(&book.lock);
}

static void note_discarded(void *result)
{
    (void)result;
    (void)pthread_mutex_lock(&book.lock);
    book.discarded++;
    (void)pthread_mutex_unlock(&book.lock);
}

static void *note_fallback(void *arg, const struct weir_verdict *v)
{
    (void)arg;
    assert_false(v->allowed);
    (void)pthread_mutex_lock(&book.lock);
    book.fallbacks++;
    book.reason = v->reason;
    book.retry_ns = v->retry_after_ns;
    (void)pthread_mutex_unlock(&book.lock);
    return (void *)CALLER;
}

static struct weir_task gated(int number)
{
    return (struct weir_task){.run = pass_gate,
                              .arg = (void *)(intptr_t)number,
                              .cancelled = note_cancelled,
                              .discard = note_discarded,
                              .fallback = note_fallback};
}

static struct weir_pool *open_pool(int threads, int64_t queue, const char *pace)
{
    const struct weir_pool_options o = {threads, queue, pace};
    struct weir_pool *p = NULL;
    struct weir_diag why;

    clear_book();
    assert_int_equal(weir_pool_open(&p, &o, &why), 0);
    return p;
}

static struct weir_verdict submit(struct weir_pool *p, int number)
{
    const struct weir_task task = gated(number);
    struct weir_verdict v;

    assert_int_equal(weir_pool_submit(p, &task, &v), 0);
    return v;
}

static struct weir_pool_stats stats_of(struct weir_pool *p)
{
    struct weir_pool_stats s;

    weir_pool_stats(p, &s);
    return s;
}

/* A call by another thread. */
struct pool_caller {
    pthread_t thread;
    struct weir_pool *pool;
    int number;
    int64_t timeout_ns;
    void *result;
    struct weir_verdict v;
};

static void *make_call(void *arg)
{
    struct pool_caller *c = arg;
    const struct weir_task task = gated(c->number);

    assert_int_equal(weir_pool_call(c->pool, &task, c->timeout_ns, &c->result, &c->v), 0);
    return NULL;
}

static void begin_call(struct pool_caller *c, struct weir_pool *p, int number, int64_t timeout_ns)
{
    *c = (struct pool_caller){.pool = p, .number = number, .timeout_ns = timeout_ns};
    assert_int_equal(pthread_create(&c->thread, NULL, make_call, c), 0);
}

static void end_call(struct pool_caller *c)
{
    (void)pthread_join(c->thread, NULL);
}

static void see_queued(struct weir_pool *p, uint64_t n)
{
    while (stats_of(p).queued != n)
        (void)usleep(200);
}

/* ---- Letting in ---------------------------------------------------------------------------- */

static void four_workers_and_a_queue_of_ten_take_fourteen_of_twenty(void **state)
{
    struct weir_pool *p = open_pool(4, 10, NULL);
    int granted = 0, refused = 0;

    (void)state;
    for (int i = 0; i < 20; i++) { /* at once: no worker need have woken up */
        const struct weir_verdict v = submit(p, i);

        granted += v.allowed;
        refused += v.reason == WEIR_QUEUE_FULL && !v.allowed && v.retry_after_ns == 0;
        assert_int_equal(v.limit, 14);
        assert_int_equal(v.remaining, i < 14 ? 13 - i : 0);
    }
    assert_int_equal(granted, 14);
    assert_int_equal(refused, 6);
    see_waiting(4);
    assert_int_equal(stats_of(p).running, 4);
    assert_int_equal(stats_of(p).queued, 10);
    open_gate(20);
    assert_int_equal(weir_pool_drain(p, WEIR_FOREVER), 0);
    assert_int_equal(stats_of(p).ran, 14);
    assert_int_equal(stats_of(p).refused, 6);
    assert_int_equal(book.n, 14);
    weir_pool_close(p);
}

static void *take_a_while(void *arg)
{
    (void)usleep(100000);
    atomic_fetch_add((_Atomic int *)arg, 1);
    return NULL;
}

static void so_it_is_with_tasks_that_take_time(void **state)
{
    _Atomic int ran = 0;
    const struct weir_task task = {.run = take_a_while, .arg = &ran};
    struct weir_pool *p = open_pool(4, 10, NULL);
    struct weir_verdict v;
    int granted = 0;

    (void)state;
    for (int i = 0; i < 20; i++) {
        assert_int_equal(weir_pool_submit(p, &task, &v), 0);
        granted += v.allowed;
    }
    assert_int_equal(granted, 14);
    assert_int_equal(weir_pool_drain(p, WEIR_FOREVER), 0);
    assert_int_equal(ran, 14);
    weir_pool_close(p);
}

static void tasks_begin_in_the_order_they_came(void **state)
{
    struct weir_pool *p = open_pool(1, 40, NULL);

    (void)state;
    for (int i = 0; i < 40; i++)
        assert_true(submit(p, i).allowed);
    open_gate(40);
    assert_int_equal(weir_pool_drain(p, WEIR_FOREVER), 0);
    for (int i = 0; i < 40; i++)
        assert_int_equal(book.began[i], i);
    weir_pool_close(p);
}

static void a_pool_without_a_queue_has_room_for_its_workers(void **state)
{
    struct weir_pool *p = open_pool(2, WEIR_NONE, NULL);

    (void)state;
    assert_true(submit(p, 1).allowed);
    assert_true(submit(p, 2).allowed);
    assert_false(submit(p, 3).allowed);
    open_gate(1);
    while (stats_of(p).ran < 1)
        (void)usleep(200);
    assert_true(submit(p, 4).allowed);
    open_gate(2);
    weir_pool_close(p);
}

/* ---- Results ------------------------------------------------------------------------------- */

static void a_caller_gets_its_result(void **state)
{
    struct weir_pool *p = open_pool(3, 10, NULL);
    const struct weir_task task = gated(7);
    struct weir_verdict v;
    void *result = NULL;

    (void)state;
    open_gate(1);
    assert_int_equal(weir_pool_call(p, &task, WEIR_FOREVER, &result, &v), 0);
    assert_true(v.allowed);
    assert_int_equal((intptr_t)result, 7);
    weir_pool_close(p);
    assert_int_equal(book.discarded + book.fallbacks + book.dropped, 0);
}

static void a_late_result_is_discarded_once(void **state)
{
    struct weir_pool *p = open_pool(1, 10, NULL);
    const struct weir_task task = gated(7);
    int64_t timeout_ns = MS;
    struct weir_verdict v;
    void *result = &v;

    (void)state;
    do { /* until it has begun before its caller goes */
        assert_int_equal(weir_pool_call(p, &task, timeout_ns *= 2, &result, &v), 0);
        assert_false(v.allowed);
        assert_int_equal(v.reason, WEIR_OVERLOAD);
        assert_int_equal((intptr_t)result, CALLER);
    } while (begun() == 0);
    assert_int_equal(book.fallbacks, 1 + book.dropped);
    assert_int_equal(book.discarded, 0);
    open_gate(1);
    assert_int_equal(weir_pool_drain(p, WEIR_FOREVER), 0);
    assert_int_equal(book.discarded, 1);
    assert_int_equal(stats_of(p).late, 1);
    assert_int_equal(stats_of(p).cancelled, book.dropped);
    weir_pool_close(p);
}

static void a_task_that_has_not_begun_is_taken_back(void **state)
{
    struct weir_pool *p = open_pool(1, 1, NULL);
    const struct weir_task task = gated(9);
    struct weir_verdict v;

    (void)state;
    assert_true(submit(p, 1).allowed);
    see_waiting(1);
    assert_int_equal(weir_pool_call(p, &task, 5 * MS, NULL, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_OVERLOAD);
    assert_int_equal(book.fallbacks, 1);
    assert_int_equal(book.dropped, 1);
    assert_int_equal(book.cancelled[0], 9);
    assert_true(submit(p, 2).allowed); /* its place is free again */
    open_gate(2);
    assert_int_equal(weir_pool_drain(p, WEIR_FOREVER), 0);
    assert_int_equal(book.n, 2);
    assert_int_equal(book.began[1], 2);
    weir_pool_close(p);
}

static void a_refused_task_gets_the_fallback(void **state)
{
    struct weir_pool *p = open_pool(1, WEIR_NONE, NULL);
    const struct weir_task task = gated(2);
    void *result = &p;

    (void)state;
    assert_true(submit(p, 1).allowed);
    assert_int_equal(weir_pool_call(p, &task, WEIR_FOREVER, &result, NULL), 0);
    assert_null(result);
    assert_int_equal(book.fallbacks, 1);
    assert_int_equal(book.reason, WEIR_QUEUE_FULL);
    assert_int_equal(book.dropped, 0); /* it was never let in */
    open_gate(1);
    weir_pool_close(p);
}

/* ---- The end ------------------------------------------------------------------------------- */

static void drain_runs_what_is_in_and_lets_no_task_in(void **state)
{
    struct weir_pool *p = open_pool(2, 10, NULL);
    struct weir_verdict v;

    (void)state;
    for (int i = 0; i < 6; i++)
        assert_true(submit(p, i).allowed);
    see_waiting(2);
    assert_int_equal(weir_pool_drain(p, 5 * MS), 6);
    v = submit(p, 7);
    assert_false(v.allowed);
    assert_int_equal(v.reason, WEIR_QUEUE_FULL);
    assert_int_equal(v.retry_after_ns, -1);
    open_gate(6);
    assert_int_equal(weir_pool_drain(p, SOON), 0);
    assert_int_equal(book.n, 6);
    assert_int_equal(book.dropped, 0);
    weir_pool_close(p);
}

static void *stop_pool(void *pool)
{
    return (void *)(intptr_t)weir_pool_stop(pool);
}

static void stop_cancels_waiting_tasks_and_waits_for_running_ones(void **state)
{
    struct weir_pool *p = open_pool(2, 10, NULL);
    struct pool_caller c;
    pthread_t stopper;
    void *dropped;

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(submit(p, i).allowed);
    see_waiting(2);
    begin_call(&c, p, 5, WEIR_FOREVER);
    see_queued(p, 4);
    assert_int_equal(pthread_create(&stopper, NULL, stop_pool, p), 0);
    end_call(&c);                                /* its caller need not wait for running tasks */
    assert_int_equal(c.v.reason, WEIR_OVERLOAD); /* not QUEUE_FULL: it was let in */
    assert_int_equal(c.v.retry_after_ns, -1);
    assert_int_equal(book.fallbacks, 1);
    assert_false(submit(p, 6).allowed);
    open_gate(2);
    (void)pthread_join(stopper, &dropped);
    assert_int_equal((intptr_t)dropped, 4);
    assert_int_equal(book.dropped, 4);
    assert_int_equal(book.n, 2);
    assert_int_equal(stats_of(p).ran, 2);
    assert_int_equal(stats_of(p).cancelled, 4);
    assert_int_equal(stats_of(p).queued + stats_of(p).running, 0);
    weir_pool_close(p);
}

static void close_is_a_stop(void **state)
{
    struct weir_pool *p = open_pool(1, 10, NULL);

    (void)state;
    open_gate(1);
    for (int i = 0; i < 8; i++)
        assert_true(submit(p, i).allowed);
    while (begun() == 0)
        (void)usleep(200);
    open_gate(MOST);
    weir_pool_close(p);
    assert_int_equal(book.n + book.dropped, 8);
    weir_pool_close(NULL);
}

/* ---- Pace ---------------------------------------------------------------------------------- */

static struct {
    _Atomic int n;
    int64_t at_ns[MOST];
} starts;

static void *note_start(void *arg)
{
    (void)arg;
    starts.at_ns[atomic_fetch_add(&starts.n, 1)] = weir_now(NULL);
    return NULL;
}

static int by_time(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static void paced_work_leaves_no_faster_than_its_pace(void **state)
{
    static const struct weir_task TASK = {.run = note_start};
    struct weir_pool *p = open_pool(3, 30, "pacer 200/s queue=1");
    int64_t t0;

    (void)state;
    starts.n = 0;
    t0 = weir_now(NULL);
    for (int i = 0; i < 12; i++)
        assert_int_equal(weir_pool_submit(p, &TASK, NULL), 0);
    assert_int_equal(weir_pool_drain(p, WEIR_FOREVER), 0);
    assert_int_equal(starts.n, 12);
    qsort(starts.at_ns, 12, sizeof starts.at_ns[0], by_time);
    for (int i = 0; i < 12; i++)
        assert_true(starts.at_ns[i] >= t0 + i * 5 * MS);
    weir_pool_close(p);
}

static void stop_does_not_wait_for_turns(void **state)
{
    struct weir_pool *p = open_pool(2, 30, "pacer 1/h");

    (void)state;
    open_gate(1);
    for (int i = 0; i < 8; i++)
        assert_true(submit(p, i).allowed);
    while (stats_of(p).ran < 1)
        (void)usleep(200);
    assert_int_equal(weir_pool_stop(p), 7);
    assert_int_equal(book.n, 1);
    weir_pool_close(p);
}

static void in_a_paced_pool_too_a_task_is_taken_back(void **state)
{
    struct weir_pool *p = open_pool(1, 1, "pacer 20/s");
    const struct weir_task task = gated(2);
    struct weir_verdict v;

    (void)state;
    open_gate(MOST);
    assert_true(submit(p, 1).allowed);
    while (stats_of(p).ran < 1)
        (void)usleep(200);
    assert_int_equal(weir_pool_call(p, &task, 1, NULL, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(book.dropped, 1);
    assert_true(submit(p, 3).allowed);
    assert_int_equal(weir_pool_drain(p, WEIR_FOREVER), 0);
    assert_int_equal(book.n, 2);
    assert_int_equal(book.began[1], 3);
    weir_pool_close(p);
}

/* ---- Options ------------------------------------------------------------------------------- */

static void options_are_checked(void **state)
{
    static const struct {
        struct weir_pool_options o;
        int error;
    } ROWS[] = {
        {{-1, 0, NULL}, WEIR_EINVAL},      {{5000, 0, NULL}, WEIR_EINVAL},
        {{1, -2, NULL}, WEIR_EINVAL},      {{1, INT64_MAX, NULL}, WEIR_EINVAL},
        {{1, 1, "50/s"}, WEIR_EINVAL},     {{1, 1, "pacer 50/s + 1/s"}, WEIR_EINVAL},
        {{1, 1, "pacer"}, WEIR_ESYNTAX},   {{0, 0, NULL}, 0},
        {{1, WEIR_NONE, "pacer 50/s"}, 0},
    };
    const struct weir_task nothing = {0};

    (void)state;
    for (size_t i = 0; i < LENGTH(ROWS); i++) {
        struct weir_pool *p = NULL;
        struct weir_diag why = {0, ""};

        assert_int_equal(weir_pool_open(&p, &ROWS[i].o, &why), ROWS[i].error);
        assert_int_equal(why.text[0] != '\0', ROWS[i].error != 0);
        assert_int_equal(p != NULL, ROWS[i].error == 0);
        if (p) {
            assert_int_equal(weir_pool_submit(p, &nothing, NULL), WEIR_EINVAL);
            assert_int_equal(weir_pool_call(p, &nothing, 0, NULL, NULL), WEIR_EINVAL);
        }
        weir_pool_close(p);
    }
}

static void a_childs_pool_refuses(void **state)
{
    struct weir_pool *p = open_pool(2, 10, NULL);
    pid_t child;
    int status = 1;

    (void)state;
    assert_true(submit(p, 1).allowed);
    see_waiting(1);
    child = fork();
    if (child == 0) {
        const struct weir_task task = gated(2);
        struct weir_verdict v = {.allowed = true};

        if (weir_pool_submit(p, &task, &v) != 0 || v.allowed || v.retry_after_ns != -1)
            _exit(2);
        if (weir_pool_drain(p, WEIR_FOREVER) != 0 || weir_pool_stop(p) != 0)
            _exit(3);
        weir_pool_close(p);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    open_gate(1);
    weir_pool_close(p);
}

/* ---- A storm ------------------------------------------------------------------------------- */

/* Tasks that count what becomes of them. */
struct grain {
    _Atomic int ran, cancelled, discarded, got, fell_back;
};

static void *grain_run(void *arg)
{
    struct grain *g = arg;

    atomic_fetch_add(&g->ran, 1);
    if ((uintptr_t)g % 256 == 0)
        (void)usleep(50);
    return g;
}

static void grain_cancelled(void *arg)
{
    atomic_fetch_add(&((struct grain *)arg)->cancelled, 1);
}

static void grain_discarded(void *result)
{
    atomic_fetch_add(&((struct grain *)result)->discarded, 1);
}

static void *grain_fallback(void *arg, const struct weir_verdict *v)
{
    (void)v;
    atomic_fetch_add(&((struct grain *)arg)->fell_back, 1);
    return NULL;
}

#define GRAINS 512
static struct grain grains[TEAM_SIZE][GRAINS];

static void rain(struct team_thread *me)
{
    struct weir_pool *p = me->arg;

    for (int i = 0; i < GRAINS; i++) {
        struct grain *g = &grains[me->number][i];
        const struct weir_task task = {grain_run, g, grain_cancelled, grain_discarded,
                                       grain_fallback};
        const int64_t timeouts[] = {0, 1000, 20000, 200000, WEIR_FOREVER};
        struct weir_verdict v;
        void *result = NULL;

        if (team_roll(me, 3) == 0) {
            me->errors += weir_pool_submit(p, &task, &v) != 0;
            g->fell_back = !v.allowed;
        } else {
            me->errors += weir_pool_call(p, &task, timeouts[team_roll(me, 5)], &result, &v) != 0;
            me->errors += result != (v.allowed ? g : NULL);
            g->got = v.allowed;
        }
    }
}

/* Of each task: it ran or was cancelled, once, or was refused; and its result went to one place. */
static bool adds_up(const struct grain *g)
{
    if (g->ran > 1 || g->cancelled > 1 || g->ran + g->cancelled > 1)
        return false;
    if (g->ran + g->cancelled == 0)
        return g->fell_back == 1 && g->got + g->discarded == 0;
    if (g->cancelled)
        return g->got + g->discarded == 0;
    return g->got + g->discarded == 1 && g->got + g->fell_back <= 1;
}

static void no_task_is_lost_in_a_storm(void **state)
{
    static const char *const PACES[] = {NULL, "pacer 100k/s"};

    (void)state;
    for (size_t i = 0; i < LENGTH(PACES); i++) {
        struct weir_pool *p = open_pool(3, 4, PACES[i]);
        struct weir_pool_stats st;
        struct team_thread sum;

        memset(grains, 0, sizeof grains);
        team_run("storm", rain, p, 0, &sum);
        assert_int_equal(sum.errors, 0);
        (void)weir_pool_stop(p);
        st = stats_of(p);
        assert_int_equal(st.submitted, st.ran + st.cancelled);
        assert_int_equal(st.submitted + st.refused, TEAM_SIZE * GRAINS);
        weir_pool_close(p);
        for (int h = 0; h < TEAM_SIZE; h++)
            for (int k = 0; k < GRAINS; k++)
                assert_true(adds_up(&grains[h][k]));
    }
}

static void *drain_it(void *pool)
{
    (void)weir_pool_drain(pool, WEIR_FOREVER);
    return NULL;
}

static void *stop_it(void *pool)
{
    (void)weir_pool_stop(pool);
    return NULL;
}

/* A thread that is cancelled while it waits does not keep the pool's lock. */
static void a_pool_outlives_a_caller_cancelled_while_it_waits(void **state)
{
    void *(*const WAYS[])(void *) = {drain_it, stop_it};

    (void)state;
    for (size_t i = 0; i < LENGTH(WAYS); i++) {
        const struct weir_task task = {.run = pass_gate};
        struct weir_pool *p;
        struct weir_pool_stats s;
        pthread_t thread;

        clear_book();
        assert_int_equal(
            weir_pool_open(&p, &(struct weir_pool_options){.threads = 1, .queue = 1}, NULL), 0);
        assert_int_equal(weir_pool_submit(p, &task, NULL), 0);
        see_waiting(1);
        assert_int_equal(pthread_create(&thread, NULL, WAYS[i], p), 0);
        do {
            struct weir_verdict v; /* until it is shut, the waiter has not come */

            assert_int_equal(weir_pool_submit(p, &task, &v), 0);
            if (v.retry_after_ns < 0)
                break;
            (void)nanosleep(&(struct timespec){0, MS}, NULL);
        } while (true);
        (void)nanosleep(&(struct timespec){0, 20 * MS}, NULL); /* it waits by now */
        assert_int_equal(pthread_cancel(thread), 0);
        open_gate(2);
        (void)alarm(60); /* a lock that is left behind stops all that follow */
        weir_pool_stats(p, &s);
        assert_int_equal(pthread_join(thread, NULL), 0);
        weir_pool_close(p);
        (void)alarm(0);
    }
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(four_workers_and_a_queue_of_ten_take_fourteen_of_twenty),
    cmocka_unit_test(so_it_is_with_tasks_that_take_time),
    cmocka_unit_test(tasks_begin_in_the_order_they_came),
    cmocka_unit_test(a_pool_without_a_queue_has_room_for_its_workers),
    cmocka_unit_test(a_caller_gets_its_result),
    cmocka_unit_test(a_late_result_is_discarded_once),
    cmocka_unit_test(a_task_that_has_not_begun_is_taken_back),
    cmocka_unit_test(a_refused_task_gets_the_fallback),
    cmocka_unit_test(drain_runs_what_is_in_and_lets_no_task_in),
    cmocka_unit_test(stop_cancels_waiting_tasks_and_waits_for_running_ones),
    cmocka_unit_test(close_is_a_stop),
    cmocka_unit_test(a_pool_outlives_a_caller_cancelled_while_it_waits),
    cmocka_unit_test(paced_work_leaves_no_faster_than_its_pace),
    cmocka_unit_test(stop_does_not_wait_for_turns),
    cmocka_unit_test(in_a_paced_pool_too_a_task_is_taken_back),
    cmocka_unit_test(options_are_checked),
    cmocka_unit_test(a_childs_pool_refuses),
    cmocka_unit_test(no_task_is_lost_in_a_storm),
};

RUN("pools", TESTS)
