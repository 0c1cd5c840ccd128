/* The pair on x86-64; pair.h includes this file. */
#ifndef WEIR_ENGINE_LIMITER_PAIR_X86_H
#define WEIR_ENGINE_LIMITER_PAIR_X86_H

#include <emmintrin.h>

static_assert(sizeof(struct weir__pair) == 16, "what CMPXCHG16B swaps");

static inline bool weir__pair_swap(struct weir__pair *p, struct weir__state *old,
                                   struct weir__state next)
{
    bool done;

    __asm__ volatile("lock cmpxchg16b %1"
                     : "=@cce"(done), "+m"(*p), "+a"(old->fresh_ns), "+d"(old->word)
                     : "b"(next.fresh_ns), "c"(next.word)
                     : "memory");
    return done;
}

static inline struct weir__state weir__pair_load(const struct weir__pair *p)
{
    struct weir__state s = {0};

    if (__builtin_expect(__builtin_cpu_supports("avx"), 1)) {
        __m128i both;

        __asm__ volatile("movdqa %1, %0" : "=x"(both) : "m"(*p) : "memory");
        s.fresh_ns = _mm_cvtsi128_si64(both);
        s.word = (uint64_t)_mm_cvtsi128_si64(_mm_unpackhi_epi64(both, both));
        return s;
    }
    (void)weir__pair_swap((struct weir__pair *)(uintptr_t)p, &s,
                          s); /* replaces zero by zero, or fails: both load */
    return s;
}

static inline void weir__pair_expect_swap(const struct weir__pair *p)
{
    __asm__ volatile("prefetchw %0" : : "m"(*p));
}

#endif
