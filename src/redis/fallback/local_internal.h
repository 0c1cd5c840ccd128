/* What local.c (which limits there are), local_override.c (which keys have their own), local_decide.c (what they
 * answer) and backlog.c (what is to be paid in afterwards) share. */
#ifndef WEIR_REDIS_FALLBACK_LOCAL_INTERNAL_H
#define WEIR_REDIS_FALLBACK_LOCAL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "redis/fallback/local.h"

/* A limit of a key's own, whole. */
struct weir__local_key_override {
    struct weir__local_key_override *next;
    size_t key_len;
    int n;
    struct weir_term *term;
    unsigned char key[];
};

/* A limit in force here, twice: what decides, and what is still to be paid in of what it granted, which is
 * the rates of the same. NULL: no such terms. */
struct weir__local_policies {
    struct weir_policy *share, *backlog;
};

/* The pair that an unlisted limit has had, perhaps for another number of nodes. Whoever decides may still be at
 * it, so it stays. */
struct weir__local_anonymous {
    struct weir__local_anonymous *older;
    struct weir__local_policies pair;
    struct weir_limit share;
};

struct weir__local_limit {
    /* Read by whoever decides, at any time. */
    struct weir_policy *_Atomic share, *_Atomic backlog; /* NULL: it never had one */
    _Atomic int down;                                    /* enum weir__down_action */
    _Atomic int denies;       /* the first term that does, where one does */
    _Atomic int64_t reported; /* the limit of the whole */
    /* The terms of the share and of the backlog, as the whole counts them: four bits each, from the lowest. */
    _Atomic uint64_t shared, backlog_terms;

    /* The rest under the engine's lock. */
    struct weir__local_limit *next, *before;
    struct weir_limit whole;
    struct weir__local_key_override *overrides;
    bool anonymous;
    struct weir__local_anonymous
        *handle;   /* of an unlisted one: the newest; its policy is not always in force */
    char name[24]; /* of the policy, else: a number */
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

/* The terms of a share that can be owed. False: it has none. */
bool weir__local_rates(const struct weir_limit *share, struct weir_limit *rates);

/* All its keys' own limits, as far as there is memory. The caller holds the lock. */
void weir__local_overrides_enforce(struct weir__local *l, struct weir__local_limit *x);
void weir__local_overrides_free(struct weir__local_limit *x);

/* The request was granted by its share: it is owed. */
void weir__local_backlog_record(struct weir__local *l, struct weir__local_limit *x,
                                const struct weir_request *rq, struct weir__now at);
/* What was granted counts until then. */
void weir__local_backlog_extend(struct weir__local *l, int64_t until_ns);

#endif
