/* Waits on a store that does not answer: no server listens at the port, or a server that never
 * replies. Each wait keeps its deadline, at most a timeout or two later, and notices signals.
 * Needs no Redis. */
#include "../unit/check.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <weir.h>

#define MS         INT64_C(1000000)
#define SECOND     (1000 * MS)
#define LATE_NS    (3 * SECOND) /* a machine may be busy; a wait that is stuck is later than that */
#define STUCK_S    120
#define LENGTH(a)  (sizeof(a) / sizeof *(a))
#define WAIT_NS    (400 * MS)
#define SIGNALS_MS 20

static int64_t mono_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

/* A port of our own: a server that listens and never replies, or no server. */
static int silent_port(bool listens, int *fd)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;

    *fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*fd >= 0);
    assert_int_equal(bind(*fd, (struct sockaddr *)&at, sizeof at), 0);
    if (listens)
        assert_int_equal(listen(*fd, 16), 0);
    assert_int_equal(getsockname(*fd, (struct sockaddr *)&at, &size), 0);
    return ntohs(at.sin_port);
}

static struct weir *open_silent(bool listens, int *fd)
{
    char store[100];
    struct weir_diag why = {0};
    struct weir *w = NULL;

    (void)snprintf(store, sizeof store, "redis://127.0.0.1:%d?timeout=50ms",
                   silent_port(listens, fd));
    assert_int_equal(weir_open(&w, &(struct weir_options){.store = store, .max_keys = 1000}, &why),
                     0);
    return w;
}

static struct weir_policy *policy(struct weir *w, const char *limit)
{
    struct weir_policy *p = NULL;
    struct weir_diag why = {0};

    assert_int_equal(weir_policy_set(w, "p", limit, &p, &why), 0);
    return p;
}

/* Two stores that are down, and each kind of fallback. */
static void a_wait_on_a_store_that_is_down_keeps_its_deadline(void **state)
{
    static const struct {
        const char *limit;
        bool second; /* whether the second is granted */
    } ROWS[] = {
        {"fixed-window 1/1h fallback=deny", false},
        {"token-bucket 1/1h fallback=deny", false},
        {"fixed-window 1/1h fallback=allow", true},
        {"fixed-window 1/1h", false},
        {"token-bucket 1/1h", false},
        {"pacer 10/s", true},
    };

    (void)state;
    for (int listens = 0; listens < 2; listens++)
        for (size_t i = 0; i < LENGTH(ROWS); i++) {
            int fd;
            struct weir *w = open_silent(listens, &fd);
            struct weir_policy *p = policy(w, ROWS[i].limit);
            const struct weir_request rq = weir_request_of(p, "k", 1);
            struct weir_verdict v;

            for (int n = 0; n < 2; n++) {
                const int64_t began_ns = mono_ns();

                assert_int_equal(weir_wait(w, &rq, weir_now(w) + WAIT_NS, &v), 0);
                assert_true(mono_ns() - began_ns < WAIT_NS + LATE_NS);
            }
            assert_int_equal(v.allowed, ROWS[i].second);
            weir_close(w);
            (void)close(fd);
        }
}

static void an_entry_on_a_store_that_is_down_keeps_its_deadline(void **state)
{
    static const char *const LIMITS[] = {"concurrency 1 queue=5 max-wait=400ms lease=60s",
                                         "concurrency 1 queue=5 max-wait=400ms lease=60s "
                                         "fallback=deny"};

    (void)state;
    for (int listens = 0; listens < 2; listens++)
        for (size_t i = 0; i < LENGTH(LIMITS); i++) {
            int fd;
            struct weir *w = open_silent(listens, &fd);
            const struct weir_request rq = weir_request_of(policy(w, LIMITS[i]), "k", 1);
            struct weir_ticket t[2];
            struct weir_verdict v;

            for (int n = 0; n < 2; n++) {
                const int64_t began_ns = mono_ns();

                assert_int_equal(weir_enter(w, &rq, &t[n], &v), 0);
                assert_true(mono_ns() - began_ns < WAIT_NS + LATE_NS);
            }
            assert_false(v.allowed);
            weir_close(w);
            (void)close(fd);
        }
}

/* ---- Signals --------------------------------------------------------------------------------- */

static void on_signal(int number)
{
    (void)number;
}

static _Atomic bool back;

struct deadline_waiter {
    struct weir *w;
    struct weir_request rq;
    int error;
};

static void *wait_forever(void *arg)
{
    struct deadline_waiter *me = arg;
    struct weir_verdict v;

    me->error = weir_wait(me->w, &me->rq, WEIR_FOREVER, &v);
    back = true;
    return NULL;
}

static void a_wait_on_a_store_that_is_down_hears_signals(void **state)
{
    const struct sigaction heard = {.sa_handler = on_signal};
    int fd;
    struct weir *w = open_silent(true, &fd);
    struct deadline_waiter me = {
        .w = w, .rq = weir_request_of(policy(w, "fixed-window 1/1h fallback=deny"), "k", 1)};
    pthread_t thread;

    (void)state;
    assert_int_equal(sigaction(SIGUSR1, &heard, NULL), 0);
    assert_int_equal(pthread_create(&thread, NULL, wait_forever, &me), 0);
    while (!back) { /* a signal during a command is not noticed: it sleeps later */
        (void)nanosleep(&(struct timespec){0, SIGNALS_MS * MS}, NULL);
        (void)pthread_kill(thread, SIGUSR1);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(me.error, WEIR_EINTR);
    weir_close(w);
    (void)close(fd);
}

static const struct CMUnitTest TESTS[] = {
    cmocka_unit_test(a_wait_on_a_store_that_is_down_keeps_its_deadline),
    cmocka_unit_test(an_entry_on_a_store_that_is_down_keeps_its_deadline),
    cmocka_unit_test(a_wait_on_a_store_that_is_down_hears_signals),
};

int main(void)
{
    const int all = (int)LENGTH(TESTS);
    int failed;

    (void)alarm(STUCK_S);
    failed = cmocka_run_group_tests_name("remote deadlines", TESTS, NULL, NULL);
    (void)printf("remote deadlines: %d passed, %d failed\n", all - failed, failed);
    return failed != 0;
}
