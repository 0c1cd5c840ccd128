/* Opening, creating and mapping state files. format.h has their contents.
 *
 * A file is shared with processes that may be broken or malicious. So this process keeps its own
 * copy of where the parts are, how large they are and where they are mapped, taken once from a
 * header that passed all checks (f->made, f->table_at). What the live header says about later
 * tables is checked against that copy before anything is mapped, and nothing is ever mapped over an
 * existing part.
 */
#include "engine/store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/store/pin.h"
#include "os/clock.h"
#include "os/diag.h"
#include "os/fork.h"

#define STAMP_EVERY_NS WEIR__NS_PER_S
#define LOCK_TRIES     1000 /* one millisecond apart */
#define REPLACED       1
#define REPLACED_MOST  10

/* ---- The files that this process has open -------------------------------------------------- */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__file *registry;
static uint64_t last_id;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void file_before_fork(void)
{
    (void)pthread_mutex_lock(&registry_lock);
}

static void file_after_fork_parent(void)
{
    (void)pthread_mutex_unlock(&registry_lock);
}

/* Record locks are not inherited: the child has the mappings, and must claim its own owners. */
static void file_after_fork_child(void)
{
    for (struct weir__file *f = registry; f; f = f->next) {
        f->id = ++last_id;
        (void)pthread_mutex_init(&f->lock, NULL);
        (void)pthread_mutex_init(&f->maps, NULL);
        weir__owners_forked(&f->lock_owners);
    }
    (void)pthread_mutex_init(&registry_lock, NULL);
}

static void file_register_fork(void)
{
    static const struct weir__fork_hooks HOOKS = {file_before_fork, file_after_fork_parent,
                                                  file_after_fork_child};

    weir__fork_add(&HOOKS);
}

struct weir__file *weir__file_find_locked(uint64_t id)
{
    struct weir__file *f;

    (void)pthread_mutex_lock(&registry_lock);
    for (f = registry; f && f->id != id;)
        f = f->next;
    return f;
}

void weir__file_find_done(void)
{
    (void)pthread_mutex_unlock(&registry_lock);
}

/* ---- The file's lock ----------------------------------------------------------------------- */

static int file_lock_header(int fd, short how)
{
    struct flock l = {
        .l_type = how, .l_whence = SEEK_SET, .l_start = WEIR__LOCK_HEADER, .l_len = 1};
    const struct timespec nap = {0, WEIR__NS_PER_MS};

    /* Not F_SETLKW: a stopped holder would block us too. */
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (fcntl(fd, F_SETLK, &l) == 0)
            return 0;
        if (errno != EAGAIN && errno != EACCES && errno != EINTR)
            return WEIR_EIO;
        (void)nanosleep(&nap, NULL);
    }
    return WEIR_EBUSY;
}

int weir__file_lock(struct weir__file *f, struct weir_diag *why)
{
    int error;

    (void)pthread_mutex_lock(&f->lock);
    error = file_lock_header(f->fd, F_WRLCK);
    if (error == WEIR_EBUSY)
        (void)weir__diag(why, error, "%s: locked by another process for a second", f->path);
    else if (error)
        (void)weir__diag_errno(why, error, "cannot lock %s", f->path);
    if (error)
        (void)pthread_mutex_unlock(&f->lock);
    return error;
}

void weir__file_unlock(struct weir__file *f)
{
    (void)file_lock_header(f->fd, F_UNLCK);
    (void)pthread_mutex_unlock(&f->lock);
}

/* ---- Mapping ------------------------------------------------------------------------------- */

static bool file_map_part(const struct weir__file *f, uint64_t at, uint64_t bytes)
{
    void *mem =
        mmap(f->base + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f->fd, (off_t)at);

    if (mem == MAP_FAILED)
        return false;
    (void)madvise(mem, bytes, MADV_HUGEPAGE); /* if the file system has them */
    return true;
}

