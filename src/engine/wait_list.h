/* Wait lists: waiters for keys, in the order in which they joined, in this process.
 *
 * A list has the waiters of all keys that share it. An engine has many lists, by the hash of the
 * key; a limiter, which has one key, has one list. The first waiter for a key heads a queue of the
 * others for that key, and the heads are linked with each other. So to find the first for a key
 * takes as long as there are keys in the list, however many wait for each; and the hash is keyed,
 * so attackers who choose keys cannot put them into one list. Two keys with one hash would be
 * served in one order; that is harmless.
 *
 * A waiter watches the list from before its first question on, so that it learns of a change
 * that happens between its question and its joining.
 *
 * Invariants:
 *   (1) A waiter that joined earlier for the same key comes first, unless it left.
 *   (2) A waiter that becomes the first for its key is woken.
 *   (3) *watched is not 0 while a waiter watches. A thread that frees a permit looks at it
 *       afterwards, and a waiter asks for a permit after it has been counted: both hold the lock of
 *       the key's bucket in between, so one of the two sees the other.
 *   (4) `changes` counts what may let a waiter of the list pass.
 *   (5) After fork() a list is empty in the child: the waiters were the parent's. The copies that
 *       the child has can only leave.
 *   (6) The lock is held for list work and calls of `wake`, never while a limit decides.
 */
#ifndef WEIR_ENGINE_WAIT_LIST_H
#define WEIR_ENGINE_WAIT_LIST_H

#include "engine/waiter.h"
#include "os/fork.h"

/* Zero is an empty list. weir__fork_prepare is called before it is used. */
struct weir__wait_list {
    struct weir__lock lock;
    uint32_t generation; /* the process generation (fork.h) of the waiters */
    uint32_t changes;
    struct weir__waiter *heads; /* the first for each key */
};

/* Watches; me->list, watched and key are set. Returns whether others wait for the key. */
bool weir__wait_list_watch(struct weir__waiter *me);
/* Joins, unless `room` waiters for the key are in the list: then returns false. A waiter that is
 * the first, and has missed a change since it began to watch, is marked as woken. */
bool weir__wait_list_join(struct weir__waiter *me, int64_t room);
/* Leaves, and watches no more. */
void weir__wait_list_leave(struct weir__waiter *me);
/* Updates me->first. Returns whether it was woken since it last asked, or joined. */
bool weir__wait_list_woken(struct weir__waiter *me);

/* Whether there is a waiter for the key, and how many there are. */
bool weir__wait_list_has(struct weir__wait_list *q, uint64_t key);
int64_t weir__wait_list_length(struct weir__wait_list *q, uint64_t key);
/* Something has changed: wakes the first waiter for the key, or the first for each key of the
 * owner. */
void weir__wait_list_wake(struct weir__wait_list *q, uint64_t key);
void weir__wait_list_wake_owner(struct weir__wait_list *q, const void *owner);

#endif
