/* A pipeline's threads: leader and followers, await, and the steps of an event loop. The commands
 * are in pipeline_commands.c.
 *
 * No thread is dedicated to a pipeline. A thread that waits for its commands and finds no leader
 * becomes the leader (`has_leader`): it polls the connection and reads the replies of all threads,
 * until its own commands are finished. The others are followers: each sleeps until the leader wakes
 * it. A leader that is done wakes one follower, which leads from there. So a lone caller has no
 * other thread between itself and its reply: it writes, polls and reads by itself. The leader
 * chooses the newest follower, whose replies come last: that one reads for all the others, and the
 * lead changes hands least often.
 *
 * Threads that write do not disturb a leader that polls, with three exceptions: the socket took
 * only a part of the bytes, so the leader must also poll for room; a command has an earlier
 * deadline than the one that the leader polls until; the connection broke. For these there is a
 * pipe (`wake_pipe`).
 *
 * Invariants:
 *   (1) While a thread waits for a command there is a leader, or a follower that was woken to lead.
 *   (2) A follower is in the list until it is woken, and it is woken once. It returns only after
 *       that. So its wakeup, which is on its stack, still exists when the leader signals it.
 *   (3) `finished` of a command without a `done` is set under the lock, so a thread that is about
 *       to wait for the command sees it.
 *   (4) No thread can be cancelled in here: the pipeline would be left without a leader.
 */
#include "redis/client/pipeline.h"

#include <assert.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "os/clock.h"
#include "os/wakeup.h"
#include "redis/client/pipeline_commands.h"

#define FOLLOWER_WAIT_NS (WEIR__NS_PER_S)      /* one sleep of a follower */
#define LEADER_POLL_NS   (5 * WEIR__NS_PER_MS) /* for a leader without a wake pipe */

struct weir__pipeline_waiter {
    struct weir__wakeup wakeup;
    struct weir__pipeline_waiter *before, *next;
    size_t left;    /* commands that it waits for; 1 if it waits for all */
    uint64_t up_to; /* it waits for all commands up to this one; 0: only for its own */
    bool leads;     /* why it was woken: to lead; else because its commands are finished */
};

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
    return w->up_to != 0 && !any_up_to(&pipeline->awaiting, w->up_to) &&
           !any_up_to(&pipeline->queued, w->up_to);
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

        if (--pipeline->commands == 0)
            pipeline->soonest_ns = INT64_MAX;
        pipeline->bytes -= c->len;
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

/* These commands are over: calls their `done`, and wakes the threads that wait for them. `me` is
 * the leader, or NULL. */
static void finish_commands(struct weir__pipeline *pipeline, struct weir__commands *over,
                            struct weir__pipeline_waiter *me)
{
    struct weir__pipeline_waiter *freed = NULL;

    if (!over->first)
        return;
    weir__pipeline_lock(pipeline);
    finish_commands_locked(pipeline, over, me, &freed);
    pipeline->in_callbacks = over->first != NULL;
    if (pipeline->in_callbacks) {
        weir__pipeline_unlock(pipeline);
        call_back(over);
        weir__pipeline_lock(pipeline);
        pipeline->in_callbacks = false;
    }
    release_all_waiters_locked(pipeline, me, &freed);
    weir__pipeline_unlock(pipeline);
    waiters_wake(freed);
}

/* ---- Lead ------------------------------------------------------------------------------------ */

/* Wakes the leader if it polls for the wrong events or for too long. */
static void leader_wake_locked(struct weir__pipeline *pipeline)
{
    const struct weir__connection *conn = &pipeline->connection;

    if (pipeline->soonest_ns < pipeline->until_ns ||
        (conn->rest && !(pipeline->events & POLLOUT)) ||
        weir__connection_state(conn) == WEIR__CONNECTION_BROKEN)
        pipeline->woken = pipeline->woken || write(pipeline->wake_pipe[1], "", 1) == 1;
}

static void leader_clear_wake(struct weir__pipeline *pipeline)
{
    char bytes[8];

    weir__pipeline_lock(pipeline);
    (void)!read(pipeline->wake_pipe[0], bytes, sizeof bytes);
    pipeline->woken = false;
    weir__pipeline_unlock(pipeline);
}

/* Polls until the connection is ready, or the soonest deadline. */
static void leader_poll(struct weir__pipeline *pipeline)
{
    struct pollfd p[2] = {{.events = POLLIN}, {.fd = pipeline->wake_pipe[0], .events = POLLIN}};
    struct timespec left;
    int64_t ns;

    weir__pipeline_lock(pipeline);
    p[0].fd = weir__connection_poll_locked(&pipeline->connection, &p[0].events);
    ns = pipeline->soonest_ns;
    pipeline->until_ns = ns;
    pipeline->events = p[0].events;
    weir__pipeline_unlock(pipeline);
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

    weir__pipeline_receive(pipeline, &over);
    finish_commands(pipeline, &over, me);
}

static void leader_resign(struct weir__pipeline *pipeline)
{
    struct weir__pipeline_waiter *next;

    weir__pipeline_lock(pipeline);
    next = leader_hand_over_locked(pipeline);
    weir__pipeline_unlock(pipeline);
    waiters_wake(next);
}

