/* Policies that no store lists.
 *
 * A named policy lives in the store's directory, and its keys with its record. But a limit may also
 * come with a request, as text or as numbers, in as many forms as there are requests: those must cost
 * no record, and to forget one must forget no key. So an unlisted policy is only a handle. Its keys
 * belong to a word of the caller's (the limit's canonical text, say): whoever opens another with the
 * same word later, in this process or another, finds the same keys.
 *
 * Invariants:
 *   (1) What accrues with time accrues from when the store was made.
 *   (2) Handles of the same word have the same limit; or they are by rate (algo/rate.c): then each may
 *       have its own, and a key that meets another is carried over.
 *   (3) A reset voids the reservations that were made by the same handle.
 */
#ifndef WEIR_ENGINE_POLICY_ANONYMOUS_H
#define WEIR_ENGINE_POLICY_ANONYMOUS_H

#include <stdbool.h>

#include <weir.h>

#include "base/text.h"

/* 0 or an error, and *why says more. by_rate: the limit is one token bucket that begins full. */
int weir__anonymous_open(struct weir *w, const struct weir_limit *limit, struct weir__slice keys_of,
                         bool by_rate, struct weir_policy **policy, struct weir_diag *why);
/* Nobody may use it, then or later. */
void weir__anonymous_close(struct weir *w, struct weir_policy *policy);
/* Those that are left when the engine is closed. */
void weir__anonymous_close_all(struct weir *w);

/* ---- For those who only look (untouched.c) ------------------------------------------------------ */

/* Whether the tables of the limit's keys are there, so that to open a policy of it makes none. If not, each
 * of its keys is untouched. */
bool weir__anonymous_has_tables(const struct weir *w, const struct weir_limit *limit);
/* What weir_peek would answer for an untouched key of a policy with that limit (rq->policy is not looked
 * at). 0 or an error. */
int weir__untouched_peek(struct weir *w, const struct weir_limit *limit,
                         const struct weir_request *rq, struct weir_verdict *v);
/* Bytes of state that a key of the limit takes, all terms together. */
size_t weir__limit_state_bytes(const struct weir_limit *limit);

#endif
