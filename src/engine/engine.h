/* The internals of the engine, shared by the files that make it up:
 *
 *     engine.c       open, close, time, stats
 *     take.c         one key: take, peek, refund, reset, and batches
 *     transaction.c  several keys, all or nothing (take_all.c: the public calls, reservations;
 *                    transaction_receipt.c: what a caller may give back)
 *     waiter.c       what a request that waits asks next; wait_list.c: in which order
 *     wait.c         waiters of an engine, and callers that block
 *     enter.c        guards: to enter and to exit
 *     guard.c        built on enter.c: a call through a guard, the state of a guard
 *     fallback.c     the answer when the store is full or does not answer
 *     policy/        policies.c: from names to limits in force; live_change.c: what a change does
 *                    to keys; overrides.c: keys that are allowed, denied, or have their own limit;
 *                    revision_map.c: from a state to the limit that wrote it
 *     store/         store.c: private memory, or (file.c) a shared file; placement.c: where the
 *                    keys of a limit are kept; overflow.c: keys without a place; evict.c: which
 *                    key gives up its place
 *     ../os/load.c   the load of the system, for the guards that need it
 */
#ifndef WEIR_ENGINE_ENGINE_H
#define WEIR_ENGINE_ENGINE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/hash.h"
#include "engine/embed.h"
#include "engine/policy/revision.h"
#include "engine/store/store.h"
#include "engine/wait_list.h"
#include "os/load.h"
#include "os/random.h"
#include "os/rcu.h"

#define WEIR__ENGINE_LINE 64

struct weir__remote;

struct weir_policy {
    struct weir__revision *_Atomic revision; /* the limit as this process knows it */
    struct weir__record_head *record;        /* the limit as the store knows it */
    uint64_t tag; /* the value of record->tag, which changes only when the policy is forgotten */
    struct weir__store *store;
    struct weir *engine;
    struct weir__overrides *overrides; /* set under the store's lock, once; NULL: never any */
    void *remote; /* what a remote store keeps for it (remote.h); NULL: nothing */
    _Atomic bool guards, needs_load; /* those of the revision, when it was last read */
    _Atomic uint64_t warned;         /* how often warn= was crossed */
    struct weir_policy *next, *before;
    struct weir_policy *beside; /* in `here` of the engine */
    char name[];                /* with a NUL; that of an anonymous policy is empty */
};

static inline void weir__policy_warned(struct weir_policy *p)
{
    atomic_fetch_add_explicit(&p->warned, 1, memory_order_relaxed);
}

#define WEIR__WAIT_LISTS 1024
#define WEIR__HERE_BITS  10

struct weir {
    struct weir *next; /* in the list of all engines that this process has open */
    struct weir__store *store;
    struct weir__remote *remote; /* the remote store that has the keys; NULL: the keys are here */
    struct weir_clock clock;     /* now == NULL: our own clock */
    const uint64_t *random;      /* in place of random numbers; NULL: the thread's generator */
    enum weir_full full;
    pthread_mutex_t policies_lock; /* guards what follows */
    struct weir_policy *policies;
    struct weir_policy *anonymous;  /* see anonymous.h */
    struct weir_policy **of_record; /* for each record of the directory, the policy opened last */
    struct weir_policy *here[1 << WEIR__HERE_BITS];     /* all of them, by their address */
    struct weir__wait_list wait_list[WEIR__WAIT_LISTS]; /* of keys, by their hash */
    struct weir__load load;
    pthread_mutex_t scratch_lock; /* guards the memory in which transaction.c tries large states */
    void *scratch;
    size_t scratch_bytes;
    /* Whether decisions go another way first: to a remote store, or to reservations that may have
     * lapsed (account/account_lapse.c). */
    _Atomic bool detours;
    _Alignas(WEIR__ENGINE_LINE) _Atomic uint64_t refused_full;
    _Atomic uint64_t allowed_full;
    _Atomic uint64_t overflow_decisions, overflow_refusals;
    _Alignas(WEIR__ENGINE_LINE) _Atomic uint64_t entering; /* waiters that want to enter    */
    _Atomic uint64_t taking;                               /* other waiters                 */
    _Atomic uint64_t forgotten;                            /* policies that were closed     */
    _Atomic uint64_t account_ids; /* the last number from which an id was made (account_calls.c) */
};

