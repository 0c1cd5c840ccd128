/* How the overrides of a policy change. The idea is in overrides.h; override_table.c has the
 * tables, own.c compiles an override, override_set.c has the public calls. */
#include "engine/policy/overrides.h"

#include <stdlib.h>
#include <string.h>

#include "engine/engine.h"
#include "engine/policy/override_change.h"
#include "engine/policy/override_table.h"

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

void weir__overrides_close(struct weir__overrides *x)
{
    if (!x)
        return;
    weir__override_table_close(atomic_load(&x->table), x->block);
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
    e->old = e->next = NULL;
    e->made = e->limit ? override_make(e) : NULL;
    return e->limit && !e->made ? WEIR_ENOMEM : 0;
}

/* Counts an override that goes from the table, outside of the block or in it. */
static void change_forget(struct weir__override_change *c, const struct weir__override *old)
{
    if (weir__override_stands_in(c->block, old))
        c->idle += weir__override_bytes(old);
    else
        c->loose -= weir__override_bytes(old);
}

/* Applies one edit to a table with room for it. */
static int edit_apply(struct weir__override_change *c, struct weir__override_edit *e)
{
    struct weir__override_slot *slot = weir__override_slot_of(c->table, e->hash);
    struct weir__override *old = slot ? atomic_load(&slot->override) : NULL;

    e->old = old;
    e->next = e->made;
    if (!old && !e->next)
        return 0;
    if (override_same(old, e->next)) { /* what was set stays, and its keys' states with it */
        e->next = old;
        return 0;
    }
    if (!old && c->n >= WEIR_OVERRIDES_MOST)
        return WEIR_EFULL;
    if (!old && e->prefix && !prefixes_add(&c->prefixes, (uint32_t)e->key_len))
        return WEIR__NINTH_LENGTH;
    if (!weir__override_table_put(c->table, e->hash, e->next))
        return WEIR__STALE; /* the table must be larger */
    if (old && !e->next && e->prefix)
        prefixes_remove(&c->prefixes, (uint32_t)e->key_len);
    c->n = c->n + (e->next != NULL) - (old != NULL);
    c->loose += e->next ? weir__override_bytes(e->next) : 0;
    if (old)
        change_forget(c, old);
    return 0;
}

static struct weir__override_change change_of(const struct weir__overrides *x)
{
    struct weir__override_change c = {.table = atomic_load(&x->table),
                                      .n = x->n,
                                      .loose = x->loose,
                                      .idle = x->idle,
                                      .block = x->block,
                                      .prefixes = {0}};

    memcpy(c.prefixes.length, x->of_length, sizeof x->of_length);
    memcpy(c.prefixes.count, x->count, sizeof x->count);
    c.prefixes.n = x->prefixes;
    return c;
}

static void change_keep(struct weir__overrides *x, const struct weir__override_change *c)
{
    x->n = c->n;
    x->loose = c->loose;
    x->idle = c->idle;
    x->block = c->block;
    x->prefixes = c->prefixes.n;
    memcpy(x->of_length, c->prefixes.length, sizeof x->of_length);
    memcpy(x->count, c->prefixes.count, sizeof x->count);
}

/* Whether a single edit adds a slot, and there is no room for it. */
static bool change_needs_table(const struct weir__override_change *c,
                               const struct weir__override_edit *e)
{
    struct weir__override_slot *slot = weir__override_slot_of(c->table, e->hash);

    if (!e->made)
        return false;
    if (!slot)
        return true;
    return atomic_load(&slot->hash) == 0 && !weir__override_table_has_room(c->table);
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
    c->table_before = atomic_load(&x->table);
    c->block_before = x->block;
    c->lengths_before = before;
    c->lengths_between = both;
    atomic_store_explicit(&x->lengths, both, memory_order_release);
    atomic_store_explicit(&x->table, c->table, memory_order_release);
    atomic_store_explicit(&x->lengths, after, memory_order_release);
    change_keep(x, c);
    return 0;
}

