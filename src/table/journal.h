/* The journal of an owner: what a successor needs to undo a decision that the owner died without
 * finishing.
 *
 * It lies in the shared memory, beside the tables, and belongs to one owner: no other thread writes
 * it.
 *
 *     before a lock is taken      lock_at says which
 *     before an entry is changed  note it: the old bytes go into the journal, then the count rises
 *     when all is changed         commit: the count goes back to 0, then the locks are dropped
 *
 * Invariants:
 *   (1) A lock that shows an owner's number is in that owner's lock_at.
 *   (2) While notes > 0, the noted entries are unchanged or half changed; copying the saved bytes
 *       back, the last note first, restores them. Doing so twice does no harm, so the successor may
 *       die too.
 *   (3) While notes == 0, every entry is whole.
 *   (4) Offsets count from the start of the shared memory: every process maps it at another
 *       address.
 *   (5) Every process that can write the shared memory can write here. So nothing that a journal
 *       says is used before it has been checked against what this process has mapped (struct
 *       weir__mapped), and an impossible count of notes counts as 0.
 */
#ifndef WEIR_TABLE_JOURNAL_H
#define WEIR_TABLE_JOURNAL_H

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include <weir.h>

#include "os/lock.h"

#define WEIR__SAVED_INLINE 64 /* bytes of a state that a journal itself has room for */
/* For each term of a request: two buckets, where large states are saved, the two cells of the key
 * and the two of a key that gives up its place (cells.h). */
#define WEIR__JOURNAL_LOCKS (7 * WEIR_TERMS_MAX)
/* For each term: its entry and two cells; or, without an entry, two cells. */
#define WEIR__JOURNAL_NOTES (3 * WEIR_TERMS_MAX)

struct weir__note {
    uint64_t fingerprint_at, fingerprint; /* fingerprint_at is 0 for a cell, which has none */
    uint64_t state_at, saved_at, state_bytes;
};

struct weir__journal {
    _Atomic uint64_t lock_at[WEIR__JOURNAL_LOCKS]; /* 0: none */
    _Atomic uint64_t notes;
    struct weir__note note[WEIR__JOURNAL_NOTES];
    unsigned char saved[WEIR__JOURNAL_NOTES][WEIR__SAVED_INLINE];
};

/* Stores before are seen before stores after. (On x86 they always are; only the compiler must know.
 * A C11 fence would do too, but the thread sanitizer does not know fences.) */
static inline void weir__order_stores(void)
{
#if defined(__x86_64__)
    __asm__ volatile("" ::: "memory");
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

static inline void weir__journal_write_lock(const struct weir__owner *s, int i,
                                            const struct weir__lock *l)
{
    atomic_store_explicit(&s->journal->lock_at[i], (uint64_t)((const char *)l - s->base),
                          memory_order_relaxed);
    weir__order_stores();
}

/* The i-th lock that a decision is about to take. */
static inline void weir__journal_intend(const struct weir__owner *s, int i,
                                        const struct weir__lock *l)
{
    if (s->journal)
        weir__journal_write_lock(s, i, l);
}

/* Takes the i-th lock of a decision: 0, or the error of the owner's patience. */
static inline int weir__lock_nth(struct weir__owner *s, int i, struct weir__lock *l)
{
    weir__journal_intend(s, i, l);
    return weir__lock_take(l, s);
}

/* Where the next note goes. Only the owner writes the count; a count that leaves no room is damage,
 * and the notes start again. */
static inline uint64_t weir__journal_next(const struct weir__journal *j)
{
    const uint64_t notes = atomic_load_explicit(&j->notes, memory_order_relaxed);

    return notes < WEIR__JOURNAL_NOTES ? notes : 0;
}

/* Notes an entry, or (fingerprint NULL) a cell, that is about to be changed. `saved`: where its
 * state's bytes go, if they are too many for the journal. */
static inline void weir__journal_note(const struct weir__owner *s,
                                      const _Atomic uint64_t *fingerprint, const void *state,
                                      size_t state_bytes, void *saved)
{
    struct weir__journal *j = s->journal;
    uint64_t i;

    if (!j)
        return;
    i = weir__journal_next(j);
    assert(saved || state_bytes <= WEIR__SAVED_INLINE);
    if (!saved)
        saved = j->saved[i];
    memcpy(saved, state, state_bytes);
    j->note[i] = (struct weir__note){
        .fingerprint_at = fingerprint ? (uint64_t)((const char *)fingerprint - s->base) : 0,
        .fingerprint = fingerprint ? atomic_load_explicit(fingerprint, memory_order_relaxed) : 0,
        .state_at = (uint64_t)((const char *)state - s->base),
        .saved_at = (uint64_t)((char *)saved - s->base),
        .state_bytes = state_bytes,
    };
    weir__order_stores();
    atomic_store_explicit(&j->notes, i + 1, memory_order_relaxed);
    weir__order_stores();
}

/* Drops the last note: its entry was not changed after all. */
static inline void weir__journal_unnote(const struct weir__owner *s)
{
    const uint64_t notes = s->journal ? weir__journal_next(s->journal) : 0;

    if (notes > 0)
        atomic_store_explicit(&s->journal->notes, notes - 1, memory_order_relaxed);
    weir__order_stores(); /* the next note is written only after it no longer counts */
}

static inline void weir__journal_clear(struct weir__journal *j)
{
    weir__order_stores();
    atomic_store_explicit(&j->notes, 0, memory_order_relaxed);
    weir__order_stores();
}

/* Makes the changes to all noted entries final. */
static inline void weir__journal_commit(const struct weir__owner *s)
{
    if (s->journal)
        weir__journal_clear(s->journal);
}

/* ---- Undoing --------------------------------------------------------------------------------- */

struct weir__table;

#define WEIR__MAPPED_TABLES 128

/* What this process has mapped of a shared memory, by its own account: all that an undo may touch.
 * A new kind of region goes here, into weir__mapped_lock, and into what journal.c restores. */
struct weir__mapped {
    char *base; /* what a journal's offsets count from */
    int tables;
    struct weir__table *table[WEIR__MAPPED_TABLES];
    uint64_t table_bytes[WEIR__MAPPED_TABLES];
};

/* The lock at an offset: NULL unless a mapped region has a lock exactly there. */
struct weir__lock *weir__mapped_lock(const struct weir__mapped *m, uint64_t at);

/* Undoes what the journal's dead owner had begun, and drops the locks that show its number. The
 * caller has taken over the dead owner's number. Returns whether there was anything to undo. */
bool weir__journal_undo(struct weir__journal *j, uint32_t number, const struct weir__mapped *m);

#endif
