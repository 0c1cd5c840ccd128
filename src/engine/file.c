/* Opening, making and mapping state files. What lies in them is told in format.h. */
#include "engine/file.h"

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

#include "engine/clock.h"
#include "engine/diag.h"

#define STAMP_EVERY_NS WEIR__NS_PER_S
#define LOCK_TRIES     1000 /* of a millisecond each */
#define REPLACED       1
#define REPLACED_MOST  10

/* ---- The files this process has open ----------------------------------------------------------- */

static pthread_mutex_t registry_lock = PTHREAD_MUTEX_INITIALIZER;
static struct weir__file *registry;
static uint64_t last_id;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void before_fork(void)
{
    (void)pthread_mutex_lock(&registry_lock);
}

static void parent_goes_on(void)
{
    (void)pthread_mutex_unlock(&registry_lock);
}

/* Record locks are not inherited: the child has the maps, and must find seats of its own. */
static void child_begins(void)
{
    for (struct weir__file *f = registry; f; f = f->next) {
        f->id = ++last_id;
        (void)pthread_mutex_init(&f->lock, NULL);
        weir__seats_forked(&f->seats);
    }
    (void)pthread_mutex_init(&registry_lock, NULL);
}

static void prepare(void)
{
    (void)pthread_atfork(before_fork, parent_goes_on, child_begins);
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

/* ---- The file's lock --------------------------------------------------------------------------- */

static int lock_header(int fd, short how)
{
    struct flock l = {
        .l_type = how, .l_whence = SEEK_SET, .l_start = WEIR__LOCK_HEADER, .l_len = 1};
    const struct timespec nap = {0, WEIR__NS_PER_MS};

    /* Not F_SETLKW: a holder that is stopped would stop us too. */
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
    error = lock_header(f->fd, F_WRLCK);
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
    (void)lock_header(f->fd, F_UNLCK);
    (void)pthread_mutex_unlock(&f->lock);
}

/* ---- Mapping ----------------------------------------------------------------------------------- */

/* The file at its largest: address space is taken for that, so that no pointer ever moves. */
static uint64_t largest(const struct weir__header *h)
{
    struct weir__header placed = *h;
    uint64_t bytes = weir__header_place(&placed);

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++)
        bytes += weir__header_table_bytes(h, c);
    return bytes;
}

static bool map_part(const struct weir__file *f, uint64_t at, uint64_t bytes)
{
    void *mem =
        mmap(f->base + at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, f->fd, (off_t)at);

    if (mem == MAP_FAILED)
        return false;
    (void)madvise(mem, bytes, MADV_HUGEPAGE); /* where the file system has them */
    return true;
}

/* Two may do this at once: a map is then made twice, at the same place, of the same bytes. */
static bool map_table(struct weir__file *f, uint32_t c)
{
    const struct weir__region *r = &f->header->table[c];
    const uint64_t at = atomic_load(&r->at);

    if (at == 0 || f->mapped[c])
        return true;
    f->mapped[c] = map_part(f, at, weir__whole_pages(r->bytes));
    return f->mapped[c];
}

bool weir__file_map_all(struct weir__file *f)
{
    bool done = true;

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++)
        done = map_table(f, c) && done;
    return done;
}

/* ---- Tables ------------------------------------------------------------------------------------ */

static int allocate(const struct weir__file *f, uint64_t at, uint64_t bytes, struct weir_diag *why)
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

/* Where the last table ends. (Not header->bytes: who was killed while he made one may have raised that.) */
static uint64_t end_of(const struct weir__header *h)
{
    struct weir__header placed = *h;
    uint64_t end = weir__header_place(&placed);

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        const uint64_t at = atomic_load(&h->table[c].at);

        if (at != 0 && at + weir__whole_pages(h->table[c].bytes) > end)
            end = at + weir__whole_pages(h->table[c].bytes);
    }
    return end;
}

static int make_table(struct weir__file *f, uint32_t c, struct weir_diag *why)
{
    const struct weir__table_options o = weir__header_table(f->header, c);
    const uint64_t at = end_of(f->header);
    const uint64_t bytes = weir__header_table_bytes(f->header, c);
    const int error = allocate(f, at, bytes, why);

    if (error)
        return error;
    if (!map_part(f, at, bytes))
        return cannot_map(f, bytes, why);
    (void)weir__table_init(f->base + at, &o);
    f->header->table[c].bytes = bytes;
    weir__order_stores();
    atomic_store(&f->header->bytes, at + bytes);
    atomic_store(&f->header->table[c].at, at);
    f->mapped[c] = true;
    return 0;
}

int weir__file_table(struct weir__file *f, uint32_t c, struct weir__table **table,
                     struct weir_diag *why)
{
    const struct weir__region *r = &f->header->table[c];
    int error = 0;

