/* Owners: record locks, waiting for a holder, and undoing the changes of dead ones. The idea is in
 * owners.h. */
#include "engine/store/owners.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/store/file.h"

#define YIELDS      64
#define NAP_NS      100000
#define PATIENCE_NS (10 * WEIR__NS_PER_MS) /* for a holder in another process */
#define PATIENCE_OWN_NS \
    (1000 * WEIR__NS_PER_MS) /* for a thread of this process, which will run again */
#define FILES_CACHED 4

/* ---- Record locks -------------------------------------------------------------------------- */

static bool owner_lock_byte(const struct weir__file *f, uint32_t i, short how)
{
    struct flock l = {
        .l_type = how, .l_whence = SEEK_SET, .l_start = WEIR__LOCK_OWNERS + i, .l_len = 1};
    int done;

    do
        done = fcntl(f->fd, F_SETLK, &l);
    while (done != 0 && errno == EINTR);
    return done == 0;
}

static struct weir__journal *owner_journal(const struct weir__file *f, uint32_t i)
{
    return (struct weir__journal *)(void *)(f->base + f->made.journals_at) + i;
}

/* ---- Recovery ------------------------------------------------------------------------------ */

/* Undoes the journal of an owner whose byte we have locked. */
static void owner_undo(struct weir__file *f, uint32_t i)
{
    const struct weir__mapped mapped = weir__file_mapped(f);

    if (weir__journal_undo(owner_journal(f, i), i + 1, &mapped))
        atomic_fetch_add(&f->header->recovered, 1);
}

/* Returns 1 if the owner was dead and its changes are undone; 0 if it is alive; or an error if its
 * tables cannot be mapped. `l`, if not NULL, is a lock that shows its number: if its journal does
 * not name that lock, the machine went down or the file is damaged, and the lock is dropped all the
 * same. The caller holds the owners' lock. */
static int owner_recover_locked(struct weir__file *f, uint32_t i, struct weir__lock *l)
{
    uint32_t number = i + 1;
    int error;

    if (f->lock_owners.ours[i] != WEIR__OWNER_NOT_OURS || !owner_lock_byte(f, i, F_WRLCK))
        return 0;
    error = weir__file_map_all(f);
    if (!error) {
        owner_undo(f, i);
        if (l)
            (void)atomic_compare_exchange_strong(&l->holder, &number, 0);
    }
    (void)owner_lock_byte(f, i, F_UNLCK);
    return error ? error : 1;
}

void weir__owners_recover_all(struct weir__file *f)
{
    /* Owners that were never claimed have nothing to undo. If the word is damaged, a thread that
     * finds the lock of a dead owner undoes its changes. */
    const uint64_t claimed = atomic_load(&f->header->claimed);

    (void)pthread_mutex_lock(&f->lock_owners.lock);
    for (uint32_t i = 0; i < WEIR__FILE_OWNERS && i < claimed; i++)
        (void)owner_recover_locked(f, i, NULL);
    (void)pthread_mutex_unlock(&f->lock_owners.lock);
}

/* ---- Waiting for a holder ------------------------------------------------------------------ */

static int64_t owner_monotonic_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * WEIR__NS_PER_S + t.tv_nsec;
}

/* Whether the holder's process is stopped, and does not only wait for a processor. If that cannot
 * be known (it is in another pid namespace), it counts as stopped. */
