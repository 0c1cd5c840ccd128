/* Writes a new state file from the image of an old one. */
#include "cli/store/store_rewrite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "cli/store/store_cells.h"
#include "cli/store/store_keys.h"
#include "cli/store/store_records.h"
#include "engine/store/inspect.h"

struct store_plan store_plan_of(const struct store_image *m)
{
    return (struct store_plan){m->header.max_keys, m->header.max_memory, m->header.max_policies,
                               true, true};
}

static bool rewrite_has_table(const struct store_image *m, const struct store_plan *p, uint32_t c)
{
    /* Without policies the tables of their sizes are not needed; the one of 16 bytes always is. */
    return atomic_load(&m->header.table[c].at) != 0 && (p->keep_policies || c == 0);
}

/* A table keeps its number of keys unless an option changes it; then it is made like a new one. */
static struct weir__table_options table_options(const struct store_image *m,
                                                const struct store_plan *p,
                                                const struct weir__header *h, uint32_t c,
                                                uint64_t end)
{
    if (p->max_keys == m->header.max_keys && p->max_memory == m->header.max_memory)
        return weir__header_table(h, &m->header.table[c], c);
    return weir__header_new_table(h, c, 0, end);
}

/* Makes the new header. The secret, the time and the counters stay. */
static void rewrite_fill_header(const struct store_image *m, const struct store_plan *p,
                                struct weir__header *h)
{
    uint64_t bytes;

    *h = m->header;
    h->version = weir__file_version;
    h->layout = weir__file_layout();
    h->max_keys = p->max_keys;
    h->max_memory = p->max_memory;
    h->max_policies = p->max_policies;
    bytes = weir__header_place(h);
    h->checksum = weir__header_checksum(h);
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        struct weir__table_options o;

        atomic_store(&h->table[c].at, 0);
        h->table[c].bytes = h->table[c].max_keys = 0;
        if (!rewrite_has_table(m, p, c))
            continue;
        o = table_options(m, p, h, c, bytes);
        atomic_store(&h->table[c].at, bytes);
        h->table[c].bytes = weir__whole_pages(weir__table_size(&o));
        h->table[c].max_keys = o.max_keys;
        bytes += h->table[c].bytes;
    }
    atomic_store(&h->bytes, bytes);
    atomic_store(&h->recovered, p->keep_keys ? atomic_load(&h->recovered) + m->undone : 0);
}

/* ---- Whether it fits ------------------------------------------------------------------------- */

static int rewrite_check_policies(const struct store_image *m, const struct store_plan *p,
                                  struct weir_diag *why)
{
    struct weir__record *r = malloc(sizeof *r);
    uint64_t n = 0;
    int error = r ? store_records_check(m, why) : weir__diag(why, WEIR_ENOMEM, "out of memory");

    for (uint64_t i = 0; i < m->header.max_policies && !error; i++) {
        const int found = store_records_get(m, i, r, why);

        n += found == 1;
        error = found < 0 ? found : 0;
    }
    free(r);
    if (!error && n > p->max_policies)
        error = weir__diag(why, WEIR_EFULL,
                           "%s: %" PRIu64 " policies do not fit in %" PRIu64
                           "; expected --max-policies %" PRIu64 " or more",
                           m->path, n, p->max_policies, n);
    return error;
}

static int does_not_fit(const struct store_image *m, const struct weir__header *h, uint32_t c,
                        uint64_t live, struct weir_diag *why)
{
    const uint64_t room = h->table[c].max_keys;
    char hint[64] = "a larger --max-memory";

    if (room == h->max_keys)
        (void)snprintf(hint, sizeof hint, "--max-keys %" PRIu64 " or more", live);
    return weir__diag(why, WEIR_EFULL,
                      "%s: %" PRIu64 " live keys of %zu-byte states do not fit in room for %" PRIu64
                      "; expected %s",
                      m->path, live, weir__size_of_class(c), room, hint);
}