/* The functions below return this, beside 0 and errors, if the limit was changed in the meantime.
 * Nothing was decided: the caller starts again after weir__policy_refresh. */
#define WEIR__STALE 1

/* Whether the engine has that policy. The caller may be inside an RCU section. */
bool weir__policy_is_here(struct weir *w, const struct weir_policy *p);
/* A policy is open from now on, or no more. The caller holds policies_lock. */
void weir__policy_appears(struct weir *w, struct weir_policy *p);
void weir__policy_disappears(struct weir *w, const struct weir_policy *p);

/* Puts a revision in force in this process: readers of the policy decide by it from now on. The
 * caller holds the store's mutex. */
static inline void weir__policy_publish(struct weir_policy *p, struct weir__revision *rev)
{
    const struct weir__revision *old = atomic_load(&p->revision);

    rev->policy = p;
    for (int i = 0; old && i < rev->n && i < old->n; i++)
        if (old->term[i].scope == rev->term[i].scope) /* its keys hold the places that they held */
            atomic_store(&rev->term[i].survey, atomic_load(&old->term[i].survey));
    weir__revision_map_add(&p->store->revision_map, rev);
    atomic_store_explicit(&p->revision, rev, memory_order_release);
}

/* Closes a revision that was in force, after a grace period. */
void weir__revision_retire(struct weir__store *s, struct weir__revision *rev);

/* ---- Live change (live_change.c) ----------------------------------------------------------- */

/* Gives the terms of a new revision their scopes and version numbers. The caller holds the store's
 * lock. */
int weir__revision_number(struct weir__store *s, struct weir__revision *rev);
/* Tells the tables, before the revision is published, how long states of older versions stay live
 * under it. */
void weir__revision_stretch(const struct weir__revision *rev, int64_t now_ns);
/* Converts all states that older versions wrote, in places and in cells, to the revision, which has
 * been published; but not those that an override wrote. Returns 0, or the error with which the
 * owner gave up waiting for a lock. */
int weir__revision_bring_up(struct weir__store *s, struct weir__revision *rev, int64_t now_ns);

static inline bool weir__request_fits(const struct weir_request *rq)
{
    return rq->policy && rq->cost >= 0 && rq->patience_ns >= WEIR_WAIT_DEFAULT &&
           rq->key_len <= WEIR_KEY_MAX && (rq->key || rq->key_len == 0);
}

/* ---- Policies (policies.c) ----------------------------------------------------------------- */

/* The revision in force. The caller is inside an RCU section. NULL: this process's revision is no
 * longer that of the store. */
static inline struct weir__revision *weir__policy_revision(const struct weir_policy *p)
{
    struct weir__revision *rev = atomic_load_explicit(&p->revision, memory_order_acquire);
    const uint32_t now = atomic_load_explicit(&p->record->generation, memory_order_acquire);

    return rev->generation == now ? rev : NULL;
}

/* Whether its limit has a guard, as far as this process knows. */
static inline bool weir__policy_guards(const struct weir_policy *p)
{
    return atomic_load_explicit(&p->guards, memory_order_relaxed);
}

/* Brings this process's revision up to the store's. The caller is outside of any RCU section.
 * WEIR_EGONE, WEIR_ENOMEM, ... */
int weir__policy_refresh(struct weir_policy *p);

/* ---- Where the keys of a limit are kept (placement.c) -------------------------------------- */

/* Each finds the tables, cells and secrets of all terms: the first as the directory says, the
 * second for a limit that is being set, the third for a limit that comes with a request. The caller
 * holds the store's lock. */
int weir__revision_place(struct weir__store *s, struct weir__revision *rev, struct weir_diag *why);
int weir__revision_place_anew(struct weir__store *s, struct weir__revision *rev,
                              struct weir_diag *why);
int weir__revision_place_anonymous(struct weir__store *s, struct weir__revision *rev,
                                   struct weir_diag *why);

