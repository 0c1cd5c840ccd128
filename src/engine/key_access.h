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
    weir__table_key_unlock(at);
}

/* The time for a peek, which may ask about the future: the table uses places that are free now, and
 * must not take the time of a peek for now. */
#define WEIR__PEEK_TIME 0

/* Whether the limit is still the one that the target was found by. The key is locked, so if it is,
 * no other decision on the key is made by a newer one before it is unlocked. */
static inline bool weir__target_is_current(const struct weir__target *to)
{
    return atomic_load_explicit(&to->policy->revision, memory_order_acquire) == to->revision &&
           atomic_load_explicit(&to->policy->record->generation, memory_order_acquire) ==
               to->revision->generation;
}

static inline int weir__key_give_up(const struct weir__key_access *at)
{
    weir__key_unlock(at);
    return WEIR__STALE;
}

static inline int weir__key_check(const struct weir__target *to, const struct weir__key_access *at)
{
    return weir__target_is_current(to) ? 0 : weir__key_give_up(at);
}

/* Locks the key. Returns 0, WEIR__STALE or an error; only after 0 is there something to unlock. */
static inline int weir__key_lock(struct weir__target *to, struct weir__owner *owner, int64_t now_ns,
                                 struct weir__key_access *at)
{
    return weir__table_key_lock(to->term->table, owner, to->fingerprint, &to->probe, now_ns, at)
               ?: weir__key_check(to, at);
}

#endif