/* A table that keeps its size keeps all its keys. */
static int rewrite_check_keys(const struct store_image *m, const struct store_plan *p,
                              int64_t now_ns, struct weir_diag *why)
{
    struct weir__header h;
    int error = 0;

    rewrite_fill_header(m, p, &h);
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES && !error; c++) {
        struct store_keys k;

        if (!rewrite_has_table(m, p, c))
            continue;
        error = store_keys_check(m, c, why);
        if (error)
            break;
        k = store_keys_count(m, c, now_ns);
        if (k.room != h.table[c].max_keys && k.live > h.table[c].max_keys)
            error = does_not_fit(m, &h, c, k.live, why);
    }
    return error;
}

int store_rewrite_check(const struct store_image *m, const struct store_plan *p, int64_t now_ns,
                        struct weir_diag *why)
{
    int error = p->keep_policies ? rewrite_check_policies(m, p, why) : 0;

    if (!error && p->keep_keys)
        error = rewrite_check_keys(m, p, now_ns, why);
    return error;
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* A file to be written: its bytes, mapped. */
struct rewrite_target {
    struct weir__header header;
    char *base;
};

static int write_directory(const struct store_image *m, const struct store_plan *p,
                           const struct rewrite_target *s, struct store_result *result,
                           struct weir_diag *why)
{
    struct weir__directory *d =
        (struct weir__directory *)(void *)(s->base + s->header.directory_at);
    const struct store_counts counts = store_records_counts(m);

    atomic_store(&d->tags, counts.tags);
    atomic_store(&d->scopes, counts.scopes);
    atomic_store(&d->versions, counts.versions);
    atomic_store(&d->created_ns, counts.created_ns);
    d->max_policies = p->max_policies;
    for (uint64_t i = 0; i < m->header.max_policies && p->keep_policies; i++) {
        const int found = store_records_get(m, i, &d->record[result->policies], why);

        if (found < 0)
            return found;
        result->policies += found == 1;
    }
    return 0;
}

static int write_table(const struct store_image *m, const struct store_plan *p, uint32_t c,
                       int64_t now_ns, const struct rewrite_target *s, struct store_result *result,
                       struct weir_diag *why)
{
    const struct weir__table_options o = weir__header_table(&s->header, &s->header.table[c], c);
    struct weir__table *t = weir__table_init(s->base + atomic_load(&s->header.table[c].at), &o);
    const struct store_image made = {.header = s->header, .base = s->base};
    struct store_keys k;

    if (!p->keep_keys)
        return 0;
    if (store_keys_copy(m, c, now_ns, t, s->header.table[c].bytes) != 0)
        return weir__diag(why, WEIR_EFULL,
                          "%s: no place for one of the live keys of %zu-byte states; expected a "
                          "larger --max-keys",
                          m->path, o.state_bytes);
    k = store_keys_count(&made, c, now_ns);
    result->live += k.live;
    result->idle += k.used - k.live;
    return 0;
}

static int write_parts(const struct store_image *m, const struct store_plan *p, int64_t now_ns,
                       const struct rewrite_target *s, struct store_result *result,
                       struct weir_diag *why)
{
    const struct store_image made = {.header = s->header, .base = s->base};
    int error = write_directory(m, p, s, result, why);

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES && !error; c++)
        if (rewrite_has_table(m, p, c))
            error = write_table(m, p, c, now_ns, s, result, why);
    if (!error && p->keep_policies)
        error = store_cells_copy(m, &made, p->keep_keys, now_ns, why);
    if (!error)
        memcpy(s->base, (const void *)&s->header, sizeof s->header);
    return error;
}

int store_rewrite(const struct store_image *m, const struct store_plan *p, int64_t now_ns, int fd,
                  struct store_result *result, struct weir_diag *why)
{
    struct rewrite_target s;
    int error;

    rewrite_fill_header(m, p, &s.header);
    *result = (struct store_result){.bytes = atomic_load(&s.header.bytes)};
    errno = posix_fallocate(fd, 0, (off_t)result->bytes);
    if (errno != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot allocate %" PRIu64 " bytes for the new file",
                                result->bytes);
    s.base = mmap(NULL, result->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (s.base == MAP_FAILED)
        return weir__diag_errno(why, WEIR_EIO, "cannot map the new file");
    error = write_parts(m, p, now_ns, &s, result, why);
    if (!error && msync(s.base, result->bytes, MS_SYNC) != 0)
        error = weir__diag_errno(why, WEIR_EIO, "cannot write the new file");
    (void)munmap(s.base, result->bytes);
    return error;
}
