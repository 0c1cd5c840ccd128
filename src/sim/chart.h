/* A chart of a run with a row for each stretch of time: how much acts in it (granted at once, or
 * granted earlier and delayed), and how much is refused. */
#ifndef WEIR_SIM_CHART_H
#define WEIR_SIM_CHART_H

#include <stdio.h>

#include "sim/events.h"

#define CHART_ROWS 30

struct chart {
    int64_t row_ns; /* how long a row is; grows when the run outgrows the chart */
    int grown;
    int64_t longest_ns; /* the longest wait of a grant */
    struct chart_row {
        int64_t granted, refused;
        int64_t delayed;  /* granted, but not at once                     */
        int64_t shadowed; /* granted, but without shadow it would not be  */
    } row[CHART_ROWS];
};

void chart_add(struct chart *p, const struct sim_outcome *outcome);
void chart_draw(const struct chart *p, FILE *to, bool colour);

#endif
