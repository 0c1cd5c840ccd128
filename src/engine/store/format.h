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
 *   (3) Tables follow the directory without a gap, in the order in which they were made, and each is just
 *       as large as the header's fixed part says.
 *   (4) Whoever can write the file can write all of it at any time. So a process keeps a copy of what the
 *       checksum covers, and of where it has mapped what; what the live header says since is held
 *       against that, and refused if it differs (file.c).
 *   (5) Record locks, beyond the end of the file where nothing is: one byte for the header, one for
 *       each seat. The kernel frees them when their process dies, however it dies.
 */
#ifndef WEIR_ENGINE_STORE_FORMAT_H
#define WEIR_ENGINE_STORE_FORMAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "engine/store/store.h"
#include "table/journal.h"

#define WEIR__FILE_MAGIC   "weir\r\n\x1a\n" /* no text begins so */
#define WEIR__FILE_VERSION 3
#define WEIR__FILE_OWNERS  512
#define WEIR__FILE_PAGE    WEIR__PAGE
#define WEIR__BOOT_ID      40
#define WEIR__BYTE_ORDER   UINT32_C(0x01020304)

#define WEIR__LOCK_HEADER INT64_C(0x10000000000) /* the byte that is locked for the header */
#define WEIR__LOCK_OWNERS (WEIR__LOCK_HEADER + 1)

struct weir__region {
    _Atomic uint64_t at; /* 0: there is no such table */
    uint64_t bytes, max_keys;
};

struct weir__header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t layout; /* of the structs inside: sizes that a reader must have in common */
    uint64_t max_keys, max_memory, max_policies, lock_owners;
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
    _Atomic uint64_t claimed;    /* so many of the first seats have ever been taken */
};
static_assert(sizeof(struct weir__header) <= WEIR__FILE_PAGE, "the header is a page");

/* What a header must say of the structs inside. */
uint64_t weir__file_layout(void);
uint64_t weir__header_checksum(const struct weir__header *h);
/* 0, or why the first page of a file of so many bytes is not a header that we can use. */
int weir__header_check(const struct weir__header *h, uint64_t file_bytes, const char *path,
                       struct weir_diag *why);
/* The file at its largest: as large as its memory may become. */
uint64_t weir__header_largest(const struct weir__header *h);
/* Whether the tables that the live header names lie where those of the file that was `made` so can lie:
 * behind the directory, one behind the other, each of its size. *end is where the last one ends. */
bool weir__header_tables_fit(const struct weir__header *made, const struct weir__region *table,
                             uint64_t *end);
/* Whether the words that all policies share are what they can be. What is wrong in a record is found when
 * the record is read. */
bool weir__directory_is_sound(const struct weir__directory *d, const struct weir__header *made);
/* Where the parts lie in a new file; returns its size without tables. */
uint64_t weir__header_place(struct weir__header *h);
/* What the table of a region is made with; and what a new one would be, in a file whose last table ends
 * there: for `keys` keys at least. */
struct weir__table_options weir__header_table(const struct weir__header *made,
                                              const struct weir__region *r, uint32_t size_class);
struct weir__table_options weir__header_new_table(const struct weir__header *made,
                                                  uint32_t size_class, uint64_t keys, uint64_t end);
/* Which boot of the machine this is. False: the system does not say, and then it is like no other. */
bool weir__boot_id(char id[WEIR__BOOT_ID]);
/* The store's time, as who opens the file now would find it; negative if the header's words about it are
 * damaged. Nothing is written. */
int64_t weir__header_now(const struct weir__header *h);

#endif
