/* The transport below a connection: sends bytes, reads replies. It never waits, and knows no
 * callers.
 *
 * hiredis connects and parses the protocol (reply.h). Writing is done here, because hiredis 0.14
 * raises SIGPIPE when it writes, which a program does not expect of a library. tls.h has what TLS
 * needs in between.
 *
 * One thread may send while another reads; all other functions are for one thread at a time. `why`
 * in the functions below has WEIR__TRANSPORT_WHY bytes and gets the reason of a failure. After a
 * failure the transport can only be closed.
 */
#ifndef WEIR_REDIS_CLIENT_TRANSPORT_H
#define WEIR_REDIS_CLIENT_TRANSPORT_H

#include <pthread.h>

#include "redis/client/address.h"
#include "redis/client/reply.h"

#define WEIR__TRANSPORT_WHY      WEIR__REPLY_TEXT
#define WEIR__TRANSPORT_READ_MAX (16 * 1024) /* that hiredis reads at once */

struct redisContext;

struct weir__transport {
    struct redisContext *hiredis; /* NULL: none */
    int fd;                       /* -1: none */
    bool tls;
    pthread_mutex_t tls_lock; /* OpenSSL cannot read and write at once */
    struct weir__reply reply;
    char name[256]; /* that the certificate must have */
};

void weir__transport_init(struct weir__transport *w);

/* Begins to connect. False: it has failed already. The host must be an IP address or a path:
 * resolving a name would make the caller wait. */
bool weir__transport_open(struct weir__transport *w, const struct weir__address *a, char *why);
/* 1: connected; 0: not yet (the descriptor becomes writable then); -1: failed. */
int weir__transport_is_connected(struct weir__transport *w, char *why);
/* Does nothing if there is no connection. */
void weir__transport_close(struct weir__transport *w);
/* In the child of a fork: the connection is the parent's. `sound`: no thread was using it. */
void weir__transport_forked(struct weir__transport *w, bool sound);

/* Returns how many of the bytes were taken, 0 if the socket is full; -1: failed. *rest: TLS has
 * taken the bytes but not sent them all; call again, with no bytes if there are no more. */
long weir__transport_send(struct weir__transport *w, const char *at, size_t len, bool *rest,
                          char *why);

/* Reads once. Returns how many bytes came, WEIR__TRANSPORT_READ_MAX if there may be more; 0 if
 * there was nothing; -1: failed, or the peer has closed the connection. */
long weir__transport_read(struct weir__transport *w, char *why);
/* 1: w->reply is the next reply among the bytes read; 0: there is none; -1: not a valid reply. */
int weir__transport_next_reply(struct weir__transport *w);

#endif
