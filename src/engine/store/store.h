/* A store: where states and policies lie, in private memory or in a shared file.
 *
 * Both look alike from here: tables by size of state, a directory of policies, a secret. What differs
 * is who else may be at them. Everything in a directory and in a table is plain bytes without
 * pointers; what a process makes of them (editions) is its own.
 *
 * Invariants of the directory:
 *   (1) It is changed only by the holder of the store's lock, and read by anyone: a new version is
 *       written beside those that are kept, and then the generation says that it is there.
 *   (2) A record's generation never goes back, not even when its policy is forgotten and another gets
 *       its place.
 *   (3) Scopes and versions are numbered across the store: no two limits share one, so no key of
 *       one can be taken for another's, and a state's version tells whose it is.
 */
#ifndef WEIR_ENGINE_STORE_STORE_H
#define WEIR_ENGINE_STORE_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <weir.h>

#include "engine/policy/revision.h"
#include "engine/policy/revision_map.h"
#include "table/table.h"

/* Tables are by class: the size of a state, and whether the limits that share the table have names. Keys of
 * limits that come with a request have tables of their own, so that whoever invents limits meets nobody
 * else's keys. */
#define WEIR__STATE_SIZES     64
#define WEIR__SIZE_CLASSES    (2 * WEIR__STATE_SIZES)
#define WEIR__FIRST_ANONYMOUS WEIR__STATE_SIZES
#define WEIR__MAX_MEMORY_MOST (UINT64_C(1) << 46)

static inline bool weir__class_is_anonymous(uint32_t size_class)
{
    return size_class >= WEIR__FIRST_ANONYMOUS;
}

struct weir__record {
    _Atomic uint64_t tag; /* which policy this is; 0: none */
    _Atomic uint32_t generation;
    _Atomic uint32_t first;  /* its first generation */
    _Atomic uint32_t resets; /* how often one of its keys was reset */
    uint32_t spare;
    char name[WEIR_NAME_MAX];
    struct weir__version version[WEIR__VERSIONS_KEPT + 1]; /* a ring; see weir__record_version */
};

/* Guards that do not count who is in (a breaker) may have no state of a key while calls to it are under
 * way. So that these know, when they end, that the key was reset since they entered, the last resets are
 * kept here, each in the line that its key's fingerprint says. A call that was overtaken by more than
 * are kept in its line counts as any other. */
#define WEIR__RESET_SLOTS 64
#define WEIR__RESETS_KEPT 7

struct weir__resets {
    _Atomic uint64_t count;
    _Atomic uint64_t
        fingerprint[WEIR__RESETS_KEPT]; /* a ring: the n-th is at n modulo its length */
};

struct weir__directory {
    _Atomic uint64_t tags, scopes, versions; /* how many were given out */
    /* The record, counted from 1, whose keys are being brought up to a new version; 0: none. */
    _Atomic uint64_t changing;
    _Atomic int64_t created_ns; /* when the store was made */
    uint64_t max_policies;
    struct weir__resets reset[WEIR__RESET_SLOTS];
    struct weir__record record[];
};

static inline struct weir__resets *weir__resets_of(struct weir__directory *d, uint64_t fingerprint)
{
    return &d->reset[fingerprint % WEIR__RESET_SLOTS];
}

/* All of these under the key's lock: what they say of that key is true then. */
static inline void weir__resets_note(struct weir__directory *d, uint64_t fingerprint)
{
    struct weir__resets *r = weir__resets_of(d, fingerprint);
    const uint64_t n = atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);

    atomic_store_explicit(&r->fingerprint[n % WEIR__RESETS_KEPT], fingerprint,
                          memory_order_relaxed);
}

/* How many there were so far, to be held against later. */
static inline uint64_t weir__resets_count(struct weir__directory *d, uint64_t fingerprint)
{
    return atomic_load_explicit(&weir__resets_of(d, fingerprint)->count, memory_order_relaxed);
}

/* Whether the key was reset since there were so many. */
static inline bool weir__resets_since(struct weir__directory *d, uint64_t fingerprint,
                                      uint64_t count)
{
    const struct weir__resets *r = weir__resets_of(d, fingerprint);
    const uint64_t now = atomic_load_explicit(&r->count, memory_order_relaxed);

    for (uint64_t n = now; n != count && now - n < WEIR__RESETS_KEPT; n--)
        if (atomic_load_explicit(&r->fingerprint[(n - 1) % WEIR__RESETS_KEPT],
                                 memory_order_relaxed) == fingerprint)
            return true;
    return false;
}

/* The version that a record had `back` generations ago. */
static inline struct weir__version *weir__record_version(struct weir__record *r,
                                                         uint32_t generation, uint32_t back)
{
    return &r->version[(generation - back) % (WEIR__VERSIONS_KEPT + 1)];
}

