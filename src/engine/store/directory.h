/* What a process knows of the directory, so that a change of one limit need not look at all.
 *
 * The directory is a row of records, which all processes of a store share and which has no order.
 * Each process keeps beside it: where each name is, from where on records are free, how many keys
 * the limits of a class ask for, which cells are taken. That follows from the records and can be
 * found again by reading them all.
 *
 * Invariants:
 *   (1) Every change of the directory moves one of its counters `tags` and `versions`. So what this
 *       process knows is true as long as both are as it left them; else it reads all records again.
 *   (2) It is read and changed by the holder of the store's lock, and of the file's. Only the
 *       counts of keys are read without it.
 */
#ifndef WEIR_ENGINE_STORE_DIRECTORY_H
#define WEIR_ENGINE_STORE_DIRECTORY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct weir__record;
struct weir__store;
struct weir__version;

/* Cells of a term in force: where they begin, and how many they are. */
struct weir__cell_span {
    uint64_t at, cells;
};

/* Those of one class, sorted by where they begin. */
struct weir__cell_spans {
    struct weir__cell_span *span;
    uint64_t n, cap;
};

struct weir__known {
    bool valid;
    uint64_t tags, versions;           /* the directory's counters when it was last looked at */
    uint64_t free_from;                /* no record before this one is free */
    uint64_t scope_most, version_most; /* the greatest numbers in any record */
    uint32_t *slot;                    /* open addressing by name: 1 + the record; 0: none */
    uint64_t mask, names;
    struct weir__cell_spans *cells; /* by class */
    _Atomic uint64_t policies;      /* how many records are in use, ... */
    _Atomic uint64_t records;       /* ... and behind which record none ever was */
};

/* False: out of memory. The directory is there. */
bool weir__directory_open(struct weir__store *s);
void weir__directory_close(struct weir__store *s);
/* In the child of a fork(): another thread of the parent may have been in the middle of a
 * change. */
void weir__directory_forked(struct weir__store *s);

/* Reads all records again if another process has changed one. */
void weir__directory_look(struct weir__store *s);

/* After a look: the record of that name, a free one, or NULL. */
struct weir__record *weir__directory_find(struct weir__store *s, const char *name);
struct weir__record *weir__directory_free(struct weir__store *s);

/* Around each change of a record: what it says is no longer in force, or is now. `renamed`: its
 * name comes or goes with it. */
void weir__directory_leaves(struct weir__store *s, struct weir__record *r, bool renamed);
void weir__directory_enters(struct weir__store *s, struct weir__record *r, bool renamed);
/* The end of a change, good or not: the counters are as we left them. */
void weir__directory_done(struct weir__store *s);

#endif
