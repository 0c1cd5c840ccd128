/* What the daemon and the command may use of the engine beside weir.h: this header, and nothing
 * deeper.
 *
 * The library's users have weir.h. The daemon is built with the library and needs a little more:
 * one reading of the clock for a whole batch, policies for limits that come with a request, the
 * secret that its own hash tables are keyed with, and the sizes that it accounts for. The layer
 * gate (tests/layers) holds both to it (`weir store`, which reads files from outside, has
 * engine/store/inspect.h too).
 */
#ifndef WEIR_ENGINE_EMBED_H
#define WEIR_ENGINE_EMBED_H

#include <stdbool.h>

#include <weir.h>

#include "base/num.h"
#include "engine/policy/anonymous.h"

/* ---- Time ------------------------------------------------------------------------------------ */

/* The time of a decision, and what the calendar says then: they differ if the wall clock was set
 * since the engine's clock was started. */
struct weir__now {
    int64_t now_ns, wall_ns;
    bool given; /* by the caller; else the engine's clock, and a remote store has its own */
};

struct weir__now weir__now_of(const struct weir *w);

static inline struct weir__now weir__now_at(int64_t now_ns)
{
    return (struct weir__now){now_ns, now_ns, true};
}

static inline bool weir__now_fits(int64_t now_ns)
{
    return now_ns >= 0 && now_ns <= WEIR__NOW_MAX;
}

/* The process' own clock, as engines without a clock of their own read it. */
int64_t weir__engine_clock(void);

/* ---- Decisions ------------------------------------------------------------------------------- */

/* weir_take_many at a time that was read before. */
int weir__take_many(struct weir *w, const struct weir_request *rq, size_t n, struct weir__now now,
                    struct weir_verdict *v);

/* Gives back a reservation that its holder will not act on, as far as possible: what can be
 * cancelled is cancelled; terms that know no cancel (windows) are refunded, which takes nothing
 * away that another caller was promised. */
void weir__reservation_withdraw(struct weir *w, struct weir_reservation *r, struct weir__now at);

/* How long a caller of the term waits by default. */
int64_t weir__engine_term_patience(const struct weir_term *t);

/* When a waiter asks again. Zero to begin with. */
struct weir__retry {
    int64_t at_ns; /* or -1: there is no point */
    int refuted;   /* how often in a row a refusal was refuted by the peek after it */
};

/* For a waiter that was refused at now_ns, with all its patience. `without` is the answer of a peek
 * without patience at that time: there every algorithm says when the request can pass by itself. If
 * that is now, something has changed since the refusal, or the store has no place: the waiter asks
 * again in 1 ms, and each time after twice as long, up to a second; the last time at its deadline.
 * at_ns is later than now_ns, and not later than the deadline. */
void weir__retry_plan(struct weir__retry *again, const struct weir_verdict *without, int64_t now_ns,
                      int64_t deadline_ns);

/* ---- What the daemon keeps account of -------------------------------------------------------- */

/* Whether the URL names a store on another machine. */
bool weir__url_is_remote(const char *url);

/* The store's secret: attackers who choose keys cannot predict hashes that are keyed with it. */
const uint64_t *weir__engine_secret(const struct weir *w);

/* Grows with each policy that any process sets or forgets in the store. */
uint64_t weir__engine_policy_changes(const struct weir *w);
/* Whether no process has forgotten the policy. */
bool weir__policy_is_set(const struct weir_policy *p);

/* For how many keys of each term there would be room in a private store of these options (NULL: the
 * defaults) that has no other limit; 0: it would be refused. Nothing is opened (foresee.c). */
void weir__foresee_keys(const struct weir_limit *l, const struct weir_options *options,
                        uint64_t keys[WEIR_TERMS_MAX]);

/* Bytes that a store keeps for the names of so many policies, and for an anonymous policy of so
 * many terms. */
size_t weir__engine_names_bytes(uint64_t max_policies);
size_t weir__anonymous_bytes(int terms);

#endif
