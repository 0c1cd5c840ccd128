/* TLS on a client's socket. client_tls_openssl.c implements it; client_tls_none.c refuses. */
#ifndef WEIR_CLI_CLIENT_CLIENT_TLS_H
#define WEIR_CLI_CLIENT_CLIENT_TLS_H

#include <stddef.h>

struct client_tls;

/* Makes what a connection needs. The server must prove that it is `host`, by a certificate of an
 * authority in the file `cacert`, or of one that this machine trusts. NULL: why says why not. */
struct client_tls *tls_client_open(int fd, const char *host, const char *cacert, char *why,
                                   size_t room);
/* Each returns how many bytes, 0 for the end (the handshake: 1 when it is done), or -1: *events is
 * what to poll for before the same call is made again, or 0 if it failed; why then says why. */
long tls_client_handshake(struct client_tls *t, short *events, char *why, size_t room);
long tls_client_read(struct client_tls *t, char *to, size_t len, short *events);
long tls_client_write(struct client_tls *t, const char *from, size_t len, short *events);
void tls_client_close(struct client_tls *t);

#endif
