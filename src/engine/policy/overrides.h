/* Overrides: keys that a policy allows, denies, or gives their own limit ("this customer gets ten
 * times as much"); single keys, all keys with a prefix, and addresses in a network.
 *
 * A policy that has any has one `struct weir__overrides`, which lives as long as the policy. A
 * revision in force points to it; that of a policy without overrides points to nothing, and its
 * decisions pay nothing. A decision looks up the hash of its key, and then the hash of each prefix
 * of a length that some override has, the longest first: one probe each.
 *
 * An override is small: the key, and the numbers of its limit that are not 0, packed. A decision
 * unpacks them into a revision of its own (`struct weir__own`, on its stack), which borrows scope,
 * tables and cells of the revision in force. So a hundred thousand overrides need no compiled limit
 * each, and a live change of the policy's limit touches none of them.
 *
 * Keys are found by hashes under the store's secret, so no client can choose a key that collides
 * with another. The keys themselves are kept for those who list them.
 *
 * Invariants:
 *   (1) A key with an override has the same states as without: same scope, same places, same
 *       layout. A state says whether the policy's limit wrote it, or at which rate a key's own
 *       numbers did (algo/rate.c): the next decision on the key carries it over.
 *   (2) Setting or removing the override of a single key converts its state at that instant, under
 *       the key's lock, from exactly the numbers before to exactly the numbers after; of many keys,
 *       just after they are in force. The keys of a prefix, which no table can
 *       list, are converted when they are used next, by the rate that their states name: to one
 *       part in 2^14.
 *   (3) An override that no longer has the shape of the policy's limit is not in force. It is in
 *       force again once the policy's limit has its shape again.
 *   (4) Overrides belong to this process: other processes that share the file have their own.
 *   (5) `system` has one state for all keys, and the policy's own limit judges it for every caller.
 *   (6) Readers are inside an RCU section. Writers hold the store's lock, and free what they have
 *       taken out after a grace period. A slot is filled before its hash is shown, and a removed
 *       override leaves its hash behind, so that no search is cut short.
 *   (7) A state that a key's own numbers wrote keeps its place until it has fully recovered: cells
 *       are kept by the policy's limit.
 */
#ifndef WEIR_ENGINE_POLICY_OVERRIDES_H
#define WEIR_ENGINE_POLICY_OVERRIDES_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "base/num.h"
#include "engine/policy/key_list.h"
#include "engine/policy/revision.h"

/* One override: the bytes of its key or prefix, and then its packed terms (override_pack.c). It is
 * an allocation of its own, or stands in a block. */
struct weir__override {
    uint32_t key_len;
    uint16_t packed_len;
    uint8_t terms;
    bool prefix;
    unsigned char bytes[];
};

struct weir__store;

struct weir__override_slot {
    _Atomic uint64_t hash;                   /* 0: the slot is empty */
    struct weir__override *_Atomic override; /* NULL: it was removed */
};

/* Open addressing: the home of a hash is homes x hash / 2^64, rounded down, so the number of homes
 * is what the table needs, and not the next power of two. There is no wrapping around, but room
 * behind the last home. So the slots are in the order of hashes, except within clusters, and a
 * listing can go on in a table of another size. */
struct weir__override_table {
    uint64_t homes, slots, filled; /* filled: slots that are not empty */
    struct weir__override_slot slot[];
};

/* The overrides of a whole set, one behind the other: so they have no gaps, and go as one. */
struct weir__override_block {
    size_t bytes; /* of the overrides */
    _Alignas(16) unsigned char at[];
};

/* The lengths of all prefixes, the longest first. While a whole set is replaced there are those of
 * both sets. */
struct weir__prefix_lengths {
    int n;
    uint32_t length[2 * WEIR_PREFIX_LENGTHS];
};

struct weir__overrides {
    struct weir__override_table *_Atomic table;   /* NULL: none */
    struct weir__prefix_lengths *_Atomic lengths; /* NULL: none */
    struct weir__key_list *_Atomic list[2];       /* by enum weir_list; NULL: empty */

    /* Grows with each change, while the changed key is locked: a decision that finds another number
     * once its key is locked starts again. */
    _Atomic uint64_t changes;

    /* Under the store's lock. */
    uint64_t n, prefixes;
    uint32_t of_length[WEIR_PREFIX_LENGTHS], count[WEIR_PREFIX_LENGTHS]; /* count 0: unused */
    struct weir__override_block *block;                                  /* NULL: none */
    size_t loose; /* bytes of overrides outside of it */
    size_t idle;  /* bytes in it of overrides that are gone */
};

/* The hash under which the override of a key is found, of the key's hash; and that of a prefix. */
static inline uint64_t weir__override_hash(uint64_t hash)
{
    return hash ? hash : 1;
}

uint64_t weir__prefix_hash(const struct weir__store *s, const void *prefix, size_t len);

static inline uint64_t weir__override_home(const struct weir__override_table *t, uint64_t hash)
{
    return (uint64_t)((weir__u128)hash * t->homes >> 64);
}

