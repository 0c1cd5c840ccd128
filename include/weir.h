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
 *   - A function that can fail returns 0, or a negative weir_error. After an error its results are
 *     untouched, except `why`. A denial is an answer, not an error.
 *   - X() is X_at() at the engine's own time. Use only one of the two on a key. A time that is
 *     earlier than the last one counts as a clock that jumped back: no extra requests are granted.
 *   - The caller owns what it passes in: no function keeps a pointer that it was given. A close
 *     function frees what its open function returned.
 *   - Any thread may call any function at any time. The exceptions are close and forget: once one
 *     of them is called, no thread may use what it frees. A decision allocates nothing.
 *   - After fork() a child may go on using what its parent opened: a private store then becomes
 *     two independent ones, a shared file stays one.
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

#define WEIR_ERRORS(X)                                                \
    X(WEIR_EINVAL, -1, "an argument is outside its documented range") \
    X(WEIR_ESYNTAX, -2, "the text is not a valid limit")              \
    X(WEIR_ERANGE, -3, "a number in the limit is outside its range")  \
    X(WEIR_ENOZONE, -4, "no such time zone")                          \
    X(WEIR_ENOMEM, -5, "out of memory")                               \
    X(WEIR_ESTORE, -6, "no such kind of store")                       \
    X(WEIR_EFORMAT, -7, "the file is not a valid state file")         \
    X(WEIR_EVERSION, -8, "the store has another format version")      \
    X(WEIR_EIO, -9, "a system call failed")                           \
    X(WEIR_EBUSY, -10, "a stopped process holds the lock of the key") \
    X(WEIR_EFULL, -11, "no room: the maximum is reached")             \
    X(WEIR_EINTR, -12, "a signal ended the wait")                     \
    X(WEIR_EGONE, -13, "the policy was forgotten")                    \
    X(WEIR_EDOWN, -14, "the store does not answer")                   \
    X(WEIR_EGUARD, -15, "the limit has a guard: use weir_enter")      \
    X(WEIR_ESETTLED, -16, "no such reservation: settled, lapsed, or never made")

enum weir_error {
#define X(name, code, text) name = code,
    WEIR_ERRORS(X)
#undef X
};

/* The name of an error ("WEIR_EINVAL"), and its sentence from the list above. Never NULL. */
WEIR_API const char *weir_error_name(int error);
WEIR_API const char *weir_error_text(int error);

/* ---- The answer ---------------------------------------------------------------------------- */

#define WEIR_REASONS(X)                                                                          \
    X(OK)         /* granted                                                                 */  \
    X(LIMITED)    /* refused now; retry_after_ns says when the same request can pass         */  \
    X(TOO_BIG)    /* refused for ever: the cost can never fit                                 */ \
    X(QUEUE_FULL) /* refused: the queue is full                                               */ \
    X(OPEN)       /* refused: a breaker is open, or all its probes are in flight              */ \
    X(OVERLOAD)   /* refused: the system, or a service that it calls, is overloaded           */ \
    X(LISTED)     /* refused: the key is on the policy's deny list                            */ \
    X(BLOCKED)    /* refused: the key was refused too often (block=), until retry_after_ns    */ \
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
    int which;              /* the index of the first term that refused (in weir_take_all: of the
                               first request), from 0; -1 if none did                             */
    int8_t shadow;          /* granted, but a shadow term would have refused: 1 + what `which` would
                               be without `shadow`, and `reason` is why. 0: none would            */
    int8_t term;            /* if one refused, or a shadow would have: the index of that term in
                               its limit (`which`, unless that is a request); else undefined      */
    int8_t warned;          /* granted, and the key's use crossed warn=: 1 + the index of the first
                               such term (in weir_take_all: request). 0: none                     */
    bool overflow;          /* the key has no place in a full store: it was judged by the common
                               debt of all keys without a place, so it may be refused early, and
                               retry_after_ns is a bound, not exact                               */
    int64_t limit;          /* the most that could ever be granted at once; WEIR_COUNT_MAX if
                               there is no such number, as for a breaker                          */
    int64_t remaining;      /* the largest cost that patience 0 would grant now; 0..limit         */
    int64_t wait_ns;        /* granted: the caller may act only after this time                   */
    int64_t retry_after_ns; /* refused: the same cost and patience can pass after this time; -1:
                               never; 0: not known (guards only)                                  */
    int64_t reset_after_ns; /* time until the key has fully recovered: forgetting it then changes
                               no answer                                                          */
};

/* Patience: how long a caller is willing to wait. 0: the request passes now or not at all. A
 * duration, in ns: the request passes if its wait is no longer. FOREVER: a reservation, however
 * long the wait. DEFAULT: what the limit itself says. */
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
    X(UNLIMITED, "unlimited")             \
    X(ZERO, "0/s")                        \
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

/* The algorithms from this one on are guards: a caller enters and exits them (weir_enter), and they
 * look at the calls in flight and their outcomes. The algorithms before it are rates. */
#define WEIR_FIRST_GUARD WEIR_CONCURRENCY

/* breaker: the library whose comparisons it follows. */
enum weir_preset {
    WEIR_PRESET_NONE,
    WEIR_PRESET_HYSTRIX,
    WEIR_PRESET_RESILIENCE4J,
    WEIR_PRESET_SENTINEL,
    WEIR_PRESET_SRE
};
/* breaker: the state that it keeps, whatever the outcomes of calls are. */
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

/* One term of a limit. weir_limit_parse fills it, defaults included: fields that the algorithm does
 * not use are zero, so equal limits are equal bytes. */
