/* The step of a transaction in the account of its key. */
#include "engine/account/account.h"

#include <string.h>

#include "engine/transaction.h"

/* `since` of a term that did not take the estimate. */
static const struct weir__span UNTAKEN = {.rem = -1};

uint64_t weir__account_fingerprint(const struct weir__revision *rev, const struct weir_request *rq)
{
    /* splitmix64: one to one, so that two keys have two accounts. */
    uint64_t x = weir__fingerprint_at(&rev->term[0], rq) + UINT64_C(0x9e3779b97f4a7c15);

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return x ? x : 1;
}

void weir__account_gather(struct weir__transaction *tx, const struct weir_request *rq)
{
    struct weir__account_step *a = tx->account;
    uint64_t mark = 0, versions = 0;
    uint32_t terms = 0;

    for (int i = 0; i < tx->n; i++) {
        const struct weir__transaction_item *it = &tx->item[i];

        mark += it->term->scope * (2 * it->index + 1);
        versions += it->term->meter.version * (2 * it->index + UINT64_C(1));
        terms = it->index >= terms ? it->index + 1 : terms;
    }
    a->fingerprint = weir__account_fingerprint(tx->item[0].revision, rq);
    a->mark = (uint32_t)(mark ^ mark >> 32);
    a->terms = terms;
    a->versions = versions;
    a->made = a->begun = false;
    a->account = NULL;
    a->slot = NULL;
}

/* ---- Slots ----------------------------------------------------------------------------------- */

static struct weir__account_slot *slot_at(struct weir__account *a, int i)
{
    char *first = (char *)&a->stamp[a->terms];

    return (void *)(first + (size_t)i * (sizeof(struct weir__account_slot) +
                                         a->terms * sizeof(struct weir__span)));
}

static int64_t slot_lapse_ns(const struct weir__account_slot *s)
{
    return (int64_t)(s->lapse >> 1);
}

static bool slot_is_free(const struct weir__account_slot *s)
{
    return (s->lapse & 1) != 0;
}

static bool slot_took(const struct weir__account_slot *s, uint32_t term)
{
    return s->since[term].rem >= 0;
}

static bool slot_is_open(const struct weir__account_slot *s, int64_t now_ns)
{
    return s->id != 0 && (slot_is_free(s) || slot_lapse_ns(s) > now_ns);
}

/* Empties slots that have lapsed with their estimate, and computes what follows from the others.
 * Returns how many are left. */
static int account_tidy(struct weir__account *a, int64_t now_ns)
{
    int64_t last_ns = 0;
    int open = 0;

    a->due_ns = INT64_MAX;
    for (int i = 0; i < weir__account_slots(a->terms); i++) {
        struct weir__account_slot *s = slot_at(a, i);

        if (!slot_is_open(s, now_ns)) {
            s->id = 0;
            continue;
        }
        open++;
        last_ns = weir__max(last_ns, slot_lapse_ns(s));
        if (slot_is_free(s))
            a->due_ns = weir__min(a->due_ns, slot_lapse_ns(s));
    }
    a->head.fresh_ns = a->due_ns == INT64_MAX ? last_ns : weir__max(last_ns, a->head.fresh_ns);
    return open;
}

static struct weir__account_slot *slot_find(struct weir__account *a, uint64_t id)
{
    for (int i = 0; i < weir__account_slots(a->terms); i++)
        if (slot_at(a, i)->id == id)
            return slot_at(a, i);
    return NULL;
}

static int64_t account_first_lapse(struct weir__account *a)
{
    int64_t first_ns = INT64_MAX;

    for (int i = 0; i < weir__account_slots(a->terms); i++)
        first_ns = weir__min(first_ns, slot_lapse_ns(slot_at(a, i)));
    return first_ns;
}

/* ---- Before the decision --------------------------------------------------------------------- */

static int account_refuse(struct weir__transaction *tx, int64_t free_ns, struct weir_verdict *v)
{
    *v = (struct weir_verdict){.reason = WEIR_FULL,
                               .which = 0,
                               .limit = tx->part[0].meter->limit,
                               .retry_after_ns = weir__max(free_ns - tx->now.now_ns, 1)};
    atomic_fetch_add_explicit(&tx->engine->refused_full, 1, memory_order_relaxed);
    return 1;
}

/* An account without reservations: a new one, or of terms that are no more. */
static void account_empty(const struct weir__account_step *a)
{
    memset(a->account, 0, WEIR__ACCOUNT_BYTES);
    a->account->due_ns = INT64_MAX;
    a->account->mark = a->mark;
    a->account->terms = a->terms;
    a->account->versions = a->versions;
}

