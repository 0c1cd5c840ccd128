/* What this node decides alone, by a private engine: all while the store is down, by a share of
 * every limit; and always the guards that look at this node (a breaker, the load of the machine),
 * beside what the store decides.
 *
 * When the store is up again there is no extra burst. Only this node knows what it granted alone:
 * that is its backlog. Before the first decision of Redis on a key, this node drains the key's
 * backlog: it takes out what it granted and still counts, and charges it to the shared limit.
 * has_backlog says whether there can be anything to drain: until everything that was granted here
 * has fully recovered.
 */
#ifndef WEIR_REDIS_FALLBACK_LOCAL_H
#define WEIR_REDIS_FALLBACK_LOCAL_H

#include <weir.h>

#include "base/text.h"
#include "engine/engine.h"
#include "redis/fallback/share.h"

struct weir__local;       /* of an engine */
struct weir__local_limit; /* of a policy  */

/* The options of the Redis engine: max_keys, max_memory, full and clock apply here. nodes: the
 * initial number. */
int weir__local_open(struct weir__local **l, const struct weir_options *o, int64_t nodes,
                     struct weir_diag *why);
void weir__local_close(struct weir__local *l);
void weir__local_forked(struct weir__local *l); /* after fork(), in the child */

/* Defines a policy, or its next limit (*limit not NULL: the same object is changed). `scope`
 * names it and never changes. anonymous: as weir__anonymous_open; it then has only one limit. */
int weir__local_define(struct weir__local *l, struct weir__local_limit **limit,
                       struct weir__slice scope, const struct weir_limit *whole, bool anonymous,
                       struct weir_diag *why);
void weir__local_forget(struct weir__local *l, struct weir__local_limit *limit);
int weir__local_override(struct weir__local *l, struct weir__local_limit *limit, const void *key,
                         size_t key_len, bool prefix,
                         const struct weir_limit *whole); /* NULL: removes it */

/* That many nodes share from now on: all limits change, live. */
void weir__local_nodes(struct weir__local *l, int64_t nodes);
int64_t weir__local_nodes_now(const struct weir__local *l);

/* Decides all n requests together, all or nothing; limit[i] is the limit of rq[i], whose policy
 * is not used. `which` is as in weir__decide_all. The reason is FALLBACK where fallback=allow or
 * deny decided; retry_after_ns of a deny is 1 s, about the time to the next probe. receipt may
 * be NULL; weir__local_cancel and weir__local_exit undo a reservation or ticket that it fills. */
int weir__local_decide(struct weir__local *l, struct weir__local_limit *const *limit,
                       const struct weir_request *rq, size_t n, enum weir__verb verb,
                       struct weir__now at, struct weir__receipt *receipt, struct weir_verdict *v);
int weir__local_cancel(struct weir__local *l, struct weir_reservation *r, struct weir__now at,
                       int64_t *back);
int weir__local_exit(struct weir__local *l, struct weir_ticket *t, enum weir_outcome how,
                     struct weir__now at);
void weir__local_reset(struct weir__local *l, struct weir__local_limit *limit,
                       const struct weir_request *rq, struct weir__now at);

/* ---- Guards that look at this node (local_guards.c) ------------------------------------------ */

/* What the guards have entered. */
struct weir__local_entry {
    struct weir_ticket ticket;
    struct weir_verdict verdict;
};

bool weir__local_has_guards(const struct weir__local_limit *limit);
/* Enters the guards of all n requests, or peeks at them: as weir__local_decide, for requests whose
 * limits all have guards. An error: nothing is entered. */
int weir__local_guards_enter(struct weir__local *l, struct weir__local_limit *const *limit,
                             const struct weir_request *rq, size_t n, enum weir__verb verb,
                             struct weir__now at, struct weir__local_entry *entry);
/* The call does not take place: the guards forget that it entered. */
void weir__local_guards_leave(struct weir__local *l, struct weir__local_entry *entry,
                              struct weir__now at);
/* The policy that has that term of the whole limit, and *term is its term there; NULL: it is no
 * guard of this node. */
struct weir_policy *weir__local_guard_policy(const struct weir__local_limit *limit, int *term);
/* The engine that has them. */
struct weir *weir__local_engine(struct weir__local *l);

/* ---- The backlog ----------------------------------------------------------------------------- */

/* Whether something granted here may still count. Cheap: one atomic read. */
bool weir__local_has_backlog(const struct weir__local *l, struct weir__now at);
/* Takes out what was granted to the key here and still counts, once, whichever thread calls.
 * Returns the largest number of any term; mostly 0. events, unless NULL, is filled for all terms
 * of the whole limit: what to charge to each in Redis. Terms without a share, and permits, have
 * 0. This function and the next may be called within an RCU read section. */
int64_t weir__local_backlog_drain(struct weir__local *l, struct weir__local_limit *limit,
                                  const struct weir_request *rq, struct weir__now at,
                                  int64_t events[WEIR_TERMS_MAX]);
/* It could not be charged in Redis: puts it back into the backlog. */
void weir__local_backlog_restore(struct weir__local *l, struct weir__local_limit *limit,
                                 const struct weir_request *rq, struct weir__now at,
                                 const int64_t events[WEIR_TERMS_MAX]);

/* Counters: decisions made here (without peeks), how many of them allowed, and events drained,
 * which the thread that drains adds. nodes: how many share now. */
struct weir__local_counts {
    _Atomic uint64_t decided, allowed, drained;
    _Atomic int64_t nodes;
};
struct weir__local_counts *weir__local_counts(struct weir__local *l);
/* Fills everything except the number of policies. */
int weir__local_room(struct weir__local *l, int64_t now_ns, struct weir_stats *stats);

#endif
