#include "remote/lane.h"

#include <assert.h>
#include <stdlib.h>

#include "remote/crew.h"

static bool is_finished(struct weir__call *c)
{
    return atomic_load_explicit(&c->finished, memory_order_acquire) != 0;
}

int weir__lane_open(struct weir__lane **lane, const struct weir__lane_watch *watch)
{
    struct weir__lane *l = calloc(1, sizeof *l);

    if (!l)
        return WEIR_ENOMEM;
    weir__link_init(&l->link, watch);
    weir__crew_open_kick(l);
    if (l->kick[0] < 0) {
        free(l);
        return WEIR_EIO;
    }
    *lane = l;
    return 0;
}

void weir__lane_close(struct weir__lane *lane)
{
    struct weir__calls over = {0};

    if (!lane)
        return;
    (void)weir__link_fail(&lane->link, "the store is being closed", &over);
    weir__crew_finish(lane, &over, NULL);
    weir__link_clear(&lane->link);
    weir__crew_close_kick(lane);
    free(lane);
}

void weir__lane_forked(struct weir__lane *lane)
{
    weir__link_forked(&lane->link, !lane->driven);
    weir__crew_close_kick(lane); /* to share it with the parent is to hear each other's */
    weir__crew_open_kick(lane);
    lane->driven = lane->telling = lane->kicked = false;
    lane->waiters = NULL;
    lane->settlers = 0;
}

bool weir__lane_submit(struct weir__lane *lane, struct weir__call *const *c, size_t n)
{
    bool room;

    weir__crew_lock(lane);
    room = weir__link_queue_locked(&lane->link, c, n);
    weir__crew_unlock(lane);
    return room;
}

void weir__lane_await(struct weir__lane *lane, struct weir__call *const *c, size_t n)
{
    struct weir__waiter me = {0};
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__crew_lock(lane);
    for (size_t i = 0; i < n; i++) {
        assert(!c[i]->done);
        if (!is_finished(c[i])) {
            c[i]->waiter = &me;
            me.left++;
        }
    }
    if (me.left > 0)
        weir__crew_wait_locked(lane, &me);
    else
        weir__crew_unlock(lane);
    (void)pthread_setcancelstate(state, NULL);
}

void weir__lane_settle(struct weir__lane *lane)
{
    struct weir__waiter me = {.left = 1};
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__crew_lock(lane);
    me.settle = lane->link.turns;
    if (lane->link.calls > 0 || lane->telling) {
        lane->settlers++;
        weir__crew_wait_locked(lane, &me);
    } else {
        weir__crew_unlock(lane);
    }
    (void)pthread_setcancelstate(state, NULL);
}

/* ---- For a loop -------------------------------------------------------------------------------- */

int weir__lane_fd(struct weir__lane *lane)
{
    short events;
    int fd;

    weir__crew_lock(lane);
    fd = weir__link_poll_locked(&lane->link, &events);
    weir__crew_unlock(lane);
    return fd;
}

short weir__lane_events(struct weir__lane *lane)
{
    short events = 0;

    weir__crew_lock(lane);
    (void)weir__link_poll_locked(&lane->link, &events);
    weir__crew_unlock(lane);
    return events;
}

unsigned weir__lane_epoch(struct weir__lane *lane)
{
    unsigned epoch;

    weir__crew_lock(lane);
    epoch = lane->link.epoch;
    weir__crew_unlock(lane);
    return epoch;
}

int64_t weir__lane_deadline(struct weir__lane *lane)
{
    int64_t ns;

    weir__crew_lock(lane);
    ns = weir__link_is_due_locked(&lane->link) ? 0 : lane->link.soonest_ns;
    weir__crew_unlock(lane);
    return ns;
}

void weir__lane_push(struct weir__lane *lane)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__crew_push(lane);
    (void)pthread_setcancelstate(state, NULL);
}

void weir__lane_turn(struct weir__lane *lane)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__crew_turn(lane);
    (void)pthread_setcancelstate(state, NULL);
}
