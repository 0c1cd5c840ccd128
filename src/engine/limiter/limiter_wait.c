/* A limiter without keys: waiting until a request may pass.
 *
 * A waiter (waiter.h) says what to ask, and the limiter answers at once. The thread sleeps until
 * the waiter is due or woken.
 *
 * Invariants:
 *   (1) A waiter that leaves without acting gives back what it took.
 *   (2) A change, a reset, a refund or a cancel wakes the first waiter: it may pass sooner now.
 */
#include <pthread.h>

#include "engine/limiter/limiter.h"
#include "os/wakeup.h"

struct limiter_wait {
    struct weir__waiter waiter; /* first */
    struct weir__wakeup wakeup;
    struct weir_limiter *limiter;
    int64_t cost;
    uint32_t resets; /* resets of the limiter before it last tried to take */
    struct weir__promise promise[WEIR_TERMS_MAX];
};

static void limiter_wait_signal(struct weir__waiter *me)
{
    weir__wakeup_signal(&((struct limiter_wait *)me)->wakeup);
}

/* ---- Asking -------------------------------------------------------------------------------- */

static void limiter_wait_ask(struct limiter_wait *w, enum weir__question question,
                             struct weir__limiter_now at, struct weir__wait_answer *a)
{
    struct weir__limiter_op x = {
        .cost = w->cost, .patience_ns = w->waiter.ask_ns, .at = at, .verdict = &a->verdict};

    if (question == WEIR__ASK_CHARGE) {
        x.promise = w->promise;
        w->resets = atomic_load(&w->limiter->resets);
    }
    weir__limiter_run(w->limiter,
                      question == WEIR__ASK_CHARGE ? weir__limiter_op_take : weir__limiter_op_peek,
                      &x);
}

static void limiter_wait_step(struct limiter_wait *w, struct weir__limiter_now at)
{
    enum weir__question question;

    while ((question = weir__waiter_next(&w->waiter, at.now_ns)) != WEIR__ASK_NOTHING) {
        struct weir__wait_answer a = {0};

        limiter_wait_ask(w, question, at, &a);
        weir__waiter_answer(&w->waiter, at.now_ns, &a);
    }
}

/* ---- Giving back --------------------------------------------------------------------------- */

/* Whether the state still has what was taken under that version. */
static bool remembers(const struct weir__meter *m, uint32_t version)
{
    return ((m->version - version) & WEIR__VERSION_MOST) <=
           ((m->version - m->since) & WEIR__VERSION_MOST);
}

/* Cancels a reservation. A window, which promises nothing, has no cancel: it is refunded, which
 * cannot take away what another caller was promised. */
static void limiter_wait_undo(struct weir__revision *rev, struct weir__state *const *state,
                              struct weir__limiter_op *x)
{
    for (int i = 0; i < rev->n; i++) {
        const struct weir__meter *m = &rev->term[i].meter;
        const struct weir__promise *p = &x->promise[i];

        if (!p->taken || !remembers(m, p->version))
            continue;
        if (m->algo->cancel || m->algo->default_patience)
            (void)weir__meter_cancel(m, state[i], x->cost, p->act_ns, x->at.now_ns);
        else
            (void)weir__meter_refund(m, state[i], x->cost, x->at.now_ns);
    }
}

static void limiter_wait_cancel(struct limiter_wait *w)
{
    struct weir__limiter_op x = {
        .cost = w->cost, .at = weir__limiter_now_read(), .promise = w->promise};

    weir__waiter_leave(&w->waiter);
    if (!w->waiter.granted)
        return;
    if (atomic_load(&w->limiter->resets) == w->resets)
        weir__limiter_run(w->limiter, limiter_wait_undo, &x);
    weir__wait_list_wake(&w->limiter->waiters, 0);
}

/* ---- Blocking ------------------------------------------------------------------------------ */

/* 0 or WEIR_EINTR. */
static int limiter_wait_run(struct limiter_wait *w, int64_t deadline_ns)
{
    struct weir__limiter_now at = weir__limiter_now_read();

    weir__waiter_begin(
        &w->waiter, at.now_ns,
        deadline_ns == WEIR_FOREVER ? WEIR_FOREVER : weir__max(0, deadline_ns - at.now_ns), NULL);
    limiter_wait_step(w, at);
    while (!w->waiter.decided) {
        if (weir__wakeup_wait(&w->wakeup, w->waiter.due_ns - at.now_ns) != 0) {
            limiter_wait_cancel(w);
            return WEIR_EINTR;
        }
        at = weir__limiter_now_read();
        limiter_wait_step(w, at);
    }
    return 0;
}

int weir_limiter_wait(struct weir_limiter *l, int64_t cost, int64_t deadline_ns,
                      struct weir_verdict *v)
{
    struct limiter_wait w = {
        .waiter = {.wake = limiter_wait_signal, .list = &l->waiters}, .limiter = l, .cost = cost};
    int cancelable, error;

    if (cost < 0 || deadline_ns < 0)
        return WEIR_EINVAL;
    /* A thread that is cancelled must not leave its waiter in the list. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = limiter_wait_run(&w, deadline_ns);
    (void)pthread_setcancelstate(cancelable, NULL);
    if (!error)
        *v = w.waiter.verdict;
    return error;
}
