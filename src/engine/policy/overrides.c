/* The tables of overrides, and how they change. The idea is in overrides.h; own.c compiles an
 * override, override_set.c has the public calls. */
#include "engine/policy/overrides.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/policy/override_change.h"

/* ---- Tables -------------------------------------------------------------------------------- */

#define HOMES_LEAST 4
#define BEHIND_MOST 256 /* slots behind the last home */

static struct weir__override_table *table_open(uint64_t entries)
{
    struct weir__override_table *t;
    uint64_t homes = HOMES_LEAST;
    int shift = 62;

    for (; 3 * homes < 4 * (entries + 1); homes *= 2)
        shift--;
    entries = homes + (homes < BEHIND_MOST ? homes : BEHIND_MOST);
    t = calloc(1, sizeof *t + entries * sizeof t->slot[0]);
    if (!t)
        return NULL;
    t->slots = entries;
    t->shift = shift;
    return t;
}

static size_t table_bytes(const struct weir__override_table *t)
{
    return t ? sizeof *t + t->slots * sizeof t->slot[0] : 0;
}

static uint64_t table_homes(const struct weir__override_table *t)
{
    return UINT64_C(1) << (64 - t->shift);
}

/* The slot of the hash, or the empty one where it belongs; NULL: there is none. */
static struct weir__override_slot *table_slot(struct weir__override_table *t, uint64_t hash)
{
    for (uint64_t i = hash >> t->shift; i < t->slots; i++) {
        const uint64_t there = atomic_load(&t->slot[i].hash);

        if (there == hash || there == 0)
            return &t->slot[i];
    }
    return NULL;
}

/* False: no room. */
static bool table_put(struct weir__override_table *t, uint64_t hash, struct weir__override *o)
{
    struct weir__override_slot *slot = table_slot(t, hash);

    if (!slot)
        return false;
    if (atomic_load(&slot->hash) == 0 && 4 * (t->filled + 1) > 3 * table_homes(t))
        return false;
    atomic_store_explicit(&slot->override, o, memory_order_release);
    if (atomic_load(&slot->hash) == 0) {
        t->filled++;
        atomic_store_explicit(&slot->hash, hash, memory_order_release);
    }
    return true;
}

/* A copy without what was removed, with room for `entries`. NULL: out of memory. */
static struct weir__override_table *table_copy(const struct weir__override_table *from,
                                               uint64_t entries)
{
    struct weir__override_table *t = table_open(entries);

    for (uint64_t i = 0; t && from && i < from->slots; i++) {
        struct weir__override *o = atomic_load(&from->slot[i].override);

        if (!o || table_put(t, atomic_load(&from->slot[i].hash), o))
            continue;
        free(t); /* a cluster reached the end, which hardly ever happens: start larger */
        entries = 2 * entries + 1;
        t = table_open(entries);
        i = UINT64_MAX;
    }
    return t;
}

uint64_t weir__prefix_hash(const struct weir__store *s, const void *prefix, size_t len)
{
    const uint64_t secret[2] = {s->secret[0] ^ UINT64_C(0x707265666978), s->secret[1]};

    return weir__override_hash(weir__hash(prefix, len, secret));
}

static uint64_t hash_of(const struct weir__store *s, const void *key, size_t len, bool prefix)
{
    return prefix ? weir__prefix_hash(s, key, len)
                  : weir__override_hash(weir__hash(key, len, s->secret));
}

static size_t override_bytes(const struct weir__override *o)
{
    return o ? sizeof *o + o->key_len + o->packed_len : 0;
}

void weir__overrides_close(struct weir__overrides *x)
{
    struct weir__override_table *t = x ? atomic_load(&x->table) : NULL;

    if (!x)
        return;
    for (uint64_t i = 0; t && i < t->slots; i++)
        free(atomic_load(&t->slot[i].override));
    free(t);
    free(atomic_load(&x->lengths));
    free(atomic_load(&x->list[WEIR_LIST_DENY]));
    free(atomic_load(&x->list[WEIR_LIST_ALLOW]));
    free(x);
}

/* ---- Prefix lengths ------------------------------------------------------------------------ */

/* The index of the length, or a free one; -1: there are as many as there may be. */
static int length_find(const uint32_t length[WEIR_PREFIX_LENGTHS],
                       const uint32_t count[WEIR_PREFIX_LENGTHS], uint32_t wanted)
{
    int spare = -1;

    for (int i = WEIR_PREFIX_LENGTHS - 1; i >= 0; i--) {
        if (count[i] > 0 && length[i] == wanted)
            return i;
        if (count[i] == 0)
            spare = i;
    }
    return spare;
}

static void lengths_insert(struct weir__prefix_lengths *l, uint32_t length)
{
    int i = l->n;

    for (int k = 0; k < l->n; k++)
        if (l->length[k] == length)
            return;
    for (; i > 0 && l->length[i - 1] < length; i--)
        l->length[i] = l->length[i - 1];
    l->length[i] = length;
    l->n++;
}

