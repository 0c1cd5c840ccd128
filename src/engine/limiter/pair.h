/* A state of 16 bytes that is read and replaced whole, without a lock where the processor can.
 *
 * On x86-64 the swap is CMPXCHG16B. An aligned 16-byte load is one access on every processor that
 * has AVX, says its maker; on older ones it is a swap too. Elsewhere (and for the thread sanitizer,
 * which knows no such instruction) a lock of one word stands beside the state; call
 * weir__fork_prepare before the first use.
 *
 * Invariants:
 *   (1) A load returns a state that was there, and never half of one and half of another.
 *   (2) fresh_ns may also be looked at alone. Loads and swaps keep the order of what stands around
 *       them, as locks do.
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

/* Replaces *old by `next`: true. Or false, and *old is what was there instead. */
static inline bool weir__pair_swap(struct weir__pair *p, struct weir__state *old,
                                   struct weir__state next);

/* A load and, most likely, a swap will follow: saves the second trip to the other processors. */
static inline void weir__pair_expect_swap(const struct weir__pair *p);

#if defined(WEIR__PAIR_LOCKED)
#include "engine/limiter/pair_locked.h"
#else
#include "engine/limiter/pair_x86.h"
#endif

#endif
