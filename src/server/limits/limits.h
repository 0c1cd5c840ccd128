/* Limits by name and by text, to policies of the engine.
 *
 * A word where a limit is expected is the name of a configured one, or a literal such as
 * "token-bucket 10/s burst=20". A literal's keys belong to its canonical text: "10/s" and
 * "token-bucket 10/s burst=10" are one. The keys of CL.THROTTLE and THROTTLE are one namespace, in
 * which new parameters are a live change.
 *
 * A name's keys are in the store that its limit names (store=URL), otherwise in the daemon's own;
 * the keys of literals and throttles are always in the daemon's own.
 *
 * Names are shared by all workers under a lock that each worker holds for reading while it works
 * (names_enter, names_leave); literals and throttles are each worker's own, in caches of fixed
 * size. The least recently used literal is forgotten; a throttle has one place, and the next
 * throttle for that place replaces it. Forgetting costs a parse, and no state: the engine's keys do
 * not depend on it.
 */
#ifndef WEIR_SERVER_LIMITS_LIMITS_H
#define WEIR_SERVER_LIMITS_LIMITS_H

#include "base/text.h"
#include "server/server.h"

struct names; /* the server's */
struct stores;
struct literals; /* a worker's */

/* A limit as requests use it. Valid until the worker's current wake-up ends; a caller that needs it
 * longer retains it (limit_retain), as a delayed reply does. */
struct limit {
    struct weir_policy *policy; /* NULL: see limit_find */
    const struct weir_limit *parsed;
    const char *name; /* the configured name, or "literal" or "throttle": for logs and headers */
};

/* Between two slices of an array: releases limits that were pushed out of the caches, if they are
 * many. */
void limits_tidy(struct conn *c);

/* What a request wants from a limit. */
enum limit_use {
    LIMIT_TAKES,  /* to take: by name or literal */
    LIMIT_LOOKS,  /* to peek, refund or reset: creates nothing */
    LIMIT_BY_NAME /* to take, by name only */
};

/* By name or literal. NULL: none; *status is 404 (no such name, or literals are off) or 400 (a
 * literal that does not parse, or whose keys would take too much state), *why is the message.
 *
 * A caller that only looks may get a limit whose policy is NULL: it was never taken from, so each
 * of its keys is untouched (batch.c answers so).
 */
const struct limit *limit_find(struct conn *c, struct weir__slice word, enum limit_use use,
                               int *status, const char **why);
/* Numbers that come with a request, in place of those of its named limit: valid until the next call
 * in this thread. NULL: *status and *why say that there may be none (limits in requests are off,
 * the limit is a literal), or that the text is no limit or has another shape. */
const struct weir_limit *limit_numbers(struct conn *c, const struct limit *l,
                                       struct weir__slice text, int *status, const char **why);
#define LIMIT_NUMBERS_AT_ONCE "numbers with a request are for a take that is answered at once"

/* NULL and *why: no memory, or a number is out of range, which throttle.h could have checked.
 * `burst` is all that may come at once (>= 1). */
const struct limit *limit_throttle(struct conn *c, int64_t burst, int64_t count, int64_t period_s,
                                   const char **why);

/* fixed-window COUNT/PERIOD, whose keys are those of that text. Also where limits in requests are
 * forbidden: it has numbers only, and 16 bytes of state. NULL and *why: no memory. */
const struct limit *limit_window(struct conn *c, int64_t count, int64_t period_ms,
                                 const char **why);

/* The limit of the numbers that came in exactly these bytes last time, or NULL: most clients send
 * the same with every request, and comparing is cheaper than parsing. limit_throttle_cache records
 * what the bytes meant. */
const struct limit *limit_throttle_cached(struct conn *c, struct weir__slice said, int64_t more);
void limit_throttle_cache(struct conn *c, struct weir__slice said, int64_t more,
                          const struct limit *l);

/* Counts a grant that a shadow of the limit would have refused. */
void limit_count_shadow(const struct limit *l);
/* A refusal, or a grant that a shadow would have refused: why, and by which term, for the log. */
void limit_note_refusal(const struct limit *l, const struct weir_verdict *v);
#define LIMIT_NOTED_REASON 16 /* bits of the term before it: 1 + its index, 0 if there is none */

