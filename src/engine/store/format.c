/* Checking the header of a state file, and what follows from it. The idea is in format.h. */
#include "engine/store/format.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "os/clock.h"
#include "os/diag.h"

uint64_t weir__file_layout(void)
{
    const uint64_t sizes[] = {sizeof(struct weir__header), sizeof(struct weir__journal),
                              sizeof(struct weir__record), sizeof(struct weir__version),
                              sizeof(struct weir_term),    sizeof(struct weir__directory),
                              WEIR__SIZE_CLASSES,          WEIR__TABLE_LAYOUT};
    const uint64_t key[2] = {0};

    return weir__hash(sizes, sizeof sizes, key);
}

uint64_t weir__header_checksum(const struct weir__header *h)
{
    const uint64_t key[2] = {0};

    return weir__hash(h, offsetof(struct weir__header, checksum), key);
}

uint64_t weir__header_place(struct weir__header *h)
{
    h->journals_at = WEIR__FILE_PAGE;
    h->directory_at =
        h->journals_at + weir__whole_pages(h->lock_owners * sizeof(struct weir__journal));
    return h->directory_at + weir__whole_pages(weir__directory_size(h->max_policies));
}

struct weir__table_options weir__header_table(const struct weir__header *made,
                                              const struct weir__region *r, uint32_t size_class)
{
    return weir__class_options(size_class, true, made->max_keys, made->max_policies, r->max_keys,
                               0);
}

struct weir__table_options weir__header_new_table(const struct weir__header *made,
                                                  uint32_t size_class, uint64_t keys, uint64_t end)
{
    return weir__class_options(size_class, true, made->max_keys, made->max_policies, keys,
                               made->max_memory > end ? made->max_memory - end : 0);
}

bool weir__boot_id(char id[WEIR__BOOT_ID])
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = -1;

    memset(id, 0, WEIR__BOOT_ID);
    if (fd >= 0) {
        n = read(fd, id, WEIR__BOOT_ID - 1);
        (void)close(fd);
    }
    return n > 0;
}

/* Whether the machine has not rebooted since offset_ns was written. */
static bool same_boot(const struct weir__header *h)
{
    char id[WEIR__BOOT_ID];

    return weir__boot_id(id) && memcmp(id, h->boot_id, sizeof id) == 0;
}

int64_t weir__header_now(const struct weir__header *h)
{
    const int64_t now = weir__clock_now();

    const int64_t offset = atomic_load(&h->offset_ns), stamp = atomic_load(&h->stamp_ns);
    int64_t then;

    if (stamp < 0 || stamp > WEIR__NOW_MAX)
        return -1;
    if (!same_boot(h))
        return weir__max(stamp, weir__clock_wall(now));
    if (__builtin_add_overflow(now - weir__clock_offset(), offset, &then) || then > WEIR__NOW_MAX)
        return -1;
    return then;
}

uint64_t weir__header_largest(const struct weir__header *h)
{
    struct weir__header placed = *h;
    const uint64_t least = weir__header_place(&placed);

    return weir__whole_pages(h->max_memory > least ? h->max_memory : least);
}

static bool ends_there(const uint64_t *end, uint64_t at)
{
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++)
        if (end[c] == at)
            return true;
    return false;
}

/* The length that the table of a region must have; 0: such a table cannot exist. */
static uint64_t region_bytes(const struct weir__header *made, const struct weir__region *r,
                             uint32_t size_class)
{
    struct weir__table_options o;

    if (r->max_keys < 1 || r->max_keys > WEIR_MAX_KEYS_MOST)
        return 0;
    o = weir__header_table(made, r, size_class);
    return weir__whole_pages(weir__table_size(&o));
}

bool weir__header_tables_fit(const struct weir__header *made, const struct weir__region *table,
                             uint64_t *end)
{
    struct weir__header placed = *made;
    const uint64_t first = weir__header_place(&placed), most = weir__header_largest(made);
    uint64_t begins[WEIR__SIZE_CLASSES] = {0}, ends[WEIR__SIZE_CLASSES] = {0}, sum = first;

    *end = first;
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        const uint64_t at = atomic_load(&table[c].at);
        uint64_t bytes;

        if (at == 0)
            continue;
        bytes = region_bytes(made, &table[c], c);
        if (at % WEIR__FILE_PAGE != 0 || at < first || bytes == 0 || bytes > most ||
            at > most - bytes || table[c].bytes != bytes)
            return false;
        begins[c] = at;
        ends[c] = at + bytes;
        sum += bytes;
        *end = ends[c] > *end ? ends[c] : *end;
    }
    /* Each table starts where another ends, so there is a chain of tables from the first byte to
     * the last; and the sum of their lengths is the length of that chain, so there is no table
     * outside of it, and it is not too long. */
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++)
        if (begins[c] != 0 && begins[c] != first && !ends_there(ends, begins[c]))
            return false;
    return sum == *end;
}

