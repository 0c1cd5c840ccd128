/* Keys that share states: what a join must bind, followed step by step (shared.c).
 *
 * A *truth* is a key that never lost its place: a state of its own, charged with exactly what the
 * join granted to that key. Where several keys were joined, each also keeps its truth, and the law
 * is that whatever the join grants, the truth grants, with no longer a wait.
 *
 * For smooth-warmup only the rate is promised: its truth is the same rate without a store
 * (smooth-bursty max-burst=0), which prepays alike.
 *
 * Denials that count are counted by the truth too, as decide.c has terms count what another
 * refused.
 */
#ifndef WEIR_TESTS_SHARED_H
#define WEIR_TESTS_SHARED_H

#include "prop.h"

struct prop_shared {
    struct prop_case *c;
    struct weir__meter rate[PROP_VERSIONS]; /* smooth-warmup's truths go by these */
    int64_t ahead_ns; /* what the wall clock is ahead: it moves window edges */
    bool ended;       /* some due time reached the end of time */
};

/* A limit, with later versions of the same algorithm and mostly of the same layout. */
void prop_shared_open(struct prop_shared *p, struct prop_case *c, int versions);
void prop_shared_change(struct prop_shared *p);
/* Moves the clock on; now and then the wall clock steps. */
void prop_shared_move(struct prop_shared *p);

struct weir__attempt prop_shared_ask(struct prop_shared *p, int64_t cost, int64_t patience_ns);
/* Any take, refund, cancel or reset, on a state without truths. */
void prop_shared_disturb(struct prop_shared *p, struct weir__state *s);

/* What `s` answers to a take; each of the n truths must grant what it grants. */
struct weir_verdict prop_shared_take(struct prop_shared *p, struct weir__state *s,
                                     struct weir__state *const *truth, int n);
/* Gives back to `s`, and to the truths what `s` gave back: by a cancel of what was granted last, at
 * its time, or by a refund. */
void prop_shared_return(struct prop_shared *p, struct weir__state *s,
                        struct weir__state *const *truth, int n);

void prop_shared_note(struct prop_shared *p, enum prop_verb verb, int64_t which);

#endif
