/* Two processes under one limit, by sharing a file.
 *
 *     two_processes                a demonstration: a parent and its child, on a new file
 *     two_processes FILE           this process alone, on FILE: start it in several terminals
 *
 * Each process opens the file itself. Nothing else connects them, so unrelated programs can do the
 * same: they agree on a path (each user must be allowed to read and write the file) and on the name
 * of a policy. The first process creates the file. Killing a process does not block the others;
 * what was used stays used when all have ended, and after a reboot.
 */
#define _POSIX_C_SOURCE 200809L

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir.h>

#define LIMIT "token-bucket 1000/s burst=100"
static const int64_t burst = 100, per_ns = 1000000, run_ns = 500000000;

struct count {
    int64_t granted, asked;
    int64_t from_ns, to_ns; /* of the first request and the last, on the file's clock */
};

/* Asks as fast as it can for half a second. False if the engine does not open. */
static bool hammer(const char *path, struct count *c)
{
    char url[512];
    const struct weir_options options = {.store = url, .max_keys = 1000};
    struct weir *w;
    struct weir_policy *api;
    struct weir_diag why;

    snprintf(url, sizeof url, "file:%s", path);
    /* Setting the limit that is already in force changes nothing, so both may do it. */
    if (weir_open(&w, &options, &why) != 0 || weir_policy_set(w, "api", LIMIT, &api, &why) != 0) {
        fprintf(stderr, "%s\n", why.text);
        return false;
    }
    *c = (struct count){.from_ns = weir_now(w)};
    for (c->to_ns = c->from_ns; c->to_ns - c->from_ns < run_ns; c->to_ns = weir_now(w)) {
        const struct weir_request rq = weir_request_of(api, "everyone", strlen("everyone"));
        struct weir_verdict v;

        if (weir_take(w, &rq, &v) == 0)
            c->granted += v.allowed;
        c->asked++;
    }
    weir_close(w);
    return true;
}

static void print(const char *who, const struct count *c)
{
    printf("%-10s %" PRId64 " granted of %" PRId64 " asked\n", who, c->granted, c->asked);
}

/* The parent's share and the child's, and what the limit allows in the time that both took. */
static int demonstrate(const char *path)
{
    struct count mine, other;
    int64_t from_ns, to_ns, most;
    int ends[2];
    pid_t child;

    if (pipe(ends) != 0 || (child = fork()) < 0) {
        perror("two_processes");
        return 1;
    }
    if (child == 0) {
        const bool sent = hammer(path, &mine) && write(ends[1], &mine, sizeof mine) == sizeof mine;

        _exit(sent ? 0 : 1);
    }
    close(ends[1]); /* so that the read ends if the child does */
    if (!hammer(path, &mine) || read(ends[0], &other, sizeof other) != sizeof other)
        return 1;
    waitpid(child, NULL, 0);
    from_ns = mine.from_ns < other.from_ns ? mine.from_ns : other.from_ns;
    to_ns = mine.to_ns > other.to_ns ? mine.to_ns : other.to_ns;
    most = burst + (to_ns - from_ns) / per_ns;
    print("parent", &mine);
    print("child", &other);
    printf("%-10s %" PRId64 " granted; " LIMIT " allows %" PRId64 " in %" PRId64 " ms\n",
           "together", mine.granted + other.granted, most, (to_ns - from_ns) / 1000000);
    return mine.granted + other.granted > most;
}

int main(int argc, char **argv)
{
    char folder[] = "/tmp/two_processes.XXXXXX", path[64];
    int status;

    if (argc > 1) {
        struct count mine;

        if (!hammer(argv[1], &mine))
            return 1;
        print("this one", &mine);
        return 0;
    }
    if (!mkdtemp(folder)) {
        perror("mkdtemp");
        return 1;
    }
    snprintf(path, sizeof path, "%s/limits", folder);
    status = demonstrate(path);
    unlink(path);
    rmdir(folder);
    return status;
}
