/* Answers that come later: their places among those of their connection, and those that are worked out in steps.
 *
 * A place is a segment of the connection's output (out.c) that is still empty; nothing behind it leaves. Whoever is to
 * fill it is told if the connection ends before.
 *
 * What takes long to find out is done in steps, one each time the loop goes round, so that others are served in
 * between. The connection that asked is not read from meanwhile: what it asks next comes behind.
 */
#include <stdlib.h>

#include "server/inside.h"

/* ---- Places ------------------------------------------------------------------------------------ */

void place_keep(struct conn *c, struct awaited *p)
{
    p->conn = c;
    p->segment = out_await(c, p);
    p->prev = NULL;
    p->next = c->awaited;
    if (p->next)
        p->next->prev = p;
    c->awaited = p;
    c->asked++;
}

static void take_off(struct awaited *p)
{
    struct conn *c = p->conn;

    *(p->prev ? &p->prev->next : &c->awaited) = p->next;
    if (p->next)
        p->next->prev = p->prev;
    c->asked--;
    p->conn = NULL;
}

void place_fill(struct awaited *p)
{
    struct conn *c = p->conn;

    p->segment->awaited = NULL;
    out_aim(c, p->segment);
    take_off(p);
}

void place_abandon(struct awaited *p)
{
    p->segment->awaited = NULL;
    take_off(p);
    if (p->left)
        p->left(p);
}

void places_abandon(struct conn *c)
{
    while (c->awaited)
        place_abandon(c->awaited);
}

/* ---- Steps ------------------------------------------------------------------------------------- */

struct later {
    struct awaited place; /* first */
    struct worker *worker;
    struct conn *conn;
    struct later *next; /* of those whose step is due */
    bool due;
    later_step *step;
    later_step *gone;
    void *arg;
};

static void not_due(struct later *l)
{
    struct later **at = &l->worker->due_later;

    while (l->due && *at != l)
        at = &(*at)->next;
    if (l->due)
        *at = l->next;
    l->due = false;
}

static void left(struct awaited *p)
{
    struct later *l = (struct later *)p;

    not_due(l);
    l->conn->asks_many = false;
    l->gone(l->arg);
    free(l);
}

struct later *later_begin(struct conn *c, later_step *step, later_step *gone, void *arg)
{
    struct later *l = calloc(1, sizeof *l);

    if (!l)
        return NULL;
    l->worker = c->worker;
    l->conn = c;
    l->step = step;
    l->gone = gone;
    l->arg = arg;
    l->place.left = left;
    place_keep(c, &l->place);
    c->asks_many = true;
    return l;
}

void later_go_on(struct later *l)
{
    struct later **at = &l->worker->due_later;

    while (*at)
        at = &(*at)->next;
    l->next = NULL;
    *at = l;
    l->due = true;
    (void)uv_idle_start(&l->worker->busy, later_run);
}

void later_answer(struct later *l)
{
    place_fill(&l->place);
}

void later_end(struct later *l)
{
    out_aim(l->conn, NULL);
    l->conn->asks_many = false;
    conn_push_later(l->conn);
    free(l);
}

/* Those that were due when the loop came round, each once. */
void later_run(uv_idle_t *h)
{
    struct worker *w = h->data;
    unsigned n = 0;

    for (const struct later *l = w->due_later; l; l = l->next)
        n++;
    names_enter(w->server->names);
    for (; n > 0 && w->due_later; n--) {
        struct later *l = w->due_later;

        not_due(l);
        l->step(l->arg);
    }
    names_leave(w->server->names);
    if (!w->due_later)
        (void)uv_idle_stop(h);
    worker_push_all(w);
}
