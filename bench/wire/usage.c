/* Reading the processor time of the server and of the client.
 *
 * Processor time comes from the clock that the kernel keeps for each process, to the nanosecond and
 * up to now, for all its threads. The work for a packet on its way through the loopback is done,
 * and counted, on the side of the sender.
 */
#include "usage.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "stopwatch.h"

static int64_t cpu_of(pid_t pid)
{
    clockid_t id;

    must(clock_getcpuclockid(pid, &id) == 0, "the server's processor time can be read");
    return clock_ns(id);
}

static int64_t wait_of_thread(const char *path)
{
    long long ran = 0, waited = 0;
    FILE *f = fopen(path, "r");

    if (!f)
        return 0; /* it has ended, or the system does not report it */
    if (fscanf(f, "%lld %lld", &ran, &waited) != 2)
        waited = 0;
    (void)fclose(f);
    return waited;
}

static int64_t wait_of(pid_t pid)
{
    char path[300];
    int64_t sum_ns = 0;
    const struct dirent *e;
    DIR *tasks;

    (void)snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks = opendir(path);
    if (!tasks)
        return 0;
    while ((e = readdir(tasks))) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "/proc/%d/task/%s/schedstat", (int)pid, e->d_name);
        sum_ns += wait_of_thread(path);
    }
    (void)closedir(tasks);
    return sum_ns;
}

static void divide(pid_t pid, struct usage *u)
{
    long long user = 0, system = 0;
    char path[64], line[1024] = "";
    const char *rest;
    FILE *f;

    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "r");
    if (!f)
        return;
    /* The name of the program is in brackets and may hold any bytes. */
    if (fgets(line, sizeof line, f) && (rest = strrchr(line, ')')) &&
        sscanf(rest, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user, &system) ==
            2) {
        u->server_user = user;
        u->server_system = system;
    }
    (void)fclose(f);
}

static int64_t stolen(void)
{
    unsigned long long ticks = 0;
    FILE *f = fopen("/proc/stat", "r");

    if (!f)
        return 0;
    if (fscanf(f, "cpu %*u %*u %*u %*u %*u %*u %*u %llu", &ticks) != 1)
        ticks = 0;
    (void)fclose(f);
    return (int64_t)ticks * (INT64_C(1000000000) / sysconf(_SC_CLK_TCK));
}

struct usage usage_now(pid_t server)
{
    struct usage u = {
        .wall_ns = clock_ns(CLOCK_MONOTONIC),
        .server_cpu_ns = server ? cpu_of(server) : 0,
        .client_cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID),
        .server_wait_ns = server ? wait_of(server) : 0,
        .client_wait_ns = wait_of(getpid()),
        .stolen_ns = stolen(),
    };

    if (server)
        divide(server, &u);
    return u;
}

struct usage usage_since(struct usage before, pid_t server)
{
    const struct usage now = usage_now(server);

    return (struct usage){
        .wall_ns = now.wall_ns - before.wall_ns,
        .server_cpu_ns = now.server_cpu_ns - before.server_cpu_ns,
        .client_cpu_ns = now.client_cpu_ns - before.client_cpu_ns,
        .server_wait_ns = now.server_wait_ns - before.server_wait_ns,
        .client_wait_ns = now.client_wait_ns - before.client_wait_ns,
        .server_user = now.server_user - before.server_user,
        .server_system = now.server_system - before.server_system,
        .stolen_ns = now.stolen_ns - before.stolen_ns,
    };
}

double usage_system(const struct usage *u)
{
    const int64_t all = u->server_user + u->server_system;

    return all > 0 ? (double)u->server_system / (double)all : 0;
}

double usage_lost(const struct usage *u)
{
    int64_t most_ns = u->stolen_ns;

    if (u->server_wait_ns > most_ns)
        most_ns = u->server_wait_ns;
    if (u->client_wait_ns > most_ns)
        most_ns = u->client_wait_ns;
    return u->wall_ns > 0 ? (double)most_ns / (double)u->wall_ns : 0;
}
