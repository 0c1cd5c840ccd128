#include "redis/client/leader.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"

#define FOLLOWER_WAIT_NS (WEIR__NS_PER_S)      /* to the bell, at a time */
#define LEADER_POLL_NS   (5 * WEIR__NS_PER_MS) /* of a driver who cannot be kicked */

static void leader_lock(struct weir__pipeline *lane)
{
    weir__pipeline_lock(lane);
}

static void leader_unlock(struct weir__pipeline *lane)
{
    weir__pipeline_unlock(lane);
}

/* ---- The list of those who wait ---------------------------------------------------------------- */

static void waiter_add_locked(struct weir__pipeline *lane, struct weir__pipeline_waiter *w)
{
    w->before = NULL;
    w->next = lane->waiters;
    if (w->next)
        w->next->before = w;
    lane->waiters = w;
}

static void waiter_remove_locked(struct weir__pipeline *lane, struct weir__pipeline_waiter *w)
{
    if (w->before)
        w->before->next = w->next;
    else
        lane->waiters = w->next;
    if (w->next)
        w->next->before = w->before;
}

/* w waits for nothing any more; `me`, who drives, needs no bell. */
static void waiter_release_locked(struct weir__pipeline *lane, struct weir__pipeline_waiter *w,
                                  const struct weir__pipeline_waiter *me,
                                  struct weir__pipeline_waiter **freed)
{
    lane->all_waiters -= w->settle != 0;
    w->left = 0;
    if (w == me)
        return;
    waiter_remove_locked(lane, w);
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

/* Whoever drove does not any more. Returns whom to ring, without the lock, or NULL. */
static struct weir__pipeline_waiter *leader_hand_over_locked(struct weir__pipeline *lane)
{
    struct weir__pipeline_waiter *w = lane->waiters;

    lane->has_leader = w != NULL;
    if (!w)
        return NULL;
    waiter_remove_locked(lane, w);
    w->next = NULL;
    w->leads = true;
    return w;
}

/* ---- To finish calls --------------------------------------------------------------------------- */

static bool any_up_to(const struct weir__commands *list, uint64_t turn)
{
    for (const struct weir__command *c = list->first; c; c = c->next)
        if (c->turn <= turn)
            return true;
    return false;
}

static bool has_all_replies_locked(const struct weir__pipeline *lane,
                                   const struct weir__pipeline_waiter *w)
{
    return w->settle != 0 && !any_up_to(&lane->connection.asked, w->settle) &&
           !any_up_to(&lane->connection.fresh, w->settle);
}

static void release_all_waiters_locked(struct weir__pipeline *lane,
                                       struct weir__pipeline_waiter *me,
                                       struct weir__pipeline_waiter **freed)
{
    struct weir__pipeline_waiter *next;

    if (lane->all_waiters == 0)
        return;
    if (me && has_all_replies_locked(lane, me))
        waiter_release_locked(lane, me, me, freed);
    for (struct weir__pipeline_waiter *w = lane->waiters; w; w = next) {
        next = w->next;
        if (has_all_replies_locked(lane, w))
            waiter_release_locked(lane, w, me, freed);
    }
}

/* What is over is finished, but for those who are to be told: these are left in `over`. */
static void finish_commands_locked(struct weir__pipeline *lane, struct weir__commands *over,
                                   struct weir__pipeline_waiter *me,
                                   struct weir__pipeline_waiter **freed)
{
    struct weir__commands told = {0};
    struct weir__command *c;

    while ((c = weir__commands_pop(over)) != NULL) {
        struct weir__pipeline_waiter *w = c->waiter;

        if (--lane->connection.calls == 0)
            lane->connection.soonest_ns = INT64_MAX;
        lane->connection.bytes -= c->len;
        if (c->done) {
            weir__commands_push(&told, c);
            continue;
        }
        atomic_store_explicit(&c->finished, 1, memory_order_release); /* it may be gone now */
        if (w && --w->left == 0)
            waiter_release_locked(lane, w, me, freed);
    }
    *over = told;
}

static void call_back(struct weir__commands *over)
{
    struct weir__command *c;

    while ((c = weir__commands_pop(over)) != NULL) {
        atomic_store_explicit(&c->finished, 1, memory_order_release);
        c->done(c);
    }
}

void weir__leader_finish(struct weir__pipeline *lane, struct weir__commands *over,
                         struct weir__pipeline_waiter *me)
{
    struct weir__pipeline_waiter *freed = NULL;

