#include "cli/store_records.h"

#include <stdlib.h>
#include <string.h>

#include "cli/store_v1.h"
#include "engine/diag.h"

#define TRIES 100

static const char *directory_of(const struct store_image *m)
{
    return m->base + m->header.directory_at;
}

static const struct v1_directory *v1_of(const struct store_image *m)
{
    return (const struct v1_directory *)(const void *)directory_of(m);
}

static const struct weir__directory *v2_of(const struct store_image *m)
{
    return (const struct weir__directory *)(const void *)directory_of(m);
}

int store_records_check(const struct store_image *m, struct weir_diag *why)
{
    const uint64_t most =
        m->version == V1_VERSION ? v1_of(m)->max_policies : v2_of(m)->max_policies;

    if (most == m->header.max_policies)
        return 0;
    return weir__diag(why, WEIR_EFORMAT, "%s: damaged: its directory contradicts the header",
                      m->path);
}

struct store_counts store_records_counts(const struct store_image *m)
{
    const struct weir__directory *d = v2_of(m);

    if (m->version == V1_VERSION)
        return (struct store_counts){v1_of(m)->tags, v1_of(m)->scopes, v1_of(m)->versions, 0};
    return (struct store_counts){atomic_load(&d->tags), atomic_load(&d->scopes),
                                 atomic_load(&d->versions), atomic_load(&d->born_ns)};
}

/* ---- Copies ---------------------------------------------------------------------------------- */

static uint64_t tag_of(const struct store_image *m, uint64_t i)
{
    return m->version == V1_VERSION ? atomic_load(&v1_of(m)->record[i].tag)
                                    : atomic_load(&v2_of(m)->record[i].tag);
}

static uint32_t generation_of(const struct store_image *m, uint64_t i)
{
    return m->version == V1_VERSION ? atomic_load(&v1_of(m)->record[i].generation)
                                    : atomic_load(&v2_of(m)->record[i].generation);
}

/* A policy may be changed while we look: then the copy is made anew. */
static void copy(const struct store_image *m, uint64_t i, struct weir__record *r)
{
    for (int tries = 0; tries < TRIES; tries++) {
        const uint32_t before = generation_of(m, i);

        if (m->version == V1_VERSION)
            v1_lift_record(&v1_of(m)->record[i], r);
        else
            memcpy((void *)r, &v2_of(m)->record[i], sizeof *r);
        if (generation_of(m, i) == before && atomic_load(&r->generation) == before)
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

/* What the printer takes for granted. */
static bool can_be_printed(const struct weir_term *t)
{
    return (unsigned)t->algorithm <= WEIR_ADAPTIVE_RATE && (unsigned)t->calendar <= WEIR_MONTH &&
           (unsigned)t->align <= WEIR_ALIGN_CLOCK && (unsigned)t->fallback <= WEIR_FALLBACK_DENY &&
           (unsigned)t->preset <= WEIR_PRESET_SRE && (unsigned)t->forced <= WEIR_FORCED_METRICS &&
           memchr(t->tz, '\0', sizeof t->tz) != NULL;
}

/* Whether the version holds a limit: one that is the same after it was written and read. Version 1
 * has no other check, and a check word can be right over nonsense. */
static bool is_a_limit(const struct weir__version *v)
{
    struct weir_limit limit = {.n = (int)v->n}, again;
    char text[WEIR_LIMIT_TEXT_MAX];
    int error;

    for (int i = 0; i < v->n; i++) {
        limit.term[i] = v->term[i];
        if (!can_be_printed(&limit.term[i]))
            return false;
    }
    (void)weir_limit_print(&limit, text, sizeof text);
    error = weir_limit_parse(&again, text, NULL);
    if (error == WEIR_ENOZONE)
        return true; /* a zone of another machine's */
    return !error && again.n == limit.n &&
           memcmp(again.term, limit.term, (size_t)limit.n * sizeof limit.term[0]) == 0;
}

static bool is_sound(struct weir__record *r)
{
    const uint32_t generation = atomic_load(&r->generation);
    const uint32_t kept = weir__record_kept(r, generation);

    if (kept == 0 || memchr(r->name, '\0', sizeof r->name) == NULL)
        return false;
    for (uint32_t back = 0; back < kept; back++) {
        const struct weir__version *v = weir__record_version(r, generation, back);

        if (!weir__version_is_sound(v) || !is_a_limit(v))
            return false;
    }
    return true;
}

int store_records_get(const struct store_image *m, uint64_t i, struct weir__record *r,
                      struct weir_diag *why)
{
    if (tag_of(m, i) == 0)
        return 0;
    copy(m, i, r);
    if (atomic_load(&r->tag) == 0)
        return 0; /* forgotten just now */
    if (is_sound(r))
        return 1;
    return weir__diag(why, WEIR_EFORMAT,
                      "%s: damaged: the record of the policy '%.*s' does not add up", m->path,
                      WEIR_NAME_MAX - 1, r->name);
}