bool weir__directory_is_sound(const struct weir__directory *d, const struct weir__header *made)
{
    const int64_t created_ns = atomic_load(&d->created_ns);

    return d->max_policies == made->max_policies && created_ns >= 0 && created_ns <= WEIR__NOW_MAX;
}

static bool parts_fit(const struct weir__header *h)
{
    struct weir__header placed = *h;

    return h->lock_owners == WEIR__FILE_OWNERS && h->max_policies >= 1 &&
           h->max_policies <= WEIR_POLICIES_MOST && h->max_keys >= 1 &&
           h->max_keys <= WEIR_MAX_KEYS_MOST && h->max_memory >= 1 &&
           h->max_memory <= WEIR__MAX_MEMORY_MOST && weir__header_place(&placed) <= h->bytes &&
           placed.journals_at == h->journals_at && placed.directory_at == h->directory_at;
}

/* Checks the size of the file: it ends after the last table, or later, if a process did not live to
 * name the table that it created. */
static bool tables_fit(const struct weir__header *h)
{
    const uint64_t bytes = atomic_load(&h->bytes);
    uint64_t end;

    if (!weir__header_tables_fit(h, h->table, &end) || atomic_load(&h->table[0].at) == 0)
        return false;
    return bytes >= end && bytes <= weir__header_largest(h) && bytes % WEIR__FILE_PAGE == 0;
}

static int another_version(uint32_t version, const char *path, struct weir_diag *why)
{
    if (version > weir__file_version)
        return weir__diag(why, WEIR_EVERSION,
                          "%s: file version %u is newer than this weir's %u: use the weir that "
                          "wrote it, or move the file away and start with a new one",
                          path, version, weir__file_version);
    return weir__diag(why, WEIR_EVERSION,
                      "%s: file version %u is older than this weir's %u, which cannot read it: "
                      "move the file away and start with a new one",
                      path, version, weir__file_version);
}

int weir__header_check(const struct weir__header *h, uint64_t file_bytes, const char *path,
                       struct weir_diag *why)
{
    if (file_bytes == 0)
        return weir__diag(why, WEIR_EFORMAT, "%s: empty", path);
    if (file_bytes < sizeof h->magic || memcmp(h->magic, WEIR__FILE_MAGIC, sizeof h->magic) != 0)
        return weir__diag(why, WEIR_EFORMAT, "%s: not a state file of weir", path);
    if (file_bytes < WEIR__FILE_PAGE)
        return weir__diag(why, WEIR_EFORMAT,
                          "%s: truncated: %" PRIu64 " bytes, and a header alone has %d", path,
                          file_bytes, WEIR__FILE_PAGE);
    if (h->byte_order != WEIR__BYTE_ORDER)
        return weir__diag(why, WEIR_EFORMAT, "%s: written on a machine of another byte order",
                          path);
    if (h->version != weir__file_version)
        return another_version(h->version, path, why);
    if (h->checksum != weir__header_checksum(h))
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: the header's checksum is wrong", path);
    if (h->layout != weir__file_layout())
        return weir__diag(
            why, WEIR_EVERSION,
            "%s: written by another build of weir: its layout differs; use that build, or "
            "move the file away and start with a new one",
            path);
    if (atomic_load(&h->ready) != 1)
        return weir__diag(why, WEIR_EFORMAT, "%s: half-written: its creator did not finish", path);
    if (!parts_fit(h) || !tables_fit(h))
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: the header contradicts itself", path);
    if (file_bytes < atomic_load(&h->bytes))
        return weir__diag(why, WEIR_EFORMAT, "%s: truncated: %" PRIu64 " bytes of %" PRIu64, path,
                          file_bytes, atomic_load(&h->bytes));
    if (weir__header_now(h) < 0)
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: its clock is out of range", path);
    return 0;
}
