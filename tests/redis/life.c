/* Engines on a Redis open and close, and processes fork: nothing is left behind, and all of them go
 * on.
 *
 *     remote_life redis+unix:/path
 */
#include "../engine/backend.h"
#include "observer.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILD_S 20 /* a child that has not ended by then hangs */

static int entries(const char *folder)
{
    DIR *d = opendir(folder);
    int n = 0;

    assert_non_null(d);
    while (readdir(d))
        n++;
    (void)closedir(d);
    return n;
}

/* A thread that has been joined may still be seen for a moment. */
static void assert_threads(int wanted)
{
    const int64_t end = mono_ns() + 5 * SECOND;

    while (entries("/proc/self/task") != wanted && mono_ns() < end)
        nap(MS);
    assert_int_equal(entries("/proc/self/task"), wanted);
}

/* ---- Opening and closing --------------------------------------------------------------------- */

static void a_thousand_engines_leave_nothing_behind(void **state)
{
    const int files = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    const int64_t begin = mono_ns();

    (void)state;
    for (int i = 0; i < 1000; i++) {
        struct weir *w = open_there("");
        struct weir_policy *p = policy(w, "p", i % 2 ? "token-bucket 1/1h" : "pacer 1/1h slack=3");

        if (i % 3 == 0)
            (void)take_now(w, p, "k", 1);
        weir_close(w);
    }
    print_message("  %.2f ms each\n", (double)(mono_ns() - begin) / 1e9);
    assert_int_equal(entries("/proc/self/fd"), files);
    assert_threads(threads);
    assert_int_equal(observer_number("EXISTS weir:1:{fleet}:nodes"), 0);
}

static void engines_without_a_store_leave_nothing_behind_either(void **state)
{
    const struct weir_options o = {.store = "redis+unix:/nowhere/at/all?timeout=5ms"};
    const int files = entries("/proc/self/fd"), threads = entries("/proc/self/task");

    (void)state;
    for (int i = 0; i < 50; i++) {
        struct weir_diag why = {0};
        struct weir_remote_stats s;
        struct weir *w = NULL;

        assert_int_equal(weir_open(&w, &o, &why), 0);
        assert_true(take_now(w, policy(w, "p", "token-bucket 3/1h"), "k", 3).allowed);
        weir_remote_stats(w, &s);
        assert_true(s.remote && s.down && s.outages == 1 && s.fell_back == 1);
        weir_close(w);
    }
    assert_int_equal(entries("/proc/self/fd"), files);
    assert_threads(threads);
}