struct weir_term {
    enum weir_algorithm algorithm;
    enum weir_calendar calendar;
    enum weir_align align;
    enum weir_fallback fallback;
    int full; /* full=: 1 + an enum weir_full; 0: the store's own setting */
    int shadow;
    int count_denied;
    int64_t count;           /* events in each period (min-interval: 1; concurrency: permits; other
                                guards: 0, or a rate)                                             */
    int64_t period_ns;       /* the period (a calendar month: 31 days)                            */
    int64_t slots;           /* sliding-window; bbr, breaker: buckets                             */
    int64_t per_slot;        /* sliding-window: events in one slot, or WEIR_NONE                  */
    int64_t min_interval_ns; /* sliding-log                                                       */
    int64_t burst;           /* token-bucket, adaptive-rate; leaky: capacity; pacer: 1 + slack    */
    int64_t initial;         /* token-bucket: tokens of a fresh key; vegas, gradient, aimd: limit */
    int64_t delay;           /* leaky-bucket: events before delays begin, or WEIR_NONE            */
    int64_t queue;           /* pacer, concurrency: the most requests that may wait               */
    int64_t max_wait_ns;     /* pacer, concurrency: WEIR_FOREVER or a bound                       */
    int64_t max_burst_ns;    /* smooth-bursty: how much idleness is stored                        */
    int64_t warmup_ns;       /* smooth-warmup                                                     */
    int64_t cold_milli;      /* smooth-warmup: 3000 is cold=3                                     */
    char tz[WEIR_ZONE_MAX];  /* fixed-window with align=clock                                     */
    int64_t anchor_s;        /* calendar windows: how long after the midnight that starts the day,
                                the Monday or the first of the month they begin, by the local clock
                                (days of 86400 s; a day that a month lacks is its last day)       */