static int account_make(struct weir__transaction *tx, struct weir_verdict *v)
{
    struct weir__account_step *a = tx->account;
    const struct weir__spared spared = {.fingerprint = &a->fingerprint, .n = 1};
    int64_t free_ns;

    a->account = (void *)weir__table_make(a->table, tx->owner, a->fingerprint, tx->now.now_ns,
                                          WEIR__MOVE_ALWAYS, spared, &a->access, &free_ns);
    if (a->account) {
        account_empty(a);
        a->made = true;
        return 0;
    }
    if (free_ns != WEIR__GROW_FIRST)
        return account_refuse(tx, free_ns, v);
    tx->to_grow = a->table;
    return 1;
}

static int account_begin_reserve(struct weir__transaction *tx, struct weir_verdict *v)
{
    struct weir__account_step *a = tx->account;
    const int error = a->account ? 0 : account_make(tx, v);

    if (error)
        return error;
    account_tidy(a->account, tx->now.now_ns);
    while (slot_find(a->account, a->id))
        a->id++; /* two processes may draw one number, once in an age */
    a->slot = slot_find(a->account, 0);
    return a->slot ? 0 : account_refuse(tx, account_first_lapse(a->account), v);
}

/* Sets what each term that took the estimate, if there is one, is to be charged beyond it. */
static void account_set_costs(struct weir__transaction *tx, const struct weir__account_slot *took,
                              int64_t cost)
{
    for (int i = 0; i < tx->n; i++)
        tx->part[i].attempt.cost = took && slot_took(took, tx->item[i].index) ? cost : 0;
}

static int account_begin_settle(struct weir__transaction *tx)
{
    struct weir__account_step *a = tx->account;

    a->slot = a->account ? slot_find(a->account, a->id) : NULL;
    if (!a->slot || slot_lapse_ns(a->slot) <= tx->now.now_ns)
        return WEIR_ESETTLED;
    account_set_costs(tx, a->slot, weir__max(a->cost - a->slot->cost, 0));
    return 0;
}

/* What the key has owed is not known across a change of its rate: nothing is given back. */
static void slot_give_up(struct weir__account_slot *s, uint32_t terms)
{
    for (uint32_t i = 0; i < terms; i++)
        if (slot_took(s, i))
            s->since[i] = (struct weir__span){0};
}

/* Finds the account, and what is still true of it. */
static void account_find(struct weir__transaction *tx)
{
    struct weir__account_step *a = tx->account;

    a->account = (void *)weir__table_search_locked(a->table, a->fingerprint, &a->access);
    if (!a->account)
        return;
    weir__table_note(a->table, tx->owner, &a->access);
    if (a->account->mark != a->mark || a->account->terms != a->terms)
        account_empty(a);
    if (a->account->versions == a->versions)
        return;
    for (int i = 0; i < weir__account_slots(a->terms); i++)
        slot_give_up(slot_at(a->account, i), a->terms);
    a->account->versions = a->versions;
}

int weir__account_begin(struct weir__transaction *tx, struct weir_verdict *v)
{
    struct weir__account_step *a = tx->account;

    account_find(tx);
    switch (a->verb) {
    case WEIR__ACCOUNT_RESERVE: return account_begin_reserve(tx, v);
    case WEIR__ACCOUNT_SETTLE: return account_begin_settle(tx);
    case WEIR__ACCOUNT_LAPSE: account_set_costs(tx, NULL, 0); return a->account ? 0 : WEIR_ESETTLED;
    }
    return WEIR_EINVAL;
}

/* ---- Giving back ----------------------------------------------------------------------------- */

/* The least that the key has owed since the last step: what it owed then less what has drained, and
 * no more than it owes now. */
static struct weir__span account_least_owed(struct weir__transaction *tx, int i)
{
    const struct weir__meter *m = tx->part[i].meter;
    const int64_t now_ns = tx->now.now_ns;
    const struct weir__stamp now = weir__meter_stamp(m, tx->part[i].state, now_ns);

    return weir__span_min(
        weir__meter_owed(m, tx->account->account->stamp[tx->item[i].index], now_ns),
        weir__meter_owed(m, now, now_ns));
}

/* Lowers what the open reservations may get back to `least`. */
static void account_lower(struct weir__account *a, uint32_t term, struct weir__span least)
{
    for (int i = 0; i < weir__account_slots(a->terms); i++) {
        struct weir__account_slot *s = slot_at(a, i);

        if (slot_took(s, term))
            s->since[term] = weir__span_min(s->since[term], least);
    }
}

