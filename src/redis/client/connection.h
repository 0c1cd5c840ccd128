/* One connection to Redis: the socket and TLS, connect and handshake, bytes out and replies in. It
 * never waits, and knows no commands.
 *
 *     NONE -> CONNECTING -> HANDSHAKE -> OPEN   connect; AUTH, SELECT, CLIENT SETNAME; commands
 *           any of these -> BROKEN -> NONE      the leader closes it, and may connect again
 *
 * hiredis connects and parses the protocol (reply.h). Writing is done here, because hiredis 0.14
 * raises SIGPIPE when it writes, which a program does not expect of a library. tls.h has what TLS
 * needs in between.
 *
 * Two threads may work on a connection at the same time: one leader and one writer. The leader
 * (pipeline.c) connects, reads and closes; it makes every change of state except the one to BROKEN.
 * The writer is any thread that wants its bytes sent (the leader included) and finds no other
 * thread writing. It also sends, with its next write, what other threads append meanwhile. So no
 * thread waits for another to write, and the more threads there are, the fewer writes each needs.
 *
 * Invariants:
 *   (1) Bytes leave in the order in which they were appended: `sending`, then `out`.
 *   (2) Before OPEN only the handshake is sent: a decision in another database, or as another user,
 *       would be worse than no decision. Its replies are read in here.
 *   (3) The connection is not closed while a thread writes to it.
 *   (4) After a failure it is BROKEN, and `why` says why; all that is left is to close it.
 */
#ifndef WEIR_REDIS_CLIENT_CONNECTION_H
#define WEIR_REDIS_CLIENT_CONNECTION_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "redis/client/address.h"
#include "redis/client/reply.h"

#define WEIR__CONNECTION_WHY      WEIR__REPLY_TEXT
#define WEIR__CONNECTION_READ_MAX (16 * 1024) /* that hiredis reads at once */

struct redisContext;

/* Bytes to send. All-zero is empty. */
struct weir__buffer {
    char *at;
    size_t len, cap;
};

enum weir__connection_state {
    WEIR__CONNECTION_NONE,
    WEIR__CONNECTION_CONNECTING,
    WEIR__CONNECTION_HANDSHAKE,
    WEIR__CONNECTION_OPEN,
    WEIR__CONNECTION_BROKEN
};

struct weir__connection {
    pthread_mutex_t lock; /* of the pipeline, too */

    /* Changed under the lock. */
    _Atomic int state;
    unsigned epoch;          /* how many connections were ever begun */
    struct weir__buffer out; /* the bytes that are not in `sending` yet */
    bool writing;            /* a thread uses `sending` */
    bool rest;               /* the socket did not take all of `sending` */
    char why[WEIR__CONNECTION_WHY];

    /* Used by the writer. */
    struct weir__buffer sending;
    size_t sent_bytes; /* how much of `sending` is sent */

    /* Used by the leader; `hiredis` and `fd` by the writer too. */
    struct redisContext *hiredis; /* NULL: none */
    int fd;                       /* -1: none */
    bool tls;
    pthread_mutex_t tls_lock; /* OpenSSL cannot read and write at once */
    char name[256];           /* that the certificate must have */
    int handshake_left;       /* replies to the handshake that are still missing */
    struct weir__reply reply; /* the last one that was read */
};

void weir__connection_init(struct weir__connection *conn);
/* No thread uses it any more. */
void weir__connection_clear(struct weir__connection *conn);
/* In the child of a fork: the connection is the parent's. `sound`: there was no leader. */
void weir__connection_forked(struct weir__connection *conn, bool sound);

static inline int weir__connection_state(const struct weir__connection *conn)
{
    return atomic_load_explicit(&conn->state, memory_order_acquire);
}

/* ---- For every thread, under the lock -------------------------------------------------------- */

/* Makes room for `bytes` more. False: out of memory, and nothing has changed. */
bool weir__connection_reserve_locked(struct weir__connection *conn, size_t bytes);
/* The caller has reserved the room. */
void weir__connection_append_locked(struct weir__connection *conn, const char *at, size_t len);
/* Drops the bytes that are not in `sending` yet. */
void weir__connection_discard_locked(struct weir__connection *conn);
/* Sends what the socket takes, unless another thread does. Drops the lock meanwhile. */
void weir__connection_flush_locked(struct weir__connection *conn);
/* Returns the descriptor, and the events to poll it for. -1: there is none. */
int weir__connection_poll_locked(const struct weir__connection *conn, short *events);
/* Marks the connection as broken: the leader closes it. `why` has WEIR__CONNECTION_WHY bytes. */
void weir__connection_break_locked(struct weir__connection *conn, const char *why);
/* For the leader. What was appended and not sent is kept for the next connection. Drops the lock
 * while it waits for the writer. */
void weir__connection_close_locked(struct weir__connection *conn);

/* ---- For the leader, without the lock -------------------------------------------------------- */

/* Begins to connect. The host must be an IP address or a path: resolving a name would make the
 * caller wait. */
void weir__connection_open(struct weir__connection *conn, const struct weir__address *address);
void weir__connection_break(struct weir__connection *conn, const char *why);
/* Goes on connecting, or reads once. Returns how many bytes came, WEIR__CONNECTION_READ_MAX if
 * there may be more; 0 if there was nothing, or the connection broke. */
size_t weir__connection_read(struct weir__connection *conn);
/* Whether conn->reply is the next reply among the bytes read. */
bool weir__connection_next_reply(struct weir__connection *conn);

#endif