    /* Guards. Ratios and thresholds are in thousandths; WEIR_NONE turns a threshold off. */
    int64_t lease_ns;       /* concurrency: a permit that is not returned expires after this      */
    int64_t cpu_milli;      /* bbr, system                                                        */
    int64_t memory_milli;   /* bbr, system                                                        */
    int64_t load_milli;     /* bbr, system: the one-minute load average, times 1000               */
    int64_t pressure_milli; /* system: PSI, the share of time in which some task waited           */
    int64_t window_ns;      /* bbr, breaker: WEIR_NONE if the window is a number of calls         */
    int64_t window_calls;   /* breaker                                                            */
    int64_t cooling_ns;     /* bbr                                                                */
    int64_t least;          /* vegas, gradient, aimd: lowest limit; adaptive-rate: lowest rate    */
    int64_t most;           /* the same: highest; system: the most calls in flight                */
    int64_t target_ns;      /* adaptive-rate, aimd, system (rt): the highest good latency         */
    int64_t errors_milli;   /* breaker; adaptive-rate: the share of errors that is tolerated      */
    int64_t slow_milli;     /* breaker: the share of slow calls that opens it                     */
    int64_t slow_ns;        /* breaker: a call that takes longer than this is slow                */
    int64_t error_count;    /* breaker                                                            */
    int64_t volume;         /* breaker: fewer calls than this never open it by a share            */
    int64_t open_ns;        /* breaker: how long it stays open the first time                     */
    int64_t open_most_ns;   /* breaker: the longest that it stays open, as the time grows         */
    int64_t growth_milli;   /* breaker: the factor from one opening to the next, times 1000       */
    int64_t probes;         /* breaker: the calls that a half-open breaker lets in                */
    int64_t probe_ns;       /* breaker: if probes take longer than this, it opens again           */
    int64_t warn_milli;     /* warn=: the share of the limit whose use is told; 0: none           */
    int64_t block_ns;       /* block=: how long a key is blocked the first time; 0: never         */
    int64_t block_most_ns;  /* block=: the longest that it is blocked, as the time grows          */
    int64_t block_after;    /* after=: the refusals within a period that block it                 */
    int64_t keys;           /* keys=: the keys to make room for; 0: an equal part of the store    */
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

/* Parses a limit. Returns 0 and fills *limit; or returns an error, leaves *limit untouched and
 * fills *why. `why` may be NULL. A tz= other than UTC is looked up under /usr/share/zoneinfo. */
WEIR_API int weir_limit_parse(struct weir_limit *limit, const char *text, struct weir_diag *why);

/* Prints a limit as canonical text, always NUL-terminated if cap > 0. Returns the full length, as
 * snprintf does. weir_limit_parse of the text gives the same limit. */
WEIR_API size_t weir_limit_print(const struct weir_limit *limit, char *out, size_t cap);

/* The name of an algorithm, as limits write it. */
WEIR_API const char *weir_algorithm_name(enum weir_algorithm algorithm);

/* ---- One limiter, without keys ------------------------------------------------------------- */

/* A limit and the state of its only key. It has no table, and no lock if the state fits in 16
 * bytes. Its clock is weir_now(NULL). Patience and cost are as in a request (below). A limiter
 * takes rates only: guards need an engine. */
struct weir_limiter;

WEIR_API int weir_limiter_open(struct weir_limiter **limiter, const char *limit,
                               struct weir_diag *why);
WEIR_API void weir_limiter_close(struct weir_limiter *limiter);

/* Changes the limit from now on. Usage carries over. */
WEIR_API int weir_limiter_change(struct weir_limiter *limiter, const char *limit,
                                 struct weir_diag *why);
WEIR_API int weir_limiter_change_at(struct weir_limiter *limiter, const char *limit, int64_t now_ns,
                                    struct weir_diag *why);

/* Takes 1, now or not at all. This is the fastest decision in weir. */
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

/* Takes `cost` without asking, as weir_charge does. */
WEIR_API int weir_limiter_charge(struct weir_limiter *limiter, int64_t cost,
                                 struct weir_verdict *v);
WEIR_API int weir_limiter_charge_at(struct weir_limiter *limiter, int64_t cost, int64_t now_ns,
                                    struct weir_verdict *v);

/* Gives back up to `cost` of what was charged. *back, unless NULL, receives the amount. */
WEIR_API int weir_limiter_refund(struct weir_limiter *limiter, int64_t cost, int64_t *back);
WEIR_API int weir_limiter_refund_at(struct weir_limiter *limiter, int64_t cost, int64_t now_ns,
                                    int64_t *back);

/* Gives back a reservation of `cost` that was to act at act_ns, as far as no later reservation
 * depends on it. A limit of several terms gives back nothing here: use an engine's weir_reserve and
 * weir_cancel for those. */
WEIR_API int weir_limiter_cancel(struct weir_limiter *limiter, int64_t cost, int64_t act_ns,
                                 int64_t *back);
WEIR_API int weir_limiter_cancel_at(struct weir_limiter *limiter, int64_t cost, int64_t act_ns,
                                    int64_t now_ns, int64_t *back);

/* Makes the limiter fresh: all that was charged is forgotten. */
WEIR_API void weir_limiter_reset(struct weir_limiter *limiter);

/* Blocks until the request is granted and may act; see weir_wait. */
WEIR_API int weir_limiter_wait(struct weir_limiter *limiter, int64_t cost, int64_t deadline_ns,
                               struct weir_verdict *v);

/* ---- What guards take in and report -------------------------------------------------------- */

/* The outcome of a call that was entered. */
enum weir_outcome {
    WEIR_SUCCESS,
    WEIR_ERROR,
    WEIR_DROP,  /* a service further down refused it or timed out: a sign of overload */
    WEIR_IGNORE /* the guard returns the permit and learns nothing from the call */
};

/* The load of the system, in thousandths. WEIR_NONE: not known; no threshold is then exceeded. */
struct weir_signals {
    int64_t cpu_milli, memory_milli, load_milli, pressure_milli;
};

/* The state of a guard. Only a breaker opens, and only bbr cools; every other guard is always
 * CLOSED. (OPENED is the state of a breaker, WEIR_OPEN is the reason of its refusals.) */
enum weir_guard_state { WEIR_CLOSED, WEIR_HALF_OPEN, WEIR_OPENED, WEIR_COOLING };
/* "closed", "half-open", "open", "cooling" */
WEIR_API const char *weir_guard_state_name(enum weir_guard_state stand);

struct weir_view {
    enum weir_guard_state state;
    int64_t limit;     /* the most calls in flight now; -1: this guard has no such limit */
    int64_t in_flight; /* calls in flight; -1: this guard does not count them            */
    int64_t rate;      /* adaptive-rate: events in each period now; other guards: -1     */
};

/* ---- Engines ------------------------------------------------------------------------------- */

/* A store of keys, and the policies on them. */
struct weir;

/* What a newcomer (a key that has no place yet) gets when live keys take all the places that it
 * could have. A key with calls in flight (weir_enter) is never evicted, nor is a key of a guard
 * that has learned. If such keys take all its places, a newcomer is refused, or with ALLOW let in,
 * reason FULL. A caller can enter a closed breaker without a place; a breaker that finds no place
 * when a call ends learns nothing from that call, and stays closed. */
enum weir_full {
    WEIR_FULL_EVICT, /* the place of another key, or none; the store keeps the debt of keys without
                        a place, so no key is granted more than its limit (docs/guide/store.md) */
    WEIR_FULL_DENY,  /* a refusal, reason FULL; retry_after_ns says when a place may be free    */
    WEIR_FULL_ALLOW  /* a grant, reason FULL, that is not counted: it may exceed the limit. Other
                        limits and terms of the same request are charged, and may refuse it     */
};

/* A clock of the caller's own, used in place of weir_now(NULL). Times are nanoseconds since the
 * Unix epoch. */
struct weir_clock {
    int64_t (*now)(void *arg);
    /* Returns 0 at until_ns or a little later; or returns non-zero if something interrupted the
     * sleep, and weir_wait then gives up. NULL: the waiter sleeps the difference in real time. */
    int (*sleep)(void *arg, int64_t until_ns);
    void *arg;
};

/* Receives what operators should know: the store is down, or up again. Each call passes one line,
 * without a newline. Any thread may make the call, so it must return quickly. */
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

/* A field that is zero has its default. */
struct weir_options {
    /* "memory:" (the default) is private to this process and its threads. "file:/path" is shared by
     * all processes that open it, and outlives them; weir_open creates the file if it does not
     * exist, but not its directory. The path is absolute.
     * "redis://[[user]:password@]host[:port][/db][?option&...]" and "redis+unix:/path" are shared
     * by machines (docs/guide/fleet.md); see weir_remote_stats below. Their password may be
     * elsewhere: "?password-file=/path" or "?password-env=NAME". */
    const char *store;
    /* The number of live keys that the store has room for; default: 1,000,000. A private store
     * takes address space for all of them at once, and memory as keys come; a file takes all its
     * space at once. Keys are not stored, so their length does not matter. An existing file keeps
     * the number that it was created with. */
    uint64_t max_keys;
    /* The most memory that the store ever takes: tables, overflow cells and policies. Default: 256
     * bytes for each key of max_keys, at least 64 MiB, plus 64 KiB for each policy.
     *
     * States come in sizes: 16 bytes for most algorithms, 24 for sliding-counter, 40 for
     * smooth-warmup; sliding-window adds 4 or 8 bytes for each slot, sliding-log 8 for each event;
     * for guards see their pages in docs/algorithms. Each size in use has its own table, which has
     * room for max_keys keys, or for those that fit in half of what is left of max_memory when the
     * table is created. */
    uint64_t max_memory;
    uint32_t max_policies; /* default: 128                                                 */
    enum weir_full full;
    const struct weir_clock *clock; /* copied; NULL: the engine's own clock                */
    const struct weir_log *log;     /* copied; NULL: no log                                */
    /* The secret under which keys are hashed, so that a client cannot choose keys that collide.
     * Zero: a random one (a file keeps its own). */
    uint64_t secret[2];
};

/* `options` and `why` may be NULL. */
WEIR_API int weir_open(struct weir **w, const struct weir_options *options, struct weir_diag *why);
WEIR_API void weir_close(struct weir *w);

/* The time of this engine's clock; if w is NULL, the time of the process's own clock. That clock
 * counts from the Unix epoch, never goes back, and does not follow jumps of the wall clock. */
WEIR_API int64_t weir_now(const struct weir *w);

/* ---- Policies ------------------------------------------------------------------------------ */

/* A policy is a limit in force: a name, a limit, and the keys used under it. Every policy has its
 * own keys: "alice" under one policy is not "alice" under another. */
struct weir_policy;

/* Defines the policy, or changes its limit. Keys keep their state (limits.md, Live change), unless
 * the new limit has another algorithm or ring size: then all keys start fresh. (A Redis keeps the
 * keys of each such form until they expire, so a limit that returns to a form finds the keys of
 * that form.) Setting the limit that is already in force changes nothing. Processes that share a
 * file share its policies: a change by one process is in force in all of them at once. The handle
 * stays valid until weir_policy_forget or weir_close. `policy` and `why` may be NULL.
 *
 * A name is any text of 1 to 127 bytes. The daemon, which has names in URLs, header fields and
 * lines of INFO, sets only names of letters, digits and _ . : - and lists those of others escaped:
 * keep to these where a daemon shares the store. */
WEIR_API int weir_policy_set(struct weir *w, const char *name, const char *limit,
                             struct weir_policy **policy, struct weir_diag *why);
WEIR_API int weir_policy_set_at(struct weir *w, const char *name, const char *limit, int64_t now_ns,
                                struct weir_policy **policy, struct weir_diag *why);

/* The policy of that name, or NULL. */
WEIR_API struct weir_policy *weir_policy_find(struct weir *w, const char *name);
WEIR_API const char *weir_policy_name(const struct weir_policy *policy);
/* The limit in force now. */
WEIR_API void weir_policy_limit(struct weir_policy *policy, struct weir_limit *limit);
/* Ends the policy and frees the handle. Its keys leave the store as they fully recover. A later
 * policy of the same name has fresh keys (except in a Redis, where it finds the keys that are
 * left). After an error (WEIR_EBUSY: a stopped process holds the lock of the file) the policy is
 * still in force and the handle still valid. */
WEIR_API int weir_policy_forget(struct weir *w, struct weir_policy *policy);
/* The policy after this one, in no particular order. NULL gives the first; after the last comes
 * NULL. */
WEIR_API struct weir_policy *weir_policy_next(struct weir *w, const struct weir_policy *after);

/* ---- Decisions ----------------------------------------------------------------------------- */

struct weir_request {
    struct weir_policy *policy;
    const void *key; /* any bytes; key_len may be 0 */
    size_t key_len;
    int64_t cost;        /* 0 is always granted and changes nothing; negative is an error      */
    int64_t patience_ns; /* 0, a duration, WEIR_FOREVER or WEIR_WAIT_DEFAULT                   */
};

/* A request of cost 1 with the limit's default patience. */
static inline struct weir_request weir_request_of(struct weir_policy *policy, const void *key,
                                                  size_t key_len)
{
    struct weir_request rq = {policy, key, key_len, 1, WEIR_WAIT_DEFAULT};

    return rq;
}

/* Takes `cost` from the key if the limit grants it, else takes nothing. A grant with a wait_ns is a
 * reservation: the caller acts only after that time. WEIR_EGUARD: the limit has a guard, which must
 * be exited again: weir_enter enters it, together with the limit's rates. The same holds for the
 * other calls that take. */
WEIR_API int weir_take(struct weir *w, const struct weir_request *rq, struct weir_verdict *v);
WEIR_API int weir_take_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                          struct weir_verdict *v);

