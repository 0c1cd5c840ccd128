/* A worker: one thread, one loop, its connections.
 *
 * The clock is read once a wake-up, when it is first needed. The thread that accepts hands
 * connections over through a small inbox.
 */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/internal.h"
#include "server/live/reload.h"
#include "server/metrics/metrics.h"

#define TICK_MS 250 /* how often idle connections are looked for */

/* Serving on may add new requests. A connection that is closed meanwhile stays in memory until the
 * next round of the loop. */
void worker_push_all(struct worker *w)
{
    while (w->to_push) {
        struct conn *c = w->to_push;

        w->to_push = c->next_push;
        c->to_push = false;
        conn_push(c);
    }
}

static void worker_before_sleep(uv_prepare_t *h)
{
    struct worker *w = h->data;

    remote_before_sleep(w);
    delayed_set_timer(w);
    tickets_set_timer(w);
    literals_tidy(w->literals);
    out_tidy(w);
    worker_now_expire(w);
}

/* ---- Messages from other threads ------------------------------------------------------------- */

void worker_assign(struct worker *w, struct accepted a)
{
    bool full;

    (void)pthread_mutex_lock(&w->inbox_lock);
    full = w->inbox_n == INBOX_MAX;
    if (!full)
        w->inbox[w->inbox_n++] = a;
    (void)pthread_mutex_unlock(&w->inbox_lock);
    if (full) {
        /* Called by the accepting thread, which owns this counter. */
        counter_add(&w->server->workers[0].counters.refused_connections, 1);
        (void)close(a.fd);
        atomic_fetch_sub(&w->server->open_connections, 1);
    }
    (void)uv_async_send(&w->wake);
}

static void worker_take_inbox(struct worker *w)
{
    struct accepted arrived[INBOX_MAX];
    int n;

    (void)pthread_mutex_lock(&w->inbox_lock);
    n = w->inbox_n;
    for (int i = 0; i < n; i++)
        arrived[i] = w->inbox[i];
    w->inbox_n = 0;
    (void)pthread_mutex_unlock(&w->inbox_lock);
    for (int i = 0; i < n; i++)
        conn_open(w, arrived[i]);
}

/* Closes the connections that wait for nothing, and the others once they are answered. */
static void worker_drain(struct worker *w)
{
    for (struct conn *c = w->oldest, *next; c; c = next) {
        next = c->newer;
        conn_drain(c);
    }
    /* The first worker watches the time for all. */
    if (atomic_load(&w->server->stopping_now) ||
        (w->index == 0 ? atomic_load(&w->server->open_connections) == 0 : !w->oldest))
        uv_stop(&w->loop);
}

static void worker_woken(uv_async_t *h)
{
    struct worker *w = h->data;

    worker_now_expire(w); /* a manual clock may have been set */
    access_worker_update(w);
    worker_take_inbox(w);
    delayed_run(w);
    tickets_run(w);
    if (w->server->reload)
        reload_answer(w->server->reload, w);
    if (atomic_load(&w->server->stopping)) {
        w->draining = true;
        worker_drain(w);
    }
}

/* ---- Time ------------------------------------------------------------------------------------ */

static void close_idle(struct worker *w)
{
    const int64_t idle_ms = w->server->options.idle_ns / WEIR__NS_PER_MS;
    const int64_t now_ms = (int64_t)uv_now(&w->loop);

    for (struct conn *c = w->oldest, *next; c && now_ms - c->active_ms >= idle_ms; c = next) {
        next = c->newer;
        if (conn_is_idle(c))
            conn_close(c);
    }
}

static void close_lingering(struct worker *w)
{
    const int64_t now_ms = (int64_t)uv_now(&w->loop);

    for (struct conn *c = w->oldest, *next; c && w->lingering > 0; c = next) {
        next = c->newer;
        conn_tick(c, now_ms);
    }
}

static void worker_ticked(uv_timer_t *h)
{
    struct worker *w = h->data;

    close_idle(w);
    close_lingering(w);
    access_tick(w, (int64_t)uv_now(&w->loop));
    tls_tick(w, (int64_t)uv_now(&w->loop));
    if (w->index == 0) {
        names_tidy(w->server->names);
        memory_tidy(w->server);
        room_check(w->server);
        refusals_check(w->server);
    }
    if (w->draining)
        worker_drain(w);
}

/* ---- Life ------------------------------------------------------------------------------------ */

int worker_open(struct worker *w, struct server *s, int index)
{
    w->server = s;
    w->index = index;
    w->tally = tallies_sheet(s->tallies, index);
    access_worker_open(w);
    w->in = malloc(READ_BYTES);
    w->scratch_cap = SCRATCH_USUAL;
    w->scratch = malloc(w->scratch_cap);
    memory_grow(&s->memory, MEMORY_WORKERS, sizeof *w + READ_BYTES + SCRATCH_USUAL);
    w->literals = literals_open(&s->stores.store[0], &s->memory);
    w->tickets = tickets_open(s);
    w->wake_up = 1;
    if (!w->in || !w->scratch || !w->literals || !w->tickets)
        return ENOMEM;
    (void)pthread_mutex_init(&w->inbox_lock, NULL);
    (void)pthread_mutex_init(&w->ready_lock, NULL);
    if (uv_loop_init(&w->loop) != 0)
        return EMFILE;
    w->wake.data = w->before_sleep.data = w->busy.data = w->tick.data = w->due.data =
        w->lapse.data = w;
    (void)uv_async_init(&w->loop, &w->wake, worker_woken);
    (void)uv_prepare_init(&w->loop, &w->before_sleep);
    (void)uv_prepare_start(&w->before_sleep, worker_before_sleep);
    (void)uv_idle_init(&w->loop, &w->busy);
    (void)uv_timer_init(&w->loop, &w->due);
    (void)uv_timer_init(&w->loop, &w->lapse);
    (void)uv_timer_init(&w->loop, &w->tick);
    (void)uv_timer_start(&w->tick, worker_ticked, TICK_MS, TICK_MS);
    return remote_open(w);
}

void worker_run(struct worker *w)
{
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    http_thread_ends();
}

static void worker_close_handle(uv_handle_t *h, void *arg)
{
    (void)arg;
    if (!uv_is_closing(h))
        uv_close(h, NULL);
}

void worker_close(struct worker *w)
{
    while (w->oldest)
        conn_close(w->oldest);
    worker_take_inbox(w); /* and what came too late */
    while (w->oldest)
        conn_close(w->oldest);
    remote_close(w);
    uv_walk(&w->loop, worker_close_handle, NULL);
    (void)uv_run(&w->loop, UV_RUN_DEFAULT);
    (void)uv_loop_close(&w->loop);
    remote_free(w);
    access_worker_close(w);
    tls_worker_close(w);
    literals_close(w->literals);
    due_heap_free(&w->heap);
    free(w->in);
    free(w->scratch);
    (void)pthread_mutex_destroy(&w->inbox_lock);
    (void)pthread_mutex_destroy(&w->ready_lock);
}
