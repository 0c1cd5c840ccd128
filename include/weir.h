/* weir: rate limiting for programs and fleets.
 *
 * This header is the manual. A limit is a line of text, the same here, on the command line and on
 * the wire; docs/reference/limits.md has the grammar, every option and the arithmetic:
 *
 *     token-bucket 100/s burst=20 + fixed-window 10k/day tz=Europe/Berlin
 *
 * One limit for a whole program needs a limiter, and three lines:
 *
 *     #include <stdio.h>
 *     #include <weir.h>
 *
 *     int main(void)
 *     {
 *         struct weir_limiter *api;
 *
 *         if (weir_limiter_open(&api, "token-bucket 100/s burst=20", NULL) != 0)
 *             return 1;
 *         for (int i = 0; i < 30; i++)
 *             puts(weir_limiter_allow(api) ? "served" : "too many requests");
 *         weir_limiter_close(api);
 *         return 0;
 *     }
 *
 * One limit for each of many clients needs an engine: a store of keys, and the policies on them.
 *
 *     #include <stdio.h>
 *     #include <string.h>
 *     #include <weir.h>
 *
 *     int main(void)
 *     {
 *         const char *clients[] = {"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1"};
 *         struct weir *w;
 *         struct weir_policy *per_client;
 *         struct weir_diag why;
 *         struct weir_verdict v;
 *
 *         if (weir_open(&w, NULL, &why) != 0 ||
 *             weir_policy_set(w, "clients", "token-bucket 1/s burst=2", &per_client, &why) != 0) {
 *             fprintf(stderr, "%s\n", why.text);
 *             return 1;
 *         }
 *         for (int i = 0; i < 4; i++) {
 *             struct weir_request rq =
 *                 weir_request_of(per_client, clients[i], strlen(clients[i]));
 *
 *             if (weir_take(w, &rq, &v) != 0)
 *                 continue;
 *             if (v.allowed)
 *                 printf("%s: served, %lld left\n", clients[i], (long long)v.remaining);
 *             else
 *                 printf("%s: come back in %lld ms\n", clients[i],
 *                        (long long)(v.retry_after_ns + 999999) / 1000000);
 *         }
 *         weir_close(w);
 *         return 0;
 *     }
 *
 * Build with `cc program.c $(pkg-config --cflags --libs weir)`. More programs stand further down
 * and in examples/.
 *
 * Rules that hold throughout:
 *   - Times are nanoseconds in int64_t, in 0..2^62, counted from the Unix epoch.
 *   - A function that can fail returns 0, or a negative weir_error and leaves its results
 *     untouched (but for `why`). A denial is an answer, not an error.
 *   - X() is X_at() at the engine's own time. Use one of the two on a key, not both: to a state, a
 *     time that steps back is a clock that stepped back (which mints nothing).
 *   - The caller owns what it passes in; nothing here keeps a pointer it was given. What an open
 *     returned, its close frees.
 *   - All functions may be called from any thread at any time, but for close and forget: nobody may
 *     use what they free, then or later. A decision allocates nothing.
 *   - After fork() a child may go on using what its parent opened: private stores are then two,
 *     shared files stay one.
 */
#ifndef WEIR_H
#define WEIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEIR_VERSION "0.1.0"

#if defined(__GNUC__)
#define WEIR_API __attribute__((visibility("default")))
#else
#define WEIR_API
#endif

/* ---- Errors -------------------------------------------------------------------------------- */

#define WEIR_ERRORS(X)                                                   \
    X(WEIR_EINVAL, -1, "an argument is outside its documented range")    \
    X(WEIR_ESYNTAX, -2, "the text is not a limit")                       \
    X(WEIR_ERANGE, -3, "a number of the limit is outside its range")     \
    X(WEIR_ENOZONE, -4, "no such time zone")                             \
    X(WEIR_ENOMEM, -5, "out of memory")                                  \
    X(WEIR_ESTORE, -6, "no such kind of store")                          \
    X(WEIR_EFORMAT, -7, "the file is not a sound state file")            \
    X(WEIR_EVERSION, -8, "the file is of another version")               \
    X(WEIR_EIO, -9, "the system refused")                                \
    X(WEIR_EBUSY, -10, "the key is held by a process that stands still") \
    X(WEIR_EFULL, -11, "there are as many as may be")                    \
    X(WEIR_EINTR, -12, "a signal ended the wait")                        \
    X(WEIR_EGONE, -13, "the policy was forgotten")

