/* A worker's lane to each far store, and its loop. See far_take.h.
 *
 * A lane's descriptor changes whenever it connects anew, and the system may give the new connection the old
 * one's number, or give that to somebody else. So the loop stops watching before anything else can happen.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "engine/clock.h"
#include "server/far_take.h"

/* ---- Watching ---------------------------------------------------------------------------------- */

static void forget(uv_handle_t *h)
{
    free(h);
}

static void unwatch(struct lane *l)
{
    if (l->poll)
        uv_close((uv_handle_t *)l->poll, forget);
    l->poll = NULL;
    l->events = 0;
}

static void polled(uv_poll_t *h, int status, int events);

static bool watch_anew(struct lane *l, int fd, unsigned epoch)
{
    uv_poll_t *poll = malloc(sizeof *poll);

    if (!poll || uv_poll_init(&l->worker->loop, poll, fd) != 0) {
        free(poll);
        return false; /* then its deadline is all that is heard of it */
    }
    poll->data = l;
    l->poll = poll;
    l->fd = fd;
    l->epoch = epoch;
    return true;
}

/* The lane may have another connection, or none. */
static void watch(struct lane *l)
{
    const int fd = weir__lane_fd(l->lane);
    const unsigned epoch = weir__lane_epoch(l->lane);
    const short wanted = weir__lane_events(l->lane);
    const int events = (wanted & POLLIN ? UV_READABLE : 0) | (wanted & POLLOUT ? UV_WRITABLE : 0);

    if (l->poll && (fd != l->fd || epoch != l->epoch))
        unwatch(l);
    if (fd < 0 || (!l->poll && !watch_anew(l, fd, epoch)) || events == l->events)
        return;
    l->events = events;
    (void)uv_poll_start(l->poll, events, polled);
}

/* ---- Turning ----------------------------------------------------------------------------------- */

/* Within names_enter: limits are let go of. */
static void turn(struct lane *l)
{
    l->due = false;
    l->unsent = 0;
    weir__lane_turn(l->lane);
    watch(l);
}

/* Those who were not read from, for too much was under way: when half of that is answered, all of them, the one
 * that was served longest ago first (who is pushed last is first). Until then nobody is, or those whose answers
 * come would take every place that comes free. */
static void resume(struct worker *w)
{
    if (!w->far_stalled || w->far_asked > FAR_MOST / 2 || w->far_bytes > FAR_BYTES / 2)
        return;
    w->far_stalled = false;
    for (struct conn *c = w->newest; c; c = c->older)
        conn_push_later(c);
}

/* Turns the lanes, all or those that are due. Then the answers leave; what follows may be new questions, which are
 * sent before the loop sleeps. */
static void turn_lanes(struct worker *w, bool all)
{
    names_enter(w->server->names);
    for (int i = 0; i < w->server->stores.n; i++)
        if (w->far->lane[i].lane && (all || w->far->lane[i].due))
            turn(&w->far->lane[i]);
    many_go_on(w);
    names_leave(w->server->names);
    resume(w);
    worker_push_all(w);
}

static void polled(uv_poll_t *h, int status, int events)
{
    struct lane *l = h->data;

    (void)events; /* the lane finds out by itself */
    if (status < 0)
        l->events = 0; /* then the loop has stopped watching */
    l->due = true;
    turn_lanes(l->worker, false);
}

static void rung(uv_timer_t *t)
{
    turn_lanes(t->data, true);
}

void far_settle(struct worker *w, const struct store *s)
{
    struct lane *l = &w->far->lane[s->index];

    if (w->far_asked == 0)
        return;
    weir__lane_settle(l->lane);
    watch(l);
}

/* ---- Sleeping ---------------------------------------------------------------------------------- */

static bool can_go_on(const struct worker *w)
{
    for (int i = 0; i < w->server->stores.n; i++)
        if (w->far->lane[i].due)
            return true;
    return w->far->many && !far_is_full(w);
}

static void set_timer(struct worker *w)
{
    int64_t due_ns = INT64_MAX, left_ns;

    for (int i = 0; i < w->server->stores.n; i++)
        if (w->far->lane[i].lane)
            due_ns = weir__min(due_ns, weir__lane_deadline(w->far->lane[i].lane));
    if (due_ns == INT64_MAX) {
        (void)uv_timer_stop(&w->far->due);
        return;
    }
    left_ns = weir__max(0, due_ns - weir__clock_now());
    /* Rounded up: a timer that rings early finds nothing due. */
    (void)uv_timer_start(&w->far->due, rung, (uint64_t)weir__div_ceil(left_ns, WEIR__NS_PER_MS), 0);
}

void far_before_sleep(struct worker *w)
{
    if (!w->far->any)
        return;
    resume(w); /* who settles makes room, and nobody else is told */
    worker_push_all(w);
    while (can_go_on(w))
        turn_lanes(w, false);
    set_timer(w);
}

/* ---- Life -------------------------------------------------------------------------------------- */

int far_open(struct worker *w)
{
    struct stores *s = &w->server->stores;

    w->far = calloc(1, sizeof *w->far);
    if (!w->far)
        return ENOMEM;
    w->far->due.data = w;
    (void)uv_timer_init(&w->loop, &w->far->due);
    for (int i = 0; i < s->n; i++) {
        struct lane *l = &w->far->lane[i];

        l->worker = w;
        l->store = &s->store[i];
        if (!s->store[i].far)
            continue;
        l->lane = weir__ask_lane(s->store[i].engine);
        if (!l->lane)
            return ENOMEM;
        w->far->any = true;
    }
    return 0;
}

void far_close(struct worker *w)
{
    many_go_on(w); /* all have left: nothing more is begun */
    for (int i = 0; i < w->server->stores.n; i++) {
        struct lane *l = &w->far->lane[i];

        unwatch(l);
        if (l->lane)
            weir__lane_close(l->lane); /* tells those that are under way */
        l->lane = NULL;
    }
    while (w->far->spare) {
        struct asked *a = w->far->spare;

        w->far->spare = a->next_spare;
        free(a);
    }
}

void far_free(struct worker *w)
{
    free(w->far); /* its timer is closed */
}
