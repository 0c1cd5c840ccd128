/* Waiting in an engine: until a request is granted and may act, or until it is entered.
 *
 * A waiter (waiter.h) says what to ask; here the engine answers at once. A caller that blocks
 * sleeps until the waiter is due or woken, and steps it again.
 *
 * Two events wake no waiter that wants to enter, so the first one looks for them itself: the end
 * of a lease at its time, and changes that other processes make to a shared store every few
 * milliseconds.
 *
 * Invariants:
 *   (1) A waiter that leaves without acting gives back what it took.
 *   (2) Between two questions of a caller that blocks there is a sleep, which a signal can end, and
 *       which does not last beyond its deadline; or a wake-up.
 */
#include "engine/wait.h"

#include <errno.h>
#include <time.h>

#include "engine/policy/overrides.h"
#include "os/clock.h"
#include "os/wakeup.h"

/* ---- Asking the engine ----------------------------------------------------------------------- */

static void wait_ask(struct weir__waiter *me, enum weir__question question, struct weir__now now,
                     struct weir__wait_answer *a)
{
    const bool charges = question == WEIR__ASK_CHARGE;
    struct weir__receipt receipt = {.reservation = charges ? me->reservation : NULL,
                                    .ticket = charges ? me->ticket : NULL};
    struct weir_request rq = me->request;

    rq.patience_ns = me->ask_ns;
    if (!weir__now_fits(now.now_ns))
        a->error = WEIR_EINVAL;
    else if (charges && !me->enters)
        a->error = weir__decide_all(me->engine, &rq, 1, WEIR__TAKE_ALL, now, &receipt, &a->verdict);
    else
        a->error = weir__decide(me->engine, &rq, charges ? WEIR__ENTER : WEIR__PEEK, now,
                                me->enters ? &receipt : NULL, &a->verdict);
    a->full = receipt.full;
    a->queue = receipt.wait;
}

/* The first time at which the waiter could enter even if no other caller exits. Leases only end, so
 * a binary search finds it. */
static int64_t wait_lease_end(const struct weir__waiter *me, int64_t now_ns)
{
    int64_t lo = now_ns + 1;
    int64_t hi = weir__min(weir__add_sat(now_ns, me->queue.lease_ns), WEIR__NOW_MAX);

    while (lo < hi) {
        const int64_t middle = lo + (hi - lo) / 2;
        struct weir_verdict v;

        if (weir__decide(me->engine, &me->request, WEIR__PEEK, weir__now_at(middle), NULL, &v) != 0)
            return lo;
        if (v.allowed || v.reason != WEIR_LIMITED)
            hi = middle;
        else
            lo = middle + 1;
    }
    return hi;
}

static bool wait_has_lease(const struct weir__waiter *me, int64_t now_ns)
{
    return me->enters && me->first && me->queue.lease_ns > 0 && now_ns < WEIR__NOW_MAX &&
           !me->engine->remote;
}

/* A remote store takes its time, and decides by its own clock: what it says of time counts from the
 * answer, since from the question it could be too early. */
static void wait_ask_remote(struct weir__waiter *me, enum weir__question question,
                            struct weir__now *now, struct weir__wait_answer *a)
{
    const int64_t asked_ns = weir__clock_now();
    int64_t took_ns;

    wait_ask(me, question, *now, a);
    took_ns = now->given ? 0 : weir__max(0, weir__clock_now() - asked_ns);
    now->now_ns += took_ns;
    now->wall_ns += took_ns;
}

int weir__wait_step(struct weir__waiter *me, struct weir__now now)
{
    enum weir__question question;
    bool asked = false;

    while ((question = weir__waiter_next(me, now.now_ns)) != WEIR__ASK_NOTHING) {
        struct weir__wait_answer a;

        if (me->engine->remote)
            wait_ask_remote(me, question, &now, &a);
        else
            wait_ask(me, question, now, &a);
        weir__waiter_answer(me, now.now_ns, &a);
        asked = true;
    }
    if (asked && !me->decided && wait_has_lease(me, now.now_ns))
        me->due_ns = weir__min(me->due_ns, wait_lease_end(me, now.now_ns));
    return me->decided ? me->error : 0;
}

/* ---- Beginning and ending -------------------------------------------------------------------- */

