/* TLS between the socket and a connection: the fronts know nothing of it.
 *
 *     tls_context.c   certificate, key and authorities: read, checked, described
 *     tls_conn.c      one connection: the handshake, bytes in, bytes out
 *     tls_names.c     the names in a client's certificate
 *     tls_refuse.c    clients that speak TLS where it is not spoken, and those that do not where
 *                     it is
 *     tls_none.c      a build without OpenSSL: there are no contexts, and so no connections
 *
 * The bytes of a read are decrypted at once into the buffer that a plain read would fill, and
 * replies are encrypted when they are sent. Both go through two buffers of the worker, so an idle
 * connection has no buffer of its own.
 *
 * Invariants:
 *   (1) After a read, OpenSSL has taken every byte of it, and every whole record was handed on:
 *       what it keeps is at most one incomplete record, and no event is missed.
 *   (2) Nothing is encrypted while encrypted bytes wait for the socket. So what a client that does
 *       not read makes the daemon keep is its replies, bounded as for plain connections, and at
 *       most TLS_TOGETHER bytes more.
 *   (3) A connection has a place among the handshakes from its first bytes until the handshake is
 *       over: a peer and all together have a bounded number of places, and each ends in time.
 */
#ifndef WEIR_SERVER_TLS_TLS_H
#define WEIR_SERVER_TLS_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/text.h"

struct conn;
struct iovec;
struct serve_options;
struct server;
struct worker;

#define TLS_RECORD       (16 * 1024) /* most bytes of text in one record */
#define TLS_TOGETHER     (64 * 1024) /* bytes of replies that are encrypted before they are sent */
#define TLS_HANDSHAKE_MS 10000       /* a handshake that takes longer is ended */
#define TLS_HANDSHAKES   1024        /* under way at once; of one address a part of it */
#define TLS_AT_A_TIME    8           /* steps of handshakes in one round of a worker's loop */
#define TLS_HELLO_BYTES  (64 * 1024) /* most bytes that a client sends in a handshake */
#define TLS_CLIENT_CHAIN (32 * 1024) /* of these, its certificates */
/* What OpenSSL keeps, about, as measured: in a handshake, and for an open connection without and
 * with a client's certificate. */
#define TLS_SHAKING_BYTES ((size_t)44 * 1024)
#define TLS_OPEN_BYTES    ((size_t)14 * 1024)
#define TLS_KNOWN_BYTES   ((size_t)24 * 1024)
#define TLS_NAMES         16   /* names of a certificate that are looked at */
#define TLS_RESUMED_FOR_S 3600 /* a session may be resumed for so long */

/* True if the build has TLS. */
bool tls_is_built(void);

/* ---- Contexts -------------------------------------------------------------------------------- */

/* A certificate, its key, and the authorities of clients' certificates. It never changes, and
 * connections that began with it may outlive it. */
struct tls_context;

typedef void tls_tell(void *arg, const char *line);

/* Reads the files that the options name. NULL: every mistake was told. A line that begins with
 * "warning: " is no mistake. */
struct tls_context *tls_context_read(const struct serve_options *o, tls_tell *tell, void *arg);
/* The same context, with an owner more. */
struct tls_context *tls_context_share(const struct tls_context *t);
void tls_context_free(struct tls_context *t); /* NULL is ignored */
/* Seconds since 1970; 0: there is no context. */
int64_t tls_context_expires_s(const struct tls_context *t);
/* "weir.example.org, expires 2027-01-31", for the log. */
const char *tls_context_text(const struct tls_context *t);

/* ---- Connections ----------------------------------------------------------------------------- */

struct tls_conn;
struct tls_worker;

/* The connection came to a listener that speaks TLS. False: no memory. */
bool tls_begin(struct conn *c);
void tls_end(struct conn *c);

/* Reads like read(2), into at least TLS_READ_LEAST bytes: 0 is the end, and -1 with EAGAIN that
 * nothing whole has come yet. A client that fails its handshake is answered why and finished. */
#define TLS_READ_LEAST (TLS_RECORD + 512 + 4096)
ssize_t tls_read(struct conn *c, char *at, size_t room);
/* Encrypts and sends; returns how many bytes of the text were taken, -1 if the connection is
 * broken. */
ssize_t tls_send(struct conn *c, const struct iovec *part, size_t n);
/* Sends what is encrypted already: false if the connection is broken. */
bool tls_flush(struct conn *c);
/* True if encrypted bytes wait for the socket. */
bool tls_is_waiting(const struct conn *c);
/* Nothing more is sent: tells the client so, if the socket takes it. */
void tls_finish(struct conn *c);

/* The names of the client's certificate, one after the other: from "" on, "" after the last. */
const char *tls_next_name(const struct conn *c, const char *before);
/* The first of them; {NULL, 0}: it has none. */
struct weir__slice tls_first_name(const struct conn *c);

/* Ends handshakes that take too long. */
void tls_tick(struct worker *w, int64_t now_ms);
void tls_worker_close(struct worker *w);

/* ---- Clients that are wrong here (tls_refuse.c) ---------------------------------------------- */

#define TLS_HELLO_BYTE 0x16 /* the first byte of every client that speaks TLS */

/* A client speaks TLS on a plain connection: answers with an alert, and finishes. */
void tls_refuse_hello(struct conn *c);
/* A client sends text on a connection of TLS: the answer in its own protocol. */
struct weir__slice tls_text_for(const char *bytes, size_t len);
/* Counts and logs a failure, one line in ten seconds. */
void tls_failed(struct conn *c, const char *why);

#endif
