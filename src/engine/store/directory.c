/* What a process knows of the directory (directory.h). */
#include "engine/store/directory.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "engine/store/store.h"

/* ---- Names ----------------------------------------------------------------------------------- */

static uint64_t slot_first(const struct weir__store *s, const char *name)
{
    return weir__hash(name, strnlen(name, WEIR_NAME_MAX), s->secret) & s->known.mask;
}

static struct weir__record *slot_record(const struct weir__store *s, uint64_t slot)
{
    return &s->directory->record[s->known.slot[slot] - 1];
}

/* The slot of the name, or the empty one where it would be. */
static uint64_t slot_of(const struct weir__store *s, const char *name)
{
    uint64_t i = slot_first(s, name);

    while (s->known.slot[i] != 0 && strncmp(slot_record(s, i)->name, name, WEIR_NAME_MAX) != 0)
        i = (i + 1) & s->known.mask;
    return i;
}

/* In a damaged file two records may have one name: the first has it. There are never more names
 * than records, so that half of the slots are empty, whatever another process writes over a
 * name. */
static void name_add(struct weir__store *s, uint64_t record)
{
    const uint64_t i = slot_of(s, s->directory->record[record].name);

    if (s->known.slot[i] != 0)
        return;
    if (s->known.names == s->max_policies) {
        s->known.valid = false;
        return;
    }
    s->known.slot[i] = (uint32_t)record + 1;
    s->known.names++;
}

/* Names behind the hole move up, or they would not be found. */
static void name_remove(struct weir__store *s, uint64_t record)
{
    uint64_t hole = slot_of(s, s->directory->record[record].name);

    if (s->known.slot[hole] != record + 1)
        return;
    s->known.slot[hole] = 0;
    s->known.names--;
    for (uint64_t i = (hole + 1) & s->known.mask; s->known.slot[i] != 0;
         i = (i + 1) & s->known.mask) {
        const uint32_t moved = s->known.slot[i];

        s->known.slot[i] = 0;
        s->known.slot[slot_of(s, s->directory->record[moved - 1].name)] = moved;
    }
}

/* ---- Cells ----------------------------------------------------------------------------------- */

static int span_order(const struct weir__cell_span *a, const struct weir__cell_span *b)
{
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return (a->cells > b->cells) - (a->cells < b->cells);
}

static int span_compare(const void *a, const void *b)
{
    return span_order(a, b);
}