/* Answers what weir_take would answer, without taking; for guards, what weir_enter would answer
 * without waiting. The answer is FULL if the key would get no place. (One exception: for a limit of
 * several terms, in a private store that evicts and is full of calls in flight, only a take finds
 * out whether keys can be moved to make a place for each term.) */
WEIR_API int weir_peek(struct weir *w, const struct weir_request *rq, struct weir_verdict *v);
WEIR_API int weir_peek_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                          struct weir_verdict *v);

/* Takes `cost` from the key without asking, for a cost that is known only afterwards (bytes sent,
 * tokens used, a login that failed): buckets may then owe more than their burst, windows fill up
 * (limits.md, charge). rq->patience_ns is ignored. *v says how the key stands after it, as a peek
 * with cost 0: allowed, unless the charge was not counted because the key is on the deny list
 * (LISTED) or the store has no place for it (FULL). WEIR_EGUARD: the limit has a guard. */
WEIR_API int weir_charge(struct weir *w, const struct weir_request *rq, struct weir_verdict *v);
WEIR_API int weir_charge_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                            struct weir_verdict *v);

/* Decides n requests one by one, in order: v[i] answers rq[i]. This is much faster than n calls,
 * because the memory accesses overlap; 16 to 64 at a time is a good number. If one request is
 * malformed (WEIR_EINVAL), none is decided and v is untouched. After any other error some requests
 * may have been decided: v[i] answers those, and v[i].limit is -1 for the others. */
WEIR_API int weir_take_many(struct weir *w, const struct weir_request *rq, size_t n,
                            struct weir_verdict *v);
WEIR_API int weir_take_many_at(struct weir *w, const struct weir_request *rq, size_t n,
                               int64_t now_ns, struct weir_verdict *v);

/* Decides 1 to 16 requests as one, all or nothing: if one is refused, none is charged. Their limits
 * may have at most 16 terms in all. If a key appears twice, the second request sees the charge of
 * the first. */
WEIR_API int weir_take_all(struct weir *w, const struct weir_request *rq, size_t n,
                           struct weir_verdict *v);
WEIR_API int weir_take_all_at(struct weir *w, const struct weir_request *rq, size_t n,
                              int64_t now_ns, struct weir_verdict *v);

/* Gives back up to rq->cost of what the key was charged. *back, unless NULL, receives the amount;
 * with several terms, the largest amount of any term. Terms are refunded one by one: if one fails
 * (WEIR_EBUSY), the terms before it are already refunded, so the caller must not repeat the
 * call. */
WEIR_API int weir_refund(struct weir *w, const struct weir_request *rq, int64_t *back);
WEIR_API int weir_refund_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                            int64_t *back);

/* What weir_reserve took, so that it can be cancelled. The caller owns it; it is plain bytes. */
struct weir_reservation {
    int64_t act_ns; /* when the caller may act */
    int n;          /* 0 once it is cancelled, or if it was refused */
    struct {
        struct weir_policy *policy;
        uint64_t scope, fingerprint, key, found;
        int64_t cost, act_ns;
        uint32_t index, resets;
    } term[WEIR_TERMS_MAX];
};

