/* Keys that a policy treats otherwise: those it lets pass, those it refuses, and those that have a limit
 * of their own ("this customer has ten times as much").
 *
 * A policy's *lists* are what was set, kept under the store's lock. What deciders read are the
 * *exceptions* of an edition, made of the lists for that edition and never changed: who sets a list
 * publishes a copy of the edition with other exceptions, and the old one goes when its readers have
 * gone, as with every live change. So an edition in force tells everything about a key, and whoever
 * finds, once the key is locked, that it is not in force any more begins anew.
 *
 * Keys are kept as hashes under the store's secret: 8 bytes each however long they are, and nobody can
 * choose one that meets another.
 *
 * Invariants:
 *   (1) A key with a limit of its own has the same states as without: same scope, same places, same
 *       layout. They are rewritten when the limit of its own comes, changes or goes, under the key's
 *       lock, in the moment in which the edition changes.
 *   (2) Its states carry the versions of the policy's own limit. So a change of that one leaves them as
 *       they are, unless it starts all keys fresh.
 *   (3) A limit that no longer has the shape of the policy's is out of force, and comes back with it.
 *   (4) Lists are this process's: in a file that others share, they have their own.
 *   (5) `system` is one for all keys, and judged by the policy's own limit whoever asks.
 */
#ifndef WEIR_ENGINE_POLICY_OVERRIDES_H
#define WEIR_ENGINE_POLICY_OVERRIDES_H

#include <stdbool.h>
#include <stdint.h>

#include <weir.h>

#include "engine/policy/revision.h"

/* Hashes, found by looking from where a hash says on; 0 is an empty slot. */
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

/* The limit of a key's own. Editions that follow each other share it while the policy's limit is the
 * same. */
struct weir__override {
    _Atomic uint32_t holders;
    const struct weir_term *term;         /* of the rule it was made from */
    uint64_t fingerprint[WEIR_TERMS_MAX]; /* of the key under each term */
    struct weir__revision *revision;
};

struct weir__override_slot {
    uint64_t key; /* 0: an empty slot */
    struct weir__override *own;
};

struct weir__overrides {
    const struct weir__key_set *list[2]; /* by enum weir_list; the policy's */
    struct weir__key_set *own; /* fingerprints of keys with limits of their own; or NULL */
    uint64_t n, mask;
    struct weir__override_slot slot[];
};

/* The limit that judges the key: its own, or that of the edition. */
static inline struct weir__revision *weir__revision_for(struct weir__revision *e, uint64_t key)
{
    const struct weir__overrides *x = e->overrides;

    if (!x || x->n == 0)
        return e;
    key = key ? key : 1;
    for (uint64_t i = key & x->mask;; i = (i + 1) & x->mask) {
        if (x->slot[i].key == key)
            return x->slot[i].own->revision;
        if (x->slot[i].key == 0)
            return e;
    }
}

/* The same of one who entered or took before, and knows the key's hash only if it mattered then (0: it did
 * not). It knows where the key's state is, under the term of that index. */
struct weir__revision *weir__revision_by_fingerprint(struct weir__revision *e, uint64_t fingerprint,
                                                     uint32_t index);

static inline struct weir__revision *weir__revision_since(struct weir__revision *e, uint64_t key,
                                                          uint64_t fingerprint, uint32_t index)
{
    if (key != 0 || !e->overrides)
        return weir__revision_for(e, key);
    return weir__revision_by_fingerprint(e, fingerprint, index);
}

/* Whether a state of that fingerprint belongs to a key with a limit of its own. */
static inline bool weir__overrides_has(const struct weir__overrides *x, uint64_t fingerprint)
{
    return x && weir__key_set_has(x->own, fingerprint);
}

/* A term of the limit that judges a key: `by`, in an edition in force. */
static inline struct weir__clause *weir__clause_of(struct weir__revision *e,
                                                   struct weir__revision *by, uint32_t index)
{
    struct weir__clause *c = &by->clause[index];

    return c->meter.term.algorithm == WEIR_SYSTEM ? &e->clause[index] : c;
}

static inline bool weir__revision_lists(const struct weir__revision *e, enum weir_list which,
                                        uint64_t key)
{
    return e->overrides && weir__key_set_has(e->overrides->list[which], key);
}

/* What was set. */
struct weir__lists {
    struct weir__key_set *list[2];
    size_t n, cap;
    struct weir__override_spec {
        uint64_t key;
        struct weir_term *term; /* [n] */
        int n;
        unsigned char *bytes; /* of the key: a policy that begins anew hashes it otherwise */
        size_t len;
    } * rule;
};

void weir__lists_close(struct weir__lists *l);

/* Gives the edition, which is placed, the exceptions that follow from the lists (NULL: none). `like` are
 * those of an edition that differs in nothing else, or NULL. */
int weir__overrides_open(struct weir__revision *e, const struct weir__lists *l,
                         const struct weir__overrides *like);
void weir__overrides_close(struct weir__overrides *x);

#endif
