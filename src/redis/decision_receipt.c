/* What is remembered of a grant, so that it can be given back (give.c), and of a refusal, so that it can be
 * waited for. */
#include <stdlib.h>
#include <string.h>

#include "engine/queue.h"
#include "engine/ticket.h"
#include "remote/ask.h"
#include "remote/redis.h"

/* The scopes of the clauses, to see later that they are still the same. */
static void note_scopes(struct weir__memo_part *part, const int64_t *act_us, int from,
                        const struct weir__asking *a, size_t request)
{
    const struct weir__edition *e;

    weir__readers_enter();
    e = atomic_load_explicit(&part->policy->edition, memory_order_acquire);
    for (int i = from; i < a->terms && a->request_of[i] == request; i++) {
        const int k = part->n++;

        part->act_us[k] = act_us[i];
        part->scope[k] = a->index_of[i] < e->n ? e->clause[a->index_of[i]].scope : 0;
    }
    part->resets = atomic_load(&part->policy->record->resets);
    weir__readers_exit();
}

struct weir__keepsake *weir__ask_keepsake(struct weir__asking *a, int64_t until_ns)
{
    struct weir__keepsake *k = weir__keepsake_make(a->rq, a->n);
    int from = 0;

    if (!k)
        return NULL;
    k->until_ns = until_ns;
    k->act_us = a->now_us + a->verdict.wait_ns / 1000;
    memcpy(k->name, a->ticket, sizeof k->name);
    for (int i = 0; i < k->n; i++) {
        while (from < a->terms && a->request_of[from] < i)
            from++;
        note_scopes(&k->part[i], a->act_us, from, a, (size_t)i);
    }
    return k;
}

static void remember_reservation(struct weir__asking *a, struct weir_reservation *r)
{
    const int64_t act_ns = weir__add_sat(a->at.now_ns, a->verdict.wait_ns);
    struct weir__keepsake *k;

    *r = (struct weir_reservation){.act_ns = act_ns};
    /* What acts at once cannot be cancelled a moment later, unless time stands still. */
    if (!a->verdict.allowed || (a->verdict.wait_ns == 0 && !a->at.given))
        return;
    k = weir__ask_keepsake(a, act_ns);
    r->term[0].policy = a->rq[0].policy;
    r->term[0].fingerprint = k ? weir__memos_keep(a->redis->memos, k) : 0;
    r->n = r->term[0].fingerprint ? a->terms : 0; /* of which the first says all */
}

static void remember_entry(struct weir__asking *a, struct weir_ticket *t)
{
    struct weir__keepsake *k;

    if (!a->verdict.allowed)
        return;
    weir__ticket_begin(t, a->redis->far.engine, a->at.now_ns);
    k = weir__ask_keepsake(a, weir__add_sat(a->at.now_ns, a->lease_ns));
    if (!k)
        return; /* its lease will end */
    t->n = (int)a->n;
    for (size_t i = 0; i < a->n; i++) {
        t->term[i].policy = a->rq[i].policy;
        t->term[i].key = weir__key_hash(a->rq[i].policy->store, &a->rq[i]);
        t->term[i].cost = a->rq[i].cost;
    }
    t->term[0].fingerprint = weir__memos_keep(a->redis->memos, k);
}

/* The line before the permits of the first request's limit, and whether it is they that refuse. */
static void note_line(struct weir__asking *a, int refused, struct weir__memo *memo)
{
    const struct weir__edition *e;
    const struct weir_term *t = NULL;

    weir__readers_enter();
    e = atomic_load_explicit(&a->rq[0].policy->edition, memory_order_acquire);
    if (refused >= 0 && a->index_of[refused] < e->n)
        t = &e->clause[a->index_of[refused]].meter.term;
    memo->line = e->line;
    memo->full =
        t && a->verdict.reason == WEIR_LIMITED && t->algorithm == WEIR_CONCURRENCY && t->queue > 0;
    weir__readers_exit();
}

void weir__ask_remember(struct weir__asking *a, int refused)
{
    struct weir__memo *memo = a->memo;

    if (memo->reservation)
        remember_reservation(a, memo->reservation);
    if (memo->ticket) {
        note_line(a, refused, memo);
        remember_entry(a, memo->ticket);
    }
}
