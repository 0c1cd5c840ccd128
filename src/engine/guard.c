/* What is built on entering and exiting: a call through a guard, how a guard stands, and what the system
 * is doing. */
#include "engine/lists.h"
#include "engine/queue.h"
#include "engine/visit.h"
#include "engine/wait.h"

/* ---- A call through a guard -------------------------------------------------------------------- */

/* A grant may be for later (a pacer's). 0, or WEIR_EINTR, and what was entered is left and what was taken
 * given back. A thread is not cancelled meanwhile: who would do that for it? */
static int await_act(struct weir *w, struct weir_ticket *t, struct weir_reservation *r,
                     const struct weir_verdict *v)
{
    const struct weir__timeline time = {w, 0, false};
    int cancelable, error;

    if (v->wait_ns == 0)
        return 0;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = weir__timeline_sleep(&time, weir__add_sat(t->entered_ns, v->wait_ns));
    if (error) {
        (void)weir_exit(w, t, WEIR_IGNORE);
        weir__withdraw(w, r, weir__timeline_now(&time));
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
    error = weir__enter(w, rq, weir__moment_of(w), &t, &taken, &own);
    if (!error && own.allowed)
        error = await_act(w, &t, &taken, &own);
    if (error)
        return error;
    if (own.allowed) {
        own.wait_ns = 0; /* it is over */
        how = run(arg);
        error = weir_exit(w, &t, how);
    }
    if (fallback && (!own.allowed || how == WEIR_ERROR || how == WEIR_DROP))
        fallback(arg, &own);
    if (v)
        *v = own;
    return error;
}

/* ---- How a guard stands ------------------------------------------------------------------------ */

/* Within a reader's section. */
static int view(struct weir *w, const struct weir_request *rq, int term, int64_t now_ns,
                struct weir_view *out)
{
    struct weir__trip to = {.policy = rq->policy, .edition = weir__policy_edition(rq->policy)};
    struct weir__seat *seat = weir__store_seat(w->store);
    struct weir__state none = {0};
    struct weir__edition *by;
    struct weir__visit at;
    int error;

    if (!to.edition || !seat)
        return seat ? WEIR__STALE : weir__store_no_seat(w->store);
    if (term >= to.edition->n || !weir__meter_guards(&to.edition->clause[term].meter))
        return WEIR_EINVAL;
    by = weir__edition_for(to.edition, weir__key_hash(w->store, rq));
    to.clause = weir__clause_of(to.edition, by, (uint32_t)term);
    weir__trip_set_out(&to, weir__fingerprint_at(to.clause, rq));
    weir__trip_look(&to);
    error = weir__visit_come(&to, seat, WEIR__ONLY_LOOKS, &at);
    if (error)
        return error;
    weir__view(&to.clause->meter, at.state ? at.state : &none, now_ns, out);
    weir__visit_leave(&at);
    return 0;
}

int weir_guard_view_at(struct weir *w, const struct weir_request *rq, int term, int64_t now_ns,
                       struct weir_view *out)
{
    int error;

    if (!weir__request_fits(rq) || !weir__now_fits(now_ns) || term < 0 || w->far)
        return WEIR_EINVAL;
    do {
        weir__readers_enter();
        error = view(w, rq, term, now_ns, out);
        weir__readers_exit();
        if (error == WEIR__STALE)
            error = weir__policy_refresh(rq->policy) ?: WEIR__STALE;
    } while (error == WEIR__STALE);
    return error;
}

int weir_guard_view(struct weir *w, const struct weir_request *rq, int term, struct weir_view *out)
{
    return weir_guard_view_at(w, rq, term, weir_now(w), out);
}

/* ---- What the system is doing ------------------------------------------------------------------ */

static bool is_signal(int64_t milli)
{
    return milli >= 0 || milli == WEIR_NONE;
}

int weir_signals_set(struct weir *w, const struct weir_signals *s)
{
    if (!is_signal(s->cpu_milli) || !is_signal(s->memory_milli) || !is_signal(s->load_milli) ||
        !is_signal(s->pressure_milli))
        return WEIR_EINVAL;
    return weir__sampler_inject(&w->sampler, s);
}

void weir_signals_get(struct weir *w, struct weir_signals *s)
{
    *s = weir__sampler_shown(&w->sampler);
}
