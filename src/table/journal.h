/* The journal of a seat: what a successor needs to undo a decision that its maker did not live to
 * finish.
 *
 * It lies in the shared memory, beside the tables, and belongs to one seat: only its holder writes it.
 *
 *     before a lock is taken      lock_at says which
 *     before an entry is changed  note it: the old bytes go into the journal, then the count
 *     when all is changed         settle: the count goes back to 0, then the locks are dropped
 *
 * Invariants:
 *   (1) A lock that shows a seat's number is in that seat's lock_at.
 *   (2) While notes > 0, the entries noted are what they were, or half changed; copying the saved
 *       bytes back, the last note first, makes them what they were. Doing so twice does no harm, so the
 *       successor may die too.
 *   (3) While notes == 0, every entry is whole.
 *   (4) Offsets count from the start of the shared memory: every process has it elsewhere.
 */
#ifndef WEIR_TABLE_JOURNAL_H
#define WEIR_TABLE_JOURNAL_H

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include <weir.h>

#include "table/lock.h"

#define WEIR__SAVED_INLINE  64 /* bytes of a state that a journal itself has room for */
#define WEIR__JOURNAL_LOCKS (3 * WEIR_TERMS_MAX)

struct weir__note {
    uint64_t fingerprint_at, fingerprint;
    uint64_t state_at, saved_at, state_bytes;
};

struct weir__journal {
    _Atomic uint64_t lock_at[WEIR__JOURNAL_LOCKS]; /* 0: none */
    _Atomic uint64_t notes;
    struct weir__note note[WEIR_TERMS_MAX];
    unsigned char saved[WEIR_TERMS_MAX][WEIR__SAVED_INLINE];
};

/* Stores before are seen before stores after. (On x86 they always are; only the compiler must be told.
 * A C11 fence would do too, but the thread sanitizer does not know fences.) */
static inline void weir__order_stores(void)
{
#if defined(__x86_64__)
    __asm__ volatile("" ::: "memory");
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* The i-th lock that a decision is about to take. */
static inline void weir__journal_intend(const struct weir__seat *s, int i,
                                        const struct weir__lock *l)
{
    if (!s->journal)
        return;
    atomic_store_explicit(&s->journal->lock_at[i], (uint64_t)((const char *)l - s->base),
                          memory_order_relaxed);
    weir__order_stores();
}

/* An entry that is about to be changed. `saved`: where its state's bytes go, if they are too many for
 * the journal. */
static inline void weir__journal_note(const struct weir__seat *s,
                                      const _Atomic uint64_t *fingerprint, const void *state,
                                      size_t state_bytes, void *saved)
{
    struct weir__journal *j = s->journal;
    uint64_t i;

    if (!j)
        return;
    i = atomic_load_explicit(&j->notes, memory_order_relaxed);
    assert(i < WEIR_TERMS_MAX && (saved || state_bytes <= WEIR__SAVED_INLINE));
    if (!saved)
        saved = j->saved[i];
    memcpy(saved, state, state_bytes);
    j->note[i] = (struct weir__note){
        .fingerprint_at = (uint64_t)((const char *)fingerprint - s->base),
        .fingerprint = atomic_load_explicit(fingerprint, memory_order_relaxed),
        .state_at = (uint64_t)((const char *)state - s->base),
        .saved_at = (uint64_t)((char *)saved - s->base),
        .state_bytes = state_bytes,
    };
    weir__order_stores();
    atomic_store_explicit(&j->notes, i + 1, memory_order_relaxed);
    weir__order_stores();
}

/* All that was noted has been changed for good. */
static inline void weir__journal_settle(const struct weir__seat *s)
{
    if (!s->journal)
        return;
    weir__order_stores();
    atomic_store_explicit(&s->journal->notes, 0, memory_order_relaxed);
    weir__order_stores();
}

/* Undoes what the journal's dead holder had begun, and drops the locks that show his number. Whoever
 * calls owns the dead man's seat. The offsets are checked against [0, bytes). Returns whether there
 * was anything to undo. */
bool weir__journal_undo(struct weir__journal *j, uint32_t number, char *base, uint64_t bytes);

#endif