/* Returns the addresses to the reserved range. */
static void file_unmap_part(const struct weir__file *f, uint64_t at, uint64_t bytes)
{
    (void)mmap(f->base + at, bytes, PROT_NONE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

/* Checks the length, so that a truncated file is an error here and not a SIGBUS later. */
static bool is_as_long(const struct weir__file *f, uint64_t bytes)
{
    struct stat st;

    return fstat(f->fd, &st) == 0 && (uint64_t)st.st_size >= bytes;
}

static struct weir__table *table_at(const struct weir__file *f, uint64_t at)
{
    return (struct weir__table *)(void *)(f->base + at);
}

/* The caller holds `maps`, and the tables fit. */
static int map_table_locked(struct weir__file *f, uint32_t c, const struct weir__region *r)
{
    const struct weir__table_options o = weir__header_table(&f->made, r, c);
    const uint64_t at = atomic_load(&r->at), bytes = r->bytes;
    int error = 0;

    if (!is_as_long(f, at + bytes))
        return WEIR_EFORMAT;
    if (!file_map_part(f, at, bytes))
        return WEIR_EIO;
    if (!weir__table_is_sound(table_at(f, at), &o))
        error = WEIR_EFORMAT;
    else if (!weir__table_pin(table_at(f, at), &o))
        error = WEIR_EIO;
    if (error) {
        file_unmap_part(f, at, bytes);
        return error;
    }
    f->made.table[c].bytes = bytes;
    f->made.table[c].max_keys = o.max_keys;
    atomic_store(&f->table_at[c], at);
    return 0;
}

/* Whether the header still says what this process has mapped. */
static bool is_where_it_was(const struct weir__file *f, uint32_t c, uint64_t at)
{
    const uint64_t ours = atomic_load(&f->table_at[c]);

    return ours == 0 || ours == at;
}

/* Copies what the live header says about tables, and checks it. The callers use only the copy. */
static int read_regions(const struct weir__file *f, struct weir__region *table, uint64_t *end)
{
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        const uint64_t at = atomic_load(&f->header->table[c].at);

        atomic_store(&table[c].at, at);
        table[c].bytes = *(volatile const uint64_t *)&f->header->table[c].bytes;
        table[c].max_keys = *(volatile const uint64_t *)&f->header->table[c].max_keys;
        if (!is_where_it_was(f, c, at))
            return WEIR_EFORMAT;
    }
    return weir__header_tables_fit(&f->made, table, end) ? 0 : WEIR_EFORMAT;
}

static int map_all_locked(struct weir__file *f)
{
    struct weir__region table[WEIR__SIZE_CLASSES];
    uint64_t end;
    int error = read_regions(f, table, &end);

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES && !error; c++)
        if (atomic_load(&table[c].at) != 0 && atomic_load(&f->table_at[c]) == 0)
            error = map_table_locked(f, c, &table[c]);
    return error;
}

int weir__file_map_all(struct weir__file *f)
{
    int error;

    (void)pthread_mutex_lock(&f->maps);
    error = map_all_locked(f);
    (void)pthread_mutex_unlock(&f->maps);
    return error;
}

struct weir__mapped weir__file_mapped(const struct weir__file *f)
{
    struct weir__mapped m = {.base = f->base};

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        const uint64_t at = atomic_load(&f->table_at[c]);

        if (at == 0)
            continue;
        m.table[m.tables] = table_at(f, at);
        m.table_bytes[m.tables++] = f->made.table[c].bytes;
    }
    return m;
}

/* ---- Tables -------------------------------------------------------------------------------- */

static int file_allocate(const struct weir__file *f, uint64_t at, uint64_t bytes,
                         struct weir_diag *why)
{
    do
        errno = posix_fallocate(f->fd, (off_t)at, (off_t)bytes);
    while (errno == EINTR);
    if (errno == 0)
        return 0;
    return weir__diag_errno(why, WEIR_EIO, "%s: cannot allocate %" PRIu64 " bytes", f->path, bytes);
}

static int cannot_map(const struct weir__file *f, uint64_t bytes, struct weir_diag *why)
{
    return weir__diag_errno(why, WEIR_EIO, "%s: cannot map %" PRIu64 " bytes", f->path, bytes);
}

/* Creates a table after the last one. (Not at header->bytes: a process that was killed while it
 * created a table may have raised that.) */
