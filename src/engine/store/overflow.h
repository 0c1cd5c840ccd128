/* Keys without a place: who gets one, whose place goes, and what is decided without.
 *
 * A key that is not in its table either owes nothing or gave up its place, and then what it owes is in its
 * two overflow cells (table/cells.h). It is judged by the cell that owes less. If it is charged it gets a
 * free place; or that of a live key, which is joined into its own cells; or none, and is charged in its
 * cells.
 *
 * Whose place goes. Of the live keys in the two buckets, and the newcomer itself:
 *   (1) keys of limits that hold more than their part of the table, and more of it than the newcomer's limit
 *       does of its own (parts are by keys= or equal, among the limits that have keys here; how full they are
 *       says survey.h), so that a flood under one limit leaves the keys of others alone; if there is none,
 *       the keys of the newcomer's own limit and the newcomer itself;
 *   (2) of those, the key whose cells change least if it is joined: one that owes about what its cells owe
 *       already. If that is the newcomer, it gets no place.
 * Never a key that owes more than one whole limit (a far reservation), for that would shut its cells; nor
 * one whose states cannot be joined (guards), or whose limit this process does not know. If no place can be
 * had, and the newcomer cannot go without, the store is full.
 */
#ifndef WEIR_ENGINE_STORE_OVERFLOW_H
#define WEIR_ENGINE_STORE_OVERFLOW_H

#include "engine/engine.h"

/* A key without a place, whose buckets are locked. */
struct weir__newcomer {
    struct weir *w;
    struct weir_policy *policy;
    struct weir__revision *revision;
    struct weir__clause *clause;
    struct weir__owner *owner;
    uint64_t fingerprint;
    struct weir__access *hold;
    struct weir__spared spared;   /* who keeps its place in any case */
    struct weir__cell_pair cells; /* valid if `locked` */
    bool locked;                  /* its cells are */
    int lesser;                   /* which of them owes less: it is charged in that one */
    struct weir__state *base;     /* that one, if it binds; NULL: the key owes nothing */
    struct weir__attempt ask;
    uint32_t owes; /* what it would owe, in 1/1024 of its limit */
    bool
        ignores_parts; /* it may take the place of any limit's key, however full that limit's part is */
};

/* Begins with the request as it was asked. */
struct weir__newcomer weir__newcomer_of(struct weir *w, struct weir_policy *p,
                                        struct weir__revision *e, struct weir__clause *c,
                                        struct weir__owner *seat, uint64_t fingerprint,
                                        struct weir__access *hold, const struct weir__attempt *ask);

/* Locks the cells of n newcomers, of those that have cells alive (or all of them), and finds what binds
 * them. 0, WEIR__STALE if a limit has changed, or the error of the seat's patience; then no cell is locked. */
int weir__newcomers_bind(struct weir__newcomer *n, int count, bool all,
                         struct weir__cell_locks *held);

/* A place for the newcomer: its state is what binds it. NULL, and *free_ns as weir__table_make has it: there is
 * none. */
struct weir__state *weir__newcomer_place(struct weir__newcomer *n, struct weir__cell_locks *held,
                                         int64_t *free_ns);
/* Whether weir__newcomer_place would have one; *free_ns if not. */
bool weir__newcomer_has_place(struct weir__newcomer *n, int64_t *free_ns);
/* Whether it may be charged in its cells instead. What it would owe has been reckoned. */
bool weir__newcomer_overflows(const struct weir__newcomer *n);
/* What the newcomer would owe if it were charged. */
void weir__newcomer_weigh(struct weir__newcomer *n);

/* The cell that it is to be charged in, noted; they are locked. */
struct weir__state *weir__newcomer_cell(struct weir__newcomer *n);
/* Both of its cells keep what it owes after it was charged: in that cell, or in a copy. */
void weir__newcomer_keep(struct weir__newcomer *n, struct weir__state *charged);
/* Its cells, if they are not locked yet. 0, WEIR__STALE or an error. */
int weir__newcomer_lock(struct weir__newcomer *n, struct weir__cell_locks *held);

/* Says in the verdict, and counts, that it was judged by cells. */
void weir__newcomer_report(const struct weir__newcomer *n, bool counted, struct weir_verdict *v);

/* The callback by which a growing table keeps what displaced keys owe: in their cells. */
struct weir__rescue weir__rescue_of(struct weir *w);

/* What is done for newcomers of the term when its table is full. */
static inline enum weir_full weir__clause_full(const struct weir *w, const struct weir__clause *c)
{
    const enum weir_full full =
        c->meter.term.full ? (enum weir_full)(c->meter.term.full - 1) : w->full;

    /* Anonymous limits have no cells: they cannot evict. */
    if (full == WEIR_FULL_EVICT && weir__class_is_anonymous((uint32_t)c->placing.size_class))
        return WEIR_FULL_DENY;
    return full;
}

#endif
