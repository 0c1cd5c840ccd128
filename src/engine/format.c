#include "engine/format.h"

#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "engine/clock.h"
#include "engine/diag.h"

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
    h->directory_at = h->journals_at + weir__whole_pages(h->seats * sizeof(struct weir__journal));
    return h->directory_at + weir__whole_pages(weir__directory_size(h->max_policies));
}

struct weir__table_options weir__header_table(const struct weir__header *h, uint32_t size_class)
{
    const struct weir__store as = {.max_keys = h->max_keys, .max_bytes = h->max_bytes};

    return (struct weir__table_options){weir__size_of_class(size_class),
                                        weir__store_class_keys(&as, size_class), true};
}

uint64_t weir__header_table_bytes(const struct weir__header *h, uint32_t size_class)
{
    const struct weir__table_options o = weir__header_table(h, size_class);

    return weir__whole_pages(weir__table_size(&o));
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

/* Whether the machine has not been started anew since offset_ns was written. */
static bool same_boot(const struct weir__header *h)
{
    char id[WEIR__BOOT_ID];

    return weir__boot_id(id) && memcmp(id, h->boot_id, sizeof id) == 0;
}

int64_t weir__header_now(const struct weir__header *h)
{
    const int64_t now = weir__clock_now();

    if (same_boot(h))
        return now - weir__clock_offset() + atomic_load(&h->offset_ns);
    return weir__max(atomic_load(&h->stamp_ns), weir__clock_wall(now));
}

/* Behind the directory, and within the file. */
static bool tables_fit(const struct weir__header *h)
{
    struct weir__header placed = *h;
    const uint64_t bytes = atomic_load(&h->bytes), first = weir__header_place(&placed);

    for (int i = 0; i < WEIR__SIZE_CLASSES; i++) {
        const uint64_t at = atomic_load(&h->table[i].at);

        if (at != 0 && (at % WEIR__FILE_PAGE != 0 || at < first || h->table[i].bytes > bytes ||
                        at > bytes - h->table[i].bytes))
            return false;
    }
    return true;
}

static bool parts_fit(const struct weir__header *h)
{
    struct weir__header placed = *h;

    return h->seats == WEIR__FILE_SEATS && h->max_policies >= 1 &&
           h->max_policies <= WEIR_POLICIES_MOST && h->max_keys >= 1 &&
           h->max_keys <= WEIR_MAX_KEYS_MOST && weir__header_place(&placed) <= h->bytes &&
           placed.journals_at == h->journals_at && placed.directory_at == h->directory_at;
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
    if (h->version != WEIR__FILE_VERSION)
        return weir__diag(
            why, WEIR_EVERSION, "%s: of version %u, %s; this is version %d%s", path, h->version,
            h->version < WEIR__FILE_VERSION ? "older" : "newer", WEIR__FILE_VERSION,
            h->version < WEIR__FILE_VERSION ? ": `weir store convert` brings it forward" : "");
    if (h->checksum != weir__header_checksum(h))
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: the header's checksum is wrong", path);
    if (h->layout != weir__file_layout())
        return weir__diag(why, WEIR_EVERSION, "%s: laid out by another build of weir", path);
    if (atomic_load(&h->ready) != 1)
        return weir__diag(why, WEIR_EFORMAT, "%s: half-written: its maker did not finish", path);
    if (!parts_fit(h) || !tables_fit(h))
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: the header contradicts itself", path);
    if (file_bytes < atomic_load(&h->bytes))
        return weir__diag(why, WEIR_EFORMAT, "%s: truncated: %" PRIu64 " bytes of %" PRIu64, path,
                          file_bytes, atomic_load(&h->bytes));
    return 0;
}