    if (atomic_load(&r->at) == 0)
        error = make_table(f, c, why);
    else if (!map_table(f, c))
        error = cannot_map(f, r->bytes, why);
    if (!error)
        *table = (struct weir__table *)(void *)(f->base + atomic_load(&r->at));
    if (!error && !weir__table_is_sound(*table, weir__size_of_class(c), r->bytes))
        error = weir__diag(why, WEIR_EFORMAT,
                           "%s: damaged: the table of %zu-byte states contradicts itself", f->path,
                           weir__size_of_class(c));
    return error;
}

/* ---- Time -------------------------------------------------------------------------------------- */

/* The store's time goes on where it was. After a reboot, or where nobody can tell, it begins at the later
 * of the last stamp and the wall clock, so that it never goes back. The caller holds the file's lock. */
static void anchor_locked(struct weir__header *h)
{
    const int64_t now = weir__clock_now(), boottime = now - weir__clock_offset();
    char id[WEIR__BOOT_ID];

    if (weir__boot_id(id) && memcmp(id, h->boot_id, sizeof id) == 0)
        return;
    atomic_store(&h->offset_ns,
                 weir__max(atomic_load(&h->stamp_ns), weir__clock_wall(now)) - boottime);
    memcpy(h->boot_id, id, sizeof id);
}

void weir__file_stamp(struct weir__file *f, int64_t now_ns)
{
    if (now_ns - atomic_load_explicit(&f->header->stamp_ns, memory_order_relaxed) > STAMP_EVERY_NS)
        atomic_store_explicit(&f->header->stamp_ns, now_ns, memory_order_relaxed);
}

/* ---- Making ------------------------------------------------------------------------------------ */

static int fill_header(struct weir__header *h, const struct weir_options *o, struct weir_diag *why)
{
    memcpy(h->magic, WEIR__FILE_MAGIC, sizeof h->magic);
    h->version = WEIR__FILE_VERSION;
    h->byte_order = WEIR__BYTE_ORDER;
    h->layout = weir__file_layout();
    h->max_keys = o->max_keys;
    h->max_bytes = o->max_bytes;
    h->max_policies = o->max_policies;
    h->seats = WEIR__FILE_SEATS;
    memcpy(h->secret, o->secret, sizeof h->secret);
    if (h->secret[0] == 0 && h->secret[1] == 0 &&
        getrandom(h->secret, sizeof h->secret, 0) != sizeof h->secret)
        return weir__diag_errno(why, WEIR_EIO, "cannot get random bytes");
    atomic_store(&h->bytes, weir__header_place(h));
    h->made_ns = weir__clock_wall(weir__clock_now());
    h->checksum = weir__header_checksum(h);
    return 0;
}

/* Fills a nameless file: header, journals, directory, and the table that nearly everybody needs. */
static int format(struct weir__file *f, const struct weir_options *o, struct weir_diag *why)
{
    struct weir__header draft = {0};
    struct weir__directory *d;
    int error = fill_header(&draft, o, why);

    if (!error)
        error = allocate(f, 0, atomic_load(&draft.bytes), why);
    if (error)
        return error;
    f->reserved = largest(&draft);
    f->base =
        mmap(NULL, f->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->base == MAP_FAILED || !map_part(f, 0, atomic_load(&draft.bytes)))
        return cannot_map(f, f->reserved, why);
    f->header = (struct weir__header *)(void *)f->base;
    *f->header = draft;
    d = (struct weir__directory *)(void *)(f->base + draft.directory_at);
    d->max_policies = o->max_policies;
    error = make_table(f, 0, why);
    atomic_store(&f->header->ready, 1);
    return error;
}

/* Gives the nameless file its name; 1 if another was quicker. */
static int give_name(int fd, const char *path, const char *temporary, struct weir_diag *why)
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
    return weir__diag_errno(why, WEIR_EIO, "cannot make %s", path);
}

/* The directory of an absolute path. */
static void folder_of(const char *path, char *out, size_t cap)
{
    const int n = (int)(strrchr(path, '/') - path);

    (void)snprintf(out, cap, "%.*s", n ? n : 1, path);
}

/* A file without a name; or, where the file system cannot do that or nothing could name it later (give_name
 * needs /proc), under a name nobody asks for. */
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
        return weir__diag(why, WEIR_EIO, "cannot make %s: the directory %s does not exist", path,
                          folder);
    errno = cause;
    return weir__diag_errno(why, WEIR_EIO, "cannot make %s", path);
}

static void unmap(struct weir__file *f)
{
    if (f->base && f->base != MAP_FAILED)
        (void)munmap(f->base, f->reserved);
    f->base = NULL;
}

