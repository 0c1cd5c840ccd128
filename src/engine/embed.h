/* What the daemon, the command and the simulation may use of the engine beside weir.h: this header,
 * and nothing deeper.
 *
 * The library's users have weir.h. The daemon is built with the library and needs a little more:
 * one reading of the clock for a whole batch, policies for limits that come with a request, the
 * secret that its own hash tables are keyed with, and the sizes that it accounts for. The
 * simulation needs an engine that chance does not reach, and the command explains limits in plain
 * words (limit/explain.h). The layer gate (tests/layers) holds all three to it. Only `weir store`
 * has a header of its own instead, engine/store/inspect.h: it reads files that no engine has open.
 */
#ifndef WEIR_ENGINE_EMBED_H
#define WEIR_ENGINE_EMBED_H

#include <stdbool.h>

#include <weir.h>

#include "base/num.h"
#include "engine/policy/anonymous.h"
#include "engine/waiter.h"
#include "limit/explain.h"

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

/* ---- Virtual engines ------------------------------------------------------------------------- */

/* Opens an engine whose answers depend on its calls alone, so that the same calls get the same
 * answers in every run. The options have a clock and a secret, which is not zero. *random, which
 * the caller may change between calls, takes the place of every random number that a guard draws.
 * No load is sampled: a signal that is WEIR_NONE (weir_signals_set) is not known. */
int weir__engine_open_virtual(struct weir **w, const struct weir_options *options,
                              const uint64_t *random, struct weir_diag *why);

/* Whose keys the term of the policy has: the number is another once its keys have started fresh. 0:
 * there is no such term. */
uint64_t weir__policy_scope(struct weir_policy *p, int term);

/* ---- Decisions ------------------------------------------------------------------------------- */

/* What is asked for one request, or for several at once. */
enum weir__verb {
    WEIR__TAKE,
    WEIR__PEEK,
    WEIR__TAKE_ALL,
    WEIR__ENTER,
    WEIR__ENTER_ALL,
    WEIR__CHARGE /* one request */
};

/* What one term says about a key, apart from any request. */
struct weir__term_view {
    int64_t limit, remaining; /* as in a verdict; limit -1: the term does not judge this key */
    int64_t more_after_ns;    /* time until `remaining` grows; -1: it is the whole limit */
    int64_t reset_after_ns;
};

struct weir__account_step;

/* What a decision records, for a caller that will give back what it took, or that waits. */
struct weir__receipt {
    struct weir_reservation
        *reservation; /* or NULL; a lone guard, which reserves nothing, leaves it as it is */
    struct weir_ticket *ticket; /* or NULL; a refusal leaves it as it is */
    /* After an entry that was refused, or a peek at one that would be: whether every term that
     * refuses is one that a caller can wait for, and the verdict of those terms. */
    bool full;
    struct weir__wait_options wait;
    struct weir__term_view *view; /* or NULL; after a peek at one request: its terms, by index */
    struct weir__account_step *account; /* or NULL; what one request does with its key's account */
};

/* weir_take_many at a time that was read before. */
int weir__take_many(struct weir *w, const struct weir_request *rq, size_t n, struct weir__now now,
                    struct weir_verdict *v);

/* How a call ended. */
struct weir__ending {
    enum weir_outcome how;
    bool lapsed; /* its caller was not heard of in time: each guard is told what that means to it */
    bool withdrawn;  /* the call did not take place; `how` is WEIR_IGNORE */
    bool timed;      /* the caller says how long it took, ... */
    int64_t took_ns; /* ... which counts up to the time since the entry */
};

/* Of a remote store's ticket: exits the guards that look at this node, without waiting for the
 * store, whose part stays in the ticket. Other tickets stay as they are. */
int weir__exit_node_guards(struct weir *w, struct weir_ticket *t, const struct weir__ending *e,
                           struct weir__now at);
/* weir_exit with all that is known of the call. */
int weir__exit(struct weir *w, struct weir_ticket *t, const struct weir__ending *e,
               struct weir__now at);
/* weir_account_reserve at a time that was read before; and weir_account_commit, or with cost 0
 * weir_account_cancel: *back, unless NULL, receives what was given back. */
int weir__account_reserve(struct weir *w, const struct weir_request *rq, int64_t ttl_ns,
                          enum weir_lapse lapse, struct weir__now now, uint64_t *id,
                          struct weir_verdict *v);
int weir__account_settle(struct weir *w, const struct weir_request *rq, uint64_t id,
                         struct weir__now now, int64_t *back, struct weir_verdict *v);
/* A number for a new reservation, not 0, which no client can guess. */
uint64_t weir__account_new_id(struct weir *w);

/* For how many keys the store has room for open reservations. UINT64_MAX: it has no such bound,
 * because it is remote. */
uint64_t weir__account_room(const struct weir *w);
/* The account of the request's key, not 0; of a remote store 0. And whether the store keeps that
 * account now: it may be there for a while after its last reservation has lapsed as nothing. An
 * error: the store does not say. */
