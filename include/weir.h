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
    X(WEIR_EGONE, -13, "the policy was forgotten")                       \
    X(WEIR_EDOWN, -14, "the store does not answer")

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
    X(OPEN)       /* refused: a breaker is open, or its probes are out                        */ \
    X(OVERLOAD)   /* refused: the system, or what it calls, has more than it can do           */ \
    X(LISTED)     /* refused: the key is on the policy's deny list                            */ \
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
    int64_t limit;          /* the most that could ever be granted at once; WEIR_COUNT_MAX: there
                               is no such number, as of a breaker                                 */
    int64_t remaining;      /* the largest cost that patience 0 would grant now; 0..limit         */
    int64_t wait_ns;        /* granted: act only after this long                                  */
    int64_t retry_after_ns; /* refused: the same cost and patience can pass then; -1 never; 0, of
                               guards: nobody can know                                            */
    int64_t reset_after_ns; /* the least time after which forgetting the key changes no answer    */
    bool
        overflow; /* the key has no place in a full store, and was judged by what keys without one owe
                      together: it may be refused early, and retry_after_ns is a bound, not exact */
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
    X(MIN_INTERVAL, "min-interval")       \
    X(CONCURRENCY, "concurrency")         \
    X(SYSTEM, "system")                   \
    X(BREAKER, "breaker")                 \
    X(BBR, "bbr")                         \
    X(VEGAS, "vegas")                     \
    X(GRADIENT, "gradient")               \
    X(AIMD, "aimd")                       \
    X(ADAPTIVE_RATE, "adaptive-rate")

enum weir_algorithm {
#define X(name, text) WEIR_##name,
    WEIR_ALGORITHMS(X)
#undef X
};

/* From here on they are guards: they are entered and left (weir_enter), and look at what is running
 * and how it goes. Those before are rates. */
#define WEIR_FIRST_GUARD WEIR_CONCURRENCY

/* breaker: whose comparisons it follows. */
enum weir_preset {
    WEIR_PRESET_NONE,
    WEIR_PRESET_HYSTRIX,
    WEIR_PRESET_RESILIENCE4J,
    WEIR_PRESET_SENTINEL,
    WEIR_PRESET_SRE
};
/* breaker: what it does whatever happens. */
enum weir_forced { WEIR_FORCED_NOT, WEIR_FORCED_OPEN, WEIR_FORCED_CLOSED, WEIR_FORCED_METRICS };

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
    int full; /* full=: 1 + an enum weir_full; 0: as the store does */
    int shadow;
    int count_denied;
    int64_t count;           /* events ... (min-interval: 1; concurrency: permits; other guards: 0,
                                or a rate)                                                        */
    int64_t period_ns;       /* ... in this long (a calendar month: 31 days)                      */
    int64_t slots;           /* sliding-window; bbr, breaker: buckets                             */
    int64_t per_slot;        /* sliding-window: events in one slot, or WEIR_NONE                  */
    int64_t min_interval_ns; /* sliding-log                                                       */
    int64_t burst;           /* token-bucket, adaptive-rate; leaky: capacity; pacer: 1 + slack    */
    int64_t initial;         /* token-bucket: tokens at birth; vegas, gradient, aimd: the limit   */
    int64_t delay;           /* leaky-bucket: events before delays begin, or WEIR_NONE            */
    int64_t queue;           /* pacer, concurrency: how many may be waiting                       */
    int64_t max_wait_ns;     /* pacer, concurrency: WEIR_FOREVER or a bound                       */
    int64_t max_burst_ns;    /* smooth-bursty: how much idleness is stored                        */
    int64_t warmup_ns;       /* smooth-warmup                                                     */
    int64_t cold_milli;      /* smooth-warmup: 3000 is cold=3                                     */
    char tz[WEIR_ZONE_MAX];  /* fixed-window with align=clock                                     */

    /* Guards. Ratios and thresholds are in thousandths; WEIR_NONE is one that is not looked at. */
    int64_t lease_ns;       /* concurrency: how long a permit lasts that nobody returns           */
    int64_t cpu_milli;      /* bbr, system                                                        */
    int64_t memory_milli;   /* bbr, system                                                        */
    int64_t load_milli;     /* bbr, system: the load average of a minute, times 1000              */
    int64_t pressure_milli; /* system: PSI, the share of time that some task waited               */
    int64_t window_ns;      /* bbr, breaker: WEIR_NONE where a count of calls is the window       */
    int64_t window_calls;   /* breaker                                                            */
    int64_t cooling_ns;     /* bbr                                                                */
    int64_t least;          /* vegas, gradient, aimd: the limit; adaptive-rate: events a period   */
    int64_t most;           /* the same; system: in flight                                        */
    int64_t target_ns;      /* adaptive-rate, aimd, system (rt): the latency that is still good   */
    int64_t errors_milli;   /* breaker; adaptive-rate: the share of errors that is borne          */
    int64_t slow_milli;     /* breaker: so many take longer ...                                   */
    int64_t slow_ns;        /* ... than this                                                      */
    int64_t error_count;    /* breaker                                                            */
    int64_t volume;         /* breaker: calls before a share opens it                             */
    int64_t open_ns;        /* breaker: how long it is open, the first time                       */
    int64_t open_most_ns;   /* breaker: and as it grows                                           */
    int64_t growth_milli;   /* breaker: by how much, from one opening to the next                 */
    int64_t probes;         /* breaker: half-open, how many may try                               */
    int64_t probe_ns;       /* breaker: half-open, how long they may take before it opens again   */
    int64_t keys;           /* keys=: how many are to have room; 0: a part like the others'       */
    enum weir_preset preset;
    enum weir_forced forced;
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
 * clock is weir_now(NULL). Patience and costs are as in a request (below). Rates only: guards need an
 * engine. */
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