/* And once so much has been given back for one of them, whose least was `of`. */
static void account_note_given(struct weir__account *a, const struct weir__meter *m, uint32_t term,
                               struct weir__span of, struct weir__span given)
{
    for (int i = 0; i < weir__account_slots(a->terms); i++) {
        struct weir__account_slot *s = slot_at(a, i);

        if (slot_took(s, term))
            s->since[term] = weir__meter_since(m, s->since[term], of, given);
    }
}

static void slot_give_back(struct weir__transaction *tx, const struct weir__account_slot *s,
                           int64_t cost)
{
    struct weir__account_step *a = tx->account;

    for (int i = 0; i < tx->n; i++) {
        const struct weir__meter *m = tx->part[i].meter;
        const uint32_t index = tx->item[i].index;
        struct weir__settled back;

        if (!tx->item[i].found || !slot_took(s, index))
            continue;
        back = weir__meter_settle(m, tx->part[i].state, cost, s->since[index], tx->now.now_ns);
        if (weir__meter_drains(m))
            account_note_given(a->account, m, index, s->since[index], back.time);
        a->back = weir__max(a->back, back.events);
    }
}

void weir__account_settle_states(struct weir__transaction *tx)
{
    struct weir__account_step *a = tx->account;

    a->begun = true;
    a->back = 0;
    for (int i = 0; i < tx->n; i++)
        if (weir__meter_drains(tx->part[i].meter))
            account_lower(a->account, tx->item[i].index, account_least_owed(tx, i));
    if (a->verb == WEIR__ACCOUNT_SETTLE && a->slot->cost > a->cost)
        slot_give_back(tx, a->slot, a->slot->cost - a->cost);
    for (int i = 0; a->verb == WEIR__ACCOUNT_LAPSE && i < weir__account_slots(a->terms); i++) {
        struct weir__account_slot *s = slot_at(a->account, i);

        if (s->id == 0 || !slot_is_free(s) || slot_lapse_ns(s) > tx->now.now_ns)
            continue;
        slot_give_back(tx, s, s->cost);
        s->id = 0;
    }
}

/* ---- After the decision ---------------------------------------------------------------------- */

static void account_fill_slot(struct weir__transaction *tx, const struct weir_verdict *v)
{
    struct weir__account_step *a = tx->account;

    a->slot->id = a->id;
    a->slot->cost = tx->part[0].attempt.cost;
    a->slot->lapse = (uint64_t)a->lapse_ns << 1 | a->free;
    for (uint32_t i = 0; i < a->terms; i++)
        a->slot->since[i] = UNTAKEN;
    for (int i = 0; i < tx->n && v->reason != WEIR_FULL; i++) {
        const struct weir__meter *m = tx->part[i].meter;
        const uint32_t index = tx->item[i].index;
        const struct weir__stamp stamp = a->account->stamp[index];

        if (!tx->item[i].verdict.allowed || tx->part[i].attempt.cost == 0)
            continue;
        a->slot->since[index] = weir__meter_drains(m) ? weir__meter_owed(m, stamp, tx->now.now_ns)
                                                      : (struct weir__span){.ns = stamp.ns};
    }
    if (a->free)
        a->account->head.fresh_ns =
            weir__max(a->account->head.fresh_ns, weir__add_sat(tx->now.now_ns, v->reset_after_ns));
}

/* A key that owes nothing any more gives up its place, unless only its place shows that. */
static void account_forget_keys(struct weir__transaction *tx)
{
    for (int i = 0; i < tx->n; i++)
        if (tx->item[i].found && tx->part[i].state->fresh_ns == 0 &&
            !weir__cells_alive(&tx->item[i].term->cells, tx->now.now_ns))
            weir__table_forget(tx->item[i].term->table, &tx->item[i].access);
}

void weir__account_end(struct weir__transaction *tx, const struct weir_verdict *v)
{
    struct weir__account_step *a = tx->account;

    if (!v || !a->begun || tx->to_grow) {
        if (a->made)
            weir__table_forget(a->table, &a->access);
        return;
    }
    for (int i = 0; i < tx->n; i++)
        a->account->stamp[tx->item[i].index] =
            weir__meter_stamp(tx->part[i].meter, tx->part[i].state, tx->now.now_ns);
    if (a->verb == WEIR__ACCOUNT_RESERVE && a->slot && v->allowed)
        account_fill_slot(tx, v);
    if (a->verb == WEIR__ACCOUNT_SETTLE)
        a->slot->id = 0;
    if (a->verb != WEIR__ACCOUNT_RESERVE)
        account_forget_keys(tx);
    if (account_tidy(a->account, tx->now.now_ns) == 0)
        weir__table_forget(a->table, &a->access);
}
