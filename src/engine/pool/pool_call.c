/* Submitting to a pool, and waiting for a result.
 *
 * A caller that waits has a struct weir__pool_waiter on its stack, and the job points to it. A
 * caller that gives up removes that pointer, under the lock: it withdraws a task that has not
 * started, and the result of a task that has started is discarded.
 */
#include "base/num.h"
#include "engine/pool/pool.h"
#include "os/clock.h"

/* Puts the task into the queue. NULL: refused, and *v says so. */
static struct weir__job *pool_admit_locked(struct weir_pool *p, const struct weir_task *task,
                                           struct weir__pool_waiter *call, struct weir_verdict *v)
{
    const size_t in = p->queued + p->running;
    struct weir__job *j = p->shut ? NULL : p->free;

    *v = (struct weir_verdict){.allowed = j != NULL,
                               .reason = j ? WEIR_OK : WEIR_QUEUE_FULL,
                               .which = -1,
                               .limit = (int64_t)p->places,
                               .remaining = j ? (int64_t)(p->places - in - 1) : 0,
                               .retry_after_ns = p->shut ? -1 : 0};
    if (!j) {
        p->refused++;
        return NULL;
    }
    p->submitted++;
    p->free = j->next;
    *j = (struct weir__job){.task = *task, .call = call};
    weir__pool_append_locked(p, j);
    (void)pthread_cond_signal(&p->work);
    return j;
}

static struct weir__job *pool_admit(struct weir_pool *p, const struct weir_task *task,
                                    struct weir__pool_waiter *call, struct weir_verdict *v)
{
    struct weir__job *j;

    if (!weir__pool_is_ours(p)) {
        *v = (struct weir_verdict){.reason = WEIR_QUEUE_FULL, .which = -1, .retry_after_ns = -1};
        return NULL;
    }
    (void)pthread_mutex_lock(&p->lock);
    j = pool_admit_locked(p, task, call, v);
    (void)pthread_mutex_unlock(&p->lock);
    return j;
}

int weir_pool_submit(struct weir_pool *p, const struct weir_task *task, struct weir_verdict *v)
{
    struct weir_verdict own;

    if (!task->run)
        return WEIR_EINVAL;
    (void)pool_admit(p, task, NULL, v ? v : &own);
    return 0;
}

/* ---- Waiting ------------------------------------------------------------------------------- */

/* Whether the task has ended; false: the time is over, and the job no longer points to the caller.
 * *cancelled: the task will never run. */
static bool pool_poll_locked(struct weir_pool *p, struct weir__job *j,
                             struct weir__pool_waiter *call, bool give_up, bool *cancelled)
{
    *cancelled = call->at == WEIR__POOL_DROPPED;
    if (call->at != WEIR__POOL_WAITING || !give_up)
        return call->at != WEIR__POOL_WAITING;
    j->call = NULL;
    if (j->runs) {
        p->late++;
        return false;
    }
    weir__pool_remove_locked(p, j);
    weir__pool_free_locked(p, j);
    p->cancelled++;
    *cancelled = true;
    return false;
}

/* Waits for the task. True: it ran, and call->result is set. */
static bool pool_await(struct weir_pool *p, struct weir__job *j, struct weir__pool_waiter *call,
                       int64_t timeout_ns, bool *cancelled)
{
    const int64_t until_ns = weir__add_sat(weir__clock_now(), timeout_ns);

    for (;;) {
        const int64_t left_ns = until_ns - weir__clock_now();
        bool decided;

        (void)pthread_mutex_lock(&p->lock);
        decided = pool_poll_locked(p, j, call, left_ns <= 0, cancelled);
        (void)pthread_mutex_unlock(&p->lock);
        if (decided || left_ns <= 0)
            return call->at == WEIR__POOL_DONE;
        (void)weir__wakeup_wait(&call->wakeup, left_ns); /* a signal does not end the wait */
    }
}

/* The verdict for an accepted task without a result: the pool was stopped, or the time is over. It
 * is never QUEUE_FULL, because that reason says that the pool did not accept the task, and that its
 * argument still belongs to the caller. */
static struct weir_verdict pool_refusal(bool stopped, int64_t limit)
{
    return (struct weir_verdict){
        .reason = WEIR_OVERLOAD, .which = -1, .limit = limit, .retry_after_ns = stopped ? -1 : 0};
}

int weir_pool_call(struct weir_pool *p, const struct weir_task *task, int64_t timeout_ns,
                   void **result, struct weir_verdict *v)
{
    struct weir__pool_waiter call = {.at = WEIR__POOL_WAITING};
    struct weir_verdict own;
    struct weir__job *j;
    bool cancelled = false;
    void *back = NULL;

    if (!task->run || timeout_ns < 0)
        return WEIR_EINVAL;
    j = pool_admit(p, task, &call, &own);
    if (j && pool_await(p, j, &call, timeout_ns, &cancelled)) {
        back = call.result;
    } else {
        if (j)
            own = pool_refusal(call.at == WEIR__POOL_DROPPED, own.limit);
        if (task->fallback)
            back = task->fallback(task->arg, &own);
        if (cancelled && task->cancelled)
            task->cancelled(task->arg);
    }
    if (result)
        *result = back;
    if (v)
        *v = own;
    return 0;
}