/* ---- What guards are told and tell --------------------------------------------------------- */

/* How a call that was entered went. */
enum weir_outcome {
    WEIR_SUCCESS,
    WEIR_ERROR,
    WEIR_DROP,  /* it was refused or timed out further down: a sign of overload */
    WEIR_IGNORE /* it tells nothing: the permit goes back, nothing is learned */
};

/* What the system is doing, in thousandths; WEIR_NONE: not known, and then nothing is over it. */
struct weir_signals {
    int64_t cpu_milli, memory_milli, load_milli, pressure_milli;
};

/* How a guard stands. Only a breaker opens, and only bbr cools; all others are CLOSED always. (OPENED is
 * how a breaker stands, WEIR_OPEN is why it refused.) */
enum weir_guard_state { WEIR_CLOSED, WEIR_HALF_OPEN, WEIR_OPENED, WEIR_COOLING };
/* "closed", "half-open", "open", "cooling" */
WEIR_API const char *weir_guard_state_name(enum weir_guard_state stand);

struct weir_view {
    enum weir_guard_state state;
    int64_t limit;     /* in flight at most now; -1: this guard has none */
    int64_t in_flight; /* -1: not counted                                */
    int64_t rate;      /* adaptive-rate: events a period now; else -1    */
};

/* ---- Engines ------------------------------------------------------------------------------- */

/* A store of keys, and the policies on them. */
struct weir;

/* What a newcomer gets when all places its key could have are taken by live keys. Keys that somebody has
 * entered (weir_enter) are evicted by nobody, nor are those of guards that have learned: where they take
 * all places a newcomer is refused, or with ALLOW let in, reason FULL. A closed breaker needs no place to be
 * entered; one that finds none when a call ends learns nothing from it, and stays closed. */
