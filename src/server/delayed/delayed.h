/* Delayed replies: operations whose reply waits for their turn. For the files of this folder:
 *
 *     delayed.c        trying, delaying, replying
 *     delayed_heap.c   a worker's delayed replies by the time they are due
 *     wait_lists.c     the waiters for one key of a window, in the order they came
 *     reservations.c   reservations that were answered, by the names their connections gave them
 *     deferred.c       replies that are worked out in steps
 */
#ifndef WEIR_SERVER_DELAYED_DELAYED_H
#define WEIR_SERVER_DELAYED_DELAYED_H

#include "engine/embed.h"
#include "server/internal.h"

struct delayed_reply {
    struct conn *conn;
    struct segment *segment;
    struct limit_op op;                /* its key and name lie behind the struct */
    struct delayed_reply *next, *prev; /* in the connection's list */
    int64_t due_ns, deadline_ns, granted_ns;
    int64_t act_ns; /* once it is granted */
    size_t at;      /* its index in the heap */
    bool granted;
    struct weir__retry again;
    struct weir_verdict verdict;
    struct weir_reservation reservation;

    /* In a wait list; under the lists' lock. */
    bool in_list, ready;
    uint64_t identity; /* of the limit and the key together */
    struct delayed_reply *before, *behind, *next_ready;
    char text[];
};

/* ---- By time (delayed_heap.c) ---------------------------------------------------------------- */

bool delayed_heap_add(struct worker *w, struct delayed_reply *h); /* false: no memory */
void delayed_heap_remove(struct worker *w, struct delayed_reply *h);
/* Changes its due time. */
void delayed_set_due(struct delayed_reply *h, int64_t due_ns);

/* ---- In wait lists (wait_lists.c) ------------------------------------------------------------ */

/* Joins its wait list unless it is in it already: true if it is the first for its key. */
bool wait_list_join(struct wait_lists *l, struct delayed_reply *h);
/* Leaves the list and wakes the next waiter for the key. */
void wait_list_leave(struct wait_lists *l, struct delayed_reply *h);
/* True if the list has a waiter for the same key. */
bool wait_list_has(struct wait_lists *l, const struct delayed_reply *h);
/* A delayed reply of this worker whose turn has come, or NULL. */
struct delayed_reply *wait_list_next_ready(struct worker *w);

/* ---- By name (reservations.c) ---------------------------------------------------------------- */

/* True if the connection may name one more; checked before anything is taken. */
bool reservation_has_room(struct conn *c, const struct limit_op *op);
/* Keeps the grant under its name. The latest grant of a name replaces earlier ones. */
void reservation_keep(struct delayed_reply *h);
/* Gives back the reservation of that name; false: there is none. */
bool reservation_cancel(struct conn *c, struct weir__slice name, int64_t *back);
/* Gives back every named reservation. */
void reservation_abandon(struct conn *c);

#endif