static void leader_run(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *me)
{
    weir__pipeline_send(pipeline);
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
    weir__pipeline_flush_locked(pipeline);
    leader_wake_locked(pipeline);
    weir__pipeline_unlock(pipeline);
    while (!weir__wakeup_peek(&me->wakeup, FOLLOWER_WAIT_NS))
        continue;
    if (me->leads)
        leader_run(pipeline, me);
}

/* Waits until the commands of `me` are finished, as leader or follower. The caller holds the lock;
 * it is dropped. */
static void wait_locked(struct weir__pipeline *pipeline, struct weir__pipeline_waiter *me)
{
    if (pipeline->has_leader) {
        follower_wait_locked(pipeline, me);
        return;
    }
    pipeline->has_leader = true;
    weir__pipeline_unlock(pipeline);
    leader_run(pipeline, me);
}

/* Whether the caller leads from now on. */
static bool becomes_leader(struct weir__pipeline *pipeline)
{
    bool begins;

    weir__pipeline_lock(pipeline);
    begins = !pipeline->has_leader;
    pipeline->has_leader = true;
    weir__pipeline_unlock(pipeline);
    return begins;
}

/* ---- Await ----------------------------------------------------------------------------------- */

static bool command_is_finished(struct weir__command *c)
{
    return atomic_load_explicit(&c->finished, memory_order_acquire) != 0;
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
        wait_locked(pipeline, &me);
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
    me.up_to = pipeline->submitted;
    if (pipeline->commands > 0 || pipeline->in_callbacks) {
        pipeline->all_waiters++;
        wait_locked(pipeline, &me);
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

void weir__pipeline_pause(struct weir__pipeline *pipeline)
{
    pipeline->pauses++;
}

void weir__pipeline_resume(struct weir__pipeline *pipeline)
{
    pipeline->pauses--;
}

bool weir__pipeline_is_paused(const struct weir__pipeline *pipeline)
{
    return pipeline->pauses > 0;
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

/* Whether commands wait for the leader alone: to be sent, or to fail. */
static bool is_due_locked(const struct weir__pipeline *pipeline)
{
    const struct weir__connection *conn = &pipeline->connection;
    const int state = weir__connection_state(conn);

    return pipeline->commands > 0 &&
           (state == WEIR__CONNECTION_NONE || state == WEIR__CONNECTION_BROKEN ||
            (state == WEIR__CONNECTION_OPEN && conn->out.len > 0 && !conn->rest && !conn->writing));
}

int64_t weir__pipeline_deadline(struct weir__pipeline *pipeline)
{
    int64_t ns;

    weir__pipeline_lock(pipeline);
    ns = is_due_locked(pipeline) ? 0 : pipeline->soonest_ns;
    weir__pipeline_unlock(pipeline);
    return ns;
}

void weir__pipeline_flush(struct weir__pipeline *pipeline)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (becomes_leader(pipeline)) {
        weir__pipeline_send(pipeline);
        leader_resign(pipeline);
    }
    (void)pthread_setcancelstate(state, NULL);
}

void weir__pipeline_step(struct weir__pipeline *pipeline)
{
    int state;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    if (becomes_leader(pipeline)) {
        weir__pipeline_send(pipeline);
        leader_advance(pipeline, NULL);
        leader_resign(pipeline);
    }
    (void)pthread_setcancelstate(state, NULL);
}

/* ---- Open and close -------------------------------------------------------------------------- */

static bool open_wake_pipe(struct weir__pipeline *pipeline)
{
    if (pipe2(pipeline->wake_pipe, O_CLOEXEC | O_NONBLOCK) == 0)
        return true;
    pipeline->wake_pipe[0] = pipeline->wake_pipe[1] = -1;
    return false;
}

static void close_wake_pipe(struct weir__pipeline *pipeline)
{
    if (pipeline->wake_pipe[0] >= 0) {
        (void)close(pipeline->wake_pipe[0]);
        (void)close(pipeline->wake_pipe[1]);
    }
}

int weir__pipeline_open(struct weir__pipeline **pipeline, const struct weir__pipeline_watch *watch)
{
    struct weir__pipeline *opened = calloc(1, sizeof *opened);

    if (!opened)
        return WEIR_ENOMEM;
    if (!open_wake_pipe(opened)) {
        free(opened);
        return WEIR_EIO;
    }
    opened->watch = *watch;
    opened->soonest_ns = INT64_MAX;
    weir__connection_init(&opened->connection);
    *pipeline = opened;
    return 0;
}

void weir__pipeline_close(struct weir__pipeline *pipeline)
{
    struct weir__commands over = {0};

    if (!pipeline)
        return;
    (void)weir__pipeline_fail(pipeline, "the store is being closed", &over);
    finish_commands(pipeline, &over, NULL);
    weir__connection_clear(&pipeline->connection);
    close_wake_pipe(pipeline);
    free(pipeline);
}

/* If the child gets no pipe of its own, a leader looks every few milliseconds instead. */
void weir__pipeline_forked(struct weir__pipeline *pipeline)
{
    const bool sound = !pipeline->has_leader;

    close_wake_pipe(pipeline); /* a shared one would deliver the parent's wakeups to the child */
    *pipeline = (struct weir__pipeline){
        .connection = pipeline->connection, .watch = pipeline->watch, .soonest_ns = INT64_MAX};
    weir__connection_forked(&pipeline->connection, sound);
    (void)open_wake_pipe(pipeline);
}
