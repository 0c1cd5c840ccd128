/* Makes a new file without a name, and gives it one when it is complete. */
#include "cli/store/store_draft.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/store/inspect.h"

/* The path with the suffix; NULL: out of memory. */
static char *store_draft_join(const char *path, const char *suffix)
{
    char *text;

    return asprintf(&text, "%s%s", path, suffix) < 0 ? NULL : text;
}

/* Opens the directory of the path. */
static int open_folder(const char *path, int how)
{
    const char *slash = strrchr(path, '/');
    char *folder = slash ? strndup(path, slash > path ? (size_t)(slash - path) : 1) : strdup(".");
    int fd;

    if (!folder)
        return -1;
    fd = open(folder, how | O_CLOEXEC, 0600);
    free(folder);
    return fd;
}

/* ---- Making ---------------------------------------------------------------------------------- */

static int store_draft_make_file(struct store_draft *d, struct weir_diag *why)
{
    d->fd = open_folder(d->path, O_TMPFILE | O_RDWR);
    if (d->fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR)) {
        (void)unlink(d->temporary); /* of a process that was killed */
        d->fd = open(d->temporary, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        d->named = d->fd >= 0;
    }
    return d->fd < 0 ? weir__diag_errno(why, WEIR_EIO, "cannot make %s", d->path) : 0;
}

static int store_draft_copy_owner(const struct store_draft *d, const struct stat *like,
                                  struct weir_diag *why)
{
    struct stat st;

    if (fstat(d->fd, &st) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", d->path);
    if ((st.st_uid != like->st_uid || st.st_gid != like->st_gid) &&
        fchown(d->fd, like->st_uid, like->st_gid) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot give %s the owner of the old file", d->path);
    if (fchmod(d->fd, like->st_mode & 07777) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot give %s the mode of the old file", d->path);
    return 0;
}

int store_draft_open(struct store_draft *d, const char *path, const struct stat *like,
                     struct weir_diag *why)
{
    int error;

    *d = (struct store_draft){.fd = -1,
                              .path = store_draft_join(path, ""),
                              .temporary = store_draft_join(path, ".weir-new")};
    error = d->path && d->temporary ? store_draft_make_file(d, why)
                                    : weir__diag(why, WEIR_ENOMEM, "out of memory");
    if (!error)
        error = store_draft_copy_owner(d, like, why);
    if (error)
        store_draft_close(d);
    return error;
}

void store_draft_close(struct store_draft *d)
{
    if (d->named)
        (void)unlink(d->temporary);
    if (d->fd >= 0)
        (void)close(d->fd);
    free(d->path);
    free(d->temporary);
}

/* ---- Naming ---------------------------------------------------------------------------------- */

/* Syncs the directory, so that the names are on the disk too. */
static int sync_folder(const struct store_draft *d, struct weir_diag *why)
{
    const int folder = open_folder(d->path, O_RDONLY | O_DIRECTORY);
    const bool done = folder >= 0 && fsync(folder) == 0;

    if (folder >= 0)
        (void)close(folder);
    return done ? 0 : weir__diag_errno(why, WEIR_EIO, "cannot sync the directory of %s", d->path);
}

static int link_to(const struct store_draft *d, const char *name)
{
    char self[64];

    if (d->named)
        return link(d->temporary, name);
    (void)snprintf(self, sizeof self, "/proc/self/fd/%d", d->fd);
    return linkat(AT_FDCWD, self, AT_FDCWD, name, AT_SYMLINK_FOLLOW);
}

int store_draft_publish(struct store_draft *d, struct weir_diag *why)
{
    if (fsync(d->fd) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot write %s", d->path);
    if (link_to(d, d->path) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot make %s", d->path);
    return sync_folder(d, why);
}

static bool same_file(const char *a, const char *b)
{
    struct stat x, y;

    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

/* Gives the old file a second name. A process that was killed just here left it with both. */
static int store_draft_keep_old(const struct store_draft *d, const char *backup,
                                struct weir_diag *why)
{
    if (same_file(d->path, backup))
        return 0;
    if ((unlink(backup) == 0 || errno == ENOENT) && link(d->path, backup) == 0)
        return 0;
    return weir__diag_errno(why, WEIR_EIO, "cannot keep the old file as %s", backup);
}

int store_draft_replace(struct store_draft *d, const char *backup, struct weir_diag *why)
{
    int error;

    if (fsync(d->fd) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot write %s", d->path);
    if (!d->named) {
        (void)unlink(d->temporary); /* of a process that was killed */
        if (link_to(d, d->temporary) != 0)
            return weir__diag_errno(why, WEIR_EIO, "cannot make %s", d->temporary);
        d->named = true;
    }
    error = backup ? store_draft_keep_old(d, backup, why) : 0;
    if (error)
        return error;
    if (rename(d->temporary, d->path) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot replace %s", d->path);
    d->named = false;
    return sync_folder(d, why);
}
