/* A revision: one version of a limit, compiled for decisions, and the versions before it.
 *
 * It is created when a limit is set, and then only read: a thread that replaces it waits for a
 * grace period (rcu.h) before it frees it. The only part that changes is a cache of the calendar
 * window.
 */
#ifndef WEIR_ENGINE_POLICY_REVISION_H
#define WEIR_ENGINE_POLICY_REVISION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "algo/algo.h"
#include "engine/waiter.h"
#include "limit/zone.h"
#include "table/cells.h"

#define WEIR__VERSIONS_KEPT 8

struct weir__overrides;
struct weir_policy;

/* The clock window that was used last: [from_ns, edge_ns), for a calendar that is ahead_ns ahead of
 * the clock. `sequence` is odd while a thread writes it. */
struct weir__window {
    struct weir__zone *zone; /* by whose clocks it begins and ends */
    _Atomic uint32_t sequence;
    _Atomic int64_t from_ns, edge_ns, ahead_ns;
};

/* Where the keys of a term are kept: the class of its table, and its overflow cells there (0:
 * none). */
struct weir__placing {
    uint64_t size_class, cells, cells_at;
};

/* A compiled term: one term of the limit, ready to decide by. */
struct weir__compiled_term {
    struct weir__meter meter;
    struct weir__window *window; /* align=clock: the window that holds now; else NULL */
    int64_t patience_ns;         /* for a caller that gives none */

    /* In an engine: the scope of the keys, and where they are kept. */
    uint64_t scope, secret[2];
    struct weir__table *table;
    struct weir__placing placing;
    struct weir__cells cells;        /* if it has no head, the term has no cells */
    struct weir__revision *revision; /* the revision that has this term */
    _Atomic uint64_t survey;         /* the places that its keys hold, estimated (survey.h) */
};

struct weir__revision {
    struct weir__revision *older;
    struct weir_policy *policy; /* in an engine: the policy, once this is in force */
    uint32_t generation;        /* in an engine: of the record that this was read from */
    uint8_t n;                  /* terms */
    bool lone : 1;       /* one term, not a shadow, for all keys: its verdict is the term's own */
    bool plain : 1;      /* that, and a rate without warn= and block= */
    bool guards : 1;     /* some term is a guard */
    bool needs_load : 1; /* some term needs the load of the system */
    uint16_t of_node;    /* the terms that look at one machine: a bit for each, by its index */
    struct weir__wait_options wait;
    struct weir__overrides *overrides; /* in an engine: the policy's; NULL: it has none */
    uint64_t found;       /* a key's own limit: the hash under which its override is found */
    _Atomic(void *) plan; /* a remote store's (remote.h), made on first use; NULL: not yet */
    void (*_Atomic plan_close)(void *plan);
    unsigned char chain[WEIR_TERMS_MAX]; /* the terms in the order in which the engine asks them */
    struct weir__compiled_term term[];
};

/* A version as a store keeps it: plain bytes. */
struct weir__version {
    int64_t n;
    uint64_t scope[WEIR_TERMS_MAX];
    struct weir__placing placing[WEIR_TERMS_MAX];
    struct weir__past past[WEIR_TERMS_MAX];
    struct weir_term term[WEIR_TERMS_MAX];
    uint64_t check; /* of all above */
};

/* Whether the version is intact (its checksum is right) and valid: the grammar accepts its limit,
 * and its versions and times are within their ranges. */
bool weir__version_is_sound(const struct weir__version *v);
/* Writes the checksum of a version that was changed. */
void weir__version_seal(struct weir__version *v);

/* Creates the revision of a limit that is in force from now_ns on, after `older`, unless that is
 * NULL. wall_ns is the time for calendars. Returns 0, and the new revision owns `older`; or returns
 * WEIR_ENOZONE or WEIR_ENOMEM, and the caller still owns it. */
int weir__revision_open(struct weir__revision **rev, const struct weir_limit *limit,
                        struct weir__revision *older, int64_t now_ns, int64_t wall_ns);
/* Loads the revision that a store keeps as this version. */
int weir__revision_load(struct weir__revision **rev, const struct weir__version *v,
                        struct weir__revision *older);
void weir__revision_dump(const struct weir__revision *rev, struct weir__version *v);
/* Frees the revision and all older ones. NULL is allowed. */
void weir__revision_close(struct weir__revision *rev);

/* Copies the newest `versions` of them; the copy of NULL, or of none, is NULL. A revision is never
 * changed: a new version is put in front of a copy of the versions before it, and the old chain is
 * freed after a grace period. */
int weir__revision_copy(struct weir__revision **out, const struct weir__revision *rev,
                        int versions);

/* Computes the fields that follow from the terms and the overrides, once both are set. */
void weir__revision_derive(struct weir__revision *rev);

/* The limit from which the revision was made. */
void weir__revision_limit(const struct weir__revision *rev, struct weir_limit *limit);

/* The end of the clock window that contains now_ns; wall_ns is the same time for calendars. */
int64_t weir__term_edge(struct weir__compiled_term *c, int64_t now_ns, int64_t wall_ns);

/* A request to one term. */
static inline struct weir__attempt weir__term_attempt(struct weir__compiled_term *c, int64_t cost,
                                                      int64_t patience_ns, int64_t now_ns,
                                                      int64_t wall_ns)
{
    return (struct weir__attempt){
        .cost = cost,
        .patience_ns = patience_ns == WEIR_WAIT_DEFAULT ? c->patience_ns : patience_ns,
        .now_ns = now_ns,
        .edge_ns =
            c->meter.term.align == WEIR_ALIGN_CLOCK ? weir__term_edge(c, now_ns, wall_ns) : 0,
    };
}

#endif
