/* The map from names to values: open addressing with linear probing. */
#include "sim/name_map.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

/* A simulation has no attackers, and it must be the same in every run. */
static const uint64_t SECRET[2] = {0, 0};

static size_t sim_names_slot(const struct sim_names *m, struct weir__slice name, uint64_t hash)
{
    size_t at = hash & (m->cap - 1);

    while (m->slot[at] &&
           (m->slot[at]->hash != hash || !weir__slice_equal(m->slot[at]->name, name)))
        at = (at + 1) & (m->cap - 1);
    return at;
}

struct sim_name *sim_names_find(const struct sim_names *m, struct weir__slice name)
{
    if (m->cap == 0)
        return NULL;
    return m->slot[sim_names_slot(m, name, weir__hash(name.at, name.len, SECRET))];
}

static bool sim_names_grow(struct sim_names *m)
{
    struct sim_names bigger = {.cap = m->cap ? m->cap * 2 : 64, .used = m->used, .most = m->most};

    bigger.slot = calloc(bigger.cap, sizeof bigger.slot[0]);
    if (!bigger.slot)
        return false;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slot[i])
            bigger.slot[sim_names_slot(&bigger, m->slot[i]->name, m->slot[i]->hash)] = m->slot[i];
    free(m->slot);
    *m = bigger;
    return true;
}

struct sim_name *sim_names_make(struct sim_names *m, struct weir__slice name)
{
    struct sim_name *n = sim_names_find(m, name);
    char *bytes;

    if (n)
        return n;
    if (m->used >= m->most || ((m->used + 1) * 4 > m->cap * 3 && !sim_names_grow(m)))
        return NULL;
    n = malloc(sizeof *n + name.len);
    if (!n)
        return NULL;
    bytes = (char *)(n + 1);
    memcpy(bytes, name.at, name.len);
    *n =
        (struct sim_name){.hash = weir__hash(name.at, name.len, SECRET), .name = {bytes, name.len}};
    m->slot[sim_names_slot(m, name, n->hash)] = n;
    m->used++;
    return n;
}

void sim_names_free(struct sim_names *m)
{
    for (size_t i = 0; i < m->cap; i++) {
        if (m->slot[i])
            free(m->slot[i]->value);
        free(m->slot[i]);
    }
    free(m->slot);
    *m = (struct sim_names){0};
}
