/* The contents of a ticket: what weir_exit needs to find each guard's state again, and the first
 * waiter for it. */
#ifndef WEIR_ENGINE_TICKET_H
#define WEIR_ENGINE_TICKET_H

#include "engine/engine.h"
#include "engine/wait_list.h"

/* Starts a ticket for an entry, without terms yet. */
static inline void weir__ticket_begin(struct weir_ticket *t, const struct weir *w, int64_t now_ns)
{
    t->entered_ns = now_ns;
    t->forgotten = atomic_load_explicit(&w->forgotten, memory_order_relaxed);
    t->n = 0;
}

/* A mark that distinguishes calls that entered before a reset of the key from later ones. The
 * caller holds the key's lock; `s` is the state that was entered, or NULL if there is none. */
static inline uint64_t weir__ticket_birth(const struct weir_policy *p, const struct weir__clause *c,
                                          uint64_t fingerprint, const struct weir__state *s)
{
    const struct weir__algo *algo = c->meter.algo;

    if (algo->birth)
        return s ? algo->birth(&c->meter, s) : 0;
    return weir__resets_count(p->store->directory, fingerprint);
}

/* Whether the key was reset since `birth` was read; or, for a guard that counts calls in flight,
 * evicted. */
static inline bool weir__ticket_is_void(const struct weir_policy *p, const struct weir__clause *c,
                                        uint64_t fingerprint, const struct weir__state *s,
                                        uint64_t birth)
{
    const struct weir__algo *algo = c->meter.algo;

    if (algo->birth)
        return !s || s->fresh_ns == 0 || algo->birth(&c->meter, s) != birth;
    return weir__resets_since(p->store->directory, fingerprint, birth);
}

/* Adds a term. `key` is the key's hash if callers may wait for it or if it may have an override;
 * else 0. */
static inline void weir__ticket_add(struct weir_ticket *t, struct weir_policy *p,
                                    const struct weir__clause *c, uint32_t index,
                                    uint64_t fingerprint, uint64_t key, uint64_t birth,
                                    int64_t cost)
{
    const int i = t->n++;

    t->term[i].policy = p;
    t->term[i].scope = c->scope;
    t->term[i].fingerprint = fingerprint;
    t->term[i].key = key;
    t->term[i].birth = birth;
    t->term[i].cost = cost;
    t->term[i].index = index;
}

#endif
