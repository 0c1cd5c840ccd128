/* The engine's insides, shared by the files that make it up:
 *
 *     engine.c     open, close, time, stats
 *     policies.c   names to limits in force, live change
 *     lists.c      keys that a policy treats otherwise: allowed, denied, with a limit of their own
 *     take.c       one key: take, peek, refund, reset, and batches
 *     several.c    several keys, all or nothing (take_all.c: the public calls, reservations)
 *     overflow.c   keys without a place; evict.c has whose place goes, owners.c whose key it is
 *     placement.c  where the keys of a limit are kept; live_change.c what a change does to them
 *     enter.c      guards: to enter, to wait for it, to exit
 *     guard.c      what is built on that: a call through a guard, how a guard stands
 *     sampler.c    what the system is doing, for the guards that look at it
 *     wait.c       blocking, in turn; queue.c has the turns
 *     store.c      where it all lies: private memory, or (file.c) a shared file
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
#include "os/load.h"
#include "os/rcu.h"

#define WEIR__ENGINE_LINE 64

struct weir__remote;

struct weir_policy {
    struct weir__revision *_Atomic revision; /* as this process knows it */
    struct weir__record *record;             /* as the store knows it */
    uint64_t tag; /* what record->tag was, and is unless it was forgotten */
    struct weir__store *store;
    struct weir *engine;
    struct weir__lists *lists;       /* under the store's lock; NULL: none */
    void *remote;                    /* what a far store keeps of it (far.h); NULL: nothing */
    _Atomic bool guards, needs_load; /* what the edition was, when it was last looked at */
    struct weir_policy *next;
    struct weir_policy *before; /* of unlisted ones, which come and go */
    char name[WEIR_NAME_MAX];
};

/* Those who wait for keys to come free; see queue.h. */
struct weir__wait_list {
    pthread_mutex_t lock;
    struct weir__key_waiter *first, *last;
};
#define WEIR__WAIT_LISTS 16

struct weir {
    struct weir *next; /* of all that this process has open */
    struct weir__store *store;
    struct weir__remote *remote; /* whose the keys are, if they are elsewhere; else NULL */
    struct weir_clock clock;     /* now == NULL: our own */
    enum weir_full full;
    pthread_mutex_t policies_lock; /* of the list */
    struct weir_policy *_Atomic policies;
    struct weir_policy *anonymous; /* see unlisted.h; under the same lock */
    struct weir__wait_list queue[WEIR__WAIT_LISTS];
    struct weir__load load;
    pthread_mutex_t scratch_lock; /* of what several.c tries large states on */
    void *scratch;
    size_t scratch_bytes;
    _Alignas(WEIR__ENGINE_LINE) _Atomic uint64_t refused_full;
    _Atomic uint64_t allowed_full;
    _Atomic uint64_t overflow_decisions, overflow_refusals;
    _Alignas(WEIR__ENGINE_LINE) _Atomic uint64_t waiting; /* how many wait in all queues   */
    _Atomic uint64_t forgotten;                           /* how many policies were closed */
};

/* What the functions below return, beside 0 and errors: the limit was changed meanwhile, begin anew
 * after weir__policy_refresh. Nothing was decided. */
#define WEIR__STALE 1

/* Whether the engine has that policy. May be asked within a reader's section. */
bool weir__policy_is_here(struct weir *w, const struct weir_policy *p);

/* Makes an edition that the policy's readers will decide by the one in force in this process. The caller
 * holds the store's mutex. */
static inline void weir__policy_publish(struct weir_policy *p, struct weir__revision *e)
{
    e->policy = p;
    weir__revision_map_add(&p->store->revision_map, e);
    atomic_store_explicit(&p->revision, e, memory_order_release);
}

/* Closes an edition that was in force, when its readers have gone. */
void weir__revision_retire(struct weir__store *s, struct weir__revision *e);

/* ---- Live change (live_change.c) ----------------------------------------------------------------- */

/* Gives the terms of a new edition scopes and numbers of versions. The caller holds the store's lock. */
int weir__revision_number(struct weir__store *s, struct weir__revision *e);
/* Tells the tables, before the edition is published, how long states of older versions live under it. */
void weir__revision_stretch(const struct weir__revision *e, int64_t now_ns);
/* Brings all states that older versions wrote, in places and in cells, up to the edition, which has been
 * published; but not those of keys with a limit of their own. 0, or the error of the seat's patience. */
int weir__revision_bring_up(struct weir__store *s, struct weir__revision *e,
                            const struct weir__overrides *exceptions, int64_t now_ns);

static inline bool weir__request_fits(const struct weir_request *rq)
{
    return rq->policy && rq->cost >= 0 && rq->patience_ns >= WEIR_WAIT_DEFAULT &&
           rq->key_len <= WEIR_KEY_MAX && (rq->key || rq->key_len == 0);
}

/* ---- Policies (policies.c) --------------------------------------------------------------------- */

