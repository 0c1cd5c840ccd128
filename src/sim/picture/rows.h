/* One limit as lines of text, one for each stretch of time: how much acts in it (granted at once,
 * or granted earlier and delayed), and how much is refused. */
#ifndef WEIR_SIM_PICTURE_ROWS_H
#define WEIR_SIM_PICTURE_ROWS_H

#include <stdbool.h>
#include <stdio.h>

#include "sim/picture/timeline.h"

#define ROWS_MAX 30

/* longest_ns: the longest wait of a grant. The timeline starts at 0; its rows grow until they are
 * few enough. */
void rows_draw(struct timeline *t, int64_t longest_ns, FILE *to, bool colour);

#endif