/* The override that is found under the hash, or NULL. */
static inline struct weir__override *weir__override_find(const struct weir__override_table *t,
                                                         uint64_t hash)
{
    for (uint64_t i = weir__override_home(t, hash); i < t->slots; i++) {
        const uint64_t there = atomic_load_explicit(&t->slot[i].hash, memory_order_acquire);

        if (there == hash)
            return atomic_load_explicit(&t->slot[i].override, memory_order_acquire);
        if (there == 0)
            break;
    }
    return NULL;
}

/* Room for the own limits of the keys of one decision. weir__own_begin starts with none;
 * weir__own_end frees what a remote store has made for them. */
#define WEIR__OWN_ROOM \
    (WEIR_TERMS_MAX * (sizeof(struct weir__revision) + sizeof(struct weir__compiled_term)))

struct weir__own {
    int n;
    size_t used;
    struct weir__revision *made[WEIR_TERMS_MAX];
    _Alignas(16) unsigned char room[WEIR__OWN_ROOM];
};
static_assert(sizeof(struct weir__revision) % 16 == 0 &&
                  sizeof(struct weir__compiled_term) % 16 == 0,
              "revisions follow each other without a gap");

static inline void weir__own_begin(struct weir__own *own)
{
    own->n = 0;
    own->used = 0;
}

void weir__own_end(struct weir__own *own);

/* The revision for an override (NULL: none), which is found under that hash; or the revision
 * itself, if the override is not in force. */
struct weir__revision *weir__own_of(struct weir__own *own, struct weir__revision *rev,
                                    const struct weir__override *o, uint64_t found);
/* The same for the terms of a limit that comes with a request, or NULL if it does not fit. */
struct weir__revision *weir__own_compile(struct weir__own *own, struct weir__revision *rev,
                                         const struct weir_term *term, int n);

/* The limit that judges the key: its override, made in *own; or the revision itself. `key` is the
 * key's hash. */
struct weir__revision *weir__override_for(struct weir__revision *rev, const void *key,
                                          size_t key_len, uint64_t hash, struct weir__own *own);

static inline struct weir__revision *weir__revision_for(struct weir__revision *rev,
                                                        const struct weir_request *rq,
                                                        uint64_t hash, struct weir__own *own)
{
    return rev->overrides ? weir__override_for(rev, rq->key, rq->key_len, hash, own) : rev;
}

/* The same for a caller that entered or took before, and does not have the key: `found` says which
 * override judged it then (0: none), `key` is its hash if that mattered (0: it did not), and it has
 * the key's fingerprint under the term of that index. */
struct weir__revision *weir__override_since(struct weir__revision *rev, uint64_t found,
                                            uint64_t key, uint64_t fingerprint, uint32_t index,
                                            struct weir__own *own);

static inline struct weir__revision *weir__revision_since(struct weir__revision *rev,
                                                          uint64_t found, uint64_t key,
                                                          uint64_t fingerprint, uint32_t index,
                                                          struct weir__own *own)
{
    return rev->overrides ? weir__override_since(rev, found, key, fingerprint, index, own) : rev;
}

/* A term of the limit that judges a key: `by`, in a revision in force. */
static inline struct weir__compiled_term *weir__term_of(struct weir__revision *rev,
                                                        struct weir__revision *by, uint32_t index)
{
    struct weir__compiled_term *c = &by->term[index];

    return c->meter.term.algorithm == WEIR_SYSTEM ? &rev->term[index] : c;
}

/* Whether the key is on the list of the revision's policy. */
static inline bool weir__revision_lists(const struct weir__revision *rev, enum weir_list which,
                                        const struct weir_request *rq, uint64_t hash)
{
    return rev->overrides && weir__key_list_has(atomic_load_explicit(&rev->overrides->list[which],
                                                                     memory_order_acquire),
                                                rq->key, rq->key_len, hash);
}

/* Whether there is anything that a decision must look at. The caller holds the store's lock. */
static inline bool weir__overrides_any(const struct weir__overrides *x)
{
    return x && (x->n > 0 || atomic_load(&x->list[0]) || atomic_load(&x->list[1]));
}

/* No thread reads them any more. NULL is allowed. */
void weir__overrides_close(struct weir__overrides *x);

/* The override of a prefix that judges a key without an override of its own; or the revision. */
struct weir__revision *weir__override_by_prefix(struct weir__revision *rev, const void *key,
                                                size_t key_len, struct weir__own *own);
/* The limit of an override. */
void weir__override_limit(const struct weir__override *o, struct weir_limit *limit);
/* Whether the limit has the shape of the policy's. Returns 0; or an error, and fills *why. */
int weir__override_check(struct weir_policy *p, const struct weir_limit *limit,
                         struct weir_diag *why);

/* ---- Packed limits (override_pack.c) ------------------------------------------------------- */

/* The bytes that the terms take; written if they fit into cap. */
size_t weir__terms_pack(const struct weir_term *term, int n, unsigned char *out, size_t cap);
/* Reads one term. Returns the bytes behind it. */
const unsigned char *weir__term_unpack(const unsigned char *at, struct weir_term *term);

#endif
