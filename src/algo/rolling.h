/* A ring of buckets over time: which bucket is the current one, and which have left.
 *
 *     slots = 4, newest = 6                       the ring:  4 5 6 3
 *     now is in slot 8                             becomes:  8 5 6 7   (7 and 8 zeroed)
 *
 * Slots are numbered since the epoch and slot i lies at i modulo their number. The owner keeps the
 * number of the newest.
 *
 * Invariants:
 *   (1) The ring holds the slots (newest - slots, newest]; slots without events are zero.
 *   (2) A clock that steps back by less than the ring is long stands in the newest slot; an event
 *       from that time is late (weir__rolling_is_late), and the owner leaves it out: added to the
 *       newest slot, it would make that slot twice as long. A clock that steps back further starts
 *       an empty ring at its own time.
 *   (3) A number that no clock can have produced is damage, and is read as the nearest possible one
 *       (weir__rolling_newest). The place of any number is within the ring (weir__rolling_place).
 */
#ifndef WEIR_ALGO_ROLLING_H
#define WEIR_ALGO_ROLLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/num.h"

/* The newest slot, from the number in a state. */
static inline int64_t weir__rolling_newest(int64_t newest, int64_t slot_ns, int64_t slots)
{
    return weir__clamp(newest, 0, WEIR__NOW_MAX / slot_ns + slots);
}

static inline size_t weir__rolling_place(int64_t slot, int64_t slots)
{
    return (size_t)((uint64_t)slot % (uint64_t)slots);
}

/* The slot that now is counted in; `at` is the slot of the clock. */
static inline int64_t weir__rolling_slot(int64_t at, int64_t newest, int64_t slots)
{
    return at < newest && newest - at < slots ? newest : at;
}

static inline bool weir__rolling_is_late(int64_t at, int64_t slot)
{
    return at < slot;
}

/* Whether a slot of the ring (newest - slots, newest] is in the window that ends with `slot`. */
static inline bool weir__rolling_holds(int64_t one, int64_t slot, int64_t slots)
{
    return one >= 0 && one <= slot && slot - one < slots;
}

/* Zeroes the slots after `newest` up to `slot`. */
static inline void weir__rolling_roll(void *ring, size_t bytes, int64_t newest, int64_t slot,
                                      int64_t slots)
{
    char *const at = ring;

    if (slot < newest || slot - newest >= slots) {
        memset(at, 0, bytes * (size_t)slots);
        return;
    }
    for (int64_t i = newest + 1; i <= slot; i++)
        memset(at + bytes * weir__rolling_place(i, slots), 0, bytes);
}

#endif