    if (!over->first)
        return;
    leader_lock(lane);
    finish_commands_locked(lane, over, me, &freed);
    lane->in_callbacks = over->first != NULL;
    if (lane->in_callbacks) {
        leader_unlock(lane);
        call_back(over);
        leader_lock(lane);
        lane->in_callbacks = false;
    }
    release_all_waiters_locked(lane, me, &freed);
    leader_unlock(lane);
    waiters_wake(freed);
}

/* ---- To drive ---------------------------------------------------------------------------------- */

void weir__leader_wake_open(struct weir__pipeline *lane)
{
    if (pipe2(lane->wake_pipe, O_CLOEXEC | O_NONBLOCK) != 0)
        lane->wake_pipe[0] = lane->wake_pipe[1] = -1;
}

void weir__leader_wake_close(struct weir__pipeline *lane)
{
    if (lane->wake_pipe[0] >= 0) {
        (void)close(lane->wake_pipe[0]);
        (void)close(lane->wake_pipe[1]);
    }
}

/* What the driver does not know, if it polls. */
static void leader_wake_locked(struct weir__pipeline *lane)
{
    const struct weir__connection *l = &lane->connection;

    if (l->soonest_ns < lane->until_ns || (l->rest && !(lane->events & POLLOUT)) ||
        weir__connection_state(l) == WEIR__CONNECTION_BROKEN)
        lane->woken = lane->woken || write(lane->wake_pipe[1], "", 1) == 1;
}

static void leader_clear_wake(struct weir__pipeline *lane)
{
    char bytes[8];

    leader_lock(lane);
    (void)!read(lane->wake_pipe[0], bytes, sizeof bytes);
    lane->woken = false;
    leader_unlock(lane);
}

/* Until the link can go on, or the soonest deadline. */
static void leader_poll(struct weir__pipeline *lane)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.fd = lane->wake_pipe[0], .events = POLLIN}};
    struct timespec left;
    int64_t ns;

    leader_lock(lane);
    p[0].fd = weir__connection_poll_locked(&lane->connection, &p[0].events);
    ns = lane->connection.soonest_ns;
    lane->until_ns = ns;
    lane->events = p[0].events;
    leader_unlock(lane);
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
        leader_clear_wake(lane);
}

static void leader_advance(struct weir__pipeline *lane, struct weir__pipeline_waiter *me)
{
    struct weir__commands over = {0};

    weir__connection_step(&lane->connection, &over);
    weir__leader_finish(lane, &over, me);
}

static void leader_resign(struct weir__pipeline *lane)
{
    struct weir__pipeline_waiter *next;

    leader_lock(lane);
    next = leader_hand_over_locked(lane);
    leader_unlock(lane);
    waiters_wake(next);
}

static void leader_run(struct weir__pipeline *lane, struct weir__pipeline_waiter *me)
{
    weir__connection_send(&lane->connection);
    while (me->left > 0) {
        leader_poll(lane);
        leader_advance(lane, me);
    }
    leader_resign(lane);
}

/* Joins those who wait, sends what is queued, and listens. The lock is held, and dropped. */
static void follower_wait_locked(struct weir__pipeline *lane, struct weir__pipeline_waiter *me)
{
    waiter_add_locked(lane, me);
    weir__connection_flush_locked(&lane->connection);
    leader_wake_locked(lane);
    leader_unlock(lane);
    while (!weir__wakeup_peek(&me->wakeup, FOLLOWER_WAIT_NS))
        continue;
    if (me->leads)
        leader_run(lane, me);
}

void weir__leader_wait_locked(struct weir__pipeline *lane, struct weir__pipeline_waiter *me)
{
    if (lane->has_leader) {
        follower_wait_locked(lane, me);
        return;
    }
    lane->has_leader = true;
    leader_unlock(lane);
    leader_run(lane, me);
}

/* Whether the caller drives from now on. */
static bool becomes_leader(struct weir__pipeline *lane)
{
    bool begins;

    leader_lock(lane);
    begins = !lane->has_leader;
    lane->has_leader = true;
    leader_unlock(lane);
    return begins;
}

void weir__leader_flush(struct weir__pipeline *lane)
{
    if (!becomes_leader(lane))
        return;
    weir__connection_send(&lane->connection);
    leader_resign(lane);
}

void weir__leader_step(struct weir__pipeline *lane)
{
    if (!becomes_leader(lane))
        return;
    weir__connection_send(&lane->connection);
    leader_advance(lane, NULL);
    leader_resign(lane);
}
