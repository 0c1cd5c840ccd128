/* Tickets: callers that have entered a guard over the wire, until they exit.
 *
 *     tickets.h        what the fronts use
 *     ticket_table.h   what the files of this folder share
 *     ticket_table.c   the open tickets of each worker, by id and by the end of their lease
 *     ticket_enter.c   entering
 *     ticket_exit.c    exiting: by the client, with the lease, with the connection
 *
 * A ticket is open from the grant on. It ends once: by an exit, with its lease, or with its
 * connection if the client asked for that (CONN). The thread that ends it reports the outcome to
 * the limit's guards. Any connection of the daemon may exit it; its id cannot be guessed.
 *
 * Invariants:
 *   (1) A ticket is exited by the one thread that has marked it as ending, under the lock of its
 *       table. So no permit is returned twice, and none that belongs to another ticket.
 *   (2) An exit that the store could not do leaves the ticket open.
 *   (3) Room for a ticket is admitted before the limit is asked, and released when the ticket ends
 *       or the entry is refused (memory.h).
 *   (4) A ticket retains its limit.
 */
#ifndef WEIR_SERVER_TICKETS_TICKETS_H
#define WEIR_SERVER_TICKETS_TICKETS_H

#include "server/batch.h"

#define TICKET_LEASE_NS (60 * WEIR__NS_PER_S) /* unless the limit says otherwise */
/* The most that a client may ask for, of a limit without a lease of its own. */
#define TICKET_LEASE_MOST_NS (INT64_C(86400) * WEIR__NS_PER_S)

/* Bytes of an id, with its NUL: that of a named limit in a Redis carries what another daemon needs
 * to exit it, unless its key is longer than TICKET_KEY. */
#define TICKET_KEY  256
#define TICKET_TEXT (40 + 2 * (24 + 40 + WEIR_NAME_MAX + TICKET_KEY))
/* Of an entry that was granted; its length. */
size_t ticket_print(const struct limit_op *op, char text[TICKET_TEXT]);
/* How long it lasts from the grant on. */
int64_t ticket_ttl_ns(const struct ticket *t);

/* The longest ticket of the limit; *usual: of a client that names no time. */
int64_t ticket_longest_ns(const struct limit *l, int64_t *usual_ns);

/* Enters the operation's limit. op->delayed: the reply waits for a permit. ttl_ns: how long the
 * ticket lasts at most; 0: as long as the limit says. With `tied` it ends with the connection. The
 * reply function gets op->ticket, which is valid until it returns; NULL: refused. */
void ticket_enter(struct conn *c, const struct limit_op *op, int64_t ttl_ns, bool tied);

/* OK, ERROR, DROP or IGNORE, in any case of letters; false: another word. */
bool ticket_outcome(struct weir__slice word, enum weir_outcome *how);
/* Exits the ticket of that id. The reply function gets 0; WEIR_EGONE: there is no such ticket (any
 * more); or the error of the store, and the ticket stays open. Its operation has no limit if there
 * is no such ticket. */
void ticket_exit(struct conn *c, struct weir__slice id, const struct weir__ending *e,
                 uint32_t shape, op_reply *reply);
/* What a client is told of an id that is none. */
#define NO_SUCH_TICKET                                                                        \
    "no such ticket: it was exited, it ended with its lease or its connection, or it is not " \
    "of this daemon"
#define TICKETS_FULL                                                                          \
    "limit reached: too many open tickets, or kept bytes, for this connection, its address, " \
    "its token or the daemon"

#endif
