/* A state file, as it lies on disk and in every process's memory.
 *
 *     header     4096 bytes: what it is, how large, where the rest lies, what time it is
 *     journals   one for each seat, that is for each thread that may decide at the same time
 *     directory  the policies and their recent versions
 *     tables     one for each size of state in use, appended as policies need them
 *
 * Offsets only, no pointers, the byte order of the machine. All of it is allocated when it is made, so
 * that a full disk is an error then and not a crash later.
 *
 * Invariants:
 *   (1) A file appears under its name whole: it is written under no name and then linked.
 *   (2) What the checksum covers never changes. The rest of the header changes under the file's lock:
 *       a table is there when its `at` is.
 *   (3) Record locks, beyond the end of the file where nothing is: one byte for the header, one for
 *       each seat. The kernel frees them when their process dies, however it dies.
 */
#ifndef WEIR_ENGINE_FORMAT_H
#define WEIR_ENGINE_FORMAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "engine/store.h"
#include "table/journal.h"

#define WEIR__FILE_MAGIC   "weir\r\n\x1a\n" /* no text begins so */
#define WEIR__FILE_VERSION 2
#define WEIR__FILE_SEATS   512
#define WEIR__FILE_PAGE    WEIR__PAGE
#define WEIR__BOOT_ID      40
#define WEIR__BYTE_ORDER   UINT32_C(0x01020304)

#define WEIR__LOCK_HEADER INT64_C(0x10000000000) /* the byte that is locked for the header */
#define WEIR__LOCK_SEATS  (WEIR__LOCK_HEADER + 1)

struct weir__region {
    _Atomic uint64_t at; /* 0: there is no such table */
    uint64_t bytes;
};

struct weir__header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t layout; /* of the structs inside: sizes that a reader must have in common */
    uint64_t max_keys, max_bytes, max_policies, seats;
    uint64_t secret[2];
    uint64_t journals_at, directory_at;
    int64_t made_ns;
    uint64_t checksum; /* of all above */

    _Atomic uint64_t ready; /* 1 once it is whole */
    _Atomic uint64_t bytes; /* of the file */
    struct weir__region table[WEIR__SIZE_CLASSES];

    char boot_id[WEIR__BOOT_ID]; /* of the boot that offset_ns is for */
    _Atomic int64_t offset_ns;   /* from CLOCK_BOOTTIME to the store's time */
    _Atomic int64_t stamp_ns;    /* a recent time of the store's, in case the machine reboots */
    _Atomic uint64_t recovered;  /* decisions of dead processes undone */
};
static_assert(sizeof(struct weir__header) <= WEIR__FILE_PAGE, "the header is a page");

/* What a header must say of the structs inside. */
uint64_t weir__file_layout(void);
uint64_t weir__header_checksum(const struct weir__header *h);
/* 0, or why the first page of a file of so many bytes is not a header that we can use. */
int weir__header_check(const struct weir__header *h, uint64_t file_bytes, const char *path,
                       struct weir_diag *why);
/* Where the parts lie in a new file; returns its size without tables. */
uint64_t weir__header_place(struct weir__header *h);
/* What the file's table of a class is made with, and how many bytes of the file it takes. */
struct weir__table_options weir__header_table(const struct weir__header *h, uint32_t size_class);
uint64_t weir__header_table_bytes(const struct weir__header *h, uint32_t size_class);
/* Which boot of the machine this is. False: the system does not say, and then it is like no other. */
bool weir__boot_id(char id[WEIR__BOOT_ID]);
/* The store's time, as who opens the file now would find it. Nothing is written. */
int64_t weir__header_now(const struct weir__header *h);

#endif