static int make_table_locked(struct weir__file *f, uint32_t c, const struct weir__table_options *o,
                             uint64_t at, struct weir_diag *why)
{
    const uint64_t bytes = weir__whole_pages(weir__table_size(o));
    const uint64_t left = f->made.max_memory > at ? f->made.max_memory - at : 0;
    int error;

    if (bytes > left)
        return weir__store_no_room(o, left, why);
    error = file_allocate(f, at, bytes, why);
    if (error)
        return error;
    if (!file_map_part(f, at, bytes))
        return cannot_map(f, bytes, why);
    (void)weir__table_init(table_at(f, at), o);
    if (!weir__table_pin(table_at(f, at), o))
        return cannot_map(f, bytes, why);
    f->header->table[c].bytes = bytes;
    f->header->table[c].max_keys = o->max_keys;
    weir__order_stores();
    atomic_store(&f->header->bytes, at + bytes);
    atomic_store(&f->header->table[c].at, at);
    f->made.table[c].bytes = bytes;
    f->made.table[c].max_keys = o->max_keys;
    atomic_store(&f->table_at[c], at);
    return 0;
}

static int file_report_damage(const struct weir__file *f, uint32_t c, struct weir_diag *why)
{
    return weir__diag(why, WEIR_EFORMAT,
                      "%s: damaged: the table of %zu-byte states contradicts itself", f->path,
                      weir__size_of_class(c));
}

/* The caller holds the file's lock and `maps`. */
static int find_table_locked(struct weir__file *f, uint32_t c, uint64_t keys, struct weir_diag *why)
{
    struct weir__region table[WEIR__SIZE_CLASSES];
    struct weir__table_options o;
    uint64_t end;
    int error = read_regions(f, table, &end);

    if (error)
        return weir__diag(why, error, "%s: damaged: the header contradicts itself", f->path);
    if (atomic_load(&f->table_at[c]) != 0)
        return 0;
    if (atomic_load(&table[c].at) == 0) {
        o = weir__header_new_table(&f->made, c, keys, end);
        return make_table_locked(f, c, &o, end, why);
    }
    error = map_table_locked(f, c, &table[c]);
    if (error == WEIR_EFORMAT)
        return file_report_damage(f, c, why);
    return error ? cannot_map(f, table[c].bytes, why) : 0;
}

int weir__file_table(struct weir__file *f, uint32_t c, uint64_t keys, struct weir__table **table,
                     struct weir_diag *why)
{
    int error;

    (void)pthread_mutex_lock(&f->maps);
    error = find_table_locked(f, c, keys, why);
    (void)pthread_mutex_unlock(&f->maps);
    if (!error)
        *table = table_at(f, atomic_load(&f->table_at[c]));
    return error;
}

uint64_t weir__file_left(const struct weir__file *f)
{
    struct weir__region table[WEIR__SIZE_CLASSES];
    uint64_t end;

    if (read_regions(f, table, &end) != 0)
        return 0;
    return f->made.max_memory > end ? f->made.max_memory - end : 0;
}

/* ---- Time ---------------------------------------------------------------------------------- */

/* The store's time continues where it was. After a reboot, or if the system cannot tell, it starts
 * at the later of the last stamp and the wall clock, so that it never goes back. The caller holds
 * the file's lock. */
static void file_anchor_clock_locked(struct weir__header *h)
{
    const int64_t now = weir__clock_now(), boottime = now - weir__clock_offset();
    char id[WEIR__BOOT_ID];

    if (weir__boot_id(id) && memcmp(id, h->boot_id, sizeof id) == 0)
        return;
    atomic_store(
        &h->offset_ns,
        weir__sub_sat(weir__max(atomic_load(&h->stamp_ns), weir__clock_wall(now)), boottime));
    memcpy(h->boot_id, id, sizeof id);
}

void weir__file_stamp(struct weir__file *f, int64_t now_ns)
{
    const int64_t stamp = atomic_load_explicit(&f->header->stamp_ns, memory_order_relaxed);

    if (stamp < 0 || stamp > WEIR__NOW_MAX || now_ns - stamp > STAMP_EVERY_NS)
        atomic_store_explicit(&f->header->stamp_ns, now_ns, memory_order_relaxed);
}

/* ---- Creating ------------------------------------------------------------------------------ */

