/* A survey: an estimate of how many of a table's places each limit holds.
 *
 * Which key gives up its place in a full table depends on which limits hold more than their parts
 * of it (overflow.h). There is no counter for that: all decisions would contend for it, and places
 * become free by the passage of time alone. The newcomer's two buckets are too small a sample,
 * because chance puts more of a limit's keys into some buckets than into others. So every newcomer
 * that looks for a place to take over also samples two more buckets, and adds the places that each
 * limit holds there. At the 256th bucket the survey is complete: newcomers use it, and the next
 * survey begins. A newcomer that finds no survey, or one that was complete more than a second ago,
 * makes a whole one at once.
 *
 * Invariants:
 *   (1) The next bucket does not depend on the newcomer's key: a client that knows keys that share
 *       a bucket cannot bias the survey. A table with no more buckets than a survey has is counted
 *       completely.
 *   (2) Nothing here is locked: buckets are read as they are, while other threads may write them. A
 *       survey decides which key gives up its place, never what is granted.
 *   (3) A limit's count is in the term that the revision map (revision_map.h) finds for its
 *       states, and the number of sampled buckets is in the store: both belong to this process.
 *   (4) Clocks of callers that differ, or step back, do not make newcomers survey the whole table
 *       again and again: a survey that is complete at a later time than the newcomer's is made anew
 *       only once 32 newcomers have looked since.
 */
#ifndef WEIR_ENGINE_STORE_SURVEY_H
#define WEIR_ENGINE_STORE_SURVEY_H

#include "engine/engine.h"

/* Makes the first survey of the term's table, if there is none yet. */
void weir__survey_begin(struct weir *w, const struct weir__compiled_term *c, int64_t now_ns);
/* Samples the next two buckets. */
void weir__survey_step(struct weir *w, const struct weir__compiled_term *c, int64_t now_ns);

/* The share of the table that the limit held in the last complete survey, in 1/2^20 of its
 * places. */
uint64_t weir__survey_share(const struct weir *w, const struct weir__compiled_term *c);

#endif
