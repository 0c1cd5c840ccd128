/* Reservations that clients hold: their ids, and how many each may have open.
 *
 * An id names everything that a commit needs: `rNUMBER.LIMIT.KEY`, the number in 16 hexadecimal
 * digits, the limit as the client wrote it, and the key, both percent-encoded. So it is good on
 * every connection, and in every daemon that has the limit and shares its store; the daemon itself
 * keeps nothing but counts. A number that is not of that limit and key finds no reservation.
 *
 * The book counts what this daemon has granted, or sent to a remote store which may grant it, and
 * not seen settled or lapsed, so that each client has a part of two things at most: of all
 * reservations, and of the room that the store has for accounts of keys. One that another daemon
 * settles counts here until it would have lapsed.
 */
#ifndef WEIR_SERVER_ACCOUNT_ACCOUNT_H
#define WEIR_SERVER_ACCOUNT_ACCOUNT_H

#include "server/batch.h"

/* ---- Ids (account_id.c) ---------------------------------------------------------------------- */

/* Bytes that the id of such a limit and key takes at most. */
static inline size_t account_id_room(const struct limit_op *op)
{
    return 20 + 3 * (op->name.len + op->key.len);
}

/* Writes the id of a reservation: op->id, op->name (the limit) and op->key. Returns its end. */
char *account_id_put(char *at, const struct limit_op *op);

/* An id that was read: limit and key are in memory of its own. */
struct account_id {
    uint64_t number;
    struct weir__slice limit, key;
    char *text; /* or NULL */
    char small[256];
};

/* False: it is no id (or there is no memory). In both cases account_id_free follows. */
bool account_id_read(struct account_id *id, struct weir__slice text);
void account_id_free(struct account_id *id);

/* ---- The book (account_book.c) --------------------------------------------------------------- */

/* Most open reservations that a daemon grants, in all; its clients have parts of it (memory.h). */
#define ACCOUNTS_MOST 65536

#define ACCOUNTS_FULL                                                                              \
    "limit reached: too many open reservations, or keys that have some, for this connection, its " \
    "address, its token or the daemon; commit or cancel some"

struct account_book;
struct account_holder;

struct account_book *account_book_open(void);
/* Closes the book of the server, before its peers; it may have none. */
void account_book_close(struct server *s);

/* Whether the connection may make this reservation. now_ns: of the daemon's clock. */
bool account_admits(struct conn *c, const struct limit_op *op, int64_t now_ns);
/* Enters a reservation that was granted to it, op->id; or that is on its way to a remote store. */
void account_enter(struct conn *c, const struct limit_op *op, int64_t lapse_ns);
/* It is settled, or was not granted after all. */
void account_leave(struct server *s, uint64_t number);
/* The connection ends; what it holds counts on for its address and token. */
void account_conn_ends(struct conn *c);

#endif