/* Where it is, or would be. */
static uint64_t span_find(const struct weir__cell_spans *all, struct weir__cell_span one)
{
    uint64_t from = 0, to = all->n;

    while (from < to) {
        const uint64_t middle = (from + to) / 2;

        if (span_order(&all->span[middle], &one) < 0)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static bool span_room(struct weir__cell_spans *all)
{
    struct weir__cell_span *more;

    if (all->n < all->cap)
        return true;
    more = realloc(all->span, (2 * all->cap + 16) * sizeof *more);
    if (!more)
        return false;
    all->span = more;
    all->cap = 2 * all->cap + 16;
    return true;
}

/* ---- What a version asks for ----------------------------------------------------------------- */

/* Adds the version to the counts, or takes it out again; `sorted`: the cells are kept in order. */
static void known_count(struct weir__store *s, const struct weir__version *v, bool in, bool sorted)
{
    for (int i = 0; i < v->n && i < WEIR_TERMS_MAX; i++) {
        const struct weir__cell_span one = {v->placing[i].cells_at, v->placing[i].cells};
        const uint64_t c = v->placing[i].size_class, keys = (uint64_t)v->term[i].keys;
        struct weir__cell_spans *all = c < WEIR__STATE_SIZES ? &s->known.cells[c] : NULL;
        uint64_t at;

        if (!all)
            continue;
        atomic_fetch_add_explicit(v->term[i].keys > 0 ? &s->reserved_keys[c] : &s->sharers[c],
                                  v->term[i].keys > 0 ? (in ? keys : -keys) : (in ? 1 : UINT64_MAX),
                                  memory_order_relaxed);
        if (one.cells == 0)
            continue;
        if (in && !span_room(all)) {
            s->known.valid = false;
            continue;
        }
        at = sorted ? span_find(all, one) : all->n;
        if (in) {
            memmove(&all->span[at + 1], &all->span[at], (all->n++ - at) * sizeof one);
            all->span[at] = one;
        } else if (at < all->n && span_order(&all->span[at], &one) == 0) {
            memmove(&all->span[at], &all->span[at + 1], (--all->n - at) * sizeof one);
        }
    }
}

static const struct weir__version *version_in_force(struct weir__record *r)
{
    return weir__record_version(r, atomic_load(&r->head.generation), 0);
}

/* ---- Reading all records --------------------------------------------------------------------- */

/* The greatest numbers that a record has, in whatever version: no other limit may get them. */
static void known_numbers(struct weir__known *k, const struct weir__record *r)
{
    for (int v = 0; v <= WEIR__VERSIONS_KEPT; v++)
        for (int t = 0; t < WEIR_TERMS_MAX; t++) {
            if (r->version[v].scope[t] > k->scope_most)
                k->scope_most = r->version[v].scope[t];
            if (r->version[v].past[t].version > k->version_most)
                k->version_most = r->version[v].past[t].version;
        }
}

static void known_begin(struct weir__store *s)
{
    struct weir__known *k = &s->known;

    memset(k->slot, 0, (k->mask + 1) * sizeof k->slot[0]);
    for (uint32_t c = 0; c < WEIR__STATE_SIZES; c++) {
        k->cells[c].n = 0;
        atomic_store_explicit(&s->reserved_keys[c], 0, memory_order_relaxed);
        atomic_store_explicit(&s->sharers[c], 0, memory_order_relaxed);
    }
    k->valid = true;
    k->names = k->free_from = k->scope_most = k->version_most = 0;
}

static void known_read_all(struct weir__store *s)
{
    struct weir__known *k = &s->known;
    uint64_t used = 0, last = 0;

    known_begin(s);
    for (uint64_t i = 0; i < weir__directory_end(s); i++) {
        struct weir__record *r = &s->directory->record[i];

        if (atomic_load(&r->head.generation) != 0)
            last = i + 1;
        if (atomic_load(&r->head.tag) == 0)
            continue;
        used++;
        name_add(s, i);
        known_count(s, version_in_force(r), true, false);
        if (s->file) /* in private memory no process damages the counters */
            known_numbers(k, r);
    }
    for (uint32_t c = 0; c < WEIR__STATE_SIZES; c++)
        if (k->cells[c].n > 1)
            qsort(k->cells[c].span, k->cells[c].n, sizeof(struct weir__cell_span), span_compare);
    atomic_store(&k->policies, used);
    if (s->file)
        atomic_store(&k->records, last);
}

void weir__directory_look(struct weir__store *s)
{
    struct weir__known *k = &s->known;

    if (k->valid && k->tags == atomic_load(&s->directory->tags) &&
        k->versions == atomic_load(&s->directory->versions))
        return;
    known_read_all(s);
    weir__directory_done(s);
}

/* ---- Finding --------------------------------------------------------------------------------- */

struct weir__record *weir__directory_find(struct weir__store *s, const char *name)
{
    const uint64_t i = slot_of(s, name);

    return s->known.slot[i] != 0 && atomic_load(&slot_record(s, i)->head.tag) != 0
               ? slot_record(s, i)
               : NULL;
}

struct weir__record *weir__directory_free(struct weir__store *s)
{
    struct weir__known *k = &s->known;

    while (k->free_from < s->max_policies &&
           atomic_load(&s->directory->record[k->free_from].head.tag) != 0)
        k->free_from++;
    if (k->free_from == s->max_policies)
        return NULL;
    if (k->free_from >= atomic_load(&k->records))
        atomic_store(&k->records, k->free_from + 1); /* before it is in use */
    return &s->directory->record[k->free_from];
}

/* ---- Changing -------------------------------------------------------------------------------- */

void weir__directory_leaves(struct weir__store *s, struct weir__record *r, bool renamed)
{
    const uint64_t record = (uint64_t)(r - s->directory->record);

    known_count(s, version_in_force(r), false, true);
    if (!renamed)
        return;
    name_remove(s, record);
    atomic_fetch_sub(&s->known.policies, 1);
    if (record < s->known.free_from)
        s->known.free_from = record;
}

void weir__directory_enters(struct weir__store *s, struct weir__record *r, bool renamed)
{
    const uint64_t record = (uint64_t)(r - s->directory->record);

    known_count(s, version_in_force(r), true, true);
    if (!renamed)
        return;
    name_add(s, record);
    atomic_fetch_add(&s->known.policies, 1);
}

void weir__directory_done(struct weir__store *s)
{
    s->known.tags = atomic_load(&s->directory->tags);
    s->known.versions = atomic_load(&s->directory->versions);
}

/* ---- Opening --------------------------------------------------------------------------------- */

bool weir__directory_open(struct weir__store *s)
{
    uint64_t slots = 16;

    while (slots < 2 * s->max_policies)
        slots *= 2;
    s->known.mask = slots - 1;
    s->known.slot = calloc(slots, sizeof s->known.slot[0]);
    s->known.cells = calloc(WEIR__STATE_SIZES, sizeof s->known.cells[0]);
    return s->known.slot && s->known.cells;
}

void weir__directory_forked(struct weir__store *s)
{
    s->known.valid = false;
    memset(s->known.cells, 0, WEIR__STATE_SIZES * sizeof s->known.cells[0]);
}

void weir__directory_close(struct weir__store *s)
{
    for (uint32_t c = 0; s->known.cells && c < WEIR__STATE_SIZES; c++)
        free(s->known.cells[c].span);
    free(s->known.cells);
    free(s->known.slot);
}
