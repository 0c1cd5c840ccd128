/* A state file as the store command sees it: mapped, never written.
 *
 * Two ways to see it. To *look* disturbs nobody: the file is opened for reading, no lock is taken,
 * and what others change meanwhile is seen changing. To *load* takes all of the file's locks, so
 * that nobody else can use it, and maps it privately: decisions that were cut short are undone as
 * an engine would undo them, but only there.
 */
#ifndef WEIR_CLI_STORE_STORE_IMAGE_H
#define WEIR_CLI_STORE_STORE_IMAGE_H

#include "engine/store/inspect.h"

struct store_image {
    const char *path; /* the caller's */
    int fd;
    struct weir__header header; /* as it was when it was found sound */
    char *base;                 /* NULL: not mapped */
    bool table_is_sound[WEIR__SIZE_CLASSES];
    uint64_t undone; /* load: how many decisions were undone */
};

/* 0, or an error and *why says which, in the words of weir_open; nothing is left to close then. */
int store_image_open(struct store_image *m, const char *path, struct weir_diag *why);
/* WEIR_EBUSY: another process has it open. */
int store_image_open_exclusive(struct store_image *m, const char *path, struct weir_diag *why);
void store_image_close(struct store_image *m);

/* The table of a class; it has one if its `at` is not 0. To be checked before it is used. */
struct weir__table *store_image_table(const struct store_image *m, uint32_t size_class);

/* How many decisions of dead processes wait to be undone. */
uint64_t store_image_unfinished(const struct store_image *m);

#endif
