/* Receipts of decisions: what is remembered of a grant, so that it can be undone (redis_undo.c),
 * and of a refusal, so that a caller can wait for a permit. */
#include <stdlib.h>
#include <string.h>

#include "engine/ticket.h"
#include "engine/wait_list.h"
#include "redis/redis_decide.h"
#include "redis/redis_store.h"

/* What the part must find unchanged when it is undone. */
static void note_scopes(struct weir__redis_receipt_part *part,
                        const struct weir__decision *decision, int from, int request)
{
    for (int i = from; i < decision->terms && decision->request_of[i] == request; i++) {
        const int k = part->n++;

        part->act_us[k] = decision->act_us[i];
        part->scope[k] = decision->scope_of[i];
    }
    part->resets = decision->resets_of[request];
}

struct weir__redis_receipt *weir__decision_make_receipt(struct weir__decision *decision,
                                                        int64_t until_ns)
{
    struct weir__redis_receipt *k = weir__redis_receipt_make(decision->rq, decision->n);
    int from = 0;

    if (!k)
        return NULL;
    k->until_ns = until_ns;
    k->act_us = decision->now_us + decision->verdict.wait_ns / 1000;
    memcpy(k->name, decision->ticket, sizeof k->name);
    for (int i = 0; i < k->n; i++) {
        while (from < decision->terms && decision->request_of[from] < i)
            from++;
        note_scopes(&k->part[i], decision, from, i);
    }
    return k;
}

static void issue_reservation(struct weir__decision *decision, struct weir_reservation *r)
{
    const int64_t act_ns = weir__add_sat(decision->at.now_ns, decision->verdict.wait_ns);
    const bool at_once = decision->verdict.wait_ns == 0 && !decision->at.given;
    struct weir__redis_receipt *k;

    *r = (struct weir_reservation){.act_ns = act_ns};
    /* A reservation that acts at once cannot be cancelled later, unless the caller controls the
     * clock. But the client of a loop may have left before the answer: then it is withdrawn. */
    if (!decision->verdict.allowed || (at_once && !decision->command.done))
        return;
    k = weir__decision_make_receipt(decision, act_ns);
    if (k)
        k->at_once = at_once;
    r->term[0].policy = decision->rq[0].policy;
    r->term[0].fingerprint = k ? weir__receipts_keep(decision->redis->receipts, k) : 0;
    r->n = r->term[0].fingerprint ? decision->terms : 0; /* only the first one is used */
}

/* One term for each request with terms in the Redis, so that there is room for the guards of this
 * node, which follow (decision_guards.c). */
static void ticket_add_request(struct weir_ticket *t, const struct weir_request *rq)
{
    const int i = t->n++;

    t->term[i].policy = rq->policy;
    t->term[i].key = weir__key_hash(rq->policy->store, rq);
    t->term[i].cost = rq->cost;
    t->term[i].index = WEIR__TICKET_REMOTE;
}

static void issue_ticket(struct weir__decision *decision, struct weir_ticket *t)
{
    struct weir__redis_receipt *k;

    if (!decision->verdict.allowed)
        return;
    weir__ticket_begin(t, decision->redis->remote.engine, decision->at.now_ns);
    if (decision->lease_ns == 0)
        return; /* the Redis has no permits of it */
    k = weir__decision_make_receipt(decision,
                                    weir__add_sat(decision->at.now_ns, decision->lease_ns));
    if (!k)
        return; /* its lease will end */
    for (int i = 0; i < decision->terms; i++)
        if (i == 0 || decision->request_of[i] != decision->request_of[i - 1])
            ticket_add_request(t, &decision->rq[decision->request_of[i]]);
    t->term[0].fingerprint = weir__receipts_keep(decision->redis->receipts, k);
}

/* The wait list for the permits of the first request's limit, and whether the permits refused. */
static void note_wait_list(struct weir__decision *decision, int refused,
                           struct weir__receipt *receipt)
{
    const struct weir__revision *rev;
    const struct weir_term *t = NULL;

    weir__rcu_enter();
    rev = atomic_load_explicit(&decision->rq[0].policy->revision, memory_order_acquire);
    if (refused >= 0 && decision->index_of[refused] < rev->n)
        t = &rev->term[decision->index_of[refused]].meter.term;
    receipt->wait = rev->wait;
    receipt->full = t && decision->verdict.reason == WEIR_LIMITED &&
                    t->algorithm == WEIR_CONCURRENCY && t->queue > 0;
    weir__rcu_exit();
}

void weir__decision_issue_receipts(struct weir__decision *decision, int refused)
{
    struct weir__receipt *receipt = decision->receipt;

    if (receipt->reservation)
        issue_reservation(decision, receipt->reservation);
    if (receipt->ticket ||
        decision->verb == WEIR__PEEK) /* a peek of a caller that waits for others */
        note_wait_list(decision, refused, receipt);
    if (receipt->ticket)
        issue_ticket(decision, receipt->ticket);
}
