/* A draft: a new file that gets its name when it is complete.
 *
 * Until then it has no name, if the file system supports that, so a process that is killed leaves
 * nothing behind. On other file systems, and for the instant in which it replaces another file, it
 * is called PATH.weir-new; the next draft removes one that was left behind.
 */
#ifndef WEIR_CLI_STORE_STORE_DRAFT_H
#define WEIR_CLI_STORE_STORE_DRAFT_H

#include <sys/stat.h>

#include <weir.h>

struct store_draft {
    int fd;
    char *path;      /* its final name */
    char *temporary; /* PATH.weir-new */
    bool named;      /* it has the temporary name now */
};

/* The draft gets the owner and the mode of `like`. On an error there is nothing to close. */
int store_draft_open(struct store_draft *d, const char *path, const struct stat *like,
                     struct weir_diag *why);
/* Closes the draft; the file is gone unless it has its final name. */
void store_draft_close(struct store_draft *d);

/* Gives the file its final name. WEIR_EIO: another file has that name. */
int store_draft_publish(struct store_draft *d, struct weir_diag *why);
/* Replaces the file that has the final name. The old file is kept as `backup` unless that is NULL.
 * Whenever the process is killed, the name belongs to one of the two files, complete. */
int store_draft_replace(struct store_draft *d, const char *backup, struct weir_diag *why);

#endif
