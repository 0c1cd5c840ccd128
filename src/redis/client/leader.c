#include "remote/crew.h"

#include <fcntl.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "engine/clock.h"

#define LISTEN_NS (WEIR__NS_PER_S)      /* to the bell, at a time */
#define LOOK_NS   (5 * WEIR__NS_PER_MS) /* of a driver who cannot be kicked */

static void lock(struct weir__lane *lane)
{
    weir__crew_lock(lane);
}

static void unlock(struct weir__lane *lane)
{
    weir__crew_unlock(lane);
}

/* ---- The list of those who wait ---------------------------------------------------------------- */

static void join_locked(struct weir__lane *lane, struct weir__waiter *w)
{
    w->before = NULL;
    w->next = lane->waiters;
    if (w->next)
        w->next->before = w;
    lane->waiters = w;
}

static void leave_locked(struct weir__lane *lane, struct weir__waiter *w)
{
    if (w->before)
        w->before->next = w->next;
    else
        lane->waiters = w->next;
    if (w->next)
        w->next->before = w->before;
}

/* w waits for nothing any more; `me`, who drives, needs no bell. */
static void free_locked(struct weir__lane *lane, struct weir__waiter *w,
                        const struct weir__waiter *me, struct weir__waiter **freed)
{
    lane->settlers -= w->settle != 0;
    w->left = 0;
    if (w == me)
        return;
    leave_locked(lane, w);
    w->next = *freed;
    *freed = w;
}

static void ring_all(struct weir__waiter *w)
{
    while (w) {
        struct weir__waiter *next = w->next;

        weir__bell_ring(&w->bell);
        w = next;
    }
}

/* Whoever drove does not any more. Returns whom to ring, without the lock, or NULL. */
static struct weir__waiter *hand_on_locked(struct weir__lane *lane)
{
    struct weir__waiter *w = lane->waiters;

    lane->driven = w != NULL;
    if (!w)
        return NULL;
    leave_locked(lane, w);
    w->next = NULL;
    w->drives = true;
    return w;
}

/* ---- To finish calls --------------------------------------------------------------------------- */

static bool any_until(const struct weir__calls *list, uint64_t turn)
{
    for (const struct weir__call *c = list->first; c; c = c->next)
        if (c->turn <= turn)
            return true;
    return false;
}

static bool is_settled_locked(const struct weir__lane *lane, const struct weir__waiter *w)
{
    return w->settle != 0 && !any_until(&lane->link.asked, w->settle) &&
           !any_until(&lane->link.fresh, w->settle);
}

static void settle_locked(struct weir__lane *lane, struct weir__waiter *me,
                          struct weir__waiter **freed)
{
    struct weir__waiter *next;

    if (lane->settlers == 0)
        return;
    if (me && is_settled_locked(lane, me))
        free_locked(lane, me, me, freed);
    for (struct weir__waiter *w = lane->waiters; w; w = next) {
        next = w->next;
        if (is_settled_locked(lane, w))
            free_locked(lane, w, me, freed);
    }
}

/* What is over is finished, but for those who are to be told: these are left in `over`. */
static void finish_locked(struct weir__lane *lane, struct weir__calls *over,
                          struct weir__waiter *me, struct weir__waiter **freed)
{
    struct weir__calls told = {0};
    struct weir__call *c;

    while ((c = weir__calls_pop(over)) != NULL) {
        struct weir__waiter *w = c->waiter;

        if (--lane->link.calls == 0)
            lane->link.soonest_ns = INT64_MAX;
        lane->link.bytes -= c->len;
        if (c->done) {
            weir__calls_push(&told, c);
            continue;
        }
        atomic_store_explicit(&c->finished, 1, memory_order_release); /* it may be gone now */
        if (w && --w->left == 0)
            free_locked(lane, w, me, freed);
    }
    *over = told;
}

static void tell(struct weir__calls *over)
{
    struct weir__call *c;

    while ((c = weir__calls_pop(over)) != NULL) {
        atomic_store_explicit(&c->finished, 1, memory_order_release);
        c->done(c);
    }
}

