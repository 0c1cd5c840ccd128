/* An edition: one version of a limit, made ready to decide by, and the versions before it.
 *
 * It is made when a limit is set, and then only read: whoever replaces it waits for its readers
 * (readers.h) before freeing it. The one thing that changes is a cache of the calendar window.
 */
#ifndef WEIR_ENGINE_POLICY_REVISION_H
#define WEIR_ENGINE_POLICY_REVISION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "algo/algo.h"
#include "limit/zone.h"
#include "table/cells.h"

#define WEIR__VERSIONS_KEPT 8

struct weir__overrides;
struct weir_policy;

/* The clock window that was asked for last: [from_ns, edge_ns), for a calendar that is ahead_ns ahead
 * of the clock. `turn` is odd while it is written. */
struct weir__window {
    _Atomic uint32_t turn;
    _Atomic int64_t from_ns, edge_ns, ahead_ns;
};

/* Where the keys of a term are kept: the class of its table, and its overflow cells there (none: 0). */
struct weir__placing {
    uint64_t size_class, cells, cells_at;
};

/* One term of the limit. */
struct weir__clause {
    struct weir__meter meter;
    struct weir__zone *zone;
    struct weir__window window;
    int64_t patience_ns; /* of a caller who does not say */

    /* In an engine: whose keys these are, and where they are kept. */
    uint64_t scope, secret[2];
    struct weir__table *table;
    struct weir__placing placing;
    struct weir__cells cells;        /* without a head: the term has none */
    struct weir__revision *revision; /* whose clause this is */
    _Atomic uint64_t survey;         /* how many places its keys hold, about (survey.h) */
};

/* The queue before a limit's permits, all terms together. */
struct weir__wait_options {
    int64_t room;        /* how many may wait; 0: nobody   */
    int64_t max_wait_ns; /* how long at most               */
    int64_t lease_ns;    /* the longest lease; 0: none     */
    int term;            /* the first that has a queue     */
};

struct weir__revision {
    struct weir__revision *older;
    struct weir_policy *policy; /* in an engine: whose edition this is, once it is in force */
    uint32_t generation;        /* in an engine: of the record that this was read from */
    int n;
    bool lone;       /* one term, not a shadow, for all keys: its verdict is the term's own */
    bool plain;      /* that, and a rate */
    bool guards;     /* some term is a guard */
    bool needs_load; /* some term looks at what the system is doing */
    struct weir__wait_options line;
    struct weir__overrides *overrides; /* in an engine: for some keys; NULL: for none */
    _Atomic(void *) plan; /* a far store's (far.h): made when first needed; NULL: not yet */
    void (*_Atomic plan_close)(void *plan);
    unsigned char chain[WEIR_TERMS_MAX]; /* the terms in the order in which they are asked */
    struct weir__clause clause[];
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

/* Whether the version is as it was written, and something that can have been written: a limit that the
 * grammar accepts, versions and times within their ranges. */
bool weir__version_is_sound(const struct weir__version *v);
/* Writes the checksum of a version that was changed. */
void weir__version_seal(struct weir__version *v);

/* The limit from now_ns on; after `older`, unless NULL, which then belongs to the new one. wall_ns is
 * what the calendar says now. 0, WEIR_ENOZONE or WEIR_ENOMEM, and then older is still the caller's. */
int weir__revision_open(struct weir__revision **e, const struct weir_limit *limit,
                        struct weir__revision *older, int64_t now_ns, int64_t wall_ns);
/* The edition that was kept as this version. */
int weir__revision_load(struct weir__revision **e, const struct weir__version *v,
                        struct weir__revision *older);
void weir__revision_dump(const struct weir__revision *e, struct weir__version *v);
/* Frees it and all older ones. NULL is fine. */
void weir__revision_close(struct weir__revision *e);

/* A copy of the newest `versions` of them; NULL of NULL or none. An edition is never changed: a new
 * version stands on a copy of those before it, and the old row goes when its readers have gone. */
int weir__revision_copy(struct weir__revision **out, const struct weir__revision *e, int versions);

/* Reckons what follows from its terms, once they and the exceptions are there. */
void weir__revision_derive(struct weir__revision *e);

/* The limit that the edition was made from. */
void weir__revision_limit(const struct weir__revision *e, struct weir_limit *limit);

/* When the clock window that holds now_ns ends; wall_ns is what the calendar says then. */
int64_t weir__clause_edge(struct weir__clause *c, int64_t now_ns, int64_t wall_ns);

/* A request to one term. */
static inline struct weir__attempt weir__clause_ask(struct weir__clause *c, int64_t cost,
                                                    int64_t patience_ns, int64_t now_ns,
                                                    int64_t wall_ns)
{
    return (struct weir__attempt){
        .cost = cost,
        .patience_ns = patience_ns == WEIR_WAIT_DEFAULT ? c->patience_ns : patience_ns,
        .now_ns = now_ns,
        .edge_ns =
            c->meter.term.align == WEIR_ALIGN_CLOCK ? weir__clause_edge(c, now_ns, wall_ns) : 0,
    };
}

#endif
