/* Mapping a state file for `weir store`. The idea is in store_image.h. */
#include "cli/store/store_image.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/store/store_users.h"
#include "engine/store/inspect.h"

/* ---- The header ------------------------------------------------------------------------------ */

union store_image_page {
    struct weir__header header;
    char bytes[WEIR__FILE_PAGE];
};

/* Reads the header instead of mapping it, so that a short file does no harm. Takes the file's
 * length afterwards: other processes may extend it meanwhile. */
static int store_image_read_header(struct store_image *m, struct weir_diag *why)
{
    union store_image_page p = {.bytes = {0}};
    struct stat st;

    if (fstat(m->fd, &st) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", m->path);
    if (!S_ISREG(st.st_mode))
        return weir__diag(why, WEIR_EFORMAT, "%s: not a regular file", m->path);
    if (pread(m->fd, p.bytes, sizeof p, 0) < 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot read %s", m->path);
    if (fstat(m->fd, &st) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", m->path);
    m->header = p.header;
    return weir__header_check(&m->header, (uint64_t)st.st_size, m->path, why);
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Opens the file without blocking: the path may name a pipe. */
static int store_image_begin(struct store_image *m, const char *path, int how,
                             struct weir_diag *why)
{
    int error;

    *m = (struct store_image){.path = path};
    m->fd = open(path, how | O_NONBLOCK | O_CLOEXEC);
    if (m->fd < 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot open %s", path);
    error = store_image_read_header(m, why);
    if (error)
        store_image_close(m);
    return error;
}

/* Checks which tables are sound, and then pins them: processes that use the file meanwhile cannot
 * change where our mapping looks for their parts. */
static bool pin_tables(struct store_image *m)
{
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        const struct weir__table_options o = weir__header_table(&m->header, &m->header.table[c], c);
        struct weir__table *t = store_image_table(m, c);

        if (atomic_load(&m->header.table[c].at) == 0)
            continue;
        m->table_is_sound[c] = weir__table_is_sound(t, &o);
        if (!weir__table_pin(t, &o))
            return false;
    }
    return true;
}

static int store_image_map(struct store_image *m, int protection, int flags, struct weir_diag *why)
{
    const uint64_t bytes = atomic_load(&m->header.bytes);
    void *mem = mmap(NULL, bytes, protection, flags, m->fd, 0);

    if (mem != MAP_FAILED)
        m->base = mem;
    if (mem == MAP_FAILED || !pin_tables(m))
        return weir__diag_errno(why, WEIR_EIO, "%s: cannot map %" PRIu64 " bytes", m->path, bytes);
    return 0;
}

int store_image_open(struct store_image *m, const char *path, struct weir_diag *why)
{
    int error = store_image_begin(m, path, O_RDONLY, why);

    if (error)
        return error;
    error = store_image_map(m, PROT_READ, MAP_SHARED, why);
    if (error)
        store_image_close(m);
    return error;
}

static struct weir__journal *store_image_journal(const struct store_image *m, uint32_t i)
{
    return (struct weir__journal *)(void *)(m->base + m->header.journals_at) + i;
}

/* What a journal may refer to: the sound tables. */
static struct weir__mapped mapped_of(const struct store_image *m)
{
    struct weir__mapped to = {.base = m->base};

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++)
        if (m->table_is_sound[c]) {
            to.table[to.tables] = store_image_table(m, c);
            to.table_bytes[to.tables++] = m->header.table[c].bytes;
        }
    return to;
}

static void store_image_undo_all(struct store_image *m)
{
    const struct weir__mapped to = mapped_of(m);

    for (uint32_t i = 0; i < WEIR__FILE_OWNERS; i++)
        m->undone += weir__journal_undo(store_image_journal(m, i), i + 1, &to);
}

/* Whether the path still names the file that we have locked. */
static int store_image_check_name(const struct store_image *m, struct weir_diag *why)
{
    struct stat named, ours;

    if (stat(m->path, &named) != 0 || fstat(m->fd, &ours) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", m->path);
    if (named.st_dev != ours.st_dev || named.st_ino != ours.st_ino)
        return weir__diag(why, WEIR_EBUSY, "%s: replaced by another process just now", m->path);
    return 0;
}

int store_image_open_exclusive(struct store_image *m, const char *path, struct weir_diag *why)
{
    int error = store_image_begin(m, path, O_RDWR, why);

    if (error)
        return error;
    error = store_users_lock(m->fd, path, why);
    if (!error)
        error = store_image_check_name(m, why);
    if (!error)
        error = store_image_read_header(m, why); /* again: now no process can change it */
    if (!error)
        error = store_image_map(m, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE, why);
    if (!error)
        store_image_undo_all(m);
    else
        store_image_close(m);
    return error;
}

void store_image_close(struct store_image *m)
{
    if (m->base)
        (void)munmap(m->base, atomic_load(&m->header.bytes));
    (void)close(m->fd); /* this drops the locks */
    m->base = NULL;
    m->fd = -1;
}

/* ---- Inside ---------------------------------------------------------------------------------- */

struct weir__table *store_image_table(const struct store_image *m, uint32_t size_class)
{
    return (struct weir__table *)(void *)(m->base + atomic_load(&m->header.table[size_class].at));
}

/* ---- Decisions cut short --------------------------------------------------------------------- */

static bool holds_a_lock(const struct store_image *m, const struct weir__mapped *to, uint32_t i)
{
    const struct weir__journal *j = store_image_journal(m, i);

    for (int k = 0; k < WEIR__JOURNAL_LOCKS; k++) {
        const struct weir__lock *l = weir__mapped_lock(to, atomic_load(&j->lock_at[k]));

        if (l && atomic_load(&l->holder) == i + 1)
            return true;
    }
    return false;
}

uint64_t store_image_unfinished(const struct store_image *m)
{
    const struct weir__mapped to = mapped_of(m);
    uint64_t n = 0;

    for (uint32_t i = 0; i < WEIR__FILE_OWNERS; i++)
        n += holds_a_lock(m, &to, i) && !store_users_owns(m->fd, i);
    return n;
}
