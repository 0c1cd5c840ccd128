/* Stores that are elsewhere: where the engine meets the layer above it.
 *
 * An engine whose store is on another machine has a `far`. It still has a small private store of its own,
 * for the policies' names, limits, lists and overrides are each process's own; but its keys are far away,
 * and every decision on them goes through these functions. So nothing in the engine knows Redis, and the
 * layer above (src/redis) knows nothing of tables.
 *
 * `at.given` says whether the caller named the time (X_at, or a clock of its own). Then it is that time at
 * which the far store decides, too; else it is the far store's own.
 */
#ifndef WEIR_ENGINE_REMOTE_H
#define WEIR_ENGINE_REMOTE_H

#include "base/text.h"
#include "engine/engine.h"

struct weir__remote_ops {
    /* Nothing is under way any more: what was asked and not answered has failed. Before the policies are
     * forgotten. */
    void (*end)(struct weir__remote *f);
    void (*close)(struct weir__remote *f);
    /* Whether the store can have such a limit; an error, and *why, if not. */
    int (*check)(struct weir__remote *f, const struct weir_limit *limit, struct weir_diag *why);
    /* The policy has (another) limit, and its keys are those of `scope`. An unlisted one (unlisted.h) gets no
     * other. */
    int (*define)(struct weir__remote *f, struct weir_policy *p, const struct weir_limit *limit,
                  struct weir__slice scope, bool anonymous, struct weir__now at,
                  struct weir_diag *why);
    /* The policy can be asked for from now on: what the store must say of it first is asked for. May wait. */
    void (*created)(struct weir__remote *f, struct weir_policy *p);
    /* Nobody uses the policy any more. */
    void (*forget)(struct weir__remote *f, struct weir_policy *p);
    /* A key of the policy has a limit of its own; NULL: no longer. */
    int (*override)(struct weir__remote *f, struct weir_policy *p, const void *key, size_t key_len,
                    const struct weir_limit *limit);

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
    int (*exit)(struct weir__remote *f, struct weir_ticket *t, enum weir_outcome how,
                struct weir__now at);
    void (*stats)(struct weir__remote *f, struct weir_remote_stats *stats);
    /* What this process keeps for when the store is away. */
    int (*room)(struct weir__remote *f, int64_t now_ns, struct weir_stats *stats);
    /* After fork(), in the child: nothing that the parent's threads held can be waited for. */
    void (*forked)(struct weir__remote *f);
};

struct weir__remote {
    const struct weir__remote_ops *ops;
    struct weir *engine; /* whose far this is */
};

/* Defined by src/redis. The options are filled. */
int weir__remote_open(struct weir__remote **f, struct weir *w, const struct weir_options *o,
                      struct weir_diag *why);

#endif
