/* The script of `weir sim`: turns a line of text into an event. docs/reference/sim.md has the
 * grammar. */
#ifndef WEIR_SIM_SCRIPT_H
#define WEIR_SIM_SCRIPT_H

#include "sim/events.h"

enum sim_line { SIM_LINE_EVENT, SIM_LINE_EMPTY, SIM_LINE_BAD };

/* Reads one line, without its newline. Keeps nothing; *event borrows from the line. */
enum sim_line sim_script_parse(struct weir__slice line, struct sim_event *event,
                               struct sim_error *error);

/* 2024-01-01, 2024-01-01T00:00:00Z, with a fraction, with Z or +02:00: ns since the epoch. */
bool sim_date_parse(struct weir__slice text, int64_t *ns, struct sim_error *error);

#endif
