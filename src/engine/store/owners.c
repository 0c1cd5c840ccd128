/* Seats: record locks, waiting for a holder, and undoing what the dead left. The idea is in seats.h. */
#include "engine/seats.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "engine/file.h"

#define YIELDS          64
#define NAP_NS          100000
#define PATIENCE_NS     (10 * WEIR__NS_PER_MS)   /* with a holder in another process */
#define PATIENCE_OWN_NS (1000 * WEIR__NS_PER_MS) /* with a thread of our own, that will run again */
#define FILES_CACHED    4

/* ---- Record locks ------------------------------------------------------------------------------ */

static bool lock_byte(const struct weir__file *f, uint32_t i, short how)
{
    struct flock l = {
        .l_type = how, .l_whence = SEEK_SET, .l_start = WEIR__LOCK_SEATS + i, .l_len = 1};
    int done;

    do
        done = fcntl(f->fd, F_SETLK, &l);
    while (done != 0 && errno == EINTR);
    return done == 0;
}

static struct weir__journal *journal_of(const struct weir__file *f, uint32_t i)
{
    return (struct weir__journal *)(void *)(f->base + f->made.journals_at) + i;
}

/* ---- Recovery ---------------------------------------------------------------------------------- */

/* Undoes the journal of a seat whose byte we hold. */
static void undo(struct weir__file *f, uint32_t i)
{
    const struct weir__mapped mapped = weir__file_mapped(f);

    if (weir__journal_undo(journal_of(f, i), i + 1, &mapped))
        atomic_fetch_add(&f->header->recovered, 1);
}

/* The caller holds the seats' lock. 1 if the seat's holder was dead, and all of his is undone; 0 if he
 * lives; or an error: his tables cannot be mapped. `l`, if not NULL, is a lock that shows his number: if
 * his journal does not know of it, the machine went down or the file is damaged, and it is dropped all
 * the same. */
static int recover_locked(struct weir__file *f, uint32_t i, struct weir__lock *l)
{
    uint32_t number = i + 1;
    int error;

    if (f->seats.ours[i] != WEIR__SEAT_NOT_OURS || !lock_byte(f, i, F_WRLCK))
        return 0;
    error = weir__file_map_all(f);
    if (!error) {
        undo(f, i);
        if (l)
            (void)atomic_compare_exchange_strong(&l->holder, &number, 0);
    }
    (void)lock_byte(f, i, F_UNLCK);
    return error ? error : 1;
}

void weir__seats_recover_all(struct weir__file *f)
{
    /* Seats that nobody ever had have nothing to undo. If the word is damaged, what a dead one left is undone
     * by whoever meets his locks. */
    const uint64_t claimed = atomic_load(&f->header->claimed);

    (void)pthread_mutex_lock(&f->seats.lock);
    for (uint32_t i = 0; i < WEIR__FILE_SEATS && i < claimed; i++)
        (void)recover_locked(f, i, NULL);
    (void)pthread_mutex_unlock(&f->seats.lock);
}

/* ---- Waiting for a holder ---------------------------------------------------------------------- */

static int64_t monotonic_ns(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * WEIR__NS_PER_S + t.tv_nsec;
}

/* Whether the holder's process stands still, and not only waits for a processor; if that cannot be told
 * (it lives in another pid namespace), it does. */
