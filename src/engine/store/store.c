/* Stores: options, size classes, private memory, and what both kinds of store share. */
#include "engine/store/store.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "base/text.h"
#include "engine/store/file.h"
#include "os/diag.h"
#include "os/rss.h"

#define HUGE          (UINT64_C(2) << 20)
#define BYTES_PER_KEY 256
#define MEMORY_LEAST  (UINT64_C(64) << 20) /* the least default of max_memory */
#define LIMITS_MOST   256 /* this many limits are sure to get the least number of cells */
#define ACCOUNTS_PART 8   /* of what is left when the first reservation is made goes to accounts */
#define CLASS_SMALL   64  /* up to here classes are 8 bytes apart; above, four to each doubling */

/* ---- Options ------------------------------------------------------------------------------- */

struct weir_options weir__options_filled(const struct weir_options *o)
{
    struct weir_options filled = {0};

    if (o)
        filled = *o;
    if (!filled.store)
        filled.store = "memory:";
    if (filled.max_keys == 0)
        filled.max_keys = WEIR_MAX_KEYS_DEFAULT;
    if (filled.max_policies == 0)
        filled.max_policies = WEIR_POLICIES_DEFAULT;
    if (filled.max_memory == 0)
        filled.max_memory =
            weir__directory_size(filled.max_policies) +
            (filled.max_keys > MEMORY_LEAST / BYTES_PER_KEY ? filled.max_keys * BYTES_PER_KEY
                                                            : MEMORY_LEAST);
    return filled;
}

/* ---- Size classes -------------------------------------------------------------------------- */

size_t weir__size_of_class(uint32_t c)
{
    const uint32_t small = (CLASS_SMALL - 16) / 8; /* the last small class */

    if (c == WEIR__ACCOUNTS)
        return WEIR__ACCOUNT_BYTES;
    c %= WEIR__STATE_SIZES;
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
    assert(c < WEIR__STATE_SIZES);
    return c;
}

struct weir__table_options weir__class_options(uint32_t size_class, bool shared, uint64_t max_keys,
                                               uint64_t max_policies, uint64_t keys, uint64_t left)
{
    struct weir__table_options o = {
        .state_bytes = weir__size_of_class(size_class), .max_keys = max_keys, .shared = shared};
    uint64_t fit;

    if (!weir__class_is_anonymous(size_class))
        o.limits = max_policies < LIMITS_MOST ? max_policies : LIMITS_MOST;
    fit = weir__table_keys_in(&o, size_class == WEIR__ACCOUNTS ? left / ACCOUNTS_PART : left / 2);
    o.max_keys = fit > keys ? fit : keys;
    if (o.max_keys == 0)
        o.max_keys = 1; /* the caller checks whether that fits */
    return o;
}

uint64_t weir__store_left(const struct weir__store *s)
{
    const uint64_t most = s->file ? 0 : weir__store_most(s);

    if (s->file)
        return weir__file_left(s->file);
    return most < s->max_memory ? s->max_memory - most : 0;
}

static struct weir__table_options store_table_options(const struct weir__store *s, uint32_t c,
                                                      uint64_t keys)
{
    return weir__class_options(c, s->file != NULL, s->max_keys, s->max_policies, keys,
                               weir__store_left(s));
}

uint64_t weir__store_class_keys(const struct weir__store *s, uint32_t size_class)
{
    const struct weir__table *t = atomic_load(&s->table[size_class]);

    return t ? weir__table_stats(t).max_keys : store_table_options(s, size_class, 0).max_keys;
}

/* ---- Private memory ------------------------------------------------------------------------ */

/* Reserves address space; the system provides memory when it is touched. */
static void *store_reserve(size_t bytes)
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
    return aligned;
}

/* Asks for huge pages after the first pages, which a small table never leaves: at 10^7 keys half of
 * the time would go into page tables. Not for overflow cells, because few of them are touched at
 * first. */
static void prefer_huge(const struct weir__table *t)
{
    const struct weir__table_stats of = weir__table_stats(t);
    const uint64_t buckets_end = (of.max_bytes - of.cells_bytes) / 4096 * 4096;

    if (buckets_end > 2 * HUGE)
        (void)madvise((char *)t + HUGE, buckets_end - HUGE, MADV_HUGEPAGE);
}

