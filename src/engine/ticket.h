/* The contents of a ticket: what weir_exit needs to find each guard's state again, and the first
 * waiter for it. */
#ifndef WEIR_ENGINE_TICKET_H
#define WEIR_ENGINE_TICKET_H

#include "engine/engine.h"

/* The index of a term of a remote store's ticket: what that store has granted. Terms of guards that
 * look at this node come after it, as terms of the engine that has them. */
#define WEIR__TICKET_REMOTE UINT32_MAX

/* Starts a ticket for an entry, without terms yet. */
static inline void weir__ticket_begin(struct weir_ticket *t, const struct weir *w, int64_t now_ns)
{
    t->entered_ns = now_ns;
    t->forgotten = atomic_load_explicit(&w->forgotten, memory_order_relaxed);
    t->n = 0;
}

/* A mark that distinguishes calls that entered before a reset of the key from later ones. The
 * caller holds the key's lock; `s` is the state that was entered, or NULL if there is none. */
static inline uint64_t weir__ticket_epoch(const struct weir_policy *p,
                                          const struct weir__compiled_term *c, uint64_t fingerprint,
                                          const struct weir__state *s)
{
    const struct weir__algo *algo = c->meter.algo;

    if (algo->epoch)
        return s ? algo->epoch(&c->meter, s) : 0;
    return weir__resets_count(p->store->directory, fingerprint);
}

/* Whether the key was reset since `epoch` was read; or, for a guard that counts calls in flight,
 * evicted. */
static inline bool weir__ticket_is_void(const struct weir_policy *p,
                                        const struct weir__compiled_term *c, uint64_t fingerprint,
                                        const struct weir__state *s, uint64_t epoch)
{
    const struct weir__algo *algo = c->meter.algo;

    if (algo->epoch)
        return !s || s->fresh_ns == 0 || algo->epoch(&c->meter, s) != epoch;
    return weir__resets_since(p->store->directory, fingerprint, epoch);
}

/* Adds a term. `key` is the key's hash if callers may wait for it or if it may have an override;
 * else 0. `found` is the hash of its override, or 0. */
static inline void weir__ticket_add(struct weir_ticket *t, struct weir_policy *p,
                                    const struct weir__compiled_term *c, uint32_t index,
                                    uint64_t fingerprint, uint64_t key, uint64_t found,
                                    uint64_t epoch, int64_t cost)
{
    const int i = t->n++;

    t->term[i].policy = p;
    t->term[i].scope = c->scope;
    t->term[i].fingerprint = fingerprint;
    t->term[i].key = key;
    t->term[i].found = found;
    t->term[i].epoch = epoch;
    t->term[i].cost = cost;
    t->term[i].index = index;
}

#endif
