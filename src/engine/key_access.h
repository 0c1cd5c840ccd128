/* A way to one key of one term, and back.
 *
 * Set out (memory is asked for the key's bucket), look (where in it is the key?), come (lock, and see
 * that the limit is still the one in force), leave. Inline, for all decisions go this way.
 */
#ifndef WEIR_ENGINE_KEY_ACCESS_H
#define WEIR_ENGINE_KEY_ACCESS_H

#include "engine/engine.h"
#include "table/probe.h"

/* Where to. */
struct weir__target {
    struct weir_policy *policy;
    struct weir__revision *revision; /* that must be in force when it is there */
    struct weir__clause *clause;
    uint64_t fingerprint;
    struct weir__probe probe; /* where the key seems to be */
};

/* There: the key's place under its locks. */
struct weir__key_access {
    struct weir__owner *owner;
    struct weir__lock *saving; /* held too, or NULL */
    struct weir__access hold;
    struct weir__state *state; /* NULL: the key is not there */
};

static inline void weir__target_prefetch(struct weir__target *to, uint64_t fingerprint)
{
    to->fingerprint = fingerprint;
    weir__table_probe_start(to->clause->table, fingerprint, &to->probe);
}

static inline void weir__target_probe(struct weir__target *to)
{
    weir__table_probe_first(to->clause->table, to->fingerprint, &to->probe);
}

static inline void weir__key_unlock(const struct weir__key_access *at)
{
    weir__journal_commit(at->owner);
    weir__table_unlock_fast(&at->hold);
    if (at->saving)
        weir__lock_drop(at->saving);
}

/* The time of one who asks what will be: the table, which puts keys in places that are free now, must not
 * take it for now. */
#define WEIR__PEEK_TIME 0

/* Locks the key. 0, WEIR__STALE or an error; and only after 0 there is something to leave. */
static inline int weir__key_lock(struct weir__target *to, struct weir__owner *seat, int64_t now_ns,
                                 struct weir__key_access *at)
{
    struct weir__table *t = to->clause->table;
    int error;

    at->owner = seat;
    at->saving = seat->journal ? weir__table_saving(t) : NULL;
    if (at->saving) {
        weir__journal_intend(seat, 2, at->saving);
        error = weir__lock_take(at->saving, seat);
        if (error)
            return error;
    }
    at->state = weir__table_probe_lock(t, seat, to->fingerprint, &to->probe, &at->hold);
    error =
        at->state ? 0 : weir__table_find(t, seat, to->fingerprint, now_ns, &at->hold, &at->state);
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
        weir__table_note_fast(t, seat, &at->hold);
    return 0;
}

#endif
