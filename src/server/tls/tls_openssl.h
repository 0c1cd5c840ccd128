/* What the files of this folder share that use OpenSSL. */
#ifndef WEIR_SERVER_TLS_TLS_OPENSSL_H
#define WEIR_SERVER_TLS_TLS_OPENSSL_H

#include <openssl/ssl.h>

#include "server/access/tokens.h"
#include "server/tls/tls.h"

struct tls_context {
    SSL_CTX *ctx; /* counted by OpenSSL: connections hold it too */
    int64_t expires_s;
    char text[TOKEN_NAME_MOST + 32];
};

/* Names, each with a NUL behind it, and a NUL behind the last. */
#define TLS_NAMES_ROOM (TLS_NAMES * (TOKEN_NAME_MOST + 1) + 1)

/* Writes the names of a certificate that a line of the token file can have: its common names, then
 * its alternative names (DNS, URI, email). Returns how many bytes they take; 1: there are none. */
size_t tls_names_of(X509 *cert, char names[TLS_NAMES_ROOM]);

#endif
