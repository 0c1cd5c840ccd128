/* What a waiter asks next, and what it makes of the answer; see waiter.h. */
#include "engine/waiter.h"

#include "algo/algo.h"
#include "base/num.h"
#include "engine/wait_list.h"

/* The pause between a refusal that a peek contradicts and the next request: the first, the
 * longest. */
#define REFUTED_NS     WEIR__NS_PER_MS
#define REFUTED_MAX_NS WEIR__NS_PER_S

/* ---- Time ------------------------------------------------------------------------------------ */

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

/* A clock may step back: then no patience is gained. */
static int64_t waiter_patience_left(const struct weir__waiter *me, int64_t now_ns)
{
    if (me->patience_ns == WEIR_FOREVER || me->patience_ns == WEIR_WAIT_DEFAULT)
        return me->patience_ns;
    return weir__max(0, me->patience_ns - weir__max(0, now_ns - me->began_ns));
}

/* ---- Changes of state ------------------------------------------------------------------------ */

static void waiter_end(struct weir__waiter *me, int error)
{
    weir__wait_list_leave(me);
    me->state = WEIR__WAITER_OVER;
    me->decided = true;
    me->error = error;
    me->due_ns = INT64_MAX;
}

static void waiter_decide(struct weir__waiter *me, const struct weir_verdict *v)
{
    me->verdict = *v;
    waiter_end(me, 0);
}

static void waiter_wait(struct weir__waiter *me, int64_t due_ns, bool timed)
{
    me->state = WEIR__WAITER_WAITING;
    me->due_ns = weir__min(due_ns, me->deadline_ns);
    me->timed = timed;
}

static void waiter_grant(struct weir__waiter *me, int64_t now_ns)
{
    me->granted = true;
    if (me->verdict.wait_ns == 0) {
        waiter_end(me, 0);
        return;
    }
    weir__wait_list_leave(me);
    me->state = WEIR__WAITER_GRANTED;
    me->due_ns = weir__add_sat(now_ns, me->verdict.wait_ns);
    me->timed = true;
}

/* ---- A take ---------------------------------------------------------------------------------- */

static void take_charged(struct weir__waiter *me, int64_t now_ns, const struct weir__wait_answer *a)
{
    me->verdict = a->verdict;
    if (a->verdict.allowed) {
        waiter_grant(me, now_ns);
    } else if (now_ns >= me->deadline_ns) {
        waiter_end(me, 0);
    } else {
        if (!me->listed)
            (void)weir__wait_list_join(me, INT64_MAX);
        me->state = WEIR__WAITER_PLANNING;
    }
}

static void take_looked(struct weir__waiter *me, const struct weir__wait_answer *a)
{
    me->verdict = a->verdict;
    if (a->verdict.allowed)
        waiter_wait(me, me->deadline_ns, false);
    else
        me->state = WEIR__WAITER_PLANNING;
}

/* A limit whose queue is full may accept the request before it could pass by itself. */
static void take_planned(struct weir__waiter *me, int64_t now_ns, const struct weir__wait_answer *a)
{
    const int64_t sooner_ns = me->verdict.retry_after_ns;

    weir__retry_plan(&me->again, &a->verdict, now_ns, me->deadline_ns);
    if (me->again.at_ns < 0) {
        waiter_end(me, 0);
        return;
    }
    if (sooner_ns > 0 && sooner_ns < me->again.at_ns - now_ns)
        me->again.at_ns = now_ns + sooner_ns;
    waiter_wait(me, me->first ? me->again.at_ns : me->deadline_ns, me->first);
}

/* ---- An entry -------------------------------------------------------------------------------- */

static void enter_refuse(struct weir__waiter *me, enum weir_reason reason)
{
    me->state = WEIR__WAITER_REFUSING;
    me->reason = reason;
}

/* Joins the queue before the permits, if that may be. */
static bool enter_joins(struct weir__waiter *me, const struct weir__wait_options *queue)
{
    int64_t wait_ns = queue->max_wait_ns;

    me->queue = *queue;
    if (me->patience_ns != WEIR_WAIT_DEFAULT)
        wait_ns = weir__min(wait_ns, me->patience_ns);
    me->deadline_ns = weir__add_sat(me->began_ns, wait_ns);
    if (wait_ns == 0)
        enter_refuse(me, WEIR_LIMITED);
    else if (!weir__wait_list_join(me, queue->room))
        enter_refuse(me, WEIR_QUEUE_FULL);
    return me->listed;
}

static void enter_wait(struct weir__waiter *me, int64_t now_ns)
{
    const bool polls = me->polls && me->first;

    waiter_wait(me, polls ? weir__add_sat(now_ns, WEIR__POLL_EVERY_NS) : me->deadline_ns, false);
}

