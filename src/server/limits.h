/* Limits by name and by text, to policies of the engine.
 *
 * A word where a limit is expected is the name of a configured one, or a literal such as
 * "token-bucket 10/s burst=20". A literal's keys belong to its canonical text: "10/s" and
 * "token-bucket 10/s burst=10" are one. CL.THROTTLE's and THROTTLE's keys are one namespace, in
 * which new parameters are a live change.
 *
 * A name's keys are in the store that its limit names (store=URL), else in the daemon's own; all others
 * are there.
 *
 * Names are shared by all workers under a lock that each worker holds for reading while it works
 * (names_enter, names_leave); literals and throttles are each worker's own, in caches of fixed
 * size. Of literals the least recently used is forgotten; a throttle has one place, and whoever
 * comes there next takes it. To be forgotten costs a parse, and no state: the engine's keys do not
 * depend on it.
 */
#ifndef WEIR_SERVER_LIMITS_H
#define WEIR_SERVER_LIMITS_H

#include "base/text.h"
#include "server/server.h"

struct names;    /* the server's */
struct literals; /* a worker's */

/* A limit as requests use it. Good until the worker's current wake-up ends; who needs it longer
 * holds it (limit_hold), as a reply that waits does. */
struct limit {
    struct weir_policy *policy;
    const struct weir_limit *parsed;
    const char *name; /* the configured name, or "literal" or "throttle": for logs and headers */
};

/* Between two requests: lets go of limits that were pushed out of the caches, if they are many. */
void limits_rest(struct conn *c);

/* By name or literal. NULL: none; *status is 404 (no such name) or 400 (a literal that does not
 * parse), *why is the message. */
const struct limit *limit_find(struct conn *c, struct weir__slice word, int *status,
                               const char **why);
/* NULL and *why: no memory; or a number is out of range, which throttle.h could have told. `burst`
 * is all that may come at once (>= 1). */
const struct limit *limit_throttle(struct conn *c, int64_t burst, int64_t count, int64_t period_s,
                                   const char **why);

/* The limit of the numbers that were written in just these bytes last time, or NULL: most clients
 * say the same with every request, and to compare is less than to read. limit_throttle_said tells
 * what they meant. */
const struct limit *limit_throttle_again(struct conn *c, struct weir__slice said, int64_t more);
void limit_throttle_said(struct conn *c, struct weir__slice said, int64_t more,
                         const struct limit *l);

void limit_hold(const struct limit *l);
void limit_let_go(const struct limit *l);

/* Definition, for WEIR.LIMIT and /v1/limits: 0 or an error, *why filled. A name has 1 to 127 bytes
 * of letters, digits and _ . : - (no literal is such a word: it has a blank or a slash). The text may have
 * a store=URL that the daemon has; without one, a limit that is there stays where it is. */
int limits_set(struct conn *c, struct weir__slice name, struct weir__slice text,
               struct weir_diag *why);
/* The canonical text of a named limit: false if there is none. *store is NULL if that is the daemon's own. */
bool limits_get(struct conn *c, struct weir__slice name, char text[WEIR_LIMIT_TEXT_MAX],
                const char **store);
bool limits_delete(struct conn *c, struct weir__slice name); /* false: there was none */
/* Calls `each` for all named limits, by name. */
typedef void limits_say(void *arg, const char *name, const char *text, const char *store);
void limits_each(struct conn *c, limits_say *each, void *arg);

#endif