/* How many versions a record has kept. */
static inline uint32_t weir__record_kept(const struct weir__record *r, uint32_t generation)
{
    const uint32_t all = generation - atomic_load_explicit(&r->first, memory_order_relaxed) + 1;

    return all < WEIR__VERSIONS_KEPT ? all : WEIR__VERSIONS_KEPT;
}

static inline size_t weir__directory_size(uint64_t max_policies)
{
    return sizeof(struct weir__directory) + max_policies * sizeof(struct weir__record);
}

#define WEIR__PAGE 4096

static inline uint64_t weir__whole_pages(uint64_t bytes)
{
    return (bytes + WEIR__PAGE - 1) / WEIR__PAGE * WEIR__PAGE;
}

struct weir__file;

struct weir__store {
    struct weir__file *file; /* NULL: private memory */
    uint64_t max_keys, max_memory, max_policies;
    uint64_t secret[2];
    int64_t ahead_ns; /* of the store's time before the process's clock */
    struct weir__directory *directory;
    _Atomic(struct weir__table *) table[WEIR__SIZE_CLASSES];
    struct weir__revision_map revision_map;
    /* Of the named limits in each table, as this process last saw them: for how many keys some asked, and
     * how many limits share the rest. */
    _Atomic uint64_t asked_keys[WEIR__STATE_SIZES], sharers[WEIR__STATE_SIZES];
    _Atomic uint64_t surveyed[WEIR__SIZE_CLASSES]; /* buckets that were looked into (survey.h) */
    pthread_mutex_t changes; /* of those who change limits or lists, for as long as that takes */
    pthread_mutex_t lock;    /* of the directory, within this process; after `changes` */
    int cancelable;          /* whether its holder's thread was, before */
};

/* Fills in the defaults of an options struct. */
struct weir_options weir__options_filled(const struct weir_options *o);

/* 0, or an error and *why says more. The options are filled. */
int weir__store_open(struct weir__store **s, const struct weir_options *o, struct weir_diag *why);
void weir__store_close(struct weir__store *s);

/* Whoever changes limits or lists, one after the other; nobody who decides waits for it. Cannot be cancelled
 * meanwhile: returns what to give back to unlock. */
int weir__changes_lock(struct weir__store *s);
void weir__changes_unlock(struct weir__store *s, int cancelable);

/* Who changes the directory holds it, and cannot be cancelled meanwhile. An error: the file's lock could
 * not be had. */
int weir__store_lock(struct weir__store *s, struct weir_diag *why);
void weir__store_unlock(struct weir__store *s);

/* Sizes of states are rounded up to one of a few: the class of named limits. */
uint32_t weir__size_class(size_t state_bytes);
size_t weir__size_of_class(uint32_t size_class);

/* What a new table of a class would be, in a store that has so many bytes left: for max_keys keys, or as
 * many as fit in half of what is left, so that there is room for other sizes later; for `keys` at least. */
struct weir__table_options weir__class_options(uint32_t size_class, bool shared, uint64_t max_keys,
                                               uint64_t max_policies, uint64_t keys, uint64_t left);
/* WEIR_EFULL, and *why says that there is no room for such a table where so many bytes are left. */
int weir__store_no_room(const struct weir__table_options *o, uint64_t left, struct weir_diag *why);
/* How many bytes of max_memory no part of the store has taken. */
uint64_t weir__store_left(const struct weir__store *s);
/* For how many keys of that class there is room: in its table, or in the one that would be made. */
uint64_t weir__store_class_keys(const struct weir__store *s, uint32_t size_class);

/* The table of a class, made for `keys` keys at least if it is not there. The caller holds the store's
 * lock. */
int weir__store_table(struct weir__store *s, uint32_t size_class, uint64_t keys,
                      struct weir__table **table, struct weir_diag *why);

/* This thread's seat at the store's tables; NULL if there are as many as may be (WEIR_EFULL). */
struct weir__owner *weir__file_owner(struct weir__file *f);

static inline struct weir__owner *weir__store_owner(struct weir__store *s)
{
    return s->file ? weir__file_owner(s->file) : &weir__owner_private;
}

/* Why there is no seat: WEIR_EFULL, or WEIR_EFORMAT of a file that is damaged. */
int weir__file_no_owner(struct weir__file *f);

static inline int weir__store_no_owner(const struct weir__store *s)
{
    return s->file ? weir__file_no_owner(s->file) : WEIR_EFULL;
}

/* When the store was made. */
static inline int64_t weir__store_created(const struct weir__store *s)
{
    const int64_t born_ns = atomic_load(&s->directory->created_ns);

    return weir__clamp(born_ns, 0, WEIR__NOW_MAX); /* in a file anybody may have written it */
}

/* Adds what only a shared file counts. */
void weir__store_file_counts(const struct weir__store *s, uint64_t *busy, uint64_t *recovered);

/* Bytes now in memory, or of the file; and the most that there may be with the tables there are. The first
 * takes about a millisecond for a gigabyte. */
uint64_t weir__store_bytes(const struct weir__store *s);
uint64_t weir__store_most(const struct weir__store *s);

#endif
