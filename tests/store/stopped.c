/* A worker that is stopped in the middle of a decision: a caller that needs the keys it has locked
 * gets the answer of their limit's fallback after 10 ms; all other keys work; and all is well when
 * it continues. And a worker that is stopped in the middle of a change: a caller that must read the
 * new limit does not wait either.
 *
 * The states are large, so that a caller that takes them holds their locks for most of the time: in
 * a shared table of states too large for a journal, all callers share the lock of the place where
 * they are saved.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "soak.h"
#include "stopped.h"

#define LARGE     "sliding-window 1000000000/1h slots=1000"
#define TRIES     2000
#define BUSY_NS   (SECOND / 100) /* what the engine waits */
#define BUSY_MOST (SECOND / 2)   /* what a laden machine makes of it */

struct stopped_verdict {
    int error;
    int64_t took_ns;
    struct weir_verdict v;
};

static struct stopped_verdict take(struct weir *w, struct weir_policy *policy, const char *key)
{
    const struct weir_request rq = {policy, key, strlen(key), 1, 0};
    const int64_t begun = soak_real_ns();
    struct stopped_verdict a;

    memset(&a, 0, sizeof a);
    a.error = weir_take_at(w, &rq, T0, &a.v);
    a.took_ns = soak_real_ns() - begun;
    return a;
}

static pid_t start_taker(const char *store)
{
    const pid_t child = fork();
    const struct weir_options o = {.store = store};
    struct weir_policy *p;
    struct weir *w;

    if (child != 0)
        return child;
    if (weir_open(&w, &o, NULL) != 0 || !(p = weir_policy_find(w, "local")))
        _exit(3);
    for (;;)
        (void)take(w, p, "held");
}

static bool complain(const char *what, const struct stopped_verdict *a)
{
    (void)printf("  FAIL a worker is stopped; %s: %s, %s %s after %.3f ms\n", what,
                 weir_error_name(a->error), a->v.allowed ? "granted" : "refused",
                 weir_reason_name(a->v.reason), (double)a->took_ns / 1e6);
    return false;
}

static bool waited_right(const struct stopped_verdict *a)
{
    return a->took_ns >= BUSY_NS / 2 && a->took_ns < BUSY_MOST;
}

/* The worker stands still and holds what the three of them need. */
static bool check_stopped(struct weir *w, struct weir_policy *const policy[4])
{
    struct stopped_verdict a = take(w, policy[0], "other");

    if (a.error != WEIR_EBUSY || !waited_right(&a))
        return complain("fallback=local", &a);
    a = take(w, policy[1], "other");
    if (a.error != 0 || !a.v.allowed || a.v.reason != WEIR_FALLBACK || !waited_right(&a))
        return complain("fallback=allow", &a);
    a = take(w, policy[2], "other");
    if (a.error != 0 || a.v.allowed || a.v.reason != WEIR_FALLBACK || a.v.retry_after_ns <= 0 ||
        !waited_right(&a))
        return complain("fallback=deny", &a);
    a = take(w, policy[3], "other");
    if (a.error != 0 || a.v.reason != WEIR_OK || a.took_ns > BUSY_MOST)
        return complain("a key that it does not hold", &a);
    return true;
}

static bool check_going_on(struct weir *w, struct weir_policy *const policy[4])
{
    const int64_t begun = soak_real_ns();

    for (int i = 0; i < 4; i++) {
        struct stopped_verdict a;

        do
            a = take(w, policy[i], "other");
        while ((a.error == WEIR_EBUSY || a.v.reason == WEIR_FALLBACK) &&
               soak_real_ns() - begun < SECOND);
        if (a.error != 0 || !a.v.allowed || a.v.reason != WEIR_OK)
            return complain("and goes on", &a);
    }
    return true;
}

static bool stop_and_ask(struct weir *w, struct weir_policy *const policy[4], pid_t taker)
{
    const struct timespec nap = {0, 200000};
    int status, tries = 0;
    bool good;

    for (;;) {
        struct stopped_verdict a;

        if (++tries > TRIES) {
            (void)printf("  FAIL no worker could be stopped in the midst of a decision\n");
            return false;
        }
        (void)nanosleep(&nap, NULL);
        (void)kill(taker, SIGSTOP);
        (void)waitpid(taker, &status, WUNTRACED);
        a = take(w, policy[0], "other");
        if (a.error == WEIR_EBUSY)
            break;
        (void)kill(taker, SIGCONT);
    }
    good = check_stopped(w, policy);
    (void)kill(taker, SIGCONT);
    good = check_going_on(w, policy) && good;
    (void)printf("  stopped in the midst of a decision at the %d. try\n", tries);
    return good;
}