/* The lengths in use, after a change, and those of `also`, which may be NULL. */
static struct weir__prefix_lengths *lengths_make(const struct weir__prefixes *p,
                                                 const struct weir__prefix_lengths *also)
{
    struct weir__prefix_lengths *l = calloc(1, sizeof *l);

    for (int i = 0; l && i < WEIR_PREFIX_LENGTHS; i++)
        if (p->count[i] > 0)
            lengths_insert(l, p->length[i]);
    for (int i = 0; l && also && i < also->n; i++)
        lengths_insert(l, also->length[i]);
    return l;
}

/* False: a ninth length. */
static bool prefixes_add(struct weir__prefixes *p, uint32_t length)
{
    const int i = length_find(p->length, p->count, length);

    if (i < 0)
        return false;
    p->length[i] = length;
    p->count[i]++;
    p->n++;
    return true;
}

static void prefixes_remove(struct weir__prefixes *p, uint32_t length)
{
    p->count[length_find(p->length, p->count, length)]--;
    p->n--;
}

/* ---- One change of many -------------------------------------------------------------------- */

static struct weir__override *override_make(const struct weir__override_edit *e)
{
    const size_t packed = weir__terms_pack(e->limit->term, e->limit->n, NULL, 0);
    struct weir__override *o = malloc(sizeof *o + e->key_len + packed);

    if (!o)
        return NULL;
    *o = (struct weir__override){.key_len = (uint32_t)e->key_len,
                                 .packed_len = (uint16_t)packed,
                                 .terms = (uint8_t)e->limit->n,
                                 .prefix = e->prefix};
    if (e->key_len > 0)
        memcpy(o->bytes, e->key, e->key_len);
    (void)weir__terms_pack(e->limit->term, e->limit->n, o->bytes + e->key_len, packed);
    return o;
}

static bool override_same(const struct weir__override *a, const struct weir__override *b)
{
    return a && b && a->packed_len == b->packed_len && a->terms == b->terms &&
           memcmp(a->bytes + a->key_len, b->bytes + b->key_len, a->packed_len) == 0;
}

/* Prepares an edit: the override that it sets. Outside of all locks. */
int weir__override_edit_open(const struct weir__store *s, struct weir__override_edit *e)
{
    e->hash = hash_of(s, e->key, e->key_len, e->prefix);
    e->old = NULL;
    e->next = e->limit ? override_make(e) : NULL;
    return e->limit && !e->next ? WEIR_ENOMEM : 0;
}

/* Applies one edit to a table with room for it. e->old becomes the override before. */
static int edit_apply(struct weir__override_change *c, struct weir__override_edit *e)
{
    struct weir__override_slot *slot = c->table ? table_slot(c->table, e->hash) : NULL;
    struct weir__override *old = slot ? atomic_load(&slot->override) : NULL;

    if (e->same) { /* an attempt before this one found it */
        e->next = e->same;
        e->same = NULL;
    }
    e->old = NULL;
    if (!old && !e->next)
        return 0;
    if (override_same(old, e->next)) { /* what was set stays, and its keys' states with it */
        e->same = e->next;
        e->next = old;
        e->old = old;
        return 0;
    }
    if (!old && c->n >= WEIR_OVERRIDES_MOST)
        return WEIR_EFULL;
    if (!old && e->prefix && !prefixes_add(&c->prefixes, (uint32_t)e->key_len))
        return WEIR__NINTH_LENGTH;
    if (!table_put(c->table, e->hash, e->next))
        return WEIR__STALE; /* the table must be larger */
    if (old && !e->next && e->prefix)
        prefixes_remove(&c->prefixes, (uint32_t)e->key_len);
    e->old = old;
    c->n = c->n + (e->next != NULL) - (old != NULL);
    c->bytes = c->bytes + override_bytes(e->next) - override_bytes(old);
    return 0;
}

static struct weir__override_change change_of(const struct weir__overrides *x)
{
    struct weir__override_change c = {
        .table = atomic_load(&x->table), .n = x->n, .bytes = x->bytes, .prefixes = {0}};

    memcpy(c.prefixes.length, x->of_length, sizeof x->of_length);
    memcpy(c.prefixes.count, x->count, sizeof x->count);
    c.prefixes.n = x->prefixes;
    return c;
}

static void change_keep(struct weir__overrides *x, const struct weir__override_change *c)
{
    x->n = c->n;
    x->bytes = c->bytes;
    x->prefixes = c->prefixes.n;
    memcpy(x->of_length, c->prefixes.length, sizeof x->of_length);
    memcpy(x->count, c->prefixes.count, sizeof x->count);
}

/* Whether a single edit needs a new table: it adds a slot, and there is no room for it. */
static bool change_needs_table(const struct weir__override_change *c,
                               const struct weir__override_edit *e)
{
    struct weir__override_slot *slot = c->table ? table_slot(c->table, e->hash) : NULL;

    if (!e->next)
        return false;
    if (!slot)
        return true;
    return atomic_load(&slot->hash) == 0 && 4 * (c->table->filled + 1) > 3 * table_homes(c->table);
}

