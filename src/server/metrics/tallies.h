/* Decisions counted by limit, verdict and reason.
 *
 * Every worker counts for itself, in memory that no other thread writes, so that a take costs one
 * addition and no shared cache line. Who reads (a scrape, the log) adds up all workers and takes no
 * lock.
 *
 * A named limit has a slot, the same in all workers; limits that come with requests share two, so
 * that clients cannot make more of them. A slot stays with its name while the limit is changed.
 *
 * Invariants:
 *   (1) A slot has one name at a time: it is given away again only after the last entry that
 *       counts in it is gone, and is then zero.
 *   (2) A counter never decreases while its name has it.
 */
#ifndef WEIR_SERVER_METRICS_TALLIES_H
#define WEIR_SERVER_METRICS_TALLIES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir.h>

#include "server/memory.h"

#define X(name) +1
enum { TALLY_REASONS = 0 WEIR_REASONS(X) };
#undef X

enum tally_verdict {
    TALLY_ALLOWED,
    TALLY_DENIED,
    TALLY_SHADOW, /* allowed, but a shadow would have refused */
    TALLY_VERDICTS
};

struct tally {
    uint64_t of[TALLY_VERDICTS][TALLY_REASONS];
    uint64_t errors; /* requests that could not be decided */
};

enum tally_slot {
    TALLY_LITERAL,    /* of all limits that came as text */
    TALLY_THROTTLE,   /* of CL.THROTTLE and its like */
    TALLY_OTHER,      /* of names for which there was no slot */
    TALLY_FIRST_NAMED /* from here on: of one name each */
};

#define TALLY_SLOTS 32768
#define TALLY_CHUNK 16 /* slots that a worker allocates together, when it first counts in one */

/* One worker's counters. Only the worker writes them. */
struct tally_sheet {
    struct memory *memory; /* where its chunks are counted */
    struct tally_chunk *_Atomic chunk[TALLY_SLOTS / TALLY_CHUNK];
};

struct tally_chunk {
    struct {
        _Atomic uint64_t of[TALLY_VERDICTS][TALLY_REASONS], errors;
    } slot[TALLY_CHUNK];
};

/* Which slots are in use, and how many workers count. */
struct tallies;

/* For so many workers; what they take is counted there. NULL: out of memory. */
struct tallies *tallies_open(int workers, struct memory *memory);
void tallies_close(struct tallies *t); /* NULL is ignored */
struct tally_sheet *tallies_sheet(struct tallies *t, int worker);

/* A slot for a name that has none, with one user; TALLY_OTHER if there is none left. */
unsigned tallies_assign(struct tallies *t);
/* One more user of the slot, or one less. Slots below TALLY_FIRST_NAMED are always there. */
void tallies_retain(struct tallies *t, unsigned slot);
void tallies_release(struct tallies *t, unsigned slot);

/* The sum over all workers. */
void tallies_sum(const struct tallies *t, unsigned slot, struct tally *sum);

/* Allocates the chunk of the slot; NULL: out of memory, and it is not counted. */
struct tally_chunk *tally_chunk_open(struct tally_sheet *s, unsigned slot);

static inline struct tally_chunk *tally_chunk_of(struct tally_sheet *s, unsigned slot)
{
    struct tally_chunk *c =
        atomic_load_explicit(&s->chunk[slot / TALLY_CHUNK], memory_order_relaxed);

    return __builtin_expect(c != NULL, 1) ? c : tally_chunk_open(s, slot);
}

static inline void tally_add(_Atomic uint64_t *n)
{
    atomic_store_explicit(n, atomic_load_explicit(n, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Counts an answer. */
static inline void tally_verdict(struct tally_sheet *s, unsigned slot, const struct weir_verdict *v)
{
    struct tally_chunk *c = tally_chunk_of(s, slot);
    const enum tally_verdict as = !v->allowed      ? TALLY_DENIED
                                  : v->shadow == 0 ? TALLY_ALLOWED
                                                   : TALLY_SHADOW;

    if (c)
        tally_add(&c->slot[slot % TALLY_CHUNK].of[as][v->reason]);
}

/* Counts a request that could not be decided. */
static inline void tally_error(struct tally_sheet *s, unsigned slot)
{
    struct tally_chunk *c = tally_chunk_of(s, slot);

    if (c)
        tally_add(&c->slot[slot % TALLY_CHUNK].errors);
}

#endif
