/* The calls that reserve an estimate, commit what it did cost, and cancel. */
#include "engine/account/account.h"

#include "engine/remote.h"
#include "engine/wait.h"

/* Ids that a client cannot guess: numbers under the store's secret. */
uint64_t weir__account_new_id(struct weir *w)
{
    const uint64_t seed[2] = {atomic_fetch_add(&w->account_ids, 1) + 1,
                              w->random ? 0 : weir__random_next(w->store->secret)};
    const uint64_t id = weir__hash(seed, sizeof seed, w->store->secret);

    return id ? id : 1;
}

struct weir__table *weir__account_table(struct weir__store *s)
{
    struct weir__table *t = atomic_load_explicit(&s->table[WEIR__ACCOUNTS], memory_order_acquire);

    if (t || !weir__store_has_table(s, WEIR__ACCOUNTS))
        return t;
    if (weir__store_lock(s, NULL) != 0)
        return NULL;
    (void)weir__store_table(s, WEIR__ACCOUNTS, 0, &t, NULL); /* another process has made it */
    weir__store_unlock(s);
    return t;
}

static int account_table_make(struct weir__store *s, struct weir__table **t)
{
    int error;

    *t = weir__account_table(s);
    if (*t)
        return 0;
    error = weir__store_lock(s, NULL);
    if (error)
        return error;
    error = weir__store_table(s, WEIR__ACCOUNTS, 0, t, NULL);
    weir__store_unlock(s);
    return error;
}

/* Decides one request with a step in its account, and starts again each time the limit is changed
 * in the meantime. No fallback= answers for a store that does not: there would be no
 * reservation. */
int weir__account_decide(struct weir *w, const struct weir_request *rq, enum weir__verb verb,
                         struct weir__account_step *step, struct weir__now now,
                         struct weir_verdict *v)
{
    struct weir__receipt receipt = {.account = step};
    int error;

    if (w->remote)
        return w->remote->ops->decide(w->remote, rq, 1, verb, now, &receipt, v);
    do {
        weir__rcu_enter();
        error = weir__transaction_decide(w, rq, 1, NULL, verb, now, &receipt, v);
        weir__rcu_exit();
        if (error == WEIR__STALE)
            error = weir__policy_refresh(rq->policy) ?: WEIR__STALE;
    } while (error == WEIR__STALE);
    return error;
}

static bool account_fits(const struct weir_request *rq, struct weir__now now)
{
    return weir__request_fits(rq) && weir__now_fits(now.now_ns);
}

/* From now on decisions of the policy look for what has lapsed. */
static void account_watch(struct weir *w, struct weir_policy *p)
{
    atomic_store(&p->record->lapsing, 1);
    atomic_store(&w->detours, true);
}

/* What a step needs that reserves in a store of this machine. */
static int account_prepare(struct weir *w, const struct weir_request *rq,
                           struct weir__account_step *step, struct weir__now now)
{
    const int error = account_table_make(w->store, &step->table);

    if (error)
        return error;
    if (step->free)
        account_watch(w, rq->policy);
    (void)weir__account_lapse(w, rq, 1, now);
    return 0;
}

int weir__account_reserve(struct weir *w, const struct weir_request *rq, int64_t ttl_ns,
                          enum weir_lapse lapse, struct weir__now now, uint64_t *id,
                          struct weir_verdict *v)
{
    struct weir__account_step step = {.verb = WEIR__ACCOUNT_RESERVE,
                                      .lapse_ns = weir__add_sat(now.now_ns, ttl_ns),
                                      .free = lapse == WEIR_LAPSE_FREE};
    int error;

    *id = 0;
    if (!account_fits(rq, now) || ttl_ns < 1 || ttl_ns > WEIR_ACCOUNT_TTL_MAX ||
        (lapse != WEIR_LAPSE_KEEP && lapse != WEIR_LAPSE_FREE))
        return WEIR_EINVAL;
    if (weir__policy_guards(rq->policy))
        return WEIR_EGUARD;
    step.id = weir__account_new_id(w);
    error = w->remote ? 0 : account_prepare(w, rq, &step, now);
    if (!error)
        error = weir__account_decide(w, rq, WEIR__TAKE, &step, now, v);
    if (!error && v->allowed && (w->remote ? step.made : step.slot != NULL))
        *id = step.id;
    return error;
}