uint64_t weir__account_of(const struct weir *w, const struct weir_request *rq);
int weir__account_is_kept(struct weir *w, uint64_t account, int64_t now_ns, bool *kept);

/* Views of all terms of the request's limit, by their index. Not of a remote store: WEIR_EINVAL. */
int weir__peek_terms(struct weir *w, const struct weir_request *rq, struct weir__now now,
                     struct weir__term_view view[WEIR_TERMS_MAX]);

/* weir_policy_set for an event loop: it does not wait for a remote store, which is asked for what
 * it must say about the limit before the first decision. */
int weir__policy_set_now(struct weir *w, const char *name, const char *limit,
                         struct weir_policy **policy, struct weir_diag *why);

/* Gives back a reservation that its holder will not act on, as far as possible: what can be
 * cancelled is cancelled; terms that know no cancel (windows) are refunded, which takes nothing
 * away that another caller was promised. */
void weir__reservation_withdraw(struct weir *w, struct weir_reservation *r, struct weir__now at);

/* How long a caller of the term waits by default. */
int64_t weir__engine_term_patience(const struct weir_term *t);

/* ---- Overrides ------------------------------------------------------------------------------- */

/* Whether `own` has the shape that an override of the limit `of`, which has that name, must have
 * (weir_override_set). 0; or WEIR_EINVAL, and *why (unless NULL) says how it differs. */
int weir__override_fits(const struct weir_limit *of, const char *name, const struct weir_limit *own,
                        struct weir_diag *why);

/* Decides by numbers that come with the request, in place of the limit's and of the key's override:
 * a take, a peek or a charge. They must fit; if they do not, WEIR_EINVAL. The key keeps its state,
 * which says at which rate it was written. A remote store is asked by weir__decision_begin. */
int weir__decide_by(struct weir *w, const struct weir_request *rq, const struct weir_limit *numbers,
                    enum weir__verb verb, struct weir__now at, struct weir_verdict *v);

/* ---- Waiting (wait.c) ------------------------------------------------------------------------ */

enum weir__wait_verb { WEIR__WAIT_TAKE, WEIR__WAIT_ENTER };

/* Decides, or makes it wait behind those that came before it for the same key; rq->patience_ns says
 * for how long at most. The request is copied, but not the bytes of its key, which must live as
 * long as the waiter. Returns 0, and me->decided says whether it is decided; or the error that
 * ended it. */
int weir__wait_begin(struct weir *w, struct weir__waiter *me, const struct weir_request *rq,
                     enum weir__wait_verb verb, struct weir__now now);
/* Looks again: at me->due_ns, or after a wake-up. Earlier, it does nothing. Returns as begin. */
int weir__wait_step(struct weir__waiter *me, struct weir__now now);
/* Leaves the list, and gives back what was granted and not acted on. */
void weir__wait_cancel(struct weir__waiter *me, struct weir__now now);
/* An entry that gives up: it is refused as if its time were over. Returns as begin. */
int weir__wait_expire(struct weir__waiter *me, struct weir__now now);

/* Begins without asking: for a caller that asks the limit itself, perhaps at another time, as
 * weir__waiter_next says, and tells the waiter the answer. */
int weir__wait_open(struct weir *w, struct weir__waiter *me, const struct weir_request *rq,
                    enum weir__wait_verb verb, int64_t now_ns);

/* The limit of the policy has changed: the first waiter for each of its keys looks again. */
void weir__wait_wake_policy(struct weir *w, const struct weir_policy *p);
/* How many callers wait for the key of the request. */
int64_t weir__wait_length(struct weir *w, const struct weir_request *rq);

/* ---- What the daemon keeps account of -------------------------------------------------------- */

/* Whether the URL names a store on another machine. */
bool weir__url_is_remote(const char *url);

/* The store's secret: attackers who choose keys cannot predict hashes that are keyed with it. */
const uint64_t *weir__engine_secret(const struct weir *w);

/* The sizes of the store: those of the options, but a file's own, which it was made with. */
struct weir__store_sizes {
    uint64_t max_keys, max_memory;
};
struct weir__store_sizes weir__engine_sizes(const struct weir *w);

/* Grows with each policy that any process sets or forgets in the store. */
uint64_t weir__engine_policy_changes(const struct weir *w);
/* Whether no process has forgotten the policy. */
bool weir__policy_is_set(const struct weir_policy *p);

/* For how many keys of each term there would be room in a private store of these options (NULL: the
 * defaults) that has no other limit; 0: it would be refused. Nothing is opened (capacity.c). */
void weir__capacity_keys(const struct weir_limit *l, const struct weir_options *options,
                         uint64_t keys[WEIR_TERMS_MAX]);

/* Bytes that a store keeps for the names of max_policies policies, and for an anonymous policy
 * with that many terms. */
size_t weir__engine_names_bytes(uint64_t max_policies);
size_t weir__anonymous_bytes(int terms);

#endif
