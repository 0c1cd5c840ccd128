/* Undoing what a dead owner had begun, in a file that every process that shares it can write.
 *
 * A journal lies in the shared memory, so its words are only claims. Each is checked against what
 * this process has mapped: an undo writes to the states, fingerprints and locks of mapped tables
 * and nowhere else, and to an entry only if the lock of its bucket shows the dead owner's number.
 */
#include "table/journal.h"

#include "table/layout.h"

/* The mapped table that contains the offset, and the distance from its start; NULL if none does. */
static struct weir__table *table_around(const struct weir__mapped *m, uint64_t at, uint64_t *within)
{
    for (int i = 0; i < m->tables; i++) {
        const uint64_t from = (uint64_t)((char *)m->table[i] - m->base);

        if (at >= from && at - from < m->table_bytes[i]) {
            *within = at - from;
            return m->table[i];
        }
    }
    return NULL;
}

struct weir__lock *weir__mapped_lock(const struct weir__mapped *m, uint64_t at)
{
    uint64_t within;
    struct weir__table *t = table_around(m, at, &within);

    return t ? weir__table_lock_at(t, within) : NULL;
}

/* Where the note's entry was saved: in the journal itself, or beside its table. NULL if no note of
 * this journal can be saved there. */
static const char *journal_saved_of(const struct weir__mapped *m, const struct weir__journal *j,
                                    const struct weir__note *n, const struct weir__table *t)
{
    const uint64_t journal = (uint64_t)((const char *)j->saved - m->base);
    const uint64_t table = (uint64_t)((const char *)t - m->base);

    if (t->saved_at)
        return n->saved_at >= table && weir__table_saves_at(t, n->saved_at - table)
                   ? m->base + n->saved_at
                   : NULL;
    return n->saved_at >= journal && n->saved_at - journal < sizeof j->saved &&
                   (n->saved_at - journal) % sizeof j->saved[0] == 0
               ? m->base + n->saved_at
               : NULL;
}

static bool lock_is_held_by(const struct weir__lock *l, uint32_t number)
{
    return atomic_load_explicit(&l->holder, memory_order_acquire) == number;
}

/* Restores what the note says, if it names an entry or a cell that the owner with that number has
 * locked. */
static void journal_restore(const struct weir__mapped *m, const struct weir__journal *j,
                            const struct weir__note *n, uint32_t number)
{
    struct weir__access at;
    uint64_t within;
    struct weir__table *t = table_around(m, n->state_at, &within);
    const char *saved = t && n->state_bytes == t->state_bytes ? journal_saved_of(m, j, n, t) : NULL;
    const struct weir__lock *cell = saved ? weir__table_cell_lock_at(t, within) : NULL;

    if (!saved)
        return;
    if (n->fingerprint_at == 0 && cell && lock_is_held_by(cell, number)) {
        memcpy(m->base + n->state_at, saved, t->state_bytes);
        return;
    }
    if (!weir__table_state_at(t, within, &at) ||
        n->fingerprint_at != (uint64_t)((char *)&at.in->fingerprint[at.place] - m->base) ||
        !lock_is_held_by(&at.in->lock, number))
        return;
    memcpy(weir__state_at(t, at.in, at.place), saved, t->state_bytes);
    weir__bucket_put(at.in, at.place, n->fingerprint);
}

bool weir__journal_undo(struct weir__journal *j, uint32_t number, const struct weir__mapped *m)
{
    const uint64_t notes = atomic_load_explicit(&j->notes, memory_order_acquire);
    bool held = false;

    for (uint64_t i = notes <= WEIR__JOURNAL_NOTES ? notes : 0; i > 0; i--) {
        /* A copy: other processes may change the note after it has been checked. */
        const struct weir__note n = *(volatile const struct weir__note *)&j->note[i - 1];

        journal_restore(m, j, &n, number);
    }
    weir__order_stores();
    atomic_store_explicit(&j->notes, 0, memory_order_relaxed);
    weir__order_stores();
    for (int i = 0; i < WEIR__JOURNAL_LOCKS; i++) {
        const uint64_t at = atomic_load_explicit(&j->lock_at[i], memory_order_relaxed);
        struct weir__lock *l = at ? weir__mapped_lock(m, at) : NULL;

        if (l && atomic_load_explicit(&l->holder, memory_order_acquire) == number) {
            weir__lock_drop(l);
            held = true;
        }
        if (at)
            atomic_store_explicit(&j->lock_at[i], 0, memory_order_relaxed);
    }
    return held;
}
