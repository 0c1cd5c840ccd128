/* Decisions while the store is down: by this node's shares (local.h), with a receipt if the caller
 * can undo the grant. */
#include <stdlib.h>
#include <string.h>

#include "redis/redis_decide.h"
#include "redis/redis_store.h"

/* A grant of this node alone has a receipt like any other, so that all are undone in the same
 * way. It has the name that the ticket would have in Redis: Redis may have granted the ticket
 * without a reply. */
static void keep_local_receipt(struct weir__decision *a, struct weir_reservation *r,
                               struct weir_ticket *t)
{
    const int64_t until_ns = r ? r->act_ns : weir__add_sat(a->at.now_ns, a->lease_ns);
    struct weir__redis_receipt *k = weir__decision_make_receipt(a, until_ns);

    if (!k)
        return;
    k->local = true;
    if (r)
        k->reservation = *r;
    if (t)
        k->ticket = *t;
    if (r)
        r->term[0].fingerprint = weir__receipts_keep(a->redis->receipts, k);
    else
        t->term[0].fingerprint = weir__receipts_keep(a->redis->receipts, k);
}

/* The requests whose keys are not on an allow list, and their places among all. */
static size_t counted_requests(const struct weir__decision *a, struct weir_request *rq, int *place)
{
    size_t n = 0;

    for (int i = 0; i < a->terms; i++)
        if (i == 0 || a->request_of[i] != a->request_of[i - 1]) {
            place[n] = a->request_of[i];
            rq[n++] = a->rq[a->request_of[i]];
        }
    return n;
}

void weir__decision_fall_back(struct weir__decision *a)
{
    struct weir__local_limit *limit[WEIR_TERMS_MAX];
    struct weir_request rq[WEIR_TERMS_MAX];
    struct weir__receipt *receipt = a->receipt;
    int place[WEIR_TERMS_MAX];
    const size_t n = counted_requests(a, rq, place);

    for (size_t i = 0; i < n; i++)
        limit[i] = weir__redis_policy(rq[i].policy)->local;
    weir__decision_finish(
        a, weir__local_decide(a->redis->local, limit, rq, n, a->verb, a->at, receipt, &a->verdict));
    if (!a->error && a->verdict.which >= 0 && weir__decision_names_requests(a->verb))
        a->verdict.which = place[a->verdict.which];
    else if (!a->error && a->verdict.shadow > 0 && weir__decision_names_requests(a->verb))
        a->verdict.shadow = (int8_t)(place[a->verdict.shadow - 1] + 1);
    if (a->error || !a->verdict.allowed || !receipt)
        return;
    memset(a->act_us, -1, sizeof a->act_us); /* none of its terms acts in Redis */
    if (receipt->reservation && receipt->reservation->n > 0) {
        keep_local_receipt(a, receipt->reservation, NULL);
        receipt->reservation->n = 1;
        receipt->reservation->term[0].policy = a->rq[0].policy;
    }
    if (receipt->ticket && receipt->ticket->n > 0) {
        keep_local_receipt(a, NULL, receipt->ticket);
        receipt->ticket->n = 1;
        receipt->ticket->term[0].policy = a->rq[0].policy;
        receipt->ticket->term[0].key = 0; /* every caller that waits is woken */
    }
}
