/* TLS on a client's socket, by OpenSSL. */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>

#include "cli/client/client_tls.h"

struct client_tls {
    SSL_CTX *context;
    SSL *ssl;
};

static bool is_ip(const char *name)
{
    unsigned char bytes[16];

    return inet_pton(AF_INET, name, bytes) == 1 || inet_pton(AF_INET6, name, bytes) == 1;
}

static bool tls_expect_name(SSL *ssl, const char *host)
{
    if (is_ip(host))
        return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static bool tls_prepare(struct client_tls *t, int fd, const char *host, const char *cacert)
{
    t->context = SSL_CTX_new(TLS_client_method());
    if (!t->context)
        return false;
    SSL_CTX_set_verify(t->context, SSL_VERIFY_PEER, NULL);
    if (SSL_CTX_set_min_proto_version(t->context, TLS1_2_VERSION) != 1)
        return false;
    if ((cacert ? SSL_CTX_load_verify_file(t->context, cacert)
                : SSL_CTX_set_default_verify_paths(t->context)) != 1)
        return false;
    t->ssl = SSL_new(t->context);
    return t->ssl && tls_expect_name(t->ssl, host) && SSL_set_fd(t->ssl, fd) == 1;
}

struct client_tls *tls_client_open(int fd, const char *host, const char *cacert, char *why,
                                   size_t room)
{
    struct client_tls *const t = calloc(1, sizeof *t);
    const int absent = cacert && access(cacert, R_OK) != 0 ? errno : 0;

    if (t && !absent && tls_prepare(t, fd, host, cacert))
        return t;
    (void)snprintf(why, room, "TLS cannot be used%s%s: %s", cacert ? " with --cacert " : "",
                   cacert ? cacert : "",
                   !t       ? "out of memory"
                   : absent ? strerror(absent)
                   : cacert ? "expected certificates in PEM"
                            : ERR_reason_error_string(ERR_peek_last_error()));
    tls_client_close(t);
    return NULL;
}

/* What a result of OpenSSL means for the caller. */
static long tls_result(const struct client_tls *t, int result, short *events)
{
    const int error = result > 0 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, result);

    *events = error == SSL_ERROR_WANT_READ ? POLLIN : error == SSL_ERROR_WANT_WRITE ? POLLOUT : 0;
    return result > 0 ? result : error == SSL_ERROR_ZERO_RETURN ? 0 : -1;
}

/* OpenSSL writes without MSG_NOSIGNAL; a pipe behind standard output keeps its signal. */
static void (*pipe_ignore(void))(int)
{
    ERR_clear_error();
    return signal(SIGPIPE, SIG_IGN);
}

/* Whether what the server sent is no record of TLS, or the alert that a weir serve sends where TLS
 * is not spoken. */
static bool tls_is_none_of_it(unsigned long error)
{
    const int reason = ERR_GET_LIB(error) == ERR_LIB_SSL ? ERR_GET_REASON(error) : 0;

    return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_PACKET_LENGTH_TOO_LONG ||
           reason == SSL_R_HTTP_REQUEST || reason == SSL_R_TLSV1_ALERT_PROTOCOL_VERSION;
}

/* Whether no authority that this client trusts has signed the certificate. */
static bool tls_is_unsigned(long verified)
{
    return verified == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT ||
           verified == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ||
           verified == X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY ||
           verified == X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE;
}

long tls_client_handshake(struct client_tls *t, short *events, char *why, size_t room)
{
    void (*const before)(int) = pipe_ignore();
    const long done = tls_result(t, SSL_connect(t->ssl), events);
    const long verified = SSL_get_verify_result(t->ssl);
    const unsigned long error = ERR_peek_last_error();
    const char *const reason = ERR_reason_error_string(error);

    (void)signal(SIGPIPE, before);
    if (done < 0 && *events == 0)
        (void)snprintf(why, room, "TLS: %s%s",
                       verified != X509_V_OK      ? X509_verify_cert_error_string(verified)
                       : tls_is_none_of_it(error) ? "it does not speak TLS, at least not 1.2"
                       : reason                   ? reason
                                                  : "the server closed the connection",
                       tls_is_unsigned(verified) ? " (--cacert FILE names who may have signed it)"
                                                 : "");
    return done;
}

long tls_client_read(struct client_tls *t, char *to, size_t len, short *events)
{
    void (*const before)(int) = pipe_ignore();
    const long n = tls_result(t, SSL_read(t->ssl, to, (int)len), events);

    (void)signal(SIGPIPE, before);
    return n;
}

long tls_client_write(struct client_tls *t, const char *from, size_t len, short *events)
{
    void (*const before)(int) = pipe_ignore();
    const long n = tls_result(t, SSL_write(t->ssl, from, (int)len), events);

    (void)signal(SIGPIPE, before);
    return n;
}

void tls_client_close(struct client_tls *t)
{
    if (!t)
        return;
    SSL_free(t->ssl);
    SSL_CTX_free(t->context);
    free(t);
}
