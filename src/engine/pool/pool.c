/* A pool: worker threads behind a bounded queue. The idea is in pool.h. */
#include "engine/pool/pool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/num.h"
#include "os/clock.h"
#include "os/diag.h"

#define THREADS_MOST 4096
#define QUEUE_MOST   (INT64_C(1) << 24)

/* ---- The lists ----------------------------------------------------------------------------- */

void weir__pool_append_locked(struct weir_pool *p, struct weir__job *j)
{
    j->next = NULL;
    j->before = p->last;
    if (p->last)
        p->last->next = j;
    else
        p->first = j;
    p->last = j;
    p->queued++;
}

void weir__pool_remove_locked(struct weir_pool *p, struct weir__job *j)
{
    if (j->before)
        j->before->next = j->next;
    else
        p->first = j->next;
    if (j->next)
        j->next->before = j->before;
    else
        p->last = j->before;
    p->queued--;
}

void weir__pool_free_locked(struct weir_pool *p, struct weir__job *j)
{
    j->next = p->free;
    p->free = j;
    (void)pthread_cond_broadcast(&p->drained);
}

/* ---- Turns --------------------------------------------------------------------------------- */

static struct timespec pool_deadline(int64_t ns)
{
    struct timespec t = {0};

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    ns += t.tv_nsec;
    t.tv_sec += (time_t)(ns / WEIR__NS_PER_S);
    t.tv_nsec = (long)(ns % WEIR__NS_PER_S);
    return t;
}

/* Waits until the next turn of the pace, or the end of the pool. */
static void pool_await_pace_locked(struct weir_pool *p)
{
    struct weir_verdict v = {0};
    int64_t due_ns = weir__clock_now();

    if (weir_limiter_take_at(p->pace, 1, WEIR_FOREVER, due_ns, &v) == 0)
        due_ns += v.wait_ns;
    p->pacing++;
    while (!p->shut || p->queued > 0) {
        const int64_t left_ns = due_ns - weir__clock_now();
        struct timespec until;

        if (left_ns <= 0)
            break;
        until = pool_deadline(left_ns);
        (void)pthread_cond_timedwait(&p->pace_over, &p->lock, &until);
    }
    p->pacing--;
}

/* ---- Workers ------------------------------------------------------------------------------- */

/* The next task; NULL when the pool ends. */
static struct weir__job *next_job_locked(struct weir_pool *p)
{
    for (;;) {
        struct weir__job *j;

        while (p->queued <= p->pacing && !p->ended)
            (void)pthread_cond_wait(&p->work, &p->lock);
        if (p->ended)
            return NULL;
        if (p->pace)
            pool_await_pace_locked(p);
        j = p->first;
        if (j) {
            weir__pool_remove_locked(p, j);
            return j;
        }
    }
}

/* Gives the result to the caller that waits for it. */
static void job_deliver_locked(struct weir_pool *p, struct weir__job *j, void *result)
{
    void (*const discard)(void *) = j->task.discard;

    if (j->call) {
        j->call->result = result;
        j->call->at = WEIR__POOL_DONE;
        weir__wakeup_signal(&j->call->wakeup); /* under the lock: its caller still waits */
        return;
    }
    if (!discard)
        return;
    (void)pthread_mutex_unlock(&p->lock);
    discard(result);
    (void)pthread_mutex_lock(&p->lock);
}

static void job_run_locked(struct weir_pool *p, struct weir__job *j)
{
    const struct weir_task task = j->task;
    void *result;

    j->runs = true;
    p->running++;
    (void)pthread_mutex_unlock(&p->lock);
    result = task.run(task.arg);
    (void)pthread_mutex_lock(&p->lock);
    job_deliver_locked(p, j, result);
    p->ran++;
    p->running--;
    weir__pool_free_locked(p, j);
}

