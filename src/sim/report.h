/* How outcomes are told: a line of tab-separated fields, or a JSON object. docs/reference/sim.md.
 */
#ifndef WEIR_SIM_REPORT_H
#define WEIR_SIM_REPORT_H

#include <stdio.h>

#include "sim/events.h"

struct sim_report {
    FILE *to;
    bool json, colour;
};

void sim_report_begin(struct sim_report *r);
void sim_report_line(struct sim_report *r, const struct sim_outcome *outcome);

/* A JSON string with its quotes; bytes that are not UTF-8 become U+FFFD. */
void sim_json_string(FILE *to, struct weir__slice s);

#endif
