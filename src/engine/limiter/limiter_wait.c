/* A limiter without keys: waiting until a request may pass.
 *
 * A waiter asks a limit that can promise the future (buckets, pacers) once, with all its patience
 * until the deadline: the grant is a reservation, and the waiter sleeps until it may act. A window
 * cannot promise: a waiter that it refuses sleeps until the request may pass, and asks again. All
 * waiters without a grant are in a wait list (waiters.h), and only the first of them asks.
 *
 * Invariants:
 *   (1) A waiter that leaves without acting gives back what it took.
 *   (2) A waiter that cannot be served by its deadline, as things are now, does not sleep.
 *   (3) A waiter is in the wait list exactly while it has no grant.
 *   (4) A change, a reset, a refund or a cancel wakes the first waiter: it may pass sooner now.
 *   (5) A waiter that is refused when its time is over asks no more, whatever a peek says.
 */
#include <errno.h>
#include <pthread.h>

#include "engine/limiter/limiter.h"

#define PAUSE_MAX_NS \
    (INT64_C(3600) * \
     WEIR__NS_PER_S) /* the longest pause: then a waiter without a deadline looks again */

struct limiter_wait {
    struct weir_limiter *l;
    int64_t cost, deadline_ns;
    struct weir_verdict v;
    int64_t asked_ns; /* when v was decided */
    uint32_t resets;  /* resets of the limiter before that */
    struct weir__promise promise[WEIR_TERMS_MAX];
};

/* ---- Asking -------------------------------------------------------------------------------- */

static struct weir__limiter_op limiter_op_of(const struct limiter_wait *w,
                                             struct weir__limiter_now at, int64_t patience_ns,
                                             struct weir_verdict *v)
{
    return (struct weir__limiter_op){.cost = w->cost, .patience_ns = patience_ns, .at = at, .v = v};
}

static int64_t time_left(const struct limiter_wait *w, int64_t now_ns)
{
    return w->deadline_ns == WEIR_FOREVER ? WEIR_FOREVER : weir__max(0, w->deadline_ns - now_ns);
}

static struct weir_verdict limiter_wait_peek(const struct limiter_wait *w,
                                             struct weir__limiter_now at, int64_t patience_ns)
{
    struct weir_verdict v;
    struct weir__limiter_op x = limiter_op_of(w, at, patience_ns, &v);

    weir__limiter_run(w->l, weir__limiter_op_peek, &x);
    return v;
}

static void limiter_wait_take(struct limiter_wait *w, struct weir__limiter_now at)
{
    struct weir__limiter_op x = limiter_op_of(w, at, time_left(w, at.now_ns), &w->v);

    x.promise = w->promise;
    w->asked_ns = at.now_ns;
    w->resets = atomic_load(&w->l->resets);
    weir__limiter_run(w->l, weir__limiter_op_take, &x);
}

/* The time after which to ask again; -1 if there is no point. A limit that is asked with unlimited
 * patience says either when the request would act, or when its queue could accept it. */
static int64_t next_chance_in(const struct limiter_wait *w, struct weir__limiter_now at)
{
    const int64_t left = time_left(w, at.now_ns);
    struct weir_verdict v = limiter_wait_peek(w, at, WEIR_FOREVER);
    int64_t in_ns = 0;

    if (!v.allowed) {
        in_ns = v.retry_after_ns;
        if (in_ns < 0 || in_ns > left || !weir__limiter_now_fits(weir__add_sat(at.now_ns, in_ns)))
            return -1;
        at.now_ns += in_ns;
        at.wall_ns += in_ns;
        v = limiter_wait_peek(w, at, WEIR_FOREVER);
    }
    return v.allowed && v.wait_ns > left - in_ns ? -1 : in_ns;
}

/* True once the request is decided: w->v is the verdict. Else *pause_ns is the time to pause. */
static bool limiter_wait_try(struct limiter_wait *w, bool is_first, int64_t *pause_ns)
{
    const struct weir__limiter_now at = weir__limiter_now_read();
    const int64_t left = time_left(w, at.now_ns);
    const bool asks = is_first || left == 0; /* at its deadline every waiter asks */
    int64_t chance_in_ns;

    if (asks)
        limiter_wait_take(w, at);
    else
        w->v = limiter_wait_peek(w, at, left);
    if (asks && (w->v.allowed || left == 0))
        return true;
    chance_in_ns = next_chance_in(w, at);
    if (chance_in_ns < 0)
        return true;
    *pause_ns = weir__min(asks ? chance_in_ns : left, PAUSE_MAX_NS);
    return false;
}

/* 0 or WEIR_EINTR. */
static int limiter_wait_in_order(struct limiter_wait *w)
{
    struct weir__waiters *t = &w->l->waiters;
    struct weir__limiter_waiter me;
    int64_t pause_ns;
    int error = 0;

    weir__waiters_join(t, &me);
    while (error == 0 && !limiter_wait_try(w, weir__waiters_is_first(t, &me), &pause_ns))
        error = weir__waiters_pause(&me, pause_ns);
    weir__waiters_leave(t, &me);
    return error == 0 ? 0 : WEIR_EINTR;
}

/* ---- Sleeping until the grant may act ------------------------------------------------------ */

/* Whether the state still has what was taken under that version. */
static bool remembers(const struct weir__meter *m, uint32_t version)
{
    return ((m->version - version) & WEIR__VERSION_MOST) <=
           ((m->version - m->since) & WEIR__VERSION_MOST);
}

/* Cancels a reservation. A window, which promises nothing, has no cancel: it is refunded, which
 * cannot take away what another caller was promised. */
static void limiter_wait_undo(struct weir__revision *e, struct weir__state *const *state,
                              struct weir__limiter_op *x)
{
    for (int i = 0; i < e->n; i++) {
        const struct weir__meter *m = &e->clause[i].meter;
        const struct weir__promise *p = &x->promise[i];

        if (!p->taken || !remembers(m, p->version))
            continue;
        if (m->algo->cancel || m->algo->default_patience)
            (void)weir__meter_cancel(m, state[i], x->cost, p->act_ns, x->at.now_ns);
        else
            (void)weir__meter_refund(m, state[i], x->cost, x->at.now_ns);
    }
}

/* 0 or WEIR_EINTR. */
static int sleep_until_due(struct limiter_wait *w)
{
    struct weir__limiter_op x;

    if (!w->v.allowed || w->v.wait_ns == 0 || weir__clock_sleep(w->asked_ns + w->v.wait_ns) == 0)
        return 0;
    x = limiter_op_of(w, weir__limiter_now_read(), 0, NULL);
    x.promise = w->promise;
    if (atomic_load(&w->l->resets) == w->resets)
        weir__limiter_run(w->l, limiter_wait_undo, &x);
    weir__waiters_wake(&w->l->waiters);
    return WEIR_EINTR;
}

int weir_limiter_wait(struct weir_limiter *l, int64_t cost, int64_t deadline_ns,
                      struct weir_verdict *v)
{
    struct limiter_wait w = {.l = l, .cost = cost, .deadline_ns = deadline_ns};
    int cancelable, error;

    if (cost < 0 || deadline_ns < 0)
        return WEIR_EINVAL;
    /* A thread that is cancelled must not leave its waiter in the list. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = limiter_wait_in_order(&w);
    if (!error)
        error = sleep_until_due(&w);
    (void)pthread_setcancelstate(cancelable, NULL);
    if (error)
        return error;
    w.v.wait_ns = 0; /* the wait is over */
    *v = w.v;
    return 0;
}