/* Within a reader's section. NULL: this process's edition is not that of the store any more. */
static inline struct weir__revision *weir__policy_revision(const struct weir_policy *p)
{
    struct weir__revision *e = atomic_load_explicit(&p->revision, memory_order_acquire);
    const uint32_t now = atomic_load_explicit(&p->record->generation, memory_order_acquire);

    return e->generation == now ? e : NULL;
}

/* Whether its limit has a guard, as far as this process has heard. */
static inline bool weir__policy_guards(const struct weir_policy *p)
{
    return atomic_load_explicit(&p->guards, memory_order_relaxed);
}

/* Outside of a reader's section: brings this process's edition up to the store's. WEIR_EGONE,
 * WEIR_ENOMEM, ... */
int weir__policy_refresh(struct weir_policy *p);

/* ---- Where the keys of a limit are kept (placement.c) -------------------------------------------- */

/* Finds tables, cells and secrets of all terms: as the directory says; anew, for a limit that is being set;
 * for one that comes with a request. The caller holds the store's lock. */
int weir__revision_place(struct weir__store *s, struct weir__revision *e, struct weir_diag *why);
int weir__revision_place_anew(struct weir__store *s, struct weir__revision *e,
                              struct weir_diag *why);
int weir__revision_place_anonymous(struct weir__store *s, struct weir__revision *e,
                                   struct weir_diag *why);

/* Looks anew which limits share which table. The caller holds the store's mutex. */
void weir__store_count_limits(struct weir__store *s);
/* For how many keys of the term there is room beside those of other limits. */
uint64_t weir__clause_keys(const struct weir__store *s, const struct weir__clause *c);

/* ---- Keys -------------------------------------------------------------------------------------- */

/* Under the term's own secret: equal keys of other terms have nothing in common. 0 is no key's. */
static inline uint64_t weir__fingerprint(const struct weir__clause *c,
                                         const struct weir_request *rq)
{
    const uint64_t h = weir__hash(rq->key, rq->key_len, c->secret);

    return h ? h : 1;
}

/* The same of a guard: the gate of the whole process has one state for all keys. */
static inline uint64_t weir__fingerprint_at(const struct weir__clause *c,
                                            const struct weir_request *rq)
{
    static const struct weir_request ANY;

    return weir__fingerprint(c, c->meter.term.algorithm == WEIR_SYSTEM ? &ANY : rq);
}

/* ---- Decisions --------------------------------------------------------------------------------- */

/* What is said when the store is full (full=deny|allow). */
void weir__fallback_full(struct weir *w, const struct weir__clause *c, int64_t wait_ns,
                         bool counted, struct weir_verdict *v);
/* What becomes of an error: 0 and an answer by the fallback of the limit's terms, or the error. */
int weir__fallback_error(struct weir *w, const struct weir_policy *p, int error,
                         struct weir_verdict *v);

enum weir__verb { WEIR__TAKE, WEIR__PEEK, WEIR__TAKE_ALL, WEIR__ENTER, WEIR__ENTER_ALL };

/* What a decision leaves behind, for whoever will give back what it took, or waits for it. */
struct weir__receipt {
    struct weir_reservation
        *reservation;           /* or NULL; of a lone guard, which reserves nothing, as it is */
    struct weir_ticket *ticket; /* or NULL; of a refusal it is left as it is */
    /* Of an entry that was refused, or peeked at and would be: whether only terms refuse that may be
     * waited for, and what they say. */
    bool full;
    struct weir__wait_options line;
};

/* One request, begun anew as often as its limit is changed under it. `memo` may be NULL. */
int weir__decide(struct weir *w, const struct weir_request *rq, enum weir__verb verb,
                 struct weir__now now, struct weir__receipt *memo, struct weir_verdict *v);

/* weir_enter at a time that was read before; *r, unless NULL, is what the rates among the terms took. */
int weir__enter(struct weir *w, const struct weir_request *rq, struct weir__now now,
                struct weir_ticket *t, struct weir_reservation *r, struct weir_verdict *v);

/* All or nothing; `memo` may be NULL. The requests have been checked. The verdict of WEIR__TAKE_ALL and
 * WEIR__ENTER_ALL names a request and not a term. */
int weir__transaction_decide(struct weir *w, const struct weir_request *rq, size_t n,
                             enum weir__verb verb, struct weir__now at, struct weir__receipt *memo,
                             struct weir_verdict *v);
/* The same for a caller who is outside of a reader's section; falls back. */
int weir__decide_all(struct weir *w, const struct weir_request *rq, size_t n, enum weir__verb verb,
                     struct weir__now at, struct weir__receipt *memo, struct weir_verdict *v);

/* Makes `next` the edition of the policy; the key's states, written by the clauses of `from`, become what
 * those of `to` would have written. WEIR__STALE: `now` is not in force any more. */
int weir__transaction_rewrite(struct weir *w, const struct weir_request *rq,
                              struct weir__revision *now, struct weir__revision *from,
                              struct weir__revision *to, struct weir__revision *next,
                              struct weir__now at);

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
    return verb == WEIR__TAKE || verb == WEIR__TAKE_ALL;
}

#endif