/* Does weir_take_all, and records in *r what it took. */
WEIR_API int weir_reserve(struct weir *w, const struct weir_request *rq, size_t n,
                          struct weir_reservation *r, struct weir_verdict *v);
WEIR_API int weir_reserve_at(struct weir *w, const struct weir_request *rq, size_t n,
                             int64_t now_ns, struct weir_reservation *r, struct weir_verdict *v);

/* Gives back the part of the reservation that no later reservation depends on. It gives back
 * nothing once act_ns has passed, nothing the second time, and nothing after a reset of any key of
 * the policy. After an error the caller may call it again: nothing is given back twice. */
WEIR_API int weir_cancel(struct weir *w, struct weir_reservation *r, int64_t *back);
WEIR_API int weir_cancel_at(struct weir *w, struct weir_reservation *r, int64_t now_ns,
                            int64_t *back);

/* ---- Accounts: estimates that are settled later ---------------------------------------------- */

/* For a cost that is known only afterwards, where "check now, charge later" would let too many in
 * at once: reserve an estimate, and commit what it did cost. The reservation is in the store, so
 * any process that shares it can settle it; and it is settled once. One that is not settled within
 * its time to live lapses, and then counts as its estimate (KEEP) or as nothing (FREE). */
enum weir_lapse { WEIR_LAPSE_KEEP, WEIR_LAPSE_FREE };

#define WEIR_ACCOUNT_MOST      100 /* open reservations of one key; 14 with 15 terms */
#define WEIR_ACCOUNT_TERMS_MAX 15  /* terms of a limit whose keys have reservations  */
#define WEIR_ACCOUNT_TTL_MAX   (INT64_C(24) * 3600 * 1000000000)

/* Does weir_take, and if that is granted, keeps what it took as a reservation: *id is its number,
 * for the same policy and key; 0 if it was refused, or granted uncounted (the key is on the allow
 * list). Refused with WEIR_FULL: as many of the key are open as may be, or the store has no room
 * for more accounts. ttl_ns: 1 to WEIR_ACCOUNT_TTL_MAX. WEIR_EGUARD: the limit has a guard.
 * No fallback= stands in for a Redis that does not answer (WEIR_EDOWN): it may have reserved. A
 * lapse as nothing is found by the next call for the key, also by a peek, which may ask about the
 * future: it then gives back what will have lapsed by that time. */
WEIR_API int weir_account_reserve(struct weir *w, const struct weir_request *rq, int64_t ttl_ns,
                                  enum weir_lapse lapse, uint64_t *id, struct weir_verdict *v);
WEIR_API int weir_account_reserve_at(struct weir *w, const struct weir_request *rq, int64_t ttl_ns,
                                     enum weir_lapse lapse, int64_t now_ns, uint64_t *id,
                                     struct weir_verdict *v);

/* Settles a reservation with what it did cost, rq->cost: what was reserved beyond that is given
 * back, unless time has done that already (docs/reference/limits.md); what is missing is charged as
 * weir_charge does, so the key may owe more than its burst. *v says how the key stands after it.
 * WEIR_ESETTLED: there is no such reservation of this policy and key (any more), and nothing has
 * changed. */
WEIR_API int weir_account_commit(struct weir *w, const struct weir_request *rq, uint64_t id,
                                 struct weir_verdict *v);
WEIR_API int weir_account_commit_at(struct weir *w, const struct weir_request *rq, uint64_t id,
                                    int64_t now_ns, struct weir_verdict *v);

/* Settles it with nothing: the estimate is given back. rq->cost is ignored. *back, unless NULL,
 * receives how many events came back. Part of an event, the rest of which has drained, counts as
 * one, so it is 0 just if nothing did. */
WEIR_API int weir_account_cancel(struct weir *w, const struct weir_request *rq, uint64_t id,
                                 int64_t *back);
WEIR_API int weir_account_cancel_at(struct weir *w, const struct weir_request *rq, uint64_t id,
                                    int64_t now_ns, int64_t *back);

/* Blocks until the request is granted and may act, at most until deadline_ns on the engine's clock
 * (WEIR_FOREVER: without a limit). A request that cannot pass by then is refused at once.
 * rq->patience_ns is ignored. Waiters for one key are served in the order in which they came
 * (within one process). A waiter that a signal interrupts gives back what it took and returns
 * WEIR_EINTR. In weir_wait_at, time starts at now_ns and passes at the speed of the engine's clock.
 *
 * The deadline holds whatever the store does. If the store is full of calls in flight, the waiter
 * asks again before the deadline, not after it. If the store does not answer, a waiter may be late
 * by the time of the two requests that are under way when the deadline comes: twice the timeout of
 * a Redis, or twice 10 ms if a stopped process holds the lock of the key in a file. A signal
 * interrupts only a waiter that sleeps; it does not end a request that is under way. A waiting
 * thread is not a cancellation point: pthread_cancel takes effect after the call returns. */
WEIR_API int weir_wait(struct weir *w, const struct weir_request *rq, int64_t deadline_ns,
                       struct weir_verdict *v);
WEIR_API int weir_wait_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                          int64_t deadline_ns, struct weir_verdict *v);

/* Makes the key fresh. A key without a place (verdict.overflow) is given one for that. If it can
 * get none, because calls in flight or keys that owe more than their whole limit hold them all, the
 * call returns WEIR_EFULL and forgives nothing: try again later. Calls that have entered the key
 * are forgotten: their weir_exit returns no permit, and guards learn nothing from it. `system`,
 * which has one state for all keys, does not change. */
WEIR_API int weir_reset(struct weir *w, const struct weir_request *rq);
WEIR_API int weir_reset_at(struct weir *w, const struct weir_request *rq, int64_t now_ns);

/* Joins several parts (tenant, user, path) into one key. It writes each part after its length, so
 * ("ab", "c") and ("a", "bc") differ. Writes at most cap bytes and returns the whole length, as
 * snprintf does. A buffer that has room for the parts and 9 more bytes for each is large enough. */
struct weir_bytes {
    const void *at;
    size_t len;
};
WEIR_API size_t weir_key_join(void *out, size_t cap, const struct weir_bytes *part, size_t n);

