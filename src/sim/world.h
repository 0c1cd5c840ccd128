/* The simulated world: a limit with its versions, keys with their states, reservations, calls in
 * flight, a clock. */
#ifndef WEIR_SIM_WORLD_H
#define WEIR_SIM_WORLD_H

#include "sim/events.h"

struct sim_world;

/* Born at start_ns, with no limit yet. NULL if memory is out. */
struct sim_world *sim_world_open(int64_t start_ns);
void sim_world_close(struct sim_world *w);

/* Defines the limit, or changes it: the same as a `limit` event now. */
bool sim_world_limit(struct sim_world *w, const struct weir_limit *limit, bool *starts_fresh,
                     struct sim_error *error);

/* Runs one event. The outcome borrows from the event and the world until the next call. An enter that
 * must wait is `queued` and has no answer yet. Whatever sim_world_decided would have told by the
 * event's time and was not asked for is decided all the same, and not told. */
bool sim_world_apply(struct sim_world *w, const struct sim_event *event,
                     struct sim_outcome *outcome, struct sim_error *error);

/* The next enter of those that wait to be decided: now, or by the time until_ns (since the start)
 * without anything else happening; its outcome has the time. False: there is none. Call it before an
 * event, with the event's time, until it is false, and after it, so that all is told in its order. A
 * permit that comes back at a waiter's deadline is still in time. */
bool sim_world_decided(struct sim_world *w, int64_t until_ns, struct sim_outcome *outcome);

/* How a guard stands, in words: the state column has one for each. */
void sim_state_print(struct weir__out *o, const struct weir_term *t, const struct weir_view *v,
                     int64_t waiting);

/* The time since the start, and how many wait. */
int64_t sim_world_time(const struct sim_world *w);
int64_t sim_world_waiting(const struct sim_world *w);

#endif
