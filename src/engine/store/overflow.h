/* Overflow: keys without a place. Which key gets one, which key gives up its place, and how a key
 * without a place is judged.
 *
 * A key that is not in its table either owes nothing, or has given up its place: its debt is then
 * in its two overflow cells (table/cells.h). It is judged by the cell that owes less. If it is
 * charged, it gets a free place; or the place of a live key, which is joined into its own cells; or
 * no place, and is charged in its cells.
 *
 * The rule for giving up a place. Among the live keys in the two buckets, and the newcomer itself:
 *   (1) Candidates are the keys of limits that hold more than their part of the table, and hold
 *       more of it, relative to their part, than the newcomer's limit does. (Parts are by keys= or
 *       equal, among the limits that have keys here; survey.h says how full they are.) So a flood
 *       under one limit leaves the keys of others alone. If there is no such key, the candidates
 *       are the keys of the newcomer's own limit and the newcomer itself.
 *   (2) Among the candidates, the key whose cells change least when it is joined gives up its
 *       place: a key that owes about what its cells owe already. If that is the newcomer, it gets
 *       no place.
 * Some keys never give up their place: a key that owes more than one whole limit (a reservation far
 * in the future), because it would close its cells to others; a key whose states cannot be joined
 * (guards); and a key whose limit this process does not know. If there is no place, and the
 * newcomer needs one, the store is full.
 */
#ifndef WEIR_ENGINE_STORE_OVERFLOW_H
#define WEIR_ENGINE_STORE_OVERFLOW_H

#include "engine/engine.h"

/* A newcomer: a key without a place, whose buckets are locked. */
struct weir__newcomer {
    struct weir *w;
    struct weir_policy *policy;
    struct weir__revision *revision;
    struct weir__compiled_term *term;
    struct weir__owner *owner;
    uint64_t fingerprint;
    struct weir__access *access;
    struct weir__spared spared;   /* keys that keep their place in any case */
    struct weir__cell_pair cells; /* valid if `locked` */
    bool locked;                  /* its cells are locked */
    int lesser;                   /* the cell that owes less: the key is charged there */
    struct weir__state *base;     /* that cell, if it is live; NULL: the key owes nothing */
    struct weir__attempt attempt;
    bool charges;       /* it is charged without asking, not taken from */
    uint32_t owes;      /* its debt if it were charged, in 1/1024 of its limit */
    bool ignores_parts; /* it may take the place of a key of any limit, however full that part is */
};

/* A newcomer for a request, with nothing locked or weighed yet. */
struct weir__newcomer weir__newcomer_of(struct weir *w, struct weir_policy *p,
                                        struct weir__revision *e, struct weir__compiled_term *c,
                                        struct weir__owner *owner, uint64_t fingerprint,
                                        struct weir__access *access,
                                        const struct weir__attempt *attempt);

/* Locks the cells of the newcomers that have live cells (or of all of them), and finds the cell
 * that judges each. Returns 0; or, with no cell locked, WEIR__STALE if a limit has changed, or the
 * error with which the owner gave up waiting for a lock. */
int weir__newcomers_bind(struct weir__newcomer *n, int count, bool all,
                         struct weir__cell_locks *held);

/* A place for the newcomer, with the state by which it is judged. NULL: there is none, and *free_ns
 * is set as by weir__table_make. */
struct weir__state *weir__newcomer_place(struct weir__newcomer *n, struct weir__cell_locks *held,
                                         int64_t *free_ns);
/* Whether weir__newcomer_place would find a place; if not, *free_ns is set. */
bool weir__newcomer_has_place(struct weir__newcomer *n, int64_t *free_ns);
/* Whether the newcomer may be charged in its cells instead. weir__newcomer_weigh has been
 * called. */
bool weir__newcomer_overflows(const struct weir__newcomer *n);
/* Computes `owes`: the debt of the newcomer if it were charged. */
void weir__newcomer_weigh(struct weir__newcomer *n);

/* The cell in which the newcomer is to be charged, noted in the journal. The cells are locked. */
struct weir__state *weir__newcomer_cell(struct weir__newcomer *n);
/* Records the debt of a charged newcomer in both of its cells. It was charged in its lesser cell,
 * or in a copy. */
void weir__newcomer_keep(struct weir__newcomer *n, struct weir__state *charged);
/* Locks the cells of the newcomer, if they are not locked yet. 0, WEIR__STALE or an error. */
int weir__newcomer_lock(struct weir__newcomer *n, struct weir__cell_locks *held);

/* Records in the verdict and in the counters that the key was judged by its cells. */
void weir__newcomer_report(const struct weir__newcomer *n, bool counted, struct weir_verdict *v);

/* The callback by which a growing table keeps the debt of displaced keys: in their cells. */
struct weir__rescue weir__rescue_of(struct weir *w);

/* What newcomers of the term get when its table is full. */
static inline enum weir_full weir__term_full(const struct weir *w,
                                             const struct weir__compiled_term *c)
{
    const enum weir_full full =
        c->meter.term.full ? (enum weir_full)(c->meter.term.full - 1) : w->full;

    /* Anonymous limits have no cells: they cannot evict. */
    if (full == WEIR_FULL_EVICT && weir__class_is_anonymous((uint32_t)c->placing.size_class))
        return WEIR_FULL_DENY;
    return full;
}

#endif
