/* What waits: a question whose answer is held back. For the files that delayed.c is made of:
 *
 *     delayed.c        asking, holding, answering
 *     delayed_heap.c   a worker's holds by the time they are due
 *     wait_lists.c     those who wait for the same key of a window, in the order they came
 *     reservations.c   reservations that were answered, by the names their connections gave them
 */
#ifndef WEIR_SERVER_DELAYED_DELAYED_H
#define WEIR_SERVER_DELAYED_DELAYED_H

#include "engine/embed.h"
#include "server/internal.h"

struct delayed_reply {
    struct conn *conn;
    struct segment *segment;
    struct limit_op op;                /* its key and name lie behind the struct */
    struct delayed_reply *next, *prev; /* of the connection */
    int64_t due_ns, deadline_ns, granted_ns;
    int64_t act_ns; /* once it is granted */
    size_t at;      /* in the heap */
    bool granted;
    struct weir__retry again;
    struct weir_verdict verdict;
    struct weir_reservation reservation;

    /* In a line; under its lock. */
    bool in_list, ready;
    uint64_t identity; /* of the limit and the key */
    struct delayed_reply *before, *behind, *next_ready;
    char text[];
};

/* ---- By time (delayed_heap.c) ------------------------------------------------------------------ */

bool delayed_heap_add(struct worker *w, struct delayed_reply *h); /* false: no memory */
void delayed_heap_remove(struct worker *w, struct delayed_reply *h);
/* Changes when it is due. */
void delayed_set_due(struct delayed_reply *h, int64_t due_ns);

/* ---- In line (wait_lists.c) -------------------------------------------------------------------- */

/* Joins its line, if it is not in it yet: whether it is the first for its key. */
bool wait_list_join(struct wait_lists *l, struct delayed_reply *h);
/* Leaves it, and calls the next. */
void wait_list_leave(struct wait_lists *l, struct delayed_reply *h);
bool wait_list_has(struct wait_lists *l, const struct delayed_reply *h); /* one for the same key */
/* One of the worker's whose turn has come, or NULL. */
struct delayed_reply *wait_list_next_ready(struct worker *w);

/* ---- By name (reservations.c) ------------------------------------------------------------------ */

/* Whether one more may be named; asked before anything is taken. */
bool reservation_has_room(struct conn *c, const struct limit_op *q);
/* Keeps what was granted under its name. The latest of a name is the one that counts. */
void reservation_keep(struct delayed_reply *h);
/* Gives back what the name stands for; false: nothing. */
bool reservation_cancel(struct conn *c, struct weir__slice name, int64_t *back);
/* Gives back all that has a name. */
void reservation_abandon(struct conn *c);

#endif
