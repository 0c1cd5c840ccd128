/* Unit tests of safe memory reclamation. */
#include "check.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/rcu.h"

/* The library's allocations come here: now and then there is no memory. */
static _Atomic bool no_memory;

void *aligned_alloc(size_t alignment, size_t size)
{
    void *p;

    if (atomic_load(&no_memory) || posix_memalign(&p, alignment, size) != 0)
        return NULL;
    return p;
}

static void start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    assert_int_equal(pthread_create(thread, NULL, run, arg), 0);
}

static void finish(pthread_t thread)
{
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void await(_Atomic bool *flag)
{
    while (!atomic_load(flag))
        (void)sched_yield();
}

/* ---- Waiting --------------------------------------------------------------------------------- */

/* A reader that stays inside until it is told to go. */
struct reader_thread {
    int depth; /* how often it has entered */
    _Atomic bool is_in, may_go, has_gone;
    struct weir__rcu_reader *record;
};

static void *read_inside(void *arg)
{
    struct reader_thread *g = arg;

    for (int i = 0; i < g->depth; i++)
        weir__rcu_enter();
    g->record = weir__rcu_self;
    atomic_store(&g->is_in, true);
    for (int i = 1; i < g->depth; i++)
        weir__rcu_exit(); /* it is still inside, once */
    await(&g->may_go);
    atomic_store(&g->has_gone, true);
    weir__rcu_exit();
    return NULL;
}

static void *let_go_in_a_while(void *arg)
{
    struct reader_thread *g = arg;

    for (int i = 0; i < 100; i++)
        (void)sched_yield();
    atomic_store(&g->may_go, true);
    return NULL;
}

/* The guest is in; returns once it has been waited for. */
static void wait_until_gone(struct reader_thread *g)
{
    pthread_t host;

    start(&host, let_go_in_a_while, g);
    weir__rcu_synchronize();
    assert_true(atomic_load(&g->has_gone));
    finish(host);
}

static void wait_for_reader(struct reader_thread *g)
{
    pthread_t guest;

    start(&guest, read_inside, g);
    await(&g->is_in);
    wait_until_gone(g);
    finish(guest);
}

static void an_empty_section_is_not_waited_for(void **state)
{
    (void)state;
    weir__rcu_synchronize();
    weir__rcu_enter();
    weir__rcu_exit();
    weir__rcu_synchronize();
}

static void a_reader_inside_is_waited_for(void **state)
{
    struct reader_thread g = {.depth = 1};

    (void)state;
    wait_for_reader(&g);
    assert_non_null(g.record);
}

static void an_inner_exit_is_not_the_outer_one(void **state)
{
    struct reader_thread g = {.depth = 3};

    (void)state;
    wait_for_reader(&g);
}

/* Guests come until the records that earlier threads left are all taken. */
static void a_thread_without_a_record_is_waited_for_too(void **state)
{
    enum { MOST = 32 };
    static struct reader_thread g[MOST];
    pthread_t thread[MOST];
    int n = 0;

    (void)state;
    atomic_store(&no_memory, true);
    do {
        assert_true(n < MOST);
        g[n].depth = 2;
        start(&thread[n], read_inside, &g[n]);
        await(&g[n].is_in);
    } while (g[n++].record);
    for (int i = 0; i < n - 1; i++)
        atomic_store(&g[i].may_go, true);
    wait_until_gone(&g[n - 1]);
    for (int i = 0; i < n; i++)
        finish(thread[i]);
    atomic_store(&no_memory, false);
}

/* ---- Records --------------------------------------------------------------------------------- */

static void *note_record(void *record)
{
    weir__rcu_enter();
    *(struct weir__rcu_reader **)record = weir__rcu_self;
    weir__rcu_exit();
    return NULL;
}

static void a_record_goes_from_thread_to_thread(void **state)
{
    struct weir__rcu_reader *first = NULL, *next = NULL;
    pthread_t thread;

    (void)state;
    start(&thread, note_record, &first);
    finish(thread);
    for (int i = 0; i < 50; i++) {
        start(&thread, note_record, &next);
        finish(thread);
        assert_ptr_equal(next, first);
    }
}

static void *die_inside(void *arg)
{
    weir__rcu_enter();
    return arg;
}

static void a_thread_that_died_inside_is_gone(void **state)
{
    pthread_t thread;

    (void)state;
    start(&thread, die_inside, NULL);
    finish(thread);
    weir__rcu_synchronize();
}

static void after_fork_the_parents_threads_are_gone(void **state)
{
    struct reader_thread g = {.depth = 1};
    pthread_t guest;
    pid_t child;
    int status;

    (void)state;
    start(&guest, read_inside, &g);
    await(&g.is_in);
    weir__rcu_enter();
    child = fork();
    if (child == 0) {
        weir__rcu_exit(); /* this thread's own word has come along */
        weir__rcu_synchronize();
        _exit(0);
    }
    weir__rcu_exit();
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    atomic_store(&g.may_go, true);
    finish(guest);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static void *come_and_go(void *arg)
{
    struct reader_thread *g = arg;

    while (!atomic_load(&g->may_go)) {
        weir__rcu_enter();
        atomic_store(&g->is_in, true);
        weir__rcu_exit();
    }
    return NULL;
}

static void give_time(void)
{
    for (int i = 0; i < 1000; i++)
        (void)sched_yield();
}

/* One reader has been inside before the fork; another is new. */
static void no_reader_enters_during_a_fork(void **state)
{
    struct reader_thread known = {0}, new = {0};
    pthread_t thread[2];

    (void)state;
    start(&thread[0], come_and_go, &known);
    await(&known.is_in);
    for (int i = 0; i < 100; i++) {
        weir__rcu_stop();
        atomic_store(&known.is_in, false);
        if (i == 0)
            start(&thread[1], come_and_go, &new);
        give_time();
        assert_false(atomic_load(&known.is_in) || (i == 0 && atomic_load(&new.is_in)));
        weir__rcu_resume();
        await(&known.is_in);
        await(&new.is_in);
    }
    atomic_store(&known.may_go, true);
    atomic_store(&new.may_go, true);
    finish(thread[0]);
    finish(thread[1]);
}

static void a_fork_waits_for_a_reader_inside(void **state)
{
    struct reader_thread g = {.depth = 2};
    pthread_t guest, host;

    (void)state;
    start(&guest, read_inside, &g);
    await(&g.is_in);
    start(&host, let_go_in_a_while, &g);
    weir__rcu_stop();
    assert_true(atomic_load(&g.has_gone));
    weir__rcu_resume();
    finish(host);
    finish(guest);
}

static void *enter_again(void *arg)
{
    struct reader_thread *g = arg;

    weir__rcu_enter();
    atomic_store(&g->is_in, true);
    await(&g->may_go);
    give_time(); /* the fork begins to wait */
    weir__rcu_enter();
    weir__rcu_exit();
    atomic_store(&g->has_gone, true);
    weir__rcu_exit();
    return NULL;
}

static void a_reader_inside_may_enter_again_while_a_fork_waits(void **state)
{
    struct reader_thread g = {0};
    pthread_t guest;

    (void)state;
    start(&guest, enter_again, &g);
    await(&g.is_in);
    atomic_store(&g.may_go, true);
    weir__rcu_stop();
    assert_true(atomic_load(&g.has_gone));
    weir__rcu_resume();
    finish(guest);
}

/* A program's own handlers of fork() may decide. */
static void the_thread_that_forks_may_enter(void **state)
{
    (void)state;
    weir__rcu_stop();
    weir__rcu_enter();
    weir__rcu_exit();
    weir__rcu_resume();
}

/* ---- What it is for -------------------------------------------------------------------------- */

#define SOUND  0x5eedU
#define ROUNDS 400

struct thing {
    unsigned a, b;
};

static struct thing *_Atomic shown;
static _Atomic bool over;

static struct thing *thing_make(unsigned n)
{
    struct thing *t = malloc(sizeof *t);

    assert_non_null(t);
    *t = (struct thing){n, n ^ SOUND};
    return t;
}

static void *read_things(void *sound)
{
    while (!atomic_load(&over)) {
        const struct thing *t;

        weir__rcu_enter();
        t = atomic_load_explicit(&shown, memory_order_acquire);
        if ((t->a ^ t->b) != SOUND)
            atomic_store((_Atomic bool *)sound, false);
        weir__rcu_exit();
    }
    return NULL;
}

static void what_was_replaced_is_not_seen_after_the_wait(void **state)
{
    _Atomic bool sound = true;
    pthread_t thread[4];

    (void)state;
    atomic_store(&shown, thing_make(0));
    for (int i = 0; i < 4; i++)
        start(&thread[i], read_things, &sound);
    for (unsigned n = 1; n <= ROUNDS; n++) {
        struct thing *old = atomic_exchange(&shown, thing_make(n));

        weir__rcu_synchronize();
        *old = (struct thing){0, 0};
        free(old);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 4; i++)
        finish(thread[i]);
    free(atomic_load(&shown));
    assert_true(atomic_load(&sound));
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(an_empty_section_is_not_waited_for),
    cmocka_unit_test(a_reader_inside_is_waited_for),
    cmocka_unit_test(an_inner_exit_is_not_the_outer_one),
    cmocka_unit_test(a_record_goes_from_thread_to_thread),
    cmocka_unit_test(a_thread_that_died_inside_is_gone),
    cmocka_unit_test(after_fork_the_parents_threads_are_gone),
    cmocka_unit_test(no_reader_enters_during_a_fork),
    cmocka_unit_test(a_fork_waits_for_a_reader_inside),
    cmocka_unit_test(a_reader_inside_may_enter_again_while_a_fork_waits),
    cmocka_unit_test(the_thread_that_forks_may_enter),
    cmocka_unit_test(what_was_replaced_is_not_seen_after_the_wait),
    cmocka_unit_test(a_thread_without_a_record_is_waited_for_too),
};

RUN("readers", TESTS)
