/* Invariants:
 *   (1) A line is a chain of holds, of several keys perhaps; the first for a key is the one that asks.
 *   (2) Who leaves calls the next of its key, if it was the first or not: to be called once too often costs
 *       a look.
 *   (3) The lock is held for list work only, never while the engine is asked.
 */
#include <stdlib.h>
#include <string.h>

#include "server/hold.h"

#define CHAINS 4096

struct line {
    struct hold *first, *last;
};

struct lines {
    pthread_mutex_t lock;
    struct line chain[CHAINS];
};

struct lines *lines_open(void)
{
    struct lines *l = calloc(1, sizeof *l);

    if (l)
        (void)pthread_mutex_init(&l->lock, NULL);
    return l;
}

void lines_close(struct lines *l)
{
    if (l)
        (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

static struct line *line_of(struct lines *l, const struct hold *h)
{
    return &l->chain[h->identity % CHAINS];
}

static bool same_key(const struct hold *a, const struct hold *b)
{
    return a->identity == b->identity && weir__slice_equal(a->question.key, b->question.key);
}

static struct hold *first_like_locked(struct line *line, const struct hold *h)
{
    struct hold *at = line->first;

    while (at && !same_key(at, h))
        at = at->behind;
    return at;
}

bool line_join(struct lines *l, struct hold *h)
{
    struct line *line = line_of(l, h);
    bool first;

    (void)pthread_mutex_lock(&l->lock);
    if (!h->in_line) {
        h->before = line->last;
        *(line->last ? &line->last->behind : &line->first) = h;
        line->last = h;
        h->in_line = true;
    }
    first = first_like_locked(line, h) == h;
    (void)pthread_mutex_unlock(&l->lock);
    return first;
}

/* Tells the hold's worker that its turn has come. */
static void call_locked(struct hold *h)
{
    struct worker *w = h->conn->worker;

    if (h->called)
        return;
    h->called = true;
    h->next_called = w->called;
    w->called = h;
    (void)uv_async_send(&w->wake);
}

static void uncall_locked(struct hold *h)
{
    struct hold **at = &h->conn->worker->called;

    while (h->called && *at != h)
        at = &(*at)->next_called;
    if (h->called)
        *at = h->next_called;
    h->called = false;
}

void line_leave(struct lines *l, struct hold *h)
{
    struct line *line = line_of(l, h);
    struct hold *next;

    (void)pthread_mutex_lock(&l->lock);
    uncall_locked(h);
    if (h->in_line) {
        *(h->before ? &h->before->behind : &line->first) = h->behind;
        *(h->behind ? &h->behind->before : &line->last) = h->before;
        h->in_line = false;
        h->before = h->behind = NULL;
        next = first_like_locked(line, h);
        if (next)
            call_locked(next);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

bool line_has(struct lines *l, const struct hold *h)
{
    bool yes;

    (void)pthread_mutex_lock(&l->lock);
    yes = first_like_locked(line_of(l, h), h) != NULL;
    (void)pthread_mutex_unlock(&l->lock);
    return yes;
}

struct hold *line_called(struct worker *w)
{
    struct lines *l = w->server->lines;
    struct hold *h;

    (void)pthread_mutex_lock(&l->lock);
    h = w->called;
    if (h)
        uncall_locked(h);
    (void)pthread_mutex_unlock(&l->lock);
    return h;
}
