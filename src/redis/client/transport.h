/* One connection to a Redis: bytes go out, replies come in. It never waits, and knows no caller.
 *
 * hiredis connects, and reads the protocol (reply.h). To write is ours, for hiredis 0.14 writes in a way that
 * raises SIGPIPE in programs that did not ask for it; what TLS needs in between is in tls.h.
 *
 * One thread may send while another reads; all else is one thread's at a time. `why` of the functions below is a
 * place of WEIR__TRANSPORT_WHY bytes for what went wrong; whatever fails, the wire is good for nothing but to be closed.
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
    char name[256]; /* that a certificate must have */
};

void weir__transport_init(struct weir__transport *w);

/* Begins to connect: false if it failed already. The host must be a number or a path: a name would be resolved,
 * and whoever called would wait. */
bool weir__transport_open(struct weir__transport *w, const struct weir__address *a, char *why);
/* 1: connected; 0: not yet (the descriptor becomes writable then); -1: it failed. */
int weir__transport_is_connected(struct weir__transport *w, char *why);
/* Harmless if there is none. */
void weir__transport_close(struct weir__transport *w);
/* In the child of a fork: it is the parent's connection. `sound`: nobody was in the midst of using it. */
void weir__transport_forked(struct weir__transport *w, bool sound);

/* How many of the bytes were taken, 0 if the socket is full; -1: it failed. *rest: TLS has taken them but could
 * not send them all: to be called again, with no bytes if there are no more. */
long weir__transport_send(struct weir__transport *w, const char *at, size_t len, bool *rest,
                          char *why);

/* Reads once: how many bytes, WEIR__TRANSPORT_READ_MAX if there may be more; 0 if there was nothing; -1: it failed, or the
 * other side has closed. */
long weir__transport_read(struct weir__transport *w, char *why);
/* 1: w->heard is the next of the replies that were read; 0: there is none; -1: it is no reply. */
int weir__transport_next_reply(struct weir__transport *w);

#endif
