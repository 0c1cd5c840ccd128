/* Receipts of decisions: what is remembered of a grant, so that it can be undone (redis_undo.c),
 * and of a refusal, so that a caller can wait for a permit. */
#include <stdlib.h>
#include <string.h>

#include "engine/ticket.h"
#include "engine/wait_list.h"
#include "redis/redis_decide.h"
#include "redis/redis_store.h"

/* What the part must find unchanged when it is undone. */
static void note_scopes(struct weir__redis_receipt_part *part, const struct weir__decision *a,
                        int from, int request)
{
    for (int i = from; i < a->terms && a->request_of[i] == request; i++) {
        const int k = part->n++;

        part->act_us[k] = a->act_us[i];
        part->scope[k] = a->scope_of[i];
    }
    part->resets = a->resets_of[request];
}

struct weir__redis_receipt *weir__decision_make_receipt(struct weir__decision *a, int64_t until_ns)
{
    struct weir__redis_receipt *k = weir__redis_receipt_make(a->rq, a->n);
    int from = 0;

    if (!k)
        return NULL;
    k->until_ns = until_ns;
    k->act_us = a->now_us + a->verdict.wait_ns / 1000;
    memcpy(k->name, a->ticket, sizeof k->name);
    for (int i = 0; i < k->n; i++) {
        while (from < a->terms && a->request_of[from] < i)
            from++;
        note_scopes(&k->part[i], a, from, i);
    }
    return k;
}

static void issue_reservation(struct weir__decision *a, struct weir_reservation *r)
{
    const int64_t act_ns = weir__add_sat(a->at.now_ns, a->verdict.wait_ns);
    const bool at_once = a->verdict.wait_ns == 0 && !a->at.given;
    struct weir__redis_receipt *k;

    *r = (struct weir_reservation){.act_ns = act_ns};
    /* A reservation that acts at once cannot be cancelled later, unless the caller controls the
     * clock. But the client of a loop may have left before the answer: then it is withdrawn. */
    if (!a->verdict.allowed || (at_once && !a->command.done))
        return;
    k = weir__decision_make_receipt(a, act_ns);
    if (k)
        k->at_once = at_once;
    r->term[0].policy = a->rq[0].policy;
    r->term[0].fingerprint = k ? weir__receipts_keep(a->redis->receipts, k) : 0;
    r->n = r->term[0].fingerprint ? a->terms : 0; /* only the first one is used */
}

static void issue_ticket(struct weir__decision *a, struct weir_ticket *t)
{
    struct weir__redis_receipt *k;

    if (!a->verdict.allowed)
        return;
    weir__ticket_begin(t, a->redis->remote.engine, a->at.now_ns);
    k = weir__decision_make_receipt(a, weir__add_sat(a->at.now_ns, a->lease_ns));
    if (!k)
        return; /* its lease will end */
    t->n = (int)a->n;
    for (size_t i = 0; i < a->n; i++) {
        t->term[i].policy = a->rq[i].policy;
        t->term[i].key = weir__key_hash(a->rq[i].policy->store, &a->rq[i]);
        t->term[i].cost = a->rq[i].cost;
    }
    t->term[0].fingerprint = weir__receipts_keep(a->redis->receipts, k);
}

/* The wait list for the permits of the first request's limit, and whether the permits refused. */
static void note_wait_list(struct weir__decision *a, int refused, struct weir__receipt *receipt)
{
    const struct weir__revision *e;
    const struct weir_term *t = NULL;

    weir__rcu_enter();
    e = atomic_load_explicit(&a->rq[0].policy->revision, memory_order_acquire);
    if (refused >= 0 && a->index_of[refused] < e->n)
        t = &e->term[a->index_of[refused]].meter.term;
    receipt->wait = e->wait;
    receipt->full =
        t && a->verdict.reason == WEIR_LIMITED && t->algorithm == WEIR_CONCURRENCY && t->queue > 0;
    weir__rcu_exit();
}

void weir__decision_issue_receipts(struct weir__decision *a, int refused)
{
    struct weir__receipt *receipt = a->receipt;

    if (receipt->reservation)
        issue_reservation(a, receipt->reservation);
    if (receipt->ticket || a->verb == WEIR__PEEK) /* a peek of a caller that waits for others */
        note_wait_list(a, refused, receipt);
    if (receipt->ticket)
        issue_ticket(a, receipt->ticket);
}
