/* Waiting until a request may pass (weir_wait).
 *
 * A waiter asks a limit that can promise the future (buckets, pacers) once, with all its patience:
 * the grant is a reservation, and the waiter sleeps until it may act. A window cannot promise: a
 * waiter that it refuses sleeps until the request may pass, and asks again. Such waiters for the
 * same key are in a wait list, and only the first of them asks; so they are served in the order in
 * which they came.
 *
 * Invariants:
 *   (1) A waiter that leaves without acting gives back what it took.
 *   (2) A waiter that cannot be served by its deadline, as things are now, does not sleep.
 *   (3) A waiter is in its wait list exactly while it has no grant.
 *   (4) Between two requests of a waiter there is always a sleep, which a signal can end, and which
 *       does not last beyond its deadline. So no waiter spins, whatever the store answers.
 */
#include "engine/wait.h"

#include <errno.h>
#include <time.h>

#include "engine/wait_list.h"
#include "os/clock.h"

/* The pause between a refusal that a peek contradicts and the next request: the first, the
 * longest. */
#define REFUTED_NS     WEIR__NS_PER_MS
#define REFUTED_MAX_NS WEIR__NS_PER_S

/* ---- Time ---------------------------------------------------------------------------------- */

struct weir__now weir__timeline_now(const struct weir__timeline *t)
{
    struct weir__now m = weir__now_of(t->w);

    m.now_ns += t->shift_ns;
    m.wall_ns += t->shift_ns;
    m.given = m.given || t->given;
    return m;
}

/* A caller's clock may jump back, even to before the epoch. */
int weir__timeline_sleep(const struct weir__timeline *t, int64_t until_ns)
{
    const struct weir_clock *clock = &t->w->clock;

    if (clock->sleep)
        return clock->sleep(clock->arg, until_ns - t->shift_ns) == 0 ? 0 : WEIR_EINTR;
    for (;;) {
        const int64_t left = until_ns - weir__max(0, weir__timeline_now(t).now_ns);
        const struct timespec nap = {left / WEIR__NS_PER_S, left % WEIR__NS_PER_S};

        if (left <= 0)
            return 0;
        if (clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL) == EINTR)
            return WEIR_EINTR;
    }
}

/* ---- Turns --------------------------------------------------------------------------------- */

/* Waits until the waiter is the first, or its deadline has passed. Returns 0, or WEIR_EINTR. */
static int wait_until_first(struct weir *w, struct weir__key_waiter *me,
                            const struct weir__timeline *t, int64_t deadline_ns)
{
    for (;;) {
        const int64_t left = deadline_ns - weir__max(0, weir__timeline_now(t).now_ns);

        if (weir__wait_list_is_first(w, me) || left <= 0)
            return 0;
        if (weir__wakeup_wait(&me->wakeup, w->clock.now ? WEIR__POLL_EVERY_NS : left) != 0)
            return WEIR_EINTR;
    }
}

/* ---- Asking -------------------------------------------------------------------------------- */

void weir__retry_plan(struct weir__retry *again, const struct weir_verdict *without, int64_t now_ns,
                      int64_t deadline_ns)
{
    const int64_t left_ns = deadline_ns - now_ns;
    const bool refuted = without->allowed || without->retry_after_ns == 0;
    const int64_t pause_ns = weir__min(REFUTED_NS << weir__min(again->refuted, 30), REFUTED_MAX_NS);

    again->at_ns = -1;
    if (refuted && left_ns > 0)
        again->at_ns = now_ns + weir__min(pause_ns, left_ns);
    else if (!refuted && without->retry_after_ns > 0 && without->retry_after_ns <= left_ns)
        again->at_ns = now_ns + without->retry_after_ns;
    again->refuted = refuted ? again->refuted + 1 : 0;
}

/* Asks with all the patience that is left; if r is NULL, only peeks. */
static int wait_decide(struct weir *w, const struct weir_request *rq,
                       const struct weir__timeline *t, int64_t deadline_ns,
                       struct weir_reservation *r, struct weir_verdict *v,
                       struct weir__retry *again)
{
    const struct weir__now at = weir__timeline_now(t);
    const int64_t now = at.now_ns;
    struct weir__receipt receipt = {.reservation = r};
    struct weir_request patient = *rq;
    struct weir_verdict without;
    int error;

