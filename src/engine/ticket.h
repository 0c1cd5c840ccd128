/* What a ticket remembers of an entry: enough to find each guard's state again, and the first who waits
 * for it. */
#ifndef WEIR_ENGINE_TICKET_H
#define WEIR_ENGINE_TICKET_H

#include "engine/engine.h"
#include "engine/queue.h"

/* An entry without terms yet. */
static inline void weir__ticket_begin(struct weir_ticket *t, const struct weir *w, int64_t now_ns)
{
    t->entered_ns = now_ns;
    t->forgotten = atomic_load_explicit(&w->forgotten, memory_order_relaxed);
    t->n = 0;
}

/* `key` is its hash where somebody may wait for it, or it may have a limit of its own; else 0. */
static inline void weir__ticket_add(struct weir_ticket *t, struct weir_policy *p,
                                    const struct weir__clause *c, uint32_t index,
                                    uint64_t fingerprint, uint64_t key, int64_t cost)
{
    const int i = t->n++;

    t->term[i].policy = p;
    t->term[i].scope = c->scope;
    t->term[i].fingerprint = fingerprint;
    t->term[i].key = key;
    t->term[i].cost = cost;
    t->term[i].index = index;
}

#endif
