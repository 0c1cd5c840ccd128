/* Built on entering and exiting: a call through a guard (weir_run), the state of a guard, and the
 * load of the system. */
#include "engine/key_access.h"
#include "engine/policy/overrides.h"
#include "engine/remote.h"
#include "engine/wait.h"

/* ---- A call through a guard ---------------------------------------------------------------- */

/* Sleeps until the grant may act (a pacer's grant may be for later). Returns 0; or WEIR_EINTR,
 * after exiting what was entered and giving back what was taken. The thread cannot be cancelled
 * meanwhile, because no other thread would do that for it. */
static int guard_sleep(struct weir *w, struct weir_ticket *t, struct weir_reservation *r,
                       const struct weir_verdict *v)
{
    const struct weir__timeline time = {w, 0, false};
    int cancelable, error;

    if (v->wait_ns == 0)
        return 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = weir__timeline_sleep(&time, weir__add_sat(t->entered_ns, v->wait_ns));
    if (error) {
        const struct weir__ending withdrawn = {.how = WEIR_IGNORE, .withdrawn = true};

        (void)weir__exit(w, t, &withdrawn, weir__timeline_now(&time));
        weir__reservation_withdraw(w, r, weir__timeline_now(&time));
    }
    (void)pthread_setcancelstate(cancelable, NULL);
    return error;
}

int weir_run(struct weir *w, const struct weir_request *rq, enum weir_outcome (*run)(void *arg),
             void (*fallback)(void *arg, const struct weir_verdict *v), void *arg,
             struct weir_verdict *v)
{
    struct weir_ticket t;
    struct weir_reservation taken;
    struct weir_verdict own;
    enum weir_outcome how = WEIR_ERROR;
    int error;

    if (!run)
        return WEIR_EINVAL;
    taken.n = 0;
    error = weir__enter(w, rq, weir__now_of(w), &t, &taken, &own);
    if (!error && own.allowed)
        error = guard_sleep(w, &t, &taken, &own);
    if (error)
        return error;
    if (own.allowed) {
        own.wait_ns = 0; /* the wait is over */
        how = run(arg);
        error = weir_exit(w, &t, how);
    }
    if (fallback && (!own.allowed || how == WEIR_ERROR || how == WEIR_DROP))
        fallback(arg, &own);
    if (v)
        *v = own;
    return error;
}

/* ---- The state of a guard ------------------------------------------------------------------ */

/* The caller is inside an RCU section. */
static int guard_view(struct weir *w, const struct weir_request *rq, int term, int64_t now_ns,
                      struct weir_view *out)
{
    struct weir__target to = {.policy = rq->policy, .revision = weir__policy_revision(rq->policy)};
    struct weir__owner *owner = weir__store_owner(w->store);
    struct weir__state none = {0};
    struct weir__revision *by;
    struct weir__key_access at;
    struct weir__own own;
    int error;

    if (!to.revision || !owner)
        return owner ? WEIR__STALE : weir__store_no_owner(w->store);
    if (term >= to.revision->n || !weir__meter_guards(&to.revision->term[term].meter))
        return WEIR_EINVAL;
    weir__own_begin(&own);
    by = weir__revision_for(to.revision, rq, weir__key_hash(w->store, rq), &own);
    to.term = weir__term_of(to.revision, by, (uint32_t)term);
    weir__target_prefetch(&to, weir__fingerprint_at(to.term, rq));
    weir__target_probe(&to);
    error = weir__key_lock(&to, owner, WEIR__PEEK_TIME, &at);
    if (error)
        return error;
    weir__meter_view(&to.term->meter, at.state ? at.state : &none, now_ns, out);
    weir__key_unlock(&at);
    return 0;
}

int weir_guard_view_at(struct weir *w, const struct weir_request *rq, int term, int64_t now_ns,
                       struct weir_view *out)
{
    struct weir_request asked = *rq;
    int error;

    if (!weir__request_fits(rq) || !weir__now_fits(now_ns) || term < 0)
        return WEIR_EINVAL;
    if (w->remote) {
        asked.policy = w->remote->ops->node_policy(rq->policy, &term);
        w = weir__engine_of_node(w);
    }
    if (!asked.policy)
        return WEIR_EINVAL;
    do {
        weir__rcu_enter();
        error = guard_view(w, &asked, term, now_ns, out);
        weir__rcu_exit();
        if (error == WEIR__STALE)
            error = weir__policy_refresh(asked.policy) ?: WEIR__STALE;
    } while (error == WEIR__STALE);
    return error;
}

int weir_guard_view(struct weir *w, const struct weir_request *rq, int term, struct weir_view *out)
{
    return weir_guard_view_at(w, rq, term, weir_now(w), out);
}

/* ---- The load of the system ---------------------------------------------------------------- */

static bool is_signal(int64_t milli)
{
    return milli >= 0 || milli == WEIR_NONE;
}

int weir_signals_set(struct weir *w, const struct weir_signals *s)
{
    if (!is_signal(s->cpu_milli) || !is_signal(s->memory_milli) || !is_signal(s->load_milli) ||
        !is_signal(s->pressure_milli))
        return WEIR_EINVAL;
    return weir__load_inject(&weir__engine_of_node(w)->load, s);
}

void weir_signals_get(struct weir *w, struct weir_signals *s)
{
    *s = weir__load_shown(&weir__engine_of_node(w)->load);
}