bool stopped_worker(void)
{
    static const char *const limits[4][2] = {{"local", LARGE},
                                             {"allow", LARGE " fallback=allow"},
                                             {"deny", LARGE " fallback=deny"},
                                             {"small", "fixed-window 1000000000/1h"}};
    struct weir_policy *policy[4];
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store, .max_keys = 50};
    struct weir *w;
    pid_t taker;
    bool good;

    folder_store(store, "stopped");
    if (weir_open(&w, &o, NULL) != 0)
        return false;
    for (int i = 0; i < 4; i++)
        if (weir_policy_set_at(w, limits[i][0], limits[i][1], T0, &policy[i], NULL) != 0)
            return false;
    taker = start_taker(store);
    good = stop_and_ask(w, policy, taker);
    (void)kill(taker, SIGKILL);
    (void)waitpid(taker, NULL, 0);
    good = check_going_on(w, policy) && good;
    weir_close(w);
    return good;
}

/* ---- One who changes a limit ----------------------------------------------------------------- */

#define SETTER_TRIES 300
#define ASKERS       4

static void set_and_set(const char *store)
{
    const struct weir_options o = {.store = store};
    struct weir *w;

    if (weir_open(&w, &o, NULL) != 0)
        _exit(3);
    for (int i = 0;; i++)
        (void)weir_policy_set_at(
            w, "p", i % 2 ? "fixed-window 10/1h fallback=deny" : "fixed-window 20/1h fallback=deny",
            T0, NULL, NULL);
}

struct asker {
    pthread_t thread;
    struct weir *w;
    struct weir_policy *policy;
    struct stopped_verdict asked;
};

static void *ask_in_thread(void *asker)
{
    struct asker *a = asker;

    a->asked = take(a->w, a->policy, "key");
    return NULL;
}

/* Several threads at once: none waits for the others' waiting. */
static bool ask_together(struct weir *w, struct weir_policy *policy)
{
    struct asker a[ASKERS];
    bool good = true;

    for (int i = 0; i < ASKERS; i++) {
        a[i].w = w;
        a[i].policy = policy;
        (void)pthread_create(&a[i].thread, NULL, ask_in_thread, &a[i]);
    }
    for (int i = 0; i < ASKERS; i++) {
        (void)pthread_join(a[i].thread, NULL);
        if (a[i].asked.error != 0 || a[i].asked.took_ns > BUSY_MOST)
            good = complain("in the midst of a change", &a[i].asked);
    }
    return good;
}

static bool stop_setter(struct weir *w, struct weir_policy *policy, pid_t setter)
{
    const struct timespec nap = {0, 300000};
    bool good = true, caught = false;
    int status;

    for (int i = 0; i < SETTER_TRIES && !caught; i++) {
        struct stopped_verdict a;

        (void)nanosleep(&nap, NULL);
        (void)kill(setter, SIGSTOP);
        (void)waitpid(setter, &status, WUNTRACED);
        a = take(w, policy, "key");
        caught = a.error != 0 || a.v.reason == WEIR_FALLBACK || a.took_ns > BUSY_NS / 2;
        if (caught)
            good = ask_together(w, policy);
        (void)kill(setter, SIGCONT);
    }
    (void)printf("  %s\n",
                 caught ? "stopped in the middle of a change" : "no caller waits for a change");
    return good;
}

bool stopped_setter(void)
{
    char store[FOLDER_PATH];
    const struct weir_options o = {.store = store, .max_keys = 50};
    struct weir_policy *policy;
    struct weir *w;
    pid_t setter;
    bool good;

    folder_store(store, "changed");
    setter = fork();
    if (setter == 0)
        set_and_set(store);
    if (weir_open(&w, &o, NULL) != 0)
        return false;
    while (!(policy = weir_policy_find(w, "p")))
        (void)sched_yield();
    good = stop_setter(w, policy, setter);
    (void)kill(setter, SIGKILL);
    (void)waitpid(setter, NULL, 0);
    weir_close(w);
    return good;
}
