/* A wall clock that is off: preloaded into a program, it adds SKEW_SECONDS to whatever asks for the
 * time of day. CLOCK_MONOTONIC and its like stay as they are: they count from nowhere in
 * particular, on any machine. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>

#define SEEN __attribute__((visibility("default")))

static time_t skew(void)
{
    const char *seconds = getenv("SKEW_SECONDS");

    return seconds ? (time_t)strtoll(seconds, NULL, 10) : 0;
}

SEEN int clock_gettime(clockid_t clock, struct timespec *t)
{
    int (*real)(clockid_t, struct timespec *);
    int error;

    *(void **)&real = dlsym(RTLD_NEXT, "clock_gettime");
    error = real(clock, t);
    if (error == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
        t->tv_sec += skew();
    return error;
}

SEEN int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
    int (*real)(struct timeval *, void *);
    int error;

    *(void **)&real = dlsym(RTLD_NEXT, "gettimeofday");
    error = real(t, zone);
    if (error == 0)
        t->tv_sec += skew();
    return error;
}

SEEN time_t time(time_t *t)
{
    struct timespec now = {0};

    (void)clock_gettime(CLOCK_REALTIME, &now);
    if (t)
        *t = now.tv_sec;
    return now.tv_sec;
}