static int fill_header(struct weir__header *h, const struct weir_options *o, struct weir_diag *why)
{
    memcpy(h->magic, WEIR__FILE_MAGIC, sizeof h->magic);
    h->version = weir__file_version;
    h->byte_order = WEIR__BYTE_ORDER;
    h->layout = weir__file_layout();
    h->max_keys = o->max_keys;
    h->max_memory = o->max_memory;
    h->max_policies = o->max_policies;
    h->lock_owners = WEIR__FILE_OWNERS;
    memcpy(h->secret, o->secret, sizeof h->secret);
    if (h->secret[0] == 0 && h->secret[1] == 0 &&
        getrandom(h->secret, sizeof h->secret, 0) != sizeof h->secret)
        return weir__diag_errno(why, WEIR_EIO, "cannot get random bytes");
    atomic_store(&h->bytes, weir__header_place(h));
    h->made_ns = weir__clock_wall(weir__clock_now());
    h->checksum = weir__header_checksum(h);
    return 0;
}

/* Fills a nameless file: header, journals, directory, and the table that nearly every limit
 * needs. */
static int file_format(struct weir__file *f, const struct weir_options *o, struct weir_diag *why)
{
    struct weir__header draft = {0};
    struct weir__table_options first;
    struct weir__directory *d;
    int error = fill_header(&draft, o, why);

    if (!error)
        error = file_allocate(f, 0, atomic_load(&draft.bytes), why);
    if (error)
        return error;
    f->made = draft;
    f->reserved = weir__header_largest(&draft);
    f->base =
        mmap(NULL, f->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->base == MAP_FAILED || !file_map_part(f, 0, atomic_load(&draft.bytes)))
        return cannot_map(f, f->reserved, why);
    f->header = (struct weir__header *)(void *)f->base;
    *f->header = draft;
    d = (struct weir__directory *)(void *)(f->base + draft.directory_at);
    d->max_policies = o->max_policies;
    f->made = draft;
    first = weir__header_new_table(&draft, 0, 0, atomic_load(&draft.bytes));
    error = make_table_locked(f, 0, &first, atomic_load(&draft.bytes), why);
    atomic_store(&f->header->ready, 1);
    return error;
}