/* Counts again which limits share which table. The caller holds the store's mutex. */
void weir__store_count_limits(struct weir__store *s);
/* The number of keys of the term that have room beside the keys of other limits. */
uint64_t weir__term_keys(const struct weir__store *s, const struct weir__compiled_term *c);

/* ---- Keys ---------------------------------------------------------------------------------- */

/* The hash of a request's key, under the store's own secret. */
static inline uint64_t weir__key_hash(const struct weir__store *s, const struct weir_request *rq)
{
    return weir__hash(rq->key, rq->key_len, s->secret);
}

/* The fingerprint of a key, under the term's own secret: equal keys of other terms have unrelated
 * ones. No key has 0. */
static inline uint64_t weir__fingerprint(const struct weir__compiled_term *c,
                                         const struct weir_request *rq)
{
    return weir__hash(rq->key, rq->key_len, c->secret) ?: 1;
}

/* The same for a guard: `system`, the guard of the whole process, has one state for all keys. */
static inline uint64_t weir__fingerprint_at(const struct weir__compiled_term *c,
                                            const struct weir_request *rq)
{
    static const struct weir_request ANY;

    return weir__fingerprint(c, c->meter.term.algorithm == WEIR_SYSTEM ? &ANY : rq);
}

/* ---- Decisions ----------------------------------------------------------------------------- */

/* A random number for an attempt at a guard. */
static inline uint64_t weir__engine_random(const struct weir *w)
{
    return w->random ? *w->random : weir__random_next(w->store->secret);
}

/* Fills the verdict for a store that is full (full=deny|allow). */
void weir__fallback_full(struct weir *w, const struct weir__compiled_term *c, int64_t wait_ns,
                         bool counted, struct weir_verdict *v);
/* Answers an error by the fallback= of the limit's terms and returns 0, or returns the error. */
int weir__fallback_error(struct weir *w, const struct weir_policy *p, int error,
                         struct weir_verdict *v);

/* Decides one request, and starts again each time its limit is changed in the meantime. `receipt`
 * may be NULL. */
int weir__decide(struct weir *w, const struct weir_request *rq, enum weir__verb verb,
                 struct weir__now now, struct weir__receipt *receipt, struct weir_verdict *v);

/* weir_enter at a time that was read before. *r, unless NULL, receives what the rates among the
 * terms took. */
int weir__enter(struct weir *w, const struct weir_request *rq, struct weir__now now,
                struct weir_ticket *t, struct weir_reservation *r, struct weir_verdict *v);

/* Decides n requests, all or nothing; `receipt` may be NULL. The requests have been checked.
 * `numbers`, unless NULL, take the place of the limit of each key, with its override (embed.h).
 * `which` in the verdict of WEIR__TAKE_ALL and WEIR__ENTER_ALL is a request and not a term. */
int weir__transaction_decide(struct weir *w, const struct weir_request *rq, size_t n,
                             const struct weir_limit *numbers, enum weir__verb verb,
                             struct weir__now at, struct weir__receipt *receipt,
                             struct weir_verdict *v);
/* The same for a caller outside of any RCU section; answers errors by fallback=. */
int weir__decide_all(struct weir *w, const struct weir_request *rq, size_t n, enum weir__verb verb,
                     struct weir__now at, struct weir__receipt *receipt, struct weir_verdict *v);

/* Locks the request's key under the revision in force and calls `run` with its states, by the index
 * of the term; NULL: it has none. WEIR__STALE: `now` is no longer in force. Else what `run`
 * returns. */
int weir__transaction_hold(struct weir *w, const struct weir_request *rq,
                           struct weir__revision *now, struct weir__now at,
                           int (*run)(void *arg, struct weir__state *const *state), void *arg);

static inline bool weir__verb_enters(enum weir__verb verb)
{
    return verb == WEIR__ENTER || verb == WEIR__ENTER_ALL;
}

static inline bool weir__verb_charges(enum weir__verb verb)
{
    return verb != WEIR__PEEK;
}

static inline bool weir__verb_takes(enum weir__verb verb)
{
    return verb == WEIR__TAKE || verb == WEIR__TAKE_ALL || verb == WEIR__CHARGE;
}

#endif
