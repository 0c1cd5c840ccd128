/* Wait lists: waiters for keys, in the order in which they joined; see wait_list.h.
 *
 * A waiter's fields in the list: `next` and `before` link the waiters for one key. The first of
 * them, the head, has no `before`; it alone keeps `last`, `length`, and `other`, the head of the
 * next key in the list.
 */
#include "engine/wait_list.h"

#include <stddef.h>

static void wait_list_lock(struct weir__wait_list *q)
{
    (void)weir__lock_take(&q->lock, &weir__owner_process); /* this owner never gives up */
    if (q->generation == weir__owner_process.number)
        return;
    q->heads = NULL;
    q->generation = weir__owner_process.number;
}

static void wait_list_unlock(struct weir__wait_list *q)
{
    weir__lock_drop(&q->lock);
}

static struct weir__waiter *wait_list_head_locked(const struct weir__wait_list *q, uint64_t key)
{
    struct weir__waiter *at = q->heads;

    while (at && at->key != key)
        at = at->other;
    return at;
}

/* Puts `other` where the head `me` is in the list of heads. */
static void wait_list_replace_locked(struct weir__wait_list *q, const struct weir__waiter *me,
                                     struct weir__waiter *other)
{
    struct weir__waiter *at = q->heads;

    if (at == me) {
        q->heads = other;
        return;
    }
    while (at->other != me)
        at = at->other;
    at->other = other;
}

static void wait_list_wake_head_locked(struct weir__waiter *head)
{
    head->woken = true;
    head->wake(head);
}

/* ---- Watching and joining -------------------------------------------------------------------- */

bool weir__wait_list_watch(struct weir__waiter *me)
{
    struct weir__wait_list *q = me->list;
    bool others;

    me->watches = true;
    if (me->watched)
        atomic_fetch_add(me->watched, 1);
    wait_list_lock(q);
    me->generation = q->generation;
    me->changes = q->changes;
    others = wait_list_head_locked(q, me->key) != NULL;
    wait_list_unlock(q);
    return others;
}

static void wait_list_append_locked(struct weir__wait_list *q, struct weir__waiter *head,
                                    struct weir__waiter *me)
{
    me->next = NULL;
    me->before = head ? head->last : NULL;
    me->first = !head;
    me->woken = !head && me->changes != q->changes;
    me->generation = q->generation;
    me->listed = true;
    if (head) {
        head->last->next = me;
        head->last = me;
        head->length++;
        return;
    }
    me->last = me;
    me->length = 1;
    me->other = q->heads;
    q->heads = me;
}

bool weir__wait_list_join(struct weir__waiter *me, int64_t room)
{
    struct weir__wait_list *q = me->list;
    struct weir__waiter *head;
    bool joins;

    wait_list_lock(q);
    head = wait_list_head_locked(q, me->key);
    joins = (head ? head->length : 0) < room;
    if (joins)
        wait_list_append_locked(q, head, me);
    wait_list_unlock(q);
    return joins;
}

/* ---- Leaving --------------------------------------------------------------------------------- */

static void wait_list_remove_head_locked(struct weir__wait_list *q, struct weir__waiter *me)
{
    struct weir__waiter *next = me->next;

    if (!next) {
        wait_list_replace_locked(q, me, me->other);
        return;
    }
    next->before = NULL;
    next->last = me->last;
    next->length = me->length - 1;
    next->other = me->other;
    wait_list_replace_locked(q, me, next);
    wait_list_wake_head_locked(next);
}

static void wait_list_remove_locked(struct weir__wait_list *q, struct weir__waiter *me)
{
    struct weir__waiter *head;

    if (!me->before) {
        wait_list_remove_head_locked(q, me);
        return;
    }
    head = wait_list_head_locked(q, me->key);
    me->before->next = me->next;
    if (me->next)
        me->next->before = me->before;
    else
        head->last = me->before;
    head->length--;
}

void weir__wait_list_leave(struct weir__waiter *me)
{
    struct weir__wait_list *q = me->list;
    bool ours = true;

    if (me->listed) {
        wait_list_lock(q);
        ours = me->generation == q->generation;
        q->changes++;
        if (ours)
            wait_list_remove_locked(q, me);
        wait_list_unlock(q);
        me->listed = false;
    }
    if (me->watches && me->watched && me->generation == weir__owner_process.number)
        atomic_fetch_sub(me->watched, 1);
    me->watches = false;
}

/* ---- Looking and waking ---------------------------------------------------------------------- */

bool weir__wait_list_woken(struct weir__waiter *me)
{
    struct weir__wait_list *q = me->list;
    bool woken;

    wait_list_lock(q);
    me->first = !me->before;
    woken = me->woken;
    me->woken = false;
    wait_list_unlock(q);
    return woken;
}

int64_t weir__wait_list_length(struct weir__wait_list *q, uint64_t key)
{
    const struct weir__waiter *head;
    int64_t length;

    wait_list_lock(q);
    head = wait_list_head_locked(q, key);
    length = head ? head->length : 0;
    wait_list_unlock(q);
    return length;
}

bool weir__wait_list_has(struct weir__wait_list *q, uint64_t key)
{
    return weir__wait_list_length(q, key) > 0;
}

void weir__wait_list_wake(struct weir__wait_list *q, uint64_t key)
{
    struct weir__waiter *head;

    wait_list_lock(q);
    q->changes++;
    head = wait_list_head_locked(q, key);
    if (head)
        wait_list_wake_head_locked(head);
    wait_list_unlock(q);
}

void weir__wait_list_wake_owner(struct weir__wait_list *q, const void *owner)
{
    wait_list_lock(q);
    q->changes++;
    for (struct weir__waiter *at = q->heads; at; at = at->other)
        if (at->owner == owner)
            wait_list_wake_head_locked(at);
    wait_list_unlock(q);
}