/* The canonical text of the term that refused, or of the shadow that would have: its length, and
 * *text valid until the next call in this thread. 0: there is none. */
#define LIMIT_TERM_MOST 512 /* bytes, with the NUL */
size_t limit_term_text(const struct limit *l, const struct weir_verdict *v, const char **text);

void limit_retain(const struct limit *l);
void limit_release(const struct limit *l);

/* What a file of limits is checked by, without a daemon. */
bool limit_name_is_valid(struct weir__slice name);
#define LIMIT_NAME_EXPECTED "1 to 127 letters, digits and _ . : -"
/* Makes it one that the daemon can serve: `concurrency` has a lease, because the daemon does not
 * see a caller die. False and *why: it cannot. */
bool limit_give_leases(struct weir_limit *l, struct weir_diag *why);
/* True if it is entered, and cannot be taken from. */
bool limit_has_guard(const struct weir_limit *l);
/* A guard that looks at one machine is not in a Redis: each daemon has a state of its own, whatever
 * the other terms of the limit are. And how many such terms there are. */
bool limit_term_is_of_node(const struct weir_term *t);
int limit_node_terms(const struct weir_limit *l);
/* Where a limit is that is set for the store: elsewhere if that is a Redis, which would have
 * nothing of it. */
struct store *limit_place(struct stores *s, const struct weir_limit *l, struct store *store);

/* True if keys cannot be carried over (limits.md, Live change). */
bool limit_starts_fresh(const struct weir_limit *from, const struct weir_limit *to);

/* Setting, for WEIR.LIMIT and /v1/limits: 0, or an error and *why filled. A name has 1 to 127 bytes
 * of letters, digits and _ . : - (no literal is such a word: it has a blank or a slash). The text
 * may have a store=URL that the daemon has; without one, an existing limit stays in its store. */
int limits_set(struct conn *c, struct weir__slice name, struct weir__slice text,
               struct weir_diag *why);
/* The numbers of a limit, as clients see them, and their names in struct limit_stats. */
#define LIMIT_NUMBERS(X)                      \
    X(room, keys)                             \
    X(state_bytes, state_bytes)               \
    X(evicted, evicted)                       \
    X(overflow_decisions, overflow_decisions) \
    X(overflow_refusals, overflow_refusals)   \
    X(warned, warned)                         \
    X(shadow_denied, shadow_denied)

struct limit_stats {
#define X(word, number) uint64_t number;
    LIMIT_NUMBERS(X)
#undef X
};

/* What clients see of a named limit. */
struct limit_shown {
    char text[WEIR_LIMIT_TEXT_MAX]; /* canonical */
    const char *store;              /* NULL: the daemon's own */
    /* false for a limit in a Redis, which has bounds of its own: only shadow_denied is set */
    bool has_stats;
    struct limit_stats stats;
};

/* A name for lines that programs parse: each byte other than a letter, digit, _ . or - is %XX.
 * Programs that share a file may have set names of any bytes there. */
#define LIMIT_NAME_ESCAPED (3 * WEIR_NAME_MAX)
void limit_name_escape(char out[LIMIT_NAME_ESCAPED], const char *name);

/* False if there is none of that name. */
bool limits_get(struct conn *c, struct weir__slice name, struct limit_shown *shown);
/* 1; 0: there was none; or an error and *why filled. */
int limits_delete(struct conn *c, struct weir__slice name, struct weir_diag *why);
/* Calls `each` for the first named limits that come after `after` by name (an empty one: from the
 * first on), at most LIMITS_PAGE of them. Returns how many; fewer than `most`: there are no
 * more. */
#define LIMITS_PAGE 256
size_t limits_count(struct conn *c, struct weir__slice after, size_t most); /* how many */
typedef void limits_callback(void *arg, const char *name, const struct limit_shown *shown);
size_t limits_page(struct conn *c, struct weir__slice after, size_t most, limits_callback *each,
                   void *arg);

#endif
