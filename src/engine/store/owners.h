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
#ifndef WEIR_ENGINE_SEATS_H
#define WEIR_ENGINE_SEATS_H

#include <pthread.h>
#include <stdatomic.h>

#include "engine/format.h"

enum weir__seat_use { WEIR__SEAT_NOT_OURS, WEIR__SEAT_TAKEN };

struct weir__file_seat {
    struct weir__seat seat; /* the first member: a seat is one of these */
    struct weir__file *file;
    int64_t waiting_since_ns;
};

struct weir__seats {
    pthread_mutex_t lock; /* of ours[] and of the bytes' locks */
    enum weir__seat_use ours[WEIR__FILE_SEATS];
    struct weir__file_seat seat[WEIR__FILE_SEATS];
    _Atomic uint64_t busy; /* how often somebody gave up waiting */
};

void weir__seats_init(struct weir__seats *s, struct weir__file *f);
/* Undoes what dead holders of any seat left behind. */
void weir__seats_recover_all(struct weir__file *f);
/* In the child of a fork: nothing is ours any more. */
void weir__seats_forked(struct weir__seats *s);

#endif