static bool owner_is_stopped(const struct weir__file *f, uint32_t holder)
{
    struct flock l = {.l_type = F_WRLCK,
                      .l_whence = SEEK_SET,
                      .l_start = WEIR__LOCK_OWNERS + holder - 1,
                      .l_len = 1};
    char path[40], stat[512] = "";
    const char *name_ends;
    int fd;

    if (fcntl(f->fd, F_GETLK, &l) != 0 || l.l_type == F_UNLCK || l.l_pid <= 0)
        return true;
    (void)snprintf(path, sizeof path, "/proc/%d/stat", (int)l.l_pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    if (read(fd, stat, sizeof stat - 1) < 0)
        stat[0] = '\0';
    (void)close(fd);
    name_ends = strrchr(stat, ')'); /* PID (NAME) STATE ... */
    return !name_ends || name_ends[1] != ' ' || name_ends[2] == 'T' || name_ends[2] == 't';
}

/* Whether no owner can have the number that a lock shows: the word is damaged. */
static bool owner_is_invalid(uint32_t holder, uint32_t me)
{
    return holder > WEIR__FILE_OWNERS || holder == me;
}

/* Checks a slow holder; *patience_ns is the time for which it is worth waiting. */
static int owner_check_holder(struct weir__file *f, struct weir__lock *l, uint32_t holder,
                              uint32_t me, int64_t *patience_ns)
{
    int done = 0;

    *patience_ns = PATIENCE_NS;
    (void)pthread_mutex_lock(&f->lock_owners.lock);
    if (owner_is_invalid(holder, me))
        done = atomic_compare_exchange_strong(&l->holder, &holder, 0);
    else if (f->lock_owners.ours[holder - 1] != WEIR__OWNER_NOT_OURS)
        *patience_ns = PATIENCE_OWN_NS;
    else
        done = owner_recover_locked(f, holder - 1, l);
    (void)pthread_mutex_unlock(&f->lock_owners.lock);
    if (done > 0)
        *patience_ns = INT64_MAX;
    return done < 0 ? done : 0;
}

static int owner_wait_for(struct weir__file_owner *me, struct weir__lock *l, uint32_t holder,
                          int64_t now)
{
    const struct timespec nap = {0, NAP_NS};
    int64_t patience;
    const int error = owner_check_holder(me->file, l, holder, me->owner.number, &patience);

    if (error)
        return error;
    if (patience == PATIENCE_NS && now - me->waiting_since_ns > patience &&
        !owner_is_stopped(me->file, holder))
        patience = PATIENCE_OWN_NS;
    if (now - me->waiting_since_ns > patience) {
        atomic_fetch_add_explicit(&me->file->lock_owners.busy, 1, memory_order_relaxed);
        return WEIR_EBUSY;
    }
    if (patience < INT64_MAX)
        (void)nanosleep(&nap, NULL);
    return 0;
}

static int owner_stuck(struct weir__owner *s, struct weir__lock *l, uint32_t holder, unsigned looks)
{
    struct weir__file_owner *me = (struct weir__file_owner *)(void *)s;
    const int64_t now = owner_monotonic_ns();
    int cancelable, error;

    if (looks == 0)
        me->waiting_since_ns = now;
    if (looks < YIELDS && now - me->waiting_since_ns < WEIR__NS_PER_MS) {
        (void)sched_yield();
        return 0;
    }
    /* A thread that is cancelled here may hold the lock of another bucket. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = owner_wait_for(me, l, holder, now);
    (void)pthread_setcancelstate(cancelable, NULL);
    return error;
}

/* ---- Owners of this process ---------------------------------------------------------------- */

void weir__owners_init(struct weir__owners *s, struct weir__file *f)
{
    (void)pthread_mutex_init(&s->lock, NULL);
    for (uint32_t i = 0; i < WEIR__FILE_OWNERS; i++)
        s->owner[i] = (struct weir__file_owner){
            .owner = {i + 1, owner_journal(f, i), f->base, owner_stuck}, .file = f};
}

void weir__owners_forked(struct weir__owners *s)
{
    (void)pthread_mutex_init(&s->lock, NULL);
    memset(s->ours, 0, sizeof s->ours);
}

/* Claims the owner, if it is free and the changes of its last user are undone. The caller holds the
 * owners' lock. */
static bool owner_claim_one_locked(struct weir__file *f, uint32_t i)
{
    if (f->lock_owners.ours[i] != WEIR__OWNER_NOT_OURS || !owner_lock_byte(f, i, F_WRLCK))
        return false;
    if (weir__file_map_all(f) ==
        0) { /* now the header names every table that the dead owner used */
        owner_undo(f, i);
        return true;
    }
    (void)owner_lock_byte(f, i, F_UNLCK);
    return false;
}

/* Claims an owner for a thread that has none. */
static struct weir__file_owner *owner_claim(struct weir__file *f)
{
    struct weir__owners *s = &f->lock_owners;
    struct weir__file_owner *claimed = NULL;

    if (weir__file_map_all(f) != 0)
        return NULL;
    (void)pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < WEIR__FILE_OWNERS && !claimed; i++)
        if (owner_claim_one_locked(f, i))
            claimed = &s->owner[i];
    if (claimed) {
        const uint64_t number = claimed->owner.number;

        s->ours[claimed - s->owner] = WEIR__OWNER_TAKEN;
        if (atomic_load(&f->header->claimed) < number)
            atomic_store(&f->header->claimed, number);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return claimed;
}

/* ---- Owners of this thread ----------------------------------------------------------------- */

struct owned_file {
    uint64_t file_id; /* 0: none */
    struct weir__file_owner *owner;
};

static __thread struct owned_file owned_files[FILES_CACHED]
    __attribute__((tls_model("initial-exec")));
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Releases the owner, unless the file was closed in the meantime. */
static void owner_release(struct owned_file *s)
{
    struct weir__file *f = s->file_id ? weir__file_find_locked(s->file_id) : NULL;

    if (f) {
        (void)pthread_mutex_lock(&f->lock_owners.lock);
        f->lock_owners.ours[s->owner - f->lock_owners.owner] = WEIR__OWNER_NOT_OURS;
        (void)owner_lock_byte(f, s->owner->owner.number - 1, F_UNLCK);
        (void)pthread_mutex_unlock(&f->lock_owners.lock);
    }
    if (s->file_id)
        weir__file_find_done();
    s->file_id = 0;
}

static void owner_thread_exit(void *unused)
{
    (void)unused;
    for (int i = 0; i < FILES_CACHED; i++)
        owner_release(&owned_files[i]);
}

static void owner_create_key(void)
{
    (void)pthread_key_create(&at_exit, owner_thread_exit);
}

static struct weir__owner *owner_acquire(struct weir__file *f)
{
    struct weir__file_owner *claimed = owner_claim(f);

    if (!claimed)
        return NULL;
    (void)pthread_once(&once, owner_create_key);
    (void)pthread_setspecific(at_exit, owned_files);
    owner_release(&owned_files[FILES_CACHED - 1]);
    memmove(&owned_files[1], &owned_files[0], sizeof owned_files - sizeof owned_files[0]);
    owned_files[0] = (struct owned_file){f->id, claimed};
    return &claimed->owner;
}

int weir__file_no_owner(struct weir__file *f)
{
    const int error = weir__file_map_all(f);

    return error ? error : WEIR_EFULL;
}

struct weir__owner *weir__file_owner(struct weir__file *f)
{
    for (int i = 0; i < FILES_CACHED; i++)
        if (owned_files[i].file_id == f->id)
            return &owned_files[i].owner->owner;
    return owner_acquire(f);
}
