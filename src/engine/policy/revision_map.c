/* The revision map: from a state's version to the limit that wrote it. The idea is in
 * revision_map.h. */
#include "engine/policy/revision_map.h"

#include <sys/mman.h>

#include "engine/engine.h"

#define SLOTS_LEAST 4096
#define SLOTS_EACH  64 /* for each policy: a few terms, and the kept versions of each */

/* It reserves address space: slots that are never used take no memory. */
bool weir__revision_map_init(struct weir__revision_map *o, uint64_t max_policies)
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

void weir__revision_map_close(struct weir__revision_map *o)
{
    if (o->slot)
        (void)munmap((void *)o->slot, (o->mask + 1) * sizeof *o->slot);
}

static _Atomic(struct weir__compiled_term *) *revision_map_slot(const struct weir__revision_map *o,
                                                                uint32_t version)
{
    return &o->slot[version & o->mask];
}

bool weir__revision_map_has_slot(const struct weir__revision_map *o, uint32_t version)
{
    const struct weir__compiled_term *c =
        atomic_load_explicit(revision_map_slot(o, version), memory_order_relaxed);

    return !c || (uintptr_t)c % 2 != 0; /* empty, or of a limit that is gone */
}

/* The previous version of the same term, as far back as states are converted. */
static const struct weir__meter *meter_before(const struct weir__meter *m)
{
    return weir__meter_keeps(m) ? m->older : NULL;
}

void weir__revision_map_add(struct weir__revision_map *o, struct weir__revision *rev)
{
    for (int i = 0; i < rev->n; i++)
        for (const struct weir__meter *m = &rev->term[i].meter; m; m = meter_before(m))
            atomic_store_explicit(revision_map_slot(o, m->version), &rev->term[i],
                                  memory_order_release);
}

void weir__revision_map_remove(struct weir__revision_map *o, const struct weir__revision *rev)
{
    for (int i = 0; i < rev->n; i++)
        for (const struct weir__meter *m = &rev->term[i].meter; m; m = meter_before(m))
            if (atomic_load_explicit(revision_map_slot(o, m->version), memory_order_relaxed) ==
                &rev->term[i])
                atomic_store_explicit(revision_map_slot(o, m->version), NULL, memory_order_release);
}

/* A slot with this value says that the limit of the version is gone: its keys are asked for no
 * more. No term has an odd address. */
static struct weir__compiled_term *revision_map_gone(uint32_t version)
{
    return (struct weir__compiled_term *)((uintptr_t)version << 1 | 1);
}

static bool revision_has_scope(const struct weir__revision *rev, uint64_t scope)
{
    for (int i = 0; rev && i < rev->n; i++)
        if (rev->term[i].scope == scope)
            return true;
    return false;
}

void weir__revision_map_forget(struct weir__revision_map *o, const struct weir__revision *rev,
                               const struct weir__revision *next)
{
    for (int i = 0; i < rev->n; i++)
        for (const struct weir__meter *m = &rev->term[i].meter; m; m = meter_before(m))
            if (!revision_has_scope(next, rev->term[i].scope) &&
                atomic_load_explicit(revision_map_slot(o, m->version), memory_order_relaxed) ==
                    &rev->term[i])
                atomic_store_explicit(revision_map_slot(o, m->version),
                                      revision_map_gone(m->version), memory_order_release);
}

static bool term_wrote(const struct weir__compiled_term *c, uint32_t version)
{
    for (const struct weir__meter *m = &c->meter; m; m = meter_before(m))
        if (m->version == version)
            return true;
    return false;
}

bool weir__revision_map_is_orphan(const struct weir__revision_map *o, const struct weir__state *s)
{
    const uint32_t version = weir__state_version(s);

    return atomic_load_explicit(revision_map_slot(o, version), memory_order_relaxed) ==
           revision_map_gone(version);
}

struct weir__compiled_term *weir__revision_map_find(const struct weir__revision_map *o,
                                                    const struct weir__state *s)
{
    const uint32_t version = weir__state_version(s);
    struct weir__compiled_term *c =
        atomic_load_explicit(revision_map_slot(o, version), memory_order_acquire);

    if (!c || (uintptr_t)c % 2 != 0 || !term_wrote(c, version) ||
        weir__policy_revision(c->revision->policy) != c->revision)
        return NULL;
    return c;
}
