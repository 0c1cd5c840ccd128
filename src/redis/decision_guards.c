/* Guards of this node in a decision of a Redis: entered before the store is asked.
 *
 * A limit may join terms that all nodes share and guards that look at one node (local_guards.c),
 * all or nothing. The guards are entered first: they answer at once, and a breaker that is open
 * spares the store the question. If the store then refuses, the entry is taken back.
 *
 * Invariants:
 *   (1) A call that the store refuses leaves nothing in the guards. While the store is being asked,
 *       it is in flight for them: so they may refuse another call early, and never admit one too
 *       many.
 *   (2) A refusal by the guards asks the store nothing: which and retry_after are theirs.
 *   (3) The guards of this node decide while the store is down too; only the rest falls back.
 *   (4) A key on an allow list is not asked of any guard.
 */
#include <stdlib.h>
#include <string.h>

#include "engine/ticket.h"
#include "redis/redis_decide.h"
#include "redis/redis_store.h"

/* The requests whose bits are set, with their limits and places among all. */
static size_t guarded_requests(const struct weir__decision *decision, unsigned requests,
                               struct weir_request *rq, struct weir__local_limit **limit,
                               int *place)
{
    size_t n = 0;

    for (size_t i = 0; i < decision->n; i++)
        if ((requests >> i & 1) != 0) {
            limit[n] = weir__redis_policy(decision->rq[i].policy)->local;
            if (!weir__local_has_guards(limit[n]))
                continue; /* since a moment ago */
            rq[n] = decision->rq[i];
            place[n++] = (int)i;
        }
    return n;
}

/* Names requests as the caller counts them. */
static void guards_name_request(enum weir__verb verb, const int *place, struct weir_verdict *v)
{
    if (!weir__decision_names_requests(verb))
        return;
    if (v->which >= 0)
        v->which = place[v->which];
    else if (v->shadow > 0)
        v->shadow = (int8_t)(place[v->shadow - 1] + 1);
}

bool weir__decision_enter_guards(struct weir__decision *decision, unsigned requests)
{
    struct weir__local_limit *limit[WEIR_TERMS_MAX];
    struct weir_request rq[WEIR_TERMS_MAX];
    int place[WEIR_TERMS_MAX];
    const size_t n = guarded_requests(decision, requests, rq, limit, place);
    struct weir__local_entry *entry;
    int error = WEIR_ENOMEM;

    if (n == 0)
        return true;
    entry = malloc(sizeof *entry);
    if (entry)
        error = weir__local_guards_enter(decision->redis->local, limit, rq, n, decision->verb,
                                         decision->at, entry);
    if (!error && entry->verdict.allowed) {
        decision->guards = entry;
        guards_name_request(decision->verb, place, &entry->verdict);
        return true;
    }
    if (!error) {
        decision->verdict = entry->verdict;
        guards_name_request(decision->verb, place, &decision->verdict);
    }
    if (decision->receipt && decision->receipt->reservation)
        decision->receipt->reservation->n = 0;
    if (decision->receipt)
        decision->receipt->full = false; /* to wait for a permit would not help */
    free(entry);
    weir__decision_finish(decision, error);
    return false;
}

/* The answer of all terms together, as decide.c says. */
static void guards_join_verdict(struct weir_verdict *all, const struct weir_verdict *guards)
{
    if (all->allowed) {
        all->wait_ns = weir__max(all->wait_ns, guards->wait_ns);
        if (guards->remaining < all->remaining)
            all->limit = guards->limit;
        if (all->reason == WEIR_OK && guards->reason != WEIR_OK) { /* a shadow's refusal */
            all->reason = guards->reason;
            all->term = guards->term;
            all->shadow = guards->shadow;
        }
    }
    all->remaining = weir__min(all->remaining, guards->remaining);
    all->reset_after_ns = weir__max(all->reset_after_ns, guards->reset_after_ns);
}

static void guards_join_ticket(struct weir_ticket *all, const struct weir_ticket *guards)
{
    assert(all->n + guards->n <= WEIR_TERMS_MAX);
    memcpy(all->term + all->n, guards->term, (size_t)guards->n * sizeof guards->term[0]);
    all->n += guards->n;
}

/* The store may have answered late, and what a rate has drained meanwhile is not given back. */
static struct weir__now guards_now(const struct weir__decision *decision)
{
    return decision->at.given ? decision->at : weir__now_of(decision->redis->remote.engine);
}

void weir__decision_join_guards(struct weir__decision *decision)
{
    struct weir__local_entry *entry = decision->guards;
    struct weir__receipt *receipt = decision->receipt;

    decision->guards = NULL;
    if (!decision->error)
        guards_join_verdict(&decision->verdict, &entry->verdict);
    if (weir__verb_enters(decision->verb) && !decision->error && decision->verdict.allowed)
        guards_join_ticket(receipt->ticket, &entry->ticket);
    else if (weir__verb_enters(decision->verb))
        weir__local_guards_leave(decision->redis->local, entry, guards_now(decision));
    free(entry);
}
