/* What waits: a question whose answer is held back. For the files that wait.c is made of:
 *
 *     wait.c        asking, holding, answering
 *     hold_heap.c   a worker's holds by the time they are due
 *     lines.c       those who wait for the same key of a window, in the order they came
 *     reserved.c    reservations that were answered, by the names their connections gave them
 */
#ifndef WEIR_SERVER_HOLD_H
#define WEIR_SERVER_HOLD_H

#include "engine/wait.h"
#include "server/inside.h"

struct hold {
    struct conn *conn;
    struct segment *segment;
    struct question question; /* its key and name lie behind the struct */
    struct hold *next, *prev; /* of the connection */
    int64_t due_ns, deadline_ns, granted_ns;
    int64_t act_ns; /* once it is granted */
    size_t at;      /* in the heap */
    bool granted;
    struct weir__again again;
    struct weir_verdict verdict;
    struct weir_reservation reservation;

    /* In a line; under its lock. */
    bool in_line, called;
    uint64_t identity; /* of the limit and the key */
    struct hold *before, *behind, *next_called;
    char text[];
};

/* ---- By time (hold_heap.c) --------------------------------------------------------------------- */

bool heap_add(struct worker *w, struct hold *h); /* false: no memory */
void heap_remove(struct worker *w, struct hold *h);
/* Changes when it is due. */
void due_at(struct hold *h, int64_t due_ns);

/* ---- In line (lines.c) ------------------------------------------------------------------------- */

/* Joins its line, if it is not in it yet: whether it is the first for its key. */
bool line_join(struct lines *l, struct hold *h);
/* Leaves it, and calls the next. */
void line_leave(struct lines *l, struct hold *h);
bool line_has(struct lines *l, const struct hold *h); /* one for the same key */
/* One of the worker's whose turn has come, or NULL. */
struct hold *line_called(struct worker *w);

/* ---- By name (reserved.c) ---------------------------------------------------------------------- */

/* Whether one more may be named; asked before anything is taken. */
bool reserved_has_room(struct conn *c, const struct question *q);
/* Keeps what was granted under its name. The latest of a name is the one that counts. */
void reserved_keep(struct hold *h);
/* Gives back what the name stands for; false: nothing. */
bool reserved_cancel(struct conn *c, struct weir__slice name, int64_t *back);
/* Gives back all that has a name. */
void reserved_abandon(struct conn *c);

#endif
