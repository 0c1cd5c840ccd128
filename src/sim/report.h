/* How outcomes are printed: a line of tab-separated fields, or a JSON object a line.
 * docs/reference/sim.md has the fields. */
#ifndef WEIR_SIM_REPORT_H
#define WEIR_SIM_REPORT_H

#include <stdio.h>

#include "base/json.h"
#include "sim/events.h"

struct sim_report {
    FILE *to;
    bool json, colour;
};

void sim_report_begin(struct sim_report *r);
void sim_report_line(struct sim_report *r, const struct sim_outcome *outcome);

/* A JSON writer that writes to the file. */
struct weir__json sim_json_to(FILE *to);

#endif
