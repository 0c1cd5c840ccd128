/* A store: where states and policies are kept, in private memory or in a shared file.
 *
 * Both look alike here: tables by size of state, a directory of policies, a secret. They differ in
 * which processes use them. Everything in a directory and in a table is plain bytes without
 * pointers; what a process builds from them (revisions) is its own.
 *
 * Invariants of the directory:
 *   (1) Only the holder of the store's lock changes it, and any thread reads it: a new version is
 *       written beside those that are kept, and then the generation announces it.
 *   (2) A record's generation never goes back, not even when its policy is forgotten and another
 *       policy gets the record.
 *   (3) Scopes and versions are numbered across the store: no two limits share one, so no key of
 *       one limit can be mistaken for a key of another, and a state's version identifies its limit.
 */
#ifndef WEIR_ENGINE_STORE_STORE_H
#define WEIR_ENGINE_STORE_STORE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include <weir.h>

#include "engine/policy/revision.h"
#include "engine/policy/revision_map.h"
#include "engine/store/directory.h"
#include "table/table.h"

/* Tables are by class: the size of a state, and whether the limits that share the table have names.
 * Keys of anonymous limits have separate tables, so that a client that invents limits takes no
 * places from the keys of named ones. */
#define WEIR__STATE_SIZES     64
#define WEIR__SIZE_CLASSES    (2 * WEIR__STATE_SIZES)
#define WEIR__FIRST_ANONYMOUS WEIR__STATE_SIZES
#define WEIR__MAX_MEMORY_MOST (UINT64_C(1) << 46)

/* The accounts of keys (account/account.h) have a table of their own, whose class no limit has: the
 * largest states of limits are far smaller than its class would be by the rule. */
#define WEIR__ACCOUNTS      (WEIR__SIZE_CLASSES - 1)
#define WEIR__ACCOUNT_BYTES 4096

static inline bool weir__class_is_anonymous(uint32_t size_class)
{
    return size_class >= WEIR__FIRST_ANONYMOUS;
}

/* What every policy has; an anonymous one has no more than that (anonymous.c). */
struct weir__record_head {
    _Atomic uint64_t tag; /* identifies the policy; 0: none */
    _Atomic uint32_t generation;
    _Atomic uint32_t first;   /* the policy's first generation */
    _Atomic uint32_t resets;  /* number of resets of its keys */
    _Atomic uint32_t lapsing; /* 1: its keys may have reservations that lapse as nothing */
};

struct weir__record {
    struct weir__record_head head;
    char name[WEIR_NAME_MAX];
    struct weir__version version[WEIR__VERSIONS_KEPT + 1]; /* a ring; see weir__record_version */
};

/* A guard that does not count calls in flight (a breaker) may have no state for a key while calls
 * to it are under way. When such a call ends, it must know whether the key was reset since it
 * entered: so the last resets are kept here, each in the line that the key's fingerprint selects.
 * If more resets followed than a line keeps, the call counts as if there had been none. */
#define WEIR__RESET_SLOTS 64
#define WEIR__RESETS_KEPT 7

struct weir__resets {
    _Atomic uint64_t count;
    _Atomic uint64_t
        fingerprint[WEIR__RESETS_KEPT]; /* a ring: the n-th is at n modulo its length */
};

struct weir__directory {
    _Atomic uint64_t tags, scopes, versions; /* the last numbers given out */
    /* The record, counted from 1, whose keys are being converted to a new version; 0: none. */
    _Atomic uint64_t changing;
    _Atomic int64_t created_ns; /* when the store was created */
    uint64_t max_policies;
    struct weir__resets reset[WEIR__RESET_SLOTS];
    struct weir__record record[];
};

static inline struct weir__resets *weir__resets_of(struct weir__directory *d, uint64_t fingerprint)
{
    return &d->reset[fingerprint % WEIR__RESET_SLOTS];
}

/* The caller of each of these holds the key's lock, so that the answer is exact for that key. */
static inline void weir__resets_note(struct weir__directory *d, uint64_t fingerprint)
{
    struct weir__resets *r = weir__resets_of(d, fingerprint);
    const uint64_t n = atomic_fetch_add_explicit(&r->count, 1, memory_order_relaxed);

    atomic_store_explicit(&r->fingerprint[n % WEIR__RESETS_KEPT], fingerprint,
                          memory_order_relaxed);
}

/* The number of resets so far, for a later weir__resets_since. */
static inline uint64_t weir__resets_count(struct weir__directory *d, uint64_t fingerprint)
{
    return atomic_load_explicit(&weir__resets_of(d, fingerprint)->count, memory_order_relaxed);
}

/* Whether the key was reset since weir__resets_count returned that number. */
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

