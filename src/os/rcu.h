/* RCU: safe memory reclamation for data that is rarely replaced and constantly read (the idea of
 * liburcu, reduced to what weir needs).
 *
 * A reader records in its own word when it enters and when it exits. A writer that has replaced
 * something waits for a grace period, until every reader that might still see the old version has
 * been outside, and then frees it:
 *
 *     weir__rcu_enter();                            new = ...;
 *     e = load(&shown);                             old = exchange(&shown, new);
 *     ... read *e ...                               weir__rcu_synchronize();
 *     weir__rcu_exit();                             free(old);
 *
 * This depends on the order of two accesses, the store to the reader's own word and its load of
 * `shown`, and a processor may swap just these two. A barrier between them would cost more than all
 * the rest, so the writer imposes it on all threads (barrier.h); only on systems where that cannot
 * be done, each reader executes its own.
 *
 * All that decisions write, they write inside. So fork() is a moment without readers (fork.c):
 * those that are inside leave first, those that come meanwhile wait until it is done, and the child
 * inherits no table in which a thread of its parent was just moving a key. That costs a reader
 * nothing: the flag that it checks anyway sends it on a detour (weir__rcu_enter_carefully).
 *
 * Invariants:
 *   (1) weir__rcu_synchronize returns after every reader that was inside when it was called has
 *       been outside. Readers that enter later see what was published before the call.
 *   (2) Entering and exiting never fail and use no locked instruction. They nest. Only during a
 *       fork() does entering wait.
 *   (3) There is one RCU domain for the whole process. A reader inside must not wait for anything
 *       that may itself wait for readers, or whose holder may enter meanwhile, and must not call
 *       weir__rcu_synchronize.
 *   (4) After fork() the child has one thread: the words of the other threads no longer count.
 */
#ifndef WEIR_OS_RCU_H
#define WEIR_OS_RCU_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The record of one thread. It outlives the thread, and another thread reuses it. */
struct weir__rcu_reader {
    alignas(64) _Atomic uint64_t sections; /* low 16 bits: the depth inside; above: exits so far */
    _Atomic bool careful;                  /* the reader enters by weir__rcu_enter_carefully */
    _Atomic bool taken;
    struct weir__rcu_reader *next;
};

#define WEIR__RCU_DEPTH UINT64_C(0xffff)
#define WEIR__RCU_LEFT  UINT64_C(0x10000)

/* This thread's record. NULL: none yet, or there was no memory for one. */
extern __thread struct weir__rcu_reader *weir__rcu_self __attribute__((tls_model("initial-exec")));

void weir__rcu_enter_slowly(void);
void weir__rcu_exit_slowly(void);
/* Executes the reader's own barrier, and waits until no fork() is under way. */
void weir__rcu_enter_carefully(void);

static inline void weir__rcu_enter(void)
{
    struct weir__rcu_reader *r = weir__rcu_self;
    uint64_t sections;

    if (__builtin_expect(r == NULL, 0)) {
        weir__rcu_enter_slowly();
        return;
    }
    /* No other thread writes it, so no locked addition is needed. */
    sections = atomic_load_explicit(&r->sections, memory_order_relaxed);
    atomic_store_explicit(&r->sections, sections + 1, memory_order_relaxed);
    if (__builtin_expect(atomic_load_explicit(&r->careful, memory_order_relaxed), 0))
        weir__rcu_enter_carefully();
    atomic_signal_fence(memory_order_seq_cst); /* the compiler's part; the barrier does the rest */
}

static inline void weir__rcu_exit(void)
{
    struct weir__rcu_reader *r = weir__rcu_self;
    uint64_t sections;

    if (__builtin_expect(r == NULL, 0)) {
        weir__rcu_exit_slowly();
        return;
    }
    sections = atomic_load_explicit(&r->sections, memory_order_relaxed);
    if (__builtin_expect((sections & WEIR__RCU_DEPTH) != 1, 0)) {
        weir__rcu_exit_slowly(); /* not the outermost section */
        return;
    }
    atomic_store_explicit(&r->sections, sections - 1 + WEIR__RCU_LEFT, memory_order_release);
}

/* Waits for a grace period. The caller must not be inside. */
void weir__rcu_synchronize(void);

/* For fork.c, around a fork(): returns when no other thread is inside, and lets none enter until
 * weir__rcu_resume. If the caller itself is inside (a signal handler that forks), or if a reader
 * does not leave for many seconds, it gives up, and the child's tables may be in the middle of a
 * change. */
void weir__rcu_stop(void);
void weir__rcu_resume(void);
/* In the child, instead of weir__rcu_resume. */
void weir__rcu_forked(void);

#endif
