/* A picture of a run, a row for each stretch of time: how much acts then (granted at once, or earlier
 * and made to wait), and how much is refused. */
#ifndef WEIR_CLI_PICTURE_H
#define WEIR_CLI_PICTURE_H

#include <stdio.h>

#include "cli/events.h"

#define PICTURE_ROWS 30

struct picture {
    int64_t row_ns; /* how long a row is; grows when the run outgrows the picture */
    int grown;
    int64_t longest_ns; /* wait of a grant */
    struct picture_row {
        int64_t granted, refused;
        int64_t delayed;  /* granted, but not at once                        */
        int64_t shadowed; /* granted, where a shadow would have refused      */
    } row[PICTURE_ROWS];
};

void picture_add(struct picture *p, const struct sim_outcome *outcome);
void picture_draw(const struct picture *p, FILE *to, bool colour);

#endif