enum weir_full {
    WEIR_FULL_EVICT, /* the place of another key, or none; what keys without a place owe is kept, so
                        nobody is granted more than its limit (docs/guide/store.md)           */
    WEIR_FULL_DENY,  /* a refusal, reason FULL; retry_after_ns says when a place may be free  */
    WEIR_FULL_ALLOW  /* a grant, reason FULL, that nobody counts: beyond the limit, then      */
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

/* Whom an engine tells what its operators should know: that its store is away, or back. One line, without
 * a newline; by any thread, so quickly. */
struct weir_log {
    void (*say)(void *arg, const char *line);
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
     * not. The path is absolute. "redis://[[user]:password@]host[:port][/db][?option&...]" and
     * "redis+unix:/path" are shared by machines (docs/guide/fleet.md); see weir_remote_stats below. */
    const char *store;
    /* How many live keys there is room for. A private store takes address space for them at once,
     * and memory as keys come; a file takes it all at once. Keys are not stored, so their length
     * does not matter. 1,000,000 unless told. An existing file keeps what it was made with. */
    uint64_t max_keys;
    /* States come in sizes: most algorithms' take 16 bytes, sliding-counter's 24, smooth-warmup's
     * 40, sliding-window's 4 or 8 a slot and sliding-log's 8 an event more, guards' as their pages in
     * docs/algorithms say. Each size that is in use has a table of its own, for max_keys keys or for
     * as many as fit in half of what is left of max_memory when it is made. All that the store ever
     * takes, tables, overflow cells and policies, is within max_memory: 256 bytes a key of max_keys, at
     * least 64 MiB, and 64 KiB a policy unless told. */
    uint64_t max_memory;
    uint32_t max_policies; /* 128 unless told                                              */
    enum weir_full full;
    const struct weir_clock *clock; /* copied; NULL is the engine's own                    */
    const struct weir_log *log;     /* copied; NULL: nobody is told                        */
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
 * the new limit has another algorithm or ring size, whose keys start fresh (in a Redis: are those of that
 * form, while the others stay until they end). To set the limit that is
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
 * gets the same name later has new ones (but in a Redis, where it finds those that are left). After an error (WEIR_EBUSY: the file is locked by a process
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

/* What weir_take would answer, without taking; or weir_enter, without waiting. FULL too, if there would be
 * no place for the key. (Of a limit of several terms, in a private store that evicts and is full of calls in
 * flight, only a take finds out whether keys can be moved so that there is a place for each.) */
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
        uint64_t scope, fingerprint, key;
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
 * WEIR_EINTR. In the twin, time starts at now_ns and passes as it does.
 *
 * The deadline holds whatever the store does: one that is full of calls in flight is asked again before it,
 * not after; one that does not answer makes a waiter late by what two questions take, which are under way
 * when the deadline comes: twice the timeout of a Redis, twice 10 ms where a process stands still that
 * holds the key in a file. A signal is heard by who sleeps; one that comes while a question is under way
 * does not end it. A thread that waits is not cancelled before it returns. */
WEIR_API int weir_wait(struct weir *w, const struct weir_request *rq, int64_t deadline_ns,
                       struct weir_verdict *v);
WEIR_API int weir_wait_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                          int64_t deadline_ns, struct weir_verdict *v);

/* Makes the key as good as new. A key without a place (verdict.overflow) is given one for that.
 * WEIR_EFULL, and nothing is forgiven, if no place can be had because calls in flight or keys that
 * owe more than their whole limit hold them all: try again later. Calls that have entered the key
 * are forgotten: their weir_exit returns nothing and teaches nothing. `system`, which is one for
 * all keys, stays as it is. */
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
    uint64_t refused_full, allowed_full; /* requests answered FULL, by this engine          */
    uint64_t overflow_decisions; /* of this engine, on keys without a place (overflow) ...  */
    uint64_t overflow_refusals;  /* ... and of them refusals                                */
    uint64_t busy;      /* requests that met a holder who stood still                       */
    uint64_t recovered; /* decisions of killed processes that were undone                   */
    uint32_t policies, max_policies;
};

WEIR_API int weir_stats(struct weir *w, struct weir_stats *stats);
WEIR_API int weir_stats_at(struct weir *w, int64_t now_ns, struct weir_stats *stats);

/* The same of one policy, all terms of its limit together; in a file, of all processes that share it. What
 * is counted begins anew when a limit gets another algorithm. Of a policy in a Redis all is 0. */
struct weir_policy_stats {
    uint64_t keys;        /* live keys that there is room for: the least of its terms       */
    uint64_t state_bytes; /* of one key                                                     */
    uint64_t evicted;     /* live keys whose place went to others; see verdict.overflow     */
    uint64_t overflow_decisions; /* on keys without a place: of each term one ...           */
    uint64_t overflow_refusals;  /* ... and of them refusals                                */
};

WEIR_API int weir_policy_stats(struct weir *w, struct weir_policy *policy,
                               struct weir_policy_stats *stats);

/* ---- Stores on other machines -------------------------------------------------------------- */

/* An engine whose store is a Redis decides there: one round trip a decision, by Redis's own clock, in
 * whole microseconds. While the store is away every limit does what its fallback= says; nobody waits longer
 * than the timeout, and only those who were on their way when it went. docs/guide/fleet.md has the bounds.
 * Beside rates such a store can have `concurrency` with a lease; other guards look at one process. */
struct weir_remote_stats {
    bool remote;                  /* whether the store is such a one; if not, all is 0 */
    bool down;                    /* now */
    uint64_t nodes;               /* that share a limit when it is away: told or counted */
    uint64_t asked;               /* requests that the store answered                   */
    uint64_t failed;              /* requests that were sent and not answered           */
    uint64_t crowded;             /* not sent: as many were waiting as may              */
    uint64_t fell_back;           /* answered by fallback=; of them ...                 */
    uint64_t fell_back_allowed;   /* ... granted                                  */
    uint64_t drained;             /* events that were granted so, and paid in after     */
    uint64_t outages, recoveries; /* how often the store went, and came back    */
};
WEIR_API void weir_remote_stats(struct weir *w, struct weir_remote_stats *stats);

/* ---- Guards -------------------------------------------------------------------------------- */

/* A rate looks at how much came; a guard looks at what is running and how it goes. So a call is entered,
 * and when it has ended it is exited with its outcome:
 *
 *     #include <stdio.h>
 *     #include <weir.h>
 *
 *     static enum weir_outcome call_the_backend(void)
 *     {
 *         return WEIR_SUCCESS;
 *     }
 *
 *     int main(void)
 *     {
 *         struct weir *w;
 *         struct weir_policy *backend;
 *         struct weir_diag why;
 *
 *         if (weir_open(&w, NULL, &why) != 0 ||
 *             weir_policy_set(w, "backend", "concurrency 10 queue=20 max-wait=100ms + breaker",
 *                             &backend, &why) != 0) {
 *             fprintf(stderr, "%s\n", why.text);
 *             return 1;
 *         }
 *         for (int i = 0; i < 3; i++) {
 *             const struct weir_request rq = weir_request_of(backend, "db-7", 4);
 *             struct weir_ticket t;
 *             struct weir_verdict v;
 *
 *             if (weir_enter(w, &rq, &t, &v) != 0)
 *                 return 1;
 *             if (v.allowed)
 *                 weir_exit(w, &t, call_the_backend());
 *             else
 *                 printf("not now: %s\n", weir_reason_name(v.reason));
 *         }
 *         weir_close(w);
 *         return 0;
 *     }
 *
 * The limit may join guards and rates: `system` is asked first, then rates, `concurrency`, `breaker`, and
 * the adaptive ones; all or nothing, and `which` is the term as it was written. Every key has states of
 * its own, but for `system`, which has one for all keys. weir_take and its like refuse a policy that has
 * a guard with WEIR_EINVAL, for what they took could never be left; weir_peek and weir_reset do not.
 */

/* What was entered, so that it can be exited. Plain bytes, the caller's. */
struct weir_ticket {
    int64_t entered_ns;
    uint64_t forgotten;
    int n; /* how many guards are still to be left; 0 once it was exited, or if it was refused */
    struct {
        struct weir_policy *policy;
        uint64_t scope, fingerprint, key, birth;
        int64_t cost;
        uint32_t index;
    } term[WEIR_TERMS_MAX];
};

/* Enters, now or not at all; but where `concurrency` has a queue, waits in it while all permits are out:
 * as long as its max-wait says, or rq->patience_ns if that is less. Callers for one key are let in in the
 * order they came (within one process); one for whom the queue has no place is refused at once with
 * QUEUE_FULL, one whom waiting would not help is told so at once too, and one whose time is over is refused
 * with LIMITED. One that a signal disturbs returns WEIR_EINTR. Whoever is not let in leaves no trace.
 *
 * cost is how many permits are taken, usually 1. A rate's patience is as in weir_take: a grant with a
 * wait_ns is to be acted on only then, and the guards count the time from the entry on. A retry_after_ns
 * of 0 is not known: it depends on others. In the twin, time starts at now_ns and passes as it does. */
WEIR_API int weir_enter(struct weir *w, const struct weir_request *rq, struct weir_ticket *t,
                        struct weir_verdict *v);
WEIR_API int weir_enter_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                           struct weir_ticket *t, struct weir_verdict *v);