/* Gives the nameless file its name; 1 if another process was faster. */
static int file_link(int fd, const char *path, const char *temporary, struct weir_diag *why)
{
    char self[64];
    int done;

    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", fd);
    done = temporary ? link(temporary, path)
                     : linkat(AT_FDCWD, self, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
    if (done == 0)
        return 0;
    if (errno == EEXIST)
        return 1;
    return weir__diag_errno(why, WEIR_EIO, "cannot create %s", path);
}

/* The directory of an absolute path. */
static void folder_of(const char *path, char *out, size_t cap)
{
    const int n = (int)(strrchr(path, '/') - path);

    (void)snprintf(out, cap, "%.*s", n ? n : 1, path);
}

/* Opens a file without a name; or, if the file system cannot do that, or if it could not be named
 * later (file_link needs /proc), under a temporary name. */
static int open_nameless(const char *path, char *temporary, size_t cap, bool *named)
{
    int fd = -1;

    folder_of(path, temporary, cap);
    *named = access("/proc/self/fd", X_OK) != 0;
    if (!*named) {
        fd = open(temporary, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        *named = fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR || errno == ENOENT);
    }
    if (!*named)
        return fd;
    (void)snprintf(temporary, cap, "%s.new.XXXXXX", path);
    return mkostemp(temporary, O_CLOEXEC);
}

static int cannot_make(const char *path, struct weir_diag *why)
{
    const int cause = errno;
    char folder[4200];

    folder_of(path, folder, sizeof folder);
    if (cause == ENOENT && access(folder, F_OK) != 0)
        return weir__diag(why, WEIR_EIO, "cannot create %s: the directory %s does not exist", path,
                          folder);
    errno = cause;
    return weir__diag_errno(why, WEIR_EIO, "cannot create %s", path);
}

static void file_unmap(struct weir__file *f)
{
    if (f->base && f->base != MAP_FAILED)
        (void)munmap(f->base, f->reserved);
    f->base = NULL;
}

/* Creates the file. Returns 0, also if another process created it first; or an error. */
static int file_make(const char *path, const struct weir_options *o, struct weir_diag *why)
{
    char temporary[4200];
    struct weir__file f = {.fd = -1, .path = (char *)path};
    bool named;
    int error;

    f.fd = open_nameless(path, temporary, sizeof temporary, &named);
    if (f.fd < 0)
        return cannot_make(path, why);
    error = file_format(&f, o, why);
    /* The file is complete on disk before it gets its name, in case the machine goes down. */
    if (!error && fsync(f.fd) != 0)
        error = weir__diag_errno(why, WEIR_EIO, "cannot write %s", path);
    if (!error)
        error = file_link(f.fd, path, named ? temporary : NULL, why);
    if (named)
        (void)unlink(temporary);
    file_unmap(&f);
    (void)close(f.fd);
    return error < 0 ? error : 0;
}

/* ---- Opening ------------------------------------------------------------------------------- */

/* Checks the header by read(2), so that a short file does no harm. */
static int check_file(int fd, const char *path, struct weir__header *h, struct weir_diag *why)
{
    union {
        struct weir__header header;
        char bytes[WEIR__FILE_PAGE];
    } page = {.bytes = {0}};
    struct stat st;

    if (fstat(fd, &st) == 0 && !S_ISREG(st.st_mode))
        return weir__diag(why, WEIR_EFORMAT, "%s: not a regular file", path);
    if (pread(fd, page.bytes, sizeof page, 0) < 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot read %s", path);
    if (fstat(fd, &st) != 0) /* again: the file may have grown since */
        return weir__diag_errno(why, WEIR_EIO, "cannot stat %s", path);
    *h = page.header;
    return weir__header_check(h, (uint64_t)st.st_size, path, why);
}

static struct weir__directory *file_directory(const struct weir__file *f)
{
    return (struct weir__directory *)(void *)(f->base + f->made.directory_at);
}

static int map_file(struct weir__file *f, const struct weir__header *h, const char *path,
                    struct weir_diag *why)
{
    struct weir__header placed = *h;
    const uint64_t fixed = weir__header_place(&placed);

    f->made = *h;
    f->reserved = weir__header_largest(h);
    f->base =
        mmap(NULL, f->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->base == MAP_FAILED || !file_map_part(f, 0, fixed))
        return cannot_map(f, f->reserved, why);
    f->header = (struct weir__header *)(void *)f->base;
    if (!weir__directory_is_sound(file_directory(f), h))
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: its directory contradicts the header",
                          path);
    return 0;
}

static void file_discard(struct weir__file *f)
{
    file_unmap(f);
    if (f->fd >= 0)
        (void)close(f->fd);
    free(f->path);
    free(f);
}

/* Whether another file has taken the name since this one was opened: `weir store convert` does
 * that, under the file's lock. */
static bool was_replaced(const struct weir__file *f)
{
    struct stat now;

    return stat(f->path, &now) != 0 || now.st_dev != f->device || now.st_ino != f->inode;
}

/* Maps the existing tables. The caller holds the file's lock. */
static int map_existing(struct weir__file *f, struct weir_diag *why)
{
    struct weir__table *unused;
    int error = 0;

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES && !error; c++)
        if (atomic_load(&f->header->table[c].at) != 0)
            error = weir__file_table(f, c, 0, &unused, why);
    return error;
}

/* Opens a file that this process does not have open yet. REPLACED: the caller starts again. The
 * caller holds the registry's lock. */
static int open_new_locked(int fd, const struct stat *st, const char *path, struct weir__file **out,
                           struct weir_diag *why)
{
    struct weir__file *f = calloc(1, sizeof *f);
    struct weir__header h;
    int error;

