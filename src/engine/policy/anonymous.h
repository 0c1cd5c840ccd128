/* Anonymous policies: policies without a name, which no store lists.
 *
 * A named policy lives in the store's directory, and its keys with its record. But a limit may also
 * come with a request, as text or as numbers, and each request may bring another one: such a limit
 * must cost no record, and forgetting it must forget no key. So an anonymous policy is only a
 * handle. Its keys belong to a word that the caller chooses (for example the limit's canonical
 * text): a caller that later opens another policy with the same word, in this process or another,
 * finds the same keys.
 *
 * Invariants:
 *   (1) What accrues with time accrues from the creation of the store.
 *   (2) Handles of the same word have the same limit; or they are by rate (algo/rate.c): then each
 *       may have its own limit, and a key whose state another limit wrote is converted.
 *   (3) A reset voids only the reservations that were made by the same handle.
 */
#ifndef WEIR_ENGINE_POLICY_ANONYMOUS_H
#define WEIR_ENGINE_POLICY_ANONYMOUS_H

#include <stdbool.h>
#include <stddef.h>

#include <weir.h>

#include "base/text.h"

/* Returns 0; or an error, and fills *why. by_rate: the limit is one token bucket that starts
 * full. */
int weir__anonymous_open(struct weir *w, const struct weir_limit *limit, struct weir__slice keys_of,
                         bool by_rate, struct weir_policy **policy, struct weir_diag *why);
/* No thread may use the policy during the call, or later. */
void weir__anonymous_close(struct weir *w, struct weir_policy *policy);
/* Closes the policies that are left when the engine is closed. */
void weir__anonymous_close_all(struct weir *w);

/* ---- For callers that only peek (untouched.c) ---------------------------------------------- */

/* Whether the tables of the limit's keys exist, so that opening a policy of the limit creates none.
 * If not, every key of the limit is untouched. */
bool weir__anonymous_has_tables(const struct weir *w, const struct weir_limit *limit);
/* What weir_peek would answer for an untouched key of a policy with that limit (rq->policy is
 * ignored). Returns 0 or an error. */
int weir__untouched_peek(struct weir *w, const struct weir_limit *limit,
                         const struct weir_request *rq, struct weir_verdict *v);
/* The size of a key's states, all terms of the limit together. */
size_t weir__limit_state_bytes(const struct weir_limit *limit);

/* The bytes of a limit up to its last term. A limit that is kept in memory of this size, as the
 * daemon does, must not be copied as a whole struct. */
static inline size_t weir__limit_bytes(const struct weir_limit *limit)
{
    return offsetof(struct weir_limit, term) + (size_t)limit->n * sizeof limit->term[0];
}

#endif
