/* Wait lists: the waiters for one key of a limit that cannot promise the future, in order.
 *
 * Invariants:
 *   (1) A list is a chain of delayed replies, possibly for several keys of one hash; the first
 *       for a key is the one that tries.
 *   (2) A waiter that leaves wakes the next one for its key, even if it was not the first itself:
 *       one wake-up too many costs one look.
 *   (3) The lock is held for list work only, never while the engine decides.
 */
#include <stdlib.h>
#include <string.h>

#include "server/delayed/delayed.h"

#define CHAINS 4096

struct wait_chain {
    struct delayed_reply *first, *last;
};

struct wait_lists {
    pthread_mutex_t lock;
    struct wait_chain chain[CHAINS];
};

struct wait_lists *wait_lists_open(void)
{
    struct wait_lists *l = calloc(1, sizeof *l);

    if (l)
        (void)pthread_mutex_init(&l->lock, NULL);
    return l;
}

void wait_lists_close(struct wait_lists *l)
{
    if (l)
        (void)pthread_mutex_destroy(&l->lock);
    free(l);
}

static struct wait_chain *wait_chain_of(struct wait_lists *l, const struct delayed_reply *h)
{
    return &l->chain[h->identity % CHAINS];
}

static bool same_key(const struct delayed_reply *a, const struct delayed_reply *b)
{
    return a->identity == b->identity && weir__slice_equal(a->op.key, b->op.key);
}

static struct delayed_reply *wait_list_first_locked(struct wait_chain *chain,
                                                    const struct delayed_reply *h)
{
    struct delayed_reply *at = chain->first;

    while (at && !same_key(at, h))
        at = at->behind;
    return at;
}

bool wait_list_join(struct wait_lists *l, struct delayed_reply *h)
{
    struct wait_chain *chain = wait_chain_of(l, h);
    bool first;

    (void)pthread_mutex_lock(&l->lock);
    if (!h->in_list) {
        h->before = chain->last;
        *(chain->last ? &chain->last->behind : &chain->first) = h;
        chain->last = h;
        h->in_list = true;
    }
    first = wait_list_first_locked(chain, h) == h;
    (void)pthread_mutex_unlock(&l->lock);
    return first;
}

/* Tells the waiter's worker that its turn has come. */
static void wait_list_wake_locked(struct delayed_reply *h)
{
    struct worker *w = h->conn->worker;

    if (h->ready)
        return;
    h->ready = true;
    h->next_ready = w->ready;
    w->ready = h;
    (void)uv_async_send(&w->wake);
}

static void wait_list_unwake_locked(struct delayed_reply *h)
{
    struct delayed_reply **at = &h->conn->worker->ready;

    while (h->ready && *at != h)
        at = &(*at)->next_ready;
    if (h->ready)
        *at = h->next_ready;
    h->ready = false;
}

void wait_list_leave(struct wait_lists *l, struct delayed_reply *h)
{
    struct wait_chain *chain = wait_chain_of(l, h);
    struct delayed_reply *next;

    (void)pthread_mutex_lock(&l->lock);
    wait_list_unwake_locked(h);
    if (h->in_list) {
        *(h->before ? &h->before->behind : &chain->first) = h->behind;
        *(h->behind ? &h->behind->before : &chain->last) = h->before;
        h->in_list = false;
        h->before = h->behind = NULL;
        next = wait_list_first_locked(chain, h);
        if (next)
            wait_list_wake_locked(next);
    }
    (void)pthread_mutex_unlock(&l->lock);
}

bool wait_list_has(struct wait_lists *l, const struct delayed_reply *h)
{
    bool yes;

    (void)pthread_mutex_lock(&l->lock);
    yes = wait_list_first_locked(wait_chain_of(l, h), h) != NULL;
    (void)pthread_mutex_unlock(&l->lock);
    return yes;
}

struct delayed_reply *wait_list_next_ready(struct worker *w)
{
    struct wait_lists *l = w->server->wait_lists;
    struct delayed_reply *h;

    (void)pthread_mutex_lock(&l->lock);
    h = w->ready;
    if (h)
        wait_list_unwake_locked(h);
    (void)pthread_mutex_unlock(&l->lock);
    return h;
}
