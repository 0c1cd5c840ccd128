/* How every key of a small store stands, in a form that can be compared: for each key of each
 * policy a number made of what peeks answer, at several times and for several costs.
 */
#ifndef WEIR_TESTS_PROBE_H
#define WEIR_TESTS_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#define PROBE_SECOND INT64_C(1000000000)
#define PROBE_T0     (INT64_C(1704067200) * PROBE_SECOND)
#define PROBE_NOW    (PROBE_T0 + 20 * PROBE_SECOND) /* when scenes play */
#define PROBE_KEYS   8                              /* "k0".."k6", and "new" */
#define PROBE_NEW    (PROBE_KEYS - 1)

#define PROBE_POLICIES(X)                                                          \
    X(BUCKET, "bucket", "token-bucket 10/1m")                                      \
    X(WINDOW, "window", "fixed-window 10/1m")                                      \
    X(COUNTER, "counter", "sliding-counter 10/1m")                                 \
    X(WARM, "warm", "smooth-warmup 10/1m warmup=1m")                               \
    X(RING, "ring", "sliding-window 10/1m slots=30")                               \
    X(LOG, "log", "sliding-log 10/1m")                                             \
    X(PACER, "pacer", "pacer 10/1m")                                               \
    X(BOTH, "both", "token-bucket 10/1m + sliding-log 12/1m + fixed-window 20/1m") \
    X(LATER, "later", "sliding-log 40/1m") /* set by some scenes only */

enum probe_policy {
#define X(name, text, limit) PROBE_##name,
    PROBE_POLICIES(X)
#undef X
        PROBE_ALL
};

const char *probe_name(enum probe_policy p);
const char *probe_limit(enum probe_policy p);
/* A request of cost 1, now or not at all; of those that shape, whenever it may be. */
struct weir_request probe_request(struct weir *w, enum probe_policy p, int key);

/* What was found. It lies where the parent can read it. */
struct probe {
    bool done;
    uint64_t sum[PROBE_ALL][PROBE_KEYS]; /* 0: there is no such policy */
    int64_t back; /* what a cancel of the estimate gave back; -1: there was no such one */
    uint64_t recovered;
    int64_t worst_ns; /* that anyone waited for an answer */
    char wrong[240];  /* empty: nothing */
};

/* From now on a look, after all else, also cancels the estimate of that number. */
void probe_estimate(enum probe_policy p, int key, uint64_t id);
/* Looks at every key. No error but WEIR_EBUSY is accepted, and that for a second at most. */
void probe_look(struct weir *w, struct probe *p);
/* Takes from every key: all must answer. */
void probe_use(struct weir *w, struct probe *p);
/* Whether two looks found the same. */
bool probe_same(const struct probe *a, const struct probe *b);
/* Writes which keys differ. */
void probe_differ(const struct probe *a, const struct probe *b, char *out, size_t cap);

#endif
