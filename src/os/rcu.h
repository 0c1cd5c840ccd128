/* Grace periods, for what is replaced rarely and read always.
 *
 * A reader says when it enters and when it exits, in a word of its own; whoever has replaced
 * something waits until all who might still see the old one have been out, and then frees it:
 *
 *     weir__rcu_enter();                        new = ...;
 *     e = load(&shown);                             old = exchange(&shown, new);
 *     ... read *e ...                               weir__rcu_synchronize();
 *     weir__rcu_exit();                         free(old);
 *
 * The order that this stands on is between the reader's own word and its load of `shown`, and a
 * processor may swap just these two. A barrier in between would cost more than all the rest, so the
 * one who waits imposes it on everybody (barrier.h); only where that cannot be done, each reader
 * has one of its own.
 *
 * Invariants:
 *   (1) weir__rcu_synchronize returns after every reader that was inside when it was called has been
 *       outside. Readers that enter later see what was published before the call.
 *   (2) Entering and exiting never fail, never wait, and lock no instruction. They nest.
 *   (3) One place for the whole process. A reader inside must not wait for anything that may itself
 *       wait for readers, and may not call weir__rcu_synchronize.
 *   (4) After fork() the child has one thread: the others' words no longer count.
 */
#ifndef WEIR_OS_RCU_H
#define WEIR_OS_RCU_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One thread's. It outlives the thread and goes to another. */
struct weir__rcu_reader {
    alignas(64) _Atomic uint64_t visits; /* how deep inside, and above that how often it has left */
    bool fenced;                         /* it needs a barrier of its own */
    _Atomic bool taken;
    struct weir__rcu_reader *next;
};

#define WEIR__RCU_DEPTH UINT64_C(0xffff)
#define WEIR__RCU_LEFT  UINT64_C(0x10000)

/* NULL: none yet, or there was no memory for one. */
extern __thread struct weir__rcu_reader *weir__rcu_self __attribute__((tls_model("initial-exec")));

void weir__rcu_enter_slowly(void);
void weir__rcu_exit_slowly(void);
void weir__rcu_fence(void);

static inline void weir__rcu_enter(void)
{
    struct weir__rcu_reader *r = weir__rcu_self;
    uint64_t visits;

    if (__builtin_expect(r == NULL, 0)) {
        weir__rcu_enter_slowly();
        return;
    }
    /* Nobody else writes it: no addition that would have to be locked. */
    visits = atomic_load_explicit(&r->visits, memory_order_relaxed);
    atomic_store_explicit(&r->visits, visits + 1, memory_order_relaxed);
    if (__builtin_expect(r->fenced, 0))
        weir__rcu_fence();
    atomic_signal_fence(memory_order_seq_cst); /* the compiler's part; the barrier does the rest */
}

static inline void weir__rcu_exit(void)
{
    struct weir__rcu_reader *r = weir__rcu_self;
    uint64_t visits;

    if (__builtin_expect(r == NULL, 0)) {
        weir__rcu_exit_slowly();
        return;
    }
    visits = atomic_load_explicit(&r->visits, memory_order_relaxed) - 1;
    if ((visits & WEIR__RCU_DEPTH) == 0)
        visits += WEIR__RCU_LEFT;
    atomic_store_explicit(&r->visits, visits, memory_order_release);
}

/* Not from inside. */
void weir__rcu_synchronize(void);

#endif
