/* Copies overflow cells from one file to another.
 *
 * A table that keeps its size keeps its cells where they are. In a table of another size every
 * limit gets new cells, one block after the other: as many as before if any of them is alive,
 * because what they record must not be lost; else at most as many as a limit with a quarter of the
 * table's keys would get.
 */
#include "cli/store/store_cells.h"

#include <stdlib.h>
#include <string.h>

#include "cli/store/store_keys.h"
#include "engine/store/inspect.h"

/* Where the next cells of each table begin. */
struct cursors {
    uint64_t at[WEIR__SIZE_CLASSES];
};

static bool keeps_size(const struct store_image *m, const struct store_image *made, uint32_t c)
{
    return atomic_load(&made->header.table[c].at) == 0 || /* damaged: there is no table */
           store_keys_same_layout(store_image_table(m, c), store_image_table(made, c));
}

static struct weir__directory *store_cells_directory(const struct store_image *m)
{
    return (struct weir__directory *)(void *)(m->base + m->header.directory_at);
}

/* Writes the new place of the cells into every kept version of the record that has the scope. */
static void store_cells_update_versions(struct weir__record *r, uint64_t scope,
                                        const struct weir__placing *p)
{
    for (int i = 0; i < WEIR__VERSIONS_KEPT + 1; i++) {
        struct weir__version *v = &r->version[i];

        if (!weir__version_is_sound(v))
            continue;
        for (int k = 0; k < v->n; k++)
            if (v->scope[k] == scope)
                v->placing[k] = *p;
        weir__version_seal(v);
    }
}

static int store_cells_copy_term(const struct store_image *m, const struct store_image *made,
                                 bool keys, int64_t now_ns, struct weir__record *r,
                                 struct weir__placing p, uint64_t scope, struct cursors *next,
                                 struct weir_diag *why)
{
    const uint32_t c = (uint32_t)p.size_class;
    struct weir__table *from = store_image_table(m, c), *to = store_image_table(made, c);
    struct weir__cells old, new;
    bool alive;

    if (!weir__cells_at(&old, from, p.cells_at, p.cells))
        return weir__diag(
            why, WEIR_EFORMAT,
            "%s: damaged: the record of the policy '%.*s' names cells that do not exist", m->path,
            WEIR_NAME_MAX, r->name);
    alive = keys && weir__cells_alive(&old, now_ns);
    if (!alive) {
        const uint64_t fresh = weir__cells_count(to, made->header.table[c].max_keys / 4);

        p.cells = p.cells < fresh ? p.cells : fresh;
    }
    p.cells_at = next->at[c];
    if (!weir__cells_at(&new, to, p.cells_at, p.cells))
        return weir__diag(
            why, WEIR_EFULL,
            "%s: the overflow cells of the policy '%.*s' do not fit; expected a larger "
            "--max-keys",
            m->path, WEIR_NAME_MAX, r->name);
    next->at[c] += weir__cells_bytes(to, p.cells);
    if (alive)
        memcpy((void *)new.head, (const void *)old.head, weir__cells_bytes(to, p.cells));
    store_cells_update_versions(r, scope, &p);
    return 0;
}

int store_cells_copy(const struct store_image *m, const struct store_image *made, bool keys,
                     int64_t now_ns, struct weir_diag *why)
{
    struct weir__directory *d = store_cells_directory(made);
    struct cursors next = {{0}};
    int error = 0;

    for (uint64_t i = 0; i < made->header.max_policies && !error; i++) {
        struct weir__record *r = &d->record[i];
        struct weir__version *v;

        if (atomic_load(&r->head.tag) == 0)
            continue;
        v = malloc(sizeof *v);
        if (!v)
            return weir__diag(why, WEIR_ENOMEM, "out of memory");
        *v = *weir__record_version(r, atomic_load(&r->head.generation), 0);
        for (int k = 0; k < v->n && k < WEIR_TERMS_MAX && !error; k++)
            if (v->placing[k].cells > 0 && v->placing[k].size_class < WEIR__SIZE_CLASSES &&
                !keeps_size(m, made, (uint32_t)v->placing[k].size_class))
                error = store_cells_copy_term(m, made, keys, now_ns, r, v->placing[k], v->scope[k],
                                              &next, why);
        free(v);
    }
    return error;
}