/* ---- What an engine holds ------------------------------------------------------------------ */

struct weir_stats {
    uint64_t max_keys;  /* room: the number of live keys with 16-byte states                */
    uint64_t keys;      /* places in use, by live keys and by fully recovered ones          */
    uint64_t live_keys; /* places of live keys; an estimate in tables for over a million    */
    uint64_t bytes;     /* memory in use, or the size of the file                           */
    uint64_t max_bytes; /* the most that `bytes` may become with the present policies       */
    uint64_t evicted;   /* live keys whose place went to others                             */
    uint64_t refused_full, allowed_full; /* requests that this engine answered FULL         */
    uint64_t overflow_decisions; /* by this engine, on keys without a place (overflow)      */
    uint64_t overflow_refusals;  /* the refusals among them                                 */
    uint64_t busy;      /* requests that found the lock held by a stopped process           */
    uint64_t recovered; /* decisions of killed processes that were undone                   */
    uint32_t policies, max_policies;
};

WEIR_API int weir_stats(struct weir *w, struct weir_stats *stats);
WEIR_API int weir_stats_at(struct weir *w, int64_t now_ns, struct weir_stats *stats);

/* The same for one policy, all terms of its limit together; in a file, for all processes that share
 * it. The counters start again at 0 when the limit gets another algorithm. For a policy in a Redis
 * every field is 0. */
struct weir_policy_stats {
    uint64_t keys;        /* room: the number of live keys, the least of its terms          */
    uint64_t state_bytes; /* the size of one key's states                                   */
    uint64_t evicted;     /* live keys whose place went to others; see verdict.overflow     */
    uint64_t overflow_decisions; /* on keys without a place; each term counts one           */
    uint64_t overflow_refusals;  /* the refusals among them                                 */
    uint64_t warned; /* grants and charges of this engine that crossed warn=; each term one */
};

WEIR_API int weir_policy_stats(struct weir *w, struct weir_policy *policy,
                               struct weir_policy_stats *stats);

/* ---- Stores on other machines -------------------------------------------------------------- */

/* An engine whose store is a Redis decides there: each decision takes one round trip, and uses
 * Redis's own clock, in whole microseconds. While the store is down every limit does what its
 * fallback= says. No caller waits longer than the timeout, and only callers whose request was under
 * way when the store went down wait at all. docs/guide/fleet.md has the bounds. Such a store has
 * rates, and `concurrency` with a lease; every other guard is in this process, also in a limit that
 * joins it with those. */
struct weir_remote_stats {
    bool remote;                  /* the store is a Redis; if false, every field is 0      */
    bool down;                    /* the store is down now                                 */
    uint64_t nodes;               /* nodes that share a limit while it is down: as the URL
                                     says, or as counted                                   */
    uint64_t asked;               /* requests that the store answered                      */
    uint64_t failed;              /* requests that were sent and not answered              */
    uint64_t crowded;             /* requests not sent: too many others were waiting       */
    uint64_t fell_back;           /* requests that fallback= answered                      */
    uint64_t fell_back_allowed;   /* the grants among them                                 */
    uint64_t drained;             /* events granted by fallback= and charged to the store
                                     later                                                 */
    uint64_t outages, recoveries; /* how often the store went down, and came up            */
};
WEIR_API void weir_remote_stats(struct weir *w, struct weir_remote_stats *stats);

/* ---- Guards -------------------------------------------------------------------------------- */

/* A rate counts requests; a guard looks at the calls in flight and their outcomes. So the caller
 * enters before the call, and exits with its outcome after it:
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
 * A limit may join guards and rates: the engine asks `system` first, then rates, `concurrency`,
 * `breaker` and the adaptive guards, all or nothing. `which` is the index of the term in the text
 * of the limit. Every key has its own states, except for `system`, which has one state for all
 * keys. weir_take, weir_take_many, weir_take_all, weir_reserve and weir_wait refuse a policy with a
 * guard (WEIR_EGUARD), because what they take could never be exited; weir_peek and weir_reset
 * accept it.
 *
 * If the store is a Redis, `concurrency` and the rates are of all nodes, and the other guards look
 * at this process: they are asked first, and if they refuse, the Redis is not asked.
 */

/* What was entered, so that it can be exited. The caller owns it; it is plain bytes. */
struct weir_ticket {
    int64_t entered_ns;
    uint64_t forgotten;
    int n; /* guards still to exit; 0 once the ticket was exited, or if the entry was refused */
    struct {
        struct weir_policy *policy;
        uint64_t scope, fingerprint, key, found, epoch;
        int64_t cost;
        uint32_t index;
    } term[WEIR_TERMS_MAX];
};

/* Enters, now or not at all. But if `concurrency` has a queue, the caller waits in it while all
 * permits are in use: for max-wait, or for rq->patience_ns if that is less. Callers for one key
 * enter in the order in which they came (within one process). A caller that finds the queue full is
 * refused at once with QUEUE_FULL; a caller that waiting would not help is refused at once too; a
 * caller whose time is over is refused with LIMITED. If a signal interrupts the wait, the call
 * returns WEIR_EINTR. A caller that does not enter leaves no trace.
 *
 * cost is the number of permits to take, usually 1. The patience of a rate is as in weir_take:
 * after a grant with a wait_ns the caller acts only then, and the guards count the time from the
 * entry on. A retry_after_ns of 0 means not known: it depends on other callers. In weir_enter_at,
 * time starts at now_ns and passes at the speed of the engine's clock. */
WEIR_API int weir_enter(struct weir *w, const struct weir_request *rq, struct weir_ticket *t,
                        struct weir_verdict *v);
WEIR_API int weir_enter_at(struct weir *w, const struct weir_request *rq, int64_t now_ns,
                           struct weir_ticket *t, struct weir_verdict *v);

/* Enters 1 to 16 requests, all or nothing, as weir_take_all does: for example the connections of
 * one client and those of the whole server. This call never waits, and does not overtake callers
 * that wait in weir_enter: it is refused with LIMITED while there are any. */
WEIR_API int weir_enter_all(struct weir *w, const struct weir_request *rq, size_t n,
                            struct weir_ticket *t, struct weir_verdict *v);