/* Makes the file. 0, also if another made it first; or an error. */
static int make_file(const char *path, const struct weir_options *o, struct weir_diag *why)
{
    char temporary[4200];
    struct weir__file f = {.fd = -1, .path = (char *)path};
    bool named;
    int error;

    f.fd = open_nameless(path, temporary, sizeof temporary, &named);
    if (f.fd < 0)
        return cannot_make(path, why);
    error = format(&f, o, why);
    /* What has the name is whole on the disk too, should the machine go down. */
    if (!error && fsync(f.fd) != 0)
        error = weir__diag_errno(why, WEIR_EIO, "cannot write %s", path);
    if (!error)
        error = give_name(f.fd, path, named ? temporary : NULL, why);
    if (named)
        (void)unlink(temporary);
    unmap(&f);
    (void)close(f.fd);
    return error < 0 ? error : 0;
}

/* ---- Opening ----------------------------------------------------------------------------------- */

/* Checks the header by reading, so that a short file cannot hurt. */
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
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", path);
    *h = page.header;
    return weir__header_check(h, (uint64_t)st.st_size, path, why);
}

static int map_file(struct weir__file *f, const struct weir__header *h, const char *path,
                    struct weir_diag *why)
{
    struct weir__header placed = *h;
    const uint64_t fixed = weir__header_place(&placed);

    f->reserved = largest(h);
    if (atomic_load(&h->bytes) > f->reserved)
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: larger than it can be", path);
    f->base =
        mmap(NULL, f->reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->base == MAP_FAILED || !map_part(f, 0, fixed))
        return cannot_map(f, f->reserved, why);
    f->header = (struct weir__header *)(void *)f->base;
    if (((struct weir__directory *)(void *)(f->base + h->directory_at))->max_policies !=
        h->max_policies)
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: its directory contradicts the header",
                          path);
    if (!weir__file_map_all(f))
        return cannot_map(f, f->reserved, why);
    return 0;
}

static void discard(struct weir__file *f)
{
    unmap(f);
    if (f->fd >= 0)
        (void)close(f->fd);
    free(f->path);
    free(f);
}

/* Whether another file has got the name since this one was opened: `weir store convert` does that, under
 * the file's lock. */
static bool was_replaced(const struct weir__file *f)
{
    struct stat now;

    return stat(f->path, &now) != 0 || now.st_dev != f->device || now.st_ino != f->inode;
}

/* The caller holds the registry. REPLACED: begin anew. */
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
    error = f->path ? check_file(fd, path, &h, why) : weir__diag(why, WEIR_ENOMEM, "out of memory");
    if (!error)
        error = map_file(f, &h, path, why);
    if (!error) {
        weir__seats_init(&f->seats, f);
        error = weir__file_lock(f, why);
    }
    if (!error && was_replaced(f)) {
        weir__file_unlock(f);
        error = REPLACED;
    }
    if (error) {
        discard(f);
        return error;
    }
    anchor_locked(f->header);
    weir__file_unlock(f);
    weir__seats_recover_all(f);
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

    if (stat(path, &st) == 0) /* before opening: to close a descriptor would lose our locks */
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
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", path);
    }
    return open_new_locked(fd, &st, path, out, why);
}

static int open_existing_locked(const char *path, struct weir__file **out, struct weir_diag *why)
{
    int error = REPLACED;

    for (int tries = 0; tries < REPLACED_MOST && error == REPLACED; tries++)
        error = open_named_locked(path, out, why);
    if (error == REPLACED)
        error = weir__diag(why, WEIR_EIO, "%s: it is being replaced again and again", path);
    return error;
}

/* The tables that are there: for those who only look. */
static int find_tables(struct weir__store *s, struct weir__file *f, struct weir_diag *why)
{
    int error = 0;

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES && !error; c++) {
        struct weir__table *t = NULL;

        if (atomic_load(&f->header->table[c].at) != 0)
            error = weir__file_table(f, c, &t, why);
        atomic_store(&s->table[c], t);
    }
    return error;
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
    (void)pthread_once(&once, prepare);
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    (void)pthread_mutex_lock(&registry_lock);
    if (access(path, F_OK) != 0 && errno == ENOENT)
        error = make_file(path, o, why);
    if (!error)
        error = open_existing_locked(path, &f, why);
    if (!error) {
        f->users++;
        s->file = f;
        error = find_tables(s, f, why);
    }
    (void)pthread_mutex_unlock(&registry_lock);
    (void)pthread_setcancelstate(cancelable, NULL);
    if (error)
        return error; /* what is open is closed with the store */
    s->directory = (struct weir__directory *)(void *)(f->base + f->header->directory_at);
    s->max_keys = f->header->max_keys;
    s->max_bytes = f->header->max_bytes;
    memcpy(s->secret, f->header->secret, sizeof s->secret);
    s->ahead_ns = atomic_load(&f->header->offset_ns) - weir__clock_offset();
    return 0;
}

void weir__file_close(struct weir__file *f)
{
    struct weir__file **at = &registry;

    (void)pthread_mutex_lock(&registry_lock);
    if (--f->users == 0) {
        while (*at != f)
            at = &(*at)->next;
        *at = f->next;
        discard(f);
    }
    (void)pthread_mutex_unlock(&registry_lock);
}
