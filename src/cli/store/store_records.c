/* Reads the policies of a state file, as copies. */
#include "cli/store/store_records.h"

#include <stdlib.h>
#include <string.h>

#include "engine/store/inspect.h"

#define TRIES 100

static const struct weir__directory *store_records_directory(const struct store_image *m)
{
    return (const struct weir__directory *)(const void *)(m->base + m->header.directory_at);
}

int store_records_check(const struct store_image *m, struct weir_diag *why)
{
    if (weir__directory_is_sound(store_records_directory(m), &m->header))
        return 0;
    return weir__diag(why, WEIR_EFORMAT, "%s: damaged: its directory contradicts the header",
                      m->path);
}

struct store_counts store_records_counts(const struct store_image *m)
{
    const struct weir__directory *d = store_records_directory(m);

    return (struct store_counts){atomic_load(&d->tags), atomic_load(&d->scopes),
                                 atomic_load(&d->versions), atomic_load(&d->created_ns)};
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static uint64_t tag_of(const struct store_image *m, uint64_t i)
{
    return atomic_load(&store_records_directory(m)->record[i].head.tag);
}

static uint32_t generation_of(const struct store_image *m, uint64_t i)
{
    return atomic_load(&store_records_directory(m)->record[i].head.generation);
}

/* Another process may change the policy meanwhile: then we copy it again. */
static void store_records_copy(const struct store_image *m, uint64_t i, struct weir__record *r)
{
    for (int tries = 0; tries < TRIES; tries++) {
        const uint32_t before = generation_of(m, i);

        memcpy((void *)r, &store_records_directory(m)->record[i], sizeof *r);
        if (generation_of(m, i) == before && atomic_load(&r->head.generation) == before)
            return;
    }
}

uint64_t store_records_used(const struct store_image *m)
{
    uint64_t n = 0;

    for (uint64_t i = 0; i < m->header.max_policies; i++)
        n += tag_of(m, i) != 0;
    return n;
}

/* ---- Soundness ------------------------------------------------------------------------------- */

static bool store_records_is_sound(struct weir__record *r)
{
    const uint32_t generation = atomic_load(&r->head.generation);
    const uint32_t kept = weir__record_kept(r, generation);

    if (kept == 0 || memchr(r->name, '\0', sizeof r->name) == NULL)
        return false;
    for (uint32_t back = 0; back < kept; back++) {
        const struct weir__version *v = weir__record_version(r, generation, back);

        if (!weir__version_is_sound(v))
            return false;
    }
    return true;
}

int store_records_get(const struct store_image *m, uint64_t i, struct weir__record *r,
                      struct weir_diag *why)
{
    if (tag_of(m, i) == 0)
        return 0;
    store_records_copy(m, i, r);
    if (atomic_load(&r->head.tag) == 0)
        return 0; /* removed just now */
    if (store_records_is_sound(r))
        return 1;
    return weir__diag(why, WEIR_EFORMAT,
                      "%s: damaged: the record of the policy '%.*s' does not add up", m->path,
                      WEIR_NAME_MAX - 1, r->name);
}
