/* A worker's pipeline to each remote store, and its loop. See remote_request.h.
 *
 * A pipeline's descriptor changes whenever it reconnects, and the system may give the new
 * connection the old one's number, or give that number to another file. So the loop stops watching
 * before anything else can happen.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include "server/remote/remote_request.h"

/* ---- Watching -------------------------------------------------------------------------------- */

static void remote_pipeline_closed(uv_handle_t *h)
{
    free(h);
}

static void remote_pipeline_unwatch(struct remote_pipeline *pipeline)
{
    if (pipeline->poll)
        uv_close((uv_handle_t *)pipeline->poll, remote_pipeline_closed);
    pipeline->poll = NULL;
    pipeline->events = 0;
}

static void remote_pipeline_polled(uv_poll_t *h, int status, int events);

static bool remote_pipeline_watch_new(struct remote_pipeline *pipeline, int fd, unsigned epoch)
{
    uv_poll_t *poll = malloc(sizeof *poll);

    if (!poll || uv_poll_init(&pipeline->worker->loop, poll, fd) != 0) {
        free(poll);
        return false; /* then only its deadline wakes the loop */
    }
    poll->data = pipeline;
    pipeline->poll = poll;
    pipeline->fd = fd;
    pipeline->epoch = epoch;
    return true;
}

/* The pipeline may have another connection, or none. */
static void remote_pipeline_watch(struct remote_pipeline *pipeline)
{
    const int fd = weir__pipeline_fd(pipeline->pipeline);
    const unsigned epoch = weir__pipeline_epoch(pipeline->pipeline);
    const short wanted = weir__pipeline_events(pipeline->pipeline);
    const int events = (wanted & POLLIN ? UV_READABLE : 0) | (wanted & POLLOUT ? UV_WRITABLE : 0);

    if (pipeline->poll && (fd != pipeline->fd || epoch != pipeline->epoch))
        remote_pipeline_unwatch(pipeline);
    if (fd < 0 || (!pipeline->poll && !remote_pipeline_watch_new(pipeline, fd, epoch)) ||
        events == pipeline->events)
        return;
    pipeline->events = events;
    (void)uv_poll_start(pipeline->poll, events, remote_pipeline_polled);
}

/* ---- Running --------------------------------------------------------------------------------- */

/* Within names_enter: limits are released. */
static void remote_pipeline_run(struct remote_pipeline *pipeline)
{
    pipeline->due = false;
    pipeline->unsent = 0;
    pipeline->worker->remote->steps = true;
    weir__pipeline_step(pipeline->pipeline);
    pipeline->worker->remote->steps = false;
    remote_pipeline_watch(pipeline);
}

/* Resumes the connections that were not read because too many requests were under way: when half of
 * those are answered, all of them, the one served longest ago first (the connection pushed last is
 * served first). Until then none is resumed, or the connections whose replies come would take every
 * place that becomes free. */
static void remote_resume(struct worker *w)
{
    if (!w->remote_stalled || w->remote_pending > REMOTE_MOST / 2 ||
        w->remote_bytes > REMOTE_KEY_BYTES / 2)
        return;
    w->remote_stalled = false;
    for (struct conn *c = w->newest; c; c = c->older) {
        c->stalled = false;
        conn_push_later(c);
    }
}

/* Runs the pipelines, all of them or those that are due. Then the replies leave; serving on may add
 * new takes, which are sent before the loop sleeps. */
static void remote_pipelines_run(struct worker *w, bool all)
{
    names_enter(w->server->names);
    for (int i = 0; i < w->server->stores.n; i++)
        if (w->remote->pipeline[i].pipeline && (all || w->remote->pipeline[i].due))
            remote_pipeline_run(&w->remote->pipeline[i]);
    remote_late_resume(w);
    remote_queue_resume(w, false);
    remote_group_resume(w);
    names_leave(w->server->names);
    remote_resume(w);
    worker_push_all(w);
}

