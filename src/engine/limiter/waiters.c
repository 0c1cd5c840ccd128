/* The wait list of a limiter; see waiters.h. */
#include "engine/limiter/waiters.h"

#include <stddef.h>

static void waiters_lock(struct weir__waiters *t)
{
    (void)weir__lock_take(&t->lock, &weir__owner_process); /* this owner never gives up */
    if (t->generation == weir__owner_process.number)
        return;
    t->first = t->last = NULL;
    t->generation = weir__owner_process.number;
}

void weir__waiters_join(struct weir__waiters *t, struct weir__limiter_waiter *w)
{
    *w = (struct weir__limiter_waiter){0};
    waiters_lock(t);
    if (t->last)
        t->last->next = w;
    else
        t->first = w;
    t->last = w;
    weir__lock_drop(&t->lock);
}

static void waiters_wake_locked(struct weir__waiters *t)
{
    if (t->first)
        weir__wakeup_signal(&t->first->wakeup);
}

void weir__waiters_leave(struct weir__waiters *t, struct weir__limiter_waiter *w)
{
    struct weir__limiter_waiter **at = &t->first, *before = NULL;

    waiters_lock(t);
    while (*at && *at != w) {
        before = *at;
        at = &before->next;
    }
    if (*at) {
        *at = w->next;
        if (t->last == w)
            t->last = before;
        if (!before)
            waiters_wake_locked(t);
    }
    weir__lock_drop(&t->lock);
}

bool weir__waiters_is_first(struct weir__waiters *t, const struct weir__limiter_waiter *w)
{
    bool is;

    waiters_lock(t);
    is = t->first == w;
    weir__lock_drop(&t->lock);
    return is;
}

int weir__waiters_pause(struct weir__limiter_waiter *w, int64_t ns)
{
    return weir__wakeup_wait(&w->wakeup, ns);
}

void weir__waiters_wake(struct weir__waiters *t)
{
    waiters_lock(t);
    waiters_wake_locked(t);
    weir__lock_drop(&t->lock);
}
