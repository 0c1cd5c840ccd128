/* A monitor by itself, which a test commands line by line: monitors URL. It prints lines:
 *
 *     opened MS down|up        when weir__monitor_open has returned
 *     log LINE                 of health
 *     nodes N                  from a heartbeat's reply
 *
 * and the replies to `created SCOPE`, `address`, `fail WHY` (a caller's command has failed),
 * `fork`, `close`. At the end of the input, unless it was closed, it exits at once, as if it had
 * been killed.
 *
 * The resolver is the test's own: a lookup of "slow" waits until `release`, and "two" has two
 * addresses; no server listens at the first one.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "os/clock.h"
#include "redis/fallback/local.h"
#include "redis/monitor.h"

static struct weir__address address;
static struct weir__health health;
static struct weir__local_counts counts;
static struct weir__monitor *monitor;
static const char *who = ""; /* "child " in one */
static _Atomic int64_t nodes_told;

static _Atomic bool released;

int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                struct addrinfo **found)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
    void *const symbol = dlsym(RTLD_NEXT, "getaddrinfo");

    memcpy(&real, &symbol, sizeof real);
    if ((strcmp(node, "slow") != 0 && strcmp(node, "two") != 0) ||
        (hints && hints->ai_flags & AI_NUMERICHOST))
        return real(node, service, hints, found);
    while (strcmp(node, "slow") == 0 && !atomic_load(&released))
        (void)weir__clock_sleep(weir__clock_now() + WEIR__NS_PER_MS);
    if (strcmp(node, "slow") == 0 || real("127.0.0.2", service, hints, found) != 0)
        return real("127.0.0.1", service, hints, found);
    return real("127.0.0.1", service, hints, &(*found)->ai_next);
}

static int threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;

    while (tasks && readdir(tasks))
        n++;
    (void)closedir(tasks);
    return n - 2; /* . and .. */
}

static int threads_at_first; /* without the monitor's: a sanitizer has its own */

static void monitor_log(void *arg, const char *line)
{
    (void)arg;
    printf("%slog %s\n", who, line);
}

static void nodes_heard(void *arg, int64_t nodes)
{
    (void)arg;
    atomic_store(&counts.nodes, nodes);
    atomic_store(&nodes_told, nodes);
    printf("%snodes %" PRId64 "\n", who, nodes);
}

static long long ms_since(int64_t from_ns)
{
    return (weir__clock_now() - from_ns) / WEIR__NS_PER_MS;
}

static void close_all(void)
{
    const int64_t from_ns = weir__clock_now();

    weir__monitor_close(monitor);
    weir__health_close(&health);
    printf("%sclosed %lld\n", who, ms_since(from_ns));
}

/* Another node from here on; returns once it has been counted. */
static void be_a_child(void)
{
    who = "child ";
    atomic_store(&nodes_told, 0);
    weir__monitor_forked(monitor);
    printf("child runs %d\n", weir__monitor_is_running(monitor));
    weir__monitor_wake(monitor);
    for (int i = 0; i < 2000 && atomic_load(&nodes_told) == 0; i++)
        (void)weir__clock_sleep(weir__clock_now() + 5 * WEIR__NS_PER_MS);
    printf("child runs %d\n", weir__monitor_is_running(monitor));
    close_all();
    _exit(0); /* the child must not free what the parent's threads were using */
}

static void obey(char *line)
{
    struct weir__address shown;

    if (strncmp(line, "created ", 8) == 0) {
        const int64_t from_ns = weir__clock_now();
        const int64_t created_us = weir__monitor_created_us(monitor, line + 8, strlen(line + 8));

        printf("created %" PRId64 " %lld\n", created_us, ms_since(from_ns));
    } else if (strcmp(line, "address") == 0) {
        weir__monitor_address(monitor, &shown);
        printf("address %s\n", shown.host);
    } else if (strncmp(line, "fail ", 5) == 0) {
        weir__health_failed(&health, line + 5);
        weir__monitor_wake(monitor);
    } else if (strcmp(line, "fork") == 0) {
        const pid_t child = fork();

        if (child == 0)
            be_a_child();
        (void)waitpid(child, NULL, 0);
        printf("forked\n");
    } else if (strcmp(line, "close") == 0) {
        close_all();
        monitor = NULL;
    } else if (strcmp(line, "release") == 0) {
        atomic_store(&released, true);
        for (int i = 0; i < 2000 && monitor == NULL && threads() > threads_at_first; i++)
            (void)weir__clock_sleep(weir__clock_now() + 5 * WEIR__NS_PER_MS);
        printf("released %d\n", threads() - threads_at_first);
    }
}

int main(int argc, char **argv)
{
    const struct weir_log log = {monitor_log, NULL};
    const struct weir__monitor_options job = {&address, &health, nodes_heard, NULL};
    struct weir_diag why;
    int64_t from_ns;
    char line[512];

    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 2 || weir__address_parse(&address, argv[1], &why) != 0 ||
        weir__password_read(&address, address.password, &why) != 0) {
        fprintf(stderr, "keepers: %s\n", argc == 2 ? why.text : "a URL is expected");
        return 2;
    }
    (void)weir__health_open(&health, address.shown, &log);
    health.counts = &counts;
    from_ns = weir__clock_now();
    if (weir__monitor_open(&monitor, &job, &why) != 0) {
        printf("refused %s\n", why.text);
        return 1;
    }
    threads_at_first = threads() - 1;
    printf("opened %lld %s\n", ms_since(from_ns), weir__health_is_down(&health) ? "down" : "up");
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = '\0';
        obey(line);
    }
    if (monitor)
        _exit(0);
    return 0;
}
