#include "cli/store_v1.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "engine/diag.h"

static const uint64_t NO_SECRET[2] = {0, 0};

uint64_t v1_layout(void)
{
    const uint64_t sizes[] = {sizeof(struct v1_header), sizeof(struct weir__journal),
                              sizeof(struct v1_record), sizeof(struct v1_version),
                              sizeof(struct v1_term),   V1_CLASSES};

    return weir__hash(sizes, sizeof sizes, NO_SECRET);
}

uint64_t v1_checksum(const struct v1_header *h)
{
    return weir__hash(h, offsetof(struct v1_header, checksum), NO_SECRET);
}

uint64_t v1_place(struct v1_header *h)
{
    h->journals_at = 4096;
    h->directory_at = h->journals_at + weir__whole_pages(h->seats * sizeof(struct weir__journal));
    return h->directory_at + weir__whole_pages(sizeof(struct v1_directory) +
                                               h->max_policies * sizeof(struct v1_record));
}

/* ---- Checking -------------------------------------------------------------------------------- */

static bool tables_fit(const struct v1_header *h)
{
    for (int i = 0; i < V1_CLASSES; i++)
        if (h->table[i].at != 0 && (h->table[i].at % 4096 != 0 || h->table[i].bytes > h->bytes ||
                                    h->table[i].at > h->bytes - h->table[i].bytes))
            return false;
    return true;
}

static bool parts_fit(const struct v1_header *h)
{
    struct v1_header placed = *h;

    return h->seats == V1_SEATS && h->max_policies >= 1 && h->max_policies <= WEIR_POLICIES_MOST &&
           h->max_keys >= 1 && h->max_keys <= WEIR_MAX_KEYS_MOST && v1_place(&placed) <= h->bytes &&
           placed.journals_at == h->journals_at && placed.directory_at == h->directory_at;
}

int v1_check(const struct v1_header *h, uint64_t file_bytes, const char *path,
             struct weir_diag *why)
{
    if (h->checksum != v1_checksum(h))
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: the header's checksum is wrong", path);
    if (h->layout != v1_layout())
        return weir__diag(why, WEIR_EVERSION, "%s: laid out by another build of weir", path);
    if (h->ready != 1)
        return weir__diag(why, WEIR_EFORMAT, "%s: half-written: its maker did not finish", path);
    if (!parts_fit(h) || !tables_fit(h))
        return weir__diag(why, WEIR_EFORMAT, "%s: damaged: the header contradicts itself", path);
    if (file_bytes < h->bytes)
        return weir__diag(why, WEIR_EFORMAT, "%s: truncated: %" PRIu64 " bytes of %" PRIu64, path,
                          file_bytes, h->bytes);
    return 0;
}

/* ---- Today's form ---------------------------------------------------------------------------- */

void v1_lift_header(const struct v1_header *from, struct weir__header *to)
{
    *to = (struct weir__header){
        .version = WEIR__FILE_VERSION,
        .byte_order = from->byte_order,
        .layout = weir__file_layout(),
        .max_keys = from->max_keys,
        .max_bytes = from->max_bytes,
        .max_policies = from->max_policies,
        .seats = from->seats,
        .secret = {from->secret[0], from->secret[1]},
        .journals_at = from->journals_at,
        .directory_at = from->directory_at,
        .made_ns = from->made_ns,
        .ready = from->ready,
        .bytes = from->bytes,
        .offset_ns = from->offset_ns,
        .stamp_ns = from->stamp_ns,
        .recovered = from->recovered,
    };
    memcpy(to->magic, from->magic, sizeof to->magic);
    memcpy(to->boot_id, from->boot_id, sizeof to->boot_id);
    for (int i = 0; i < V1_CLASSES; i++) {
        atomic_store(&to->table[i].at, from->table[i].at);
        to->table[i].bytes = from->table[i].bytes;
    }
    to->checksum = weir__header_checksum(to);
}

static void lift_version(const struct v1_version *from, struct weir__version *to)
{
    *to = (struct weir__version){.n = from->n};
    memcpy(to->scope, from->scope, sizeof to->scope);
    memcpy(to->past, from->past, sizeof to->past);
    for (int i = 0; i < WEIR_TERMS_MAX; i++)
        memcpy(&to->term[i], &from->term[i], sizeof from->term[i]);
    to->check = weir__hash(to, offsetof(struct weir__version, check), NO_SECRET);
}

void v1_lift_record(const struct v1_record *from, struct weir__record *to)
{
    atomic_store(&to->generation, atomic_load(&from->generation));
    atomic_store(&to->first, from->first);
    atomic_store(&to->resets, from->resets);
    to->spare = from->spare;
    memcpy(to->name, from->name, sizeof to->name);
    for (int i = 0; i < V1_VERSIONS; i++)
        lift_version(&from->version[i], &to->version[i]);
    atomic_store(&to->tag, atomic_load(&from->tag));
}
