/* A pipeline's interface: opens and closes, submits and awaits commands, steps for an event
 * loop. */
#include "redis/client/pipeline.h"

#include <assert.h>
#include <stdlib.h>

#include "redis/client/leader.h"

static bool command_is_finished(struct weir__command *c)
{
    return atomic_load_explicit(&c->finished, memory_order_acquire) != 0;
}

int weir__pipeline_open(struct weir__pipeline **pipeline, const struct weir__pipeline_watch *watch)
{
    struct weir__pipeline *opened = calloc(1, sizeof *opened);

    if (!opened)
        return WEIR_ENOMEM;
    weir__connection_init(&opened->connection, watch);
    weir__leader_wake_open(opened);
    if (opened->wake_pipe[0] < 0) {
        free(opened);
        return WEIR_EIO;
    }
    *pipeline = opened;
    return 0;
}

void weir__pipeline_close(struct weir__pipeline *pipeline)
{
    struct weir__commands over = {0};

    if (!pipeline)
        return;
    (void)weir__connection_fail(&pipeline->connection, "the store is being closed", &over);
    weir__leader_finish(pipeline, &over, NULL);
    weir__connection_clear(&pipeline->connection);
    weir__leader_wake_close(pipeline);
    free(pipeline);
}

void weir__pipeline_forked(struct weir__pipeline *pipeline)
{
    weir__connection_forked(&pipeline->connection, !pipeline->has_leader);
    weir__leader_wake_close(pipeline); /* a shared pipe would deliver the parent's wakeups to the
                                        * child */
    weir__leader_wake_open(pipeline);
    pipeline->has_leader = pipeline->in_callbacks = pipeline->woken = false;
    pipeline->waiters = NULL;
    pipeline->all_waiters = 0;
}

bool weir__pipeline_submit(struct weir__pipeline *pipeline, struct weir__command *const *c,
                           size_t n)
{
    bool room;

    weir__pipeline_lock(pipeline);
    room = weir__connection_queue_locked(&pipeline->connection, c, n);
    weir__pipeline_unlock(pipeline);
    return room;
}

void weir__pipeline_await(struct weir__pipeline *pipeline, struct weir__command *const *c, size_t n)
{
    struct weir__pipeline_waiter me = {0};
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__pipeline_lock(pipeline);
    for (size_t i = 0; i < n; i++) {
        assert(!c[i]->done);
        if (!command_is_finished(c[i])) {
            c[i]->waiter = &me;
            me.left++;
        }
    }
    if (me.left > 0)
        weir__leader_wait_locked(pipeline, &me);
    else
        weir__pipeline_unlock(pipeline);
    (void)pthread_setcancelstate(state, NULL);
}

void weir__pipeline_await_all(struct weir__pipeline *pipeline)
{
    struct weir__pipeline_waiter me = {.left = 1};
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__pipeline_lock(pipeline);
    me.up_to = pipeline->connection.submitted;
    if (pipeline->connection.commands > 0 || pipeline->in_callbacks) {
        pipeline->all_waiters++;
        weir__leader_wait_locked(pipeline, &me);
    } else {
        weir__pipeline_unlock(pipeline);
    }
    (void)pthread_setcancelstate(state, NULL);
}

/* ---- For an event loop ----------------------------------------------------------------------- */

int weir__pipeline_fd(struct weir__pipeline *pipeline)
{
    short events;
    int fd;

    weir__pipeline_lock(pipeline);
    fd = weir__connection_poll_locked(&pipeline->connection, &events);
    weir__pipeline_unlock(pipeline);
    return fd;
}

short weir__pipeline_events(struct weir__pipeline *pipeline)
{
    short events = 0;

    weir__pipeline_lock(pipeline);
    (void)weir__connection_poll_locked(&pipeline->connection, &events);
    weir__pipeline_unlock(pipeline);
    return events;
}

unsigned weir__pipeline_epoch(struct weir__pipeline *pipeline)
{
    unsigned epoch;

    weir__pipeline_lock(pipeline);
    epoch = pipeline->connection.epoch;
    weir__pipeline_unlock(pipeline);
    return epoch;
}

int64_t weir__pipeline_deadline(struct weir__pipeline *pipeline)
{
    int64_t ns;

    weir__pipeline_lock(pipeline);
    ns =
        weir__connection_is_due_locked(&pipeline->connection) ? 0 : pipeline->connection.soonest_ns;
    weir__pipeline_unlock(pipeline);
    return ns;
}

void weir__pipeline_flush(struct weir__pipeline *pipeline)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__leader_flush(pipeline);
    (void)pthread_setcancelstate(state, NULL);
}

void weir__pipeline_step(struct weir__pipeline *pipeline)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    weir__leader_step(pipeline);
    (void)pthread_setcancelstate(state, NULL);
}
