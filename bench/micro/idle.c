/* Waits for an idle machine, by the ticks in /proc/stat. */
#include "idle.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "stopwatch.h"

enum { LOOKS_MOST = 300 }; /* over all runs of a program */
static const struct timespec LOOK = {.tv_nsec = 100000000};
static const double BUSY_MOST = 0.12;

struct cores {
    unsigned long long busy, idle; /* ticks, of all cores */
};

static struct cores cores_now(void)
{
    unsigned long long user = 0, nice = 0, system = 0, idle = 0, wait = 0;
    FILE *f = fopen("/proc/stat", "r");

    if (f) {
        if (fscanf(f, "cpu %llu %llu %llu %llu %llu", &user, &nice, &system, &idle, &wait) != 5)
            idle = 0;
        (void)fclose(f);
    }
    return (struct cores){user + nice + system, idle + wait};
}

/* The part of the next tenth of a second in which other programs run. */
static double busy_share(void)
{
    const struct cores before = cores_now();
    struct cores after;

    (void)nanosleep(&LOOK, NULL);
    after = cores_now();
    if (after.busy + after.idle <= before.busy + before.idle)
        return 0; /* the system does not say */
    return (double)(after.busy - before.busy) /
           (double)(after.busy + after.idle - before.busy - before.idle);
}

void idle_wait(const char *bench, const char *scene, int run)
{
    static int looks;
    double busy;
    char what[128];

    if (getenv("BENCH_URGENT")) /* real-time priority: no other program runs meanwhile */
        return;
    busy = busy_share();
    for (; looks < LOOKS_MOST && busy > BUSY_MOST; looks++)
        busy = busy_share();
    (void)snprintf(what, sizeof what, "%s %s", bench, scene);
    emit("noise", what, "busy", run, busy > BUSY_MOST, 0);
}