/* A single edit, in the table that is read meanwhile if it has room. The lengths come first if a
 * prefix is new, and last if it goes. */
static int change_one(struct weir__overrides *x, struct weir__override_edit *e,
                      struct weir__override_change *c)
{
    struct weir__prefix_lengths *lengths = NULL, *before = atomic_load(&x->lengths);
    struct weir__override_slot *slot = weir__override_slot_of(c->table, e->hash);
    const bool had = slot && atomic_load(&slot->override);
    struct weir__prefixes after = c->prefixes;

    if (e->prefix && !had && e->made && !prefixes_add(&after, (uint32_t)e->key_len))
        return WEIR__NINTH_LENGTH;
    if (e->prefix && had && !e->made)
        prefixes_remove(&after, (uint32_t)e->key_len);
    if (e->prefix && had != (e->made != NULL)) {
        lengths = lengths_make(&after, NULL);
        if (!lengths)
            return WEIR_ENOMEM;
    }
    if (!had && e->made && c->n >= WEIR_OVERRIDES_MOST) {
        free(lengths);
        return WEIR_EFULL;
    }
    if (lengths && e->made)
        atomic_store_explicit(&x->lengths, lengths, memory_order_release);
    (void)edit_apply(c, e);
    if (lengths && !e->made)
        atomic_store_explicit(&x->lengths, lengths, memory_order_release);
    if (lengths)
        c->lengths_before = before;
    if (e->old != e->next && !weir__override_stands_in(c->block, e->old))
        c->replaced = e->old;
    change_keep(x, c);
    return 0;
}

/* Applies the edits to a copy of the table with room for so many. */
static int change_copy(struct weir__overrides *x, struct weir__override_edit *e, size_t n,
                       uint64_t room, size_t *which, struct weir__override_change *c)
{
    int error = WEIR__STALE;

    for (; error == WEIR__STALE; room = 2 * room + 1) {
        *c = change_of(x);
        c->table = weir__override_table_copy(atomic_load(&x->table), room);
        if (!c->table)
            return WEIR_ENOMEM;
        error = 0;
        for (*which = 0; *which < n && !error; *which += !error)
            error = edit_apply(c, &e[*which]);
        if (error)
            free(c->table);
    }
    return error;
}

/* The copy is only as large as it must be once the edits are applied, and so is the block. */
static int change_pack(struct weir__override_change *c)
{
    struct weir__override_table *copy = c->table;
    const int error = weir__overrides_pack(copy, &c->table, &c->block);

    free(copy);
    c->packed = true;
    c->loose = c->idle = 0;
    return error;
}

int weir__overrides_edit_locked(struct weir__overrides *x, struct weir__override_edit *e, size_t n,
                                size_t *which, struct weir__override_change *c)
{
    bool packs;
    int error;

    *which = 0;
    *c = change_of(x);
    packs = n > 1 || (c->block && c->idle > c->block->bytes / 4);
    if (!packs && !change_needs_table(c, e))
        return change_one(x, e, c);
    error = change_copy(x, e, n, c->n + (packs ? n : c->n / 4 + 1), which, c);
    if (!error && packs)
        error = change_pack(c);
    if (error)
        return error;
    error = change_publish(x, c);
    if (error) {
        free(c->table);
        if (packs)
            free(c->block);
    }
    return error;
}

void weir__overrides_edit_close(struct weir__override_change *c,
                                const struct weir__override_edit *e, size_t n, bool done)
{
    for (size_t i = 0; i < n; i++)
        if (!done || c->packed || e[i].made != e[i].next)
            free(e[i].made);
    if (!done)
        return;
    if (c->packed)
        weir__override_table_close(c->table_before, c->block_before);
    else
        free(c->table_before);
    free(c->replaced);
    free(c->lengths_before);
    free(c->lengths_between);
}