enum weir_error {
#define X(name, code, text) name = code,
    WEIR_ERRORS(X)
#undef X
};

/* "WEIR_EINVAL", and the sentence for it. Never NULL. */
WEIR_API const char *weir_error_name(int error);
WEIR_API const char *weir_error_text(int error);

/* ---- The answer ---------------------------------------------------------------------------- */

#define WEIR_REASONS(X)                                                                          \
    X(OK)         /* granted                                                                 */  \
    X(LIMITED)    /* refused now; retry_after_ns says when the same request can pass         */  \
    X(TOO_BIG)    /* refused for ever: the cost can never fit                                 */ \
    X(QUEUE_FULL) /* refused: as many are waiting as may                                      */ \
    X(FULL)       /* not counted: the store is full of live keys (weir_options.full)          */ \
    X(FALLBACK)   /* not counted: the store did not answer (the limit's fallback=)            */

enum weir_reason {
#define X(name) WEIR_##name,
    WEIR_REASONS(X)
#undef X
};

WEIR_API const char *weir_reason_name(enum weir_reason reason); /* "OK", "LIMITED", ... */

struct weir_verdict {
    bool allowed;
    enum weir_reason reason;
    int which;              /* of several: the first that refused, else -1. A term of the limit,
                               or in weir_take_all a request                                      */
    int64_t limit;          /* the most that could ever be granted at once                        */
    int64_t remaining;      /* the largest cost that patience 0 would grant now; 0..limit         */
    int64_t wait_ns;        /* granted: act only after this long                                  */
    int64_t retry_after_ns; /* refused: the same cost and patience can pass then; -1 never        */
    int64_t reset_after_ns; /* the least time after which forgetting the key changes no answer    */
};

/* How long a caller will wait. 0 is now or not at all; a duration, in ns, grants if the wait is no
 * longer; FOREVER is a reservation; DEFAULT waits as the limit itself would have it. */
#define WEIR_FOREVER      INT64_MAX
#define WEIR_WAIT_DEFAULT INT64_C(-1)

/* ---- Limits -------------------------------------------------------------------------------- */

#define WEIR_ALGORITHMS(X)                \
    X(FIXED_WINDOW, "fixed-window")       \
    X(SLIDING_WINDOW, "sliding-window")   \
    X(SLIDING_COUNTER, "sliding-counter") \
    X(SLIDING_LOG, "sliding-log")         \
    X(TOKEN_BUCKET, "token-bucket")       \
    X(LEAKY_BUCKET, "leaky-bucket")       \
    X(PACER, "pacer")                     \
    X(SMOOTH_BURSTY, "smooth-bursty")     \
    X(SMOOTH_WARMUP, "smooth-warmup")     \
    X(MIN_INTERVAL, "min-interval")

enum weir_algorithm {
#define X(name, text) WEIR_##name,
    WEIR_ALGORITHMS(X)
#undef X
};

enum weir_calendar { WEIR_DURATION, WEIR_DAY, WEIR_WEEK, WEIR_MONTH };
enum weir_align { WEIR_ALIGN_FIRST, WEIR_ALIGN_CLOCK };
enum weir_fallback { WEIR_FALLBACK_LOCAL, WEIR_FALLBACK_ALLOW, WEIR_FALLBACK_DENY };

#define WEIR_NONE           INT64_C(-1) /* leaky-bucket delay=none, sliding-window per-slot=none */
#define WEIR_COUNT_MAX      INT64_C(1000000000000)
#define WEIR_LOG_COUNT_MAX  INT64_C(65536)
#define WEIR_SLOTS_MAX      INT64_C(1000)
#define WEIR_PERIOD_MIN_NS  INT64_C(1000)
#define WEIR_PERIOD_MAX_NS  (INT64_C(366) * 86400 * 1000000000)
#define WEIR_TERMS_MAX      16
#define WEIR_ZONE_MAX       48   /* bytes of a time zone's name, its NUL included              */
#define WEIR_LIMIT_TEXT_MAX 4096 /* bytes that hold any canonical limit, its NUL included      */