int weir__account_settle(struct weir *w, const struct weir_request *rq, uint64_t id,
                         struct weir__now now, int64_t *back, struct weir_verdict *v)
{
    struct weir__account_step step = {.verb = WEIR__ACCOUNT_SETTLE, .id = id, .cost = rq->cost};
    int error;

    if (!account_fits(rq, now))
        return WEIR_EINVAL;
    if (!w->remote)
        step.table = weir__account_table(w->store);
    if ((!w->remote && !step.table) || id == 0)
        return WEIR_ESETTLED;
    if (!w->remote)
        (void)weir__account_lapse(w, rq, 1, now);
    error = weir__account_decide(w, rq, WEIR__CHARGE, &step, now, v);
    if (error)
        return error;
    if (back)
        *back = step.back;
    if (step.back > 0 && !w->remote) /* a remote store has woken them */
        weir__wait_wake_request(w, rq);
    return 0;
}

/* ---- Room ------------------------------------------------------------------------------------ */

uint64_t weir__account_room(const struct weir *w)
{
    return w->remote ? UINT64_MAX : weir__store_class_keys(w->store, WEIR__ACCOUNTS);
}

uint64_t weir__account_of(const struct weir *w, const struct weir_request *rq)
{
    uint64_t account;

    if (w->remote)
        return 0;
    weir__rcu_enter();
    account = weir__account_fingerprint(
        atomic_load_explicit(&rq->policy->revision, memory_order_acquire), rq);
    weir__rcu_exit();
    return account;
}

int weir__account_is_kept(struct weir *w, uint64_t account, int64_t now_ns, bool *kept)
{
    struct weir__table *t = weir__account_table(w->store);
    struct weir__owner *owner = weir__store_owner(w->store);
    struct weir__state *state = NULL;
    struct weir__access access;
    int error;

    *kept = false;
    if (!t)
        return 0;
    if (!owner)
        return weir__store_no_owner(w->store);
    weir__rcu_enter();
    error = weir__table_find(t, owner, account, now_ns, &access, &state);
    if (!error) {
        *kept = state && state->fresh_ns > now_ns;
        weir__table_unlock(&access);
    }
    weir__rcu_exit();
    return error;
}

/* ---- The calls ------------------------------------------------------------------------------- */

int weir_account_reserve_at(struct weir *w, const struct weir_request *rq, int64_t ttl_ns,
                            enum weir_lapse lapse, int64_t now_ns, uint64_t *id,
                            struct weir_verdict *v)
{
    return weir__account_reserve(w, rq, ttl_ns, lapse, weir__now_at(now_ns), id, v);
}

int weir_account_reserve(struct weir *w, const struct weir_request *rq, int64_t ttl_ns,
                         enum weir_lapse lapse, uint64_t *id, struct weir_verdict *v)
{
    return weir__account_reserve(w, rq, ttl_ns, lapse, weir__now_of(w), id, v);
}

int weir_account_commit_at(struct weir *w, const struct weir_request *rq, uint64_t id,
                           int64_t now_ns, struct weir_verdict *v)
{
    return weir__account_settle(w, rq, id, weir__now_at(now_ns), NULL, v);
}

int weir_account_commit(struct weir *w, const struct weir_request *rq, uint64_t id,
                        struct weir_verdict *v)
{
    return weir__account_settle(w, rq, id, weir__now_of(w), NULL, v);
}

static int account_cancel(struct weir *w, const struct weir_request *rq, uint64_t id,
                          struct weir__now now, int64_t *back)
{
    struct weir_request none = *rq;
    struct weir_verdict v;

    none.cost = 0;
    return weir__account_settle(w, &none, id, now, back, &v);
}

int weir_account_cancel_at(struct weir *w, const struct weir_request *rq, uint64_t id,
                           int64_t now_ns, int64_t *back)
{
    return account_cancel(w, rq, id, weir__now_at(now_ns), back);
}

int weir_account_cancel(struct weir *w, const struct weir_request *rq, uint64_t id, int64_t *back)
{
    return account_cancel(w, rq, id, weir__now_of(w), back);
}