    again->at_ns = -1;
    if (!weir__now_fits(now))
        return WEIR_EINVAL;
    patient.patience_ns =
        deadline_ns == WEIR_FOREVER ? WEIR_FOREVER : weir__max(0, deadline_ns - now);
    error = r ? weir__decide_all(w, &patient, 1, WEIR__TAKE_ALL, at, &receipt, v)
              : weir__decide(w, &patient, WEIR__PEEK, at, NULL, v);
    if (error || v->allowed)
        return error;
    patient.patience_ns = 0;
    error = weir__decide(w, &patient, WEIR__PEEK, at, NULL, &without);
    if (!error)
        weir__retry_plan(again, &without, now, deadline_ns);
    return error;
}

/* Asks until the request is granted or hopeless; other waiters for the same key wait meanwhile. */
static int wait_in_order(struct weir *w, const struct weir_request *rq,
                         const struct weir__timeline *t, int64_t deadline_ns,
                         struct weir_reservation *r, struct weir_verdict *v)
{
    struct weir__key_waiter me = {
        .key = weir__wait_list_key(rq->policy, weir__key_hash(w->store, rq)), .policy = rq->policy};
    struct weir__retry again = {0};
    int error = wait_decide(w, rq, t, deadline_ns, NULL, v, &again);

    if (error || (!v->allowed && again.at_ns < 0))
        return error; /* a hopeless request does not join the wait list */
    (void)weir__wait_list_join(w, &me, INT64_MAX);
    error = wait_until_first(w, &me, t, deadline_ns);
    for (again = (struct weir__retry){0}; !error && again.at_ns >= 0;) {
        error = wait_decide(w, rq, t, deadline_ns, r, v, &again);
        if (!error && again.at_ns >= 0)
            error = weir__timeline_sleep(t, again.at_ns);
    }
    weir__wait_list_leave(w, &me);
    return error;
}

static int wait_uncancelled(struct weir *w, const struct weir_request *rq, struct weir__timeline t,
                            int64_t deadline_ns, struct weir_verdict *v)
{
    struct weir_request asked = *rq;
    struct weir_reservation r = {0};
    struct weir_verdict granted;
    int error;

    asked.patience_ns = 0; /* the caller's is ignored */
    if (!weir__request_fits(&asked) || deadline_ns < 0)
        return WEIR_EINVAL;
    error = wait_in_order(w, &asked, &t, deadline_ns, &r, &granted);
    if (error)
        return error;
    if (granted.allowed && granted.wait_ns > 0) {
        error = weir__timeline_sleep(&t, r.act_ns);
        if (error) {
            weir__reservation_withdraw(w, &r, weir__timeline_now(&t));
            return error;
        }
    }
    granted.wait_ns = 0; /* the wait is over */
    *v = granted;
    return 0;
}

static int wait_request(struct weir *w, const struct weir_request *rq, struct weir__timeline t,
                        int64_t deadline_ns, struct weir_verdict *v)
{
    int cancelable, error;

    /* A thread that is cancelled must not leave its waiter in the list. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = wait_uncancelled(w, rq, t, deadline_ns, v);
    (void)pthread_setcancelstate(cancelable, NULL);
    return error;
}

int weir_wait(struct weir *w, const struct weir_request *rq, int64_t deadline_ns,
              struct weir_verdict *v)
{
    return wait_request(w, rq, (struct weir__timeline){w, 0, false}, deadline_ns, v);
}

int weir_wait_at(struct weir *w, const struct weir_request *rq, int64_t now_ns, int64_t deadline_ns,
                 struct weir_verdict *v)
{
    if (!weir__now_fits(now_ns))
        return WEIR_EINVAL;
    return wait_request(w, rq, (struct weir__timeline){w, now_ns - weir_now(w), true}, deadline_ns,
                        v);
}