/* One term of a limit. Filled by weir_limit_parse, defaults included: fields that the algorithm
 * does not use are zero, so that equal limits are equal bytes. */
struct weir_term {
    enum weir_algorithm algorithm;
    enum weir_calendar calendar;
    enum weir_align align;
    enum weir_fallback fallback;
    int shadow;
    int count_denied;
    int64_t count;           /* events ... (min-interval: 1)                                      */
    int64_t period_ns;       /* ... in this long (a calendar month: 31 days)                      */
    int64_t slots;           /* sliding-window                                                    */
    int64_t per_slot;        /* sliding-window: events in one slot, or WEIR_NONE                  */
    int64_t min_interval_ns; /* sliding-log                                                       */
    int64_t burst;           /* token-bucket; leaky-bucket: capacity; pacer: 1 + slack            */
    int64_t initial;         /* token-bucket: tokens at birth                                     */
    int64_t delay;           /* leaky-bucket: events before delays begin, or WEIR_NONE            */
    int64_t queue;           /* pacer: how many may be waiting                                    */
    int64_t max_wait_ns;     /* pacer: WEIR_FOREVER or a bound                                    */
    int64_t max_burst_ns;    /* smooth-bursty: how much idleness is stored                        */
    int64_t warmup_ns;       /* smooth-warmup                                                     */
    int64_t cold_milli;      /* smooth-warmup: 3000 is cold=3                                     */
    char tz[WEIR_ZONE_MAX];  /* fixed-window with align=clock                                     */
};

struct weir_limit {
    int n;
    struct weir_term term[WEIR_TERMS_MAX];
};

/* What is wrong with a text, and where: `text` is the whole message, column included. */
struct weir_diag {
    int column; /* from 1; 0 if no place can be named */
    char text[512];
};

/* Text to limit. 0 and *limit filled, or an error, *limit untouched and *why filled. `why` may be
 * NULL. A tz= other than UTC is looked up under /usr/share/zoneinfo. */
WEIR_API int weir_limit_parse(struct weir_limit *limit, const char *text, struct weir_diag *why);

/* Limit to canonical text: always NUL-terminated if cap > 0; returns the full length, as snprintf
 * does. weir_limit_parse of the text gives the same limit. */
WEIR_API size_t weir_limit_print(const struct weir_limit *limit, char *out, size_t cap);

/* The name of an algorithm, as limits write it. */
WEIR_API const char *weir_algorithm_name(enum weir_algorithm algorithm);

/* ---- One limiter, without keys ------------------------------------------------------------- */

/* A limit and the state of its only key: no table, no lock where the state fits in 16 bytes. Its
 * clock is weir_now(NULL). Patience and costs are as in a request (below). */
struct weir_limiter;

WEIR_API int weir_limiter_open(struct weir_limiter **limiter, const char *limit,
                               struct weir_diag *why);
WEIR_API void weir_limiter_close(struct weir_limiter *limiter);

/* Another limit from now on; what was used stays used. */
WEIR_API int weir_limiter_change(struct weir_limiter *limiter, const char *limit,
                                 struct weir_diag *why);
WEIR_API int weir_limiter_change_at(struct weir_limiter *limiter, const char *limit, int64_t now_ns,
                                    struct weir_diag *why);

/* Takes 1, now or not at all. The quickest question there is. */
WEIR_API bool weir_limiter_allow(struct weir_limiter *limiter);
WEIR_API bool weir_limiter_allow_at(struct weir_limiter *limiter, int64_t now_ns);

WEIR_API int weir_limiter_take(struct weir_limiter *limiter, int64_t cost, int64_t patience_ns,
                               struct weir_verdict *v);
WEIR_API int weir_limiter_take_at(struct weir_limiter *limiter, int64_t cost, int64_t patience_ns,
                                  int64_t now_ns, struct weir_verdict *v);
WEIR_API int weir_limiter_peek(struct weir_limiter *limiter, int64_t cost, int64_t patience_ns,
                               struct weir_verdict *v);
