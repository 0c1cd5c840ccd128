/* Owners: from a state's version to the limit that wrote it. The idea is in owners.h. */
#include "engine/owners.h"

#include <sys/mman.h>

#include "engine/engine.h"

#define SLOTS_LEAST 4096
#define SLOTS_EACH  64 /* of a policy: a few terms, and the versions of each that are kept */

/* Address space: what is never used takes no memory. */
bool weir__owners_init(struct weir__owners *o, uint64_t max_policies)
{
    uint64_t slots = SLOTS_LEAST;
    void *mem;

    while (slots < max_policies * SLOTS_EACH && slots <= WEIR__VERSION_MOST)
        slots *= 2;
    mem = mmap(NULL, slots * sizeof *o->slot, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mem == MAP_FAILED)
        return false;
    o->slot = mem;
    o->mask = slots - 1;
    return true;
}

void weir__owners_close(struct weir__owners *o)
{
    if (o->slot)
        (void)munmap((void *)o->slot, (o->mask + 1) * sizeof *o->slot);
}

static _Atomic(struct weir__clause *) *slot_of(const struct weir__owners *o, uint32_t version)
{
    return &o->slot[version & o->mask];
}

bool weir__owners_has_slot(const struct weir__owners *o, uint32_t version)
{
    return atomic_load_explicit(slot_of(o, version), memory_order_relaxed) == NULL;
}

/* Of the same term before, as far back as states are carried over. */
static const struct weir__meter *before(const struct weir__meter *m)
{
    return weir__meter_keeps(m) ? m->older : NULL;
}

void weir__owners_add(struct weir__owners *o, struct weir__edition *e)
{
    for (int i = 0; i < e->n; i++)
        for (const struct weir__meter *m = &e->clause[i].meter; m; m = before(m))
            atomic_store_explicit(slot_of(o, m->version), &e->clause[i], memory_order_release);
}

void weir__owners_remove(struct weir__owners *o, const struct weir__edition *e)
{
    for (int i = 0; i < e->n; i++)
        for (const struct weir__meter *m = &e->clause[i].meter; m; m = before(m))
            if (atomic_load_explicit(slot_of(o, m->version), memory_order_relaxed) == &e->clause[i])
                atomic_store_explicit(slot_of(o, m->version), NULL, memory_order_release);
}

static bool wrote(const struct weir__clause *c, uint32_t version)
{
    for (const struct weir__meter *m = &c->meter; m; m = before(m))
        if (m->version == version)
            return true;
    return false;
}

bool weir__owners_is_gone(const struct weir__owners *o, const struct weir__state *s)
{
    const uint32_t version = weir__state_version(s);

    return version >= 1 && version <= WEIR__VERSION_MOST && !atomic_load(&o->crowded) &&
           weir__owners_has_slot(o, version);
}

struct weir__clause *weir__owners_find(const struct weir__owners *o, const struct weir__state *s)
{
    const uint32_t version = weir__state_version(s);
    struct weir__clause *c = atomic_load_explicit(slot_of(o, version), memory_order_acquire);

    if (!c || !wrote(c, version) || weir__policy_edition(c->edition->policy) != c->edition)
        return NULL;
    return c;
}