/* The number of versions that a record has kept. */
static inline uint32_t weir__record_kept(const struct weir__record *r, uint32_t generation)
{
    const uint32_t all =
        generation - atomic_load_explicit(&r->head.first, memory_order_relaxed) + 1;

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
    bool names_only;         /* its keys are in a remote store: keys= reserves nothing here */
    uint64_t max_keys, max_memory, max_policies;
    uint64_t secret[2];
    int64_t ahead_ns; /* the lead of the store's time over the process's clock */
    struct weir__directory *directory;
    _Atomic(struct weir__table *) table[WEIR__SIZE_CLASSES];
    struct weir__revision_map revision_map;
    struct weir__known known; /* of the directory, by this process */
    /* For the named limits in each table, as this process last saw them: the keys that limits with
     * keys= asked for, and the number of limits that share the rest. */
    _Atomic uint64_t reserved_keys[WEIR__STATE_SIZES], sharers[WEIR__STATE_SIZES];
    _Atomic int64_t survey_ns[WEIR__SIZE_CLASSES]; /* when the last survey was complete */
    _Atomic uint64_t surveyed[WEIR__SIZE_CLASSES]; /* buckets that were sampled (survey.h) */
    pthread_mutex_t changes; /* held during a whole change of limits or lists */
    pthread_mutex_t lock;    /* guards the directory, within this process; after `changes` */
    int cancelable;          /* the holder's cancel state before it took the lock */
};

/* Behind this record none is in use. Private memory that was never used is not even looked at: it
 * would count as resident. */
static inline uint64_t weir__directory_end(const struct weir__store *s)
{
    return s->file ? s->max_policies : atomic_load(&s->known.records);
}

/* Fills in the defaults of an options struct. */
struct weir_options weir__options_filled(const struct weir_options *o);

/* Returns 0; or an error, and fills *why. The options are filled. */
int weir__store_open(struct weir__store **s, const struct weir_options *o, struct weir_diag *why);
void weir__store_close(struct weir__store *s);

/* Taken by a thread that changes limits or lists; decisions never wait for it. The thread cannot be
 * cancelled while it holds the lock: the return value is to be passed to unlock. */
int weir__changes_lock(struct weir__store *s);
void weir__changes_unlock(struct weir__store *s, int cancelable);

/* A thread that changes the directory holds this lock, and cannot be cancelled meanwhile. An error:
 * the file's lock could not be taken. */
int weir__store_lock(struct weir__store *s, struct weir_diag *why);
void weir__store_unlock(struct weir__store *s);

/* Sizes of states are rounded up to one of a few: this is the class for named limits. */
uint32_t weir__size_class(size_t state_bytes);
size_t weir__size_of_class(uint32_t size_class);

/* The options of a new table of a class, in a store that has `left` bytes left: for max_keys keys,
 * or for the keys that fit in half of what is left, so that other sizes have room later; but for at
 * least `keys`. */
struct weir__table_options weir__class_options(uint32_t size_class, bool shared, uint64_t max_keys,
                                               uint64_t max_policies, uint64_t keys, uint64_t left);
/* Returns WEIR_EFULL, and *why says that `left` bytes have no room for such a table. */
int weir__store_no_room(const struct weir__table_options *o, uint64_t left, struct weir_diag *why);
/* The bytes of max_memory that no part of the store has taken. */
uint64_t weir__store_left(const struct weir__store *s);
/* The number of keys of that class that have room in its table, or in the table that would be
 * created. */
uint64_t weir__store_class_keys(const struct weir__store *s, uint32_t size_class);

/* The table of a class; if it does not exist, it is created for at least `keys` keys. The caller
 * holds the store's lock. */
int weir__store_table(struct weir__store *s, uint32_t size_class, uint64_t keys,
                      struct weir__table **table, struct weir_diag *why);
/* Whether it exists, in this process or in the file. */
bool weir__store_has_table(const struct weir__store *s, uint64_t size_class);

/* This thread's owner in the file; NULL if there is none (weir__file_no_owner says why). */
struct weir__owner *weir__file_owner(struct weir__file *f);

static inline struct weir__owner *weir__store_owner(struct weir__store *s)
{
    return s->file ? weir__file_owner(s->file) : &weir__owner_private;
}

/* Why there is no owner: WEIR_EFULL if all are in use, or WEIR_EFORMAT if the file is damaged. */
int weir__file_no_owner(struct weir__file *f);

static inline int weir__store_no_owner(const struct weir__store *s)
{
    return s->file ? weir__file_no_owner(s->file) : WEIR_EFULL;
}

/* When the store was created. */
static inline int64_t weir__store_created(const struct weir__store *s)
{
    const int64_t created_ns = atomic_load(&s->directory->created_ns);

    return weir__clamp(created_ns, 0,
                       WEIR__NOW_MAX); /* in a file, any process may have written it */
}

/* Adds the counters that only a shared file has. */
void weir__store_file_counts(const struct weir__store *s, uint64_t *busy, uint64_t *recovered);

/* The bytes now in memory, or in the file; and the most that they may become with the present
 * tables. The first takes about a millisecond for each gigabyte. */
uint64_t weir__store_bytes(const struct weir__store *s);
uint64_t weir__store_most(const struct weir__store *s);

#endif
