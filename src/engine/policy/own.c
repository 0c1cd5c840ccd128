/* A key's own limit, compiled for one decision: in the caller's memory, of the revision in force
 * and the numbers of an override or of a request. The idea is in overrides.h. */
#include <string.h>

#include "engine/engine.h"
#include "engine/policy/overrides.h"

void weir__own_end(struct weir__own *own)
{
    for (int i = 0; i < own->n; i++) {
        void *plan = atomic_load(&own->made[i]->plan);

        if (plan)
            atomic_load (&own->made[i]->plan_close)(plan);
    }
    weir__own_begin(own);
}

/* Room for a revision of n terms. NULL: the decision has as many as it may. */
static struct weir__revision *own_room(struct weir__own *own, int n)
{
    const size_t bytes =
        sizeof(struct weir__revision) + (size_t)n * sizeof(struct weir__compiled_term);
    struct weir__revision *rev = (void *)(own->room + own->used);

    if (bytes > sizeof own->room - own->used || own->n == WEIR_TERMS_MAX)
        return NULL;
    memset(rev, 0, sizeof *rev);
    return rev;
}

static void own_keep(struct weir__own *own, struct weir__revision *rev)
{
    own->made[own->n++] = rev;
    own->used += sizeof *rev + (size_t)rev->n * sizeof rev->term[0];
}

/* Compiles a term in place of the limit's. False: it has another shape. */
static bool own_term(struct weir__compiled_term *c, const struct weir_term *term,
                     struct weir__compiled_term *base)
{
    memset(c, 0, sizeof *c);
    if (term->algorithm != base->meter.term.algorithm)
        return false;
    weir__meter_init_own(&c->meter, term, &base->meter);
    if (weir__meter_misfit(&c->meter, &base->meter))
        return false;
    c->scope = base->scope;
    memcpy(c->secret, base->secret, sizeof c->secret);
    c->table = base->table;
    c->placing = base->placing;
    c->cells = base->cells;
    c->window = base->window; /* the limit's windows are its own */
    atomic_store_explicit(&c->survey, atomic_load_explicit(&base->survey, memory_order_relaxed),
                          memory_order_relaxed);
    return true;
}

static struct weir__revision *own_finish(struct weir__own *own, struct weir__revision *by,
                                         const struct weir__revision *rev, uint64_t found)
{
    by->policy = rev->policy;
    by->generation = rev->generation;
    by->found = found;
    weir__revision_derive(by);
    own_keep(own, by);
    return by;
}

struct weir__revision *weir__own_compile(struct weir__own *own, struct weir__revision *rev,
                                         const struct weir_term *term, int n)
{
    struct weir__revision *by = n == rev->n ? own_room(own, n) : NULL;

    if (!by)
        return NULL;
    for (int i = 0; i < n; i++, by->n++)
        if (!own_term(&by->term[i], &term[i], &rev->term[i]))
            return NULL;
    return own_finish(own, by, rev, 0);
}

/* Unpacks an override. NULL: it is not in force. */
static struct weir__revision *own_unpack(struct weir__own *own, struct weir__revision *rev,
                                         const struct weir__override *o, uint64_t found)
{
    struct weir__revision *by = o->terms == rev->n ? own_room(own, o->terms) : NULL;
    const unsigned char *at = o->bytes + o->key_len;

    if (!by)
        return NULL;
    for (int i = 0; i < o->terms; i++, by->n++) {
        struct weir_term term;

        at = weir__term_unpack(at, &term);
        if (!own_term(&by->term[i], &term, &rev->term[i]))
            return NULL;
    }
    return own_finish(own, by, rev, found);
}

struct weir__revision *weir__own_of(struct weir__own *own, struct weir__revision *rev,
                                    const struct weir__override *o, uint64_t found)
{
    struct weir__revision *by = o ? own_unpack(own, rev, o, found) : NULL;

    return by ? by : rev;
}

/* ---- The override of a key ----------------------------------------------------------------- */

struct weir__revision *weir__override_by_prefix(struct weir__revision *rev, const void *key,
                                                size_t key_len, struct weir__own *own)
{
    const struct weir__overrides *x = rev->overrides;
    const struct weir__prefix_lengths *lengths =
        x ? atomic_load_explicit(&x->lengths, memory_order_acquire) : NULL;
    const struct weir__override_table *t =
        x ? atomic_load_explicit(&x->table, memory_order_acquire) : NULL;

    for (int i = 0; t && lengths && i < lengths->n; i++)
        if (lengths->length[i] <= key_len) {
            const uint64_t hash = weir__prefix_hash(rev->policy->store, key, lengths->length[i]);
            const struct weir__override *o = weir__override_find(t, hash);

            if (o)
                return weir__own_of(own, rev, o, hash);
        }
    return rev;
}

struct weir__revision *weir__override_for(struct weir__revision *rev, const void *key,
                                          size_t key_len, uint64_t hash, struct weir__own *own)
{
    const struct weir__override_table *t =
        atomic_load_explicit(&rev->overrides->table, memory_order_acquire);
    const struct weir__override *o = t ? weir__override_find(t, weir__override_hash(hash)) : NULL;

    if (o)
        return weir__own_of(own, rev, o, weir__override_hash(hash));
    return t ? weir__override_by_prefix(rev, key, key_len, own) : rev;
}

/* A linear search: only calls that are in flight while the policy gets its first override need it.
 * Where there are more than a few thousand, such a call ends by the policy's own limit. */
#define SEARCH_MOST 8192

static const struct weir__override *override_of_fingerprint(const struct weir__override_table *t,
                                                            const struct weir__compiled_term *c,
                                                            uint64_t fingerprint, uint64_t *found)
{
    for (uint64_t i = 0; i < t->slots && t->filled <= SEARCH_MOST; i++) {
        const struct weir__override *o = atomic_load(&t->slot[i].override);

        if (o && !o->prefix &&
            weir__fingerprint_at(
                c, &(struct weir_request){.key = o->bytes, .key_len = o->key_len}) == fingerprint) {
            *found = atomic_load(&t->slot[i].hash);
            return o;
        }
    }
    return NULL;
}

struct weir__revision *weir__override_since(struct weir__revision *rev, uint64_t found,
                                            uint64_t key, uint64_t fingerprint, uint32_t index,
                                            struct weir__own *own)
{
    const struct weir__override_table *t =
        atomic_load_explicit(&rev->overrides->table, memory_order_acquire);
    const struct weir__override *o = NULL;

    if (!t)
        return rev;
    if (key != 0) {
        const uint64_t hash = weir__override_hash(key);

        o = weir__override_find(t, hash);
        if (o)
            found = hash;
    }
    if (!o && found != 0)
        o = weir__override_find(t, found);
    if (!o && key == 0 && found == 0)
        o = override_of_fingerprint(t, &rev->term[index], fingerprint, &found);
    return weir__own_of(own, rev, o, found);
}
