/* A state file as the store command sees it: mapped, never written.
 *
 * There are two ways to open it. store_image_open disturbs no other process: it opens the file for
 * reading, takes no lock, and sees the changes that others make meanwhile.
 * store_image_open_exclusive takes all of the file's locks, so that no other process can use it,
 * and maps it privately: it undoes interrupted decisions as an engine would, but only in its own
 * copy.
 */
#ifndef WEIR_CLI_STORE_STORE_IMAGE_H
#define WEIR_CLI_STORE_STORE_IMAGE_H

#include "engine/store/inspect.h"

struct store_image {
    const char *path; /* the caller's */
    int fd;
    struct weir__header header; /* a copy, checked */
    char *base;                 /* NULL: not mapped */
    bool table_is_sound[WEIR__SIZE_CLASSES];
    uint64_t undone; /* opened exclusively: how many decisions were undone */
};

/* 0, or an error; then *why has the message, as from weir_open, and there is nothing to close. */
int store_image_open(struct store_image *m, const char *path, struct weir_diag *why);
/* WEIR_EBUSY: another process has it open. */
int store_image_open_exclusive(struct store_image *m, const char *path, struct weir_diag *why);
void store_image_close(struct store_image *m);

/* The table of a size class; the class has one if its `at` is not 0. The caller checks it before
 * use (store_keys_check). */
struct weir__table *store_image_table(const struct store_image *m, uint32_t size_class);

/* How many decisions of dead processes are still to be undone. */
uint64_t store_image_unfinished(const struct store_image *m);

#endif
