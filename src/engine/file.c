#include "engine/file.h"

#include "engine/diag.h"

int weir__file_open(struct weir__store *s, const char *path, const struct weir_options *o,
                    struct weir_diag *why)
{
    (void)s, (void)path, (void)o;
    return weir__diag(why, WEIR_ESTORE, "files are not here yet");
}

void weir__file_close(struct weir__file *f)
{
    (void)f;
}

int weir__file_lock(struct weir__file *f)
{
    (void)f;
    return 0;
}

void weir__file_unlock(struct weir__file *f)
{
    (void)f;
}

int weir__file_table(struct weir__file *f, uint32_t size_class, struct weir__table **table,
                     struct weir_diag *why)
{
    (void)f, (void)size_class, (void)table, (void)why;
    return WEIR_ESTORE;
}

struct weir__seat *weir__file_seat(struct weir__file *f)
{
    (void)f;
    return NULL;
}
