/* Remote stores: the interface between the engine and the layer above it.
 *
 * An engine whose store is on another machine has a `remote`. It still has a small private store,
 * because the names, limits, lists and overrides of policies belong to each process; but its keys
 * are in the remote store, and every decision on them goes through these functions. So nothing in
 * the engine knows Redis, and the layer above (src/redis) knows nothing of tables.
 *
 * `at.given` says whether the caller gave the time (X_at, or its own clock). If so, the remote
 * store decides at that time too; else it uses its own clock.
 */
#ifndef WEIR_ENGINE_REMOTE_H
#define WEIR_ENGINE_REMOTE_H

#include "base/text.h"
#include "engine/engine.h"

struct weir__remote_ops {
    /* Ends all requests that are under way: a request without a reply has failed. Called before the
     * policies are forgotten. */
    void (*end)(struct weir__remote *f);
    void (*close)(struct weir__remote *f);
    /* Returns 0 if the store supports such a limit; else an error, and fills *why. */
    int (*check)(struct weir__remote *f, const struct weir_limit *limit, struct weir_diag *why);
    /* Gives the policy its (next) limit; its keys are those of `scope`. An anonymous policy
     * (anonymous.h) has only one limit in its life. */
    int (*define)(struct weir__remote *f, struct weir_policy *p, const struct weir_limit *limit,
                  struct weir__slice scope, bool anonymous, struct weir__now at,
                  struct weir_diag *why);
    /* The policy is ready for decisions: fetches what the store must first say about it. May
     * wait. */
    void (*created)(struct weir__remote *f, struct weir_policy *p);
    /* No thread uses the policy any more. */
    void (*forget)(struct weir__remote *f, struct weir_policy *p);
    /* Gives a key of the policy, or all keys with a prefix, an override; NULL removes it. */
    int (*override)(struct weir__remote *f, struct weir_policy *p, const void *key, size_t key_len,
                    bool prefix, const struct weir_limit *limit);

    /* As weir__decide_all: all or nothing, any verb; the requests have been checked. */
    int (*decide)(struct weir__remote *f, const struct weir_request *rq, size_t n,
                  enum weir__verb verb, struct weir__now at, struct weir__receipt *receipt,
                  struct weir_verdict *v);
    /* As weir__take_many. */
    int (*take_many)(struct weir__remote *f, const struct weir_request *rq, size_t n,
                     struct weir__now at, struct weir_verdict *v);
    int (*refund)(struct weir__remote *f, const struct weir_request *rq, struct weir__now at,
                  int64_t *back);
    int (*reset)(struct weir__remote *f, const struct weir_request *rq, struct weir__now at);
    int (*cancel)(struct weir__remote *f, struct weir_reservation *r, bool withdraw,
                  struct weir__now at, int64_t *back);
    /* Of a ticket without guards of this node: those are exited before (weir__exit_node_guards). */
    int (*exit)(struct weir__remote *f, struct weir_ticket *t, enum weir_outcome how,
                struct weir__now at);
    /* The engine that has the guards which look at this node. */
    struct weir *(*node)(struct weir__remote *f);
    /* Where it has that term of the policy's limit: the policy, and *term is its term there. NULL:
     * the term is no such guard. */
    struct weir_policy *(*node_policy)(struct weir_policy *p, int *term);
    void (*stats)(struct weir__remote *f, struct weir_remote_stats *stats);
    /* Adds the memory and keys that this process keeps for the time when the store is down. */
    int (*room)(struct weir__remote *f, int64_t now_ns, struct weir_stats *stats);
    /* Called in the child after fork(): it must not wait for anything that the parent's threads
     * held. */
    void (*forked)(struct weir__remote *f);
};

struct weir__remote {
    const struct weir__remote_ops *ops;
    struct weir *engine; /* the engine that has this remote */
};

/* The engine in which guards look at this process: its own, unless the store is remote. */
static inline struct weir *weir__engine_of_node(struct weir *w)
{
    return w->remote ? w->remote->ops->node(w->remote) : w;
}

/* Defined by src/redis. The options are filled. */
int weir__remote_open(struct weir__remote **f, struct weir *w, const struct weir_options *o,
                      struct weir_diag *why);

#endif
