/* A decision of a Redis store for an event loop, which cannot wait. A thread that can wait calls
 * weir_take and its like.
 *
 * The loop has a pipeline of its own for each Redis store, polls its descriptor, and steps it when
 * that is ready and at the deadline (pipeline.h). The result arrives through `done`: from within
 * weir__pipeline_step or weir__pipeline_close; or at once, from within weir__decision_begin, for
 * keys on an allow or deny list and for everything while the store is down. There is always a
 * result: if the store gives none, it is the limit's fallback.
 */
#ifndef WEIR_REDIS_REDIS_DECIDE_H
#define WEIR_REDIS_REDIS_DECIDE_H

#include "engine/embed.h"
#include "redis/client/pipeline.h"

#define WEIR__DECISION_INLINE \
    640 /* bytes of a command that need no allocation: one or two terms, a usual key */

struct weir__local_entry;
struct weir__redis;

/* What a decision does with the account of its key (account.lua). */
struct weir__decision_account {
    enum { WEIR__DECISION_PLAIN, WEIR__DECISION_RESERVES, WEIR__DECISION_SETTLES } step;
    uint64_t id;
    int64_t ttl_ns; /* RESERVES */
    bool free;      /* RESERVES: it lapses as nothing */
    bool made;      /* RESERVES, once it is done: there is a reservation of that id */
    int64_t back;   /* SETTLES, once it is done: what was given back */
};

/* One decision. The memory is the caller's, from begin until done. */
struct weir__decision {
    struct weir__command command; /* first */
    void (*done)(struct weir__decision *decision);
    void *arg;
    int error;
    struct weir_verdict verdict;

    /* The rest belongs to redis_decide.c. */
    struct weir__redis *redis;
    struct weir__pipeline *pipeline; /* the loop's */
    const struct weir_request *rq;
    const struct weir_limit *numbers; /* in place of the limit of each key; or NULL */
    struct weir_request own;          /* the loop's request, copied, if there is one */
    size_t n;
    size_t learns; /* the request whose limit's creation time is being asked for */
    enum weir__verb verb;
    struct weir__now at;
    struct weir__receipt *receipt; /* or NULL */
    bool decided;                  /* error and verdict are set */
    int terms;
    unsigned char request_of[WEIR_TERMS_MAX]; /* by term in the script's order: the request ... */
    unsigned char index_of[WEIR_TERMS_MAX];   /* ... and the term of its limit */
    /* When it was encoded, for its receipt: the scope of each term, and how often keys of each
     * request's policy had been reset. */
    uint64_t scope_of[WEIR_TERMS_MAX];
    uint32_t resets_of[WEIR_TERMS_MAX];
    int64_t act_us[WEIR_TERMS_MAX], now_us;
    int64_t lease_ns; /* the longest lease of its limits */
    char ticket[40];
    struct weir__local_entry *guards; /* of this node, entered; NULL: the limits have none */
    struct weir__decision_account account;
    int64_t step[4]; /* as it is sent (weir__plan_step) */
    char *bytes;     /* small, or allocated */
    char small[WEIR__DECISION_INLINE];
};

/* Whether `which` of the verdict is the number of a request, not of a term. */
static inline bool weir__decision_names_requests(enum weir__verb verb)
{
    return verb == WEIR__TAKE_ALL || verb == WEIR__ENTER_ALL;
}

/* Guards of this node (decision_guards.c). Enters those of the requests whose bits are set; false:
 * they refuse, or there is an error, and it is decided. */
bool weir__decision_enter_guards(struct weir__decision *decision, unsigned requests);
/* It is decided, and has entered guards: a grant of the store joins theirs, after a refusal they
 * are left. */
void weir__decision_join_guards(struct weir__decision *decision);

/* Its error, or 0 and its verdict, are set. */
void weir__decision_finish(struct weir__decision *decision, int error);

/* Decides it by the limits' fallback= (redis_fallback.c). Its terms are known already. */
void weir__decision_fall_back(struct weir__decision *decision);

/* Opens a pipeline for the caller alone to the engine's Redis; weir__pipeline_close closes it.
 * NULL: the engine has no Redis, or there is no memory. */
struct weir__pipeline *weir__redis_pipeline_open(struct weir *w);

/* Whether a Redis can have the limit: 0, or an error and *why. */
int weir__redis_check(const struct weir_limit *limit, struct weir_diag *why);

/* Begins to decide n requests by one verdict; `receipt` may be NULL. Unless NULL, `numbers` take
 * the place of the limit of each key (embed.h); while the store is down they count for nothing, and
 * the limit's fallback= decides. Policies, keys, numbers and the receipt must last until it is
 * done, and so must the requests if there are several. The caller sets done and arg. The command
 * leaves with the next flush or step. */
void weir__decision_begin(struct weir *w, struct weir__pipeline *pipeline,
                          struct weir__decision *decision, const struct weir_request *rq, size_t n,
                          const struct weir_limit *numbers, enum weir__verb verb,
                          struct weir__now at, struct weir__receipt *receipt);

/* Begins to reserve the request's cost under a new id (weir__account_new_id), or to settle a
 * reservation as that cost: the engine's weir__account_reserve and _settle. No fallback= decides
 * these: without a store there is no account, and the error is WEIR_EDOWN. A settlement that was
 * sent and not answered may be sent again: the second one finds no reservation (WEIR_ESETTLED). */
void weir__decision_reserve(struct weir *w, struct weir__pipeline *pipeline,
                            struct weir__decision *decision, const struct weir_request *rq,
                            uint64_t id, int64_t ttl_ns, bool free, struct weir__now at);
void weir__decision_settle(struct weir *w, struct weir__pipeline *pipeline,
                           struct weir__decision *decision, const struct weir_request *rq,
                           uint64_t id, struct weir__now at);

#endif
