/* Leader and followers of a pipeline: waiting, leading, and handing over. The idea is in
 * leader.h. */
#include "redis/client/leader.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"

#define FOLLOWER_WAIT_NS (WEIR__NS_PER_S)      /* one sleep of a follower */
#define LEADER_POLL_NS   (5 * WEIR__NS_PER_MS) /* for a leader without a wake pipe */

static void leader_lock(struct weir__pipeline *pipeline)
{
    weir__pipeline_lock(pipeline);
}

static void leader_unlock(struct weir__pipeline *pipeline)
{
    weir__pipeline_unlock(pipeline);
}

/* ---- The list of followers ------------------------------------------------------------------- */

static void waiter_add_locked(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *w)
{
    w->before = NULL;
    w->next = pipeline->waiters;
    if (w->next)
        w->next->before = w;
    pipeline->waiters = w;
}

static void waiter_remove_locked(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *w)
{
    if (w->before)
        w->before->next = w->next;
    else
        pipeline->waiters = w->next;
    if (w->next)
        w->next->before = w->before;
}

/* w waits for nothing any more. `me`, the leader, needs no wakeup. */
static void waiter_release_locked(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *w,
                                  const struct weir__pipeline_waiter *me,
                                  struct weir__pipeline_waiter **freed)
{
    pipeline->all_waiters -= w->up_to != 0;
    w->left = 0;
    if (w == me)
        return;
    waiter_remove_locked(pipeline, w);
    w->next = *freed;
    *freed = w;
}

static void waiters_wake(struct weir__pipeline_waiter *w)
{
    while (w) {
        struct weir__pipeline_waiter *next = w->next;

        weir__wakeup_signal(&w->wakeup);
        w = next;
    }
}

/* The leader stops leading. Returns the follower to wake, without the lock, as the next leader;
 * or NULL. */
static struct weir__pipeline_waiter *leader_hand_over_locked(struct weir__pipeline *pipeline)
{
    struct weir__pipeline_waiter *w = pipeline->waiters;

    pipeline->has_leader = w != NULL;
    if (!w)
        return NULL;
    waiter_remove_locked(pipeline, w);
    w->next = NULL;
    w->leads = true;
    return w;
}

/* ---- Finish commands ------------------------------------------------------------------------- */

static bool any_up_to(const struct weir__commands *list, uint64_t sequence)
{
    for (const struct weir__command *c = list->first; c; c = c->next)
        if (c->sequence <= sequence)
            return true;
    return false;
}

static bool has_all_replies_locked(const struct weir__pipeline *pipeline,
                                   const struct weir__pipeline_waiter *w)
{
    return w->up_to != 0 && !any_up_to(&pipeline->connection.awaiting, w->up_to) &&
           !any_up_to(&pipeline->connection.queued, w->up_to);
}

static void release_all_waiters_locked(struct weir__pipeline *pipeline,
                                       struct weir__pipeline_waiter *me,
                                       struct weir__pipeline_waiter **freed)
{
    struct weir__pipeline_waiter *next;

    if (pipeline->all_waiters == 0)
        return;
    if (me && has_all_replies_locked(pipeline, me))
        waiter_release_locked(pipeline, me, me, freed);
    for (struct weir__pipeline_waiter *w = pipeline->waiters; w; w = next) {
        next = w->next;
        if (has_all_replies_locked(pipeline, w))
            waiter_release_locked(pipeline, w, me, freed);
    }
}

/* Finishes the commands in `over`, except those with a `done` to call: these stay in `over`. */
static void finish_commands_locked(struct weir__pipeline *pipeline, struct weir__commands *over,
                                   struct weir__pipeline_waiter *me,
                                   struct weir__pipeline_waiter **freed)
{
    struct weir__commands callbacks = {0};
    struct weir__command *c;

    while ((c = weir__commands_pop(over)) != NULL) {
        struct weir__pipeline_waiter *w = c->waiter;

        if (--pipeline->connection.commands == 0)
            pipeline->connection.soonest_ns = INT64_MAX;
        pipeline->connection.bytes -= c->len;
        if (c->done) {
            weir__commands_push(&callbacks, c);
            continue;
        }
        atomic_store_explicit(&c->finished, 1, memory_order_release); /* the caller may free it
                                                                       * now */
        if (w && --w->left == 0)
            waiter_release_locked(pipeline, w, me, freed);
    }
    *over = callbacks;
}

static void call_back(struct weir__commands *over)
{
    struct weir__command *c;

    while ((c = weir__commands_pop(over)) != NULL) {
        atomic_store_explicit(&c->finished, 1, memory_order_release);
        c->done(c);
    }
}

void weir__leader_finish(struct weir__pipeline *pipeline, struct weir__commands *over,
                         struct weir__pipeline_waiter *me)
{
    struct weir__pipeline_waiter *freed = NULL;

