/* The pair behind its own lock; pair.h includes this file. */
#ifndef WEIR_ENGINE_LIMITER_PAIR_LOCKED_H
#define WEIR_ENGINE_LIMITER_PAIR_LOCKED_H

static inline struct weir__state weir__pair_words(const struct weir__pair *p)
{
    return (struct weir__state){.fresh_ns =
                                    atomic_load_explicit(&p->fresh_ns, memory_order_acquire),
                                .word = atomic_load_explicit(&p->word, memory_order_acquire)};
}

static inline struct weir__state weir__pair_load(const struct weir__pair *p)
{
    struct weir__pair *q = (struct weir__pair *)(uintptr_t)p;
    struct weir__state s;

    (void)weir__lock_take(&q->lock, &weir__owner_process); /* this owner never gives up */
    s = weir__pair_words(q);
    weir__lock_drop(&q->lock);
    return s;
}

static inline bool weir__pair_swap(struct weir__pair *p, struct weir__state *old,
                                   struct weir__state next)
{
    struct weir__state s;
    bool same;

    (void)weir__lock_take(&p->lock, &weir__owner_process);
    s = weir__pair_words(p);
    same = s.fresh_ns == old->fresh_ns && s.word == old->word;
    if (same) {
        atomic_store_explicit(&p->fresh_ns, next.fresh_ns, memory_order_release);
        atomic_store_explicit(&p->word, next.word, memory_order_release);
    }
    weir__lock_drop(&p->lock);
    *old = s;
    return same;
}

static inline void weir__pair_expect_swap(const struct weir__pair *p)
{
    (void)p;
}

#endif
