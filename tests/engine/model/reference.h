/* The reference: what a limit must answer, as plainly as it can be said over src/algo.
 *
 * The engine has tables, locks, versions and transactions; `weir sim` runs the engine. So neither
 * can be the model of the other. The reference has one list of revisions and, for each key, one
 * state for each term: it shares the algorithms with the engine and nothing else (the Python oracle
 * shares not even those). It speaks the events of a script. It knows no queue: no caller waits.
 *
 * Invariants:
 *   (1) A term's states carry over from one revision to the next as long as its lineage stays the
 *       same; a state of another lineage is zero.
 *   (2) A key has a serial, and after a reset another: a call that entered before the reset returns
 *       nothing. A reservation gives nothing back after a reset of any key (weir.h).
 */
#ifndef WEIR_TESTS_ENGINE_MODEL_REFERENCE_H
#define WEIR_TESTS_ENGINE_MODEL_REFERENCE_H

#include "sim/events.h"

struct reference;

struct reference *reference_open(int64_t start_ns);
void reference_close(struct reference *w);

/* Runs one event, which is not an enter that would wait. The outcome borrows from the event and the
 * reference until the next call. */
bool reference_apply(struct reference *w, const struct sim_event *event,
                     struct sim_outcome *outcome, struct sim_error *error);

#endif
