/* One node's share of a limit, for when the nodes cannot agree. Pure.
 *
 * n nodes together grant no more than the limit, unless that is less than one event for each: a share is at
 * least 1. Rates are divided exactly, by stretching the period; where that would pass the longest period, and
 * for windows and permits, counts are divided, rounded down.
 */
#ifndef WEIR_REDIS_FALLBACK_SHARE_H
#define WEIR_REDIS_FALLBACK_SHARE_H

#include <weir.h>

/* What a limit does when its store is away: what all its terms' fallback= say together. */
enum weir__down_action {
    WEIR__DOWN_DENY,  /* some term denies */
    WEIR__DOWN_ALLOW, /* all terms allow */
    WEIR__DOWN_SHARE  /* those that are local, each by its share; terms that allow are left out */
};

/* Whether the term has a share; else it is left out. Then the limit has no share or the term allows: so does
 * a shadow that is not local, for it refuses nobody. */
bool weir__share_keeps(const struct weir_term *t);

/* *share is filled in the last case only. nodes >= 1. It parses and prints like any limit. */
enum weir__down_action weir__share_of(const struct weir_limit *whole, int64_t nodes,
                                      struct weir_limit *share);

#endif
