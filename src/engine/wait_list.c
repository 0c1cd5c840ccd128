#include "engine/queue.h"

static struct weir__in_line *first_for(const struct weir__queue *q, uint64_t key)
{
    struct weir__in_line *at = q->first;

    while (at && at->key != key)
        at = at->next;
    return at;
}

static int64_t length_of(const struct weir__queue *q, uint64_t key)
{
    int64_t n = 0;

    for (const struct weir__in_line *at = q->first; at; at = at->next)
        n += at->key == key;
    return n;
}

bool weir__queue_join(struct weir *w, struct weir__in_line *me, int64_t room)
{
    struct weir__queue *q = weir__queue_of(w, me->key);
    bool joins;

    (void)pthread_mutex_lock(&q->lock);
    joins = room == INT64_MAX || length_of(q, me->key) < room;
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

void weir__queue_leave(struct weir *w, struct weir__in_line *me)
{
    struct weir__queue *q = weir__queue_of(w, me->key);
    struct weir__in_line *before = NULL;

    (void)pthread_mutex_lock(&q->lock);
    for (struct weir__in_line *at = q->first; at != me; at = at->next)
        before = at;
    if (before)
        before->next = me->next;
    else
        q->first = me->next;
    if (q->last == me)
        q->last = before;
    atomic_fetch_sub(&w->waiting, 1);
    before = first_for(q, me->key);
    if (before)
        weir__bell_ring(&before->bell);
    (void)pthread_mutex_unlock(&q->lock);
}

bool weir__queue_is_first(struct weir *w, const struct weir__in_line *me)
{
    struct weir__queue *q = weir__queue_of(w, me->key);
    bool first;

    (void)pthread_mutex_lock(&q->lock);
    first = first_for(q, me->key) == me;
    (void)pthread_mutex_unlock(&q->lock);
    return first;
}

bool weir__queue_has(struct weir *w, uint64_t key)
{
    struct weir__queue *q = weir__queue_of(w, key);
    bool has;

    (void)pthread_mutex_lock(&q->lock);
    has = first_for(q, key) != NULL;
    (void)pthread_mutex_unlock(&q->lock);
    return has;
}

void weir__queue_ring(struct weir *w, uint64_t key)
{
    struct weir__queue *q = weir__queue_of(w, key);
    struct weir__in_line *first;

    if (atomic_load(&w->waiting) == 0)
        return;
    (void)pthread_mutex_lock(&q->lock);
    first = first_for(q, key);
    if (first)
        weir__bell_ring(&first->bell);
    (void)pthread_mutex_unlock(&q->lock);
}

void weir__queue_ring_all(struct weir *w, const struct weir_policy *p)
{
    if (atomic_load(&w->waiting) == 0)
        return;
    for (int i = 0; i < WEIR__QUEUES; i++) {
        (void)pthread_mutex_lock(&w->queue[i].lock);
        for (struct weir__in_line *at = w->queue[i].first; at; at = at->next)
            if (at->policy == p)
                weir__bell_ring(&at->bell);
        (void)pthread_mutex_unlock(&w->queue[i].lock);
    }
}
