/* What local.c (the limits), local_override.c (the overrides of keys), local_decide.c (the
 * decisions) and backlog.c (the backlog) share. */
#ifndef WEIR_REDIS_FALLBACK_LOCAL_INTERNAL_H
#define WEIR_REDIS_FALLBACK_LOCAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "redis/fallback/local.h"

/* A limit in force here, as two policies: the share, which decides, and the backlog, which has
 * the rates of the share. NULL: there are no such terms. */
struct weir__local_policies {
    struct weir_policy *share, *backlog;
};

/* A pair that an anonymous limit has or had, perhaps for another number of nodes. It is kept,
 * because a deciding thread may still use it. */
struct weir__local_anonymous {
    struct weir__local_anonymous *older;
    struct weir__local_policies pair;
    struct weir_limit share;
};

struct weir__local_limit {
    /* Read by deciding threads at any time. */
    struct weir_policy *_Atomic share, *_Atomic backlog; /* NULL: it never had one */
    struct weir_policy *_Atomic guards; /* that look at this node; NULL: it never had any */
    _Atomic int guards_n;               /* how many it has now */
    _Atomic int down;                   /* enum weir__down_action */
    _Atomic int denies;                 /* the first term that denies, if one does */
    _Atomic int64_t reported;           /* `limit` in verdicts: that of the whole */
    /* The terms of the share, of the backlog and of the guards, as numbers in the whole limit: four
     * bits each, from the lowest. */
    _Atomic uint64_t shared, backlog_terms, guard_terms;

    /* The rest is under the engine's lock. */
    struct weir__local_limit *next, *before;
    struct weir_limit whole;
    struct weir__overrides *overrides; /* of keys and prefixes, whole; NULL: never any */
    bool anonymous;
    struct weir__local_anonymous
        *pairs;    /* of an anonymous limit, newest first; not always in force */
    char name[24]; /* of the policy, unless anonymous: a number */
    size_t scope_len;
    char scope[];
};

struct weir__local {
    struct weir *engine;
    pthread_mutex_t lock;
    struct weir__local_limit *first;
    uint64_t names;
    _Alignas(WEIR__ENGINE_LINE) _Atomic int64_t backlog_until_ns;
    _Alignas(WEIR__ENGINE_LINE) struct weir__local_counts counts;
};

static inline int weir__local_term(uint64_t terms, int i)
{
    return (int)(terms >> (4 * i) & 15);
}

/* The terms of a share that can have a backlog. False: there are none. */
bool weir__local_rates(const struct weir_limit *share, struct weir_limit *rates);

/* The guards among the limit's terms that look at this node. False: there are none. */
bool weir__local_guards_of(const struct weir_limit *whole, struct weir_limit *guards);

/* Puts all overrides into force, as far as there is memory. The caller holds the lock. */
void weir__local_overrides_enforce(struct weir__local *l, struct weir__local_limit *x);
void weir__local_overrides_free(struct weir__local_limit *x);

/* The share has granted the request (WEIR__TAKE) or was charged (WEIR__CHARGE): adds it to the
 * backlog. */
void weir__local_backlog_record(struct weir__local *l, struct weir__local_limit *x,
                                const struct weir_request *rq, enum weir__verb verb,
                                struct weir__now at);
/* The backlog lasts at least until then. */
void weir__local_backlog_extend(struct weir__local *l, int64_t until_ns);

#endif
