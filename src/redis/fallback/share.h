/* A share: one node's part of a limit, for when the nodes cannot agree through Redis. Pure
 * functions.
 *
 * n nodes together grant at most the limit, unless that is less than one event for each: a share is
 * at least 1. Rates are divided exactly, by a longer period. Where that would exceed the longest
 * period, and for windows and permits, the count is divided, rounding down.
 */
#ifndef WEIR_REDIS_FALLBACK_SHARE_H
#define WEIR_REDIS_FALLBACK_SHARE_H

#include <weir.h>

/* What a limit does while its store is down: the fallback= of all its terms taken together. */
enum weir__down_action {
    WEIR__DOWN_DENY,  /* at least one term denies */
    WEIR__DOWN_ALLOW, /* all terms allow */
    WEIR__DOWN_SHARE  /* the terms with fallback=local decide, each by its share; terms that
                       * allow are left out */
};

/* Whether the term has a share; if not, it is left out. A term is left out if the limit has no
 * share, if the term allows, if it is a shadow without fallback=local, which refuses nothing, or a
 * guard that looks at this node, which decides as ever (local_guards.c). */
bool weir__share_keeps(const struct weir_term *t);
/* Whether the term makes the limit deny. */
bool weir__share_denies(const struct weir_term *t);

/* Fills *share for WEIR__DOWN_SHARE only. nodes >= 1. A share parses and prints like any limit. */
enum weir__down_action weir__share_of(const struct weir_limit *whole, int64_t nodes,
                                      struct weir_limit *share);

#endif
