/* The socket of a client: connect, send and receive by deadlines, plain or by TLS. */
#ifndef WEIR_CLI_CLIENT_CONNECTION_H
#define WEIR_CLI_CLIENT_CONNECTION_H

#include "cli/client/client.h"

int64_t connection_now(void);
/* 0, or the exit status: a message has been printed. All end at c->deadline_ns. */
int connection_open(struct client_conn *c);
int connection_send(struct client_conn *c, const char *bytes, size_t len);
/* Appends what has come to c->in. */
int connection_receive(struct client_conn *c);
void connection_close(struct client_conn *c);
/* Prints "no answer from ADDRESS: why"; returns the exit status. */
int connection_fail(const struct client_conn *c, const char *why);

#endif