/* The queue of the request's limit. */
static struct weir__wait_options wait_queue_of(const struct weir_request *rq, uint64_t key_hash)
{
    struct weir__wait_options queue;
    struct weir__own own;

    weir__rcu_enter();
    weir__own_begin(&own);
    queue = weir__revision_for(atomic_load_explicit(&rq->policy->revision, memory_order_acquire),
                               rq, key_hash, &own)
                ->wait;
    weir__rcu_exit();
    return queue;
}

/* The same for a caller that has to know it only if it finds others waiting. */
static struct weir__wait_options wait_queue_behind(struct weir *w, const struct weir_request *rq,
                                                   uint64_t key_hash)
{
    return rq->cost == 0 || !weir__wait_has_entering(w) ? (struct weir__wait_options){0}
                                                        : wait_queue_of(rq, key_hash);
}

int weir__wait_open(struct weir *w, struct weir__waiter *me, const struct weir_request *rq,
                    enum weir__wait_verb verb, int64_t now_ns)
{
    struct weir__wait_options queue = {0};
    uint64_t hash;

    if (!weir__request_fits(rq) || !weir__now_fits(now_ns))
        return WEIR_EINVAL;
    hash = weir__key_hash(w->store, rq);
    me->engine = w;
    me->request = *rq;
    me->enters = verb == WEIR__WAIT_ENTER;
    me->polls = w->store->file || w->remote;
    me->watched = me->enters ? &w->entering : &w->taking;
    me->key = weir__wait_key(rq->policy, hash);
    me->list = weir__wait_list_of(w, me->key);
    me->owner = rq->policy;
    if (me->enters)
        queue = wait_queue_behind(w, rq, hash);
    weir__waiter_begin(me, now_ns, rq->patience_ns, &queue);
    return 0;
}

int weir__wait_begin(struct weir *w, struct weir__waiter *me, const struct weir_request *rq,
                     enum weir__wait_verb verb, struct weir__now now)
{
    const int error = weir__wait_open(w, me, rq, verb, now.now_ns);

    return error ? error : weir__wait_step(me, now);
}

bool weir__wait_is_behind(struct weir *w, const struct weir_request *rq)
{
    const uint64_t hash = weir__key_hash(w->store, rq);
    const uint64_t key = weir__wait_key(rq->policy, hash);

    return wait_queue_behind(w, rq, hash).room > 0 &&
           weir__wait_list_has(weir__wait_list_of(w, key), key);
}

int64_t weir__wait_length(struct weir *w, const struct weir_request *rq)
{
    const uint64_t key = weir__wait_key(rq->policy, weir__key_hash(w->store, rq));

    return weir__wait_list_length(weir__wait_list_of(w, key), key);
}

int weir__wait_expire(struct weir__waiter *me, struct weir__now now)
{
    weir__waiter_expire(me);
    return weir__wait_step(me, now);
}

int weir__wait_refuse(struct weir *w, const struct weir_request *rq, struct weir__now now,
                      struct weir_verdict *v)
{
    struct weir__waiter me = {.engine = w,
                              .request = *rq,
                              .enters = true,
                              .patience_ns = rq->patience_ns,
                              .queue = wait_queue_of(rq, weir__key_hash(w->store, rq))};
    const int error = weir__wait_expire(&me, now); /* it never joined */

    if (!error)
        *v = me.verdict;
    return error;
}

void weir__wait_cancel(struct weir__waiter *me, struct weir__now now)
{
    weir__waiter_leave(me);
    if (!me->granted || me->decided)
        return;
    weir__reservation_withdraw(me->engine, me->reservation, now);
    weir__wait_list_wake(me->list, me->key); /* by key: the policy may be forgotten */
}

void weir__wait_wake_policy(struct weir *w, const struct weir_policy *p)
{
    if (atomic_load(&w->entering) == 0 && atomic_load(&w->taking) == 0)
        return;
    for (int i = 0; i < WEIR__WAIT_LISTS; i++)
        weir__wait_list_wake_owner(&w->wait_list[i], p);
}

/* ---- Blocking -------------------------------------------------------------------------------- */

struct weir__now weir__timeline_now(const struct weir__timeline *t)
{
    struct weir__now m = weir__now_of(t->engine);

