/* Writes a state file as version 1 of the format had it: `make_v1 FROM TO`, FROM being one of
 * version 2 that nobody uses.
 *
 * The directory of version 1 is smaller, so the tables move towards the start, and with them what
 * the journals say of places in them.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/store_v1.h"

/* A whole file, zeroed behind its end. */
struct sheet {
    char *at;
    uint64_t bytes;
};

static void fail(const char *what, const char *name)
{
    (void)fprintf(stderr, "make_v1: %s %s\n", what, name);
    exit(1);
}

static struct sheet blank(uint64_t bytes)
{
    struct sheet s = {calloc(1, bytes), bytes};

    if (!s.at)
        fail("out of memory for", "a file");
    return s;
}

static struct sheet read_whole(const char *name)
{
    FILE *f = fopen(name, "rb");
    struct sheet s;

    if (!f || fseek(f, 0, SEEK_END) != 0)
        fail("cannot read", name);
    s = blank((uint64_t)ftell(f));
    rewind(f);
    if (fread(s.at, 1, s.bytes, f) != s.bytes || fclose(f) != 0)
        fail("cannot read", name);
    return s;
}

static void write_whole(const char *name, const struct sheet *s)
{
    FILE *f = fopen(name, "wb");

    if (!f || fwrite(s->at, 1, s->bytes, f) != s->bytes || fclose(f) != 0)
        fail("cannot write", name);
}

/* ---- Parts ----------------------------------------------------------------------------------- */

static void lower_header(const struct weir__header *from, struct v1_header *to, uint64_t *fixed)
{
    memcpy(to->magic, from->magic, sizeof to->magic);
    to->version = V1_VERSION;
    to->byte_order = from->byte_order;
    to->layout = v1_layout();
    to->max_keys = from->max_keys;
    to->max_bytes = from->max_bytes;
    to->max_policies = from->max_policies;
    to->seats = from->seats;
    memcpy(to->secret, from->secret, sizeof to->secret);
    *fixed = v1_place(to);
    to->made_ns = from->made_ns;
    to->checksum = v1_checksum(to);
    to->ready = atomic_load(&from->ready);
    memcpy(to->boot_id, from->boot_id, sizeof to->boot_id);
    to->offset_ns = atomic_load(&from->offset_ns);
    to->stamp_ns = atomic_load(&from->stamp_ns);
    to->recovered = atomic_load(&from->recovered);
}

static void lower_version(const struct weir__version *from, struct v1_version *to)
{
    to->n = from->n;
    memcpy(to->scope, from->scope, sizeof to->scope);
    memcpy(to->past, from->past, sizeof to->past);
    for (int i = 0; i < WEIR_TERMS_MAX; i++)
        memcpy(&to->term[i], &from->term[i], sizeof to->term[i]);
}

static void lower_record(const struct weir__record *from, struct v1_record *to)
{
    atomic_store(&to->tag, atomic_load(&from->tag));
    atomic_store(&to->generation, atomic_load(&from->generation));
    to->first = atomic_load(&from->first);
    to->resets = atomic_load(&from->resets);
    memcpy(to->name, from->name, sizeof to->name);
    for (int i = 0; i < V1_VERSIONS; i++)
        lower_version(&from->version[i], &to->version[i]);
}

static void lower_directory(const struct weir__directory *from, struct v1_directory *to)
{
    to->tags = atomic_load(&from->tags);
    to->scopes = atomic_load(&from->scopes);
    to->versions = atomic_load(&from->versions);
    to->max_policies = from->max_policies;
    for (uint64_t i = 0; i < from->max_policies; i++)
        lower_record(&from->record[i], &to->record[i]);
}

/* Places behind `fixed` have moved by `less`. */
static uint64_t moved(uint64_t at, uint64_t fixed, uint64_t less)
{
    return at >= fixed ? at - less : at;
}

static void move_journal(struct weir__journal *j, uint64_t fixed, uint64_t less)
{
    for (int i = 0; i < WEIR__JOURNAL_LOCKS; i++)
        atomic_store(&j->lock_at[i], moved(atomic_load(&j->lock_at[i]), fixed, less));
    for (int i = 0; i < WEIR_TERMS_MAX; i++) {
        struct weir__note *n = &j->note[i];

        n->fingerprint_at = moved(n->fingerprint_at, fixed, less);
        n->state_at = moved(n->state_at, fixed, less);
        n->saved_at = moved(n->saved_at, fixed, less);
    }
}

static struct sheet lower(const struct sheet *old)
{
    const struct weir__header *from = (const struct weir__header *)(const void *)old->at;
    struct weir__header placed = *from;
    const uint64_t fixed = weir__header_place(&placed);
    struct v1_header h = {0};
    uint64_t v1_fixed;
    struct sheet new;

    lower_header(from, &h, &v1_fixed);
    h.bytes = atomic_load(&from->bytes) - (fixed - v1_fixed);
    for (int i = 0; i < V1_CLASSES; i++) {
        h.table[i].at = moved(atomic_load(&from->table[i].at), fixed, fixed - v1_fixed);
        h.table[i].bytes = from->table[i].bytes;
    }
    new = blank(h.bytes);
    memcpy(new.at, &h, sizeof h);
    memcpy(new.at + h.journals_at, old->at + from->journals_at,
           V1_SEATS * sizeof(struct weir__journal));
    for (int i = 0; i < V1_SEATS; i++)
        move_journal((struct weir__journal *)(void *)(new.at + h.journals_at) + i, fixed,
                     fixed - v1_fixed);
    lower_directory((const struct weir__directory *)(const void *)(old->at + from->directory_at),
                    (struct v1_directory *)(void *)(new.at + h.directory_at));
    memcpy(new.at + v1_fixed, old->at + fixed, h.bytes - v1_fixed);
    return new;
}

int main(int argc, char **argv)
{
    struct sheet old, new;

    if (argc != 3)
        fail("usage:", "make_v1 FROM TO");
    old = read_whole(argv[1]);
    new = lower(&old);
    write_whole(argv[2], &new);
    free(old.at);
    free(new.at);
    return 0;
}
