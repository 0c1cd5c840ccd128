/* TLS on a hiredis connection. tls_openssl.c implements it where hiredis has TLS (since 1.0);
 * tls_none.c refuses. */
#ifndef WEIR_REDIS_CLIENT_TLS_H
#define WEIR_REDIS_CLIENT_TLS_H

#include <stdbool.h>
#include <stddef.h>

struct redisContext;

/* Begins the handshake on an established connection; later reads and writes complete it. The
 * peer must prove that it is `name`, by a certificate that this machine trusts. False: why says
 * why not. */
bool weir__tls_begin(struct redisContext *c, const char *name, char *why, size_t cap);

/* redisBufferRead and redisBufferWrite, without SIGPIPE: during the handshake a read also
 * writes. The caller never runs both at once. */
int weir__tls_read(struct redisContext *c);
int weir__tls_write(struct redisContext *c, int *done);

#endif
