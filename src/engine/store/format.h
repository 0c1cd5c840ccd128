/* The format of a state file, on disk and in the memory of every process.
 *
 *     header     4096 bytes: what it is, how large, where the rest lies, what time it is
 *     journals   one for each owner, that is for each thread that may decide at the same time
 *     directory  the policies and their recent versions
 *     tables     one for each size of state in use, appended as policies need them
 *
 * The file has offsets and no pointers, in the byte order of the machine. Each part is allocated on
 * disk when it is created, so that a full disk is an error then and not a crash later.
 *
 * Invariants:
 *   (1) A file appears under its name complete: it is written without a name and then linked.
 *   (2) The part that the checksum covers never changes. The rest of the header changes under the
 *       file's lock: a table exists once its `at` is set.
 *   (3) Tables follow the directory without a gap, in the order in which they were created, and
 *       each has exactly the size that the header's fixed part says.
 *   (4) A process that can write the file can write all of it at any time. So each process keeps a
 *       copy of the part that the checksum covers, and of its own mappings; it compares what the
 *       live header says later with that copy, and refuses it if it differs (file.c).
 *   (5) Record locks are beyond the end of the file, where there is no data: one byte for the
 *       header, one for each owner. The kernel frees them when their process dies, however it dies.
 */
#ifndef WEIR_ENGINE_STORE_FORMAT_H
#define WEIR_ENGINE_STORE_FORMAT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "engine/store/store.h"
#include "table/journal.h"

#define WEIR__FILE_MAGIC   "weir\r\n\x1a\n" /* no text file starts like this */
#define WEIR__FILE_VERSION 7 /* of this source; what is linked is weir__file_version */
#define WEIR__FILE_OWNERS  512
#define WEIR__FILE_PAGE    WEIR__PAGE
#define WEIR__BOOT_ID      40
#define WEIR__BYTE_ORDER   UINT32_C(0x01020304)

#define WEIR__LOCK_HEADER INT64_C(0x10000000000) /* the byte whose lock is the header's */
#define WEIR__LOCK_OWNERS (WEIR__LOCK_HEADER + 1)

struct weir__region {
    _Atomic uint64_t at; /* 0: there is no such table */
    uint64_t bytes, max_keys;
};

struct weir__header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t layout; /* of the structs inside: sizes that all processes must share */
    uint64_t max_keys, max_memory, max_policies, lock_owners;
    uint64_t secret[2];
    uint64_t journals_at, directory_at;
    int64_t made_ns;
    uint64_t checksum; /* of all above */

    _Atomic uint64_t ready; /* 1 once the file is complete */
    _Atomic uint64_t bytes; /* size of the file */
    struct weir__region table[WEIR__SIZE_CLASSES];

    char boot_id[WEIR__BOOT_ID]; /* of the boot that offset_ns is for */
    _Atomic int64_t offset_ns;   /* from CLOCK_BOOTTIME to the store's time */
    _Atomic int64_t stamp_ns;    /* a recent time of the store, in case the machine reboots */
    _Atomic uint64_t recovered;  /* decisions of dead processes undone */
    _Atomic uint64_t claimed;    /* the owners up to this number have ever been taken */
};
static_assert(sizeof(struct weir__header) <= WEIR__FILE_PAGE, "the header is a page");

extern const uint32_t weir__file_version;

/* The layout that a header must have. */
uint64_t weir__file_layout(void);
uint64_t weir__header_checksum(const struct weir__header *h);
/* Checks the first page of a file of file_bytes bytes. Returns 0; or an error, and fills *why, if
 * it is not a header that we can use. */
int weir__header_check(const struct weir__header *h, uint64_t file_bytes, const char *path,
                       struct weir_diag *why);
/* The largest size of the file: all of its memory. */
uint64_t weir__header_largest(const struct weir__header *h);
/* Whether the tables that the live header names are where tables of the file `made` can be: after
 * the directory, one after the other, each of its size. *end is the end of the last one. */
bool weir__header_tables_fit(const struct weir__header *made, const struct weir__region *table,
                             uint64_t *end);
/* Whether the words that all policies share have possible values. An error in a record is found
 * when the record is read. */
bool weir__directory_is_sound(const struct weir__directory *d, const struct weir__header *made);
/* Places the parts of a new file; returns its size without tables. */
uint64_t weir__header_place(struct weir__header *h);
/* The options of the table of a region; and those of a new table, for at least `keys` keys, in a
 * file whose last table ends at `end`. */
struct weir__table_options weir__header_table(const struct weir__header *made,
                                              const struct weir__region *r, uint32_t size_class);
struct weir__table_options weir__header_new_table(const struct weir__header *made,
                                                  uint32_t size_class, uint64_t keys, uint64_t end);
/* The id of this boot of the machine. False: the system does not say, and the boot counts as a new
 * one. */
bool weir__boot_id(char id[WEIR__BOOT_ID]);
/* The store's time, as a process that opens the file now finds it; negative if the header's words
 * for it are damaged. Writes nothing. */
int64_t weir__header_now(const struct weir__header *h);

#endif
