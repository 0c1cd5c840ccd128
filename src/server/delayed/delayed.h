/* Delayed replies: operations whose reply waits for their turn. For the files of this folder:
 *
 *     delayed.c        waiting, and replying
 *     reservations.c   takes that a client has named (AS): kept until they act, are cancelled, or
 *                      the client leaves
 *     deferred.c       replies that are worked out in steps
 */
#ifndef WEIR_SERVER_DELAYED_DELAYED_H
#define WEIR_SERVER_DELAYED_DELAYED_H

#include "engine/embed.h"
#include "server/internal.h"

struct delayed_reply {
    struct weir__waiter waiter; /* first */
    struct remote_question question;
    bool charges; /* the question is to take */
    struct worker *worker;
    struct conn *conn; /* NULL: it has left, and the question under way is the last */
    struct segment *segment;
    struct limit_op op;                /* its key and name lie behind the struct */
    struct delayed_reply *next, *prev; /* in the connection's list */
    struct due_item due;               /* in the worker's heap */
    int64_t granted_ns;
    int64_t act_ns;  /* once it is granted */
    int64_t poll_ns; /* when it is answered with what remains; INT64_MAX: never */
    bool granted;
    union {
        struct weir_reservation reservation; /* of a take */
        struct weir_ticket entered;          /* of an entry */
    };

    bool ready; /* it was woken; under the worker's ready_lock, like the next */
    struct delayed_reply *next_ready;
    char text[];
};

/* ---- By name (reservations.c) ---------------------------------------------------------------- */

/* True if the connection may name one more; checked before anything is taken. */
bool reservation_has_room(struct conn *c, const struct limit_op *op);
/* Takes once, and replies. `full`: the operation should be delayed, but no more replies can be; so
 * it succeeds now or not at all, and it is an error only if waiting would have helped. */
void reservation_take(struct conn *c, const struct limit_op *op, bool full);
/* Keeps the grant under its name. The latest grant of a name replaces earlier ones. */
void reservation_keep(struct conn *c, const struct limit_op *op,
                      const struct weir_reservation *taken, int64_t act_ns);
/* True if a take of that name is under way to a remote store. */
bool reservation_is_asked(const struct conn *c, struct weir__slice name);
/* Gives back the reservation of that name and replies; false: there is none. */
bool reservation_cancel(struct conn *c, struct weir__slice name, op_reply *reply);
/* Gives back a reservation and replies with what was returned. */
void reservation_undo(struct conn *c, const struct limit *limit, struct weir_reservation *taken,
                      op_reply *reply);
/* Gives back every named reservation. */
void reservation_abandon(struct conn *c);

#endif
