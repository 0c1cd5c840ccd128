/* What this node grants by itself while the store is away: a private engine with the shares of all limits.
 *
 * Return without a burst: what was granted here while the store was away is known to nobody else. The first
 * time a key is asked for after the return, what this node granted and still counts is taken out here
 * (refunded) and paid in there: taken from the shared limit before the request is decided. local_owes says
 * whether there can be anything to pay: until all that was granted here is as good as new.
 */
#ifndef WEIR_REDIS_FALLBACK_LOCAL_H
#define WEIR_REDIS_FALLBACK_LOCAL_H

#include <weir.h>

#include "base/text.h"
#include "engine/engine.h"
#include "redis/fallback/share.h"

struct weir__local;       /* of an engine */
struct weir__local_limit; /* of a policy  */

/* The options are those of the far engine: max_keys, max_memory, full, clock hold here. nodes: at first. */
int weir__local_open(struct weir__local **l, const struct weir_options *o, int64_t nodes,
                     struct weir_diag *why);
void weir__local_close(struct weir__local *l);
void weir__local_forked(struct weir__local *l); /* after fork(), in the child */

/* A policy, or its next limit (*limit not NULL: the same handle is changed). `scope` names it and never
 * changes; unlisted: as weir__anonymous_open, and then it has only one limit. */
int weir__local_define(struct weir__local *l, struct weir__local_limit **limit,
                       struct weir__slice scope, const struct weir_limit *whole, bool unlisted,
                       struct weir_diag *why);
void weir__local_forget(struct weir__local *l, struct weir__local_limit *limit);
int weir__local_override(struct weir__local *l, struct weir__local_limit *limit, const void *key,
                         size_t key_len, const struct weir_limit *whole); /* NULL: no longer */

/* So many nodes share from now on: all limits change, live. */
void weir__local_nodes(struct weir__local *l, int64_t nodes);
int64_t weir__local_nodes_now(const struct weir__local *l);

/* The answer of all n requests together, all or nothing; limit[i] is that of rq[i], whose policy is not
 * looked at. `which` as weir__decide_all says it. Reason FALLBACK where fallback=allow or deny spoke; retry_after_ns
 * of a deny is the time to the next probe or so (1 s). receipt may be NULL; a reservation or ticket that it
 * fills is weir__local_cancel's and weir__local_exit's. */
int weir__local_decide(struct weir__local *l, struct weir__local_limit *const *limit,
                       const struct weir_request *rq, size_t n, enum weir__verb verb,
                       struct weir__now at, struct weir__receipt *receipt, struct weir_verdict *v);
int weir__local_cancel(struct weir__local *l, struct weir_reservation *r, struct weir__now at,
                       int64_t *back);
int weir__local_exit(struct weir__local *l, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__now at);
void weir__local_reset(struct weir__local *l, struct weir__local_limit *limit,
                       const struct weir_request *rq, struct weir__now at);

/* Whether something granted here may still count. Cheap: one atomic read. */
bool weir__local_has_backlog(const struct weir__local *l, struct weir__now at);
/* Takes out what the key was granted here and still counts, and returns the most that any term had; 0
 * mostly. Once only, whoever asks. back, unless NULL, is filled for all terms of the whole limit: what
 * each is to be paid in there. Terms without a share, and permits, are 0. This and its opposite may be called
 * within a reader's section. */
int64_t weir__local_backlog_drain(struct weir__local *l, struct weir__local_limit *limit,
                                  const struct weir_request *rq, struct weir__now at,
                                  int64_t back[WEIR_TERMS_MAX]);
/* It could not be paid in: puts it back, so that it is not granted here again. */
void weir__local_backlog_restore(struct weir__local *l, struct weir__local_limit *limit,
                                 const struct weir_request *rq, struct weir__now at,
                                 const int64_t back[WEIR_TERMS_MAX]);

/* Counted: decisions answered here (but for peeks), of them allowed; and debts paid, which is for whoever
 * pays them to add. nodes: as many as share now. */
struct weir__local_counts {
    _Atomic uint64_t decided, allowed, drained;
    _Atomic int64_t nodes;
};
struct weir__local_counts *weir__local_counts(struct weir__local *l);
/* Fills all but the policies. */
int weir__local_room(struct weir__local *l, int64_t now_ns, struct weir_stats *stats);

#endif
