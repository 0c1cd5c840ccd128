/* Writes a new state file from an old one, and puts it in place. */
#include "cli/store/store_change.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/store/store_draft.h"
#include "engine/store/inspect.h"

/* Checks that the name is free for the old file: no file has it, or an older state file. */
static int check_backup(const char *backup, struct weir_diag *why)
{
    char magic[sizeof WEIR__FILE_MAGIC - 1] = {0};
    const int fd = open(backup, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n;

    if (fd < 0 && errno == ENOENT)
        return 0;
    if (fd < 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", backup);
    n = read(fd, magic, sizeof magic);
    (void)close(fd);
    if (n == (ssize_t)sizeof magic && memcmp(magic, WEIR__FILE_MAGIC, sizeof magic) == 0)
        return 0;
    return weir__diag(why, WEIR_EIO, "%s exists and is not a state file", backup);
}

/* The engine opens the new file on trial: it has the last word on whether the file is sound. */
static int try_open(int fd, struct weir_diag *why)
{
    char store[64];
    const struct weir_options options = {.store = store};
    struct weir *w;
    int error;

    (void)snprintf(store, sizeof store, "file:/proc/self/fd/%d", fd);
    error = weir_open(&w, &options, why);
    if (!error)
        weir_close(w);
    return error;
}

static int write_draft(const struct store_image *m, const struct store_plan *p,
                       struct store_draft *d, struct store_result *result, struct weir_diag *why)
{
    int error = store_rewrite(m, p, weir__header_now(&m->header), d->fd, result, why);

    return error ? error : try_open(d->fd, why);
}

static int store_change_make(const struct store_image *m, const struct store_plan *p,
                             const char *path, struct store_draft *d, struct store_result *result,
                             struct weir_diag *why)
{
    struct stat like;
    int error;

    if (fstat(m->fd, &like) != 0)
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", m->path);
    error = store_draft_open(d, path, &like, why);
    if (error)
        return error;
    error = write_draft(m, p, d, result, why);
    if (error)
        store_draft_close(d);
    return error;
}

static int store_change_write_new(const struct store_image *m, const struct store_plan *p,
                                  const char *out, struct store_result *result,
                                  struct weir_diag *why)
{
    struct store_draft d;
    int error;

    if (faccessat(AT_FDCWD, out, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
        return weir__diag(why, WEIR_EIO, "%s already exists; expected a new name", out);
    error = store_change_make(m, p, out, &d, result, why);
    if (error)
        return error;
    error = store_draft_publish(&d, why);
    store_draft_close(&d);
    return error;
}

/* `path` names the file itself, and not a link to it. */
static int store_change_write_over(const struct store_image *m, const struct store_plan *p,
                                   const char *path, const char *backup,
                                   struct store_result *result, struct weir_diag *why)
{
    struct store_draft d;
    int error = backup ? check_backup(backup, why) : 0;

    if (!error)
        error = store_change_make(m, p, path, &d, result, why);
    if (error)
        return error;
    error = store_draft_replace(&d, backup, why);
    store_draft_close(&d);
    return error;
}

static int store_change_replace(const struct store_image *m, const struct store_plan *p,
                                enum store_fate old, struct store_result *result,
                                struct weir_diag *why)
{
    char *path = realpath(m->path, NULL), *backup = NULL;
    int error;

    if (!path)
        return weir__diag_errno(why, WEIR_EIO, "cannot look at %s", m->path);
    if (old == STORE_KEEP_OLD && asprintf(&backup, "%s.bak", path) < 0) {
        free(path);
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    }
    error = store_change_write_over(m, p, path, backup, result, why);
    free(backup);
    free(path);
    return error;
}

int store_change(const struct store_image *m, const struct store_plan *p, const char *out,
                 enum store_fate old, struct store_result *result, struct weir_diag *why)
{
    const int error = store_rewrite_check(m, p, weir__header_now(&m->header), why);

    if (error)
        return error;
    return out ? store_change_write_new(m, p, out, result, why)
               : store_change_replace(m, p, old, result, why);
}
