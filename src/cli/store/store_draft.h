/* A file in the making, which gets its name when it is whole.
 *
 * It has no name until then, where the file system can do that, so a process that is killed leaves
 * nothing behind. Elsewhere, and for the moment in which it takes another's place, it is called
 * PATH.weir-new; one that is left over goes when the next is made.
 */
#ifndef WEIR_CLI_STORE_STORE_DRAFT_H
#define WEIR_CLI_STORE_STORE_DRAFT_H

#include <sys/stat.h>

#include <weir.h>

struct store_draft {
    int fd;
    char *path;      /* where it is to be */
    char *temporary; /* PATH.weir-new */
    bool named;      /* it has that name already */
};

/* `like` is a file whose owner and mode it gets. An error: nothing is left to close. */
int store_draft_open(struct store_draft *d, const char *path, const struct stat *like,
                     struct weir_diag *why);
/* Forgets the file, unless it has got its name. */
void store_draft_close(struct store_draft *d);

/* Gives it its name, which nobody may have: WEIR_EIO if one does. */
int store_draft_publish(struct store_draft *d, struct weir_diag *why);
/* Puts it in the place of the file that has the name. That one is kept under the other name unless
 * `backup` is NULL. Whatever happens meanwhile, the name is that of one of the two, whole. */
int store_draft_replace(struct store_draft *d, const char *backup, struct weir_diag *why);

#endif