static bool stands_still(const struct weir__file *f, uint32_t holder)
{
    struct flock l = {.l_type = F_WRLCK,
                      .l_whence = SEEK_SET,
                      .l_start = WEIR__LOCK_SEATS + holder - 1,
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

/* Whether a number that a lock shows can be nobody's: the word is damaged. */
static bool is_nobody(uint32_t holder, uint32_t me)
{
    return holder > WEIR__FILE_SEATS || holder == me;
}

/* Sees to a holder that takes so long; *patience_ns is how long it is worth waiting for. */
static int look_after(struct weir__file *f, struct weir__lock *l, uint32_t holder, uint32_t me,
                      int64_t *patience_ns)
{
    int done = 0;

    *patience_ns = PATIENCE_NS;
    (void)pthread_mutex_lock(&f->seats.lock);
    if (is_nobody(holder, me))
        done = atomic_compare_exchange_strong(&l->holder, &holder, 0);
    else if (f->seats.ours[holder - 1] != WEIR__SEAT_NOT_OURS)
        *patience_ns = PATIENCE_OWN_NS;
    else
        done = recover_locked(f, holder - 1, l);
    (void)pthread_mutex_unlock(&f->seats.lock);
    if (done > 0)
        *patience_ns = INT64_MAX;
    return done < 0 ? done : 0;
}

static int wait_for(struct weir__file_seat *me, struct weir__lock *l, uint32_t holder, int64_t now)
{
    const struct timespec nap = {0, NAP_NS};
    int64_t patience;
    const int error = look_after(me->file, l, holder, me->seat.number, &patience);

    if (error)
        return error;
    if (patience == PATIENCE_NS && now - me->waiting_since_ns > patience &&
        !stands_still(me->file, holder))
        patience = PATIENCE_OWN_NS;
    if (now - me->waiting_since_ns > patience) {
        atomic_fetch_add_explicit(&me->file->seats.busy, 1, memory_order_relaxed);
        return WEIR_EBUSY;
    }
    if (patience < INT64_MAX)
        (void)nanosleep(&nap, NULL);
    return 0;
}

static int stuck(struct weir__seat *s, struct weir__lock *l, uint32_t holder, unsigned looks)
{
    struct weir__file_seat *me = (struct weir__file_seat *)(void *)s;
    const int64_t now = monotonic_ns();
    int cancelable, error;

    if (looks == 0)
        me->waiting_since_ns = now;
    if (looks < YIELDS && now - me->waiting_since_ns < WEIR__NS_PER_MS) {
        (void)sched_yield();
        return 0;
    }
    /* A thread that is cancelled here may hold another bucket. */
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    error = wait_for(me, l, holder, now);
    (void)pthread_setcancelstate(cancelable, NULL);
    return error;
}

/* ---- Seats of this process --------------------------------------------------------------------- */

void weir__seats_init(struct weir__seats *s, struct weir__file *f)
{
    (void)pthread_mutex_init(&s->lock, NULL);
    for (uint32_t i = 0; i < WEIR__FILE_SEATS; i++)
        s->seat[i] =
            (struct weir__file_seat){.seat = {i + 1, journal_of(f, i), f->base, stuck}, .file = f};
}

void weir__seats_forked(struct weir__seats *s)
{
    (void)pthread_mutex_init(&s->lock, NULL);
    memset(s->ours, 0, sizeof s->ours);
}

/* Whether the seat could be had, with nothing left over from who had it before. The caller holds the
 * seats' lock. */
static bool claim_one_locked(struct weir__file *f, uint32_t i)
{
    if (f->seats.ours[i] != WEIR__SEAT_NOT_OURS || !lock_byte(f, i, F_WRLCK))
        return false;
    if (weir__file_map_all(f) == 0) { /* now: all tables that he used are named */
        undo(f, i);
        return true;
    }
    (void)lock_byte(f, i, F_UNLCK);
    return false;
}

/* A seat for a thread that has none. */
static struct weir__file_seat *claim(struct weir__file *f)
{
    struct weir__seats *s = &f->seats;
    struct weir__file_seat *seat = NULL;

    if (weir__file_map_all(f) != 0)
        return NULL;
    (void)pthread_mutex_lock(&s->lock);
    for (uint32_t i = 0; i < WEIR__FILE_SEATS && !seat; i++)
        if (claim_one_locked(f, i))
            seat = &s->seat[i];
    if (seat) {
        const uint64_t number = seat->seat.number;

        s->ours[seat - s->seat] = WEIR__SEAT_TAKEN;
        if (atomic_load(&f->header->claimed) < number)
            atomic_store(&f->header->claimed, number);
    }
    (void)pthread_mutex_unlock(&s->lock);
    return seat;
}

/* ---- This thread's seats ----------------------------------------------------------------------- */

struct sitting {
    uint64_t file_id; /* 0: none */
    struct weir__file_seat *seat;
};

static __thread struct sitting sittings[FILES_CACHED] __attribute__((tls_model("initial-exec")));
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* The seat is anybody's again, unless the file was closed meanwhile. */
static void stand_up(struct sitting *s)
{
    struct weir__file *f = s->file_id ? weir__file_find_locked(s->file_id) : NULL;

    if (f) {
        (void)pthread_mutex_lock(&f->seats.lock);
        f->seats.ours[s->seat - f->seats.seat] = WEIR__SEAT_NOT_OURS;
        (void)lock_byte(f, s->seat->seat.number - 1, F_UNLCK);
        (void)pthread_mutex_unlock(&f->seats.lock);
    }
    if (s->file_id)
        weir__file_find_done();
    s->file_id = 0;
}

static void thread_ends(void *unused)
{
    (void)unused;
    for (int i = 0; i < FILES_CACHED; i++)
        stand_up(&sittings[i]);
}

static void prepare(void)
{
    (void)pthread_key_create(&at_exit, thread_ends);
}

static struct weir__seat *sit_down(struct weir__file *f)
{
    struct weir__file_seat *seat = claim(f);

    if (!seat)
        return NULL;
    (void)pthread_once(&once, prepare);
    (void)pthread_setspecific(at_exit, sittings);
    stand_up(&sittings[FILES_CACHED - 1]);
    memmove(&sittings[1], &sittings[0], sizeof sittings - sizeof sittings[0]);
    sittings[0] = (struct sitting){f->id, seat};
    return &seat->seat;
}

int weir__file_no_seat(struct weir__file *f)
{
    const int error = weir__file_map_all(f);

    return error ? error : WEIR_EFULL;
}

struct weir__seat *weir__file_seat(struct weir__file *f)
{
    for (int i = 0; i < FILES_CACHED; i++)
        if (sittings[i].file_id == f->id)
            return &sittings[i].seat->seat;
    return sit_down(f);
}