    m.now_ns += t->shift_ns;
    m.wall_ns += t->shift_ns;
    m.given = m.given || t->given;
    return m;
}

/* A caller's clock may jump back, even to before the epoch. */
int weir__timeline_sleep(const struct weir__timeline *t, int64_t until_ns)
{
    const struct weir_clock *clock = &t->engine->clock;

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

/* A caller that blocks. */
struct wait_blocked {
    struct weir__waiter waiter; /* first */
    struct weir__wakeup wakeup;
};

static void wait_signal(struct weir__waiter *me)
{
    weir__wakeup_signal(&((struct wait_blocked *)me)->wakeup);
}

/* Sleeps until the waiter is due or woken. On a clock of the caller's, whose time we cannot wait
 * for, it looks every few milliseconds; but if only time can help, it leaves the sleep to that
 * clock. 0 or WEIR_EINTR. */
static int wait_sleep(struct wait_blocked *b, const struct weir__timeline *t, int64_t now_ns)
{
    const struct weir_clock *clock = &t->engine->clock;
    const struct weir__waiter *me = &b->waiter;
    const int64_t poll_ns = clock->now && !me->timed ? WEIR__POLL_EVERY_NS : INT64_MAX;

    if (clock->sleep && (me->timed || me->enters))
        return weir__timeline_sleep(t, weir__min(me->due_ns, weir__add_sat(now_ns, poll_ns)));
    return weir__wakeup_wait(&b->wakeup, weir__min(poll_ns, me->due_ns - weir__max(0, now_ns)))
               ? WEIR_EINTR
               : 0;
}

static int wait_run(struct wait_blocked *b, struct weir *w, const struct weir_request *rq,
                    const struct weir__timeline *t, struct weir__now now)
{
    const enum weir__wait_verb verb = b->waiter.ticket ? WEIR__WAIT_ENTER : WEIR__WAIT_TAKE;
    int error = weir__wait_begin(w, &b->waiter, rq, verb, now);

    while (!error && !b->waiter.decided) {
        error = wait_sleep(b, t, now.now_ns);
        now = weir__timeline_now(t);
        if (error)
            weir__wait_cancel(&b->waiter, now);
        else
            error = weir__wait_step(&b->waiter, now);
    }
    return error;
}

int weir__wait_block(struct weir *w, const struct weir_request *rq, const struct weir__timeline *t,
                     struct weir__now now, struct weir_ticket *ticket,
                     struct weir_reservation *reservation, struct weir_verdict *v)
{
    struct wait_blocked b = {
        .waiter = {.wake = wait_signal, .ticket = ticket, .reservation = reservation}};
    int cancelable, error;

    /* A thread that is cancelled must not leave its waiter in the list. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = wait_run(&b, w, rq, t, now);
    (void)pthread_setcancelstate(cancelable, NULL);
    if (!error)
        *v = b.waiter.verdict;
    return error;
}

static int wait_until(struct weir *w, const struct weir_request *rq, const struct weir__timeline *t,
                      int64_t deadline_ns, struct weir_verdict *v)
{
    const struct weir__now now = weir__timeline_now(t);
    struct weir_request asked = *rq;
    struct weir_reservation r;

    if (deadline_ns < 0)
        return WEIR_EINVAL;
    asked.patience_ns = /* the caller's is ignored */
        deadline_ns == WEIR_FOREVER ? WEIR_FOREVER
                                    : weir__max(0, weir__sub_sat(deadline_ns, now.now_ns));
    r.n = 0;
    return weir__wait_block(w, &asked, t, now, NULL, &r, v);
}

int weir_wait(struct weir *w, const struct weir_request *rq, int64_t deadline_ns,
              struct weir_verdict *v)
{
    return wait_until(w, rq, &(struct weir__timeline){w, 0, false}, deadline_ns, v);
}

int weir_wait_at(struct weir *w, const struct weir_request *rq, int64_t now_ns, int64_t deadline_ns,
                 struct weir_verdict *v)
{
    if (!weir__now_fits(now_ns))
        return WEIR_EINVAL;
    return wait_until(w, rq, &(struct weir__timeline){w, now_ns - weir_now(w), true}, deadline_ns,
                      v);
}
