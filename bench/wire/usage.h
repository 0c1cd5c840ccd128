/* What the server and we have used of the machine, and what we waited for it. */
#ifndef WEIR_BENCH_USAGE_H
#define WEIR_BENCH_USAGE_H

#include <stdint.h>
#include <sys/types.h>

struct usage {
    int64_t wall_ns;
    int64_t server_cpu_ns, client_cpu_ns;   /* user and system, of all threads */
    int64_t server_wait_ns, client_wait_ns; /* ready to run, but somebody else had the core */
    int64_t server_user, server_system;     /* ticks: how that time divides, and no more */
    int64_t stolen_ns;                      /* all cores: the host gave them to others */
};

/* server 0: nobody's is looked at. */
struct usage usage_now(pid_t server);
struct usage usage_since(struct usage before, pid_t server);
/* The part of the server's time that it spent in the kernel, 0 to 1. */
double usage_system(const struct usage *u);
/* The part of the time that was lost to others, 0 to 1: the greatest of three. */
double usage_lost(const struct usage *u);

#endif
