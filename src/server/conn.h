/* A connection, as the fronts see it. */
#ifndef WEIR_SERVER_CONN_H
#define WEIR_SERVER_CONN_H

#include "server/batch.h"
#include "server/clients.h"
#include "server/out.h"
#include "server/server.h"

struct server *conn_server(struct conn *c);
struct counters *conn_counters(struct conn *c);
uint64_t conn_id(const struct conn *c);
/* The client's numeric address, without its port; "unix" on a Unix socket. */
const char *conn_peer(const struct conn *c);

/* What kind of address the client connected to. */
enum conn_scope { SCOPE_SOCKET, SCOPE_LOOPBACK, SCOPE_NETWORK };
enum conn_scope conn_scope(struct conn *c);

/* Nothing more is read; the connection is closed once all replies have left. */
void conn_finish(struct conn *c);

/* The command that is being run waits until a remote store has answered one before it: it is run
 * again then. */
void conn_postpone(struct conn *c);
bool conn_is_postponed(const struct conn *c);

/* Most delayed replies and named reservations of one connection, together. */
#define DELAYED_IN_CONN 1024
bool conn_names_are_full(const struct conn *c);

/* What the RESP front remembers about a connection. */
struct resp_session {
    bool resp3;
    int64_t db;               /* the last SELECT; there is one keyspace for all */
    const char *command;      /* the name of the last one */
    struct resp_multi *multi; /* since MULTI (resp_multi.c) */
};
struct resp_session *conn_resp(struct conn *c);

/* The connection's entry in the list of all. */
struct client *conn_client(struct conn *c);
/* Publishes there how the connection is now. */
void conn_publish(struct conn *c);
/* Milliseconds, by the clock of the entries. */
int64_t conn_now_ms(const struct conn *c);

/* ---- What the fronts offer ------------------------------------------------------------------- */

/* Answers all whole requests at the start of the bytes; returns how many bytes they took, or -1 if
 * the connection must end (the front has replied why). Stops early when conn_is_full says so. */
long resp_serve(struct conn *c, char *bytes, size_t len);
long http_serve(struct conn *c, char *bytes, size_t len);
/* True while EXEC has commands left to run: resp_serve goes on with them, without bytes too. */
bool resp_is_running(const struct resp_session *s);
/* How many commands MULTI has queued; -1: there was no MULTI. */
int64_t resp_queued(const struct resp_session *s);
/* The connection closes: drops what the front keeps. */
void resp_end(struct conn *c);
/* The HTTP front's state of an incomplete request; NULL until the front makes one. */
struct http_reader **conn_http(struct conn *c);

/* The thread will serve no more requests: frees what the HTTP front keeps for it. */
void http_thread_ends(void);

/* True if no more replies should be written until some have left. */
bool conn_is_full(const struct conn *c);

#endif
