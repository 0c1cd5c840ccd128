/* A store in a file that many processes map. */
#ifndef WEIR_ENGINE_STORE_FILE_H
#define WEIR_ENGINE_STORE_FILE_H

#include <sys/types.h>

#include "engine/store/owners.h"
#include "engine/store/store.h"

/* One for a file, however often this process has opened it: record locks are a process's, and are lost
 * when it closes any descriptor of the file. */
struct weir__file {
    struct weir__file *next;
    uint64_t id; /* never used twice; another one in a child of fork */
    dev_t device;
    ino_t inode;
    unsigned users;
    int fd;
    char *path;           /* for messages */
    pthread_mutex_t lock; /* of the header, within this process */
    char *base;
    uint64_t reserved;
    struct weir__header made;    /* as it was when it was checked: the part that never changes */
    struct weir__header *header; /* the live one, that anybody may write */
    pthread_mutex_t maps;        /* of table_at; nothing is waited for under it */
    _Atomic uint64_t table_at[WEIR__SIZE_CLASSES]; /* where tables are mapped; 0: not mapped */
    struct weir__owners lock_owners;
};

/* Opens the file for the store, or makes it; fills s->file, directory, secret, sizes and time. */
int weir__file_open(struct weir__store *s, const char *path, const struct weir_options *o,
                    struct weir_diag *why);
void weir__file_close(struct weir__file *f);

/* One holder among all processes; freed by his death. WEIR_EBUSY if he keeps it for a second. */
int weir__file_lock(struct weir__file *f, struct weir_diag *why);
void weir__file_unlock(struct weir__file *f);

/* How many bytes of its memory no part of the file has taken. */
uint64_t weir__file_left(const struct weir__file *f);

/* The table of a class, made for `keys` keys at least if nobody has made it yet. The caller holds the lock. */
int weir__file_table(struct weir__file *f, uint32_t size_class, uint64_t keys,
                     struct weir__table **table, struct weir_diag *why);

/* Maps every table that the header names. What is mapped stays: WEIR_EFORMAT if the header now says
 * otherwise, or names what cannot be; WEIR_EIO if a map failed. */
int weir__file_map_all(struct weir__file *f);
/* What this process has mapped. */
struct weir__mapped weir__file_mapped(const struct weir__file *f);

/* Remembers that the store's clock has come this far. */
void weir__file_stamp(struct weir__file *f, int64_t now_ns);

/* The file of that id, if this process still has it open; the registry stays locked until done. */
struct weir__file *weir__file_find_locked(uint64_t id);
void weir__file_find_done(void);

#endif
