/* Finds the processes that use a state file by the record locks they hold. */
#include "cli/store/store_users.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

#include "base/text.h"
#include "engine/store/inspect.h"

#define NAMED_MOST 4 /* processes that a message names */

/* Whether a process holds a lock in the range; len 0 is everything from `start` on. */
static bool store_users_find_lock(int fd, int64_t start, int64_t len, pid_t *pid)
{
    struct flock l = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)start, .l_len = (off_t)len};

    if (fcntl(fd, F_GETLK, &l) != 0 || l.l_type == F_UNLCK)
        return false;
    *pid = l.l_pid > 0 ? l.l_pid : 0;
    return true;
}

static void store_users_add(struct store_users *u, pid_t pid, uint32_t owners)
{
    uint32_t i = 0;

    while (i < u->n && u->user[i].pid != pid)
        i++;
    if (i == u->n)
        u->user[u->n++] = (struct store_user){.pid = pid};
    u->user[i].lock_owners += owners;
    u->lock_owners += owners;
}

bool store_users_owns(int fd, uint32_t owner)
{
    pid_t pid;

    return store_users_find_lock(fd, WEIR__LOCK_OWNERS + owner, 1, &pid);
}

void store_users_find(int fd, struct store_users *u)
{
    pid_t pid;

    *u = (struct store_users){0};
    for (uint32_t i = 0; i < WEIR__FILE_OWNERS; i++)
        if (store_users_find_lock(fd, WEIR__LOCK_OWNERS + i, 1, &pid))
            store_users_add(u, pid, 1);
    if (store_users_find_lock(fd, WEIR__LOCK_HEADER, 1, &pid))
        store_users_add(u, pid, 0);
    if (store_users_find_lock(fd, WEIR__LOCK_OWNERS + WEIR__FILE_OWNERS, 0, &pid))
        store_users_add(u, pid, 0);
}

int store_users_check(int fd, const char *path, struct weir_diag *why)
{
    struct store_users u;
    char text[256];
    struct weir__out o = {text, sizeof text, 0};

    store_users_find(fd, &u);
    if (u.n == 0)
        return 0;
    for (uint32_t i = 0; i < u.n && i < NAMED_MOST; i++) {
        weir__out_text(&o, i == 0 ? "" : ", ");
        if (u.user[i].pid > 0)
            weir__out_int(&o, u.user[i].pid);
        else
            weir__out_text(&o, "one in another namespace");
    }
    weir__out_text(&o, u.n > NAMED_MOST ? ", ..." : "");
    (void)weir__out_end(&o);
    return weir__diag(why, WEIR_EBUSY, "%s: in use by process%s %s; nothing was changed", path,
                      u.n > 1 ? "es" : "", text);
}

/* Whether another process has the file open but no owner's lock yet: then the kernel grants us no
 * write lease. Only the file's owner may ask for one, and not every file system supports it; in
 * those cases we do not know, and answer false. */
static bool store_users_is_open(int fd)
{
    (void)signal(SIGIO, SIG_IGN); /* sent if a process opens the file while we hold the lease */
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0)
        return errno == EAGAIN;
    (void)fcntl(fd, F_SETLEASE, F_UNLCK);
    return false;
}

int store_users_lock(int fd, const char *path, struct weir_diag *why)
{
    struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = WEIR__LOCK_HEADER};

    if (fcntl(fd, F_SETLK, &l) == 0) {
        if (!store_users_is_open(fd))
            return 0;
        return weir__diag(why, WEIR_EBUSY, "%s: open in another process; nothing was changed",
                          path);
    }
    if (errno != EAGAIN && errno != EACCES)
        return weir__diag_errno(why, WEIR_EIO, "cannot lock %s", path);
    if (store_users_check(fd, path, why) != 0)
        return WEIR_EBUSY;
    return weir__diag(why, WEIR_EBUSY, "%s: in use a moment ago; nothing was changed", path);
}