void weir__crew_finish(struct weir__lane *lane, struct weir__calls *over, struct weir__waiter *me)
{
    struct weir__waiter *freed = NULL;

    if (!over->first)
        return;
    lock(lane);
    finish_locked(lane, over, me, &freed);
    lane->telling = over->first != NULL;
    if (lane->telling) {
        unlock(lane);
        tell(over);
        lock(lane);
        lane->telling = false;
    }
    settle_locked(lane, me, &freed);
    unlock(lane);
    ring_all(freed);
}

/* ---- To drive ---------------------------------------------------------------------------------- */

void weir__crew_open_kick(struct weir__lane *lane)
{
    if (pipe2(lane->kick, O_CLOEXEC | O_NONBLOCK) != 0)
        lane->kick[0] = lane->kick[1] = -1;
}

void weir__crew_close_kick(struct weir__lane *lane)
{
    if (lane->kick[0] >= 0) {
        (void)close(lane->kick[0]);
        (void)close(lane->kick[1]);
    }
}

/* What the driver does not know, if it polls. */
static void kick_locked(struct weir__lane *lane)
{
    const struct weir__link *l = &lane->link;

    if (l->soonest_ns < lane->until_ns || (l->rest && !(lane->events & POLLOUT)) ||
        weir__link_state(l) == WEIR__LINK_BROKEN)
        lane->kicked = lane->kicked || write(lane->kick[1], "", 1) == 1;
}

static void heed_kick(struct weir__lane *lane)
{
    char bytes[8];

    lock(lane);
    (void)!read(lane->kick[0], bytes, sizeof bytes);
    lane->kicked = false;
    unlock(lane);
}

/* Until the link can go on, or the soonest deadline. */
static void pause_driving(struct weir__lane *lane)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.fd = lane->kick[0], .events = POLLIN}};
    struct timespec left;
    int64_t ns;

    lock(lane);
    p[0].fd = weir__link_poll_locked(&lane->link, &p[0].events);
    ns = lane->link.soonest_ns;
    lane->until_ns = ns;
    lane->events = p[0].events;
    unlock(lane);
    if (p[0].fd < 0)
        return;
    ns -= weir__clock_now();
    if (p[1].fd < 0)
        ns = weir__min(ns, LOOK_NS);
    if (ns <= 0)
        return;
    left = (struct timespec){.tv_sec = (time_t)(ns / WEIR__NS_PER_S),
                             .tv_nsec = (long)(ns % WEIR__NS_PER_S)};
    if (ppoll(p, 2, &left, NULL) > 0 && p[1].revents != 0)
        heed_kick(lane);
}

static void go_on(struct weir__lane *lane, struct weir__waiter *me)
{
    struct weir__calls over = {0};

    weir__link_step(&lane->link, &over);
    weir__crew_finish(lane, &over, me);
}

static void stop_driving(struct weir__lane *lane)
{
    struct weir__waiter *next;

    lock(lane);
    next = hand_on_locked(lane);
    unlock(lane);
    ring_all(next);
}

static void drive(struct weir__lane *lane, struct weir__waiter *me)
{
    weir__link_send(&lane->link);
    while (me->left > 0) {
        pause_driving(lane);
        go_on(lane, me);
    }
    stop_driving(lane);
}

/* Joins those who wait, sends what is queued, and listens. The lock is held, and dropped. */
static void follow_locked(struct weir__lane *lane, struct weir__waiter *me)
{
    join_locked(lane, me);
    weir__link_flush_locked(&lane->link);
    kick_locked(lane);
    unlock(lane);
    while (!weir__bell_heard(&me->bell, LISTEN_NS))
        continue;
    if (me->drives)
        drive(lane, me);
}

void weir__crew_wait_locked(struct weir__lane *lane, struct weir__waiter *me)
{
    if (lane->driven) {
        follow_locked(lane, me);
        return;
    }
    lane->driven = true;
    unlock(lane);
    drive(lane, me);
}

/* Whether the caller drives from now on. */
static bool begins_to_drive(struct weir__lane *lane)
{
    bool begins;

    lock(lane);
    begins = !lane->driven;
    lane->driven = true;
    unlock(lane);
    return begins;
}

void weir__crew_push(struct weir__lane *lane)
{
    if (!begins_to_drive(lane))
        return;
    weir__link_send(&lane->link);
    stop_driving(lane);
}

void weir__crew_turn(struct weir__lane *lane)
{
    if (!begins_to_drive(lane))
        return;
    weir__link_send(&lane->link);
    go_on(lane, NULL);
    stop_driving(lane);
}