static int private_table(struct weir__table_options o, struct weir__table **table,
                         struct weir_diag *why)
{
    const size_t bytes = weir__whole_pages(weir__table_size(&o));
    void *mem = store_reserve(bytes);

    if (!mem)
        return weir__diag(why, WEIR_ENOMEM,
                          "cannot reserve %zu bytes of address space for %llu keys of %zu bytes",
                          bytes, (unsigned long long)o.max_keys, o.state_bytes);
    *table = weir__table_init(mem, &o);
    prefer_huge(*table);
    return 0;
}

static int private_open(struct weir__store *s, const struct weir_options *o, struct weir_diag *why)
{
    s->directory = store_reserve(weir__whole_pages(weir__directory_size(o->max_policies)));
    if (!s->directory)
        return weir__diag(why, WEIR_ENOMEM, "out of memory for %u policies", o->max_policies);
    /* Few pages of it are touched: a huge one would be one limit's. */
    (void)madvise(s->directory, weir__whole_pages(weir__directory_size(o->max_policies)),
                  MADV_NOHUGEPAGE);
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

        if (t)
            (void)munmap(t, weir__whole_pages(weir__table_stats(t).max_bytes));
    }
    if (s->directory)
        (void)munmap(s->directory, weir__whole_pages(weir__directory_size(s->max_policies)));
}

/* ---- Both kinds of store ------------------------------------------------------------------- */

static int store_check_options(const struct weir_options *o, struct weir_diag *why)
{
    if (o->max_keys > WEIR_MAX_KEYS_MOST)
        return weir__diag(why, WEIR_EINVAL, "max_keys is %llu; expected 1..%llu",
                          (unsigned long long)o->max_keys, (unsigned long long)WEIR_MAX_KEYS_MOST);
    if (o->max_policies > WEIR_POLICIES_MOST)
        return weir__diag(why, WEIR_EINVAL, "max_policies is %u; expected 1..%d", o->max_policies,
                          WEIR_POLICIES_MOST);
    if (o->max_memory > WEIR__MAX_MEMORY_MOST)
        return weir__diag(why, WEIR_EINVAL, "max_memory is %llu; expected at most 2^46",
                          (unsigned long long)o->max_memory);
    if (o->full > WEIR_FULL_ALLOW)
        return weir__diag(why, WEIR_EINVAL, "full is %d; expected a weir_full", (int)o->full);
    if (o->clock && !o->clock->now)
        return weir__diag(why, WEIR_EINVAL, "the clock has no `now` function");
    return 0;
}

static int store_open_kind(struct weir__store *s, const struct weir_options *o,
                           struct weir_diag *why)
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
                         "the path of the store '%.100s' is relative, so a process in another "
                         "directory would not share it; expected file:/path",
                         o->store);
    weir__out_url(&out, o->store);
    (void)weir__out_end(&out);
    return weir__diag(why, WEIR_ESTORE,
                      "no store '%.100s'%s; expected memory:, file:/path, redis://host:port or "
                      "redis+unix:/path",
                      shown, colon ? "" : ": its kind is missing");
}

/* Checks that what a store has from the start leaves memory for keys. */
static int check_memory(const struct weir__store *s, struct weir_diag *why)
{
    const uint64_t most = weir__store_most(s);

    if (most < s->max_memory)
        return 0;
    return weir__diag(
        why, WEIR_EINVAL,
        "max_memory is %llu, but %llu policies take %llu bytes of it before the first key; "
        "expected more memory or fewer policies",
        (unsigned long long)s->max_memory, (unsigned long long)s->max_policies,
        (unsigned long long)most);
}