WEIR_API int weir_enter_all_at(struct weir *w, const struct weir_request *rq, size_t n,
                               int64_t now_ns, struct weir_ticket *t, struct weir_verdict *v);

/* Ends the ticket; a second call does nothing. Any thread may make the call. It is harmless too for
 * a ticket that was refused, whose lease has expired, whose policy was changed or forgotten in the
 * meantime, or whose key was reset: it takes nothing from later callers. After an error
 * (WEIR_EBUSY) the caller may try again. */
WEIR_API int weir_exit(struct weir *w, struct weir_ticket *t, enum weir_outcome how);
WEIR_API int weir_exit_at(struct weir *w, struct weir_ticket *t, enum weir_outcome how,
                          int64_t now_ns);

/* Makes a call through a guard: enters, calls `run`, and exits with the outcome that `run` returns.
 * weir_run calls `fallback`, unless it is NULL, if the guard refused (v->allowed is false) or if
 * `run` returned WEIR_ERROR or WEIR_DROP. Both get `arg`. `v` may be NULL. If weir_run returns an
 * error, neither was called, unless the error came from weir_exit.
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

/* The state of one guard for the key of the request. `term` is the index of the guard in the limit,
 * from 0; WEIR_EINVAL if there is no such term, if it is a rate, or if it is a `concurrency` in a
 * Redis. For an open breaker, retry_after_ns of weir_peek says when it lets a call in again. There
 * is no callback for changes: a program that needs them polls this function. */
WEIR_API int weir_guard_view(struct weir *w, const struct weir_request *rq, int term,
                             struct weir_view *view);
WEIR_API int weir_guard_view_at(struct weir *w, const struct weir_request *rq, int term,
                                int64_t now_ns, struct weir_view *view);

/* Sets the load that `system` and `bbr` see. The engine samples each field that is WEIR_NONE (at
 * first: all of them) and uses the given value for the others: for tests, and for programs with
 * better sources. To sample, a thread of the engine reads twice a second the processor time and
 * memory of the container relative to its quota (cgroup v1 and v2), or those of the machine, the
 * load average and the pressure. The first policy that needs the thread starts it; weir_close ends
 * it. Processor time is smoothed: each sample has a weight of one twentieth. */
WEIR_API int weir_signals_set(struct weir *w, const struct weir_signals *signals);
/* The load that they see now. */
WEIR_API void weir_signals_get(struct weir *w, struct weir_signals *signals);

/* ---- Lists and overrides: keys with their own rules ---------------------------------------- */

/* Keys on the deny list are refused with LISTED, for ever. Keys on the allow list pass every term
 * but `system`, uncounted. A key on both is denied. Lists apply to every kind of decision, and to
 * this process only: another process that shares the file has its own lists.
 *
 * An entry is a key; or an address or a network (192.0.2.7, 10.0.0.0/8, 2001:db8::/32), which has
 * every key that is an address in it, in any spelling, or a network in it (2001:db8:1:2::/64). Bits
 * behind the length of a network are ignored. A list has at most a million entries, and keeps 8 to
 * 24 bytes for each, not its text. */
enum weir_list { WEIR_LIST_DENY, WEIR_LIST_ALLOW };
#define WEIR_LIST_MOST 1000000

/* Replaces the list as a whole, at once, while other threads decide; n = 0 empties it. */
WEIR_API int weir_list_set(struct weir *w, struct weir_policy *policy, enum weir_list which,
                           const struct weir_bytes *entries, size_t n);
/* Adds entries, all or none, or removes them. *changed (unless NULL): how many were not, or were,
 * on the list. One entry is added to a long list without copying it, but for when it grows. */
WEIR_API int weir_list_add(struct weir *w, struct weir_policy *policy, enum weir_list which,
                           const struct weir_bytes *entries, size_t n, size_t *changed);
WEIR_API int weir_list_remove(struct weir *w, struct weir_policy *policy, enum weir_list which,
                              const struct weir_bytes *entries, size_t n, size_t *changed);
/* Whether the key is on the list: 1 or 0; or an error. */
WEIR_API int weir_list_has(struct weir *w, struct weir_policy *policy, enum weir_list which,
                           const void *key, size_t key_len);

/* Sets an override: a key's own limit, in place of the policy's ("this customer gets ten times as
 * much"). It must have the algorithms of the policy's limit, in the same order, and states of the
 * same layout. It may change the rate of a bucket, the count of a window, a burst, queue, threshold
 * or number of permits. It may not change what sizes a state (the count of a sliding-log or of a
 * concurrency with a lease, slots, buckets) or what it is measured in (the period, tz and align of
 * a window, a lease, the window of a breaker, max-burst, warmup). Nor may it change `system`, which
 * has one state for all keys. The key keeps its state, as in a live change of the policy
 * (limits.md). A NULL limit removes the override. While the policy's own limit has another shape,
 * the override is not in force. Like lists, overrides apply to this process only.
 *
 * A policy has at most 250,000 overrides, of about 60 bytes and the key each. Setting one copies no
 * other, except when the table grows or gaps are closed: after about a quarter as many changes as
 * there are overrides. */
#define WEIR_OVERRIDES_MOST 250000

WEIR_API int weir_override_set(struct weir *w, struct weir_policy *policy, const void *key,
                               size_t key_len, const char *limit, struct weir_diag *why);
WEIR_API int weir_override_set_at(struct weir *w, struct weir_policy *policy, const void *key,
                                  size_t key_len, const char *limit, int64_t now_ns,
                                  struct weir_diag *why);

/* One of several overrides: of a key or, if `prefix` is not 0, of all keys that begin with it. An
 * override of the key itself wins; among prefixes the longest wins. The prefixes of a policy have
 * at most 8 different lengths: a decision tries each. A key under a prefix is converted when it is
 * used next, to one part in 16,384 if other numbers than the policy's have judged it before. */
#define WEIR_PREFIX_LENGTHS 8

struct weir_override {
    const void *key;
    size_t key_len;
    int prefix;
    const char *limit; /* NULL: the override is removed */
};