/* 1 to 16 requests, all or nothing, as weir_take_all: say, connections of a client and of the whole
 * server. Nobody waits here; nor is anybody let in before those who wait in weir_enter: LIMITED. */
WEIR_API int weir_enter_all(struct weir *w, const struct weir_request *rq, size_t n,
                            struct weir_ticket *t, struct weir_verdict *v);
WEIR_API int weir_enter_all_at(struct weir *w, const struct weir_request *rq, size_t n,
                               int64_t now_ns, struct weir_ticket *t, struct weir_verdict *v);

/* Ends the ticket; a second time does nothing. Any thread may do it. Harmless too is a ticket that was
 * refused, one whose lease has expired, one whose policy was changed or forgotten meanwhile, and one whose
 * key was reset: it takes nothing from those who came after. After an error (WEIR_EBUSY) it may be tried
 * again. */
WEIR_API int weir_exit(struct weir *w, struct weir_ticket *t, enum weir_outcome how);
WEIR_API int weir_exit_at(struct weir *w, struct weir_ticket *t, enum weir_outcome how,
                          int64_t now_ns);

/* A call through a guard: enters, calls `run`, and exits with the outcome that it returns. `fallback`,
 * unless NULL, is called if the guard refused (v->allowed is false), and if `run` returned WEIR_ERROR or
 * WEIR_DROP. Both get `arg`. `v` may be NULL. After an error neither was called, unless weir_exit itself
 * failed.
 *
 *     static enum weir_outcome fetch(void *page)
 *     {
 *         *(const char **)page = "fresh";
 *         return WEIR_SUCCESS;
 *     }
 *
 *     static void from_cache(void *page, const struct weir_verdict *v)
 *     {
 *         (void)v;
 *         *(const char **)page = "stale";
 *     }
 *
 *     const char *get_page(void)
 *     {
 *         const char *page = "none";
 *
 *         weir_run(w, &rq, fetch, from_cache, &page, NULL);
 *         return page;
 *     }
 */
