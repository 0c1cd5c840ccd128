/* Waiting in an engine: the wait lists of its keys, and callers that block.
 *
 * A caller that blocks has a timeline: the engine's clock, or a clock that starts at a time of the
 * caller's and runs at the speed of the engine's. Callers that do not block use the functions of
 * embed.h.
 */
#ifndef WEIR_ENGINE_WAIT_H
#define WEIR_ENGINE_WAIT_H

#include "engine/engine.h"

/* ---- Wait lists of keys ---------------------------------------------------------------------- */

/* Policies with one tag have the same keys: anonymous ones may be open several times. */
static inline uint64_t weir__wait_key(const struct weir_policy *p, uint64_t key_hash)
{
    return key_hash + p->tag * UINT64_C(0x9e3779b97f4a7c15);
}

static inline struct weir__wait_list *weir__wait_list_of(struct weir *w, uint64_t key)
{
    return &w->wait_list[key % WEIR__WAIT_LISTS];
}

/* Whether callers wait to enter, or are about to. A caller that has freed a permit asks this
 * afterwards (wait_list.h (3)). */
static inline bool weir__wait_has_entering(struct weir *w)
{
    return atomic_load(&w->entering) != 0;
}

/* Whether others wait to enter the key of the request. */
bool weir__wait_is_behind(struct weir *w, const struct weir_request *rq);
/* The answer to a caller that wants to enter behind others and may not wait. */
int weir__wait_refuse(struct weir *w, const struct weir_request *rq, struct weir__now now,
                      struct weir_verdict *v);

/* Wakes the first waiter under a key that weir__wait_key made: the policy may be forgotten by now.
 * Outside of RCU sections, because it takes the lock of a wait list. */
static inline void weir__wait_wake_key(struct weir *w, uint64_t key)
{
    weir__wait_list_wake(weir__wait_list_of(w, key), key);
}

/* Something has changed for the key: the first waiter looks again. */
static inline void weir__wait_wake(struct weir *w, const struct weir_policy *p, uint64_t key_hash)
{
    weir__wait_wake_key(w, weir__wait_key(p, key_hash));
}

/* The same for the key of a request, if any caller waits at all. */
static inline void weir__wait_wake_request(struct weir *w, const struct weir_request *rq)
{
    if (atomic_load(&w->entering) != 0 || atomic_load(&w->taking) != 0)
        weir__wait_wake(w, rq->policy, weir__key_hash(w->store, rq));
}

/* ---- Callers that block ---------------------------------------------------------------------- */

struct weir__timeline {
    const struct weir *engine;
    int64_t shift_ns;
    bool given; /* the caller gave the time at which it starts */
};

struct weir__now weir__timeline_now(const struct weir__timeline *t);
/* Sleeps until that time. Returns 0, or WEIR_EINTR. */
int weir__timeline_sleep(const struct weir__timeline *t, int64_t until_ns);

/* Begins at `now`, and blocks until the request is decided. An entry has a ticket, and may have a
 * reservation (see weir__enter); a take has a reservation. Returns 0, and *v is the answer; or an
 * error, and the caller has taken nothing. */
int weir__wait_block(struct weir *w, const struct weir_request *rq, const struct weir__timeline *t,
                     struct weir__now now, struct weir_ticket *ticket,
                     struct weir_reservation *reservation, struct weir_verdict *v);

#endif