    if (!over->first)
        return;
    leader_lock(pipeline);
    finish_commands_locked(pipeline, over, me, &freed);
    pipeline->in_callbacks = over->first != NULL;
    if (pipeline->in_callbacks) {
        leader_unlock(pipeline);
        call_back(over);
        leader_lock(pipeline);
        pipeline->in_callbacks = false;
    }
    release_all_waiters_locked(pipeline, me, &freed);
    leader_unlock(pipeline);
    waiters_wake(freed);
}

/* ---- Lead ------------------------------------------------------------------------------------ */

void weir__leader_wake_open(struct weir__pipeline *pipeline)
{
    if (pipe2(pipeline->wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        pipeline->wake_pipe[0] = pipeline->wake_pipe[1] = -1;
}

void weir__leader_wake_close(struct weir__pipeline *pipeline)
{
    if (pipeline->wake_pipe[0] >= 0) {
        (void)close(pipeline->wake_pipe[0]);
        (void)close(pipeline->wake_pipe[1]);
    }
}

/* Wakes the leader if it polls for the wrong events or for too long. */
static void leader_wake_locked(struct weir__pipeline *pipeline)
{
    const struct weir__connection *conn = &pipeline->connection;

    if (conn->soonest_ns < pipeline->until_ns || (conn->rest && !(pipeline->events & POLLOUT)) ||
        weir__connection_state(conn) == WEIR__CONNECTION_BROKEN)
        pipeline->woken = pipeline->woken || write(pipeline->wake_pipe[1], "", 1) == 1;
}

static void leader_clear_wake(struct weir__pipeline *pipeline)
{
    char bytes[8];

    leader_lock(pipeline);
    (void)!read(pipeline->wake_pipe[0], bytes, sizeof bytes);
    pipeline->woken = false;
    leader_unlock(pipeline);
}

/* Polls until the connection is ready, or the soonest deadline. */
static void leader_poll(struct weir__pipeline *pipeline)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.fd = pipeline->wake_pipe[0], .events = POLLIN}};
    struct timespec left;
    int64_t ns;

    leader_lock(pipeline);
    p[0].fd = weir__connection_poll_locked(&pipeline->connection, &p[0].events);
    ns = pipeline->connection.soonest_ns;
    pipeline->until_ns = ns;
    pipeline->events = p[0].events;
    leader_unlock(pipeline);
    if (p[0].fd < 0)
        return;
    ns -= weir__clock_now();
    if (p[1].fd < 0)
        ns = weir__min(ns, LEADER_POLL_NS);
    if (ns <= 0)
        return;
    left = (struct timespec){.tv_sec = (time_t)(ns / WEIR__NS_PER_S),
                             .tv_nsec = (long)(ns % WEIR__NS_PER_S)};
    if (ppoll(p, 2, &left, NULL) > 0 && p[1].revents != 0)
        leader_clear_wake(pipeline);
}

static void leader_advance(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *me)
{
    struct weir__commands over = {0};

    weir__connection_step(&pipeline->connection, &over);
    weir__leader_finish(pipeline, &over, me);
}

static void leader_resign(struct weir__pipeline *pipeline)
{
    struct weir__pipeline_waiter *next;

    leader_lock(pipeline);
    next = leader_hand_over_locked(pipeline);
    leader_unlock(pipeline);
    waiters_wake(next);
}

static void leader_run(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *me)
{
    weir__connection_send(&pipeline->connection);
    while (me->left > 0) {
        leader_poll(pipeline);
        leader_advance(pipeline, me);
    }
    leader_resign(pipeline);
}

/* Joins the followers, sends what is queued, and sleeps until woken. The caller holds the lock;
 * it is dropped. */
static void follower_wait_locked(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *me)
{
    waiter_add_locked(pipeline, me);
    weir__connection_flush_locked(&pipeline->connection);
    leader_wake_locked(pipeline);
    leader_unlock(pipeline);
    while (!weir__wakeup_peek(&me->wakeup, FOLLOWER_WAIT_NS))
        continue;
    if (me->leads)
        leader_run(pipeline, me);
}

void weir__leader_wait_locked(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *me)
{
    if (pipeline->has_leader) {
        follower_wait_locked(pipeline, me);
        return;
    }
    pipeline->has_leader = true;
    leader_unlock(pipeline);
    leader_run(pipeline, me);
}

/* Whether the caller leads from now on. */
static bool becomes_leader(struct weir__pipeline *pipeline)
{
    bool begins;

    leader_lock(pipeline);
    begins = !pipeline->has_leader;
    pipeline->has_leader = true;
    leader_unlock(pipeline);
    return begins;
}

void weir__leader_flush(struct weir__pipeline *pipeline)
{
    if (!becomes_leader(pipeline))
        return;
    weir__connection_send(&pipeline->connection);
    leader_resign(pipeline);
}

void weir__leader_step(struct weir__pipeline *pipeline)
{
    if (!becomes_leader(pipeline))
        return;
    weir__connection_send(&pipeline->connection);
    leader_advance(pipeline, NULL);
    leader_resign(pipeline);
}
