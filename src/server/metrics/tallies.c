/* Slots for limits, and the counters of all workers in them. */
#include "server/metrics/tallies.h"

#include <pthread.h>
#include <stdlib.h>

struct tallies {
    pthread_mutex_t lock;        /* of users and next */
    unsigned users[TALLY_SLOTS]; /* of each slot */
    unsigned next;               /* from here on a free slot is looked for */
    int workers;
    struct tally_sheet sheet[];
};

struct tallies *tallies_open(int workers, struct memory *memory)
{
    const size_t bytes = sizeof(struct tallies) + (size_t)workers * sizeof(struct tally_sheet);
    struct tallies *t = calloc(1, bytes);

    if (!t)
        return NULL;
    (void)pthread_mutex_init(&t->lock, NULL);
    t->next = TALLY_FIRST_NAMED;
    t->workers = workers;
    for (int i = 0; i < workers; i++)
        t->sheet[i].memory = memory;
    memory_grow(memory, MEMORY_WORKERS, bytes);
    return t;
}

void tallies_close(struct tallies *t)
{
    if (!t)
        return;
    for (int i = 0; i < t->workers; i++)
        for (size_t k = 0; k < TALLY_SLOTS / TALLY_CHUNK; k++)
            free(atomic_load(&t->sheet[i].chunk[k]));
    (void)pthread_mutex_destroy(&t->lock);
    free(t);
}

struct tally_sheet *tallies_sheet(struct tallies *t, int worker)
{
    return &t->sheet[worker];
}

/* ---- Slots ----------------------------------------------------------------------------------- */

/* No worker counts in the slot, since no limit has it (invariant 1). */
static void tallies_zero(struct tallies *t, unsigned slot)
{
    for (int i = 0; i < t->workers; i++) {
        struct tally_chunk *c = atomic_load(&t->sheet[i].chunk[slot / TALLY_CHUNK]);
        _Atomic uint64_t *n = c ? &c->slot[slot % TALLY_CHUNK].of[0][0] : NULL;

        for (size_t k = 0; c && k < sizeof c->slot[0] / sizeof *n; k++)
            atomic_store_explicit(&n[k], 0, memory_order_relaxed);
    }
}

static unsigned tallies_find_free_locked(const struct tallies *t)
{
    const unsigned named = TALLY_SLOTS - TALLY_FIRST_NAMED;

    for (unsigned i = 0; i < named; i++) {
        const unsigned slot = TALLY_FIRST_NAMED + (t->next - TALLY_FIRST_NAMED + i) % named;

        if (t->users[slot] == 0)
            return slot;
    }
    return TALLY_OTHER;
}

unsigned tallies_assign(struct tallies *t)
{
    unsigned slot;

    (void)pthread_mutex_lock(&t->lock);
    slot = tallies_find_free_locked(t);
    if (slot >= TALLY_FIRST_NAMED) {
        t->users[slot] = 1;
        t->next = slot + 1 < TALLY_SLOTS ? slot + 1 : TALLY_FIRST_NAMED;
        tallies_zero(t, slot);
    }
    (void)pthread_mutex_unlock(&t->lock);
    return slot;
}

void tallies_retain(struct tallies *t, unsigned slot)
{
    if (slot < TALLY_FIRST_NAMED)
        return;
    (void)pthread_mutex_lock(&t->lock);
    t->users[slot]++;
    (void)pthread_mutex_unlock(&t->lock);
}

void tallies_release(struct tallies *t, unsigned slot)
{
    if (slot < TALLY_FIRST_NAMED)
        return;
    (void)pthread_mutex_lock(&t->lock);
    t->users[slot]--;
    (void)pthread_mutex_unlock(&t->lock);
}

/* ---- Counters -------------------------------------------------------------------------------- */

struct tally_chunk *tally_chunk_open(struct tally_sheet *s, unsigned slot)
{
    struct tally_chunk *c = calloc(1, sizeof *c);

    if (c)
        memory_grow(s->memory, MEMORY_WORKERS, sizeof *c + MEMORY_PIECE);
    atomic_store_explicit(&s->chunk[slot / TALLY_CHUNK], c, memory_order_release);
    return c;
}

static uint64_t tally_read(_Atomic uint64_t *n)
{
    return atomic_load_explicit(n, memory_order_relaxed);
}

void tallies_sum(const struct tallies *t, unsigned slot, struct tally *sum)
{
    *sum = (struct tally){.errors = 0};
    for (int i = 0; i < t->workers; i++) {
        struct tally_chunk *c =
            atomic_load_explicit(&t->sheet[i].chunk[slot / TALLY_CHUNK], memory_order_acquire);

        if (!c)
            continue;
        for (int v = 0; v < TALLY_VERDICTS; v++)
            for (int r = 0; r < TALLY_REASONS; r++)
                sum->of[v][r] += tally_read(&c->slot[slot % TALLY_CHUNK].of[v][r]);
        sum->errors += tally_read(&c->slot[slot % TALLY_CHUNK].errors);
    }
}
