/* A decision on its way to a far store. Who can wait calls weir_take; this is for a loop that cannot.
 *
 * The loop has a pipeline of its own for each far store, watches its descriptor and deadline, and turns it
 * (pipeline.h). What it asked is told from within weir__pipeline_step, weir__pipeline_await_all or weir__pipeline_close; or at
 * once, from within weir__decision_begin: keys that are listed, and all while the store is away. There is always an answer: if the store gives none it is the limit's fallback.
 */
#ifndef WEIR_REDIS_REDIS_DECIDE_H
#define WEIR_REDIS_REDIS_DECIDE_H

#include "engine/engine.h"
#include "redis/client/pipeline.h"

#define WEIR__DECISION_INLINE \
    640 /* bytes of a request that need no allocation: one or two terms, a usual key */

struct weir__redis;

/* One decision; the memory is the asker's, from begin until told. */
struct weir__decision {
    struct weir__command command; /* first */
    void (*done)(struct weir__decision *a);
    void *arg;
    int error;
    struct weir_verdict verdict;

    /* The rest is redis_decide.c's. */
    struct weir__redis *redis;
    const struct weir_request *rq;
    struct weir_request own; /* of a loop: its copy */
    size_t n;
    enum weir__verb verb;
    struct weir__now at;
    struct weir__receipt *receipt; /* or NULL */
    bool decided;                  /* error and verdict are there */
    int terms;
    unsigned char request_of[WEIR_TERMS_MAX]; /* by term as the script counts: the request ... */
    unsigned char index_of[WEIR_TERMS_MAX];   /* ... and the term of its limit */
    int64_t act_us[WEIR_TERMS_MAX], now_us;
    int64_t lease_ns; /* how long a permit of its limits can last */
    char ticket[40];
    char *bytes; /* small, or allocated */
    char small[WEIR__DECISION_INLINE];
};

/* Whether `which` of the verdict is a request, and not a term. */
static inline bool weir__decision_names_requests(enum weir__verb verb)
{
    return verb == WEIR__TAKE_ALL || verb == WEIR__ENTER_ALL;
}

static inline void weir__decision_finish(struct weir__decision *a, int error)
{
    a->error = error;
    a->decided = true;
}

/* Settles it by the limits' fallback= (redis_fallback.c). It has been gathered. */
void weir__decision_fall_back(struct weir__decision *a);

/* A pipeline of the caller's own to the engine's far store; weir__pipeline_close ends it. NULL: the store is not far,
 * or there is no memory. */
struct weir__pipeline *weir__redis_pipeline_open(struct weir *w);

/* weir_take of n requests, each by itself: a[i] for rq[i], whose key and policy must last until it is told. told
 * and arg are filled in by the caller. What is sent goes out together. */
void weir__decision_begin(struct weir *w, struct weir__pipeline *pipeline, struct weir__decision *a,
                          const struct weir_request *rq, size_t n, struct weir__now at);

#endif