int weir__store_open(struct weir__store **out, const struct weir_options *o, struct weir_diag *why)
{
    int error = store_check_options(o, why);
    struct weir__store *s;

    if (error)
        return error;
    s = calloc(1, sizeof *s);
    if (!s)
        return weir__diag(why, WEIR_ENOMEM, "out of memory");
    s->max_keys = o->max_keys;
    s->max_memory = o->max_memory;
    s->max_policies = o->max_policies;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_mutex_init(&s->changes, NULL);
    error = store_open_kind(s, o, why);
    if (!error)
        error = check_memory(s, why);
    if (!error &&
        (!weir__revision_map_init(&s->revision_map, s->max_policies) || !weir__directory_open(s)))
        error = weir__diag(why, WEIR_ENOMEM, "out of memory");
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
    weir__revision_map_close(&s->revision_map);
    weir__directory_close(s);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_mutex_destroy(&s->changes);
    free(s);
}

int weir__changes_lock(struct weir__store *s)
{
    int cancelable;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    (void)pthread_mutex_lock(&s->changes);
    return cancelable;
}

void weir__changes_unlock(struct weir__store *s, int cancelable)
{
    (void)pthread_mutex_unlock(&s->changes);
    (void)pthread_setcancelstate(cancelable, NULL);
}

int weir__store_lock(struct weir__store *s, struct weir_diag *why)
{
    int cancelable, error;

    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelable);
    /* First the file's lock, which may take a second: a thread that only reads does not wait for
     * it. */
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

int weir__store_no_room(const struct weir__table_options *o, uint64_t left, struct weir_diag *why)
{
    return weir__diag(
        why, WEIR_EFULL,
        "there is no room for %llu keys of %llu bytes: their table takes %llu bytes, and %llu "
        "bytes of max_memory are left",
        (unsigned long long)o->max_keys, (unsigned long long)o->state_bytes,
        (unsigned long long)weir__table_size(o), (unsigned long long)left);
}

bool weir__store_has_table(const struct weir__store *s, uint64_t size_class)
{
    return atomic_load(&s->table[size_class]) ||
           (s->file && atomic_load(&s->file->header->table[size_class].at) != 0);
}

int weir__store_table(struct weir__store *s, uint32_t c, uint64_t keys, struct weir__table **table,
                      struct weir_diag *why)
{
    struct weir__table_options o;
    uint64_t left;
    int error = 0;

    *table = atomic_load(&s->table[c]);
    if (*table)
        return 0;
    left = weir__store_left(s);
    o = store_table_options(s, c, keys);
    if (s->file)
        error = weir__file_table(s->file, c, keys, table, why);
    else if (weir__whole_pages(weir__table_size(&o)) > left)
        error = weir__store_no_room(&o, left, why);
    else
        error = private_table(o, table, why);
    if (!error)
        atomic_store(&s->table[c], *table);
    return error;
}

void weir__store_file_counts(const struct weir__store *s, uint64_t *busy, uint64_t *recovered)
{
    *busy = s->file ? atomic_load(&s->file->lock_owners.busy) : 0;
    *recovered = s->file ? atomic_load(&s->file->header->recovered) : 0;
}

/* The part of the directory in use: private memory is touched as policies are created. */
static uint64_t directory_in_use(const struct weir__store *s)
{
    return weir__directory_size(atomic_load(&s->known.records));
}

static uint64_t directory_most(const struct weir__store *s)
{
    return weir__directory_size(s->max_policies);
}

uint64_t weir__store_most(const struct weir__store *s)
{
    uint64_t most = s->file ? atomic_load(&s->file->header->bytes) : directory_most(s);

    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES && !s->file; c++) {
        const struct weir__table *t = atomic_load(&s->table[c]);

        most += t ? weir__whole_pages(weir__table_stats(t).max_bytes) : 0;
    }
    return most;
}

uint64_t weir__store_bytes(const struct weir__store *s)
{
    uint64_t bytes;

    if (s->file)
        return atomic_load(&s->file->header->bytes);
    bytes = weir__rss(s->directory, directory_in_use(s), directory_in_use(s));
    for (uint32_t c = 0; c < WEIR__SIZE_CLASSES; c++) {
        const struct weir__table *t = atomic_load(&s->table[c]);
        const struct weir__table_stats of =
            t ? weir__table_stats(t) : (struct weir__table_stats){0};

        bytes += t ? weir__rss(t, of.max_bytes, of.bytes) : 0;
    }
    return bytes;
}
