/* Overrides: keys that a policy allows, denies, or gives their own limit ("this customer gets ten
 * times as much").
 *
 * A policy's *lists* are what the caller has set, kept under the store's lock. A decision reads the
 * *overrides* of a revision, which are built from the lists for that revision and never changed. A
 * caller that sets a list publishes a copy of the revision with other overrides, and the old one is
 * freed after a grace period, as with every live change. So a revision in force has everything
 * about a key, and a decision that finds, once the key is locked, that its revision is no longer in
 * force starts again.
 *
 * Keys are kept as hashes under the store's secret: 8 bytes for each key of any length, and no
 * client can choose a key that collides with another.
 *
 * Invariants:
 *   (1) A key with an override has the same states as without: same scope, same places, same
 *       layout. They are rewritten when its override is set, changed or removed, under the key's
 *       lock, at the instant at which the revision changes.
 *   (2) Its states carry the versions of the policy's own limit. So a change of that limit leaves
 *       them as they are, unless the change starts all keys fresh.
 *   (3) An override that no longer has the shape of the policy's limit is not in force. It is in
 *       force again once the policy's limit has its shape again.
 *   (4) Lists belong to this process: other processes that share the file have their own.
 *   (5) `system` has one state for all keys, and the policy's own limit judges it for every caller.
 */
#ifndef WEIR_ENGINE_POLICY_OVERRIDES_H
#define WEIR_ENGINE_POLICY_OVERRIDES_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "engine/policy/revision.h"

/* A hash table with open addressing and linear probing; 0 is an empty slot. */
struct weir__key_set {
    uint64_t n, mask;
    uint64_t slot[];
};

static inline bool weir__key_set_has(const struct weir__key_set *s, uint64_t key)
{
    if (!s)
        return false;
    key = key ? key : 1;
    for (uint64_t i = key & s->mask;; i = (i + 1) & s->mask)
        if (s->slot[i] == key || s->slot[i] == 0)
            return s->slot[i] == key;
}

/* The override of one key. Successive revisions share it while the policy's limit is the same. */
struct weir__override {
    _Atomic uint32_t holders;
    const struct weir_term *term;         /* of the rule from which it was made */
    uint64_t fingerprint[WEIR_TERMS_MAX]; /* the key's fingerprint under each term */
    struct weir__revision *revision;
};

struct weir__override_slot {
    uint64_t key; /* 0: an empty slot */
    struct weir__override *override;
};

struct weir__overrides {
    const struct weir__key_set *list[2]; /* by enum weir_list; the policy owns them */
    struct weir__key_set *fingerprints;  /* of keys with overrides; or NULL */
    uint64_t n, mask;
    struct weir__override_slot slot[];
};

/* The limit that judges the key: its override, or the revision's own limit. */
static inline struct weir__revision *weir__revision_for(struct weir__revision *rev, uint64_t key)
{
    const struct weir__overrides *x = rev->overrides;

    if (!x || x->n == 0)
        return rev;
    key = key ? key : 1;
    for (uint64_t i = key & x->mask;; i = (i + 1) & x->mask) {
        if (x->slot[i].key == key)
            return x->slot[i].override->revision;
        if (x->slot[i].key == 0)
            return rev;
    }
}

/* The same for a caller that entered or took before, and has the key's hash only if it mattered
 * then (0: it did not). It has the key's fingerprint under the term of that index. */
struct weir__revision *weir__revision_by_fingerprint(struct weir__revision *rev,
                                                     uint64_t fingerprint, uint32_t index);

static inline struct weir__revision *weir__revision_since(struct weir__revision *rev, uint64_t key,
                                                          uint64_t fingerprint, uint32_t index)
{
    if (key != 0 || !rev->overrides)
        return weir__revision_for(rev, key);
    return weir__revision_by_fingerprint(rev, fingerprint, index);
}

/* Whether a state of that fingerprint belongs to a key with an override. */
static inline bool weir__overrides_has(const struct weir__overrides *x, uint64_t fingerprint)
{
    return x && weir__key_set_has(x->fingerprints, fingerprint);
}

/* A term of the limit that judges a key: `by`, in a revision in force. */
static inline struct weir__compiled_term *weir__term_of(struct weir__revision *rev,
                                                        struct weir__revision *by, uint32_t index)
{
    struct weir__compiled_term *c = &by->term[index];

    return c->meter.term.algorithm == WEIR_SYSTEM ? &rev->term[index] : c;
}

static inline bool weir__revision_lists(const struct weir__revision *rev, enum weir_list which,
                                        uint64_t key)
{
    return rev->overrides && weir__key_set_has(rev->overrides->list[which], key);
}

/* What the caller has set. */
struct weir__lists {
    struct weir__key_set *list[2];
    size_t n, cap;
    struct weir__override_spec {
        uint64_t key;
        struct weir_term *term; /* [n] */
        int n;
        unsigned char *bytes; /* the key: after a change that starts fresh it has another hash */
        size_t len;
    } * rule;
};

void weir__lists_close(struct weir__lists *l);

/* Gives the revision, which is placed, the overrides that follow from the lists (NULL: none).
 * `like` are the overrides of a revision that differs in nothing else, or NULL. */
int weir__overrides_open(struct weir__revision *rev, const struct weir__lists *l,
                         const struct weir__overrides *like);
void weir__overrides_close(struct weir__overrides *x);

#endif
