/* The receipt of a transaction: what a caller needs to give back what it took, or to wait. */
#include "engine/ticket.h"
#include "engine/transaction.h"

static void note_reservation_terms(const struct weir__transaction *tx, const struct weir_verdict *v,
                                   struct weir_reservation *r)
{
    *r = (struct weir_reservation){.act_ns = weir__add_sat(tx->now.now_ns, v->wait_ns)};
    if (!v->allowed)
        return;
    r->n = tx->n;
    for (int i = 0; i < tx->n; i++) {
        const struct weir__transaction_item *it = &tx->item[i];

        r->term[i].policy = it->policy;
        r->term[i].scope = it->term->scope;
        r->term[i].fingerprint = it->fingerprint;
        r->term[i].key = it->key;
        r->term[i].found = it->by_hash;
        r->term[i].index = it->index;
        r->term[i].cost = it->verdict.allowed ? tx->part[i].attempt.cost : 0;
        r->term[i].act_ns = weir__add_sat(tx->now.now_ns, it->verdict.wait_ns);
        r->term[i].resets = atomic_load(&it->policy->record->resets);
    }
}

/* Records the guards that granted, which must be exited; a shadow that refused took nothing. */
static void note_ticket_terms(const struct weir__transaction *tx, const struct weir_verdict *v,
                              struct weir_ticket *t)
{
    if (!v->allowed)
        return;
    weir__ticket_begin(t, tx->engine, tx->now.now_ns);
    for (int i = 0; i < tx->n; i++) {
        const struct weir__transaction_item *it = &tx->item[i];

        if (weir__meter_guards(tx->part[i].meter) && it->verdict.allowed &&
            tx->part[i].attempt.cost > 0)
            weir__ticket_add(
                t, it->policy, it->term, it->index, it->fingerprint, it->key, it->by_hash,
                weir__ticket_epoch(it->policy, it->term, it->fingerprint, tx->part[i].state),
                tx->part[i].attempt.cost);
    }
}

/* Whether every term that refuses would let the caller in once another caller exits, and lets
 * callers wait for that. */
static bool may_be_waited_for(const struct weir__transaction *tx, const struct weir_verdict *v)
{
    if (v->allowed || v->reason != WEIR_LIMITED || tx->wait.room == 0)
        return false;
    for (int i = 0; i < tx->n; i++) {
        const struct weir_term *t = &tx->part[i].meter->term;
        struct weir_verdict one;

        weir__meter_peek(tx->part[i].meter, tx->part[i].state, &tx->part[i].attempt, &one);
        if (!one.allowed && !t->shadow &&
            (t->algorithm != WEIR_CONCURRENCY || t->queue == 0 || one.reason != WEIR_LIMITED))
            return false;
    }
    return true;
}

/* A request for one more than remains is refused until that much is there. */
static void note_view(const struct weir__part *p, struct weir__term_view *view)
{
    struct weir__attempt attempt = p->attempt;
    struct weir_verdict v;

    attempt.cost = attempt.patience_ns = 0;
    weir__meter_peek(p->meter, p->state, &attempt, &v);
    *view = (struct weir__term_view){v.limit, v.remaining, -1, v.reset_after_ns};
    if (v.remaining >= v.limit)
        return;
    attempt.cost = v.remaining + 1;
    weir__meter_peek(p->meter, p->state, &attempt, &v);
    if (!v.allowed)
        view->more_after_ns = v.retry_after_ns;
}

void weir__transaction_note(const struct weir__transaction *tx, const struct weir_verdict *v,
                            struct weir__receipt *receipt)
{
    for (int i = 0; receipt->view && i < tx->n; i++)
        note_view(&tx->part[i], &receipt->view[tx->item[i].index]);
    if (receipt->reservation)
        note_reservation_terms(tx, v, receipt->reservation);
    if (receipt->ticket)
        note_ticket_terms(tx, v, receipt->ticket);
    if (tx->verb == WEIR__ENTER || tx->verb == WEIR__PEEK) {
        receipt->full = may_be_waited_for(tx, v);
        receipt->wait = tx->wait;
    }
}

void weir__transaction_listed(const struct weir__transaction *tx, const struct weir_request *rq,
                              struct weir__receipt *receipt, struct weir_verdict *v)
{
    const struct weir_policy *p = rq[tx->listed < 0 ? 0 : tx->listed].policy;
    const struct weir__revision *rev = atomic_load_explicit(&p->revision, memory_order_acquire);
    const int64_t limit = rev->term[0].meter.limit;

    *v = (struct weir_verdict){.allowed = tx->listed < 0,
                               .reason = tx->listed < 0 ? WEIR_OK : WEIR_LISTED,
                               .which = -1,
                               .limit = limit,
                               .remaining = tx->listed < 0 ? limit : 0,
                               .retry_after_ns = tx->listed < 0 ? 0 : -1};
    if (receipt)
        weir__transaction_note(tx, v, receipt);
}
