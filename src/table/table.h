/* The table: from a key's fingerprint to its state, bounded, concurrent, without a pause.
 *
 * The table is an array of buckets of a few cache lines, each with a lock, the fingerprints of a
 * handful of keys, and after them the keys' states. A key has two candidate buckets, both read from
 * its fingerprint, and goes into the first that has room, so that a table can be filled to 70% and
 * more while almost no live key is ever evicted (with one candidate bucket one in ten would be).
 *
 *     bucket | lock | fp fp fp fp fp | state | state | state | state | state |  128 bytes: 5 keys
 *
 * The fingerprints lie together, in the first line, so that a search that fails reads one line.
 *
 * The table knows no limit. It judges a state by its first word, fresh_ns: if that time is past (0
 * always is), the key is fully recovered, and any newcomer may take its place. There is one
 * exception: after a change to a slower limit, a state not touched since is fresh later than it
 * says. Versions are numbered across all limits of a store; while a limit changes, the table keeps
 * what to add for its older versions (256 entries, by version); see weir__table_stretch.
 *
 * A private table grows as keys come (grow.c), a bucket or two with each newcomer. No caller waits
 * for more than that, and the memory was reserved from the start, so that no pointer moves.
 *
 * Invariants:
 *   (1) A thread that changes an entry holds the lock of its bucket; one that moves an entry holds
 *       the locks of both buckets.
 *   (2) A thread that makes a key has locked both of its buckets, and has searched both: no key is
 *       ever there twice. A thread that has found the key needs that one bucket only.
 *   (3) A bucket's number can be computed from a fingerprint only under the current count of
 *       buckets; so it is computed again once the lock is taken, and the search starts again if it
 *       has changed. A bucket that is locked is not moved.
 *   (4) A thread that holds a lock takes another only in the order of addresses, or only tries it.
 *   (5) An empty place has fingerprint 0; no key has.
 *   (6) Nothing here allocates, sweeps, or reads the clock.
 */
#ifndef WEIR_TABLE_TABLE_H
#define WEIR_TABLE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "table/journal.h"

struct weir__table;
struct weir__bucket;

/* Changes whenever the layout of a table in memory, or its hashing to buckets, changes. */
#define WEIR__TABLE_LAYOUT 2

struct weir__table_options {
    size_t state_bytes; /* a multiple of 8, at least 16 */
    uint64_t max_keys;
    bool shared;     /* with other processes: all buckets exist from the start; else it grows */
    uint64_t limits; /* how many limits may have overflow cells in it (cells.h); 0: none has */
};

struct weir__table_stats {
    uint64_t max_keys, bytes, max_bytes; /* bytes: what is in use */
    uint64_t cells_bytes;                /* of the room for overflow cells */
    uint64_t places, used;               /* used: places that hold a key, live or recovered */
    uint64_t evicted;                    /* live keys that gave up their place */
};

/* How much memory a table takes at its largest; a private one touches it as it grows. */
size_t weir__table_size(const struct weir__table_options *o);
/* How many keys a table with these options may have in that many bytes: 0 up to the options'
 * max_keys. */
uint64_t weir__table_keys_in(const struct weir__table_options *o, uint64_t bytes);
/* `mem` is zeroed, aligned to 64 bytes, and as large as weir__table_size says. */
struct weir__table *weir__table_init(void *mem, const struct weir__table_options *o);

/* One access to a key: what a search has locked, and what it found. */
struct weir__access {
    struct weir__bucket *bucket[2]; /* locked, in the order of their numbers; or NULL */
    uint64_t number[2];
    int first;               /* which of the two is the key's first choice */
    struct weir__bucket *in; /* where the key is, and which of its places; or NULL */
    uint64_t place;
};

/* Finds the key's state and locks its bucket, or *state is NULL and both of its buckets are locked.
 * 0, and the caller must unlock the access; or the error of the owner's patience, and nothing is
 * locked. */
int weir__table_find(struct weir__table *t, struct weir__owner *s, uint64_t fingerprint,
                     int64_t now_ns, struct weir__access *access, struct weir__state **state);

/* Notes that the entry that find or make returned is about to be changed. */
void weir__table_note(struct weir__table *t, const struct weir__owner *s,
                      const struct weir__access *access);

/* Places that a newcomer cannot have: those of the fingerprints of the same request, and those that
 * a peek has already given to another newcomer of it. */
struct weir__spared {
    const uint64_t *fingerprint;
    int n;
    const struct weir__access *promised;
    int promises;
};

#define WEIR__GROW_FIRST INT64_MIN

/* Whether keys are moved to their other bucket to make room for a newcomer: never, where newcomers
 * are refused for lack of a place in any case; now and then once it has been in vain, where there
 * is another way; always, where there is none. So a refusal never depends on luck. */
enum weir__moving { WEIR__MOVE_NEVER, WEIR__MOVE_NOW_AND_THEN, WEIR__MOVE_ALWAYS };

/* A free place for a key that find did not find: a state with fresh_ns 0, noted, under the locks
 * that find took. NULL if all places hold live keys; then *free_ns is when the first of them will
 * be fully recovered. NULL too, with *free_ns WEIR__GROW_FIRST, if the table can still grow but is
 * behind (the thread that was growing it has lost the processor): unlock, call
 * weir__table_grow_now, and start again. The caller gives a place that it does not use back with
 * forget. */
