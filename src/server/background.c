/* Starting threads beside the loops, and their sleep. */
#include "server/background.h"

#include <errno.h>
#include <signal.h>
#include <time.h>

int background_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t all, before;
    int error;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    error = pthread_create(thread, NULL, run, arg);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

void background_condition_init(pthread_cond_t *woken)
{
    pthread_condattr_t monotonic;

    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(woken, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

struct timespec background_deadline(int64_t ms)
{
    struct timespec until;

    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    return until;
}

bool background_wait(pthread_cond_t *woken, pthread_mutex_t *lock, const struct timespec *until)
{
    return pthread_cond_timedwait(woken, lock, until) != ETIMEDOUT;
}
