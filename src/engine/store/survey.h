/* A survey: how many of a table's places each limit holds, about.
 *
 * Whose place goes when a table is full depends on which limits hold more than their parts of it
 * (overflow.h). Nobody counts that: a counter that all decisions share would be in everybody's way, and
 * places fall free by time alone. The newcomer's two buckets tell too little, for chance puts more of a
 * limit's keys into some buckets than into others. So every newcomer that looks for a place to take over also
 * looks into two more buckets, and adds to each limit what it holds there. With the 256th bucket the survey is
 * complete: newcomers go by it, and the next begins. The first one is made at once, by the first newcomer.
 *
 * Invariants:
 *   (1) Which bucket is next does not depend on the newcomer's key: who knows keys that share a bucket
 *       cannot bend the survey. A table of no more buckets than a survey has is counted whole.
 *   (2) Nothing here is locked: buckets are read as they are, and of two who add at once one may be lost. A
 *       survey decides whose place goes, never what is granted.
 *   (3) A limit's count is in the clause that owns its states (owners.h), and the number of buckets that were
 *       looked into in the store: both are this process's own.
 */
#ifndef WEIR_ENGINE_STORE_SURVEY_H
#define WEIR_ENGINE_STORE_SURVEY_H

#include "engine/engine.h"

/* Makes the first survey of the clause's table, if there is none yet. */
void weir__survey_begin(struct weir *w, const struct weir__clause *c, int64_t now_ns);
/* Looks into the next two buckets. */
void weir__survey_step(struct weir *w, const struct weir__clause *c, int64_t now_ns);

/* How much of the table the limit held in the last complete survey, in 1/2^20 of its places. */
uint64_t weir__survey_share(const struct weir *w, const struct weir__clause *c);

#endif
