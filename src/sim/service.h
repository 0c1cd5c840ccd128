/* A simulated service behind a guard: workers, a queue before them, callers that lose patience.
 *
 * The traffic's callers ask to enter; a caller that the guard grants goes to the service, and
 * leaves the guard when its call is done. A caller that times out leaves at once, but its call
 * stays in the queue and a worker spends its time on it all the same: that is how overload eats a
 * service. docs/reference/sim.md has the grammar. */
#ifndef WEIR_SIM_SERVICE_H
#define WEIR_SIM_SERVICE_H

#include "sim/events.h"
#include "sim/summary.h"

#define SERVICE_STEPS_MAX 8
#define SERVICE_QUEUE_MAX INT64_C(1000000)

struct traffic;

/* `service 20ms workers=8 errors=0..30% queue=1000 timeout=1s jitter=0% seed=0`, read. */
struct service_spec {
    int64_t time_ns, workers, queue, timeout_ns;
    int64_t jitter_milli;             /* of the time, either way, in thousandths */
    int errors;                       /* steps: the ratio goes evenly from one to the next */
    int64_t error[SERVICE_STEPS_MAX]; /* in thousandths of a percent */
    uint64_t seed;
};

/* Reads the text behind the word `service`. */
bool service_spec_parse(struct service_spec *spec, struct weir__slice text,
                        struct sim_error *error);

struct service;

/* The traffic and the summary must outlive the service, which adds to the summary all that happens.
 * With tells_cpu it makes `signal` events of how busy the workers are. NULL: out of memory. */
struct service *service_open(const struct service_spec *spec, struct traffic *traffic,
                             struct summary *summary, bool tells_cpu);
void service_close(struct service *s);

/* When the service's next step is due if the guard decides nothing before; INT64_MAX: never. */
int64_t service_due(const struct service *s);
/* Makes that step. True: *event is for the guard (it borrows from the service until the next call).
 * False: nothing is for the guard; or, with a message, the service cannot go on. */
bool service_step(struct service *s, struct sim_event *event, struct sim_error *error);
/* The guard has decided an enter. False: out of memory. */
bool service_decided(struct service *s, const struct sim_outcome *outcome, struct sim_error *error);

#endif
