/* Reservations that lapse as nothing: what they took is given back before the next call that reads
 * or changes their key, so no timer and no sweep is needed, and a key without an account pays a
 * look at most.
 */
#include "engine/account/account.h"

#include "table/probe.h"

/* Whether keys of the policy may have such reservations, as far as the store knows. Another handle
 * of an anonymous policy has a record of its own. */
static bool account_is_watched(const struct weir_policy *p)
{
    return p->name[0] == '\0' ||
           atomic_load_explicit(&p->record->lapsing, memory_order_acquire) != 0;
}

/* Locks the account of the request's key. False: it has none, and nothing is locked. The caller is
 * inside an RCU section. */
static bool account_lock(struct weir *w, struct weir__table *t, const struct weir_request *rq,
                         int64_t now_ns, struct weir__access *access, struct weir__account **a)
{
    const struct weir__revision *rev =
        atomic_load_explicit(&rq->policy->revision, memory_order_acquire);
    struct weir__owner *owner = weir__store_owner(w->store);
    struct weir__state *state = NULL;

    if (!owner ||
        weir__table_find(t, owner, weir__account_fingerprint(rev, rq), now_ns, access, &state) != 0)
        return false;
    *a = (void *)state;
    if (!state)
        weir__table_unlock(access);
    return state != NULL;
}

/* When the first reservation of the key lapses as nothing; INT64_MAX: none does. */
static int64_t account_due(struct weir *w, struct weir__table *t, const struct weir_request *rq,
                           int64_t now_ns)
{
    struct weir__access access;
    struct weir__account *a;
    int64_t due_ns = INT64_MAX;

    weir__rcu_enter();
    if (account_lock(w, t, rq, now_ns, &access, &a)) {
        due_ns = a->due_ns;
        weir__table_unlock(&access);
    }
    weir__rcu_exit();
    return due_ns;
}

bool weir__account_lapse(struct weir *w, const struct weir_request *rq, size_t n,
                         struct weir__now now)
{
    struct weir__table *t = NULL;
    bool open = false;

    for (size_t i = 0; i < n; i++) {
        struct weir__account_step step = {.verb = WEIR__ACCOUNT_LAPSE};
        struct weir_verdict v;
        int64_t due_ns;

        if (!account_is_watched(rq[i].policy))
            continue;
        t = t ? t : weir__account_table(w->store);
        if (!t)
            return false;
        due_ns = account_due(w, t, &rq[i], now.now_ns);
        step.table = t;
        if (due_ns <= now.now_ns)
            (void)weir__account_decide(w, &rq[i], WEIR__CHARGE, &step, now, &v);
        open = open || due_ns != INT64_MAX;
    }
    return open;
}

void weir__account_extend(struct weir *w, const struct weir_request *rq, size_t n,
                          struct weir__now now, const struct weir_verdict *v)
{
    const int64_t until_ns = weir__add_sat(now.now_ns, v->reset_after_ns);
    struct weir__table *t = weir__account_table(w->store);

    for (size_t i = 0; t && i < n; i++) {
        struct weir__access access;
        struct weir__account *a;

        weir__rcu_enter();
        if (account_is_watched(rq[i].policy) &&
            account_lock(w, t, &rq[i], now.now_ns, &access, &a)) {
            /* One word, of which either value is whole: it needs no journal. */
            if (a->due_ns != INT64_MAX && a->head.fresh_ns < until_ns)
                a->head.fresh_ns = until_ns;
            weir__table_unlock(&access);
        }
        weir__rcu_exit();
    }
}

/* The account of a key that is reset has nothing to settle. */
void weir__account_reset(struct weir *w, const struct weir_request *rq, struct weir__now now)
{
    struct weir__table *t = weir__account_table(w->store);
    struct weir__access access;
    struct weir__account *a;

    if (!t)
        return;
    weir__rcu_enter();
    if (account_lock(w, t, rq, now.now_ns, &access, &a)) {
        a->terms = 0; /* one word, by which the account is void: it needs no journal */
        a->due_ns = INT64_MAX;
        weir__table_unlock(&access);
    }
    weir__rcu_exit();
}