static void remote_pipeline_polled(uv_poll_t *h, int status, int events)
{
    struct remote_pipeline *pipeline = h->data;

    (void)events; /* the pipeline finds out by itself */
    if (status < 0)
        pipeline->events = 0; /* then the loop has stopped watching */
    pipeline->due = true;
    remote_pipelines_run(pipeline->worker, false);
}

static void remote_timer_fired(uv_timer_t *t)
{
    remote_pipelines_run(t->data, true);
}

/* ---- Sleeping -------------------------------------------------------------------------------- */

static bool remote_can_run(const struct worker *w)
{
    for (int i = 0; i < w->server->stores.n; i++)
        if (w->remote->pipeline[i].due)
            return true;
    return remote_queue_can_resume(w) || (w->remote->group && !remote_is_full(w));
}

static void remote_set_timer(struct worker *w)
{
    int64_t due_ns = INT64_MAX, left_ns;

    for (int i = 0; i < w->server->stores.n; i++)
        if (w->remote->pipeline[i].pipeline)
            due_ns = weir__min(due_ns, weir__pipeline_deadline(w->remote->pipeline[i].pipeline));
    if (due_ns == INT64_MAX) {
        (void)uv_timer_stop(&w->remote->due);
        return;
    }
    left_ns = weir__max(0, due_ns - weir__engine_clock());
    /* Rounded up: a timer that fires early finds nothing due. */
    (void)uv_timer_start(&w->remote->due, remote_timer_fired,
                         (uint64_t)weir__div_ceil(left_ns, WEIR__NS_PER_MS), 0);
}

void remote_before_sleep(struct worker *w)
{
    if (!w->remote->any)
        return;
    worker_push_all(w);
    while (remote_can_run(w))
        remote_pipelines_run(w, false);
    remote_set_timer(w);
}

/* ---- Life ------------------------------------------------------------------------------------ */

int remote_open(struct worker *w)
{
    struct stores *s = &w->server->stores;

    w->remote = calloc(1, sizeof *w->remote);
    if (!w->remote)
        return ENOMEM;
    w->remote->due.data = w;
    (void)uv_timer_init(&w->loop, &w->remote->due);
    for (int i = 0; i < s->n; i++) {
        struct remote_pipeline *pipeline = &w->remote->pipeline[i];

        pipeline->worker = w;
        pipeline->store = &s->store[i];
        if (!s->store[i].remote)
            continue;
        pipeline->pipeline = weir__redis_pipeline_open(s->store[i].engine);
        if (!pipeline->pipeline)
            return ENOMEM;
        w->remote->any = true;
    }
    return 0;
}

/* Waits for the requests that are under way, and for those that their answers begin: what a client
 * has left behind is given back. */
static void remote_await_all(struct worker *w)
{
    while (w->remote_pending > 0 || w->remote->queue_first) {
        remote_queue_resume(w, false);
        for (int i = 0; i < w->server->stores.n; i++)
            if (w->remote->pipeline[i].pipeline)
                weir__pipeline_await_all(w->remote->pipeline[i].pipeline);
    }
}

void remote_close(struct worker *w)
{
    for (int i = 0; i < w->server->stores.n; i++)
        remote_pipeline_unwatch(&w->remote->pipeline[i]);
    remote_group_resume(w); /* all connections are closed: nothing more is begun */
    if (!atomic_load(&w->server->stopping_now))
        remote_await_all(w);
    remote_queue_resume(w, true);
    for (int i = 0; i < w->server->stores.n; i++) {
        weir__pipeline_close(w->remote->pipeline[i].pipeline);
        w->remote->pipeline[i].pipeline = NULL;
    }
    while (w->remote->spare) {
        struct remote_request *request = w->remote->spare;

        w->remote->spare = request->next;
        free(request);
    }
}

void remote_free(struct worker *w)
{
    free(w->remote); /* its timer is closed */
}
