/* One limit over the traffic of a log: an engine of its own in virtual time, and what it did. */
#ifndef WEIR_SIM_REPLAY_RUN_H
#define WEIR_SIM_REPLAY_RUN_H

#include <weir.h>

#include "sim/events.h"
#include "sim/picture/timeline.h"
#include "sim/replay/arrivals.h"

/* The most memory that the windows of a run take; after that, worst_ends says when they ended. */
#define RUN_WINDOW_BYTES (INT64_C(512) << 20)

/* Requests, and what they cost. */
struct run_count {
    int64_t asked, passed, delayed, refused;
    int64_t cost_asked, cost_passed, cost_refused;
};

/* The most of one term that passed in any window of its period. */
struct run_worst {
    int64_t most, count, period_ns;
    uint32_t client;
};

struct run {
    struct weir_limit limit;
    char text[WEIR_LIMIT_TEXT_MAX + 1]; /* the limit as it is printed */
    struct run_count all;
    int64_t clients_refused;
    int64_t longest_wait_ns;
    uint32_t longest_client;
    int64_t shadowed;  /* passed, but refused without shadow */
    int64_t crowded;   /* decided without a place in a full store */
    int64_t wrongful;  /* refused, and a sliding log of the same rate would have passed it */
    bool has_wrongful; /* it was counted */
    bool worst_ends;   /* the windows grew too large: the worst is at least what it says */
    struct timeline timeline;
    struct run_count *client; /* by number */
    uint32_t clients;
    struct run_parts *parts;
};

/* Opens a run of the limit that begins at start_ns. `compares`: it counts wrongful refusals. False:
 * *error says why; guards are refused, because a log does not say when calls ended. */
bool run_open(struct run *r, const char *limit, uint32_t max_clients, int64_t start_ns,
              bool compares, struct sim_error *error);
void run_close(struct run *r);

/* Decides one arrival. False: out of memory, or the engine failed. */
bool run_arrival(struct run *r, const struct arrival *a, struct sim_error *error);

/* The worst window of the term that is exceeded most. False: no term has one. */
bool run_worst(const struct run *r, struct run_worst *worst);

#endif
