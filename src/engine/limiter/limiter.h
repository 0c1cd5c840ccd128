/* One limiter's insides, shared by the files that make it up:
 *
 *     limiter.c          decisions
 *     limiter_change.c   open, close, live change
 *     limiter_wait.c     blocking, in turn
 *
 * A limit of one term whose state is 16 bytes is *lone*: its state is a pair (pair.h), and a
 * decision is a load, a judgement on a copy, and a swap. All others have their states behind a
 * lock.
 *
 * Invariants:
 *   (1) `lone` is the edition in force, or NULL if that is not a lone one. It never comes back to
 *       an edition that it left. So a state that was loaded between two loads of `lone` which agree
 *       was there while that edition was in force.
 *   (2) A decision that a swap charges was judged by the state it replaces. A change waits for
 *       those that began under the old edition; none of them is lost, and none counts twice.
 *   (3) While there is a glance, all states that come into the pair are of the version it is for,
 *       or zero: it begins after the pair was converted and nobody judges by older editions any
 *       more, and ends before the next one is shown.
 *   (4) Whoever holds `lock` sees `edition` and `state` belong together. Nobody takes it as a
 *       reader.
 */
#ifndef WEIR_ENGINE_LIMITER_LIMITER_H
#define WEIR_ENGINE_LIMITER_LIMITER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "engine/limiter/pair.h"
#include "engine/limiter/waiters.h"
#include "engine/policy/revision.h"
#include "os/clock.h"
#include "os/fork.h"
#include "os/rcu.h"

#define WEIR__CACHE_LINE 64

struct weir_limiter {
    alignas(
        WEIR__CACHE_LINE) struct weir__pair pair; /* alone on a line that is written all the time */

    alignas(WEIR__CACHE_LINE) struct weir__revision *_Atomic lone;
    /* A pair that is fresh only after more than glance_ns, and after no more than glance_most_ns,
     * refuses 1, now, whatever the rest of it says. (After longer, the clock may have stepped back.)
     * INT64_MAX: there is none. The turn changes whenever one ends. */
    _Atomic int64_t glance_ns, glance_most_ns;
    _Atomic uint64_t glance_seq;
    _Atomic uint32_t resets;

    alignas(WEIR__CACHE_LINE) struct weir__lock lock;
    struct weir__revision *revision;
    struct weir__state *state[WEIR_TERMS_MAX]; /* in one piece of memory; NULL in a lone one */

    struct weir__waiters waiters;
};

/* Now, and what the calendar says. */
struct weir__limiter_now {
    int64_t now_ns, wall_ns;
};

/* For whoever may have to give it back: what a term granted, and under which version. */
struct weir__promise {
    bool taken;
    int64_t act_ns;
    uint32_t version;
};

/* What is asked, and what is answered. */
struct weir__limiter_op {
    int64_t cost, patience_ns;
    struct weir__limiter_now at;
    int64_t act_ns; /* of a cancel                                      */
    int64_t back;   /* what refund and cancel gave back                 */
    struct weir_verdict *v;
    struct weir__promise *promise; /* of each term that may be given back; or NULL     */
};

/* Does something to the states of an edition. It may be called again, on fresh copies. */
typedef void weir__limiter_op_run(struct weir__revision *e, struct weir__state *const *state,
                                  struct weir__limiter_op *errand);

/* Runs it on the limiter as it is. */
void weir__limiter_run(struct weir_limiter *l, weir__limiter_op_run *run,
                       struct weir__limiter_op *errand);

weir__limiter_op_run weir__limiter_op_take, weir__limiter_op_peek;

/* By the process's clock. */
static inline struct weir__limiter_now weir__limiter_now_read(void)
{
    const int64_t now = weir__clock_now();

    return (struct weir__limiter_now){now, weir__clock_wall(now)};
}

/* A time that the caller made up is its own calendar. */
static inline struct weir__limiter_now weir__limiter_now_at(int64_t now_ns)
{
    return (struct weir__limiter_now){now_ns, now_ns};
}

static inline bool weir__limiter_now_fits(int64_t now_ns)
{
    return now_ns >= 0 && now_ns <= WEIR__NOW_MAX;
}

#endif