/* Sets or removes n overrides, all or none, at once while other threads decide. If `replace` is not
 * 0, all others are removed. After an error, *which (unless NULL) is the index of the override that
 * *why is about, or n. WEIR_EINVAL: another shape; WEIR_EFULL: too many, or a ninth length. */
WEIR_API int weir_overrides_set(struct weir *w, struct weir_policy *policy,
                                const struct weir_override *overrides, size_t n, int replace,
                                size_t *which, struct weir_diag *why);
WEIR_API int weir_overrides_set_at(struct weir *w, struct weir_policy *policy,
                                   const struct weir_override *overrides, size_t n, int replace,
                                   int64_t now_ns, size_t *which, struct weir_diag *why);

/* The override of exactly this key, or prefix. Returns 1 and fills *limit, or 0: there is none; or
 * an error. */
WEIR_API int weir_override_get(struct weir *w, struct weir_policy *policy, const void *key,
                               size_t key_len, int prefix, struct weir_limit *limit);

/* Calls `each` for some overrides (up to WEIR_OVERRIDES_PAGE) from *cursor on, which is 0 at first,
 * and moves it: 0 again, once all were listed. Those that are there all the time are listed once.
 * `each` must not call the engine, and keeps no pointer. Returns how many there were. */
#define WEIR_OVERRIDES_PAGE 64
typedef void weir_override_fn(void *arg, const struct weir_override *override);

WEIR_API size_t weir_overrides_list(struct weir *w, struct weir_policy *policy, uint64_t *cursor,
                                    weir_override_fn *each, void *arg);

/* How many overrides a policy has, how many of them are of prefixes, how many entries its lists
 * have, and the memory of all of it. */
struct weir_overrides_stats {
    uint64_t overrides, prefixes, denied, allowed, bytes;
};

WEIR_API void weir_overrides_stats(struct weir *w, struct weir_policy *policy,
                                   struct weir_overrides_stats *stats);

/* ---- Pools --------------------------------------------------------------------------------- */

/* Worker threads behind a bounded queue. A pool isolates slow work: it has a fixed number of
 * threads, a fixed number of tasks may wait, and the pool refuses the next task at once. Tasks may
 * also start at a constant pace.
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

/* A field that is zero has its default. */
struct weir_pool_options {
    int threads;      /* default: the number of processors                                      */
    int64_t queue;    /* the most tasks that may wait for a thread; default: 100; WEIR_NONE: 0  */
    const char *pace; /* a pacer, such as "pacer 50/s": tasks start at this pace; NULL: at once.
                         `queue` sets how many may wait, not the pacer's own options            */
};

/* A task for a pool. `arg` must stay valid until `run` has returned or `cancelled` was called; one
 * of the two happens to every task that the pool accepted. Neither happens to a task that was
 * refused with QUEUE_FULL: its `arg` still belongs to the caller. Every field but `run` may be
 * NULL. */
struct weir_task {
    void *(*run)(void *arg); /* a worker calls it; it returns the result                         */
    void *arg;
    /* The task will never run, because the pool was stopped or its caller gave up before it
     * started. The thread that stops the pool calls it, or the caller that gave up. It is the last
     * call for this task. */
    void (*cancelled)(void *arg);
    /* A worker calls it with a result that no caller waits for (any more). */
    void (*discard)(void *result);
    /* The caller of weir_pool_call calls it if it gets no result (before `cancelled`); `run` may
     * still be running. It returns the result to use. */
    void *(*fallback)(void *arg, const struct weir_verdict *v);
};

/* `options` and `why` may be NULL. The threads inherit the signal mask of the caller. */
WEIR_API int weir_pool_open(struct weir_pool **pool, const struct weir_pool_options *options,
                            struct weir_diag *why);
/* Stops the pool, ends its threads and frees it. NULL is allowed. After fork() a pool belongs to
 * the parent: in the child it refuses every task, and can only be closed. */
WEIR_API void weir_pool_close(struct weir_pool *pool);

/* Answers at once, whatever the workers do: granted, and the task will run; or refused with
 * QUEUE_FULL (retry_after_ns is 0, or -1 once the pool is draining or stopped). At most `threads` +
 * `queue` tasks are in a pool, running or waiting; they start in the order in which they came. `v`
 * may be NULL. */
WEIR_API int weir_pool_submit(struct weir_pool *pool, const struct weir_task *task,
                              struct weir_verdict *v);

/* Submits the task and waits for its result, at most for timeout_ns (WEIR_FOREVER: without a
 * limit). A caller whose task was accepted but that gets no result is refused with OVERLOAD, for
 * one of two reasons. Its time is over: a task that has not started is withdrawn (`cancelled`), and
 * the result of one that has started is discarded. Or the pool was stopped before the task started
 * (`cancelled`; retry_after_ns is -1). *result is the task's result, or the fallback's, or NULL. A
 * task must not wait for another task of its own pool: all workers could then be waiting. `result`
 * and `v` may be NULL. */
WEIR_API int weir_pool_call(struct weir_pool *pool, const struct weir_task *task,
                            int64_t timeout_ns, void **result, struct weir_verdict *v);

/* Refuses new tasks from now on, and waits until the accepted tasks have run, at most for
 * timeout_ns. Returns the number of tasks that are left. */
WEIR_API size_t weir_pool_drain(struct weir_pool *pool, int64_t timeout_ns);
/* Refuses new tasks from now on, cancels the waiting ones, and waits until the running ones have
 * ended. Returns the number of cancelled tasks. A task of the pool itself may call neither
 * function. */
WEIR_API size_t weir_pool_stop(struct weir_pool *pool);

struct weir_pool_stats {
    uint64_t threads, queue;  /* as given to weir_pool_open                          */
    uint64_t queued, running; /* tasks now                                           */
    uint64_t submitted;       /* tasks accepted so far                               */
    uint64_t ran, cancelled;  /* accepted tasks that have ended                      */
    uint64_t late;            /* tasks that ran, but whose caller had given up before */
    uint64_t refused;         /* tasks that were not accepted                        */
};
WEIR_API void weir_pool_stats(struct weir_pool *pool, struct weir_pool_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
