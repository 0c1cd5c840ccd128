/* A connection, as the fronts see it. */
#ifndef WEIR_SERVER_CONN_H
#define WEIR_SERVER_CONN_H

#include "server/batch.h"
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

/* Most delayed replies and named reservations of one connection, together. */
#define DELAYED_IN_CONN 1024
bool conn_names_are_full(const struct conn *c);

/* What the RESP front remembers about a connection. */
struct resp_session {
    bool resp3;
    char name[64];
};
struct resp_session *conn_resp(struct conn *c);

/* ---- What the fronts offer ------------------------------------------------------------------- */

/* Answers all whole requests at the start of the bytes; returns how many bytes they took, or -1 if
 * the connection must end (the front has replied why). Stops early when conn_is_full says so. */
long resp_serve(struct conn *c, char *bytes, size_t len);
long http_serve(struct conn *c, char *bytes, size_t len);
/* The HTTP front's state of an incomplete request; NULL until the front makes one. */
struct http_reader **conn_http(struct conn *c);

/* The thread will serve no more requests: frees what the HTTP front keeps for it. */
void http_thread_ends(void);

/* True if no more replies should be written until some have left. */
bool conn_is_full(const struct conn *c);

#endif