    if (!f) {
        (void)close(fd);
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    }
    f->fd = fd;
    f->path = strdup(path);
    f->device = st->st_dev;
    f->inode = st->st_ino;
    (void)pthread_mutex_init(&f->lock, NULL);
    (void)pthread_mutex_init(&f->maps, NULL);
    error = f->path ? check_file(fd, path, &h, why) : weir__diag(why, WEIR_ENOMEM, "out of memory");
    if (!error)
        error = map_file(f, &h, path, why);
    if (!error) {
        weir__owners_init(&f->lock_owners, f);
        error = weir__file_lock(f, why);
    }
    if (!error && was_replaced(f)) {
        weir__file_unlock(f);
        error = REPLACED;
    }
    if (error) {
        file_discard(f);
        return error;
    }
    file_anchor_clock_locked(f->header);
    error = map_existing(f, why);
    weir__file_unlock(f);
    if (error) {
        file_discard(f);
        return error;
    }
    weir__owners_recover_all(f);
    f->id = ++last_id;
    f->next = registry;
    registry = f;
    *out = f;
    return 0;
}

static int open_named_locked(const char *path, struct weir__file **out, struct weir_diag *why)
{
    struct stat st;
    int fd;

    if (stat(path, &st) == 0) /* before opening: closing a descriptor would lose our locks */
        for (struct weir__file *f = registry; f; f = f->next)
            if (f->device == st.st_dev && f->inode == st.st_ino) {
                *out = f;
                return 0;
            }
    fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot open %s", path);
    if (fstat(fd, &st) != 0) {
        (void)close(fd);
        return weir__diag_errno(why, WEIR_EIO, "cannot stat %s", path);
    }
    return open_new_locked(fd, &st, path, out, why);
}

static int open_existing_locked(const char *path, struct weir__file **out, struct weir_diag *why)
{
    int error = REPLACED;

    for (int tries = 0; tries < REPLACED_MOST && error == REPLACED; tries++)
        error = open_named_locked(path, out, why);
    if (error == REPLACED)
        error =
            weir__diag(why, WEIR_EIO, "%s: other processes replace the file again and again", path);
    return error;
}

/* Finds the existing tables, for callers that only peek. */
static void find_tables(struct weir__store *s, const struct weir__file *f)
{
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        const uint64_t at = atomic_load(&f->table_at[c]);

        atomic_store(&s->table[c], at ? table_at(f, at) : NULL);
    }
}

/* Computes the lead of the store's time over the process's clock. */
static int file_read_clock(struct weir__store *s, const struct weir__file *f, struct weir_diag *why)
{
    const int64_t now = weir__clock_now(), offset = atomic_load(&f->header->offset_ns);
    int64_t then;

    s->ahead_ns = weir__sub_sat(offset, weir__clock_offset());
    if (__builtin_add_overflow(now, s->ahead_ns, &then) || then < 0 || then > WEIR__NOW_MAX)
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: its clock is out of range", f->path);
    return 0;
}

int weir__file_open(struct weir__store *s, const char *path, const struct weir_options *o,
                    struct weir_diag *why)
{
    struct weir__file *f = NULL;
    int cancelable, error = 0;

    if (strlen(path) > 4000)
        return weir__diag(why, WEIR_EINVAL,
                          "the path of the store has %zu bytes; expected at most 4000",
                          strlen(path));
    (void)pthread_once(&once, file_register_fork);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    (void)pthread_mutex_lock(&registry_lock);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        error = file_make(path, o, why);
    if (!error)
        error = open_existing_locked(path, &f, why);
    if (!error) {
        f->users++;
        s->file = f;
        error = weir__file_map_all(f);
        if (error)
            (void)weir__diag(why, error, "%s: damaged: the header contradicts itself", path);
        find_tables(s, f);
    }
    (void)pthread_mutex_unlock(&registry_lock);
    (void)pthread_setcancelstate(cancelable, NULL);
    if (error)
        return error; /* closing the store closes the file */
    s->directory = file_directory(f);
    s->max_keys = f->made.max_keys;
    s->max_memory = f->made.max_memory;
    s->max_policies = f->made.max_policies;
    memcpy(s->secret, f->made.secret, sizeof s->secret);
    return file_read_clock(s, f, why);
}

void weir__file_close(struct weir__file *f)
{
    struct weir__file **at = &registry;

    (void)pthread_mutex_lock(&registry_lock);
    if (--f->users == 0) {
        while (*at != f)
            at = &(*at)->next;
        *at = f->next;
        file_discard(f);
    }
    (void)pthread_mutex_unlock(&registry_lock);
}
