#include "engine/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/text.h"
#include "engine/diag.h"
#include "engine/file.h"

#define HUGE          (UINT64_C(2) << 20)
#define BYTES_PER_KEY 256
#define CLASS_SMALL   64 /* up to here classes are 8 bytes apart, above a quarter of a doubling */

/* ---- Options ----------------------------------------------------------------------------------- */

struct weir_options weir__options_filled(const struct weir_options *o)
{
    struct weir_options filled = {0};

    if (o)
        filled = *o;
    if (!filled.store)
        filled.store = "memory:";
    if (filled.max_keys == 0)
        filled.max_keys = WEIR_MAX_KEYS_DEFAULT;
    if (filled.max_bytes == 0)
        filled.max_bytes = filled.max_keys * BYTES_PER_KEY;
    if (filled.max_policies == 0)
        filled.max_policies = WEIR_POLICIES_DEFAULT;
    return filled;
}

/* ---- Size classes ------------------------------------------------------------------------------ */

size_t weir__size_of_class(uint32_t c)
{
    const uint32_t small = (CLASS_SMALL - 16) / 8; /* the last small class */

    if (c <= small)
        return 16 + 8 * (size_t)c;
    c -= small + 1;
    return ((size_t)CLASS_SMALL << c / 4) / 4 * (5 + c % 4);
}

uint32_t weir__size_class(size_t state_bytes)
{
    uint32_t c = 0;

    while (weir__size_of_class(c) < state_bytes)
        c++;
    assert(c < WEIR__SIZE_CLASSES);
    return c;
}

uint64_t weir__store_class_keys(const struct weir__store *s, uint32_t size_class)
{
    const uint64_t fit = weir__table_keys_in(weir__size_of_class(size_class), s->max_bytes);

    return s->max_keys < fit ? s->max_keys : fit;
}

/* ---- Private memory ---------------------------------------------------------------------------- */

/* Address space now, memory when it is touched. Behind the first pages, which a small table never
 * leaves, huge ones are asked for: at 10^7 keys half of the time would go into page tables. */
static void *reserve(size_t bytes)
{
    const size_t room = bytes + HUGE;
    char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    char *aligned;

    if (at == MAP_FAILED)
        return NULL;
    aligned = (char *)(((uintptr_t)at + HUGE - 1) & ~(uintptr_t)(HUGE - 1));
    if (aligned > at)
        (void)munmap(at, (size_t)(aligned - at));
    (void)munmap(aligned + bytes, (size_t)(at + room - (aligned + bytes)) & ~(size_t)4095);
    if (bytes > 2 * HUGE)
        (void)madvise(aligned + HUGE, bytes - HUGE, MADV_HUGEPAGE);
    return aligned;
}

static struct weir__table_options table_options(const struct weir__store *s, uint32_t c)
{
    return (struct weir__table_options){weir__size_of_class(c), weir__store_class_keys(s, c),
                                        s->file != NULL};
}

static int private_table(struct weir__store *s, uint32_t c, struct weir__table **table,
                         struct weir_diag *why)
{
    const struct weir__table_options o = table_options(s, c);
    const size_t bytes = weir__whole_pages(weir__table_size(&o));
    void *mem = reserve(bytes);

    if (!mem)
        return weir__diag(why, WEIR_ENOMEM,
                          "cannot reserve %zu bytes of address space for %llu keys of %zu bytes",
                          bytes, (unsigned long long)o.max_keys, o.state_bytes);
    *table = weir__table_init(mem, &o);
    return 0;
}

static int private_open(struct weir__store *s, const struct weir_options *o, struct weir_diag *why)
{
    s->directory = reserve(weir__whole_pages(weir__directory_size(o->max_policies)));
    if (!s->directory)
        return weir__diag(why, WEIR_ENOMEM, "out of memory for %u policies", o->max_policies);
    s->directory->max_policies = o->max_policies;
    memcpy(s->secret, o->secret, sizeof s->secret);
    if (s->secret[0] == 0 && s->secret[1] == 0 &&
        getrandom(s->secret, sizeof s->secret, 0) != sizeof s->secret)
        return weir__diag_errno(why, WEIR_EIO, "cannot get random bytes");
    return 0;
}

static void private_close(struct weir__store *s)
{
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        struct weir__table *t = atomic_load(&s->table[c]);
        const struct weir__table_options o = table_options(s, c);

        if (t)
            (void)munmap(t, weir__whole_pages(weir__table_size(&o)));
    }
    if (s->directory)
        (void)munmap(s->directory,
                     weir__whole_pages(weir__directory_size(s->directory->max_policies)));
}

/* ---- Either kind ------------------------------------------------------------------------------- */

