/* TLS on a connection of hiredis. tls_openssl.c has it, where hiredis does (since 1.0); tls_none.c refuses. */
#ifndef WEIR_REDIS_CLIENT_TLS_H
#define WEIR_REDIS_CLIENT_TLS_H

#include <stdbool.h>
#include <stddef.h>

struct redisContext;

/* Begins the handshake on a connection that has been made; what is read and written later completes it. The other
 * side must prove that it is `name`, by a certificate that this machine trusts. False: why says why not. */
bool weir__tls_begin(struct redisContext *c, const char *name, char *why, size_t cap);

/* redisBufferRead and redisBufferWrite, but no SIGPIPE is raised: to read is to write as well, as long as hands are
 * shaken. Not both at once. */
int weir__tls_read(struct redisContext *c);
int weir__tls_write(struct redisContext *c, int *done);

#endif
