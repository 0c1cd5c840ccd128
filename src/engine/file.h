/* A store in a file that many processes map. */
#ifndef WEIR_ENGINE_FILE_H
#define WEIR_ENGINE_FILE_H

#include "engine/store.h"

/* Opens the file for the store, or makes it; fills s->file, directory, secret, sizes and time. */
int weir__file_open(struct weir__store *s, const char *path, const struct weir_options *o,
                    struct weir_diag *why);
void weir__file_close(struct weir__file *f);

/* One holder among all processes; freed by his death. */
int weir__file_lock(struct weir__file *f);
void weir__file_unlock(struct weir__file *f);

/* The table of a class, made if nobody has made it yet. The caller holds the lock. */
int weir__file_table(struct weir__file *f, uint32_t size_class, struct weir__table **table,
                     struct weir_diag *why);

#endif
