/* Tables of overrides, and blocks that hold them. The idea is in overrides.h. */
#include "engine/policy/override_table.h"

#include <stdlib.h>
#include <string.h>

#include "engine/policy/override_change.h"

/* ---- Tables -------------------------------------------------------------------------------- */

#define HOMES_LEAST 4
#define BEHIND_MOST 256 /* slots behind the last home */

static struct weir__override_table *table_open(uint64_t entries)
{
    const uint64_t full = entries + entries / 3 + 2; /* three quarters of them are `entries` */
    const uint64_t homes = full > HOMES_LEAST ? full : HOMES_LEAST;
    const uint64_t slots = homes + (homes < BEHIND_MOST ? homes : BEHIND_MOST);
    struct weir__override_table *t = calloc(1, sizeof *t + slots * sizeof t->slot[0]);

    if (!t)
        return NULL;
    t->homes = homes;
    t->slots = slots;
    return t;
}

static size_t table_bytes(const struct weir__override_table *t)
{
    return t ? sizeof *t + t->slots * sizeof t->slot[0] : 0;
}

/* The least hash with that home. */
static uint64_t home_begins(const struct weir__override_table *t, uint64_t home)
{
    return (uint64_t)((((weir__u128)home << 64) + t->homes - 1) / t->homes);
}

struct weir__override_slot *weir__override_slot_of(struct weir__override_table *t, uint64_t hash)
{
    for (uint64_t i = t ? weir__override_home(t, hash) : 0; t && i < t->slots; i++) {
        const uint64_t there = atomic_load(&t->slot[i].hash);

        if (there == hash || there == 0)
            return &t->slot[i];
    }
    return NULL;
}

bool weir__override_table_has_room(const struct weir__override_table *t)
{
    return 4 * (t->filled + 1) <= 3 * t->homes;
}

bool weir__override_table_put(struct weir__override_table *t, uint64_t hash,
                              struct weir__override *o)
{
    struct weir__override_slot *slot = weir__override_slot_of(t, hash);

    if (!slot || (atomic_load(&slot->hash) == 0 && !weir__override_table_has_room(t)))
        return false;
    atomic_store_explicit(&slot->override, o, memory_order_release);
    if (atomic_load(&slot->hash) == 0) {
        t->filled++;
        atomic_store_explicit(&slot->hash, hash, memory_order_release);
    }
    return true;
}

struct weir__override_table *weir__override_table_copy(const struct weir__override_table *from,
                                                       uint64_t entries)
{
    struct weir__override_table *t = table_open(entries);

    for (uint64_t i = 0; t && from && i < from->slots; i++) {
        struct weir__override *o = atomic_load(&from->slot[i].override);

        if (!o || weir__override_table_put(t, atomic_load(&from->slot[i].hash), o))
            continue;
        free(t); /* a cluster reached the end, which hardly ever happens: start larger */
        entries = 2 * entries + 1;
        t = table_open(entries);
        i = UINT64_MAX;
    }
    return t;
}

/* ---- Blocks -------------------------------------------------------------------------------- */

size_t weir__override_bytes(const struct weir__override *o)
{
    const size_t bytes = sizeof *o + o->key_len + o->packed_len;

    return (bytes + _Alignof(struct weir__override) - 1) & ~(_Alignof(struct weir__override) - 1);
}

bool weir__override_stands_in(const struct weir__override_block *b, const struct weir__override *o)
{
    const uintptr_t at = (uintptr_t)o;

    return b && at >= (uintptr_t)b->at && at < (uintptr_t)b->at + b->bytes;
}

/* Moves the overrides of the table into the block, which has room for them. */
static void table_move(struct weir__override_table *t, struct weir__override_block *b)
{
    unsigned char *at = b->at;

    for (uint64_t i = 0; i < t->slots; i++) {
        struct weir__override *o = atomic_load(&t->slot[i].override);

        if (!o)
            continue;
        memcpy(at, o, sizeof *o + o->key_len + o->packed_len);
        atomic_store(&t->slot[i].override, (struct weir__override *)(void *)at);
        at += weir__override_bytes(o);
    }
}

int weir__overrides_pack(const struct weir__override_table *from, struct weir__override_table **to,
                         struct weir__override_block **block)
{
    uint64_t n = 0;
    size_t bytes = 0;

    for (uint64_t i = 0; i < from->slots; i++) {
        const struct weir__override *o = atomic_load(&from->slot[i].override);

        n += o != NULL;
        bytes += o ? weir__override_bytes(o) : 0;
    }
    *to = weir__override_table_copy(from, n + n / 4);
    *block = n > 0 ? malloc(sizeof **block + bytes) : NULL;
    if (!*to || (n > 0 && !*block)) {
        free(*to);
        free(*block);
        return WEIR_ENOMEM;
    }
    if (*block) {
        (*block)->bytes = bytes;
        table_move(*to, *block);
    }
    return 0;
}

void weir__override_table_close(struct weir__override_table *t, struct weir__override_block *b)
{
    for (uint64_t i = 0; t && i < t->slots; i++) {
        struct weir__override *o = atomic_load(&t->slot[i].override);

        if (o && !weir__override_stands_in(b, o))
            free(o);
    }
    free(t);
    free(b);
}

/* ---- Looking ------------------------------------------------------------------------------- */

/* Those with the least hashes, in their order, and the least hash that had no room. */
struct least {
    const struct weir__override **out;
    uint64_t hash[WEIR_OVERRIDES_PAGE], left; /* left: 0 is none */
    size_t n, found;
};

static void least_put(struct least *p, const struct weir__override *o, uint64_t hash)
{
    size_t i = p->found;

    if (i == p->n) {
        const uint64_t last = hash > p->hash[i - 1] ? hash : p->hash[i - 1];

        if (p->left == 0 || last < p->left)
            p->left = last;
        if (last == hash)
            return;
        i--;
    } else {
        p->found++;
    }
    for (; i > 0 && p->hash[i - 1] > hash; i--) {
        p->hash[i] = p->hash[i - 1];
        p->out[i] = p->out[i - 1];
    }
    p->hash[i] = hash;
    p->out[i] = o;
}

/* A cluster is in no order, so a page looks at all of it, and has those before the cursor. */
size_t weir__overrides_page(const struct weir__override_table *t, uint64_t *cursor,
                            const struct weir__override **out, size_t n)
{
    struct least p = {.out = out, .n = n < WEIR_OVERRIDES_PAGE ? n : WEIR_OVERRIDES_PAGE};
    const uint64_t from = *cursor;

    for (uint64_t i = t ? weir__override_home(t, from) : 0; t && i < t->slots; i++) {
        const struct weir__override *o = atomic_load(&t->slot[i].override);
        const uint64_t hash = atomic_load(&t->slot[i].hash);

        /* Behind an empty slot all hashes have their homes behind it. */
        if (hash == 0 && p.found > n / 2 && i + 1 < t->homes) {
            *cursor = p.left ? p.left : home_begins(t, i + 1);
            return p.found;
        }
        if (o && hash >= from)
            least_put(&p, o, hash);
    }
    *cursor = p.left;
    return p.found;
}

size_t weir__overrides_bytes(const struct weir__overrides *x)
{
    if (!x)
        return 0;
    return sizeof *x + table_bytes(atomic_load(&x->table)) + x->loose +
           (x->block ? sizeof *x->block + x->block->bytes : 0) +
           weir__key_list_bytes(atomic_load(&x->list[0])) +
           weir__key_list_bytes(atomic_load(&x->list[1]));
}