WEIR_API int weir_run(struct weir *w, const struct weir_request *rq,
                      enum weir_outcome (*run)(void *arg),
                      void (*fallback)(void *arg, const struct weir_verdict *v), void *arg,
                      struct weir_verdict *v);

/* How the guard that is the term-th of the limit, from 0, stands for the key of the request. WEIR_EINVAL if
 * there is no such term, or it is a rate. When an open breaker may be tried says weir_peek, by
 * retry_after_ns. Nobody is called when a guard changes: who wants to know looks. */
WEIR_API int weir_guard_view(struct weir *w, const struct weir_request *rq, int term,
                             struct weir_view *view);
WEIR_API int weir_guard_view_at(struct weir *w, const struct weir_request *rq, int term,
                                int64_t now_ns, struct weir_view *view);

/* What `system` and `bbr` are told of the system. What is WEIR_NONE here is sampled (so is everything at
 * first); what is not, is believed: for tests, and for those who know better. Twice a second a thread of
 * the engine reads the container's processor time and memory relative to its quota (cgroup v1 and v2), or
 * the machine's, the load average and the pressure; it is started by the first policy that asks, and ends
 * with weir_close. Processor time is smoothed: a sample weighs a twentieth. */
WEIR_API int weir_signals_set(struct weir *w, const struct weir_signals *signals);
/* What they are told now. */
WEIR_API void weir_signals_get(struct weir *w, struct weir_signals *signals);