WEIR_API int weir_limiter_peek_at(struct weir_limiter *limiter, int64_t cost, int64_t patience_ns,
                                  int64_t now_ns, struct weir_verdict *v);

/* Gives back up to `cost` of what is charged; *back, unless NULL, says how much that was. */
WEIR_API int weir_limiter_refund(struct weir_limiter *limiter, int64_t cost, int64_t *back);
WEIR_API int weir_limiter_refund_at(struct weir_limiter *limiter, int64_t cost, int64_t now_ns,
                                    int64_t *back);

/* Gives back a reservation of `cost` that was to act at act_ns, as far as no later one depends on
 * it. A limit of several terms gives back nothing here: weir_reserve can. */
WEIR_API int weir_limiter_cancel(struct weir_limiter *limiter, int64_t cost, int64_t act_ns,
                                 int64_t *back);
WEIR_API int weir_limiter_cancel_at(struct weir_limiter *limiter, int64_t cost, int64_t act_ns,
                                    int64_t now_ns, int64_t *back);

/* As good as new. */
WEIR_API void weir_limiter_reset(struct weir_limiter *limiter);

/* Blocks until its turn; as weir_wait. */
WEIR_API int weir_limiter_wait(struct weir_limiter *limiter, int64_t cost, int64_t deadline_ns,
                               struct weir_verdict *v);

/* ---- Engines ------------------------------------------------------------------------------- */

/* A store of keys, and the policies on them. */
struct weir;

/* What a newcomer gets when all places its key could have are taken by live keys. */
enum weir_full {
    WEIR_FULL_EVICT, /* the place of the key that is nearest to being as good as new         */
    WEIR_FULL_DENY,  /* a refusal, reason FULL; retry_after_ns says when a place may be free  */
    WEIR_FULL_ALLOW  /* a grant, reason FULL, that nobody counts                              */
};

/* Where time comes from, if not from weir_now(NULL): a clock of the caller's, who calls it `now`.
 * Nanoseconds since the Unix epoch. */
struct weir_clock {
    int64_t (*now)(void *arg);
    /* Returns at until_ns or a little later; not 0 if the sleeper was disturbed, and weir_wait gives
     * up. NULL: the difference is slept through in real time. */
    int (*sleep)(void *arg, int64_t until_ns);
    void *arg;
};

#define WEIR_KEY_MAX          65536 /* bytes of a key                                          */
#define WEIR_NAME_MAX         128   /* bytes of a policy's name, its NUL included              */
#define WEIR_MAX_KEYS_DEFAULT 1000000
#define WEIR_MAX_KEYS_MOST    UINT64_C(3000000000)
#define WEIR_POLICIES_DEFAULT 128
#define WEIR_POLICIES_MOST    65536

/* All zero is the default of everything. */
struct weir_options {
    /* "memory:" (NULL too) is private to this process and its threads. "file:/path" is shared by
     * all processes that open it and outlives them; it is made if it is not there, its directory is
     * not. The path is absolute. */
    const char *store;
    /* How many live keys there is room for. A private store takes address space for them at once,
     * and memory as keys come; a file takes it all at once. Keys are not stored, so their length
     * does not matter. 1,000,000 unless told. An existing file keeps what it was made with. */
    uint64_t max_keys;
    /* States come in sizes: most algorithms' take 16 bytes, sliding-counter's 24, smooth-warmup's
     * 40, sliding-window's 4 or 8 a slot and sliding-log's 8 an event more. Each size that is in use
     * has a table of its own, for max_keys keys or for what fits in max_bytes, whichever is less.
     * 256 bytes a key of max_keys unless told. */
    uint64_t max_bytes;
    uint32_t max_policies; /* 128 unless told                                              */
    enum weir_full full;
    const struct weir_clock *clock; /* copied; NULL is the engine's own                    */
    /* Keys are hashed under a secret so that nobody can choose keys that meet. Zero: a random one
     * (a file keeps its own). Not zero: this one. */
    uint64_t secret[2];
};

/* `options` and `why` may be NULL. */
WEIR_API int weir_open(struct weir **w, const struct weir_options *options, struct weir_diag *why);
WEIR_API void weir_close(struct weir *w);

