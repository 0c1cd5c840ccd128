/* Sampling some buckets of a table, to estimate figures for all of them. */
#ifndef WEIR_TABLE_SAMPLE_H
#define WEIR_TABLE_SAMPLE_H

#include "table/table.h"

#define WEIR__SAMPLE_BUCKETS     256 /* that one survey reads; all of a smaller table */
#define WEIR__SAMPLE_PLACES_MOST 32  /* of a bucket that are read */

/* Reads up to `most` buckets, spread over the table: how many places it saw, and how many of them
 * hold live keys. */
void weir__table_sample(struct weir__table *t, struct weir__owner *s, int64_t now_ns, uint64_t most,
                        uint64_t *seen, uint64_t *live);

/* A survey of the table (engine/store/survey.h) takes this many steps, one bucket each, and reads
 * this many places. */
uint64_t weir__sample_length(const struct weir__table *t);
uint64_t weir__sample_places(const struct weir__table *t);
/* The heads of the states in the bucket of a step; returns how many. They are read without a lock:
 * another thread may be writing them. */
int weir__sample_heads(const struct weir__table *t, uint64_t step, struct weir__state *head);

#endif
