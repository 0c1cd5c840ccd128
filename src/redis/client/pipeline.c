#include "redis/client/pipeline.h"

#include <assert.h>
#include <stdlib.h>

#include "redis/client/leader.h"

static bool command_is_finished(struct weir__command *c)
{
    return atomic_load_explicit(&c->finished, memory_order_acquire) != 0;
}

int weir__pipeline_open(struct weir__pipeline **lane, const struct weir__pipeline_watch *watch)
{
    struct weir__pipeline *l = calloc(1, sizeof *l);

    if (!l)
        return WEIR_ENOMEM;
    weir__connection_init(&l->connection, watch);
    weir__leader_wake_open(l);
    if (l->wake_pipe[0] < 0) {
        free(l);
        return WEIR_EIO;
    }
    *lane = l;
    return 0;
}

void weir__pipeline_close(struct weir__pipeline *lane)
{
    struct weir__commands over = {0};

    if (!lane)
        return;
    (void)weir__connection_fail(&lane->connection, "the store is being closed", &over);
    weir__leader_finish(lane, &over, NULL);
    weir__connection_clear(&lane->connection);
    weir__leader_wake_close(lane);
    free(lane);
}

void weir__pipeline_forked(struct weir__pipeline *lane)
{
    weir__connection_forked(&lane->connection, !lane->has_leader);
    weir__leader_wake_close(lane); /* to share it with the parent is to hear each other's */
    weir__leader_wake_open(lane);
    lane->has_leader = lane->in_callbacks = lane->woken = false;
    lane->waiters = NULL;
    lane->all_waiters = 0;
}

bool weir__pipeline_submit(struct weir__pipeline *lane, struct weir__command *const *c, size_t n)
{
    bool room;

    weir__pipeline_lock(lane);
    room = weir__connection_queue_locked(&lane->connection, c, n);
    weir__pipeline_unlock(lane);
    return room;
}

void weir__pipeline_await(struct weir__pipeline *lane, struct weir__command *const *c, size_t n)
{
    struct weir__pipeline_waiter me = {0};
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__pipeline_lock(lane);
    for (size_t i = 0; i < n; i++) {
        assert(!c[i]->done);
        if (!command_is_finished(c[i])) {
            c[i]->waiter = &me;
            me.left++;
        }
    }
    if (me.left > 0)
        weir__leader_wait_locked(lane, &me);
    else
        weir__pipeline_unlock(lane);
    (void)pthread_setcancelstate(state, NULL);
}

void weir__pipeline_await_all(struct weir__pipeline *lane)
{
    struct weir__pipeline_waiter me = {.left = 1};
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__pipeline_lock(lane);
    me.settle = lane->connection.turns;
    if (lane->connection.calls > 0 || lane->in_callbacks) {
        lane->all_waiters++;
        weir__leader_wait_locked(lane, &me);
    } else {
        weir__pipeline_unlock(lane);
    }
    (void)pthread_setcancelstate(state, NULL);
}

/* ---- For a loop -------------------------------------------------------------------------------- */

int weir__pipeline_fd(struct weir__pipeline *lane)
{
    short events;
    int fd;

    weir__pipeline_lock(lane);
    fd = weir__connection_poll_locked(&lane->connection, &events);
    weir__pipeline_unlock(lane);
    return fd;
}

short weir__pipeline_events(struct weir__pipeline *lane)
{
    short events = 0;

    weir__pipeline_lock(lane);
    (void)weir__connection_poll_locked(&lane->connection, &events);
    weir__pipeline_unlock(lane);
    return events;
}

unsigned weir__pipeline_epoch(struct weir__pipeline *lane)
{
    unsigned epoch;

    weir__pipeline_lock(lane);
    epoch = lane->connection.epoch;
    weir__pipeline_unlock(lane);
    return epoch;
}

int64_t weir__pipeline_deadline(struct weir__pipeline *lane)
{
    int64_t ns;

    weir__pipeline_lock(lane);
    ns = weir__connection_is_due_locked(&lane->connection) ? 0 : lane->connection.soonest_ns;
    weir__pipeline_unlock(lane);
    return ns;
}

void weir__pipeline_flush(struct weir__pipeline *lane)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__leader_flush(lane);
    (void)pthread_setcancelstate(state, NULL);
}

void weir__pipeline_step(struct weir__pipeline *lane)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__leader_step(lane);
    (void)pthread_setcancelstate(state, NULL);
}