static int check_options(const struct weir_options *o, struct weir_diag *why)
{
    if (o->max_keys > WEIR_MAX_KEYS_MOST)
        return weir__diag(why, WEIR_EINVAL, "max_keys is %llu; expected 1..%llu",
                          (unsigned long long)o->max_keys, (unsigned long long)WEIR_MAX_KEYS_MOST);
    if (o->max_policies > WEIR_POLICIES_MOST)
        return weir__diag(why, WEIR_EINVAL, "max_policies is %u; expected 1..%d", o->max_policies,
                          WEIR_POLICIES_MOST);
    if (o->max_bytes > UINT64_C(1) << 46)
        return weir__diag(why, WEIR_EINVAL, "max_bytes is %llu; expected at most 2^46",
                          (unsigned long long)o->max_bytes);
    if (o->full > WEIR_FULL_ALLOW)
        return weir__diag(why, WEIR_EINVAL, "full is %d; expected a weir_full", (int)o->full);
    if (o->clock && !o->clock->now)
        return weir__diag(why, WEIR_EINVAL, "a clock without now");
    return 0;
}

static int open_kind(struct weir__store *s, const struct weir_options *o, struct weir_diag *why)
{
    const char *colon = strchr(o->store, ':');
    char shown[128];
    struct weir__out out = {shown, sizeof shown, 0};

    if (strcmp(o->store, "memory:") == 0)
        return private_open(s, o, why);
    if (strncmp(o->store, "file:", 5) == 0 && o->store[5] != '\0')
        return o->store[5] == '/'
                   ? weir__file_open(s, o->store + 5, o, why)
                   : weir__diag(
                         why, WEIR_EINVAL,
                         "the path of the store '%.100s' is relative, and who runs elsewhere "
                         "would not share it; expected file:/path",
                         o->store);
    weir__out_url(&out, o->store);
    (void)weir__out_end(&out);
    return weir__diag(why, WEIR_ESTORE,
                      "no store '%.100s'%s; expected memory:, file:/path, redis://host:port or "
                      "redis+unix:/path",
                      shown, colon ? "" : ": its kind is missing");
}

int weir__store_open(struct weir__store **out, const struct weir_options *o, struct weir_diag *why)
{
    int error = check_options(o, why);
    struct weir__store *s;

    if (error)
        return error;
    s = calloc(1, sizeof *s);
    if (!s)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    s->max_keys = o->max_keys;
    s->max_bytes = o->max_bytes;
    (void)pthread_mutex_init(&s->lock, NULL);
    error = open_kind(s, o, why);
    if (error) {
        weir__store_close(s);
        return error;
    }
    *out = s;
    return 0;
}

void weir__store_close(struct weir__store *s)
{
    if (s->file)
        weir__file_close(s->file);
    else
        private_close(s);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

int weir__store_lock(struct weir__store *s, struct weir_diag *why)
{
    int cancelable, error;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    /* First the file's, which may take a second to have: nobody waits for that who only reads. */
    error = s->file ? weir__file_lock(s->file, why) : 0;
    if (error) {
        (void)pthread_setcancelstate(cancelable, NULL);
        return error;
    }
    (void)pthread_mutex_lock(&s->lock);
    s->cancelable = cancelable;
    return 0;
}

void weir__store_unlock(struct weir__store *s)
{
    const int cancelable = s->cancelable;

    (void)pthread_mutex_unlock(&s->lock);
    if (s->file)
        weir__file_unlock(s->file);
    (void)pthread_setcancelstate(cancelable, NULL);
}

int weir__store_table(struct weir__store *s, uint32_t c, struct weir__table **table,
                      struct weir_diag *why)
{
    int error = 0;

    *table = atomic_load(&s->table[c]);
    if (*table)
        return 0;
    error = s->file ? weir__file_table(s->file, c, table, why) : private_table(s, c, table, why);
    if (!error)
        atomic_store(&s->table[c], *table);
    return error;
}

void weir__store_troubles(const struct weir__store *s, uint64_t *busy, uint64_t *recovered)
{
    *busy = s->file ? atomic_load(&s->file->seats.busy) : 0;
    *recovered = s->file ? atomic_load(&s->file->header->recovered) : 0;
}

/* Of the directory, private memory is touched as policies are made. */
static uint64_t directory_in_use(const struct weir__directory *d)
{
    uint64_t last = 0;

    for (uint64_t i = 0; i < d->max_policies; i++)
        if (atomic_load(&d->record[i].generation) != 0)
            last = i + 1;
    return weir__directory_size(last);
}

void weir__store_bytes(const struct weir__store *s, uint64_t *bytes, uint64_t *max_bytes)
{
    *bytes = s->file ? atomic_load(&s->file->header->bytes) : directory_in_use(s->directory);
    *max_bytes = s->file ? *bytes : weir__directory_size(s->directory->max_policies);
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES && !s->file; c++) {
        const struct weir__table *t = atomic_load(&s->table[c]);
        const struct weir__table_options o = table_options(s, c);

        if (!t)
            continue;
        *bytes += weir__table_stats(t).bytes;
        *max_bytes += weir__table_size(&o);
    }
}
