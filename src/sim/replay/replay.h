/* A log through limits: what `weir replay` does. docs/reference/replay.md has the report. */
#ifndef WEIR_SIM_REPLAY_REPLAY_H
#define WEIR_SIM_REPLAY_REPLAY_H

#include <stdio.h>

#include "base/json.h"
#include "sim/replay/intake.h"
#include "sim/replay/run.h"

#define REPLAY_LIMITS_MAX 16
#define REPLAY_TOP_MAX    100
#define REPLAY_BUSIEST    5

struct replay_options {
    struct intake_options intake;
    int limits;
    const char *limit[REPLAY_LIMITS_MAX];
    bool compare; /* one table of all limits, with wrongful refusals */
    int64_t top;  /* how many clients are listed */
};

struct replay {
    struct replay_options options;
    struct intake *intake;
    bool words; /* after a failure: the options are wrong, not the log */
    int runs;
    struct run run[REPLAY_LIMITS_MAX];
};

/* Runs the log through the limits. False: *error says why. */
bool replay_run(struct replay *r, const struct replay_options *options, struct sim_error *error);
void replay_free(struct replay *r);

void replay_print(const struct replay *r, FILE *to);
void replay_json(const struct replay *r, FILE *to);

/* What advise prints of the log too: its head, and what it could not say. */
void replay_print_log(const struct intake *in, FILE *to);
void replay_json_log(const struct intake *in, struct weir__json *j);

/* The clients that were refused most, and the rows of the timeline with most refusals; how many. */
uint32_t replay_whom(const struct replay *r, const struct run *run, uint32_t top[REPLAY_TOP_MAX]);
uint32_t replay_when(const struct run *run, uint32_t top[REPLAY_BUSIEST]);

/* Numbers of the clients with the largest value, the largest first; at most `most`. Clients of
 * value 0 are left out. Returns how many. */
uint32_t replay_top(uint32_t clients, uint32_t most, int64_t (*value)(const void *of, uint32_t i),
                    const void *of, uint32_t *top);

#endif
