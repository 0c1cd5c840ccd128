/* A store in a file that many processes map. */
#ifndef WEIR_ENGINE_STORE_FILE_H
#define WEIR_ENGINE_STORE_FILE_H

#include <sys/types.h>

#include "engine/store/owners.h"
#include "engine/store/store.h"

/* There is one for each file, however often this process has opened it, because record locks belong
 * to the process, which loses them when it closes any descriptor of the file. */
struct weir__file {
    struct weir__file *next;
    uint64_t id; /* never used twice; a child of fork has another */
    dev_t device;
    ino_t inode;
    unsigned users;
    int fd;
    char *path;           /* for messages */
    pthread_mutex_t lock; /* guards the header, within this process */
    char *base;
    uint64_t reserved;
    struct weir__header made;    /* a checked copy of the part that never changes */
    struct weir__header *header; /* the live one, which any process may write */
    pthread_mutex_t maps;        /* guards table_at; its holder never waits */
    _Atomic uint64_t table_at[WEIR__SIZE_CLASSES]; /* where tables are mapped; 0: not mapped */
    struct weir__owners lock_owners;
};

/* Opens the file for the store, or creates it; fills s->file, directory, secret, sizes and time. */
int weir__file_open(struct weir__store *s, const char *path, const struct weir_options *o,
                    struct weir_diag *why);
void weir__file_close(struct weir__file *f);

/* Takes the lock that has one holder among all processes; the death of the holder frees it.
 * WEIR_EBUSY if another holds it for a second. */
int weir__file_lock(struct weir__file *f, struct weir_diag *why);
void weir__file_unlock(struct weir__file *f);

/* The bytes of its memory that no part of the file has taken. */
uint64_t weir__file_left(const struct weir__file *f);

/* The table of a class; if it does not exist yet, it is created for at least `keys` keys. The
 * caller holds the lock. */
int weir__file_table(struct weir__file *f, uint32_t size_class, uint64_t keys,
                     struct weir__table **table, struct weir_diag *why);

/* Maps every table that the header names. A table that is mapped stays where it is: WEIR_EFORMAT if
 * the header now says otherwise, or names a table that cannot exist; WEIR_EIO if a map failed. */
int weir__file_map_all(struct weir__file *f);
/* The tables that this process has mapped. */
struct weir__mapped weir__file_mapped(const struct weir__file *f);

/* Records in the file that the store's clock has come this far. */
void weir__file_stamp(struct weir__file *f, int64_t now_ns);

/* The file of that id, if this process still has it open. The registry stays locked until the
 * caller is done. */
struct weir__file *weir__file_find_locked(uint64_t id);
void weir__file_find_done(void);

#endif