static void engines_of_one_process_are_nodes_each(void **state)
{
    enum { MANY = 20 };
    struct weir *w[MANY];
    struct weir_remote_stats s = {0};
    const int64_t end = mono_ns() + 10 * SECOND;

    (void)state;
    for (int i = 0; i < MANY; i++)
        w[i] = open_there("");
    assert_int_equal(observer_number("ZCARD weir:1:{fleet}:nodes"), MANY);
    while (s.nodes != MANY && mono_ns() < end) {
        weir_remote_stats(w[0], &s);
        nap(5 * MS);
    }
    assert_int_equal(s.nodes, MANY);
    for (int i = 0; i < MANY; i++)
        weir_close(w[i]);
    assert_int_equal(observer_number("EXISTS weir:1:{fleet}:nodes"), 0);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

/* What a child does is its exit status; one that hangs is killed. The address sanitizer's allocator
 * stays locked in a child if another thread of the parent is in it: there the monitor may first
 * come to rest. */
static int child_of(int (*does)(struct weir *w, struct weir_policy *p), struct weir *w,
                    struct weir_policy *p)
{
    int status = 0;
    pid_t child;

    if (UNDER_ASAN)
        nap(300 * MS);
    child = fork();
    if (child == 0) {
        (void)signal(SIGALRM, SIG_DFL);
        (void)alarm(CHILD_S);
        _exit(does(w, p));
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    if (!WIFEXITED(status))
        fail_msg("a child was ended by signal %d", WTERMSIG(status));
    return WEXITSTATUS(status);
}

static int take_five(struct weir *w, struct weir_policy *p)
{
    int n = 0;

    for (int i = 0; i < 5; i++) {
        const struct weir_request rq = request_for(p, "k", 1, 0);
        struct weir_verdict v;

        if (weir_take(w, &rq, &v) != 0)
            return 100;
        n += v.allowed;
    }
    return n;
}

static int take_five_and_close(struct weir *w, struct weir_policy *p)
{
    const int n = take_five(w, p);

    weir_close(w);
    return n;
}

static int grandchild(struct weir *w, struct weir_policy *p)
{
    const int mine = take_five(w, p);

    return 10 * mine + child_of(take_five_and_close, w, p);
}

static void a_child_goes_on_with_what_its_parent_opened(void **state)
{
    struct weir *w = open_there("&nodes=2"); /* so that no monitor makes shares anew meanwhile */
    struct weir_policy *p = policy(w, "forked", "token-bucket 17/1h");

    (void)state;
    assert_int_equal(take_five(w, p), 5);
    assert_int_equal(child_of(take_five, w, p), 5);
    assert_int_equal(child_of(take_five_and_close, w, p), 5);
    assert_int_equal(take_five(w, p), 2);
    assert_int_equal(child_of(grandchild, w, p), 0);
    assert_true(observer_number("ZCARD weir:1:{fleet}:nodes") >=
                1); /* the children have not taken it off */
    weir_close(w);
    (void)flush(NULL); /* nodes that did not say goodbye */
}

static int leave_alone(struct weir *w, struct weir_policy *p)
{
    (void)p;
    weir_close(w);
    return 0;
}

static void a_child_that_only_closes_leaves_its_parent_whole(void **state)
{
    struct weir *w = open_there("");
    struct weir_policy *p = policy(w, "closed", "token-bucket 5/1h");
    const struct weir_request rq =
        request_for(policy(w, "in", "concurrency 1 lease=60s"), "k", 1, 0);
    struct weir_ticket t, u;
    struct weir_verdict v;

    (void)state;
    assert_int_equal(weir_enter(w, &rq, &t, &v), 0);
    assert_int_equal(child_of(leave_alone, w, p), 0);
    assert_int_equal(take_five(w, p), 5);
    assert_int_equal(weir_enter(w, &rq, &u, &v), 0);
    assert_false(v.allowed);
    assert_int_equal(weir_exit(w, &t, WEIR_SUCCESS), 0);
    assert_int_equal(weir_enter(w, &rq, &u, &v), 0);
    assert_true(v.allowed);
    assert_int_equal(weir_exit(w, &u, WEIR_SUCCESS), 0);
    weir_close(w);
    assert_int_equal(observer_number("EXISTS weir:1:{fleet}:nodes"), 0);
}

static struct weir *shared;
static struct weir_policy *busy;
static _Atomic bool over;

static void *take_all_the_time(void *arg)
{
    (void)arg;
    while (!over) {
        const struct weir_request rq = request_for(busy, "k", 1, 0);
        struct weir_verdict v;

        if (weir_take(shared, &rq, &v) != 0)
            abort();
    }
    return NULL;
}

static void children_of_a_busy_parent_go_on(void **state)
{
    enum { THREADS = 4, CHILDREN = 40 };
    pthread_t thread[THREADS];
    struct weir_remote_stats s;

    (void)state;
    if (UNDER_ASAN) /* its allocator may be locked by a thread that the child does not have */
        skip();
    shared = open_there("");
    busy = policy(shared, "busy", "token-bucket 1000000000/1h");
    over = false;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, take_all_the_time, NULL), 0);
    for (int i = 0; i < CHILDREN; i++)
        assert_int_equal(child_of(i % 2 ? take_five : take_five_and_close, shared, busy), 5);
    over = true;
    for (int i = 0; i < THREADS; i++)
        (void)pthread_join(thread[i], NULL);
    weir_remote_stats(shared, &s);
    print_message("  %llu decisions of the parent meanwhile\n", (unsigned long long)s.asked);
    assert_true(s.asked > 0 && s.failed == 0 && s.outages == 0);
    weir_close(shared);
    (void)flush(NULL);
}

static void a_child_of_a_process_without_a_store_falls_back(void **state)
{
    const struct weir_options o = {.store = "redis+unix:/nowhere/at/all?timeout=5ms"};
    struct weir *w = NULL;
    struct weir_policy *p;

    (void)state;
    assert_int_equal(weir_open(&w, &o, NULL), 0);
    p = policy(w, "p", "token-bucket 3/1h");
    assert_int_equal(child_of(take_five, w, p), 3); /* private stores are two then */
    assert_int_equal(child_of(take_five_and_close, w, p), 3);
    assert_int_equal(take_five(w, p), 3);
    weir_close(w);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_thousand_engines_leave_nothing_behind),
    cmocka_unit_test(engines_without_a_store_leave_nothing_behind_either),
    cmocka_unit_test(engines_of_one_process_are_nodes_each),
    cmocka_unit_test(a_child_goes_on_with_what_its_parent_opened),
    cmocka_unit_test(a_child_that_only_closes_leaves_its_parent_whole),
    cmocka_unit_test(children_of_a_busy_parent_go_on),
    cmocka_unit_test(a_child_of_a_process_without_a_store_falls_back),
};

RUN_BESIDE("remote life", TESTS)
