/* Replies that come later: their places among the replies of their connection, and replies that are
 * worked out in steps.
 *
 * A place is a segment of the connection's output (out.c) that is still empty; nothing behind it
 * leaves. If the connection closes first, the owner of the place is called.
 *
 * Work that takes long is done in steps, one in each round of the loop, so that other connections
 * are served in between. The connection it belongs to is not read meanwhile: its next replies come
 * behind this one.
 */
#include <stdlib.h>

#include "server/internal.h"

/* ---- Places ---------------------------------------------------------------------------------- */

void awaited_add(struct conn *c, struct awaited_reply *p)
{
    p->conn = c;
    p->segment = out_add_awaited(c, p);
    p->prev = NULL;
    p->next = c->awaited;
    if (p->next)
        p->next->prev = p;
    c->awaited = p;
    c->awaited_n++;
}

static void awaited_unlink(struct awaited_reply *p)
{
    struct conn *c = p->conn;

    *(p->prev ? &p->prev->next : &c->awaited) = p->next;
    if (p->next)
        p->next->prev = p->prev;
    c->awaited_n--;
    p->conn = NULL;
}

void awaited_fill(struct awaited_reply *p)
{
    struct conn *c = p->conn;

    p->segment->awaited = NULL;
    out_aim(c, p->segment);
    awaited_unlink(p);
}

void awaited_abandon(struct awaited_reply *p)
{
    p->segment->awaited = NULL;
    awaited_unlink(p);
    if (p->left)
        p->left(p);
}

void awaited_abandon_all(struct conn *c)
{
    while (c->awaited)
        awaited_abandon(c->awaited);
}

/* ---- Steps ----------------------------------------------------------------------------------- */

struct deferred {
    struct awaited_reply place; /* first */
    struct worker *worker;
    struct conn *conn;
    struct deferred *next; /* in the list of those whose step is due */
    bool due;
    deferred_step *step;
    deferred_step *gone;
    void *arg;
};

static void deferred_unschedule(struct deferred *l)
{
    struct deferred **at = &l->worker->due_deferred;

    while (l->due && *at != l)
        at = &(*at)->next;
    if (l->due)
        *at = l->next;
    l->due = false;
}

static void deferred_abandoned(struct awaited_reply *p)
{
    struct deferred *l = (struct deferred *)p;

    deferred_unschedule(l);
    l->conn->in_steps = false;
    l->gone(l->arg);
    free(l);
}

struct deferred *deferred_begin(struct conn *c, deferred_step *step, deferred_step *gone, void *arg)
{
    struct deferred *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->worker = c->worker;
    l->conn = c;
    l->step = step;
    l->gone = gone;
    l->arg = arg;
    l->place.left = deferred_abandoned;
    awaited_add(c, &l->place);
    c->in_steps = true;
    return l;
}

void deferred_resume(struct deferred *l)
{
    struct deferred **at = &l->worker->due_deferred;

    while (*at)
        at = &(*at)->next;
    l->next = NULL;
    *at = l;
    l->due = true;
    (void)uv_idle_start(&l->worker->busy, deferred_run);
}

void deferred_reply(struct deferred *l)
{
    awaited_fill(&l->place);
}

void deferred_end(struct deferred *l)
{
    out_aim(l->conn, NULL);
    l->conn->in_steps = false;
    conn_push_later(l->conn);
    free(l);
}

/* Runs the steps that were due when the round began, each once. */
void deferred_run(uv_idle_t *h)
{
    struct worker *w = h->data;
    unsigned n = 0;

    for (const struct deferred *l = w->due_deferred; l; l = l->next)
        n++;
    names_enter(w->server->names);
    for (; n > 0 && w->due_deferred; n--) {
        struct deferred *l = w->due_deferred;

        deferred_unschedule(l);
        l->step(l->arg);
    }
    names_leave(w->server->names);
    if (!w->due_deferred)
        (void)uv_idle_stop(h);
    worker_push_all(w);
}
