/* The owners of a shared file: which thread holds which lock, and how the locks of a dead one are
 * recovered.
 *
 * Each thread that decides has an owner: a number that its locks show, a journal, and a record lock
 * on one byte by which every process can tell whether the owner's process is alive. A thread that
 * finds a lock held for a long time tries to lock the holder's byte: if it can, the holder is dead,
 * and the thread undoes the holder's journal on the spot.
 *
 * Invariants:
 *   (1) One thread at a time uses an owner; that thread's process locks the owner's byte.
 *   (2) A thread that locks the byte of a dead owner first undoes its journal. So an owner that is
 *       reused has no changes left to undo, and two threads never undo at once.
 *   (3) Record locks do not keep one thread of a process from another. So the owners that belong to
 *       this process are kept in `ours`, under a mutex, and no thread tries to lock their bytes.
 *   (4) A child of fork has none of its parent's owners.
 */
#ifndef WEIR_ENGINE_STORE_OWNERS_H
#define WEIR_ENGINE_STORE_OWNERS_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/store/format.h"

enum weir__owner_use { WEIR__OWNER_NOT_OURS, WEIR__OWNER_TAKEN };

struct weir__file_owner {
    struct weir__owner owner; /* the first member: a pointer to it is one to this struct */
    struct weir__file *file;
    int64_t waiting_since_ns;
};

struct weir__owners {
    pthread_mutex_t lock; /* guards ours[] and the locks of the bytes */
    enum weir__owner_use ours[WEIR__FILE_OWNERS];
    struct weir__file_owner owner[WEIR__FILE_OWNERS];
    _Atomic uint64_t busy; /* how often a thread gave up waiting */
};

void weir__owners_init(struct weir__owners *s, struct weir__file *f);
/* Undoes the unfinished changes of all dead owners. */
void weir__owners_recover_all(struct weir__file *f);
/* Called in the child of a fork: no owner is ours any more. */
void weir__owners_forked(struct weir__owners *s);

#endif