/* Publishes the lengths before a table with more of them, and takes the others out after it. */
static int change_publish(struct weir__overrides *x, struct weir__override_change *c)
{
    struct weir__prefix_lengths *before = atomic_load(&x->lengths);
    struct weir__prefix_lengths *both = lengths_make(&c->prefixes, before),
                                *after = lengths_make(&c->prefixes, NULL);

    if (!both || !after) {
        free(both);
        free(after);
        return WEIR_ENOMEM;
    }
    atomic_store_explicit(&x->lengths, both, memory_order_release);
    if (c->table != atomic_load(&x->table)) {
        c->garbage[c->garbages++] = atomic_load(&x->table);
        atomic_store_explicit(&x->table, c->table, memory_order_release);
    }
    atomic_store_explicit(&x->lengths, after, memory_order_release);
    c->garbage[c->garbages++] = before;
    c->garbage[c->garbages++] = both;
    change_keep(x, c);
    return 0;
}

/* A single edit, in the table that is read meanwhile if it has room. The lengths come first if a
 * prefix is new, and last if it goes. */
static int change_one(struct weir__overrides *x, struct weir__override_edit *e,
                      struct weir__override_change *c)
{
    struct weir__prefix_lengths *lengths = NULL, *before = atomic_load(&x->lengths);
    struct weir__override_slot *slot = c->table ? table_slot(c->table, e->hash) : NULL;
    const bool had = slot && atomic_load(&slot->override);
    struct weir__prefixes after = c->prefixes;

    if (e->prefix && !had && e->next && !prefixes_add(&after, (uint32_t)e->key_len))
        return WEIR__NINTH_LENGTH;
    if (e->prefix && had && !e->next)
        prefixes_remove(&after, (uint32_t)e->key_len);
    if (e->prefix && had != (e->next != NULL)) {
        lengths = lengths_make(&after, NULL);
        if (!lengths)
            return WEIR_ENOMEM;
    }
    if (!had && e->next && c->n >= WEIR_OVERRIDES_MOST) {
        free(lengths);
        return WEIR_EFULL;
    }
    if (lengths && e->next)
        atomic_store_explicit(&x->lengths, lengths, memory_order_release);
    (void)edit_apply(c, e);
    if (lengths && !e->next)
        atomic_store_explicit(&x->lengths, lengths, memory_order_release);
    if (lengths)
        c->garbage[c->garbages++] = before;
    change_keep(x, c);
    return 0;
}

static int change_many(struct weir__overrides *x, struct weir__override_edit *e, size_t n,
                       size_t *which, struct weir__override_change *c)
{
    uint64_t room = c->n + n;
    int error = WEIR__STALE;

    while (error == WEIR__STALE) {
        *c = change_of(x);
        c->table = table_copy(atomic_load(&x->table), room);
        if (!c->table)
            return WEIR_ENOMEM;
        error = 0;
        for (*which = 0; *which < n && !error; *which += !error)
            error = edit_apply(c, &e[*which]);
        if (error)
            free(c->table);
        room = 2 * room + 1;
    }
    return error;
}

int weir__overrides_edit_locked(struct weir__overrides *x, struct weir__override_edit *e, size_t n,
                                size_t *which, struct weir__override_change *c)
{
    int error;

    *which = 0;
    *c = change_of(x);
    if (n == 1 && !change_needs_table(c, e))
        return change_one(x, e, c);
    error = change_many(x, e, n, which, c);
    if (!error) {
        error = change_publish(x, c);
        if (error)
            free(c->table);
    }
    return error;
}

/* ---- Looking ------------------------------------------------------------------------------- */

size_t weir__overrides_page(const struct weir__override_table *t, uint64_t *cursor,
                            const struct weir__override **out, size_t n)
{
    const uint64_t from = *cursor;
    uint64_t i = t ? from >> t->shift : 0;
    size_t found = 0;

    *cursor = 0;
    for (; t && i < t->slots; i++) {
        const struct weir__override *o = atomic_load(&t->slot[i].override);
        const uint64_t hash = atomic_load(&t->slot[i].hash);

        /* Behind an empty slot all hashes have their homes behind it. */
        if (hash == 0 && found >= n / 2 + 1 && i + 1 < table_homes(t)) {
            *cursor = (i + 1) << t->shift;
            return found;
        }
        if (!o || hash < from)
            continue;
        if (found == n) { /* a cluster that is longer than half a page: it goes on by hash */
            *cursor = hash;
            return found;
        }
        out[found++] = o;
    }
    return found;
}

size_t weir__overrides_bytes(const struct weir__overrides *x)
{
    if (!x)
        return 0;
    return sizeof *x + x->bytes + table_bytes(atomic_load(&x->table)) +
           weir__key_list_bytes(atomic_load(&x->list[0])) +
           weir__key_list_bytes(atomic_load(&x->list[1]));
}
