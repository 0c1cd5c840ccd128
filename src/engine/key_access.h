/* Access to one key of one term.
 *
 * The steps: target (prefetch the key's bucket), probe (where in the bucket is the key?), lock (and
 * check that the limit is still in force), unlock. Inline, because every decision takes these
 * steps.
 */
#ifndef WEIR_ENGINE_KEY_ACCESS_H
#define WEIR_ENGINE_KEY_ACCESS_H

#include "engine/engine.h"
#include "table/probe.h"

/* The key to access. */
struct weir__target {
    struct weir_policy *policy;
    struct weir__revision *revision; /* it must still be in force once the key is locked */
    struct weir__compiled_term *term;
    uint64_t fingerprint;
    struct weir__probe probe; /* where the key seems to be */
};

/* A key that is locked, and its place. */
struct weir__key_access {
    struct weir__owner *owner;
    struct weir__lock *saving; /* also held, or NULL */
    struct weir__access access;
    struct weir__state *state; /* NULL: the key has no place */
};

static inline void weir__target_prefetch(struct weir__target *to, uint64_t fingerprint)
{
    to->fingerprint = fingerprint;
    weir__table_probe_start(to->term->table, fingerprint, &to->probe);
}

static inline void weir__target_probe(struct weir__target *to)
{
    weir__table_probe_first(to->term->table, to->fingerprint, &to->probe);
}

static inline void weir__key_unlock(const struct weir__key_access *at)
{
    weir__journal_commit(at->owner);
    weir__table_unlock_fast(&at->access);
    if (at->saving)
        weir__lock_drop(at->saving);
}

/* The time for a peek, which may ask about the future: the table uses places that are free now, and
 * must not take the time of a peek for now. */
#define WEIR__PEEK_TIME 0

/* Locks the key. Returns 0, WEIR__STALE or an error; only after 0 is there something to unlock. */
static inline int weir__key_lock(struct weir__target *to, struct weir__owner *owner, int64_t now_ns,
                                 struct weir__key_access *at)
{
    struct weir__table *t = to->term->table;
    int error;

    at->owner = owner;
    at->saving = owner->journal ? weir__table_saving(t) : NULL;
    if (at->saving) {
        weir__journal_intend(owner, 2, at->saving);
        error = weir__lock_take(at->saving, owner);
        if (error)
            return error;
    }
    at->state = weir__table_probe_lock(t, owner, to->fingerprint, &to->probe, &at->access);
    error = at->state
                ? 0
                : weir__table_find(t, owner, to->fingerprint, now_ns, &at->access, &at->state);
    if (error) {
        if (at->saving)
            weir__lock_drop(at->saving);
        return error;
    }
    if (weir__policy_revision(to->policy) != to->revision) {
        weir__key_unlock(at);
        return WEIR__STALE;
    }
    if (at->state)
        weir__table_note_fast(t, owner, &at->access);
    return 0;
}

#endif
