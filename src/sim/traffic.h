/* Traffic: phases of load turned into events, the same on every machine. docs/reference/sim.md has
 * the grammar. */
#ifndef WEIR_SIM_TRAFFIC_H
#define WEIR_SIM_TRAFFIC_H

#include "sim/events.h"
#include "sim/service.h"

#define TRAFFIC_PHASES_MAX 64
#define TRAFFIC_EVENTS_MAX INT64_C(100000000)
#define TRAFFIC_KEY_MAX    128

enum traffic_kind { TRAFFIC_STEADY, TRAFFIC_RAMP, TRAFFIC_POISSON, TRAFFIC_BURST };

struct traffic_phase {
    enum traffic_kind kind;
    int64_t start_ns, end_ns;
    int64_t from, to; /* events per period; BURST: `from` is how many events */
    int64_t period_ns;
    int64_t cost, keys;
    struct weir__slice key;
    uint64_t random;
    int64_t made, next_ns; /* next_ns < 0: the phase is over */
};

struct traffic {
    int n;
    int64_t made, expected;
    int64_t end_ns; /* of the last phase */
    struct traffic_phase phase[TRAFFIC_PHASES_MAX];
    bool has_service; /* its events are enters; without a service they are takes */
    struct service_spec service;
    char key[TRAFFIC_KEY_MAX]; /* of the last event */
};

/* The text must outlive the traffic. */
bool traffic_parse(struct traffic *t, struct weir__slice text, struct sim_error *error);

/* The next event in time. False: there are no more; or, with a message, there are too many. */
bool traffic_next(struct traffic *t, struct sim_event *event, struct sim_error *error);

#endif
