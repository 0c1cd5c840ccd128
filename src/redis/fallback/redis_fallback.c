/* Decisions while the store is down: by this node's shares (local.h), with a receipt if the caller
 * can undo the grant. */
#include <stdlib.h>
#include <string.h>

#include "engine/ticket.h"
#include "redis/redis_decide.h"
#include "redis/redis_store.h"

/* A grant of this node alone has a receipt like any other, so that all are undone in the same
 * way. It has the name that the ticket would have in Redis: Redis may have granted the ticket
 * without a reply. */
static void keep_local_receipt(struct weir__decision *decision, struct weir_reservation *r,
                               struct weir_ticket *t)
{
    const int64_t until_ns = r ? r->act_ns : weir__add_sat(decision->at.now_ns, decision->lease_ns);
    struct weir__redis_receipt *k = weir__decision_make_receipt(decision, until_ns);

    if (!k)
        return;
    k->local = true;
    if (r)
        k->reservation = *r;
    if (t)
        k->ticket = *t;
    if (r)
        r->term[0].fingerprint = weir__receipts_keep(decision->redis->receipts, k);
    else
        t->term[0].fingerprint = weir__receipts_keep(decision->redis->receipts, k);
}

/* The requests whose keys are not on an allow list, and their places among all. */
static size_t counted_requests(const struct weir__decision *decision, struct weir_request *rq,
                               int *place)
{
    size_t n = 0;

    for (int i = 0; i < decision->terms; i++)
        if (i == 0 || decision->request_of[i] != decision->request_of[i - 1]) {
            place[n] = decision->request_of[i];
            rq[n++] = decision->rq[decision->request_of[i]];
        }
    return n;
}

void weir__decision_fall_back(struct weir__decision *decision)
{
    struct weir__local_limit *limit[WEIR_TERMS_MAX];
    struct weir_request rq[WEIR_TERMS_MAX];
    struct weir__receipt *receipt = decision->receipt;
    int place[WEIR_TERMS_MAX];
    const size_t n = counted_requests(decision, rq, place);

    if (decision->account.step) { /* only the store has accounts */
        weir__decision_finish(decision, WEIR_EDOWN);
        return;
    }
    for (size_t i = 0; i < n; i++)
        limit[i] = weir__redis_policy(rq[i].policy)->local;
    weir__decision_finish(decision,
                          weir__local_decide(decision->redis->local, limit, rq, n, decision->verb,
                                             decision->at, receipt, &decision->verdict));
    if (!decision->error && decision->verdict.which >= 0 &&
        weir__decision_names_requests(decision->verb))
        decision->verdict.which = place[decision->verdict.which];
    else if (!decision->error && decision->verdict.shadow > 0 &&
             weir__decision_names_requests(decision->verb))
        decision->verdict.shadow = (int8_t)(place[decision->verdict.shadow - 1] + 1);
    if (decision->error || !decision->verdict.allowed || !receipt)
        return;
    memset(decision->act_us, -1, sizeof decision->act_us); /* none of its terms acts in Redis */
    if (receipt->reservation && receipt->reservation->n > 0) {
        keep_local_receipt(decision, receipt->reservation, NULL);
        receipt->reservation->n = 1;
        receipt->reservation->term[0].policy = decision->rq[0].policy;
    }
    if (receipt->ticket && receipt->ticket->n > 0) {
        keep_local_receipt(decision, NULL, receipt->ticket);
        weir__ticket_begin(receipt->ticket, decision->redis->remote.engine, decision->at.now_ns);
        receipt->ticket->n = 1;
        receipt->ticket->term[0].policy = decision->rq[0].policy;
        receipt->ticket->term[0].key = 0; /* every caller that waits is woken */
        receipt->ticket->term[0].index = WEIR__TICKET_REMOTE;
    }
}
