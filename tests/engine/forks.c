/* Children of fork() that begin while other threads decide: each finds every key as its parent left
 * it, whether its table was growing, evicting, or being converted to another limit.
 *
 * Workers take from one new key after the other, and count a key once it has been charged. A child
 * begins at some moment of that, and asks for all keys that were counted by then: in a private
 * store none of them may have more left than it should; a file is its parent's, and has perhaps
 * moved on. */
#include "engine_test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* A thread that has ended and is not joined yet when fork() is called stays so in the child, which
 * cannot join it: that is no leak. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "report_thread_leaks=0";
}

#define WORKERS   2
#define ROUNDS    (UNDER_TSAN || UNDER_ASAN ? 3 : 8)
#define FORKS     (UNDER_TSAN || UNDER_ASAN ? 5 : 8) /* of one round */
#define KEYS_MOST 60000
#define WHOLE     10 /* every limit's events */
#define STUCK_S   (UNDER_TSAN || UNDER_ASAN ? 240 : 80)

struct scene {
    const char *name, *limit, *other; /* other: a third thread changes the limit to and fro */
    uint64_t max_keys;
    uint64_t keys;  /* of each worker */
    uint64_t whole; /* one key in so many uses its limit up; the others use one event */
};

static const struct scene GROWING = {
    "a table that grows", "token-bucket 10/1h", NULL, 200000, KEYS_MOST, 1};
static const struct scene EVICTING = {
    "a table that is full", "token-bucket 10/1h", NULL, 2000, 3000, 16};
static const struct scene LARGE = {
    "large states", "sliding-window 10/1h slots=120", NULL, 2000, 3000, 16};
static const struct scene CHANGING = {
    "a limit that changes", "token-bucket 10/1h", "token-bucket 10/2h", 200000, KEYS_MOST, 1};

struct worker {
    const struct scene *scene;
    struct weir *w;
    struct weir_policy *policy;
    uint64_t number;
    _Alignas(4096) _Atomic uint64_t done; /* on a page of its own: fork() copies page by page */
    _Atomic bool *over;
    bool charged[KEYS_MOST];
};

static uint64_t key_of(uint64_t worker, uint64_t i)
{
    return worker << 32 | i;
}

static int64_t cost_of(const struct scene *s, uint64_t i)
{
    return i % s->whole == 0 ? WHOLE : 1;
}

static void *charge_keys(void *arg)
{
    struct worker *me = arg;

    for (uint64_t i = 0; i < me->scene->keys && !atomic_load(me->over); i++) {
        const uint64_t key = key_of(me->number, i);
        const struct weir_request rq = {me->policy, &key, sizeof key, cost_of(me->scene, i), 0};
        struct weir_verdict v;

        if (weir_take_at(me->w, &rq, T0, &v) != 0)
            abort();
        me->charged[i] = v.allowed; /* in a full table its cells may refuse it */
        atomic_store(&me->done, i + 1);
    }
    return NULL;
}

static void *change_limit(void *arg)
{
    struct worker *me = arg;

    for (bool other = true; !atomic_load(me->over); other = !other)
        (void)backend_policy(me->w, "p", other ? me->scene->other : me->scene->limit, T0);
    return NULL;
}

/* In the child: how many keys have more left than they should. */
static uint64_t count_forgiven(struct worker *of)
{
    uint64_t forgiven = 0;

    for (uint64_t i = 0; i < atomic_load(&of->done); i++) {
        const uint64_t key = key_of(of->number, i);
        const int64_t left = WHOLE - cost_of(of->scene, i);
        const struct weir_request rq = {of->policy, &key, sizeof key, left + 1, 0};
        struct weir_verdict v;

        if (weir_take_at(of->w, &rq, T0, &v) != 0)
            return UINT64_MAX;
        forgiven += of->charged[i] && v.allowed;
    }
    return forgiven;
}

static int child_run(const struct scene *s, struct worker *worker)
{
    uint64_t forgiven = 0;

    (void)alarm(STUCK_S);
    for (int i = 0; i < WORKERS; i++)
        forgiven += count_forgiven(&worker[i]);
    if (forgiven > 0)
        (void)dprintf(STDERR_FILENO, "%s: of %llu + %llu keys %llu are forgiven\n", s->name,
                      (unsigned long long)atomic_load(&worker[0].done),
                      (unsigned long long)atomic_load(&worker[1].done),
                      (unsigned long long)forgiven);
    return forgiven > 0;
}

static int fork_and_ask(const struct scene *s, struct worker *worker)
{
    const pid_t child = fork();
    int status = -1;

    if (child == 0)
        _exit(child_run(s, worker));
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

static void play_round(const struct scene *s, unsigned pause_us)
{
    static struct worker worker[WORKERS + 1];
    struct weir *w = backend_open(&(struct weir_options){.max_keys = s->max_keys});
    struct weir_policy *p = backend_policy(w, "p", s->limit, T0);
    const int threads = WORKERS + (s->other != NULL);
    pthread_t thread[WORKERS + 1];
    _Atomic bool over = false;
    int failed = 0;

    for (int i = 0; i < threads; i++) {
        worker[i].scene = s;
        worker[i].w = w;
        worker[i].policy = p;
        worker[i].number = (uint64_t)i;
        worker[i].over = &over;
        atomic_store(&worker[i].done, 0);
        assert_int_equal(
            pthread_create(&thread[i], NULL, i < WORKERS ? charge_keys : change_limit, &worker[i]),
            0);
    }
    for (int i = 0; i < FORKS && !failed; i++) {
        (void)usleep(pause_us);
        failed = fork_and_ask(s, worker);
    }
    atomic_store(&over, true);
    for (int i = 0; i < threads; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    backend_close(w);
    assert_int_equal(failed, 0);
}

static void play(const struct scene *s)
{
    for (unsigned round = 0; round < ROUNDS; round++) {
        (void)alarm(STUCK_S);
        play_round(s, 100 + round * 97);
    }
    (void)alarm(0);
}

static void a_child_finds_every_key_of_a_table_that_grows(void **state)
{
    (void)state;
    play(&GROWING);
}

static void a_child_finds_what_was_evicted(void **state)
{
    (void)state;
    play(&EVICTING);
}

static void a_child_finds_large_states_whole(void **state)
{
    (void)state;
    play(&LARGE);
}

/* A child that must read the limit again allocates, which the sanitizers' allocator cannot if a
 * thread of the parent was just doing so. */
static void a_child_finds_keys_that_are_being_converted(void **state)
{
    (void)state;
    if (UNDER_ASAN || UNDER_TSAN)
        skip();
    play(&CHANGING);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_child_finds_every_key_of_a_table_that_grows),
    cmocka_unit_test(a_child_finds_what_was_evicted),
    cmocka_unit_test(a_child_finds_large_states_whole),
    cmocka_unit_test(a_child_finds_keys_that_are_being_converted),
};

RUN_BACKEND("forks", TESTS)