static void enter_charged(struct weir__waiter *me, int64_t now_ns,
                          const struct weir__wait_answer *a)
{
    if (a->verdict.allowed || !a->full)
        waiter_decide(me, &a->verdict);
    else if (me->listed && now_ns >= me->deadline_ns)
        enter_refuse(me, WEIR_LIMITED);
    else if (me->listed || enter_joins(me, &a->queue))
        enter_wait(me, now_ns);
}

static void enter_looked(struct weir__waiter *me, int64_t now_ns, const struct weir__wait_answer *a)
{
    if (a->verdict.allowed || a->full)
        enter_wait(me, now_ns);
    else
        waiter_decide(me, &a->verdict);
}

/* The verdict is that of the peek, with the reason why the entry may not wait (any more), unless
 * the peek has a more serious one. */
static void enter_refused(struct weir__waiter *me, const struct weir__wait_answer *a)
{
    struct weir_verdict v = a->verdict;

    if (v.allowed) { /* other waiters are before it */
        weir__verdict_refuse(&v, me->reason, 0);
        v.which = me->queue.term;
        v.term = (int8_t)me->queue.term;
        v.shadow = 0;
        v.limit = me->queue.permits;
        v.remaining = 0;
    } else if (v.reason == WEIR_LIMITED) {
        v.reason = me->reason;
    }
    waiter_decide(me, &v);
}

/* ---- Begin, next, answer --------------------------------------------------------------------- */

void weir__waiter_begin(struct weir__waiter *me, int64_t now_ns, int64_t patience_ns,
                        const struct weir__wait_options *queue)
{
    const bool others = weir__wait_list_watch(me);

    me->began_ns = now_ns;
    me->patience_ns = patience_ns;
    me->deadline_ns = weir__add_sat(now_ns, weir__max(0, patience_ns));
    me->state = WEIR__WAITER_CHARGING;
    if (me->enters && others && queue->room > 0 && enter_joins(me, queue))
        me->state = WEIR__WAITER_LOOKING;
    else if (!me->enters && others && patience_ns > 0 && weir__wait_list_join(me, INT64_MAX))
        me->state = WEIR__WAITER_LOOKING;
}

static void waiter_check(struct weir__waiter *me, int64_t now_ns)
{
    const bool woken = weir__wait_list_woken(me);
    const bool over = now_ns >= me->deadline_ns;

    if ((me->first && (woken || now_ns >= me->due_ns)) || (over && !me->enters))
        me->state = WEIR__WAITER_CHARGING;
    else if (over)
        enter_refuse(me, WEIR_LIMITED);
}

enum weir__question weir__waiter_next(struct weir__waiter *me, int64_t now_ns)
{
    if (me->state == WEIR__WAITER_WAITING)
        waiter_check(me, now_ns);
    me->ask_ns = me->state == WEIR__WAITER_PLANNING ? 0 : waiter_patience_left(me, now_ns);
    switch (me->state) {
    case WEIR__WAITER_CHARGING: return WEIR__ASK_CHARGE;
    case WEIR__WAITER_LOOKING:
    case WEIR__WAITER_PLANNING:
    case WEIR__WAITER_REFUSING: return WEIR__ASK_PEEK;
    case WEIR__WAITER_GRANTED:
        if (now_ns < me->due_ns)
            break;
        me->verdict.wait_ns = 0; /* the wait is over */
        waiter_end(me, 0);
        break;
    case WEIR__WAITER_WAITING:
    case WEIR__WAITER_OVER: break;
    }
    return WEIR__ASK_NOTHING;
}

void weir__waiter_answer(struct weir__waiter *me, int64_t now_ns, const struct weir__wait_answer *a)
{
    if (a->error) {
        waiter_end(me, a->error);
        return;
    }
    switch (me->state) {
    case WEIR__WAITER_CHARGING: (me->enters ? enter_charged : take_charged)(me, now_ns, a); break;
    case WEIR__WAITER_LOOKING:
        if (me->enters)
            enter_looked(me, now_ns, a);
        else
            take_looked(me, a);
        break;
    case WEIR__WAITER_PLANNING: take_planned(me, now_ns, a); break;
    case WEIR__WAITER_REFUSING: enter_refused(me, a); break;
    case WEIR__WAITER_WAITING:
    case WEIR__WAITER_GRANTED:
    case WEIR__WAITER_OVER: break;
    }
}

void weir__waiter_expire(struct weir__waiter *me)
{
    enter_refuse(me, WEIR_LIMITED);
}

void weir__waiter_leave(struct weir__waiter *me)
{
    weir__wait_list_leave(me);
    me->state = WEIR__WAITER_OVER;
}