static void *pool_work(void *arg)
{
    struct weir_pool *p = arg;
    struct weir__job *j;

    (void)pthread_mutex_lock(&p->lock);
    while ((j = next_job_locked(p)))
        job_run_locked(p, j);
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* ---- Drain and stop ------------------------------------------------------------------------ */

/* Locks the pool and disables cancellation: a thread that is cancelled while it waits for the pool
 * would keep the lock for ever. */
static int lock_uncancelled(struct weir_pool *p)
{
    int cancelable;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    (void)pthread_mutex_lock(&p->lock);
    return cancelable;
}

static void unlock_cancelled(struct weir_pool *p, int cancelable)
{
    (void)pthread_mutex_unlock(&p->lock);
    (void)pthread_setcancelstate(cancelable, NULL);
}

static void pool_shut_locked(struct weir_pool *p)
{
    p->shut = true;
    (void)pthread_cond_broadcast(&p->pace_over);
}

size_t weir_pool_drain(struct weir_pool *p, int64_t timeout_ns)
{
    const struct timespec until =
        pool_deadline(weir__max(0, weir__min(timeout_ns, WEIR__SPAN_MAX)));
    int error = 0, cancelable;
    size_t left;

    if (!weir__pool_is_ours(p))
        return 0;
    cancelable = lock_uncancelled(p);
    pool_shut_locked(p);
    while (p->queued + p->running > 0 && error == 0)
        error = timeout_ns == WEIR_FOREVER ? pthread_cond_wait(&p->drained, &p->lock)
                                           : pthread_cond_timedwait(&p->drained, &p->lock, &until);
    left = p->queued + p->running;
    unlock_cancelled(p, cancelable);
    return left;
}

/* If a caller waits for the task, that caller calls `cancelled` (pool_call.c). */
static void job_cancel_locked(struct weir_pool *p, struct weir__job *j)
{
    const struct weir_task task = j->task;
    const bool waited_for = j->call != NULL;

    weir__pool_remove_locked(p, j);
    p->cancelled++;
    if (waited_for) {
        j->call->at = WEIR__POOL_DROPPED;
        weir__wakeup_signal(&j->call->wakeup);
    }
    weir__pool_free_locked(p, j);
    if (waited_for || !task.cancelled)
        return;
    (void)pthread_mutex_unlock(&p->lock);
    task.cancelled(task.arg);
    (void)pthread_mutex_lock(&p->lock);
}

size_t weir_pool_stop(struct weir_pool *p)
{
    size_t dropped = 0;
    int cancelable;

    if (!weir__pool_is_ours(p))
        return 0;
    cancelable = lock_uncancelled(p);
    p->shut = true;
    for (; p->first; dropped++)
        job_cancel_locked(p, p->first);
    pool_shut_locked(p);
    while (p->running > 0)
        (void)pthread_cond_wait(&p->drained, &p->lock);
    unlock_cancelled(p, cancelable);
    return dropped;
}

/* ---- Open and close ------------------------------------------------------------------------ */

/* The pool's own queue is the bound: the pacer gets no bound on its queue or on its waits. */
static int open_pace(struct weir_pool *p, const char *text, struct weir_diag *why)
{
    char canonical[WEIR_LIMIT_TEXT_MAX];
    struct weir_limit limit;
    const int error = weir_limit_parse(&limit, text, why);

    if (error)
        return error;
    if (limit.n != 1 || limit.term[0].algorithm != WEIR_PACER)
        return weir__diag(why, WEIR_EINVAL, "the pace of a pool is '%.60s'; expected a pacer",
                          text);
    limit.term[0].queue = THREADS_MOST;
    limit.term[0].max_wait_ns = WEIR_FOREVER;
    (void)weir_limit_print(&limit, canonical, sizeof canonical);
    return weir_limiter_open(&p->pace, canonical, why);
}

static int pool_check_options(const struct weir_pool_options *o, struct weir_diag *why)
{
    if (o->threads < 0 || o->threads > THREADS_MOST)
        return weir__diag(why, WEIR_EINVAL, "a pool of %d threads; expected 1..%d", o->threads,
                          THREADS_MOST);
    if (o->queue < WEIR_NONE || o->queue > QUEUE_MOST)
        return weir__diag(why, WEIR_EINVAL, "a queue of %lld; expected at most %lld",
                          (long long)o->queue, (long long)QUEUE_MOST);
    return 0;
}

static size_t threads_of(const struct weir_pool_options *o)
{
    const long processors = sysconf(_SC_NPROCESSORS_ONLN);

    if (o->threads > 0)
        return (size_t)o->threads;
    return processors > 0 ? (size_t)weir__min(processors, THREADS_MOST) : 1;
}

static size_t pool_queue_of(const struct weir_pool_options *o)
{
    if (o->queue == WEIR_NONE)
        return 0;
    return o->queue == 0 ? WEIR_POOL_QUEUE_DEFAULT : (size_t)o->queue;
}

static void pool_locks_init(struct weir_pool *p)
{
    pthread_condattr_t monotonic;

    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_condattr_init(&monotonic);
    (void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&p->work, NULL);
    (void)pthread_cond_init(&p->pace_over, &monotonic);
    (void)pthread_cond_init(&p->drained, &monotonic);
    (void)pthread_condattr_destroy(&monotonic);
}

static int pool_start(struct weir_pool *p, struct weir_diag *why)
{
    for (; p->started < p->threads; p->started++) {
        const int error = pthread_create(&p->thread[p->started], NULL, pool_work, p);

        if (error) {
            errno = error;
            return weir__diag_errno(why, WEIR_EIO, "cannot start thread %zu of %zu", p->started + 1,
                                    p->threads);
        }
    }
    return 0;
}

int weir_pool_open(struct weir_pool **out, const struct weir_pool_options *options,
                   struct weir_diag *why)
{
    const struct weir_pool_options o = options ? *options : (struct weir_pool_options){0};
    int error = pool_check_options(&o, why);
    struct weir_pool *p;

    if (error)
        return error;
    weir__fork_prepare();
    p = calloc(1, sizeof *p);
    if (!p)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    pool_locks_init(p);
    p->generation = weir__owner_process.number;
    p->threads = threads_of(&o);
    p->places = p->threads + pool_queue_of(&o);
    p->thread = calloc(p->threads, sizeof *p->thread);
    p->job = calloc(p->places, sizeof *p->job);
    if (!p->thread || !p->job)
        error = weir__diag(why, WEIR_ENOMEM, "out of memory for %zu tasks", p->places);
    for (size_t i = 0; !error && i < p->places; i++)
        weir__pool_free_locked(p, &p->job[i]);
    if (!error && o.pace)
        error = open_pace(p, o.pace, why);
    if (!error)
        error = pool_start(p, why);
    if (error) {
        weir_pool_close(p);
        return error;
    }
    *out = p;
    return 0;
}

static void pool_end_workers(struct weir_pool *p)
{
    (void)weir_pool_stop(p);
    (void)pthread_mutex_lock(&p->lock);
    p->ended = true;
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_cond_broadcast(&p->pace_over);
    (void)pthread_mutex_unlock(&p->lock);
    for (size_t i = 0; i < p->started; i++)
        (void)pthread_join(p->thread[i], NULL);
    (void)pthread_cond_destroy(&p->work);
    (void)pthread_cond_destroy(&p->pace_over);
    (void)pthread_cond_destroy(&p->drained);
    (void)pthread_mutex_destroy(&p->lock);
}

void weir_pool_close(struct weir_pool *p)
{
    if (!p)
        return;
    if (weir__pool_is_ours(p))
        pool_end_workers(p);
    weir_limiter_close(p->pace);
    free(p->thread);
    free(p->job);
    free(p);
}

void weir_pool_stats(struct weir_pool *p, struct weir_pool_stats *stats)
{
    *stats = (struct weir_pool_stats){.threads = p->threads, .queue = p->places - p->threads};
    if (!weir__pool_is_ours(p))
        return;
    (void)pthread_mutex_lock(&p->lock);
    stats->queued = p->queued;
    stats->running = p->running;
    stats->submitted = p->submitted;
    stats->refused = p->refused;
    stats->ran = p->ran;
    stats->cancelled = p->cancelled;
    stats->late = p->late;
    (void)pthread_mutex_unlock(&p->lock);
}
