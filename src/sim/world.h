/* The simulated world: a private engine under a virtual clock, with one policy; and the names that
 * a script gives to reservations and calls.
 *
 * Every event is a call of the engine at the event's time, so an outcome is what production would
 * have decided: tables, overflow cells, wait lists and live changes are the engine's own. What
 * would differ from run to run is fixed: the secret of the keys, and the random numbers that guards
 * draw. */
#ifndef WEIR_SIM_WORLD_H
#define WEIR_SIM_WORLD_H

#include "sim/events.h"

struct sim_world;

/* Its clock starts at start_ns, it has no limit yet, and room for max_keys keys (0: the default of
 * weir_options). NULL: out of memory, and *why, unless that is NULL, says for what. */
struct sim_world *sim_world_open(int64_t start_ns, uint64_t max_keys, struct weir_diag *why);
void sim_world_close(struct sim_world *w);

/* Defines the limit, or changes it, as a `limit` event does. */
bool sim_world_limit(struct sim_world *w, const struct weir_limit *limit, bool *starts_fresh,
                     struct sim_error *error);

/* The limit in force; n is 0 if there is none yet. */
const struct weir_limit *sim_world_limit_now(const struct sim_world *w);

/* Runs one event. The outcome borrows from the event and the world until the next call. An enter
 * that must wait is `queued` and has no verdict yet. Waiters that are due by the event's time are
 * decided first; the caller does not see those that it has not fetched by sim_world_decided. */
bool sim_world_apply(struct sim_world *w, const struct sim_event *event,
                     struct sim_outcome *outcome, struct sim_error *error);

/* Decides the next waiter that is due: now, or by the time until_ns (since the start) if no event
 * comes before; its outcome has the time. False: none is due. To see all outcomes in their order,
 * call it before each event, with the event's time, until it returns false, and again after the
 * event. A permit that comes back at a waiter's deadline is still in time. */
bool sim_world_decided(struct sim_world *w, int64_t until_ns, struct sim_outcome *outcome);

/* Prints the state of one guard in words, as in the state column. */
void sim_state_print(struct weir__out *o, const struct weir_term *t, const struct weir_view *v,
                     int64_t waiting);

/* The time since the start, and how many callers wait to enter. */
int64_t sim_world_time(const struct sim_world *w);
int64_t sim_world_waiting(const struct sim_world *w);

#endif
