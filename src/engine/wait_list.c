/* Wait lists: waiters for keys, in the order in which they came; see wait_list.h. */
#include "engine/wait_list.h"

static struct weir__key_waiter *wait_list_first(const struct weir__wait_list *q, uint64_t key)
{
    struct weir__key_waiter *at = q->first;

    while (at && at->key != key)
        at = at->next;
    return at;
}

static int64_t wait_list_length(const struct weir__wait_list *q, uint64_t key)
{
    int64_t n = 0;

    for (const struct weir__key_waiter *at = q->first; at; at = at->next)
        n += at->key == key;
    return n;
}

bool weir__wait_list_join(struct weir *w, struct weir__key_waiter *me, int64_t room)
{
    struct weir__wait_list *q = weir__wait_list_of(w, me->key);
    bool joins;

    (void)pthread_mutex_lock(&q->lock);
    joins = room == INT64_MAX || wait_list_length(q, me->key) < room;
    if (joins) {
        atomic_fetch_add(&w->waiting, 1);
        me->next = NULL;
        if (q->last)
            q->last->next = me;
        else
            q->first = me;
        q->last = me;
    }
    (void)pthread_mutex_unlock(&q->lock);
    return joins;
}

void weir__wait_list_leave(struct weir *w, struct weir__key_waiter *me)
{
    struct weir__wait_list *q = weir__wait_list_of(w, me->key);
    struct weir__key_waiter *before = NULL;

    (void)pthread_mutex_lock(&q->lock);
    for (struct weir__key_waiter *at = q->first; at != me; at = at->next)
        before = at;
    if (before)
        before->next = me->next;
    else
        q->first = me->next;
    if (q->last == me)
        q->last = before;
    atomic_fetch_sub(&w->waiting, 1);
    before = wait_list_first(q, me->key);
    if (before)
        weir__wakeup_signal(&before->wakeup);
    (void)pthread_mutex_unlock(&q->lock);
}

bool weir__wait_list_is_first(struct weir *w, const struct weir__key_waiter *me)
{
    struct weir__wait_list *q = weir__wait_list_of(w, me->key);
    bool first;

    (void)pthread_mutex_lock(&q->lock);
    first = wait_list_first(q, me->key) == me;
    (void)pthread_mutex_unlock(&q->lock);
    return first;
}

bool weir__wait_list_has(struct weir *w, uint64_t key)
{
    struct weir__wait_list *q = weir__wait_list_of(w, key);
    bool has;

    (void)pthread_mutex_lock(&q->lock);
    has = wait_list_first(q, key) != NULL;
    (void)pthread_mutex_unlock(&q->lock);
    return has;
}

void weir__wait_list_wake(struct weir *w, uint64_t key)
{
    struct weir__wait_list *q = weir__wait_list_of(w, key);
    struct weir__key_waiter *first;

    if (atomic_load(&w->waiting) == 0)
        return;
    (void)pthread_mutex_lock(&q->lock);
    first = wait_list_first(q, key);
    if (first)
        weir__wakeup_signal(&first->wakeup);
    (void)pthread_mutex_unlock(&q->lock);
}

void weir__wait_list_wake_all(struct weir *w, const struct weir_policy *p)
{
    if (atomic_load(&w->waiting) == 0)
        return;
    for (int i = 0; i < WEIR__WAIT_LISTS; i++) {
        (void)pthread_mutex_lock(&w->queue[i].lock);
        for (struct weir__key_waiter *at = w->queue[i].first; at; at = at->next)
            if (at->policy == p)
                weir__wakeup_signal(&at->wakeup);
        (void)pthread_mutex_unlock(&w->queue[i].lock);
    }
}