/* ---- Keys that a policy treats otherwise --------------------------------------------------- */

/* Keys on the deny list are refused with LISTED, for ever; keys on the allow list pass everything but
 * `system`, uncounted. Who is on both is denied. To set a list replaces it, at once and whole, under
 * everybody who decides; n = 0 empties it. At most a million keys, of which 8 bytes each are kept. Lists
 * hold for all verbs, and in this process: others that share a file have their own. */
enum weir_list { WEIR_LIST_DENY, WEIR_LIST_ALLOW };
#define WEIR_LIST_MOST 1000000

WEIR_API int weir_list_set(struct weir *w, struct weir_policy *policy, enum weir_list which,
                           const struct weir_bytes *keys, size_t n);

/* A limit of a key's own, in place of the policy's: "this customer has ten times as much". It must have
 * the algorithms of the policy's limit, in the same order, and states of the same size: another rate,
 * burst, queue, threshold or number of permits; not another count of a sliding-log or of a concurrency
 * with a lease, nor other slots, buckets or window of calls, of which states are made; and `system`, which
 * is one for all keys, as it is there. The key's state
 * goes on, as in a live change of the policy (limits.md). NULL takes it away. At most 4096 in a policy; in
 * this process, as lists. While the policy's own limit has another shape it is out of force. */
#define WEIR_OVERRIDES_MOST 4096

WEIR_API int weir_override_set(struct weir *w, struct weir_policy *policy, const void *key,
                               size_t key_len, const char *limit, struct weir_diag *why);
WEIR_API int weir_override_set_at(struct weir *w, struct weir_policy *policy, const void *key,
                                  size_t key_len, const char *limit, int64_t now_ns,
                                  struct weir_diag *why);

/* ---- Pools --------------------------------------------------------------------------------- */

/* Worker threads behind a bounded queue. A pool keeps what is slow apart: its work has so many threads
 * and no more, so many tasks may wait, and the next is refused at once. Work may also leave at a
 * constant pace.
 *
 *     #include <stdio.h>
 *     #include <weir.h>
 *
 *     static void *look_up(void *arg)
 *     {
 *         return arg;
 *     }
 *
 *     static void *say_sorry(void *arg, const struct weir_verdict *v)
 *     {
 *         (void)arg;
 *         return v->reason == WEIR_QUEUE_FULL ? "too busy" : "too slow";
 *     }
 *
 *     int main(void)
 *     {
 *         const struct weir_pool_options o = {.threads = 4, .queue = 10, .pace = "pacer 500/s"};
 *         const struct weir_task task = {
 *             .run = look_up, .arg = "found", .fallback = say_sorry};
 *         struct weir_pool *pool;
 *         struct weir_diag why;
 *         void *answer;
 *
 *         if (weir_pool_open(&pool, &o, &why) != 0) {
 *             fprintf(stderr, "%s\n", why.text);
 *             return 1;
 *         }
 *         if (weir_pool_call(pool, &task, 200 * 1000000, &answer, NULL) == 0)
 *             puts(answer);
 *         weir_pool_drain(pool, WEIR_FOREVER);
 *         weir_pool_close(pool);
 *         return 0;
 *     }
 */
