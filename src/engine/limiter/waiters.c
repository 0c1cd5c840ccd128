#include "engine/turnstile.h"

#include <stddef.h>

static void take_lock(struct weir__turnstile *t)
{
    (void)weir__lock_take(&t->lock, &weir__seat_here); /* this seat never gives up */
    if (t->generation == weir__seat_here.number)
        return;
    t->first = t->last = NULL;
    t->generation = weir__seat_here.number;
}

void weir__turnstile_join(struct weir__turnstile *t, struct weir__waiter *w)
{
    *w = (struct weir__waiter){0};
    take_lock(t);
    if (t->last)
        t->last->next = w;
    else
        t->first = w;
    t->last = w;
    weir__lock_drop(&t->lock);
}

static void ring_locked(struct weir__turnstile *t)
{
    if (t->first)
        weir__bell_ring(&t->first->bell);
}

void weir__turnstile_leave(struct weir__turnstile *t, struct weir__waiter *w)
{
    struct weir__waiter **at = &t->first, *before = NULL;

    take_lock(t);
    while (*at && *at != w) {
        before = *at;
        at = &before->next;
    }
    if (*at) {
        *at = w->next;
        if (t->last == w)
            t->last = before;
        if (!before)
            ring_locked(t);
    }
    weir__lock_drop(&t->lock);
}

bool weir__turnstile_is_first(struct weir__turnstile *t, const struct weir__waiter *w)
{
    bool is;

    take_lock(t);
    is = t->first == w;
    weir__lock_drop(&t->lock);
    return is;
}

int weir__turnstile_pause(struct weir__waiter *w, int64_t ns)
{
    return weir__bell_await(&w->bell, ns);
}

void weir__turnstile_ring(struct weir__turnstile *t)
{
    take_lock(t);
    ring_locked(t);
    weir__lock_drop(&t->lock);
}
