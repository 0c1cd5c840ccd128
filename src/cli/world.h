/* The world of a simulation: a virtual clock, one limit with its history, and the keys.
 *
 * Here stand, in small, the things that an engine will do at speed: find a key's states, hand in
 * the calendar's edges, keep a limit's recent versions, remember reservations by name.
 */
#ifndef WEIR_CLI_WORLD_H
#define WEIR_CLI_WORLD_H

#include "cli/events.h"

struct sim_world;

/* Born at start_ns, with no limit yet. NULL if memory is out. */
struct sim_world *sim_world_open(int64_t start_ns);
void sim_world_close(struct sim_world *w);

/* Defines the limit, or changes it: the same as a `limit` event now. */
bool sim_world_limit(struct sim_world *w, const struct weir_limit *limit, bool *starts_fresh,
                     struct sim_error *error);

/* Runs one event. The outcome borrows from the event and the world until the next call. */
bool sim_world_apply(struct sim_world *w, const struct sim_event *event,
                     struct sim_outcome *outcome, struct sim_error *error);

#endif