/* The time of this engine's clock; of the process's own clock if w is NULL. It counts from the Unix
 * epoch, never goes back and does not follow steps of the wall clock. */
WEIR_API int64_t weir_now(const struct weir *w);

/* ---- Policies ------------------------------------------------------------------------------ */

/* A policy is a limit in force: a name, a limit, and the keys used under it. Every policy has keys
 * of its own: "alice" under one is not "alice" under another. */
struct weir_policy;

/* Defines the policy, or changes its limit: keys keep their state (limits.md, Live change), unless
 * the new limit has another algorithm or ring size, whose keys start fresh. To set the limit that is
 * in force already changes nothing. In a file the policies are shared: a change made by one
 * process is at once in force in all. The handle stays good until weir_policy_forget or weir_close;
 * `policy` and `why` may be NULL. */
WEIR_API int weir_policy_set(struct weir *w, const char *name, const char *limit,
                             struct weir_policy **policy, struct weir_diag *why);
WEIR_API int weir_policy_set_at(struct weir *w, const char *name, const char *limit, int64_t now_ns,
                                struct weir_policy **policy, struct weir_diag *why);

/* The policy of that name, or NULL. */
WEIR_API struct weir_policy *weir_policy_find(struct weir *w, const char *name);
WEIR_API const char *weir_policy_name(const struct weir_policy *policy);
/* The limit in force now. */
WEIR_API void weir_policy_limit(struct weir_policy *policy, struct weir_limit *limit);
/* Ends the policy and frees the handle. Its keys fade as they become as good as new; a policy that
 * gets the same name later has new ones. After an error (WEIR_EBUSY: the file is locked by a process
 * that stands still) the policy is still in force and the handle still good. */
WEIR_API int weir_policy_forget(struct weir *w, struct weir_policy *policy);
/* The policy after this one, in no order that means anything; the first after NULL; NULL after the
 * last. */
WEIR_API struct weir_policy *weir_policy_next(struct weir *w, const struct weir_policy *after);

/* ---- Decisions ----------------------------------------------------------------------------- */

struct weir_request {
    struct weir_policy *policy;
    const void *key; /* any bytes; key_len may be 0 */
    size_t key_len;
    int64_t cost;        /* 0 is always granted and changes nothing; negative is an error      */
    int64_t patience_ns; /* 0, a duration, WEIR_FOREVER or WEIR_WAIT_DEFAULT                   */
};

/* A request of cost 1 that waits as its limit would have it. */
static inline struct weir_request weir_request_of(struct weir_policy *policy, const void *key,
                                                  size_t key_len)
{
    struct weir_request rq = {policy, key, key_len, 1, WEIR_WAIT_DEFAULT};

    return rq;
}

/* Takes `cost` from the key if the limit grants it, else takes nothing. A grant with a wait_ns is a
 * reservation: act only then. */
WEIR_API int weir_take(struct weir *w, const struct weir_request *rq, struct weir_verdict *v);
WEIR_API int weir_take_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                          struct weir_verdict *v);

/* What weir_take would answer, without taking. */
WEIR_API int weir_peek(struct weir *w, const struct weir_request *rq, struct weir_verdict *v);
WEIR_API int weir_peek_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                          struct weir_verdict *v);

/* n requests, decided one by one in order: v[i] answers rq[i]. Much faster than n calls, for their
 * trips to memory overlap; 16 to 64 at a time is a good number. If one of the requests is malformed
 * (WEIR_EINVAL) none is decided, and v is untouched. After any other error some may have been: v[i]
 * answers those, and of the others says that limit is -1. */
WEIR_API int weir_take_many(struct weir *w, const struct weir_request *rq, size_t n,
                            struct weir_verdict *v);
WEIR_API int weir_take_many_at(struct weir *w, const struct weir_request *rq, size_t n,
                               int64_t now_ns, struct weir_verdict *v);

/* 1 to 16 requests, all or nothing, as one: if one is refused none is charged. Counted are the
 * terms of their limits, at most 16 in all. The same key twice sees its first charge. */
WEIR_API int weir_take_all(struct weir *w, const struct weir_request *rq, size_t n,
                           struct weir_verdict *v);