struct weir_pool;

#define WEIR_POOL_QUEUE_DEFAULT 100

/* All zero is the default of everything. */
struct weir_pool_options {
    int threads;      /* as many as there are processors, unless told                           */
    int64_t queue;    /* how many may wait for a thread: 100 unless told; WEIR_NONE: nobody     */
    const char *pace; /* a pacer, such as "pacer 50/s": tasks begin at this pace; NULL: at once.
                         How many may wait is said by `queue`, not by the pacer's own options   */
};

/* What a pool does for its caller. `arg` must last until `run` has returned or `cancelled` was called;
 * one of the two becomes of every task that was let in. Of one that was refused with QUEUE_FULL neither
 * does: its `arg` is still the caller's. All but `run` may be NULL. */
struct weir_task {
    void *(*run)(void *arg); /* by a worker; returns the result                                  */
    void *arg;
    /* It will never run: the pool was stopped, or its caller went before it began. The last that is
     * heard of it. Called by whoever stops the pool, or by the caller. */
    void (*cancelled)(void *arg);
    /* By a worker: a result that nobody waits for (any more). */
    void (*discard)(void *result);
    /* By the caller of weir_pool_call, if it gets no result (before `cancelled`); it may be that `run`
     * is still at it. What it returns is the result then. */
    void *(*fallback)(void *arg, const struct weir_verdict *v);
};

/* `options` and `why` may be NULL. The threads have the signal mask of the caller. */
WEIR_API int weir_pool_open(struct weir_pool **pool, const struct weir_pool_options *options,
                            struct weir_diag *why);
/* Stops it, ends the threads and frees it. NULL is fine. After fork() a pool is its parent's: in the
 * child it refuses everything, and is only closed. */
WEIR_API void weir_pool_close(struct weir_pool *pool);

/* At once, whatever the workers do: granted, and the task will run; or refused with QUEUE_FULL
 * (retry_after_ns is 0; once the pool lets nobody in any more, -1). At most `threads` + `queue` tasks are
 * in a pool, running or waiting; they begin in the order they came. `v` may be NULL. */
WEIR_API int weir_pool_submit(struct weir_pool *pool, const struct weir_task *task,
                              struct weir_verdict *v);

/* The same, and waits for the result, at most for timeout_ns (WEIR_FOREVER: as long as it takes). Who was
 * let in and gets no result is refused with OVERLOAD: its time is over, and a task that has not begun is
 * taken back (`cancelled`), of one that has the result is discarded; or the pool was stopped before it
 * began (`cancelled`; retry_after_ns is -1). *result is the task's, or the fallback's, or NULL. A task must
 * not wait for another of its own pool: all workers may be waiting so. `result` and `v` may be NULL. */
WEIR_API int weir_pool_call(struct weir_pool *pool, const struct weir_task *task,
                            int64_t timeout_ns, void **result, struct weir_verdict *v);

/* Lets nobody in any more, and waits until all who are in have run, at most for timeout_ns. Returns how
 * many are left. */
WEIR_API size_t weir_pool_drain(struct weir_pool *pool, int64_t timeout_ns);
/* Lets nobody in any more, cancels all who wait, and waits until those who run have ended. Returns how
 * many were cancelled. Neither of the two may be called by a task of the pool itself. */
WEIR_API size_t weir_pool_stop(struct weir_pool *pool);

struct weir_pool_stats {
    uint64_t threads, queue;  /* as it was opened           */
    uint64_t queued, running; /* now                        */
    uint64_t submitted;       /* let in so far; of them ... */
    uint64_t ran, cancelled;  /* ... these have ended       */
    uint64_t late;            /* ran, but the caller had gone before */
    uint64_t refused;         /* not let in                 */
};
WEIR_API void weir_pool_stats(struct weir_pool *pool, struct weir_pool_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
