/* State files of version 1, as they were: what is described here never changes again.
 *
 * A version of a limit had no check word at its end. So versions, records and the directory are
 * smaller, and the tables lie nearer to the start; all else is as in version 2. What both have in
 * common is taken from today's headers, and the assertions hold it to the sizes it had then: who
 * changes one of those structs puts a copy of the old one here.
 */
#ifndef WEIR_CLI_STORE_V1_H
#define WEIR_CLI_STORE_V1_H

#include "engine/format.h"

#define V1_VERSION  1
#define V1_SEATS    512
#define V1_CLASSES  64
#define V1_VERSIONS 9 /* of a record: a ring of eight, and the one that is being written */
#define V1_NAME     128

struct v1_header {
    char magic[8];
    uint32_t version, byte_order;
    uint64_t layout;
    uint64_t max_keys, max_bytes, max_policies, seats;
    uint64_t secret[2];
    uint64_t journals_at, directory_at;
    int64_t made_ns;
    uint64_t checksum; /* of all above */

    uint64_t ready, bytes;
    struct {
        uint64_t at, bytes;
    } table[V1_CLASSES];

    char boot_id[40];
    int64_t offset_ns, stamp_ns;
    uint64_t recovered;
};
static_assert(sizeof(struct v1_header) == 1208, "as it was");

/* Terms of rates: there were no guards. The first bytes of today's. */
struct v1_term {
    int32_t algorithm, calendar, align, fallback, shadow, count_denied;
    int64_t numbers[13];
    char tz[48];
};
static_assert(sizeof(struct v1_term) == offsetof(struct weir_term, lease_ns) &&
                  offsetof(struct v1_term, numbers) == offsetof(struct weir_term, count) &&
                  offsetof(struct v1_term, tz) == offsetof(struct weir_term, tz),
              "today's term begins as those did");

struct v1_version {
    int64_t n;
    uint64_t scope[16];
    struct weir__past past[16];
    struct v1_term term[16];
};
static_assert(sizeof(struct weir__past) == 48 && sizeof(struct v1_term) == 176, "as they were");
static_assert(sizeof(struct v1_version) == 3720, "as it was");

struct v1_record {
    _Atomic uint64_t tag;
    _Atomic uint32_t generation;
    uint32_t first, resets, spare;
    char name[V1_NAME];
    struct v1_version version[V1_VERSIONS];
};
static_assert(sizeof(struct v1_record) == 33632, "as it was");

struct v1_directory {
    uint64_t tags, scopes, versions, max_policies;
    struct v1_record record[];
};

static_assert(sizeof(struct weir__journal) == 2056, "journals are those of version 2");
static_assert(V1_VERSIONS == WEIR__VERSIONS_KEPT + 1 && V1_NAME == WEIR_NAME_MAX &&
                  V1_CLASSES == WEIR__SIZE_CLASSES && V1_SEATS == WEIR__FILE_SEATS,
              "today's record has room for one of then");

uint64_t v1_layout(void);
uint64_t v1_checksum(const struct v1_header *h);
/* Where the parts lie; returns the size without tables. */
uint64_t v1_place(struct v1_header *h);

/* 0, or what is wrong with a header of version 1 of a file of so many bytes: in the words of
 * weir__header_check. */
int v1_check(const struct v1_header *h, uint64_t file_bytes, const char *path,
             struct weir_diag *why);
/* The same header in today's form; its offsets are still those of the file. */
void v1_lift_header(const struct v1_header *from, struct weir__header *to);
/* The same record in today's form. */
void v1_lift_record(const struct v1_record *from, struct weir__record *to);

#endif
