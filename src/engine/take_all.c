/* weir_take_all and weir_reserve: several requests decided as one, and again if a limit changed in
 * the meantime. */
#include "engine/account/account.h"
#include "engine/engine.h"
#include "engine/remote.h"

static int take_all_refresh(const struct weir_request *rq, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const int error = weir__policy_refresh(rq[i].policy);

        if (error)
            return error;
    }
    return WEIR__STALE;
}

/* Answers by the strictest fallback of all the policies. */
static int take_all_fall_back(struct weir *w, const struct weir_request *rq, size_t n, int error,
                              struct weir__receipt *receipt, struct weir_verdict *v)
{
    struct weir_verdict one = {.allowed = true};

    for (size_t i = 0; i < n && one.allowed; i++) {
        const int still = weir__fallback_error(w, rq[i].policy, error, &one);

        if (still)
            return still;
        one.which = one.allowed ? -1 : (int)i;
    }
    *v = one;
    if (receipt && receipt->reservation)
        *receipt->reservation = (struct weir_reservation){0};
    if (receipt && receipt->ticket)
        receipt->ticket->n = 0; /* the entry was not counted */
    return 0;
}

int weir__decide_all(struct weir *w, const struct weir_request *rq, size_t n, enum weir__verb verb,
                     struct weir__now at, struct weir__receipt *receipt, struct weir_verdict *v)
{
    bool lapsing = false;
    int error;

    if (n < 1 || n > WEIR_TERMS_MAX || !weir__now_fits(at.now_ns))
        return WEIR_EINVAL;
    for (size_t i = 0; i < n; i++)
        if (!weir__request_fits(&rq[i]))
            return WEIR_EINVAL;
    if (w->remote)
        return w->remote->ops->decide(w->remote, rq, n, verb, at, receipt, v);
    if (atomic_load_explicit(&w->detours, memory_order_relaxed))
        lapsing = weir__account_lapse(w, rq, n, at);
    do {
        weir__rcu_enter();
        error = weir__transaction_decide(w, rq, n, NULL, verb, at, receipt, v);
        weir__rcu_exit();
        if (error == WEIR__STALE)
            error = take_all_refresh(rq, n);
    } while (error == WEIR__STALE);
    if (lapsing && !error)
        weir__account_extend(w, rq, n, at, v);
    return error ? take_all_fall_back(w, rq, n, error, receipt, v) : 0;
}

int weir__decide_by(struct weir *w, const struct weir_request *rq, const struct weir_limit *numbers,
                    enum weir__verb verb, struct weir__now at, struct weir_verdict *v)
{
    int error;

    if (!weir__now_fits(at.now_ns) || !weir__request_fits(rq) || w->remote)
        return WEIR_EINVAL;
    if (atomic_load_explicit(&w->detours, memory_order_relaxed))
        (void)weir__account_lapse(w, rq, 1, at);
    do {
        weir__rcu_enter();
        error = weir__transaction_decide(w, rq, 1, numbers, verb, at, NULL, v);
        weir__rcu_exit();
        if (error == WEIR__STALE)
            error = take_all_refresh(rq, 1);
    } while (error == WEIR__STALE);
    return error && error != WEIR_EINVAL ? take_all_fall_back(w, rq, 1, error, NULL, v) : error;
}

int weir__peek_terms(struct weir *w, const struct weir_request *rq, struct weir__now now,
                     struct weir__term_view view[WEIR_TERMS_MAX])
{
    struct weir__receipt receipt = {.view = view};
    struct weir_request look = *rq;
    struct weir_verdict v;

    if (w->remote)
        return WEIR_EINVAL;
    for (int i = 0; i < WEIR_TERMS_MAX; i++)
        view[i].limit = -1;
    look.cost = 0;
    return weir__decide_all(w, &look, 1, WEIR__PEEK, now, &receipt, &v);
}

int weir_take_all_at(struct weir *w, const struct weir_request *rq, size_t n, int64_t now_ns,
                     struct weir_verdict *v)
{
    return weir__decide_all(w, rq, n, WEIR__TAKE_ALL, weir__now_at(now_ns), NULL, v);
}

int weir_take_all(struct weir *w, const struct weir_request *rq, size_t n, struct weir_verdict *v)
{
    return weir__decide_all(w, rq, n, WEIR__TAKE_ALL, weir__now_of(w), NULL, v);
}

int weir_reserve_at(struct weir *w, const struct weir_request *rq, size_t n, int64_t now_ns,
                    struct weir_reservation *r, struct weir_verdict *v)
{
    struct weir__receipt receipt = {.reservation = r};

    return weir__decide_all(w, rq, n, WEIR__TAKE_ALL, weir__now_at(now_ns), &receipt, v);
}

int weir_reserve(struct weir *w, const struct weir_request *rq, size_t n,
                 struct weir_reservation *r, struct weir_verdict *v)
{
    struct weir__receipt receipt = {.reservation = r};

    return weir__decide_all(w, rq, n, WEIR__TAKE_ALL, weir__now_of(w), &receipt, v);
}