WEIR_API int weir_take_all_at(struct weir *w, const struct weir_request *rq, size_t n,
                              int64_t now_ns, struct weir_verdict *v);

/* Gives back up to rq->cost of what the key is charged; *back, unless NULL, says how much: of
 * several terms, the most that any took back. The terms are given back one by one: if one fails
 * (WEIR_EBUSY), those before it have been given back, so do not repeat it. */
WEIR_API int weir_refund(struct weir *w, const struct weir_request *rq, int64_t *back);
WEIR_API int weir_refund_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                            int64_t *back);

/* What weir_reserve took, so that it can be cancelled. Plain bytes, the caller's. */
struct weir_reservation {
    int64_t act_ns; /* when the caller may act */
    int n;          /* 0 once it is cancelled, or if it was refused */
    struct {
        struct weir_policy *policy;
        uint64_t scope, fingerprint;
        int64_t cost, act_ns;
        uint32_t index, resets;
    } term[WEIR_TERMS_MAX];
};

/* weir_take_all, and *r remembers what it took. */
WEIR_API int weir_reserve(struct weir *w, const struct weir_request *rq, size_t n,
                          struct weir_reservation *r, struct weir_verdict *v);
WEIR_API int weir_reserve_at(struct weir *w, const struct weir_request *rq, size_t n,
                             int64_t now_ns, struct weir_reservation *r, struct weir_verdict *v);

/* Gives back what no later reservation depends on; nothing once it has acted, and nothing the second
 * time, or after a reset of any key of the policy. After an error it may be called again: what was
 * given back already is not given back twice. */
WEIR_API int weir_cancel(struct weir *w, struct weir_reservation *r, int64_t *back);
WEIR_API int weir_cancel_at(struct weir *w, struct weir_reservation *r, int64_t now_ns,
                            int64_t *back);

/* Blocks until the request is granted and its turn has come, at most until deadline_ns on the
 * engine's clock (WEIR_FOREVER: as long as it takes). A request that cannot pass by then is refused
 * at once. rq->patience_ns is not looked at. Waiters for one key are served in the order
 * they came (within one process). One that a signal disturbs gives back what it took and returns
 * WEIR_EINTR. In the twin, time starts at now_ns and passes as it does. */
WEIR_API int weir_wait(struct weir *w, const struct weir_request *rq, int64_t deadline_ns,
                       struct weir_verdict *v);
WEIR_API int weir_wait_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                          int64_t deadline_ns, struct weir_verdict *v);

/* Makes the key as good as new. */
WEIR_API int weir_reset(struct weir *w, const struct weir_request *rq);
WEIR_API int weir_reset_at(struct weir *w, const struct weir_request *rq, int64_t now_ns);

/* A key of several parts (tenant, user, path) as one: each part behind its length, so that ("ab",
 * "c") and ("a", "bc") differ. Writes at most cap bytes and returns the whole length, as snprintf
 * does; 9 bytes a part beside the parts are always enough. */
struct weir_bytes {
    const void *at;
    size_t len;
};
WEIR_API size_t weir_key_join(void *out, size_t cap, const struct weir_bytes *part, size_t n);

/* ---- What an engine holds ------------------------------------------------------------------ */

struct weir_stats {
    uint64_t max_keys;  /* live keys of 16-byte states that there is room for               */
    uint64_t keys;      /* places in use, by live keys and by keys as good as new            */
    uint64_t live_keys; /* of them alive; in tables for more than a million, an estimate    */
    uint64_t bytes;     /* of memory in use, or of the file                                 */
    uint64_t max_bytes; /* what it may become with the policies there are                   */
    uint64_t evicted;   /* live keys that made place for others                             */
    uint64_t refused_full, allowed_full; /* requests answered FULL                          */
    uint64_t busy;      /* requests that met a holder who stood still                       */
    uint64_t recovered; /* decisions of killed processes that were undone                   */
    uint32_t policies, max_policies;
};

WEIR_API int weir_stats(struct weir *w, struct weir_stats *stats);
WEIR_API int weir_stats_at(struct weir *w, int64_t now_ns, struct weir_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
