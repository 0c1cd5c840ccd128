/* Seats at a shared file: who holds what, and what becomes of it when he dies.
 *
 * A thread that decides has a seat: a number that its locks show, a journal, and a record lock on one
 * byte that tells everybody whether its process lives. Whoever meets a lock held for long tries for
 * the holder's byte: if it can be had, the holder is dead, and its journal is undone on the spot.
 *
 * Invariants:
 *   (1) A seat is used by one thread at a time; its byte is locked by that thread's process.
 *   (2) Who takes a dead man's byte undoes his journal before anything else. So a seat that is taken
 *       anew has nothing left over, and two never undo at once.
 *   (3) Record locks do not hold one thread of a process off from another. What belongs to this process
 *       is therefore kept in `ours`, under a mutex, and never tried for.
 *   (4) A child of fork has no seat of its parent's.
 */
#ifndef WEIR_ENGINE_STORE_OWNERS_H
#define WEIR_ENGINE_STORE_OWNERS_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/store/format.h"

enum weir__owner_use { WEIR__OWNER_NOT_OURS, WEIR__OWNER_TAKEN };

struct weir__file_owner {
    struct weir__owner owner; /* the first member: a seat is one of these */
    struct weir__file *file;
    int64_t waiting_since_ns;
};

struct weir__owners {
    pthread_mutex_t lock; /* of ours[] and of the bytes' locks */
    enum weir__owner_use ours[WEIR__FILE_OWNERS];
    struct weir__file_owner owner[WEIR__FILE_OWNERS];
    _Atomic uint64_t busy; /* how often somebody gave up waiting */
};

void weir__owners_init(struct weir__owners *s, struct weir__file *f);
/* Undoes what dead holders of any seat left behind. */
void weir__owners_recover_all(struct weir__file *f);
/* In the child of a fork: nothing is ours any more. */
void weir__owners_forked(struct weir__owners *s);

#endif
