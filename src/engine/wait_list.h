/* The wait lists of an engine: waiters for keys, in the order in which they came, in this process.
 *
 * A waiter is a struct on the stack of its thread, and is in a list from join to leave. The keys of
 * an engine share a few lists; each waiter names its key.
 *
 * Invariants:
 *   (1) A waiter that joined earlier for the same key comes first, unless it left.
 *   (2) A waiter that becomes the first for its key is woken. A wakeup is never lost: one that
 *       comes before the waiter pauses ends its next pause.
 *   (3) The engine's count of waiters is not 0 while there is one. A thread that frees a permit
 *       looks at the count afterwards, and a waiter looks for a free permit after it has joined:
 *       one of the two sees the other.
 */
#ifndef WEIR_ENGINE_WAIT_LIST_H
#define WEIR_ENGINE_WAIT_LIST_H

#include "engine/engine.h"
#include "os/wakeup.h"

struct weir__key_waiter {
    uint64_t key; /* weir__wait_list_key */
    struct weir_policy *policy;
    struct weir__key_waiter *next;
    struct weir__wakeup wakeup; /* signaled when it should look again */
};

/* The hash of a request's key, under the store's own secret. */
static inline uint64_t weir__key_hash(const struct weir__store *s, const struct weir_request *rq)
{
    return weir__hash(rq->key, rq->key_len, s->secret);
}

static inline uint64_t weir__wait_list_key(const struct weir_policy *p, uint64_t key_hash)
{
    return key_hash + (uint64_t)(uintptr_t)p;
}

static inline struct weir__wait_list *weir__wait_list_of(struct weir *w, uint64_t key)
{
    return &w->queue[key % WEIR__WAIT_LISTS];
}

/* Joins, unless `room` waiters for the same key are in the list. */
bool weir__wait_list_join(struct weir *w, struct weir__key_waiter *me, int64_t room);
void weir__wait_list_leave(struct weir *w, struct weir__key_waiter *me);
bool weir__wait_list_is_first(struct weir *w, const struct weir__key_waiter *me);
/* Whether there is a waiter for the key. */
bool weir__wait_list_has(struct weir *w, uint64_t key);

/* Something has changed: wakes the first waiter for the key; or all waiters of the policy. */
void weir__wait_list_wake(struct weir *w, uint64_t key);
void weir__wait_list_wake_all(struct weir *w, const struct weir_policy *p);

#endif
