/* The processor time that server and client have used, and how long they waited for a processor. */
#ifndef WEIR_BENCH_USAGE_H
#define WEIR_BENCH_USAGE_H

#include <stdint.h>
#include <sys/types.h>

struct usage {
    int64_t wall_ns;
    int64_t server_cpu_ns, client_cpu_ns;   /* user and system, of all threads */
    int64_t server_wait_ns, client_wait_ns; /* ready to run, while another process had the core */
    int64_t server_user, server_system;     /* ticks: only for the ratio of the two */
    int64_t stolen_ns;                      /* all cores: the host gave them to other machines */
};

/* server 0: only the client is measured. */
struct usage usage_now(pid_t server);
struct usage usage_since(struct usage before, pid_t server);
/* The part of the server's time that it spent in the kernel, 0 to 1. */
double usage_system(const struct usage *u);
/* The part of the time that was lost to others, 0 to 1: the largest of three. */
double usage_lost(const struct usage *u);

#endif
