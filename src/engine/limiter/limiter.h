/* The internals of a limiter, shared by the files that make it up:
 *
 *     limiter.c          decisions
 *     limiter_change.c   open, close, live change
 *     limiter_wait.c     blocking, in order
 *
 * A limit of one term whose state is 16 bytes is *lone*: its state is a pair (pair.h), and a
 * decision is a load, a judgement on a copy, and a swap. Every other limit has its states behind a
 * lock.
 *
 * Invariants:
 *   (1) `lone` is the revision in force, or NULL if that is not a lone one. It never returns to a
 *       revision that it left. So a state that was loaded between two equal loads of `lone` was the
 *       state while that revision was in force.
 *   (2) A decision that a swap charges was judged by the state that it replaces. A change waits for
 *       the decisions that began under the old revision; none of them is lost, and none counts
 *       twice.
 *   (3) While there is a glance, every state that comes into the pair is of the glance's version,
 *       or zero: the glance begins after the pair was converted and no thread judges by older
 *       revisions any more, and it ends before the next revision is published.
 *   (4) A thread that holds `lock` sees a `revision` and a `state` that belong together. No thread
 *       takes the lock inside an RCU section.
 */
#ifndef WEIR_ENGINE_LIMITER_LIMITER_H
#define WEIR_ENGINE_LIMITER_LIMITER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/limiter/pair.h"
#include "engine/policy/revision.h"
#include "engine/wait_list.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/rcu.h"

#define WEIR__CACHE_LINE 64

struct weir_limiter {
    alignas(WEIR__CACHE_LINE) struct weir__pair
        pair; /* alone on its cache line, which is written all the time */

    alignas(WEIR__CACHE_LINE) struct weir__revision *_Atomic lone;
    /* The glance: a pair that becomes fresh in more than glance_ns, and in no more than
     * glance_most_ns, refuses a cost of 1 now, whatever the rest of it says. (If it is longer, the
     * clock may have jumped back.) INT64_MAX: there is no glance. The turn changes whenever one
     * ends. */
    _Atomic int64_t glance_ns, glance_most_ns;
    _Atomic uint64_t glance_seq;
    _Atomic uint32_t resets;

    alignas(WEIR__CACHE_LINE) struct weir__lock lock;
    struct weir__revision *revision;
    struct weir__state *state[WEIR_TERMS_MAX]; /* in one piece of memory; NULL in a lone limiter */

    struct weir__wait_list waiters; /* for its only key, 0 */
};

/* The time now, and the time for calendars. */
struct weir__limiter_now {
    int64_t now_ns, wall_ns;
};

/* What a term granted, and under which version, for a caller that may have to give it back. */
struct weir__promise {
    bool taken;
    int64_t act_ns;
    uint32_t version;
};

/* An operation: its arguments and its results. */
struct weir__limiter_op {
    int64_t cost, patience_ns;
    struct weir__limiter_now at;
    int64_t act_ns; /* cancel: when the reservation was to act          */
    int64_t back;   /* refund, cancel: the amount given back            */
    struct weir_verdict *verdict;
    struct weir__promise *promise; /* one for each term that can be given back; or NULL */
};

/* Runs an operation on the states of a revision. It may be called again, on fresh copies. */
typedef void weir__limiter_op_run(struct weir__revision *rev, struct weir__state *const *state,
                                  struct weir__limiter_op *op);

/* Runs the operation on the limiter's current revision and states. */
void weir__limiter_run(struct weir_limiter *l, weir__limiter_op_run *run,
                       struct weir__limiter_op *op);

weir__limiter_op_run weir__limiter_op_take, weir__limiter_op_peek;

/* The time by the process's clock. */
static inline struct weir__limiter_now weir__limiter_now_read(void)
{
    const int64_t now = weir__clock_now();

    return (struct weir__limiter_now){now, weir__clock_wall(now)};
}

/* A time that the caller gives is also the time for calendars. */
static inline struct weir__limiter_now weir__limiter_now_at(int64_t now_ns)
{
    return (struct weir__limiter_now){now_ns, now_ns};
}

static inline bool weir__limiter_now_fits(int64_t now_ns)
{
    return now_ns >= 0 && now_ns <= WEIR__NOW_MAX;
}

#endif
