/* weir: rate limiting for programs and fleets.
 *
 * This header is the manual. It says what a limit is, how to write one, and what every answer
 * means. Today the library reads and writes limits; the decisions themselves are reached through
 * the `weir` command, and will be here with the engine.
 *
 * A limit is a line of text, the same on the command line, in files and on the wire:
 *
 *     token-bucket 100/s burst=20 + fixed-window 10k/day tz=Europe/Berlin
 *
 * docs/reference/limits.md has the grammar, every option with its default, and the
 * arithmetic of every algorithm. A complete program:
 *
 *     #include <stdio.h>
 *     #include <weir.h>
 *
 *     int main(int argc, char **argv)
 *     {
 *         struct weir_limit limit;
 *         struct weir_diag why;
 *         char text[WEIR_LIMIT_TEXT_MAX];
 *
 *         if (weir_limit_parse(&limit, argc > 1 ? argv[1] : "100/s", &why) != 0) {
 *             fprintf(stderr, "%s\n", why.text);
 *             return 2;
 *         }
 *         weir_limit_print(&limit, text, sizeof text);
 *         puts(text);
 *         return 0;
 *     }
 *
 * Rules that hold throughout:
 *   - Times are nanoseconds in int64_t, in 0..2^62, counted from the Unix epoch.
 *   - A function that can fail returns 0 or a negative weir_error. A denial is an answer, not an
 * error.
 *   - The caller owns all memory; nothing here keeps a pointer it was given.
 *   - All functions are safe to call from any thread.
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
    X(WEIR_ESYNTAX, -2, "the text is not a limit")                    \
    X(WEIR_ERANGE, -3, "a number of the limit is outside its range")  \
    X(WEIR_ENOZONE, -4, "no such time zone")                          \
    X(WEIR_ENOMEM, -5, "out of memory")

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
    X(QUEUE_FULL) /* refused: as many are waiting as may                                      */

enum weir_reason {
#define X(name) WEIR_##name,
    WEIR_REASONS(X)
#undef X
};

WEIR_API const char *weir_reason_name(enum weir_reason reason); /* "OK", "LIMITED", ... */

struct weir_verdict {
    bool allowed;
    enum weir_reason reason;
    int which;              /* of several terms: the one that refused, else -1                    */
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

#ifdef __cplusplus
}
#endif

#endif
