/* How many waiters are in wait lists. */
#ifndef WEIR_TESTS_ENGINE_LISTED_H
#define WEIR_TESTS_ENGINE_LISTED_H

#include "engine/engine.h"

/* In one list, which a child of the process may have inherited. */
static inline uint64_t listed_in(struct weir__wait_list *q)
{
    uint64_t n = 0;

    (void)weir__lock_take(&q->lock, &weir__owner_process);
    if (q->generation == weir__owner_process.number)
        for (const struct weir__waiter *at = q->heads; at; at = at->other)
            n += (uint64_t)at->length;
    weir__lock_drop(&q->lock);
    return n;
}

static inline uint64_t listed(struct weir *w)
{
    uint64_t n = 0;

    for (int i = 0; i < WEIR__WAIT_LISTS; i++)
        n += listed_in(&w->wait_list[i]);
    return n;
}

#endif
