/* A state of 16 bytes that is loaded and swapped as a whole, without a lock if the processor can.
 *
 * On x86-64 the swap is CMPXCHG16B. On every processor with AVX an aligned 16-byte load is a single
 * access, as Intel and AMD guarantee; on older ones the load is a swap too. On other processors
 * (and under the thread sanitizer, which does not know this instruction) a one-word lock is beside
 * the state; call weir__fork_prepare before the first use.
 *
 * Invariants:
 *   (1) A load returns one complete state, never half of one and half of another.
 *   (2) fresh_ns may also be read alone. Loads and swaps order the accesses around them, as locks
 *       do.
 */
#ifndef WEIR_ENGINE_LIMITER_PAIR_H
#define WEIR_ENGINE_LIMITER_PAIR_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "algo/algo.h"
#include "os/fork.h"

#if defined(__SANITIZE_THREAD__)
#define WEIR__PAIR_LOCKED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEIR__PAIR_LOCKED 1
#endif
#endif
#if !defined(__x86_64__) && !defined(WEIR__PAIR_LOCKED)
#define WEIR__PAIR_LOCKED 1
#endif

struct weir__pair {
    alignas(16) _Atomic int64_t fresh_ns;
    _Atomic uint64_t word;
#if defined(WEIR__PAIR_LOCKED)
    struct weir__lock lock;
#endif
};

static inline int64_t weir__pair_fresh_ns(const struct weir__pair *p)
{
    return atomic_load_explicit(&p->fresh_ns, memory_order_acquire);
}

static inline struct weir__state weir__pair_load(const struct weir__pair *p);

/* Replaces *old by `next` and returns true; or returns false, and *old becomes the actual state. */
static inline bool weir__pair_swap(struct weir__pair *p, struct weir__state *old,
                                   struct weir__state next);

/* Announces a load and, most likely, a swap: it saves the second cache miss. */
static inline void weir__pair_expect_swap(const struct weir__pair *p);

#if defined(WEIR__PAIR_LOCKED)
#include "engine/limiter/pair_locked.h"
#else
#include "engine/limiter/pair_x86.h"
#endif

#endif
