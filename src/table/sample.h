/* Looking at some buckets of a table, to estimate what is true of all. */
#ifndef WEIR_TABLE_SAMPLE_H
#define WEIR_TABLE_SAMPLE_H

#include "table/table.h"

#define WEIR__SAMPLE_BUCKETS     256 /* that one survey looks into; of a smaller table all */
#define WEIR__SAMPLE_PLACES_MOST 32  /* of a bucket that are looked at */

/* Looks at up to `most` buckets, spread over the table: how many places it saw, and how many of them are alive. */
void weir__table_sample(struct weir__table *t, struct weir__owner *s, int64_t now_ns, uint64_t most,
                        uint64_t *seen, uint64_t *live);

/* A survey of the table (engine/store/survey.h) takes so many steps, a bucket each, and looks at so many places. */
uint64_t weir__sample_length(const struct weir__table *t);
uint64_t weir__sample_places(const struct weir__table *t);
/* The heads of the states in the bucket of a step; returns how many. They are read without a lock: somebody may be
 * writing them. */
int weir__sample_heads(const struct weir__table *t, uint64_t step, struct weir__state *head);

#endif