struct weir__state *weir__table_make(struct weir__table *t, const struct weir__owner *s,
                                     uint64_t fingerprint, int64_t now_ns, enum weir__moving moving,
                                     struct weir__spared spared, struct weir__access *access,
                                     int64_t *free_ns);

/* The keys in the places that a newcomer could have, under the locks that find took. */
struct weir__occupant {
    struct weir__bucket *bucket;
    uint64_t place, fingerprint;
    struct weir__state *state;
};
#define WEIR__OCCUPANTS_MOST 24

int weir__table_occupants(const struct weir__table *t, const struct weir__access *access,
                          struct weir__spared spared, struct weir__occupant *out);
/* Gives the resident's place that *access names, and that has been noted, to the newcomer. What the
 * resident owes is already in its cells (cells.h). */
struct weir__state *weir__table_replace(struct weir__table *t, uint64_t fingerprint,
                                        const struct weir__access *access);

/* Whether make would find a place, and which (access->in is NULL if a key would have to be moved
 * first); else *free_ns is what make would set, WEIR__GROW_FIRST included. Changes nothing but the
 * access, and where keys lie. */
bool weir__table_has_place(struct weir__table *t, int64_t now_ns, enum weir__moving moving,
                           struct weir__spared spared, struct weir__access *access,
                           int64_t *free_ns);

/* Empties the key's place (noted before). */
void weir__table_forget(struct weir__table *t, const struct weir__access *access);

void weir__table_unlock(const struct weir__access *access);

/* Called for a live key that must leave its place because the table grows: keeps what the key owes
 * in its cells. False if that is impossible, and the key stays. */
struct weir__rescue {
    bool (*keep)(void *arg, uint64_t fingerprint, struct weir__state *state, int64_t now_ns);
    void *arg;
};

/* Grows a private table a little if it is due. Holds no lock before or after. */
void weir__table_grow(struct weir__table *t, const struct weir__rescue *rescue, int64_t now_ns);
/* Grows it more, due or not, and waits for a thread that is growing it. */
void weir__table_grow_now(struct weir__table *t, const struct weir__rescue *rescue, int64_t now_ns);

/* Calls `visit` for every entry, with its bucket locked and the entry noted if `wanted` says so;
 * what it changes is committed. *missed: keys moved meanwhile, and the sweep may not have seen
 * some. 0, or the error of the owner's patience. */
int weir__table_sweep(struct weir__table *t, struct weir__owner *s, void *arg,
                      bool (*wanted)(void *arg, uint64_t fingerprint,
                                     const struct weir__state *state),
                      void (*visit)(void *arg, struct weir__state *state), bool *missed);

/* Prefetches the key's buckets. (A batch prefetches the first alone, see probe.h: the processor has
 * few line buffers, and more requests than these make it wait.) */
void weir__table_prefetch(const struct weir__table *t, uint64_t fingerprint);

/* For requests of several keys, which lock all candidate buckets of all of them in one order: the
 * key's buckets (1 or 2) at present; whether they are still its buckets; and the search once they
 * are locked. */
int weir__table_candidates(const struct weir__table *t, uint64_t fingerprint,
                           struct weir__access *access);
bool weir__table_is_current(const struct weir__table *t, uint64_t fingerprint,
                            const struct weir__access *access);
struct weir__state *weir__table_search_locked(const struct weir__table *t, uint64_t fingerprint,
                                              struct weir__access *access);
struct weir__lock *weir__bucket_lock(struct weir__bucket *b);

/* A shared table of states too large for a journal: the lock that guards the room where they are
 * saved, to be taken before its buckets' locks; else NULL. */
struct weir__lock *weir__table_saving(struct weir__table *t);

/* States of this version, written before since_ns and not touched since, are fully recovered later
 * than they say: by extra_ns, and by `times` as long after since_ns. After two calls, both
 * apply. */
void weir__table_stretch(struct weir__table *t, uint32_t version, int64_t since_ns,
                         int64_t extra_ns, int64_t times);

struct weir__table_stats weir__table_stats(const struct weir__table *t);
/* Calls `visit` for every entry of a table that no other thread uses. */
void weir__table_each(const struct weir__table *t, void *arg,
                      void (*visit)(void *arg, uint64_t fingerprint,
                                    const struct weir__state *state));
/* Whether the header is the one that weir__table_init writes for these options. */
bool weir__table_is_sound(const struct weir__table *t, const struct weir__table_options *o);

/* What lies at an offset from a table's start, if a decision could have named it: the lock of a
 * bucket, or the one that guards the room for saved states; else NULL. */
struct weir__lock *weir__table_lock_at(struct weir__table *t, uint64_t at);
/* The lock of the overflow cell at an offset; NULL if there can be none. */
struct weir__lock *weir__table_cell_lock_at(struct weir__table *t, uint64_t at);
/* The same for a state, and for where a state's bytes may have been saved. *access receives its
 * bucket and place. */
bool weir__table_state_at(struct weir__table *t, uint64_t at, struct weir__access *access);
bool weir__table_saves_at(const struct weir__table *t, uint64_t at);

#endif
